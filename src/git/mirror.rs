//! One bare mirror for each repository: fetched whole, since questions about removed folders need the history,
//! and made anew when it is damaged, belongs to somebody else or has grown past its budget.
//!
//! In the mirror's folder: `lock`, held as long as a [`Mirror`] lives, `mirror-<number>.git`, and `new.git` while
//! a new mirror is fetched, which then gets the next number. Numbers are not used again, since libgit2 keeps
//! packs open by their path for the whole process.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use git2::{Direction, ErrorClass, ErrorCode, FetchOptions, RemoteCallbacks};

use super::error::{FetchError, MirrorError, ReadError};
use super::remote::{Address, ProxyAddress, Reference, Remote};
use super::repository::{Ancestry, GitSnapshot, Repository, object_id, oid};
use super::transport::{Attempt, Bounds, SCHEME_URL, with_attempt};
use crate::core::name::{CommitId, RepoPath};
use crate::limits;

/// The key in the mirror's configuration under which its repository's URL is kept.
const URL_KEY: &str = "gitwork.url";
/// Where a new mirror is made.
const NEW: &str = "new.git";
/// Where a detached HEAD and commits fetched by id are kept, so that they count as had.
const PIN: &str = "refs/gitwork/pin";

/// Bounds of one mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MirrorLimits {
    /// One fetch, from the first look-up of a name to the last object.
    pub fetch_time_max: Duration,
    /// The server's silence during a fetch.
    pub stall_time_max: Duration,
    /// What one fetch may receive, in bytes.
    pub fetch_bytes_max: u64,
    /// What the mirror may take on disk, in bytes. Past it, it is made anew without what no branch or tag
    /// reaches any more; libgit2 cannot collect garbage.
    pub mirror_bytes_max: u64,
}

impl Default for MirrorLimits {
    /// Room for repositories a hundred times larger than a fleet's configuration should need.
    fn default() -> Self {
        Self {
            fetch_time_max: Duration::from_secs(300),
            stall_time_max: Duration::from_secs(30),
            fetch_bytes_max: 1 << 30,
            mirror_bytes_max: 2 << 30,
        }
    }
}

/// What a reference stands for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    pub commit: CommitId,
    /// The reference's full name on the remote, as in `refs/heads/main` or `refs/tags/v1.2.3`; the commit's
    /// id where that was asked for.
    pub name: String,
}

/// A bare mirror of one repository, used by this process alone.
pub struct Mirror {
    folder: PathBuf,
    remote: Remote,
    limits: MirrorLimits,
    repository: Repository,
    damaged: Arc<AtomicBool>,
    number: u64,
    /// Held, never read.
    _lock: FolderLock,
}

impl Mirror {
    /// Opens the mirror in a folder, or begins an empty one where there is none that can be used: none at all,
    /// a damaged one, one of another user or of another repository.
    pub fn open(folder: &Path, remote: Remote, limits: MirrorLimits) -> Result<Self, MirrorError> {
        Address::parse(&remote.url)?;
        if let Some(proxy) = &remote.proxy {
            ProxyAddress::parse(proxy)?;
        }
        create_private(folder)?;
        let lock = lock(folder)?;
        remove(&folder.join(NEW))?;
        let mut numbers = numbers(folder)?;
        let last = numbers.pop();
        let git = last.and_then(|number| usable(folder, number, &remote.url));
        let (number, git) = match git {
            Some(git) => (last.unwrap_or_default(), git),
            None => {
                let number = last.map_or(0, |last| last + 1);
                create(&folder.join(NEW), &remote.url)?;
                (number, install(folder, number)?)
            }
        };
        let mirror = Self::with(folder, remote, limits, number, git, lock);
        mirror.remove_others()?;
        Ok(mirror)
    }

    fn with(
        folder: &Path,
        remote: Remote,
        limits: MirrorLimits,
        number: u64,
        git: git2::Repository,
        lock: FolderLock,
    ) -> Self {
        let damaged = Arc::new(AtomicBool::new(false));
        let repository = Repository::new(git, Arc::clone(&damaged));
        let folder = folder.to_owned();
        Self { folder, remote, limits, repository, damaged, number, _lock: lock }
    }

    /// Removes the mirrors that came before this one.
    fn remove_others(&self) -> Result<(), MirrorError> {
        let others = numbers(&self.folder)?.into_iter().filter(|number| *number != self.number);
        others.into_iter().try_for_each(|number| remove(&numbered(&self.folder, number)))
    }

