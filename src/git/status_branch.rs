//! The branch with the clusters' status: built in a repository of its own from tree and blob ids,
//! without a working tree, and pushed as a fast-forward.
//!
//! The tree is always the whole status that this process knows. If another process has pushed in
//! between, the same tree goes on top of its commit: nothing is merged.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use git2::{
    Direction, ErrorCode, FetchOptions, Oid, PushOptions, RemoteCallbacks, Signature, Time,
};

use super::address::Address;
use super::error::{FetchError, MirrorError};
use super::fetch::{callbacks, libgit2_url};
use super::folder_lock::FolderLock;
use super::mirror_folder::remove;
use super::push_error::PushError;
use super::push_outcome::PushOutcome;
use super::receive_pack::PushedCommit;
use super::remote::Remote;
use super::repository::object_id;
use super::status_tree::build;
use super::transport::{Bounds, RemoteAttempt, with_attempt};
use crate::limits;
use gitwork_core::model::name::CommitId;
use gitwork_report::status::source::SourceStatus;
use gitwork_report::status_branch::{SUMMARY_FILE, StatusSummary, file_changes};

/// The local reference for the remote branch's tip.
const TIP: &str = "refs/gitwork/status-tip";
/// The local reference for the commit to push.
const NEXT: &str = "refs/gitwork/status-next";

/// The result of a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The branch already has this status.
    Unchanged,
    /// A new commit was pushed.
    Pushed {
        /// The new tip of the branch.
        commit: CommitId,
    },
}

/// The status branch of one source.
pub struct StatusBranch {
    folder: PathBuf,
    remote: Remote,
    branch: String,
    git: git2::Repository,
    /// The last rendered status, and its tree.
    rendered: Option<(Arc<SourceStatus>, Oid)>,
    /// The remote's tip; `None` while unknown.
    tip: Option<Tip>,
    pushes: usize,
    /// Many objects were read or written since [`Self::close_packs`].
    has_read_much: bool,
    /// Held, never read.
    _lock: FolderLock,
}

/// The remote's tip.
#[derive(Debug, Clone, Copy)]
struct Tip {
    /// `None` if the branch does not exist.
    commit: Option<Oid>,
    /// Commits in its history, itself included.
    length: usize,
}

impl StatusBranch {
    /// Creates an empty repository in `folder`, which nothing else uses. Nothing is fetched yet.
    pub fn open(folder: &Path, remote: Remote, branch: &str) -> Result<Self, PushError> {
        let name = format!("refs/heads/{branch}");
        if !git2::Reference::is_valid_name(&name) || branch.starts_with('-') {
            return Err(PushError::BadName { name: branch.to_owned() });
        }
        Address::parse(&remote.url).map_err(|e| FetchError::from(MirrorError::from(e)))?;
        let lock = FolderLock::acquire(folder).map_err(FetchError::from)?;
        let git = init(folder)?;
        let branch = branch.to_owned();
        let folder = folder.to_owned();
        let (rendered, tip, pushes, has_read_much) = (None, None, 0, false);
        Ok(Self { folder, remote, branch, git, rendered, tip, pushes, has_read_much, _lock: lock })
    }

