//! One request to the hub's API server.

use http::{Method, Request, header};

use crate::response::Verb;
use crate::work_kind::WorkKind;
use crate::{HubError, unavailable};
use gitwork_core::model::name::WorkKey;
use gitwork_core::model::work::MANAGER;

/// One request; it can be sent more than once.
pub(crate) struct ApiRequest {
    pub verb: Verb,
    pub path: String,
    pub body: Vec<u8>,
    pub content_type: &'static str,
}

impl ApiRequest {
    /// A list or watch of the objects of a kind, in all namespaces.
    pub fn of_all(kind: WorkKind, verb: Verb, query: &str) -> Self {
        let path = format!("/apis/{}/{}?{query}", kind.names().0, kind.resource());
        Self { verb, path, body: Vec::new(), content_type: "application/json" }
    }

    /// A request for one ManifestWork or ManifestWorkReplicaSet. Names are DNS names and need no
    /// escaping.
    pub fn of_work(key: &WorkKey, verb: Verb) -> Self {
        let kind = WorkKind::of(key);
        let (version, namespace) = (kind.names().0, key.cluster.namespace());
        let folder = format!("/apis/{version}/namespaces/{namespace}/{}", kind.resource());
        let path = match verb {
            Verb::Create => format!("{folder}?fieldManager={MANAGER}"),
            Verb::Patch => format!("{folder}/{}?fieldManager={MANAGER}", key.work),
            _ => format!("{folder}/{}", key.work),
        };
        Self { verb, path, body: Vec::new(), content_type: "application/json" }
    }

    /// The kind of the objects that it is about.
    pub fn kind(&self) -> WorkKind {
        let sets = format!("/{}", WorkKind::ReplicaSet.resource());
        if self.path.contains(&sets) { WorkKind::ReplicaSet } else { WorkKind::ManifestWork }
    }

    /// The request for the HTTP client.
    pub fn to_http(&self) -> Result<Request<Vec<u8>>, HubError> {
        let method = match self.verb {
            Verb::Get | Verb::List | Verb::Watch => Method::GET,
            Verb::Create => Method::POST,
            Verb::Patch => Method::PATCH,
            Verb::Delete => Method::DELETE,
        };
        Request::builder()
            .method(method)
            .uri(&self.path)
            .header(header::CONTENT_TYPE, self.content_type)
            .body(self.body.clone())
            .map_err(|error| unavailable(error.to_string()))
    }
}
