//! `ProgressivePerGroup`: the decision groups of a Placement, one after the other.

use gitwork_api::placement::{LABEL_PLACEMENT, Placement, PlacementDecision};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::simulated_agents::Behavior;
use super::stage::{GROUP, Stage};
use super::strategies::until_in_progress;

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

#[tokio::test(flavor = "multi_thread")]
async fn mandatory_decision_group_comes_first_and_then_group_by_group() {
    let stage = Stage::new(30).await;
    stage.simulated.set("four", Behavior::Wait);
    for cluster in 0..stage.sync.clusters.len() {
        stage.register(cluster, json!({})).await;
    }
    let daemon = stage.start().await;
    stage.roll_out_first("three", &[]).await;
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
    drop(daemon);
}
