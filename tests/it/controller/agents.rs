//! The controller together with gitwork's agents: from a set to objects on two clusters.

use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use super::fixture::{Controller, Fixture, managed, new_hub, template, until_value};
use crate::agent::fixture::Fixture as AgentFixture;

#[tokio::test(flavor = "multi_thread")]
async fn set_reaches_the_clusters_of_two_agents_and_leaves_nothing_behind() {
    let (hub, kubeconfig) = new_hub().await;
    let clusters = [managed("first").await, managed("second").await];
    let first = AgentFixture::between(&hub, &clusters[0], |_| {}).await;
    let second = AgentFixture::between(&hub, &clusters[1], |_| {}).await;
    let _controller = Controller::start(&kubeconfig, &[]);
    let fixture = Fixture::of_agents(&hub, &[&first, &second]).await;
    // Without condition rules: what the agents report by themselves is enough.
    let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": 1}});
    fixture.create(&strategy, &template("one")).await;
    fixture.until_condition("PlacementRolledOut", "True Complete: 2 of 2").await;
    fixture.until_condition("ManifestworkApplied", "True AsExpected").await;
    for cluster in &clusters {
        until_value(cluster, "web", Some("one")).await;
    }
    fixture.set_template(&template("two")).await;
    fixture.until_condition("PlacementRolledOut", "True Complete: 2 of 2").await;
    for cluster in &clusters {
        until_value(cluster, "web", Some("two")).await;
    }
    fixture.patch(json!({"spec": {"cascadeDeletionPolicy": "Foreground"}})).await;
    fixture.sets().delete("web", &DeleteParams::default()).await.unwrap();
    fixture.until_gone().await;
    assert_eq!(fixture.values().await, "- -");
    for (cluster, agent) in clusters.iter().zip([&first, &second]) {
        until_value(cluster, "web", None).await;
        let applied = agent.applied().list(&ListParams::default()).await.unwrap().items;
        assert!(applied.is_empty(), "{applied:?}");
    }
}
