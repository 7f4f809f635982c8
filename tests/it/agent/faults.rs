//! The agent dies at any write, and API servers fail in every way: the end is that of an
//! undisturbed run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use http::Method;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use super::fixture::{DEADLINE, Fixture, owners, stable};
use crate::harness::eventually;
use crate::harness::faults::{Fault, Faults, Seen};

/// More scenarios at a time would wait for each other.
const AT_A_TIME: usize = 12;

fn is_write(seen: &Seen) -> bool {
    seen.method != Method::GET
}

/// An applied and reported work: its status and its AppliedManifestWork, without values that differ
/// between runs.
async fn settled(fixture: &Fixture<'_>, name: &str, recorded: &[&str]) -> String {
    fixture.wait_recorded(name, recorded).await;
    fixture.condition(name, "Applied", "True").await;
    let work = fixture.condition(name, "Available", "True").await;
    let applied = fixture.applied().get(&fixture.applied_name(name)).await.unwrap();
    let applied_uid = applied.uid().unwrap();
    let mut status = applied.data["status"].clone();
    for resource in status["appliedResources"].as_array_mut().unwrap() {
        let map = fixture.config_maps().get(resource["name"].as_str().unwrap()).await.unwrap();
        assert_eq!(resource["uid"], map.uid().unwrap(), "it records the object that is there");
        assert_eq!(owners(&map), [applied_uid.as_str()]);
        resource["uid"] = "<uid>".into();
    }
    let record = json!({"status": {
        "finalizers": applied.finalizers(),
        "labels": applied.labels(),
        "spec": applied.data["spec"],
        "status": status,
    }});
    let record = stable(&record, fixture).replace(&fixture.settings.hub_hash, "<hub hash>");
    format!("{}\n{record}", stable(&work, fixture))
}

/// Names and uids of the ConfigMaps that are there.
async fn maps(fixture: &Fixture<'_>) -> Vec<(String, String)> {
    let maps = fixture.config_maps().list(&ListParams::default()).await.unwrap();
    let own = maps.items.into_iter().filter(|map| map.name_any() != "kube-root-ca.crt");
    own.map(|map| (map.name_any(), map.uid().unwrap())).collect()
}

/// Creates, updates, prunes and deletes, and looks at the state after each, which it gives. What is
/// not of the work stays as it was.
async fn scenario(fixture: &Fixture<'_>) -> Vec<String> {
    let (cut, mut states) = (|| fixture.faults.cut_watches(), Vec::new());
    let two = [fixture.config_map("a", "1"), fixture.config_map("b", "1")];
    fixture.create("web", two.to_vec(), json!({})).await;
    fixture.create("stays", vec![fixture.config_map("own", "1")], json!({})).await;
    states.push(settled(fixture, "web", &["configmaps/a", "configmaps/b"]).await);
    states.push(settled(fixture, "stays", &["configmaps/own"]).await);
    let before = maps(fixture).await;
    cut();
    let changed = [fixture.config_map("a", "2"), fixture.config_map("c", "1")];
    fixture.patch_spec("web", json!({"workload": {"manifests": changed}})).await;
    states.push(settled(fixture, "web", &["configmaps/a", "configmaps/c"]).await);
    fixture.value("a", "2").await;
    fixture.is_gone(&fixture.config_maps(), "b").await;
    cut();
    fixture.delete("web").await;
    fixture.is_gone(&fixture.works(), "web").await;
    fixture.is_gone(&fixture.applied(), &fixture.applied_name("web")).await;
    let mut left = before;
    left.retain(|(name, _)| name == "own");
    assert_eq!(maps(fixture).await, left, "nothing is orphaned, and what should stay is as it was");
    states.push(settled(fixture, "stays", &["configmaps/own"]).await);
    states
}

/// What the scenario's states are where nothing goes wrong.
async fn undisturbed() -> Vec<String> {
    let fixture = Fixture::start().await;
    let states = scenario(&fixture).await;
    insta::assert_snapshot!("the_scenario", states.join("\n---\n"));
    states
}

