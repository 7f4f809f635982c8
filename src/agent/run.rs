//! `gitwork-agent agent`: from flags to a running agent, and to its end.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

use super::config::{OperatorConfig, OperatorConfigError};
use super::flags::AgentFlags;
use super::kubeconfig::{
    ClusterConnection, KubeconfigError, connect, connect_in_cluster, digest,
    digest_with_credentials,
};
use super::lease::{self, AgentLease};
use super::metrics::AgentMetrics;
use super::serve::{Current, ServeError, bind, serve};
use super::server::ApiServer;
use super::throttle::RateLimit;
use super::{Agent, AgentSettings};
use gitwork_agent_core::feedback::RawJsonFeedback;
use gitwork_kube::leader_election::{Election, ElectionCandidate};
use gitwork_retry::log_error;
use gitwork_retry::operation_error::{ErrorClass, OperationError};

/// Interval between checks of files, as in OCM's agent.
const FILES: Duration = Duration::from_secs(10);
/// Time limit for releasing the Lease.
const RELEASE: Duration = Duration::from_secs(2);
/// Where OCM's agent serves.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8443);
const LEASE: &str = "work-agent-lock";
const POD_NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
const DEFAULT_NAMESPACE: &str = "open-cluster-management-agent";

/// Why the agent did not start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// `--workload-source-driver` is not `kube`.
    #[error("the driver {0:?} is not supported: only --workload-source-driver=kube is")]
    Driver(String),
    /// There is no connection to the hub or the cluster.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The file of `--config` cannot be used.
    #[error(transparent)]
    OperatorConfig(#[from] OperatorConfigError),
    /// Health and metrics cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The handlers of SIGTERM and SIGINT cannot be installed.
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
    /// The system starts no thread, or has no file descriptor left.
    #[error("cannot start the async runtime: {0}")]
    Runtime(std::io::Error),
}

impl RunError {
    /// The error of a part; `None` for errors of this module.
    fn inner(&self) -> Option<&dyn OperationError> {
        match self {
            Self::Kubeconfig(error) => Some(error),
            Self::OperatorConfig(error) => Some(error),
            Self::Serve(error) => Some(error),
            Self::Driver(_) | Self::Signals(_) | Self::Runtime(_) => None,
        }
    }
}

impl OperationError for RunError {
    fn class(&self) -> ErrorClass {
        self.inner().map_or(ErrorClass::NeedsAction, OperationError::class)
    }

    fn reason(&self) -> &'static str {
        match (self.inner(), self) {
            (Some(error), _) => error.reason(),
            (None, Self::Driver(_)) => "UnsupportedDriver",
            (None, Self::Signals(_)) => "Signals",
            (None, _) => "AsyncRuntime",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Driver(_) => vec!["for CloudEvents keep OCM's own agent".to_owned()],
            _ => self.inner().map(OperationError::hints).unwrap_or_default(),
        }
    }
}

/// Why the agent stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// A signal asked for it.
    Signal,
    /// A file or address changed that is only read at the start.
    Restart,
    /// Another process is the leader now.
    LostLease,
}

/// Runs until a signal, or until a new start is needed.
pub async fn run(flags: AgentFlags) -> Result<ExitReason, RunError> {
    if flags.workload_source_driver != "kube" {
        return Err(RunError::Driver(flags.workload_source_driver));
    }
    let config = flags.config.as_deref().map(OperatorConfig::read).transpose()?.unwrap_or_default();
    for note in config.notes() {
        warn!("{note}");
    }
    let hub = connect(&flags.workload_source_config).await?;
    let management = match &flags.kubeconfig {
        Some(file) => Some(connect(file).await?),
        None => connect_in_cluster().ok(),
    };
    let cluster = match (&flags.spoke_kubeconfig, &management) {
        (Some(file), _) => connect(file).await?,
        (None, Some(management)) => {
            ClusterConnection { client: management.client.clone(), host: management.host.clone() }
        }
        (None, None) => return Err(KubeconfigError::NoPod.into()),
    };
    let metrics = Arc::new(AgentMetrics::new());
    let current = Current::default();
    let port = flags.health_port.map(|port| SocketAddr::new(LISTEN.ip(), port));
    let address = flags.listen.or(port).or(config.listen()).unwrap_or(LISTEN);
    let listener = bind(address, config.certificate()).await?;
    info!(address = %listener.address(), "serving health and metrics");
    tokio::spawn(serve(listener, current.clone(), metrics.clone()));

    let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signals)?;
    let signalled = async {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    };
    let lease_client = management.map_or_else(|| cluster.client.clone(), |one| one.client);
    let lease_server = ApiServer::new(lease_client, "lease", None, metrics.clone());
    let mut candidate = (!flags.disable_leader_election)
        .then(|| lease::candidate(lease_server, election(&flags, &config)));
    let ended = lead(&flags, (hub, cluster), metrics, current, candidate.as_mut(), signalled).await;
    // Release the Lease only now, when this process writes nothing any more.
    if let Some(candidate) = &mut candidate
        && let Ok(Err(error)) = timeout(RELEASE, candidate.release(Timestamp::now())).await
    {
        log_error!(debug, &error, "cannot release the Lease");
    }
    Ok(ended)
}

