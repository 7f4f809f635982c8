//! What the daemon tells of a source on the hub: an annotation of a Lease of its own, beside the one with the record. It
//! is for people only: the daemon never decides by it.

use http::StatusCode;
use serde_json::{Value, json};

use super::answer::Verb;
use super::server::{KubeHub, Question, unanswered};
use super::{HubError, bounded};
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

impl KubeHub {
    /// What is told of a source now; `None` where nothing is, or nothing that can be read.
    pub async fn told(&self, source: &SourceId) -> Result<Option<Told>, HubError> {
        let name = lease_name(source);
        let path = format!("{}/{name}", self.leases());
        let answer = self.ask(&question(Verb::Get, path, Vec::new())).await?;
        match answer.status {
            StatusCode::NOT_FOUND => return Ok(None),
            status if !status.is_success() => return Err(self.untold(status, &name, &answer.body)),
            _ => {}
        }
        let lease: Value = serde_json::from_slice(&answer.body)
            .map_err(|error| unanswered(format!("the answer is no Lease: {error}")))?;
        Ok(of_lease(&lease).map(|one| one.told))
    }

    /// Tells this of a source, in place of what was told before.
    pub async fn tell(&self, source: &SourceId, told: &Told) -> Result<(), HubError> {
        let (folder, name) = (self.leases(), lease_name(source));
        let metadata = json!({
            "name": name, "annotations": { (ANNOTATION): told.text() },
            "labels": { "app.kubernetes.io/managed-by": MANAGER, (LABEL_SOURCE): source.as_str() },
        });
        let body = json!({ "metadata": metadata }).to_string().into_bytes();
        let path = format!("{folder}/{name}?fieldManager={MANAGER}");
        let mut answer = self.ask(&question(Verb::Patch, path, body)).await?;
        if answer.status == StatusCode::NOT_FOUND {
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
            });
            let path = format!("{folder}?fieldManager={MANAGER}");
            let body = lease.to_string().into_bytes();
            answer = self.ask(&question(Verb::Create, path, body)).await?;
            if answer.status == StatusCode::NOT_FOUND {
                return Err(HubError::NoHome { namespace: self.namespace().to_owned() });
            }
        }
        match answer.status {
            status if status.is_success() => Ok(()),
            status => Err(self.untold(status, &name, &answer.body)),
        }
    }

    fn untold(&self, status: StatusCode, name: &str, body: &[u8]) -> HubError {
        let namespace = self.namespace();
        if matches!(status, StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED) {
            let message = format!(
                "telling of a source needs get, create, patch on leases in the namespace {namespace}, for {name}"
            );
            return HubError::Forbidden { message };
        }
        let text = bounded(&String::from_utf8_lossy(body));
        unanswered(format!("{status} for the Lease {namespace}/{name}: {text}"))
    }
}

fn question(verb: Verb, path: String, body: Vec<u8>) -> Question {
    let content_type =
        if verb == Verb::Patch { "application/merge-patch+json" } else { "application/json" };
    Question { verb, path, body, content_type }
}
