//! What operators say of a rollout holds over a restart, and works say what they wait for.

use serde_json::Value;

use super::super::budget::gitwork;
use super::super::events::until_event;
use super::super::guards::done;
use super::simulated_agents::Behavior;
use super::stage::{GROUP, Stage};

fn rollout(stage: &Stage) -> String {
    let (lab, town) = (stage.names([0, stage.real(0)]), stage.names(1..5));
    format!(
        "{{waves: [{{name: lab, clusters: {lab}}}, {{name: town, clusters: {town}, approval: \
         required}}, {{name: land, clusters: [\"*\"], approval: required}}]}}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn pause_holds_over_a_restart_and_waves_wait_for_approvals_of_either_kind() {
    let stage = Stage::new(30).await;
    let ask = |command: &[&str]| gitwork(&stage.sync, &[&["rollout"], command].concat());
    let waits_for = |words: &'static str| {
        move |progress: &Value| {
            progress["waitsFor"].as_str().is_some_and(|text| text.contains(words))
        }
    };
    stage.simulated.set("two", Behavior::Wait);
    let daemon = stage.start().await;
    stage.roll_out_first("one", &[]).await;
    stage.commit(&rollout(&stage), "two", &[]);
    stage.until_only("two", [0, stage.real(0)]).await;
    done(&ask(&["pause", GROUP]));
    stage.until_status("the pause", waits_for("whose rollout is paused")).await;
    done(&ask(&["approve", GROUP, "--wave", "town"]));
    assert_eq!(daemon.terminate().await, Some(0));
    stage.simulated.set("two", Behavior::Apply);
    let daemon = stage.start().await;
    stage.until_planned().await;
    stage.until_planned().await;
    stage.until_only("two", [0, stage.real(0)]).await;

    done(&ask(&["resume", GROUP]));
    stage.until_only("two", (0..5).chain([stage.real(0)])).await;
    stage.until_status("the wait", waits_for("waits for wave land")).await;
    let held = until_event(&stage.sync, stage.real(1), GROUP, "Warning Held").await;
    assert!(held.contains("wave land of group tills, which nobody has approved"), "{held}");
    stage.until_planned().await;
    stage.until_only("two", (0..5).chain([stage.real(0)])).await;
    stage.approve_in_git(0, "land").await;
    stage.until_good("two").await;
    stage.until_map(1, "till", "two").await;
    drop(daemon);
}
