//! The agent's leader election. As with OCM's agent, only the leader runs.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::sleep;
use tracing::info;

use super::resource_path::path;
use super::server::{ApiError, ApiServer};
use gitwork_agent_core::manifest::ResourceMapping;
use gitwork_kube::leader_election::{Election, ElectionCandidate, ElectionResult, LeaseStore};
use gitwork_kube::lease::Lease;
use gitwork_retry::log_error;

/// The Lease on the cluster that it runs in.
pub struct AgentLease {
    server: ApiServer,
    collection: String,
    path: String,
}

/// A candidate for the Lease of `election`, behind `server`.
pub fn candidate(server: ApiServer, election: Election) -> ElectionCandidate<AgentLease> {
    let (collection, path) = (
        path(&mapping(), &election.namespace, None),
        path(&mapping(), &election.namespace, Some(&election.name)),
    );
    ElectionCandidate::new(AgentLease { server, collection, path }, election)
}

impl LeaseStore for AgentLease {
    type Error = ApiError;

    async fn get(&self) -> Result<Option<Lease>, ApiError> {
        self.server.get(&self.path).await
    }

    async fn create(&self, lease: &Lease) -> Result<Option<Lease>, ApiError> {
        match self.server.create(&self.collection, lease).await {
            Err(error) if error.is_already_exists() => Ok(None),
            answer => answer.map(Some),
        }
    }

    async fn replace(&self, lease: &Lease) -> Result<Option<Lease>, ApiError> {
        match self.server.replace(&self.path, lease).await {
            Err(error) if error.is_conflict() => Ok(None),
            answer => answer.map(Some),
        }
    }
}

/// Waits until this process holds the Lease.
pub async fn acquire(candidate: &mut ElectionCandidate<AgentLease>) {
    let Election { name, identity, retry_period, .. } = candidate.election().clone();
    info!(lease = name, identity, "waiting for leadership");
    let mut is_reported = false;
    loop {
        match candidate.attempt(Duration::ZERO, Timestamp::now()).await {
            Ok(ElectionResult::Leader) => return,
            Ok(_) => {}
            Err(error) if !std::mem::replace(&mut is_reported, true) => {
                log_error!(
                    warn,
                    &error,
                    lease = name,
                    "cannot write the Lease; nothing is applied until this process holds it"
                );
            }
            Err(error) => log_error!(debug, &error, "cannot write the Lease"),
        }
        sleep(retry_period.mul_f64(0.8 + fastrand::f64() * 0.4)).await;
    }
}

/// Renews the Lease until it is lost.
pub async fn hold(candidate: &mut ElectionCandidate<AgentLease>) {
    candidate
        .hold(Timestamp::now, |error| log_error!(debug, error, "cannot renew the Lease"))
        .await;
}

fn mapping() -> ResourceMapping {
    ResourceMapping {
        group: "coordination.k8s.io".into(),
        version: "v1".into(),
        resource: "leases".into(),
        namespaced: true,
    }
}
