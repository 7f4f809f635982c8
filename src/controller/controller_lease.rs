//! The Lease that elects the leader among the replicas of the controller.

use std::sync::Arc;
use std::time::Duration;

use gitwork_core::model::work::{LABEL_MANAGED_BY, MANAGER};
use gitwork_kube::api_status::ApiStatus;
use gitwork_kube::leader_election::{Election, ElectionCandidate, ElectionResult, LeaseStore};
use gitwork_kube::lease::Lease;
use gitwork_retry::log_error;
use gitwork_runtime::clock::WallClock;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::hub_api::{HubApi, HubOperation, HubRequest, HubRequestError};
use crate::limits;

/// Name of the Lease.
const LEASE_NAME: &str = "gitwork-controller";

/// The Lease in gitwork's own namespace.
pub(crate) struct ControllerLease {
    api: Arc<HubApi>,
    folder: String,
    subject: String,
}

/// A candidate for the Lease. `identity` is unique for each process.
pub(crate) fn candidate(
    api: Arc<HubApi>,
    namespace: &str,
    identity: String,
) -> ElectionCandidate<ControllerLease> {
    let folder = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let subject = format!("Lease {namespace}/{LEASE_NAME}");
    let election = Election {
        namespace: namespace.to_owned(),
        name: LEASE_NAME.to_owned(),
        identity,
        duration: limits::LEASE_DURATION,
        renew_deadline: limits::LEASE_RENEW,
        retry_period: limits::LEASE_RETRY,
    };
    ElectionCandidate::new(ControllerLease { api, folder, subject }, election)
}

impl ControllerLease {
    fn request(&self, operation: HubOperation) -> HubRequest {
        let path = match operation {
            HubOperation::Create => format!("{}?fieldManager={MANAGER}", self.folder),
            HubOperation::Update => {
                format!("{}/{LEASE_NAME}?fieldManager={MANAGER}", self.folder)
            }
            _ => format!("{}/{LEASE_NAME}", self.folder),
        };
        HubRequest::new(operation, path, &self.subject)
    }
}

impl LeaseStore for ControllerLease {
    type Error = HubRequestError;

    async fn get(&self) -> Result<Option<Lease>, HubRequestError> {
        let found = self.api.send(&self.request(HubOperation::Read)).await;
        none_if(found, ApiStatus::is_not_found)
    }

    async fn create(&self, lease: &Lease) -> Result<Option<Lease>, HubRequestError> {
        let mut lease = lease.clone();
        if let Some(metadata) = lease.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("labels".into(), json!({ (LABEL_MANAGED_BY): MANAGER }));
        }
        let request = self.request(HubOperation::Create);
        let request = request.with_body("application/json", Value::Object(lease));
        none_if(self.api.send(&request).await, ApiStatus::is_already_exists)
    }

    async fn replace(&self, lease: &Lease) -> Result<Option<Lease>, HubRequestError> {
        let version = lease.get("metadata").and_then(|metadata| metadata.get("resourceVersion"));
        let patch = json!({"metadata": { "resourceVersion": version }, "spec": lease.get("spec")});
        let request = self.request(HubOperation::Update);
        let request = request.with_body("application/merge-patch+json", patch);
        let is_stale = |status: &ApiStatus| status.is_conflict() || status.is_not_found();
        none_if(self.api.send(&request).await, is_stale)
    }
}

fn none_if(
    answer: Result<Lease, HubRequestError>,
    is_none: impl Fn(&ApiStatus) -> bool,
) -> Result<Option<Lease>, HubRequestError> {
    match answer {
        Err(error) if error.status().is_some_and(is_none) => Ok(None),
        other => other.map(Some),
    }
}

/// Waits until this process holds the Lease.
pub(crate) async fn acquire(candidate: &mut ElectionCandidate<ControllerLease>, clock: &WallClock) {
    let Election { namespace, name, retry_period, .. } = candidate.election().clone();
    let lease = format!("{namespace}/{name}");
    let (mut is_reported, mut leader) = (false, String::new());
    loop {
        match candidate.attempt(Duration::ZERO, clock.now()).await {
            Ok(ElectionResult::Leader) => return,
            Ok(ElectionResult::Standby { holder }) => {
                is_reported = false;
                if !holder.is_empty() && holder != leader {
                    tracing::info!(lease, leader = holder, "another replica leads; standing by");
                    leader = holder;
                }
            }
            Ok(ElectionResult::Free { .. }) => {}
            Err(error) if !std::mem::replace(&mut is_reported, true) => {
                log_error!(warn, &error, lease, "nothing is written until this replica leads");
            }
            Err(error) => log_error!(debug, &error, lease, "cannot hold the Lease"),
        }
        sleep(retry_period.mul_f64(0.8 + fastrand::f64() * 0.4)).await;
    }
}

/// Renews the Lease until it is lost.
pub(crate) async fn hold(candidate: &mut ElectionCandidate<ControllerLease>, clock: &WallClock) {
    candidate
        .hold(|| clock.now(), |error| log_error!(debug, error, "cannot renew the Lease"))
        .await;
}
