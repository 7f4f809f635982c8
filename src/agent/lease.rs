//! The agent's leader election: it leads or does not start at all, as OCM's agent.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, info, warn};

use super::core::manifest::Mapping;
use super::server::{ApiError, Server, path};
use crate::core::election::Lease;
use crate::election::{Attempt, Candidate, Election, LeaseStore};

/// The Lease on the cluster that it runs in.
pub struct AgentLease {
    server: Server,
    collection: String,
    path: String,
}

pub fn candidate(server: Server, election: Election) -> Candidate<AgentLease> {
    let (collection, path) = (
        path(&mapping(), &election.namespace, None),
        path(&mapping(), &election.namespace, Some(&election.name)),
    );
    Candidate::new(AgentLease { server, collection, path }, election)
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

/// Waits until the Lease is ours.
pub async fn acquire(candidate: &mut Candidate<AgentLease>) {
    let Election { name, identity, retry_period, .. } = candidate.election().clone();
    info!(lease = name, identity, "waiting to lead");
    let mut told = false;
    loop {
        match candidate.attempt(Duration::ZERO).await {
            Ok(Attempt::Leads) => return,
            Ok(_) => {}
            Err(error) if !std::mem::replace(&mut told, true) => {
                warn!(lease = name, %error, "the Lease cannot be written; without it nothing is applied");
            }
            Err(error) => debug!(%error, "cannot write the Lease"),
        }
        sleep(retry_period.mul_f64(0.8 + fastrand::f64() * 0.4)).await;
    }
}

/// Renews until that has failed for too long. An attempt that is still under way then counts as one that has failed.
pub async fn hold(candidate: &mut Candidate<AgentLease>) {
    let Election { renew_deadline, retry_period, .. } = candidate.election().clone();
    let mut until = Instant::now() + renew_deadline;
    loop {
        sleep(retry_period.min(until.duration_since(Instant::now()))).await;
        let asked = Instant::now();
        match timeout_at(until, candidate.attempt(Duration::ZERO)).await {
            Ok(Ok(Attempt::Leads)) => until = asked + renew_deadline,
            Ok(Ok(_)) | Err(_) => return,
            Ok(Err(error)) => debug!(%error, "cannot renew the Lease"),
        }
    }
}

fn mapping() -> Mapping {
    Mapping {
        group: "coordination.k8s.io".into(),
        version: "v1".into(),
        resource: "leases".into(),
        namespaced: true,
    }
}
