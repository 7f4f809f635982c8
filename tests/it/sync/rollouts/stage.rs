//! A source whose group `tills` is on many clusters: two have real agents, the others simulated
//! ones.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use gitwork_api::cluster::ManagedCluster;
use gitwork_api::work::ManifestWork;
use gitwork_core::model::approval::{Approval, RolloutApproval, RolloutStep};
use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{CommitId, GroupName};
use gitwork_core::model::work::{ANNOTATION_GROUP_CONTENT, LABEL_SOURCE};
use gitwork_core::plan::record::Record;
use gitwork_core::plan::rollouts::GroupRecord;
use gitwork_hub::{Hub, KubeHub};
use gitwork_runtime::clock::WallClock;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::super::fixture::{Running, Sync, annotation, value_of};
use super::super::held_changes::config;
use super::simulated_agents::SimulatedAgents;
use crate::agent::fixture::Fixture;
use crate::cli::{code, err, out};
use crate::deploy;
use crate::forge::daemon::Daemon;
use crate::harness::eventually;
use crate::status_views::view;

pub const DEADLINE: Duration = Duration::from_secs(120);

/// The group and its only work.
pub const GROUP: &str = "tills";

/// Longer than the time in which health does not count after an update.
const AHEAD: SignedDuration = SignedDuration::from_secs(125);

pub struct Stage {
    /// Its clusters: first the simulated ones, then the two with real agents.
    pub sync: Sync,
    pub agents: Vec<Fixture<'static>>,
    pub simulated: SimulatedAgents,
    markers: AtomicU32,
}

/// A manifest of the work `tills`: its file and its text.
pub type ManifestFile<'a> = (&'a str, Option<String>);

/// A ConfigMap in the namespace that the cluster has for it.
pub fn config_map(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: \
         ${{NAMESPACE}}\ndata:\n  value: {value}\n"
    )
}

/// The content that a cluster has, by one of its works.
pub async fn content(sync: &Sync, cluster: usize, work: &str) -> Digest {
    let work = sync.until_there(cluster, work).await;
    Digest::parse(annotation(&work, ANNOTATION_GROUP_CONTENT).unwrap()).unwrap()
}

/// Approves a wave of a group's content in Git.
pub fn approve_in_git(sync: &Sync, content: Digest, group: &str, wave: &str) {
    let (group, step) = (GroupName::parse(group).unwrap(), RolloutStep::Wave(wave.into()));
    let step = RolloutApproval { group, content, step };
    let approval = Approval::Rollout { source: sync.id.clone(), step };
    let (path, text) = (format!("approvals/{}", approval.hash()), approval.text());
    sync.repo.commit("main", &[(path.as_str(), Some(text.as_str()))]);
}

/// The record of a source, once it is there.
pub async fn source_record(sync: &Sync) -> Record {
    let hub = KubeHub::new(sync.hub.client());
    hub.record(&sync.id).await.unwrap().map(|found| found.record).unwrap_or_default()
}

impl Stage {
    /// So many simulated clusters, and two with real agents.
    pub async fn new(simulated: usize) -> Self {
        // Its namespace has the record.
        deploy::installed().await;
        let mut sync = Sync::new(simulated).await;
        let client = sync.hub.client();
        let mut agents = vec![Fixture::start().await, Fixture::start().await];
        // Within a wave, clusters come in the order of their names.
        agents.sort_by(|one, other| one.cluster_name.cmp(&other.cluster_name));
        let simulated = SimulatedAgents::start(client, sync.id.as_str(), &sync.clusters);
        sync.clusters.extend(agents.iter().map(|agent| agent.cluster_name.clone()));
        let stage = Self { sync, agents, simulated, markers: AtomicU32::new(0) };
        for agent in 0..stage.agents.len() {
            stage.commit_cluster(agent, "");
        }
        stage
    }

    /// The position of a cluster with a real agent.
    pub fn real(&self, index: usize) -> usize {
        self.sync.clusters.len() - self.agents.len() + index
    }

    /// The positions of the clusters with real agents.
    pub fn reals(&self) -> Range<usize> {
        self.real(0)..self.sync.clusters.len()
    }

    pub fn name(&self, cluster: usize) -> &str {
        &self.sync.clusters[cluster]
    }

    /// The names of clusters, as a list in YAML.
    pub fn names(&self, clusters: impl IntoIterator<Item = usize>) -> String {
        let names: Vec<&str> = clusters.into_iter().map(|cluster| self.name(cluster)).collect();
        json!(names).to_string()
    }

