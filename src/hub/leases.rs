//! Leases in gitwork's own namespace hold the daemon's data on the hub. It may not write ConfigMaps
//! there: they hold the operators' approvals.

use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::connection::{ApiRequest, KubeHub, unavailable};
use super::response::Verb;
use super::{HubError, bounded};
use gitwork_core::model::work::MANAGER;
use gitwork_kube::connection::ApiResponse;

/// A new Lease with this metadata.
pub(super) fn new_lease(metadata: &Value) -> Value {
    json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata })
}

impl KubeHub {
    fn leases(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace())
    }

    pub(super) async fn get_lease(&self, name: &str) -> Result<ApiResponse, HubError> {
        let path = format!("{}/{name}", self.leases());
        let content_type = "application/json";
        self.send(&ApiRequest { verb: Verb::Get, path, body: Vec::new(), content_type }).await
    }

    /// A merge patch.
    pub(super) async fn patch_lease(
        &self,
        name: &str,
        patch: &Value,
    ) -> Result<ApiResponse, HubError> {
        let path = format!("{}/{name}?fieldManager={MANAGER}", self.leases());
        let body = patch.to_string().into_bytes();
        let content_type = "application/merge-patch+json";
        self.send(&ApiRequest { verb: Verb::Patch, path, body, content_type }).await
    }

    pub(super) async fn create_lease(&self, lease: &Value) -> Result<ApiResponse, HubError> {
        let path = format!("{}?fieldManager={MANAGER}", self.leases());
        let (body, content_type) = (lease.to_string().into_bytes(), "application/json");
        self.send(&ApiRequest { verb: Verb::Create, path, body, content_type }).await
    }

    /// The Lease in a response. `needs` is the start of the message if a permission is missing.
    pub(super) fn lease_in<T: DeserializeOwned>(
        &self,
        answer: &ApiResponse,
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
                Err(unavailable(format!("{status} for the Lease {namespace}/{name}: {text}")))
            }
            _ => serde_json::from_slice(&answer.body)
                .map_err(|error| unavailable(format!("the response is no Lease: {error}"))),
        }
    }

    /// The error for a missing namespace of gitwork's own.
    pub(super) fn namespace_missing(&self) -> HubError {
        HubError::NamespaceMissing { namespace: self.namespace().to_owned() }
    }
}
