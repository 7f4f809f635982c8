//! Leader election for each source. Only the leader writes to the hub, the forge and the status
//! branch. The standby daemons read the source too, so that failover takes no time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use futures::stream::BoxStream;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::metrics::Metrics;
use crate::limits;
use gitwork_core::model::name::{CommitId, SourceId, WorkKey};
use gitwork_core::plan::Effect;
use gitwork_core::plan::directives::Directives;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_core::plan::record::Record;
use gitwork_hub::lease::{FETCH, SourceLease};
use gitwork_hub::{Hub, HubError, HubEvent, StoredRecord};
use gitwork_kube::leader_election::{Election, ElectionCandidate, ElectionResult};
use gitwork_kube::lease::{LeaderTerm, LeaseObservation, acquire_delay};
use gitwork_retry::RetryClass;

/// How many of its sources this daemon is the leader of.
#[derive(Debug)]
pub struct LedSources {
    led: AtomicUsize,
    sources: usize,
}

impl LedSources {
    pub fn new(sources: usize) -> Self {
        Self { led: AtomicUsize::new(0), sources }
    }
}

/// Whether this daemon is the leader of a source. Clones share the state.
#[derive(Debug, Clone)]
pub struct Leadership {
    leads: watch::Receiver<bool>,
    term: Arc<TermEnd>,
}

/// When leadership expires. It is checked before each write, so that a process that was stopped for
/// a while (SIGSTOP, an overloaded machine) writes nothing after another one became the leader.
#[derive(Debug)]
struct TermEnd {
    start: Instant,
    /// Milliseconds since `start`.
    until: AtomicU64,
}

impl TermEnd {
    fn set(&self, leader_term: &LeaderTerm) {
        let until = match leader_term.until() {
            Some(until) => u64::try_from(until.as_millis()).unwrap_or(u64::MAX),
            None if leader_term.is_leader(Duration::MAX) => u64::MAX,
            None => 0,
        };
        self.until.store(until, Ordering::Relaxed);
    }
}

impl Leadership {
    /// Whether this daemon is the leader now.
    pub fn is_leader(&self) -> bool {
        let until = Duration::from_millis(self.term.until.load(Ordering::Relaxed));
        *self.leads.borrow() && self.term.start.elapsed() < until
    }

    /// A channel with each change.
    pub fn watch(&self) -> watch::Receiver<bool> {
        self.leads.clone()
    }
}

/// A hub that rejects writes unless this daemon is the leader of the source.
pub struct LeaderGuardedHub {
    hub: Arc<dyn Hub>,
    leadership: Leadership,
}

impl LeaderGuardedHub {
    pub fn new(hub: Arc<dyn Hub>, leadership: Leadership) -> Self {
        Self { hub, leadership }
    }

    fn guard<'a, T: Send + 'a>(
        &'a self,
        write: impl FnOnce(&'a dyn Hub) -> BoxFuture<'a, Result<T, HubError>>,
    ) -> BoxFuture<'a, Result<T, HubError>> {
        if self.leadership.is_leader() {
            return write(&*self.hub);
        }
        let message = "this daemon is no longer the leader of the source; nothing was sent".into();
        ready(Err(HubError::Unavailable { message, retry_after_seconds: None })).boxed()
    }
}

impl Hub for LeaderGuardedHub {
    fn watch(&self, source: &SourceId) -> BoxStream<'static, HubEvent> {
        self.hub.watch(source)
    }
    fn list<'a>(
        &'a self,
        source: Option<&'a SourceId>,
    ) -> BoxFuture<'a, Result<Vec<ObservedWork>, HubError>> {
        self.hub.list(source)
    }
    fn get<'a>(
        &'a self,
        key: &'a WorkKey,
    ) -> BoxFuture<'a, Result<Option<ObservedWork>, HubError>> {
        self.hub.get(key)
    }
    fn directives<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Directives, HubError>> {
        self.hub.directives(source)
    }
    fn record<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Option<StoredRecord>, HubError>> {
        self.hub.record(source)
    }
    fn set_record<'a>(
        &'a self,
        source: &'a SourceId,
        record: &'a Record,
        before: Option<&'a StoredRecord>,
    ) -> BoxFuture<'a, Result<StoredRecord, HubError>> {
        self.guard(move |hub| hub.set_record(source, record, before))
    }
    fn execute<'a>(
        &'a self,
        key: &'a WorkKey,
        effect: &'a Effect,
        commit: Option<CommitId>,
    ) -> BoxFuture<'a, Result<Option<ObservedWork>, HubError>> {
        self.guard(move |hub| hub.execute(key, effect, commit))
    }
}

