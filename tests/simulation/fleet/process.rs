//! A gitwork process: the engine's real loop with a line to the hub and a source of its own.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use gitwork::core::config::Budgets;
use gitwork::core::name::SourceId;
use gitwork::core::plan::Policy;
use gitwork::daemon::engine::{Engine, EngineError, EngineOptions, WallClock};
use gitwork::daemon::guards::GuardOptions;
use gitwork::daemon::metrics::Metrics;
use gitwork::hub::execute::ExecuteOptions;
use jiff::Timestamp;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::bugs::Bug;
use super::check::Checker;
use super::git::Git;
use super::line::{Crash, Line, Net, Weather};
use super::wall::{Hours, Wall};
use crate::simulation::hub::SimulatedHub;

/// Time between two fetches.
const INTERVAL: Duration = Duration::from_secs(300);

pub struct Process {
    task: JoinHandle<Result<(), EngineError>>,
    hint: mpsc::Sender<()>,
    stop: watch::Sender<bool>,
    cut: watch::Sender<bool>,
    net: Arc<Mutex<Net>>,
}

/// An engine is asked to go on so often at one moment, at most; tokio has it pause after 128 timers that are due.
const POLLS_MAX: u32 = 100;

/// What a process is made with.
pub struct Setting<'a> {
    pub id: &'a SourceId,
    pub hub: &'a SimulatedHub,
    pub git: &'a Git,
    pub checker: &'a Checker,
    pub budgets: &'a Budgets,
    pub crashed: &'a Arc<Notify>,
    pub weather: Weather,
    /// The operator's hours for changes, and the clock that they go by.
    pub hours: Hours,
    pub wall: &'a Wall,
    pub bug: Option<Bug>,
    pub seed: u64,
}

/// A loop that goes on and on while no time passes is busy with nothing.
async fn counted<T>(run: impl Future<Output = T>, checker: Checker) -> T {
    let mut run = Box::pin(run);
    let (mut at, mut polls) = (Instant::now(), 0_u32);
    std::future::poll_fn(move |context| {
        if at != Instant::now() {
            (at, polls) = (Instant::now(), 0);
        }
        polls += 1;
        if polls > POLLS_MAX {
            checker.fail(|| "an engine is busy with nothing".into());
            return Poll::Pending;
        }
        run.as_mut().poll(context)
    })
    .await
}

/// What tells the process the time of day.
fn clock(setting: &Setting<'_>) -> WallClock {
    let (wall, latest) = (setting.wall.clone(), AtomicI64::new(i64::MIN));
    let is_monotonic = setting.bug == Some(Bug::ClockTakenForMonotonic);
    Box::new(move || {
        let now = wall.now();
        let before = latest.fetch_max(now.as_second(), Ordering::Relaxed);
        let told = if is_monotonic { before.max(now.as_second()) } else { now.as_second() };
        Timestamp::from_second(told).unwrap_or(now)
    })
}

impl Process {
    pub fn start(setting: &Setting<'_>) -> Self {
        let source = setting.git.source(setting.id, setting.seed, setting.bug);
        let net = Net::new(setting.seed, setting.weather);
        let (cut, is_cut) = watch::channel(false);
        let line = Line {
            hub: setting.hub.clone(),
            checker: setting.checker.clone(),
            reads: source.reads.clone(),
            net: net.clone(),
            cut: is_cut,
            crashed: setting.crashed.clone(),
            bug: setting.bug,
        };
        let mut budgets = setting.budgets.clone();
        if setting.bug == Some(Bug::BudgetIgnored) {
            budgets = Budgets { works: Some(1_000), percent: Some(100), cluster: Some(1_000) };
        }
        let allow_delete_all = setting.bug == Some(Bug::BudgetIgnored);
        let policy = Policy { budgets, allow_delete_all, ..Policy::default() };
        let ignores_windows = setting.bug == Some(Bug::WindowsIgnored);
        let windows = if ignores_windows { Hours::default() } else { setting.hours }.to_windows();
        let guards = GuardOptions { policy, windows, ..GuardOptions::default() };
        let options =
            EngineOptions { interval: INTERVAL, guards, execute: ExecuteOptions::default() };
        let mut engine = Engine::new(Arc::new(line), source, options, Arc::new(Metrics::default()));
        engine.set_wall_clock(clock(setting));
        let (hint, hints) = mpsc::channel(1);
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(counted(engine.run(hints, stopped), setting.checker.clone()));
        Self { task, hint, stop, cut, net }
    }

    /// Tells it that there is something new in Git.
    pub fn hint(&self) {
        let _full = self.hint.try_send(());
    }

    /// Nothing gets through between it and the hub for so long.
    pub fn cut(&self, time: Duration) {
        let cut = self.cut.clone();
        cut.send_replace(true);
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            cut.send_replace(false);
        });
    }

    pub fn crash_at(&self, crash: Crash) {
        self.net.lock().unwrap().crash = Some(crash);
    }

    pub fn set_weather(&self, weather: Weather) {
        let mut net = self.net.lock().unwrap();
        net.weather = weather;
        net.crash = None;
    }

    /// What was on its way from the one before is lost, and no list is answered any more that is older than this moment.
    pub fn meet_restored_hub(&self) {
        self.net.lock().unwrap().restored();
    }

    pub fn mend_line(&self) {
        self.cut.send_replace(false);
    }

    /// Ends it where it stands, as SIGKILL does.
    pub fn kill(self) {
        self.task.abort();
    }

    /// Has it shut down, and waits for its end.
    pub async fn stop(self) -> Result<(), String> {
        self.stop.send_replace(true);
        match self.task.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("the engine ended: {error}")),
            Err(error) => Err(format!("the engine ended: {error}")),
        }
    }

    /// Whether it came to an end by itself, which it never should.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}
