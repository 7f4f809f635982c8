//! The commit of a source that may be applied: the newest one that its signers have signed.
//!
//! The branch is checked commit by commit, as if each had been fetched alone: each has to satisfy
//! the policy in the commit before it and the operator's policy. So the result does not depend on
//! the times of the fetches. Callers pass the time in, for the validity of keys. All calls block.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use crate::error::VerifyError;
pub use crate::policy_file::requires_signatures;
use crate::walk::Walk;
use gitwork_core::config::signers::{SignerKeys, SignerPolicy, SignerPolicyProblem};
use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_core::signature::policy::{CompiledPolicy, PolicyOrigin};
use gitwork_core::signature::verification::VerificationFailure;
use gitwork_git::changed_files::ComparisonBudget;
use gitwork_git::credential_file::read_credential;
use gitwork_git::{AncestorCheck, FetchError, Repository};
use gitwork_report::review::Signatures;
use gitwork_signatures::Keyring;
use gitwork_sync::verification_base::VerificationBase;

/// The commit that may be applied.
#[derive(Debug, Clone)]
pub struct Verified {
    /// The newest verified commit.
    pub commit: CommitId,
    /// Somebody requires signatures, and the commit has them.
    pub is_signed: bool,
    /// Why it is not the reference's commit.
    pub failure: Option<Box<VerificationFailure>>,
}

/// The failure of a head that has nothing in common with the last verified commit, as far as the
/// fetched history shows.
fn unrelated(head: CommitId, verified: CommitId) -> VerifyError {
    VerifyError::Failed(Box::new(VerificationFailure {
        head,
        commit: head,
        rule: "the source's record on the hub".into(),
        key: None,
        why: format!(
            "it does not build on {verified}, the last verified commit, which the fetched history \
             does not have"
        ),
        advice: format!(
            "push a commit that builds on {verified}, or check all that {head} has and begin with \
             it: `gitwork trust {head}`"
        ),
        is_final: true,
    }))
}

/// The failure of each head while nothing shows what was verified.
fn unrecorded(head: CommitId) -> VerifyError {
    VerifyError::Failed(Box::new(VerificationFailure {
        head,
        commit: head,
        rule: "the source's record on the hub".into(),
        key: None,
        why: "the hub has works of the source and no record of its last verified commit".into(),
        advice: format!("check all that {head} has, and begin with it: `gitwork trust {head}`"),
        is_final: true,
    }))
}

/// The operator's policy and keys, and the last verified commit of one source.
#[derive(Debug)]
pub struct Verification {
    operator: CompiledPolicy,
    keys: SignerKeys,
    /// The last commit that this process verified, and whether it needed signatures.
    last: Option<(CommitId, bool)>,
    /// What the hub proves about verified commits, as of the last read of it.
    base: Option<VerificationBase>,
    /// The result is only shown: nothing is kept.
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
            last: None,
            base: None,
            is_trial: false,
            logged_problems: Vec::new(),
        }
    }

    /// Verification whose result is only shown: it keeps nothing.
    pub fn on_trial(self) -> Self {
        Self { is_trial: true, last: None, ..self }
    }

    /// Whether the operator requires no signatures.
    pub fn requires_nothing(&self) -> bool {
        self.operator.is_empty()
    }

    /// Whether nothing is known yet of what the hub proves. Then no commit can be verified.
    pub fn needs_base(&self) -> bool {
        self.base.is_none()
    }

    /// Sets what the hub proves about verified commits.
    pub fn set_base(&mut self, base: VerificationBase) {
        self.base = Some(base);
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
        let Some(start) = self.start(repository, head, cancel)? else {
            walk.check_first(&self.operator, head)?;
            let is_signed = walk.is_guarded(&self.operator, head)?;
            return Ok(self.keep(head, is_signed, None));
        };
        if start == head {
            let known = self.last.filter(|(commit, _)| *commit == head);
            let is_signed = match known {
                Some((_, is_signed)) => is_signed,
                None => walk.is_guarded(&self.operator, head)?,
            };
            return Ok(self.keep(head, is_signed, None));
        }
        let found = walk.run(&self.operator, head, [start].into(), Some(start))?;
        Ok(self.keep(found.verified.unwrap_or(start), found.is_signed, found.failure))
    }

    /// The commit to verify from; `None` on the first start.
    ///
    /// # Errors
    /// The commits between the verified one and the head are unknown: nothing may be applied.
    fn start(
        &self,
        repository: &Repository,
        head: CommitId,
        cancel: &AtomicBool,
    ) -> Result<Option<CommitId>, VerifyError> {
        let base = self.base.clone().unwrap_or_default();
        let builds_on = |old: CommitId, new: CommitId| {
            Ok::<_, VerifyError>(repository.is_ancestor(old, new)? == AncestorCheck::Yes)
        };
        let in_process = match (self.last, base.verified) {
            // Another process may have verified another line of the history since.
            (Some((last, _)), Some(recorded)) if builds_on(recorded, last)? => Some(last),
            (Some((last, _)), None) => Some(last),
            _ => None,
        };
        let proven = in_process.or(base.verified);
        let present = proven.filter(|commit| repository.has(*commit));
        // A commit is trusted in place of a verified one, or on top of it.
        let mut candidates = BTreeSet::new();
        for commit in base.trusted.into_iter().chain(present) {
            if builds_on(commit, head)? {
                candidates.insert(commit);
            }
        }
        let newest: Vec<CommitId> = repository.newest(&candidates, cancel)?.into_iter().collect();
        if let [commit] = newest[..] {
            return Ok(Some(commit));
        }
        let is_proof = base.verified.is_some() || self.last.is_some_and(|(_, signed)| signed);
        match (present, proven.filter(|_| is_proof)) {
            // The head does not build on it, and is judged as a whole.
            (Some(present), _) => Ok(Some(present)),
            (None, Some(proven)) => Err(unrelated(head, proven)),
            (None, None) if base.is_lost && !self.trusts_nobody() => Err(unrecorded(head)),
            (None, None) if self.operator.is_empty() => {
                Ok(base.applied.filter(|applied| repository.has(*applied)))
            }
            (None, None) => Ok(None),
        }
    }

    /// Whether the operator requires no signatures and trusts no keys.
    pub(crate) fn trusts_nobody(&self) -> bool {
        self.operator.is_empty() && self.keys == SignerKeys::default()
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
        let budget = ComparisonBudget::new(cancel);
        Ok(Walk { repository, path, keys, now, budget, checked: HashMap::new() })
    }

    /// Keeps the last verified commit for the next verification.
    fn keep(
        &mut self,
        commit: CommitId,
        is_signed: bool,
        failure: Option<Box<VerificationFailure>>,
    ) -> Verified {
        if !self.is_trial {
            self.last = Some((commit, is_signed));
        }
        Verified { commit, is_signed, failure }
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
