//! The report of a source on the hub, for `gitwork status`: an annotation of a Lease of its own.
//! The daemon never decides by it.

use http::StatusCode;
use serde_json::{Value, json};

use super::HubError;
use super::connection::KubeHub;
use super::leases::new_lease;
use gitwork_core::model::name::SourceId;
use gitwork_core::model::work::{LABEL_SOURCE, MANAGER};
use gitwork_core::report::status::source_report::{ReportedSource, SourceReport};

/// The annotation with the report.
const ANNOTATION: &str = "gitwork.dev/report";

/// The name of the Lease.
fn lease_name(source: &SourceId) -> String {
    format!("gitwork-report-{source}")
}

/// The report in a Lease; `None` if it has no valid one.
pub(super) fn of_lease(lease: &Value) -> Option<ReportedSource> {
    let metadata = lease.get("metadata")?;
    let source = metadata.get("labels")?.get(LABEL_SOURCE)?.as_str()?.to_owned();
    let report =
        SourceReport::read(metadata.get("annotations")?.get(ANNOTATION)?.as_str()?).ok()?;
    Some(ReportedSource { source, report })
}

/// The permissions that a report needs.
const NEEDS: &str = "the report of a source needs get, create, patch";

impl KubeHub {
    /// The report of a source; `None` if it has no valid one.
    pub async fn source_report(&self, source: &SourceId) -> Result<Option<SourceReport>, HubError> {
        let name = lease_name(source);
        let answer = self.get_lease(&name).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let lease = self.lease_in(&answer, &name, NEEDS)?;
        Ok(of_lease(&lease).map(|one| one.report))
    }

    /// Replaces the report of a source.
    pub async fn set_source_report(
        &self,
        source: &SourceId,
        report: &SourceReport,
    ) -> Result<(), HubError> {
        let name = lease_name(source);
        let metadata = json!({
            "name": name, "annotations": { (ANNOTATION): report.text() },
            "labels": { "app.kubernetes.io/managed-by": MANAGER, (LABEL_SOURCE): source.as_str() },
        });
        let mut answer = self.patch_lease(&name, &json!({ "metadata": metadata })).await?;
        if answer.status == StatusCode::NOT_FOUND {
            answer = self.create_lease(&new_lease(&metadata)).await?;
            if answer.status == StatusCode::NOT_FOUND {
                return Err(self.namespace_missing());
            }
        }
        self.lease_in(&answer, &name, NEEDS).map(|_: Value| ())
    }
}
