//! Which of the works on the hub Git ever had. The label of a source proves nothing: the agent of a
//! cluster may set it, and the annotations, on any work of its cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use gitwork_core::config::file_names::{CLUSTERS, WORK_FILE};
use gitwork_core::model::name::{ClusterName, CommitId, RepoPath, WorkKey, WorkName};
use gitwork_core::model::snapshot::{Objects, Snapshot};
use gitwork_core::plan::folder_removal::{is_of_group, work_name};
use gitwork_git::{AncestorCheck, Repository, RepositoryError, history};

use crate::error::SourceReadError;
use crate::limits;

/// The names that the work folders of a source gave their works.
pub(crate) struct WorkNames<'a> {
    /// The history.
    pub repository: &'a Repository,
    /// The trees and blobs of all commits.
    pub objects: &'a dyn Objects,
    /// The source's folder.
    pub path: &'a RepoPath,
}

/// The works that were not found yet, by their folders.
type Wanted<'a> = BTreeMap<&'a RepoPath, BTreeMap<&'a WorkName, &'a WorkKey>>;

impl WorkNames<'_> {
    /// The works that no folder gave its name, in the history of the head or of the first applied
    /// commits that it does not build on. Each work has the folder that the hub gives; one of
    /// another cluster is not its own.
    pub fn never_in_git(
        &self,
        head: CommitId,
        applied: &[CommitId],
        works: &[&(WorkKey, RepoPath)],
        cancel: &AtomicBool,
    ) -> Result<BTreeSet<WorkKey>, SourceReadError> {
        let mut wanted = Wanted::new();
        let mut never = BTreeSet::new();
        for (key, folder) in works.iter().copied() {
            if may_be_of_cluster(folder, &key.cluster) {
                wanted.entry(folder).or_default().insert(&key.work, key);
            } else {
                never.insert(key.clone());
            }
        }
        let mut commits = vec![head];
        for commit in applied.iter().take(limits::APPLIED_COMMITS_MAX) {
            let is_other = self.repository.is_ancestor(*commit, head)? == AncestorCheck::No;
            commits.extend(is_other.then_some(*commit));
        }
        for commit in commits {
            if !wanted.is_empty() {
                self.find_at_ends(commit, &mut wanted, cancel)?;
                self.find_earlier(commit, &mut wanted, cancel)?;
            }
        }
        never.extend(wanted.into_values().flat_map(BTreeMap::into_values).cloned());
        Ok(never)
    }

    /// Looks at the commit itself, or at the last commit that had the folder.
    fn find_at_ends(
        &self,
        commit: CommitId,
        wanted: &mut Wanted<'_>,
        cancel: &AtomicBool,
    ) -> Result<(), SourceReadError> {
        let folders: Vec<&RepoPath> = wanted.keys().copied().collect();
        let paths = folders.iter().map(|folder| self.path.join_path(folder)).collect();
        let removals = history::last_removals(self.repository, commit, &paths, cancel)?;
        for folder in folders {
            let removal = removals.get(&self.path.join_path(folder));
            self.look(removal.map_or(commit, |removal| removal.last_in), folder, wanted)?;
        }
        Ok(())
    }

    /// Looks at the earlier versions of work.yaml, which may name the work.
    fn find_earlier(
        &self,
        commit: CommitId,
        wanted: &mut Wanted<'_>,
        cancel: &AtomicBool,
    ) -> Result<(), SourceReadError> {
        let files: BTreeMap<RepoPath, &RepoPath> = wanted
            .keys()
            .map(|folder| (self.path.join_path(folder).join(WORK_FILE), *folder))
            .collect();
        let mut versions: BTreeMap<RepoPath, usize> = BTreeMap::new();
        let paths: BTreeSet<RepoPath> = files.keys().cloned().collect();
        let mut failure = None;
        history::earlier_versions(self.repository, commit, &paths, cancel, |file, version| {
            let Some(folder) = files.get(file).filter(|_| failure.is_none()) else { return true };
            failure = self.look(version, folder, wanted).err();
            let count = versions.entry(file.clone()).or_default();
            *count += 1;
            *count == limits::WORK_FILE_VERSIONS_MAX || !wanted.contains_key(folder)
        })?;
        failure.map_or(Ok(()), Err)
    }

    /// Takes the work that a folder named in a commit off the wanted ones.
    fn look(
        &self,
        commit: CommitId,
        folder: &RepoPath,
        wanted: &mut Wanted<'_>,
    ) -> Result<(), SourceReadError> {
        let root = match self.repository.entry(commit, self.path) {
            Err(RepositoryError::MalformedFolder { .. }) => None,
            found => found?,
        };
        let Some(root) = root else { return Ok(()) };
        let snapshot = Snapshot { commit: Some(commit), root, objects: self.objects };
        let Some(name) = work_name(folder, &snapshot)? else { return Ok(()) };
        if let Some(works) = wanted.get_mut(folder) {
            works.remove(&name);
            if works.is_empty() {
                wanted.remove(folder);
            }
        }
        Ok(())
    }
}

