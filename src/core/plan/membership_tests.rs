//! Uncertain membership removes nothing: whatever the hub knows later, a plan with fewer facts has
//! deleted no work and no object that Git wants then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::model::facts::{ClusterFacts, Facts};
use crate::model::name::{ClusterName, SourceId, WorkKey};
use crate::model::snapshot::Snapshot;
use crate::model::work::DesiredWork;
use crate::plan::observed::{Observed, ObservedWork, WorkContent};
use crate::plan::{Effect, LastKnownStates, PlanInputs, PlanPolicy, lint, plan};
use crate::render::desired::Desired;
use crate::render::renderer::Renderer;
use crate::render::test_repository::{TestFile, TestFiles, TestRepository, files};

const CLUSTERS: usize = 4;

fn config_map(name: &str) -> TestFile {
    let manifest =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: x, name: {name}}}");
    TestFile::Text(manifest)
}

/// A repository in as many versions as there are bits: works in folders of clusters, in groups, and
/// in groups under other names. Some group.yaml cannot be read, unless `is_readable`.
fn repository(bits: u16, is_readable: bool) -> TestFiles {
    let bit = |at: u16| bits & (1 << at) != 0;
    let mut all = files(&[]);
    let conditions = match (bit(0), bit(1)) {
        (true, true) if is_readable => "clusters: [c0, c1, c2]",
        (true, true) => "clusters: [c0, c1, c2",
        (true, false) => "clusters: ['c*']",
        (false, true) => "clusters: [c0, c3]",
        (false, false) => "selector: {labelSelector: {matchLabels: {l: m}}}",
    };
    let group = if bit(2) { "groups/g" } else { "groups/renamed" };
    all.insert(format!("{group}/group.yaml"), conditions.into());
    let work = if bit(3) { "web" } else { "site" };
    all.insert(format!("{group}/{work}/x.yaml"), config_map("web"));
    if bit(4) {
        all.insert(format!("{group}/{work}/y.yaml"), config_map("more"));
    }
    for cluster in 0..CLUSTERS as u16 {
        let folder = format!("clusters/c{cluster}");
        if bit(5 + cluster) {
            all.insert(format!("{folder}/own/x.yaml"), config_map("own"));
            if !bit(4) {
                all.insert(format!("{folder}/own/y.yaml"), config_map("more"));
            }
        }
        if bit(9 + cluster) {
            all.insert(format!("{folder}/web/x.yaml"), config_map("web"));
            all.insert(format!("{folder}/web/work.yaml"), "replaces: group".into());
        }
    }
    if bit(13) {
        all.insert("groups/h/group.yaml".into(), "clusters: [c1]\nexclude: ['c2']".into());
        all.insert("groups/h/own/x.yaml".into(), config_map("own-of-h"));
    }
    all
}

fn facts(labelled: u16, clusters: u16) -> Facts {
    let there = (0..CLUSTERS).filter(|n| clusters & (1 << n) != 0);
    let cluster = |n: usize| {
        let name = ClusterName::parse(&format!("c{n}")).unwrap();
        let is_labelled = labelled & (1 << n) != 0;
        let labels = is_labelled.then(|| ("l".to_owned(), "m".to_owned())).into_iter().collect();
        (name, Arc::new(ClusterFacts { labels, ..ClusterFacts::default() }))
    };
    Facts {
        time: None,
        hub_version: None,
        is_partial: false,
        managed_clusters: there.map(cluster).collect(),
        placements: BTreeMap::new(),
    }
}

/// What is left of facts where some clusters are missing, and some labels.
fn reduced(facts: &Facts, missing: u16, stale: u16) -> Facts {
    let mut reduced = facts.clone();
    reduced.is_partial = true;
    for n in 0..CLUSTERS {
        let name = ClusterName::parse(&format!("c{n}")).unwrap();
        if missing & (1 << n) != 0 {
            reduced.managed_clusters.remove(&name);
        } else if stale & (1 << n) != 0
            && let Some(facts) = reduced.managed_clusters.get_mut(&name)
        {
            *facts = Arc::new(ClusterFacts { is_stale: true, ..ClusterFacts::default() });
        }
    }
    reduced
}

