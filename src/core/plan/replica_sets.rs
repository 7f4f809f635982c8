//! ManifestWorkReplicaSets that Git no longer has. What a set is to be follows from the plan of all
//! works: a set is one of them. What becomes of the objects of its ManifestWorks is decided here.
//!
//! An object of a set that Git has in another work of the cluster moves there. So the set stays
//! until these works own all such objects. Meanwhile its template has the update strategy
//! `CreateOnly`: its ManifestWorks stay owners and write nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::model::defaults::TEMPLATE;
use crate::model::kinds;
use crate::model::manifest::Identity;
use crate::model::name::{ClusterName, WorkKey};
use crate::model::object_digest::ObjectDigest;
use crate::model::work::WorkBody;
use crate::plan::inputs::{PlanInputs, is_removed};
use crate::plan::observed::{ListedObject, Observed, ObservedWork, WorkContent};
use crate::plan::removed_set::RemovedSet;
use crate::plan::update_strategies::CREATE_ONLY;
use crate::render::desired::Desired;

/// The sets of the source that Git no longer has and whose ManifestWorks were read.
pub fn removed_sets(desired: &Desired, observed: &Observed) -> BTreeMap<WorkKey, RemovedSet> {
    let sets = removed(desired, observed);
    let read = sets.filter(|set| observed.read_sets.contains(&set.key));
    read.map(|set| (set.key.clone(), removed_set(set, desired, observed))).collect()
}

/// The sets of the source that Git no longer has.
pub(super) fn removed<'a>(
    desired: &'a Desired,
    observed: &'a Observed,
) -> impl Iterator<Item = &'a ObservedWork> {
    let sets = observed.works.replica_sets().map(|(_, set)| set);
    sets.filter(|set| is_removed(set, desired))
}

fn removed_set(set: &ObservedWork, desired: &Desired, observed: &Observed) -> RemovedSet {
    let mut found = RemovedSet { keeps_all: true, ..RemovedSet::default() };
    let mut waiting: Vec<ClusterName> = Vec::new();
    for (key, delivered) in observed.delivered.iter().filter(|(_, one)| one.set == set.key) {
        found.works += 1;
        let cluster = &key.cluster;
        // It is unknown what Git has of this work.
        let same_name = WorkKey { cluster: cluster.clone(), work: set.key.work.clone() };
        let is_unknown = desired.frozen.may_contain(&same_name, set.path.as_deref());
        let mut waits = is_unknown;
        for object in &delivered.work.objects {
            match receiver(cluster, object.digest, desired, observed) {
                None if !is_unknown => found.keeps_all = false,
                None => {}
                Some(is_owned) => {
                    found.moves = true;
                    // One that the set has orphaned stays in any case.
                    waits |= !is_owned && !object.is_orphaned();
                }
            }
        }
        found.moves |= is_unknown;
        if waits && waiting.last() != Some(cluster) {
            waiting.push(cluster.clone());
        }
    }
    found.keeps_all &= found.works > 0;
    found.waiting = waiting.into();
    found
}

/// Whether the work of the cluster that has an object in Git owns it; `None` if there is no such
/// work.
fn receiver(
    cluster: &ClusterName,
    object: ObjectDigest,
    desired: &Desired,
    observed: &Observed,
) -> Option<bool> {
    let owns = |work: &ObservedWork| {
        !work.deleting && work.object(object).is_some_and(ListedObject::is_owned)
    };
    let of_cluster = desired.works.of_cluster(cluster).map(|(_, work)| work);
    if let Some(wanted) = of_cluster.into_iter().find(|work| work.object(object).is_some()) {
        let there = observed.works.get(&wanted.key);
        let there = there.filter(|work| work.is_ours(&desired.source));
        let is_as_in_git = |work: &&ObservedWork| observed.has_content(work, wanted.body.digest);
        return Some(there.filter(is_as_in_git).is_some_and(owns));
    }
    let sets = desired.delivered.get(cluster).into_iter().flatten();
    if let Some(set) = sets.into_iter().find(|set| set.object(object).is_some()) {
        return Some(observed.delivered_by(&set.key, cluster).is_some_and(owns));
    }
    let frozen = WorkKey::entries_of(&desired.frozen.objects, cluster);
    let may_have = frozen.into_iter().any(|(_, frozen)| frozen.may_contain(object, None));
    may_have.then_some(false)
}

/// What becomes of a removed set whose objects move to other works.
pub(super) enum HandOver {
    /// Its ManifestWorks or its content must be read first.
    Unread,
    /// It has this content meanwhile.
    Gives {
        /// The content.
        body: Arc<WorkBody>,
        /// The clusters where other works do not own all of the objects yet.
        waiting: Arc<[ClusterName]>,
        /// Whether it is deleted once nothing waits. With `prune: false`, what no other work has
        /// stays, too.
        is_deleted: bool,
    },
}

/// What becomes of a removed set; `None` if no object moves, so that it is removed as any other
/// work.
pub(super) fn hand_over(set: &ObservedWork, inputs: PlanInputs<'_>) -> Option<HandOver> {
    let Some(removed) = inputs.policy.removed_sets.get(&set.key) else {
        return Some(HandOver::Unread);
    };
    if !removed.moves {
        return None;
    }
    let Some(content) = inputs.observed.content(&set.key) else { return Some(HandOver::Unread) };
    Some(HandOver::Gives {
        body: Arc::new(create_only(content)),
        waiting: removed.waiting.clone(),
        is_deleted: removed.keeps_all || inputs.is_pruned(set),
    })
}

/// The set with the update strategy `CreateOnly` for every object of its template. The same when it
/// is made again from itself.
pub(super) fn create_only(content: &WorkContent) -> WorkBody {
    let mut spec = content.spec();
    if let Some(Value::Object(template)) = spec.get_mut(TEMPLATE) {
        let manifests = template.get("workload").and_then(|workload| workload.get("manifests"));
        let manifests = manifests.and_then(Value::as_array);
        // The plurals that rules name, and otherwise the usual ones.
        let before: Vec<Value> = match template.get("manifestConfigs") {
            Some(Value::Array(configs)) => configs.clone(),
            _ => Vec::new(),
        };
        let strategy = json!({"type": CREATE_ONLY});
        let mut configs: Vec<Value> = Vec::with_capacity(before.len());
        for mut config in before {
            config["updateStrategy"] = strategy.clone();
            configs.push(config);
        }
        let named: BTreeSet<Identity> = configs
            .iter()
            .map(|config| Identity::of_value(config.get("resourceIdentifier")))
            .collect();
        for manifest in manifests.into_iter().flatten() {
            let object = kinds::guessed_identity(manifest);
            if !named.contains(&object) {
                configs.push(json!({
                    "resourceIdentifier": object.to_value(),
                    "updateStrategy": strategy,
                }));
            }
        }
        template.insert("manifestConfigs".into(), configs.into());
    }
    WorkBody::from_parts(spec, &content.metadata())
}

#[cfg(test)]
mod tests;
