//! `run`: the daemon, and its single pass.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use futures::FutureExt as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::daemon_file::{self, in_file};
use super::report_args::ReportArgs;
use super::signer_args::SignerArgs;
use super::source_args::{HubArgs, SourceArgs, adoption, rewind};
use super::{Exit, Failure, output, runtime};
use crate::core::adoption::Adoption;
use crate::core::name::{SourceId, check_label};
use crate::core::page::SourceInfo;
use crate::core::plan::Policy;
use crate::core::rewind::RewindPolicy;
use crate::daemon::bulletin::{Reach, Trouble};
use crate::daemon::engine::{Engine, EngineError, EngineOptions};
use crate::daemon::guards::GuardOptions;
use crate::daemon::http::{self, Health};
use crate::daemon::leading::{Leading, Share, while_leading};
use crate::daemon::metrics::Metrics;
use crate::daemon::page::{self, Page};
use crate::daemon::reporters::{self, Reporting};
use crate::daemon::told::ToldReporter;
use crate::daemon::transitions::TransitionReporter;
use crate::daemon::webhook::Webhooks;
use crate::forge::reporter::StatusFeed;
use crate::git::watch::Watch;
use crate::hub::count::Told;
use crate::hub::execute::ExecuteOptions;
use crate::hub::fleet::{self, FleetError};
use crate::hub::lease::SourceLease;
use crate::hub::{Hub, KubeHub, client as hub_client};
use crate::source::{Repository, Source, SourceConfig};
use crate::verification::Verification;
use crate::{heap, limits};

/// A folder is read once nothing has changed in it for so long: an editor or `git checkout` writes many files.
const QUIET: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    hub: HubArgs,
    /// File with several sources and all that flags can say; `gitwork schema daemon` describes it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["branch", "tag", "semver", "commit", "source_id", "verify", "allowed_signers", "openpgp_keys"])]
    config: Option<PathBuf>,
    /// Make one pass, wait for nothing, and end: 0 where the hub is as Git wants it
    #[arg(long)]
    once: bool,
    /// Seconds between two fetches
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    interval: u64,
    #[command(flatten)]
    signers: SignerArgs,
    #[command(flatten)]
    report: ReportArgs,
    /// Let a commit delete every work of the source
    #[arg(long)]
    allow_delete_all: bool,
    /// What to do about a commit that does not build on what was applied, after a forced push for one: hold, warn,
    /// follow
    #[arg(long, value_name = "POLICY", value_parser = rewind, default_value = "warn", conflicts_with = "config")]
    rewind: RewindPolicy,
    /// Which ManifestWorks of others to take over where the source wants their names: never, annotated (with the consent
    /// of who owns it), unowned (those too that nobody owns, if their spec is what Git wants)
    #[arg(long, value_name = "POLICY", value_parser = adoption, default_value = "annotated", conflicts_with = "config")]
    adopt: Adoption,
    /// Address of /healthz, /readyz and /metrics, as in 0.0.0.0:8080
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Address of the status page, as in 127.0.0.1:8081; everybody who can reach it can read it
    #[arg(long, value_name = "ADDRESS")]
    page_bind: Option<SocketAddr>,
    /// Name under which the page answers, besides addresses and names within a cluster (can be repeated)
    #[arg(long, value_name = "NAME")]
    page_host: Vec<String>,
    /// Address of POST /hook, where webhooks have the sources fetched at once; not that of --listen
    #[arg(
        long,
        value_name = "ADDRESS",
        requires = "webhook_secret_file",
        conflicts_with = "config"
    )]
    webhook_listen: Option<SocketAddr>,
    /// File with the secret that webhooks are signed with; read anew at every webhook
    #[arg(long, value_name = "FILE", requires = "webhook_listen")]
    webhook_secret_file: Option<PathBuf>,
    /// Form of the log on stderr; GITWORK_LOG sets its level
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// What the daemon is to do, from flags or a file.
struct Setup {
    sources: Vec<SourceSetup>,
    hub: HubArgs,
    listen: Option<SocketAddr>,
    page: Option<PageSetup>,
    /// Where webhooks come in, and the file of their secret.
    webhook: Option<(SocketAddr, PathBuf)>,
}