    /// Commits the group with this `rollout`, for all clusters, and these files of its work.
    pub fn commit(&self, rollout: &str, value: &str, manifests: &[ManifestFile<'_>]) -> CommitId {
        let members = format!("clusters: {}\n", self.names(0..self.sync.clusters.len()));
        self.commit_for(&members, rollout, value, manifests)
    }

    /// The same for these members.
    pub fn commit_for(
        &self,
        members: &str,
        rollout: &str,
        value: &str,
        manifests: &[ManifestFile<'_>],
    ) -> CommitId {
        let group = format!(
            "{members}values: {{NAMESPACE: default, CPU: 1m, MAPS: 100}}\ndefaults: {{substitute: \
             true}}\nrollout: {rollout}\n"
        );
        // The first file by name, so that the value is the first manifest's.
        let folder = format!("groups/{GROUP}/{GROUP}");
        let mut files = BTreeMap::from([
            (format!("groups/{GROUP}/group.yaml"), Some(group)),
            (format!("{folder}/a.yaml"), Some(config_map("till", value))),
        ]);
        files.extend(
            manifests.iter().map(|(file, text)| (format!("{folder}/{file}"), text.clone())),
        );
        let files: Vec<(&str, Option<&str>)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_deref())).collect();
        self.sync.repo.commit("main", &files)
    }

    /// Commits the values of a real cluster: its namespace, and this one.
    pub fn commit_cluster(&self, agent: usize, value: &str) {
        let namespace = &self.agents[agent].namespace;
        let text = format!("values:\n  NAMESPACE: {namespace}\n  {value}\n");
        self.sync.commit(&[(self.real(agent), "cluster.yaml", Some(&text))]);
    }

    /// Creates the ManagedCluster of a cluster, with these labels and the source as `fleet`.
    pub async fn register(&self, cluster: usize, mut labels: Value) {
        labels["fleet"] = self.sync.id.as_str().into();
        let mut wanted = ManagedCluster::new(self.name(cluster), Default::default());
        wanted.metadata.labels = Some(serde_json::from_value(labels).unwrap());
        let clusters: Api<ManagedCluster> = Api::all(self.sync.hub.client());
        clusters.create(&PostParams::default(), &wanted).await.unwrap();
    }

    /// Changes labels of a ManagedCluster; null removes one.
    pub async fn label(&self, cluster: usize, labels: Value) {
        let clusters: Api<ManagedCluster> = Api::all(self.sync.hub.client());
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        clusters.patch(self.name(cluster), &PatchParams::default(), &patch).await.unwrap();
    }

    /// Starts an engine whose clock is ahead of the hub's and the agents': what agents say of the
    /// health of objects counts at once.
    pub fn start_ahead(&self) -> Running {
        let mut options = self.sync.options();
        options.interval = Duration::from_secs(1);
        let hub = Arc::new(KubeHub::new(self.sync.hub.client()));
        let mut engine = self.sync.engine_with(hub, self.sync.source(), options);
        engine.set_wall_clock(WallClock::new(|| Timestamp::now() + AHEAD));
        Running::of(engine)
    }

    /// Starts the program. It looks for commits each second, and takes decisions of Placements that
    /// have agreed for two.
    pub async fn start(&self) -> Daemon {
        let mut config = config(&self.sync, &json!({"intervalSeconds": 1}));
        config["placementGraceSeconds"] = 2.into();
        Daemon::start(&self.sync, &config).await
    }

    /// Waits until the engine has planned with all that Git and the hub say now.
    pub async fn until_planned(&self) {
        let number = self.markers.fetch_add(1, Ordering::Relaxed).to_string();
        let text = super::super::fixture::config_map("marker", &number);
        self.sync.commit(&[(0, "marker/cm.yaml", Some(&text))]);
        self.sync.until_value(0, "marker", &number).await;
    }

    /// The values of all clusters; `-` where the work is not there.
    pub async fn values(&self) -> Vec<String> {
        let works: Api<ManifestWork> = Api::all(self.sync.hub.client());
        let label = format!("{LABEL_SOURCE}={}", self.sync.id);
        let found = works.list(&ListParams::default().labels(&label)).await.unwrap();
        let of_group = found.items.into_iter().filter(|work| work.name_any() == GROUP);
        let of_group = of_group.filter_map(|work| Some((work.namespace()?, value_of(&work)?)));
        let values: BTreeMap<String, String> = of_group.collect();
        let value = |cluster| values.get(cluster).cloned().unwrap_or_else(|| "-".to_owned());
        self.sync.clusters.iter().map(value).collect()
    }

    /// The generation of the work on each cluster: it counts the writes that changed its spec.
    pub async fn generations(&self) -> Vec<i64> {
        let mut all = Vec::new();
        for cluster in 0..self.sync.clusters.len() {
            let work = self.sync.until_there(cluster, GROUP).await;
            all.push(work.metadata.generation.unwrap());
        }
        all
    }

    /// Waits until exactly these clusters have this value.
    pub async fn until_only(&self, value: &str, clusters: impl IntoIterator<Item = usize>) {
        let wanted: Vec<usize> = clusters.into_iter().collect();
        self.until(&format!("{value} on {wanted:?}"), || async {
            let values = self.values().await;
            let there = values.iter().enumerate().filter(|(_, one)| *one == value);
            let there: Vec<usize> = there.map(|(cluster, _)| cluster).collect();
            if there == wanted { Ok(()) } else { Err(format!("on {there:?}")) }
        })
        .await;
    }

