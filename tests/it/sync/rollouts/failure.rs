//! A content that fails on a real cluster: clusters return to the last good one, or hold.

use std::collections::BTreeSet;

use kube::ResourceExt;
use serde_json::{Value, json};

use super::stage::{GROUP, Stage, config_map};

/// The lab has simulated clusters, the town the two real ones, one after the other.
fn rollout(stage: &Stage, on_failure: &str) -> String {
    let (lab, town) = (stage.names(0..2), stage.names(stage.reals()));
    format!(
        "{{onFailure: {on_failure}, progressDeadline: 10m, waves: [{{name: lab, clusters: {lab}}}, \
         {{name: town, clusters: {town}, maxConcurrency: 1, soak: 8s}}]}}"
    )
}

/// A Deployment whose pods ask for the CPU that the cluster says in `value`. The controller gives
/// up after 3 seconds.
fn deployment(value: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: till, namespace: \
         \"${{NAMESPACE}}\"}}\nspec:\n  progressDeadlineSeconds: 3\n  selector: {{matchLabels: \
         {{app: till}}}}\n  template:\n    metadata: {{labels: {{app: till}}}}\n    spec:\n      \
         containers:\n      - name: till\n        image: till\n        resources: {{requests: \
         {{cpu: \"{value}\"}}}}\n"
    )
}

/// The CPU that the pods of a Deployment ask for, and its uid.
async fn until_cpu(stage: &Stage, agent: usize, cpu: &str) -> String {
    let path = "/spec/template/spec/containers/0/resources/requests/cpu";
    stage
        .on_cluster((agent, "apps/v1", "Deployment", "till"), |found| {
            let there = found.data.pointer(path).cloned().unwrap_or_default();
            if there == cpu { Ok(found.uid().unwrap()) } else { Err(there.to_string()) }
        })
        .await
}

/// The names of the manifests in the work of a cluster, and those that are only created.
async fn manifests(stage: &Stage, cluster: usize) -> (Vec<String>, Vec<String>) {
    let work = json!(stage.sync.until_there(cluster, GROUP).await);
    let name =
        |one: &Value| format!("{}/{}", one["kind"], one["metadata"]["name"]).replace('"', "");
    let all = work["spec"]["workload"]["manifests"].as_array().unwrap().iter().map(name).collect();
    let configs = work["spec"]["manifestConfigs"].as_array().cloned().unwrap_or_default();
    let created = configs.iter().filter(|one| one["updateStrategy"]["type"] == "CreateOnly");
    let name = |one: &Value| one["resourceIdentifier"]["name"].as_str().unwrap().to_owned();
    (all, created.map(name).collect())
}

/// It fails on the second real cluster, whose nodes lack the CPU, and clusters return.
async fn fail_and_return(stage: &Stage) {
    let bad = stage.real(1);
    let till = stage.until_map(1, "till", "one").await;
    let deployed = until_cpu(stage, 1, "1m").await;
    let two = [("b.yaml", Some(deployment("${CPU}"))), ("c.yaml", Some(config_map("more", "two")))];
    stage.commit(&rollout(stage, "return"), "two", &two);
    let more = stage.until_map(1, "more", "two").await;
    assert_eq!(stage.until_rejected("town").await, [stage.name(bad)]);
    stage.until_all("one").await;
    stage.until_map(0, "till", "one").await;
    assert_eq!(stage.until_map(1, "till", "one").await, till);
    assert_eq!(until_cpu(stage, 1, "1m").await, deployed);
    stage.until_planned().await;
    stage.until_all("one").await;
    for cluster in 0..stage.sync.clusters.len() {
        let has_got = cluster < 2 || stage.reals().contains(&cluster);
        let wanted: &[&str] = if has_got { &["one", "two", "one"] } else { &["one"] };
        stage.until_history(cluster, wanted).await;
    }
    // What only the rejected content has stays on the hub and on the cluster.
    let kept = ["ConfigMap/till", "Deployment/till", "ConfigMap/more"].map(str::to_owned);
    let (all, created) = manifests(stage, bad).await;
    assert_eq!((all, created), (kept.to_vec(), vec!["more".to_owned()]));
    assert_eq!(manifests(stage, 9).await.0, kept[..2]);
    assert_eq!(stage.until_map(1, "more", "two").await, more);
}

/// The fix goes out by the same waves, to the cluster first where the content failed, though its
/// name comes last.
async fn fix(stage: &Stage) {
    let (good, bad) = (stage.real(0), stage.real(1));
    let till = stage.until_map(1, "till", "one").await;
    let deployed = until_cpu(stage, 1, "1m").await;
    let three = [("b.yaml", Some(deployment("2m"))), ("c.yaml", None)];
    stage.commit(&rollout(stage, "return"), "three", &three);
    stage.until_good("three").await;
    stage.until_history(good, &["one", "two", "one", "three"]).await;
    let order: Vec<String> =
        stage.simulated.arrivals("three").into_iter().map(|one| one.cluster).collect();
    let lab: BTreeSet<&String> = order[..2].iter().collect();
    assert_eq!(lab, stage.sync.clusters[..2].iter().collect());
    assert_eq!(order[2..4], [stage.name(bad).to_owned(), stage.name(good).to_owned()]);
    assert_eq!(until_cpu(stage, 1, "2m").await, deployed);
    assert_eq!(stage.until_map(1, "till", "three").await, till);
    for agent in &stage.agents {
        agent.is_gone(&agent.config_maps(), "more").await;
    }
}

/// Clusters keep what failed, and no other gets it.
async fn fail_and_hold(stage: &Stage) {
    let bad = stage.real(1);
    let four = [("b.yaml", Some(deployment("${CPU}")))];
    stage.commit(&rollout(stage, "hold"), "four", &four);
    assert_eq!(stage.until_rejected("town").await, [stage.name(bad)]);
    stage.until_planned().await;
    stage.until_only("four", [0, 1, bad]).await;
    until_cpu(stage, 1, "1M").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_fails_on_a_real_cluster_is_returned_or_held_and_its_fix_goes_there_first() {
    let stage = Stage::new(30).await;
    stage.commit_cluster(1, "CPU: 1000000");
    let running = stage.start_ahead();
    stage.roll_out_first("one", &[("b.yaml", Some(deployment("1m")))]).await;
    fail_and_return(&stage).await;
    fix(&stage).await;
    fail_and_hold(&stage).await;
    running.stop().await;
}
