use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::config::tenancy::{Tenancy, TenantRule};
use crate::limits;
use crate::model::manifest::Identity;
use crate::model::name::{ClusterName, RepoPath, SourceId, WorkName};
use crate::model::object_digest::ObjectDigest;
use crate::model::work::{DesiredWork, NamedObject, WorkBody};
use crate::plan::last_known::AddedSince;
use crate::plan::lint;
use crate::plan::observed::{AGENT_FINALIZER, Observed, ObservedWork, WorkContent};
use crate::plan::work_spec::WorkSpec;
use crate::plan::{
    Effect, LastKnownState, LastKnownStates, Plan, PlanPolicy, Reason, plan, request,
};
use crate::render::desired::{Desired, FrozenObjects, WantedWorks};
use request::Request;

mod dropped_objects;
mod held_moves;
mod lint_of_moves;
mod many_works;
mod shared_objects;
mod transitional_body;

/// Works of one cluster in Git, on the hub, and as their agent has applied them.
struct World {
    desired: Desired,
    hub: BTreeMap<WorkKey, Value>,
    last_known: LastKnownStates,
    policy: PlanPolicy,
    versions: u64,
}

/// A work in Git: its name, its objects with their content, and other fields of its spec.
type Work<'a> = (&'a str, &'a [(&'a str, &'a str)], Value);

fn key(work: &str) -> WorkKey {
    WorkKey { cluster: ClusterName::parse("edge-1").unwrap(), work: WorkName::parse(work).unwrap() }
}

/// A ConfigMap, immutable if its content begins with `fixed`; or an object of the kind that the
/// content begins with, with the rest in a field that cannot change.
fn manifest(name: &str, content: &str) -> Value {
    let metadata = json!({"namespace": "shop", "name": name});
    let (kind, field) = content.split_once(' ').unwrap_or_default();
    let other = match kind {
        "Secret" => json!({"apiVersion": "v1", "metadata": metadata, "type": field}),
        "StorageClass" => json!({
            "apiVersion": "storage.k8s.io/v1", "metadata": {"name": name}, "provisioner": field,
        }),
        "CSIDriver" => json!({
            "apiVersion": "storage.k8s.io/v1", "metadata": {"name": name},
            "spec": {"fsGroupPolicy": field},
        }),
        _ => Value::Null,
    };
    if let Value::Object(mut manifest) = other {
        manifest.insert("kind".into(), kind.into());
        return manifest.into();
    }
    let mut manifest = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
        "data": {"content": content},
    });
    if content.starts_with("fixed") {
        manifest["immutable"] = true.into();
    }
    manifest
}

/// The plural of a manifest's kind.
fn resource(manifest: &Value) -> &'static str {
    match manifest["kind"].as_str() {
        Some("Secret") => "secrets",
        Some("StorageClass") => "storageclasses",
        Some("CSIDriver") => "csidrivers",
        _ => "configmaps",
    }
}

fn identifier(name: &str) -> Value {
    json!({"resource": "configmaps", "namespace": "shop", "name": name})
}

fn desired_work(source: &SourceId, (name, objects, fields): &Work<'_>) -> DesiredWork {
    let manifests: Vec<Value> =
        objects.iter().map(|(name, content)| manifest(name, content)).collect();
    let named = NamedObject::all(manifests.iter().map(|one| (one, resource(one))));
    let mut spec = json!({"workload": {"manifests": manifests}});
    for (field, value) in fields.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    let option = spec.get("deleteOption").cloned().unwrap_or_default();
    let path = RepoPath::parse(&format!("clusters/edge-1/{name}")).unwrap();
    let none = BTreeMap::new();
    let prune = fields.get("prune") != Some(&json!(false));
    if let Value::Object(fields) = &mut spec {
        fields.remove("prune");
        fields.remove("suspend");
    }
    DesiredWork {
        key: key(name),
        body: Arc::new(WorkBody::new(source, &path, spec, none.clone(), none, prune)),
        path,
        delete_option: DeletionPolicy::from_value(&option),
        prune,
        suspend: fields.get("suspend") == Some(&json!(true)),
        objects: named,
        depends_on: Default::default(),
        group_content: None,
        is_earlier: false,
    }
}

