//! One source: a repository, a ref and a path, opened and read into what Git wants. Blocking; the daemon and the
//! commands share it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::core::departed::{self, Removal};
use crate::core::desired::{Desired, Renderer};
use crate::core::digest::Digest;
use crate::core::kinds::KindIndex;
use crate::core::name::{CommitId, NameError, ObjectId, RepoPath, SourceId, WorkKey};
use crate::core::plan::{Departed, LastStood};
use crate::core::review::Signatures;
use crate::core::signature::judge::Refusal;
use crate::core::snapshot::{ObjectError, Snapshot};
use crate::core::tenancy::Tenancy;
use crate::core::work::DesiredWork;
use crate::error::with_causes;
use crate::git::directory::DirectoryError;
use crate::git::{
    self, CommitFacts, Directory, FetchError, GitSnapshot, LocalRepository, Mirror, MirrorError,
    MirrorLimits, PushError, Reference, Remote, Witness, history, replace_file,
};
use crate::verification::{self, Verification, VerifyError};

/// What is needed to read a source.
#[derive(Debug, Clone)]
pub struct SourceConfig {
    pub id: SourceId,
    pub repository: Repository,
    /// Where the layout starts inside the repository.
    pub path: RepoPath,
    /// What the operator lets the folders do.
    pub tenancy: Tenancy,
}

/// Where a source's files come from.
#[derive(Debug, Clone)]
pub enum Repository {
    /// A Git repository, fetched into a mirror below `cache`.
    Git { remote: Box<Remote>, reference: Reference, cache: PathBuf },
    /// A folder as it is on disk, uncommitted changes included.
    Directory(PathBuf),
}

/// Why a source could not be read. Nothing may be taken for absent then.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Repository(#[from] git::ReadError),
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Objects(#[from] ObjectError),
    #[error("the status branch, which tells what was done on the hub: {0}")]
    Witness(PushError),
    #[error(transparent)]
    Unverified(#[from] VerifyError),
    #[error(
        "{path} is a folder on disk, which has no signatures; name its repository by a URL or a branch, or leave out `signers`"
    )]
    NothingSigned { path: PathBuf },
}

impl ReadError {
    /// The commit that is refused, where that is why.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Unverified(VerifyError::Refused(refusal)) => Some(refusal),
            _ => None,
        }
    }
}

/// One state of a source.
#[derive(Debug, Clone)]
pub struct Read {
    pub desired: Arc<Desired>,
    /// The ref or folder that was read, for people.
    pub name: String,
    /// When the commit was made, in seconds since 1970; `None` where the source is a folder on disk.
    pub committed_seconds: Option<i64>,
    /// How long it took.
    pub spent: Spent,
    /// Why this is the last verified commit, and not the one that the ref stands for.
    pub refused: Option<Arc<Refusal>>,
    /// The tree at the source's path.
    pub root: ObjectId,
}

/// The parts of the time that reading a source took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    pub fetch: Duration,
    /// `None` where nothing had changed.
    pub render: Option<Duration>,
}

/// An opened source. Keeps the mirror, and what was rendered last.
pub struct Source {
    config: SourceConfig,
    origin: Origin,
    renderer: Renderer,
    verification: Option<Verification>,
    /// Who is to be asked once what was done on the hub.
    witness: Option<Witness>,
    /// The count of moves that it told.
    witnessed: u64,
    last: Option<Read>,
}

enum Origin {
    Mirror { mirror: Box<Mirror>, reference: Reference },
    Directory(Directory),
}

