use serde_json::{Value, json};

use super::*;
use crate::model::name::{ClusterName, SourceId, WorkName};
use crate::model::work::{DeletionPolicy, WorkBody};
use crate::model::works_by_cluster::WorksByCluster;
use crate::plan::observed::{Observed, ObservedWork};
use crate::plan::{Action, LastKnownStates, Plan, PlanInputs, PlanPolicy, lint, plan};
use crate::render::test_repository::{TestFiles, render};

fn key(cluster: &str, work: &str) -> WorkKey {
    let cluster = ClusterName::parse(cluster).unwrap();
    WorkKey { cluster, work: WorkName::parse(work).unwrap() }
}

/// `count` work folders of a cluster.
fn folders(cluster: &str, count: usize) -> TestFiles {
    let file = |n: usize| {
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: x, name: {cluster}-{n}}}\n"
        );
        (format!("clusters/{cluster}/work-{n:03}/x.yaml"), text.as_str().into())
    };
    (0..count).map(file).collect()
}

/// A source whose last commit drops works, and the hub before that.
struct World {
    desired: Desired,
    hub: Vec<Value>,
    last_known: LastKnownStates,
}

impl World {
    /// The hub has the works of `before`, and Git those of `after`.
    fn new(before: &TestFiles, after: &TestFiles) -> Self {
        let (had, desired) = (render(before, "[]"), render(after, "[]"));
        let hub = had.works.values().map(|work| work.body.to_manifest_work(&work.key, None));
        let hub = hub.collect();
        let mut last_known = LastKnownStates::new();
        for key in had.works.keys().filter(|key| !desired.works.contains_key(key)) {
            let state = LastKnownState {
                removed_by: None,
                delete_option: DeletionPolicy::Foreground,
                prune: true,
                budgets: None,
                added_since: None,
                depends_on: Default::default(),
            };
            last_known.insert(key.clone(), state);
        }
        Self { desired, hub, last_known }
    }

    /// Drops `count` works of a cluster.
    fn drop_works(before: &TestFiles, cluster: &str, count: usize) -> TestFiles {
        let mut after = before.clone();
        after.retain(|path, _| {
            !(0..count).any(|n| path.starts_with(&format!("clusters/{cluster}/work-{n:03}/")))
        });
        after
    }

    /// An agent makes other works of its cluster look like works of the source.
    fn label(&mut self, cluster: &str, count: usize, path: &str) {
        for n in 0..count {
            let name = format!("addon-{n:03}");
            let annotations = json!({
                "gitwork.dev/path": path, "gitwork.dev/content-hash": "0".repeat(64),
            });
            self.hub.push(json!({
                "metadata": {
                    "namespace": cluster, "name": name, "annotations": annotations,
                    "labels": {"gitwork.dev/source": "fleet"},
                },
                "spec": {"workload": {"manifests": []}},
            }));
        }
    }

    /// The works on the hub.
    fn works(&self) -> impl Iterator<Item = ObservedWork> {
        self.hub.iter().enumerate().map(|(number, work)| {
            let mut work = work.clone();
            work["metadata"]["uid"] = format!("uid-{number}").into();
            work["metadata"]["resourceVersion"] = "1".into();
            work["metadata"]["generation"] = 1.into();
            ObservedWork::from_manifest_work(work).unwrap()
        })
    }

    fn plan(&self) -> Plan {
        let mut observed = Observed::default();
        self.works().for_each(|work| observed.record_change(work));
        self.plan_for(&observed)
    }

    fn plan_for(&self, observed: &Observed) -> Plan {
        let (desired, last_known) = (&self.desired, &self.last_known);
        let policy = &PlanPolicy::default();
        let plan = plan(desired, observed, last_known, policy);
        let inputs = PlanInputs { desired, observed, last_known, policy };
        assert_eq!(lint::check(&plan, inputs), []);
        plan
    }
}

/// The number of steps with this action and reason on a cluster.
fn count(plan: &Plan, cluster: &str, action: Action, reason: &str) -> usize {
    let steps = plan.steps.iter().filter(|step| step.key.cluster.as_str() == cluster);
    steps.filter(|step| step.action() == action && step.reason.code() == reason).count()
}

/// The body of the work `work-000` that the plan creates on a cluster.
fn created<'a>(plan: &'a Plan, cluster: &str) -> &'a WorkBody {
    let step = plan.steps.get(&key(cluster, "work-000")).unwrap();
    step.effect.as_ref().and_then(Effect::body).unwrap()
}

