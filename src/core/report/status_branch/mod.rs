//! The files of the status branch. Pure.
//!
//! - `README.md`: the table of clusters and works.
//! - `clusters/<cluster>.md`: one cluster.
//! - `clusters/<cluster>/<work>.yaml`: the details of one work.
//! - `summary.json`: the whole state for programs.
//!
//! No file depends on the time of writing, so an unchanged status gives unchanged files.

mod markdown;
mod summary;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use crate::model::name::{ClusterName, RepoPath, WorkKey, WorkName};
use crate::report::status::source::{SourceStatus, WorkState};

pub use markdown::plain;
pub use summary::StatusSummary;

/// The file with the summary. It also marks a branch as gitwork's.
pub const SUMMARY_FILE: &str = "summary.json";

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
    let none = BTreeMap::new();
    let earlier = before.map_or(&none, |before| &before.works);
    let was_lost = |cluster| before.is_some_and(|before| before.unreachable.contains(cluster));
    let mut left = earlier.iter().peekable();
    for (key, work) in &now.works {
        // Both are sorted by key.
        while left.next_if(|(other, _)| *other < key).is_some() {}
        let was = left.next_if(|(other, _)| *other == key).map(|(_, work)| work);
        let lost = now.unreachable.contains(&key.cluster);
        if was == Some(work) && lost == was_lost(&key.cluster) {
            continue;
        }
        clusters.insert(&key.cluster);
        file_changes
            .push(FileChange { path: work_path(key), content: Some(work::yaml(key, work, lost)) });
    }
    for key in earlier.keys().filter(|key| !now.works.contains_key(*key)) {
        clusters.insert(&key.cluster);
        file_changes.push(FileChange { path: work_path(key), content: None });
    }
    for cluster in clusters {
        let works: Vec<(&WorkKey, &WorkState)> = works_of(now, cluster).collect();
        let content = (!works.is_empty())
            .then(|| markdown::cluster(cluster, &works, now.unreachable.contains(cluster)));
        let path = RepoPath::root().join("clusters").join(&format!("{cluster}.md"));
        file_changes.push(FileChange { path, content });
    }
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

fn work_path(key: &WorkKey) -> RepoPath {
    let folder = RepoPath::root().join("clusters").join(key.cluster.as_str());
    folder.join(&format!("{}.yaml", key.work))
}

/// The works of one cluster, which are adjacent because keys are sorted by cluster.
fn works_of<'a>(
    status: &'a SourceStatus,
    cluster: &'a ClusterName,
) -> impl Iterator<Item = (&'a WorkKey, &'a WorkState)> {
    // The smallest name: a name starts with a digit or a letter.
    let least = WorkName::parse("0").ok().map(|work| WorkKey { cluster: cluster.clone(), work });
    let range = least.map(|least| status.works.range(least..));
    range.into_iter().flatten().take_while(move |(key, _)| key.cluster == *cluster)
}

#[cfg(test)]
mod tests;
