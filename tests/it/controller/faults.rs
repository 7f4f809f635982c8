//! Requests that are lost before the hub, or whose answers are lost behind it.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Method;
use kube::api::DeleteParams;
use serde_json::json;

use super::fixture::{Controller, Fixture, new_hub, template};
use crate::harness::fault_proxy::{Fault, FaultProxy, Target, Upstream};

/// `POST manifestworks`, `WATCH manifestworks`, …
fn name_of(method: &Method, path: &str, _: &[u8]) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let kinds =
        ["manifestworkreplicasets", "manifestworks", "placementdecisions", "placements", "leases"];
    let kind = kinds.into_iter().find(|kind| path.contains(*kind)).unwrap_or("other");
    let status = if path.ends_with("/status") { "/status" } else { "" };
    let verb = match *method {
        Method::GET if query.contains("watch=1") => "WATCH",
        Method::GET if query.contains("limit=") => "LIST",
        _ => method.as_str(),
    };
    format!("{verb} {kind}{status}")
}

fn target(name: &str, number: usize) -> Target {
    Target { name: name.to_owned(), number }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_the_hub_end_in_the_same_state() {
    let (hub, _) = new_hub().await;
    let fixture = Fixture::new(&hub, 3).await;
    let proxy = FaultProxy::new(Arc::new(name_of));
    let config = hub.config_for("gitwork", "gitwork-controller").await;
    let client = kube::Client::try_from(config).unwrap();
    let address = proxy.serve(Upstream::ApiServer(client)).await;
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, FaultProxy::kubeconfig(&address)).unwrap();
    let answer = |code| Fault::Answer { code, retry_after_seconds: None };
    let faults = [
        (target("LIST manifestworks", 1), answer(500)),
        (target("LIST placements", 1), answer(410)),
        (target("WATCH manifestworks", 1), answer(410)),
        (target("WATCH manifestworkreplicasets", 1), Fault::Close),
        (target("PATCH manifestworkreplicasets", 1), Fault::LoseAnswer),
        (target("PATCH manifestworkreplicasets/status", 1), answer(409)),
        (target("PATCH manifestworkreplicasets/status", 2), Fault::LoseAnswer),
        (target("POST manifestworks", 1), Fault::LoseAnswer),
        (target("POST manifestworks", 2), Fault::Close),
        (target("POST manifestworks", 3), answer(429)),
        (target("PATCH manifestworks", 1), Fault::LoseAnswer),
        (target("PATCH manifestworks", 2), answer(409)),
        (target("PATCH manifestworks", 3), Fault::HalfAnswer),
        (target("DELETE manifestworks", 1), Fault::LoseAnswer),
        (target("DELETE manifestworks", 2), answer(503)),
    ];
    proxy.set_faults(BTreeMap::from(faults));
    let _controller = Controller::start(&kubeconfig, &[]);
    fixture.create(&json!({"type": "All"}), &template("one")).await;
    fixture.until_values("one one one").await;
    fixture.set_template(&template("two")).await;
    fixture.until_values("two two two").await;
    fixture.report(&[0, 1, 2], "Applied=True Available=True").await;
    fixture.until_condition("PlacementRolledOut", "True Complete").await;
    for index in 0..3 {
        // Neither written twice nor created twice.
        let work = fixture.work(index).await.unwrap();
        assert_eq!(work.metadata.generation, Some(2), "{:?}", work.metadata);
    }
    fixture.sets().delete("web", &DeleteParams::default()).await.unwrap();
    fixture.until_gone().await;
    assert_eq!(fixture.values().await, "- - -");
    assert_eq!(proxy.faults_left(), BTreeMap::new());
}
