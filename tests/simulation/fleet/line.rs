//! The way from one gitwork process to the hub: slow, lossy, now and then cut, and watched by the checkers.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use gitwork::core::directives::Directives;
use gitwork::core::name::{CommitId, SourceId, WorkKey};
use gitwork::core::observed::ObservedWork;
use gitwork::core::plan::Effect;
use gitwork::core::record::Record;
use gitwork::hub::{Hub, HubError, HubEvent, StoredRecord};
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use super::bugs::{self, Bug};
use super::check::Checker;
use super::git::Reads;
use crate::simulation::hub::SimulatedHub;

/// How often each fault strikes, in percent of the calls that it may strike.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weather {
    pub request_lost: u8,
    pub answer_lost: u8,
    pub conflict: u8,
    pub throttled: u8,
    pub refused: u8,
    /// Calls and events that take up to twenty seconds.
    pub slow: u8,
    /// A list that is older than what the process has been told already.
    pub stale_list: u8,
}

/// When a process is to be killed: at its n-th write from now, before or after it is done.
#[derive(Debug, Clone, Copy)]
pub struct Crash {
    pub writes: u32,
    pub after: bool,
}

pub struct Net {
    pub weather: Weather,
    pub crash: Option<Crash>,
    random: fastrand::Rng,
    /// What the last list told, and when.
    listed: Option<(Instant, Vec<ObservedWork>)>,
    /// How often the hub was restored: that ends all connections.
    restores: u32,
}

/// One process' connection.
#[derive(Clone)]
pub struct Line {
    pub hub: SimulatedHub,
    pub checker: Checker,
    pub reads: Reads,
    pub net: Arc<Mutex<Net>>,
    /// True while nothing gets through.
    pub cut: watch::Receiver<bool>,
    /// Told once the process is to be killed.
    pub crashed: Arc<Notify>,
    pub bug: Option<Bug>,
}

type Answer = Result<Option<ObservedWork>, HubError>;

fn unavailable(message: &str, retry_after_seconds: Option<u64>) -> HubError {
    HubError::Unavailable { message: message.into(), retry_after_seconds }
}

/// How far an API server may lag behind. Kubernetes promises no lag at all for the lists that gitwork asks for.
const LAG: Duration = Duration::from_secs(120);
/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

impl Net {
    pub fn new(seed: u64, weather: Weather) -> Arc<Mutex<Self>> {
        let random = fastrand::Rng::with_seed(seed);
        Arc::new(Mutex::new(Self { weather, crash: None, random, listed: None, restores: 0 }))
    }

    /// The hub is another one now.
    pub fn restored(&mut self) {
        self.listed = None;
        self.restores += 1;
    }

    fn strikes(&mut self, percent: u8) -> bool {
        percent > 0 && self.random.u8(..100) < percent
    }

    fn latency(&mut self) -> Duration {
        let slow = self.weather.slow;
        let most = if self.strikes(slow) { 20_000 } else { 40 };
        Duration::from_millis(self.random.u64(1..most))
    }

    /// Whether the process ends here.
    fn crashes(&mut self, after: bool) -> bool {
        let Some(crash) = self.crash.as_mut().filter(|crash| crash.after == after) else {
            return false;
        };
        if crash.writes > 0 {
            crash.writes -= 1;
            return false;
        }
        self.crash = None;
        true
    }
}

