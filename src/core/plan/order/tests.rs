use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::model::cluster_revisions::ClusterRevisions;
use crate::model::name::{ClusterName, WorkName};
use crate::plan::incremental::{IncrementalPlan, InputRevisions};
use crate::plan::observed::{Observed, WorkContent};
use crate::plan::{LastKnownState, LastKnownStates, PlanPolicy, lint, plan};
use crate::render::desired::Desired;
use crate::render::test_repository::{TestFiles, files, render};

#[expect(clippy::disallowed_methods, reason = "an Instant has no other constructor")]
fn now() -> Instant {
    Instant::now()
}

fn key(text: &str) -> WorkKey {
    let (cluster, work) = text.split_once('/').unwrap();
    let (cluster, work) = (ClusterName::parse(cluster).unwrap(), WorkName::parse(work).unwrap());
    WorkKey { cluster, work }
}

/// A work folder with a ConfigMap and its `dependsOn`.
fn work(folder: &str, data: &str, depends_on: &str) -> TestFiles {
    let name = folder.replace('/', "-");
    let manifest = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{namespace: x, name: {name}}}, data: {{v: \
         '{data}'}}}}"
    );
    let mut all = files(&[(&format!("clusters/{folder}/x.yaml"), &manifest)]);
    if !depends_on.is_empty() {
        let text = format!("dependsOn: {depends_on}\n");
        all.extend(files(&[(&format!("clusters/{folder}/work.yaml"), &text)]));
    }
    all
}

/// `a/app` depends on `a/base`; both have this content.
fn app_and_base(data: &str) -> TestFiles {
    work("a/base", data, "").into_iter().chain(work("a/app", data, "[base]")).collect()
}

/// What Git has, and what the hub has.
#[derive(Clone)]
struct World {
    desired: Desired,
    hub: BTreeMap<WorkKey, Value>,
    last_known: LastKnownStates,
    policy: PlanPolicy,
}

impl World {
    /// The hub has nothing.
    fn new(now: &TestFiles) -> Self {
        Self {
            desired: render(now, "[]"),
            hub: BTreeMap::new(),
            last_known: LastKnownStates::new(),
            policy: PlanPolicy::default(),
        }
    }

    /// The hub has the works of `before`, each applied and available.
    fn after(before: &TestFiles, now: &TestFiles) -> Self {
        let (had, mut world) = (render(before, "[]"), Self::new(now));
        for (key, work) in &had.works {
            world.write(key, work.body.to_manifest_work(key, None));
            world.report(key, &json!({"Applied": "True", "Available": "True"}));
            if !world.desired.works.contains_key(key) {
                let state = LastKnownState {
                    removed_by: None,
                    delete_option: work.delete_option.clone(),
                    prune: true,
                    budgets: None,
                    added_since: None,
                    depends_on: work.depends_on.clone(),
                };
                world.last_known.insert(key.clone(), state);
            }
        }
        world.policy.allow_delete_all = true;
        world
    }

    /// Gives the hub the work as Git has it.
    fn write_from_git(&mut self, name: &str) {
        let key = key(name);
        let body = self.desired.works[&key].body.to_manifest_work(&key, None);
        self.write(&key, body);
    }

    fn write(&mut self, key: &WorkKey, mut work: Value) {
        let before = self.hub.get(key);
        let generation = before.map_or(0, |work| work["metadata"]["generation"].as_i64().unwrap());
        work["metadata"]["uid"] = key.to_string().into();
        work["metadata"]["resourceVersion"] = format!("{}", generation + 1).into();
        work["metadata"]["generation"] = (generation + 1).into();
        work["metadata"]["finalizers"] =
            json!(["cluster.open-cluster-management.io/manifest-work-cleanup"]);
        work["status"] = before.map(|work| work["status"].clone()).unwrap_or_default();
        self.hub.insert(key.clone(), work);
    }

