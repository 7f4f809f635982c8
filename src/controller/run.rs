//! The controller from its start to its end.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use gitwork_hub::client::{ClientError, Connect};
use gitwork_replica_sets::semantics::RolloutSemantics;
use gitwork_retry::BoundedRetries;
use gitwork_retry::log_error;
use gitwork_retry::operation_error::{ErrorClass, OperationError};
use gitwork_runtime::clock::WallClock;
use gitwork_runtime::probes;
use gitwork_runtime::probes::Probes;
use tokio::time::{Instant, sleep, timeout};

use crate::controller_lease::{acquire, candidate, hold};
use crate::controller_metrics::ControllerMetrics;
use crate::hub_api::{HubApi, HubRequestError};
use crate::limits;
use crate::ocm_lease::OcmLeaseName;
use crate::pass::run_passes;
use crate::shared::SharedController;
use crate::store::ControllerState;

/// How the controller runs.
#[derive(Debug, Clone)]
pub struct ControllerOptions {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of this replica, such as that of its pod.
    pub instance: String,
    /// What rollouts do.
    pub semantics: RolloutSemantics,
    /// Whether completed works are deleted.
    pub deletes_completed: bool,
    /// For how long the decisions of a Placement must have agreed before a cluster leaves.
    pub placement_grace: Duration,
    /// The Lease of OCM's own controller.
    pub ocm_lease: OcmLeaseName,
    /// Writes in flight.
    pub writes_max: usize,
    /// Where health and metrics are served.
    pub listen: Option<SocketAddr>,
}

/// Why the controller did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
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
    /// The hub did not answer at the start.
    #[error(transparent)]
    Hub(#[from] HubRequestError),
    /// OCM's own controller leads.
    #[error(
        "OCM's own controller of ManifestWorkReplicaSets leads on this hub: {holder} holds \
        the Lease {lease}"
    )]
    OcmLeads {
        /// Its Lease.
        lease: OcmLeaseName,
        /// The holder.
        holder: String,
    },
}

impl OperationError for ControllerError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Client(error) => error.class(),
            Self::Hub(error) => error.class(),
            Self::Listen { .. } | Self::OcmLeads { .. } => ErrorClass::NeedsAction,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Client(error) => error.reason(),
            Self::Hub(error) => error.reason(),
            Self::Listen { .. } => "Listen",
            Self::OcmLeads { .. } => "OcmControllerLeads",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Client(error) => error.hints(),
            Self::Hub(error) => error.hints(),
            Self::Listen { .. } => Vec::new(),
            Self::OcmLeads { .. } => vec![
                "disable the feature gates ManifestWorkReplicaSet and \
                 CleanUpCompletedManifestWork of the ClusterManager, or use OCM's controller"
                    .to_owned(),
            ],
        }
    }
}

/// Runs until `stop` ends, or until OCM's own controller leads.
///
/// # Errors
/// The controller cannot start, or OCM's own controller leads.
pub async fn run(
    connect: Connect,
    options: ControllerOptions,
    clock: WallClock,
    stop: impl Future<Output = ()>,
) -> Result<(), ControllerError> {
    let metrics = Arc::new(ControllerMetrics::default());
    let is_ready = Arc::new(AtomicBool::new(false));
    if let Some(address) = options.listen {
        let listener = probes::listen(address).await;
        let listener = listener.map_err(|source| ControllerError::Listen { address, source })?;
        let (metrics, is_ready) = (metrics.clone(), is_ready.clone());
        let probes = Probes {
            is_ready: Arc::new(move || is_ready.load(Ordering::Relaxed)),
            unready: "the hub has not been read yet\n",
            metrics: Arc::new(move || metrics.encode()),
        };
        tokio::spawn(probes::serve(listener, probes, pending()));
    }
    let api = Arc::new(HubApi::connect(connect, metrics.clone()).await?);
    let replica = Replica { api, options, clock, metrics, is_ready };
    tokio::pin!(stop);
    tokio::select! {
        () = &mut stop => return Ok(()),
        checked = replica.check_ocm() => checked?,
    }
    let Replica { api, options, clock, .. } = &replica;
    // No other process has this identity, now or later.
    let identity = format!("{}_{:016x}", options.instance, fastrand::u64(..));
    let mut candidate = candidate(api.clone(), &options.namespace, identity);
    let result = loop {
        // A standby replica is ready: it would lead.
        replica.is_ready.store(true, Ordering::Relaxed);
        tokio::select! {
            () = &mut stop => break Ok(()),
            () = acquire(&mut candidate, clock) => {}
        }
        replica.is_ready.store(false, Ordering::Relaxed);
        replica.metrics.set_leading(true);
        tracing::info!("became the leader");
        let end = tokio::select! {
            () = &mut stop => Some(Ok(())),
            error = replica.lead() => Some(Err(error)),
            () = hold(&mut candidate, clock) => None,
        };
        replica.metrics.set_leading(false);
        if let Some(end) = end {
            break end;
        }
        tracing::info!("lost leadership: nothing is written");
    };
    let released = timeout(limits::LEASE_RELEASE, candidate.release(clock.now())).await;
    if let Ok(Err(error)) = released {
        log_error!(debug, &error, "cannot release the Lease; it expires");
    }
    result
}

/// One replica of the controller.
struct Replica {
    api: Arc<HubApi>,
    options: ControllerOptions,
    clock: WallClock,
    metrics: Arc<ControllerMetrics>,
    is_ready: Arc<AtomicBool>,
}

impl Replica {
    /// Fails if OCM's controller leads. An API server that starts is waited for.
    async fn check_ocm(&self) -> Result<(), ControllerError> {
        let begun = Instant::now();
        let mut retries = BoundedRetries::new(gitwork_hub::limits::HUB_RETRIES);
        loop {
            let error = match self.options.ocm_lease.holder(&self.api, &self.clock).await {
                Ok(None) => return Ok(()),
                Ok(Some(holder)) => return Err(self.ocm_leads(holder)),
                Err(error) => error,
            };
            let class = error.retry_class();
            match retries.wait(begun.elapsed(), class, fastrand::u64(..)) {
                Some(wait) => sleep(wait).await,
                None => return Err(error.into()),
            }
        }
    }

    fn ocm_leads(&self, holder: String) -> ControllerError {
        ControllerError::OcmLeads { lease: self.options.ocm_lease.clone(), holder }
    }

    /// Notes when everything was read.
    async fn note_ready(&self, shared: &SharedController) {
        shared.ready.notified().await;
        self.is_ready.store(true, Ordering::Relaxed);
        tracing::info!("read the hub; replica sets are kept up to date from now on");
    }

    /// Leads until OCM's controller does.
    async fn lead(&self) -> ControllerError {
        let ControllerOptions { semantics, placement_grace, writes_max, .. } = self.options;
        let state = ControllerState::new(semantics, placement_grace);
        let bounds = (writes_max, self.options.deletes_completed);
        let (api, clock) = (self.api.clone(), self.clock.clone());
        let shared = SharedController::new(api, clock, self.metrics.clone(), state, bounds);
        let passes = join_all((0..limits::PASSES_AT_ONCE).map(|_| run_passes(&shared)));
        let endless = async {
            tokio::join!(shared.watch(), passes, self.note_ready(&shared));
            pending::<Infallible>().await
        };
        tokio::select! {
            biased;
            holder = self.options.ocm_lease.until_led(&self.api, &self.clock) => {
                self.ocm_leads(holder)
            }
            never = endless => match never {},
        }
    }
}