#[test]
fn works_that_git_never_had_are_neither_counted_nor_deleted() {
    let mut before = folders("a", 3);
    before.extend(folders("b", 30));
    let mut after = World::drop_works(&before, "b", 10);
    after.extend(folders("c", 1));
    let mut world = World::new(&before, &after);
    world.label("a", 50, "clusters/b/work-000");
    // Without its history, each of them could be a work that Git has dropped.
    let unknown = world.plan();
    assert_eq!(count(&unknown, "b", Action::Hold, "HeldByBudget"), 10);

    let addons = (0..50).map(|n| key("a", &format!("addon-{n:03}")));
    world.last_known.never_in_git.extend(addons);
    let plan = world.plan();
    assert_eq!(count(&plan, "a", Action::Hold, "NeverInGit"), 50);
    assert_eq!(count(&plan, "b", Action::Delete, "RemovedFromGit"), 10);
    assert_eq!(plan.held_deletions(), None);
    assert!(!created(&plan, "c").created_during_hold, "nothing is held that a new work could hide");
    assert_eq!(plan.holds(&SourceId::parse("fleet").unwrap()), []);
}

/// An agent must not make the source look larger than it is, either.
#[test]
fn folder_that_cannot_be_read_keeps_one_work_only() {
    let mut before = folders("a", 2);
    before.extend(folders("b", 60));
    let mut after = World::drop_works(&before, "b", 11);
    after.insert("clusters/a/broken/x.yaml".into(), "broken: [".into());
    let mut world = World::new(&before, &after);
    world.label("a", 300, "clusters/a/broken");
    let plan = world.plan();
    assert_eq!(count(&plan, "b", Action::Hold, "HeldByBudget"), 11);
    assert_eq!(count(&plan, "a", Action::Hold, "Frozen"), 300);
    // A folder of another cluster is none of theirs.
    let mut world = World::new(&before, &after);
    world.label("b", 300, "clusters/a/broken");
    let addons = (0..300).map(|n| key("b", &format!("addon-{n:03}")));
    world.last_known.never_in_git.extend(addons);
    let plan = world.plan();
    assert_eq!(count(&plan, "b", Action::Hold, "HeldByBudget"), 11);
    assert_eq!(count(&plan, "b", Action::Hold, "NeverInGit"), 300);
}

/// An agent removes gitwork's annotations from the works that stay on its cluster.
#[test]
fn cluster_that_seems_emptied_holds_only_its_own_deletions() {
    let mut before = folders("a", 5);
    before.extend(folders("b", 60));
    let after = World::drop_works(&World::drop_works(&before, "b", 4), "a", 2);
    let mut world = World::new(&before, &after);
    let plan = world.plan();
    assert_eq!(plan.held_deletions(), None);
    for work in world.hub.iter_mut().filter(|work| work["metadata"]["namespace"] == "a") {
        work["metadata"]["annotations"] = Value::Null;
    }
    let plan = world.plan();
    let held = plan.held_deletions().unwrap();
    assert_eq!(held.works.len(), 2);
    assert_eq!(held.excess.to_string().matches("on the cluster a").count(), 1, "{held:?}");
    assert_eq!(count(&plan, "b", Action::Delete, "RemovedFromGit"), 4);
}

/// The folder of a cluster gets a name that no cluster can have.
#[test]
fn folder_with_an_invalid_name_holds_deletions_of_clusters_without_a_folder() {
    let mut before = folders("a", 3);
    before.extend(folders("b", 30));
    let mut after = World::drop_works(&before, "b", 2);
    after.extend(folders("b2", 1));
    let renamed = after.extract_if(.., |path, _| path.starts_with("clusters/a/"));
    let renamed: TestFiles =
        renamed.map(|(path, file)| (path.replace("clusters/a/", "clusters/A_/"), file)).collect();
    after.extend(renamed.clone());
    let plan = World::new(&before, &after).plan();
    assert_eq!(count(&plan, "a", Action::Hold, "Frozen"), 3);
    assert_eq!(count(&plan, "b", Action::Delete, "RemovedFromGit"), 2);
    assert!(created(&plan, "b2").created_during_hold, "the deletions on a may come later");

    // Beside clusters that all have their folders, it holds nothing.
    let mut after = World::drop_works(&before, "b", 2);
    after.extend(folders("b2", 1));
    after.extend(renamed);
    let plan = World::new(&before, &after).plan();
    assert_eq!(count(&plan, "a", Action::Keep, "UpToDate"), 3);
    assert_eq!(count(&plan, "b", Action::Delete, "RemovedFromGit"), 2);
    assert!(!created(&plan, "b2").created_during_hold);
}