    /// What of the repository has been fetched so far.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Brings the mirror up to date for a reference, and answers the commit it stands for. On an error the
    /// mirror is as it was. `cancel` ends it within a fraction of a second.
    pub fn fetch(
        &mut self,
        reference: &Reference,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Fetched, FetchError> {
        self.remove_others()?;
        if self.damaged.load(Ordering::Relaxed) || self.is_worn()? {
            return self.rebuild(reference, cancel);
        }
        let bounds = self.bounds(self.limits.fetch_bytes_max);
        match fetch_into(self.repository.git(), &self.remote, bounds, reference, cancel) {
            // An error of our own disk: the mirror, and not the remote, is in doubt.
            Err(FetchError::Git { source, .. }) if is_local(&source) => {
                self.rebuild(reference, cancel)
            }
            other => other,
        }
    }

    /// The tree at a path of a commit that has been fetched.
    pub fn snapshot(&self, commit: CommitId, path: &RepoPath) -> Result<GitSnapshot, ReadError> {
        self.repository.snapshot(commit, path)
    }

    /// Whether `old` is `new` or comes before it.
    pub fn is_ancestor(&self, old: CommitId, new: CommitId) -> Result<Ancestry, ReadError> {
        self.repository.is_ancestor(old, new)
    }

    /// The commit that a revision names among what has been fetched.
    pub fn resolve(&self, revision: &str) -> Result<CommitId, ReadError> {
        self.repository.resolve(revision)
    }

    /// Bytes on disk.
    pub fn size(&self) -> Result<u64, MirrorError> {
        folder_size(&numbered(&self.folder, self.number), &mut |_| {})
    }

    fn bounds(&self, bytes_max: u64) -> Bounds {
        let MirrorLimits { fetch_time_max: total, stall_time_max: stall, .. } = self.limits;
        Bounds { total, stall, bytes_max }
    }

    /// Whether it has grown past its budget or into too many pieces.
    fn is_worn(&self) -> Result<bool, MirrorError> {
        let mut packs = 0;
        let size = folder_size(&numbered(&self.folder, self.number), &mut |path| {
            packs += usize::from(path.extension().is_some_and(|e| e == "pack"));
        })?;
        Ok(size > self.limits.mirror_bytes_max || packs > limits::MIRROR_PACKS_MAX)
    }

    /// Fetches into a new mirror and, once that has worked, puts it in the place of the old one, which stays on
    /// disk until the next fetch for the snapshots that were taken of it.
    fn rebuild(
        &mut self,
        reference: &Reference,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Fetched, FetchError> {
        let new = self.folder.join(NEW);
        remove(&new)?;
        let git = create(&new, &self.remote.url)?;
        let budget = self.limits.fetch_bytes_max.min(self.limits.mirror_bytes_max);
        let fetched = fetch_into(&git, &self.remote, self.bounds(budget), reference, cancel)
            .inspect_err(|_| drop(remove(&new)))?;
        let size = folder_size(&new, &mut |_| {})?;
        if size > self.limits.mirror_bytes_max {
            remove(&new)?;
            let limit = self.limits.mirror_bytes_max;
            return Err(FetchError::OverBudget { url: self.remote.url.clone(), size, limit });
        }
        drop(git);
        let git = install(&self.folder, self.number + 1)?;
        self.number += 1;
        self.damaged = Arc::default();
        self.repository = Repository::new(git, Arc::clone(&self.damaged));
        Ok(fetched)
    }
}

/// One reference of the remote.
struct Listed {
    name: String,
    id: git2::Oid,
}

fn fetch_into(
    git: &git2::Repository,
    remote: &Remote,
    bounds: Bounds,
    reference: &Reference,
    cancel: &Arc<AtomicBool>,
) -> Result<Fetched, FetchError> {
    if let Reference::Commit(id) = reference
        && git.find_commit(oid(*id)).and_then(|c| c.tree()).is_ok()
    {
        return Ok(Fetched { commit: *id, name: id.to_string() });
    }
    let attempt = Attempt::new(remote, bounds, cancel)?;
    attempt.check()?;
    with_attempt(&attempt, || {
        let explain = |e| attempt.explain(e);
        let url = libgit2_url(&attempt.address);
        let mut git_remote = git.remote_anonymous(&url).map_err(explain)?;
        let mut connection = git_remote
            .connect_auth(Direction::Fetch, Some(callbacks(&attempt)), None)
            .map_err(explain)?;
        let heads = connection.list().map_err(explain)?;
        if heads.len() > limits::REFERENCES_MAX {
            let limit = limits::REFERENCES_MAX;
            return Err(FetchError::TooManyReferences { url: remote.url.clone(), limit });
        }
        let listed: Vec<Listed> = heads
            .iter()
            .map(|head| Listed { name: head.name().to_owned(), id: head.oid() })
            .collect();
        let default = connection.default_branch().ok();
        let default = default.as_ref().and_then(|name| name.as_str().ok());
        let fetching = Fetching { git, attempt: &attempt, listed: &listed, reference };
        fetching.prune().map_err(explain)?;
        fetching.run(connection.remote(), default)
    })
}

/// One fetch, connected.
struct Fetching<'a> {
    git: &'a git2::Repository,
    attempt: &'a Arc<Attempt>,
    listed: &'a [Listed],
    reference: &'a Reference,
}

impl Fetching<'_> {
    fn run(
        &self,
        remote: &mut git2::Remote<'_>,
        default: Option<&str>,
    ) -> Result<Fetched, FetchError> {
        let wanted = match self.reference {
            Reference::Commit(id) => return self.pinned(remote, *id),
            Reference::Head => self.head(default)?,
            Reference::Branch(name) => self.named(&format!("refs/heads/{name}"))?,
            Reference::Tag(name) => self.named(&format!("refs/tags/{name}"))?,
            Reference::Semver(range) => self.highest(range)?,
        };
        let local = if wanted.name == "HEAD" { PIN } else { &wanted.name };
        let had = self.git.refname_to_id(local).is_ok_and(|id| id == wanted.id)
            && self.git.find_object(wanted.id, None).is_ok();
        if !had {
            self.download(remote, &[format!("+{}:{local}", wanted.name)])?;
            self.set(local, wanted.id)?;
        }
        let commit = self.peel(wanted.id, &wanted.name)?;
        Ok(Fetched { commit, name: wanted.name.clone() })
    }

