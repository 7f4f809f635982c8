//! The branch with the clusters' status: built in a repository of its own from tree and blob ids, without a working
//! tree, and pushed as a fast-forward.
//!
//! The tree is always the whole status as this process knows it. Where somebody else has pushed in between, the same
//! tree goes on top of theirs: nothing is merged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use git2::{
    Direction, ErrorCode, FetchOptions, Oid, PushOptions, RemoteCallbacks, Signature, Time,
};

use super::error::{FetchError, MirrorError};
use super::mirror::{FolderLock, callbacks, create_private, io_error, libgit2_url, lock, remove};
use super::remote::{Address, Remote};
use super::repository::object_id;
use super::transport::{Attempt, Bounds, with_attempt};
use crate::core::name::{CommitId, RepoPath};
use crate::core::status::source::SourceStatus;
use crate::core::statusbranch::{Change, SUMMARY_FILE, Summary, changes};
use crate::limits;

/// Where the branch's tip is kept in the repository here.
const TIP: &str = "refs/gitwork/status-tip";
/// What is about to be pushed.
const NEXT: &str = "refs/gitwork/status-next";
const FILE_MODE: i32 = 0o100_644;
const FOLDER_MODE: i32 = 0o040_000;

/// What a publication came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The branch shows just this already.
    Unchanged,
    Pushed {
        commit: CommitId,
    },
}

/// Why the status was not pushed.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The remote cannot be reached, or does not let these credentials write.
    #[error(transparent)]
    Remote(#[from] FetchError),
    #[error(
        "the branch {branch} is not gitwork's for this source (it has no {SUMMARY_FILE} of source {source_id}); \
         name another branch, or delete it"
    )]
    Foreign { branch: String, source_id: String },
    #[error(
        "the remote does not take a push to {branch}: {message}; allow it for these credentials"
    )]
    Rejected { branch: String, message: String },
    #[error("somebody else pushes to {branch} all the time; it is left to the next time")]
    Contended { branch: String },
    #[error("{name:?} is no branch's name")]
    BadName { name: String },
    #[error("Git failed on {folder}, where the status branch is made")]
    Git { folder: PathBuf, source: git2::Error },
}

impl PushError {
    /// Whether the credentials, or the branch's protection, do not allow it: trying again soon is no use.
    pub fn needs_somebody(&self) -> bool {
        match self {
            Self::Remote(error) => error.class() == super::error::FetchErrorClass::Permanent,
            Self::Foreign { .. } | Self::Rejected { .. } | Self::BadName { .. } => true,
            Self::Contended { .. } | Self::Git { .. } => false,
        }
    }
}

/// The status branch of one source.
pub struct StatusBranch {
    folder: PathBuf,
    remote: Remote,
    branch: String,
    git: git2::Repository,
    /// What was rendered last, and its tree.
    rendered: Option<(Arc<SourceStatus>, Oid)>,
    /// The remote's tip as far as it is known; `None` before it was asked.
    tip: Option<Tip>,
    pushes: usize,
    /// Held, never read.
    _lock: FolderLock,
}

/// The remote's tip.
#[derive(Debug, Clone, Copy)]
struct Tip {
    /// `None` where the branch does not exist.
    commit: Option<Oid>,
    /// Commits below it, itself included.
    length: usize,
}

/// What the remote said to a push.
enum Said {
    Taken,
    /// Its tip is not the one that the push was made for.
    Moved,
    Refused(String),
}

