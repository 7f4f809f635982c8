//! A source's record on the hub: an annotation of a Lease in gitwork's own namespace.

use http::StatusCode;
use serde_json::{Value, json};

use crate::directives::object_name;
use crate::lease_client::{LeaseClient, new_lease};
use crate::{HubError, StoredRecord, unavailable};
use gitwork_core::model::name::SourceId;
use gitwork_core::model::work::MANAGER;
use gitwork_core::plan::record::Record;
use gitwork_kube::connection::ApiResponse;

/// The annotation with the record.
const ANNOTATION: &str = "gitwork.dev/record";

/// The records of sources.
pub(crate) struct RecordStore {
    leases: LeaseClient,
}

impl RecordStore {
    /// The records in these Leases.
    pub fn new(leases: LeaseClient) -> Self {
        Self { leases }
    }

    /// See [`Hub::record`](crate::Hub::record).
    pub async fn get(&self, source: &SourceId) -> Result<Option<StoredRecord>, HubError> {
        let answer = self.leases.get(&object_name(source)).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        self.stored(source, &answer, "get").map(Some)
    }

    /// See [`Hub::set_record`](crate::Hub::set_record).
    pub async fn set(
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
                self.leases.patch(&name, &json!({ "metadata": metadata })).await?
            }
            None => {
                let labels = json!({ "app.kubernetes.io/managed-by": MANAGER });
                let metadata =
                    json!({ "name": name, "annotations": annotations, "labels": labels });
                self.leases.create(&new_lease(&metadata)).await?
            }
        };
        match (answer.status, before) {
            (StatusCode::CONFLICT, _) | (StatusCode::NOT_FOUND, Some(_)) => Err(HubError::Stale {
                key: format!("the Lease {}/{name}", self.leases.namespace()),
            }),
            (StatusCode::NOT_FOUND, None) => Err(self.leases.namespace_missing()),
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
        let lease: Value = self.leases.read_response(answer, &name, &needs)?;
        let metadata = lease.get("metadata").unwrap_or(&Value::Null);
        let version = metadata.get("resourceVersion").and_then(Value::as_str);
        let resource_version =
            version.ok_or_else(|| unavailable("the response is no Lease".into()))?.to_owned();
        let text = metadata.get("annotations").and_then(|all| all.get(ANNOTATION));
        let record = match text.and_then(Value::as_str) {
            None => Record::default(),
            Some(text) => Record::read(text).map_err(|why| HubError::InvalidRecord {
                namespace: self.leases.namespace().to_owned(),
                name,
                why,
            })?,
        };
        Ok(StoredRecord { record, resource_version })
    }
}
