//! Which of several daemons leads a source: it alone writes to the hub, to the forge and to the status branch. The others
//! read all the same, so that they can go on at once.

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
use crate::core::backoff::{self, Setback};
use crate::core::directives::Directives;
use crate::core::election::{Look, Tenure, patience};
use crate::core::name::{CommitId, SourceId, WorkKey};
use crate::core::observed::ObservedWork;
use crate::core::plan::Effect;
use crate::core::record::Record;
use crate::election::{Attempt, Candidate, Election};
use crate::hub::lease::{FETCH, SourceLease};
use crate::hub::{Hub, HubError, HubEvent, StoredRecord};
use crate::limits;

/// How many of a daemon's sources it leads.
#[derive(Debug)]
pub struct Share {
    led: AtomicUsize,
    sources: usize,
}

impl Share {
    pub fn new(sources: usize) -> Self {
        Self { led: AtomicUsize::new(0), sources }
    }
}

/// Whether this daemon leads a source, for whoever has to know. A clone tells the same.
#[derive(Debug, Clone)]
pub struct Standing {
    leads: watch::Receiver<bool>,
    term: Arc<Term>,
}

/// When the lead ends by itself. It is asked at each write, so that a process which stood still for a while (SIGSTOP, a
/// machine without time to spare) writes nothing before it has heard that another leads.
#[derive(Debug)]
struct Term {
    start: Instant,
    /// In milliseconds since then.
    until: AtomicU64,
}

impl Term {
    fn set(&self, tenure: &Tenure) {
        let until = match tenure.until() {
            Some(until) => u64::try_from(until.as_millis()).unwrap_or(u64::MAX),
            None if tenure.leads(Duration::MAX) => u64::MAX,
            None => 0,
        };
        self.until.store(until, Ordering::Relaxed);
    }
}

impl Standing {
    /// Whether it leads at this moment.
    pub fn holds(&self) -> bool {
        let until = Duration::from_millis(self.term.until.load(Ordering::Relaxed));
        *self.leads.borrow() && self.term.start.elapsed() < until
    }

    /// Tells each change of it.
    pub fn watch(&self) -> watch::Receiver<bool> {
        self.leads.clone()
    }
}

/// A hub on which nothing is written unless its source is led.
pub struct Fenced {
    hub: Arc<dyn Hub>,
    standing: Standing,
}

impl Fenced {
    pub fn new(hub: Arc<dyn Hub>, standing: Standing) -> Self {
        Self { hub, standing }
    }

    fn pass<'a, T: Send + 'a>(
        &'a self,
        write: impl FnOnce(&'a dyn Hub) -> BoxFuture<'a, Result<T, HubError>>,
    ) -> BoxFuture<'a, Result<T, HubError>> {
        if self.standing.holds() {
            return write(&*self.hub);
        }
        let message = "this daemon leads the source no longer, and has not asked".into();
        ready(Err(HubError::Unavailable { message, retry_after_seconds: None })).boxed()
    }
}

impl Hub for Fenced {
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
        self.pass(move |hub| hub.set_record(source, record, before))
    }
    fn execute<'a>(
        &'a self,
        key: &'a WorkKey,
        effect: &'a Effect,
        commit: Option<CommitId>,
    ) -> BoxFuture<'a, Result<Option<ObservedWork>, HubError>> {
        self.pass(move |hub| hub.execute(key, effect, commit))
    }
}

/// Stands for the lead of one source.
pub struct Leading {
    source: SourceId,
    candidate: Candidate<SourceLease>,
    tenure: Tenure,
    term: Arc<Term>,
    share: Arc<Share>,
    standing: watch::Sender<bool>,
    /// Has the engine fetch now.
    hint: mpsc::Sender<()>,
    metrics: Arc<Metrics>,
    /// Looks in a row that found no place for a Lease.
    homeless: u32,
    /// Who was last told to lead, where that is another.
    told: Option<String>,
    /// The Lease could not be read or written, which was told.
    in_trouble: bool,
    /// The last wish of another daemon that the source be fetched.
    wish: Option<String>,
    /// There was a first look.
    looked: bool,
}