    /// The agent reports these conditions of the work's generation.
    fn report(&mut self, key: &WorkKey, conditions: &Value) {
        let work = self.hub.get_mut(key).unwrap();
        let generation = work["metadata"]["generation"].clone();
        let mut all: BTreeMap<String, Value> = BTreeMap::new();
        for condition in work["status"]["conditions"].as_array().into_iter().flatten() {
            all.insert(condition["type"].as_str().unwrap().to_owned(), condition.clone());
        }
        for (kind, status) in conditions.as_object().unwrap() {
            let condition = json!({
                "type": kind, "status": status, "observedGeneration": generation, "reason": "X",
            });
            all.insert(kind.clone(), condition);
        }
        work["status"]["conditions"] = all.into_values().collect();
    }

    fn observed(&self) -> Observed {
        let mut observed = Observed::default();
        for (key, work) in &self.hub {
            let content = WorkContent::from_manifest_work(work.clone());
            observed.contents.insert(key.clone(), content);
            observed.record_change(ObservedWork::from_manifest_work(work.clone()).unwrap());
        }
        observed
    }

    fn plan(&self) -> Plan {
        let observed = self.observed();
        let Self { desired, last_known, policy, .. } = self;
        let plan = plan(desired, &observed, last_known, policy);
        let inputs = PlanInputs { desired, observed: &observed, last_known, policy };
        assert_eq!(lint::check(&plan, inputs), []);
        plan
    }

    /// What the plan does with a work: `create`, or `wait for a/base: Applied`.
    fn step(&self, name: &str) -> String {
        said(&self.plan(), name)
    }
}

fn said(plan: &Plan, name: &str) -> String {
    let step = plan.steps.get(&key(name)).unwrap();
    match &step.reason {
        Reason::WaitsForWork { work, awaited } => {
            assert_eq!((step.action(), &step.effect), (Action::Wait, &None));
            format!("wait for {work}: {awaited:?}")
        }
        _ => step.action().to_string(),
    }
}

#[test]
fn new_work_is_created_once_its_dependency_is_applied_and_available() {
    let mut world = World::new(&app_and_base("1"));
    assert_eq!(world.step("a/base"), "create");
    assert_eq!(world.step("a/app"), "wait for a/base: Written");
    world.write_from_git("a/base");
    assert_eq!(world.step("a/app"), "wait for a/base: Applied");
    let base = key("a/base");
    for (conditions, expected) in [
        (json!({"Applied": "False"}), "wait for a/base: Applied"),
        (json!({"Applied": "True"}), "wait for a/base: Available"),
        (json!({"Applied": "True", "Available": "False"}), "wait for a/base: Available"),
        (json!({"Applied": "False", "Available": "True"}), "wait for a/base: Applied"),
        (json!({"Applied": "True", "Available": "True"}), "create"),
    ] {
        world.report(&base, &conditions);
        assert_eq!(world.step("a/app"), expected, "{conditions}");
    }
    // The next commit changes the dependency: what the agent says is about the last one.
    let mut next = World { desired: render(&app_and_base("2"), "[]"), ..world };
    assert_eq!(next.step("a/app"), "wait for a/base: Written");
    next.write_from_git("a/base");
    assert_eq!(next.step("a/app"), "wait for a/base: Applied");
    next.report(&base, &json!({"Applied": "True"}));
    assert_eq!(next.step("a/app"), "wait for a/base: Available");
    next.report(&base, &json!({"Available": "True"}));
    assert_eq!(next.step("a/app"), "create");
}

/// OCM's agent applies nothing of a Complete work any more, so `Applied` stays that of an older
/// content.
#[test]
fn new_work_does_not_wait_for_later_content_of_a_complete_dependency() {
    let base = key("a/base");
    let mut world = World::after(&work("a/base", "1", ""), &app_and_base("2"));
    world.report(&base, &json!({"Available": "False", "Complete": "True"}));
    world.write_from_git("a/base");
    assert_eq!(world.step("a/app"), "wait for a/base: Applied", "the report is of older content");
    world.report(&base, &json!({"Complete": "True"}));
    assert_eq!(world.step("a/app"), "create");
    world.report(&base, &json!({"Applied": "False", "Complete": "True"}));
    assert_eq!(world.step("a/app"), "wait for a/base: Applied", "another manifest has failed");
}

