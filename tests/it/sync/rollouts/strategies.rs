//! `All`, `Progressive` and the window of a wave.

use std::collections::BTreeSet;

use serde_json::Value;

use super::simulated_agents::Behavior;
use super::stage::Stage;

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
async fn all_progressive_and_windows_let_clusters_begin_as_they_say() {
    let stage = Stage::new(30).await;
    for value in ["two", "three"] {
        stage.simulated.set(value, Behavior::Wait);
    }
    let daemon = stage.start().await;
    stage.roll_out_first("one", &[]).await;

    // All: every cluster at once, and failures stop nothing.
    stage.simulated.set_of(stage.name(3), "two", Behavior::Reject);
    stage.commit("{type: All, all: {progressDeadline: 1s}}", "two", &[]);
    stage.until_all("two").await;
    // All but the one that has failed at once.
    stage
        .until("two in progress on 29 clusters", || async {
            let most = stage.simulated.most_in_progress("two");
            if most >= 29 { Ok(()) } else { Err(most.to_string()) }
        })
        .await;
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

    // A wave whose window is closed.
    let wave = |window: &str| {
        format!(
            "{{waves: [{{name: lab, clusters: {}, window: {window}}}]}}",
            stage.names([0, stage.real(0)])
        )
    };
    stage.commit(&wave("{allow: [{from: 2000-01-01, until: 2000-01-02}]}"), "five", &[]);
    let waits = |progress: &Value| {
        let why = progress["waitsFor"].as_str().unwrap_or_default();
        progress["wave"] == "lab" && why.contains("window")
    };
    stage.until_status("the closed window", waits).await;
    stage.until_planned().await;
    stage.until_all("three").await;
    stage.commit(&wave("{allow: [{from: 2000-01-01, until: 9999-01-02}]}"), "five", &[]);
    stage.until_good("five").await;
    drop(daemon);
}