/// Whether the folder is one of the cluster's work folders, or one of a group, which any cluster
/// may have been in.
pub(crate) fn may_be_of_cluster(folder: &RepoPath, cluster: &ClusterName) -> bool {
    is_of_group(folder)
        || folder.parent() == Some(RepoPath::root().join(CLUSTERS).join(cluster.as_str()))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A repository with the source in the folder `fleet`.
    struct World {
        folder: TempDir,
        git: git2::Repository,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let git = git2::Repository::init_bare(folder.path()).unwrap();
            Self { folder, git }
        }

        /// Commits these files of the clusters, and no others.
        fn commit(&self, parent: Option<CommitId>, files: &[(&str, &str)]) -> CommitId {
            let mut index = git2::Index::new().unwrap();
            for (path, text) in files {
                let id = self.git.blob(text.as_bytes()).unwrap();
                let path = format!("fleet/clusters/{path}").into_bytes();
                let zero = git2::IndexTime::new(0, 0);
                index
                    .add(&git2::IndexEntry {
                        ctime: zero,
                        mtime: zero,
                        dev: 0,
                        ino: 0,
                        mode: 0o100_644,
                        uid: 0,
                        gid: 0,
                        file_size: 0,
                        id,
                        flags: 0,
                        flags_extended: 0,
                        path,
                    })
                    .unwrap();
            }
            let tree = self.git.find_tree(index.write_tree_to(&self.git).unwrap()).unwrap();
            let person = git2::Signature::now("a", "a@example.com").unwrap();
            let parent = parent.map(|id| git2::Oid::from_bytes(&id.0).unwrap());
            let parent = parent.map(|id| self.git.find_commit(id).unwrap());
            let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
            let id = self.git.commit(None, &person, &person, "m", &tree, &parents).unwrap();
            CommitId::parse(&id.to_string()).unwrap()
        }

        /// Which of these works, `NAME FOLDER`, Git never had.
        fn never(&self, head: CommitId, applied: &[CommitId], works: &[&str]) -> Vec<String> {
            let repository = Repository::open(self.folder.path()).unwrap();
            let path = &RepoPath::parse("fleet").unwrap();
            let objects = &repository.snapshot(head, path).unwrap();
            let names = WorkNames { repository: &repository, objects, path };
            let works: Vec<(WorkKey, RepoPath)> = works
                .iter()
                .map(|text| {
                    let (name, folder) = text.split_once(' ').unwrap();
                    let cluster = ClusterName::parse("a").unwrap();
                    let work = WorkName::parse(name).unwrap();
                    let folder = RepoPath::parse(&format!("clusters/{folder}")).unwrap();
                    (WorkKey { cluster, work }, folder)
                })
                .collect();
            let works: Vec<&(WorkKey, RepoPath)> = works.iter().collect();
            let never = names.never_in_git(head, applied, &works, &AtomicBool::new(false));
            never.unwrap().iter().map(|key| key.work.to_string()).collect()
        }
    }

    #[test]
    fn folder_names_the_works_that_it_ever_made() {
        let world = World::new();
        let stays = ("a/stays/x.yaml", "");
        let commits = [
            vec![stays, ("a/plain/x.yaml", ""), ("a/renamed/x.yaml", "")],
            vec![stays, ("a/renamed/work.yaml", "name: second\n"), ("a/broken/x.yaml", "[")],
            vec![stays, ("a/renamed/work.yaml", "name: third\n"), ("b/other/x.yaml", "")],
            vec![stays, ("a/renamed/work.yaml", "name: third\nprune: false\n")],
        ];
        let commits = commits.iter().fold(None, |parent, files| Some(world.commit(parent, files)));
        let head = commits.unwrap();
        let had = [
            "stays a/stays",
            "plain a/plain",
            "broken a/broken",
            "renamed a/renamed",
            "second a/renamed",
            "third a/renamed",
        ];
        assert_eq!(world.never(head, &[], &had), [""; 0]);
        let never = [
            "addon a/addon",
            // Folders that others made.
            "one a/stays",
            "two a/plain",
            "three a/renamed",
            // Of another cluster, above and below a work folder.
            "other b/other",
            "four a",
            "five a/stays/x.yaml",
        ];
        assert_eq!(world.never(head, &[], &never).len(), never.len());
        assert_eq!(world.never(head, &[], &["plain a/plain", "one a/plain"]), ["one"]);
    }

    #[test]
    fn rewritten_history_counts_as_far_as_it_was_applied() {
        let world = World::new();
        let dropped = world.commit(None, &[("a/web/x.yaml", ""), ("a/db/x.yaml", "")]);
        let applied = world.commit(Some(dropped), &[("a/db/x.yaml", "")]);
        let head = world.commit(None, &[("a/stays/x.yaml", "")]);
        let works = ["web a/web", "db a/db"];
        assert_eq!(world.never(head, &[], &works), ["db", "web"]);
        assert_eq!(world.never(head, &[applied], &works), [""; 0]);
        // A commit that the mirror does not have says nothing.
        let missing = CommitId::parse(&"ab".repeat(20)).unwrap();
        assert_eq!(world.never(head, &[missing], &works), ["db", "web"]);
    }

    #[test]
    fn versions_of_a_name_are_followed_up_to_a_bound() {
        let world = World::new();
        let mut head = None;
        let last = limits::WORK_FILE_VERSIONS_MAX + 5;
        for version in 0..=last {
            let text = format!("name: n{version}\n");
            head = Some(world.commit(head, &[("a/web/work.yaml", &text)]));
        }
        let (oldest, newest) = (last - limits::WORK_FILE_VERSIONS_MAX, last);
        let works = [
            format!("n{newest} a/web"),
            format!("n{oldest} a/web"),
            format!("n{} a/web", oldest - 1),
        ];
        let works: Vec<&str> = works.iter().map(String::as_str).collect();
        assert_eq!(world.never(head.unwrap(), &[], &works), [format!("n{}", oldest - 1)]);
    }
}
