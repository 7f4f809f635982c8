//! A newer commit begins at once, whatever the rollout before it waits for.

use serde_json::{Value, json};

use super::simulated_agents::Behavior;
use super::stage::Stage;

/// `lab` with two clusters, `town` with three, of which one is real, and the rest.
fn rollout(stage: &Stage, soak: &str, deadline: &str) -> String {
    let (lab, town) = (stage.names(0..2), stage.names([2, 3, stage.real(0)]));
    format!(
        "{{progressDeadline: {deadline}, waves: [{{name: lab, clusters: {lab}, soak: {soak}}}, \
         {{name: town, clusters: {town}, approval: required}}]}}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn newer_commit_preempts_progress_soak_approval_and_rejection() {
    let stage = Stage::new(30).await;
    stage.simulated.set("two", Behavior::Wait);
    stage.simulated.set("five", Behavior::Reject);
    let daemon = stage.start().await;
    stage.roll_out_first("one", &[]).await;

    stage.commit(&rollout(&stage, "1h", "5m"), "two", &[]);
    stage.until_only("two", [0, 1]).await;
    let of_lab = |progress: &Value, state: &str| progress["waves"][0][state] == json!(2);
    stage.until_status("progress", |progress| of_lab(progress, "progressing")).await;

    stage.commit(&rollout(&stage, "1h", "5m"), "three", &[]);
    stage.until_only("three", [0, 1]).await;
    stage.until_status("the soak", |progress| of_lab(progress, "soaking")).await;

    stage.commit(&rollout(&stage, "1s", "5m"), "four", &[]);
    stage.until_only("four", [0, 1]).await;
    let waits = |progress: &Value| progress["wave"] == "town" && progress["held"] == true;
    stage.until_status("the wait for an approval", waits).await;

    stage.commit(&rollout(&stage, "1s", "3s"), "five", &[]);
    let failed = stage.until_rejected("lab").await;
    let mut lab = stage.sync.clusters[..2].to_vec();
    lab.sort();
    assert_eq!(failed, lab);
    stage.until_planned().await;
    stage.until_only("five", [0, 1]).await;

    stage.commit(&rollout(&stage, "1s", "5m"), "six", &[]);
    stage.until_only("six", [0, 1]).await;
    stage.until_status("the next wait", waits).await;
    stage.approve_in_git(0, "town").await;
    stage.until_good("six").await;
    stage.until_map(0, "till", "six").await;
    stage.until_map(1, "till", "six").await;
    for cluster in 0..stage.sync.clusters.len() {
        let all = ["one", "two", "three", "four", "five", "six"];
        let wanted: &[&str] = if cluster < 2 { &all } else { &["one", "six"] };
        stage.until_history(cluster, wanted).await;
    }
    drop(daemon);
}