/// The id of a source that was given none: what people call the repository, and a hash that keeps apart what
/// differs in repository, ref or path.
pub fn default_id(
    repository: &str,
    reference: &str,
    path: &RepoPath,
) -> Result<SourceId, NameError> {
    let name = repository.trim_end_matches('/').trim_end_matches(".git");
    let name = name.rsplit(['/', ':', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    let slug: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
    let hash = Digest::of(format!("{repository}\n{reference}\n{path}").as_bytes()).to_string();
    let hash = hash.get(..8).unwrap_or_default();
    let slug = slug.trim_matches('-');
    SourceId::parse(&if slug.is_empty() {
        format!("source-{hash}")
    } else {
        format!("{slug}-{hash}")
    })
}

/// The folder of a repository's mirror below the cache.
fn mirror_folder(cache: &Path, url: &str) -> PathBuf {
    let hash = Digest::of(url.as_bytes()).to_string();
    cache.join(hash.get(..16).unwrap_or_default()).with_extension("git")
}

impl Source {
    /// Opens the mirror or the folder. Nothing is fetched yet.
    pub fn open(config: SourceConfig) -> Result<Self, ReadError> {
        let origin = match &config.repository {
            Repository::Git { remote, reference, cache } => {
                let folder = mirror_folder(cache, &remote.url);
                let mirror = Mirror::open(&folder, Remote::clone(remote), MirrorLimits::default())?;
                Origin::Mirror { mirror: Box::new(mirror), reference: reference.clone() }
            }
            Repository::Directory(folder) => {
                Origin::Directory(Directory::new(&folder.join(config.path.as_str())))
            }
        };
        let renderer = Renderer::new(config.id.clone()).within(config.tenancy.clone());
        let (verification, witness, last) = (None, None, None);
        Ok(Self { config, origin, renderer, verification, witness, witnessed: 0, last })
    }

    /// Asks the status branch of this name, once, what was done on the hub: a new machine with an empty mirror knows no
    /// better, and a hub that was restored from a backup says less.
    pub fn witnessed_by(mut self, branch: &str) -> Self {
        if let Repository::Git { remote, cache, .. } = &self.config.repository {
            let folder = cache.join(format!("{}-witness", self.config.id));
            self.witness = Some(Witness::new(&folder, Remote::clone(remote), branch));
        }
        self
    }

    /// A status branch that only a person can mend is no reason to change nothing; one that cannot be read now is.
    fn ask_witness(&mut self, cancel: &Arc<AtomicBool>) -> Result<(), ReadError> {
        let Some(witness) = &self.witness else { return Ok(()) };
        match witness.moves(&self.config.id, cancel) {
            Ok(moves) => self.witnessed = moves,
            Err(error) if error.needs_somebody() => tracing::warn!(
                source = %self.config.id, branch = witness.branch(), error = with_causes(&error),
                "the status branch cannot be read; a hub that was restored from a backup may go unnoticed"
            ),
            Err(error) => return Err(ReadError::Witness(error)),
        }
        self.witness = None;
        Ok(())
    }

    /// Reads verified commits only from now on.
    pub fn verified_by(mut self, mut verification: Verification) -> Result<Self, ReadError> {
        match &self.config.repository {
            Repository::Git { remote, cache, .. } => {
                let folder = mirror_folder(cache, &remote.url);
                verification.remember_in(folder.join(format!("{}.verified", self.config.id)));
                self.verification = Some(verification);
            }
            Repository::Directory(_) if verification.asks_nothing() => {}
            Repository::Directory(path) => {
                return Err(ReadError::NothingSigned { path: path.clone() });
            }
        }
        Ok(self)
    }

    /// Reads verified commits only from now on, by what the hub says was applied: what was found verified on this machine
    /// does not count, nor is it kept. A folder on disk is read as it is.
    pub fn judged_by(self, verification: Verification) -> Self {
        let is_git = matches!(self.config.repository, Repository::Git { .. });
        Self { verification: is_git.then(|| verification.on_trial()), ..self }
    }

    /// What the daemon would say of the signatures of what is new from `base` to `head`, taking `base` for verified;
    /// `None` where nobody asks for any. Without `head` it is what was read last, or of a folder on disk the commit that is
    /// checked out.
    pub fn judge(
        &self,
        verification: &mut Verification,
        base: &str,
        head: Option<&str>,
        cancel: &AtomicBool,
    ) -> Result<Option<Signatures>, ReadError> {
        let last = self.last.as_ref().and_then(|last| last.desired.commit);
        match &self.origin {
            Origin::Mirror { mirror, .. } => {
                let head = head.map(|head| mirror.resolve(head)).transpose()?.or(last);
                let head = head.map_or_else(|| mirror.resolve("HEAD"), Ok)?;
                let range = [mirror.resolve(base)?, head];
                let (git, path) = (mirror.repository(), &self.config.path);
                Ok(verification.judge_range(git, path, range, cancel)?)
            }
            Origin::Directory(directory) => {
                let local = LocalRepository::discover(directory.root())?;
                let git = local.repository();
                let range = [git.resolve(base)?, git.resolve(head.unwrap_or("HEAD"))?];
                Ok(verification.judge_range(git, local.path(), range, cancel)?)
            }
        }
    }

    /// Whether `gitwork.yaml` of a commit asks for signatures; never where the source is a folder on disk.
    pub fn asks_for_signatures(&self, commit: CommitId) -> Result<bool, ReadError> {
        match &self.origin {
            Origin::Mirror { mirror, .. } => {
                let path = &self.config.path;
                Ok(verification::asks_for_signatures(mirror.repository(), path, commit)?)
            }
            Origin::Directory(_) => Ok(false),
        }
    }

    /// Whether it has to be told what of it was applied, before it can be read.
    pub fn wants_applied(&self) -> bool {
        self.verification.as_ref().is_some_and(Verification::wants_applied)
    }

    /// Tells it the commits that the hub says were applied.
    pub fn set_applied(&mut self, commits: BTreeSet<CommitId>) {
        if let Some(verification) = &mut self.verification {
            verification.set_applied(commits);
        }
    }

    pub fn config(&self) -> &SourceConfig {
        &self.config
    }

    /// Fetches and renders. What did not change since the last time is not read again.
    pub fn read(&mut self, cancel: &Arc<AtomicBool>) -> Result<Read, ReadError> {
        let began = Instant::now();
        let read = match &mut self.origin {
            Origin::Mirror { mirror, reference } => {
                let fetched = mirror.fetch(reference, cancel)?;
                let fetch = began.elapsed();
                let (commit, refused) = match &mut self.verification {
                    Some(verification) => {
                        let (git, path) = (mirror.repository(), &self.config.path);
                        let found = verification.verify(git, path, fetched.commit, cancel)?;
                        (found.commit, found.refusal.map(Arc::from))
                    }
                    None => (fetched.commit, None),
                };
                let name = fetched.name;
                if let Some(last) = &self.last
                    && last.desired.commit == Some(commit)
                {
                    let spent = Spent { fetch, render: None };
                    return Ok(Read { name, refused, spent, ..last.clone() });
                }
                let snapshot = mirror.snapshot(commit, &self.config.path)?;
                let desired = Arc::new(self.renderer.render(&snapshot.snapshot())?);
                let facts = mirror.repository().commit(commit)?;
                Read {
                    desired,
                    name,
                    refused,
                    committed_seconds: Some(facts.committed_seconds),
                    spent: Spent { fetch, render: Some(began.elapsed().saturating_sub(fetch)) },
                    root: snapshot.root,
                }
            }
            Origin::Directory(directory) => {
                let snapshot = directory.snapshot()?;
                let fetch = began.elapsed();
                if let Some(last) = &self.last
                    && last.root == snapshot.root
                {
                    return Ok(Read { spent: Spent { fetch, render: None }, ..last.clone() });
                }
                let desired = Arc::new(self.renderer.render(&snapshot.snapshot())?);
                Read {
                    desired,
                    name: directory.root().display().to_string(),
                    refused: None,
                    committed_seconds: None,
                    spent: Spent { fetch, render: Some(began.elapsed().saturating_sub(fetch)) },
                    root: snapshot.root,
                }
            }
        };
        self.ask_witness(cancel)?;
        self.last = Some(read.clone());
        Ok(read)
    }

    /// Reads one revision, as `git rev-parse` names it, of the repository that the source is in.
    pub fn read_revision(
        &mut self,
        revision: &str,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Desired, ReadError> {
        let snapshot = match &mut self.origin {
            Origin::Mirror { mirror, reference } => {
                if self.last.is_none() {
                    mirror.fetch(reference, cancel)?;
                }
                mirror.snapshot(mirror.resolve(revision)?, &self.config.path)?
            }
            Origin::Directory(directory) => {
                let local = LocalRepository::discover(directory.root())?;
                let commit = local.repository().resolve(revision)?;
                local.repository().snapshot(commit, local.path())?
            }
        };
        // What was rendered last is a good start: most works of two revisions are the same.
        Ok(self.renderer.clone().render(&snapshot.snapshot())?)
    }

    /// Those of `commits` that `head` does not build on; none where the source is a folder.
    pub fn unreached(
        &self,
        head: CommitId,
        commits: &BTreeSet<CommitId>,
        cancel: &AtomicBool,
    ) -> Result<BTreeSet<CommitId>, ReadError> {
        match &self.origin {
            Origin::Mirror { mirror, .. } => {
                Ok(mirror.repository().unreached(head, commits, cancel)?)
            }
            Origin::Directory(_) => Ok(BTreeSet::new()),
        }
    }

    /// The count of moves that the source's record on the hub had when this machine last saw it, or the status branch was
    /// published; 0 where neither is so.
    pub fn known_moves(&self) -> u64 {
        self.remembered_moves().max(self.witnessed)
    }

    fn remembered_moves(&self) -> u64 {
        let text = self.beside_mirror("moves").and_then(|file| std::fs::read_to_string(file).ok());
        text.and_then(|text| text.trim().parse().ok()).unwrap_or_default()
    }

    /// Keeps it beside the mirror: a hub that has a lower one was restored from a backup.
    pub fn remember_moves(&self, moves: u64) -> std::io::Result<()> {
        match self.beside_mirror("moves").filter(|_| moves != self.remembered_moves()) {
            Some(file) => replace_file(&file, &format!("{moves}\n")),
            None => Ok(()),
        }
    }

    /// A name for the process that has this source open, which begins with `host` and is no other's at the same time. One
    /// that comes after it, with the same mirror and since the same boot, has the same name: the mirror is locked, so the
    /// one before it is dead, and its Lease need not expire first.
    pub fn holder(&self, host: &str) -> String {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let prefix = format!("{host}_{}_", boot.get(..8).unwrap_or_default());
        let fresh = format!("{prefix}{:016x}", fastrand::u64(..));
        let Some(file) = self.beside_mirror("holder").filter(|_| !boot.is_empty()) else {
            return fresh;
        };
        let known = std::fs::read_to_string(&file).unwrap_or_default();
        let known = known.trim();
        let is_ours = |rest: &str| rest.len() == 16 && rest.bytes().all(|b| b.is_ascii_hexdigit());
        if known.strip_prefix(&prefix).is_some_and(is_ours) {
            return known.to_owned();
        }
        if let Err(error) = replace_file(&file, &format!("{fresh}\n")) {
            tracing::debug!(source = %self.config.id, %error, "a process that comes after this one waits for its Lease to expire");
        }
        fresh
    }

    /// A file of this source in the folder of its mirror, which this process has locked.
    fn beside_mirror(&self, extension: &str) -> Option<PathBuf> {
        let Repository::Git { remote, cache, .. } = &self.config.repository else { return None };
        Some(mirror_folder(cache, &remote.url).join(format!("{}.{extension}", self.config.id)))
    }

    /// Git's last word on works that `desired` does not have. Works without known history are left out.
    pub fn departed(
        &self,
        desired: &Desired,
        candidates: &[(WorkKey, RepoPath)],
        cancel: &AtomicBool,
    ) -> Result<Departed, ReadError> {
        let (Origin::Mirror { mirror, .. }, Some(head)) = (&self.origin, desired.commit) else {
            return Ok(Departed::new());
        };
        let mut found = Departed::new();
        let mut folders: Vec<(&WorkKey, &RepoPath)> = Vec::new();
        let there: BTreeMap<&RepoPath, &DesiredWork> =
            desired.works.values().map(|work| (&work.path, work)).collect();
        for (key, path) in candidates {
            // The folder is still there, under another name: what it says now is the last word.
            if let Some(work) = there.get(path) {
                let delete_option = work.delete_option.clone();
                let word = LastStood {
                    removed_by: Some(head),
                    delete_option,
                    prune: work.prune,
                    budgets: None,
                    brought: None,
                };
                found.insert(key.clone(), word);
            } else {
                folders.push((key, path));
            }
        }
        let in_repository: BTreeSet<RepoPath> =
            folders.iter().map(|(_, path)| self.config.path.join_path(path)).collect();
        let removals = history::last_stood(mirror.repository(), head, &in_repository, cancel)?;
        // One commit mostly removes many.
        let mut snapshots: BTreeMap<CommitId, Option<GitSnapshot>> = BTreeMap::new();
        let mut brought: BTreeMap<CommitId, Arc<BTreeSet<WorkKey>>> = BTreeMap::new();
        for (key, path) in folders {
            let Some(ends) = removals.get(&self.config.path.join_path(path)) else { continue };
            for commit in [ends.last_in, ends.removed_by] {
                if let Entry::Vacant(place) = snapshots.entry(commit) {
                    place.insert(self.snapshot(mirror, commit)?);
                }
            }
            let at = |commit| snapshots.get(&commit).and_then(Option::as_ref);
            let Some(before) = at(ends.last_in) else { continue };
            let removal = Removal {
                key,
                folder: path,
                removed_by: ends.removed_by,
                before: before.root,
                after: at(ends.removed_by).map(|after| after.root),
                objects: before,
            };
            let Some(mut word) = departed::last_stood(&self.config.id, &removal)? else { continue };
            word.brought = Some(match brought.entry(ends.last_in) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(place) => {
                    let new = departed::brought(desired, before.root, before)?;
                    place.insert(Arc::new(new)).clone()
                }
            });
            found.insert(key.clone(), word);
        }
        Ok(found)
    }

    /// Does something with the snapshot that was read last, and with the kinds that its CRDs define.
    pub fn with_snapshot<T>(
        &mut self,
        read: &Read,
        act: impl FnOnce(&Snapshot<'_>, &KindIndex) -> Result<T, ObjectError>,
    ) -> Result<T, ReadError> {
        let kinds = self.renderer.kinds();
        match &mut self.origin {
            Origin::Mirror { mirror, .. } => {
                let commit = read.desired.commit.map_or_else(|| mirror.resolve("HEAD"), Ok)?;
                let snapshot = mirror.snapshot(commit, &self.config.path)?;
                Ok(act(&snapshot.snapshot(), kinds)?)
            }
            Origin::Directory(directory) => Ok(act(&directory.snapshot()?.snapshot(), kinds)?),
        }
    }

    /// Where a path of the source stands in Git's history; empty where it is in no repository.
    pub fn history_of(&self, path: &RepoPath, cancel: &AtomicBool) -> Result<History, ReadError> {
        match (&self.origin, self.last.as_ref().and_then(|last| last.desired.commit)) {
            (Origin::Mirror { mirror, .. }, Some(head)) => {
                history(mirror.repository(), head, &self.config.path.join_path(path), cancel)
            }
            (Origin::Mirror { .. }, None) => Ok(History::default()),
            (Origin::Directory(directory), _) => {
                // A folder that is in no repository, or in one without a commit, has no history.
                let Ok(local) = LocalRepository::discover(directory.root()) else {
                    return Ok(History::default());
                };
                let Ok(head) = local.repository().resolve("HEAD") else {
                    return Ok(History::default());
                };
                history(local.repository(), head, &local.path().join_path(path), cancel)
            }
        }
    }

    /// The source's path in a commit; `None` where the commit has no such folder. What cannot be read is an error,
    /// never taken for absent.
    fn snapshot(
        &self,
        mirror: &Mirror,
        commit: CommitId,
    ) -> Result<Option<GitSnapshot>, git::ReadError> {
        match mirror.snapshot(commit, &self.config.path) {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(git::ReadError::PathMissing { .. } | git::ReadError::NotAFolder { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// For each work folder, the commit that last changed it; `head` where that is not known.
    pub fn last_changed(
        &self,
        head: CommitId,
        folders: &BTreeSet<RepoPath>,
        cancel: &AtomicBool,
    ) -> Result<BTreeMap<RepoPath, CommitId>, ReadError> {
        let mut found: BTreeMap<RepoPath, CommitId> =
            folders.iter().map(|folder| (folder.clone(), head)).collect();
        if let Origin::Mirror { mirror, .. } = &self.origin {
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
}

/// How a path came to be as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The commit that last changed it, where it is there.
    pub last_change: Option<CommitFacts>,
    /// The commit that removed it, where it is not there and once was.
    pub removed_by: Option<CommitFacts>,
    /// What the commit that was asked about has there.
    pub committed: Option<ObjectId>,
}

fn history(
    repository: &git::Repository,
    head: CommitId,
    path: &RepoPath,
    cancel: &AtomicBool,
) -> Result<History, ReadError> {
    let committed = repository.entry(head, path)?;
    let paths = BTreeSet::from([path.clone()]);
    if committed.is_some() {
        let changed = history::last_changed(repository, head, &paths, cancel)?;
        let last_change = changed.get(path).map(|id| repository.commit(*id)).transpose()?;
        return Ok(History { last_change, removed_by: None, committed });
    }
    let removed = history::last_stood(repository, head, &paths, cancel)?;
    let removed = removed.get(path).map(|departed| repository.commit(departed.removed_by));
    Ok(History { last_change: None, removed_by: removed.transpose()?, committed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_ids_are_readable_and_keep_sources_apart() {
        let root = RepoPath::root();
        let id = |repository, reference, path: &RepoPath| {
            default_id(repository, reference, path).unwrap().to_string()
        };
        let first = id("https://git.example/team/Fleet_Config.git", "main", &root);
        assert!(first.starts_with("fleet-config-"), "{first}");
        assert_eq!(first, id("https://git.example/team/Fleet_Config.git", "main", &root));
        assert_ne!(first, id("https://git.example/team/Fleet_Config.git", "next", &root));
        assert_ne!(first, id("https://git.example/team/Fleet_Config.git", "main", &root.join("a")));
        assert!(id("///", "", &root).starts_with("source-"));
        assert!(id(&"ü".repeat(200), "", &root).len() <= 63);
    }
}
