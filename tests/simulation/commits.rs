//! A branch of commits in memory, which only moves forward, and what a source asks of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gitwork_core::model::facts::Facts;
use gitwork_core::model::name::{CommitId, ObjectId, RepoPath, SourceId, WorkKey};
use gitwork_core::model::snapshot::{EntryKind, Objects, Snapshot};
use gitwork_core::plan::added_works::AddedWorks;
use gitwork_core::plan::folder_removal::FolderRemoval;
use gitwork_core::plan::{LastKnownStates, folder_removal};
use gitwork_core::render::desired::Desired;
use gitwork_core::rollout::earlier::EarlierContents;
use gitwork_source::SourceReadError;

use crate::memory_repository::{File, MemoryObjects};

/// The id of a commit, by its position on the branch.
pub fn commit_id(number: usize) -> CommitId {
    let mut id = ObjectId([0; 20]);
    id.0[..8].copy_from_slice(&(number as u64 + 1).to_be_bytes());
    id
}

/// The position of a commit on the branch.
pub fn commit_number(id: CommitId) -> usize {
    let high = id.0[..8].try_into().map_or(0, u64::from_be_bytes);
    usize::try_from(high.saturating_sub(1)).unwrap_or_default()
}

/// The work, and the trees before and after its removal.
type Removal = (WorkKey, ObjectId, Option<ObjectId>);

/// What Git last said of removed works. To find it takes long, and history does not change.
#[derive(Default)]
pub struct Removals(BTreeMap<Removal, (Labels, LastKnownStates)>);

/// The labels of the cluster.
type Labels = BTreeMap<String, String>;

impl Removals {
    fn state(
        &mut self,
        source: &SourceId,
        removal: &FolderRemoval<'_>,
    ) -> Result<LastKnownStates, SourceReadError> {
        let clusters = removal.facts.as_ref().map(|facts| &facts.managed_clusters);
        let cluster = clusters.and_then(|clusters| clusters.get(&removal.key.cluster));
        let labels = cluster.map(|facts| facts.labels.clone()).unwrap_or_default();
        let at = (removal.key.clone(), removal.before, removal.after);
        if let Some((_, state)) = self.0.get(&at).filter(|(before, _)| *before == labels) {
            return Ok(state.clone());
        }
        let mut state = LastKnownStates::new();
        folder_removal::add_to(&mut state, source, removal)?;
        self.0.insert(at, (labels, state.clone()));
        Ok(state)
    }
}

/// The branch: the tree of each commit, oldest first.
#[derive(Default)]
pub struct Branch {
    objects: MemoryObjects,
    roots: Vec<ObjectId>,
}

impl Branch {
    /// Adds a commit.
    pub fn push(&mut self, files: &BTreeMap<String, File>) {
        let root = self.objects.add(files);
        self.roots.push(root);
    }

    /// The position of the last commit. There is at least one.
    pub fn head(&self) -> usize {
        self.roots.len() - 1
    }

    pub fn snapshot(&self, number: usize) -> Snapshot<'_> {
        let commit = Some(commit_id(number));
        Snapshot { commit, root: self.roots[number], objects: &self.objects }
    }

    /// The trees of the commits that earlier contents are read from.
    pub fn roots_of(&self, contents: &EarlierContents) -> BTreeMap<CommitId, ObjectId> {
        let commits = contents.values().flat_map(|group| group.commits.values());
        commits.map(|commit| (*commit, self.roots[commit_number(*commit)])).collect()
    }

    /// The commits that `head` does not build on.
    pub fn unreached(&self, head: CommitId, commits: &BTreeSet<CommitId>) -> BTreeSet<CommitId> {
        let is_later = |id: &&CommitId| commit_number(**id) > commit_number(head);
        commits.iter().filter(is_later).copied().collect()
    }

    /// What Git last said of works that `desired` does not have, each with its folder. `facts`:
    /// those that it was rendered with.
    pub fn last_known_states(
        &self,
        source: &SourceId,
        (desired, facts): (&Desired, Option<&Arc<Facts>>),
        candidates: &[(WorkKey, RepoPath)],
        removals: &mut Removals,
    ) -> Result<LastKnownStates, SourceReadError> {
        let head = desired.commit.map_or(0, commit_number);
        let roots = self.roots.get(..=head).unwrap_or_default();
        let mut added = AddedWorks::new(desired, facts.map(Arc::as_ref));
        let mut found = LastKnownStates::new();
        for (key, path) in candidates {
            // If the head has the folder, the cluster has left the group.
            let Some(last_in) = roots.iter().rposition(|root| self.has_folder(*root, path)) else {
                continue;
            };
            let removed_by = (last_in + 1).min(head);
            let removal = FolderRemoval {
                key,
                folder: path,
                removed_by: commit_id(removed_by),
                before: roots[last_in],
                after: Some(roots[removed_by]),
                objects: &self.objects,
                facts: facts.cloned(),
            };
            found.append(removals.state(source, &removal)?);
            if let Some(last_state) = found.works.get_mut(key).filter(|_| last_in < head) {
                last_state.added_since = Some(added.since(roots[last_in], &self.objects)?);
            }
        }
        Ok(found)
    }

    fn has_folder(&self, root: ObjectId, path: &RepoPath) -> bool {
        let mut folder = Some(root);
        for name in path.to_string().split('/') {
            let entries = folder.and_then(|id| self.objects.tree(id).ok());
            let entry = entries.as_ref().and_then(|entries| entries.get(name));
            folder = entry.filter(|entry| entry.kind == EntryKind::Tree).map(|entry| entry.id);
        }
        folder.is_some()
    }
}
