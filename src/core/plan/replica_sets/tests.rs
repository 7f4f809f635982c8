//! Stories of replica sets, with a controller and agents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::model::facts::{ClusterFacts, DecisionGroupFacts, Facts, PlacementFacts, PlacementKey};
use crate::model::name::{ClusterName, SourceId, WorkKey, WorkName};
use crate::model::snapshot::Snapshot;
use crate::plan::directives::{Suspension, Suspensions};
use crate::plan::moves::MovingWorks;
use crate::plan::observed::{
    AGENT_FINALIZER, DeliveredWork, LABEL_REPLICA_SET, Observed, ObservedWork, WorkContent,
};
use crate::plan::replica_sets::removed_sets;
use crate::plan::{Effect, LastKnownStates, Plan, PlanInputs, PlanPolicy, lint, plan, request};
use crate::render::desired::Desired;
use crate::render::renderer::Renderer;
use crate::render::test_repository::{TestFile, TestFiles, TestRepository, files};

const SET: &str = "placement: {name: stores, namespace: fleet}\ndeliver: ManifestWorkReplicaSet\n";
const WORKS: &str = "placement: {name: stores, namespace: fleet}\n";

fn map(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: x, name: {name}}}\ndata: \
         {{a: {value}}}\n"
    )
}

fn key(text: &str) -> WorkKey {
    let (cluster, work) = text.split_once('/').unwrap();
    let cluster = ClusterName::parse_place(cluster).unwrap();
    WorkKey { cluster, work: WorkName::parse(work).unwrap() }
}

/// A hub with a controller of replica sets, and one agent that serves all clusters.
struct World {
    source: &'static str,
    files: TestFiles,
    members: BTreeSet<&'static str>,
    has_facts: bool,
    hub: BTreeMap<WorkKey, Value>,
    /// The owners of each object on each cluster, as in `a: one`.
    owners: BTreeMap<String, BTreeSet<WorkKey>>,
    /// Objects that an agent has deleted.
    lost: Vec<String>,
    policy: PlanPolicy,
    versions: u64,
}

impl World {
    fn new(all: &[(&str, &str)]) -> Self {
        Self {
            source: "fleet",
            files: files(all),
            members: ["a", "b"].into(),
            has_facts: true,
            hub: BTreeMap::new(),
            owners: BTreeMap::new(),
            lost: Vec::new(),
            policy: PlanPolicy::default(),
            versions: 0,
        }
    }

    fn group(deliver: &str) -> Self {
        Self::new(&[("groups/g/group.yaml", deliver), ("groups/g/web/x.yaml", &map("one", "1"))])
    }

    /// Git has moved an object from a work of the cluster a to the set.
    fn with_move_to_set() -> Self {
        let mut world = Self::group(SET);
        world.put("clusters/a/own/two.yaml", &map("two", "1"));
        world.put("clusters/a/own/three.yaml", &map("three", "1"));
        world.settle();
        let text = world.files.remove("clusters/a/own/two.yaml").unwrap();
        world.files.insert("groups/g/web/two.yaml".into(), text);
        world
    }

    fn manifests_of(&self, work: &str) -> usize {
        let manifests = &self.hub[&key(work)]["spec"]["workload"]["manifests"];
        manifests.as_array().map_or(0, Vec::len)
    }

    fn put(&mut self, path: &str, text: &str) {
        self.files.insert(path.to_owned(), TestFile::Text(text.into()));
    }

    fn facts(&self) -> Facts {
        let cluster = |name: &&str| ClusterName::parse(name).unwrap();
        let all = ["a", "b", "c"].map(|name| (cluster(&name), Arc::new(ClusterFacts::default())));
        let selected: Vec<ClusterName> = self.members.iter().map(cluster).collect();
        let group = DecisionGroupFacts {
            name: String::new(),
            decisions: vec!["stores-1".into()],
            cluster_count: selected.len(),
        };
        let placement = PlacementFacts {
            number_of_selected_clusters: Some(selected.len()),
            decision_groups: vec![group],
            decisions: [("stores-1".to_owned(), selected)].into(),
            ..PlacementFacts::default()
        };
        let key = PlacementKey { namespace: "fleet".into(), name: "stores".into() };
        Facts {
            time: None,
            hub_version: None,
            is_partial: false,
            managed_clusters: all.into(),
            placements: [(key, placement)].into(),
        }
    }

