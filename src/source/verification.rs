//! The commit of a source that may be applied: the newest one that its signers have signed.
//!
//! The branch is checked commit by commit, as if each had been fetched alone: each has to satisfy
//! the policy in the commit before it and the operator's policy. So the result does not depend on
//! the times of the fetches. Callers pass the time in, for the validity of keys. All calls block.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use crate::error::VerifyError;
pub use crate::policy_file::requires_signatures;
use crate::walk::Walk;
use gitwork_core::config::signers::{SignerKeys, SignerPolicy, SignerPolicyProblem};
use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_core::report::review::Signatures;
use gitwork_core::signature::policy::{CompiledPolicy, PolicyOrigin};
use gitwork_core::signature::verification::VerificationFailure;
use gitwork_git::credential_file::read_credential;
use gitwork_git::{FetchError, Repository, replace_file};
use gitwork_signatures::Keyring;

/// The commit that may be applied.
#[derive(Debug, Clone)]
pub struct Verified {
    /// The newest verified commit.
    pub commit: CommitId,
    /// Why it is not the reference's commit.
    pub failure: Option<Box<VerificationFailure>>,
}

/// The operator's policy and keys, and the last verified commit of one source.
#[derive(Debug)]
pub struct Verification {
    operator: CompiledPolicy,
    keys: SignerKeys,
    /// The file beside the mirror that keeps the last verified commit for the next process.
    memory: Option<PathBuf>,
    verified: Option<CommitId>,
    /// Applied commits, as the hub reports them. They count if the last verified one is unknown.
    applied: BTreeSet<CommitId>,
    /// Take the newest applied commit for the last verified one: the result is only shown.
    is_trial: bool,
    /// The ignored parts of the key files that were logged last.
    logged_problems: Vec<String>,
}

impl Verification {
    /// Verification by the operator's policy and keys, and by the repository's own policy.
    ///
    /// # Errors
    /// The problems of an invalid policy.
    pub fn new(policy: &SignerPolicy, keys: SignerKeys) -> Result<Self, Vec<SignerPolicyProblem>> {
        Ok(Self {
            operator: CompiledPolicy::new(policy, PolicyOrigin::Operator)?,
            keys,
            ..Self::without_operator()
        })
    }

    /// Verification by the repository's own policy only.
    pub fn without_operator() -> Self {
        Self {
            operator: CompiledPolicy {
                origin: PolicyOrigin::Operator,
                verify: None,
                rules: Vec::new(),
            },
            keys: SignerKeys::default(),
            memory: None,
            verified: None,
            applied: BTreeSet::new(),
            is_trial: false,
            logged_problems: Vec::new(),
        }
    }

    /// Verification whose result is only shown: it starts from the newest applied commit, and keeps
    /// nothing.
    pub fn on_trial(self) -> Self {
        Self { is_trial: true, memory: None, ..self }
    }

    /// Whether the operator requires no signatures.
    pub fn requires_nothing(&self) -> bool {
        self.operator.is_empty()
    }

    /// Keeps the last verified commit in a file, and starts from the one in it.
    pub fn remember_in(&mut self, file: PathBuf) {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        self.verified = CommitId::parse(text.trim());
        self.memory = Some(file);
    }

    /// Whether the next verification needs the applied commits first.
    pub fn needs_applied_commits(&self) -> bool {
        self.verified.is_none()
    }

    /// Sets the applied commits, as the hub reports them.
    pub fn set_applied_commits(&mut self, applied: BTreeSet<CommitId>) {
        self.applied = applied;
    }

