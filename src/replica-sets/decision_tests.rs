//! Decisions about whole replica sets. A hub in memory carries out the writes, and the clusters
//! report what the test says.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_api::escape::pointer_name;
use gitwork_core::model::facts::{
    ClusterFacts, DecisionGroupFacts, Facts, PlacementFacts, PlacementKey,
};
use gitwork_core::model::name::ClusterName;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::decision::{SetDecision, SetInputs, SetWorks, decide};
use crate::decision_groups::{DecisionGroupLabels, DecisionGroups};
use crate::names::{FINALIZER, LABEL_OWNER, LABEL_WORK_PLACEMENT};
use crate::replica_set::ReplicaSet;
use crate::semantics::RolloutSemantics;
use crate::set_work::SetWork;
use crate::write::{SetWrite, WriteFailure, finalizer_patch, new_work, work_patch};

fn cluster(name: &str) -> ClusterName {
    ClusterName::parse(name).unwrap()
}

fn placement(name: &str) -> PlacementKey {
    PlacementKey { namespace: "fleet".into(), name: name.into() }
}

struct TestHub {
    set: Value,
    works: Vec<Value>,
    facts: Facts,
    groups: DecisionGroups,
    failures: BTreeMap<ClusterName, WriteFailure>,
    semantics: RolloutSemantics,
    now: Timestamp,
    version: u64,
}

impl TestHub {
    /// A set with the finalizer and one Placement `all`, which selects the clusters.
    fn new(strategy: &Value, clusters: &[&str]) -> Self {
        let set = json!({
            "metadata": {"namespace": "fleet", "name": "web", "uid": "set-1", "generation": 1,
                "resourceVersion": "1", "finalizers": [FINALIZER]},
            "spec": {
                "placementRefs": [{"name": "all", "rolloutStrategy": strategy}],
                "manifestWorkTemplate": template("one"),
            },
        });
        let mut hub = Self {
            set,
            works: Vec::new(),
            facts: Facts::read(b"{}").unwrap(),
            groups: DecisionGroups::new(),
            failures: BTreeMap::new(),
            semantics: RolloutSemantics::Gitwork,
            now: "2026-11-20T10:00:00Z".parse().unwrap(),
            version: 10,
        };
        hub.select("all", &[clusters]);
        hub
    }

    /// Six clusters, two at a time, with these settings.
    fn two_by_two(settings: &Value) -> Self {
        let mut progressive = json!({"maxConcurrency": 2});
        for (key, value) in settings.as_object().unwrap() {
            progressive[key] = value.clone();
        }
        let strategy = json!({"type": "Progressive", "progressive": progressive});
        let mut hub = Self::new(&strategy, &["c1", "c2", "c3", "c4", "c5", "c6"]);
        hub.set["spec"]["manifestWorkTemplate"]["manifestConfigs"] =
            json!([{"conditionRules": [{"type": "CEL", "condition": "Progressing"}]}]);
        hub
    }

    /// The Placement selects these groups of clusters, and everything agrees.
    fn select(&mut self, name: &str, groups: &[&[&str]]) {
        let mut facts = PlacementFacts::default();
        for (index, clusters) in groups.iter().enumerate() {
            let decision = format!("{name}-decision-{index}");
            let members = clusters.iter().map(|one| cluster(one)).collect();
            facts.decisions.insert(decision.clone(), members);
            let cluster_count = clusters.len();
            let decisions = vec![decision.clone()];
            facts.decision_groups.push(DecisionGroupFacts {
                name: String::new(),
                decisions,
                cluster_count,
            });
            let index = i64::try_from(index).ok();
            let labels = DecisionGroupLabels {
                placement: placement(name),
                name: format!("g{}", index.unwrap()),
                index,
            };
            self.groups.insert(("fleet".into(), decision), labels);
        }
        let all: BTreeSet<&&str> = groups.iter().copied().flatten().collect();
        facts.number_of_selected_clusters = Some(all.len());
        self.facts.placements.insert(placement(name), facts);
    }

    fn references(&mut self, names: &[&str]) {
        let all: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        self.set["spec"]["placementRefs"] = json!(all);
        self.next_generation();
    }

    fn set_template(&mut self, value: &str) {
        let configs = self.set["spec"]["manifestWorkTemplate"]["manifestConfigs"].take();
        self.set["spec"]["manifestWorkTemplate"] = template(value);
        if !configs.is_null() {
            self.set["spec"]["manifestWorkTemplate"]["manifestConfigs"] = configs;
        }
        self.next_generation();
    }