/// Runs the leader election of one source.
pub struct LeaderElector {
    source: SourceId,
    candidate: ElectionCandidate<SourceLease>,
    leader_term: LeaderTerm,
    term: Arc<TermEnd>,
    share: Arc<LedSources>,
    leadership: watch::Sender<bool>,
    /// Makes the engine fetch now.
    hint: mpsc::Sender<()>,
    metrics: Arc<Metrics>,
    /// Attempts in a row that found no namespace for a Lease, or no permission.
    lease_failures: u32,
    /// The other leader that was logged last.
    logged_leader: Option<String>,
    /// The Lease could not be read or written, and this was logged.
    is_failing: bool,
    /// The last fetch request of a standby daemon.
    fetch_request: Option<String>,
    /// The first attempt has ended.
    has_observed: bool,
}

impl LeaderElector {
    /// `identity` is unique for each process. `hint` makes the source's engine fetch.
    pub fn new(
        store: SourceLease,
        identity: String,
        share: Arc<LedSources>,
        hint: mpsc::Sender<()>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let source = store.source().clone();
        let election = Election {
            namespace: store.namespace().to_owned(),
            name: store.name().to_owned(),
            identity,
            duration: limits::LEASE_DURATION,
            renew_deadline: limits::LEASE_RENEW,
            retry_period: limits::LEASE_RETRY,
        };
        metrics.leads(&source, false);
        Self {
            source,
            candidate: ElectionCandidate::new(store, election),
            leader_term: LeaderTerm::default(),
            term: Arc::new(TermEnd { start: Instant::now(), until: AtomicU64::new(0) }),
            share,
            leadership: watch::Sender::new(false),
            hint,
            metrics,
            lease_failures: 0,
            logged_leader: None,
            is_failing: false,
            fetch_request: None,
            has_observed: false,
        }
    }

    /// The leadership that this election decides.
    pub fn leadership(&self) -> Leadership {
        Leadership { leads: self.leadership.subscribe(), term: self.term.clone() }
    }

    /// Runs until `stop` is true, then releases the Lease: all writes must have ended. `hooks`
    /// receives a hint for each webhook; a standby forwards it to the leader.
    pub async fn run(mut self, mut hooks: mpsc::Receiver<()>, mut stop: watch::Receiver<bool>) {
        let mut next = Instant::now();
        let (mut hooked, mut stopped) = (true, stop.clone());
        while !*stop.borrow() {
            tokio::select! {
                _ = stop.changed() => break,
                () = sleep_until(next) => tokio::select! {
                    _ = stopped.changed() => break,
                    due = self.attempt() => next = due,
                },
                hook = hooks.recv(), if hooked => match hook {
                    Some(()) => self.forward_hint().await,
                    None => hooked = false,
                },
            }
        }
        self.set_leading(false);
        if let Err(error) = self.candidate.release().await {
            tracing::debug!(source = %self.source, %error, "cannot release the Lease; it expires");
        }
    }

    /// Tries once to hold the Lease, and gives when to try again.
    async fn attempt(&mut self) -> Instant {
        let asked = self.term.start.elapsed();
        // A request must not delay the end of an expired term.
        let limit = self.leader_term.until().map(|until| until.saturating_sub(asked));
        let limit =
            limit.filter(|limit| !limit.is_zero()).unwrap_or(2 * gitwork_hub::limits::HUB_CALL);
        let led = self.share.led.load(Ordering::Relaxed);
        let acquire_delay = acquire_delay(led, self.share.sources, limits::LEASE_RETRY);
        let response = timeout(limit, self.candidate.attempt(acquire_delay)).await;
        let late = || HubError::Unavailable {
            message: "no answer in time".into(),
            retry_after_seconds: None,
        };
        let response = response.unwrap_or_else(|_| Err(late()));
        let observation = self.observe(&response);
        self.leader_term.observe(observation, asked, limits::LEASE_RENEW);
        self.term.set(&self.leader_term);
        let now = self.term.start.elapsed();
        self.set_leading(self.leader_term.is_leader(now));
        if !std::mem::replace(&mut self.has_observed, true) {
            // The engine waits for the first result, also if this daemon is a standby.
            self.leadership.send_modify(|_| {});
        }
        self.apply_fetch_request();
        let spread = 0.8 + fastrand::f64() * 0.4;
        let wait = match (&response, observation) {
            (Ok(ElectionResult::Free { wait }), _) => *wait,
            (_, LeaseObservation::NamespaceMissing | LeaseObservation::Forbidden) => {
                self.lease_failures = self.lease_failures.saturating_add(1);
                gitwork_retry::delay(
                    self.lease_failures - 1,
                    RetryClass::Blocked,
                    fastrand::u64(..),
                )
            }
            _ => limits::LEASE_RETRY.mul_f64(spread),
        };
        let due = now + wait;
        self.term.start
            + self
                .leader_term
                .until()
                .filter(|until| now < *until)
                .map_or(due, |until| until.min(due))
    }

