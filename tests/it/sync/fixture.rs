//! One source and its clusters: a repository on a Git server, cluster namespaces on the shared hub,
//! and the engine between them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use gitwork_api::work::ManifestWork;
use gitwork_core::config::tenancy::Tenancy;
use gitwork_core::model::name::{CommitId, RepoPath, SourceId};
use gitwork_daemon::engine::{Engine, EngineError, EngineOptions};
use gitwork_daemon::metrics::Metrics;
use gitwork_daemon::status_publisher::Reachability;
use gitwork_forge::reporter::StatusFeed;
use gitwork_git::{Auth, Mirrors, Reference, Remote};
use gitwork_hub::execute::ExecuteOptions;
use gitwork_hub::{Hub, KubeHub};
use gitwork_source::{Source, SourceConfig, SourceLocation, Sources};
use gitwork_sync::guards::GuardOptions;
use jiff::Timestamp;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::git_server::{GitServer, Repo};
use crate::harness::{self, Cluster, eventually};

/// The agent's finalizer (OCM work agent).
pub const FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// A source of its own on the shared hub.
pub struct Sync {
    pub hub: &'static Cluster,
    pub repo: Repo,
    pub server: GitServer,
    pub clusters: Vec<String>,
    pub id: SourceId,
    pub folder: TempDir,
    /// The operator's policy.
    pub tenancy: Tenancy,
}

/// A running engine.
pub struct Running {
    hint: mpsc::Sender<()>,
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<(), EngineError>>,
}

/// A ConfigMap manifest.
pub fn config_map(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: \
            default\ndata:\n  value: {value:?}\n"
    )
}

impl Sync {
    /// A repository without a commit, and `clusters` empty cluster namespaces.
    pub async fn new(clusters: usize) -> Self {
        let hub = harness::hub().await;
        let folder = tempfile::tempdir().unwrap();
        let repo = Repo::create(&folder.path().join("fleet.git"));
        let server = GitServer::http(folder.path()).start();
        let mut names = Vec::new();
        for _ in 0..clusters {
            names.push(hub.namespace("sync").await);
        }
        let id = SourceId::parse(&format!("fleet-{}", names.first().unwrap())).unwrap();
        Self { hub, repo, server, clusters: names, id, folder, tenancy: Tenancy::default() }
    }

    /// The path of a file of work `work` on the cluster of that index.
    pub fn path(&self, cluster: usize, file: &str) -> String {
        format!("clusters/{}/{file}", self.clusters[cluster])
    }

    /// Commits files of works, named by cluster index and path below the cluster's folder.
    pub fn commit(&self, files: &[(usize, &str, Option<&str>)]) -> CommitId {
        let paths: Vec<(String, Option<&str>)> =
            files.iter().map(|(cluster, file, text)| (self.path(*cluster, file), *text)).collect();
        let paths: Vec<(&str, Option<&str>)> =
            paths.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        self.repo.commit("main", &paths)
    }

    pub fn source(&self) -> Source {
        self.source_of(Reference::Branch("main".into()), Auth::None)
    }

    pub fn source_of(&self, reference: Reference, auth: Auth) -> Source {
        let cache = tempfile::tempdir_in(self.folder.path()).unwrap().keep();
        self.source_in(cache, &self.id, reference, auth)
    }

    /// A source of this id on the machine that has this cache.
    pub fn source_in(
        &self,
        cache: PathBuf,
        id: &SourceId,
        reference: Reference,
        auth: Auth,
    ) -> Source {
        let remote = Remote {
            url: self.server.url("fleet.git"),
            auth,
            ca_bundle: None,
            client_certificate: None,
            proxy: None,
        };
        let repository = SourceLocation::Git { remote: Box::new(remote), reference, cache };
        let config = SourceConfig {
            id: id.clone(),
            repository,
            path: RepoPath::root(),
            tenancy: self.tenancy.clone(),
            schema_checks: Default::default(),
            content_bytes_max: gitwork_core::limits::CONTENT_BYTES_MAX,
            facts: None,
        };
        Sources::new(Mirrors::default(), Timestamp::now).open_to_sync(config).unwrap()
    }

    pub fn options(&self) -> EngineOptions {
        EngineOptions {
            // Tests give hints; the timer is for what they do not think of.
            interval: Duration::from_secs(3_600),
            guards: GuardOptions::default(),
            execute: ExecuteOptions::default(),
        }
    }

    pub fn engine(&self, hub: Arc<dyn Hub>, source: Source) -> Engine {
        self.engine_with(hub, source, self.options())
    }

    pub fn engine_with(&self, hub: Arc<dyn Hub>, source: Source, options: EngineOptions) -> Engine {
        Engine::new(hub, source, options, Arc::new(Metrics::default()))
    }

    /// Starts the engine with the admin's client.
    pub fn start(&self) -> Running {
        self.start_with(Arc::new(KubeHub::new(self.hub.client())))
    }

    pub fn start_with(&self, hub: Arc<dyn Hub>) -> Running {
        Running::of(self.engine(hub, self.source()))
    }

