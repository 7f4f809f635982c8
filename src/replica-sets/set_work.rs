//! A ManifestWork of a replica set as the hub has it. Its status is what the cluster's agent wrote:
//! anything invalid in it counts as absent.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::ClusterName;
use gitwork_core::model::work_digest::digest;
use jiff::Timestamp;
use serde_json::Value;

use crate::names::{
    ANNOTATION_COPIED_LABELS, ANNOTATION_OWNER, ANNOTATION_WRITTEN, LABEL_OWNER,
    LABEL_WORK_PLACEMENT,
};

/// A ManifestWork with the label of a replica set.
#[derive(Debug, Clone, PartialEq)]
pub struct SetWork {
    /// The cluster, which is its namespace.
    pub cluster: ClusterName,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// The value of [`LABEL_OWNER`].
    pub owner: String,
    /// Namespace and name of the replica set, if it says.
    pub owner_in_full: Option<String>,
    /// Identifies its content.
    pub digest: Digest,
    /// The template that the server stored as this content, if that changed it.
    pub normalized_from: Option<Digest>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) has_annotations: bool,
    pub(crate) copied_labels: BTreeSet<String>,
    pub(crate) created: Option<Timestamp>,
    pub(crate) written: Option<Timestamp>,
    pub(crate) conditions: ReportedConditions,
}

/// The conditions that count for a rollout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReportedConditions {
    pub applied: Option<ReportedCondition>,
    pub available: Option<ReportedCondition>,
    pub progressing: Option<ReportedCondition>,
    pub degraded: Option<ReportedCondition>,
}

/// One condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReportedCondition {
    /// `None` for Unknown and anything else.
    pub is_true: Option<bool>,
    pub observed_generation: i64,
    pub since: Option<Timestamp>,
}

impl SetWork {
    /// Reads a ManifestWork; `None` without the label of a replica set.
    pub fn read(object: &Value) -> Option<Self> {
        let metadata = object.get("metadata")?;
        let text = |name: &str| metadata.get(name).and_then(Value::as_str);
        let labels = texts(metadata.get("labels"));
        let owner = labels.get(LABEL_OWNER)?.clone();
        let annotations = texts(metadata.get("annotations"));
        let copied = annotations.get(ANNOTATION_COPIED_LABELS).map_or("", String::as_str);
        let time = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        let status = object.get("status");
        Some(Self {
            cluster: ClusterName::parse(text("namespace")?).ok()?,
            name: text("name")?.to_owned(),
            uid: text("uid").unwrap_or_default().to_owned(),
            resource_version: text("resourceVersion").unwrap_or_default().to_owned(),
            generation: metadata.get("generation").and_then(Value::as_i64).unwrap_or(0),
            is_deleting: text("deletionTimestamp").is_some(),
            owner,
            normalized_from: None,
            has_annotations: !annotations.is_empty(),
            owner_in_full: annotations.get(ANNOTATION_OWNER).cloned(),
            digest: template_digest(object.get("spec").cloned().unwrap_or_default()),
            copied_labels: copied
                .split(',')
                .filter(|key| !key.is_empty())
                .map(Into::into)
                .collect(),
            created: time(text("creationTimestamp")),
            written: time(annotations.get(ANNOTATION_WRITTEN).map(String::as_str)),
            labels,
            conditions: ReportedConditions {
                applied: condition(status, "Applied"),
                available: condition(status, "Available"),
                progressing: condition(status, "Progressing"),
                degraded: condition(status, "Degraded"),
            },
        })
    }

    /// The value of the label with the Placement.
    pub(crate) fn placement_label(&self) -> Option<&str> {
        self.labels.get(LABEL_WORK_PLACEMENT).map(String::as_str)
    }

    /// Whether it has the content with this digest.
    pub fn has_content(&self, digest: Digest) -> bool {
        self.digest == digest || self.normalized_from == Some(digest)
    }

    /// A condition, if it is about the present generation.
    pub(crate) fn current(
        &self,
        condition: Option<ReportedCondition>,
    ) -> Option<ReportedCondition> {
        condition.filter(|one| one.observed_generation == self.generation)
    }

    /// Whether a condition is True for the present generation.
    pub(crate) fn is_true(&self, condition: Option<ReportedCondition>) -> bool {
        self.current(condition).is_some_and(|one| one.is_true == Some(true))
    }
}

/// A condition in a status, whatever generation it is about.
pub(crate) fn condition(status: Option<&Value>, kind: &str) -> Option<ReportedCondition> {
    let all = status?.get("conditions")?.as_array()?;
    let text = |one: &Value, name: &str| one.get(name).and_then(Value::as_str).map(str::to_owned);
    let found = all.iter().find(|one| text(one, "type").as_deref() == Some(kind))?;
    Some(ReportedCondition {
        is_true: match text(found, "status").as_deref() {
            Some("True") => Some(true),
            Some("False") => Some(false),
            _ => None,
        },
        observed_generation: found.get("observedGeneration").and_then(Value::as_i64).unwrap_or(0),
        since: text(found, "lastTransitionTime").and_then(|text| text.parse().ok()),
    })
}

/// Identifies the content of a work or template: equal whatever defaults the API server has added.
pub(crate) fn template_digest(mut spec: Value) -> Digest {
    let manifests = spec.pointer_mut("/workload/manifests").and_then(Value::as_array_mut);
    for manifest in manifests.into_iter().flatten() {
        // Client-go writes it as null, and the API server may drop it.
        for path in ["/metadata", "/spec/template/metadata"] {
            if let Some(metadata) = manifest.pointer_mut(path).and_then(Value::as_object_mut) {
                metadata.remove("creationTimestamp");
            }
        }
    }
    digest(spec, &BTreeMap::new(), &BTreeMap::new())
}

fn texts(map: Option<&Value>) -> BTreeMap<String, String> {
    let all = map.and_then(Value::as_object).into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_is_equal_with_the_defaults_of_the_server() {
        let sent = json!({"workload": {"manifests": [{
            "metadata": {"name": "a", "creationTimestamp": null},
            "spec": {"template": {"metadata": {"creationTimestamp": null, "labels": {"a": "b"}}}},
        }]}, "deleteOption": {}});
        let stored = json!({"workload": {"manifests": [{
            "metadata": {"name": "a"},
            "spec": {"template": {"metadata": {"labels": {"a": "b"}}}},
        }]}, "deleteOption": {"propagationPolicy": "Foreground"}});
        assert_eq!(template_digest(sent), template_digest(stored.clone()));
        let mut other = stored;
        other["deleteOption"]["propagationPolicy"] = json!("Orphan");
        assert_ne!(template_digest(other), template_digest(json!({})));
    }

    #[test]
    fn invalid_status_is_absent_and_a_work_of_others_is_none() {
        let mut work = json!({
            "metadata": {"namespace": "c1", "name": "a", "labels": {LABEL_OWNER: "fleet.web"}},
            "status": {"conditions": ["x", {"type": "Applied", "status": 3}]},
        });
        let read = SetWork::read(&work).unwrap();
        assert_eq!(read.conditions.applied.unwrap().is_true, None);
        assert_eq!(read.conditions.available, None);
        work["metadata"]["labels"] = json!({"other": "x"});
        assert_eq!(SetWork::read(&work), None);
    }
}
