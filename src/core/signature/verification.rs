//! `(policies, new commits with their signers and what they changed) -> verified or refused`. Pure.
//!
//! A path rule counts the persons whose signed commits cover the present state of each file that
//! differs from the last verified commit. A signed commit covers a file in two cases:
//!
//! - It has the file in its present state and its first parent does not. So a merge covers all that
//!   it brings.
//! - It changes nothing at all and has the file in its present state. An empty commit is made to
//!   sign what it builds on.
//!
//! A later commit about something else does not cover the files that it merely contains.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::persons::Persons;
use super::policy::{CompiledPathRule, CompiledPolicy, is_approval};
use super::{SignatureError, Signer};
use crate::config::file_names::APPROVALS;
use crate::config::signers::VerifiedCommits;
use crate::model::name::{CommitId, ObjectId, RepoPath};

#[cfg(test)]
mod tests;

/// A file in a commit: its mode and content; `None` where it is not there.
pub type FileState = Option<(u32, ObjectId)>;

/// One new commit.
#[derive(Debug, Clone)]
pub struct CheckedCommit {
    /// The commit.
    pub id: CommitId,
    /// Who signed it, or why its signature does not count.
    pub signer: Result<Signer, SignatureError>,
    /// The files that its signature covers, each as the commit has it.
    pub covered_files: BTreeMap<RepoPath, FileState>,
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error, JsonSchema)]
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
    /// What is missing, as a clause.
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
            "have its operator add the key to the allowed ones if it is to be trusted, or sign \
             with another"
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
        let covering = covering(range, file, *now);
        let mut persons = Persons::default();
        for commit in &covering {
            if let Ok(signer) = &commit.signer {
                persons.add(signer, &rule.signers);
            }
        }
        if persons.count() < rule.required {
            return Err(missing(head, rule, file, &covering, &persons));
        }
    }
    Ok(())
}

fn check_approvals(head: CommitId, range: &CommitRange) -> Result<(), Box<VerificationFailure>> {
    let approvals = range.changes.iter().filter(|(file, now)| is_approval(file) && now.is_some());
    for (file, now) in approvals {
        let covering = covering(range, file, *now);
        if covering.iter().any(|commit| commit.signer.is_ok()) {
            continue;
        }
        let rule = format!("{APPROVALS}: approvals are signed where anything has to be");
        let (commit, error) = match covering.last() {
            Some(CheckedCommit { id, signer: Err(error), .. }) => (*id, error.clone()),
            _ => (head, SignatureError::Unsigned),
        };
        let mut failure = unsigned(head, commit, rule, &error);
        failure.is_final = false;
        failure.why = format!("{file} is approved by a commit that {error}");
        return Err(failure);
    }
    Ok(())
}

/// The commits that cover the present state of a file, if their signatures are valid.
fn covering<'a>(range: &'a CommitRange, file: &RepoPath, now: FileState) -> Vec<&'a CheckedCommit> {
    let has = |commit: &&CheckedCommit| commit.covered_files.get(file) == Some(&now);
    range.commits.iter().filter(has).collect()
}

fn missing(
    head: CommitId,
    rule: &CompiledPathRule,
    file: &RepoPath,
    covering: &[&CheckedCommit],
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
    let other = covering.iter().rev().find_map(|commit| match &commit.signer {
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
    let last = covering.last();
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
