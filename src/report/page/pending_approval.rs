//! Changes that wait for approval.

use serde::Serialize;

use super::source_info::SourceInfo;
use crate::status::source::HeldChanges;
use gitwork_core::model::digest::Digest;
use gitwork_core::text::escape::{escape_lines, escape_untrusted};

/// Changes that wait for approval, and the command that approves them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PendingApproval {
    /// The guard, in one word.
    pub guard: &'static str,
    /// The hash to approve, 64 hexadecimal digits.
    pub hash: String,
    /// How many works wait.
    pub works: usize,
    /// Why they wait, for people; escaped.
    pub why: String,
    /// The whole `gitwork approve` command, quoted for a shell.
    pub command: String,
}

impl PendingApproval {
    /// Describes held changes of the source `info`.
    pub fn of(held: &HeldChanges, info: &SourceInfo) -> Self {
        Self {
            guard: held.guard.as_str(),
            hash: held.hash.to_string(),
            works: held.works,
            why: escape_lines(&held.reason),
            command: approve(held.hash, &info.arguments),
        }
    }
}

/// The command that approves a plan, quoted for a shell.
fn approve(hash: Digest, arguments: &[String]) -> String {
    let mut command = format!("gitwork approve {hash}");
    for argument in arguments {
        command.push(' ');
        command.push_str(&quoted(argument));
    }
    command
}

/// Quotes one word for a shell.
fn quoted(word: &str) -> String {
    let word = escape_untrusted(word);
    // Only a NUL cannot be quoted, and it is escaped.
    shlex::try_quote(&word).unwrap_or_default().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_survives_the_shell() {
        let arguments =
            ["--repo", "https://git.example/a b.git", "--path", "it's", "--branch", "main"];
        let arguments = arguments.map(str::to_owned);
        let hash = Digest::of(b"plan");
        assert_eq!(
            approve(hash, &arguments),
            format!(
                "gitwork approve {hash} --repo 'https://git.example/a b.git' --path \"it's\" \
                 --branch main"
            )
        );
    }
}
