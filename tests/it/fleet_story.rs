//! The fleet of `tests/cases/fleet`, which `docs/fleet.md` walks through, with all of its 200
//! clusters: members, values, dependencies, and two days of a week.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
use gitwork_core::plan::drift_backoff::Contentions;
use gitwork_core::plan::observed::{Observed, ObservedWork};
use gitwork_core::plan::{Action, LastKnownStates, Plan, PlanPolicy, Reason, plan};
use gitwork_core::render::desired::Desired;
use gitwork_report::review::{RemovalOutcome, RemovedObject, Review, WorkChange, would_hold};
use gitwork_report::status::source::{SourceStatus, StatusInputs};
use gitwork_simulation::week::clusters::facts;
use serde_json::json;

use crate::cases::repository;
use crate::memory_repository::{File, render_with_facts};

const CASE: &str = "fleet";
/// The repository of another team.
const MESH: &str = "fleet-mesh";
const PILOTS: [&str; 4] = ["store-wien-1", "store-wien-2", "store-graz-1", "store-zuerich-1"];

type Files = BTreeMap<String, File>;

fn render(files: &Files) -> Desired {
    let desired = render_with_facts(files, facts());
    let errors: Vec<_> = desired.diagnostics.iter().filter(|found| found.is_error()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    desired
}

/// The clusters with a work.
fn with_work<'a>(desired: &'a Desired, work: &str) -> BTreeSet<&'a str> {
    let keys = desired.works.keys().filter(|key| key.work.as_str() == work);
    keys.map(|key| key.cluster.as_str()).collect()
}

fn key(cluster: &str, work: &str) -> WorkKey {
    WorkKey { cluster: ClusterName::parse(cluster).unwrap(), work: WorkName::parse(work).unwrap() }
}

/// The manifests of a work as text.
fn text(desired: &Desired, cluster: &str, work: &str) -> String {
    desired.works[&key(cluster, work)].body.spec.value().to_string()
}

#[test]
fn no_file_is_a_copy_of_another() {
    let mut known: BTreeMap<Vec<u8>, String> = BTreeMap::new();
    for (path, file) in repository(CASE) {
        let File::Bytes(bytes) = file else { panic!("{path}") };
        // Two works may depend on the same other ones.
        if path.ends_with("/work.yaml") {
            continue;
        }
        assert_eq!(known.insert(bytes, path.clone()), None, "{path}");
    }
}

#[test]
fn each_work_is_on_its_clusters() {
    let desired = render(&repository(CASE));
    assert_eq!(facts().managed_clusters.len(), 200);
    for (work, clusters) in [
        ("base", 200),
        ("crds", 200),
        ("crds-extra", 200 - 120),
        ("monitoring", 200),
        ("access", 200),
        ("ingress", 12 + 8),
        ("tills", 180),
        ("tills-db", 180),
        ("legacy-agent", 180),
        ("loyalty", 6 * 15),
        ("orders", 8),
        ("batch", 2),
    ] {
        assert_eq!(with_work(&desired, work).len(), clusters, "{work}");
    }
    let works: BTreeSet<&str> = desired.works.keys().map(|key| key.work.as_str()).collect();
    assert_eq!(works.len(), 12);
    assert_eq!(with_work(&desired, "batch"), ["prod-eu-1", "prod-us-2"].into());
    for store in with_work(&desired, "loyalty") {
        let is_pilot = text(&desired, store, "loyalty").contains("2.0-beta.3");
        assert_eq!(is_pilot, PILOTS.contains(&store), "{store}");
    }
}

#[test]
fn each_cluster_has_its_own_values() {
    let desired = render(&repository(CASE));
    for (cluster, work, value) in [
        ("store-berlin-1", "monitoring", "retention.time=2h"),
        ("store-berlin-12", "monitoring", "retention.time=1d"),
        ("dc-berlin", "monitoring", "retention.time=15d"),
        ("prod-us-1", "monitoring", "retention.time=30d"),
        ("prod-us-1", "monitoring", "metrics.us.example.com"),
        ("dc-berlin", "monitoring", "metrics.eu.example.com"),
        ("store-berlin-1", "base", "10.20.0.0/16"),
        ("dc-berlin", "base", "namespaceSelector"),
        ("store-berlin-1", "tills", "tills:2.4.0"),
        ("store-bern-1", "tills", "tills:2.3.4"),
        ("store-berlin-1", "tills", "\"replicas\":1"),
        ("store-berlin-12", "tills", "\"replicas\":2"),
        ("store-berlin-1", "tills", "08-20"),
        ("store-wien-1", "tills", "07-21"),
        ("dc-graz", "ingress", "dc-graz.shop.example.com"),
        ("dc-graz", "ingress", "\"/graz\""),
        ("stage-1", "ingress", "\"/central\""),
        ("prod-eu-1", "orders", "\"replicas\":8"),
        ("prod-eu-2", "orders", "\"replicas\":3"),
        ("prod-eu-2", "orders", "orders:7.1.0"),
        ("stage-2", "orders", "orders:7.2.0"),
    ] {
        let text = text(&desired, cluster, work);
        assert!(text.contains(value), "{cluster}/{work}: {value}: {text}");
    }
    let volume = &desired.works[&key("store-berlin-1", "tills-db")].delete_option;
    assert_eq!(volume.policy(), "SelectivelyOrphan");
    assert!(text(&desired, "store-berlin-1", "tills-db").contains("persistentvolumeclaims"));
    assert!(text(&desired, "stage-1", "access").contains("gitwork-executors"));
    assert!(text(&desired, "stage-1", "monitoring").contains(".status.lastScrape"));
}