/// Runs the scenario with an agent that freezes before its write `last + 1`, is killed there, and
/// is restarted. Returns whether it came so far, and the states.
async fn killed_after(last: usize) -> (bool, Vec<String>) {
    let mut fixture = Fixture::start().await;
    fixture.kill().await;
    // What the first agent has asked for before it was killed does not count.
    fixture.faults = Faults::none();
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = writes.clone();
    fixture.faults.next(usize::MAX, Fault::Stall, move |seen| {
        is_write(seen) && counted.fetch_add(1, Ordering::Relaxed) >= last
    });
    fixture.run();
    // The scenario continues while the agent is down.
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
    let states = tokio::select! { states = scenario(&fixture) => states, () = revive => vec![] };
    (frozen.count(|seen| seen.fault == Some(Fault::Stall)) > 0, states)
}

#[tokio::test]
async fn agent_killed_at_any_write_reaches_the_same_end_state() {
    let expected = undisturbed().await;
    let mut last = 0;
    loop {
        // Some at a time: how many writes there are shows at the end.
        let some = (last..last + 6).map(|last| async move { (last, killed_after(last).await) });
        let some: Vec<_> = futures::future::join_all(some).await;
        for (last, (_, states)) in &some {
            assert_eq!(*states, expected, "killed after {last} writes");
        }
        last += some.iter().take_while(|(_, (was_killed, _))| *was_killed).count();
        if some.iter().any(|(_, (was_killed, _))| !was_killed) {
            break;
        }
        assert!(last < 100, "the scenario ends");
    }
    assert!(last >= 18, "{last} writes were tried");
}

const FAULTS: [Fault; 5] = [
    Fault::LoseRequest,
    Fault::LoseAnswer,
    Fault::Answer { code: 409, retry_after_seconds: None },
    Fault::Answer { code: 429, retry_after_seconds: Some(1) },
    Fault::Answer { code: 500, retry_after_seconds: None },
];

#[tokio::test]
async fn failing_api_servers_do_not_change_the_end_state() {
    let expected = undisturbed().await;
    let with_seed = async |seed| {
        let fixture = Fixture::start().await;
        // Many more, and the agent's patience with servers that fail outlasts that of the test.
        fixture.faults.seed(seed, 10, &FAULTS);
        assert_eq!(scenario(&fixture).await, expected, "seed {seed}");
        fixture.faults.count(|seen| seen.fault.is_some())
    };
    let faults = futures::future::join_all((0..8).map(with_seed)).await;
    // How many requests a run needs depends on the time: a run with few of them may meet no fault.
    assert!(faults.iter().sum::<usize>() > 8, "{faults:?}");
}

/// The number of requests for ConfigMaps that the agent sent, and how many were under way at most.
fn of_config_maps(seen: &[Seen]) -> (usize, usize) {
    let all = seen.iter().filter(|seen| is_creation(seen));
    let most = all.clone().map(|seen| seen.under_way + 1).max();
    (all.count(), most.unwrap_or_default())
}

fn is_creation(seen: &Seen) -> bool {
    seen.method == Method::POST && seen.path.ends_with("/configmaps")
}

/// An API server that answers 429 gets the request again once the time is over that it asks for,
/// and from then on fewer requests at once.
#[tokio::test]
async fn overloaded_api_server_gets_its_requests_later_and_fewer_at_once() {
    const WORKS: usize = 40;
    const REFUSED: usize = 24;
    let fixture = Fixture::start().await;
    let apply = async |round: usize| {
        for work in 0..WORKS {
            let map = fixture.config_map(&format!("map-{round}-{work}"), "1");
            fixture.create(&format!("work-{round}-{work}"), vec![map], json!({})).await;
        }
        for work in 0..WORKS {
            fixture.condition(&format!("work-{round}-{work}"), "Applied", "True").await;
        }
    };
    let overload = Fault::Answer { code: 429, retry_after_seconds: Some(2) };
    fixture.faults.next(REFUSED, overload, is_creation);
    apply(0).await;
    let seen = fixture.faults.seen();
    let (requests, _) = of_config_maps(&seen);
    assert_eq!(requests, WORKS + REFUSED, "each is sent again, once");
    let refused = seen.iter().filter(|seen| seen.fault.is_some()).map(|seen| seen.time);
    let (first, last) = (refused.clone().min().unwrap(), refused.max().unwrap());
    let creations = seen.iter().filter(|seen| is_creation(seen) && seen.fault.is_none());
    // As many as were refused came when the first time was over, or later.
    let late = creations.filter(|seen| seen.time >= first + Duration::from_secs(2)).count();
    assert!(late >= REFUSED, "{late} of {REFUSED} came later");
    // Ten workers send requests at once. Each answer two seconds after the one before is another
    // overload, which halves the limit. It recovers by one every two seconds.
    let after: Vec<Seen> = seen.into_iter().filter(|seen| seen.time > last).collect();
    let (_, most) = of_config_maps(&after);
    let seconds = after.last().map_or(0, |seen| (seen.time - last).as_secs());
    let limit = 6 + usize::try_from(seconds / 2).unwrap();
    assert!(most <= limit, "{most} at once, {seconds} s after the overload");
}

