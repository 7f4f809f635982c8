//! The memory of a daemon with a group of many clusters.

use std::path::Path;
use std::time::Instant;

use futures::stream::{self, StreamExt};
use gitwork_api::cluster::ManagedCluster;
use kube::api::{Api, PostParams};
use serde_json::json;

use super::CONCURRENCY;
use super::harness::Cluster;
use super::harness::git_server::{GitServer, Repo};
use super::program::{Gitwork, command};
use super::repository::{manifests, text_of};

const MEMBERS: usize = 1_000;
const SOURCE: &str = "group";

/// Creates ManagedClusters with a label of a dozen values.
async fn managed_clusters(hub: &Cluster) {
    let clusters: Api<ManagedCluster> = Api::all(hub.client());
    stream::iter(0..MEMBERS)
        .map(|number| {
            let clusters = clusters.clone();
            async move {
                let name = format!("member-{number:04}");
                hub.create_namespace(&name).await;
                let mut cluster = ManagedCluster::new(&name, Default::default());
                let labels = [("tier", "store".to_owned()), ("city", format!("c{}", number % 12))];
                let labels = labels.map(|(name, value)| (name.to_owned(), value));
                cluster.metadata.labels = Some(labels.into());
                clusters.create(&PostParams::default(), &cluster).await.unwrap();
            }
        })
        .buffer_unordered(CONCURRENCY)
        .for_each(|()| async {})
        .await;
}

/// Measures the memory of a daemon with a group of 1,000 clusters and 10 works.
pub async fn group(hub: &Cluster, folder: &Path) {
    managed_clusters(hub).await;
    let server = GitServer::http(folder).start();
    let repo = Repo::create(&folder.join("group.git"));
    let group = "selector: {labelSelector: {matchLabels: {tier: store}}}\n\
                 defaults: {substitute: true}\n";
    let mut files = vec![("groups/stores/group.yaml".to_owned(), group.to_owned())];
    for work in 0..10 {
        let text = format!(
            "{}---\n{}\n",
            text_of(&manifests(work, "first")),
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": format!("place-{work}"), "namespace": "default" },
                "data": { "place": "${cluster.name} in ${cluster.labels['city']}" },
            })
        );
        files.push((format!("groups/stores/work-{work}/manifests.yaml"), text));
    }
    let files: Vec<(&str, Option<&str>)> =
        files.iter().map(|(path, text)| (path.as_str(), Some(text.as_str()))).collect();
    repo.commit("main", &files);
    let start = Instant::now();
    let first = command(hub, &server, &repo, (SOURCE, "")).arg("--once").status().unwrap();
    assert!(first.success());
    println!("| first sync of {MEMBERS} clusters x 10 works | {:.0?} |", start.elapsed());
    let gitwork = Gitwork::daemon(command(hub, &server, &repo, (SOURCE, "")));
    gitwork.idle().await;
    let (now, most) = gitwork.memory();
    println!(
        "| memory with a group of {MEMBERS} clusters x 10 works after a restart | {now} MiB RSS, \
         {most} MiB at most |"
    );
}
