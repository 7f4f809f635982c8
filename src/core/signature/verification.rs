//! `(policies, new commits with their signers and what they changed) -> verified or refused`. Pure.
//!
//! What counts for a path rule: a file that differs from the last verified commit must be, as it is
//! now, in the commits of so many different persons. A commit vouches for a file where it is itself
//! validly signed, has the file as it is now, and either brought it to that state (it differs from
//! its first parent there; so a merge vouches for all that it brings) or changes nothing at all: an
//! empty commit is made to sign what it builds on. A later commit about something else vouches for
//! nothing that it happens to contain.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::pattern::fits_any;
use super::policy::{CompiledPathRule, CompiledPolicy, is_approval};
use super::{SignatureError, Signer};
use crate::config::file_names::APPROVALS;
use crate::config::signers::VerifiedCommits;
use crate::model::name::{CommitId, ObjectId, RepoPath};

/// A file in a commit: its mode and content; `None` where it is not there.
pub type FileState = Option<(u32, ObjectId)>;

/// One new commit.
#[derive(Debug, Clone)]
pub struct CheckedCommit {
    pub id: CommitId,
    pub signer: Result<Signer, SignatureError>,
    /// The files that it vouches for, where it is signed, each as the commit has it.
    pub vouches: BTreeMap<RepoPath, FileState>,
}

/// What lies between the last verified commit and the one that is judged.
#[derive(Debug, Clone, Default)]
pub struct CommitRange {
    /// The new commits, parents first; the last is the judged one.
    pub commits: Vec<CheckedCommit>,
    /// Those that the branch itself was moved to.
    pub first_parents: BTreeSet<CommitId>,
    /// The files that differ from the last verified commit and that a rule is for, as they are now.
    pub changes: BTreeMap<RepoPath, FileState>,
}

/// Why a commit is not applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("commit {commit} is not verified: by {rule}, {why}; {advice}")]
pub struct VerificationFailure {
    /// The commit that the source's ref stands for.
    pub head: CommitId,
    /// The commit that is at fault.
    pub commit: CommitId,
    /// The rule that refuses it, and whose it is.
    pub rule: String,
    /// The key that its signature names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub why: String,
    /// What to do.
    pub advice: String,
    /// No later commit makes it good.
    pub is_final: bool,
}

/// Whether the last commit of a range may be applied.
pub fn verify(
    head: CommitId,
    policies: &[&CompiledPolicy],
    range: &CommitRange,
) -> Result<(), Box<VerificationFailure>> {
    for policy in policies {
        check_commits(head, policy, range)?;
    }
    for policy in policies {
        for rule in &policy.rules {
            check_rule(head, rule, range)?;
        }
    }
    // Whoever may approve decides what is deleted: an approval nobody signed approves nothing.
    if policies.iter().any(|policy| !policy.is_empty()) {
        check_approvals(head, range)?;
    }
    Ok(())
}

fn check_commits(
    head: CommitId,
    policy: &CompiledPolicy,
    range: &CommitRange,
) -> Result<(), Box<VerificationFailure>> {
    let Some(verify) = policy.verify else { return Ok(()) };
    let word = match verify {
        VerifiedCommits::Commits => "commits",
        VerifiedCommits::Merges => "merges",
    };
    for commit in &range.commits {
        if verify == VerifiedCommits::Merges && !range.first_parents.contains(&commit.id) {
            continue;
        }
        if let Err(error) = &commit.signer {
            let rule = format!("signers.verify: {word} of {}", policy.origin);
            return Err(unsigned(head, commit.id, rule, error));
        }
    }
    Ok(())
}

fn unsigned(
    head: CommitId,
    commit: CommitId,
    rule: String,
    error: &SignatureError,
) -> Box<VerificationFailure> {
    let advice = match error {
        SignatureError::Unsigned | SignatureError::TooLarge { .. } => {
            "sign it (git commit --amend -S, or git rebase --exec for several) and push again"
        }
        SignatureError::UnknownKey { .. } => {
            "have its operator add the key to the allowed ones if it is to be trusted, or sign with another"
        }
        SignatureError::Expired { .. } | SignatureError::NotYetValid { .. } => {
            "sign it with a key that is valid, or have the operator prolong this one"
        }
        _ => "sign it with an allowed key and push again",
    };
    Box::new(VerificationFailure {
        head,
        commit,
        rule,
        key: error.key().map(str::to_owned),
        why: format!("it {error}"),
        advice: advice.into(),
        is_final: true,
    })
}