impl Leading {
    /// `identity` is no other daemon's, now or ever. `hint` has the source's engine fetch.
    pub fn new(
        store: SourceLease,
        identity: String,
        share: Arc<Share>,
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
            candidate: Candidate::new(store, election),
            tenure: Tenure::default(),
            term: Arc::new(Term { start: Instant::now(), until: AtomicU64::new(0) }),
            share,
            standing: watch::Sender::new(false),
            hint,
            metrics,
            homeless: 0,
            told: None,
            in_trouble: false,
            wish: None,
            looked: false,
        }
    }

    /// Whether this daemon leads the source, for whoever has to know.
    pub fn standing(&self) -> Standing {
        Standing { leads: self.standing.subscribe(), term: self.term.clone() }
    }

    /// Runs until `stop` is true, and gives the Lease up then: nothing may write any more. `hooks` tells that there is
    /// something new in Git; where another leads, that one is told.
    pub async fn run(mut self, mut hooks: mpsc::Receiver<()>, mut stop: watch::Receiver<bool>) {
        let mut next = Instant::now();
        let (mut hooked, mut stopped) = (true, stop.clone());
        while !*stop.borrow() {
            tokio::select! {
                _ = stop.changed() => break,
                () = sleep_until(next) => tokio::select! {
                    _ = stopped.changed() => break,
                    due = self.look() => next = due,
                },
                hook = hooks.recv(), if hooked => match hook {
                    Some(()) => self.pass_on().await,
                    None => hooked = false,
                },
            }
        }
        self.set_standing(false);
        if let Err(error) = self.candidate.release().await {
            tracing::debug!(source = %self.source, %error, "the Lease is not given up; it expires");
        }
    }

    /// Looks at the Lease once, and answers when to do so again.
    async fn look(&mut self) -> Instant {
        let asked = self.term.start.elapsed();
        // Past the end of a lead nothing is waited for: it has to be told first.
        let limit = self.tenure.until().map(|until| until.saturating_sub(asked));
        let limit = limit.filter(|limit| !limit.is_zero()).unwrap_or(2 * limits::HUB_CALL);
        let led = self.share.led.load(Ordering::Relaxed);
        let patience = patience(led, self.share.sources, limits::LEASE_RETRY);
        let answer = timeout(limit, self.candidate.attempt(patience)).await;
        let late = || HubError::Unavailable {
            message: "no answer in time".into(),
            retry_after_seconds: None,
        };
        let answer = answer.unwrap_or_else(|_| Err(late()));
        let look = self.take(&answer);
        self.tenure.take(look, asked, limits::LEASE_RENEW);
        self.term.set(&self.tenure);
        let now = self.term.start.elapsed();
        self.set_standing(self.tenure.leads(now));
        if !std::mem::replace(&mut self.looked, true) {
            // Who waits to know has to be told, too, that it is not us.
            self.standing.send_modify(|_| {});
        }
        self.heed_wish();
        let spread = 0.8 + fastrand::f64() * 0.4;
        let wait = match (&answer, look) {
            (Ok(Attempt::Free { wait }), _) => *wait,
            (_, Look::Homeless | Look::Forbidden) => {
                self.homeless = self.homeless.saturating_add(1);
                backoff::delay(self.homeless - 1, Setback::Blocked, fastrand::u64(..))
            }
            _ => limits::LEASE_RETRY.mul_f64(spread),
        };
        let due = now + wait;
        self.term.start
            + self.tenure.until().filter(|until| now < *until).map_or(due, |until| until.min(due))
    }

    /// What an answer means; tells what is new in it.
    fn take(&mut self, answer: &Result<Attempt, HubError>) -> Look {
        let (source, name) = (&self.source, self.candidate.store().name());
        let look = match answer {
            Ok(Attempt::Leads) => Look::Ours,
            Ok(Attempt::Free { .. }) => Look::Free,
            Ok(Attempt::StandsBy { holder }) => {
                if !holder.is_empty() && self.told.as_ref() != Some(holder) {
                    tracing::info!(%source, leader = holder, "another daemon leads this source; standing by");
                    self.told = Some(holder.clone());
                }
                Look::Another
            }
            Err(error @ (HubError::NoHome { .. } | HubError::Forbidden { .. })) => {
                if self.homeless == 0 {
                    tracing::warn!(
                        %source, lease = name, %error,
                        "there is no leader election: one daemon alone may sync this source until that is mended"
                    );
                }
                let forbidden = matches!(error, HubError::Forbidden { .. });
                return if forbidden { Look::Forbidden } else { Look::Homeless };
            }
            Err(error) => {
                if !std::mem::replace(&mut self.in_trouble, true) {
                    tracing::warn!(%source, lease = name, %error, "who leads this source is not known");
                }
                return Look::Unknown;
            }
        };
        if std::mem::take(&mut self.homeless) > 0 {
            tracing::info!(source = %self.source, "there is leader election now");
        }
        self.in_trouble = false;
        look
    }

    fn set_standing(&mut self, leads: bool) {
        let changed =
            self.standing.send_if_modified(|before| std::mem::replace(before, leads) != leads);
        if !changed {
            return;
        }
        self.metrics.leads(&self.source, leads);
        let source = &self.source;
        if leads {
            self.share.led.fetch_add(1, Ordering::Relaxed);
            self.told = None;
            tracing::info!(%source, elected = self.tenure.is_elected(), "leading");
        } else {
            self.share.led.fetch_sub(1, Ordering::Relaxed);
            tracing::info!(%source, "leading no longer: nothing is written");
        }
    }

    /// Fetches, where another daemon was told that there is something new.
    fn heed_wish(&mut self) {
        let wish = self.candidate.annotation(FETCH).map(str::to_owned);
        if wish.is_some() && wish != self.wish {
            // A full channel means that a hint is waiting already.
            let _sent = self.hint.try_send(());
        }
        self.wish = wish.or(self.wish.take());
    }

    async fn pass_on(&mut self) {
        let _sent = self.hint.try_send(());
        if *self.standing.borrow() {
            return;
        }
        let at = Timestamp::now().to_string();
        if let Err(error) = self.candidate.store().ask_to_fetch(&at).await {
            tracing::debug!(source = %self.source, %error, "a webhook is not passed on; its commit is seen at the next fetch");
        }
    }
}

