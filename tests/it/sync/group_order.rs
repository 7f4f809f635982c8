//! A group with dependencies on two clusters with agents and on 50 that are namespaces: failures,
//! a change of leader, updates, and clusters that leave.

use gitwork_api::cluster::ManagedCluster;
use kube::api::{Api, PostParams};
use serde_json::json;

use super::fixture::{config_map, value_of};
use super::groups::Fleet;
use super::order::report;
use crate::agent::fixture::Fixture;
use crate::forge::daemon::Daemon;
use crate::harness::eventually;
use crate::leader_election::{accounts, config, leads};

/// Clusters without an agent.
const NAMESPACES: usize = 50;
/// The first of them.
const SILENT: usize = 2;

/// Two clusters with agents, and 50 more, all with the label of the group.
async fn fleet(agents: [&Fixture<'_>; 2]) -> Fleet {
    let mut fleet = Fleet::without_clusters(NAMESPACES).await;
    let names = agents.map(|agent| agent.cluster_name.clone());
    let others = std::mem::take(&mut fleet.sync.clusters);
    fleet.sync.clusters = names.into_iter().chain(others).collect();
    let tier = fleet.sync.id.to_string();
    let clusters: Api<ManagedCluster> = Api::all(fleet.sync.hub.client());
    for name in &fleet.sync.clusters {
        let mut cluster = ManagedCluster::new(name, Default::default());
        cluster.metadata.labels = Some([("tier".to_owned(), tier.clone())].into());
        clusters.create(&PostParams::default(), &cluster).await.unwrap();
    }
    fleet
}

/// A ConfigMap in the namespace of the values.
fn manifest(name: &str, text: &str) -> String {
    config_map(name, text).replace("namespace: default", "namespace: ${NAMESPACE}")
}

/// Commits the group's works with this text; `namespace`: that of the second cluster.
fn commit(fleet: &Fleet, text: &str, namespaces: [&str; 2]) {
    let clusters = &fleet.sync.clusters;
    let group = format!(
        "selector: {{labelSelector: {{matchLabels: {{tier: {}}}}}}}\nvalues: {{NAMESPACE: \
         default}}\ndefaults: {{substitute: true}}\n",
        fleet.sync.id
    );
    let of_cluster = namespaces.map(|namespace| format!("values: {{NAMESPACE: {namespace}}}\n"));
    let far = format!("dependsOn: [{{cluster: {}, work: app}}]\n", clusters[0]);
    let paths = [0, 1].map(|cluster| fleet.sync.path(cluster, "cluster.yaml"));
    let works = ["base", "app", "far"]
        .map(|work| (format!("groups/edge/{work}/cm.yaml"), manifest(work, text)));
    let mut files: Vec<(&str, Option<&str>)> = vec![
        ("gitwork.yaml", Some("budgets: {cluster: 3}\n")),
        ("groups/edge/group.yaml", Some(&group)),
        ("groups/edge/app/work.yaml", Some("dependsOn: [base]\n")),
        ("groups/edge/far/work.yaml", Some(&far)),
        (&paths[0], Some(&of_cluster[0])),
        (&paths[1], Some(&of_cluster[1])),
    ];
    files.extend(works.iter().map(|(path, text)| (path.as_str(), Some(text.as_str()))));
    fleet.sync.repo.commit("main", &files);
}

/// Waits until the daemon has planned what Git has now.
async fn until_planned(fleet: &Fleet, daemon: &Daemon, marker: &str) {
    let path = fleet.sync.path(SILENT, "marker/cm.yaml");
    let text = config_map("marker", marker);
    fleet.sync.repo.commit("main", &[(path.as_str(), Some(text.as_str()))]);
    daemon.hang_up();
    fleet.sync.until_value(SILENT, "marker", marker).await;
}

async fn value(fleet: &Fleet, cluster: usize, work: &str) -> Option<String> {
    value_of(&fleet.sync.works(cluster).get(work).await.unwrap())
}

/// Waits until the agent has the ConfigMap of a work.
async fn until_applied(agent: &Fixture<'_>, name: &str, text: &str) {
    let maps = agent.config_maps();
    eventually(&format!("{name} with {text}"), crate::agent::fixture::DEADLINE, || async {
        let map = maps.get(name).await.map_err(|error| error.to_string())?;
        let value = map.data["data"]["value"].as_str().map(str::to_owned);
        if value.as_deref() == Some(text) { Ok(()) } else { Err(format!("{value:?}")) }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn dependencies_of_a_group_are_followed_on_each_cluster_over_a_change_of_leader() {
    let agents = [Fixture::start().await, Fixture::start().await];
    let fleet = fleet([&agents[0], &agents[1]]).await;
    let missing = format!("{}-missing", agents[1].namespace);
    let (here, there) = (agents[0].namespace.as_str(), agents[1].namespace.as_str());
    commit(&fleet, "one", [here, &missing]);
    let [first_account, second_account] = accounts(&fleet.sync).await;
    let first = Daemon::start_as(&fleet.sync, "first", &first_account, &config(&fleet.sync));
    let all = 0..SILENT + NAMESPACES;
    for cluster in all.clone() {
        fleet.sync.until_value(cluster, "base", "one").await;
    }
    // The first agent applies `base` and `app`. `far` on all clusters waits for that one work.
    until_applied(&agents[0], "app", "one").await;
    for cluster in all {
        fleet.sync.until_value(cluster, "far", "one").await;
    }
    // The second agent fails, and the other clusters report nothing.
    agents[1].condition("base", "Applied", "False").await;
    until_planned(&fleet, &first, "one").await;
    for cluster in [1, SILENT, SILENT + 1] {
        assert!(!fleet.is_there(cluster, "app").await, "{cluster}");
    }

    // Another process continues where the first one was.
    let second = Daemon::start_as(&fleet.sync, "second", &second_account, &config(&fleet.sync));
    second.until_logged("another daemon is the leader of this source").await;
    first.signal("KILL");
    second.until_metric(&leads(&fleet.sync), |value| value == 1.0).await;
    report(&fleet.sync, SILENT, "base", "True", "True").await;
    fleet.sync.until_value(SILENT, "app", "one").await;
    until_planned(&fleet, &second, "two").await;
    for cluster in [1, SILENT + 1] {
        assert!(!fleet.is_there(cluster, "app").await, "{cluster}");
    }

    // The fix goes through, and so does the update of a work whose dependency fails.
    commit(&fleet, "two", [here, there]);
    second.hang_up();
    until_applied(&agents[1], "app", "two").await;
    until_applied(&agents[0], "app", "two").await;
    fleet.sync.until_value(SILENT, "base", "two").await;
    until_planned(&fleet, &second, "three").await;
    assert_eq!(value(&fleet, SILENT, "app").await.as_deref(), Some("one"));
    report(&fleet.sync, SILENT, "base", "False", "False").await;
    fleet.sync.until_value(SILENT, "app", "two").await;
    assert!(!fleet.is_there(SILENT + 1, "app").await, "a new work waits");

    // A cluster leaves: `app` goes before `base`.
    agents[1].condition("app", "Applied", "True").await;
    fleet.label(1, json!({"tier": null})).await;
    for work in ["app", "base", "far"] {
        fleet.sync.until_gone(1, work).await;
    }
    assert!(fleet.is_there(0, "app").await);
}
