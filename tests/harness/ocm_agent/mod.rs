//! A double of OCM's work agent, which the tests cannot build. It acts on real API servers and
//! does what upstream's does to works, to objects and to their owners. Above all it has upstream's
//! order of events: separate controllers with queues of their own, informers whose caches lag
//! behind, runs that can be delayed before each request, and kills between any two requests. A
//! test chooses all of it with an [`OrderChooser`].
//!
//! It judges this project's own agent too, so nothing about ownership and deletion is shared with
//! it. Not there: executors, the watch of feedback, `Update` of a few kinds with routines of their
//! own (`VolumeSnapshotClass` and others), and the hub's validation.
//!
//! ```ignore
//! let mut agent = OcmAgent::new(hub.client(), managed.client(), "edge-0", &hub_hash);
//! let mut order = OrderChooser::seeded(7);
//! agent.settle(&mut order).await;
//! ```

mod apply;
mod availability;
mod conditions;
mod config;
mod context;
mod controller;
mod events;
mod finalizers;
mod gate;
mod informer;
mod json;
mod order;
mod owners;
mod queue;
mod requests;
mod unmanaged;
mod update;
mod work_controller;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use context::{Context, Identity, RunOutcome};
use controller::Controller;
use gate::Run;
use informer::Informer;
use json::{name, text};
use queue::{Delay, WorkQueue};
use requests::{Mappings, RequestError, Requests};

pub use order::{Choice, OrderChooser};

/// Far beyond what a test's works take on an idle machine.
const DEADLINE: Duration = Duration::from_secs(300);

/// The pause before a key is tried again, doubled with each failure, if nothing else can happen.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The double. Nothing happens between its steps.
pub struct OcmAgent {
    context: Context,
    works: Informer,
    applied: Informer,
    queues: BTreeMap<Controller, WorkQueue>,
    runs: Vec<ActiveRun>,
    /// When a key was tried again last, as the length of the trace. No key waits for ever.
    tried: BTreeMap<(Controller, String), usize>,
    /// Whether the caches have been filled.
    is_started: bool,
    /// Whether the informers have seen all that is on the servers, if nobody else has written.
    is_observed: bool,
    /// How far timers are.
    clock: Duration,
    trace: Vec<String>,
}

struct ActiveRun {
    controller: Controller,
    key: String,
    run: Run<RunOutcome>,
}

/// What can happen next.
enum Action {
    DeliverWork,
    DeliverApplied,
    Resume(usize),
    Start(Controller, String),
    Retry(Controller, String, Delay),
    ElapseTimer(Duration),
}

impl OcmAgent {
    /// An agent that has not listed anything. The hash of the hub's URL is also its agent id.
    pub fn new(hub: Client, cluster: Client, cluster_name: &str, hub_hash: &str) -> Self {
        let identity = Identity {
            cluster_name: cluster_name.to_owned(),
            hub_hash: hub_hash.to_owned(),
            agent_id: hub_hash.to_owned(),
            eviction_grace: Duration::from_hours(1),
        };
        let requests = |client| Requests { client, mappings: Mappings::default(), gate: None };
        let context = Context {
            identity,
            hub: requests(hub),
            cluster: requests(cluster),
            caches: std::sync::Arc::default(),
            now: Timestamp::UNIX_EPOCH,
        };
        let (works, applied) = informers(&context);
        Self {
            context,
            works,
            applied,
            queues: BTreeMap::new(),
            runs: Vec::new(),
            tried: BTreeMap::new(),
            is_started: false,
            is_observed: false,
            clock: Duration::ZERO,
            trace: Vec::new(),
        }
    }

    /// What has happened so far, one line each.
    pub fn trace(&self) -> &[String] {
        &self.trace
    }

    /// The AppliedManifestWork of a work.
    pub fn applied_name(&self, work: &str) -> String {
        self.context.identity.applied_name(work)
    }

