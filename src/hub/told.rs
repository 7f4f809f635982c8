//! What the daemon tells of a source on the hub: an annotation of a Lease of its own, beside the one with the record. It
//! is for people only: the daemon never decides by it.

use http::StatusCode;
use serde_json::{Value, json};

use super::HubError;
use super::leases::new_lease;
use super::server::KubeHub;
use crate::core::name::SourceId;
use crate::core::status::told::{Told, ToldSource};
use crate::core::work::{LABEL_SOURCE, MANAGER};

/// Where it stands in the Lease.
const ANNOTATION: &str = "gitwork.dev/told";

/// The Lease with what is told of a source.
fn lease_name(source: &SourceId) -> String {
    format!("gitwork-told-{source}")
}

/// What a Lease tells; `None` where it tells nothing that can be read.
pub(super) fn of_lease(lease: &Value) -> Option<ToldSource> {
    let metadata = lease.get("metadata")?;
    let source = metadata.get("labels")?.get(LABEL_SOURCE)?.as_str()?.to_owned();
    let told = Told::read(metadata.get("annotations")?.get(ANNOTATION)?.as_str()?).ok()?;
    Some(ToldSource { source, told })
}

/// Why the daemon asks for it.
const NEEDS: &str = "telling of a source needs get, create, patch";

impl KubeHub {
    /// What is told of a source now; `None` where nothing is, or nothing that can be read.
    pub async fn told(&self, source: &SourceId) -> Result<Option<Told>, HubError> {
        let name = lease_name(source);
        let answer = self.get_lease(&name).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let lease = self.lease_in(&answer, &name, NEEDS)?;
        Ok(of_lease(&lease).map(|one| one.told))
    }

    /// Tells this of a source, in place of what was told before.
    pub async fn tell(&self, source: &SourceId, told: &Told) -> Result<(), HubError> {
        let name = lease_name(source);
        let metadata = json!({
            "name": name, "annotations": { (ANNOTATION): told.text() },
            "labels": { "app.kubernetes.io/managed-by": MANAGER, (LABEL_SOURCE): source.as_str() },
        });
        let mut answer = self.patch_lease(&name, &json!({ "metadata": metadata })).await?;
        if answer.status == StatusCode::NOT_FOUND {
            answer = self.create_lease(&new_lease(&metadata)).await?;
            if answer.status == StatusCode::NOT_FOUND {
                return Err(self.no_home());
            }
        }
        self.lease_in(&answer, &name, NEEDS).map(|_: Value| ())
    }
}
