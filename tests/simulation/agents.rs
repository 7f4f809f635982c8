//! OCM's work agents of all clusters, as far as planning can tell them apart: what they leave on the clusters, and
//! what they report (OCM work agent: apply loop, deletion and orphaning).

use std::collections::{BTreeMap, BTreeSet};

use gitwork::core::manifest::Identity;
use gitwork::core::name::{ClusterName, WorkKey};
use gitwork::core::observed::AGENT_FINALIZER;
use gitwork::core::work::DeleteOption;
use serde_json::{Value, json};

use super::hub::{SimulatedHub, generation, is_deleting};

/// An object on a cluster.
pub type Object = (ClusterName, Identity);

/// The agents' memory and what is on their clusters.
#[derive(Debug, Default)]
pub struct Agents {
    /// Each object with the uids of the works that own it.
    pub objects: BTreeMap<Object, BTreeSet<String>>,
    /// What each work, by uid, has applied.
    applied: BTreeMap<String, BTreeSet<Object>>,
    /// Objects that cannot be applied, for example because their CRD is missing.
    pub failing: BTreeSet<Object>,
}

/// The object of a manifest, with a plural that is right for the kinds of these tests.
pub fn identity(manifest: &Value) -> Identity {
    let text = |pointer: &str| {
        manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let group = text("/apiVersion").rsplit_once('/').map(|(group, _)| group.to_owned());
    Identity {
        group: group.unwrap_or_default(),
        resource: format!("{}s", text("/kind").to_lowercase()),
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
    }
}

impl Agents {
    /// Lets the agent of every cluster act until it has nothing to do.
    pub fn settle(&mut self, hub: &SimulatedHub) {
        for key in hub.keys() {
            self.step(hub, &key);
        }
    }

    /// Lets an agent act on one work once.
    pub fn step(&mut self, hub: &SimulatedHub, key: &WorkKey) {
        let Some(work) = hub.object(key) else { return };
        let uid = work["metadata"]["uid"].as_str().unwrap().to_owned();
        let finalizers = work["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let seen = finalizers.contains(&AGENT_FINALIZER.into());
        match (is_deleting(&work), seen) {
            (true, true) => {
                self.clean_up(&uid);
                let rest: Vec<Value> =
                    finalizers.into_iter().filter(|f| f != AGENT_FINALIZER).collect();
                hub.user_patches(key, &json!({"metadata": {"finalizers": rest}})).unwrap();
                return;
            }
            (true, false) => return,
            (false, true) => {}
            (false, false) => {
                let all: Vec<Value> =
                    finalizers.into_iter().chain([AGENT_FINALIZER.into()]).collect();
                hub.user_patches(key, &json!({"metadata": {"finalizers": all}})).unwrap();
            }
        }
        if is_complete(&work) {
            return;
        }
        let applied = if self.apply(&key.cluster, &uid, &work["spec"]) { "True" } else { "False" };
        let condition = json!({"type": "Applied", "status": applied, "reason": "Simulated",
            "message": "", "observedGeneration": generation(&work)});
        let status = json!({"status": {"conditions": [condition]}});
        hub.patch_status(key, &status).unwrap();
    }

    /// Applies every manifest and deletes what the work has no more. Answers whether all went well.
    fn apply(&mut self, cluster: &ClusterName, uid: &str, spec: &Value) -> bool {
        let option = DeleteOption::from_value(&spec["deleteOption"]);
        let manifests = spec["workload"]["manifests"].as_array().cloned().unwrap_or_default();
        let wanted: BTreeSet<Object> =
            manifests.iter().map(|manifest| (cluster.clone(), identity(manifest))).collect();
        for object in wanted.iter().filter(|object| !self.failing.contains(*object)) {
            let owners = self.objects.entry(object.clone()).or_default();
            let owned = match &option {
                DeleteOption::Foreground => true,
                DeleteOption::Orphan => false,
                DeleteOption::SelectivelyOrphan(rules) => !rules.contains(&object.1),
            };
            if owned {
                owners.insert(uid.to_owned());
            } else {
                owners.remove(uid);
            }
        }
        let tracked: BTreeSet<Object> =
            wanted.iter().filter(|object| self.objects.contains_key(*object)).cloned().collect();
        let before = self.applied.insert(uid.to_owned(), tracked).unwrap_or_default();
        for object in before.difference(&wanted) {
            self.let_go(object, uid);
        }
        wanted.is_disjoint(&self.failing)
    }

    /// Every object of a work whose present generation was applied is the work's, so that it goes with it.
    pub fn check_owned(&self, uid: &str, work: &Value) {
        assert_eq!(self.would_stay(uid, work), None, "it would stay");
    }

    /// An object of a work that was applied whole, which would not go with the work.
    pub fn would_stay(&self, uid: &str, work: &Value) -> Option<&Object> {
        let conditions = work.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        if is_complete(work) || conditions.any(|c| c["type"] == "Applied" && c["status"] != "True")
        {
            return None;
        }
        let mut applied = self.applied.get(uid).into_iter().flatten();
        applied.find(|object| self.objects.get(*object).is_some_and(|owners| !owners.contains(uid)))
    }

    fn clean_up(&mut self, uid: &str) {
        for object in self.applied.remove(uid).unwrap_or_default() {
            self.let_go(&object, uid);
        }
    }

    /// Deletes the object, if this work owns it and no other does.
    fn let_go(&mut self, object: &Object, uid: &str) {
        let Some(owners) = self.objects.get_mut(object) else { return };
        if owners.remove(uid) && owners.is_empty() {
            self.objects.remove(object);
        }
    }
}

fn is_complete(work: &Value) -> bool {
    let conditions = work.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| c["type"] == "Complete" && c["status"] == "True")
}