/// An aggregated API server hangs: works with other kinds do not wait for it.
#[tokio::test]
async fn hanging_api_group_does_not_stall_the_discovery_of_others() {
    let fixture = Fixture::start().await;
    let is_hanging = |seen: &Seen| seen.path.starts_with("/apis/hang.example.com/");
    fixture.faults.next(usize::MAX, Fault::Stall, is_hanging);
    let hanging = json!({"apiVersion": "hang.example.com/v1", "kind": "Ghost",
        "metadata": {"name": "a", "namespace": fixture.namespace}});
    for work in 0..15 {
        fixture.create(&format!("hangs-{work}"), vec![hanging.clone()], json!({})).await;
    }
    eventually("the API server to be asked", DEADLINE, || async {
        let asked = fixture.faults.count(is_hanging);
        if asked > 0 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await
    .unwrap();
    // Each kind of this work is new to the agent.
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "a", "namespace": fixture.namespace}});
    fixture.create("web", vec![fixture.config_map("a", "1"), role], json!({})).await;
    fixture.condition("web", "Applied", "True").await;
    let hanging = fixture.works().get("hangs-0").await.unwrap();
    assert_ne!(hanging.data["status"]["conditions"][0]["status"], "True");
    // All works with the kind share one request at a time.
    assert!(fixture.faults.count(is_hanging) < 15);
}

/// Every so many requests one fails, so that a run meets several, each for itself.
const STRIDE: usize = 16;

