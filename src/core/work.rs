//! What gitwork writes to the hub: labels, annotations and the body of one ManifestWork.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::digest::{CanonicalJson, Digest};
use super::manifest::Identity;
use super::name::{CommitId, RepoPath, SourceId, WorkKey};

/// The common label that says which tool manages an object (Kubernetes: recommended labels).
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Its value on our works, and the field manager of our writes.
pub const MANAGER: &str = "gitwork";
/// The source that a work belongs to. Without it, with our value, a work is never touched.
pub const LABEL_SOURCE: &str = "gitwork.dev/source";
/// Path of the work folder in the repository.
pub const ANNOTATION_PATH: &str = "gitwork.dev/path";
/// The commit that last changed the work.
pub const ANNOTATION_COMMIT: &str = "gitwork.dev/commit";
/// SHA-256 of what gitwork wrote: `WorkBody::digest`.
pub const ANNOTATION_HASH: &str = "gitwork.dev/content-hash";
/// `false` where the work is to stay on the hub once Git drops it.
pub const ANNOTATION_PRUNE: &str = "gitwork.dev/prune";
/// Set by an operator on a foreign ManifestWork: the id of the source that may take it over.
pub const ANNOTATION_ADOPT: &str = "gitwork.dev/adopt";
/// Every label and annotation of ours starts with this.
pub const PREFIX: &str = "gitwork.dev/";

/// What becomes of the objects on the cluster when their ManifestWork is deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum DeleteOption {
    /// All are deleted first.
    #[default]
    Foreground,
    /// All stay.
    Orphan,
    /// These stay, the others are deleted.
    SelectivelyOrphan(Vec<Identity>),
}

/// The content of one ManifestWork, as desired.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkBody {
    /// `ManifestWork.spec`, with the CRD's defaults filled in, so that what the hub stores is what we sent.
    pub spec: CanonicalJson,
    /// All labels that gitwork sets, its own two included.
    pub labels: BTreeMap<String, String>,
    /// All annotations that gitwork sets but `ANNOTATION_COMMIT` and `ANNOTATION_HASH`.
    pub annotations: BTreeMap<String, String>,
}

impl WorkBody {
    /// Over spec, labels and annotations: equal exactly where there is nothing to write.
    pub fn digest(&self) -> Digest {
        let annotations = serde_json::json!(self.annotations);
        let labels = serde_json::json!(self.labels);
        let spec = self.spec.as_str();
        // Written out, so that the spec need not be parsed; `tests::the_digest_is_of_canonical_json` ties it down.
        Digest::of(
            format!(r#"{{"annotations":{annotations},"labels":{labels},"spec":{spec}}}"#)
                .as_bytes(),
        )
    }

    /// The whole ManifestWork, as it is created.
    pub fn to_manifest_work(&self, key: &WorkKey, commit: Option<CommitId>) -> Value {
        let mut annotations = self.annotations.clone();
        annotations.insert(ANNOTATION_HASH.into(), self.digest().to_string());
        if let Some(commit) = commit {
            annotations.insert(ANNOTATION_COMMIT.into(), commit.to_string());
        }
        serde_json::json!({
            "apiVersion": "work.open-cluster-management.io/v1",
            "kind": "ManifestWork",
            "metadata": {
                "namespace": key.cluster.as_str(),
                "name": key.work.as_str(),
                "labels": self.labels,
                "annotations": annotations,
            },
            "spec": self.spec.value(),
        })
    }
}

/// One work as Git wants it.
#[derive(Debug, Clone)]
pub struct DesiredWork {
    pub key: WorkKey,
    pub source: SourceId,
    /// The work folder.
    pub path: RepoPath,
    pub body: Arc<WorkBody>,
    /// `body.digest()`, computed once.
    pub digest: Digest,
    pub delete_option: DeleteOption,
    /// `false`: once Git drops the work it is released, not deleted.
    pub prune: bool,
    /// `true`: nothing is written for this work while it is set.
    pub suspend: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_of_canonical_json() {
        let spec = serde_json::json!({"workload": {"manifests": [{"kind": "A", "a": "\u{1}\"é"}]}});
        let labels: BTreeMap<String, String> =
            [("b".into(), "1".into()), ("a\"".into(), "2".into())].into();
        let body = WorkBody {
            spec: CanonicalJson::new(&spec),
            labels: labels.clone(),
            annotations: BTreeMap::new(),
        };
        let whole = serde_json::json!({"spec": spec, "labels": labels, "annotations": {}});
        assert_eq!(body.digest(), Digest::of_json(&whole));
    }
}
