//! The Lease of the leader election of one source. The source's record has a Lease of its own,
//! because each renewal changes this one.

use http::StatusCode;
use serde_json::{Value, json};

use crate::HubError;
use crate::lease_client::LeaseClient;
use gitwork_core::model::name::SourceId;
use gitwork_core::model::work::MANAGER;
use gitwork_kube::connection::ApiResponse;
use gitwork_kube::leader_election::LeaseStore;
use gitwork_kube::lease::Lease;

/// The annotation with the time at which a standby daemon received a webhook.
pub const FETCH: &str = "gitwork.dev/fetch-requested-at";

/// The name of the Lease.
pub fn lease_name(source: &SourceId) -> String {
    format!("gitwork-leader-{source}")
}

/// One source's Lease.
#[derive(Clone)]
pub struct SourceLease {
    leases: LeaseClient,
    source: SourceId,
    name: String,
}

impl SourceLease {
    /// The Lease of `source` among these.
    pub fn new(leases: LeaseClient, source: &SourceId) -> Self {
        Self { leases, source: source.clone(), name: lease_name(source) }
    }

    /// The source.
    pub fn source(&self) -> &SourceId {
        &self.source
    }

    /// The namespace of the Lease: gitwork's own.
    pub fn namespace(&self) -> &str {
        self.leases.namespace()
    }

    /// The name of the Lease; see [`lease_name`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the leader fetch at its next renewal. `at` differs each time.
    pub async fn ask_to_fetch(&self, at: &str) -> Result<(), HubError> {
        let note = json!({ "metadata": { "annotations": { (FETCH): at } } });
        let answer = self.patch(&note).await?;
        self.lease(&answer, "patch").map(drop)
    }

    async fn patch(&self, patch: &Value) -> Result<ApiResponse, HubError> {
        self.leases.patch(&self.name, patch).await
    }

    /// The Lease in a response; `None` if it changed since.
    fn lease(&self, answer: &ApiResponse, verb: &str) -> Result<Option<Lease>, HubError> {
        if answer.status == StatusCode::CONFLICT {
            return Ok(None);
        }
        let needs = format!("leader election needs {verb}");
        self.leases.read_response(answer, &self.name, &needs).map(Some)
    }
}

impl LeaseStore for SourceLease {
    type Error = HubError;

    async fn get(&self) -> Result<Option<Lease>, HubError> {
        let answer = self.leases.get(&self.name).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        self.lease(&answer, "get")
    }

    async fn create(&self, lease: &Lease) -> Result<Option<Lease>, HubError> {
        let mut lease = lease.clone();
        if let Some(metadata) = lease.get_mut("metadata").and_then(Value::as_object_mut) {
            let labels = json!({ "app.kubernetes.io/managed-by": MANAGER });
            metadata.insert("labels".into(), labels);
        }
        let answer = self.leases.create(&Value::Object(lease)).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Err(self.leases.namespace_missing()),
            // The namespace is terminating: nothing can be created in it.
            StatusCode::FORBIDDEN if is_terminating(&answer) => {
                Err(self.leases.namespace_missing())
            }
            _ => self.lease(&answer, "create"),
        }
    }

    async fn replace(&self, lease: &Lease) -> Result<Option<Lease>, HubError> {
        let version = lease.get("metadata").and_then(|metadata| metadata.get("resourceVersion"));
        let patch = json!({
            "metadata": { "resourceVersion": version }, "spec": lease.get("spec"),
        });
        let answer = self.patch(&patch).await?;
        if answer.status == StatusCode::NOT_FOUND {
            // Deleted since: the next attempt creates another one.
            return Ok(None);
        }
        self.lease(&answer, "patch")
    }
}

fn is_terminating(response: &ApiResponse) -> bool {
    response.api_status().is_namespace_terminating()
}