fn election(flags: &AgentFlags, config: &OperatorConfig) -> Election {
    let given = config.lease_namespace().map(str::to_owned).or_else(|| flags.namespace.clone());
    let namespace = given.or_else(|| {
        let read = std::fs::read_to_string(POD_NAMESPACE_FILE).ok()?;
        Some(read.trim().to_owned()).filter(|name| !name.is_empty())
    });
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    Election {
        namespace: namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.into()),
        name: config.lease_name().unwrap_or(LEASE).into(),
        identity: format!("{}_{:016x}", host.trim(), fastrand::u64(..)),
        duration: flags.leader_election_lease_duration,
        renew_deadline: flags.leader_election_renew_deadline,
        retry_period: flags.leader_election_retry_period,
    }
}

fn settings(flags: &AgentFlags, hub_host: &str) -> AgentSettings {
    let mut settings = AgentSettings::new(&flags.spoke_cluster_name, hub_host);
    if !flags.agent_id.is_empty() {
        settings.agent_id.clone_from(&flags.agent_id);
    }
    settings.status_sync_interval = flags.status_sync_interval.max(Duration::from_secs(1));
    settings.eviction_grace = flags.appliedmanifestwork_eviction_grace_period;
    settings.report.raw = RawJsonFeedback {
        enabled: flags.is_enabled("RawFeedbackJsonString"),
        bytes_max: flags.max_json_raw_length,
    };
    settings.report.secret_values = flags.report_secret_values;
    settings.reports_without_executor = flags.report_without_executor;
    settings.caches_executors = flags.is_enabled("ExecutorValidatingCaches");
    settings.workers = usize::from(flags.workload_agent_workers);
    settings
}

/// Runs the agent while this process is the leader. Afterwards it writes nothing.
async fn lead(
    flags: &AgentFlags,
    (hub, cluster): (ClusterConnection, ClusterConnection),
    metrics: Arc<AgentMetrics>,
    current: Current,
    mut candidate: Option<&mut ElectionCandidate<AgentLease>>,
    signalled: impl Future<Output = ()>,
) -> ExitReason {
    let files = flags.workload_source_config.clone();
    let mut signalled = pin!(signalled);
    if let Some(candidate) = &mut candidate {
        tokio::select! {
            () = lease::acquire(candidate) => info!("this process is the leader"),
            () = &mut signalled => return ExitReason::Signal,
        }
    }
    let settings = settings(flags, &hub.host);
    info!(
        cluster = settings.cluster_name,
        hub_hash = settings.hub_hash,
        agent_id = settings.agent_id,
        "starting"
    );
    let agent = Agent::new(
        settings,
        (hub.client, RateLimit::of_flags(flags.hub_kube_api_qps, flags.hub_kube_api_burst)),
        (cluster.client, RateLimit::of_flags(flags.kube_api_qps, flags.kube_api_burst)),
        metrics,
    );
    *super::mutex::lock(&current) = Some(agent.clone());
    let (stop, stopped) = oneshot::channel::<()>();
    let mut running = pin!(agent.clone().run(async {
        let _stopped_or_dropped = stopped.await;
    }));
    let holding = async {
        match candidate {
            Some(candidate) => lease::hold(candidate).await,
            None => std::future::pending().await,
        }
    };
    let exit_reason = tokio::select! {
        // Without a stop the agent never ends by itself. If it does, its channels or semaphores
        // were closed: no more passes would run, so the process starts again.
        () = &mut running => return ExitReason::Restart,
        () = holding => {
            error!("the Lease is lost: another process is the leader");
            return ExitReason::LostLease;
        }
        () = signalled => ExitReason::Signal,
        () = follow_kubeconfig(&agent, &files, &hub.host) => ExitReason::Restart,
        () = wait_for_change(flags, &files) => ExitReason::Restart,
    };
    drop(stop);
    running.await;
    exit_reason
}

/// Reloads rotated credentials of the hub. Ends when the address of the hub changes.
async fn follow_kubeconfig(agent: &Arc<Agent>, file: &Path, host: &str) {
    let mut known = digest_with_credentials(file);
    loop {
        sleep(FILES).await;
        let now = digest_with_credentials(file);
        if now == known {
            continue;
        }
        match connect(file).await {
            Ok(connection) if connection.host == host => {
                known = now;
                agent.set_hub_client(connection.client);
                info!("reloaded the hub's kubeconfig");
            }
            Ok(_) => {
                warn!("the hub's address has changed; restarting");
                return;
            }
            // Probably in the middle of a change; read again soon.
            Err(error) => {
                log_error!(
                    warn,
                    &error,
                    "cannot use the changed kubeconfig of the hub yet; reading it again soon"
                );
            }
        }
    }
}

/// Waits until one of the files that are only read at the start changes.
async fn wait_for_change(flags: &AgentFlags, kubeconfig: &Path) {
    let files = flags.terminate_on_files.iter().chain(&flags.config);
    let files: Vec<&PathBuf> = files.filter(|file| *file != kubeconfig).collect();
    let before: Vec<u64> = files.iter().map(|file| digest(file)).collect();
    loop {
        sleep(FILES).await;
        let changed = files.iter().zip(&before).find(|(file, before)| digest(file) != **before);
        if let Some((file, _)) = changed {
            warn!(
                file = %file.display(),
                "a file of --terminate-on-files or --config has changed; restarting"
            );
            return;
        }
    }
}