fn check_rule(
    head: CommitId,
    rule: &CompiledPathRule,
    range: &CommitRange,
) -> Result<(), Box<VerificationFailure>> {
    for (file, now) in range.changes.iter().filter(|(file, _)| rule.covers(file)) {
        let vouching = vouching(range, file, *now);
        let mut persons = Persons::default();
        for commit in &vouching {
            if let Ok(signer) = &commit.signer {
                persons.add(signer, &rule.signers);
            }
        }
        if persons.count() < rule.required {
            return Err(missing(head, rule, file, &vouching, &persons));
        }
    }
    Ok(())
}

fn check_approvals(head: CommitId, range: &CommitRange) -> Result<(), Box<VerificationFailure>> {
    let approvals = range.changes.iter().filter(|(file, now)| is_approval(file) && now.is_some());
    for (file, now) in approvals {
        let vouching = vouching(range, file, *now);
        if vouching.iter().any(|commit| commit.signer.is_ok()) {
            continue;
        }
        let rule = format!("{APPROVALS}: approvals are signed where anything has to be");
        let (commit, error) = match vouching.last() {
            Some(CheckedCommit { id, signer: Err(error), .. }) => (*id, error.clone()),
            _ => (head, SignatureError::Unsigned),
        };
        let mut refusal = unsigned(head, commit, rule, &error);
        refusal.is_final = false;
        refusal.why = format!("{file} is approved by a commit that {error}");
        return Err(refusal);
    }
    Ok(())
}

/// The commits that have a file in the state that it is in now, and would vouch for it.
fn vouching<'a>(range: &'a CommitRange, file: &RepoPath, now: FileState) -> Vec<&'a CheckedCommit> {
    let has = |commit: &&CheckedCommit| commit.vouches.get(file) == Some(&now);
    range.commits.iter().filter(has).collect()
}

fn missing(
    head: CommitId,
    rule: &CompiledPathRule,
    file: &RepoPath,
    vouching: &[&CheckedCommit],
    persons: &Persons,
) -> Box<VerificationFailure> {
    let (have, need) = (persons.count(), rule.required);
    let whose = if rule.signers.is_empty() {
        String::new()
    } else {
        format!(" of {}", rule.signers.join(", "))
    };
    let mut why = format!("{file} has the signatures of {have} of {need} persons{whose}");
    if have > 0 {
        why.push_str(&format!(" ({})", persons.names()));
    }
    // What does not count is what people ask about first.
    let other = vouching.iter().rev().find_map(|commit| match &commit.signer {
        Err(error) => Some((commit.id, error.key().map(str::to_owned), error.to_string())),
        Ok(signer) if !persons.has(signer) => {
            let whose = if signer.names.is_empty() {
                "whose line names nobody without a wildcard".into()
            } else {
                let names: Vec<&str> = signer.names.iter().map(String::as_str).collect();
                format!("which is {}'s", names.join(", "))
            };
            let text = format!("is signed with {}, {whose}", signer.key);
            Some((commit.id, Some(signer.key.clone()), text))
        }
        Ok(_) => None,
    });
    if let Some((commit, _, text)) = &other {
        why.push_str(&format!(", and {} {text}", commit.short()));
    }
    let last = vouching.last();
    let counted = last.and_then(|commit| Some(commit.signer.as_ref().ok()?.key.clone()));
    Box::new(VerificationFailure {
        head,
        commit: last.map_or(head, |commit| commit.id),
        rule: rule.name.clone(),
        key: other.and_then(|(_, key, _)| key).or(counted),
        why,
        advice: "have another of these signers merge it, or sign an empty commit on top of it \
                 (git commit --allow-empty -S)"
            .into(),
        is_final: false,
    })
}

/// Different persons. Two keys are one person's where they have a name in common.
#[derive(Debug, Default)]
struct Persons(Vec<BTreeSet<String>>);