    /// Waits until `probe` gives something. The message of a failure has the state of the rollout.
    pub async fn until<T, F>(&self, what: &str, probe: impl FnMut() -> F) -> T
    where
        F: Future<Output = Result<T, String>>,
    {
        match eventually(what, DEADLINE, probe).await {
            Ok(found) => found,
            Err(error) => panic!("{error:#}\n{}", self.describe().await),
        }
    }

    /// The values, the record and the reports of the real agents.
    async fn describe(&self) -> String {
        let mut text = format!("{:?}\n{:?}\n", self.values().await, self.record().await);
        let shown = view(&self.sync, &["rollout", "status"]).output().unwrap();
        text += &(out(&shown) + &err(&shown));
        for index in 0..self.agents.len() {
            let work = self.sync.works(self.real(index)).get_opt(GROUP).await.unwrap();
            text += &format!("{:?}\n", work.and_then(|work| work.status));
        }
        text
    }

    /// All clusters have this value.
    pub async fn until_all(&self, value: &str) {
        self.until_only(value, 0..self.sync.clusters.len()).await;
    }

    pub async fn record(&self) -> Option<GroupRecord> {
        source_record(&self.sync).await.rollouts.into_values().next()
    }

    /// Waits until a cluster has had exactly these values, one after the other.
    pub async fn until_history(&self, cluster: usize, values: &[&str]) {
        self.until(&format!("the history {values:?} of {cluster}"), || async {
            let there = self.simulated.history(self.name(cluster));
            if there == values { Ok(()) } else { Err(format!("{there:?}")) }
        })
        .await;
    }

    /// Waits until the record of the group is as `is_it` wants it.
    pub async fn until_recorded(
        &self,
        what: &str,
        is_it: impl Fn(&GroupRecord) -> bool,
    ) -> GroupRecord {
        self.until(what, || async {
            match self.record().await {
                Some(record) if is_it(&record) => Ok(record),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// Rolls a first content out to all clusters at once.
    pub async fn roll_out_first(&self, value: &str, manifests: &[ManifestFile<'_>]) {
        self.commit("{type: All}", value, manifests);
        self.until_good(value).await;
    }

    /// Waits until all clusters have this value, and it is the last good content.
    pub async fn until_good(&self, value: &str) {
        self.until_all(value).await;
        let content = self.content(0).await;
        self.until_recorded(&format!("{value} is good"), |record| {
            record.last_good == Some(content)
        })
        .await;
    }

    /// Waits until the content was stopped, and gives the clusters where it failed.
    pub async fn until_rejected(&self, wave: &str) -> Vec<String> {
        let is_rejected = |record: &GroupRecord| {
            record.rejected.as_ref().is_some_and(|rejected| rejected.wave == wave)
        };
        let record = self.until_recorded(&format!("rejected in {wave}"), is_rejected).await;
        let clusters = record.rejected.unwrap().clusters;
        clusters.iter().map(ToString::to_string).collect()
    }

    /// Waits until `gitwork rollout status` is as `is_it` wants it.
    pub async fn until_status(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let command = ["rollout", "status", GROUP, "-o", "json"];
        self.until(what, || async {
            let output = view(&self.sync, &command).output().unwrap();
            // A restored hub has no report before the first one.
            if code(&output) != Some(0) {
                return Err(err(&output));
            }
            let all: Value = serde_json::from_slice(&output.stdout).unwrap();
            if is_it(&all[0]) { Ok(all[0].clone()) } else { Err(all.to_string()) }
        })
        .await
    }

    /// The content that a cluster has.
    pub async fn content(&self, cluster: usize) -> Digest {
        content(&self.sync, cluster, GROUP).await
    }

    /// Approves a wave, in Git, of the content that this cluster has.
    pub async fn approve_in_git(&self, cluster: usize, wave: &str) {
        approve_in_git(&self.sync, self.content(cluster).await, GROUP, wave);
    }

    /// Waits until an object on a real cluster is as `read` wants it.
    pub async fn on_cluster<T>(
        &self,
        (agent, api_version, kind, name): (usize, &str, &str, &str),
        read: impl Fn(&DynamicObject) -> Result<T, String>,
    ) -> T {
        let objects = self.agents[agent].objects(api_version, kind);
        self.until(&format!("{kind} {name}"), || async {
            let found = objects.get_opt(name).await.map_err(|error| error.to_string())?;
            read(&found.ok_or("it is not there")?)
        })
        .await
    }

    /// Waits until a ConfigMap on a real cluster has this value, and gives its uid.
    pub async fn until_map(&self, agent: usize, name: &str, value: &str) -> String {
        let is_it = |map: &DynamicObject| {
            if map.data["data"]["value"] == value && map.metadata.deletion_timestamp.is_none() {
                Ok(map.uid().unwrap())
            } else {
                Err(map.data.to_string())
            }
        };
        self.on_cluster((agent, "v1", "ConfigMap", name), is_it).await
    }
}