impl StatusBranch {
    /// Makes an empty repository in `folder`, which is this status branch's alone. Nothing is fetched yet.
    pub fn open(folder: &Path, remote: Remote, branch: &str) -> Result<Self, PushError> {
        let name = format!("refs/heads/{branch}");
        if !git2::Reference::is_valid_name(&name) || branch.starts_with('-') {
            return Err(PushError::BadName { name: branch.to_owned() });
        }
        Address::parse(&remote.url).map_err(|e| FetchError::from(MirrorError::from(e)))?;
        create_private(folder).map_err(FetchError::from)?;
        let lock = lock(folder).map_err(FetchError::from)?;
        let git = init(folder)?;
        let branch = branch.to_owned();
        let folder = folder.to_owned();
        Ok(Self { folder, remote, branch, git, rendered: None, tip: None, pushes: 0, _lock: lock })
    }

    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// Brings the branch to this status. Blocks; `now_seconds` (since 1970) is the commit's time. On an error nothing
    /// is lost: the next publication has all that this one had.
    pub fn publish(
        &mut self,
        status: &Arc<SourceStatus>,
        now_seconds: i64,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Published, PushError> {
        if self.pushes >= limits::STATUS_PUSHES_MAX {
            // libgit2 cannot collect garbage.
            self.git = init(&self.folder)?;
            (self.rendered, self.tip, self.pushes) = (None, None, 0);
        }
        let tree = self.render(status)?;
        for _ in 0..limits::STATUS_PUSH_ATTEMPTS_MAX {
            let tip = match self.tip {
                Some(tip) => tip,
                None => self.fetch(status, cancel)?,
            };
            if self.tree_of(tip)? == Some(tree) {
                return Ok(Published::Unchanged);
            }
            let (said, commit, length) = self.push_tree(status, tree, tip, now_seconds, cancel)?;
            match said {
                Said::Taken => {
                    self.pushes += 1;
                    self.tip = Some(Tip { commit: Some(commit), length });
                    return Ok(Published::Pushed { commit: object_id(commit) });
                }
                Said::Moved => self.tip = None,
                Said::Refused(message) => {
                    self.tip = None;
                    return Err(PushError::Rejected { branch: self.branch.clone(), message });
                }
            }
        }
        Err(PushError::Contended { branch: self.branch.clone() })
    }

    /// Pushes a commit with this tree; past the bound one without history, where the remote takes that. Answers it with
    /// the length of its history.
    fn push_tree(
        &self,
        status: &SourceStatus,
        tree: Oid,
        tip: Tip,
        now_seconds: i64,
        cancel: &Arc<AtomicBool>,
    ) -> Result<(Said, Oid, usize), PushError> {
        let is_long = tip.length >= limits::STATUS_HISTORY_MAX;
        if is_long {
            let root = self.commit(status, tree, None, now_seconds)?;
            let said = self.push(root, tip, true, cancel)?;
            if matches!(said, Said::Taken) {
                return Ok((said, root, 1));
            }
        }
        let commit = self.commit(status, tree, tip.commit, now_seconds)?;
        // A remote that keeps the long history is asked again after as many commits.
        let length = if is_long { 1 } else { tip.length + 1 };
        Ok((self.push(commit, tip, false, cancel)?, commit, length))
    }

    fn failed(&self) -> impl Fn(git2::Error) -> PushError + use<> {
        let folder = self.folder.clone();
        move |source| PushError::Git { folder: folder.clone(), source }
    }

    /// The tree of a status, made from the one before it where there is one.
    fn render(&mut self, status: &Arc<SourceStatus>) -> Result<Oid, PushError> {
        let (before, base) = match &self.rendered {
            Some((before, tree)) => (Some(&**before), Some(*tree)),
            None => (None, None),
        };
        let changes = changes(before, status);
        let tree = match (base, changes.is_empty()) {
            (Some(tree), true) => tree,
            _ => build(&self.git, base, changes).map_err(self.failed())?,
        };
        self.rendered = Some((Arc::clone(status), tree));
        Ok(tree)
    }

    fn tree_of(&self, tip: Tip) -> Result<Option<Oid>, PushError> {
        let Some(commit) = tip.commit else { return Ok(None) };
        let commit = self.git.find_commit(commit).map_err(self.failed())?;
        Ok(Some(commit.tree_id()))
    }

    fn commit(
        &self,
        status: &SourceStatus,
        tree: Oid,
        parent: Option<Oid>,
        now_seconds: i64,
    ) -> Result<Oid, PushError> {
        let make = || {
            let who = Signature::new("gitwork", "gitwork@localhost", &Time::new(now_seconds, 0))?;
            let of = status.commit.map_or_else(String::new, |id| format!("\n\nCommit: {id}\n"));
            let message = crate::core::report::harmless(&status.line(100)) + &of;
            let tree = self.git.find_tree(tree)?;
            let parent = parent.map(|parent| self.git.find_commit(parent)).transpose()?;
            let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
            let id = self.git.commit(None, &who, &who, &message, &tree, &parents)?;
            self.git.reference(NEXT, id, true, "status")?;
            Ok(id)
        };
        make().map_err(self.failed())
    }

    fn attempt(&self, cancel: &Arc<AtomicBool>) -> Result<Arc<Attempt>, FetchError> {
        let bounds = Bounds {
            total: limits::STATUS_PUSH,
            stall: Duration::from_secs(30),
            bytes_max: limits::STATUS_FETCH_BYTES_MAX,
        };
        Attempt::new(&self.remote, bounds, cancel)
    }

    /// What the remote's branch says of its source; `None` where there is no such branch, or it is no status branch.
    pub fn published(&self, cancel: &Arc<AtomicBool>) -> Result<Option<Summary>, PushError> {
        Ok(self.fetch_tip(cancel)?.and_then(|commit| self.summary_of(commit)))
    }

    fn fetch(&mut self, status: &SourceStatus, cancel: &Arc<AtomicBool>) -> Result<Tip, PushError> {
        let commit = self.fetch_tip(cancel)?;
        let tip = Tip { commit, length: self.length(commit)? };
        self.check_ours(tip, status)?;
        self.tip = Some(tip);
        Ok(tip)
    }

    /// Asks for the remote's tip and fetches it.
    fn fetch_tip(&self, cancel: &Arc<AtomicBool>) -> Result<Option<Oid>, PushError> {
        let attempt = self.attempt(cancel)?;
        let name = format!("refs/heads/{}", self.branch);
        let tip = with_attempt(&attempt, || {
            let explain = |e| attempt.explain(e);
            let url = libgit2_url(&attempt.address);
            let mut remote = self.git.remote_anonymous(&url).map_err(explain)?;
            let mut connection = remote
                .connect_auth(Direction::Fetch, Some(callbacks(&attempt)), None)
                .map_err(explain)?;
            let heads = connection.list().map_err(explain)?;
            let head = heads.iter().find(|head| head.name() == name).map(git2::RemoteHead::oid);
            if let Some(id) = head {
                let mut options = FetchOptions::new();
                options
                    .remote_callbacks(callbacks(&attempt))
                    .download_tags(git2::AutotagOption::None)
                    .update_fetchhead(false);
                let refspec = format!("+{name}:{TIP}");
                let remote = connection.remote();
                remote.download(&[refspec], Some(&mut options)).map_err(explain)?;
                self.git.reference(TIP, id, true, "fetch").map_err(explain)?;
            }
            Ok(head)
        })?;
        Ok(tip)
    }

    /// The summary at a commit of the branch.
    fn summary_of(&self, commit: Oid) -> Option<Summary> {
        let tree = self.git.find_commit(commit).ok()?.tree().ok()?;
        let id = tree.get_name(SUMMARY_FILE)?.id();
        let (bytes, _) = self.git.odb().ok()?.read_header(id).ok()?;
        if bytes > limits::STATUS_SUMMARY_BYTES_MAX {
            return None;
        }
        serde_json::from_slice(self.git.find_blob(id).ok()?.content()).ok()
    }

    fn length(&self, tip: Option<Oid>) -> Result<usize, PushError> {
        let Some(tip) = tip else { return Ok(0) };
        let count = || {
            let mut walk = self.git.revwalk()?;
            walk.push(tip)?;
            Ok(walk.take(limits::STATUS_HISTORY_MAX).count())
        };
        count().map_err(self.failed())
    }

    /// A branch that somebody else made is never written to: it may be their work.
    fn check_ours(&self, tip: Tip, status: &SourceStatus) -> Result<(), PushError> {
        let Some(commit) = tip.commit else { return Ok(()) };
        if self.summary_of(commit).is_some_and(|summary| summary.source == status.source.as_str()) {
            return Ok(());
        }
        let source_id = status.source.to_string();
        Err(PushError::Foreign { branch: self.branch.clone(), source_id })
    }

    /// Pushes one commit onto the tip that it was made for, and onto no other.
    fn push(
        &self,
        commit: Oid,
        tip: Tip,
        squash: bool,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Said, PushError> {
        let attempt = self.attempt(cancel)?;
        let expected = tip.commit.unwrap_or(Oid::ZERO_SHA1);
        let force = if squash { "+" } else { "" };
        let refspec = format!("{force}{NEXT}:refs/heads/{}", self.branch);
        let said = with_attempt(&attempt, || {
            let refused = std::cell::RefCell::new(None);
            let moved = std::cell::Cell::new(false);
            let mut options = PushOptions::new();
            let mut callbacks: RemoteCallbacks<'_> = callbacks(&attempt);
            callbacks.push_update_reference(|_, problem| {
                *refused.borrow_mut() = problem.map(str::to_owned);
                Ok(())
            });
            callbacks.push_negotiation(|updates| {
                if updates.iter().any(|update| update.src() != expected) {
                    moved.set(true);
                    return Err(git2::Error::from_str("the remote's branch has moved"));
                }
                Ok(())
            });
            options.remote_callbacks(callbacks);
            let url = libgit2_url(&attempt.address);
            let mut remote = self.git.remote_anonymous(&url).map_err(|e| attempt.explain(e))?;
            let outcome = remote.push(&[&refspec], Some(&mut options));
            drop(options);
            if moved.get() {
                return Ok(Said::Moved);
            }
            match outcome {
                Err(error) if error.code() == ErrorCode::NotFastForward => Ok(Said::Moved),
                Err(error) => Err(attempt.explain(error)),
                Ok(()) => Ok(refused.take().map_or(Said::Taken, |problem| verdict(&problem))),
            }
        })?;
        if matches!(said, Said::Taken) {
            self.git.reference(TIP, commit, true, "push").map_err(self.failed())?;
        }
        Ok(said)
    }
}

/// What a remote's words on a reference mean. Git's own say when it lost a race.
fn verdict(problem: &str) -> Said {
    let races = [
        "failed to update ref",
        "cannot lock ref",
        "fetch first",
        "non-fast-forward",
        "stale info",
    ];
    if races.iter().any(|words| problem.contains(words)) {
        return Said::Moved;
    }
    let text = crate::core::report::harmless(problem);
    Said::Refused(text.chars().take(limits::HUB_MESSAGE_CHARS_MAX).collect())
}

/// A new, empty repository in place of any that is there. Its name is used once: libgit2 keeps packs open by their
/// path for the whole process.
fn init(folder: &Path) -> Result<git2::Repository, PushError> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let io = |source| FetchError::from(io_error("read the folder", folder, source));
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|extension| extension == "git") {
            remove(&path).map_err(FetchError::from)?;
        }
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let place = folder.join(format!("status-{}-{number}.git", std::process::id()));
    let mut options = git2::RepositoryInitOptions::new();
    options.bare(true).external_template(false).no_reinit(true);
    git2::Repository::init_opts(&place, &options)
        .map_err(|source| PushError::Git { folder: folder.to_owned(), source })
}