#[test]
fn new_work_waits_for_a_dependency_that_cannot_be_read_or_belongs_to_another() {
    let mut files = app_and_base("1");
    files.insert("clusters/a/base/broken.yaml".into(), "{".into());
    let mut world = World::new(&files);
    assert_eq!(world.step("a/app"), "wait for a/base: Readable");
    world = World::new(&app_and_base("1"));
    world.write_from_git("a/base");
    world.report(&key("a/base"), &json!({"Applied": "True", "Available": "True"}));
    assert_eq!(world.step("a/app"), "create");
    let base = world.hub.get_mut(&key("a/base")).unwrap();
    base["metadata"]["labels"]["gitwork.dev/source"] = "other".into();
    assert_eq!(world.step("a/app"), "wait for a/base: Written");
}

#[test]
fn update_waits_until_the_update_of_its_dependency_was_tried() {
    let mut world = World::after(&app_and_base("1"), &app_and_base("2"));
    assert_eq!(world.step("a/base"), "update");
    assert_eq!(world.step("a/app"), "wait for a/base: Tried");
    world.write_from_git("a/base");
    assert_eq!(world.step("a/app"), "wait for a/base: Tried");
    let tried = world.clone();
    for applied in ["True", "False"] {
        let mut world = tried.clone();
        world.report(&key("a/base"), &json!({"Applied": applied}));
        assert_eq!(world.step("a/app"), "update", "a broken dependency keeps no fix back");
    }
    // It has waited long enough.
    let mut world = tried;
    world.policy.overdue_updates.insert(key("a/app"));
    assert_eq!(world.step("a/app"), "update");
}

#[test]
fn update_does_not_wait_for_a_dependency_that_is_held_or_unchanged() {
    let (before, after) = (app_and_base("1"), app_and_base("2"));
    // Unchanged, also if the agent reports a failure.
    let mut only_app = before.clone();
    only_app.extend(work("a/app", "2", "[base]"));
    let mut world = World::after(&before, &only_app);
    world.report(&key("a/base"), &json!({"Applied": "False", "Available": "False"}));
    assert_eq!(world.step("a/app"), "update");
    // Suspended, and unreadable.
    let mut suspended = after.clone();
    suspended.extend(files(&[("clusters/a/base/work.yaml", "suspend: true\n")]));
    assert_eq!(World::after(&before, &suspended).step("a/app"), "update");
    let mut broken = after.clone();
    broken.extend(files(&[("clusters/a/base/broken.yaml", "{")]));
    assert_eq!(World::after(&before, &broken).step("a/app"), "update");
    // An edit on the hub is put back without delay.
    let mut world = World::after(&app_and_base("2"), &app_and_base("2"));
    let edited = world.hub.get_mut(&key("a/app")).unwrap();
    edited["spec"]["workload"]["manifests"][0]["data"]["v"] = "edited".into();
    world.write(&key("a/base"), world.hub[&key("a/base")].clone());
    assert_eq!(world.step("a/app"), "update");
}

/// A renamed work is no new one: a broken dependency must not keep a fix from it.
#[test]
fn work_that_gets_objects_waits_as_an_update_does() {
    let before = app_and_base("1");
    let mut after = work("a/base", "1", "");
    for (path, file) in work("a/app", "1", "[base]") {
        after.insert(path.replace("a/app", "a/renamed"), file);
    }
    let mut world = World::after(&before, &after);
    world.report(&key("a/base"), &json!({"Available": "False"}));
    assert_eq!(
        world.step("a/renamed"),
        "create",
        "{:?}",
        world.plan().steps.get(&key("a/renamed"))
    );
}

#[test]
fn works_are_deleted_in_reverse_order() {
    let mut before = app_and_base("1");
    before.extend(work("a/web", "1", "[app, {cluster: b, work: db}]"));
    before.extend(work("b/db", "1", ""));
    before.extend(work("b/other", "1", ""));
    let mut world = World::after(&before, &work("b/other", "1", ""));
    assert_eq!(world.step("a/web"), "delete");
    assert_eq!(world.step("a/app"), "wait for a/web: Gone");
    assert_eq!(world.step("a/base"), "wait for a/app: Gone");
    assert_eq!(world.step("b/db"), "wait for a/web: Gone");
    world.hub.get_mut(&key("a/web")).unwrap()["metadata"]["deletionTimestamp"] = "now".into();
    assert_eq!(world.step("a/app"), "wait for a/web: Gone", "its objects may still be there");
    world.hub.remove(&key("a/web"));
    assert_eq!(world.step("a/app"), "delete");
    assert_eq!(world.step("b/db"), "delete");
    world.hub.remove(&key("a/app"));
    assert_eq!(world.step("a/base"), "delete");
}