/// The repository of another team is a second source on the same hub.
#[test]
fn mesh_of_another_repository_is_in_data_centres_and_core_clusters() {
    let desired = render(&repository(MESH));
    assert_eq!(with_work(&desired, "mesh"), with_work(&render(&repository(CASE)), "ingress"));
    assert_eq!(desired.works.len(), 12 + 8);
    for (cluster, value) in [("dc-bern", "eu.mesh"), ("prod-us-3", "us.mesh"), ("stage-1", "eu")] {
        let text = text(&desired, cluster, "mesh");
        assert!(text.contains(value) && text.contains(&format!("\"{cluster}\"")), "{text}");
    }
}

/// A work as the hub has it, applied and available.
fn on_hub(desired: &Desired, key: &WorkKey) -> ObservedWork {
    let wanted = &desired.works[key];
    let mut body = (*wanted.body).clone();
    body.group_content = wanted.group_content.clone();
    let mut work = body.to_manifest_work(key, None);
    work["metadata"]["uid"] = key.to_string().into();
    work["metadata"]["resourceVersion"] = "1".into();
    work["metadata"]["generation"] = 1.into();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "observedGeneration": 1});
    work["status"] = json!({"conditions": [condition("Applied"), condition("Available")]});
    ObservedWork::from_manifest_work(work).unwrap()
}

fn plan_of(desired: &Desired, observed: &Observed) -> Plan {
    plan(desired, observed, &LastKnownStates::default(), &PlanPolicy::default())
}

/// The names of works that each pass creates, if all clusters apply at once what they get.
#[test]
fn works_are_created_in_the_order_of_their_dependencies() {
    let desired = render(&repository(CASE));
    let (mut observed, mut passes) = (Observed::default(), Vec::new());
    loop {
        let plan = plan_of(&desired, &observed);
        let created: Vec<&WorkKey> = plan.effects().map(|(step, _)| &step.key).collect();
        if created.is_empty() {
            break;
        }
        let names: BTreeSet<String> = created.iter().map(|key| key.work.to_string()).collect();
        passes.push(names.into_iter().collect::<Vec<_>>().join(" "));
        created.iter().for_each(|key| observed.record_change(on_hub(&desired, key)));
    }
    assert_eq!(
        passes,
        [
            "base crds crds-extra legacy-agent",
            "access ingress monitoring orders tills-db",
            "batch tills",
            "loyalty",
        ]
    );
    assert!(plan_of(&desired, &observed).is_settled());
}

/// On Wednesday `monitoring` becomes `metrics` and `logs`, with the same objects.
#[test]
fn split_of_a_work_moves_its_objects_and_removes_none() {
    let before = repository(CASE);
    let moved = |(path, file): (&String, &File)| {
        let is_of_logs = path.ends_with("log-shipper.yaml");
        let to = if is_of_logs { "everywhere/logs/" } else { "everywhere/metrics/" };
        (path.replace("everywhere/monitoring/", to), file.clone())
    };
    let mut after: Files = before.iter().map(moved).collect();
    after.insert("groups/everywhere/logs/work.yaml".into(), "dependsOn: [base]\n".into());
    let (base, head) = (render(&before), render(&after));
    let review = Review::new(&base, &head);
    assert_eq!(review.clusters.len(), 200);
    for cluster in &review.clusters {
        let mut moved = Vec::new();
        for work in &cluster.works {
            let (name, change) = (work.key.work.as_str(), &work.change);
            let objects = match (name, change) {
                ("metrics" | "logs", WorkChange::Added { .. }) => continue,
                ("monitoring", WorkChange::Deleted { objects, .. }) => objects,
                _ => panic!("{name}: {change:?}"),
            };
            for RemovedObject { outcome, .. } in objects {
                let RemovalOutcome::MovedTo { work, .. } = outcome else { panic!("{outcome:?}") };
                moved.push(work.as_str());
            }
        }
        moved.sort_unstable();
        assert_eq!(moved, ["logs", "metrics", "metrics"], "{}", cluster.cluster);
    }
}