/// Where the status page is served.
struct PageSetup {
    bind: SocketAddr,
    hosts: Vec<String>,
}

pub fn run(args: &RunArgs) -> Result<Exit, Failure> {
    start_log(args.log_format);
    let setup = match &args.config {
        Some(file) => from_file(args, file)?,
        None => from_flags(args)?,
    };
    let runtime = runtime()?;
    let exit = runtime.block_on(async {
        let metrics = Arc::new(Metrics::default());
        let counted = metrics.clone();
        let told: Told = Arc::new(move |verb, outcome| counted.hub_request(verb, outcome));
        let (kubeconfig, context) = (setup.hub.kubeconfig.clone(), setup.hub.context.clone());
        let connect = hub_client::counted_connector(kubeconfig, context, &told);
        let hub = KubeHub::connect(connect).await.map_err(Failure::new)?;
        let hub = hub.in_namespace(setup.hub.namespace());
        if args.once {
            once(setup, Arc::new(hub), metrics).await
        } else {
            serve(setup, hub, metrics).await
        }
    });
    // A fetch that hangs in the network must not hold up the end.
    runtime.shutdown_timeout(Duration::from_secs(1));
    exit
}

/// A client for commands that only read.
pub async fn client(args: &HubArgs) -> Result<kube::Client, Failure> {
    let config = hub_client::config(args.kubeconfig.as_deref(), args.context.as_deref())
        .await
        .map_err(Failure::new)?;
    hub_client::client(config).map_err(Failure::new)
}

fn start_log(format: LogFormat) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("GITWORK_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let filter = crate::logs::without_answers(filter);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // An error says that a log is installed already, which only a test does.
    let _installed = match format {
        LogFormat::Text => {
            let colour =
                anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
            log.with_ansi(colour).with_target(false).try_init()
        }
        LogFormat::Json => log.json().flatten_event(true).with_target(false).try_init(),
    };
}

fn engine_options(interval: u64, guards: GuardOptions, concurrency: usize) -> EngineOptions {
    let execute = ExecuteOptions { concurrency, ..ExecuteOptions::default() };
    EngineOptions { interval: Duration::from_secs(interval), guards, execute }
}

fn from_flags(args: &RunArgs) -> Result<Setup, Failure> {
    let concurrency = ExecuteOptions::default().concurrency;
    let (adoption, allow_delete_all) = (args.adopt, args.allow_delete_all);
    let policy = Policy { allow_delete_all, adoption, ..Policy::default() };
    let guards = GuardOptions { policy, rewind: args.rewind, ..GuardOptions::default() };
    let options = engine_options(args.interval, guards, concurrency);
    let verification = args.signers.verification()?.unwrap_or_else(Verification::asking_nothing);
    let sources = vec![(args.source.config()?, verification, options, args.report.reporting())];
    Ok(Setup {
        sources,
        hub: args.hub.clone(),
        listen: args.listen,
        page: args.page_bind.map(|bind| PageSetup { bind, hosts: args.page_host.clone() }),
        webhook: args.webhook_listen.zip(args.webhook_secret_file.clone()),
    })
}

