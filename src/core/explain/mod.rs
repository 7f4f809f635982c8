//! `(snapshot, plan, status) -> why`: from a work or an object back to the file, line and settings that it comes from,
//! and forward to the reason why it is, or is not, on its cluster. Pure.
//!
//! - [`target`]: what is asked about; [`origin`]: the way back, into Git; [`answer`]: the way forward.

pub mod answer;
pub mod origin;
mod print;
pub mod target;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

pub use answer::{Answer, Facts, Reach};
pub use origin::{Origins, origins};
pub use print::text;
pub use target::{ObjectQuery, Target, TargetError};

use super::diagnostic::Location;
use super::name::RepoPath;
use super::status::tree::{ObjectStatus, WorkTree};

/// All that is known.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub cluster: String,
    pub work: String,
    /// As in `Deployment shop/web`; absent for the work as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    pub answer: Answer,
    pub git: GitSide,
    /// Absent where the hub is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub: Option<HubSide>,
    /// Why the hub is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub_unknown: Option<String>,
}

/// A place in the repository. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    pub file: RepoPath,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl Place {
    pub fn of(location: &Location) -> Self {
        Self { file: location.file.clone(), line: location.span.map(|span| span.line) }
    }
    fn below(&mut self, path: &RepoPath) {
        self.file = path.join_path(&self.file);
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => write!(f, "{}", self.file),
        }
    }
}

/// One setting as it counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    /// As in `deleteOption` or `labels.team`.
    pub name: String,
    pub value: Value,
    /// The place that counts; absent for what nobody sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_by: Option<Place>,
    /// Places that it wins over, lowest precedence first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Place>,
}

/// An object and where it stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObjectPlace {
    pub object: String,
    #[serde(flatten)]
    pub place: Place,
}

/// A commit, for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CommitNote {
    pub commit: String,
    pub author: String,
    /// When it was committed (RFC 3339).
    pub date: String,
    pub subject: String,
}

impl CommitNote {
    /// From a commit's id, author and time in seconds since 1970.
    pub fn new(commit: String, author: String, seconds: i64, subject: String) -> Self {
        let date =
            Timestamp::from_second(seconds).map_or_else(|_| String::new(), |at| at.to_string());
        Self { commit, author, date, subject }
    }
}

/// What Git says.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GitSide {
    /// The source's id.
    pub source: String,
    /// The commit that was read; absent for a folder on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The work folder; absent where Git has none for this work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<RepoPath>,
    /// Where the object stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The last commit that changed the file (or, of a work, the folder).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_change: Option<CommitNote>,
    /// The file or folder on disk is not as in the last commit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub uncommitted: bool,
    /// The commit that removed the work folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_by: Option<CommitNote>,
    pub settings: Vec<Setting>,
    /// The objects of the work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectPlace>,
    /// Errors and warnings that are about the work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

/// A diagnostic, in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Problem {
    pub code: &'static str,
    pub error: bool,
    #[serde(flatten)]
    pub place: Place,
    pub message: String,
}

/// What the hub says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HubSide {
    /// The ManifestWork without its objects; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkTree>,
    /// The object that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectStatus>,
}

impl Explanation {
    /// Has every place told from the repository's root, for a source whose files start at `path`.
    pub fn tell_from_root(&mut self, path: &RepoPath) {
        let git = &mut self.git;
        git.folder = git.folder.take().map(|folder| path.join_path(&folder));
        let settings = git.settings.iter_mut();
        let places = settings.flat_map(|one| one.set_by.iter_mut().chain(&mut one.overrides));
        let objects = git.objects.iter_mut().map(|one| &mut one.place);
        let problems = git.problems.iter_mut().map(|one| &mut one.place);
        places.chain(objects).chain(problems).chain(&mut git.place).for_each(|one| one.below(path));
    }
}
