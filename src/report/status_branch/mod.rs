//! The files of the status branch. Pure.
//!
//! - `README.md`: the table of clusters and works.
//! - `clusters/<cluster>.md`: one cluster.
//! - `clusters/<cluster>/<work>.yaml`: the details of one work.
//! - `summary.json`: the whole state for programs.
//! - `facts.json`: what the hub says of clusters, for groups; as far as the source uses it.
//!
//! No file depends on the time of writing, so an unchanged status gives unchanged files.

mod markdown;
mod summary;
mod work;

use std::collections::BTreeSet;

use crate::status::source::{SourceStatus, WorkState};
use crate::status::work_states::{ClusterStates, WorkStates};
use gitwork_core::model::name::{ClusterName, RepoPath, WorkKey};

pub use markdown::plain;
pub use summary::StatusSummary;

/// The file with the summary. It also marks a branch as gitwork's.
pub const SUMMARY_FILE: &str = "summary.json";

/// The file with the facts of the hub.
pub const FACTS_FILE: &str = "facts.json";

/// One file that differs; without content it is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The path from the root of the branch.
    pub path: RepoPath,
    /// The whole new text; `None` to delete the file.
    pub content: Option<String>,
}

/// The files that differ between two statuses; all files if there is no status before. Unchanged
/// works are only compared.
pub fn file_changes(before: Option<&SourceStatus>, now: &SourceStatus) -> Vec<FileChange> {
    let mut file_changes = Vec::new();
    let mut clusters: BTreeSet<&ClusterName> = BTreeSet::new();
    let none = WorkStates::default();
    let earlier = before.map_or(&none, |before| &before.works);
    let was_lost = |cluster| before.is_some_and(|before| before.unreachable.contains(cluster));
    let changes = now.works.changes_since(earlier);
    let mut changed: BTreeSet<&WorkKey> = changes.iter().map(|change| change.key).collect();
    for (name, cluster) in now.works.clusters() {
        if now.unreachable.contains(name) != was_lost(name) {
            changed.extend(cluster.iter().map(|(key, _)| key));
        }
    }
    for key in changed {
        clusters.insert(&key.cluster);
        let lost = now.unreachable.contains(&key.cluster);
        let content = now.works.get(key).map(|work| work::yaml(key, work, lost));
        file_changes.push(FileChange { path: work_path(key), content });
    }
    for cluster in clusters {
        let found = now.works.of_cluster(cluster).into_iter();
        let works: Vec<(&WorkKey, &WorkState)> = found.flat_map(ClusterStates::iter).collect();
        let content = (!works.is_empty())
            .then(|| markdown::cluster(cluster, &works, now.unreachable.contains(cluster)));
        let path = RepoPath::root().join("clusters").join(&format!("{cluster}.md"));
        file_changes.push(FileChange { path, content });
    }
    file_changes.extend(facts_change(before, now));
    let summary = StatusSummary::of(now);
    if before.is_none_or(|before| !file_changes.is_empty() || StatusSummary::of(before) != summary)
    {
        let readme = Some(markdown::readme(now));
        file_changes.push(FileChange { path: RepoPath::root().join("README.md"), content: readme });
        let path = RepoPath::root().join(SUMMARY_FILE);
        file_changes.push(FileChange { path, content: Some(summary.json()) });
    }
    file_changes
}

/// The file of facts, if they differ.
fn facts_change(before: Option<&SourceStatus>, now: &SourceStatus) -> Option<FileChange> {
    let earlier = before.and_then(|before| before.facts.as_deref());
    let is_same = match (earlier, now.facts.as_deref()) {
        (Some(earlier), Some(facts)) => facts.is_same(earlier),
        (earlier, facts) => earlier.is_none() && facts.is_none(),
    };
    let content = now.facts.as_ref().map(|facts| facts.text());
    let path = RepoPath::root().join(FACTS_FILE);
    (!is_same).then_some(FileChange { path, content })
}

fn work_path(key: &WorkKey) -> RepoPath {
    let folder = RepoPath::root().join("clusters").join(key.cluster.as_str());
    folder.join(&format!("{}.yaml", key.work))
}

#[cfg(test)]
mod tests;