fn from_file(args: &RunArgs, path: &Path) -> Result<Setup, Failure> {
    let file = daemon_file::read(path)?;
    let mut sources = Vec::new();
    for (index, source) in file.sources.iter().enumerate() {
        let config = daemon_file::source_config(path, index, source, file.cache.as_deref())?;
        let guards = daemon_file::guards(path, index, source)?;
        let verification =
            daemon_file::verification(path, index, source, source.signer_keys.clone())?;
        let options = engine_options(source.interval_seconds, guards, file.concurrency);
        let reporting = Reporting {
            commit_status: source.commit_status.clone(),
            status_branch: source.status_branch.clone(),
        };
        sources.push((config, verification, options, reporting));
    }
    if sources.is_empty() {
        return Err(in_file(path, "sources", "there is none; name at least one repository"));
    }
    for (index, (config, ..)) in sources.iter().enumerate() {
        if sources.iter().take(index).any(|(other, ..)| other.id == config.id) {
            let message = format!("the id {:?} is used twice", config.id.as_str());
            return Err(in_file(path, &format!("sources[{index}].id"), &message));
        }
    }
    let address = |text: &String, field: &str| {
        text.parse::<SocketAddr>().map_err(|_| {
            in_file(path, field, &format!("{text:?} is no address as in 0.0.0.0:8080"))
        })
    };
    let listen = file.listen.as_ref().map(|text| address(text, "listen")).transpose()?;
    let webhook = match &file.webhook {
        Some(webhook) => {
            let address = address(&webhook.listen, "webhook.listen")?;
            Some((address, PathBuf::from(&webhook.secret_file)))
        }
        None => None,
    };
    let bound = file.page.as_ref().map(|page| address(&page.bind, "page.bind")).transpose()?;
    let hosts = [file.page.map(|page| page.hosts).unwrap_or_default(), args.page_host.clone()];
    let hosts = hosts.concat();
    let kubeconfig = args.hub.kubeconfig.clone().or(file.kubeconfig.map(PathBuf::from));
    let context = args.hub.context.clone().or(file.context);
    let namespace = args.hub.namespace.clone().or(file.namespace);
    if let Some(Err(why)) = namespace.as_deref().map(|name| check_label(name, 63)) {
        return Err(in_file(path, "namespace", &format!("a namespace's name {why}")));
    }
    Ok(Setup {
        sources,
        hub: HubArgs { kubeconfig, context, namespace },
        listen: args.listen.or(listen),
        page: args.page_bind.or(bound).map(|bind| PageSetup { bind, hosts }),
        webhook,
    })
}

async fn once(setup: Setup, hub: Arc<dyn Hub>, metrics: Arc<Metrics>) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    for (config, verification, options, reporting) in setup.sources {
        let source = open(config, verification, &reporting)?;
        let engine = Engine::new(hub.clone(), source, options, metrics.clone());
        let (plan, desired) = engine.once().await.map_err(Failure::new)?;
        let errors = desired.diagnostics.iter().filter(|found| found.is_error()).count();
        if !plan.is_settled() || errors > 0 {
            let open = plan.steps.iter().filter(|step| !step.is_settled()).count();
            output::note(&format!(
                "source {}: {open} works are not as Git wants them, {errors} errors in Git",
                desired.source
            ));
            exit = Exit::Failed;
        }
    }
    Ok(exit)
}

type SourceSetup = (SourceConfig, Verification, EngineOptions, Reporting);

/// All that runs for the sources.
struct Running {
    kube: KubeHub,
    /// That of gitwork's own objects, where it is not the usual one.
    namespace: Option<String>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    reach: Reach,
    share: Arc<Share>,
    stop: watch::Receiver<bool>,
    /// Leases are held until nothing is written any more.
    release: watch::Receiver<bool>,
    engines: JoinSet<Result<(), EngineError>>,
    reporters: JoinSet<()>,
    leaders: JoinSet<()>,
    watches: Vec<Watch>,
    /// Each has the engine of its source fetch.
    hints: BTreeMap<SourceId, mpsc::Sender<()>>,
    /// The same, or has whoever leads the source do so.
    hooks: BTreeMap<SourceId, mpsc::Sender<()>>,
}

impl Running {
    /// Starts the source of this number.
    fn start(
        &mut self,
        number: usize,
        setup: SourceSetup,
        page: Option<&Page>,
    ) -> Result<(), Failure> {
        let (config, verification, options, reporting) = setup;
        let (hint, hinted) = mpsc::channel(1);
        if let Repository::Directory(folder) = &config.repository {
            self.watches.push(watch_folder(&folder.join(config.path.as_str()), hint.clone())?);
        }
        let source = open(config.clone(), verification, &reporting)?;
        let identity = source.holder(&instance());
        let candidate = SourceLease::new(self.kube.clone(), &config.id);
        let (share, metrics) = (self.share.clone(), self.metrics.clone());
        let leading = Leading::new(candidate, identity, share, hint.clone(), metrics.clone());
        let standing = leading.standing();
        self.hints.insert(config.id.clone(), hint);
        let (hook, hooked) = mpsc::channel(1);
        self.hooks.insert(config.id.clone(), hook);
        let mut engine = Engine::new(Arc::new(self.kube.clone()), source, options, metrics.clone());
        engine.led_by(standing.clone());
        let health = self.health.clone();
        engine.on_ready(move || health.source_is_ready());
        let feed = engine.listen(self.reach.clone());
        let stop = || self.stop.clone();
        if let Some(page) = page {
            let told = (feed.clone(), engine.trouble(), standing.watch());
            self.reporters.spawn(page.clone().follow(number, told, stop()));
        }
        let info = page::source_info(&config, &reporting, self.namespace.as_deref());
        let told = (feed, engine.trouble());
        let start = tell(self.kube.clone(), info, config, reporting, told, metrics)?;
        self.reporters.spawn(while_leading(standing.watch(), stop(), start));
        self.engines.spawn(engine.run(hinted, stop()));
        self.leaders.spawn(leading.run(hooked, self.release.clone()));
        Ok(())
    }