    fn desired(&self) -> Desired {
        let mut objects = TestRepository::default();
        let root = objects.add(&self.files);
        let mut renderer = Renderer::new(SourceId::parse(self.source).unwrap());
        renderer.set_facts(self.has_facts.then(|| Arc::new(self.facts())));
        renderer.render(&Snapshot { commit: None, root, objects: &objects }).unwrap()
    }

    fn observed(&self, desired: &Desired) -> Observed {
        let mut observed = Observed::default();
        let read = |(key, object): (&WorkKey, &Value)| match key.is_replica_set() {
            true => ObservedWork::from_replica_set(object.clone()).unwrap(),
            false => ObservedWork::from_manifest_work(object.clone()).unwrap(),
        };
        let all: Vec<ObservedWork> = self.hub.iter().map(read).collect();
        for work in &all {
            if work.is_ours(&desired.source) || desired.works.contains_key(&work.key) {
                observed.record_change(work.clone());
            }
        }
        let moving = MovingWorks::of(desired, &observed).with_receiving_sets(desired);
        let MovingWorks { unread, sets, .. } = moving;
        for (_, set) in sets {
            let label = format!("{}.{}", set.cluster.namespace(), set.work);
            for work in all.iter().filter(|work| self.owner(&work.key) == Some(&label)) {
                let delivered = DeliveredWork { set: set.clone(), work: work.clone() };
                observed.delivered.insert(work.key.clone(), delivered);
            }
            observed.read_sets.insert(set);
        }
        for key in unread {
            let content = WorkContent::from_manifest_work(self.hub[&key].clone());
            observed.contents.insert(key, content);
        }
        observed
    }

    fn owner(&self, key: &WorkKey) -> Option<&str> {
        let labels = self.hub.get(key)?.pointer("/metadata/labels")?;
        labels.get(LABEL_REPLICA_SET)?.as_str()
    }

    fn plan(&self) -> Plan {
        let desired = self.desired();
        let observed = self.observed(&desired);
        let removed_sets = removed_sets(&desired, &observed);
        let policy = PlanPolicy { removed_sets, ..self.policy.clone() };
        let last_known = LastKnownStates::new();
        let made = plan(&desired, &observed, &last_known, &policy);
        let inputs = PlanInputs {
            desired: &desired,
            observed: &observed,
            last_known: &last_known,
            policy: &policy,
        };
        assert_eq!(lint::check(&made, inputs), [], "{made:?}");
        made
    }

    /// The steps that are not settled, as in `mwrs.fleet/web: create: NewInGit`.
    fn steps(&self) -> Vec<String> {
        let made = self.plan();
        let open = made.steps.iter().filter(|step| !step.is_settled());
        open.map(|step| format!("{}: {}: {}", step.key, step.action(), step.reason.code()))
            .collect()
    }

    /// Executes one plan. Gives what it did, as in `create mwrs.fleet/web`.
    fn pass(&mut self) -> Vec<String> {
        let made = self.plan();
        let mut done = Vec::new();
        for (step, effect) in made.effects() {
            done.push(format!("{} {}", effect.name(), step.key));
            self.execute(&step.key, effect);
        }
        done
    }

    fn execute(&mut self, key: &WorkKey, effect: &Effect) {
        self.versions += 1;
        let version = self.versions.to_string();
        match request::request(key, effect, None) {
            request::Request::Create(object) => {
                let mut object = object.into_value();
                object["metadata"]["uid"] = format!("uid-{version}").into();
                object["metadata"]["generation"] = 1.into();
                object["metadata"]["resourceVersion"] = version.into();
                self.hub.insert(key.clone(), object);
            }
            request::Request::Delete { .. } => self.delete(key),
            request::Request::JsonPatch(_) => {
                let whole = effect.body().unwrap().to_manifest_work(key, None);
                let object = self.hub.get_mut(key).unwrap();
                for field in ["labels", "annotations"] {
                    object["metadata"][field] = whole["metadata"][field].clone();
                }
                object["spec"] = whole["spec"].clone();
                let generation = object["metadata"]["generation"].as_i64().unwrap() + 1;
                object["metadata"]["generation"] = generation.into();
                object["metadata"]["resourceVersion"] = version.into();
            }
            request::Request::MergePatch(patch) => panic!("{key}: {patch}"),
        }
    }

