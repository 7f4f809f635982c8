//! `gitwork-agent agent`: from flags to a running agent, and to its end.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tracing::{debug, error, info, warn};

use super::config::{Config, ConfigError};
use super::core::feedback::RawJson;
use super::flags::AgentFlags;
use super::kubeconfig::{
    Connection, KubeconfigError, connect, connect_in_cluster, digest, digest_with_credentials,
};
use super::lease::{self, AgentLease};
use super::metrics::Metrics;
use super::serve::{Current, ServeError, bind, serve};
use super::server::{RateLimit, Server};
use super::{Agent, Settings};
use crate::election::{Candidate, Election};

/// Upstream looks at files as often.
const FILES: Duration = Duration::from_secs(10);
/// For the Lease to be given up.
const RELEASE: Duration = Duration::from_secs(2);
/// Where OCM's agent serves.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8443);
const LEASE: &str = "work-agent-lock";
const POD_NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
const DEFAULT_NAMESPACE: &str = "open-cluster-management-agent";

/// Why the agent did not start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(
        "the driver {0:?} is not supported: only --workload-source-driver=kube is; for CloudEvents keep OCM's own agent"
    )]
    Driver(String),
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
}

/// How the agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Signal,
    /// Something that only a new start takes in has changed.
    Restart,
    /// Another process leads now.
    LostLease,
}

/// Runs until a signal, or until a new start is needed.
pub async fn run(flags: AgentFlags) -> Result<Ended, RunError> {
    if flags.workload_source_driver != "kube" {
        return Err(RunError::Driver(flags.workload_source_driver));
    }
    let config = flags.config.as_deref().map(Config::read).transpose()?.unwrap_or_default();
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
            Connection { client: management.client.clone(), host: management.host.clone() }
        }
        (None, None) => return Err(KubeconfigError::NoPod.into()),
    };
    let metrics = Arc::new(Metrics::new());
    let current = Current::default();
    let address = flags.listen.or(config.listen()).unwrap_or(LISTEN);
    let listener = bind(address, config.certificate()).await?;
    info!(address = %listener.address(), "serving health and metrics");
    tokio::spawn(serve(listener, current.clone(), metrics.clone()));

    let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signals)?;
    let signalled = async {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    };
    let lease_client = management.map_or_else(|| cluster.client.clone(), |one| one.client);
    let lease_server = Server::new(lease_client, "lease", None, metrics.clone());
    let mut candidate = (!flags.disable_leader_election)
        .then(|| lease::candidate(lease_server, election(&flags, &config)));
    let ended = lead(&flags, (hub, cluster), metrics, current, candidate.as_mut(), signalled).await;
    // Only now, when nothing is written any more, may another process lead.
    if let Some(candidate) = &mut candidate
        && let Ok(Err(error)) = timeout(RELEASE, candidate.release()).await
    {
        debug!(%error, "cannot release the Lease");
    }
    Ok(ended)
}

fn election(flags: &AgentFlags, config: &Config) -> Election {
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

fn settings(flags: &AgentFlags, hub_host: &str) -> Settings {
    let mut settings = Settings::new(&flags.spoke_cluster_name, hub_host);
    if !flags.agent_id.is_empty() {
        settings.agent_id.clone_from(&flags.agent_id);
    }
    settings.status_sync_interval = flags.status_sync_interval.max(Duration::from_secs(1));
    settings.eviction_grace = flags.appliedmanifestwork_eviction_grace_period;
    settings.raw = RawJson {
        enabled: flags.is_enabled("RawFeedbackJsonString"),
        bytes_max: flags.max_json_raw_length,
    };
    settings.caches_executors = flags.is_enabled("ExecutorValidatingCaches");
    settings.workers = usize::from(flags.workload_agent_workers);
    settings
}

fn limit(qps: Option<f64>, burst: Option<f64>) -> Option<RateLimit> {
    let qps = qps.filter(|qps| *qps > 0.0)?;
    Some(RateLimit::new(qps, burst.unwrap_or(qps * 2.0).max(1.0)))
}

/// Works while this process leads. When it ends, nothing is written any more.
async fn lead(
    flags: &AgentFlags,
    (hub, cluster): (Connection, Connection),
    metrics: Arc<Metrics>,
    current: Current,
    mut candidate: Option<&mut Candidate<AgentLease>>,
    signalled: impl Future<Output = ()>,
) -> Ended {
    let files = flags.workload_source_config.clone();
    let mut signalled = pin!(signalled);
    if let Some(candidate) = &mut candidate {
        tokio::select! {
            () = lease::acquire(candidate) => info!("leading"),
            () = &mut signalled => return Ended::Signal,
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
        (hub.client, limit(flags.hub_kube_api_qps, flags.hub_kube_api_burst)),
        (cluster.client, limit(flags.kube_api_qps, flags.kube_api_burst)),
        metrics,
    );
    *super::lock(&current) = Some(agent.clone());
    let (stop, stopped) = oneshot::channel::<()>();
    let mut working = pin!(agent.clone().run(async {
        let _stopped_or_dropped = stopped.await;
    }));
    let holding = async {
        match candidate {
            Some(candidate) => lease::hold(candidate).await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        () = &mut working => return Ended::Restart,
        () = holding => {
            error!("the Lease is lost: another process leads");
            return Ended::LostLease;
        }
        () = signalled => Ended::Signal,
        () = follow_kubeconfig(&agent, &files, &hub.host) => Ended::Restart,
        () = wait_for_change(flags, &files) => Ended::Restart,
    };
    drop(stop);
    working.await;
    ended
}

/// Takes in rotated credentials of the hub. Ends where the hub is another one.
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
                info!("the hub's kubeconfig was read anew");
            }
            Ok(_) => {
                warn!("the hub's address has changed: starting anew");
                return;
            }
            // In the middle of a change; looked at again soon.
            Err(error) => warn!(%error, "the hub's kubeconfig has changed and cannot be used yet"),
        }
    }
}

/// Waits until one of the files changes that only a new start takes in.
async fn wait_for_change(flags: &AgentFlags, kubeconfig: &Path) {
    let files = flags.terminate_on_files.iter().chain(&flags.config);
    let files: Vec<&PathBuf> = files.filter(|file| *file != kubeconfig).collect();
    let before: Vec<u64> = files.iter().map(|file| digest(file)).collect();
    loop {
        sleep(FILES).await;
        let changed = files.iter().zip(&before).find(|(file, before)| digest(file) != **before);
        if let Some((file, _)) = changed {
            warn!(file = %file.display(), "a file of --terminate-on-files or --config has changed: starting anew");
            return;
        }
    }
}
