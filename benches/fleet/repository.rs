//! The repositories that the benchmark syncs: works with three manifests, 2 KiB in all.

use std::path::Path;
use std::process::Command;

use futures::stream::{self, StreamExt};
use gitwork_core::model::digest::Digest;
use serde_json::{Value, json};

use super::CONCURRENCY;
use super::fast_import::FastImport;
use super::harness::Cluster;
use super::harness::git_server::Repo;

/// How many works there are, on how many clusters.
#[derive(Clone, Copy)]
pub struct Layout {
    pub works: usize,
    pub clusters: usize,
    /// Each cluster has the same works. Otherwise no two works have the same content.
    pub is_equal: bool,
}

impl Layout {
    /// 100 works to a cluster.
    pub fn of(works: usize, is_equal: bool) -> Self {
        Self { works, clusters: works / 100, is_equal }
    }

    /// At least 100 clusters, as many as a new fleet may have.
    pub fn of_first(works: usize) -> Self {
        Self { works, clusters: (works / 100).max(100), is_equal: false }
    }

    /// The namespace of a work on the hub.
    pub fn namespace(self, work: usize) -> String {
        format!("bench-{:04}", work % self.clusters)
    }

    /// The name of a work.
    pub fn name(self, work: usize) -> String {
        name(work / self.clusters)
    }

    /// The path of the file of a work.
    pub fn path(self, work: usize) -> String {
        format!("clusters/{}/{}/manifests.yaml", self.namespace(work), self.name(work))
    }

    /// The manifests of a work.
    pub fn manifests(self, work: usize, text: &str) -> Vec<Value> {
        let of_cluster = work / self.clusters;
        let content = if self.is_equal { of_cluster } else { work };
        manifests(of_cluster, &format!("{content:06}{text}"))
    }

    /// The text of the file of a work.
    pub fn file(self, work: usize, text: &str) -> String {
        text_of(&self.manifests(work, text))
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
    ///
    /// It never has loose objects: after the deletion of many, ext4 would take milliseconds for
    /// each new file of the mirror.
    pub fn repository(self, folder: &Path, name: &str, prefix: &str) -> Repo {
        let repo = Repo::create(&folder.join(name));
        let mut import = FastImport::start(repo.path());
        import.commit();
        for work in 0..self.works {
            let path = self.path(work).replace("/work-", &format!("/{prefix}work-"));
            import.file(&path, &self.file(work, "first"));
        }
        import.end();
        let mut repack = Command::new("git");
        repack.arg("-C").arg(repo.path()).args(["repack", "-adfq"]);
        assert!(repack.status().unwrap().success());
        repo
    }
}

fn name(number: usize) -> String {
    format!("work-{number:03}")
}

/// Three manifests, 2 KiB in all. `number`: of their names. They become as small by compression as
/// usual manifests of this size do, to three tenths.
pub fn manifests(number: usize, text: &str) -> Vec<Value> {
    let hex = (0..8).map(|part| Digest::of(format!("{text}{part}").as_bytes()).to_string());
    let filler: String = std::iter::once(text.to_owned()).chain(hex).collect();
    let filler: String = filler.chars().take(480).collect();
    (0..3)
        .map(|part| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": format!("{}-{part}", name(number)), "namespace": "default" },
                "data": { "filler": filler, "part": part.to_string() },
            })
        })
        .collect()
}

/// The text of a file with these manifests.
pub fn text_of(manifests: &[Value]) -> String {
    let text = |manifest| serde_yaml::to_string(manifest).unwrap();
    manifests.iter().map(|manifest| format!("---\n{}", text(manifest))).collect()
}
