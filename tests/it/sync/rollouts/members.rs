//! Clusters that join and leave a group in the middle of a rollout.

use serde_json::json;

use super::simulated_agents::Behavior;
use super::stage::{GROUP, Stage};

fn commit(stage: &Stage, value: &str) {
    let fleet = stage.sync.id.as_str();
    let labels = format!("{{fleet: {fleet}, tier: store}}");
    let members = format!("selector: {{labelSelector: {{matchLabels: {labels}}}}}\n");
    let waves = "[{name: lab, selector: {labelSelector: {matchLabels: {purpose: lab}}}}]";
    let rollout = if value == "one" { "{type: All}" } else { &format!("{{waves: {waves}}}") };
    stage.commit_for(&members, rollout, value, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn joining_cluster_gets_the_last_good_content_and_a_leaving_one_delays_nothing() {
    let stage = Stage::new(30).await;
    let (leaving, joining, joining_lab) = (2, stage.real(1), 9);
    for cluster in 0..stage.sync.clusters.len() {
        let purpose = if (1..4).contains(&cluster) { "lab" } else { "sale" };
        let is_out = [joining, joining_lab].contains(&cluster);
        let tier = if is_out { "none" } else { "store" };
        stage.register(cluster, json!({"tier": tier, "purpose": purpose})).await;
    }
    stage.simulated.set("two", Behavior::Wait);
    let daemon = stage.start().await;
    commit(&stage, "one");
    let all = || 0..stage.sync.clusters.len();
    let members = || all().filter(|cluster| ![joining, joining_lab].contains(cluster));
    stage.until_only("one", members()).await;
    let content = stage.content(0).await;
    stage.until_recorded("it is good", |record| record.last_good == Some(content)).await;

    commit(&stage, "two");
    stage.until_only("two", 1..4).await;
    stage.label(joining, json!({"tier": "store"})).await;
    stage.until_map(1, "till", "one").await;
    stage.label(joining_lab, json!({"tier": "store"})).await;
    stage.sync.until_value(joining_lab, GROUP, "one").await;
    // A cluster of the lab leaves without having reported on it.
    stage.label(leaving, json!({"tier": null})).await;
    stage.sync.until_gone(leaving, GROUP).await;
    stage.until_planned().await;
    stage.until_only("two", [1, 3]).await;
    stage.until_only("one", all().filter(|cluster| !(1..4).contains(cluster))).await;

    stage.simulated.set("two", Behavior::Apply);
    stage.until_only("two", all().filter(|cluster| *cluster != leaving)).await;
    stage.until_map(1, "till", "two").await;
    for cluster in [joining, joining_lab, 0, 20] {
        stage.until_history(cluster, &["one", "two"]).await;
    }
    drop(daemon);
}
