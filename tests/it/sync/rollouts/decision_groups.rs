//! `ProgressivePerGroup`: the decision groups of a Placement, one after the other.

use std::collections::BTreeSet;

use serde_json::json;

use super::simulated_agents::Behavior;
use super::stage::{GROUP, Stage};
use crate::harness::placements::Placements;

/// Creates a Placement `tills` with these decision groups, and gives its namespace.
async fn place(stage: &Stage, groups: &[(&str, Vec<usize>)]) -> String {
    let hub = stage.sync.hub;
    let namespace = hub.namespace("placements").await;
    let placements = Placements { client: hub.client(), namespace };
    let decisions: Vec<String> =
        groups.iter().map(|(group, _)| format!("{GROUP}-{group}")).collect();
    let names = groups.iter().map(|(group, _)| *group);
    let named: Vec<_> = names.zip(decisions.iter().map(std::slice::from_ref)).collect();
    placements.create(GROUP, &named).await;
    let mut listed = Vec::new();
    for ((group, clusters), decision) in groups.iter().zip(&decisions) {
        placements.decide(decision, clusters.iter().map(|cluster| stage.name(*cluster))).await;
        listed.push((*group, std::slice::from_ref(decision), clusters.len()));
    }
    placements.report(GROUP, &listed).await;
    placements.namespace
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
    for group in [1, 0, 2] {
        let simulated = groups[group].1.iter().filter(|one| !stage.reals().contains(*one));
        let simulated: BTreeSet<String> =
            simulated.map(|one| stage.name(*one).to_owned()).collect();
        stage
            .until(&format!("four in progress on {simulated:?}"), || async {
                let busy = stage.simulated.in_progress("four");
                if busy == simulated { Ok(()) } else { Err(format!("{busy:?}")) }
            })
            .await;
        stage.until_planned().await;
        done.extend(groups[group].1.clone());
        done.sort_unstable();
        stage.until_only("four", done.clone()).await;
        for cluster in &simulated {
            stage.simulated.set_of(cluster, "four", Behavior::Apply);
        }
    }
    stage.until_good("four").await;
    drop(daemon);
}
