//! Monday, Tuesday and Thursday of the fleet of `tests/cases/fleet`, in small: a version of the
//! tills that fails in the second city, its fix, and a selector that loses half of the stores.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::budget::gitwork;
use super::super::guards::done;
use super::simulated_agents::Behavior;
use super::stage::{GROUP, Stage};
use crate::cli::out;
use crate::status_views::view;

/// The clusters of a city, with those of the lab and of the other cities before them.
const BONN: usize = 2;
const ULM: usize = 10;
const KIEL: usize = 20;
const SIMULATED: usize = 30;

/// The position of the real clusters: one in Bonn with large hardware, one in Ulm with small.
const LARGE: usize = SIMULATED;
const SMALL: usize = SIMULATED + 1;

fn is_small(cluster: usize) -> bool {
    cluster % 2 == 1
}

fn is_of_ulm(cluster: usize) -> bool {
    (ULM..KIEL).contains(&cluster) || cluster == SMALL
}

async fn stores() -> Stage {
    let stage = Stage::new(SIMULATED).await;
    for cluster in 0..stage.sync.clusters.len() {
        let hardware = if is_small(cluster) { "small" } else { "large" };
        let city = match cluster {
            0..BONN => "lab",
            BONN..ULM | LARGE => "bonn",
            KIEL..SIMULATED => "kiel",
            _ => "ulm",
        };
        stage.register(cluster, json!({"hardware": hardware, "city": city})).await;
    }
    stage
}

/// A quota with as many objects as small stores may have.
const QUOTA: &str = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: till, namespace: \
                     \"${NAMESPACE}\"}\nspec: {hard: {configmaps: \"${MAPS}\"}}\n";

/// The version of the tills. Small stores have a setting of their own.
fn commit(stage: &Stage, version: &str, maps: &str, of_hardware: &str) {
    let fleet = stage.sync.id.as_str();
    let members = format!(
        "selector: {{labelSelector: {{matchLabels: {{fleet: {fleet}{of_hardware}}}}}}}\noverrides: \
         [{{selector: {{labelSelector: {{matchLabels: {{hardware: small}}}}}}, values: {{MAPS: \
         \"{maps}\"}}}}]\n"
    );
    let city =
        |name: &str| format!("selector: {{labelSelector: {{matchLabels: {{city: {name}}}}}}}");
    let rollout = format!(
        "{{onFailure: return, maxFailures: 1, progressDeadline: 8s, waves: [{{name: lab, {}, soak: \
         3s}}, {{name: bonn, {}}}, {{name: ulm, {}, approval: required, maxConcurrency: 4}}, \
         {{name: others, clusters: [\"*\"], maxConcurrency: 6}}]}}",
        city("lab"),
        city("bonn"),
        city("ulm")
    );
    let quota = (version != "one").then(|| QUOTA.to_owned());
    let rollout = if version == "one" { "{type: All}" } else { &rollout };
    stage.commit_for(&members, rollout, version, &[("b.yaml", quota)]);
}

/// Approves the wave once it waits. Without its name, the command may still count the soak of
/// `lab`: it begins with times in whole seconds, up to a second later than the daemon.
async fn approve(stage: &Stage) {
    let waits = |progress: &Value| {
        let why = progress["waitsFor"].as_str().unwrap_or_default();
        progress["wave"] == "ulm" && why.contains("nobody has approved")
    };
    stage.until_status("the wait for the approval of ulm", waits).await;
    done(&gitwork(&stage.sync, &["rollout", "approve", GROUP, "--wave", "ulm"]));
}

/// In Ulm, it fails on a real store, whose API server rejects the quota, and on the store whose
/// name comes last.
async fn monday(stage: &Stage, last: usize) {
    stage.simulated.set_of(stage.name(last), "two", Behavior::Unavailable);
    commit(stage, "two", "many", "");
    approve(stage).await;
    let failed: BTreeSet<String> = stage.until_rejected("ulm").await.into_iter().collect();
    let wanted = [last, SMALL].map(|cluster| stage.name(cluster).to_owned());
    assert_eq!(failed, wanted.into());
    stage.until_all("one").await;
    stage.until_map(1, "till", "one").await;
    stage.until_planned().await;
    for cluster in 0..stage.sync.clusters.len() {
        let wanted: &[&str] = match cluster {
            KIEL..SIMULATED => &["one"],
            _ => &["one", "two", "one"],
        };
        stage.until_history(cluster, wanted).await;
    }
    stage.until_map(0, "till", "one").await;
}

/// The fix goes out by the same waves, to the stores first where the version failed.
async fn tuesday(stage: &Stage, last: usize) {
    commit(stage, "three", "100", "");
    approve(stage).await;
    stage.until_good("three").await;
    let of_ulm = (0..stage.sync.clusters.len()).filter(|cluster| is_of_ulm(*cluster));
    let ulm: BTreeSet<&str> = of_ulm.map(|cluster| stage.name(cluster)).collect();
    let arrivals = stage.simulated.arrivals("three");
    let ulm = arrivals.iter().filter(|one| ulm.contains(one.cluster.as_str()));
    let first: BTreeSet<&str> = ulm.take(4).map(|one| one.cluster.as_str()).collect();
    assert!(first.contains(stage.name(last)) && first.contains(stage.name(SMALL)), "{first:?}");
    stage.until_map(1, "till", "three").await;
}

/// Half of the stores would lose their tills.
async fn thursday(stage: &Stage) {
    let before = stage.generations().await;
    commit(stage, "three", "100", ", hardware: large");
    stage
        .until("the reason", || async {
            let status = out(&view(&stage.sync, &["status"]).output().unwrap());
            if status.contains("held with all 16 deletions of this plan") {
                Ok(())
            } else {
                Err(status)
            }
        })
        .await;
    stage.until_planned().await;
    assert_eq!(stage.generations().await, before, "nothing is written or deleted");
    stage.until_map(1, "till", "three").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_version_returns_its_fix_goes_through_and_a_narrowed_selector_deletes_nothing() {
    let stage = stores().await;
    let of_ulm = (0..SIMULATED).filter(|cluster| is_of_ulm(*cluster));
    let last = of_ulm.max_by_key(|cluster| stage.name(*cluster)).unwrap();
    let daemon = stage.start().await;
    commit(&stage, "one", "100", "");
    stage.until_good("one").await;
    monday(&stage, last).await;
    tuesday(&stage, last).await;
    thursday(&stage).await;
    drop(daemon);
}
