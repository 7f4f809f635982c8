//! The repositories that the benchmark syncs: works with three manifests, 2 KiB in all.

use std::path::Path;

use futures::stream::{self, StreamExt};
use serde_json::{Value, json};

use super::CONCURRENCY;
use super::harness::Cluster;
use super::harness::git_server::Repo;

/// How many works there are, on how many clusters.
#[derive(Clone, Copy)]
pub struct Layout {
    pub works: usize,
    pub clusters: usize,
}

impl Layout {
    /// 100 works to a cluster.
    pub fn of(works: usize) -> Self {
        Self { works, clusters: works / 100 }
    }

    /// At least 100 clusters, as many as a new fleet may have.
    pub fn of_first(works: usize) -> Self {
        Self { works, clusters: (works / 100).max(100) }
    }

    /// The namespace of a work on the hub.
    pub fn namespace(self, work: usize) -> String {
        format!("bench-{:04}", work % self.clusters)
    }

    /// The file of a work.
    pub fn path(self, work: usize) -> String {
        format!("clusters/{}/{}/manifests.yaml", self.namespace(work), name(work))
    }

    /// Creates the namespaces that there are not yet.
    pub async fn create_namespaces(self, hub: &Cluster) {
        let existing = kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(hub.client());
        let existing = existing.list_metadata(&Default::default()).await.unwrap().items;
        let exists =
            |name: &String| existing.iter().any(|one| one.metadata.name.as_ref() == Some(name));
        let names = (0..self.clusters).map(|cluster| self.namespace(cluster));
        let missing: Vec<String> = names.filter(|name| !exists(name)).collect();
        stream::iter(&missing)
            .map(|name| hub.create_namespace(name))
            .buffer_unordered(CONCURRENCY)
            .for_each(async |()| {})
            .await;
    }

    /// A repository with all works in one commit. `prefix`: before the name of each work.
    pub fn repository(self, folder: &Path, name: &str, prefix: &str) -> Repo {
        let repo = Repo::create(&folder.join(name));
        let place = |work| self.path(work).replace("/work-", &format!("/{prefix}work-"));
        let files: Vec<(String, String)> =
            (0..self.works).map(|work| (place(work), file(work, "first"))).collect();
        let files: Vec<(&str, Option<&str>)> =
            files.iter().map(|(path, text)| (path.as_str(), Some(text.as_str()))).collect();
        repo.commit("main", &files);
        repo
    }
}

/// The name of a work.
pub fn name(work: usize) -> String {
    format!("work-{work:06}")
}

/// Three manifests, 2 KiB in all.
pub fn manifests(work: usize, text: &str) -> Vec<Value> {
    let filler = format!("{work:06}{text}").repeat(60);
    let filler: String = filler.chars().take(480).collect();
    (0..3)
        .map(|part| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": format!("{}-{part}", name(work)), "namespace": "default" },
                "data": { "filler": filler, "part": part.to_string() },
            })
        })
        .collect()
}

/// The text of a work's file.
pub fn file(work: usize, text: &str) -> String {
    manifests(work, text).iter().map(|manifest| format!("---\n{manifest}\n")).collect()
}