/// Runs what `start` starts while this daemon leads, and ends it when it no longer does, or when `stop` is true.
pub async fn while_leading(
    mut standing: watch::Receiver<bool>,
    mut stop: watch::Receiver<bool>,
    mut start: impl FnMut(&watch::Receiver<bool>, &mut JoinSet<()>),
) {
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            leads = standing.wait_for(|leads| *leads) => if leads.is_err() { return },
        }
        let (end, ended) = watch::channel(false);
        let mut tasks = JoinSet::new();
        start(&ended, &mut tasks);
        let stops = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => true,
            lost = standing.wait_for(|leads| !*leads) => lost.is_err(),
        };
        end.send_replace(true);
        while tasks.join_next().await.is_some() {}
        if stops {
            return;
        }
    }
}

/// What an engine knows of its lead.
#[derive(Debug, Default)]
pub struct Lead {
    /// `None`: it always leads.
    standing: Option<watch::Receiver<bool>>,
    /// It is known whether this daemon leads, or at least that this is not known.
    decided: bool,
    /// As the engine has last heeded it.
    leads: bool,
    /// Git was read since the lead began. What was read before may be older than what the last leader applied.
    has_read: bool,
    /// The fetch that is under way began after that.
    counts: bool,
}

/// What has become of the lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    Begins,
    Ends,
}