    /// A commit by its id: from the branches and tags, or else from the server by name.
    fn pinned(&self, remote: &mut git2::Remote<'_>, id: CommitId) -> Result<Fetched, FetchError> {
        let all = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
        self.download(remote, &all.map(str::to_owned))?;
        for listed in self.listed.iter().filter(|l| is_branch_or_tag(&l.name)) {
            self.set(&listed.name, listed.id)?;
        }
        let fetched = Fetched { commit: id, name: id.to_string() };
        if self.git.find_commit(oid(id)).is_ok() {
            return Ok(fetched);
        }
        // Servers may refuse what no reference leads to; whatever they say, the answer is the same.
        let direct = self.download(remote, &[format!("{id}:{PIN}")]);
        if direct.is_ok() && self.git.find_commit(oid(id)).is_ok() {
            self.set(PIN, oid(id))?;
            return Ok(fetched);
        }
        self.attempt.check()?;
        Err(self.missing("; no branch or tag leads to it"))
    }

    fn head(&self, default: Option<&str>) -> Result<&Listed, FetchError> {
        let head = self.listed.iter().find(|l| l.name == "HEAD");
        let branch = default.and_then(|name| self.listed.iter().find(|l| l.name == name));
        // A detached HEAD can stand where a branch stands by chance; then the branch is as good.
        branch
            .or(head)
            .ok_or_else(|| self.missing("; is it empty? Push a commit, or name a branch"))
    }

    fn named(&self, name: &str) -> Result<&Listed, FetchError> {
        self.listed.iter().find(|l| l.name == name).ok_or_else(|| {
            let kind = if name.starts_with("refs/heads/") { "refs/heads/" } else { "refs/tags/" };
            let mut others: Vec<&str> =
                self.listed.iter().filter_map(|l| l.name.strip_prefix(kind)).collect();
            others.retain(|other| !other.ends_with("^{}"));
            others.truncate(5);
            if others.is_empty() {
                return self.missing("");
            }
            self.missing(&format!("; it has, for example, {}", others.join(", ")))
        })
    }