impl Line {
    fn net(&self) -> MutexGuard<'_, Net> {
        self.net.lock().unwrap()
    }

    /// The way there.
    async fn request(&self) -> Result<(), HubError> {
        let latency = self.net().latency();
        sleep(latency).await;
        let cut = *self.cut.borrow();
        let (lost, throttled) = {
            let mut net = self.net();
            let Weather { request_lost, throttled, .. } = net.weather;
            let seconds = net.random.u64(1..30);
            (cut || net.strikes(request_lost), net.strikes(throttled).then_some(seconds))
        };
        if lost {
            sleep(PATIENCE).await;
            return Err(unavailable("nothing came back", None));
        }
        match throttled {
            Some(seconds) => Err(unavailable("too many requests", Some(seconds))),
            None => Ok(()),
        }
    }

    /// The way back.
    async fn answer<T>(&self, answer: Result<T, HubError>) -> Result<T, HubError> {
        let (latency, lost, restores) = {
            let mut net = self.net();
            let lost = net.weather.answer_lost;
            (net.latency(), net.strikes(lost), net.restores)
        };
        if lost || *self.cut.borrow() {
            sleep(PATIENCE).await;
            return Err(unavailable("the answer was lost", None));
        }
        sleep(latency).await;
        if self.net().restores != restores {
            return Err(unavailable("the connection closed", None));
        }
        answer
    }

    /// The process is killed here, where that is due.
    async fn crash_point(&self, after: bool) {
        if self.net().crashes(after) {
            self.crashed.notify_one();
            std::future::pending::<()>().await;
        }
    }

    fn refuses(&self, key: &WorkKey) -> Option<HubError> {
        let mut net = self.net();
        let Weather { conflict, refused, .. } = net.weather;
        let key = key.to_string();
        if net.strikes(conflict) {
            return Some(HubError::Stale { key });
        }
        let message = "an admission webhook said no".into();
        net.strikes(refused).then_some(HubError::Refused { key, message })
    }

    /// The write itself, before the checkers' eyes.
    fn write(&self, key: &WorkKey, effect: &Effect, commit: Option<CommitId>) -> Answer {
        let mut effect = effect.clone();
        if let Some(bug) = self.bug {
            let there = self.there(key);
            bug.spoil_new(&mut effect);
            effect = bug.spoil_effect(&effect, there.as_ref()).unwrap_or(effect);
        }
        let before = self.hub.object(key);
        let mut answer = self.hub.call(key, &effect, commit);
        if self.bug == Some(Bug::ConflictRetriedBlindly)
            && matches!(answer, Err(HubError::Stale { .. }))
            && let Some(there) = self.there(key)
        {
            effect = bugs::with_version(&effect, &there);
            answer = self.hub.call(key, &effect, commit);
        }
        if answer.is_ok() && matches!(effect, Effect::Update { .. }) {
            let patch = match self.bug {
                Some(Bug::FinalizersOverwritten) => json!({"metadata": {"finalizers": null}}),
                Some(Bug::UserLabelsWiped) => json!({"metadata": {"labels": {"foreign": null}}}),
                _ => json!({}),
            };
            let _unchanged = self.hub.user_patches(key, &patch);
        }
        self.checker.wrote(key, &effect, commit, before.as_deref(), &answer, &self.reads);
        answer
    }

    fn there(&self, key: &WorkKey) -> Option<ObservedWork> {
        self.hub.observed(key)
    }

    fn spoiled(&self, mut work: ObservedWork) -> ObservedWork {
        if let Some(bug) = self.bug {
            bug.spoil_work(&mut work);
        }
        work
    }

    fn all(&self, source: &SourceId) -> Vec<ObservedWork> {
        if self.bug == Some(Bug::ForeignCountedAsOurs) {
            let mut all = self.hub.works_of(None);
            all.iter_mut().for_each(|work| work.source = Some(source.to_string()));
            return all;
        }
        self.hub.works_of(Some(source)).into_iter().map(|work| self.spoiled(work)).collect()
    }

    async fn executed(&self, key: &WorkKey, effect: &Effect, commit: Option<CommitId>) -> Answer {
        if let Err(error) = self.request().await {
            if self.bug == Some(Bug::LostWriteTakenForDone) {
                let gone = matches!(effect, Effect::Delete { .. });
                return Ok(self.there(key).filter(|_| !gone));
            }
            return Err(error);
        }
        self.crash_point(false).await;
        let answer = match self.refuses(key) {
            Some(refusal) => Err(refusal),
            None => self.write(key, effect, commit),
        };
        self.crash_point(true).await;
        let answer = answer.map(|work| work.map(|work| self.spoiled(work)));
        self.answer(answer).await
    }
}