    /// A deleted set takes its works with it, and a deleted work the objects that it alone owns.
    fn delete(&mut self, key: &WorkKey) {
        self.hub.remove(key);
        let label = format!("{}.{}", key.cluster.namespace(), key.work);
        let works: Vec<WorkKey> = self.hub.keys().cloned().collect();
        for work in works.iter().filter(|_| key.is_replica_set()) {
            if self.owner(work) == Some(&label) {
                self.delete(work);
            }
        }
        self.disown(key, &BTreeSet::new());
    }

    fn disown(&mut self, key: &WorkKey, kept: &BTreeSet<String>) {
        for (object, owners) in &mut self.owners {
            if !kept.contains(object) && owners.remove(key) && owners.is_empty() {
                self.lost.push(object.clone());
            }
        }
        self.owners.retain(|_, owners| !owners.is_empty());
    }

    /// The controller of replica sets.
    fn control(&mut self) {
        let sets: Vec<WorkKey> =
            self.hub.keys().filter(|key| key.is_replica_set()).cloned().collect();
        for set in sets {
            let object = self.hub[&set].clone();
            let label = format!("{}.{}", set.cluster.namespace(), set.work);
            for cluster in self.members.clone() {
                let at = key(&format!("{cluster}/{}x1", set.work));
                self.versions += 1;
                let template = &object["spec"]["manifestWorkTemplate"];
                let before = self.hub.remove(&at);
                let generation = match &before {
                    Some(before) if before["spec"] == *template => {
                        before["metadata"]["generation"].clone()
                    }
                    Some(before) => json!(before["metadata"]["generation"].as_i64().unwrap() + 1),
                    None => json!(1),
                };
                let mut labels = object["metadata"]["labels"].clone();
                labels[LABEL_REPLICA_SET] = label.clone().into();
                let status = before.map(|one| one["status"].clone()).unwrap_or_default();
                self.hub.insert(
                    at.clone(),
                    json!({
                        "metadata": {
                            "namespace": cluster, "name": at.work.as_str(),
                            "uid": format!("of-{cluster}"),
                            "resourceVersion": self.versions.to_string(), "generation": generation,
                            "labels": labels, "finalizers": [AGENT_FINALIZER],
                        },
                        "spec": template, "status": status,
                    }),
                );
            }
            let total = self.members.len();
            let object = self.hub.get_mut(&set).unwrap();
            object["metadata"]["finalizers"] =
                json!(["work.open-cluster-management.io/manifest-work-cleanup"]);
            let generation = object["metadata"]["generation"].clone();
            let condition = |kind: &str| {
                json!({
                    "type": kind, "status": "True", "reason": "Complete",
                    "observedGeneration": generation,
                })
            };
            object["status"] = json!({
                "summary": {"total": total, "applied": total, "available": total},
                "conditions": [condition("PlacementRolledOut"), condition("ManifestworkApplied")],
            });
        }
    }

    /// The agent of a cluster applies its works.
    fn apply(&mut self, cluster: &str) {
        let works: Vec<WorkKey> =
            self.hub.keys().filter(|key| key.cluster.as_str() == cluster).cloned().collect();
        for work in works {
            let object = self.hub.get_mut(&work).unwrap();
            let manifests = object["spec"]["workload"]["manifests"].as_array().unwrap().clone();
            let generation = object["metadata"]["generation"].clone();
            let applied =
                json!([{"type": "Applied", "status": "True", "observedGeneration": generation}]);
            let report = |manifest: &Value| {
                json!({
                    "resourceMeta": {
                        "group": "", "version": "v1", "kind": "ConfigMap", "resource": "configmaps",
                        "namespace": "x", "name": manifest["metadata"]["name"],
                    },
                    "conditions": applied,
                })
            };
            let reports: Vec<Value> = manifests.iter().map(report).collect();
            object["metadata"]["finalizers"] = json!([AGENT_FINALIZER]);
            object["status"] =
                json!({"conditions": applied, "resourceStatus": {"manifests": reports}});
            let names = manifests.iter().map(|one| one["metadata"]["name"].as_str().unwrap());
            let kept: BTreeSet<String> = names.map(|name| format!("{cluster}: {name}")).collect();
            for object in &kept {
                self.owners.entry(object.clone()).or_default().insert(work.clone());
            }
            self.disown(&work, &kept);
        }
    }

