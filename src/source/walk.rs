//! The walk from the verified commits to the head: which new commits pass, one after the other.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gitwork_core::config::file_names::SOURCE_FILE;
use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_core::signature::policy::CompiledPolicy;
use gitwork_core::signature::verification::{
    CheckedCommit, CommitRange, FileState, VerificationFailure, verify,
};
use gitwork_core::signature::{SignatureError, Signer, Timestamps};
use gitwork_git::changed_files::ComparisonBudget;
use gitwork_git::range::NewCommit;
use gitwork_git::{AncestorCheck, Repository};
use gitwork_signatures::Keyring;

use crate::error::VerifyError;
use crate::limits;
use crate::policy_file::{PolicyFileError, policy_at};

/// The result of a walk.
pub(crate) struct WalkResult {
    /// The last verified commit; `None` if it is not known exactly.
    pub verified: Option<CommitId>,
    /// Why the walk ended before the head.
    pub failure: Option<Box<VerificationFailure>>,
    /// Whether anything had or has to be signed.
    pub is_guarded: bool,
    /// Whether the commits after the verified one have to be signed.
    pub is_signed: bool,
}

/// A walk through the commits of one repository with one set of keys.
pub(crate) struct Walk<'a> {
    pub repository: &'a Repository,
    /// The source's folder.
    pub path: &'a RepoPath,
    pub keys: Keyring,
    /// In seconds since 1970.
    pub now: i64,
    pub budget: ComparisonBudget<'a>,
    /// Signatures that are already checked.
    pub checked: HashMap<CommitId, Result<Signer, SignatureError>>,
}

