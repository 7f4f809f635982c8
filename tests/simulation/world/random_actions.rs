//! Random actions of Git, users, agents and guards.

use std::sync::Arc;

use gitwork_core::config::window::Closed;
use gitwork_core::config::{Budgets, ClusterBudget};
use gitwork_core::model::approval::{Approval, Rewind};
use gitwork_core::model::name::{ObjectId, WorkKey};
use gitwork_core::model::work::DeletionPolicy;
use gitwork_core::render::desired::{Frozen, Suspended};
use serde_json::{Value, json};

use super::{CLUSTERS, SOURCE, WORKS, World};
use crate::git_work::{
    GitObject, Works, config_map, folder, is_free, keep_first, object_name, work_entry,
};
use crate::hub::SimulatedHub;
use crate::key;
use crate::refactoring::{accompany, exchange_clusters, refactor};

/// A condition that is true, in the API's form.
pub fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "Simulated", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1})
}

/// At times budgets for some of the clusters.
fn cluster_budgets(random: &mut fastrand::Rng) -> Vec<ClusterBudget> {
    let pattern = ["edge-1", "edge-2", "edge-*", "other-*"];
    let mut any = || ClusterBudget {
        clusters: vec![pattern[random.usize(..pattern.len())].into()],
        works: random.u32(..3),
        percent: random.u32(..=60),
    };
    let all = [any(), any()];
    all.into_iter().take(random.usize(..3)).collect()
}

/// The patch with which a user consents to the adoption of a work. A work that was released keeps
/// Git's label, which then looks like a user's: the user removes it.
pub fn consent(work: &Value, source: &str) -> Value {
    let is_released = work["metadata"]["labels"]["gitwork.dev/source"].is_null();
    let labels = if is_released { json!({"team": null}) } else { json!({}) };
    json!({"metadata": {"annotations": {"gitwork.dev/adopt": source}, "labels": labels}})
}

