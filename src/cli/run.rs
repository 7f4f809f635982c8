//! `run`: the daemon, or a single pass.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::error::CommandError;
use super::exit::Exit;
use super::facts::watch_facts;
use super::hub::{Workers, new_runtime};
use super::output;
use super::run_args::{LogFormat, RunArgs};
use super::run_setup::{OpenedSource, Setup, from_file, from_flags, open_all};
use super::serve::serve;
use gitwork_core::plan::{PlanStep, Reason};
use gitwork_daemon::engine::{Engine, EngineError};
use gitwork_daemon::metrics::Metrics;
use gitwork_hub::request_metrics::RequestObserver;
use gitwork_hub::{Hub, KubeHub, RetryingHub, client as hub_client};
use gitwork_runtime::logs::EscapedLog;

/// Runs `gitwork run`.
pub fn run(args: &RunArgs) -> Result<Exit, CommandError> {
    start_log(args.log_format);
    let setup = match &args.config {
        Some(file) => from_file(args, file)?,
        None => from_flags(args)?,
    };
    let runtime = new_runtime(if args.once { Workers::One } else { Workers::OfEachCore })?;
    let exit = runtime.block_on(async {
        let metrics = Arc::new(Metrics::default());
        let counted = metrics.clone();
        let observer: RequestObserver =
            Arc::new(move |verb, outcome| counted.hub_request(verb, outcome));
        let (kubeconfig, context) = (setup.hub.kubeconfig.clone(), setup.hub.context.clone());
        let connect = hub_client::observed_connector(kubeconfig, context, &observer);
        let hub = KubeHub::connect(connect).await?;
        let hub = hub.in_namespace(setup.hub.namespace());
        if args.once {
            once(setup, Arc::new(RetryingHub::new(hub)), metrics).await
        } else {
            serve(setup, hub, metrics).await
        }
    });
    // A fetch that hangs in the network must not delay the exit.
    runtime.shutdown_timeout(Duration::from_secs(1));
    exit
}

/// Starts the log on stderr.
pub(super) fn start_log(format: LogFormat) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("GITWORK_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let filter = gitwork_runtime::logs::without_answers(filter);
    let is_json = format == LogFormat::Json;
    let writer = move || EscapedLog::on_stderr(is_json);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    // An error means that a log is already installed, which only happens in tests.
    let _installed = match format {
        LogFormat::Text => {
            let colour =
                anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never;
            log.with_ansi(colour).with_target(false).try_init()
        }
        LogFormat::Json => log.json().flatten_event(true).with_target(false).try_init(),
    };
}

/// Syncs each source once. The exit code says whether the hub matches Git.
async fn once(
    setup: Setup,
    hub: Arc<dyn Hub>,
    metrics: Arc<Metrics>,
) -> Result<Exit, CommandError> {
    let mut exit = Exit::Done;
    let ((_stop, running), mut tasks) = (watch::channel(false), JoinSet::new());
    let facts = watch_facts(&setup.hub, setup.placement_grace, &running, &mut tasks);
    for OpenedSource { source, options, .. } in open_all(setup.sources)? {
        let mut engine = Engine::new(hub.clone(), source, options, metrics.clone());
        engine.set_facts_feed(facts.clone());
        // In a task of the runtime: from this thread, each response would wake another one.
        let once = tokio::spawn(engine.once()).await;
        let (plan, desired) = once.unwrap_or(Err(EngineError::Panic))?;
        let errors = desired.diagnostics.iter().filter(|found| found.is_error()).count();
        let waits = |step: &&PlanStep| {
            matches!(step.reason, Reason::WaitsForWave { .. } | Reason::HeldByRollout { .. })
        };
        let unsettled = plan.steps.iter().filter(|step| !step.is_settled());
        let (waiting, open): (Vec<_>, Vec<_>) = unsettled.partition(waits);
        if let Some(first) = waiting.first() {
            let (works, source) = (waiting.len(), &desired.source);
            output::note(&format!(
                "source {source}: {works} works wait for their wave, the first one: {first}"
            ));
        }
        if !open.is_empty() || errors > 0 {
            let open = open.len();
            output::note(&format!(
                "source {}: {open} works differ from Git, {errors} errors in Git",
                desired.source
            ));
            exit = Exit::Failed;
        }
    }
    Ok(exit)
}
