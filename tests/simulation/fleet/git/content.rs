//! The intended content of a commit, and its files.

use std::collections::BTreeSet;

use gitwork_core::config::Budgets;
use gitwork_core::model::approval::Approval;
use gitwork_core::model::name::{ClusterName, WorkKey};
use gitwork_core::model::work::DeletionPolicy;
use serde_json::{Value, json};

use crate::agents::Object;
use crate::fleet::machine_clock::DailyHours;
use crate::git_work::{GitObject, GitWork, Works, manifest, works_with};
use crate::key;
use crate::world::{CLUSTERS, WORKS};

/// The intended content of one commit.
#[derive(Debug, Clone, Default)]
pub struct CommitContent {
    pub works: Works,
    /// Works without a readable manifest, and works with an unreadable file beside readable ones.
    pub broken: BTreeSet<WorkKey>,
    pub broken_beside: BTreeSet<WorkKey>,
    /// Clusters or the whole source with an unreadable file.
    pub broken_clusters: BTreeSet<ClusterName>,
    pub broken_source: bool,
    /// Works that are larger than the hub's limit.
    pub huge: BTreeSet<WorkKey>,
    pub budgets: Budgets,
    /// The hours in which changes may be made.
    pub hours: DailyHours,
    pub approved: Vec<Approval>,
}

fn source_file(CommitContent { budgets, hours, .. }: &CommitContent) -> String {
    let mut fields = serde_json::Map::new();
    for (name, set) in
        [("works", budgets.works), ("percent", budgets.percent), ("cluster", budgets.cluster)]
    {
        fields.extend(set.map(|number| (name.to_owned(), json!(number))));
    }
    json!({ "budgets": fields, "windows": hours.to_value() }).to_string()
}

fn work_file(work: &GitWork) -> Option<String> {
    let mut fields = serde_json::Map::new();
    if !work.labels.is_empty() {
        fields.insert("labels".into(), json!(work.labels));
    }
    if work.delete_option != DeletionPolicy::Foreground {
        fields.insert("deleteOption".into(), work.delete_option.to_value(None));
    }
    if !work.prune {
        fields.insert("prune".into(), false.into());
    }
    if work.suspend {
        fields.insert("suspend".into(), true.into());
    }
    (!fields.is_empty()).then(|| Value::Object(fields).to_string())
}

fn describe_object((name, object): (&String, &GitObject)) -> String {
    let strategy = object.strategy.map_or(String::new(), |strategy| format!(":{strategy}"));
    format!("{name}{strategy}{}", if object.orphan { ":orphan" } else { "" })
}

impl CommitContent {
    /// Every work that a world may have.
    pub fn all() -> Self {
        let keys = CLUSTERS.into_iter().flat_map(|cluster| WORKS.map(|work| key(cluster, work)));
        let works = keys.map(|key| (key.clone(), GitWork::of(&key)));
        Self { works: works.collect(), ..Self::default() }
    }

    /// The files of one work.
    pub(super) fn work_files(&self, key: &WorkKey, work: &GitWork) -> Vec<(String, String)> {
        let mut files = Vec::new();
        for (name, object) in &work.objects {
            let mut text = work.manifest(name).to_string();
            if self.broken.contains(key) {
                text.pop();
            } else if self.huge.contains(key) {
                let filler = "x".repeat(620 * 1024 / work.objects.len());
                text = manifest(name, &filler).to_string();
            }
            files.push((format!("{name}.json"), text));
            let sidecar = GitWork::sidecar(object);
            files.extend(sidecar.map(|text| (format!("{name}.config.yaml"), text.to_string())));
        }
        if self.broken_beside.contains(key) {
            files.push(("unreadable.json".into(), "{".into()));
        }
        files.extend(work_file(work).map(|text| ("work.yaml".into(), text)));
        files
    }

    pub(super) fn source_file(&self) -> String {
        if self.broken_source { "budgets: [".into() } else { source_file(self) }
    }

    /// The works, for a trace.
    pub fn describe(&self) -> String {
        let works = self.works.iter().map(|(key, work)| {
            let how = if self.freezes(key) { " (unreadable)" } else { "" };
            let prune = if work.prune { "" } else { " (not pruned)" };
            let suspend = if work.suspend { " (suspended)" } else { "" };
            let objects: Vec<String> = work.objects.iter().map(describe_object).collect();
            let option = work.delete_option.policy();
            format!("{key}{how}{prune}{suspend} {option} [{}]", objects.join(" "))
        });
        works.collect::<Vec<_>>().join(", ")
    }

    /// Whether the commit's content of a work cannot be read.
    pub fn freezes(&self, key: &WorkKey) -> bool {
        self.broken_source
            || self.broken_clusters.contains(&key.cluster)
            || (self.works.contains_key(key) && (self.has_error(key) || self.shares_object(key)))
    }

    /// Whether the work has an error in its own files.
    fn has_error(&self, key: &WorkKey) -> bool {
        [&self.broken, &self.broken_beside, &self.huge].iter().any(|all| all.contains(key))
    }

    /// Whether another work of the cluster has the same object, which is an error of both. The
    /// objects of a work with an error of its own do not count, even if they can be read.
    fn shares_object(&self, key: &WorkKey) -> bool {
        let Some(work) = self.works.get(key) else { return false };
        let others = self.works.iter().filter(|(other, _)| {
            other.cluster == key.cluster && *other != key && !self.has_error(other)
        });
        let mut names = others.flat_map(|(_, other)| other.objects.keys());
        names.any(|name| work.objects.contains_key(name))
    }

    /// The work, if the commit has it and it is readable.
    pub fn readable(&self, key: &WorkKey) -> Option<&GitWork> {
        self.works.get(key).filter(|_| !self.freezes(key))
    }

    pub fn fix_all(&mut self) {
        self.broken.clear();
        self.broken_beside.clear();
        self.broken_clusters.clear();
        self.broken_source = false;
        self.huge.clear();
        self.works.values_mut().for_each(|work| work.suspend = false);
        let mut found: BTreeSet<(ClusterName, String)> = BTreeSet::new();
        for (key, work) in &mut self.works {
            work.objects.retain(|name, _| found.insert((key.cluster.clone(), name.clone())));
        }
        self.works.retain(|_, work| !work.objects.is_empty());
    }

    /// Forgets the damage of works that are gone.
    pub fn forget_removed(&mut self) {
        let works = &self.works;
        for damaged in [&mut self.broken, &mut self.broken_beside, &mut self.huge] {
            damaged.retain(|key| works.contains_key(key));
        }
    }

    /// Whether a work of the cluster has the object, readable or not.
    pub fn has_object(&self, (cluster, id): &Object) -> bool {
        works_with(&self.works, cluster, id).next().is_some()
    }
}