    /// Lets everybody act until nothing is done. Gives what was done.
    fn settle(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for _ in 0..20 {
            let done = self.pass();
            let is_idle = done.is_empty();
            all.extend(done);
            self.control();
            self.apply("a");
            self.apply("b");
            if is_idle && self.plan().is_empty() {
                return all;
            }
        }
        panic!("it does not settle: {all:?}");
    }

    fn template(&self) -> &Value {
        &self.hub[&key("mwrs.fleet/web")]["spec"]["manifestWorkTemplate"]
    }
}

#[test]
fn group_becomes_one_set_that_follows_git_and_is_put_back() {
    let mut world = World::group(SET);
    assert_eq!(world.settle(), ["create mwrs.fleet/web"]);
    let set = world.hub[&key("mwrs.fleet/web")].clone();
    assert_eq!(
        (&set["kind"], &set["apiVersion"]),
        (&json!("ManifestWorkReplicaSet"), &json!("work.open-cluster-management.io/v1alpha1"),)
    );
    assert_eq!(set["metadata"]["labels"], json!({}), "the works would have them, too");
    assert_eq!(set["metadata"]["annotations"]["gitwork.dev/source"], "fleet");
    assert_eq!(
        set["spec"]["placementRefs"],
        json!([
            {"name": "stores", "rolloutStrategy": {"type": "All", "all": {}}},
        ])
    );
    assert_eq!(world.steps(), [""; 0]);
    world.put("groups/g/web/x.yaml", &map("one", "2"));
    assert_eq!(world.settle(), ["update mwrs.fleet/web"]);
    let edited = world.hub.get_mut(&key("mwrs.fleet/web")).unwrap();
    edited["spec"]["manifestWorkTemplate"]["workload"]["manifests"][0]["data"]["a"] = "edit".into();
    assert_eq!(world.steps(), ["mwrs.fleet/web: update: EditedOnHub"]);
    world.settle();
    assert_eq!(world.template()["workload"]["manifests"][0]["data"]["a"], 2);
    assert_eq!(world.lost, [""; 0]);
}

#[test]
fn switching_on_deletes_a_work_once_that_of_the_set_owns_its_objects() {
    let mut world = World::group(WORKS);
    assert_eq!(world.settle(), ["create a/web", "create b/web"]);
    world.put("groups/g/group.yaml", SET);
    assert_eq!(world.pass(), ["update a/web", "update b/web", "create mwrs.fleet/web"]);
    let strategy = "/spec/manifestConfigs/0/updateStrategy/type";
    assert_eq!(world.hub[&key("a/web")].pointer(strategy), Some(&json!("CreateOnly")));
    assert_eq!(world.pass(), [""; 0], "the controller has made no work yet");
    world.control();
    assert_eq!(world.pass(), [""; 0], "the agents have applied nothing yet");
    world.apply("a");
    assert_eq!(world.pass(), ["delete a/web"]);
    assert_eq!(world.steps(), ["b/web: wait: MovesObjects"]);
    assert_eq!(world.settle(), ["delete b/web"]);
    assert_eq!(world.lost, [""; 0]);
    assert_eq!(world.steps(), [""; 0]);
}

#[test]
fn switching_off_deletes_the_set_once_all_works_own_its_objects() {
    let mut world = World::group(SET);
    world.settle();
    world.put("groups/g/group.yaml", WORKS);
    assert_eq!(world.pass(), ["create a/web", "create b/web", "update mwrs.fleet/web"]);
    let strategy = "/manifestConfigs/0/updateStrategy/type";
    assert_eq!(world.template().pointer(strategy), Some(&json!("CreateOnly")));
    world.control();
    world.apply("a");
    assert_eq!(world.pass(), [""; 0]);
    assert_eq!(world.steps(), ["mwrs.fleet/web: wait: ReplicaSetGives"]);
    assert!(world.plan().steps.iter().any(|step| step.to_string().contains("own them yet on b")));
    world.apply("b");
    assert_eq!(world.pass(), ["delete mwrs.fleet/web"]);
    world.settle();
    assert_eq!(world.lost, [""; 0]);
    assert_eq!(world.hub.keys().map(WorkKey::to_string).collect::<Vec<_>>(), ["a/web", "b/web"]);
}

