//! The content of one ManifestWork on the hub. Planning needs it only for a work that gives objects
//! to another: [`ObservedWork`](super::ObservedWork) has just its digest.

use serde_json::Value;

use crate::model::defaults::{TEMPLATE, without_defaults};
use crate::model::digest::Digest;
use crate::model::work::{
    OWN_ANNOTATIONS, OWN_LABELS, OWN_SET_ANNOTATIONS, WorkBody, WorkMetadata,
};
use crate::plan::observed::work::{managed_keys, set_by_gitwork, texts};

/// The spec of a ManifestWork, and the labels and annotations that gitwork set on it.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkContent(WorkBody);

impl WorkContent {
    /// Reads a ManifestWork or a ManifestWorkReplicaSet from the API server. Fields with the CRD's
    /// default are left out.
    pub fn from_manifest_work(mut object: Value) -> Self {
        let spec = object.get_mut("spec").map(Value::take).unwrap_or_default();
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let labels = texts(metadata, "labels");
        let annotations = texts(metadata, "annotations");
        let owned = managed_keys(&annotations);
        let (own_labels, own_annotations): (&[&str], &[&str]) = match spec.get(TEMPLATE) {
            Some(_) => (&[], &OWN_SET_ANNOTATIONS),
            None => (&OWN_LABELS, &OWN_ANNOTATIONS),
        };
        let metadata = WorkMetadata {
            labels: set_by_gitwork(&labels, own_labels, &owned.labels),
            annotations: set_by_gitwork(&annotations, own_annotations, &owned.annotations),
        };
        Self(WorkBody::from_parts(without_defaults(spec), &metadata))
    }

    /// The same digest as that of the [`ObservedWork`](super::ObservedWork).
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// `spec`, without the fields that have the CRD's default.
    pub(crate) fn spec(&self) -> Value {
        self.0.spec.value()
    }

    /// The labels and annotations that gitwork set.
    pub(crate) fn metadata(&self) -> WorkMetadata {
        self.0.metadata()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::observed::ObservedWork;

    #[test]
    fn a_content_has_the_digest_of_its_work() {
        let work = json!({
            "metadata": {
                "namespace": "edge-1", "name": "web", "uid": "u", "resourceVersion": "7",
                "labels": {"gitwork.dev/source": "fleet", "team": "a", "foreign": "b"},
                "annotations": {
                    "gitwork.dev/managed-keys": r#"{"labels":["team"]}"#,
                    "gitwork.dev/path": "clusters/edge-1/web",
                    "gitwork.dev/commit": "c",
                },
            },
            "spec": {
                "deleteOption": {"propagationPolicy": "Foreground"},
                "manifestConfigs": [{
                    "resourceIdentifier": {"resource": "pods", "name": "a"},
                    "feedbackScrapeType": "Poll",
                    "updateStrategy": {"type": "CreateOnly"},
                }],
                "workload": {"manifests": [{"kind": "ConfigMap", "metadata": {"labels": {}}}]},
            },
        });
        let content = WorkContent::from_manifest_work(work.clone());
        assert_eq!(content.digest(), ObservedWork::from_manifest_work(work).unwrap().digest);
        assert_eq!(
            content.spec()["manifestConfigs"],
            json!([{
                "resourceIdentifier": {"resource": "pods", "name": "a"},
                "updateStrategy": {"type": "CreateOnly"},
            }])
        );
        assert_eq!(content.metadata().labels.len(), 2);
    }
}
