//! The part of an explanation that is about Git.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gitwork_core::model::name::RepoPath;
use gitwork_core::render::setting::{FileLine, ObjectLocation, Setting};

/// A commit, in short.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CommitNote {
    /// The whole commit id, in hex.
    pub commit: String,
    /// The author's name.
    pub author: String,
    /// The commit time (RFC 3339).
    pub date: String,
    /// The first line of the message.
    pub subject: String,
}

impl CommitNote {
    /// Makes a note from a commit's id, author, commit time (seconds since 1970) and subject.
    pub fn new(commit: String, author: String, seconds: i64, subject: String) -> Self {
        let date =
            Timestamp::from_second(seconds).map_or_else(|_| String::new(), |at| at.to_string());
        Self { commit, author, date, subject }
    }
}

/// The state in Git.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitSide {
    /// The source id.
    pub source: String,
    /// The commit; absent for a directory on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The work folder; absent if Git has none for this work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<RepoPath>,
    /// The location of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<FileLine>,
    /// The last commit that changed the file. For a work: its folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_change: Option<CommitNote>,
    /// The file or folder has uncommitted changes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub uncommitted: bool,
    /// The commit that removed the work folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_by: Option<CommitNote>,
    /// The effective settings of the work, or of the object in question.
    pub settings: Vec<Setting>,
    /// The objects of the work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectLocation>,
    /// Errors and warnings about the work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<GitProblem>,
}

/// An error or warning in the repository, in short.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GitProblem {
    /// The code of the diagnostic, as in `GW101`: see docs/diagnostics.md.
    pub code: &'static str,
    /// Whether it freezes its scope; otherwise it is a warning.
    pub error: bool,
    /// Where it was found.
    #[serde(flatten)]
    pub place: FileLine,
    /// What is wrong, for people.
    pub message: String,
}
