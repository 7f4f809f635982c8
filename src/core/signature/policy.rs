//! Who has to have signed what, as an operator or a repository says it.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::diagnostic::Scope;
use crate::core::layout::{self, IgnoreRules};
use crate::core::name::RepoPath;
use crate::core::yaml;
use crate::limits;

/// Who has to have signed what is applied. Of what the operator and the repository ask for, both has to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SignerPolicy {
    /// Which new commits have to be signed by an allowed key; none where it is absent.
    pub verify: Option<Verify>,
    /// Files that need the signatures of several persons, or of certain ones.
    pub paths: Vec<PathRule>,
}

/// Which new commits have to be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verify {
    /// Every commit that the branch itself was moved to: merges, and commits made on it.
    Merges,
    /// Every commit, those that a merge brings included.
    Commits,
}

/// Files whose changes need signatures.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PathRule {
    /// Which files: patterns as in .gitignore, from the source's path down.
    pub paths: Vec<String>,
    /// Whose signatures count: principals, in which `*` and `?` may stand; anybody's with an allowed key without it.
    pub signers: Vec<String>,
    /// The signatures of so many different persons are needed.
    #[schemars(range(min = 1, max = 100))]
    pub required: u32,
}

impl Default for PathRule {
    fn default() -> Self {
        Self { paths: Vec::new(), signers: Vec::new(), required: 1 }
    }
}

/// Files with the keys that may sign, read anew at every fetch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SignerKeys {
    /// Files in the format of OpenSSH's allowed_signers.
    pub allowed_signers: Vec<String>,
    /// Files with armoured OpenPGP public keys.
    pub openpgp: Vec<String>,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    Operator,
    Repository,
}

impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operator => "the operator",
            Self::Repository => layout::SOURCE_FILE,
        })
    }
}

/// A policy that can be judged by.
#[derive(Debug)]
pub struct Policy {
    pub asker: Asker,
    pub verify: Option<Verify>,
    pub rules: Vec<Rule>,
}

/// A rule for paths.
#[derive(Debug)]
pub struct Rule {
    /// As messages name it.
    pub name: String,
    paths: IgnoreRules,
    /// The rule stands in `gitwork.yaml`, which it covers, too: else one signer could drop it for all.
    covers_itself: bool,
    pub signers: Vec<String>,
    pub required: usize,
}

/// What of a policy cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyProblem {
    /// JSON pointer below `signers`.
    pub pointer: String,
    /// Reads after the field's name.
    pub message: String,
}

impl SignerPolicy {
    /// Every problem that the schema does not find.
    pub fn problems(&self) -> Vec<PolicyProblem> {
        let mut found = Vec::new();
        let mut add = |pointer: String, message: String| {
            found.push(PolicyProblem { pointer, message });
        };
        if self.paths.len() > limits::SIGNER_RULES_MAX {
            let limit = limits::SIGNER_RULES_MAX;
            add("/paths".into(), format!("has more than {limit} rules"));
        }
        for (index, rule) in self.paths.iter().enumerate() {
            let at = format!("/paths/{index}");
            if rule.required == 0 {
                add(format!("{at}/required"), "must be at least 1".into());
            }
            if rule.paths.is_empty() {
                add(format!("{at}/paths"), "is empty, so that the rule is for no file".into());
            }
            if rule.paths.len().max(rule.signers.len()) > limits::SIGNER_RULES_MAX {
                let limit = limits::SIGNER_RULES_MAX;
                add(at.clone(), format!("has more than {limit} paths or signers"));
            }
            for (number, why) in IgnoreRules::new(&rule.paths).1 {
                add(format!("{at}/paths/{number}"), format!("cannot be read: {why}"));
            }
            // What .gitignore takes for a comment would be a rule for no file.
            let says_nothing = |path: &String| path.trim().is_empty() || path.starts_with('#');
            let paths = rule.paths.iter().enumerate();
            for (number, _) in paths.filter(|(_, path)| says_nothing(path)) {
                add(format!("{at}/paths/{number}"), "is a comment in .gitignore's syntax".into());
            }
        }
        found
    }

    /// What `gitwork.yaml` says, whatever else is wrong with it; an error tells that nobody can know.
    pub fn in_file(bytes: &[u8]) -> Result<Self, String> {
        let path = RepoPath::root().join(layout::SOURCE_FILE);
        let read = yaml::read(&path, bytes, &Scope::Source);
        if let Some(error) = read.diagnostics.iter().find(|found| found.is_error()) {
            return Err(error.message.clone());
        }
        match read.documents.first().and_then(|document| document.value.get("signers")) {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(signers) => Self::deserialize(signers).map_err(|why| why.to_string()),
        }
    }