    /// Kills the process and starts it again: runs end where they are. The caches are full before
    /// the first run.
    ///
    /// # Panics
    /// If a server cannot be listed for five minutes.
    pub async fn restart(&mut self) {
        self.trace.push("start".to_owned());
        self.is_started = true;
        self.runs.clear();
        self.queues.clear();
        self.context = self.context.of_new_process();
        (self.works, self.applied) = informers(&self.context);
        let deadline = Instant::now() + DEADLINE;
        while let Err(error) = self.observe().await {
            assert!(Instant::now() < deadline, "the agent does not start: {error}");
            sleep(PAUSE).await;
        }
        while self.works.next().is_some() {
            self.deliver_work();
        }
        while self.applied.next().is_some() {
            self.deliver_applied();
        }
    }

    /// Lets time pass: timers of it elapse, such as those of the regular passes.
    pub fn pass_time(&mut self, time: Duration) {
        self.trace.push(format!("{time:?} pass"));
        self.clock += time;
        for queue in self.queues.values_mut() {
            queue.elapse(self.clock);
        }
    }

    /// Takes steps until nothing is left to do: no change is undelivered, and no run is under way
    /// or due. What has failed many times with nothing else to do is left, and so are timers.
    /// Nobody else may write works meanwhile: they are seen with its own next write, or at the end.
    ///
    /// # Panics
    /// If that takes more than five minutes.
    pub async fn settle(&mut self, order: &mut OrderChooser) {
        let deadline = Instant::now() + DEADLINE;
        self.is_observed = false;
        while self.step_alone(order).await {
            assert!(Instant::now() < deadline, "it does not settle: {:#?}", self.trace);
        }
    }