impl Persons {
    /// Counts a signer of whom a name fits one of the patterns, or whoever where there are none.
    fn add(&mut self, signer: &Signer, patterns: &[String]) {
        let fits = |name: &String| patterns.is_empty() || fits_any(name, patterns);
        if !signer.names.iter().any(fits) {
            return;
        }
        let mut all = signer.names.clone();
        let overlaps = |person: &mut BTreeSet<String>| !person.is_disjoint(&signer.names);
        for person in self.0.extract_if(.., overlaps) {
            all.extend(person);
        }
        self.0.push(all);
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn has(&self, signer: &Signer) -> bool {
        self.0.iter().any(|person| !person.is_disjoint(&signer.names))
    }

    fn names(&self) -> String {
        let first = self.0.iter().filter_map(|person| person.first().map(String::as_str));
        first.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::signers::{SignedPathRule, SignerPolicy};
    use crate::signature::policy::PolicyOrigin;

    fn id(number: u8) -> CommitId {
        ObjectId([number; 20])
    }

    fn state(number: u8) -> FileState {
        Some((0o100_644, id(number)))
    }

    fn path(text: &str) -> RepoPath {
        RepoPath::parse(text).unwrap()
    }

    fn by(names: &[&str]) -> Result<Signer, SignatureError> {
        let key = format!("SHA256:{}", names.join("+"));
        Ok(Signer { names: names.iter().map(|&name| name.to_owned()).collect(), key })
    }

    const NOBODY: Result<Signer, SignatureError> = Err(SignatureError::Unsigned);

    fn commit(
        number: u8,
        signer: Result<Signer, SignatureError>,
        vouches: &[(&str, FileState)],
    ) -> CheckedCommit {
        let vouches = vouches.iter().map(|(file, state)| (path(file), *state)).collect();
        CheckedCommit { id: id(number), signer, vouches }
    }

    fn range(
        first_parents: &[u8],
        changes: &[(&str, FileState)],
        commits: Vec<CheckedCommit>,
    ) -> CommitRange {
        CommitRange {
            commits,
            first_parents: first_parents.iter().map(|number| id(*number)).collect(),
            changes: changes.iter().map(|(file, state)| (path(file), *state)).collect(),
        }
    }

    fn policy(verify: Option<VerifiedCommits>, rules: &[(&str, &[&str], u32)]) -> CompiledPolicy {
        let paths = rules.iter().map(|(path, signers, required)| SignedPathRule {
            paths: vec![(*path).into()],
            signers: signers.iter().map(|&signer| signer.to_owned()).collect(),
            required: *required,
        });
        let policy = SignerPolicy { verify, paths: paths.collect() };
        CompiledPolicy::new(&policy, PolicyOrigin::Operator).unwrap()
    }

    fn judged(policy: &CompiledPolicy, range: &CommitRange) -> Result<(), String> {
        let head = range.commits.last().unwrap().id;
        verify(head, &[policy], range).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn every_commit_or_the_branchs_own_have_to_be_signed() {
        let merge =
            |inner, outer| range(&[2], &[], vec![commit(1, inner, &[]), commit(2, outer, &[])]);
        let (all, merges) = (
            policy(Some(VerifiedCommits::Commits), &[]),
            policy(Some(VerifiedCommits::Merges), &[]),
        );
        for (inner, outer, by_all, by_merges) in [
            (by(&["ann"]), by(&["bob"]), true, true),
            (NOBODY, by(&["bob"]), false, true),
            (by(&["ann"]), NOBODY, false, false),
            // Who has no name may sign what needs no certain person.
            (by(&[]), by(&[]), true, true),
        ] {
            let range = merge(inner, outer);
            assert_eq!(judged(&all, &range).is_ok(), by_all);
            assert_eq!(judged(&merges, &range).is_ok(), by_merges);
        }
        let expired = SignatureError::Expired { key: "SHA256:x".into(), until: "2024".into() };
        let found = verify(id(2), &[&all], &merge(Err(expired), by(&["bob"]))).unwrap_err();
        assert_eq!((found.commit, found.key.as_deref()), (id(1), Some("SHA256:x")));
        assert_eq!(found.rule, "signers.verify: commits of the operator");
    }

    const PROD: &str = "clusters/prod-1/web/a.yaml";

    #[test]
    fn a_path_needs_so_many_persons_who_signed_it_as_it_is() {
        let two = policy(None, &[("clusters/prod-*", &[], 2)]);
        let now = (PROD, state(7));
        for (what, commits, expected) in [
            ("one", vec![commit(1, by(&["ann"]), &[now])], false),
            ("two", vec![commit(1, by(&["ann"]), &[now]), commit(2, by(&["bob"]), &[now])], true),
            (
                "twice",
                vec![commit(1, by(&["ann"]), &[now]), commit(2, by(&["ann"]), &[now])],
                false,
            ),
            (
                "two keys of one",
                vec![commit(1, by(&["ann", "a@x"]), &[now]), commit(2, by(&["a@x"]), &[now])],
                false,
            ),
            (
                "two that turn out to be one",
                vec![
                    commit(1, by(&["ann"]), &[now]),
                    commit(2, by(&["a@x"]), &[now]),
                    commit(3, by(&["ann", "a@x"]), &[now]),
                ],
                false,
            ),
            (
                "signed before it was changed again",
                vec![commit(1, by(&["bob"]), &[(PROD, state(6))]), commit(2, by(&["ann"]), &[now])],
                false,
            ),
            ("nameless", vec![commit(1, by(&["ann"]), &[now]), commit(2, by(&[]), &[now])], false),
            ("unsigned", vec![commit(1, by(&["ann"]), &[now]), commit(2, NOBODY, &[now])], false),
            (
                "of something else",
                vec![
                    commit(1, by(&["ann"]), &[now]),
                    commit(2, by(&["bob"]), &[("README", state(1))]),
                ],
                false,
            ),
        ] {
            assert_eq!(judged(&two, &range(&[], &[now], commits)).is_ok(), expected, "{what}");
        }
        // A removal is a change, too.
        let gone = (PROD, None);
        let both = vec![commit(1, by(&["ann"]), &[gone]), commit(2, by(&["bob"]), &[gone])];
        assert!(judged(&two, &range(&[], &[gone], both)).is_ok());
        assert!(
            judged(&two, &range(&[], &[gone], vec![commit(1, by(&["ann"]), &[gone])])).is_err()
        );
    }

    #[test]
    fn only_the_signers_that_a_rule_names_count_and_a_refusal_says_who_did() {
        let release = policy(None, &[("clusters/prod-*", &["*@release", "!x@release"], 2)]);
        let now = (PROD, state(7));
        let check = |signer| {
            let commits = vec![commit(1, by(&["ann@release"]), &[now]), commit(2, signer, &[now])];
            verify(id(2), &[&release], &range(&[], &[now], commits))
        };
        assert!(check(by(&["bob@release"])).is_ok());
        for (signer, expected) in [
            (by(&["bob@dev"]), "and 02020202 is signed with SHA256:bob@dev, which is bob@dev's"),
            (by(&["x@release"]), "which is x@release's"),
            (by(&[]), "whose line names nobody"),
            (NOBODY, "and 02020202 has no signature"),
        ] {
            let refusal = check(signer).unwrap_err();
            let text = refusal.to_string();
            assert!(
                text.contains("1 of 2 persons of *@release, !x@release (ann@release)"),
                "{text}"
            );
            assert!(text.contains(expected), "{text}");
            assert!(text.contains("signers.paths[0] of the operator (clusters/prod-*)"), "{text}");
            assert_eq!(refusal.commit, id(2));
        }
    }

    #[test]
    fn an_approval_counts_from_a_signed_commit_only_where_anything_has_to_be_signed() {
        let elsewhere = policy(None, &[("clusters/prod-*", &[], 2)]);
        let file = ("approvals/0123", state(1));
        let check = |policy: &CompiledPolicy, change: (&str, FileState), signer| {
            judged(policy, &range(&[], &[change], vec![commit(1, signer, &[change])]))
        };
        assert!(check(&elsewhere, file, by(&["ann"])).is_ok());
        let refusal = check(&elsewhere, file, NOBODY).unwrap_err();
        assert!(
            refusal.contains("approvals/0123 is approved by a commit that has no signature"),
            "{refusal}"
        );
        assert!(check(&elsewhere, (file.0, None), NOBODY).is_ok(), "it approves nothing any more");
        assert!(check(&policy(None, &[]), file, NOBODY).is_ok());
    }

    #[test]
    fn what_one_of_two_policies_refuses_is_refused() {
        let (one, other) =
            (policy(Some(VerifiedCommits::Commits), &[]), policy(None, &[("a", &[], 2)]));
        let change = ("a", state(1));
        let range = range(&[1], &[change], vec![commit(1, by(&["ann"]), &[change])]);
        assert!(verify(id(1), &[&one], &range).is_ok());
        assert!(verify(id(1), &[&one, &other], &range).is_err());
    }
}
