//! OCM's strategies, and the window of a wave.

use std::collections::BTreeSet;

use gitwork_api::placement::{LABEL_PLACEMENT, Placement, PlacementDecision};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::simulated_agents::Behavior;
use super::stage::{GROUP, Stage};

/// Creates a Placement `tills` with these decision groups, as OCM's controller does.
async fn place(stage: &Stage, groups: &[(&str, Vec<usize>)]) -> String {
    let (client, params) = (stage.sync.hub.client(), PostParams::default());
    let namespace = stage.sync.hub.namespace("placements").await;
    let placements: Api<Placement> = Api::namespaced(client.clone(), &namespace);
    let placement = Placement::new(GROUP, Default::default());
    placements.create(&params, &placement).await.unwrap();
    let all: Api<PlacementDecision> = Api::namespaced(client, &namespace);
    let mut listed = Vec::new();
    for (index, (group, clusters)) in groups.iter().enumerate() {
        let name = format!("{GROUP}-decision-{index}");
        let decision = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1",
            "kind": "PlacementDecision",
            "metadata": {"name": name, "labels": {LABEL_PLACEMENT: GROUP}},
        });
        all.create(&params, &serde_json::from_value(decision).unwrap()).await.unwrap();
        let decisions = clusters
            .iter()
            .map(|cluster| json!({"clusterName": stage.name(*cluster), "reason": ""}));
        let decisions: Vec<Value> = decisions.collect();
        let patch = Patch::Merge(json!({"status": {"decisions": decisions}}));
        all.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
        listed.push(json!({
            "decisionGroupIndex": index, "decisionGroupName": group, "decisions": [name],
            "clusterCount": clusters.len(),
        }));
    }
    let selected: usize = groups.iter().map(|(_, clusters)| clusters.len()).sum();
    let status = json!({"numberOfSelectedClusters": selected, "decisionGroups": listed});
    let patch = Patch::Merge(json!({"status": status}));
    placements.patch_status(GROUP, &PatchParams::default(), &patch).await.unwrap();
    namespace
}

/// Waits until so many simulated clusters have this content in progress.
async fn until_in_progress(stage: &Stage, value: &str, clusters: usize) -> BTreeSet<String> {
    stage
        .until(&format!("{value} in progress on {clusters}"), || async {
            let busy = stage.simulated.in_progress(value);
            if busy.len() == clusters { Ok(busy) } else { Err(format!("{busy:?}")) }
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn strategies_of_ocm_and_windows_let_clusters_begin_as_they_say() {
    let stage = Stage::new(30).await;
    for value in ["two", "three", "four"] {
        stage.simulated.set(value, Behavior::Wait);
    }
    let daemon = stage.start().await;
    stage.roll_out_first("one", &[]).await;

    // All: every cluster at once, and failures stop nothing.
    stage.simulated.set_of(stage.name(3), "two", Behavior::Reject);
    stage.commit("{type: All, all: {progressDeadline: 1s}}", "two", &[]);
    stage.until_all("two").await;
    // All but the one that has failed at once.
    assert!(stage.simulated.most_in_progress("two") >= 29);
    stage.simulated.set("two", Behavior::Apply);
    stage.until_good("two").await;

    // Progressive: never more than four.
    let progressive = "{type: Progressive, progressive: {maxConcurrency: 4}}";
    stage.commit(progressive, "three", &[]);
    let first = until_in_progress(&stage, "three", 4).await;
    stage.until_planned().await;
    assert_eq!(stage.simulated.in_progress("three"), first);
    stage.simulated.set("three", Behavior::Apply);
    stage.until_good("three").await;
    assert_eq!(stage.simulated.most_in_progress("three"), 4);

    // ProgressivePerGroup: the mandatory group first, then group by group, each at once.
    let (real, all) = (stage.real(0), 0..stage.sync.clusters.len());
    let groups = [
        ("big", (5..20).collect()),
        ("canary", vec![0, 4, real]),
        ("last", all.filter(|one| !(4..20).contains(one) && ![0, real].contains(one)).collect()),
    ];
    let namespace = place(&stage, &groups).await;
    let members = format!("placement: {{name: {GROUP}, namespace: {namespace}}}\n");
    let rollout = "{type: ProgressivePerGroup, progressivePerGroup: {mandatoryDecisionGroups: \
                   [{groupName: canary}]}}";
    stage.commit_for(&members, rollout, "four", &[]);
    let mut done = Vec::new();
    for (group, simulated) in [(1, 2), (0, 15), (2, 13)] {
        let busy = until_in_progress(&stage, "four", simulated).await;
        stage.until_planned().await;
        done.extend(groups[group].1.clone());
        done.sort_unstable();
        stage.until_only("four", done.clone()).await;
        for cluster in busy {
            stage.simulated.set_of(&cluster, "four", Behavior::Apply);
        }
    }
    stage.until_good("four").await;

    // A wave whose window is closed.
    let wave = |window: &str| {
        format!(
            "{{waves: [{{name: lab, clusters: {}, window: {window}}}]}}",
            stage.names([0, real])
        )
    };
    stage.commit(&wave("{allow: [{from: 2000-01-01, until: 2000-01-02}]}"), "five", &[]);
    let waits = |progress: &Value| {
        let why = progress["waitsFor"].as_str().unwrap_or_default();
        progress["wave"] == "lab" && why.contains("window")
    };
    stage.until_status("the closed window", waits).await;
    stage.until_planned().await;
    stage.until_all("four").await;
    stage.commit(&wave("{allow: [{from: 2000-01-01, until: 9999-01-02}]}"), "five", &[]);
    stage.until_good("five").await;
    drop(daemon);
}
