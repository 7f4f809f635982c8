//! Requests to an API server, on objects as JSON. A run stops at its gate before each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::Request;
use kube::Client;
use serde_json::{Value, json};

use super::gate::Gate;
use super::json::text;

/// The field manager of every write, as upstream's, which has it from the user agent.
const FIELD_MANAGER: &str = "work-agent";

/// Why a request failed, by what upstream's code distinguishes.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("not found: {0}")]
    NotFound(kube::Error),
    /// The object has another uid or resourceVersion.
    #[error("conflict: {0}")]
    Conflict(kube::Error),
    #[error(transparent)]
    Other(kube::Error),
}

impl From<kube::Error> for RequestError {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) if status.code == 404 => Self::NotFound(error),
            // AlreadyExists has the code 409 too, and is no conflict.
            kube::Error::Api(status) if status.reason == "Conflict" => Self::Conflict(error),
            _ => Self::Other(error),
        }
    }
}

/// Where an object is in the API. A cluster-scoped object has an empty namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

impl Address {
    fn collection(&self) -> String {
        let Self { group, version, resource, namespace, .. } = self;
        let root = match group.as_str() {
            "" => format!("/api/{version}"),
            _ => format!("/apis/{group}/{version}"),
        };
        match namespace.as_str() {
            "" => format!("{root}/{resource}"),
            _ => format!("{root}/namespaces/{namespace}/{resource}"),
        }
    }

    fn object(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }
}

/// A kind of the API.
#[derive(Clone, Debug)]
pub struct Mapping {
    pub resource: String,
    pub is_namespaced: bool,
}

/// Kinds by `apiVersion` and `kind`. Found kinds are kept, as upstream's RESTMapper keeps them.
pub type Mappings = Arc<Mutex<BTreeMap<(String, String), Mapping>>>;

/// The requests of one run, or of the informers.
#[derive(Clone)]
pub struct Requests {
    pub client: Client,
    pub mappings: Mappings,
    /// None for requests that no choice delays.
    pub gate: Option<Gate>,
}

impl Requests {
    async fn send(
        &self,
        method: &str,
        path: &str,
        content: Option<(&str, &Value)>,
    ) -> Result<Value, RequestError> {
        if let Some(gate) = &self.gate {
            gate.pass(format!("{method} {}", path.split('?').next().unwrap_or(path))).await;
        }
        let mut request = Request::builder().method(method).uri(path);
        let body = match content {
            Some((content_type, body)) => {
                request = request.header("content-type", content_type);
                serde_json::to_vec(body).unwrap()
            }
            None => Vec::new(),
        };
        Ok(self.client.request(request.body(body).unwrap()).await?)
    }

    async fn write(
        &self,
        method: &str,
        path: &str,
        content: (&str, &Value),
    ) -> Result<Value, RequestError> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}");
        self.send(method, &path, Some(content)).await
    }

    /// The items of a list.
    pub async fn list(&self, of: &Address) -> Result<Vec<Value>, RequestError> {
        let mut list = self.send("GET", &of.collection(), None).await?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// The live object. None if there is none.
    pub async fn get(&self, of: &Address) -> Result<Option<Value>, RequestError> {
        match self.send("GET", &of.object(), None).await {
            Ok(found) => Ok(Some(found)),
            Err(RequestError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn create(&self, at: &Address, object: &Value) -> Result<Value, RequestError> {
        self.write("POST", &at.collection(), ("application/json", object)).await
    }

    pub async fn replace(&self, at: &Address, object: &Value) -> Result<Value, RequestError> {
        self.write("PUT", &at.object(), ("application/json", object)).await
    }

    pub async fn merge(&self, at: &Address, patch: &Value) -> Result<Value, RequestError> {
        self.write("PATCH", &at.object(), ("application/merge-patch+json", patch)).await
    }

    pub async fn merge_status(&self, at: &Address, patch: &Value) -> Result<Value, RequestError> {
        let path = format!("{}/status", at.object());
        self.write("PATCH", &path, ("application/merge-patch+json", patch)).await
    }

    /// Server-side apply by a field manager.
    pub async fn apply(
        &self,
        at: &Address,
        object: &Value,
        (manager, force): (&str, bool),
    ) -> Result<Value, RequestError> {
        let path = format!("{}?fieldManager={manager}&force={force}", at.object());
        self.send("PATCH", &path, Some(("application/apply-patch+yaml", object))).await
    }

    pub async fn delete(&self, at: &Address, options: &Value) -> Result<(), RequestError> {
        let content = Some(("application/json", options));
        self.send("DELETE", &at.object(), content).await.map(|_| ())
    }

    /// Deletes an object if it has this uid. Its dependents follow.
    pub async fn delete_uid(&self, at: &Address, uid: &str) -> Result<(), RequestError> {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions",
            "propagationPolicy": "Background", "preconditions": {"uid": uid}});
        self.delete(at, &options).await
    }

    /// The kind of a manifest. None also if the API server does not answer.
    pub async fn mapping(&self, manifest: &Value) -> Option<Mapping> {
        let (version, kind) = (text(manifest, "/apiVersion"), text(manifest, "/kind"));
        let key = (version.to_owned(), kind.to_owned());
        if let Some(found) = self.mappings.lock().unwrap().get(&key) {
            return Some(found.clone());
        }
        let list = match version.contains('/') {
            true => self.client.list_api_group_resources(version).await.ok()?,
            false => self.client.list_core_api_resources(version).await.ok()?,
        };
        let is_it = |name: &str, of: &str| of == kind && !name.contains('/');
        let found = list.resources.into_iter().find(|one| is_it(&one.name, &one.kind))?;
        let mapping = Mapping { resource: found.name, is_namespaced: found.namespaced };
        self.mappings.lock().unwrap().insert(key, mapping.clone());
        Some(mapping)
    }
}