/// The last state of a work may be unknown, as of a cluster that the hub no longer has.
#[test]
fn works_without_a_last_state_are_deleted_in_reverse_order() {
    let kept = work("a/kept", "1", "");
    let mut before = app_and_base("1");
    before.extend(kept.clone());
    let mut world = World::after(&before, &kept);
    let app = world.last_known.works.remove(&key("a/app")).unwrap();
    assert_eq!(world.step("a/base"), "delete");
    world.last_known.insert_dependencies(key("a/app"), app.depends_on);
    assert_eq!(world.step("a/app"), "delete");
    assert_eq!(world.step("a/base"), "wait for a/app: Gone");
}

/// Git never had such a cycle at one commit.
#[test]
fn cycle_of_removed_works_delays_no_deletion() {
    let (mut before, kept) = (app_and_base("1"), work("a/kept", "1", ""));
    before.extend(kept.clone());
    let mut world = World::after(&before, &kept);
    let mut base = world.last_known.get(&key("a/base")).unwrap().clone();
    base.depends_on = [key("a/app")].into();
    world.last_known.insert(key("a/base"), base);
    assert_eq!(world.step("a/app"), "delete");
    assert_eq!(world.step("a/base"), "delete");
}

/// The error of the dependent work says what is wrong; Git has asked for the deletion.
#[test]
fn work_in_git_delays_no_deletion() {
    let before = app_and_base("1");
    let world = World::after(&before, &work("a/app", "1", "[base]"));
    assert_eq!(world.step("a/app"), "hold");
    assert_eq!(world.step("a/base"), "delete");
}

/// The report of one cluster's agent lets a work on another cluster go.
#[test]
fn incremental_plan_follows_dependencies_on_other_clusters() {
    let mut now = work("a/base", "1", "");
    now.extend(work("b/app", "1", "[{cluster: a, work: base}]"));
    for n in 0..20 {
        now.extend(work(&format!("c{n}/other"), "1", ""));
    }
    let mut world = World::new(&now);
    world.write_from_git("a/base");
    let mut incremental = IncrementalPlan::default();
    let (git, mut hub) = (ClusterRevisions::default(), ClusterRevisions::default());
    let mut made = |world: &World, hub: &ClusterRevisions| -> Arc<Plan> {
        let observed = world.observed();
        let World { desired, last_known, policy, .. } = world;
        let inputs = PlanInputs { desired, observed: &observed, last_known, policy };
        incremental.plan(inputs, InputRevisions { desired: &git, observed: hub })
    };
    assert_eq!(said(&made(&world, &hub), "b/app"), "wait for a/base: Applied");
    world.report(&key("a/base"), &json!({"Applied": "True", "Available": "True"}));
    hub.mark(&ClusterName::parse("a").unwrap());
    assert_eq!(said(&made(&world, &hub), "b/app"), "create");
}

#[test]
fn update_is_overdue_five_minutes_after_it_began_to_wait() {
    let world = World::after(&app_and_base("1"), &app_and_base("2"));
    let mut waits = UpdateWaits::default();
    let start = now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    waits.record(&world.plan(), at(0));
    // A later commit does not begin the wait again.
    waits.record(&world.plan(), at(200));
    assert_eq!((waits.overdue(at(299)), waits.next_overdue()), (BTreeSet::new(), Some(at(300))));
    assert_eq!(waits.overdue(at(300)), [key("a/app")].into());
    let mut due = world.clone();
    due.policy.overdue_updates = waits.overdue(at(300));
    waits.record(&due.plan(), at(300));
    assert_eq!(waits.next_overdue(), None, "the plan has taken it");
    assert_eq!(waits.overdue(at(301)), [key("a/app")].into(), "until it is written");
    due.write_from_git("a/app");
    waits.record(&due.plan(), at(302));
    assert_eq!(waits.overdue(at(900)), BTreeSet::new());
}
