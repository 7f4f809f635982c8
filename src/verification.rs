//! Which commit of a source may be applied: the newest that its signers have signed. Blocking.
//!
//! The branch is gone through commit by commit, as if each had been fetched alone: each is judged by what the one
//! before it says of signers, and by what the operator says. So what comes out does not depend on when was fetched.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::core::layout;
use crate::core::name::{CommitId, RepoPath};
use crate::core::review::Signatures;
use crate::core::signature::judge::{CheckedCommit, FileState, Range, Refusal, judge};
use crate::core::signature::policy::{Asker, Policy, PolicyProblem, SignerKeys, SignerPolicy};
use crate::core::signature::{Keyring, Moments, SignatureError, Signer};
use crate::core::snapshot::{EntryKind, ObjectError, Objects as _};
use crate::git::range::NewCommit;
use crate::git::remote::read_credential;
use crate::git::{self, Ancestry, FetchError, Repository, replace_file};
use crate::limits;

/// Why it is not known which commit may be applied, or that none may.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error(transparent)]
    Keys(#[from] FetchError),
    #[error(transparent)]
    Repository(#[from] git::ReadError),
    #[error(transparent)]
    Objects(#[from] ObjectError),
    #[error(
        "{commit} has more than {limit} commits that were not verified yet; let the source follow an older commit first"
    )]
    TooMany { commit: CommitId, limit: usize },
    #[error(transparent)]
    Refused(Box<Refusal>),
}

/// What may be applied.
#[derive(Debug, Clone)]
pub struct Verified {
    pub commit: CommitId,
    /// Why it is not the commit that the source's ref stands for.
    pub refusal: Option<Box<Refusal>>,
}

/// What an operator asks for, and what is known of a source's commits.
#[derive(Debug)]
pub struct Verification {
    operator: Policy,
    keys: SignerKeys,
    /// Where the last verified commit is kept for the next process, beside the mirror.
    memory: Option<PathBuf>,
    verified: Option<CommitId>,
    /// Commits that the hub says were applied; they count where the last verified one is not known.
    applied: BTreeSet<CommitId>,
    /// The newest commit that was applied is taken for the last verified one: nothing is done by what is found.
    is_trial: bool,
    /// What of the key files was told to be left out.
    told: Vec<String>,
}

impl Verification {
    /// What the operator asks for.
    pub fn new(policy: &SignerPolicy, keys: SignerKeys) -> Result<Self, Vec<PolicyProblem>> {
        Ok(Self { operator: policy.compile(Asker::Operator)?, keys, ..Self::asking_nothing() })
    }

    /// The operator asks for nothing; the repository may.
    pub fn asking_nothing() -> Self {
        Self {
            operator: Policy { asker: Asker::Operator, verify: None, rules: Vec::new() },
            keys: SignerKeys::default(),
            memory: None,
            verified: None,
            applied: BTreeSet::new(),
            is_trial: false,
            told: Vec::new(),
        }
    }

    /// Only to tell what would be found: commits that were verified later than what was applied are found again on the
    /// way to the head.
    pub fn on_trial(self) -> Self {
        Self { is_trial: true, memory: None, ..self }
    }

    /// Nothing has to be signed, as far as the operator goes.
    pub fn asks_nothing(&self) -> bool {
        self.operator.is_empty()
    }

    /// Keeps the last verified commit in a file, and takes up what is in it.
    pub fn remember_in(&mut self, file: PathBuf) {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        self.verified = CommitId::parse(text.trim());
        self.memory = Some(file);
    }

    /// Whether it has to be told what was applied before it can judge.
    pub fn wants_applied(&self) -> bool {
        self.verified.is_none()
    }

    pub fn set_applied(&mut self, applied: BTreeSet<CommitId>) {
        self.applied = applied;
    }

    /// The newest commit of `head`'s line that may be applied.
    pub fn verify(
        &mut self,
        repository: &Repository,
        path: &RepoPath,
        head: CommitId,
        cancel: &AtomicBool,
    ) -> Result<Verified, VerifyError> {
        let mut facts = self.facts(repository, path, cancel)?;
        self.verified = self.verified.filter(|commit| repository.has(*commit));
        let bases = match self.verified {
            Some(commit) if commit == head => return Ok(Verified { commit, refusal: None }),
            Some(commit) => [commit].into(),
            None => repository.newest(&self.applied, cancel)?,
        };
        if self.is_trial && bases.len() == 1 {
            self.verified = bases.first().copied();
        }
        if bases.is_empty() {
            facts.first(&self.operator, head)?;
            self.keep(head, !self.operator.is_empty());
            return Ok(Verified { commit: head, refusal: None });
        }
        let walk = facts.walk(&self.operator, head, bases, self.verified)?;
        if let Some(commit) = walk.verified {
            self.keep(commit, walk.is_guarded);
        }
        match (walk.refusal, self.verified) {
            (None, _) => Ok(Verified { commit: head, refusal: None }),
            (Some(refusal), Some(commit)) => Ok(Verified { commit, refusal: Some(refusal) }),
            // Which of the older commits is in force is not known: the hub stays as it is.
            (Some(refusal), None) => Err(VerifyError::Refused(refusal)),
        }
    }

