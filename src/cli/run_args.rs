//! The arguments of `run`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::report_args::ReportArgs;
use super::signer_args::SignerArgs;
use super::source_args::{HubArgs, SourceArgs, adoption, rewind};
use gitwork_core::config::AdoptionPolicy;
use gitwork_core::config::RewindPolicy;

#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    #[command(flatten)]
    pub(super) hub: HubArgs,
    /// Read one or more sources and their settings from this file (see `gitwork schema daemon`)
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "branch", "tag", "semver", "commit", "source_id", "verify", "allowed_signers",
            "openpgp_keys"
        ]
    )]
    pub(super) config: Option<PathBuf>,
    /// Sync once, without leader election, and exit: 0 if the hub matches Git
    #[arg(long)]
    pub(super) once: bool,
    /// Seconds between fetches
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    pub(super) interval: u64,
    /// Seconds for which the decisions of a Placement must have agreed before a cluster leaves its
    /// groups [default: 120]
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    pub(super) placement_grace: Option<u64>,
    #[command(flatten)]
    pub(super) signers: SignerArgs,
    #[command(flatten)]
    pub(super) report: ReportArgs,
    /// Allow a commit to delete every work of the source
    #[arg(long)]
    pub(super) allow_delete_all: bool,
    /// Policy for a commit that does not descend from the applied one, as after a forced push:
    /// hold, warn, follow
    #[arg(
        long,
        value_name = "POLICY",
        value_parser = rewind,
        default_value = "hold",
        conflicts_with = "config"
    )]
    pub(super) rewind: RewindPolicy,
    /// Adopt existing ManifestWorks with the same name: never, annotated (if their owner agrees by
    /// annotation), unowned (also those without an owner whose spec matches Git)
    #[arg(
        long,
        value_name = "POLICY",
        value_parser = adoption,
        default_value = "annotated",
        conflicts_with = "config"
    )]
    pub(super) adopt: AdoptionPolicy,
    /// Serve /healthz, /readyz and /metrics on this address, as in 0.0.0.0:8080
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen: Option<SocketAddr>,
    /// Serve the status page on this address, as in 127.0.0.1:8081; it has no authentication
    #[arg(long, value_name = "ADDRESS")]
    pub(super) page_bind: Option<SocketAddr>,
    /// Accept this host name for the status page, besides IP addresses and cluster-internal names
    /// (can be repeated)
    #[arg(long, value_name = "NAME")]
    pub(super) page_host: Vec<String>,
    /// Receive webhooks (POST /hook) on this address and fetch at once; must differ from --listen
    #[arg(
        long,
        value_name = "ADDRESS",
        requires = "webhook_secret_file",
        conflicts_with = "config"
    )]
    pub(super) webhook_listen: Option<SocketAddr>,
    /// File with the secret that signs webhooks; read again for every webhook
    #[arg(long, value_name = "FILE", requires = "webhook_listen")]
    pub(super) webhook_secret_file: Option<PathBuf>,
    /// Log format on stderr; GITWORK_LOG sets the level
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(super) log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    Text,
    Json,
}