    /// Starts the engine with a subscriber to its status.
    pub fn start_publishing(&self, reach: Reachability) -> (Running, StatusFeed, SourceConfig) {
        let source = self.source();
        let config = source.config().clone();
        let mut engine = self.engine(Arc::new(KubeHub::new(self.hub.client())), source);
        let feed = engine.publish_status(reach);
        (Running::of(engine), feed, config)
    }

    pub fn works(&self, cluster: usize) -> Api<ManifestWork> {
        works(self.hub.client(), &self.clusters[cluster])
    }

    /// Waits until the work is as `probe` wants it.
    pub async fn until<T>(
        &self,
        cluster: usize,
        name: &str,
        probe: impl Fn(Option<ManifestWork>) -> Result<T, String>,
    ) -> T {
        let api = self.works(cluster);
        let what = format!("{}/{name}", self.clusters[cluster]);
        eventually(&what, Duration::from_secs(300), || async {
            probe(api.get_opt(name).await.map_err(|error| error.to_string())?)
        })
        .await
        .unwrap()
    }

    pub async fn until_there(&self, cluster: usize, name: &str) -> ManifestWork {
        self.until(cluster, name, |work| work.ok_or_else(|| "it is not there".into())).await
    }

    pub async fn until_gone(&self, cluster: usize, name: &str) {
        let state = |work: ManifestWork| {
            let ManifestWork { metadata, status, .. } = work;
            format!("it is there: {metadata:?}, {status:?}")
        };
        self.until(cluster, name, |work| work.map_or(Ok(()), |work| Err(state(work)))).await;
    }

    /// Waits until the value of the ConfigMap in the work is this one.
    pub async fn until_value(&self, cluster: usize, name: &str, value: &str) -> ManifestWork {
        self.until(cluster, name, |work| {
            let work = work.ok_or("it is not there")?;
            let there = value_of(&work);
            if there.as_deref() == Some(value) {
                Ok(work)
            } else {
                Err(format!("it has {there:?}"))
            }
        })
        .await
    }

    /// Changes a work as another client.
    pub async fn edit(&self, cluster: usize, name: &str, patch: Value) -> ManifestWork {
        let params = PatchParams::default();
        self.works(cluster).patch(name, &params, &Patch::Merge(patch)).await.unwrap()
    }

    /// Does what an agent does at first sight: puts its finalizer on the work.
    pub async fn agent_takes(&self, cluster: usize, name: &str) {
        self.edit(cluster, name, json!({ "metadata": { "finalizers": [FINALIZER] } })).await;
    }

    /// Does what an agent does after applying: reports the generation as applied.
    pub async fn agent_applies(&self, cluster: usize, name: &str) {
        let generation = self.until_there(cluster, name).await.metadata.generation;
        let status = json!({ "status": { "conditions": [{
            "type": "Applied", "status": "True", "observedGeneration": generation,
            "reason": "AppliedManifestWorkComplete", "message": "Apply manifest work complete",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }] } });
        let params = PatchParams::default();
        self.works(cluster).patch_status(name, &params, &Patch::Merge(status)).await.unwrap();
    }

    /// Does what an agent does at the end of a deletion: takes its finalizer off.
    pub async fn agent_lets_go(&self, cluster: usize, name: &str) {
        self.edit(cluster, name, json!({ "metadata": { "finalizers": null } })).await;
    }

    pub async fn delete(&self, cluster: usize, name: &str) {
        self.works(cluster).delete(name, &DeleteParams::default()).await.unwrap();
    }
}

impl Running {
    /// Starts an engine.
    pub fn of(engine: Engine) -> Self {
        let (hint, hints) = mpsc::channel(1);
        let (stop, stopped) = watch::channel(false);
        Self { hint, stop, task: tokio::spawn(engine.run(hints, stopped)) }
    }

    /// Has the engine fetch now.
    pub fn hint(&self) {
        // A full channel means that a hint is waiting already.
        let _sent = self.hint.try_send(());
    }

    /// Stops the engine and waits for its end.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        tokio::time::timeout(Duration::from_secs(60), self.task).await.unwrap().unwrap().unwrap();
    }
}

pub fn works(client: Client, cluster: &str) -> Api<ManifestWork> {
    Api::namespaced(client, cluster)
}

/// The value of the first manifest of a work, a ConfigMap.
pub fn value_of(work: &ManifestWork) -> Option<String> {
    let work = serde_json::to_value(work).unwrap();
    work.pointer("/spec/workload/manifests/0/data/value").and_then(Value::as_str).map(str::to_owned)
}

pub fn delete_option(work: &ManifestWork) -> Option<String> {
    let work = serde_json::to_value(work).unwrap();
    let policy = work.pointer("/spec/deleteOption/propagationPolicy").and_then(Value::as_str);
    policy.map(str::to_owned)
}

pub fn annotation<'a>(work: &'a ManifestWork, name: &str) -> Option<&'a str> {
    work.annotations().get(name).map(String::as_str)
}