    /// Takes steps until a probe has a value, also where nothing is left to do.
    ///
    /// # Panics
    /// If that takes more than five minutes.
    pub async fn step_until<T>(
        &mut self,
        order: &mut OrderChooser,
        what: &str,
        mut probe: impl AsyncFnMut() -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(value) = probe().await {
                return value;
            }
            assert!(Instant::now() < deadline, "waited for {what}: {:#?}", self.trace);
            if !self.step(order).await {
                sleep(PAUSE).await;
            }
        }
    }

    /// Lets one thing happen: a delivery to a cache, the start of a run, or one request of a run.
    /// Where the order does not interleave runs, a run goes on to its end. Returns whether there
    /// was anything to do.
    pub async fn step(&mut self, order: &mut OrderChooser) -> bool {
        self.is_observed = false;
        self.step_alone(order).await
    }

    /// A step that reads the servers only after a write of its own, and if nothing is left to do.
    /// What others write is seen then.
    pub async fn step_alone(&mut self, order: &mut OrderChooser) -> bool {
        if !self.is_started {
            self.restart().await;
        }
        let mut observed = Ok(());
        let mut actions = if self.is_observed { self.actions() } else { Vec::new() };
        if actions.is_empty() {
            observed = self.observe().await;
            actions = self.actions();
        }
        if actions.is_empty() {
            if observed.is_err() {
                // In an outage, informers try again.
                sleep(PAUSE).await;
            }
            return observed.is_err();
        }
        if order.kills() {
            self.restart().await;
            return true;
        }
        let is_idle = actions.iter().all(|action| matches!(action, Action::Retry(..)));
        if let Some(due) = self.next_timer()
            && order.timer_elapses()
        {
            actions.push(Action::ElapseTimer(due));
        }
        let choices: Vec<Choice> = actions.iter().map(|action| self.choice(action)).collect();
        let index = order.choose(&choices);
        self.trace.push(choices[index].label.clone());
        self.act(actions.swap_remove(index), is_idle).await;
        while !order.interleaves() && !self.runs.is_empty() {
            self.resume(0).await;
        }
        true
    }

    async fn act(&mut self, action: Action, is_idle: bool) {
        match action {
            Action::DeliverWork => self.deliver_work(),
            Action::DeliverApplied => self.deliver_applied(),
            Action::Resume(index) => self.resume(index).await,
            Action::Start(controller, key) => {
                self.queue(controller).take(&key);
                self.start(controller, key).await;
            }
            Action::Retry(controller, key, delay) => {
                if is_idle {
                    sleep(pause(delay)).await;
                }
                self.tried.insert((controller, key.clone()), self.trace.len());
                self.queue(controller).take_retry(&key);
                self.start(controller, key).await;
            }
            Action::ElapseTimer(due) => self.pass_time(due.saturating_sub(self.clock)),
        }
    }

    /// Reads both servers.
    async fn observe(&mut self) -> Result<(), RequestError> {
        let identity = self.context.identity.clone();
        let is_ours = |applied: &Value| {
            name(applied).starts_with(&identity.hub_hash)
                || text(applied, "/spec/agentID") == identity.agent_id
        };
        let works = self.works.observe(|_| true);
        let (works, applied) = tokio::join!(works, self.applied.observe(is_ours));
        let observed = works.and(applied);
        self.is_observed = observed.is_ok();
        observed
    }

    /// What can happen now, that which brings the agent forward first.
    fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.works.next().is_some() {
            actions.push(Action::DeliverWork);
        }
        if self.applied.next().is_some() {
            actions.push(Action::DeliverApplied);
        }
        actions.extend((0..self.runs.len()).map(Action::Resume));
        let free = || self.queues.iter().filter(|(of, queue)| queue.running() < of.workers());
        for (controller, queue) in free() {
            let ready = queue.ready().iter();
            actions.extend(ready.map(|key| Action::Start(*controller, key.clone())));
        }
        let mut retries: Vec<(Controller, &str, Delay)> = Vec::new();
        for (controller, queue) in free() {
            retries.extend(queue.retries().map(|(key, delay)| (*controller, key, delay)));
        }
        retries.sort_by_key(|(controller, key, _)| {
            self.tried.get(&(*controller, (*key).to_owned())).copied()
        });
        for (controller, key, delay) in retries {
            actions.push(Action::Retry(controller, key.to_owned(), delay));
        }
        actions
    }

    fn choice(&self, action: &Action) -> Choice {
        let deliver = |kind: &str, informer: &Informer| {
            let object = informer.next().map(|event| name(event.object()));
            (format!("{kind} informer"), format!("deliver {}", object.unwrap_or_default()))
        };
        let (actor, what) = match action {
            Action::DeliverWork => deliver("work", &self.works),
            Action::DeliverApplied => deliver("applied work", &self.applied),
            Action::Resume(index) => {
                let ActiveRun { controller, key, run } = &self.runs[*index];
                (format!("{controller:?} {key}"), run.request())
            }
            Action::Start(controller, key) => (format!("{controller:?} {key}"), "start".into()),
            Action::Retry(controller, key, _) => (format!("{controller:?} {key}"), "retry".into()),
            Action::ElapseTimer(_) => ("timer".to_owned(), "elapse".to_owned()),
        };
        Choice { label: format!("{actor}: {what}"), actor }
    }

    fn queue(&mut self, controller: Controller) -> &mut WorkQueue {
        self.queues.entry(controller).or_default()
    }

    fn next_timer(&self) -> Option<Duration> {
        self.queues.values().filter_map(WorkQueue::next_timer).min()
    }

    /// Starts a run, which reads its objects from the caches and stops before its first request.
    async fn start(&mut self, controller: Controller, key: String) {
        let offset = SignedDuration::try_from(self.clock).unwrap_or_default();
        self.context.now = Timestamp::now() + offset;
        let run = controller.run(&key, &self.context);
        self.runs.push(ActiveRun { controller, key, run });
        self.resume(self.runs.len() - 1).await;
    }

    async fn resume(&mut self, index: usize) {
        let request = self.runs[index].run.request();
        self.is_observed &= request.is_empty() || request.starts_with("GET ");
        let Some(outcome) = self.runs[index].run.advance().await else { return };
        let ActiveRun { controller, key, .. } = self.runs.remove(index);
        if let Err(error) = &outcome {
            self.trace.push(format!("{controller:?} {key}: failed: {error}"));
        }
        let clock = self.clock;
        self.queue(controller).done(&key, &outcome, clock);
    }
}

fn informers(context: &Context) -> (Informer, Informer) {
    let works = context.identity.work_address("");
    let applied = context.identity.applied_address("");
    (Informer::new(context.hub.clone(), works), Informer::new(context.cluster.clone(), applied))
}

fn pause(delay: Delay) -> Duration {
    match delay {
        Delay::Failed(count) => (PAUSE * 2_u32.pow(count.min(16))).min(PAUSE_MAX),
        Delay::Waiting => PAUSE * 4,
    }
}
