//! A gitwork process: the engine's real loop with its own connection to the hub and its own source.

use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use gitwork_core::config::Budgets;
use gitwork_core::config::RewindPolicy;
use gitwork_core::limits;
use gitwork_core::plan::PlanPolicy;
use gitwork_daemon::engine::{Engine, EngineError, EngineOptions};
use gitwork_daemon::facts_feed::facts_feed;
use gitwork_daemon::leadership::Leadership;
use gitwork_daemon::metrics::Metrics;
use gitwork_daemon::reader::SourceReader;
use gitwork_daemon::status_publisher::Reachability;
use gitwork_hub::execute::ExecuteOptions;
use gitwork_report::status::source::SourceStatus;
use gitwork_runtime::clock::WallClock;
use gitwork_sync::guards::GuardOptions;
use jiff::Timestamp;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::bugs::Bug;
use super::check::Checker;
use super::connection::{Connection, CrashPoint, FaultRates, Network};
use super::git::{ReadLog, SimulatedSource};
use super::groups::hub_facts::FactsOnHub;
use super::groups::repository::GroupSource;
use super::machine_clock::{DailyHours, MachineClock};
use crate::hub::SimulatedHub;

/// The time between two fetches.
const INTERVAL: Duration = Duration::from_secs(300);

pub struct Process {
    task: JoinHandle<Result<(), EngineError>>,
    /// Reads the facts of the hub.
    facts: Option<JoinHandle<()>>,
    hint: mpsc::Sender<()>,
    stop: watch::Sender<bool>,
    /// True while this process is the leader.
    leads: watch::Sender<bool>,
    cut: watch::Sender<bool>,
    /// When the connection was cut last.
    cut_at: Instant,
    network: Arc<Mutex<Network>>,
    /// The status of the source, if it is published.
    pub status: Option<watch::Receiver<Option<Arc<SourceStatus>>>>,
}

/// The largest number of polls of an engine at one moment. Tokio pauses it after 128 due timers.
const POLLS_MAX: u32 = 100;

/// The parameters of a process.
pub struct ProcessOptions<'a> {
    pub hub: &'a SimulatedHub,
    pub checker: &'a Checker,
    pub budgets: &'a Budgets,
    /// Whether there is no deletion budget.
    pub allow_delete_all: bool,
    pub crashed: &'a Arc<Notify>,
    pub fault_rates: FaultRates,
    /// The operator's hours for changes, and their clock.
    pub hours: DailyHours,
    pub machine_clock: &'a MachineClock,
    pub bug: Option<Bug>,
    /// Whether another process of the source ran before.
    pub is_restarted: bool,
    pub seed: u64,
}

/// What a process reads from the hub besides works.
#[derive(Default)]
pub struct HubReads<'a> {
    /// ManagedClusters and Placements.
    pub facts: Option<&'a FactsOnHub>,
    /// The clusters that the hub cannot reach.
    pub reach: Option<Reachability>,
}

/// Fails if the loop runs on and on while no time passes.
async fn counted<T>(run: impl Future<Output = T>, checker: Checker) -> T {
    let mut run = Box::pin(run);
    let (mut at, mut polls) = (Instant::now(), 0_u32);
    std::future::poll_fn(move |context| {
        if at != Instant::now() {
            (at, polls) = (Instant::now(), 0);
        }
        polls += 1;
        if polls > POLLS_MAX {
            checker.fail(|| "an engine is busy without a result".into());
            return Poll::Pending;
        }
        run.as_mut().poll(context)
    })
    .await
}

/// The wall clock of the process.
fn clock(setting: &ProcessOptions<'_>) -> WallClock {
    let (machine_clock, latest) = (setting.machine_clock.clone(), Mutex::new(Timestamp::MIN));
    let is_monotonic = setting.bug == Some(Bug::ClockAssumedMonotonic);
    WallClock::new(move || {
        let now = machine_clock.now();
        let mut latest = latest.lock().unwrap();
        *latest = now.max(*latest);
        if is_monotonic { *latest } else { now }
    })
}

/// What the operator sets.
fn engine_options(setting: &ProcessOptions<'_>) -> EngineOptions {
    let mut budgets = setting.budgets.clone();
    if let Some(bug) = setting.bug {
        budgets = bug.spoil_operator_budgets(&budgets);
    }
    let allow_delete_all = setting.allow_delete_all || setting.bug == Some(Bug::BudgetIgnored);
    let policy = PlanPolicy { budgets, allow_delete_all, ..PlanPolicy::default() };
    let ignores_windows = setting.bug == Some(Bug::WindowsIgnored);
    let windows = if ignores_windows { DailyHours::default() } else { setting.hours }.to_windows();
    let rewind = RewindPolicy::Warn;
    let guards = GuardOptions { policy, rewind, windows, ..GuardOptions::default() };
    EngineOptions { interval: INTERVAL, guards, execute: ExecuteOptions::default() }
}