#[test]
fn switching_to_and_fro_at_any_time_loses_no_object() {
    for first in 0..6 {
        for second in 0..6 {
            let mut world = World::group(WORKS);
            world.settle();
            for (deliver, steps) in [(SET, first), (WORKS, second), (SET, 3)] {
                world.put("groups/g/group.yaml", deliver);
                for step in 0..steps {
                    match step % 4 {
                        0 => drop(world.pass()),
                        1 => world.control(),
                        2 => world.apply("a"),
                        _ => world.apply("b"),
                    }
                }
            }
            world.settle();
            assert_eq!(world.lost, [""; 0], "{first} {second}");
            let hub: Vec<String> = world.hub.keys().map(WorkKey::to_string).collect();
            assert_eq!(hub, ["a/webx1", "b/webx1", "mwrs.fleet/web"], "{first} {second}");
        }
    }
}

#[test]
fn renamed_set_keeps_its_objects() {
    let mut world = World::group(SET);
    world.settle();
    let text = world.files.remove("groups/g/web/x.yaml").unwrap();
    world.files.insert("groups/g/shop/x.yaml".into(), text);
    let done = world.settle();
    assert_eq!(done, ["create mwrs.fleet/shop", "update mwrs.fleet/web", "delete mwrs.fleet/web"]);
    assert_eq!(world.lost, [""; 0]);
}

#[test]
fn object_that_moves_from_a_work_to_a_set_stays() {
    let mut world = World::with_move_to_set();
    assert_eq!(world.pass(), ["update a/own", "update mwrs.fleet/web"]);
    assert_eq!(world.pass(), [""; 0]);
    world.settle();
    assert_eq!(world.lost, [""; 0]);
    assert_eq!(world.manifests_of("a/own"), 1);
}

/// The Placement may select the cluster: it is unknown whether the set gets the object there.
#[test]
fn object_that_may_move_to_a_set_stays_until_the_members_are_known() {
    let mut world = World::with_move_to_set();
    world.has_facts = false;
    world.settle();
    assert_eq!(world.lost, [""; 0]);
    world.has_facts = true;
    world.settle();
    assert_eq!(world.lost, [""; 0]);
    assert_eq!(world.manifests_of("a/own"), 1);
}

#[test]
fn set_of_another_owner_is_a_conflict() {
    for owner in
        [json!({}), json!({"gitwork.dev/source": "other"}), json!({"gitwork.dev/adopt": "fleet"})]
    {
        let mut world = World::group(SET);
        world.hub.insert(
            key("mwrs.fleet/web"),
            json!({
                "metadata": {
                    "namespace": "fleet", "name": "web", "uid": "u", "resourceVersion": "1",
                    "generation": 1, "annotations": owner,
                },
                "spec": {"manifestWorkTemplate": {}},
            }),
        );
        world.policy.adoption = crate::config::AdoptionPolicy::Unowned;
        assert_eq!(world.steps(), ["mwrs.fleet/web: hold: Conflict"], "{owner}");
        // Nor is it deleted with the group.
        world.files.remove("groups/g/web/x.yaml");
        assert_eq!(world.steps(), [""; 0], "{owner}");
    }
}

#[test]
fn works_of_sets_are_never_ours() {
    let mut world = World::group(WORKS);
    world.settle();
    let work = world.hub.get_mut(&key("a/web")).unwrap();
    work["metadata"]["labels"][LABEL_REPLICA_SET] = "x.y".into();
    assert_eq!(world.steps(), ["a/web: hold: Conflict"]);
    world.files = files(&[("clusters/b/own/x.yaml", &map("own", "1"))]);
    assert!(!world.steps().iter().any(|step| step.starts_with("a/")), "it is not pruned");
}

