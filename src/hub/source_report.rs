//! The report of a source on the hub, for `gitwork status`: an annotation of a Lease of its own.
//! The daemon never decides by it.

use http::StatusCode;
use serde_json::{Value, json};

use crate::HubError;
use crate::lease_client::{LeaseClient, new_lease};
use gitwork_core::model::name::SourceId;
use gitwork_core::model::work::{LABEL_SOURCE, MANAGER};
use gitwork_report::forge::OpenStatus;
use gitwork_report::status::source_report::{ReportedSource, SourceReport};

/// The annotation with the report.
const ANNOTATION: &str = "gitwork.dev/report";

/// The annotation with the commit statuses that are pending on the source's forge.
const OPEN_STATUSES: &str = "gitwork.dev/open-statuses";

/// The name of the Lease.
fn lease_name(source: &SourceId) -> String {
    format!("gitwork-report-{source}")
}

/// The report in a Lease; `None` if it has no valid one.
pub(crate) fn of_lease(lease: &Value) -> Option<ReportedSource> {
    let metadata = lease.get("metadata")?;
    let source = metadata.get("labels")?.get(LABEL_SOURCE)?.as_str()?.to_owned();
    let report =
        SourceReport::read(metadata.get("annotations")?.get(ANNOTATION)?.as_str()?).ok()?;
    Some(ReportedSource { source, report })
}

/// The permissions that a report needs.
const NEEDS: &str = "the report of a source needs get, create, patch";

/// The reports of sources.
pub struct ReportStore {
    leases: LeaseClient,
}

impl ReportStore {
    /// The reports in these Leases.
    pub fn new(leases: LeaseClient) -> Self {
        Self { leases }
    }

    /// The report of a source; `None` if it has no valid one.
    pub async fn get(&self, source: &SourceId) -> Result<Option<SourceReport>, HubError> {
        let lease = self.lease(source).await?;
        Ok(lease.and_then(|lease| of_lease(&lease)).map(|one| one.report))
    }

    /// The commit statuses of a source that are pending on its forge. Malformed ones count as none.
    pub async fn open_statuses(&self, source: &SourceId) -> Result<Vec<OpenStatus>, HubError> {
        let lease = self.lease(source).await?.unwrap_or_default();
        let annotations = lease.get("metadata").and_then(|metadata| metadata.get("annotations"));
        let text = annotations.and_then(|all| all.get(OPEN_STATUSES)).and_then(Value::as_str);
        Ok(text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
    }

    async fn lease(&self, source: &SourceId) -> Result<Option<Value>, HubError> {
        let name = lease_name(source);
        let answer = self.leases.get(&name).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        self.leases.read_response(&answer, &name, NEEDS).map(Some)
    }

    /// Replaces the report of a source.
    pub async fn set(&self, source: &SourceId, report: &SourceReport) -> Result<(), HubError> {
        self.annotate(source, ANNOTATION, report.text()).await
    }

    /// Replaces the commit statuses of a source that are pending on its forge.
    pub async fn set_open_statuses(
        &self,
        source: &SourceId,
        open: &[OpenStatus],
    ) -> Result<(), HubError> {
        self.annotate(source, OPEN_STATUSES, json!(open).to_string()).await
    }

    async fn annotate(
        &self,
        source: &SourceId,
        annotation: &str,
        text: String,
    ) -> Result<(), HubError> {
        let name = lease_name(source);
        let metadata = json!({
            "name": name, "annotations": { (annotation): text },
            "labels": { "app.kubernetes.io/managed-by": MANAGER, (LABEL_SOURCE): source.as_str() },
        });
        let mut answer = self.leases.patch(&name, &json!({ "metadata": metadata })).await?;
        if answer.status == StatusCode::NOT_FOUND {
            answer = self.leases.create(&new_lease(&metadata)).await?;
            if answer.status == StatusCode::NOT_FOUND {
                return Err(self.leases.namespace_missing());
            }
        }
        self.leases.read_response(&answer, &name, NEEDS).map(|_: Value| ())
    }
}