/// A folder's changes.
#[derive(Default)]
struct FolderChanges {
    files: BTreeMap<String, Option<Oid>>,
    folders: BTreeMap<String, FolderChanges>,
}

/// Writes the changes on top of a tree. Only the trees on the changes' paths are read and written.
fn build(
    git: &git2::Repository,
    base: Option<Oid>,
    changes: Vec<Change>,
) -> Result<Oid, git2::Error> {
    let mut top = FolderChanges::default();
    for Change { path, content } in changes {
        let blob = content.map(|content| git.blob(content.as_bytes())).transpose()?;
        let mut folder = &mut top;
        for part in path.parent().unwrap_or_else(RepoPath::root).parts() {
            folder = folder.folders.entry(part.to_owned()).or_default();
        }
        folder.files.insert(path.name().to_owned(), blob);
    }
    match write(git, base, &top)? {
        Some(tree) => Ok(tree),
        None => git.treebuilder(None)?.write(),
    }
}

/// `None` for a folder that nothing is left in. Three levels deep at most: the files' paths are ours.
fn write(
    git: &git2::Repository,
    base: Option<Oid>,
    changes: &FolderChanges,
) -> Result<Option<Oid>, git2::Error> {
    let tree = base.map(|base| git.find_tree(base)).transpose()?;
    let mut builder = git.treebuilder(tree.as_ref())?;
    for (name, below) in &changes.folders {
        let base = tree.as_ref().and_then(|tree| Some(tree.get_name(name)?.id()));
        match write(git, base, below)? {
            Some(id) => drop(builder.insert(name, id, FOLDER_MODE)?),
            None => drop_entry(&mut builder, name)?,
        }
    }
    for (name, blob) in &changes.files {
        match blob {
            Some(id) => drop(builder.insert(name, *id, FILE_MODE)?),
            None => drop_entry(&mut builder, name)?,
        }
    }
    if builder.is_empty() { Ok(None) } else { builder.write().map(Some) }
}

fn drop_entry(builder: &mut git2::TreeBuilder<'_>, name: &str) -> Result<(), git2::Error> {
    if builder.get(name)?.is_some() { builder.remove(name) } else { Ok(()) }
}