    /// The newest commit on the way to `head` that may be applied. `path` is the source's folder.
    pub fn verify(
        &mut self,
        repository: &Repository,
        path: &RepoPath,
        head: CommitId,
        now: Timestamp,
        cancel: &AtomicBool,
    ) -> Result<Verified, VerifyError> {
        let mut walk = self.walk(repository, path, now, cancel)?;
        self.verified = self.verified.filter(|commit| repository.has(*commit));
        let bases = match self.verified {
            Some(commit) if commit == head => return Ok(Verified { commit, failure: None }),
            Some(commit) => [commit].into(),
            None => repository.newest(&self.applied, cancel)?,
        };
        if self.is_trial && bases.len() == 1 {
            self.verified = bases.first().copied();
        }
        if bases.is_empty() {
            walk.check_first(&self.operator, head)?;
            self.keep(head, !self.operator.is_empty());
            return Ok(Verified { commit: head, failure: None });
        }
        let found = walk.run(&self.operator, head, bases, self.verified)?;
        if let Some(commit) = found.verified {
            self.keep(commit, found.is_guarded);
        }
        match (found.failure, self.verified) {
            (None, _) => Ok(Verified { commit: head, failure: None }),
            (Some(failure), Some(commit)) => Ok(Verified { commit, failure: Some(failure) }),
            // It is unknown which older commit is applied: the hub stays as it is.
            (Some(failure), None) => Err(VerifyError::Failed(failure)),
        }
    }

    /// The verdict on the commits from `base` to `head`, assuming that `base` is verified; `None`
    /// if nobody requires signatures. Nothing is kept.
    pub fn judge_range(
        &mut self,
        repository: &Repository,
        path: &RepoPath,
        [base, head]: [CommitId; 2],
        now: Timestamp,
        cancel: &AtomicBool,
    ) -> Result<Option<Signatures>, VerifyError> {
        let mut walk = self.walk(repository, path, now, cancel)?;
        let found = walk.run(&self.operator, head, [base].into(), Some(base))?;
        Ok(match found.failure {
            _ if !found.is_guarded => None,
            _ if self.keys == SignerKeys::default() => Some(Signatures::Unchecked { head }),
            None => Some(Signatures::Verified { head }),
            Some(failure) => Some(Signatures::Refused {
                verified: found.verified.unwrap_or(base),
                failure: *failure,
            }),
        })
    }

    fn walk<'a>(
        &mut self,
        repository: &'a Repository,
        path: &'a RepoPath,
        now: Timestamp,
        cancel: &'a AtomicBool,
    ) -> Result<Walk<'a>, FetchError> {
        let (keys, now) = (self.keyring()?, now.as_second());
        Ok(Walk { repository, path, keys, now, cancel, checked: HashMap::new() })
    }

    /// Keeps the last verified commit; in the file only if something has to be signed, so that a
    /// source that starts to require signatures begins with the hub's commits, not with an old
    /// file.
    fn keep(&mut self, commit: CommitId, is_guarded: bool) {
        let before = self.verified.replace(commit);
        let Some(file) = self.memory.as_deref() else { return };
        let kept = match (is_guarded, file.exists()) {
            (true, true) if before == Some(commit) => Ok(()),
            (true, _) => replace_file(file, &format!("{commit}\n")),
            (false, true) => std::fs::remove_file(file),
            (false, false) => Ok(()),
        };
        if let Err(error) = kept {
            tracing::warn!(
                file = %file.display(), %error,
                "cannot keep the last verified commit for a restart"
            );
        }
    }

    /// The keys in the files now.
    fn keyring(&mut self) -> Result<Keyring, FetchError> {
        let mut ring = Keyring::default();
        let mut logged = Vec::new();
        let zone = TimeZone::system();
        let ssh = self.keys.allowed_signers.iter().map(|file| (file, true));
        for (file, is_ssh) in ssh.chain(self.keys.openpgp.iter().map(|file| (file, false))) {
            let purpose = if is_ssh { "allowed signers" } else { "OpenPGP keys of signers" };
            let bytes = read_credential(Path::new(file), purpose)?;
            let text = String::from_utf8_lossy(&bytes);
            let (kind, problems) = if is_ssh {
                ("line", ring.add_allowed_signers(&text, &zone))
            } else {
                ("key", ring.add_openpgp(&text))
            };
            logged.extend(problems.iter().map(|problem| {
                format!("{file}: {kind} {} is ignored: {}", problem.number, problem.message)
            }));
        }
        if logged != self.logged_problems {
            for problem in &logged {
                tracing::warn!("{problem}");
            }
            self.logged_problems = logged;
        }
        Ok(ring)
    }
}