fn render(files: &TestFiles, facts: Option<&Facts>) -> Desired {
    let mut objects = TestRepository::default();
    let root = objects.add(files);
    let mut renderer = Renderer::new(SourceId::parse("fleet").unwrap());
    renderer.set_facts(facts.cloned().map(Arc::new));
    renderer.render(&Snapshot { commit: None, root, objects: &objects }).unwrap()
}

/// The works as agents have applied them.
fn on_hub(desired: &Desired) -> BTreeMap<WorkKey, Value> {
    let work = |(key, work): (&WorkKey, &Arc<DesiredWork>)| {
        let mut object = work.body.to_manifest_work(key, None);
        let condition =
            |kind: &str| json!({"type": kind, "status": "True", "observedGeneration": 1});
        let conditions = json!([condition("Applied"), condition("Available")]);
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.insert("uid".into(), key.to_string().into());
        metadata.insert("resourceVersion".into(), "1".into());
        metadata.insert("generation".into(), 1.into());
        let finalizer = "cluster.open-cluster-management.io/manifest-work-cleanup";
        metadata.insert("finalizers".into(), json!([finalizer]));
        object["status"] = json!({"conditions": conditions});
        (key.clone(), object)
    };
    desired.works.iter().map(work).collect()
}

type Objects = BTreeSet<(ClusterName, String)>;

fn objects_of(key: &WorkKey, spec: &Value) -> Objects {
    let manifests = spec["workload"]["manifests"].as_array().unwrap();
    let name = |one: &Value| one["metadata"]["name"].as_str().unwrap().to_owned();
    manifests.iter().map(|one| (key.cluster.clone(), name(one))).collect()
}

fn wanted(desired: &Desired) -> Objects {
    let works = desired.works.iter();
    works.flat_map(|(key, work)| objects_of(key, &work.body.spec.value())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn plan_with_uncertain_members_deletes_nothing_that_git_may_want(
        before in any::<u16>(),
        after in any::<u16>(),
        (labelled, clusters) in (any::<u16>(), any::<u16>()),
        lost in proptest::array::uniform4(proptest::option::of((any::<u16>(), any::<u16>()))),
    ) {
        let full = facts(labelled, clusters);
        let had = render(&repository(before, true), Some(&full));
        let later = render(&repository(after, true), Some(&full));
        for known in lost {
            let known = known.map(|(missing, stale)| reduced(&full, missing, stale));
            let desired = render(&repository(after, false), known.as_ref());
            check(&had, &desired, &later)?;
        }
    }
}

/// Plans the desired state for a hub that has all that was there. `later`: the desired state once
/// everything is known.
fn check(had: &Desired, desired: &Desired, later: &Desired) -> Result<(), TestCaseError> {
    let hub = on_hub(had);
    let mut observed = Observed::default();
    for (key, work) in &hub {
        observed.contents.insert(key.clone(), WorkContent::from_manifest_work(work.clone()));
        observed.record_change(ObservedWork::from_manifest_work(work.clone()).unwrap());
    }
    let policy = PlanPolicy { allow_delete_all: true, ..PlanPolicy::default() };
    let last_known = LastKnownStates::default();
    let plan = plan(desired, &observed, &last_known, &policy);
    let inputs =
        PlanInputs { desired, observed: &observed, last_known: &last_known, policy: &policy };
    prop_assert_eq!(lint::check(&plan, inputs), []);
    let mut left = Objects::new();
    for (key, work) in &hub {
        let effect = plan.steps.get(key).and_then(|step| step.effect.clone());
        let is_wanted = later.works.contains_key(key);
        match &effect {
            Some(Effect::Delete { .. }) => prop_assert!(!is_wanted, "{} is deleted", key),
            Some(Effect::Release { .. }) => {}
            effect => {
                let body = effect.as_ref().and_then(Effect::body);
                let spec = body.map_or_else(|| work["spec"].clone(), |one| one.spec.value());
                left.extend(objects_of(key, &spec));
            }
        }
    }
    let stays = wanted(had);
    for object in stays.intersection(&wanted(later)) {
        prop_assert!(left.contains(object), "{:?} is removed", object);
    }
    Ok(())
}
