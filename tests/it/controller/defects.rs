//! Defects of OCM's controller that this one does not have, on a real API server, with their names
//! in docs/controller.md. M13 and M15 are in `poison_set_and_odd_names_stop_nobody`.

use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::PLACEMENT;
use super::fixture::{DEADLINE, Fixture, OWNER, shared, template, template_with_rules};
use crate::harness::eventually;
use crate::harness::placements::Placements;

fn all() -> Value {
    json!({"type": "All"})
}

fn progressive(fields: &Value) -> Value {
    json!({"type": "Progressive", "progressive": fields})
}

fn per_group(fields: &Value) -> Value {
    json!({"type": "ProgressivePerGroup", "progressivePerGroup": fields})
}

async fn references(fixture: &Fixture<'_>, names: &[&str]) {
    let all: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    fixture.patch(json!({"spec": {"placementRefs": all}})).await;
}

/// The works of the set on a cluster.
async fn works(fixture: &Fixture<'_>, index: usize) -> Vec<DynamicObject> {
    let of_set = ListParams::default().labels(OWNER);
    fixture.works(&fixture.clusters[index]).list(&of_set).await.unwrap().items
}

async fn until_works(
    fixture: &Fixture<'_>,
    what: &str,
    is_reached: impl Fn(&[DynamicObject]) -> bool,
) {
    let probe = || async {
        let found = works(fixture, 0).await;
        if is_reached(&found) { Ok(()) } else { Err(format!("{found:#?}")) }
    };
    eventually(what, DEADLINE, probe).await.unwrap();
}

