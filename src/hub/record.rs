//! A source's record on the hub: an annotation of a Lease in gitwork's own namespace.

use http::StatusCode;
use serde_json::{Value, json};

use super::connection::{KubeHub, unavailable};
use super::directives::object_name;
use super::leases::new_lease;
use super::{HubError, StoredRecord};
use gitwork_core::model::name::SourceId;
use gitwork_core::model::work::MANAGER;
use gitwork_core::plan::record::Record;
use gitwork_kube::connection::ApiResponse;

/// The annotation with the record.
const ANNOTATION: &str = "gitwork.dev/record";

impl KubeHub {
    pub(super) async fn read_record(
        &self,
        source: &SourceId,
    ) -> Result<Option<StoredRecord>, HubError> {
        let answer = self.get_lease(&object_name(source)).await?;
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
        let name = object_name(source);
        let annotations = json!({ (ANNOTATION): record.text() });
        let answer = match before {
            Some(StoredRecord { resource_version, .. }) => {
                let metadata =
                    json!({ "resourceVersion": resource_version, "annotations": annotations });
                self.patch_lease(&name, &json!({ "metadata": metadata })).await?
            }
            None => {
                let labels = json!({ "app.kubernetes.io/managed-by": MANAGER });
                let metadata =
                    json!({ "name": name, "annotations": annotations, "labels": labels });
                self.create_lease(&new_lease(&metadata)).await?
            }
        };
        match (answer.status, before) {
            (StatusCode::CONFLICT, _) | (StatusCode::NOT_FOUND, Some(_)) => {
                Err(HubError::Stale { key: format!("the Lease {}/{name}", self.namespace()) })
            }
            (StatusCode::NOT_FOUND, None) => Err(self.namespace_missing()),
            _ => self.stored(source, &answer, "create, patch"),
        }
    }

    /// The record in the Lease of a response. A Lease without the annotation has an empty record.
    fn stored(
        &self,
        source: &SourceId,
        answer: &ApiResponse,
        verbs: &str,
    ) -> Result<StoredRecord, HubError> {
        let name = object_name(source);
        let needs = format!("the record of a source needs {verbs}");
        let lease: Value = self.lease_in(answer, &name, &needs)?;
        let metadata = lease.get("metadata").unwrap_or(&Value::Null);
        let version = metadata.get("resourceVersion").and_then(Value::as_str);
        let resource_version =
            version.ok_or_else(|| unavailable("the response is no Lease".into()))?.to_owned();
        let text = metadata.get("annotations").and_then(|all| all.get(ANNOTATION));
        let record = match text.and_then(Value::as_str) {
            None => Record::default(),
            Some(text) => Record::read(text).map_err(|why| HubError::InvalidRecord {
                namespace: self.namespace().to_owned(),
                name,
                why,
            })?,
        };
        Ok(StoredRecord { record, resource_version })
    }
}
