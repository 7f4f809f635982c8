//! The agent dies at any write, and API servers fail in every way: the end is that of an undisturbed run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use serde_json::json;

use super::fixture::{DEADLINE, Fixture};
use crate::harness::eventually;
use crate::harness::faults::{Fault, Faults, Seen};

fn is_write(seen: &Seen) -> bool {
    seen.method != Method::GET
}

/// Creates, updates, prunes and deletes, and looks at the state after each.
async fn scenario(fixture: &Fixture<'_>) {
    fixture
        .create("web", vec![fixture.config_map("a", "1"), fixture.config_map("b", "1")], json!({}))
        .await;
    fixture.wait_recorded("web", &["configmaps/a", "configmaps/b"]).await;
    fixture.condition("web", "Available", "True").await;
    fixture.faults.cut_watches();
    let changed = [fixture.config_map("a", "2"), fixture.config_map("c", "1")];
    fixture.patch_spec("web", json!({"workload": {"manifests": changed}})).await;
    fixture.wait_recorded("web", &["configmaps/a", "configmaps/c"]).await;
    fixture.condition("web", "Applied", "True").await;
    fixture.value("a", "2").await;
    fixture.is_gone(&fixture.config_maps(), "b").await;
    fixture.faults.cut_watches();
    fixture.delete("web").await;
    fixture.is_gone(&fixture.works(), "web").await;
    fixture.is_gone(&fixture.applied(), &fixture.applied_name("web")).await;
    for name in ["a", "c"] {
        fixture.is_gone(&fixture.config_maps(), name).await;
    }
}

/// Runs the scenario with an agent that freezes before its write `last + 1`, is killed there, and started anew. Gives
/// whether it came so far.
async fn killed_after(last: usize) -> bool {
    let mut fixture = Fixture::start().await;
    fixture.kill().await;
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = writes.clone();
    fixture.faults.next(usize::MAX, Fault::Stall, move |seen| {
        is_write(seen) && counted.fetch_add(1, Ordering::Relaxed) >= last
    });
    fixture.run();
    // The scenario goes on while the agent is dead, as the world does.
    let (frozen, mut second) = (fixture.faults.clone(), fixture.successor());
    let revive = async {
        let stalled = || async {
            let stalled = frozen.count(|seen| seen.fault == Some(Fault::Stall));
            if stalled > 0 { Ok(()) } else { Err("no write is held up".to_owned()) }
        };
        if eventually("the last write", DEADLINE * 2, stalled).await.is_ok() {
            fixture.end_agent().await;
            second.run();
        }
        std::future::pending::<()>().await;
    };
    tokio::select! { () = scenario(&fixture) => {}, () = revive => {} }
    frozen.count(|seen| seen.fault == Some(Fault::Stall)) > 0
}

#[tokio::test]
async fn killed_at_any_write_it_ends_as_if_it_had_lived() {
    let mut last = 0;
    while killed_after(last).await {
        last += 1;
        assert!(last < 60, "the scenario ends");
    }
    assert!(last >= 12, "{last} writes were tried");
}

#[tokio::test]
async fn api_servers_that_fail_do_not_change_the_end() {
    let faults = [
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::Answer { code: 409, retry_after_seconds: None },
        Fault::Answer { code: 429, retry_after_seconds: Some(1) },
        Fault::Answer { code: 500, retry_after_seconds: None },
    ];
    let with_seed = async |seed| {
        let fixture = Fixture::start().await;
        // Many more, and the agent's patience with servers that fail outlasts that of the test.
        fixture.faults.seed(seed, 10, &faults);
        scenario(&fixture).await;
        assert!(fixture.faults.count(|seen| seen.fault.is_some()) > 0, "seed {seed}");
    };
    futures::future::join_all((0..8).map(with_seed)).await;
}

/// Runs the scenario with one fault at one write.
async fn with_fault_at(number: usize, fault: Fault) {
    let mut fixture = Fixture::start().await;
    fixture.kill().await;
    fixture.faults = Faults::none();
    let counted = AtomicUsize::new(0);
    fixture.faults.next(1, fault, move |seen| {
        is_write(seen) && counted.fetch_add(1, Ordering::Relaxed) == number
    });
    fixture.run();
    scenario(&fixture).await;
}

#[tokio::test]
async fn one_fault_at_any_write_does_not_change_the_end() {
    for fault in [
        Fault::LoseAnswer,
        Fault::Answer { code: 409, retry_after_seconds: None },
        Fault::Answer { code: 500, retry_after_seconds: None },
    ] {
        futures::future::join_all((0..18).map(|number| with_fault_at(number, fault))).await;
    }
}
