//! Where hub and cluster are: one API server for both, two clusters of one hub, and API servers
//! that go away.

use kube::api::DeleteParams;
use serde_json::json;

use super::fixture::Fixture;
use crate::harness::{Cluster, ClusterOptions, ControlPlane, crds};

/// An API server of one's own that can be a hub, a managed cluster, or both.
async fn hub_and_cluster(name: &str) -> Cluster {
    let crds = [crds::hub(), crds::managed()].concat();
    let options = ClusterOptions { crds, ..ClusterOptions::default() };
    ControlPlane::shared().await.start(name, options).await
}

#[tokio::test]
async fn one_api_server_as_hub_and_cluster_recovers_from_an_outage() {
    let server = hub_and_cluster("both").await;
    let fixture = Fixture::between(&server, &server, |_| {}).await;
    let manifests = |value, names: &[&str]| -> Vec<_> {
        names.iter().map(|name| fixture.config_map(name, value)).collect()
    };
    fixture.create("web", manifests("1", &["a", "b"]), json!({})).await;
    fixture.wait_recorded("web", &["configmaps/a", "configmaps/b"]).await;
    fixture.condition("web", "Available", "True").await;

    server.kill();
    server.restart().await.unwrap();
    fixture.edit("a", json!({"data": {"key": "drift"}})).await;
    fixture.value("a", "1").await;
    let changed = json!({"workload": {"manifests": manifests("2", &["a", "c"])}});
    fixture.patch_spec("web", changed).await;
    fixture.wait_recorded("web", &["configmaps/a", "configmaps/c"]).await;
    fixture.value("a", "2").await;
    fixture.is_gone(&fixture.config_maps(), "b").await;
    fixture.condition("web", "Applied", "True").await;

    fixture.delete("web").await;
    fixture.is_gone(&fixture.works(), "web").await;
    fixture.is_gone(&fixture.applied(), &fixture.applied_name("web")).await;
    for name in ["a", "c"] {
        fixture.is_gone(&fixture.config_maps(), name).await;
    }
}

#[tokio::test]
async fn outage_of_one_cluster_does_not_affect_the_other() {
    let plane = ControlPlane::shared().await;
    let server = hub_and_cluster("far").await;
    let one = Fixture::start().await;
    // Of the same hub: only the clusters keep the two apart.
    let hash = one.settings.hub_hash.clone();
    let two = Fixture::between(plane.hub().await, &server, |settings| {
        settings.agent_id.clone_from(&hash);
        settings.hub_hash = hash;
    })
    .await;
    assert_eq!(one.applied_name("web"), two.applied_name("web"));
    one.create("web", vec![one.config_map("a", "1")], json!({})).await;
    two.create("web", vec![two.config_map("a", "2"), two.config_map("b", "2")], json!({})).await;
    two.create("old", vec![two.config_map("old", "2")], json!({})).await;
    one.value("a", "1").await;
    two.value("a", "2").await;
    two.wait_recorded("web", &["configmaps/a", "configmaps/b"]).await;
    two.wait_recorded("old", &["configmaps/old"]).await;

    // Changes on the hub during a cluster's outage apply after the outage.
    server.kill();
    one.delete("web").await;
    let changed = json!({"workload": {"manifests": [two.config_map("a", "3")]}});
    two.patch_spec("web", changed).await;
    two.delete("old").await;
    two.create("new", vec![two.config_map("new", "3")], json!({})).await;
    one.is_gone(&one.works(), "web").await;
    one.is_gone(&one.config_maps(), "a").await;
    server.restart().await.unwrap();
    two.wait_recorded("web", &["configmaps/a"]).await;
    two.value("a", "3").await;
    two.value("new", "3").await;
    two.condition("web", "Applied", "True").await;
    two.condition("new", "Available", "True").await;
    two.is_gone(&two.works(), "old").await;
    for name in ["b", "old"] {
        two.is_gone(&two.config_maps(), name).await;
    }
}

#[tokio::test]
async fn drift_is_corrected_while_the_hub_is_away() {
    let plane = ControlPlane::shared().await;
    let hub = hub_and_cluster("away").await;
    let fixture = Fixture::between(&hub, plane.managed().await, |_| {}).await;
    let manifests = vec![fixture.config_map("a", "1"), fixture.config_map("b", "1")];
    fixture.create("web", manifests, json!({})).await;
    fixture.wait_recorded("web", &["configmaps/a", "configmaps/b"]).await;
    fixture.condition("web", "Available", "True").await;

    hub.kill();
    fixture.edit("a", json!({"data": {"key": "drift"}})).await;
    fixture.config_maps().delete("b", &DeleteParams::default()).await.unwrap();
    fixture.value("a", "1").await;
    fixture.value("b", "1").await;

    hub.restart().await.unwrap();
    let changed = json!({"workload": {"manifests": [fixture.config_map("a", "2")]}});
    fixture.patch_spec("web", changed).await;
    fixture.value("a", "2").await;
    fixture.condition("web", "Applied", "True").await;
    fixture.is_gone(&fixture.config_maps(), "b").await;
}