    /// What would be said of the commits from `base` to `head` if the source came from the one to the other, and `base`
    /// was verified; `None` where nobody asks for signatures. Nothing of it is remembered.
    pub fn judge_range(
        &mut self,
        repository: &Repository,
        path: &RepoPath,
        [base, head]: [CommitId; 2],
        cancel: &AtomicBool,
    ) -> Result<Option<Signatures>, VerifyError> {
        let mut facts = self.facts(repository, path, cancel)?;
        let walk = facts.walk(&self.operator, head, [base].into(), Some(base))?;
        Ok(match walk.refusal {
            _ if !walk.is_guarded => None,
            _ if self.keys == SignerKeys::default() => Some(Signatures::Unchecked { head }),
            None => Some(Signatures::Verified { head }),
            Some(refusal) => Some(Signatures::Refused {
                verified: walk.verified.unwrap_or(base),
                refusal: *refusal,
            }),
        })
    }

    fn facts<'a>(
        &mut self,
        repository: &'a Repository,
        path: &'a RepoPath,
        cancel: &'a AtomicBool,
    ) -> Result<Facts<'a>, FetchError> {
        let (keys, now) = (self.keyring()?, Timestamp::now().as_second());
        Ok(Facts { repository, path, keys, now, cancel, checked: HashMap::new() })
    }

    /// Remembers a commit, in the file only where something has to be signed: once that begins, what was applied until
    /// then is taken from the hub, and not from an old file.
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
            tracing::warn!(file = %file.display(), %error, "the last verified commit is not kept for a restart");
        }
    }

    /// The keys as the files have them now.
    fn keyring(&mut self) -> Result<Keyring, FetchError> {
        let mut ring = Keyring::default();
        let mut told = Vec::new();
        let zone = TimeZone::system();
        let ssh = self.keys.allowed_signers.iter().map(|file| (file, true));
        for (file, is_ssh) in ssh.chain(self.keys.openpgp.iter().map(|file| (file, false))) {
            let purpose = if is_ssh { "allowed signers" } else { "OpenPGP keys of signers" };
            let bytes = read_credential(Path::new(file), purpose)?;
            let text = String::from_utf8_lossy(&bytes);
            let (what, problems) = if is_ssh {
                ("line", ring.add_allowed_signers(&text, &zone))
            } else {
                ("key", ring.add_openpgp(&text))
            };
            told.extend(problems.iter().map(|problem| {
                format!("{file}: {what} {} is left out: {}", problem.number, problem.message)
            }));
        }
        if told != self.told {
            for problem in &told {
                tracing::warn!("{problem}");
            }
            self.told = told;
        }
        Ok(ring)
    }
}

/// How far the walk from what is verified to the head came.
struct Walk {
    /// The last commit that is verified; `None` where that is not known exactly.
    verified: Option<CommitId>,
    refusal: Option<Box<Refusal>>,
    /// Something has to be signed.
    is_guarded: bool,
}

/// What the repository and the keys say of commits.
struct Facts<'a> {
    repository: &'a Repository,
    /// The source's folder.
    path: &'a RepoPath,
    keys: Keyring,
    now: i64,
    cancel: &'a AtomicBool,
    checked: HashMap<CommitId, Result<Signer, SignatureError>>,
}

