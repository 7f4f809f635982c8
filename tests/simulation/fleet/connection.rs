//! The connection of one gitwork process to the hub, with seeded faults. The checkers see each
//! write.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use gitwork_core::model::name::{CommitId, SourceId, WorkKey};
use gitwork_core::plan::Effect;
use gitwork_core::plan::directives::Directives;
use gitwork_core::plan::observed::{ObservedWork, WorkContent};
use gitwork_core::plan::record::Record;
use gitwork_hub::{Hub, HubError, HubEvent, StoredRecord};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use super::bugs::{self, Bug};
use super::check::{Checker, Write};
use super::git::ReadLog;
use crate::hub::SimulatedHub;

/// The rate of each fault, in percent of the calls that it can affect.
#[derive(Debug, Clone, Copy, Default)]
pub struct FaultRates {
    pub request_lost: u8,
    pub response_lost: u8,
    pub conflict: u8,
    pub throttled: u8,
    pub rejected: u8,
    /// Calls and events that take up to 20 seconds.
    pub slow: u8,
    /// Lists that are older than the last list or event.
    pub stale_list: u8,
}

/// The write at which a process is killed.
#[derive(Debug, Clone, Copy)]
pub struct CrashPoint {
    /// The number of writes before it.
    pub writes: u32,
    /// Whether the hub has done the write.
    pub after: bool,
}

pub struct Network {
    pub fault_rates: FaultRates,
    pub crash: Option<CrashPoint>,
    /// The process has reached its crash point.
    pub has_crashed: bool,
    /// The number of writes before the one at which the process loses its leadership.
    pub loss: Option<u32>,
    random: fastrand::Rng,
    /// The last list, and its time.
    listed: Option<(Instant, Vec<ObservedWork>)>,
    /// The number of restores of the hub. Each one closes all connections.
    restores: u32,
}

/// The connection of one process.
#[derive(Clone)]
pub struct Connection {
    pub hub: SimulatedHub,
    pub checker: Checker,
    pub reads: ReadLog,
    pub network: Arc<Mutex<Network>>,
    /// True while the connection is cut.
    pub cut: watch::Receiver<bool>,
    /// Whether the process is the leader.
    pub leads: watch::Sender<bool>,
    /// Notified when the process is to be killed.
    pub crashed: Arc<Notify>,
    pub bug: Option<Bug>,
    /// Whether another process of the source ran before.
    pub is_restarted: bool,
}

type Response = Result<Option<ObservedWork>, HubError>;

fn unavailable(message: &str, retry_after_seconds: Option<u64>) -> HubError {
    HubError::Unavailable { message: message.into(), retry_after_seconds }
}

/// The largest lag of a list. Kubernetes promises no lag for the lists that gitwork requests.
const LAG: Duration = Duration::from_secs(120);
/// A request in flight when its process loses its leadership arrives within this time.
const LATE: Duration = Duration::from_secs(20);
/// How long a client waits for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

impl Network {
    pub fn new(seed: u64, fault_rates: FaultRates) -> Arc<Mutex<Self>> {
        let random = fastrand::Rng::with_seed(seed);
        Arc::new(Mutex::new(Self {
            fault_rates,
            crash: None,
            has_crashed: false,
            loss: None,
            random,
            listed: None,
            restores: 0,
        }))
    }

    /// Closes the connections, as a restore of the hub does.
    pub fn restored(&mut self) {
        self.listed = None;
        self.restores += 1;
    }

    fn happens(&mut self, percent: u8) -> bool {
        percent > 0 && self.random.u8(..100) < percent
    }

    fn latency(&mut self) -> Duration {
        let slow = self.fault_rates.slow;
        let most = if self.happens(slow) { 20_000 } else { 40 };
        Duration::from_millis(self.random.u64(1..most))
    }

    /// Whether the process is killed at this write.
    fn crashes(&mut self, after: bool) -> bool {
        let Some(crash) = self.crash.as_mut().filter(|crash| crash.after == after) else {
            return false;
        };
        if crash.writes > 0 {
            crash.writes -= 1;
            return false;
        }
        (self.crash, self.has_crashed) = (None, true);
        true
    }

    /// How late this write arrives because the process loses its leadership while it is in flight.
    fn delay_at_loss(&mut self) -> Option<Duration> {
        let writes = self.loss?;
        self.loss = writes.checked_sub(1);
        (writes == 0).then(|| Duration::from_millis(self.random.u64(..20_000)))
    }
}

