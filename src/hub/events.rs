//! Kubernetes Events on ManifestWorks, where `kubectl describe` and `kubectl get events` show them.

use std::sync::Arc;

use serde_json::json;

use crate::connection::HubConnection;
use crate::request::ApiRequest;
use crate::response::Verb;
use crate::work_kind::WorkKind;
use crate::{HubError, bounded, unavailable};
use gitwork_core::model::name::WorkKey;
use gitwork_report::status::transition::EventNote;

/// The reporting controller: Kubernetes requires a qualified name.
const CONTROLLER: &str = "gitwork.dev/gitwork";

/// The object and the time of an Event.
#[derive(Debug, Clone)]
pub struct About<'a> {
    /// The namespace and name of the ManifestWork.
    pub key: &'a WorkKey,
    /// The uid of the ManifestWork: `kubectl describe` asks for the Events of one object by it.
    pub uid: &'a str,
    /// When it happened. Events have microseconds.
    pub at: jiff::Timestamp,
    /// The pod's name.
    pub instance: &'a str,
}

/// Writes Events to the hub.
pub struct EventRecorder {
    connection: Arc<HubConnection>,
}

impl EventRecorder {
    pub(crate) fn new(connection: Arc<HubConnection>) -> Self {
        Self { connection }
    }

    /// Writes one Event. If it exists, an earlier attempt wrote it and lost the response.
    pub async fn record(&self, about: &About<'_>, note: &EventNote) -> Result<(), HubError> {
        let (key, at) = (about.key, about.at.as_microsecond());
        let (version, kind) = WorkKind::of(key).names();
        let namespace = key.cluster.namespace();
        let event = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "namespace": namespace,
                "name": format!("{}.{at:x}", key.work),
            },
            "eventTime": about.at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
            "reportingController": CONTROLLER,
            "reportingInstance": about.instance,
            "action": "Sync",
            "type": if note.is_warning { "Warning" } else { "Normal" },
            "reason": note.reason,
            "note": note.text,
            "regarding": {
                "apiVersion": version,
                "kind": kind,
                "namespace": namespace,
                "name": key.work.as_str(),
                "uid": about.uid,
            },
        });
        let request = ApiRequest {
            verb: Verb::Create,
            path: format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"),
            body: event.to_string().into_bytes(),
            content_type: "application/json",
        };
        let answer = self.connection.send(&request).await?;
        let status = answer.status.as_u16();
        if answer.status.is_success() || status == 409 {
            return Ok(());
        }
        let said: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let said = bounded(said["message"].as_str().unwrap_or_default());
        if matches!(status, 401 | 403) {
            let message =
                format!("create events.events.k8s.io in namespace {namespace:?} ({said})");
            return Err(HubError::Forbidden { message, hint: None });
        }
        Err(unavailable(format!("the hub rejects an Event ({status}): {said}")))
    }
}
