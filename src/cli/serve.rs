//! The daemon: one engine for each source, leader election, status reporting and the listeners.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::error::CommandError;
use super::exit::Exit;
use super::facts::watch_facts;
use super::hub;
use super::memory;
use super::run_setup::{OpenedSource, PageSetup, Setup, open_all};
use super::signals::Signals;
use gitwork_core::model::name::SourceId;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_daemon::engine::{Engine, EngineError};
use gitwork_daemon::facts_feed::FactsFeed;
use gitwork_daemon::http;
use gitwork_daemon::http::Health;
use gitwork_daemon::leader_elector::{LeaderElector, LedSources};
use gitwork_daemon::leadership::run_while_leader;
use gitwork_daemon::metrics::Metrics;
use gitwork_daemon::page;
use gitwork_daemon::page::Page;
use gitwork_daemon::reporters;
use gitwork_daemon::reporters::Reporting;
use gitwork_daemon::source_report::SourceReporter;
use gitwork_daemon::status_publisher::{Reachability, SourceError};
use gitwork_daemon::transitions::TransitionReporter;
use gitwork_daemon::webhook::Webhooks;
use gitwork_forge::reporter::StatusFeed;
use gitwork_git::watch::{Watch, WatchError};
use gitwork_hub::KubeHub;
use gitwork_hub::fleet;
use gitwork_hub::lease::SourceLease;
use gitwork_hub::source_report::ReportStore;
use gitwork_report::page::SourceInfo;
use gitwork_retry::log_error;
use gitwork_runtime::clock::WallClock;
use gitwork_runtime::limits;
use gitwork_source::{SourceConfig, SourceLocation};

/// A folder is read after it has been unchanged for this time: an editor or `git checkout` writes
/// many files.
const QUIET: Duration = Duration::from_millis(200);

/// Why the daemon did not start, or ended.
#[derive(Debug, thiserror::Error)]
enum DaemonError {
    /// The changes of a source's folder cannot be watched.
    #[error(transparent)]
    Watch(WatchError),
    /// A port is taken, or the address is not one of this machine.
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    /// An engine ended, without an error and before the daemon was stopped.
    #[error("an engine ended on its own; this is a bug in gitwork")]
    EngineEnded,
}

impl OperationError for DaemonError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Watch(error) => error.class(),
            Self::Listen { .. } => ErrorClass::NeedsAction,
            Self::EngineEnded => ErrorClass::Bug,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Watch(error) => error.reason(),
            Self::Listen { .. } => "Listen",
            Self::EngineEnded => "EngineEnded",
        }
    }
}

/// Everything that runs for the sources.
struct Running {
    kube: KubeHub,
    /// The namespace of gitwork's own objects, if it is not the default.
    namespace: Option<String>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    reachability: Reachability,
    facts: FactsFeed,
    led_sources: Arc<LedSources>,
    stop: watch::Receiver<bool>,
    /// Leases are released after the last write.
    release: watch::Receiver<bool>,
    engines: JoinSet<Result<(), EngineError>>,
    reporters: JoinSet<()>,
    leaders: JoinSet<()>,
    watches: Vec<Watch>,
    /// Triggers a fetch of the engine in this process.
    hints: BTreeMap<SourceId, mpsc::Sender<()>>,
    /// Triggers a fetch of the source's leader, in this process or another.
    fetch_requests: BTreeMap<SourceId, mpsc::Sender<()>>,
}