impl Facts<'_> {
    /// The first start: nothing of the source is on the hub, and what the head builds on is taken as it is.
    fn first(&mut self, operator: &Policy, head: CommitId) -> Result<(), VerifyError> {
        let signer = match operator.verify {
            Some(_) => self.signer(&self.repository.place(head)?)?,
            None => return Ok(()),
        };
        let alone = CheckedCommit { id: head, signer, vouches: BTreeMap::new() };
        let range =
            Range { commits: vec![alone], first_parents: [head].into(), changes: BTreeMap::new() };
        judge(head, &[operator], &range).map_err(VerifyError::Refused)
    }

    /// Goes from the verified commits to the head.
    fn walk(
        &mut self,
        operator: &Policy,
        head: CommitId,
        mut bases: BTreeSet<CommitId>,
        mut verified: Option<CommitId>,
    ) -> Result<Walk, VerifyError> {
        let limit = limits::VERIFIED_COMMITS_MAX;
        let new = self.repository.new_commits(head, &bases, limit + 1, self.cancel)?;
        let mut policies: Vec<Policy> = Vec::new();
        for base in bases.iter().take(limits::SIGNER_BASES_MAX) {
            // What cannot be read asked for nothing when it was verified.
            policies.extend(policy_at(self.repository, self.path, *base)?.ok());
        }
        let mut is_guarded = !operator.is_empty() || policies.iter().any(|p| !p.is_empty());
        if new.len() > limit {
            if is_guarded {
                return Err(VerifyError::TooMany { commit: head, limit });
            }
            return Ok(Walk { verified: Some(head), refusal: None, is_guarded });
        }
        let history = History::new(new, head);
        let mut done: BTreeSet<CommitId> = BTreeSet::new();
        let (mut refusal, mut failures) = (None, 0);
        for step in history.steps(head, self.builds_on_all(head, &bases)?) {
            let is_head = step == head;
            // A line that branched off earlier must not bring back what was asked for then.
            if !is_head
                && (failures > limits::SIGNER_RETRIES_MAX || !self.builds_on_all(step, &bases)?)
            {
                continue;
            }
            let next = policy_at(self.repository, self.path, step)?;
            let all: Vec<&Policy> = [operator].into_iter().chain(&policies).collect();
            let range = self.range(&history, step, &done, &bases, &all)?;
            let judged = judge(head, &all, &range).and_then(|()| match &next {
                // Where nobody had to sign, a file that cannot be read loosens nothing.
                Err(why) if policies.iter().any(|policy| !policy.is_empty()) => {
                    Err(unreadable(head, step, why))
                }
                _ => Ok(()),
            });
            match judged {
                Ok(()) => {
                    refusal = None;
                    done.extend(range.commits.iter().map(|commit| commit.id));
                    // A commit that is behind what is verified is not newer than it.
                    if !range.commits.is_empty() || bases == [step].into() {
                        verified = Some(step);
                        bases = [step].into();
                        policies = next.into_iter().collect();
                        is_guarded |= policies.iter().any(|policy| !policy.is_empty());
                    }
                }
                Err(why) => {
                    // A commit without a signature that counts does not get one later.
                    let is_final = why.is_final;
                    refusal = Some(why);
                    failures += 1;
                    if is_final {
                        break;
                    }
                }
            }
        }
        Ok(Walk { verified, refusal, is_guarded })
    }

    fn builds_on_all(
        &self,
        commit: CommitId,
        bases: &BTreeSet<CommitId>,
    ) -> Result<bool, VerifyError> {
        for base in bases {
            if self.repository.is_ancestor(*base, commit)? != Ancestry::Yes {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What is new from the bases to a step.
    fn range(
        &mut self,
        history: &History,
        step: CommitId,
        done: &BTreeSet<CommitId>,
        bases: &BTreeSet<CommitId>,
        policies: &[&Policy],
    ) -> Result<Range, VerifyError> {
        let changes = self.changes(step, bases, policies)?;
        let mut commits = Vec::new();
        for commit in history.below(step, done) {
            let vouches = self.vouches(commit, &changes)?;
            let signer = if policies.iter().all(|policy| policy.is_empty()) {
                Err(SignatureError::Unsigned)
            } else {
                self.signer(commit)?
            };
            commits.push(CheckedCommit { id: commit.id, signer, vouches });
        }
        Ok(Range { commits, first_parents: history.first_parents.clone(), changes })
    }

    /// The files that a rule is for and that differ from all of the bases.
    fn changes(
        &self,
        step: CommitId,
        bases: &BTreeSet<CommitId>,
        policies: &[&Policy],
    ) -> Result<BTreeMap<RepoPath, FileState>, VerifyError> {
        let mut changes: Option<BTreeMap<RepoPath, FileState>> = None;
        if policies.iter().all(|policy| policy.is_empty()) {
            return Ok(BTreeMap::new());
        }
        for base in bases.iter().take(limits::SIGNER_BASES_MAX) {
            let mut found = self.repository.changed_files(Some(*base), step, self.path)?;
            match &mut changes {
                Some(changes) => changes.retain(|file, _| found.contains_key(file)),
                None => {
                    found.retain(|file, _| policies.iter().any(|policy| policy.covers(file)));
                    changes = Some(found);
                }
            }
        }
        Ok(changes.unwrap_or_default())
    }

    /// The changed files that a commit brought to the state that it has them in, or all where it only signs.
    fn vouches(
        &self,
        commit: &NewCommit,
        changes: &BTreeMap<RepoPath, FileState>,
    ) -> Result<BTreeMap<RepoPath, FileState>, VerifyError> {
        if changes.is_empty() {
            return Ok(BTreeMap::new());
        }
        if commit.is_empty {
            return Ok(self.repository.files(commit.id, self.path, changes.keys())?);
        }
        let first = commit.parents.first().copied();
        let mut found = self.repository.changed_files(first, commit.id, self.path)?;
        found.retain(|file, _| changes.contains_key(file));
        Ok(found)
    }

    fn signer(
        &mut self,
        commit: &NewCommit,
    ) -> Result<Result<Signer, SignatureError>, VerifyError> {
        if let Some(known) = self.checked.get(&commit.id) {
            return Ok(known.clone());
        }
        let at = Moments { committed: commit.committed_seconds, now: self.now };
        let signer = self.repository.signature(commit.id)?;
        let signer = signer.and_then(|signed| self.keys.check(&signed, at));
        self.checked.insert(commit.id, signer.clone());
        Ok(signer)
    }
}

/// What `gitwork.yaml` of a commit asks for, or why that is not known.
fn policy_at(
    repository: &Repository,
    path: &RepoPath,
    commit: CommitId,
) -> Result<Result<Policy, String>, VerifyError> {
    let none = || SignerPolicy::default().compile(Asker::Repository).map_err(|_| String::new());
    let snapshot = match repository.snapshot(commit, path) {
        Ok(snapshot) => snapshot,
        Err(git::ReadError::PathMissing { .. } | git::ReadError::NotAFolder { .. }) => {
            return Ok(none());
        }
        Err(error) => return Err(error.into()),
    };
    let tree = snapshot.tree(snapshot.root)?;
    let Some(entry) = tree.get(layout::SOURCE_FILE).filter(|e| e.kind == EntryKind::Blob) else {
        return Ok(none());
    };
    let bytes = match snapshot.blob(entry.id, limits::FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(why @ ObjectError::TooLarge { .. }) => return Ok(Err(why.to_string())),
        Err(error) => return Err(error.into()),
    };
    Ok(SignerPolicy::in_file(&bytes).and_then(|policy| {
        policy.compile(Asker::Repository).map_err(|problems| {
            let first = problems.first();
            first.map_or_else(String::new, |p| format!("signers{} {}", p.pointer, p.message))
        })
    }))
}

/// Whether `gitwork.yaml` of a commit asks for signatures, or may do so.
pub fn asks_for_signatures(
    repository: &Repository,
    path: &RepoPath,
    commit: CommitId,
) -> Result<bool, VerifyError> {
    Ok(policy_at(repository, path, commit)?.map_or(true, |policy| !policy.is_empty()))
}

fn unreadable(head: CommitId, commit: CommitId, why: &str) -> Box<Refusal> {
    Box::new(Refusal {
        head,
        commit,
        rule: format!("the signers of {}", layout::SOURCE_FILE),
        key: None,
        why: format!("its {} does not say who signs from now on: {why}", layout::SOURCE_FILE),
        advice: "mend the file; until then nobody could verify what comes after it".into(),
        is_final: false,
    })
}

/// The new commits and how they hang together.
struct History {
    commits: Vec<NewCommit>,
    places: HashMap<CommitId, usize>,
    /// The commits that the branch itself was moved to, as far as they are new.
    line: Vec<CommitId>,
    first_parents: BTreeSet<CommitId>,
}

impl History {
    fn new(commits: Vec<NewCommit>, head: CommitId) -> Self {
        let places: HashMap<CommitId, usize> =
            commits.iter().enumerate().map(|(place, commit)| (commit.id, place)).collect();
        let mut line = Vec::new();
        let mut at = Some(head);
        while let Some(commit) = at.and_then(|id| commits.get(*places.get(&id)?)) {
            line.push(commit.id);
            at = commit.parents.first().copied();
        }
        line.reverse();
        let first_parents = line.iter().copied().collect();
        Self { commits, places, line, first_parents }
    }

    /// What is judged one after the other. A head that leaves verified commits behind is judged as a whole.
    fn steps(&self, head: CommitId, builds_on_bases: bool) -> Vec<CommitId> {
        if builds_on_bases && !self.line.is_empty() { self.line.clone() } else { vec![head] }
    }

    /// The new commits that a step builds on, but for those that are done: parents first.
    fn below(&self, step: CommitId, done: &BTreeSet<CommitId>) -> Vec<&NewCommit> {
        let mut reached: BTreeSet<usize> = BTreeSet::new();
        let mut open = vec![step];
        while let Some(id) = open.pop() {
            let Some(place) = self.places.get(&id).filter(|_| !done.contains(&id)) else {
                continue;
            };
            if reached.insert(*place) {
                open.extend(self.commits.get(*place).into_iter().flat_map(|c| c.parents.clone()));
            }
        }
        reached.into_iter().filter_map(|place| self.commits.get(place)).collect()
    }
}
