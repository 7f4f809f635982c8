//! One source with one cluster, two daemons of it, and the watched objects on the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use gitwork_core::model::name::CommitId;
use gitwork_core::model::work::ANNOTATION_COMMIT;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::layout::{Layout, WorkLayout};
use super::objects::{Object, ObjectNames};
use super::watch::Watch;
use crate::forge::daemon::Daemon;
use crate::harness::{Cluster, eventually};
use crate::leader_election::{accounts, config, leads};
use crate::ocm_agent::world::condition_of;
use crate::sync::fixture::Sync;

/// Far beyond what a round takes on an idle machine.
pub const DEADLINE: Duration = Duration::from_secs(300);

const NAMES: [&str; 2] = ["first", "second"];

/// Whether a work on the hub keeps an object for another work, or is being deleted.
fn is_giving(work: &Value) -> bool {
    !work["spec"]["manifestConfigs"].is_null() || !work["metadata"]["deletionTimestamp"].is_null()
}

pub struct Stage {
    sync: Sync,
    cluster: Client,
    place: ObjectNames,
    accounts: [PathBuf; 2],
    /// The leader first, unless another one took over.
    daemons: [Option<Daemon>; 2],
    layout: Layout,
    content: String,
    files: BTreeSet<String>,
    watch: Option<Watch>,
    /// The uid of an object in the namespace that moves.
    inside: Option<String>,
}