impl Running {
    /// Starts one source; `index` is its position in the set-up.
    fn start(
        &mut self,
        index: usize,
        opened: OpenedSource,
        page: Option<&Page>,
    ) -> Result<(), CommandError> {
        let OpenedSource { source, options, reporting } = opened;
        let config = source.config().clone();
        let (hint, hints) = mpsc::channel(1);
        if let SourceLocation::Directory(folder) = &config.repository {
            self.watches.push(watch_folder(&folder.join(config.path.as_str()), hint.clone())?);
        }
        let identity = source.state_files().holder(&instance());
        let origin = options.guards.origin.clone();
        let candidate = SourceLease::new(self.kube.leases(), &config.id, origin);
        let (led_sources, metrics) = (self.led_sources.clone(), self.metrics.clone());
        let clock = WallClock::system();
        let elector = LeaderElector::new(
            candidate,
            identity,
            led_sources,
            hint.clone(),
            metrics.clone(),
            clock.clone(),
        );
        let leadership = elector.leadership();
        self.hints.insert(config.id.clone(), hint);
        let (fetch_request, fetch_requests) = mpsc::channel(1);
        self.fetch_requests.insert(config.id.clone(), fetch_request);
        let mut engine = Engine::new(Arc::new(self.kube.clone()), source, options, metrics.clone());
        engine.set_wall_clock(clock.clone());
        engine.set_leadership(leadership.clone());
        engine.set_facts_feed(self.facts.clone());
        let health = self.health.clone();
        engine.on_ready(move || health.source_is_ready());
        let feed = engine.publish_status(self.reachability.clone());
        let stop = || self.stop.clone();
        if let Some(page) = page {
            let reported = (feed.clone(), engine.source_error(), leadership.watch());
            self.reporters.spawn(page.clone().follow(index, reported, stop()));
        }
        let info = page::source_info(&config, &reporting, self.namespace.as_deref());
        let reports = StatusReports {
            kube: self.kube.clone(),
            info,
            config,
            reporting,
            feed,
            source_error: engine.source_error(),
            clock,
        };
        let start = reports.starter(metrics)?;
        self.reporters.spawn(run_while_leader(leadership.watch(), stop(), start));
        self.engines.spawn(engine.run(hints, stop()));
        self.leaders.spawn(elector.run(fetch_requests, self.release.clone()));
        Ok(())
    }

    /// Waits for all tasks to end, and then releases the Leases.
    async fn end(mut self, release_sender: &watch::Sender<bool>) {
        let rest = async {
            while self.engines.join_next().await.is_some() {}
            while self.reporters.join_next().await.is_some() {}
        };
        if tokio::time::timeout(limits::SHUTDOWN, rest).await.is_err() {
            tracing::warn!("stopped without waiting for running tasks");
            self.engines.shutdown().await;
        }
        release_sender.send_replace(true);
        let released = async { while self.leaders.join_next().await.is_some() {} };
        if tokio::time::timeout(gitwork_daemon::limits::LEASE_RELEASE, released).await.is_err() {
            tracing::warn!(
                "stopped without releasing the Leases; other replicas take over after they expire"
            );
        }
    }
}

/// Runs the daemon until SIGTERM or SIGINT, or until an engine fails.
pub(super) async fn serve(
    mut setup: Setup,
    kube: KubeHub,
    metrics: Arc<Metrics>,
) -> Result<Exit, CommandError> {
    // First of all: a signal without a handler ends the program at once.
    let signals = Signals::install()?;
    let (stop_sender, stop) = watch::channel(false);
    let (release_sender, release) = watch::channel(false);
    let mut reporters = JoinSet::new();
    let mut running = Running {
        kube,
        namespace: setup.hub.namespace.clone(),
        metrics: metrics.clone(),
        health: Arc::new(Health::new(setup.sources.len())),
        reachability: watch_reachability(&setup, &stop, &mut reporters),
        facts: watch_facts(&setup.hub, setup.placement_grace, &stop, &mut reporters),
        led_sources: Arc::new(LedSources::new(setup.sources.len())),
        stop: stop.clone(),
        release,
        engines: JoinSet::new(),
        reporters,
        leaders: JoinSet::new(),
        watches: Vec::new(),
        hints: BTreeMap::new(),
        fetch_requests: BTreeMap::new(),
    };
    let page = new_page(&setup);
    let opened = open_all(std::mem::take(&mut setup.sources))?;
    for (index, source) in opened.into_iter().enumerate() {
        running.start(index, source, page.as_ref().map(|(_, page)| page))?;
    }
    if let Some((address, page)) = page {
        let listener = listen(address, "listening for browsers: the status page").await?;
        running.reporters.spawn(page.serve(listener, stop.clone()).map(drop));
    }
    if let Some(webhook) = setup.webhook {
        let listener = listen(webhook.listen, "listening for webhooks").await?;
        let webhooks =
            Webhooks::new(webhook.secret_file, running.fetch_requests.clone(), metrics.clone());
        tokio::spawn(webhooks.serve(listener, stop.clone()));
    }
    if let Some(address) = setup.listen {
        let listener = listen(address, "listening for probes and scrapes").await?;
        tokio::spawn(http::serve(listener, metrics, running.health.clone(), stop));
    }
    memory::give_back();
    let ended = tokio::select! {
        ended = running.engines.join_next() => Some(ended),
        () = signals.until_end(&running.hints) => None,
    };
    stop_sender.send_replace(true);
    running.end(&release_sender).await;
    match ended {
        // A signal.
        None => Ok(Exit::Done),
        // An engine ended (`Some`), there was one (`Some`), its task did not panic (`Ok`), and it
        // failed (`Err`).
        Some(Some(Ok(Err(error)))) => Err(error.into()),
        // No engine was running, its task panicked, or it ended without an error before `stop`.
        Some(_) => Err(DaemonError::EngineEnded.into()),
    }
}

