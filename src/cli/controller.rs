//! `controller`: ManifestWorkReplicaSets, and completed works.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use super::error::CommandError;
use super::exit::Exit;
use super::hub_program::run_until_signal;
use super::run::start_log;
use super::run_args::LogFormat;
use super::serve::instance;
use super::source_args::HubArgs;
use gitwork_controller::{ControllerOptions, OcmLeaseName, limits, run};
use gitwork_core::limits::PLACEMENT_GRACE;
use gitwork_replica_sets::semantics::RolloutSemantics;
use gitwork_runtime::clock::WallClock;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ControllerArgs {
    /// Roll templates out exactly as OCM's controller does, with its defects
    #[arg(long)]
    upstream_rollout_semantics: bool,
    /// Leave completed ManifestWorks with `ttlSecondsAfterFinished` on the hub
    #[arg(long)]
    keep_completed_works: bool,
    /// Seconds for which the decisions of a Placement must have agreed before the work of a cluster
    /// that it no longer selects is deleted
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = PLACEMENT_GRACE.as_secs(),
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    placement_grace: u64,
    /// Lease of OCM's own controller; while somebody holds it, this one does not run
    #[arg(long, value_name = "NAMESPACE/NAME", default_value_t)]
    ocm_lease: OcmLeaseName,
    /// Writes in flight at the same time
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = limits::WRITES_IN_FLIGHT as u32,
        value_parser = clap::value_parser!(u32).range(1..=200)
    )]
    max_writes_in_flight: u32,
    /// Serve /healthz, /readyz and /metrics on this address, as in 0.0.0.0:8080
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Log format on stderr; GITWORK_LOG sets the level
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    #[command(flatten)]
    hub: HubArgs,
}

const EXAMPLES: &str = "\
Examples:
  gitwork crds | kubectl apply --server-side -f -    install the CRDs on a hub without OCM
  gitwork controller --kubeconfig hub.yaml           run it on this machine
  gitwork controller --listen 0.0.0.0:8080           run it in a pod, with probes and metrics
  gitwork controller --upstream-rollout-semantics    roll out as OCM's controller does";

/// Runs `gitwork controller`.
pub fn controller(args: ControllerArgs) -> Result<Exit, CommandError> {
    start_log(args.log_format);
    let semantics = match args.upstream_rollout_semantics {
        true => RolloutSemantics::Upstream,
        false => RolloutSemantics::Gitwork,
    };
    let options = ControllerOptions {
        namespace: args.hub.namespace().to_owned(),
        instance: instance(),
        semantics,
        deletes_completed: !args.keep_completed_works,
        placement_grace: Duration::from_secs(args.placement_grace),
        ocm_lease: args.ocm_lease,
        writes_max: usize::try_from(args.max_writes_in_flight).unwrap_or(limits::WRITES_IN_FLIGHT),
        listen: args.listen,
    };
    run_until_signal(args.hub, |connect, stop| run(connect, options, WallClock::system(), stop))
}
