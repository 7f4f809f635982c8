//! Signature policies: which commits and files need signatures, and of which signers.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::file_names::SOURCE_FILE;
use super::path_patterns::PathPatterns;
use crate::limits;
use crate::model::diagnostic::Scope;
use crate::model::name::RepoPath;
use crate::text::yaml;

/// Which commits and files need signatures. If the operator and the repository both set a policy,
/// a commit must satisfy both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SignerPolicy {
    /// Which new commits need a signature by a trusted key. Default: none.
    pub verify: Option<VerifiedCommits>,
    /// Files that need the signatures of several persons, or of certain persons.
    pub paths: Vec<SignedPathRule>,
}

/// Which new commits need a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VerifiedCommits {
    /// The commits on the branch itself (its first parents): merges and direct commits.
    Merges,
    /// All commits, including those that a merge adds.
    Commits,
}

/// Files whose changes need signatures.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SignedPathRule {
    /// The files: patterns in .gitignore syntax, relative to the source's path.
    pub paths: Vec<String>,
    /// Principals whose signatures count. `*` and `?` are wildcards. Default: any trusted key with
    /// a principal.
    pub signers: Vec<String>,
    /// Required number of signatures by different persons.
    #[schemars(range(min = 1, max = 100))]
    pub required: u32,
}

impl Default for SignedPathRule {
    fn default() -> Self {
        Self { paths: Vec::new(), signers: Vec::new(), required: 1 }
    }
}

/// Files with the trusted keys. They are read again for every fetch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SignerKeys {
    /// Files in the format of OpenSSH's allowed_signers.
    pub allowed_signers: Vec<String>,
    /// Files with armoured OpenPGP public keys.
    pub openpgp: Vec<String>,
}

/// An invalid field of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignerPolicyProblem {
    /// JSON pointer below `signers`.
    pub pointer: String,
    /// Reads after the field's name.
    pub message: String,
}

/// Why the policy in a `gitwork.yaml` is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignerPolicyError {
    /// The file is not valid YAML. Has the message of its first error.
    #[error("{0}")]
    Yaml(String),
    /// `signers` has a field of the wrong name or type.
    #[error("{0}")]
    Form(String),
}

impl SignerPolicy {
    /// All problems that the JSON Schema does not find.
    pub fn problems(&self) -> Vec<SignerPolicyProblem> {
        let mut problems = Vec::new();
        if self.paths.len() > limits::SIGNER_RULES_MAX {
            let message = format!("has more than {} rules", limits::SIGNER_RULES_MAX);
            problems.push(SignerPolicyProblem { pointer: "/paths".into(), message });
        }
        for (index, rule) in self.paths.iter().enumerate() {
            let below = |problem: SignerPolicyProblem| SignerPolicyProblem {
                pointer: format!("/paths/{index}{}", problem.pointer),
                ..problem
            };
            problems.extend(rule.problems().into_iter().map(below));
        }
        problems
    }

    /// The policy in a `gitwork.yaml`, even if other fields of the file are invalid.
    ///
    /// # Errors
    /// The file is not YAML, or its `signers` are invalid: then the policy is unknown.
    pub fn in_file(bytes: &[u8]) -> Result<Self, SignerPolicyError> {
        let path = RepoPath::root().join(SOURCE_FILE);
        let read = yaml::read(&path, bytes, &Scope::Source);
        if let Some(error) = read.diagnostics.iter().find(|found| found.is_error()) {
            return Err(SignerPolicyError::Yaml(error.message.clone()));
        }
        match read.documents.first().and_then(|document| document.value.get("signers")) {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(signers) => {
                Self::deserialize(signers).map_err(|why| SignerPolicyError::Form(why.to_string()))
            }
        }
    }
}

impl SignedPathRule {
    /// The problems of one rule, with pointers relative to it.
    fn problems(&self) -> Vec<SignerPolicyProblem> {
        let mut problems = Vec::new();
        let mut add = |pointer: String, message: String| {
            problems.push(SignerPolicyProblem { pointer, message });
        };
        if self.required == 0 {
            add("/required".into(), "must be at least 1".into());
        }
        if self.paths.is_empty() {
            add("/paths".into(), "is empty: the rule applies to no file".into());
        }
        if self.paths.len().max(self.signers.len()) > limits::SIGNER_RULES_MAX {
            let limit = limits::SIGNER_RULES_MAX;
            add(String::new(), format!("has more than {limit} paths or signers"));
        }
        for (number, why) in PathPatterns::new(&self.paths).1 {
            add(format!("/paths/{number}"), format!("is invalid: {why}"));
        }
        // .gitignore reads these as blank lines and comments: the rule would apply to no file.
        let is_comment = |path: &String| path.trim().is_empty() || path.starts_with('#');
        let paths = self.paths.iter().enumerate();
        for (number, _) in paths.filter(|(_, path)| is_comment(path)) {
            add(format!("/paths/{number}"), "is a comment in .gitignore syntax".into());
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signers_are_read_although_other_fields_are_invalid() {
        let read = |text: &str| SignerPolicy::in_file(text.as_bytes());
        let found = read("signers: {verify: merges}\nignore: 7\nno such field: 1\n").unwrap();
        assert_eq!(found.verify, Some(VerifiedCommits::Merges));
        for none in ["", "ignore: []\n", "signers:\n", "- a list\n"] {
            assert_eq!(read(none), Ok(SignerPolicy::default()), "{none}");
        }
        for bad in
            ["signers: {verify: some}\n", "signers: {who: me}\n", "signers: [\n", "signers: 1\n"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
