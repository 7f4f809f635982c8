//! The Lease by which one of several daemons leads a source. It is another one than that of the source's record, which
//! would change with each renewal.

use http::StatusCode;
use serde_json::{Value, json};

use super::HubError;
use super::answer::Answer;
use super::server::KubeHub;
use crate::core::election::Lease;
use crate::core::name::SourceId;
use crate::core::work::MANAGER;
use crate::election::LeaseStore;

/// Set by a daemon that stands by to when it was told that there is something new in Git.
pub const FETCH: &str = "gitwork.dev/fetch";

/// The name of the Lease.
pub fn lease_name(source: &SourceId) -> String {
    format!("gitwork-leader-{source}")
}

/// One source's Lease.
#[derive(Clone)]
pub struct SourceLease {
    hub: KubeHub,
    source: SourceId,
    name: String,
}

impl SourceLease {
    pub fn new(hub: KubeHub, source: &SourceId) -> Self {
        Self { hub, source: source.clone(), name: lease_name(source) }
    }

    pub fn source(&self) -> &SourceId {
        &self.source
    }

    pub fn namespace(&self) -> &str {
        self.hub.namespace()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Has whoever leads fetch at its next renewal. `at` is another text each time.
    pub async fn ask_to_fetch(&self, at: &str) -> Result<(), HubError> {
        let note = json!({ "metadata": { "annotations": { (FETCH): at } } });
        let answer = self.patch(&note).await?;
        self.lease(&answer, "patch").map(drop)
    }

    async fn patch(&self, patch: &Value) -> Result<Answer, HubError> {
        self.hub.patch_lease(&self.name, patch).await
    }

    /// The Lease in an answer; `None` where another has changed it.
    fn lease(&self, answer: &Answer, verb: &str) -> Result<Option<Lease>, HubError> {
        if answer.status == StatusCode::CONFLICT {
            return Ok(None);
        }
        let needs = format!("leader election needs {verb}");
        self.hub.lease_in(answer, &self.name, &needs).map(Some)
    }
}

impl LeaseStore for SourceLease {
    type Error = HubError;

    async fn get(&self) -> Result<Option<Lease>, HubError> {
        let answer = self.hub.get_lease(&self.name).await?;
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
        let answer = self.hub.create_lease(&Value::Object(lease)).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Err(self.hub.no_home()),
            // The namespace is on its way out: nothing can be made in it any more.
            StatusCode::FORBIDDEN if is_terminating(&answer) => Err(self.hub.no_home()),
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
            // Deleted since: the next look makes another.
            return Ok(None);
        }
        self.lease(&answer, "patch")
    }
}

fn is_terminating(answer: &Answer) -> bool {
    let status: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let causes = status.pointer("/details/causes").and_then(Value::as_array);
    causes
        .into_iter()
        .flatten()
        .any(|cause| cause.get("reason").and_then(Value::as_str) == Some("NamespaceTerminating"))
}
