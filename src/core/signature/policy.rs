//! Signature policies, compiled for checks.

use std::fmt;

use crate::config::file_names::{APPROVALS, SOURCE_FILE};
use crate::config::path_patterns::PathPatterns;
use crate::config::signers::{SignerPolicy, SignerPolicyProblem, VerifiedCommits};
use crate::model::name::RepoPath;

/// Where a policy comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyOrigin {
    /// The daemon's file or flags.
    Operator,
    /// `gitwork.yaml`.
    Repository,
}

impl fmt::Display for PolicyOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operator => "the operator",
            Self::Repository => SOURCE_FILE,
        })
    }
}

/// A policy with compiled patterns.
#[derive(Debug)]
pub struct CompiledPolicy {
    /// Where the policy comes from.
    pub origin: PolicyOrigin,
    /// Which new commits need a signature; `None` if none does.
    pub verify: Option<VerifiedCommits>,
    /// Rules for files.
    pub rules: Vec<CompiledPathRule>,
}

/// A rule for files with compiled patterns.
#[derive(Debug, Clone)]
pub struct CompiledPathRule {
    /// The rule's name in messages.
    pub name: String,
    paths: PathPatterns,
    /// A rule of `gitwork.yaml` covers that file too. Otherwise one signer could remove the rule.
    covers_itself: bool,
    /// Patterns of principals whose signatures count; empty if all do.
    pub signers: Vec<String>,
    /// Required number of different persons.
    pub required: usize,
}

impl CompiledPolicy {
    /// Compiles a policy.
    ///
    /// # Errors
    /// All problems of the policy, if it has one.
    pub fn new(
        policy: &SignerPolicy,
        origin: PolicyOrigin,
    ) -> Result<Self, Vec<SignerPolicyProblem>> {
        let problems = policy.problems();
        if !problems.is_empty() {
            return Err(problems);
        }
        let rules = policy.paths.iter().enumerate().map(|(index, rule)| CompiledPathRule {
            name: format!("signers.paths[{index}] of {origin} ({})", rule.paths.join(", ")),
            paths: PathPatterns::new(&rule.paths).0,
            covers_itself: origin == PolicyOrigin::Repository,
            signers: rule.signers.clone(),
            required: usize::try_from(rule.required).unwrap_or(usize::MAX),
        });
        Ok(Self { origin, verify: policy.verify, rules: rules.collect() })
    }

    /// The policy without its rules for files.
    pub fn without_rules(&self) -> Self {
        Self { origin: self.origin, verify: self.verify, rules: Vec::new() }
    }

    /// The policy with its rules for files only.
    pub fn without_verify(&self) -> Self {
        Self { origin: self.origin, verify: None, rules: self.rules.clone() }
    }

    /// Whether nothing needs a signature.
    pub fn is_empty(&self) -> bool {
        self.verify.is_none() && self.rules.is_empty()
    }

    /// Whether a change of the file needs signatures.
    pub fn covers(&self, file: &RepoPath) -> bool {
        self.rules.iter().any(|rule| rule.covers(file)) || (!self.is_empty() && is_approval(file))
    }
}

impl CompiledPathRule {
    /// Whether the rule covers a file, by its own path or by a parent folder.
    pub fn covers(&self, file: &RepoPath) -> bool {
        if self.covers_itself && file.as_str() == SOURCE_FILE {
            return true;
        }
        let folders = std::iter::successors(file.parent(), RepoPath::parent);
        let mut folders = folders.filter(|folder| !folder.is_root());
        self.paths.is_match(file, false) || folders.any(|folder| self.paths.is_match(&folder, true))
    }
}

/// Whether a file approves a held plan.
pub fn is_approval(file: &RepoPath) -> bool {
    file.parts().next() == Some(APPROVALS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::signers::SignedPathRule;

    fn path(text: &str) -> RepoPath {
        RepoPath::parse(text).unwrap()
    }

    fn rule(paths: &[&str]) -> SignedPathRule {
        let paths = paths.iter().map(|&path| path.to_owned()).collect();
        SignedPathRule { paths, ..SignedPathRule::default() }
    }

    #[test]
    fn rules_cover_files_and_content_of_folders() {
        let policy = SignerPolicy {
            verify: None,
            paths: vec![rule(&["clusters/prod-*", "*.crd.yaml", "!clusters/prod-test"])],
        };
        let ours = CompiledPolicy::new(&policy, PolicyOrigin::Repository).unwrap();
        let operators = CompiledPolicy::new(&policy, PolicyOrigin::Operator).unwrap();
        for (file, by_repository, by_operator) in [
            ("clusters/prod-1/web/a.yaml", true, true),
            ("clusters/prod-1/cluster.yaml", true, true),
            ("clusters/prod-test/web/a.yaml", false, false),
            ("clusters/test/web/a.yaml", false, false),
            ("clusters/test/web/x.crd.yaml", true, true),
            ("other/clusters/prod-1/a.yaml", false, false),
            ("gitwork.yaml", true, false),
            ("approvals/0123", true, true),
        ] {
            let found = (ours.covers(&path(file)), operators.covers(&path(file)));
            assert_eq!(found, (by_repository, by_operator), "{file}");
        }
        let none = CompiledPolicy::new(&SignerPolicy::default(), PolicyOrigin::Operator).unwrap();
        assert!(none.is_empty() && !none.covers(&path("approvals/0123")));
    }

    #[test]
    fn invalid_rules_are_problems_with_pointers() {
        let none = SignedPathRule { required: 0, ..rule(&["a"]) };
        let policy = SignerPolicy { verify: None, paths: vec![rule(&[]), rule(&["[z-a]"]), none] };
        let pointers = |policy: &SignerPolicy| {
            policy.problems().into_iter().map(|p| p.pointer).collect::<Vec<_>>()
        };
        let compile = |policy: &SignerPolicy| CompiledPolicy::new(policy, PolicyOrigin::Operator);
        assert_eq!(pointers(&policy), ["/paths/0/paths", "/paths/1/paths/0", "/paths/2/required"]);
        assert!(compile(&policy).is_err());
        // Each of these would be a rule that applies to no file.
        let many = vec!["clusters/{a,b}*/{c,d}?[e-z]"; 900];
        for silent in [rule(&["a", "#prod/*"]), rule(&["a", " "]), rule(&many)] {
            let policy = SignerPolicy { verify: None, paths: vec![silent] };
            assert!(compile(&policy).is_err(), "{:?}", pointers(&policy));
        }
        let long = rule(&[&"x".repeat(70_000)]);
        let policy = SignerPolicy { verify: None, paths: vec![long] };
        assert!(compile(&policy).is_err());
    }
}