impl Process {
    /// A process with a source that needs no facts of the hub.
    pub fn start(setting: &ProcessOptions<'_>, source: SimulatedSource) -> Self {
        setting.checker.follow_reads(&source.reads);
        let reads = source.reads.clone();
        Self::start_engine(setting, source, reads, HubReads::default())
    }

    /// A process with a source that has groups.
    pub fn start_with_facts(
        setting: &ProcessOptions<'_>,
        source: GroupSource,
        facts: &FactsOnHub,
    ) -> Self {
        let reads = source.reads.clone();
        Self::start_engine(setting, source, reads, HubReads { facts: Some(facts), reach: None })
    }

    /// A process with any source, which publishes its status if it reads the unreachable
    /// clusters.
    pub fn start_engine(
        setting: &ProcessOptions<'_>,
        source: impl SourceReader,
        reads: ReadLog,
        HubReads { facts, reach }: HubReads<'_>,
    ) -> Self {
        let network = Network::new(setting.seed, setting.fault_rates);
        let (cut, is_cut) = watch::channel(false);
        let leads = watch::Sender::new(false);
        let connection = Connection {
            hub: setting.hub.clone(),
            checker: setting.checker.clone(),
            reads,
            network: network.clone(),
            cut: is_cut,
            leads: leads.clone(),
            crashed: setting.crashed.clone(),
            bug: setting.bug,
            is_restarted: setting.is_restarted,
        };
        let mut engine = Engine::new(
            Arc::new(connection.clone()),
            source,
            engine_options(setting),
            Arc::new(Metrics::default()),
        );
        engine.set_wall_clock(clock(setting));
        engine.set_leadership(Leadership::of(leads.subscribe()));
        let status = reach.map(|reach| engine.publish_status(reach));
        // The first attempt has ended.
        leads.send_replace(false);
        let (hint, hints) = mpsc::channel(1);
        let (stop, stopped) = watch::channel(false);
        let facts = facts.map(|facts| {
            let (feed, reader) = facts_feed(clock(setting), limits::PLACEMENT_GRACE);
            engine.set_facts_feed(feed);
            let facts = facts.clone();
            let watch = move || connection.watch_facts(&facts);
            tokio::spawn(reader.run(watch, stopped.clone()))
        });
        let task = tokio::spawn(counted(engine.run(hints, stopped), setting.checker.clone()));
        let cut_at = Instant::now();
        Self { task, facts, hint, stop, leads, cut, cut_at, network, status }
    }

    /// Sends a hint that Git has changed.
    pub fn hint(&self) {
        let _full = self.hint.try_send(());
    }

    /// Cuts the connection to the hub for this time.
    pub fn cut(&mut self, time: Duration) {
        self.cut_at = Instant::now();
        let cut = self.cut.clone();
        cut.send_replace(true);
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            cut.send_replace(false);
        });
    }

    /// Since when the connection is cut; `None` if it is not.
    pub fn cut_since(&self) -> Option<Instant> {
        self.cut.borrow().then_some(self.cut_at)
    }

    /// Whether this process is the leader.
    pub fn leads(&self) -> bool {
        *self.leads.borrow()
    }

    pub fn set_leading(&self, leads: bool) {
        self.leads.send_replace(leads);
    }

    /// Lets the process lose its leadership at a write, after this number of other writes.
    pub fn lose_at(&self, writes: u32) {
        self.network.lock().unwrap().loss = Some(writes);
    }

    /// Whether the process has reached its crash point.
    pub fn has_crashed(&self) -> bool {
        self.network.lock().unwrap().has_crashed
    }

    pub fn crash_at(&self, crash: CrashPoint) {
        self.network.lock().unwrap().crash = Some(crash);
    }

    pub fn set_fault_rates(&self, fault_rates: FaultRates) {
        let mut network = self.network.lock().unwrap();
        network.fault_rates = fault_rates;
        (network.crash, network.loss) = (None, None);
    }

    /// Closes the connections and drops the lists that are older than now.
    pub fn meet_restored_hub(&self) {
        self.network.lock().unwrap().restored();
    }

    pub fn restore_connection(&self) {
        self.cut.send_replace(false);
    }

    /// Ends the process at once, as SIGKILL does. Its requests in flight may still arrive.
    pub fn kill(self) {
        let mut network = self.network.lock().unwrap();
        (network.crash, network.loss) = (None, None);
        drop(network);
        self.task.abort();
        self.facts.iter().for_each(JoinHandle::abort);
    }

    /// Shuts the process down and waits for its end.
    pub async fn stop(self) -> Result<(), String> {
        self.stop.send_replace(true);
        self.facts.iter().for_each(JoinHandle::abort);
        match self.task.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("the engine ended: {error}")),
            Err(error) => Err(format!("the engine ended: {error}")),
        }
    }

    /// Whether the process ended by itself, which it never should.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}
