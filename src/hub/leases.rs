//! Leases in gitwork's own namespace: what the daemon keeps on the hub besides works is in them. It may not write
//! ConfigMaps there, in which operators approve of what it does.

use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answer::{Answer, Verb};
use super::server::{KubeHub, Question, unanswered};
use super::{HubError, bounded};
use crate::core::work::MANAGER;

/// A Lease of this metadata, to be made.
pub(super) fn new_lease(metadata: &Value) -> Value {
    json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata })
}

impl KubeHub {
    fn leases(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace())
    }

    pub(super) async fn get_lease(&self, name: &str) -> Result<Answer, HubError> {
        let path = format!("{}/{name}", self.leases());
        let content_type = "application/json";
        self.ask(&Question { verb: Verb::Get, path, body: Vec::new(), content_type }).await
    }

    /// A merge patch.
    pub(super) async fn patch_lease(&self, name: &str, patch: &Value) -> Result<Answer, HubError> {
        let path = format!("{}/{name}?fieldManager={MANAGER}", self.leases());
        let body = patch.to_string().into_bytes();
        let content_type = "application/merge-patch+json";
        self.ask(&Question { verb: Verb::Patch, path, body, content_type }).await
    }

    pub(super) async fn create_lease(&self, lease: &Value) -> Result<Answer, HubError> {
        let path = format!("{}?fieldManager={MANAGER}", self.leases());
        let (body, content_type) = (lease.to_string().into_bytes(), "application/json");
        self.ask(&Question { verb: Verb::Create, path, body, content_type }).await
    }

    /// The Lease in an answer. Where gitwork may not have it, `needs` says who needs which verbs.
    pub(super) fn lease_in<T: DeserializeOwned>(
        &self,
        answer: &Answer,
        name: &str,
        needs: &str,
    ) -> Result<T, HubError> {
        let namespace = self.namespace();
        match answer.status {
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {
                let message = format!("{needs} on leases in the namespace {namespace}, for {name}");
                Err(HubError::Forbidden { message })
            }
            status if !status.is_success() => {
                let text = bounded(&String::from_utf8_lossy(&answer.body));
                Err(unanswered(format!("{status} for the Lease {namespace}/{name}: {text}")))
            }
            _ => serde_json::from_slice(&answer.body)
                .map_err(|error| unanswered(format!("the answer is no Lease: {error}"))),
        }
    }

    /// There is no namespace to make a Lease in.
    pub(super) fn no_home(&self) -> HubError {
        HubError::NoHome { namespace: self.namespace().to_owned() }
    }
}
