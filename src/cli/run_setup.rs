//! The daemon's set-up, from flags or from its file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::daemon_file::{self, in_file};
use super::error::CommandError;
use super::read_args::threads_of_machine;
use super::run_args::RunArgs;
use super::source_args::HubArgs;
use gitwork_api::names::check_label;
use gitwork_core::config::DaemonFile;
use gitwork_core::config::RewindPolicy;
use gitwork_core::limits;
use gitwork_core::plan::PlanPolicy;
use gitwork_daemon::engine::EngineOptions;
use gitwork_daemon::reporters::Reporting;
use gitwork_git::Mirrors;
use gitwork_hub::execute::ExecuteOptions;
use gitwork_source::verification::Verification;
use gitwork_source::{Source, SourceConfig, Sources};
use gitwork_sync::guards::GuardOptions;

/// What the daemon has to run.
pub(super) struct Setup {
    pub sources: Vec<SourceSetup>,
    pub hub: HubArgs,
    /// How long the decisions of a Placement must have agreed before a cluster leaves it.
    pub placement_grace: Duration,
    /// Address of probes and metrics.
    pub listen: Option<SocketAddr>,
    pub page: Option<PageSetup>,
    pub webhook: Option<WebhookSetup>,
}

/// One source and its options.
pub(super) struct SourceSetup {
    pub config: SourceConfig,
    pub verification: Verification,
    pub options: EngineOptions,
    pub reporting: Reporting,
}

/// The status page.
pub(super) struct PageSetup {
    pub bind: SocketAddr,
    /// Accepted names in the `Host` header.
    pub hosts: Vec<String>,
}

/// The receiver of webhooks.
pub(super) struct WebhookSetup {
    pub listen: SocketAddr,
    pub secret_file: PathBuf,
}

/// A source, opened to sync it.
pub(super) struct OpenedSource {
    pub source: Source,
    pub options: EngineOptions,
    pub reporting: Reporting,
}

/// Opens all sources. Those of one repository share its mirror, and a fetch that begins later.
pub(super) fn open_all(setups: Vec<SourceSetup>) -> Result<Vec<OpenedSource>, CommandError> {
    let sources = Sources::new(Mirrors::default(), Timestamp::now);
    setups.into_iter().map(|setup| open(&sources, setup)).collect()
}

/// Opens a source, with its verification and the checkpoint on its status branch.
fn open(sources: &Sources, setup: SourceSetup) -> Result<OpenedSource, CommandError> {
    let SourceSetup { config, verification, options, reporting } = setup;
    let source = sources.open_to_sync(config)?.with_verification(verification)?;
    let source = source.with_threads(threads_of_machine());
    let source = match &reporting.status_branch {
        Some(status) => source.with_checkpoint(&status.branch),
        None => source,
    };
    Ok(OpenedSource { source, options, reporting })
}

fn engine_options(
    interval_seconds: u64,
    guards: GuardOptions,
    concurrency: usize,
) -> EngineOptions {
    let execute = ExecuteOptions { concurrency, ..ExecuteOptions::default() };
    EngineOptions { interval: Duration::from_secs(interval_seconds), guards, execute }
}

/// The set-up of `gitwork run` without `--config`.
pub(super) fn from_flags(args: &RunArgs) -> Result<Setup, CommandError> {
    let concurrency = ExecuteOptions::default().concurrency;
    let (adoption, allow_delete_all) = (args.adopt, args.allow_delete_all);
    let policy = PlanPolicy { allow_delete_all, adoption, ..PlanPolicy::default() };
    let origin = Some(args.source.origin()?);
    let rewind = args.rewind;
    let verification = args.signers.verification()?;
    if verification.is_some() && rewind != RewindPolicy::Hold {
        return Err(CommandError::usage(
            "--rewind must be hold with --verify, --allowed-signers or --openpgp-keys: anybody who \
             may push could otherwise return to an older signed commit",
        ));
    }
    let guards = GuardOptions { origin, policy, rewind, ..GuardOptions::default() };
    let config = args.source.config()?;
    args.source.id_from().check_write(&config.id)?;
    let source = SourceSetup {
        config,
        verification: verification.unwrap_or_else(Verification::without_operator),
        options: engine_options(args.interval, guards, concurrency),
        reporting: args.report.reporting(),
    };
    let webhook = args.webhook_listen.zip(args.webhook_secret_file.clone());
    Ok(Setup {
        sources: vec![source],
        hub: args.hub.clone(),
        placement_grace: Duration::from_secs(
            args.placement_grace.unwrap_or(limits::PLACEMENT_GRACE.as_secs()),
        ),
        listen: args.listen,
        page: args.page_bind.map(|bind| PageSetup { bind, hosts: args.page_host.clone() }),
        webhook: webhook.map(|(listen, secret_file)| WebhookSetup { listen, secret_file }),
    })
}

/// The set-up of `gitwork run --config`. Flags for addresses and the hub come before the file.
pub(super) fn from_file(args: &RunArgs, path: &Path) -> Result<Setup, CommandError> {
    let file = daemon_file::read(path)?;
    let sources = sources_of(path, &file)?;
    let address = |text: &str, field: &str| {
        text.parse::<SocketAddr>().map_err(|_| {
            in_file(path, field, &format!("{text:?} is not an address, as in 0.0.0.0:8080"))
        })
    };
    let listen = file.listen.as_ref().map(|text| address(text, "listen")).transpose()?;
    let webhook = match &file.webhook {
        Some(webhook) => Some(WebhookSetup {
            listen: address(&webhook.listen, "webhook.listen")?,
            secret_file: PathBuf::from(&webhook.secret_file),
        }),
        None => None,
    };
    let bind = file.page.as_ref().map(|page| address(&page.bind, "page.bind")).transpose()?;
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
        placement_grace: Duration::from_secs(
            args.placement_grace.unwrap_or(file.placement_grace_seconds),
        ),
        listen: args.listen.or(listen),
        page: args.page_bind.or(bind).map(|bind| PageSetup { bind, hosts }),
        webhook,
    })
}

fn sources_of(path: &Path, file: &DaemonFile) -> Result<Vec<SourceSetup>, CommandError> {
    let mut sources: Vec<SourceSetup> = Vec::new();
    for (index, source) in file.sources.iter().enumerate() {
        let config = daemon_file::source_config(path, index, source, file.cache.as_deref())?;
        daemon_file::check_write(path, index, source)?;
        let guards = daemon_file::guards(path, index, source)?;
        let keys = source.signer_keys.clone();
        let verification = daemon_file::verification(path, index, source, keys)?;
        let options = engine_options(source.interval_seconds, guards, file.concurrency);
        let reporting = Reporting {
            commit_status: source.commit_status.clone(),
            status_branch: source.status_branch.clone(),
        };
        sources.push(SourceSetup { config, verification, options, reporting });
    }
    daemon_file::check_ids(path, sources.iter().map(|source| &source.config.id))?;
    Ok(sources)
}