impl Walk<'_> {
    /// Checks the first commit of a source by the operator's policy: the signature of the commit
    /// itself, and the rules for all files that it has. The repository's own policy judges later
    /// commits only: who made the commit made that policy, too.
    pub fn check_first(
        &mut self,
        operator: &CompiledPolicy,
        head: CommitId,
    ) -> Result<(), VerifyError> {
        if operator.is_empty() {
            return Ok(());
        }
        let signer = self.signer(&self.repository.new_commit(head)?)?;
        let alone = CheckedCommit { id: head, signer, covered_files: BTreeMap::new() };
        let range = CommitRange {
            commits: vec![alone],
            first_parents: [head].into(),
            changes: BTreeMap::new(),
        };
        verify(head, &[&operator.without_rules()], &range).map_err(VerifyError::Failed)?;
        let files = self.changed_files([None, Some(head)], &|file| operator.covers(file))?;
        if files.is_empty() {
            return Ok(());
        }
        // Files that only older commits cover need an empty commit on top, which signs all.
        let limit = limits::VERIFIED_COMMITS_MAX;
        let new = self.repository.new_commits(head, &BTreeSet::new(), limit, self.budget.cancel)?;
        let mut commits = Vec::new();
        for commit in &new {
            let covered_files = self.covered_files(commit, &files)?;
            let signer = if covered_files.is_empty() {
                Err(SignatureError::Unsigned)
            } else {
                self.signer(commit)?
            };
            commits.push(CheckedCommit { id: commit.id, signer, covered_files });
        }
        let range = CommitRange { commits, first_parents: BTreeSet::new(), changes: files };
        verify(head, &[&operator.without_verify()], &range).map_err(VerifyError::Failed)
    }

    /// Whether the operator or the policy of a commit requires signatures of later commits.
    pub fn is_guarded(
        &self,
        operator: &CompiledPolicy,
        commit: CommitId,
    ) -> Result<bool, VerifyError> {
        let own = policy_at(self.repository, self.path, commit)?;
        Ok(!operator.is_empty() || own.is_ok_and(|policy| !policy.is_empty()))
    }

    /// Walks from the verified commits, `bases`, to the head.
    pub fn run(
        &mut self,
        operator: &CompiledPolicy,
        head: CommitId,
        mut bases: BTreeSet<CommitId>,
        mut verified: Option<CommitId>,
    ) -> Result<WalkResult, VerifyError> {
        let limit = limits::VERIFIED_COMMITS_MAX;
        let new = self.repository.new_commits(head, &bases, limit + 1, self.budget.cancel)?;
        let mut policies = self.policies_of(&bases)?;
        let mut is_guarded = !operator.is_empty() || policies.iter().any(|p| !p.is_empty());
        if new.len() > limit {
            if is_guarded {
                return Err(VerifyError::TooMany { commit: head, limit });
            }
            let is_signed = self.is_guarded(operator, head)?;
            return Ok(WalkResult { verified: Some(head), failure: None, is_guarded, is_signed });
        }
        let history = History::new(new, head);
        let mut done: BTreeSet<CommitId> = BTreeSet::new();
        let (mut failure, mut failures) = (None, 0);
        for step in history.steps(head, self.builds_on_all(head, &bases)?) {
            let is_head = step == head;
            // A line that branched off earlier must not restore the policy of that time.
            if !is_head
                && (failures > limits::SIGNER_RETRIES_MAX || !self.builds_on_all(step, &bases)?)
            {
                continue;
            }
            let next_policy = policy_at(self.repository, self.path, step)?;
            let all: Vec<&CompiledPolicy> = [operator].into_iter().chain(&policies).collect();
            let range = self.range(&history, step, &done, &bases, &all)?;
            let judged = verify(head, &all, &range).and_then(|()| match &next_policy {
                // If nobody had to sign, an unusable file weakens nothing.
                Err(why) if policies.iter().any(|policy| !policy.is_empty()) => {
                    Err(unusable_policy(head, step, why))
                }
                _ => Ok(()),
            });
            match judged {
                Ok(()) => {
                    failure = None;
                    done.extend(range.commits.iter().map(|commit| commit.id));
                    // A step behind the verified ones does not replace them, and neither does its
                    // policy. A head behind them was verified on the way to them: it is a rewind.
                    let is_new = !range.commits.is_empty() || bases == [step].into();
                    if is_head && !is_new {
                        verified = Some(step);
                    }
                    if is_new {
                        verified = Some(step);
                        bases = [step].into();
                        policies = next_policy.into_iter().collect();
                        is_guarded |= policies.iter().any(|policy| !policy.is_empty());
                    }
                }
                Err(why) => {
                    // No later commit can add a missing signature to this one.
                    let is_final = why.is_final;
                    failure = Some(why);
                    failures += 1;
                    if is_final {
                        break;
                    }
                }
            }
        }
        let is_signed = !operator.is_empty() || policies.iter().any(|policy| !policy.is_empty());
        Ok(WalkResult { verified, failure, is_guarded, is_signed })
    }

    /// The repository's policies at the verified commits.
    fn policies_of(&self, bases: &BTreeSet<CommitId>) -> Result<Vec<CompiledPolicy>, VerifyError> {
        let mut policies = Vec::new();
        for base in bases.iter().take(limits::SIGNER_BASES_MAX) {
            // An unusable file required nothing when its commit was verified.
            policies.extend(policy_at(self.repository, self.path, *base)?.ok());
        }
        Ok(policies)
    }

    fn builds_on_all(
        &self,
        commit: CommitId,
        bases: &BTreeSet<CommitId>,
    ) -> Result<bool, VerifyError> {
        for base in bases {
            if self.repository.is_ancestor(*base, commit)? != AncestorCheck::Yes {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The new commits and changes from the bases to a step.
    fn range(
        &mut self,
        history: &History,
        step: CommitId,
        done: &BTreeSet<CommitId>,
        bases: &BTreeSet<CommitId>,
        policies: &[&CompiledPolicy],
    ) -> Result<CommitRange, VerifyError> {
        let changes = self.changes(step, bases, policies)?;
        let mut commits = Vec::new();
        for commit in history.below(step, done) {
            let covered_files = self.covered_files(commit, &changes)?;
            let signer = if policies.iter().all(|policy| policy.is_empty()) {
                Err(SignatureError::Unsigned)
            } else {
                self.signer(commit)?
            };
            commits.push(CheckedCommit { id: commit.id, signer, covered_files });
        }
        Ok(CommitRange { commits, first_parents: history.first_parents.clone(), changes })
    }

    /// The files under a rule that differ from all bases.
    fn changes(
        &self,
        step: CommitId,
        bases: &BTreeSet<CommitId>,
        policies: &[&CompiledPolicy],
    ) -> Result<BTreeMap<RepoPath, FileState>, VerifyError> {
        let mut changes: Option<BTreeMap<RepoPath, FileState>> = None;
        if policies.iter().all(|policy| policy.is_empty()) {
            return Ok(BTreeMap::new());
        }
        for base in bases.iter().take(limits::SIGNER_BASES_MAX) {
            let found = self.changed_files([Some(*base), Some(step)], &|file| match &changes {
                Some(changes) => changes.contains_key(file),
                None => policies.iter().any(|policy| policy.covers(file)),
            })?;
            changes = Some(match changes {
                Some(before) => {
                    before.into_iter().filter(|(file, _)| found.contains_key(file)).collect()
                }
                None => found,
            });
        }
        Ok(changes.unwrap_or_default())
    }

    /// The changed files that the signature of a commit covers: those that it changed itself, or
    /// all of them if it is empty (a commit that only signs).
    fn covered_files(
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
        self.changed_files([first, Some(commit.id)], &|file| changes.contains_key(file))
    }

    fn changed_files(
        &self,
        commits: [Option<CommitId>; 2],
        is_wanted: &dyn Fn(&RepoPath) -> bool,
    ) -> Result<BTreeMap<RepoPath, FileState>, VerifyError> {
        Ok(self.repository.changed_files(commits, self.path, &self.budget, is_wanted)?)
    }

    fn signer(
        &mut self,
        commit: &NewCommit,
    ) -> Result<Result<Signer, SignatureError>, VerifyError> {
        if let Some(known) = self.checked.get(&commit.id) {
            return Ok(known.clone());
        }
        let at = Timestamps { committed: commit.committed_seconds, now: self.now };
        let signer = self.repository.signature(commit.id)?;
        let signer = signer.and_then(|signed| self.keys.check(&signed, at));
        self.checked.insert(commit.id, signer.clone());
        Ok(signer)
    }
}

/// The new commits and their order.
struct History {
    commits: Vec<NewCommit>,
    positions: HashMap<CommitId, usize>,
    /// The new commits on the first-parent line of the head, oldest first.
    line: Vec<CommitId>,
    first_parents: BTreeSet<CommitId>,
}

impl History {
    fn new(commits: Vec<NewCommit>, head: CommitId) -> Self {
        let positions: HashMap<CommitId, usize> =
            commits.iter().enumerate().map(|(position, commit)| (commit.id, position)).collect();
        let mut line = Vec::new();
        let mut at = Some(head);
        while let Some(commit) = at.and_then(|id| commits.get(*positions.get(&id)?)) {
            line.push(commit.id);
            at = commit.parents.first().copied();
        }
        line.reverse();
        let first_parents = line.iter().copied().collect();
        Self { commits, positions, line, first_parents }
    }

    /// The commits to judge one after the other. A head that does not build on all verified commits
    /// is judged as a whole.
    fn steps(&self, head: CommitId, builds_on_bases: bool) -> Vec<CommitId> {
        if builds_on_bases && !self.line.is_empty() { self.line.clone() } else { vec![head] }
    }

    /// The new ancestors of a step, itself included, without those that are done: parents first.
    fn below(&self, step: CommitId, done: &BTreeSet<CommitId>) -> Vec<&NewCommit> {
        let mut reached: BTreeSet<usize> = BTreeSet::new();
        let mut open = vec![step];
        while let Some(id) = open.pop() {
            let Some(position) = self.positions.get(&id).filter(|_| !done.contains(&id)) else {
                continue;
            };
            if reached.insert(*position) {
                open.extend(
                    self.commits.get(*position).into_iter().flat_map(|c| c.parents.clone()),
                );
            }
        }
        reached.into_iter().filter_map(|position| self.commits.get(position)).collect()
    }
}

/// The verification failure of a commit whose policy file cannot be used.
fn unusable_policy(
    head: CommitId,
    commit: CommitId,
    why: &PolicyFileError,
) -> Box<VerificationFailure> {
    Box::new(VerificationFailure {
        head,
        commit,
        rule: format!("the signers of {SOURCE_FILE}"),
        key: None,
        why: format!("its {SOURCE_FILE} has no usable list of signers: {why}"),
        advice: "fix the file; until then no later commit can be verified".into(),
        is_final: false,
    })
}