impl Stage {
    /// Starts with every object in one work, and applied.
    pub async fn start(cluster_name: &str, namespace: &str, managed: &Cluster) -> Self {
        let mut sync = Sync::new(1).await;
        sync.clusters = vec![cluster_name.to_owned()];
        let accounts = accounts(&sync).await;
        let mut stage = Self {
            sync,
            cluster: managed.client(),
            place: ObjectNames { namespace: namespace.to_owned() },
            accounts,
            daemons: [None, None],
            layout: Layout::new(),
            content: String::new(),
            files: BTreeSet::new(),
            watch: None,
            inside: None,
        };
        let all = WorkLayout { objects: Object::ALL.into(), orphans: false };
        stage.commit([("shop".to_owned(), all)].into(), "start");
        for daemon in 0..2 {
            stage.start_daemon(daemon);
        }
        stage.until_as_in_git("start").await;
        stage.inside = Some(stage.create_inside().await);
        stage.watch = Some(Watch::start(&stage.cluster, &stage.place, &Object::ALL).await);
        stage
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    fn start_daemon(&mut self, index: usize) {
        let (name, account) = (NAMES[index], &self.accounts[index]);
        let mut config = config(&self.sync);
        config["page"] = json!({"bind": "127.0.0.1:0"});
        self.daemons[index] = Some(Daemon::start_as(&self.sync, name, account, &config));
    }

    /// Commits these works and has the daemons fetch them.
    pub fn commit(&mut self, layout: Layout, content: &str) -> CommitId {
        let mut files: BTreeMap<String, String> = BTreeMap::new();
        for (work, WorkLayout { objects, orphans }) in &layout {
            for object in objects {
                let file = format!("{work}/{object:?}.yaml").to_lowercase();
                files.insert(file, self.place.manifest(*object, content).to_string());
            }
            if *orphans {
                let option = json!({"deleteOption": {"propagationPolicy": "Orphan"}});
                files.insert(format!("{work}/work.yaml"), option.to_string());
            }
        }
        let gone = self.files.iter().filter(|file| !files.contains_key(*file));
        let mut changes: Vec<(usize, &str, Option<&str>)> =
            gone.map(|file| (0, file.as_str(), None)).collect();
        changes.extend(files.iter().map(|(file, text)| (0, file.as_str(), Some(text.as_str()))));
        let commit = self.sync.commit(&changes);
        self.files = files.into_keys().collect();
        (self.layout, self.content) = (layout, content.to_owned());
        for daemon in self.daemons.iter().flatten() {
            daemon.hang_up();
        }
        commit
    }

    /// Waits until a work on the hub has the content of this commit.
    pub async fn until_written(&self, commit: CommitId) {
        let works = self.sync.works(0);
        eventually(&format!("{commit} on the hub"), DEADLINE, || async {
            let all = works.list(&ListParams::default()).await.map_err(|e| e.to_string())?;
            let commits = all.items.iter().map(|work| work.annotations().get(ANNOTATION_COMMIT));
            let commits: Vec<_> = commits.flatten().cloned().collect();
            let is_there = commits.contains(&commit.to_string());
            if is_there { Ok(()) } else { Err(format!("{commits:?}")) }
        })
        .await
        .unwrap();
    }

    /// Waits until a work on the hub keeps an object for another work or is being deleted, and
    /// gives true; or until every work has the content of Git.
    pub async fn until_moving(&self) -> bool {
        eventually("a move on the hub", DEADLINE, || async {
            let works = self.works_on_hub().await?;
            if works.values().any(is_giving) {
                return Ok(true);
            }
            let is_done = works.keys().eq(self.layout.keys())
                && works.iter().all(|(name, work)| self.has_content_of_git(name, work));
            if is_done { Ok(false) } else { Err(format!("{works:?}")) }
        })
        .await
        .unwrap()
    }

    /// Whether a work on the hub keeps an object for another work or is being deleted.
    pub async fn is_moving(&self) -> bool {
        self.works_on_hub().await.unwrap().values().any(is_giving)
    }

    pub fn sync(&self) -> &Sync {
        &self.sync
    }

    /// The status page of the leader.
    pub async fn page(&self) -> SocketAddr {
        let leader = self.daemons[self.leader().await].as_ref().unwrap();
        leader.address("listening for browsers").await
    }

    async fn leader(&self) -> usize {
        eventually("a leader", DEADLINE, || async {
            for (index, daemon) in self.daemons.iter().enumerate() {
                let daemon = daemon.as_ref().unwrap();
                if daemon.metric(&leads(&self.sync)).await == Some(1.0) {
                    return Ok(index);
                }
            }
            Err("nobody leads".to_owned())
        })
        .await
        .unwrap()
    }

    /// Kills the leader and starts it again.
    pub async fn restart_leader(&mut self) {
        let leader = self.leader().await;
        self.daemons[leader] = None;
        self.start_daemon(leader);
    }

    /// Ends the leader, so that the other daemon leads, and starts it again.
    pub async fn change_leader(&mut self) {
        let leader = self.leader().await;
        assert_eq!(self.daemons[leader].take().unwrap().terminate().await, Some(0));
        eventually("the other daemon to lead", DEADLINE, || async {
            let other = self.daemons[1 - leader].as_ref().unwrap();
            let leads = other.metric(&leads(&self.sync)).await;
            if leads == Some(1.0) { Ok(()) } else { Err(format!("{leads:?}")) }
        })
        .await
        .unwrap();
        self.start_daemon(leader);
    }

    /// Waits until the hub and the cluster are as Git, and checks what the watch has seen.
    pub async fn until_as_in_git(&self, when: &str) {
        eventually(&format!("{when}: the hub to be as Git"), DEADLINE, || self.compare_hub())
            .await
            .unwrap();
        eventually(&format!("{when}: the owners to be the works"), DEADLINE, || {
            self.compare_owners()
        })
        .await
        .unwrap();
        if let Some(watch) = &self.watch {
            let contents = Object::ALL.map(|object| (object, self.content.clone()));
            watch.until_seen(&contents.into(), when).await;
        }
    }

    async fn works_on_hub(&self) -> Result<BTreeMap<String, Value>, String> {
        let works = self.sync.works(0).list(&ListParams::default()).await;
        let works = works.map_err(|error| error.to_string())?.items.into_iter();
        Ok(works.map(|work| (work.name_any(), serde_json::to_value(work).unwrap())).collect())
    }

    /// Whether a work of Git has exactly its objects, with their content.
    fn has_content_of_git(&self, name: &str, work: &Value) -> bool {
        let manifests = work["spec"]["workload"]["manifests"].as_array().unwrap();
        let objects = self.layout[name].objects.iter();
        let wanted: Vec<Value> =
            objects.map(|one| self.place.manifest(*one, &self.content)).collect();
        manifests.len() == wanted.len()
            && wanted.iter().all(|manifest| manifests.contains(manifest))
    }

    async fn compare_hub(&self) -> Result<(), String> {
        let works = self.works_on_hub().await?;
        if !works.keys().eq(self.layout.keys()) {
            return Err(format!("{:?}, not {:?}", works.keys(), self.layout.keys()));
        }
        for (name, work) in &works {
            let applied = condition_of(&work["status"]["conditions"], "Applied");
            let is_applied = applied["status"] == "True"
                && applied["observedGeneration"] == work["metadata"]["generation"];
            let is_plain = work["spec"].get("manifestConfigs").is_none();
            if !self.has_content_of_git(name, work) || !is_applied || !is_plain {
                return Err(format!("{name} is not done: {work}"));
            }
        }
        Ok(())
    }

    /// Each object is owned by its work alone, or by none if that orphans it.
    async fn compare_owners(&self) -> Result<(), String> {
        for (work, WorkLayout { objects, orphans }) in &self.layout {
            for object in objects {
                let api = self.place.api(&self.cluster, *object);
                let live = api.get(&self.place.name(*object)).await.map_err(|e| e.to_string())?;
                let owners = live.owner_references().iter().map(|owner| owner.name.clone());
                let owners: Vec<String> = owners.collect();
                let is_right = match owners.as_slice() {
                    [] => *orphans,
                    [owner] => !orphans && owner.ends_with(&format!("-{work}")),
                    _ => false,
                };
                if !is_right {
                    return Err(format!("{object:?} of {work} is owned by {owners:?}"));
                }
            }
        }
        Ok(())
    }

    fn config_maps_inside(&self) -> Api<ConfigMap> {
        Api::namespaced(self.cluster.clone(), &self.place.inner())
    }

    async fn create_inside(&self) -> String {
        let mut inside = ConfigMap::default();
        inside.metadata.name = Some("inside".to_owned());
        let created = self.config_maps_inside().create(&PostParams::default(), &inside).await;
        created.unwrap().uid().unwrap()
    }

    /// Checks the content of the namespace, and ends the daemons.
    pub async fn end(mut self) {
        let inside = self.config_maps_inside().get("inside").await.unwrap();
        assert_eq!(inside.uid(), self.inside);
        for daemon in &mut self.daemons {
            assert_eq!(daemon.take().unwrap().terminate().await, Some(0));
        }
    }
}
