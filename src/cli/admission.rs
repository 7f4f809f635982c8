//! `admission`: the webhooks that check ManifestWorks and ManifestWorkReplicaSets.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::argument_error::ArgumentError;
use super::error::CommandError;
use super::exit::Exit;
use super::hub_program::run_until_signal;
use super::run::start_log;
use super::run_args::LogFormat;
use super::source_args::HubArgs;
use gitwork_admission::{AdmissionOptions, CertificateSource, SelfMadeOptions, limits, run};
use gitwork_admission_rules::limits::MANIFESTS_BYTES_MAX;
use gitwork_admission_rules::policy::{NilExecutor, ReviewPolicy};
use gitwork_api::names::check_subdomain;
use gitwork_runtime::clock::WallClock;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AdmissionArgs {
    /// Serve the webhooks over TLS on this address
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9443")]
    webhook_listen: SocketAddr,
    /// Size limit of the manifests of one work, in bytes
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = MANIFESTS_BYTES_MAX as u64,
        value_parser = clap::value_parser!(u64).range(1..=limits::MANIFESTS_BYTES_CEILING as u64)
    )]
    manifest_limit: u64,
    /// Check works without an executor as if they named the account of OCM's work agent
    #[arg(long)]
    nil_executor_validating: bool,
    /// Serve with the certificate chain in this file, and do not make certificates
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_private_key_file",
        conflicts_with_all = ["secret", "service", "serving_name", "webhook_configuration",
            "certificate_lifetime"]
    )]
    tls_cert_file: Option<PathBuf>,
    /// Key of the certificate in --tls-cert-file
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Secret that keeps the self-made certificates
    #[arg(long, value_name = "NAME", default_value = DEFAULT_SECRET, value_parser = object_name)]
    secret: String,
    /// Service by which API servers call the webhooks
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME, value_parser = object_name)]
    service: String,
    /// Another DNS name or address by which API servers call the webhooks (can be repeated)
    #[arg(long, value_name = "NAME", value_parser = serving_name)]
    serving_name: Vec<String>,
    /// ValidatingWebhookConfiguration whose `caBundle` is kept up to date
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME, value_parser = object_name)]
    webhook_configuration: String,
    /// Seconds for which a self-made certificate is valid; it is replaced after half of them
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = limits::CERTIFICATE_LIFETIME.as_secs(),
        value_parser = clap::value_parser!(u64).range(
            limits::CERTIFICATE_LIFETIME_MIN.as_secs()..=limits::CERTIFICATE_LIFETIME_MAX.as_secs()
        )
    )]
    certificate_lifetime: u64,
    /// Serve /healthz, /readyz and /metrics on this address, as in 0.0.0.0:8080
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Log format on stderr; GITWORK_LOG sets the level
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    #[command(flatten)]
    hub: HubArgs,
}

/// The name of the Service and of the configuration in `deploy/admission.yaml`.
const DEFAULT_NAME: &str = "gitwork-admission";
const DEFAULT_SECRET: &str = "gitwork-admission-tls";

const EXAMPLES: &str = "\
Examples:
  gitwork admission --listen 0.0.0.0:8080            run it in a pod, with probes and metrics
  gitwork admission --manifest-limit 1048576         allow manifests of 1 MiB
  gitwork admission --nil-executor-validating        check works without an executor, too
  gitwork admission --tls-cert-file tls.crt --tls-private-key-file tls.key
                                                     serve with certificates of others
  gitwork admission --kubeconfig hub.yaml --serving-name 10.0.0.7
                                                     run it outside of the hub, called by URL";

/// Runs `gitwork admission`.
pub fn admission(args: AdmissionArgs) -> Result<Exit, CommandError> {
    start_log(args.log_format);
    let options = AdmissionOptions {
        webhook_listen: args.webhook_listen,
        listen: args.listen,
        policy: ReviewPolicy {
            manifests_bytes_max: usize::try_from(args.manifest_limit)
                .unwrap_or(MANIFESTS_BYTES_MAX),
            nil_executor: match args.nil_executor_validating {
                true => NilExecutor::Checked,
                false => NilExecutor::Allowed,
            },
        },
        certificates: match args.tls_cert_file.zip(args.tls_private_key_file) {
            Some((certificate, key)) => CertificateSource::Mounted { certificate, key },
            None => CertificateSource::SelfMade(SelfMadeOptions {
                namespace: args.hub.namespace().to_owned(),
                secret: args.secret,
                service: args.service,
                names: args.serving_name,
                configuration: args.webhook_configuration,
                lifetime: Duration::from_secs(args.certificate_lifetime),
            }),
        },
    };
    run_until_signal(args.hub, |connect, stop| run(connect, options, WallClock::system(), stop))
}

/// The name of an object on the hub.
fn object_name(text: &str) -> Result<String, ArgumentError> {
    check_subdomain(text, 253).map_err(ArgumentError::ObjectName)?;
    Ok(text.to_owned())
}

/// A DNS name or an IP address.
fn serving_name(text: &str) -> Result<String, ArgumentError> {
    if text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    object_name(text)
}
