//! The content of the status page. Pure.
//!
//! - [`page_model`]: all clusters and works, as a whole and as changes.
//! - [`work_detail`]: the details of one work.
//! - [`journal`]: the last changes, for browsers that are slightly behind.
//!
//! Everything here is sent to a browser. Names follow Kubernetes' rules. Text of clusters,
//! repositories and API servers is escaped, and stays text.

pub mod journal;
mod model_json;
mod numbered;
pub mod page_model;
pub mod work_detail;

use serde::Serialize;

use super::forge::WebPages;
use super::status::source::HeldChanges;
use crate::model::digest::Digest;
use crate::model::name::SourceId;
use crate::text::escape::escape_untrusted;

pub use journal::Journal;
pub use page_model::{ModelChange, PageModel};
pub use work_detail::WorkDetail;

/// The static facts of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceInfo {
    /// The source id, unique in the daemon.
    pub id: SourceId,
    /// Its URL or directory, without credentials.
    pub repository: String,
    /// The ref, as in `branch main`; empty for a directory.
    pub reference: String,
    /// The arguments that identify it for `gitwork approve`.
    pub arguments: Vec<String>,
    /// Its pages on the forge.
    pub pages: Option<WebPages>,
}

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
            why: shown(&held.reason),
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
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", escape_untrusted(word).replace('\'', r"'\''"))
}

/// Escapes untrusted text but keeps its line breaks.
fn shown(text: &str) -> String {
    text.split('\n').map(escape_untrusted).collect::<Vec<_>>().join("\n")
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
                "gitwork approve {hash} --repo 'https://git.example/a b.git' --path 'it'\\''s' \
                 --branch main"
            )
        );
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(shown("a\u{1b}[31m\n\u{202e}b"), "a\\u{1b}[31m\n\\u{202e}b");
    }
}
