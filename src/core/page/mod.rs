//! What the status page shows. Pure.
//!
//! - [`board`]: all clusters and works, once as a whole and then as changes.
//! - [`detail`]: all that is known of one work.
//! - [`journal`]: the last changes, for browsers that are a little behind.
//!
//! Everything here ends in a browser. Names are those of Kubernetes; text of clusters, repositories and API servers is
//! made harmless and stays text.

pub mod board;
pub mod detail;
pub mod journal;

use serde::Serialize;

use super::digest::Digest;
use super::forge::WebPages;
use super::name::SourceId;
use super::report::harmless;
use super::status::source::HeldChanges;

pub use board::{Board, Change};
pub use detail::Detail;
pub use journal::Journal;

/// What is known of a source before anything was read.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceInfo {
    pub id: SourceId,
    /// Its URL or folder; no credentials stand in it.
    pub repository: String,
    /// As in `branch main`; empty where the source is a folder.
    pub reference: String,
    /// The arguments that name it for `gitwork approve`.
    pub arguments: Vec<String>,
    /// Where people look at its commits.
    pub pages: Option<WebPages>,
}

/// Changes that wait for approval, and how to give it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Held {
    /// What holds them, in one word.
    pub guard: &'static str,
    pub hash: String,
    pub works: usize,
    pub why: String,
    pub command: String,
}

impl Held {
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

/// The command that approves of a plan, as a shell takes it.
fn approve(hash: Digest, arguments: &[String]) -> String {
    let mut command = format!("gitwork approve {hash}");
    for argument in arguments {
        command.push(' ');
        command.push_str(&quoted(argument));
    }
    command
}

/// One word of a shell's command line.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", harmless(word).replace('\'', r"'\''"))
}

/// Text from elsewhere: what could change how other text looks comes out as an escape, line ends stay.
fn shown(text: &str) -> String {
    text.split('\n').map(harmless).collect::<Vec<_>>().join("\n")
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
                r"gitwork approve {hash} --repo 'https://git.example/a b.git' --path 'it'\''s' --branch main"
            )
        );
    }

    #[test]
    fn control_characters_are_shown_and_do_nothing() {
        assert_eq!(shown("a\u{1b}[31m\n\u{202e}b"), "a\\u{1b}[31m\n\\u{202e}b");
    }
}