    /// Classifies a response, and logs changes.
    fn observe(&mut self, response: &Result<ElectionResult, HubError>) -> LeaseObservation {
        let (source, name) = (&self.source, self.candidate.store().name());
        let observation = match response {
            Ok(ElectionResult::Leader) => LeaseObservation::Ours,
            Ok(ElectionResult::Free { .. }) => LeaseObservation::Free,
            Ok(ElectionResult::Standby { holder }) => {
                if !holder.is_empty() && self.logged_leader.as_ref() != Some(holder) {
                    tracing::info!(%source, leader = holder, "another daemon is the leader of \
                        this source; standing by");
                    self.logged_leader = Some(holder.clone());
                }
                LeaseObservation::Another
            }
            Err(error @ (HubError::NamespaceMissing { .. } | HubError::Forbidden { .. })) => {
                if self.lease_failures == 0 {
                    tracing::warn!(
                        %source, lease = name, %error,
                        "no leader election for this source; run a single replica until this is \
                            fixed"
                    );
                }
                let forbidden = matches!(error, HubError::Forbidden { .. });
                return if forbidden {
                    LeaseObservation::Forbidden
                } else {
                    LeaseObservation::NamespaceMissing
                };
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%source, lease = name, %error, "cannot read or renew the Lease");
                }
                return LeaseObservation::Unknown;
            }
        };
        if std::mem::take(&mut self.lease_failures) > 0 {
            tracing::info!(source = %self.source, "leader election works again");
        }
        self.is_failing = false;
        observation
    }

    fn set_leading(&mut self, leads: bool) {
        let changed =
            self.leadership.send_if_modified(|before| std::mem::replace(before, leads) != leads);
        if !changed {
            return;
        }
        self.metrics.leads(&self.source, leads);
        let source = &self.source;
        if leads {
            self.share.led.fetch_add(1, Ordering::Relaxed);
            self.logged_leader = None;
            tracing::info!(%source, elected = self.leader_term.is_elected(), "became the leader");
        } else {
            self.share.led.fetch_sub(1, Ordering::Relaxed);
            tracing::info!(%source, "lost leadership: nothing is written");
        }
    }

    /// Fetches if a standby daemon received a webhook.
    fn apply_fetch_request(&mut self) {
        let fetch_request = self.candidate.annotation(FETCH).map(str::to_owned);
        if fetch_request.is_some() && fetch_request != self.fetch_request {
            // A full channel means that a hint is waiting already.
            let _sent = self.hint.try_send(());
        }
        self.fetch_request = fetch_request.or(self.fetch_request.take());
    }

    async fn forward_hint(&mut self) {
        let _sent = self.hint.try_send(());
        if *self.leadership.borrow() {
            return;
        }
        let at = Timestamp::now().to_string();
        if let Err(error) = self.candidate.store().ask_to_fetch(&at).await {
            tracing::debug!(source = %self.source, %error, "cannot forward a webhook; the next \
                regular fetch finds its commit");
        }
    }
}

/// Runs the tasks of `start` while this daemon is the leader. They end when leadership is lost or
/// `stop` is true.
pub async fn run_while_leader(
    mut leadership: watch::Receiver<bool>,
    mut stop: watch::Receiver<bool>,
    mut start: impl FnMut(&watch::Receiver<bool>, &mut JoinSet<()>),
) {
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            leads = leadership.wait_for(|leads| *leads) => if leads.is_err() { return },
        }
        let (end, ended) = watch::channel(false);
        let mut tasks = JoinSet::new();
        start(&ended, &mut tasks);
        let stops = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => true,
            lost = leadership.wait_for(|leads| !*leads) => lost.is_err(),
        };
        end.send_replace(true);
        while tasks.join_next().await.is_some() {}
        if stops {
            return;
        }
    }
}