impl Lead {
    pub fn by(standing: watch::Receiver<bool>) -> Self {
        Self { standing: Some(standing), ..Self::default() }
    }

    /// What has changed since the last call.
    pub fn heed(&mut self) -> Option<Turn> {
        let standing = self.standing.as_mut()?;
        self.decided |= standing.has_changed().unwrap_or(true);
        let leads = *standing.borrow_and_update();
        if std::mem::replace(&mut self.leads, leads) == leads {
            return None;
        }
        (self.has_read, self.counts) = (false, false);
        Some(if leads { Turn::Begins } else { Turn::Ends })
    }

    /// Ends when it may have changed; never where there is no election.
    pub async fn changed(&self) {
        match &self.standing {
            // It is taken in by `heed`.
            Some(standing) => {
                if standing.clone().changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
            None => std::future::pending().await,
        }
    }

    /// Whether Git may be read: before, what is read might have to be read again at once.
    pub fn may_fetch(&self) -> bool {
        self.standing.is_none() || self.decided
    }

    /// A fetch begins.
    pub fn fetching(&mut self) {
        self.counts = true;
    }

    /// A fetch has succeeded.
    pub fn fetched(&mut self) {
        self.has_read |= self.counts;
    }

    /// Whether the engine is the one to tell of its source.
    pub fn leads(&self) -> bool {
        self.standing.is_none() || self.leads
    }

    /// Whether it may plan: it leads, and knows what Git says now.
    pub fn may_plan(&self) -> bool {
        self.standing.is_none() || (self.leads && self.has_read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_leader_plans_once_it_has_read_git_anew() {
        let (sender, standing) = watch::channel(false);
        let mut lead = Lead::by(standing);
        assert_eq!(lead.heed(), None);
        assert!(!lead.may_fetch());
        sender.send_modify(|_| {});
        assert_eq!(lead.heed(), None);
        assert!(lead.may_fetch());
        lead.fetching();
        lead.fetched();
        sender.send_replace(true);
        assert!(!lead.may_plan());
        assert_eq!(lead.heed(), Some(Turn::Begins));
        // A fetch that was under way when the lead began.
        lead.fetched();
        assert!(lead.leads() && !lead.may_plan());
        lead.fetching();
        lead.fetched();
        assert!(lead.may_plan());
        sender.send_replace(false);
        assert_eq!(lead.heed(), Some(Turn::Ends));
        assert!(!lead.may_plan() && !lead.leads());
        let alone = Lead::default();
        assert!(alone.leads() && alone.may_plan());
    }

    #[tokio::test(start_paused = true)]
    async fn what_runs_while_leading_ends_with_the_lead_and_begins_anew_with_the_next() {
        let (lead, standing) = watch::channel(false);
        let (stopping, stop) = watch::channel(false);
        let (told, mut tells) = mpsc::unbounded_channel();
        let mut sessions = 0;
        let task = tokio::spawn(while_leading(standing, stop, move |ended, tasks| {
            sessions += 1;
            let (session, told, mut ended) = (sessions, told.clone(), ended.clone());
            tasks.spawn(async move {
                told.send((session, "begins")).unwrap();
                ended.wait_for(|ended| *ended).await.unwrap();
                told.send((session, "ends")).unwrap();
            });
        }));
        for session in [1, 2] {
            lead.send_replace(true);
            assert_eq!(tells.recv().await, Some((session, "begins")));
            lead.send_replace(false);
            assert_eq!(tells.recv().await, Some((session, "ends")));
        }
        lead.send_replace(true);
        assert_eq!(tells.recv().await, Some((3, "begins")));
        stopping.send_replace(true);
        task.await.unwrap();
        assert_eq!(tells.recv().await, Some((3, "ends")));
    }
}