/// Which requests of a run fail.
#[derive(Debug, Clone, Copy)]
enum Hit {
    /// Those whose number leaves this rest.
    Each(usize),
    /// The first one with this method: requests come in another order each time.
    First(&'static str),
}

/// Runs the scenario with faults. Gives what was hit, and the states.
async fn with_faults(hit: Hit, fault: Fault) -> (Vec<Seen>, Vec<String>) {
    let mut fixture = Fixture::start().await;
    fixture.kill().await;
    fixture.faults = Faults::none();
    let counted = AtomicUsize::new(0);
    match hit {
        Hit::Each(rest) => fixture.faults.next(usize::MAX, fault, move |_| {
            counted.fetch_add(1, Ordering::Relaxed) % STRIDE == rest
        }),
        Hit::First(method) => fixture.faults.next(1, fault, move |seen| seen.method == method),
    }
    fixture.run();
    let states = scenario(&fixture).await;
    (fixture.faults.seen().into_iter().filter(|seen| seen.fault.is_some()).collect(), states)
}

#[tokio::test]
async fn fault_at_any_agent_request_does_not_change_the_end_state() {
    let expected = undisturbed().await;
    let methods = ["POST", "PUT", "PATCH", "DELETE"];
    let hits: Vec<Hit> = (0..STRIDE).map(Hit::Each).chain(methods.map(Hit::First)).collect();
    let runs = hits.into_iter().flat_map(|hit| FAULTS.map(|fault| (hit, fault)));
    let runs = runs.map(|(hit, fault)| async move { (hit, fault, with_faults(hit, fault).await) });
    let runs: Vec<_> = futures::stream::iter(runs).buffer_unordered(AT_A_TIME).collect().await;
    for (hit, fault, (seen, states)) in &runs {
        assert_eq!(*states, expected, "{fault:?} at {hit:?}: {seen:?}");
        assert!(!seen.is_empty(), "{fault:?} at {hit:?}");
    }
    for fault in FAULTS {
        let of_fault = runs.iter().filter(|(_, one, _)| *one == fault);
        let all: Vec<&Seen> = of_fault.flat_map(|(_, _, (seen, _))| seen).collect();
        let hit = |what: &str, wanted: &dyn Fn(&Seen) -> bool| {
            assert!(all.iter().any(|seen| wanted(seen)), "{fault:?} hit no {what}");
        };
        hit("watch", &Seen::is_watch);
        hit("list", &|seen| seen.query.contains("limit="));
        hit("read", &|seen| seen.method == Method::GET && seen.query.is_empty());
    }
}

/// Both API servers go away at each step: requests are lost and watches broken, while the world
/// goes on.
#[tokio::test]
async fn works_changed_during_an_outage_of_both_api_servers_are_applied() {
    let fixture = Fixture::start().await;
    let away = || {
        fixture.faults.next(usize::MAX, Fault::LoseRequest, |_| true);
        fixture.faults.cut_watches();
    };
    let back = async || {
        let lost = fixture.faults.count(|seen| seen.fault.is_some());
        eventually("some requests to be lost", DEADLINE, || async {
            let now = fixture.faults.count(|seen| seen.fault.is_some());
            if now >= lost + 6 { Ok(()) } else { Err(format!("{now} after {lost}")) }
        })
        .await
        .unwrap();
        fixture.faults.stop();
    };
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.create("old", vec![fixture.config_map("old", "1")], json!({})).await;
    settled(&fixture, "web", &["configmaps/a"]).await;
    settled(&fixture, "old", &["configmaps/old"]).await;
    for round in 0..3 {
        let value = format!("round {round}");
        away();
        let manifests =
            [fixture.config_map("a", &value), fixture.config_map(&value.replace(' ', "-"), "1")];
        fixture.patch_spec("web", json!({"workload": {"manifests": manifests}})).await;
        fixture.edit("a", json!({"data": {"key": "drift"}})).await;
        if round == 1 {
            fixture.delete("old").await;
        }
        back().await;
        let recorded = ["configmaps/a".to_owned(), format!("configmaps/round-{round}")];
        let recorded: Vec<&str> = recorded.iter().map(String::as_str).collect();
        settled(&fixture, "web", &recorded).await;
        fixture.value("a", &value).await;
    }
    fixture.is_gone(&fixture.works(), "old").await;
    let left: Vec<String> = maps(&fixture).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(left, ["a", "round-2"]);
}

/// An outage breaks the watches. Afterwards they go on from the last version that they have seen.
#[tokio::test]
async fn watches_continue_without_a_list_after_an_outage() {
    let fixture = Fixture::start().await;
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    settled(&fixture, "web", &["configmaps/a"]).await;
    let lists = || fixture.faults.count(Seen::is_list);
    let before = lists();
    assert!(before > 0, "the works were listed at the start");

    let lost = || fixture.faults.count(|seen| seen.is_watch() && seen.fault.is_some());
    fixture.faults.next(usize::MAX, Fault::LoseRequest, |_| true);
    fixture.faults.cut_watches();
    fixture
        .patch_spec("web", json!({"workload": {"manifests": [fixture.config_map("a", "2")]}}))
        .await;
    eventually("each watch to be tried some times", DEADLINE, || async {
        let lost = lost();
        if lost >= 20 { Ok(()) } else { Err(format!("{lost} watches are lost")) }
    })
    .await
    .unwrap();
    fixture.faults.stop();
    fixture.value("a", "2").await;
    assert_eq!(lists(), before);
}

/// The API server writes `"items": null` for a list of metadata without objects.
#[tokio::test]
async fn kind_without_objects_is_listed_once_and_watched() {
    let fixture = Fixture::start().await;
    let absent = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": "absent"}, "handler": "none"});
    let read_only = json!({"manifestConfigs": [{
        "resourceIdentifier":
            {"group": "node.k8s.io", "resource": "runtimeclasses", "name": "absent"},
        "updateStrategy": {"type": "ReadOnly"},
    }]});
    fixture.create("web", vec![absent], read_only).await;
    fixture.condition("web", "Available", "False").await;
    let count = |is_watch| {
        let of_kind = |seen: &Seen| seen.path.ends_with("/runtimeclasses");
        fixture.faults.count(|seen| of_kind(seen) && seen.is_watch() == is_watch)
    };
    eventually("the kind to be watched", DEADLINE, || async {
        if count(true) > 0 { Ok(()) } else { Err(format!("{} lists", count(false))) }
    })
    .await
    .unwrap();
    assert_eq!(count(false), 1);
}