impl Connection {
    fn network(&self) -> MutexGuard<'_, Network> {
        self.network.lock().unwrap()
    }

    /// How long a call or an event takes.
    pub fn latency(&self) -> Duration {
        self.network().latency()
    }

    /// The way to the hub.
    async fn request(&self) -> Result<(), HubError> {
        self.request_within(LATE).await
    }

    /// The way to the hub, in at most this time.
    async fn request_within(&self, most: Duration) -> Result<(), HubError> {
        let latency = self.network().latency().min(most);
        sleep(latency).await;
        let cut = *self.cut.borrow();
        let (lost, throttled) = {
            let mut network = self.network();
            let FaultRates { request_lost, throttled, .. } = network.fault_rates;
            let seconds = network.random.u64(1..30);
            (cut || network.happens(request_lost), network.happens(throttled).then_some(seconds))
        };
        if lost {
            sleep(RESPONSE_TIMEOUT).await;
            return Err(unavailable("the request timed out", None));
        }
        match throttled {
            Some(seconds) => Err(unavailable("too many requests", Some(seconds))),
            None => Ok(()),
        }
    }

    /// The way back to the process.
    async fn respond<T>(&self, response: Result<T, HubError>) -> Result<T, HubError> {
        let (latency, lost, restores) = {
            let mut network = self.network();
            let lost = network.fault_rates.response_lost;
            (network.latency(), network.happens(lost), network.restores)
        };
        if lost || *self.cut.borrow() {
            sleep(RESPONSE_TIMEOUT).await;
            return Err(unavailable("the response was lost", None));
        }
        sleep(latency).await;
        if self.network().restores != restores {
            return Err(unavailable("the connection closed", None));
        }
        response
    }

    /// Kills the process here if its crash point is reached.
    async fn crash_point(&self, after: bool) {
        if self.network().crashes(after) {
            self.crashed.notify_one();
            std::future::pending::<()>().await;
        }
    }

    fn rejection(&self, key: &WorkKey) -> Option<HubError> {
        let mut network = self.network();
        let FaultRates { conflict, rejected, .. } = network.fault_rates;
        let key = key.to_string();
        if network.happens(conflict) {
            return Some(HubError::Stale { key });
        }
        let message = "denied by an admission webhook".into();
        network.happens(rejected).then_some(HubError::WriteRejected { key, message })
    }

    /// Makes the write and has the checker judge it.
    fn write(
        &self,
        key: &WorkKey,
        effect: &Effect,
        (commit, is_abandoned): (Option<CommitId>, bool),
    ) -> Response {
        let mut effect = effect.clone();
        if let Some(bug) = self.bug {
            let there = self.there(key);
            bug.spoil_body(&mut effect);
            effect = bug.spoil_effect(&effect, there.as_ref()).unwrap_or(effect);
        }
        let before = self.hub.object(key);
        let mut response = self.hub.call(key, &effect, commit);
        if self.bug == Some(Bug::ConflictRetriedBlindly)
            && matches!(response, Err(HubError::Stale { .. }))
            && let Some(there) = self.there(key)
        {
            effect = bugs::with_version(&effect, &there);
            response = self.hub.call(key, &effect, commit);
        }
        if response.is_ok() && matches!(effect, Effect::Update { .. }) {
            let patch = match self.bug {
                Some(Bug::FinalizersRemoved) => json!({"metadata": {"finalizers": null}}),
                Some(Bug::UserLabelsRemoved) => json!({"metadata": {"labels": {"foreign": null}}}),
                _ => json!({}),
            };
            let _unchanged = self.hub.user_patches(key, &patch);
        }
        let (effect, before, reads) = (&effect, before.as_deref(), &self.reads);
        self.checker
            .check_write(&Write { key, effect, commit, before, reads, is_abandoned }, &response);
        response
    }

    fn there(&self, key: &WorkKey) -> Option<ObservedWork> {
        self.hub.observed(key)
    }

    fn spoiled(&self, mut work: ObservedWork) -> ObservedWork {
        let Some(bug) = self.bug else { return work };
        bug.spoil_work(&mut work);
        if bug.is_about_moves()
            && let Some(raw) = self.hub.version_of(&work.key, &work.resource_version)
        {
            let others = self.checker.listed_elsewhere(&work.key);
            bug.spoil_moves(&mut work, Value::clone(&raw), &others, self.is_restarted);
        }
        work
    }

    fn all(&self, source: &SourceId) -> Vec<ObservedWork> {
        if self.bug == Some(Bug::ForeignCountedAsOurs) {
            let mut all = self.hub.works_of(None);
            all.iter_mut().for_each(|work| work.source = Some(source.as_str().into()));
            return all;
        }
        self.hub.works_of(Some(source)).into_iter().map(|work| self.spoiled(work)).collect()
    }

    async fn executed(&self, key: &WorkKey, effect: &Effect, commit: Option<CommitId>) -> Response {
        let leads = self.leads.subscribe();
        let delay = self.network().delay_at_loss();
        if let Some(delay) = delay {
            self.checker.trace(|| format!("the leader loses the Lease at a write of {key}"));
            self.leads.send_replace(false);
            sleep(delay).await;
        }
        if let Err(error) = self.request_within(LATE - delay.unwrap_or_default()).await {
            if self.bug == Some(Bug::LostWriteCountedAsDone) {
                let gone = matches!(effect, Effect::Delete { .. });
                return Ok(self.there(key).filter(|_| !gone));
            }
            return Err(error);
        }
        self.crash_point(false).await;
        let response = match self.rejection(key) {
            Some(rejection) => Err(rejection),
            None => {
                let is_abandoned = leads.has_changed().unwrap_or(true);
                self.write(key, effect, (commit, is_abandoned))
            }
        };
        self.crash_point(true).await;
        let response = response.map(|work| work.map(|work| self.spoiled(work)));
        self.respond(response).await
    }
}