/// Works of a cluster without a folder are kept, but are no proof that the source keeps any.
#[test]
fn works_of_a_cluster_without_a_folder_do_not_count_as_kept() {
    let before = folders("b", 20);
    let mut after = World::drop_works(&before, "b", 11);
    after.insert("clusters/A_/web/x.yaml".into(), "broken: [".into());
    let mut world = World::new(&before, &after);
    world.label("a", 300, "clusters/a/any");
    let plan = world.plan();
    assert_eq!(count(&plan, "a", Action::Hold, "Frozen"), 300);
    assert_eq!(count(&plan, "b", Action::Hold, "HeldByBudget"), 11);
}

/// A process lists the hub as it was before the source had any work there. It finds a work that was
/// created while deletions were held, and does not know of the works to delete.
#[test]
fn marker_of_a_hold_stays_until_a_list_or_the_watch_has_shown_the_work() {
    let before = folders("a", 3);
    let mut world = World::new(&before, &folders("b", 1));
    let held = world.plan();
    assert_eq!(count(&held, "a", Action::Hold, "HeldByBudget"), 3);
    let new = key("b", "work-000");
    world.hub.push(created(&held, "b").to_manifest_work(&new, None));
    let created = world.works().last().unwrap();
    assert!(created.created_during_hold);

    let source = SourceId::parse("fleet").unwrap();
    let mut observed = Observed::default();
    observed.record_list(&source, WorksByCluster::new());
    observed.record_lookup(&new, Some(created.clone()));
    assert!(world.plan_for(&observed).is_empty());
    let mut watched = observed.clone();
    world.works().for_each(|work| watched.record_change(work));
    assert_eq!(count(&world.plan_for(&watched), "a", Action::Hold, "HeldByBudget"), 3);
    // Without works to delete, the marker goes once the work is listed.
    observed.record_list(&source, [(created.key.clone(), created)].into());
    assert_eq!(count(&world.plan_for(&observed), "b", Action::Update, "DeletesNoLongerHeld"), 1);
}

/// A source of 400 works, and a group of two works.
fn with_group(members: usize) -> TestFiles {
    let mut files = folders("large", 380);
    // Each cluster keeps a work of its own.
    (0..20).for_each(|n| files.extend(folders(&format!("m{n:02}"), 1)));
    let names: Vec<String> = (0..members).map(|n| format!("m{n:02}")).collect();
    let group = format!("clusters: [{}]", names.join(", "));
    files.insert("groups/g/group.yaml".into(), group.as_str().into());
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: x, name: a}\n";
    files.insert("groups/g/web/x.yaml".into(), map.into());
    files.insert("groups/g/more/x.yaml".into(), map.replace("name: a", "name: b").as_str().into());
    files
}

/// Twelve works are little of the source, but much of the group.
#[test]
fn clusters_that_leave_a_group_count_in_the_budget_of_the_group() {
    let held = |left: usize| {
        let plan = World::new(&with_group(20), &with_group(20 - left)).plan();
        let count = |action| plan.steps.iter().filter(|step| step.action() == action).count();
        (count(Action::Hold), count(Action::Delete))
    };
    assert_eq!(held(5), (0, 10));
    assert_eq!(held(6), (12, 0));
    let plan = World::new(&with_group(20), &with_group(14)).plan();
    let step = plan.steps.get(&key("m19", "web")).unwrap();
    let text = "more than 10 works and more than 10% of those of the group g";
    assert!(step.reason.to_string().contains(text), "{}", step.reason);
}

/// The folder of a group gets a name that no group can have: its works may be deleted later, so
/// that works which are created until then must not count as kept.
#[test]
fn folder_with_an_invalid_name_holds_deletions_of_groups_without_a_folder() {
    let before = with_group(3);
    let mut after = World::drop_works(&before, "large", 2);
    after.extend(folders("new", 1));
    let renamed = after.extract_if(.., |path, _| path.starts_with("groups/g/"));
    let renamed: TestFiles =
        renamed.map(|(path, file)| (path.replace("groups/g/", "groups/G_/"), file)).collect();
    after.extend(renamed.clone());
    let plan = World::new(&before, &after).plan();
    assert_eq!(count(&plan, "m00", Action::Hold, "UnknownMembership"), 2);
    assert_eq!(count(&plan, "large", Action::Delete, "RemovedFromGit"), 2);
    assert!(created(&plan, "new").created_during_hold, "the deletions on m00 may come later");

    // Beside groups that all have their folders, it holds nothing.
    let mut after = before.clone();
    after.extend(folders("new", 1));
    after.extend(renamed);
    let plan = World::new(&before, &after).plan();
    assert_eq!(count(&plan, "m00", Action::Keep, "UpToDate"), 3);
    assert!(!created(&plan, "new").created_during_hold);
}