/// On Thursday a merge narrows the selector of the stores: 120 of them would lose their works.
#[test]
fn narrowed_selector_deletes_nothing() {
    let before = repository(CASE);
    let mut after = before.clone();
    let group = "groups/stores/group.yaml";
    let Some(File::Bytes(text)) = after.get(group) else { panic!("no {group}") };
    let text = String::from_utf8(text.clone()).unwrap();
    let narrowed = text.replace("{tier: store}", "{tier: store, hardware: large}");
    assert_ne!(text, narrowed);
    after.insert(group.to_owned(), File::from(narrowed.as_str()));
    // What small stores have of loyalty depends on their tills.
    let loyalty = "groups/loyalty/loyalty/work.yaml";
    for file in [loyalty, "groups/loyalty-pilot/loyalty/work.yaml"] {
        after.insert(file.to_owned(), File::from("{}\n"));
    }
    let (had, desired) = (render(&before), render(&after));
    let mut observed = Observed::default();
    had.works.keys().for_each(|key| observed.record_change(on_hub(&had, key)));
    let plan = plan_of(&desired, &observed);
    let held = plan.steps.iter().filter(|step| matches!(step.reason, Reason::HeldByBudget { .. }));
    let held: Vec<_> = held.collect();
    assert_eq!(held.len(), 120 * 3, "tills, tills-db and legacy-agent of the small stores");
    assert_eq!(plan.steps.count(Action::Delete), 0);
    let reason = held[0].reason.to_string();
    assert!(reason.contains("held with all 360 deletions of this plan"), "{reason}");

    // The line on the commit, as long as GitHub shows it.
    let status = status_of(&desired, &observed, &plan).line(140);
    assert_eq!(
        status,
        "80/200 clusters applied, 120 held (group stores); 360 deletions held: that is more than \
         10 works and more than 5% of the source's"
    );
    // If small stores also have a work that depends on their tills, Git has errors there. The line
    // still says why nothing is deleted.
    let mut faulty = after.clone();
    faulty.insert(loyalty.to_owned(), before[loyalty].clone());
    let faulty = render_with_facts(&faulty, facts());
    let line = status_of(&faulty, &observed, &plan_of(&faulty, &observed)).line(140);
    assert_eq!(
        line,
        "80/200 clusters applied, 56 errors in Git; 360 deletions held: that is more than 10 works \
         and more than 5% of the source's"
    );
    // The plan of the pull request.
    let holds = would_hold(&had, &desired, &PlanPolicy::default(), None);
    assert_eq!(holds.len(), 1);
    assert!(holds[0].reason.starts_with("360 deletions would wait"), "{}", holds[0].reason);
}

/// A single city is little of the source, but more than the budget of its group: one group's
/// deletions wait, and the plan of the pull request says so.
#[test]
fn narrowed_selector_of_a_small_group_is_held_for_this_group() {
    let before = repository(CASE);
    let mut after = before.clone();
    let group = "groups/dc-and-core/group.yaml";
    after.insert(group.to_owned(), File::from("clusters: [dc-wien]\n"));
    let base = before.get("gitwork.yaml").unwrap().clone();
    let File::Bytes(text) = base else { panic!("gitwork.yaml") };
    let text = String::from_utf8(text).unwrap().replace("percent: 5", "percent: 10");
    let [mut before, mut after] = [before, after];
    for files in [&mut before, &mut after] {
        files.insert("gitwork.yaml".to_owned(), File::from(text.as_str()));
    }
    let (had, desired) = (render(&before), render(&after));
    let mut observed = Observed::default();
    had.works.keys().for_each(|key| observed.record_change(on_hub(&had, key)));
    let plan = plan_of(&desired, &observed);
    assert_eq!(plan.steps.count(Action::Hold), 19);
    let reason = "more than 10 works and more than 10% of those of the group dc-and-core";
    let line = status_of(&desired, &observed, &plan).line(1_000);
    assert!(line.contains(reason), "{line}");
    let holds = would_hold(&had, &desired, &PlanPolicy::default(), None);
    assert!(holds.iter().any(|hold| hold.works == 19 && hold.reason.contains(reason)), "{holds:?}");
}

fn status_of(desired: &Desired, observed: &Observed, plan: &Plan) -> SourceStatus {
    let inputs = StatusInputs {
        desired,
        observed,
        plan,
        contentions: &Contentions::new(),
        record_generation: 0,
        failed_writes: &BTreeMap::new(),
        unreachable: &BTreeSet::new(),
        rollouts: &[],
        now: "2026-11-26T10:00:00Z".parse().unwrap(),
    };
    SourceStatus::of(&inputs, None)
}