/// A write that goes on if the process abandons it: the request may have been sent.
fn sent<T: Send + 'static>(
    write: impl Future<Output = Result<T, HubError>> + Send + 'static,
) -> BoxFuture<'static, Result<T, HubError>> {
    Box::pin(async move {
        let ended = tokio::spawn(write).await;
        ended.unwrap_or_else(|error| Err(unavailable(&error.to_string(), None)))
    })
}

/// The state of a watch.
enum Watching {
    Begin {
        lists: bool,
    },
    /// After an old list: the events since then.
    CatchUp {
        events: Vec<HubEvent>,
        follow: BoxStream<'static, HubEvent>,
    },
    Follow(BoxStream<'static, HubEvent>),
    Broken,
}

impl Connection {
    async fn next_event(self, source: SourceId, at: Watching) -> (Vec<HubEvent>, Watching) {
        let latency = self.network().latency();
        match at {
            Watching::Begin { lists } => self.begin(&source, lists, latency).await,
            Watching::CatchUp { events, follow } => {
                sleep(latency).await;
                (events, Watching::Follow(follow))
            }
            Watching::Follow(mut follow) => {
                let mut cut = self.cut.clone();
                let event = tokio::select! {
                    biased;
                    _ = cut.wait_for(|cut| *cut) => None,
                    event = follow.next() => event,
                };
                let Some(event) = event.filter(|e| !matches!(e, HubEvent::Interrupted(_))) else {
                    let error = unavailable("the watch broke", None);
                    return (vec![HubEvent::Interrupted(error)], Watching::Broken);
                };
                if matches!(event, HubEvent::Changed(_)) {
                    sleep(latency).await;
                }
                if self.checker.is_story() {
                    // What has happened in the meantime comes with it: a fleet reports in bursts.
                    let mut events = vec![event];
                    while let Some(Some(next)) = follow.next().now_or_never() {
                        events.push(next);
                    }
                    return (events, Watching::Follow(follow));
                }
                let event = match event {
                    HubEvent::Changed(work) => HubEvent::Changed(Box::new(self.spoiled(*work))),
                    HubEvent::Gone(_) if self.bug == Some(Bug::DeletionEventsDropped) => {
                        return (Vec::new(), Watching::Follow(follow));
                    }
                    other => other,
                };
                (vec![event], Watching::Follow(follow))
            }
            Watching::Broken => {
                sleep(Duration::from_secs(1)).await;
                let mut cut = self.cut.clone();
                let _open = cut.wait_for(|cut| !*cut).await;
                let lists = self.bug != Some(Bug::WatchResumedWithoutList);
                (Vec::new(), Watching::Begin { lists })
            }
        }
    }