#[test]
fn guards_hold_sets_as_they_hold_works() {
    let mut world = World::group(SET);
    world.put("gitwork.yaml", "suspend: true");
    assert_eq!(world.steps(), ["mwrs.fleet/web: hold: Suspended"]);
    world.files.remove("gitwork.yaml");
    world.settle();
    // Nothing changes on a suspended cluster, so not on the others.
    world.put("clusters/a/cluster.yaml", "suspend: true");
    world.put("groups/g/web/x.yaml", &map("one", "2"));
    assert_eq!(world.steps(), ["mwrs.fleet/web: hold: Suspended"]);
    world.files.remove("clusters/a/cluster.yaml");
    let suspension = Arc::new(Suspension::default());
    world.policy.suspensions.clusters.insert(ClusterName::parse("b").unwrap(), suspension);
    assert_eq!(world.steps(), ["mwrs.fleet/web: hold: SuspendedOnHub"]);
    world.policy.suspensions = Suspensions::default();
    world.settle();
    // An error freezes the set.
    world.put("groups/g/web/x.yaml", "a: [");
    assert_eq!(world.steps(), ["mwrs.fleet/web: hold: Frozen"]);
    // The budget counts the works of the set.
    world.files = files(&[("clusters/c/own/x.yaml", &map("own", "1"))]);
    assert_eq!(world.steps(), ["c/own: create: NewInGit", "mwrs.fleet/web: hold: HeldByBudget"]);
    world.policy.allow_delete_all = true;
    let done = world.settle();
    assert_eq!(done, ["create c/own", "delete mwrs.fleet/web"]);
    assert_eq!(world.lost, ["a: one", "b: one"]);
}

#[test]
fn without_facts_nothing_is_deleted() {
    for (before, after) in [(WORKS, SET), (SET, WORKS)] {
        let mut world = World::group(before);
        world.settle();
        world.put("groups/g/group.yaml", after);
        world.has_facts = false;
        for _ in 0..3 {
            let done = world.pass();
            assert!(!done.iter().any(|one| one.starts_with("delete")), "{done:?}");
            world.control();
            world.apply("a");
            world.apply("b");
        }
        world.has_facts = true;
        world.settle();
        assert_eq!(world.lost, [""; 0]);
    }
}

#[test]
fn frozen_set_keeps_the_works_that_it_replaces() {
    let mut world = World::group(WORKS);
    world.settle();
    world.put("groups/g/group.yaml", SET);
    world.put("groups/g/web/x.yaml", "a: [");
    assert_eq!(world.steps(), ["a/web: hold: Frozen", "b/web: hold: Frozen"]);
    world.put("groups/g/web/x.yaml", &map("one", "1"));
    world.settle();
    assert_eq!(world.lost, [""; 0]);
}

#[test]
fn status_of_a_set_is_that_of_its_controller() {
    let set = |generation: i64, conditions: Value| {
        ObservedWork::from_replica_set(json!({
            "metadata": {
                "namespace": "fleet", "name": "web", "uid": "u", "resourceVersion": "1",
                "generation": generation,
            },
            "spec": {"manifestWorkTemplate": {"workload": {"manifests": [{}]}}},
            "status": {
                "summary": {"total": 3, "applied": 2, "available": 3, "degraded": 0},
                "conditions": conditions,
            },
        }))
        .unwrap()
    };
    let rolled_out = |status: &str, generation: Value| {
        json!({
            "type": "PlacementRolledOut", "status": status, "observedGeneration": generation,
        })
    };
    let verified =
        |reason: &str| json!({"type": "PlacementVerified", "status": "False", "reason": reason});
    let empty = verified("PlacementDecisionEmpty");
    let lost = verified("PlacementDecisionNotFound");
    let applied = json!({"type": "ManifestworkApplied", "status": "True", "reason": "AsExpected"});
    for (conditions, expected) in [
        (json!([]), "pending"),
        (json!([rolled_out("True", json!(1))]), "pending"),
        (json!([rolled_out("False", json!(2))]), "pending"),
        (json!([rolled_out("True", json!(2))]), "applied"),
        // OCM's controller.
        (json!([rolled_out("True", Value::Null), applied]), "available"),
        (json!([rolled_out("False", json!(2)), empty]), "applied"),
        (json!([rolled_out("True", json!(2)), lost]), "failed"),
    ] {
        let read = set(2, conditions.clone());
        assert_eq!(read.status.state.as_str(), expected, "{conditions}");
        assert_eq!((read.works, read.status.manifests, read.status.manifests_applied), (3, 3, 2));
    }
}