    fn next_generation(&mut self) {
        let generation = self.set["metadata"]["generation"].as_i64().unwrap();
        self.set["metadata"]["generation"] = json!(generation + 1);
    }

    fn pass_seconds(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    fn read_set(&self) -> ReplicaSet {
        ReplicaSet::read(&self.set, self.semantics).unwrap()
    }

    fn decide(&self) -> SetDecision {
        let mut works = SetWorks::new();
        for work in self.works.iter().filter_map(SetWork::read) {
            works.entry(work.cluster.clone()).or_default().push(work);
        }
        let set = self.read_set();
        decide(&SetInputs {
            set: &set,
            facts: &self.facts,
            groups: &self.groups,
            works: &works,
            failures: &self.failures,
            now: self.now,
        })
    }

    /// Carries out one decision. Gives its writes: `+c1` creates, `~c1` updates, `=c1` updates
    /// labels only, `-c1` deletes.
    fn step(&mut self) -> String {
        let decision = self.decide();
        let set = self.read_set();
        let mut shown = Vec::new();
        for write in &decision.writes {
            let sign = match write {
                SetWrite::AddFinalizer | SetWrite::RemoveFinalizer => {
                    let is_added = *write == SetWrite::AddFinalizer;
                    let patch = finalizer_patch(&set, is_added);
                    self.set["metadata"]["finalizers"] = patch["metadata"]["finalizers"].clone();
                    shown.push(if is_added { "+finalizer" } else { "-finalizer" }.to_owned());
                    continue;
                }
                SetWrite::Create { cluster, name, placement } => {
                    let mut work = new_work(&set, cluster, name, placement, self.now);
                    let is_free = !self.works.iter().any(|other| {
                        other["metadata"]["namespace"] == work["metadata"]["namespace"]
                            && other["metadata"]["name"] == work["metadata"]["name"]
                    });
                    assert!(is_free, "the name {name} is taken");
                    self.version += 1;
                    work["metadata"]["uid"] = json!(format!("u{}", self.version));
                    work["metadata"]["generation"] = json!(1);
                    work["metadata"]["creationTimestamp"] = json!(self.now.to_string());
                    self.works.push(work);
                    '+'
                }
                SetWrite::Update { work, placement } => {
                    let patch = work_patch(&set, work, placement, Some(self.now));
                    self.patch(work, &patch, true);
                    '~'
                }
                SetWrite::UpdateMetadata { work, placement } => {
                    let patch = work_patch(&set, work, placement, None);
                    self.patch(work, &patch, false);
                    '='
                }
                SetWrite::Delete { uid, .. } => {
                    let is_it = |work: &Value| work["metadata"]["uid"] == json!(uid);
                    self.works.retain(|work| !is_it(work));
                    '-'
                }
            };
            shown.push(format!("{sign}{}", write.cluster().unwrap()));
        }
        if let Some(status) = decision.status {
            self.set["status"] = status;
        }
        shown.sort();
        shown.join(" ")
    }

    /// Carries out decisions until nothing is to be done. Gives all writes.
    fn settle(&mut self) -> String {
        let mut all = Vec::new();
        for _ in 0..20 {
            let writes = self.step();
            if writes.is_empty() {
                assert_eq!(self.decide().status, None, "the status is stable");
                return all.join(" ");
            }
            all.push(writes);
        }
        panic!("it never settles: {all:?}");
    }

    fn patch(&mut self, work: &SetWork, patch: &Value, is_content: bool) {
        let is_it = |one: &&mut Value| one["metadata"]["uid"] == json!(work.uid);
        let object = self.works.iter_mut().find(is_it).unwrap();
        for operation in patch.as_array().unwrap() {
            let path = operation["path"].as_str().unwrap();
            let (parent, key) = path.rsplit_once('/').unwrap();
            let key = pointer_name(key);
            let parent = object.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
            match operation["op"].as_str().unwrap() {
                "remove" => drop(parent.remove(&*key).unwrap()),
                _ => drop(parent.insert(key.into_owned(), operation["value"].clone())),
            }
        }
        if is_content {
            let generation = object["metadata"]["generation"].as_i64().unwrap();
            object["metadata"]["generation"] = json!(generation + 1);
        }
    }

    /// The agents of the clusters report these conditions, as `Applied=True`, now.
    fn report(&mut self, clusters: &[&str], conditions: &str) {
        for work in &mut self.works {
            let of = work["metadata"]["namespace"].as_str().unwrap();
            if !clusters.contains(&of) {
                continue;
            }
            let read = |text: &str| {
                let (kind, status) = text.split_once('=').unwrap();
                json!({"type": kind, "status": status, "lastTransitionTime": self.now.to_string(),
                    "observedGeneration": work["metadata"]["generation"]})
            };
            let all: Vec<Value> = conditions.split_whitespace().map(read).collect();
            work["status"] = json!({"conditions": all});
        }
    }

    fn succeed(&mut self, clusters: &[&str]) {
        self.report(clusters, "Applied=True Available=True Progressing=False Degraded=False");
    }

    /// `True AsExpected: message` of a condition of the set.
    fn condition(&self, kind: &str) -> String {
        let all = self.set["status"]["conditions"].as_array().unwrap();
        let found = all.iter().find(|one| one["type"] == kind).unwrap();
        let generation = &self.set["metadata"]["generation"];
        assert_eq!(&found["observedGeneration"], generation, "{kind}");
        let text = |name: &str| found[name].as_str().unwrap().to_owned();
        format!("{} {}: {}", text("status"), text("reason"), text("message"))
    }

    #[track_caller]
    fn assert_condition(&self, kind: &str, expected: &str) {
        let found = self.condition(kind);
        assert!(found.starts_with(expected), "{found}");
    }

    /// Cluster and Placement label of each work.
    fn placements_of_works(&self) -> Vec<String> {
        let all = self.works.iter().map(|work| {
            let label = work["metadata"]["labels"][LABEL_WORK_PLACEMENT].as_str().unwrap();
            format!("{}:{label}", work["metadata"]["namespace"].as_str().unwrap())
        });
        let mut all: Vec<String> = all.collect();
        all.sort();
        all
    }

    fn start_deletion(&mut self, policy: &str) {
        self.set["spec"]["cascadeDeletionPolicy"] = json!(policy);
        self.set["metadata"]["deletionTimestamp"] = json!("2026-11-20T10:00:00Z");
    }

    /// The work of a cluster is being deleted: its agent has not finished.
    fn terminate(&mut self, name: &str) {
        let is_it = |work: &&mut Value| work["metadata"]["namespace"] == json!(name);
        let work = self.works.iter_mut().find(is_it).unwrap();
        work["metadata"]["deletionTimestamp"] = json!("2026-11-20T10:00:00Z");
    }
}

fn template(value: &str) -> Value {
    json!({"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "web"}, "data": {"value": value}}]}})
}

fn all() -> Value {
    json!({"type": "All"})
}

#[test]
fn works_are_created_updated_and_counted() {
    let mut hub = TestHub::new(&all(), &["c1", "c2"]);
    hub.set["metadata"]["finalizers"] = json!([]);
    assert_eq!(hub.step(), "+finalizer");
    assert_eq!(hub.settle(), "+c1 +c2");
    hub.assert_condition("PlacementVerified", "True AsExpected: 2 clusters are selected");
    hub.assert_condition("ManifestworkApplied", "False NotAsExpected: 2 of 2 works");
    hub.assert_condition("PlacementRolledOut", "False Progressing: 0 of 2");
    hub.report(&["c1", "c2"], "Applied=True Available=True");
    assert_eq!(hub.settle(), "");
    hub.assert_condition("ManifestworkApplied", "True AsExpected: 2 of 2 works");
    hub.assert_condition("PlacementRolledOut", "True Complete: 2 of 2");
    let summary = json!({"total": 2, "desiredTotal": 2, "updated": 2, "applied": 2,
        "available": 2, "progressing": 0, "degraded": 0});
    assert_eq!(hub.set["status"]["summary"], summary);
    assert_eq!(
        hub.set["status"]["placementSummary"],
        json!([{"name": "all", "availableDecisionGroups": "1 (2 / 2 clusters applied)",
            "summary": summary}])
    );
    hub.set_template("two");
    assert_eq!(hub.settle(), "~c1 ~c2");
    hub.assert_condition("PlacementRolledOut", "False Progressing: 0 of 2");
    assert_eq!(hub.set["status"]["summary"]["available"], 0, "of the generation before");
    hub.set["metadata"]["labels"] = json!({"team": "shop"});
    assert_eq!(hub.settle(), "=c1 =c2", "labels reach works at once, without their content");
    assert_eq!(hub.works[0]["metadata"]["labels"]["team"], "shop");
    hub.set["metadata"]["labels"] = json!({});
    hub.settle();
    assert_eq!(hub.works[0]["metadata"]["labels"]["team"], Value::Null);
}

#[test]
fn m1_work_of_a_cluster_that_leaves_with_a_new_template_is_deleted() {
    let mut hub = TestHub::new(&all(), &["c1", "c2"]);
    hub.settle();
    hub.set_template("two");
    hub.select("all", &[&["c1"]]);
    assert_eq!(hub.settle(), "-c2 ~c1");
}

#[test]
fn m2_names_are_deterministic_and_duplicates_are_merged() {
    let mut hub = TestHub::new(&all(), &["c1"]);
    assert_eq!(hub.decide().writes, hub.decide().writes);
    hub.settle();
    // A work of OCM's controller, with a name of its own.
    let mut second = hub.works[0].clone();
    second["metadata"]["name"] = json!("webx7k2p");
    second["metadata"]["uid"] = json!("upstream");
    hub.works.push(second);
    assert_eq!(hub.settle(), "", "the other one is not applied yet");
    hub.report(&["c1"], "Applied=True");
    assert_eq!(hub.settle(), "-c1");
    assert_ne!(hub.works[0]["metadata"]["uid"], "upstream");
}

#[test]
fn works_of_ocm_are_adopted_in_place() {
    let mut hub = TestHub::new(&all(), &["c1"]);
    hub.settle();
    hub.works[0]["metadata"]["name"] = json!("webx7k2p");
    hub.works[0]["metadata"]["annotations"] = Value::Null;
    assert_eq!(hub.settle(), "=c1");
    assert_eq!(hub.works[0]["metadata"]["name"], "webx7k2p");
}

#[test]
fn m3_cluster_of_two_placements_has_one_work() {
    let mut hub = TestHub::new(&all(), &["c1", "c2"]);
    hub.select("more", &[&["c2", "c3"]]);
    hub.references(&["all", "more"]);
    assert_eq!(hub.settle(), "+c1 +c2 +c3");
    assert_eq!(hub.placements_of_works(), ["c1:all", "c2:all", "c3:more"]);
    assert_eq!(hub.set["status"]["summary"]["total"], 3);
    hub.set_template("two");
    assert_eq!(hub.settle(), "~c1 ~c2 ~c3");
    assert_eq!(hub.works.len(), 3);
}

#[test]
fn m4_removed_reference_leaves_no_work_behind() {
    let mut hub = TestHub::new(&all(), &["c1", "c2"]);
    hub.select("more", &[&["c2", "c3"]]);
    hub.references(&["all", "more"]);
    hub.settle();
    hub.references(&["more"]);
    assert_eq!(hub.settle(), "-c1 =c2", "c2 is not deleted in between");
    assert_eq!(hub.placements_of_works(), ["c2:more", "c3:more"]);
}

#[test]
fn m5_cluster_that_returns_gets_a_work_while_the_old_one_is_being_deleted() {
    let mut hub = TestHub::new(&all(), &["c1"]);
    hub.settle();
    hub.terminate("c1");
    assert_eq!(hub.settle(), "+c1");
    assert_ne!(hub.works[0]["metadata"]["name"], hub.works[1]["metadata"]["name"]);
    hub.works.remove(0);
    assert_eq!(hub.settle(), "", "the new one is kept");
}

#[test]
fn m6_without_condition_rules_the_rollout_goes_on() {
    let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": 1}});
    let mut hub = TestHub::new(&strategy, &["c1", "c2"]);
    assert_eq!(hub.settle(), "+c1");
    hub.report(&["c1"], "Applied=True Available=True");
    assert_eq!(hub.settle(), "+c2");
    hub.report(&["c2"], "Applied=True Available=True");
    hub.settle();
    hub.assert_condition("PlacementRolledOut", "True Complete");
    // Upstream waits for a condition that nobody reports.
    let mut hub = TestHub::new(&strategy, &["c1", "c2"]);
    hub.semantics = RolloutSemantics::Upstream;
    assert_eq!(hub.settle(), "+c1");
    hub.report(&["c1"], "Applied=True Available=True");
    assert_eq!(hub.settle(), "");
}

#[test]
fn m6_work_that_cannot_be_applied_counts_as_a_failure() {
    let mut hub = TestHub::two_by_two(&json!({"maxFailures": 1, "progressDeadline": "10s"}));
    assert_eq!(hub.settle(), "+c1 +c2");
    hub.report(&["c1"], "Applied=False");
    assert_eq!(hub.settle(), "+c3", "a tolerated failure holds no place");
    hub.report(&["c2"], "Applied=False");
    assert_eq!(hub.settle(), "");
    hub.assert_condition(
        "PlacementRolledOut",
        "False Progressing: 0 of 6 clusters have succeeded; 2 clusters of all have failed: c1, c2 \
         (more than maxFailures",
    );
}

#[test]
fn rollout_goes_two_by_two_over_six_clusters() {
    let mut hub = TestHub::two_by_two(&json!({}));
    assert_eq!(hub.settle(), "+c1 +c2");
    assert_eq!(hub.set["status"]["summary"]["desiredTotal"], 6);
    hub.assert_condition("ManifestworkApplied", "False Processing: 2 of 6 works");
    hub.succeed(&["c1"]);
    assert_eq!(hub.settle(), "+c3");
    hub.succeed(&["c2", "c3"]);
    assert_eq!(hub.settle(), "+c4 +c5");
    hub.succeed(&["c4", "c5"]);
    assert_eq!(hub.settle(), "+c6");
    hub.succeed(&["c6"]);
    hub.settle();
    hub.assert_condition("PlacementRolledOut", "True Complete: 6 of 6");
    hub.set_template("two");
    assert_eq!(hub.settle(), "~c1 ~c2");
    assert_eq!(hub.set["status"]["summary"]["total"], 6, "upstream falls back to those updated");
    assert_eq!(hub.set["status"]["summary"]["updated"], 2);
}

#[test]
fn rollout_stops_at_max_failures_and_a_new_template_begins_again() {
    for semantics in [RolloutSemantics::Gitwork, RolloutSemantics::Upstream] {
        let mut hub = TestHub::two_by_two(&json!({}));
        hub.semantics = semantics;
        hub.settle();
        hub.succeed(&["c2"]);
        hub.report(&["c1"], "Applied=True Progressing=True Degraded=True");
        assert_eq!(hub.settle(), "", "{semantics:?}");
        hub.assert_condition("PlacementRolledOut", "False Progressing: 1 of 6");
        assert!(hub.condition("PlacementRolledOut").contains("c1 (more than maxFailures"));
        hub.set_template("two");
        assert_eq!(hub.settle(), "~c1 ~c2", "{semantics:?}");
    }
}

#[test]
fn clusters_soak_for_min_success_time() {
    let mut hub = TestHub::two_by_two(&json!({"minSuccessTime": "1m"}));
    hub.settle();
    hub.succeed(&["c1", "c2"]);
    assert_eq!(hub.settle(), "");
    let expected = hub.now.checked_add(SignedDuration::from_secs(60)).unwrap();
    assert_eq!(hub.decide().recheck, Some(expected));
    hub.assert_condition(
        "PlacementRolledOut",
        "False Progressing: 0 of 6 clusters have succeeded; 2",
    );
    hub.pass_seconds(59);
    assert_eq!(hub.settle(), "");
    hub.pass_seconds(1);
    assert_eq!(hub.settle(), "+c3 +c4");
}

#[test]
fn deadline_passes_with_a_tolerated_failure() {
    for semantics in [RolloutSemantics::Gitwork, RolloutSemantics::Upstream] {
        let mut hub = TestHub::two_by_two(&json!({"progressDeadline": "10s", "maxFailures": 1}));
        hub.semantics = semantics;
        hub.settle();
        hub.report(&["c1"], "Applied=True Progressing=True Degraded=False");
        hub.succeed(&["c2"]);
        assert_eq!(hub.settle(), "+c3", "{semantics:?}");
        hub.succeed(&["c3"]);
        hub.pass_seconds(9);
        assert_eq!(hub.settle(), "+c4", "{semantics:?}: c1 holds one place");
        hub.succeed(&["c4"]);
        hub.pass_seconds(1);
        assert_eq!(hub.settle(), "+c5 +c6", "{semantics:?}");
        assert!(hub.condition("PlacementRolledOut").contains("c1 (within maxFailures)"));
    }
}

#[test]
fn m9_sizes_out_of_range_are_clamped_or_rejected() {
    // Upstream takes more failures than clusters for none.
    let mut hub = TestHub::two_by_two(&json!({"maxFailures": 7, "progressDeadline": "10s"}));
    hub.settle();
    hub.report(&["c1"], "Applied=True Progressing=True Degraded=True");
    hub.pass_seconds(10);
    assert_eq!(hub.settle(), "+c3 +c4", "c2 has timed out, too");
    let mut hub = TestHub::two_by_two(&json!({"maxConcurrency": 0}));
    assert_eq!(hub.settle(), "");
    hub.assert_condition(
        "PlacementVerified",
        "False NotAsExpected: spec.placementRefs[0].rolloutStrategy.progressive.maxConcurrency is \
         0",
    );
    hub.semantics = RolloutSemantics::Upstream;
    assert_eq!(hub.settle(), "+c1 +c2 +c3 +c4 +c5 +c6");
}

#[test]
fn m11_empty_placement_and_failed_writes_have_their_own_reasons() {
    let mut hub = TestHub::new(&all(), &[]);
    hub.select("all", &[&[]]);
    assert_eq!(hub.settle(), "");
    for kind in ["PlacementVerified", "PlacementRolledOut", "ManifestworkApplied"] {
        hub.assert_condition(kind, "False PlacementDecisionEmpty");
    }
    hub.select("all", &[&["c1", "c2"]]);
    let message = "cannot create ManifestWork c1/web: denied".to_owned();
    let failure = WriteFailure { message, needs_action: true };
    hub.failures.insert(cluster("c1"), failure);
    assert_eq!(hub.settle(), "+c2", "the other cluster goes on");
    hub.assert_condition("PlacementVerified", "True AsExpected");
    hub.assert_condition(
        "ManifestworkApplied",
        "False NotAsExpected: cannot create ManifestWork c1/web: denied",
    );
}

#[test]
fn m13_invalid_set_writes_nothing_and_says_why() {
    let strategy = json!({"type": "Progressive", "progressive": {"minSuccessTime": "5 minutes"}});
    let mut hub = TestHub::new(&all(), &["c1"]);
    hub.settle();
    hub.set["spec"]["placementRefs"][0]["rolloutStrategy"] = strategy;
    hub.set_template("two");
    assert_eq!(hub.settle(), "");
    hub.assert_condition("PlacementVerified", "False NotAsExpected: spec.placementRefs[0]");
    hub.set["spec"]["placementRefs"][0]["rolloutStrategy"] = all();
    hub.set["spec"]["manifestWorkTemplate"] = json!({"workload": {"manifests": []}});
    hub.next_generation();
    assert_eq!(hub.settle(), "", "an empty template would delete the objects on the clusters");
    hub.assert_condition("ManifestworkApplied", "False NotAsExpected: spec.manifestWorkTemplate");
}

/// Upstream ignores it: the template reaches all clusters without those that were to come first.
#[test]
fn mandatory_group_that_the_placement_lacks_holds_the_set() {
    let strategy = |key: Value| {
        json!({"type": "ProgressivePerGroup",
            "progressivePerGroup": {"mandatoryDecisionGroups": [key]}})
    };
    for (key, named) in [
        (json!({"groupName": "canary"}), "named \"canary\""),
        (json!({"groupIndex": 7}), "with index 7"),
    ] {
        let mut hub = TestHub::new(&strategy(key), &["c1", "c2"]);
        assert_eq!(hub.settle(), "");
        hub.assert_condition(
            "PlacementVerified",
            &format!(
                "False NotAsExpected: spec.placementRefs[0].rolloutStrategy.progressivePerGroup.\
                 mandatoryDecisionGroups: Placement all has no decision group {named}; correct it"
            ),
        );
        hub.assert_condition("PlacementRolledOut", "False Progressing: 0 of 2");
        hub.select("all", &[]);
        hub.settle();
        hub.assert_condition("PlacementVerified", "False PlacementDecisionEmpty");
        hub.select("all", &[&["c1", "c2"]]);
        hub.semantics = RolloutSemantics::Upstream;
        assert_eq!(hub.settle(), "+c1 +c2");
    }
    let mut hub = TestHub::new(&strategy(json!({"groupName": "g1"})), &[]);
    hub.select("all", &[&["c1"], &["c2"]]);
    assert_eq!(hub.settle(), "+c2");
    hub.assert_condition("PlacementVerified", "True AsExpected");
}

#[test]
fn m14_missing_placement_stops_no_other_and_deletes_nothing() {
    let mut hub = TestHub::new(&all(), &["c1"]);
    hub.settle();
    hub.select("more", &[&["c2"]]);
    hub.facts.placements.remove(&placement("all"));
    hub.references(&["all", "more"]);
    assert_eq!(hub.settle(), "+c2");
    hub.assert_condition(
        "PlacementVerified",
        "False PlacementDecisionNotFound: there is no Placement fleet/all",
    );
    assert_eq!(hub.works.len(), 2);
}

#[test]
fn m16_uncertain_decisions_delete_nothing() {
    let mut hub = TestHub::new(&all(), &["c1", "c2"]);
    hub.settle();
    // A cluster goes from one PlacementDecision to another, and is in none for a moment.
    let facts = hub.facts.placements.get_mut(&placement("all")).unwrap();
    facts.decisions.insert("all-decision-0".into(), vec![cluster("c1")]);
    hub.set_template("two");
    assert_eq!(hub.settle(), "~c1");
    assert!(hub.condition("PlacementVerified").contains("no work is deleted"));
    hub.select("all", &[&["c1"]]);
    let facts = hub.facts.placements.get_mut(&placement("all")).unwrap();
    facts.is_changing = true;
    assert_eq!(hub.settle(), "", "the grace period runs");
    let facts = hub.facts.placements.get_mut(&placement("all")).unwrap();
    facts.is_changing = false;
    facts.unreachable.insert(cluster("c2"));
    assert_eq!(hub.settle(), "", "the hub drops clusters that it cannot reach");
    let facts = hub.facts.placements.get_mut(&placement("all")).unwrap();
    facts.unreachable.clear();
    assert_eq!(hub.settle(), "-c2");
}

#[test]
fn grace_period_after_a_start_changes_no_status() {
    let mut hub = TestHub::new(&all(), &["c1"]);
    hub.settle();
    let status = hub.set["status"].clone();
    hub.facts.placements.get_mut(&placement("all")).unwrap().is_changing = true;
    assert_eq!((hub.settle().as_str(), &hub.set["status"]), ("", &status));
}

#[test]
fn references_that_do_not_count_delete_nothing() {
    let mut hub = TestHub::new(&all(), &["c1", "c2"]);
    hub.settle();
    let mut references = vec![json!({"name": "all"}); 50];
    references.push(json!({"name": "more"}));
    for references in [json!(references), json!([{"name": "all"}, {"rolloutStrategy": {}}])] {
        hub.set["spec"]["placementRefs"] = references;
        hub.select("all", &[&["c1"]]);
        hub.next_generation();
        assert_eq!(hub.settle(), "");
        hub.assert_condition("PlacementVerified", "False NotAsExpected: only the first 50");
    }
}

#[test]
fn cluster_that_is_being_deleted_gets_no_work() {
    let mut hub = TestHub::new(&all(), &["c1", "c2"]);
    let facts = ClusterFacts { is_deleting: true, ..ClusterFacts::default() };
    hub.facts.managed_clusters.insert(cluster("c1"), facts.into());
    assert_eq!(hub.settle(), "+c2");
}

#[test]
fn background_deletion_waits_for_no_agent_and_foreground_deletion_for_all() {
    for (policy, after) in [("Background", "-finalizer"), ("Foreground", "")] {
        let mut hub = TestHub::new(&all(), &["c1"]);
        hub.settle();
        hub.start_deletion(policy);
        let decision = hub.decide();
        assert!(matches!(decision.writes[..], [SetWrite::Delete { .. }]), "{policy}");
        hub.terminate("c1");
        assert_eq!(hub.step(), after, "{policy}");
        if policy == "Foreground" {
            hub.assert_condition("ManifestworkApplied", "False Processing: deleting");
            hub.works.clear();
            assert_eq!(hub.step(), "-finalizer");
        }
        assert_eq!(hub.step(), "", "{policy}: nothing is created again");
    }
}

#[test]
fn works_without_the_label_are_left_alone() {
    let mut hub = TestHub::new(&all(), &["c1"]);
    hub.settle();
    hub.works[0]["metadata"]["labels"][LABEL_OWNER] = Value::Null;
    hub.works[0]["metadata"]["name"] = json!("other");
    hub.start_deletion("Foreground");
    assert_eq!(hub.step(), "-finalizer");
    assert_eq!(hub.works.len(), 1);
}