    /// The branch's name.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// Brings the branch to this status. Blocks. `now_seconds` (since 1970) is the commit's time.
    /// On an error nothing is lost: the next publication contains everything.
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
        let published = self.publish_within_attempts(status, now_seconds, cancel);
        if std::mem::take(&mut self.has_read_much) {
            self.close_packs();
        }
        published
    }

    /// Closes the packs, of which libgit2 keeps much in memory, until the next publication.
    fn close_packs(&mut self) {
        // Without another handle, this one goes on with its memory.
        if let Ok(git) = git2::Repository::open(self.git.path()) {
            self.git = git;
        }
    }

    fn publish_within_attempts(
        &mut self,
        status: &Arc<SourceStatus>,
        now_seconds: i64,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Published, PushError> {
        for _ in 0..limits::STATUS_PUSH_ATTEMPTS_MAX {
            let tip = match self.tip {
                Some(tip) => tip,
                None => self.fetch(status, cancel)?,
            };
            // After the fetch: it has brought most objects, if not all.
            let tree = self.render(status)?;
            if self.tree_of(tip)? == Some(tree) {
                return Ok(Published::Unchanged);
            }
            let (outcome, commit, length) =
                self.push_tree(status, tree, tip, now_seconds, cancel)?;
            match outcome {
                PushOutcome::Accepted => {
                    self.pushes += 1;
                    self.tip = Some(Tip { commit: Some(commit), length });
                    return Ok(Published::Pushed { commit: object_id(commit) });
                }
                PushOutcome::TipMoved => self.tip = None,
                PushOutcome::Rejected(message) => {
                    self.tip = None;
                    return Err(PushError::Rejected { branch: self.branch.clone(), message });
                }
            }
        }
        Err(PushError::Contended { branch: self.branch.clone() })
    }

    /// Pushes a commit with this tree, and returns it with the length of its history. When the
    /// history is too long, the commit starts a new one, if the remote accepts that.
    fn push_tree(
        &self,
        status: &SourceStatus,
        tree: Oid,
        tip: Tip,
        now_seconds: i64,
        cancel: &Arc<AtomicBool>,
    ) -> Result<(PushOutcome, Oid, usize), PushError> {
        let is_long = tip.length >= limits::STATUS_HISTORY_MAX;
        if is_long {
            let root = self.commit(status, tree, None, now_seconds)?;
            let outcome = self.push(root, tip, true, cancel)?;
            if matches!(outcome, PushOutcome::Accepted) {
                return Ok((outcome, root, 1));
            }
        }
        let commit = self.commit(status, tree, tip.commit, now_seconds)?;
        // A remote that keeps the long history is asked again after the same number of commits.
        let length = if is_long { 1 } else { tip.length + 1 };
        Ok((self.push(commit, tip, false, cancel)?, commit, length))
    }

    fn failed(&self) -> impl Fn(git2::Error) -> PushError + use<> {
        let folder = self.folder.clone();
        move |source| PushError::Git { folder: folder.clone(), source }
    }

    /// The tree of a status, built on the previous tree if there is one.
    fn render(&mut self, status: &Arc<SourceStatus>) -> Result<Oid, PushError> {
        let (before, base) = self.rendered.clone().unzip();
        let changes = file_changes(before.as_deref(), status);
        self.has_read_much |= changes.len() > limits::STATUS_LOOSE_FILES_MAX;
        let tree = match (base, changes.len() == 0) {
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
            let author =
                Signature::new("gitwork", "gitwork@localhost", &Time::new(now_seconds, 0))?;
            let trailer =
                status.commit.map_or_else(String::new, |id| format!("\n\nCommit: {id}\n"));
            let message =
                gitwork_core::text::escape::escape_untrusted(&status.line(100)) + &trailer;
            let tree = self.git.find_tree(tree)?;
            let parent = parent.map(|parent| self.git.find_commit(parent)).transpose()?;
            let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
            let id = self.git.commit(None, &author, &author, &message, &tree, &parents)?;
            self.git.reference(NEXT, id, true, "status")?;
            Ok(id)
        };
        make().map_err(self.failed())
    }

    fn attempt(&self, cancel: &Arc<AtomicBool>) -> Result<Arc<RemoteAttempt>, FetchError> {
        let bounds = Bounds {
            total: limits::STATUS_PUSH,
            stall: Duration::from_secs(30),
            bytes_max: limits::STATUS_FETCH_BYTES_MAX,
        };
        RemoteAttempt::new(&self.remote, bounds, cancel)
    }

    /// The summary on the remote's branch; `None` if there is no such branch or no readable
    /// summary.
    pub fn published(&self, cancel: &Arc<AtomicBool>) -> Result<Option<StatusSummary>, PushError> {
        Ok(self.fetch_tip(cancel)?.and_then(|commit| self.summary_of(commit)))
    }

    fn fetch(&mut self, status: &SourceStatus, cancel: &Arc<AtomicBool>) -> Result<Tip, PushError> {
        self.has_read_much = true;
        let commit = self.fetch_tip(cancel)?;
        let tip = Tip { commit, length: self.length(commit)? };
        self.check_ours(tip, status)?;
        self.tip = Some(tip);
        Ok(tip)
    }

    /// Fetches the remote's tip; `None` if there is no such branch.
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
    fn summary_of(&self, commit: Oid) -> Option<StatusSummary> {
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

    /// Refuses to write to a branch that is not this source's status branch.
    fn check_ours(&self, tip: Tip, status: &SourceStatus) -> Result<(), PushError> {
        let Some(commit) = tip.commit else { return Ok(()) };
        if self.summary_of(commit).is_some_and(|summary| summary.source == status.source.as_str()) {
            return Ok(());
        }
        let source_id = status.source.to_string();
        Err(PushError::Foreign { branch: self.branch.clone(), source_id })
    }

    /// Pushes one commit, provided that the remote's tip is still `tip`.
    fn push(
        &self,
        commit: Oid,
        tip: Tip,
        squash: bool,
        cancel: &Arc<AtomicBool>,
    ) -> Result<PushOutcome, PushError> {
        let attempt = self.attempt(cancel)?;
        let outcome = match &attempt.address {
            Address::Local(_) => self.push_local(&attempt, tip, squash)?,
            Address::Http(_) | Address::Ssh { .. } => {
                let reference = &format!("refs/heads/{}", self.branch);
                let pushed = PushedCommit { reference, expected: tip.commit, commit };
                pushed.push(&self.git, &attempt)?
            }
        };
        if matches!(outcome, PushOutcome::Accepted) {
            self.git.reference(TIP, commit, true, "push").map_err(self.failed())?;
        }
        Ok(outcome)
    }

    /// Pushes [`NEXT`] to a folder.
    fn push_local(
        &self,
        attempt: &Arc<RemoteAttempt>,
        tip: Tip,
        squash: bool,
    ) -> Result<PushOutcome, FetchError> {
        let expected = tip.commit.unwrap_or(Oid::ZERO_SHA1);
        let force = if squash { "+" } else { "" };
        let refspec = format!("{force}{NEXT}:refs/heads/{}", self.branch);
        with_attempt(attempt, || {
            // Without a report for the reference, the remote has accepted the push.
            let outcome = std::cell::RefCell::new(PushOutcome::Accepted);
            let moved = std::cell::Cell::new(false);
            let mut options = PushOptions::new();
            let mut callbacks: RemoteCallbacks<'_> = callbacks(attempt);
            callbacks.push_update_reference(|_, reason| {
                *outcome.borrow_mut() = PushOutcome::of_report(reason);
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
            let pushed = remote.push(&[&refspec], Some(&mut options));
            drop(options);
            if moved.get() {
                return Ok(PushOutcome::TipMoved);
            }
            match pushed {
                Err(error) if error.code() == ErrorCode::NotFastForward => {
                    Ok(PushOutcome::TipMoved)
                }
                Err(error) => Err(attempt.explain(error)),
                Ok(()) => Ok(outcome.into_inner()),
            }
        })
    }
}

/// Replaces the repository in a folder by a new, empty one. Its name is used only once, because
/// libgit2 keeps packs open by path for the whole process.
fn init(folder: &Path) -> Result<git2::Repository, PushError> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let io = |source| FetchError::from(MirrorError::io("read the folder", folder, source));
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|extension| extension == "git") {
            remove(&path).map_err(FetchError::from)?;
        }
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("status-{}-{number}.git", std::process::id()));
    let mut options = git2::RepositoryInitOptions::new();
    options.bare(true).external_template(false).no_reinit(true);
    git2::Repository::init_opts(&path, &options)
        .map_err(|source| PushError::Git { folder: folder.to_owned(), source })
}