impl World {
    /// A cluster whose agent has applied these works.
    fn settled(works: &[Work<'_>]) -> Self {
        let desired = Desired {
            delivered: BTreeMap::new(),
            source: SourceId::parse("fleet").unwrap(),
            commit: None,
            works: WantedWorks::new(),
            frozen: crate::render::desired::Frozen::default(),
            rules: crate::config::source_rules::SourceRules::default(),
            approved: crate::model::approval::Approvals::default(),
            suspended: crate::render::desired::Suspended::default(),
            needed_facts: None,
            rollouts: BTreeMap::new(),
            later: BTreeMap::new(),
            facts: None,
            diagnostics: Vec::new(),
        };
        let mut world = Self {
            desired,
            hub: BTreeMap::new(),
            last_known: LastKnownStates::new(),
            policy: PlanPolicy::default(),
            versions: 0,
        };
        world.commit(works);
        world.pass();
        world.agent_applies_all();
        assert_eq!(world.pass(), [""; 0]);
        world
    }

    fn commit(&mut self, works: &[Work<'_>]) {
        let works = works.iter().map(|work| desired_work(&self.desired.source, work));
        let works: WantedWorks = works.map(|work| (work.key.clone(), Arc::new(work))).collect();
        let added = works.keys().filter(|key| !self.desired.works.contains_key(key));
        let added = AddedSince { works: added.cloned().collect(), ..AddedSince::default() };
        let added = Arc::new(added);
        let gone = self.desired.works.iter().filter(|(key, _)| !works.contains_key(key));
        self.last_known.works.extend(gone.map(|(key, work)| {
            let state = LastKnownState {
                removed_by: None,
                delete_option: work.delete_option.clone(),
                prune: work.prune,
                budgets: None,
                added_since: Some(added.clone()),
                depends_on: Default::default(),
            };
            (key.clone(), state)
        }));
        self.last_known.works.retain(|key, _| !works.contains_key(key));
        self.desired.works = works;
    }

    fn observed(&self) -> Observed {
        let mut observed = Observed::default();
        for object in self.hub.values() {
            observed.record_change(ObservedWork::from_manifest_work(object.clone()).unwrap());
        }
        for key in MovingWorks::of(&self.desired, &observed).unread {
            let content = WorkContent::from_manifest_work(self.hub[&key].clone());
            observed.contents.insert(key, content);
        }
        observed
    }

    fn plan(&self) -> Plan {
        let observed = self.observed();
        let made = plan(&self.desired, &observed, &self.last_known, &self.policy);
        assert_eq!(self.violations(&made), [], "{made:?}");
        made
    }

    /// The rules that a plan breaks in this world.
    fn violations(&self, plan: &Plan) -> Vec<lint::PlanViolation> {
        let observed = self.observed();
        let inputs = PlanInputs {
            desired: &self.desired,
            observed: &observed,
            last_known: &self.last_known,
            policy: &self.policy,
        };
        lint::check(plan, inputs)
    }

    /// Executes one plan, and gives what it did, as in `update shop`. A second plan then has
    /// nothing to do before an agent acts.
    fn pass(&mut self) -> Vec<String> {
        let made = self.plan();
        let mut done = Vec::new();
        for (step, effect) in made.effects() {
            done.push(format!("{} {}", effect.name(), step.key.work));
            self.execute(&step.key, effect);
        }
        let deletes = made.effects().any(|(_, effect)| matches!(effect, Effect::Delete { .. }));
        if deletes {
            // What was deleted may now be created, and others may get its objects.
            return done;
        }
        let again = self.plan();
        let repeated: Vec<_> = again
            .effects()
            .filter(|(step, _)| made.effects().any(|(before, _)| before.key == step.key))
            .map(|(step, effect)| (step.to_string(), effect.name()))
            .filter(|(_, name)| *name == "update" || *name == "create")
            .collect();
        assert_eq!(repeated, [], "written twice");
        done
    }

    fn execute(&mut self, key: &WorkKey, effect: &Effect) {
        self.versions += 1;
        let version = self.versions;
        match request::request(key, effect, None) {
            Request::Create(work) => {
                let mut work = work.into_value();
                work["metadata"]["uid"] = format!("uid-{version}").into();
                work["metadata"]["generation"] = 1.into();
                work["metadata"]["resourceVersion"] = version.to_string().into();
                self.hub.insert(key.clone(), work);
            }
            Request::Delete { .. } => drop(self.hub.remove(key)),
            _ => {
                let work = self.hub.get_mut(key).unwrap();
                match effect {
                    Effect::SetDeleteOption { delete_option, .. } => {
                        work["spec"]["deleteOption"] = delete_option.to_value(None);
                    }
                    Effect::Release { .. } => {
                        work["metadata"]["labels"] = json!({});
                    }
                    _ => {
                        let whole = effect.body().unwrap().to_manifest_work(key, None);
                        for field in ["labels", "annotations"] {
                            work["metadata"][field] = whole["metadata"][field].clone();
                        }
                        work["spec"] = whole["spec"].clone();
                    }
                }
                let generation = work["metadata"]["generation"].as_i64().unwrap() + 1;
                work["metadata"]["generation"] = generation.into();
                work["metadata"]["resourceVersion"] = version.to_string().into();
            }
        }
    }

    fn agent_applies_all(&mut self) {
        for name in self.hub.keys().cloned().collect::<Vec<_>>() {
            self.agent_applies(name.work.as_str(), None);
        }
    }

    /// The agent acts on the present generation of a work. `failure`: of its last object.
    fn agent_applies(&mut self, work: &str, failure: Option<&str>) {
        self.versions += 1;
        let version = self.versions;
        let work = self.hub.get_mut(&key(work)).unwrap();
        let generation = work["metadata"]["generation"].clone();
        let applied = |status: &str, message: &str| {
            json!({
                "type": "Applied", "status": status, "observedGeneration": generation,
                "reason": "R", "message": message,
            })
        };
        let manifests = work["spec"]["workload"]["manifests"].as_array().unwrap();
        let last = manifests.len() - 1;
        let reports: Vec<Value> = manifests
            .iter()
            .enumerate()
            .map(|(index, manifest)| {
                let condition = match failure.filter(|_| index == last) {
                    Some(failure) => applied("False", failure),
                    None => applied("True", ""),
                };
                let api_version = manifest["apiVersion"].as_str().unwrap();
                let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
                json!({
                    "resourceMeta": {
                        "group": group, "version": version, "kind": manifest["kind"],
                        "resource": resource(manifest),
                        "namespace": manifest["metadata"]["namespace"].as_str().unwrap_or_default(),
                        "name": manifest["metadata"]["name"],
                    },
                    "conditions": [condition],
                })
            })
            .collect();
        let condition = applied(if failure.is_some() { "False" } else { "True" }, "");
        work["status"] = json!({
            "conditions": [condition], "resourceStatus": {"manifests": reports},
        });
        work["metadata"]["finalizers"] = json!([AGENT_FINALIZER]);
        work["metadata"]["resourceVersion"] = version.to_string().into();
    }

    /// The names of the objects that a work lists on the hub.
    fn listed(&self, work: &str) -> Vec<String> {
        let manifests = self.hub[&key(work)]["spec"]["workload"]["manifests"].as_array().unwrap();
        let names = manifests.iter().map(|one| one["metadata"]["name"].as_str().unwrap());
        names.map(str::to_owned).collect()
    }

    fn spec(&self, work: &str) -> &Value {
        &self.hub[&key(work)]["spec"]
    }

    fn reason(&self, work: &str) -> String {
        let plan = self.plan();
        let step = plan.steps.iter().find(|step| step.key == key(work)).unwrap();
        format!("{}: {}", step.action(), step.reason)
    }
}

fn plain<'a>(name: &'a str, objects: &'a [(&'a str, &'a str)]) -> Work<'a> {
    (name, objects, Value::Null)
}

#[test]
fn renamed_work_is_deleted_after_the_new_one_is_applied() {
    let mut world = World::settled(&[plain("shop", &[("data", "1")])]);
    world.commit(&[plain("shop2", &[("data", "2")])]);
    assert_eq!(world.pass(), ["update shop", "create shop2"]);
    assert_eq!(
        world.spec("shop")["manifestConfigs"],
        json!([
            {"resourceIdentifier": identifier("data"), "updateStrategy": {"type": "CreateOnly"}},
        ])
    );
    assert_eq!(world.spec("shop")["workload"]["manifests"], json!([manifest("data", "1")]));
    assert_eq!(
        world.reason("shop"),
        "wait: configmaps/data in namespace shop moves from shop to shop2; shop keeps it until \
         shop2 has applied it"
    );
    // The agent has seen the giving work only.
    world.agent_applies("shop", None);
    assert_eq!(world.pass(), [""; 0]);
    world.agent_applies("shop2", None);
    assert_eq!(world.pass(), ["delete shop"]);
}

#[test]
fn deletion_waits_for_the_generation_that_lists_the_object() {
    let mut world = World::settled(&[
        plain("shop", &[("data", "1"), ("a", "1")]),
        plain("shop2", &[("b", "1")]),
    ]);
    world.commit(&[plain("shop", &[("a", "1")]), plain("shop2", &[("b", "1"), ("data", "1")])]);
    // Applied is True on shop2, of the generation before.
    assert_eq!(world.pass(), ["update shop", "update shop2"]);
    assert_eq!(world.listed("shop"), ["a", "data"]);
    assert_eq!(world.pass(), [""; 0]);
    world.agent_applies_all();
    assert_eq!(world.pass(), ["update shop"]);
    assert_eq!(world.listed("shop"), ["a"]);
    assert_eq!(world.spec("shop").get("manifestConfigs"), None);
    assert_eq!(world.reason("shop"), "keep: up to date");
}

#[test]
fn swap_takes_two_writes_of_each_work() {
    let mut world =
        World::settled(&[plain("a", &[("one", "1"), ("x", "1")]), plain("b", &[("two", "1")])]);
    world.commit(&[plain("a", &[("two", "2"), ("x", "2")]), plain("b", &[("one", "2")])]);
    assert_eq!(world.pass(), ["update a", "update b"]);
    assert_eq!(world.listed("a"), ["two", "x", "one"]);
    assert_eq!(world.listed("b"), ["one", "two"]);
    world.agent_applies("b", None);
    assert_eq!(world.pass(), [""; 0]);
    world.agent_applies("a", None);
    assert_eq!(world.pass(), ["update a", "update b"]);
    assert_eq!(world.listed("a"), ["two", "x"]);
    assert_eq!(world.listed("b"), ["one"]);
    assert_eq!(world.pass(), [""; 0]);
}

#[test]
fn chain_and_revert_keep_the_object_until_its_last_work_has_it() {
    let shop = |work| [plain(work, &[("data", "1")])];
    let mut world = World::settled(&shop("a"));
    world.commit(&shop("b"));
    world.pass();
    world.agent_applies("b", Some("not yet"));
    world.commit(&shop("c"));
    assert_eq!(world.pass(), ["update b", "create c"]);
    world.agent_applies("a", None);
    world.agent_applies("b", None);
    assert_eq!(world.pass(), [""; 0]);
    world.agent_applies("c", None);
    assert_eq!(world.pass(), ["delete a", "delete b"]);

    let mut world = World::settled(&shop("a"));
    world.commit(&shop("b"));
    world.pass();
    world.commit(&shop("a"));
    // An agent has not yet seen b, so that it owns nothing.
    assert_eq!(world.pass(), ["update a", "delete b"]);
    assert_eq!(world.spec("a").get("manifestConfigs"), None);
}

#[test]
fn failing_receiver_leaves_the_object_with_the_giver() {
    let mut world = World::settled(&[plain("shop", &[("data", "1")])]);
    world.commit(&[plain("shop2", &[("data", "2")])]);
    world.pass();
    world.agent_applies("shop2", Some("field is immutable"));
    assert_eq!(world.pass(), [""; 0]);
    assert_eq!(
        world.reason("shop"),
        "hold: held: configmaps/data in namespace shop moves from shop to shop2, which has not \
         applied it: field is immutable; shop keeps it"
    );
}

#[test]
fn neither_work_changes_for_the_object_while_one_is_suspended() {
    let suspended = json!({"suspend": true});
    let mut world = World::settled(&[
        plain("shop", &[("data", "1"), ("a", "1")]),
        plain("shop2", &[("b", "1")]),
    ]);
    world.commit(&[
        plain("shop", &[("a", "2")]),
        ("shop2", &[("b", "1"), ("data", "1")], suspended.clone()),
    ]);
    // The other changes of the giving work go out.
    assert_eq!(world.pass(), ["update shop"]);
    assert_eq!(world.listed("shop"), ["a", "data"]);
    assert_eq!(world.spec("shop").get("manifestConfigs"), None);
    assert!(world.reason("shop").contains("shop2: suspended in Git"), "{}", world.reason("shop"));

    let mut world = World::settled(&[
        plain("shop", &[("data", "1"), ("a", "1")]),
        plain("shop2", &[("b", "1")]),
    ]);
    world.commit(&[
        ("shop", &[("a", "2")], suspended),
        plain("shop2", &[("b", "2"), ("data", "1")]),
    ]);
    assert_eq!(world.pass(), ["update shop2"]);
    assert_eq!(world.listed("shop2"), ["b"]);
    world.desired.frozen.works.insert(key("shop"));
    world.desired.works.remove(&key("shop"));
    assert_eq!(world.pass(), [""; 0]);
    assert!(world.reason("shop2").contains("shop: kept as it is"), "{}", world.reason("shop2"));
}

/// The objects of the folder of shop2, none of which can be read.
fn unreadable(tenancy: &Tenancy) -> FrozenObjects {
    let path = RepoPath::parse("clusters/edge-1/shop2").unwrap();
    let folder = tenancy.of_folder(&path, &ClusterName::parse("edge-1").unwrap());
    FrozenObjects { unread: vec![Arc::new(folder)], ..FrozenObjects::default() }
}

/// A tenant who breaks a file of their own keeps no object that the policy does not let them have.
#[test]
fn object_that_the_policy_keeps_from_a_frozen_work_is_removed() {
    for (rules, is_kept) in [
        (json!([{"namespaces": ["shop"]}]), true),
        (json!([{"namespaces": ["other"]}, {"kinds": ["ConfigMap"], "namespaces": ["sh*"]}]), true),
        (json!([{"namespaces": ["other"]}]), false),
        (json!([{"kinds": ["Deployment.apps"]}]), false),
        (json!([{"kinds": ["Deployment.apps"]}, {"namespaces": ["other"]}]), false),
        (json!([{"paths": ["clusters/*/other"]}]), false),
    ] {
        let tenancy: Vec<TenantRule> = serde_json::from_value(rules.clone()).unwrap();
        let frozen = unreadable(&tenancy.into());
        let mut world = World::settled(&[plain("shop", &[("data", "1"), ("a", "1")])]);
        world.commit(&[plain("shop", &[("a", "2")])]);
        world.desired.frozen.works.insert(key("shop2"));
        world.desired.frozen.objects.insert(key("shop2"), frozen.clone());
        assert_eq!(world.pass(), ["update shop"]);
        let kept: &[&str] = if is_kept { &["a", "data"] } else { &["a"] };
        assert_eq!(world.listed("shop"), kept, "{rules}");

        let mut world =
            World::settled(&[plain("shop", &[("data", "1")]), plain("b", &[("b", "1")])]);
        world.commit(&[plain("b", &[("b", "1")])]);
        world.desired.frozen.works.insert(key("shop2"));
        world.desired.frozen.objects.insert(key("shop2"), frozen);
        let expected: &[&str] = if is_kept { &[] } else { &["delete shop"] };
        assert_eq!(world.pass(), expected, "{rules}");
    }
}

/// A manifest that leaves a work and stands in a file that cannot be read is not removed.
#[test]
fn object_that_a_frozen_work_may_have_is_kept() {
    let objects = |name: &str| FrozenObjects {
        objects: NamedObject::all([(&manifest(name, "1"), "configmaps")].into_iter()),
        ..FrozenObjects::default()
    };
    let unreadable = unreadable(&Tenancy::default());
    for (frozen, is_kept) in
        [(objects("data"), true), (objects("other"), false), (unreadable, true)]
    {
        let mut world = World::settled(&[plain("shop", &[("data", "1"), ("a", "1")])]);
        world.commit(&[plain("shop", &[("a", "2")])]);
        world.desired.frozen.works.insert(key("shop2"));
        world.desired.frozen.objects.insert(key("shop2"), frozen.clone());
        assert_eq!(world.pass(), ["update shop"]);
        let kept: &[&str] = if is_kept { &["a", "data"] } else { &["a"] };
        assert_eq!(world.listed("shop"), kept);
        assert_eq!(world.reason("shop").contains("cannot be read"), is_kept);

        // The same for a work that is renamed to one that cannot be read.
        let mut world =
            World::settled(&[plain("shop", &[("data", "1")]), plain("b", &[("b", "1")])]);
        world.commit(&[plain("b", &[("b", "1")])]);
        world.desired.frozen.works.insert(key("shop2"));
        world.desired.frozen.objects.insert(key("shop2"), frozen);
        let expected: &[&str] = if is_kept { &[] } else { &["delete shop"] };
        assert_eq!(world.pass(), expected);
    }
}

#[test]
fn object_that_a_work_does_not_own_is_orphaned_first() {
    let rule = json!({"deleteOption": {
        "propagationPolicy": "SelectivelyOrphan",
        "selectivelyOrphans": {"orphaningRules": [identifier("data")]},
    }});
    let read_only = json!({"manifestConfigs": [
        {"resourceIdentifier": identifier("data"), "updateStrategy": {"type": "ReadOnly"}},
    ]});
    let orphan = json!({"deleteOption": {"propagationPolicy": "Orphan"}});
    for fields in [rule.clone(), read_only, orphan] {
        let mut world = World::settled(&[
            plain("shop", &[("data", "1"), ("a", "1")]),
            plain("b", &[("b", "1")]),
        ]);
        let receiver: Work<'_> = ("b", &[("b", "2"), ("data", "2")], fields);
        world.commit(&[plain("shop", &[("a", "2")]), receiver.clone()]);
        assert_eq!(world.pass(), ["update b", "update shop"]);
        assert_eq!(
            (world.listed("b"), world.listed("shop")),
            (vec!["b".into()], vec!["data".to_owned(), "a".into()])
        );
        assert_eq!(world.spec("shop")["deleteOption"], rule["deleteOption"]);
        world.agent_applies("b", None);
        assert_eq!(world.pass(), [""; 0], "the agent has not orphaned it");
        world.agent_applies("shop", None);
        assert_eq!(world.pass(), ["update shop"]);
        assert_eq!(world.listed("shop"), ["a"]);
        assert_eq!(world.spec("shop").get("deleteOption"), None);
        assert_eq!(world.pass(), ["update b"]);
        assert_eq!(world.listed("b"), ["b", "data"]);
        world.agent_applies_all();
        assert_eq!(world.pass(), [""; 0]);
    }
}

#[test]
fn removed_work_orphans_for_its_receiver_and_is_deleted() {
    let orphan = json!({"deleteOption": {"propagationPolicy": "Orphan"}});
    let mut world = World::settled(&[plain("shop", &[("data", "1"), ("gone", "1")])]);
    world.commit(&[("shop2", &[("data", "2"), ("b", "1")], orphan)]);
    world.policy.allow_delete_all = true;
    assert_eq!(world.pass(), ["update shop", "create shop2"]);
    assert_eq!(world.listed("shop2"), ["b"]);
    world.agent_applies_all();
    // Nothing that may hold the deletion holds the move.
    world.policy.allow_delete_all = false;
    assert_eq!(world.pass(), ["update shop"]);
    assert_eq!(world.listed("shop"), ["gone"]);
    assert_eq!(world.spec("shop")["deleteOption"], json!({"propagationPolicy": "Foreground"}));
    assert_eq!(world.pass(), ["update shop2"]);
    assert_eq!(world.listed("shop2"), ["data", "b"]);
    world.agent_applies_all();
    assert!(world.reason("shop").starts_with("hold: "), "{}", world.reason("shop"));
    world.policy.allow_delete_all = true;
    assert_eq!(world.pass(), ["delete shop"]);
}

#[test]
fn complete_object_holds_its_own_move_only() {
    let orphan = json!({"deleteOption": {"propagationPolicy": "Orphan"}});
    let mut world =
        World::settled(&[plain("shop", &[("data", "1"), ("a", "1")]), plain("b", &[("b", "1")])]);
    let shop = world.hub.get_mut(&key("shop")).unwrap();
    let reports = shop.pointer_mut("/status/resourceStatus/manifests/0/conditions").unwrap();
    let complete = json!({"type": "Complete", "status": "True"});
    reports.as_array_mut().unwrap().push(complete);
    world.commit(&[plain("shop", &[("a", "2")]), ("b", &[("b", "2"), ("data", "2")], orphan)]);
    assert_eq!(world.pass(), ["update b", "update shop"]);
    assert_eq!(
        (world.listed("b"), world.listed("shop")),
        (vec!["b".into()], vec!["a".to_owned(), "data".into()])
    );
    assert!(world.reason("shop").contains("is Complete"), "{}", world.reason("shop"));
}

#[test]
fn work_that_is_released_gives_moved_objects_away_before() {
    let kept = json!({"prune": false});
    let mut world = World::settled(&[("shop", &[("data", "1"), ("stays", "1")], kept.clone())]);
    world.commit(&[plain("shop2", &[("data", "1")])]);
    assert_eq!(world.pass(), ["update shop", "create shop2"]);
    world.agent_applies_all();
    assert_eq!(world.pass(), ["update shop"]);
    assert_eq!(world.listed("shop"), ["stays"]);
    assert_eq!(world.pass(), [""; 0]);
    assert!(world.reason("shop").contains("released once"), "{}", world.reason("shop"));
    world.agent_applies_all();
    assert_eq!(world.pass(), ["release shop"]);

    let mut world = World::settled(&[("shop", &[("data", "1")], kept)]);
    world.commit(&[plain("shop2", &[("data", "1")])]);
    world.pass();
    world.agent_applies_all();
    assert_eq!(world.pass(), ["delete shop"], "it would be empty");
}

/// The agent would delete the object with the next thing that it does for the released work.
#[test]
fn released_work_is_not_forgotten_while_its_agent_owns_what_has_moved() {
    let kept = json!({"prune": false});
    let mut world = World::settled(&[("shop", &[("data", "1"), ("stays", "1")], kept)]);
    world.commit(&[plain("shop2", &[("data", "1"), ("b", "1")])]);
    world.pass();
    world.agent_applies_all();
    assert_eq!(world.pass(), ["update shop"]);
    // The next work is to orphan the object.
    world.commit(&[plain("shop2", &[("b", "1")]), orphaning("shop3", &[("data", "1")])]);
    for _ in 0..3 {
        world.pass();
        world.agent_applies("shop2", None);
        assert_eq!(world.listed("shop2"), ["b", "data"]);
        assert_eq!(world.spec("shop2").get("deleteOption"), None, "it owns the object");
    }
    world.agent_applies("shop", None);
    assert_eq!(world.pass(), ["release shop", "update shop2"]);
}

#[test]
fn renames_count_as_no_deletion() {
    let names: Vec<(String, String)> =
        (0..30).map(|n| (format!("old-{n:02}"), format!("new-{n:02}"))).collect();
    let object = |n: usize| format!("data-{n:02}");
    let objects: Vec<String> = (0..30).map(object).collect();
    let lists: Vec<[(&str, &str); 1]> = objects.iter().map(|name| [(name.as_str(), "1")]).collect();
    let old: Vec<Work<'_>> =
        names.iter().zip(&lists).map(|((old, _), list)| plain(old, list)).collect();
    let new: Vec<Work<'_>> =
        names.iter().zip(&lists).map(|((_, new), list)| plain(new, list)).collect();
    let mut world = World::settled(&old);
    world.commit(&new);
    assert_eq!(world.pass().len(), 60);
    world.agent_applies_all();
    assert_eq!(world.pass().len(), 30);
    let left: BTreeSet<&str> = world.hub.keys().map(|key| key.work.as_str()).collect();
    assert!(left.iter().all(|name| name.starts_with("new-")), "{left:?}");
}

#[test]
fn held_deletion_stops_no_receiver() {
    let mut world = World::settled(&[plain("shop", &[("data", "1"), ("gone", "1")])]);
    world.commit(&[plain("shop2", &[("data", "2")])]);
    // The only work of the source loses an object.
    assert_eq!(world.pass(), ["update shop", "create shop2"]);
    assert!(world.reason("shop").starts_with("hold: "), "{}", world.reason("shop"));
    world.agent_applies_all();
    assert_eq!(world.pass(), [""; 0]);
    let plan = world.plan();
    assert_eq!(plan.held_deletions().unwrap().works.len(), 1);
    assert_eq!(plan.held_deletions().unwrap().hash.to_string().len(), 64);
}

#[test]
fn work_that_would_be_too_large_orphans_first() {
    let half = "x".repeat(limits::WORK_BYTES_MAX / 2);
    let mut world = World::settled(&[plain("shop", &[("data", &half), ("a", "1")])]);
    world.commit(&[
        plain("shop", &[("a", "1"), ("large", &half)]),
        plain("shop2", &[("data", &half)]),
    ]);
    assert_eq!(world.pass(), ["update shop"]);
    assert_eq!(world.listed("shop"), ["data", "a"]);
    assert!(world.reason("shop2").contains("shop orphans it first"), "{}", world.reason("shop2"));
    world.agent_applies("shop", None);
    assert_eq!(world.pass(), ["update shop"]);
    assert_eq!(world.listed("shop"), ["a", "large"]);
    assert_eq!(world.pass(), ["create shop2"]);
}

/// The hub would reject what Git has together with what the work keeps.
#[test]
fn work_that_would_be_too_large_stays_as_it_is_until_objects_leave_it() {
    let half = "x".repeat(limits::WORK_BYTES_MAX / 2);
    let [fixed, changed] = ["fixed-1", "fixed-2"].map(|text| format!("{text}{half}"));
    let mut world = World::settled(&[plain("shop", &[("data", &fixed), ("a", "1")])]);
    let shop = [("a", "2"), ("large", &*half)];
    world.commit(&[plain("shop", &shop), plain("shop2", &[("data", &changed), ("b", "1")])]);
    assert_eq!(world.pass(), ["create shop2"]);
    let reason = world.reason("shop");
    assert!(reason.contains("data cannot change"), "{reason}");
    assert_eq!(world.listed("shop"), ["data", "a"]);
    world.commit(&[plain("shop", &shop), plain("shop2", &[("data", &fixed), ("b", "1")])]);
    for _ in 0..4 {
        world.pass();
        world.agent_applies_all();
    }
    assert_eq!(world.listed("shop"), ["a", "large"]);
    assert_eq!(world.listed("shop2"), ["data", "b"]);
}

#[test]
fn unread_giver_changes_neither_work() {
    let mut world = World::settled(&[plain("shop", &[("data", "1")])]);
    world.commit(&[plain("shop2", &[("data", "1")])]);
    let mut observed = world.observed();
    observed.contents.clear();
    let plan = plan(&world.desired, &observed, &world.last_known, &world.policy);
    assert!(plan.is_empty(), "{plan:?}");
    let moving = |reason: &Reason| matches!(reason, Reason::MovesObjects { .. });
    assert!(plan.steps.iter().all(|step| moving(&step.reason)), "{plan:?}");
}

#[test]
fn only_works_of_one_cluster_move_objects() {
    let digest = |name| ObjectDigest::of_manifest(&manifest(name, "")).unwrap();
    let world = World::settled(&[plain("shop", &[("data", "1")])]);
    let observed = world.observed();
    assert!(observed.works[&key("shop")].object(digest("data")).is_some());
    let mut desired = world.desired.clone();
    let mut elsewhere = desired.works.remove(&key("shop")).unwrap();
    Arc::make_mut(&mut elsewhere).key.cluster = ClusterName::parse("edge-2").unwrap();
    desired.works.insert(elsewhere.key.clone(), elsewhere);
    assert_eq!(MovingWorks::of(&desired, &observed), MovingWorks::default());
}

/// A work that orphans all its objects.
fn orphaning<'a>(name: &'a str, objects: &'a [(&'a str, &'a str)]) -> Work<'a> {
    (name, objects, json!({"deleteOption": {"propagationPolicy": "Orphan"}}))
}

/// The object `data` has moved from `shop` to `shop2`, and the agent has not removed it from
/// `shop`.
fn moved_and_not_removed() -> World {
    let mut world = World::settled(&[plain("shop", &[("data", "1"), ("a", "1")])]);
    world.commit(&[plain("shop", &[("a", "1")]), plain("shop2", &[("data", "1")])]);
    assert_eq!(world.pass(), ["update shop", "create shop2"]);
    world.agent_applies_all();
    assert_eq!(world.pass(), ["update shop"]);
    assert_eq!(world.listed("shop"), ["a"]);
    world
}

#[test]
fn object_moves_on_orphaned_only_after_agent_has_removed_it_from_the_first_work() {
    let mut world = moved_and_not_removed();
    world.commit(&[plain("shop", &[("a", "1")]), orphaning("shop3", &[("data", "1")])]);
    // The agent would delete the object if `shop2` did not own it.
    assert_eq!(world.pass(), [""; 0]);
    assert_eq!(
        world.reason("shop2"),
        "wait: configmaps/data in namespace shop moves from shop2 to shop3; shop2 keeps it until \
         no other work has it"
    );
    world.agent_applies("shop", None);
    assert_eq!(world.pass(), ["update shop2"]);
    world.agent_applies("shop2", None);
    assert_eq!(world.pass(), ["delete shop2"]);
    assert_eq!(world.pass(), ["create shop3"]);
}

#[test]
fn receiver_orphans_object_only_after_agent_has_removed_it_from_the_giver() {
    let mut world = moved_and_not_removed();
    world.commit(&[plain("shop", &[("a", "1")]), orphaning("shop2", &[("data", "1")])]);
    assert_eq!(world.pass(), [""; 0]);
    assert_eq!(
        world.reason("shop2"),
        "wait: orphans or only reads objects in Git that the cluster's agent has not removed from \
         shop yet; it owns these until then"
    );
    world.agent_applies("shop", None);
    assert_eq!(world.pass(), ["update shop2"]);
}

#[test]
fn removed_receiver_gets_its_delete_option_after_agent_has_removed_object_from_the_giver() {
    let mut world = moved_and_not_removed();
    world.commit(&[plain("shop", &[("a", "1")])]);
    let last = world.last_known.works.get_mut(&key("shop2")).unwrap();
    last.delete_option = DeletionPolicy::Orphan;
    assert_eq!(world.pass(), [""; 0]);
    world.agent_applies("shop", None);
    assert_eq!(world.pass(), ["set-delete-option shop2"]);
}

#[test]
fn works_that_exchange_all_orphaned_objects_are_deleted_and_created_again() {
    let mut world =
        World::settled(&[orphaning("a", &[("one", "1")]), orphaning("b", &[("two", "1")])]);
    world.commit(&[orphaning("a", &[("two", "1")]), orphaning("b", &[("one", "1")])]);
    assert_eq!(world.pass(), ["delete a", "delete b"]);
    assert_eq!(world.pass(), ["create a", "create b"]);
    world.agent_applies_all();
    assert_eq!(world.pass(), [""; 0]);
    assert_eq!(world.listed("a"), ["two"]);
}

#[test]
fn work_that_would_be_empty_for_a_while_keeps_what_git_dropped() {
    let mut world = World::settled(&[
        orphaning("a", &[("dropped", "1"), ("one", "1")]),
        orphaning("b", &[("two", "1")]),
    ]);
    world.commit(&[orphaning("a", &[("two", "1")]), orphaning("b", &[("one", "1")])]);
    assert_eq!(world.pass(), ["update a", "delete b"]);
    assert_eq!(world.listed("a"), ["dropped"]);
    assert_eq!(world.pass(), ["update a", "create b"]);
    assert_eq!(world.listed("a"), ["two"]);
}

#[test]
fn giver_is_not_written_again_when_one_of_two_moves_is_complete() {
    for applied in ["a", "b"] {
        let mut world = World::settled(&[plain("shop", &[("one", "1"), ("two", "1")])]);
        world.commit(&[plain("a", &[("one", "1")]), plain("b", &[("two", "1")])]);
        assert_eq!(world.pass(), ["create a", "create b", "update shop"]);
        world.agent_applies(applied, None);
        assert_eq!(world.pass(), [""; 0], "{applied}");
    }
}

#[test]
fn giver_that_orphans_one_object_does_not_write_another_that_is_applied_elsewhere() {
    let mut world =
        World::settled(&[plain("a", &[("one", "1"), ("two", "1")]), plain("b", &[("one", "2")])]);
    let works = [plain("a", &[("x", "1")]), plain("b", &[("one", "2")])];
    world.commit(&[&works[..], &[orphaning("c", &[("two", "1")])]].concat());
    assert_eq!(world.pass(), ["update a"]);
    let configs = world.spec("a")["manifestConfigs"].as_array().unwrap();
    let objects: BTreeSet<&str> =
        configs.iter().map(|one| one["resourceIdentifier"]["name"].as_str().unwrap()).collect();
    assert_eq!(objects, BTreeSet::from(["one", "two"]));
}

#[test]
fn object_of_a_held_move_stays_orphaned() {
    let option = orphaning("shop2", &[("data", "1")]).2;
    for giver in [vec![plain("shop", &[("a", "1")])], Vec::new()] {
        let mut world = World::settled(&[plain("shop", &[("data", "1"), ("a", "1")])]);
        world.commit(&[giver.clone(), vec![orphaning("shop2", &[("data", "1")])]].concat());
        assert_eq!(world.pass()[..1], ["update shop"]);
        let orphaned = world.spec("shop")["deleteOption"].clone();
        assert_eq!(orphaned["propagationPolicy"], "SelectivelyOrphan");
        let mut suspended = option.clone();
        suspended["suspend"] = true.into();
        let objects: &[(&str, &str)] = &[("data", "1")];
        world.commit(&[giver, vec![("shop2", objects, suspended)]].concat());
        world.pass();
        assert_eq!(world.spec("shop")["deleteOption"], orphaned);
    }
}

#[test]
fn works_that_share_an_object_give_it_up_before_the_last_one_orphans_it() {
    let mut world = World::settled(&[
        plain("a", &[("data", "1"), ("one", "1")]),
        plain("b", &[("two", "1")]),
        plain("c", &[("three", "1")]),
    ]);
    let moved = plain("b", &[("two", "1"), ("data", "1")]);
    world.commit(&[plain("a", &[("one", "1")]), moved, plain("c", &[("three", "1")])]);
    assert_eq!(world.pass(), ["update a", "update b"]);
    world.agent_applies_all();
    // It moves on before `a` has dropped it, to a work that orphans it.
    let last = orphaning("c", &[("three", "1"), ("data", "1")]);
    world.commit(&[plain("a", &[("one", "1")]), plain("b", &[("two", "1")]), last]);
    assert!(world.reason("b").contains("b keeps it until no other work has it"));
    let pass = world.pass();
    assert!(pass.contains(&"update a".into()) && !pass.contains(&"update b".into()), "{pass:?}");
    assert_eq!(
        (world.listed("a"), world.listed("b")),
        (vec!["one".into()], vec!["two".to_owned(), "data".into(),])
    );
    assert_eq!(world.pass(), [""; 0], "the agent has not removed it from `a`");
    world.agent_applies_all();
    assert_eq!(world.pass(), ["update b"]);
    world.agent_applies_all();
    assert_eq!(world.pass(), ["update b"]);
    assert_eq!(world.pass(), ["update c"]);
    assert_eq!(world.listed("c"), ["three", "data"]);
}

#[test]
fn last_owner_of_a_shared_object_gets_no_delete_option_that_orphans_it() {
    let mut world = World::settled(&[
        plain("a", &[("data", "1"), ("one", "1")]),
        plain("c", &[("three", "1")]),
    ]);
    let (a, c) = (plain("a", &[("one", "1")]), plain("c", &[("three", "1")]));
    world.commit(&[a.clone(), plain("b", &[("data", "1")]), c]);
    assert_eq!(world.pass(), ["update a", "create b"]);
    world.agent_applies_all();
    // `b` is removed before `a` has dropped the object, with a last deleteOption that orphans it.
    world.commit(&[a, orphaning("c", &[("three", "1"), ("data", "1")])]);
    world.last_known.works.get_mut(&key("b")).unwrap().delete_option = DeletionPolicy::Orphan;
    world.pass();
    assert_eq!(world.listed("a"), ["one"]);
    assert_eq!(world.spec("b")["deleteOption"], Value::Null);
}

#[test]
fn work_that_shares_an_object_does_not_wait_for_a_receiver_that_gets_it_later() {
    let mut world = World::settled(&[
        plain("a", &[("data", "1"), ("one", "1")]),
        plain("c", &[("three", "1")]),
    ]);
    let (a, c) = (plain("a", &[("one", "1")]), plain("c", &[("three", "1")]));
    world.commit(&[a.clone(), plain("b", &[("data", "1")]), c]);
    world.pass();
    world.agent_applies_all();
    // Before `a` has dropped the object, it moves on from `b`, which orphaned it last.
    world.commit(&[a, plain("c", &[("three", "1"), ("data", "1")])]);
    world.last_known.works.get_mut(&key("b")).unwrap().delete_option = DeletionPolicy::Orphan;
    for _ in 0..8 {
        world.pass();
        world.agent_applies_all();
    }
    assert_eq!(
        (world.listed("a"), world.listed("c")),
        (vec!["one".into()], vec!["three".to_owned(), "data".into()])
    );
    assert!(!world.hub.contains_key(&key("b")));
}

#[test]
fn works_that_share_several_objects_do_not_wait_for_each_other() {
    let objects: &[(&str, &str)] = &[("x", "1"), ("y", "1")];
    let mut world = World::settled(&[plain("a", objects)]);
    let create_only =
        json!({"resourceIdentifier": identifier("y"), "updateStrategy": {"type": "CreateOnly"}});
    world.commit(&[("b", objects, json!({"manifestConfigs": [create_only]}))]);
    world.pass();
    world.agent_applies_all();
    world.commit(&[orphaning("c", objects)]);
    for _ in 0..8 {
        world.pass();
        world.agent_applies_all();
    }
    assert!(world.hub.keys().eq([&key("c")]), "{:?}", world.hub.keys());
}

#[test]
fn last_owner_of_a_shared_object_does_not_write_what_its_receiver_lists() {
    let mut world = World::settled(&[
        plain("a", &[("data", "1"), ("one", "1")]),
        plain("b", &[("two", "1")]),
        plain("c", &[("three", "1")]),
    ]);
    let (a, c) = (plain("a", &[("one", "1")]), plain("c", &[("three", "1")]));
    let to_b = [a.clone(), plain("b", &[("two", "1"), ("data", "1")]), c];
    world.commit(&to_b);
    world.pass();
    world.agent_applies_all();
    assert_eq!(world.pass(), ["update a"], "its agent has not removed the object yet");
    // It moves on, back again, and at last to a work that orphans it.
    let b = plain("b", &[("two", "1")]);
    let objects: &[(&str, &str)] = &[("three", "1"), ("data", "2")];
    world.commit(&[a.clone(), b.clone(), plain("c", objects)]);
    world.pass();
    world.commit(&to_b);
    world.pass();
    assert_eq!(world.spec("b")["manifestConfigs"], Value::Null);
    world.commit(&[a, b, orphaning("c", objects)]);
    world.pass();
    assert_eq!(world.listed("c"), ["three", "data"]);
    let strategy = &world.spec("b")["manifestConfigs"][0]["updateStrategy"];
    assert_eq!(
        (&strategy["type"], &world.spec("b")["deleteOption"]),
        (&json!("CreateOnly"), &Value::Null)
    );
}

/// Another work has orphaned the object already. The last owner by name must not do so in the write
/// that the others rely on.
#[test]
fn last_owner_of_a_shared_object_orphans_it_after_the_others_have_given_it_up() {
    let rule = json!({"deleteOption": {
        "propagationPolicy": "SelectivelyOrphan",
        "selectivelyOrphans": {"orphaningRules": [identifier("data")]},
    }});
    let data: &[(&str, &str)] = &[("data", "1")];
    let object = Identity::of_value(Some(&identifier("data")));
    let mut world = World::settled(&[("a", data, rule), plain("b", data), plain("c", data)]);
    world.commit(&[orphaning("c", &[("three", "1")]), plain("d", data)]);
    assert_eq!(world.pass(), ["delete a", "delete b", "update c"]);
    assert_eq!(world.listed("c"), ["three", "data"]);
    assert!(!WorkSpec::of(world.spec("c").clone()).disowns(&object), "{}", world.spec("c"));
    for _ in 0..3 {
        world.agent_applies_all();
        world.pass();
    }
    assert_eq!(world.listed("c"), ["three"]);
    assert_eq!(world.spec("c")["deleteOption"]["propagationPolicy"], "Orphan");
    assert!(world.hub.contains_key(&key("d")));
}

/// The agents have acted on `b` and not on `a` when the hub shows `a` for the last time.
#[test]
fn receiving_work_that_never_owned_an_object_does_not_wait_to_orphan_it() {
    let mut world = World::settled(&[plain("a", &[("one", "1")]), plain("b", &[("two", "1")])]);
    world.commit(&[plain("a", &[("one", "1"), ("data", "1")]), plain("b", &[("two", "1")])]);
    world.pass();
    let rule = json!({"deleteOption": {
        "propagationPolicy": "SelectivelyOrphan",
        "selectivelyOrphans": {"orphaningRules": [identifier("data")]},
    }});
    let work = world.hub.get_mut(&key("b")).unwrap();
    let manifests = work["spec"]["workload"]["manifests"].as_array_mut().unwrap();
    manifests.push(manifest("data", "1"));
    work["spec"]["deleteOption"] = rule["deleteOption"].clone();
    world.commit(&[plain("a", &[("one", "1")]), ("b", &[("two", "1"), ("data", "1")], rule)]);
    assert_eq!(world.pass(), ["update a"]);
    assert_eq!(world.spec("b")["deleteOption"]["propagationPolicy"], "SelectivelyOrphan");
}

/// A former leader may still drop the object from a work that has it as `CreateOnly`.
#[test]
fn last_owner_of_a_shared_object_is_one_that_no_former_leader_gives_up() {
    let data: &[(&str, &str)] = &[("data", "1")];
    let mut world = World::settled(&[plain("z", &[("data", "1"), ("one", "1")])]);
    let z = plain("z", &[("one", "1")]);
    world.commit(&[z.clone(), plain("b", data)]);
    assert_eq!(world.pass(), ["create b", "update z"]);
    world.agent_applies_all();
    world.commit(&[z, orphaning("c", data)]);
    let done = world.pass();
    assert!(!done.contains(&"delete b".to_owned()), "{done:?}");
    assert_eq!(world.listed("z"), ["one"], "b owns the object");
}

/// The hub may show `a` as it was before it dropped the object.
#[test]
fn receiving_work_goes_on_owning_an_object_until_the_giving_one_has_orphaned_it() {
    let read_only = json!({"manifestConfigs": [
        {"resourceIdentifier": identifier("data"), "updateStrategy": {"type": "ReadOnly"}},
    ]});
    for fields in [orphaning("", &[]).2, read_only] {
        let mut world = World::settled(&[plain("a", &[("data", "1"), ("one", "1")])]);
        let a = plain("a", &[("one", "1")]);
        world.commit(&[a.clone(), plain("b", &[("data", "1")])]);
        assert_eq!(world.pass(), ["update a", "create b"]);
        world.agent_applies_all();
        world.commit(&[a, ("b", &[("data", "1"), ("two", "1")], fields.clone())]);
        assert_eq!(world.pass(), ["update a", "update b"], "other changes go out");
        assert_eq!(
            world.spec("b").get("deleteOption").is_some(),
            fields.get("deleteOption").is_some()
        );
        let before = WorkSpec::of(world.spec("b").clone());
        let object = Identity::of_value(Some(&identifier("data")));
        assert!(!before.disowns(&object), "{}", world.spec("b"));
        world.agent_applies_all();
        assert_eq!(world.pass(), ["update a", "update b"]);
        assert_eq!(world.listed("a"), ["one"]);
        let after = WorkSpec::of(world.spec("b").clone());
        assert!(after.disowns(&object), "{}", world.spec("b"));
        world.agent_applies_all();
        assert_eq!(world.pass(), [""; 0]);
    }
}
