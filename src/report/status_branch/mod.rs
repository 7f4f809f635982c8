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
use std::sync::LazyLock;

use crate::status::source::{SourceStatus, WorkState};
use crate::status::work_states::{ClusterStates, WorkStates};
use gitwork_core::model::name::{ClusterName, RepoPath, WorkKey};

pub use markdown::plain;
pub use summary::StatusSummary;

/// The file with the summary. It also marks a branch as gitwork's.
pub const SUMMARY_FILE: &str = "summary.json";

/// The file with the table of clusters and works.
const README_FILE: &str = "README.md";

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

/// A file that differs, before its text is made: those of many works would take a lot of memory.
enum ChangedFile<'a> {
    Work(&'a WorkKey),
    Cluster(&'a ClusterName),
    Other(FileChange),
}

/// The files that differ between two statuses; all files if there is no status before. Unchanged
/// works are only compared. Each text is made when the iterator comes to it.
pub fn file_changes<'a>(
    before: Option<&'a SourceStatus>,
    now: &'a SourceStatus,
) -> impl ExactSizeIterator<Item = FileChange> {
    let mut files = Vec::new();
    let mut clusters: BTreeSet<&ClusterName> = BTreeSet::new();
    for key in changed_works(before, now) {
        clusters.insert(&key.cluster);
        files.push(ChangedFile::Work(key));
    }
    files.extend(clusters.into_iter().map(ChangedFile::Cluster));
    files.extend(facts_change(before, now).map(ChangedFile::Other));
    let summary = StatusSummary::of(now);
    if before.is_none_or(|before| !files.is_empty() || StatusSummary::of(before) != summary) {
        let readme = (README_FILE, markdown::readme(now));
        let summary = (SUMMARY_FILE, summary.json());
        files.extend([readme, summary].map(|(name, text)| {
            ChangedFile::Other(FileChange {
                path: RepoPath::root().join(name),
                content: Some(text),
            })
        }));
    }
    files.into_iter().map(|file| match file {
        ChangedFile::Work(key) => work_file(key, now),
        ChangedFile::Cluster(cluster) => cluster_file(cluster, now),
        ChangedFile::Other(change) => change,
    })
}

/// The works whose files differ.
fn changed_works<'a>(
    before: Option<&'a SourceStatus>,
    now: &'a SourceStatus,
) -> BTreeSet<&'a WorkKey> {
    static NONE: LazyLock<WorkStates> = LazyLock::new(WorkStates::default);
    let earlier = before.map_or(&*NONE, |before| &before.works);
    let was_lost = |cluster| before.is_some_and(|before| before.unreachable.contains(cluster));
    let changes = now.works.changes_since(earlier);
    let mut changed: BTreeSet<&WorkKey> = changes.iter().map(|change| change.key).collect();
    for (name, cluster) in now.works.clusters() {
        if now.unreachable.contains(name) != was_lost(name) {
            changed.extend(cluster.iter().map(|(key, _)| key));
        }
    }
    changed
}

fn work_file(key: &WorkKey, now: &SourceStatus) -> FileChange {
    let lost = now.unreachable.contains(&key.cluster);
    let content = now.works.get(key).map(|work| work::yaml(key, work, lost));
    let folder = RepoPath::root().join("clusters").join(key.cluster.as_str());
    FileChange { path: folder.join(&format!("{}.yaml", key.work)), content }
}

fn cluster_file(cluster: &ClusterName, now: &SourceStatus) -> FileChange {
    let found = now.works.of_cluster(cluster).into_iter();
    let works: Vec<(&WorkKey, &WorkState)> = found.flat_map(ClusterStates::iter).collect();
    let content = (!works.is_empty())
        .then(|| markdown::cluster(cluster, &works, now.unreachable.contains(cluster)));
    FileChange { path: RepoPath::root().join("clusters").join(&format!("{cluster}.md")), content }
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

#[cfg(test)]
mod tests;