    /// The policy to judge by; the problems where there is none.
    pub fn compile(&self, asker: Asker) -> Result<Policy, Vec<PolicyProblem>> {
        let problems = self.problems();
        if !problems.is_empty() {
            return Err(problems);
        }
        let rules = self.paths.iter().enumerate().map(|(index, rule)| Rule {
            name: format!("signers.paths[{index}] of {asker} ({})", rule.paths.join(", ")),
            paths: IgnoreRules::new(&rule.paths).0,
            covers_itself: asker == Asker::Repository,
            signers: rule.signers.clone(),
            required: usize::try_from(rule.required).unwrap_or(usize::MAX),
        });
        Ok(Policy { asker, verify: self.verify, rules: rules.collect() })
    }
}

impl Policy {
    /// Nothing has to be signed.
    pub fn is_empty(&self) -> bool {
        self.verify.is_none() && self.rules.is_empty()
    }

    /// Whether a change of the file needs signatures by one of the rules.
    pub fn covers(&self, file: &RepoPath) -> bool {
        self.rules.iter().any(|rule| rule.covers(file)) || (!self.is_empty() && is_approval(file))
    }
}

impl Rule {
    /// Whether the rule is for a file: by its own path, or by a folder that it is in.
    pub fn covers(&self, file: &RepoPath) -> bool {
        if self.covers_itself && file.as_str() == layout::SOURCE_FILE {
            return true;
        }
        let folders = std::iter::successors(file.parent(), RepoPath::parent);
        let mut folders = folders.filter(|folder| !folder.is_root());
        self.paths.is_ignored(file, false)
            || folders.any(|folder| self.paths.is_ignored(&folder, true))
    }
}

/// Whether a file is one that lets something through that is held.
pub fn is_approval(file: &RepoPath) -> bool {
    file.parts().next() == Some(layout::APPROVALS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RepoPath {
        RepoPath::parse(text).unwrap()
    }

    fn rule(paths: &[&str]) -> PathRule {
        let paths = paths.iter().map(|&path| path.to_owned()).collect();
        PathRule { paths, ..PathRule::default() }
    }

    #[test]
    fn rules_cover_files_and_what_is_in_folders() {
        let policy = SignerPolicy {
            verify: None,
            paths: vec![rule(&["clusters/prod-*", "*.crd.yaml", "!clusters/prod-test"])],
        };
        let ours = policy.compile(Asker::Repository).unwrap();
        let operators = policy.compile(Asker::Operator).unwrap();
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
        let none = SignerPolicy::default().compile(Asker::Operator).unwrap();
        assert!(none.is_empty() && !none.covers(&path("approvals/0123")));
    }

    #[test]
    fn the_signers_of_a_file_are_read_whatever_else_is_wrong_with_it() {
        let read = |text: &str| SignerPolicy::in_file(text.as_bytes());
        let found = read("signers: {verify: merges}\nignore: 7\nno such field: 1\n").unwrap();
        assert_eq!(found.verify, Some(Verify::Merges));
        for none in ["", "ignore: []\n", "signers:\n", "- a list\n"] {
            assert_eq!(read(none), Ok(SignerPolicy::default()), "{none}");
        }
        for bad in
            ["signers: {verify: some}\n", "signers: {who: me}\n", "signers: [\n", "signers: 1\n"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_a_problem_with_its_place() {
        let none = PathRule { required: 0, ..rule(&["a"]) };
        let policy = SignerPolicy { verify: None, paths: vec![rule(&[]), rule(&["[z-a]"]), none] };
        let pointers = |policy: &SignerPolicy| {
            policy.problems().into_iter().map(|p| p.pointer).collect::<Vec<_>>()
        };
        assert_eq!(pointers(&policy), ["/paths/0/paths", "/paths/1/paths/0", "/paths/2/required"]);
        assert!(policy.compile(Asker::Operator).is_err());
        // Each of these would be a rule for no file at all.
        let many = vec!["clusters/{a,b}*/{c,d}?[e-z]"; 900];
        for silent in [rule(&["a", "#prod/*"]), rule(&["a", " "]), rule(&many)] {
            let policy = SignerPolicy { verify: None, paths: vec![silent] };
            assert!(policy.compile(Asker::Operator).is_err(), "{:?}", pointers(&policy));
        }
        let long = rule(&[&"x".repeat(70_000)]);
        let policy = SignerPolicy { verify: None, paths: vec![long] };
        assert!(policy.compile(Asker::Operator).is_err());
    }
}
