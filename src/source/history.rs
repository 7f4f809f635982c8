//! The history of a source's paths: changes, removals and works that Git no longer has.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use gitwork_core::model::name::{ClusterName, CommitId, ObjectId, RepoPath, WorkKey};
use gitwork_core::model::work::DesiredWork;
use gitwork_core::plan::added_works::AddedWorks;
use gitwork_core::plan::folder_removal;
use gitwork_core::plan::folder_removal::{FolderRemoval, work_name};
use gitwork_core::plan::{LastKnownState, LastKnownStates};
use gitwork_core::render::desired::Desired;
use gitwork_git::{CommitFacts, GitSnapshot, LocalRepository, Mirror, history};

use crate::config::SourceConfig;
use crate::error::SourceReadError;
use crate::origin::{Origin, folder_at};
use crate::work_names::{WorkNames, may_be_of_cluster};

/// A work on the hub that Git does not have, and the folder that it came from.
pub type Candidate = (WorkKey, RepoPath);

/// The commits behind the present state of a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathHistory {
    /// The commit that last changed the path, if the path exists.
    pub last_change: Option<CommitFacts>,
    /// The commit that removed the path, if it existed once and no longer does.
    pub removed_by: Option<CommitFacts>,
    /// The tree or blob at the path in the commit in question.
    pub committed: Option<ObjectId>,
}

/// Questions about the history of one source. All calls block.
pub struct SourceHistory<'a> {
    config: &'a SourceConfig,
    origin: &'a Origin,
    /// The commit that was read last.
    head: Option<CommitId>,
}

impl<'a> SourceHistory<'a> {
    pub(crate) fn new(
        config: &'a SourceConfig,
        origin: &'a Origin,
        head: Option<CommitId>,
    ) -> Self {
        Self { config, origin, head }
    }

    /// The members of `commits` that are not ancestors of `head`; empty for a folder on disk.
    pub fn unreached(
        &self,
        head: CommitId,
        commits: &BTreeSet<CommitId>,
        cancel: &AtomicBool,
    ) -> Result<BTreeSet<CommitId>, SourceReadError> {
        match self.origin {
            Origin::Mirror { mirror, .. } => {
                Ok(mirror.repository().unreached(head, commits, cancel)?)
            }
            Origin::Directory(_) => Ok(BTreeSet::new()),
        }
    }

    /// For each work folder, the commit that last changed it; `head` if that is unknown.
    pub fn last_changed(
        &self,
        head: CommitId,
        folders: &BTreeSet<RepoPath>,
        cancel: &AtomicBool,
    ) -> Result<BTreeMap<RepoPath, CommitId>, SourceReadError> {
        let mut found: BTreeMap<RepoPath, CommitId> =
            folders.iter().map(|folder| (folder.clone(), head)).collect();
        if let Origin::Mirror { mirror, .. } = self.origin {
            let paths = folders.iter().map(|folder| self.config.path.join_path(folder)).collect();
            let known = history::last_changed(mirror.repository(), head, &paths, cancel)?;
            for (folder, commit) in &mut found {
                if let Some(known) = known.get(&self.config.path.join_path(folder)) {
                    *commit = *known;
                }
            }
        }
        Ok(found)
    }

    /// The history of one path of the source; empty if the folder is in no repository.
    pub fn of_path(
        &self,
        path: &RepoPath,
        cancel: &AtomicBool,
    ) -> Result<PathHistory, SourceReadError> {
        match (self.origin, self.head) {
            (Origin::Mirror { mirror, .. }, Some(head)) => {
                path_history(mirror.repository(), head, &self.config.path.join_path(path), cancel)
            }
            (Origin::Mirror { .. }, None) => Ok(PathHistory::default()),
            (Origin::Directory(directory), _) => {
                // A folder without a repository, or in one without a commit, has no history.
                let Ok(local) = LocalRepository::discover(directory.root()) else {
                    return Ok(PathHistory::default());
                };
                let Ok(head) = local.repository().resolve("HEAD") else {
                    return Ok(PathHistory::default());
                };
                path_history(local.repository(), head, &local.path().join_path(path), cancel)
            }
        }
    }

    /// What Git says of works that `desired` does not have, for each of `candidates` with its last
    /// folder. A work that neither the history of `desired` nor that of an `applied` commit has is
    /// none that Git has dropped. For a folder on disk, no history is known.
    pub fn last_known_states(
        &self,
        desired: &Desired,
        candidates: &[Candidate],
        applied: &[CommitId],
        cancel: &AtomicBool,
    ) -> Result<LastKnownStates, SourceReadError> {
        let (Origin::Mirror { mirror, .. }, Some(head)) = (self.origin, desired.commit) else {
            return Ok(LastKnownStates::new());
        };
        // A folder of a group has a work on each member.
        let present: BTreeMap<(&ClusterName, &RepoPath), &DesiredWork> =
            desired.works.values().map(|work| ((&work.key.cluster, &work.path), &**work)).collect();
        let present = |(key, path): &Candidate| present.get(&(&key.cluster, path)).copied();
        let (renamed, gone): (Vec<_>, Vec<_>) =
            candidates.iter().partition(|candidate| present(candidate).is_some());
        let (of_groups, mut removed): (Vec<_>, Vec<_>) =
            gone.into_iter().partition(|(_, path)| folder_removal::is_of_group(path));
        let (mut found, of_removed_folders) = self.left_groups(mirror, head, of_groups)?;
        removed.extend(of_removed_folders);
        found.append(self.removed_folders(mirror, desired, &removed, cancel)?);
        let unseen = candidates.iter().filter(|(key, _)| found.get(key).is_none());
        let unseen: Vec<&Candidate> = unseen.collect();
        if unseen.is_empty() {
            return Ok(found);
        }
        let (repository, path) = (mirror.repository(), &self.config.path);
        let objects = &mirror.snapshot(head, path)?;
        let names = WorkNames { repository, objects, path };
        found.never_in_git = names.never_in_git(head, applied, &unseen, cancel)?;
        for candidate in renamed {
            let (key, _) = candidate;
            if found.is_never_in_git(key) {
                continue;
            }
            // The folder still exists, under another work name: its present options count.
            let Some(work) = present(candidate) else { continue };
            let state = LastKnownState {
                removed_by: Some(head),
                delete_option: work.delete_option.clone(),
                prune: work.prune,
                depends_on: work.depends_on.clone(),
                budgets: None,
                added_since: None,
            };
            found.insert(key.clone(), state);
        }
        Ok(found)
    }

