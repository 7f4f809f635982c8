//! Leases in gitwork's own namespace hold the daemon's data on the hub. It may not write ConfigMaps
//! there: they hold the operators' approvals.

use std::sync::Arc;

use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::connection::HubConnection;
use crate::request::ApiRequest;
use crate::response::Verb;
use crate::{HubError, bounded, unavailable};
use gitwork_core::model::work::MANAGER;
use gitwork_kube::connection::ApiResponse;

/// A new Lease with this metadata.
pub(crate) fn new_lease(metadata: &Value) -> Value {
    json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata })
}

/// The Leases in gitwork's own namespace.
#[derive(Clone)]
pub struct LeaseClient {
    connection: Arc<HubConnection>,
    namespace: Arc<str>,
}

impl LeaseClient {
    pub(crate) fn new(connection: Arc<HubConnection>, namespace: Arc<str>) -> Self {
        Self { connection, namespace }
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) async fn get(&self, name: &str) -> Result<ApiResponse, HubError> {
        let path = format!("{}/{name}", self.path());
        let content_type = "application/json";
        self.connection
            .send(&ApiRequest { verb: Verb::Get, path, body: Vec::new(), content_type })
            .await
    }

    /// A merge patch.
    pub(crate) async fn patch(&self, name: &str, patch: &Value) -> Result<ApiResponse, HubError> {
        let path = format!("{}/{name}?fieldManager={MANAGER}", self.path());
        let body = patch.to_string().into_bytes();
        let content_type = "application/merge-patch+json";
        self.connection.send(&ApiRequest { verb: Verb::Patch, path, body, content_type }).await
    }

    pub(crate) async fn create(&self, lease: &Value) -> Result<ApiResponse, HubError> {
        let path = format!("{}?fieldManager={MANAGER}", self.path());
        let (body, content_type) = (lease.to_string().into_bytes(), "application/json");
        self.connection.send(&ApiRequest { verb: Verb::Create, path, body, content_type }).await
    }

    /// The Lease in a response. `needs` is the start of the message if a permission is missing.
    pub(crate) fn read_response<T: DeserializeOwned>(
        &self,
        answer: &ApiResponse,
        name: &str,
        needs: &str,
    ) -> Result<T, HubError> {
        let namespace = self.namespace();
        match answer.status {
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {
                let message = format!("{needs} on leases in the namespace {namespace}, for {name}");
                Err(HubError::Forbidden { message, hint: None })
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
    pub(crate) fn namespace_missing(&self) -> HubError {
        HubError::NamespaceMissing { namespace: self.namespace().to_owned() }
    }

    fn path(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }
}
