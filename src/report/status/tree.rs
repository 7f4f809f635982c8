//! One ManifestWork with its objects and the agent's status of each. Pure.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::view::{Condition, feedback, short};
use super::{State, WorkStatus, of_work};
use gitwork_core::limits;
use gitwork_core::model::name::ClusterName;
use gitwork_core::model::object_digest::ObjectDigest;
use gitwork_core::model::work_state::{Conditions, condition_message, is_secret, judge, text};

/// A work with its conditions and objects.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkTree {
    /// The line of the status table, as fields of the same object.
    #[serde(flatten)]
    pub work: WorkStatus,
    /// `status.conditions`, at most [`limits::STATUS_CONDITIONS_MAX`].
    pub conditions: Vec<Condition>,
    /// The objects, in the order in which the agent applies them.
    pub objects: Vec<ObjectStatus>,
}

/// One object of a work.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectStatus {
    /// `apiVersion` of the manifest.
    pub api_version: String,
    /// `kind` of the manifest.
    pub kind: String,
    /// `metadata.namespace`; empty for an object of the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// By the conditions; pending until the agent has observed the present generation.
    pub state: State,
    /// When the state began (RFC 3339), if the agent reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The agent's message, if the object is unhealthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The conditions in `status.resourceStatus.manifests`, at most
    /// [`limits::STATUS_CONDITIONS_MAX`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The values of feedback rules; never those of a Secret.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub feedback: BTreeMap<String, Value>,
}

impl fmt::Display for ObjectStatus {
    /// Writes the name, as in `Deployment shop/web`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{} {}{slash}{}", self.kind, self.namespace, self.name)
    }
}

impl ObjectStatus {
    /// What identifies the object.
    pub fn digest(&self) -> ObjectDigest {
        let group = self.api_version.split_once('/').map_or("", |(group, _)| group);
        ObjectDigest::new(group, &self.kind, &self.namespace, &self.name)
    }
}

impl WorkTree {
    /// Reads a ManifestWork as returned by the API server.
    pub fn of(object: &Value, is_unreachable: impl Fn(&ClusterName) -> bool) -> Self {
        let work = of_work(object, is_unreachable);
        let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
        let conditions = Conditions::of(object.get("status"), generation);
        // The status of single objects has no generation: it belongs to the work's.
        let seen = conditions.get("Applied").is_some();
        let statuses = Statuses::of(object);
        let manifests = object.pointer("/spec/workload/manifests").and_then(Value::as_array);
        let objects = manifests.into_iter().flatten().enumerate().map(|(ordinal, manifest)| {
            let mut object = ObjectStatus::of(manifest, statuses.find(ordinal, manifest), seen);
            if work.state == State::Deleting {
                object.state = State::Deleting;
            }
            object
        });
        let objects = objects.collect();
        let all = conditions.all.iter().take(limits::STATUS_CONDITIONS_MAX);
        let conditions = all.map(|one| Condition::read(one, generation.unwrap_or(0), None));
        Self { conditions: conditions.collect(), objects, work }
    }
}

/// The entries of `status.resourceStatus.manifests`.
struct Statuses<'a> {
    by_ordinal: BTreeMap<u64, &'a Value>,
    by_name: BTreeMap<[&'a str; 3], &'a Value>,
}

impl<'a> Statuses<'a> {
    fn of(object: &'a Value) -> Self {
        let all = super::manifest_statuses(object);
        let meta = |one: &'a Value, field: &str| text(one, &format!("/resourceMeta/{field}"));
        let ordinal = |one: &Value| one.pointer("/resourceMeta/ordinal").and_then(Value::as_u64);
        let named = all.iter().map(|one| {
            let part = |field| meta(one, field).unwrap_or_default();
            ([part("kind"), part("namespace"), part("name")], one)
        });
        Self {
            by_ordinal: all.iter().filter_map(|one| Some((ordinal(one)?, one))).collect(),
            by_name: named.collect(),
        }
    }

    /// The status of a manifest: by its index, or by its name if an older status has another order.
    fn find(&self, ordinal: usize, manifest: &Value) -> Option<&'a Value> {
        let own = |field: &str| text(manifest, field).unwrap_or_default();
        let name = [own("/kind"), own("/metadata/namespace"), own("/metadata/name")];
        let at_place = self.by_ordinal.get(&(ordinal as u64)).filter(|one| {
            text(one, "/resourceMeta/kind") == Some(name[0])
                && text(one, "/resourceMeta/name") == Some(name[2])
        });
        at_place.or_else(|| self.by_name.get(&name)).copied()
    }
}

