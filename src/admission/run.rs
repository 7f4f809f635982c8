//! The webhooks from their start to their end.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gitwork_admission_rules::policy::ReviewPolicy;
use gitwork_admission_rules::rotation::RotationSchedule;
use gitwork_hub::client::{ClientError, Connect};
use gitwork_retry::log_error;
use gitwork_retry::operation_error::{ErrorClass, OperationError};
use gitwork_runtime::clock::WallClock;
use gitwork_runtime::probes;
use gitwork_runtime::probes::Probes;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::admission_api::AdmissionApi;
use crate::admission_metrics::AdmissionMetrics;
use crate::certificate_upkeep::CertificateUpkeep;
use crate::limits;
use crate::mounted::MountedCertificate;
use crate::serving_certificate::{CertificateError, ServingCertificate};
use crate::webhook_configuration::service_host;
use crate::webhook_server::WebhookServer;
use crate::webhook_service::WebhookService;

/// How the webhooks run.
#[derive(Debug, Clone)]
pub struct AdmissionOptions {
    /// Where the webhooks are served.
    pub webhook_listen: SocketAddr,
    /// Where health and metrics are served.
    pub listen: Option<SocketAddr>,
    /// The rules.
    pub policy: ReviewPolicy,
    /// Where the certificates come from.
    pub certificates: CertificateSource,
}

/// Where the certificates come from.
#[derive(Debug, Clone)]
pub enum CertificateSource {
    /// Somebody else renews these files.
    Mounted {
        /// The chain, as PEM.
        certificate: PathBuf,
        /// The key, as PEM.
        key: PathBuf,
    },
    /// The program makes and rotates them.
    SelfMade(SelfMadeOptions),
}

/// Self-made certificates.
#[derive(Debug, Clone)]
pub struct SelfMadeOptions {
    /// The namespace of the Secret and of the Service.
    pub namespace: String,
    /// The Secret that keeps them.
    pub secret: String,
    /// The Service by which API servers call the webhooks.
    pub service: String,
    /// Other DNS names and addresses by which they do.
    pub names: Vec<String>,
    /// The ValidatingWebhookConfiguration.
    pub configuration: String,
    /// How long a certificate is valid.
    pub lifetime: Duration,
}

/// Why the webhooks did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// There is no client of the hub.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The address is taken, or not one of this machine.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The mounted certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

impl OperationError for AdmissionError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Client(error) => error.class(),
            Self::Certificate(error) => error.class(),
            Self::Listen { .. } => ErrorClass::NeedsAction,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Client(error) => error.reason(),
            Self::Certificate(error) => error.reason(),
            Self::Listen { .. } => "Listen",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Client(error) => error.hints(),
            Self::Certificate(error) => error.hints(),
            Self::Listen { .. } => {
                vec!["if the port is in use, choose another address".to_owned()]
            }
        }
    }
}

/// Serves until `stop` ends.
///
/// # Errors
/// The webhooks cannot start.
pub async fn run(
    connect: Connect,
    options: AdmissionOptions,
    clock: WallClock,
    stop: impl Future<Output = ()>,
) -> Result<(), AdmissionError> {
    let metrics = Arc::new(AdmissionMetrics::default());
    let is_ready = Arc::new(AtomicBool::new(false));
    let failed = |address| move |source| AdmissionError::Listen { address, source };
    if let Some(address) = options.listen {
        let listener = probes::listen(address).await.map_err(failed(address))?;
        let (metrics, is_ready) = (metrics.clone(), is_ready.clone());
        let probes = Probes {
            is_ready: Arc::new(move || is_ready.load(Ordering::Relaxed)),
            unready: "no certificate that is announced, or shutting down\n",
            metrics: Arc::new(move || metrics.encode()),
        };
        tokio::spawn(probes::serve(listener, probes, pending()));
    }
    let address = options.webhook_listen;
    let listener = TcpListener::bind(address).await.map_err(failed(address))?;
    let local = listener.local_addr().map_err(failed(address))?;
    let api = Arc::new(AdmissionApi::connect(connect).await?);
    let serving = Arc::new(ServingCertificate::default());
    let tls = TlsAcceptor::from(Arc::new(serving.server_config()?));
    let mut upkeep = Upkeep::new(&options.certificates, (&api, &serving), &metrics, clock).await?;
    let service = Arc::new(WebhookService::new(api, options.policy, metrics.clone()));
    let is_ending = Arc::new(AtomicBool::new(false));
    let server = WebhookServer { tls, service, metrics, is_ending: is_ending.clone() };
    tracing::info!(address = %local, "listening for webhooks");
    let serve = async {
        tokio::select! {
            never = upkeep.run(&is_ready) => match never {},
            () = stop => {}
        }
        is_ready.store(false, Ordering::Relaxed);
        is_ending.store(true, Ordering::Relaxed);
        // API servers send requests here until they know better.
        sleep(limits::SHUTDOWN_NOTICE).await;
    };
    server.serve(listener, serve).await;
    Ok(())
}