    fn highest(&self, range: &semver::VersionReq) -> Result<&Listed, FetchError> {
        let versions = self.listed.iter().filter_map(|listed| {
            let tag = listed.name.strip_prefix("refs/tags/")?;
            let version = semver::Version::parse(tag.strip_prefix('v').unwrap_or(tag)).ok()?;
            range.matches(&version).then_some((version, listed))
        });
        let best = versions.max_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.name.cmp(&b.1.name)));
        best.map(|(_, listed)| listed).ok_or_else(|| self.missing(""))
    }

    fn missing(&self, hint: &str) -> FetchError {
        FetchError::ReferenceMissing {
            url: self.attempt.url(),
            reference: self.reference.to_string(),
            hint: hint.chars().filter(|c| !c.is_control()).collect(),
        }
    }

    fn download(
        &self,
        remote: &mut git2::Remote<'_>,
        refspecs: &[String],
    ) -> Result<(), FetchError> {
        let mut options = FetchOptions::new();
        options
            .remote_callbacks(callbacks(self.attempt))
            .download_tags(git2::AutotagOption::None)
            .update_fetchhead(false);
        remote.download(refspecs, Some(&mut options)).map_err(|e| self.attempt.explain(e))
    }

    /// Sets one of our references; forced pushes move them anywhere.
    fn set(&self, name: &str, id: git2::Oid) -> Result<(), FetchError> {
        let set = self.git.reference(name, id, true, "fetch");
        set.map(drop).map_err(|e| self.attempt.explain(e))
    }

    /// Forgets branches and tags that the remote has no more: a branch `a` would be in the way of a new
    /// branch `a/b`. Their commits stay in the database.
    fn prune(&self) -> Result<(), git2::Error> {
        let listed: std::collections::BTreeSet<&str> =
            self.listed.iter().map(|l| l.name.as_str()).collect();
        for reference in self.git.references()? {
            let mut reference = reference?;
            let gone = reference.name().is_ok_and(|n| is_branch_or_tag(n) && !listed.contains(n));
            if gone {
                reference.delete()?;
            }
        }
        Ok(())
    }

    /// The commit behind an id, with its tree: what follows needs both, and damage shows here first.
    fn peel(&self, id: git2::Oid, name: &str) -> Result<CommitId, FetchError> {
        let explain = |e| self.attempt.explain(e);
        let object = self.git.find_object(id, None).map_err(explain)?;
        let commit = object.peel_to_commit().map_err(|e| match e.code() {
            ErrorCode::Peel | ErrorCode::InvalidSpec => FetchError::NotACommit {
                url: self.attempt.url(),
                reference: name.to_owned(),
                kind: object.kind().map_or_else(|| "thing".to_owned(), |kind| kind.to_string()),
            },
            _ => explain(e),
        })?;
        commit.tree().map_err(explain)?;
        Ok(object_id(commit.id()))
    }
}

fn is_branch_or_tag(name: &str) -> bool {
    (name.starts_with("refs/heads/") || name.starts_with("refs/tags/")) && !name.ends_with("^{}")
}

pub(super) fn callbacks(attempt: &Arc<Attempt>) -> RemoteCallbacks<'_> {
    let mut callbacks = RemoteCallbacks::new();
    callbacks.transfer_progress(|progress| {
        // Paths come through libgit2's own transport, whose bytes are counted here only.
        match attempt.check_bytes(progress.received_bytes() as u64) {
            Ok(()) => attempt.may_go_on(),
            Err(error) => {
                attempt.fail(error);
                false
            }
        }
    });
    callbacks.sideband_progress(|_| attempt.may_go_on());
    callbacks
}

/// What libgit2 is given to connect to. In a URL, unlike in a path, a colon has no meaning of its own.
pub(super) fn libgit2_url(address: &Address) -> String {
    let Address::Local(path) = address else { return SCHEME_URL.to_owned() };
    let mut url = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                url.push(*byte as char);
            }
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

/// Whether an error is about what is on our disk.
fn is_local(error: &git2::Error) -> bool {
    matches!(
        error.class(),
        ErrorClass::Odb
            | ErrorClass::Object
            | ErrorClass::Tree
            | ErrorClass::Zlib
            | ErrorClass::Reference
            | ErrorClass::Repository
            | ErrorClass::Config
    )
}

pub(super) fn create_private(folder: &Path) -> Result<(), MirrorError> {
    use std::os::unix::fs::DirBuilderExt as _;
    // What is in a private repository is nobody else's business.
    let create = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    create.map_err(|source| io_error("create the folder", folder, source))
}

