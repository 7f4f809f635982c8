//! The files of the status branch. Pure.
//!
//! `README.md` has the table of clusters and works, `clusters/<cluster>.md` one cluster, `clusters/<cluster>/<work>.yaml`
//! all that is known of one work, `summary.json` the whole for machines. Nothing in them depends on when they were
//! made, so an unchanged status has unchanged files.

mod markdown;
mod summary;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use crate::core::name::{ClusterName, RepoPath, WorkKey, WorkName};
use crate::core::status::source::{SourceStatus, WorkState};

pub use markdown::plain;
pub use summary::Summary;

/// The file with the summary; with it a branch shows that it is gitwork's.
pub const SUMMARY_FILE: &str = "summary.json";

/// One file that differs; without content it is no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub path: RepoPath,
    pub content: Option<String>,
}

/// What differs between two statuses; with no status before, every file. Works that are as they were are not looked
/// at beyond being compared.
pub fn changes(before: Option<&SourceStatus>, now: &SourceStatus) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut clusters: BTreeSet<&ClusterName> = BTreeSet::new();
    let none = BTreeMap::new();
    let earlier = before.map_or(&none, |before| &before.works);
    let was_lost = |cluster| before.is_some_and(|before| before.unreachable.contains(cluster));
    let mut left = earlier.iter().peekable();
    for (key, work) in &now.works {
        // Both are in the order of their keys.
        while left.next_if(|(other, _)| *other < key).is_some() {}
        let was = left.next_if(|(other, _)| *other == key).map(|(_, work)| work);
        let lost = now.unreachable.contains(&key.cluster);
        if was == Some(work) && lost == was_lost(&key.cluster) {
            continue;
        }
        clusters.insert(&key.cluster);
        changes.push(Change { path: work_path(key), content: Some(work::yaml(key, work, lost)) });
    }
    for key in earlier.keys().filter(|key| !now.works.contains_key(*key)) {
        clusters.insert(&key.cluster);
        changes.push(Change { path: work_path(key), content: None });
    }
    for cluster in clusters {
        let works: Vec<(&WorkKey, &WorkState)> = works_of(now, cluster).collect();
        let content = (!works.is_empty())
            .then(|| markdown::cluster(cluster, &works, now.unreachable.contains(cluster)));
        let path = RepoPath::root().join("clusters").join(&format!("{cluster}.md"));
        changes.push(Change { path, content });
    }
    let summary = Summary::of(now);
    if before.is_none_or(|before| !changes.is_empty() || Summary::of(before) != summary) {
        let readme = Some(markdown::readme(now));
        changes.push(Change { path: RepoPath::root().join("README.md"), content: readme });
        let path = RepoPath::root().join(SUMMARY_FILE);
        changes.push(Change { path, content: Some(summary.json()) });
    }
    changes
}

fn work_path(key: &WorkKey) -> RepoPath {
    let folder = RepoPath::root().join("clusters").join(key.cluster.as_str());
    folder.join(&format!("{}.yaml", key.work))
}

/// The works of one cluster: they stand together, as keys are sorted by cluster.
fn works_of<'a>(
    status: &'a SourceStatus,
    cluster: &'a ClusterName,
) -> impl Iterator<Item = (&'a WorkKey, &'a WorkState)> {
    // The least of all names: a name starts with a digit or a letter.
    let least = WorkName::parse("0").ok().map(|work| WorkKey { cluster: cluster.clone(), work });
    let range = least.map(|least| status.works.range(least..));
    range.into_iter().flatten().take_while(move |(key, _)| key.cluster == *cluster)
}

#[cfg(test)]
mod tests;