/// Another client changes or creates a ManifestWork.
pub fn user_acts(hub: &SimulatedHub, key: &WorkKey, random: &mut fastrand::Rng) {
    if hub.object(key).is_none() {
        let mut metadata = json!({"namespace": key.cluster.as_str(), "name": key.work.as_str()});
        if random.bool() {
            metadata["annotations"] = json!({"gitwork.dev/adopt": SOURCE});
        }
        let spec = json!({"workload": {"manifests": []}});
        // A namespace that is being deleted rejects new objects.
        let _refused = hub.user_creates(json!({"metadata": metadata, "spec": spec}));
        return;
    }
    let label = |name: &str, value: Value| json!({"metadata": {"labels": {name: value}}});
    let patch = match random.u8(..11) {
        0 => json!({"spec": {"workload": {"manifests": []}}}),
        1 => json!({"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}}),
        2 => label("gitwork.dev/source", Value::Null),
        3 => label("gitwork.dev/source", "another".into()),
        4 => label("app.kubernetes.io/managed-by", Value::Null),
        5 => label("foreign", random.u8(..3).to_string().into()),
        6 => consent(&hub.object(key).unwrap(), SOURCE),
        // Removes the list of managed keys and the label with it: without the list Git's label
        // looks like a user's.
        7 => {
            let annotations = json!({"gitwork.dev/managed-keys": "]"});
            json!({"metadata": {"annotations": annotations, "labels": {"team": null}}})
        }
        8 => json!({"metadata": {"annotations": null, "labels": {"team": null}}}),
        9 => {
            let mut conditions = hub.object(key).unwrap()["status"]["conditions"].clone();
            match conditions.as_array_mut() {
                Some(all) => {
                    all.retain(|one| one["type"] != "Complete");
                    all.push(condition("Complete"));
                }
                None => conditions = json!([condition("Complete")]),
            }
            hub.patch_status(key, &json!({"status": {"conditions": conditions}})).unwrap();
            return;
        }
        _ => {
            hub.user_deletes(key).unwrap();
            return;
        }
    };
    hub.user_patches(key, &patch).unwrap();
}

/// Changes one work in Git, or adds it.
pub fn change_work(works: &mut Works, key: &WorkKey, random: &mut fastrand::Rng) {
    let own = ["a", "b"].map(|letter| object_name(key, letter));
    let free = own.into_iter().find(|name| is_free(works, &key.cluster, name));
    let work = work_entry(works, key);
    match random.u8(..6) {
        0 => work.prune = !work.prune,
        1 => work.suspend = !work.suspend,
        2 => {
            let label = ("team".to_owned(), random.u8(..3).to_string());
            if work.labels.remove("team").is_none() {
                work.labels.extend([label]);
            }
        }
        3 => {
            work.delete_option = match random.u8(..3) {
                0 => DeletionPolicy::Foreground,
                1 => DeletionPolicy::Orphan,
                _ => keep_first(key),
            }
        }
        4 if work.objects.len() > 1 => drop(work.objects.pop_last()),
        4 => work.objects.extend(free.map(|name| (name, GitObject::default()))),
        _ => work.text = format!("text {}", random.u8(..)),
    }
}

impl World {
    fn any_key(random: &mut fastrand::Rng) -> WorkKey {
        key(CLUSTERS[random.usize(..CLUSTERS.len())], WORKS[random.usize(..WORKS.len())])
    }

    pub async fn act(&mut self, random: &mut fastrand::Rng) {
        let key = Self::any_key(random);
        match random.u8(..32) {
            0..4 => self.push_at_random(&key, random),
            4..6 => {
                let final_option = match random.u8(..4) {
                    0 => Some(DeletionPolicy::Orphan),
                    1 => Some(keep_first(&key)),
                    2 => Some(DeletionPolicy::Foreground),
                    _ => None,
                };
                self.drop_work(&key, final_option);
            }
            6 => self.freeze_at_random(&key, random),
            7 => self.frozen = Frozen::default(),
            8..11 => {
                self.disturb(&key);
                user_acts(&self.hub, &key, random);
            }
            11 => self.hub.cut_watches(),
            12..15 => drop(self.agents.act(&self.hub, &key, random)),
            15 => self.restart(),
            20 => self.approve(random.bool()),
            22..25 => self.guard_at_random(&key, random),
            25..32 => self.refactor(random),
            21 => {
                let any = |random: &mut fastrand::Rng, most: u32| {
                    random.bool().then(|| random.u32(..=most))
                };
                self.budgets = Budgets {
                    works: any(random, 4),
                    percent: any(random, 60),
                    cluster: any(random, 3),
                    clusters: cluster_budgets(random),
                    ..Budgets::default()
                };
            }
            16 => {
                let object = (key.cluster.clone(), config_map(&object_name(&key, "a")));
                if !self.agents.failing.remove(&object) {
                    self.agents.failing.insert(object);
                }
            }
            _ => {
                // At times the watch lags, and the plan uses an old state.
                if random.u8(..3) > 0 {
                    self.observe();
                }
                self.pass().await;
            }
        }
        self.follow_objects();
    }

    /// A commit moves objects between works, or takes the last commit back.
    fn refactor(&mut self, random: &mut fastrand::Rng) {
        let mut works = self.git.clone();
        match random.u8(..12) {
            0 => exchange_clusters(&mut works, random),
            1 | 2 => works.clone_from(&self.parent),
            _ => {
                let Some(done) = refactor(&mut works, random) else { return };
                accompany(&mut works, &done, random);
                if random.u8(..8) == 0 {
                    self.frozen.works.extend(done.receivers);
                }
            }
        }
        self.commit_works(works);
    }

    /// A guard begins to hold, or stops.
    fn guard_at_random(&mut self, key: &WorkKey, random: &mut fastrand::Rng) {
        let (source, policy) = (self.source.clone(), &mut self.policy);
        match random.u8(..5) {
            0 if policy.closed.is_none() => {
                policy.closed = Some(Closed { until: None, unknown_zone: None });
            }
            1 if policy.restored.is_none() => {
                policy.restored =
                    Some(Arc::new(Approval::Restored { source, record_generation: 1 }));
            }
            2 if policy.held_rewind.is_none() => {
                let (from, to) = ([ObjectId([0; 20])].into(), ObjectId([1; 20]));
                policy.held_rewind = Some(Arc::new(Rewind { source, from, to }));
            }
            3 => drop(self.suspended.clusters.insert(key.cluster.clone())),
            _ => self.release_guards(),
        }
    }

    pub fn release_guards(&mut self) {
        self.suspended = Suspended::default();
        (self.policy.closed, self.policy.restored, self.policy.held_rewind) = (None, None, None);
    }

    fn push_at_random(&mut self, key: &WorkKey, random: &mut fastrand::Rng) {
        let mut works = self.git.clone();
        change_work(&mut works, key, random);
        self.commit_works(works);
    }

    fn freeze_at_random(&mut self, key: &WorkKey, random: &mut fastrand::Rng) {
        match random.u8(..5) {
            0 => self.frozen.source = true,
            1 => self.frozen.deletes = true,
            2 => drop(self.frozen.clusters.insert(key.cluster.clone())),
            3 => drop(self.frozen.works.insert(key.clone())),
            _ => drop(self.frozen.folders.insert((key.cluster.clone(), folder(key)))),
        }
    }
}