    async fn begin(
        &self,
        source: &SourceId,
        lists: bool,
        latency: Duration,
    ) -> (Vec<HubEvent>, Watching) {
        if *self.cut.borrow() {
            return (Vec::new(), Watching::Broken);
        }
        let mut follow = self.hub.watch(source);
        // The first event is the current list.
        let _listed = follow.next().await;
        let now = self.all(source);
        let stale = {
            let mut network = self.network();
            let before = network.listed.replace((Instant::now(), now.clone()));
            let percent = network.fault_rates.stale_list;
            let happens = before.is_some() && network.happens(percent);
            before.filter(|(at, _)| happens && at.elapsed() <= LAG).map(|(_, list)| list)
        };
        sleep(latency).await;
        if !lists {
            return (Vec::new(), Watching::Follow(follow));
        }
        let Some(stale) = stale else {
            return (vec![HubEvent::Listed(now.into_iter().collect())], Watching::Follow(follow));
        };
        let gone = stale.iter().filter(|old| now.iter().all(|new| new.key != old.key));
        let gone = gone.map(|work| HubEvent::Gone(work.key.clone()));
        let events: Vec<HubEvent> =
            gone.chain(now.iter().map(|work| HubEvent::Changed(Box::new(work.clone())))).collect();
        (vec![HubEvent::Listed(stale.into_iter().collect())], Watching::CatchUp { events, follow })
    }
}

impl Hub for Connection {
    fn watch(&self, source: &SourceId) -> BoxStream<'static, HubEvent> {
        let start = (self.clone(), source.clone(), Watching::Begin { lists: true });
        stream::unfold(start, |(connection, source, at)| async {
            let (events, at) = connection.clone().next_event(source.clone(), at).await;
            Some((stream::iter(events), (connection, source, at)))
        })
        .flatten()
        .boxed()
    }

    fn list<'a>(
        &'a self,
        source: Option<&'a SourceId>,
    ) -> BoxFuture<'a, Result<Vec<ObservedWork>, HubError>> {
        Box::pin(async move {
            self.request().await?;
            self.respond(Ok(self.hub.works_of(source))).await
        })
    }

    fn get<'a>(&'a self, key: &'a WorkKey) -> BoxFuture<'a, Response> {
        Box::pin(async move {
            self.request().await?;
            let there = self.there(key).map(|work| self.spoiled(work));
            self.respond(Ok(there)).await
        })
    }

    fn content<'a>(
        &'a self,
        key: &'a WorkKey,
    ) -> BoxFuture<'a, Result<Option<WorkContent>, HubError>> {
        Box::pin(async move {
            self.request().await?;
            let content = self.hub.content(key).await;
            self.respond(content).await
        })
    }

    fn directives<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Directives, HubError>> {
        Box::pin(async move {
            self.request().await?;
            let mut directives = self.hub.directives(source).await;
            if let (Some(bug), Ok(directives)) = (self.bug, &mut directives) {
                bug.spoil_directives(directives, &self.hub.works_of(Some(source)));
            }
            self.respond(directives).await
        })
    }

    fn record<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Option<StoredRecord>, HubError>> {
        Box::pin(async move {
            self.request().await?;
            let mut found = self.hub.record(source).await;
            if let (Some(Bug::BreachForgotten), Ok(Some(stored))) = (self.bug, &mut found) {
                let groups = stored.record.rollouts.values_mut();
                groups.for_each(|group| group.rejected = None);
            }
            self.respond(found).await
        })
    }

    fn set_record<'a>(
        &'a self,
        source: &'a SourceId,
        record: &'a Record,
        before: Option<&'a StoredRecord>,
    ) -> BoxFuture<'a, Result<StoredRecord, HubError>> {
        let (connection, source) = (self.clone(), source.clone());
        let (mut record, before) = (record.clone(), before.cloned());
        if self.bug == Some(Bug::LastGoodTooEarly) {
            let groups = record.rollouts.values_mut();
            groups.for_each(|group| group.last_good = Some(group.content));
        }
        sent(async move {
            connection.request().await?;
            let written = connection.hub.set_record(&source, &record, before.as_ref()).await;
            connection.checker.trace(|| format!("record: {record:?}: {}", written.is_ok()));
            if written.is_ok() {
                connection.checker.observe_record(&record);
            }
            connection.respond(written).await
        })
    }

    fn execute<'a>(
        &'a self,
        key: &'a WorkKey,
        effect: &'a Effect,
        commit: Option<CommitId>,
    ) -> BoxFuture<'a, Response> {
        let (connection, key, effect) = (self.clone(), key.clone(), effect.clone());
        sent(async move {
            let began = Instant::now();
            let response = connection.executed(&key, &effect, commit).await;
            connection.checker.trace_response(&key, &effect, began, &response);
            response
        })
    }
}