/// An engine's view of its leadership.
#[derive(Debug, Default)]
pub struct LeadershipState {
    /// `None`: it is always the leader.
    leadership: Option<watch::Receiver<bool>>,
    /// The first election attempt has ended.
    decided: bool,
    /// As last observed.
    leads: bool,
    /// Git was read since the term began. An earlier read may be older than what the last leader
    /// applied.
    has_read: bool,
    /// The running fetch began in this term.
    counts: bool,
}

/// A change of leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeadershipChange {
    Gained,
    Lost,
}

impl LeadershipState {
    /// Follows an election.
    pub fn by(leadership: watch::Receiver<bool>) -> Self {
        Self { leadership: Some(leadership), ..Self::default() }
    }

    /// The change since the last call.
    pub fn observe(&mut self) -> Option<LeadershipChange> {
        let leadership = self.leadership.as_mut()?;
        self.decided |= leadership.has_changed().unwrap_or(true);
        let leads = *leadership.borrow_and_update();
        if std::mem::replace(&mut self.leads, leads) == leads {
            return None;
        }
        (self.has_read, self.counts) = (false, false);
        Some(if leads { LeadershipChange::Gained } else { LeadershipChange::Lost })
    }

    /// Ends when it may have changed; pending without an election.
    pub async fn changed(&self) {
        match &self.leadership {
            // `observe` reads the value.
            Some(leadership) => {
                if leadership.clone().changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
            None => std::future::pending().await,
        }
    }

    /// Whether Git may be read. Before the first attempt, a read might have to be repeated at once.
    pub fn may_fetch(&self) -> bool {
        self.leadership.is_none() || self.decided
    }

    /// A fetch begins.
    pub fn fetching(&mut self) {
        self.counts = true;
    }

    /// A fetch has succeeded.
    pub fn fetched(&mut self) {
        self.has_read |= self.counts;
    }

    /// Whether the engine reports its source.
    pub fn leads(&self) -> bool {
        self.leadership.is_none() || self.leads
    }

    /// Whether it may plan: it is the leader and has read Git in this term.
    pub fn may_plan(&self) -> bool {
        self.leadership.is_none() || (self.leads && self.has_read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_leader_reads_git_again_before_it_plans() {
        let (sender, leadership) = watch::channel(false);
        let mut lead = LeadershipState::by(leadership);
        assert_eq!(lead.observe(), None);
        assert!(!lead.may_fetch());
        sender.send_modify(|_| {});
        assert_eq!(lead.observe(), None);
        assert!(lead.may_fetch());
        lead.fetching();
        lead.fetched();
        sender.send_replace(true);
        assert!(!lead.may_plan());
        assert_eq!(lead.observe(), Some(LeadershipChange::Gained));
        // A fetch that began before the term.
        lead.fetched();
        assert!(lead.leads() && !lead.may_plan());
        lead.fetching();
        lead.fetched();
        assert!(lead.may_plan());
        sender.send_replace(false);
        assert_eq!(lead.observe(), Some(LeadershipChange::Lost));
        assert!(!lead.may_plan() && !lead.leads());
        let alone = LeadershipState::default();
        assert!(alone.leads() && alone.may_plan());
    }

    #[tokio::test(start_paused = true)]
    async fn leader_tasks_end_with_leadership_and_begin_again_with_the_next_term() {
        let (lead, leadership) = watch::channel(false);
        let (stopping, stop) = watch::channel(false);
        let (sender, mut received) = mpsc::unbounded_channel();
        let mut sessions = 0;
        let task = tokio::spawn(run_while_leader(leadership, stop, move |ended, tasks| {
            sessions += 1;
            let (session, sender, mut ended) = (sessions, sender.clone(), ended.clone());
            tasks.spawn(async move {
                sender.send((session, "begins")).unwrap();
                ended.wait_for(|ended| *ended).await.unwrap();
                sender.send((session, "ends")).unwrap();
            });
        }));
        for session in [1, 2] {
            lead.send_replace(true);
            assert_eq!(received.recv().await, Some((session, "begins")));
            lead.send_replace(false);
            assert_eq!(received.recv().await, Some((session, "ends")));
        }
        lead.send_replace(true);
        assert_eq!(received.recv().await, Some((3, "begins")));
        stopping.send_replace(true);
        task.await.unwrap();
        assert_eq!(received.recv().await, Some((3, "ends")));
    }
}
