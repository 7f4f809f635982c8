//! A source's record on the hub: an annotation of a Lease in gitwork's own namespace. The daemon may write Leases there,
//! and must not write ConfigMaps, in which operators approve of what it does.

use http::StatusCode;
use serde_json::{Value, json};

use super::answer::{Answer, Verb};
use super::directives::object_name;
use super::server::{KubeHub, Question, unanswered};
use super::{HubError, StoredRecord, bounded};
use crate::core::name::SourceId;
use crate::core::record::Record;
use crate::core::work::MANAGER;

/// Where the record stands in the Lease.
const ANNOTATION: &str = "gitwork.dev/record";

impl KubeHub {
    pub(super) fn leases(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace())
    }

    pub(super) async fn read_record(
        &self,
        source: &SourceId,
    ) -> Result<Option<StoredRecord>, HubError> {
        let question = Question {
            verb: Verb::Get,
            path: format!("{}/{}", self.leases(), object_name(source)),
            body: Vec::new(),
            content_type: "application/json",
        };
        let answer = self.ask(&question).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        self.stored(source, &answer, "get").map(Some)
    }

    pub(super) async fn write_record(
        &self,
        source: &SourceId,
        record: &Record,
        before: Option<&StoredRecord>,
    ) -> Result<StoredRecord, HubError> {
        let (folder, name) = (self.leases(), object_name(source));
        let annotations = json!({ (ANNOTATION): record.text() });
        let question = match before {
            Some(before) => {
                let metadata = json!({
                    "resourceVersion": before.resource_version, "annotations": annotations,
                });
                Question {
                    verb: Verb::Patch,
                    path: format!("{folder}/{name}?fieldManager={MANAGER}"),
                    body: json!({ "metadata": metadata }).to_string().into_bytes(),
                    content_type: "application/merge-patch+json",
                }
            }
            None => {
                let metadata = json!({
                    "name": name, "annotations": annotations,
                    "labels": { "app.kubernetes.io/managed-by": MANAGER },
                });
                let lease = json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
                });
                Question {
                    verb: Verb::Create,
                    path: format!("{folder}?fieldManager={MANAGER}"),
                    body: lease.to_string().into_bytes(),
                    content_type: "application/json",
                }
            }
        };
        let answer = self.ask(&question).await?;
        match (answer.status, before) {
            (StatusCode::CONFLICT, _) | (StatusCode::NOT_FOUND, Some(_)) => {
                Err(HubError::Stale { key: format!("the Lease {}/{name}", self.namespace()) })
            }
            (StatusCode::NOT_FOUND, None) => {
                Err(HubError::NoHome { namespace: self.namespace().to_owned() })
            }
            _ => self.stored(source, &answer, "create, patch"),
        }
    }

    /// The record in an answered Lease. A Lease that somebody made without one has an empty record.
    fn stored(
        &self,
        source: &SourceId,
        answer: &Answer,
        verbs: &str,
    ) -> Result<StoredRecord, HubError> {
        let (namespace, name) = (self.namespace(), object_name(source));
        match answer.status {
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {
                let message = format!(
                    "the record of a source needs {verbs} on leases in the namespace {namespace}, for {name}"
                );
                return Err(HubError::Forbidden { message });
            }
            status if !status.is_success() => {
                let text = bounded(&String::from_utf8_lossy(&answer.body));
                return Err(unanswered(format!(
                    "{status} for the Lease {namespace}/{name}: {text}"
                )));
            }
            _ => {}
        }
        let lease: Value = serde_json::from_slice(&answer.body)
            .map_err(|error| unanswered(format!("the answer is no Lease: {error}")))?;
        let metadata = lease.get("metadata").unwrap_or(&Value::Null);
        let version = metadata.get("resourceVersion").and_then(Value::as_str);
        let resource_version =
            version.ok_or_else(|| unanswered("the answer is no Lease".into()))?.to_owned();
        let text = metadata.get("annotations").and_then(|all| all.get(ANNOTATION));
        let record = match text.and_then(Value::as_str) {
            None => Record::default(),
            Some(text) => Record::read(text).map_err(|why| HubError::BadRecord {
                namespace: namespace.to_owned(),
                name,
                why,
            })?,
        };
        Ok(StoredRecord { record, resource_version })
    }
}