/// Triggers a read after the folder has changed and become quiet.
fn watch_folder(folder: &Path, hint: mpsc::Sender<()>) -> Result<Watch, CommandError> {
    // A full channel means that a hint is already waiting.
    let hint = move || {
        let _sent = hint.try_send(());
    };
    Ok(Watch::start(folder, QUIET, hint).map_err(DaemonError::Watch)?)
}

/// The status reports of one source: to its forge, its status branch and the hub.
struct StatusReports {
    kube: KubeHub,
    info: SourceInfo,
    config: SourceConfig,
    reporting: Reporting,
    feed: StatusFeed,
    source_error: SourceError,
    clock: WallClock,
}

impl StatusReports {
    /// The function that starts all reporters, called each time this process becomes the leader.
    ///
    /// # Errors
    /// The reporting cannot be used as configured; this shows at the start, on every replica.
    fn starter(
        self,
        metrics: Arc<Metrics>,
    ) -> Result<impl FnMut(&watch::Receiver<bool>, &mut JoinSet<()>), CommandError> {
        let mut first = Some(self.reporting.prepare(&self.config, &metrics, &self.clock)?);
        Ok(move |ended: &watch::Receiver<bool>, tasks: &mut JoinSet<()>| {
            let prepare = || self.reporting.prepare(&self.config, &metrics, &self.clock);
            let (kube, clock) = (&self.kube, &self.clock);
            let reports = || ReportStore::new(kube.leases());
            match first.take().map_or_else(prepare, Ok) {
                Ok(reporters) => {
                    let reporters = reporters.resuming(reports(), &self.config.id);
                    reporters.start(&self.feed, ended, tasks);
                }
                Err(error) => log_error!(
                    error,
                    &error,
                    source = %self.config.id,
                    "status reporting for this source is off until restart"
                ),
            }
            let report = SourceReporter::new(reports(), self.info.clone(), clock.clone());
            tasks.spawn(report.run(self.feed.clone(), self.source_error.clone(), ended.clone()));
            let transitions = TransitionReporter::new(kube.events(), instance(), clock.clone());
            tasks.spawn(transitions.run(self.feed.clone(), ended.clone()));
        })
    }
}

/// Listens on an address, and logs it with `message`.
async fn listen(address: SocketAddr, message: &'static str) -> Result<TcpListener, CommandError> {
    let failed = |source| DaemonError::Listen { address, source };
    let listener = http::bind(address).await.map_err(failed)?;
    tracing::info!(address = %listener.local_addr().map_err(failed)?, "{message}");
    Ok(listener)
}

/// The name of this replica: in a pod, the pod's name.
pub(super) fn instance() -> String {
    let name = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    name.map_or_else(|| "gitwork".into(), |name| name.chars().take(128).collect())
}

/// The status page and its address, if it is configured.
fn new_page(setup: &Setup) -> Option<(SocketAddr, Page)> {
    let PageSetup { bind, hosts } = setup.page.as_ref()?;
    let namespace = setup.hub.namespace.as_deref();
    let sources = setup.sources.iter();
    let sources =
        sources.map(|source| page::source_info(&source.config, &source.reporting, namespace));
    Some((*bind, Page::new(sources.collect(), hosts.clone())))
}

/// Watches whether the clusters are reachable, if anything reports it.
fn watch_reachability(
    setup: &Setup,
    stop: &watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
) -> Reachability {
    let (sender, reachability) = watch::channel(Arc::default());
    let is_reported = setup.sources.iter().any(|source| !source.reporting.is_empty());
    if is_reported || setup.listen.is_some() || setup.page.is_some() {
        let args = setup.hub.clone();
        let read = move || {
            let args = args.clone();
            async move {
                let client = hub::fleet_client(&args).await?;
                fleet::unreachable(&client).await
            }
            .boxed()
        };
        tasks.spawn(reporters::watch_reach(read, sender, stop.clone()));
    }
    reachability
}