/// What a watch is at.
enum Watching {
    Begin {
        lists: bool,
    },
    /// A list that was older than what is there: what came after it is still to be told.
    CatchUp {
        events: Vec<HubEvent>,
        follow: BoxStream<'static, HubEvent>,
    },
    Follow(BoxStream<'static, HubEvent>),
    Broken,
}

impl Line {
    async fn next_event(self, source: SourceId, at: Watching) -> (Vec<HubEvent>, Watching) {
        let latency = self.net().latency();
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
                let event = match event {
                    HubEvent::Changed(work) => HubEvent::Changed(Box::new(self.spoiled(*work))),
                    HubEvent::Gone(_) if self.bug == Some(Bug::DeletionNotNoticed) => {
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
                let lists = self.bug != Some(Bug::CutWatchNotListedAnew);
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
        // The first event is the list, of this very moment.
        let _listed = follow.next().await;
        let now = self.all(source);
        let stale = {
            let mut net = self.net();
            let before = net.listed.replace((Instant::now(), now.clone()));
            let percent = net.weather.stale_list;
            let strikes = before.is_some() && net.strikes(percent);
            before.filter(|(told, _)| strikes && told.elapsed() <= LAG)
        };
        sleep(latency).await;
        if !lists {
            return (Vec::new(), Watching::Follow(follow));
        }
        let Some((_, stale)) = stale else {
            return (vec![HubEvent::Listed(now)], Watching::Follow(follow));
        };
        let gone = stale.iter().filter(|old| now.iter().all(|new| new.key != old.key));
        let gone = gone.map(|work| HubEvent::Gone(work.key.clone()));
        let events: Vec<HubEvent> =
            gone.chain(now.iter().map(|work| HubEvent::Changed(Box::new(work.clone())))).collect();
        (vec![HubEvent::Listed(stale)], Watching::CatchUp { events, follow })
    }
}

impl Hub for Line {
    fn watch(&self, source: &SourceId) -> BoxStream<'static, HubEvent> {
        let start = (self.clone(), source.clone(), Watching::Begin { lists: true });
        stream::unfold(start, |(line, source, at)| async {
            let (events, at) = line.clone().next_event(source.clone(), at).await;
            Some((stream::iter(events), (line, source, at)))
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
            self.answer(Ok(self.hub.works_of(source))).await
        })
    }

    fn get<'a>(&'a self, key: &'a WorkKey) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            self.request().await?;
            let there = self.there(key).map(|work| self.spoiled(work));
            self.answer(Ok(there)).await
        })
    }

    fn directives<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Directives, HubError>> {
        Box::pin(async move {
            self.request().await?;
            let mut said = self.hub.directives(source).await;
            if let (Some(bug), Ok(said)) = (self.bug, &mut said) {
                bug.spoil_directives(said, &self.hub.works_of(Some(source)));
            }
            self.answer(said).await
        })
    }

    fn record<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Option<StoredRecord>, HubError>> {
        Box::pin(async move {
            self.request().await?;
            let found = self.hub.record(source).await;
            self.answer(found).await
        })
    }

    fn set_record<'a>(
        &'a self,
        source: &'a SourceId,
        record: &'a Record,
        before: Option<&'a StoredRecord>,
    ) -> BoxFuture<'a, Result<StoredRecord, HubError>> {
        Box::pin(async move {
            self.request().await?;
            let written = self.hub.set_record(source, record, before).await;
            self.checker.trace(|| format!("record: {record:?}: {}", written.is_ok()));
            self.answer(written).await
        })
    }

    fn execute<'a>(
        &'a self,
        key: &'a WorkKey,
        effect: &'a Effect,
        commit: Option<CommitId>,
    ) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let began = Instant::now();
            let answer = self.executed(key, effect, commit).await;
            self.checker.answered(key, effect, began, &answer);
            answer
        })
    }
}