impl ObjectStatus {
    /// From a manifest and its status. `seen`: the agent has observed the present generation.
    fn of(manifest: &Value, status: Option<&Value>, seen: bool) -> Self {
        let own = |field: &str| text(manifest, field).map(short).unwrap_or_default();
        let conditions = Conditions::of(status, None);
        let (state, condition) = if seen { judge(&conditions) } else { (State::Pending, None) };
        let field = |name: &str| condition.and_then(|one| text(one, name)).map(short);
        let bad = matches!(state, State::Failed | State::Degraded | State::Progressing);
        let message = status.zip(condition).filter(|_| bad);
        let message =
            message.map(|(status, condition)| short(condition_message(status, condition)));
        let is_secret = own("/kind") == "Secret" || status.is_some_and(is_secret);
        let mut all: Vec<Condition> = conditions
            .all
            .iter()
            .take(limits::STATUS_CONDITIONS_MAX)
            .map(|one| Condition::read(one, 0, status))
            .collect();
        all.iter_mut().for_each(|one| one.outdated = !seen);
        Self {
            api_version: own("/apiVersion"),
            kind: own("/kind"),
            namespace: own("/metadata/namespace"),
            name: own("/metadata/name"),
            state,
            since: field("/lastTransitionTime"),
            message: message.filter(|text| !text.is_empty()),
            conditions: all,
            feedback: match status {
                Some(status) if !is_secret => feedback(status),
                _ => BTreeMap::new(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn condition(kind: &str, status: &str) -> Value {
        json!({ "type": kind, "status": status, "reason": "R", "message": format!("{kind} says so"),
                "observedGeneration": 2, "lastTransitionTime": "2026-01-02T03:04:05Z" })
    }

    fn manifest(kind: &str, name: &str) -> Value {
        let metadata = json!({ "namespace": "shop", "name": name });
        json!({ "apiVersion": "v1", "kind": kind, "metadata": metadata })
    }

    fn said(ordinal: u64, kind: &str, name: &str, conditions: &Value, values: &Value) -> Value {
        json!({
            "resourceMeta": { "ordinal": ordinal, "kind": kind, "namespace": "shop", "name": name },
            "conditions": conditions, "statusFeedback": { "values": values },
        })
    }

    fn work(generation: i64, manifests: &[Value], statuses: &[Value]) -> Value {
        json!({
            "metadata": { "namespace": "edge-1", "name": "web", "generation": generation },
            "spec": { "workload": { "manifests": manifests } },
            "status": {
                "conditions": [condition("Applied", "True")],
                "resourceStatus": { "manifests": statuses },
            },
        })
    }

    #[test]
    fn every_object_has_its_state_conditions_and_feedback() {
        let applied = json!([condition("Applied", "True")]);
        let rolling = json!([condition("Applied", "True"), condition("Available", "False")]);
        let there = json!([condition("Applied", "True"), condition("Available", "True")]);
        let failed = json!([condition("Applied", "False")]);
        let ready = json!([{ "name": "Ready", "fieldValue": { "type": "Integer", "integer": 2 } }]);
        let none = json!([]);
        let manifests = ["a", "b", "c", "d", "e"].map(|name| manifest("Deployment", name));
        let statuses = [
            said(0, "Deployment", "a", &applied, &none),
            said(1, "Deployment", "b", &rolling, &none),
            said(2, "Deployment", "c", &there, &ready),
            // A status with another order is found by name.
            said(4, "Deployment", "d", &failed, &none),
        ];
        let tree = WorkTree::of(&work(2, &manifests, &statuses), |_| false);
        let states: Vec<State> = tree.objects.iter().map(|object| object.state).collect();
        use State::{Applied, Available, Failed, Pending, Progressing};
        assert_eq!(states, [Applied, Progressing, Available, Failed, Pending]);
        let messages: Vec<_> = tree.objects.iter().map(|one| one.message.as_deref()).collect();
        let wrong = [None, Some("Available says so"), None, Some("Applied says so"), None];
        assert_eq!(messages, wrong);
        assert_eq!(tree.objects[2].feedback["Ready"], 2);
        assert_eq!(tree.objects[2].conditions.len(), 2);
        assert_eq!(tree.objects[2].to_string(), "Deployment shop/c");

        // The status of an older generation is shown as outdated, and does not count.
        let tree = WorkTree::of(&work(3, &manifests, &statuses), |_| false);
        assert!(tree.objects.iter().all(|object| object.state == Pending));
        assert!(tree.objects[2].conditions[0].outdated && tree.conditions[0].outdated);
    }

    #[test]
    fn nothing_out_of_a_secret_is_shown() {
        let values = json!([{ "name": "v", "fieldValue": { "string": "CANARY" } }]);
        let mut failed = condition("Applied", "False");
        failed["message"] = "CANARY".into();
        // Also if the status has another kind.
        for kind in ["Secret", "Other"] {
            let status = said(0, kind, "key", &json!([failed]), &values);
            let tree = WorkTree::of(&work(2, &[manifest("Secret", "key")], &[status]), |_| false);
            assert!(!serde_json::to_string(&tree).unwrap().contains("CANARY"), "{tree:?}");
        }
    }

    #[test]
    fn malformed_objects_are_pending() {
        let manifests = json!([null, 7, {"kind": [], "metadata": 3}]);
        for object in [
            json!(null),
            json!({ "spec": { "workload": { "manifests": manifests } } }),
            json!({ "status": { "resourceStatus": { "manifests": [null, {"resourceMeta": 5}] } } }),
        ] {
            let tree = WorkTree::of(&object, |_| true);
            assert_eq!(tree.work.state, State::Pending);
        }
    }
}