/// The upkeep of certificates, of either source.
enum Upkeep {
    Mounted(MountedCertificate, Arc<ServingCertificate>),
    SelfMade(Box<CertificateUpkeep>),
}

impl Upkeep {
    /// Mounted certificates must be there from the start.
    async fn new(
        source: &CertificateSource,
        (api, serving): (&Arc<AdmissionApi>, &Arc<ServingCertificate>),
        metrics: &Arc<AdmissionMetrics>,
        clock: WallClock,
    ) -> Result<Self, AdmissionError> {
        let options = match source {
            CertificateSource::SelfMade(options) => options.clone(),
            CertificateSource::Mounted { certificate, key } => {
                let (certificate, key) = (certificate.clone(), key.clone());
                let mut mounted = MountedCertificate { certificate, key, known: None };
                mounted.look(serving).await?;
                return Ok(Self::Mounted(mounted, serving.clone()));
            }
        };
        let SelfMadeOptions { namespace, secret, service, names, configuration, lifetime } =
            options;
        let mut names: BTreeSet<String> = names.into_iter().collect();
        names.insert(service_host(&namespace, &service));
        Ok(Self::SelfMade(Box::new(CertificateUpkeep {
            api: api.clone(),
            clock,
            serving: serving.clone(),
            metrics: metrics.clone(),
            namespace,
            secret,
            configuration,
            names,
            schedule: RotationSchedule::new(lifetime),
            known: None,
            is_missing_logged: false,
        })))
    }

    /// Looks for ever. Ready once a look succeeded, until the certificate ends.
    async fn run(&mut self, is_ready: &AtomicBool) -> Infallible {
        match self {
            Self::Mounted(mounted, serving) => {
                is_ready.store(true, Ordering::Relaxed);
                follow_files(mounted, serving).await
            }
            Self::SelfMade(upkeep) => {
                let interval = upkeep.schedule.check_interval();
                loop {
                    let looked = timeout(4 * limits::API_CALL, upkeep.look_and_log()).await;
                    let was_ready = is_ready.load(Ordering::Relaxed);
                    let is_good = (looked == Ok(true) || was_ready) && upkeep.is_valid();
                    is_ready.store(is_good, Ordering::Relaxed);
                    if is_good && !was_ready {
                        tracing::info!("ready for API servers");
                    }
                    sleep(if is_good { interval } else { interval.min(limits::FIRST_RETRY) }).await;
                }
            }
        }
    }
}

/// Serves what is in the files, whenever it changes.
async fn follow_files(
    mounted: &mut MountedCertificate,
    serving: &ServingCertificate,
) -> Infallible {
    let mut warned = None;
    loop {
        sleep(limits::FILES_CHECK).await;
        match mounted.look(serving).await {
            Ok(true) => tracing::info!("serving with the changed certificate files"),
            Ok(false) => warned = None,
            // Files that are being replaced may not fit together for a moment.
            Err(error) if warned.as_ref() == Some(&error) => {}
            Err(error) => {
                log_error!(warn, &error, "the certificate files changed; serving as before");
                warned = Some(error);
            }
        }
    }
}