    /// Waits for the end of all, and lets others lead then.
    async fn end(mut self, releasing: &watch::Sender<bool>) {
        let rest = async {
            while self.engines.join_next().await.is_some() {}
            while self.reporters.join_next().await.is_some() {}
        };
        if tokio::time::timeout(limits::SHUTDOWN, rest).await.is_err() {
            tracing::warn!("stopped without waiting for what was under way");
            self.engines.shutdown().await;
        }
        releasing.send_replace(true);
        let released = async { while self.leaders.join_next().await.is_some() {} };
        if tokio::time::timeout(limits::LEASE_RELEASE, released).await.is_err() {
            tracing::warn!("stopped without giving the Leases up; others lead once they expire");
        }
    }
}

async fn serve(mut setup: Setup, kube: KubeHub, metrics: Arc<Metrics>) -> Result<Exit, Failure> {
    // Before all else: a signal that nobody listens for ends the program at once.
    let signals = Signals::listen().map_err(Failure::new)?;
    let (stopping, stop) = watch::channel(false);
    let (releasing, release) = watch::channel(false);
    let mut reporters = JoinSet::new();
    let mut running = Running {
        kube,
        namespace: setup.hub.namespace.clone(),
        metrics: metrics.clone(),
        health: Arc::new(Health::new(setup.sources.len())),
        reach: watch_reach(&setup, &stop, &mut reporters),
        share: Arc::new(Share::new(setup.sources.len())),
        stop: stop.clone(),
        release,
        engines: JoinSet::new(),
        reporters,
        leaders: JoinSet::new(),
        watches: Vec::new(),
        hints: BTreeMap::new(),
        hooks: BTreeMap::new(),
    };
    let page = new_page(&setup);
    for (number, source) in std::mem::take(&mut setup.sources).into_iter().enumerate() {
        running.start(number, source, page.as_ref().map(|(_, page)| page))?;
    }
    if let Some((address, page)) = page {
        let listener = listen(address, "listening for browsers: the status page").await?;
        running.reporters.spawn(page.serve(listener, stop.clone()).map(drop));
    }
    if let Some((address, secret_file)) = setup.webhook {
        let listener = listen(address, "listening for webhooks").await?;
        let webhooks = Webhooks::new(secret_file, running.hooks.clone(), metrics.clone());
        tokio::spawn(webhooks.serve(listener, stop.clone()));
    }
    if let Some(address) = setup.listen {
        let listener = listen(address, "listening for probes and scrapes").await?;
        tokio::spawn(http::serve(listener, metrics, running.health.clone(), stop));
    }
    tokio::spawn(heap::give_back(limits::HEAP_GIVEN_BACK));
    let ended = tokio::select! {
        ended = running.engines.join_next() => Some(ended),
        () = signals.until_end(&running.hints) => None,
    };
    stopping.send_replace(true);
    running.end(&releasing).await;
    match ended {
        None => Ok(Exit::Done),
        Some(Some(Ok(Err(error)))) => Err(Failure::new(error)),
        Some(_) => Err(Failure::new("an engine ended on its own; this is a bug in gitwork")),
    }
}

/// Has the folder read anew once nothing has changed in it for a while.
fn watch_folder(folder: &Path, hint: mpsc::Sender<()>) -> Result<Watch, Failure> {
    // A full channel means that a hint is waiting already.
    let hint = move || {
        let _sent = hint.try_send(());
    };
    Watch::start(folder, QUIET, hint).map_err(Failure::new)
}

