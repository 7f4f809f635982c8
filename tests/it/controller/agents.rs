//! The controller together with gitwork's agents: from a set to objects on two clusters.

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::fixture::{Controller, DEADLINE, Fixture, new_hub, template};
use crate::agent::fixture::Fixture as AgentFixture;
use crate::harness::{Cluster, ClusterOptions, ControlPlane, crds, eventually};

async fn managed(name: &str) -> Cluster {
    let options = ClusterOptions { crds: crds::managed(), ..ClusterOptions::default() };
    ControlPlane::shared().await.start(name, options).await
}

/// The ConfigMap of the template on a cluster.
async fn value(cluster: &Cluster) -> Option<String> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let maps: Api<DynamicObject> = Api::namespaced_with(cluster.client(), "default", &kind);
    let map = maps.get_opt("web").await.unwrap()?;
    map.data.pointer("/data/value").and_then(Value::as_str).map(str::to_owned)
}

async fn until_value(cluster: &Cluster, expected: Option<&str>) {
    let probe = || async {
        let found = value(cluster).await;
        if found.as_deref() == expected { Ok(()) } else { Err(format!("{found:?}")) }
    };
    eventually(&format!("the value {expected:?}"), DEADLINE, probe).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn set_reaches_the_clusters_of_two_agents_and_leaves_nothing_behind() {
    let (hub, kubeconfig) = new_hub().await;
    let clusters = [managed("first").await, managed("second").await];
    let first = AgentFixture::between(&hub, &clusters[0], |_| {}).await;
    let second = AgentFixture::between(&hub, &clusters[1], |_| {}).await;
    let _controller = Controller::start(&kubeconfig, &[]);
    let fixture = Fixture {
        hub: &hub,
        namespace: hub.namespace("sets").await,
        clusters: vec![first.cluster_name.clone(), second.cluster_name.clone()],
        name: "web".to_owned(),
    };
    fixture.select("all", &[0, 1]).await;
    // Without condition rules: what the agents report by themselves is enough.
    let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": 1}});
    fixture.create(&strategy, &template("one")).await;
    fixture.until_condition("PlacementRolledOut", "True Complete: 2 of 2").await;
    fixture.until_condition("ManifestworkApplied", "True AsExpected").await;
    for cluster in &clusters {
        until_value(cluster, Some("one")).await;
    }
    fixture.set_template(&template("two")).await;
    fixture.until_condition("PlacementRolledOut", "True Complete: 2 of 2").await;
    for cluster in &clusters {
        until_value(cluster, Some("two")).await;
    }
    fixture.patch(json!({"spec": {"cascadeDeletionPolicy": "Foreground"}})).await;
    fixture.sets().delete("web", &DeleteParams::default()).await.unwrap();
    fixture.until_gone().await;
    assert_eq!(fixture.values().await, "- -");
    for (cluster, agent) in clusters.iter().zip([&first, &second]) {
        until_value(cluster, None).await;
        let applied = agent.applied().list(&ListParams::default()).await.unwrap().items;
        assert!(applied.is_empty(), "{applied:?}");
    }
}