    /// As [`Self::last_known_states`], for works of folders of groups. Answers also those whose
    /// folder no longer exists; the clusters of the others have left their groups.
    fn left_groups<'c>(
        &self,
        mirror: &Mirror,
        head: CommitId,
        candidates: Vec<&'c Candidate>,
    ) -> Result<(LastKnownStates, Vec<&'c Candidate>), SourceReadError> {
        let mut found = LastKnownStates::new();
        if candidates.is_empty() {
            return Ok((found, candidates));
        }
        let Some(there) = folder_at(mirror, head, &self.config.path)? else {
            return Ok((found, candidates));
        };
        let mut removed = Vec::new();
        for candidate in candidates {
            let (key, folder) = candidate;
            if there.snapshot().entry(folder)?.is_none() {
                removed.push(candidate);
                continue;
            }
            if work_name(folder, &there.snapshot())?.as_ref() != Some(&key.work) {
                continue;
            }
            let (before, facts) = (there.root, self.config.facts.clone());
            let objects = &there;
            let (after, removed_by) = (Some(before), head);
            let removal = FolderRemoval { key, folder, removed_by, before, after, objects, facts };
            folder_removal::add_to(&mut found, &self.config.id, &removal)?;
        }
        Ok((found, removed))
    }

    /// As [`Self::last_known_states`], for works whose folder no longer exists.
    fn removed_folders(
        &self,
        mirror: &Mirror,
        desired: &Desired,
        candidates: &[&Candidate],
        cancel: &AtomicBool,
    ) -> Result<LastKnownStates, SourceReadError> {
        let Some(head) = desired.commit else { return Ok(LastKnownStates::new()) };
        let paths: BTreeSet<RepoPath> =
            candidates.iter().map(|(_, path)| self.config.path.join_path(path)).collect();
        let removals = history::last_removals(mirror.repository(), head, &paths, cancel)?;
        // One commit often removes many works.
        let mut snapshots: BTreeMap<CommitId, Option<GitSnapshot>> = BTreeMap::new();
        let mut added = AddedWorks::new(desired, self.config.facts.as_deref());
        let mut found = LastKnownStates::new();
        for (key, path) in candidates {
            let Some(ends) = removals.get(&self.config.path.join_path(path)) else { continue };
            for commit in [ends.last_in, ends.removed_by] {
                if let Entry::Vacant(slot) = snapshots.entry(commit) {
                    slot.insert(folder_at(mirror, commit, &self.config.path)?);
                }
            }
            let at = |commit| snapshots.get(&commit).and_then(Option::as_ref);
            let Some(before) = at(ends.last_in) else { continue };
            // The hub says where a work is from, and its agent may write that. So a folder is
            // rendered only for the work that it named.
            let named = work_name(path, &before.snapshot())?;
            if named.as_ref() != Some(&key.work) || !may_be_of_cluster(path, &key.cluster) {
                continue;
            }
            let removal = FolderRemoval {
                key,
                folder: path,
                removed_by: ends.removed_by,
                before: before.root,
                after: at(ends.removed_by).map(|after| after.root),
                objects: before,
                facts: self.config.facts.clone(),
            };
            if let Some(state) = folder_removal::add_to(&mut found, &self.config.id, &removal)? {
                state.added_since = Some(added.since(before.root, before)?);
            }
        }
        Ok(found)
    }
}

fn path_history(
    repository: &gitwork_git::Repository,
    head: CommitId,
    path: &RepoPath,
    cancel: &AtomicBool,
) -> Result<PathHistory, SourceReadError> {
    let committed = repository.entry(head, path)?;
    let paths = BTreeSet::from([path.clone()]);
    if committed.is_some() {
        let changed = history::last_changed(repository, head, &paths, cancel)?;
        let last_change = changed.get(path).map(|id| repository.commit(*id)).transpose()?;
        return Ok(PathHistory { last_change, removed_by: None, committed });
    }
    let removals = history::last_removals(repository, head, &paths, cancel)?;
    let removed_by = removals.get(path).map(|removal| repository.commit(removal.removed_by));
    Ok(PathHistory { last_change: None, removed_by: removed_by.transpose()?, committed })
}