/// What starts all that tells of a source, each time that this process begins to lead it.
fn tell(
    kube: KubeHub,
    info: SourceInfo,
    config: SourceConfig,
    reporting: Reporting,
    (feed, trouble): (StatusFeed, Trouble),
    metrics: Arc<Metrics>,
) -> Result<impl FnMut(&watch::Receiver<bool>, &mut JoinSet<()>), Failure> {
    // What is wrong with it is said at the start, whoever leads.
    let mut first = Some(reporting.prepare(&config, &metrics).map_err(Failure::new)?);
    Ok(move |ended: &watch::Receiver<bool>, tasks: &mut JoinSet<()>| {
        match first.take().map_or_else(|| reporting.prepare(&config, &metrics), Ok) {
            Ok(reporters) => reporters.start(&feed, ended, tasks),
            Err(error) => {
                tracing::error!(source = %config.id, %error, "nothing is told of this source until the next start");
            }
        }
        let told = ToldReporter::new(kube.clone(), info.clone());
        tasks.spawn(told.run(feed.clone(), trouble.clone(), ended.clone()));
        let transitions = TransitionReporter::new(kube.clone(), instance());
        tasks.spawn(transitions.run(feed.clone(), ended.clone()));
    })
}

fn open(
    config: SourceConfig,
    verification: Verification,
    reporting: &Reporting,
) -> Result<Source, Failure> {
    let source = Source::open(config).map_err(Failure::new)?;
    let source = source.verified_by(verification).map_err(Failure::new)?;
    Ok(match &reporting.status_branch {
        Some(told) => source.witnessed_by(&told.branch),
        None => source,
    })
}

/// A listener, and a line in the log that says where it is.
async fn listen(address: SocketAddr, told: &'static str) -> Result<TcpListener, Failure> {
    let listener = http::bind(address)
        .await
        .map_err(|why| Failure::new(format!("cannot listen on {address}: {why}")))?;
    tracing::info!(address = %listener.local_addr().map_err(Failure::new)?, "{told}");
    Ok(listener)
}

/// Which of several daemons this is: in a pod, its name.
fn instance() -> String {
    let name = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    name.map_or_else(|| "gitwork".into(), |name| name.chars().take(128).collect())
}

/// The status page and its address, where it is asked for.
fn new_page(setup: &Setup) -> Option<(SocketAddr, Page)> {
    let PageSetup { bind, hosts } = setup.page.as_ref()?;
    let namespace = setup.hub.namespace.as_deref();
    let sources = setup.sources.iter();
    let sources = sources.map(|(config, .., told)| page::source_info(config, told, namespace));
    Some((*bind, Page::new(sources.collect(), hosts.clone())))
}

/// Has the clusters' reach read where somebody is told of it.
fn watch_reach(setup: &Setup, stop: &watch::Receiver<bool>, tasks: &mut JoinSet<()>) -> Reach {
    let (sender, reach) = watch::channel(Arc::default());
    let is_told = setup.sources.iter().any(|(.., reporting)| !reporting.is_empty());
    if is_told || setup.listen.is_some() || setup.page.is_some() {
        let hub = setup.hub.clone();
        let read = move || {
            let hub = hub.clone();
            async move {
                let client = client(&hub).await.map_err(|why| FleetError::NoHub(why.message))?;
                fleet::unreachable(&client).await
            }
            .boxed()
        };
        tasks.spawn(reporters::watch_reach(read, sender, stop.clone()));
    }
    reach
}

/// The signals that the program listens for.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Ends with SIGTERM or SIGINT. SIGHUP makes every source fetch now.
    async fn until_end(mut self, hints: &BTreeMap<SourceId, mpsc::Sender<()>>) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return tracing::info!("SIGTERM: stopping"),
                _ = self.interrupt.recv() => return tracing::info!("interrupted: stopping"),
                _ = self.hang_up.recv() => {
                    tracing::info!("SIGHUP: fetching now");
                    // A full channel means that a hint is waiting already.
                    for hint in hints.values() {
                        let _sent = hint.try_send(());
                    }
                }
            }
        }
    }
}
