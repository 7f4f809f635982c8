//! The leader election of one source, by a Lease on the hub.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::leadership::{Leadership, TermEnd};
use super::metrics::Metrics;
use crate::limits;
use gitwork_core::model::name::SourceId;
use gitwork_hub::HubError;
use gitwork_hub::lease::{FETCH, SourceLease};
use gitwork_kube::leader_election::{Election, ElectionCandidate, ElectionResult};
use gitwork_kube::lease::{LeaderTerm, LeaseObservation, acquire_delay};
use gitwork_retry::{RetryClass, log_error};
use gitwork_runtime::clock::WallClock;

/// How many of its sources this daemon is the leader of.
#[derive(Debug)]
pub struct LedSources {
    led: AtomicUsize,
    sources: usize,
}

impl LedSources {
    /// None of `sources` yet.
    pub fn new(sources: usize) -> Self {
        Self { led: AtomicUsize::new(0), sources }
    }
}

/// Runs the leader election of one source.
pub struct LeaderElector {
    source: SourceId,
    candidate: ElectionCandidate<SourceLease>,
    term: LeaderTerm,
    term_end: Arc<TermEnd>,
    led_sources: Arc<LedSources>,
    leadership: watch::Sender<bool>,
    /// Makes the engine fetch now.
    hint: mpsc::Sender<()>,
    metrics: Arc<Metrics>,
    clock: WallClock,
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
    /// A candidate for the Lease of `store`. `identity` is unique for each process. `hint` makes
    /// the source's engine fetch.
    pub fn new(
        store: SourceLease,
        identity: String,
        led_sources: Arc<LedSources>,
        hint: mpsc::Sender<()>,
        metrics: Arc<Metrics>,
        clock: WallClock,
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
            term: LeaderTerm::default(),
            term_end: Arc::new(TermEnd::new()),
            led_sources,
            leadership: watch::Sender::new(false),
            hint,
            metrics,
            clock,
            lease_failures: 0,
            logged_leader: None,
            is_failing: false,
            fetch_request: None,
            has_observed: false,
        }
    }

    /// The leadership that this election decides.
    pub fn leadership(&self) -> Leadership {
        Leadership::new(self.leadership.subscribe(), self.term_end.clone())
    }

    /// Runs until `stop` is true, then releases the Lease: all writes must have ended.
    /// `fetch_requests` receives a message for each webhook; a standby forwards it to the leader.
    pub async fn run(
        mut self,
        mut fetch_requests: mpsc::Receiver<()>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut next = Instant::now();
        let (mut may_receive, mut stopped) = (true, stop.clone());
        while !*stop.borrow() {
            tokio::select! {
                _ = stop.changed() => break,
                () = sleep_until(next) => tokio::select! {
                    _ = stopped.changed() => break,
                    due = self.attempt() => next = due,
                },
                request = fetch_requests.recv(), if may_receive => match request {
                    Some(()) => self.forward_fetch_request().await,
                    None => may_receive = false,
                },
            }
        }
        self.set_leading(false);
        if let Err(error) = self.candidate.release(self.clock.now()).await {
            log_error!(
                debug, &error, source = %self.source, "cannot release the Lease; it expires"
            );
        }
    }

    /// Tries once to hold the Lease, and gives when to try again.
    async fn attempt(&mut self) -> Instant {
        let attempt_began = self.term_end.start().elapsed();
        // A request must not delay the end of an expired term.
        let limit = self.term.until().map(|until| until.saturating_sub(attempt_began));
        let limit =
            limit.filter(|limit| !limit.is_zero()).unwrap_or(2 * gitwork_hub::limits::HUB_CALL);
        let led = self.led_sources.led.load(Ordering::Relaxed);
        let acquire_delay = acquire_delay(led, self.led_sources.sources, limits::LEASE_RETRY);
        let response =
            timeout(limit, self.candidate.attempt(acquire_delay, self.clock.now())).await;
        let late = || HubError::Unavailable {
            message: "no answer in time".into(),
            retry_after_seconds: None,
        };
        let response = response.unwrap_or_else(|_| Err(late()));
        let observation = self.observe(&response);
        self.term.observe(observation, attempt_began, limits::LEASE_RENEW);
        self.term_end.set(&self.term);
        let now = self.term_end.start().elapsed();
        self.set_leading(self.term.is_leader(now));
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
        self.term_end.start()
            + self.term.until().filter(|until| now < *until).map_or(due, |until| until.min(due))
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
                    log_error!(
                        warn, error, %source, lease = name,
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
                    log_error!(
                        warn, error, %source, lease = name, "cannot read or renew the Lease"
                    );
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
            self.led_sources.led.fetch_add(1, Ordering::Relaxed);
            self.logged_leader = None;
            tracing::info!(%source, elected = self.term.is_elected(), "became the leader");
        } else {
            self.led_sources.led.fetch_sub(1, Ordering::Relaxed);
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

    async fn forward_fetch_request(&mut self) {
        let _sent = self.hint.try_send(());
        if *self.leadership.borrow() {
            return;
        }
        let at = self.clock.now().to_string();
        if let Err(error) = self.candidate.store().ask_to_fetch(&at).await {
            log_error!(debug, &error, source = %self.source, "cannot forward a webhook; the next \
                regular fetch finds its commit");
        }
    }
}
