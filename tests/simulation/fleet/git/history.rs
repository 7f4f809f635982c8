//! Queries on the history of the simulated repository.

use gitwork_core::model::name::{CommitId, WorkKey};

use super::Commit;

pub(super) fn is_ancestor(commits: &[Commit], ancestor: usize, head: usize) -> bool {
    ancestry(commits, head).any(|commit| commit == ancestor)
}

/// A commit and its ancestors, newest first.
pub fn ancestry(commits: &[Commit], head: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(head), |commit| commits[*commit].parent)
}

/// Whether the commit and all its ancestors are signed.
pub fn is_trusted(commits: &[Commit], commit: usize) -> bool {
    ancestry(commits, commit).all(|it| commits[it].signed)
}

/// The last commit before `head` that had the folder, and the commit that removed it.
pub fn removal(commits: &[Commit], head: usize, key: &WorkKey) -> Option<(usize, usize)> {
    let mut after = head;
    for commit in ancestry(commits, head) {
        if commits[commit].content.works.contains_key(key) {
            return (commit != head).then_some((commit, after));
        }
        after = commit;
    }
    None
}

pub fn number(commits: &[Commit], id: CommitId) -> Option<usize> {
    let number = u64::from_be_bytes(id.0[..8].try_into().ok()?).checked_sub(1)? as usize;
    commits.get(number).filter(|commit| commit.id == id).map(|_| number)
}
