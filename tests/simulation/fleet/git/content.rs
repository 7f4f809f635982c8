//! The intended content of a commit, and its files.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_core::config::Budgets;
use gitwork_core::model::approval::Approval;
use gitwork_core::model::name::{ClusterName, WorkKey};
use gitwork_core::model::work::DeletionPolicy;
use serde_json::{Value, json};

use crate::simulation::fleet::machine_clock::DailyHours;
use crate::simulation::key;
use crate::simulation::world::{CLUSTERS, GitWork, WORKS, manifest};

/// The intended content of one commit.
#[derive(Debug, Clone, Default)]
pub struct CommitContent {
    pub works: BTreeMap<WorkKey, GitWork>,
    /// Works, clusters or the whole source with an unreadable file.
    pub broken: BTreeSet<WorkKey>,
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

/// The manifests of a work, in render order.
pub fn manifests(key: &WorkKey, work: &GitWork) -> Vec<Value> {
    work.objects.iter().map(|name| manifest(key, name, &work.text)).collect()
}

impl CommitContent {
    /// Every work that a world may have.
    pub fn all() -> Self {
        let keys = CLUSTERS.into_iter().flat_map(|cluster| WORKS.map(|work| key(cluster, work)));
        Self { works: keys.map(|key| (key, GitWork::default())).collect(), ..Self::default() }
    }

    /// The files of one work.
    pub(super) fn work_files(&self, key: &WorkKey, work: &GitWork) -> Vec<(String, String)> {
        let mut files = Vec::new();
        for (name, manifest) in work.objects.iter().zip(manifests(key, work)) {
            let mut text = manifest.to_string();
            if self.broken.contains(key) {
                text.pop();
            } else if self.huge.contains(key) {
                let filler = "x".repeat(620 * 1024 / work.objects.len());
                text = text.replace(&work.text, &filler);
            }
            files.push((format!("{name}.json"), text));
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
            format!("{key}{how}{prune}")
        });
        works.collect::<Vec<_>>().join(", ")
    }

    /// Whether the commit's content of a work cannot be read.
    pub fn freezes(&self, key: &WorkKey) -> bool {
        self.broken_source
            || self.broken_clusters.contains(&key.cluster)
            || (self.works.contains_key(key)
                && (self.broken.contains(key) || self.huge.contains(key)))
    }

    /// Whether a work of the cluster cannot be read.
    pub fn hides_objects(&self, cluster: &ClusterName) -> bool {
        self.works.keys().any(|key| key.cluster == *cluster && self.freezes(key))
    }

    /// The work, if the commit has it and it is readable.
    pub fn readable(&self, key: &WorkKey) -> Option<&GitWork> {
        self.works.get(key).filter(|_| !self.freezes(key))
    }

    pub fn fix_all(&mut self) {
        self.broken.clear();
        self.broken_clusters.clear();
        self.broken_source = false;
        self.huge.clear();
        self.works.values_mut().for_each(|work| work.suspend = false);
    }
}
