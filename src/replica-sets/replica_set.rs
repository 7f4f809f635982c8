//! A ManifestWorkReplicaSet as the hub has it, read field by field: an invalid field is a problem
//! of its own and hides nothing else.

use std::collections::BTreeMap;

use gitwork_core::model::digest::Digest;
use gitwork_core::model::work::{LABEL_MANAGED_BY, MANAGER, PREFIX};
use serde_json::Value;

use crate::limits;
use crate::names::SetKey;
use crate::semantics::RolloutSemantics;
use crate::set_work::template_digest;
use crate::strategy::SetStrategy;

/// A ManifestWorkReplicaSet.
#[derive(Debug, Clone)]
pub struct ReplicaSet {
    /// Namespace and name.
    pub key: SetKey,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// `metadata.finalizers`.
    pub finalizers: Vec<String>,
    /// Whether its works must be gone before it is.
    pub is_foreground: bool,
    /// Labels that its works get.
    pub labels: BTreeMap<String, String>,
    /// `spec.manifestWorkTemplate`; `None` without any manifest.
    pub template: Option<Value>,
    /// Identifies the template.
    pub digest: Digest,
    /// `status`, as the hub has it.
    pub status: Value,
    /// What rollouts do.
    pub semantics: RolloutSemantics,
    /// Whether the template has a rule for the condition Progressing.
    pub(crate) has_progressing_rule: bool,
    pub(crate) placements: Vec<SetPlacement>,
    /// Whether there are references that do not count: too many, or without a name.
    pub(crate) has_ignored_placements: bool,
}

/// A reference to a Placement.
#[derive(Debug, Clone)]
pub(crate) struct SetPlacement {
    /// Name of the Placement, in the namespace of the set.
    pub name: String,
    /// The position in `spec.placementRefs`.
    pub index: usize,
    /// The strategy, or what is wrong with it.
    pub strategy: Result<SetStrategy, String>,
}

impl ReplicaSet {
    /// Reads an object; `None` if it has no name.
    pub fn read(object: &Value, semantics: RolloutSemantics) -> Option<Self> {
        let metadata = object.get("metadata")?;
        let text = |name: &str| metadata.get(name).and_then(Value::as_str);
        let owned = |name: &str| text(name).unwrap_or_default().to_owned();
        let key = SetKey { namespace: owned("namespace"), name: text("name")?.to_owned() };
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let template = spec.get("manifestWorkTemplate").filter(|one| has_manifests(one)).cloned();
        let digest = template_digest(template.clone().unwrap_or_default());
        let finalizers = metadata.get("finalizers").and_then(Value::as_array);
        let finalizers = finalizers.into_iter().flatten().filter_map(Value::as_str);
        let (placements, has_ignored_placements) = placements(spec, semantics);
        Some(Self {
            key,
            uid: owned("uid"),
            resource_version: owned("resourceVersion"),
            generation: metadata.get("generation").and_then(Value::as_i64).unwrap_or(0),
            is_deleting: text("deletionTimestamp").is_some(),
            finalizers: finalizers.map(str::to_owned).collect(),
            is_foreground: spec.get("cascadeDeletionPolicy").and_then(Value::as_str)
                == Some("Foreground"),
            labels: copied_labels(metadata),
            has_progressing_rule: template.as_ref().is_some_and(has_progressing_rule),
            template,
            digest,
            status: object.get("status").cloned().unwrap_or_default(),
            semantics,
            has_ignored_placements,
            placements,
        })
    }

    /// Names of the Placements, each once.
    pub fn placement_names(&self) -> impl Iterator<Item = &str> {
        self.placements.iter().map(|one| one.name.as_str())
    }
}

fn has_manifests(template: &Value) -> bool {
    let manifests = template.pointer("/workload/manifests").and_then(Value::as_array);
    manifests.is_some_and(|all| !all.is_empty())
}

fn has_progressing_rule(template: &Value) -> bool {
    let configs = template.get("manifestConfigs").and_then(Value::as_array);
    let rules = configs.into_iter().flatten().filter_map(|one| one.get("conditionRules"));
    let mut rules = rules.filter_map(Value::as_array).flatten();
    rules.any(|rule| rule.get("condition").and_then(Value::as_str) == Some("Progressing"))
}

/// The labels of a set that its works get. Labels of gitwork's own would make a source take the
/// works for its own and prune them.
fn copied_labels(metadata: &Value) -> BTreeMap<String, String> {
    let labels = metadata.get("labels").and_then(Value::as_object);
    let text = labels.into_iter().flatten().filter_map(|(key, value)| Some((key, value.as_str()?)));
    let is_ours = |(key, value): &(&String, &str)| {
        key.starts_with(PREFIX) || (*key == LABEL_MANAGED_BY && *value == MANAGER)
    };
    let copied = text.filter(|one| !is_ours(one)).take(limits::COPIED_LABELS_MAX);
    copied.map(|(key, value)| (key.clone(), value.to_owned())).collect()
}

/// The references that count, and whether there are others.
fn placements(spec: &Value, semantics: RolloutSemantics) -> (Vec<SetPlacement>, bool) {
    let mut found: Vec<SetPlacement> = Vec::new();
    let all = spec.get("placementRefs").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut are_ignored = all.len() > limits::PLACEMENT_REFS_MAX;
    for (index, one) in all.iter().enumerate().take(limits::PLACEMENT_REFS_MAX) {
        let Some(name) = one.get("name").and_then(Value::as_str) else {
            are_ignored = true;
            continue;
        };
        // The first reference to a Placement counts.
        if !found.iter().any(|before| before.name == name) {
            let strategy = SetStrategy::read(one.get("rolloutStrategy"), semantics);
            found.push(SetPlacement { name: name.to_owned(), index, strategy });
        }
    }
    (found, are_ignored)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn odd_objects_are_read_as_far_as_they_go() {
        for spec in [json!(null), json!([]), json!({"placementRefs": "x"}), json!("text")] {
            let object = json!({"metadata": {"name": "a", "namespace": "b"}, "spec": spec});
            let set = ReplicaSet::read(&object, RolloutSemantics::Gitwork).unwrap();
            assert!(set.template.is_none() && set.placements.is_empty(), "{object}");
        }
        for object in [json!(null), json!({}), json!({"metadata": {"name": 3}})] {
            assert!(ReplicaSet::read(&object, RolloutSemantics::Gitwork).is_none(), "{object}");
        }
    }

    #[test]
    fn labels_of_a_source_are_not_copied() {
        let object = json!({"metadata": {"name": "a", "namespace": "b", "labels": {
            "team": "shop", "gitwork.dev/source": "fleet",
            "app.kubernetes.io/managed-by": "gitwork",
        }}});
        let set = ReplicaSet::read(&object, RolloutSemantics::Gitwork).unwrap();
        assert_eq!(set.labels, BTreeMap::from([("team".to_owned(), "shop".to_owned())]));
    }
}