/// A Placement with decision groups `g0`, `g1` and so on, of these clusters.
async fn grouped(fixture: &Fixture<'_>, name: &str, groups: &[&[usize]]) {
    let placements =
        Placements { client: fixture.hub.client(), namespace: fixture.namespace.clone() };
    let names: Vec<(String, Vec<String>)> = (0..groups.len())
        .map(|index| (format!("g{index}"), vec![format!("{name}-decision-{index}")]))
        .collect();
    let named: Vec<(&str, &[String])> =
        names.iter().map(|(group, decisions)| (group.as_str(), decisions.as_slice())).collect();
    placements.create(name, &named).await;
    for ((_, decisions), clusters) in names.iter().zip(groups) {
        let clusters = clusters.iter().map(|index| fixture.clusters[*index].as_str());
        placements.decide(&decisions[0], clusters).await;
    }
    let counted = named.iter().zip(groups);
    let counted: Vec<(&str, &[String], usize)> = counted
        .map(|((group, decisions), clusters)| (*group, *decisions, clusters.len()))
        .collect();
    placements.report(name, &counted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_template_changes_while_a_cluster_leaves() {
    let fixture = Fixture::new(&shared().await.0, 2).await;
    fixture.create(&all(), &template("one")).await;
    fixture.until_values("one one").await;
    fixture.set_template(&template("two")).await;
    fixture.select("all", &[0]).await;
    fixture.until_values("two -").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_second_work_on_a_cluster_is_removed() {
    let fixture = Fixture::new(&shared().await.0, 1).await;
    fixture.create(&all(), &template("one")).await;
    fixture.until_values("one").await;
    let own = fixture.work(0).await.unwrap();
    let mut second = own.clone();
    second.metadata.name = Some("webx7k2p".into());
    (second.metadata.uid, second.metadata.resource_version) = (None, None);
    let api = fixture.works(&fixture.clusters[0]);
    api.create(&PostParams::default(), &second).await.unwrap();
    // The first one has to be applied before the other one goes.
    let name = own.metadata.name.clone().unwrap();
    let condition = json!({"type": "Applied", "status": "True", "reason": "Test", "message": "",
        "observedGeneration": own.metadata.generation, "lastTransitionTime": super::now()});
    let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    api.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
    until_works(&fixture, "one work", |found| {
        found.len() == 1 && found[0].metadata.uid == own.metadata.uid
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m3_and_m4_cluster_of_two_placements_has_one_work_and_a_removed_reference_none() {
    let fixture = Fixture::new(&shared().await.0, 3).await;
    fixture.select("all", &[0, 1]).await;
    fixture.select("more", &[1, 2]).await;
    fixture.create(&all(), &template("one")).await;
    references(&fixture, &["all", "more"]).await;
    fixture.until_values("one one one").await;
    let uid = fixture.work(1).await.unwrap().metadata.uid;
    references(&fixture, &["more"]).await;
    fixture.until_values("- one one").await;
    let handed_over = || async {
        let work = fixture.work(1).await.unwrap();
        let of = work.metadata.labels.as_ref().and_then(|labels| labels.get(PLACEMENT)).cloned();
        let is_same = work.metadata.uid == uid;
        if is_same && of.as_deref() == Some("more") { Ok(()) } else { Err(format!("{of:?}")) }
    };
    eventually("the work to be of the other Placement", DEADLINE, handed_over).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_cluster_that_returns_gets_a_work_while_the_old_one_is_being_deleted() {
    let fixture = Fixture::new(&shared().await.0, 1).await;
    fixture.create(&all(), &template("one")).await;
    fixture.until_values("one").await;
    let old = fixture.work(0).await.unwrap();
    let api = fixture.works(&fixture.clusters[0]);
    let name = old.metadata.name.clone().unwrap();
    let finalizers = |all: Value| Patch::Merge(json!({"metadata": {"finalizers": all}}));
    let params = PatchParams::default();
    api.patch(&name, &params, &finalizers(json!(["example.com/agent"]))).await.unwrap();
    fixture.select("all", &[]).await;
    let is_deleting = |work: &DynamicObject| work.metadata.deletion_timestamp.is_some();
    until_works(&fixture, "the deletion", |found| found.iter().all(is_deleting)).await;
    fixture.select("all", &[0]).await;
    until_works(&fixture, "a work beside it", |found| {
        found.len() == 2 && found.iter().filter(|work| is_deleting(work)).count() == 1
    })
    .await;
    api.patch(&name, &params, &finalizers(json!([]))).await.unwrap();
    until_works(&fixture, "the new work alone", |found| {
        found.len() == 1 && !is_deleting(&found[0]) && found[0].metadata.uid != old.metadata.uid
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m6_rollout_goes_on_without_condition_rules_and_counts_what_cannot_be_applied() {
    let fixture = Fixture::new(&shared().await.0, 3).await;
    let fields = json!({"maxConcurrency": 1, "maxFailures": 1, "progressDeadline": "1h"});
    fixture.create(&progressive(&fields), &template("one")).await;
    fixture.until_values("one - -").await;
    fixture.report(&[0], "Applied=True Available=True").await;
    fixture.until_values("one one -").await;
    fixture.report(&[1], "Applied=False").await;
    fixture.until_values("one one one").await;
    let failed = "False Progressing: 1 of 3 clusters have succeeded; 1 cluster of all has failed";
    fixture.until_condition("PlacementRolledOut", failed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m7_slow_cluster_after_a_mandatory_group_holds_only_its_place() {
    let fixture = Fixture::new(&shared().await.0, 4).await;
    grouped(&fixture, "grouped", &[&[0], &[1, 2, 3]]).await;
    let fields = json!({"maxConcurrency": 2, "mandatoryDecisionGroups": [{"groupName": "g0"}]});
    let reference = json!({"name": "grouped", "rolloutStrategy": progressive(&fields)});
    let spec = json!({"placementRefs": [reference],
        "manifestWorkTemplate": template_with_rules("one")});
    fixture.create_spec(spec).await;
    fixture.until_values("one - - -").await;
    fixture.succeed(&[0]).await;
    fixture.until_values("one one one -").await;
    // The first of both is slow.
    fixture.succeed(&[2]).await;
    fixture.until_values("one one one one").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m8_tolerated_failure_does_not_hold_the_next_group_back() {
    let fixture = Fixture::new(&shared().await.0, 4).await;
    grouped(&fixture, "grouped", &[&[0, 1], &[2, 3]]).await;
    let fields = json!({"maxFailures": 1, "progressDeadline": "1s"});
    let spec = json!({"placementRefs": [{"name": "grouped", "rolloutStrategy": per_group(&fields)}],
        "manifestWorkTemplate": template_with_rules("one")});
    fixture.create_spec(spec).await;
    fixture.until_values("one one - -").await;
    fixture.succeed(&[0]).await;
    fixture.report(&[1], "Applied=True Progressing=True Degraded=True").await;
    fixture.until_values("one one one one").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m9_size_out_of_range_is_an_error_that_names_it() {
    let fixture = Fixture::new(&shared().await.0, 1).await;
    fixture.create(&progressive(&json!({"maxConcurrency": 0})), &template("one")).await;
    let message = "False NotAsExpected: spec.placementRefs[0].rolloutStrategy.progressive.\
                   maxConcurrency is 0";
    fixture.until_condition("PlacementVerified", message).await;
    assert_eq!(fixture.values().await, "-");
}

#[tokio::test(flavor = "multi_thread")]
async fn m10_gap_in_the_group_indexes_drops_no_cluster() {
    let fixture = Fixture::new(&shared().await.0, 3).await;
    // The group in the middle has no cluster, so that its index is missing among the decisions.
    grouped(&fixture, "gap", &[&[0], &[], &[1, 2]]).await;
    fixture.create(&all(), &template("one")).await;
    references(&fixture, &["gap"]).await;
    fixture.until_values("one one one").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m11_empty_placement_has_its_own_reason() {
    let fixture = Fixture::new(&shared().await.0, 1).await;
    fixture.select("all", &[]).await;
    fixture.create(&all(), &template("one")).await;
    for kind in ["PlacementVerified", "PlacementRolledOut", "ManifestworkApplied"] {
        fixture.until_condition(kind, "False PlacementDecisionEmpty").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m14_missing_placement_stops_only_itself() {
    let fixture = Fixture::new(&shared().await.0, 1).await;
    fixture.create(&all(), &template("one")).await;
    references(&fixture, &["missing", "all"]).await;
    fixture.until_values("one").await;
    let message = "False PlacementDecisionNotFound: there is no Placement";
    fixture.until_condition("PlacementVerified", message).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m16_cluster_between_two_decisions_keeps_its_work() {
    let fixture = Fixture::new(&shared().await.0, 2).await;
    fixture.create(&all(), &template("one")).await;
    fixture.until_values("one one").await;
    let namespace = fixture.namespace.clone();
    let placements = Placements { client: fixture.hub.client(), namespace };
    // The Placement still counts two clusters.
    placements.decide("all-decision-1", [fixture.clusters[0].as_str()]).await;
    let is_seen = || async {
        let all = fixture.conditions().await;
        let verified = all.get("PlacementVerified");
        let is_seen = verified.is_some_and(|found| found.contains("no work is deleted"));
        if is_seen { Ok(()) } else { Err(format!("{all:#?}")) }
    };
    eventually("the controller to see that", DEADLINE, is_seen).await.unwrap();
    fixture.set_template(&template("two")).await;
    fixture.until_values("two one").await;
    fixture.select("all", &[0, 1]).await;
    fixture.until_values("two two").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m17_success_of_the_content_before_starts_no_further_cluster() {
    let fixture = Fixture::new(&shared().await.0, 2).await;
    let strategy = progressive(&json!({"maxConcurrency": 1}));
    fixture.create(&strategy, &template_with_rules("one")).await;
    fixture.until_values("one -").await;
    fixture.succeed(&[0]).await;
    fixture.until_values("one one").await;
    fixture.succeed(&[1]).await;
    fixture.until_condition("PlacementRolledOut", "True Complete").await;
    fixture.set_template(&template_with_rules("two")).await;
    fixture.until_values("two one").await;
    // The success is about the generation before.
    fixture.until_condition("PlacementRolledOut", "False Progressing").await;
    assert_eq!(fixture.values().await, "two one");
    fixture.succeed(&[0]).await;
    fixture.until_values("two two").await;
}