/// One process's hold on a folder.
pub(super) struct FolderLock(File);

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Said, not left to the closing of the file: a child that another thread has just forked has the same
        // file open until it runs its program, and would hold the lock until then. An error leaves it to the
        // closing.
        let _ = self.0.unlock();
    }
}

pub(super) fn lock(folder: &Path) -> Result<FolderLock, MirrorError> {
    let path = folder.join("lock");
    let options = File::options().create(true).truncate(false).write(true).open(&path);
    let file = options.map_err(|source| io_error("open", &path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(FolderLock(file)),
        Err(TryLockError::WouldBlock) => Err(MirrorError::Locked { folder: folder.to_owned() }),
        Err(TryLockError::Error(source)) => Err(io_error("lock", &path, source)),
    }
}

/// The mirror of a number if it is one of this repository, readable and ours.
fn usable(folder: &Path, number: u64, url: &str) -> Option<git2::Repository> {
    use std::os::unix::fs::MetadataExt as _;
    let path = numbered(folder, number);
    // libgit2's own check can be turned off in the user's configuration.
    let ours = tempfile::tempfile_in(folder).ok()?.metadata().ok()?.uid();
    if fs::metadata(&path).ok()?.uid() != ours {
        return None;
    }
    let git = git2::Repository::open_bare(path).ok()?;
    let recorded = git.config().and_then(|mut c| c.snapshot()?.get_string(URL_KEY)).ok()?;
    let readable = git.references().is_ok() && git.odb().is_ok() && !git.is_shallow();
    (recorded == url && readable).then_some(git)
}

fn numbered(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("mirror-{number}.git"))
}

/// The numbers of the mirrors in a folder, in order.
fn numbers(folder: &Path) -> Result<Vec<u64>, MirrorError> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| io_error("list", folder, e))? {
        let name = entry.map_err(|e| io_error("list", folder, e))?.file_name();
        let number = name.to_str().and_then(|n| n.strip_prefix("mirror-")?.strip_suffix(".git"));
        numbers.extend(number.and_then(|n| n.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn create(path: &Path, url: &str) -> Result<git2::Repository, MirrorError> {
    let failed = |source| MirrorError::Git { folder: path.to_owned(), source };
    let mut options = git2::RepositoryInitOptions::new();
    // Templates of the system could bring hooks and settings.
    options.bare(true).external_template(false).no_reinit(true);
    let git = git2::Repository::init_opts(path, &options).map_err(failed)?;
    git.config().and_then(|mut c| c.set_str(URL_KEY, url)).map_err(failed)?;
    Ok(git)
}

/// Makes the new mirror the one of a number.
fn install(folder: &Path, number: u64) -> Result<git2::Repository, MirrorError> {
    let (new, path) = (folder.join(NEW), numbered(folder, number));
    remove(&path)?;
    fs::rename(&new, &path).map_err(|source| io_error("move into place", &new, source))?;
    git2::Repository::open_bare(&path).map_err(|source| MirrorError::Git { folder: path, source })
}

/// Removes a folder, or whatever else has its name.
pub(super) fn remove(path: &Path) -> Result<(), MirrorError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(facts) if facts.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) => Err(e),
    };
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(io_error("remove", path, e)),
        _ => Ok(()),
    }
}

/// The bytes of all files below a folder. Files that vanish meanwhile count as nothing.
fn folder_size(folder: &Path, seen: &mut dyn FnMut(&Path)) -> Result<u64, MirrorError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(e) => return Err(io_error("list", folder, e)),
    };
    let mut size = 0;
    for entry in entries {
        let entry = entry.map_err(|e| io_error("list", folder, e))?;
        let Ok(facts) = entry.metadata() else { continue };
        if facts.is_dir() {
            size += folder_size(&entry.path(), seen)?;
        } else {
            seen(&entry.path());
            size += facts.len();
        }
    }
    Ok(size)
}

pub(super) fn io_error(action: &'static str, path: &Path, source: io::Error) -> MirrorError {
    MirrorError::Io { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_urls_that_mean_the_same() {
        let url = libgit2_url(&Address::Local("/srv/a b:c%.git".into()));
        assert_eq!(url, "file:///srv/a%20b%3Ac%25.git");
    }
}
