//! The Lease of the leader election of one source. The source's record has a Lease of its own,
//! because each renewal changes this one.

use http::StatusCode;
use serde_json::{Value, json};

use crate::HubError;
use crate::lease_client::LeaseClient;
use crate::record::RecordStore;
use gitwork_core::model::name::SourceId;
use gitwork_core::model::source_origin::SourceOrigin;
use gitwork_core::model::work::MANAGER;
use gitwork_kube::connection::ApiResponse;
use gitwork_kube::leader_election::LeaseStore;
use gitwork_kube::lease::{Lease, annotation};

/// The annotation with the time at which a standby daemon received a webhook.
pub const FETCH: &str = "gitwork.dev/fetch-requested-at";

/// The annotation with the origin that the holder reads: a repository and a path.
const ORIGIN: &str = "gitwork.dev/origin";

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
    /// What this process reads.
    origin: Option<SourceOrigin>,
}

impl SourceLease {
    /// The Lease of `source` among these. `origin`: what this process reads.
    pub fn new(leases: LeaseClient, source: &SourceId, origin: Option<SourceOrigin>) -> Self {
        Self { leases, source: source.clone(), name: lease_name(source), origin }
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

    /// The annotations that each write of a holder sets.
    fn annotations(&self) -> Value {
        let origin = self.origin.as_ref();
        origin.map_or_else(|| json!({}), |origin| json!({ (ORIGIN): origin.as_str() }))
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
            metadata.insert("annotations".into(), self.annotations());
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
            "metadata": { "resourceVersion": version, "annotations": self.annotations() },
            "spec": lease.get("spec"),
        });
        let answer = self.patch(&patch).await?;
        if answer.status == StatusCode::NOT_FOUND {
            // Deleted since: the next attempt creates another one.
            return Ok(None);
        }
        self.lease(&answer, "patch")
    }

    /// A holder that reads another repository than the source's record names writes nothing until
    /// an operator approves it. It must not keep the right one from syncing.
    async fn may_take(&self, lease: &Lease) -> Result<bool, HubError> {
        let (Some(ours), Some(theirs)) = (&self.origin, annotation(lease, ORIGIN)) else {
            return Ok(false);
        };
        if theirs == ours.as_str() {
            return Ok(false);
        }
        let stored = RecordStore::new(self.leases.clone()).get(&self.source).await?;
        Ok(stored.is_some_and(|stored| stored.record.origin.as_ref() == Some(ours)))
    }
}

fn is_terminating(response: &ApiResponse) -> bool {
    response.api_status().is_namespace_terminating()
}
