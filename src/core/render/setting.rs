//! The value of a setting, and the lines of files that set it.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::model::diagnostic::Location;
use crate::model::name::RepoPath;

/// A file of the repository and a line, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct FileLine {
    /// The path from the source's folder. Outputs have it from the root of the repository.
    pub file: RepoPath,
    /// The line; absent for the whole file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl FileLine {
    /// The start of a location.
    pub fn of(location: &Location) -> Self {
        Self { file: location.file.clone(), line: location.span.map(|span| span.line) }
    }

    /// The same line of a file below `path`.
    pub fn below(&mut self, path: &RepoPath) {
        self.file = path.join_path(&self.file);
    }
}

impl std::fmt::Display for FileLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => write!(f, "{}", self.file),
        }
    }
}

/// The effective value of one setting.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    /// The name, as in `deleteOption` or `labels.team`.
    pub name: String,
    /// The value in JSON, as configured or by default.
    pub value: Value,
    /// The location that sets the value; absent for a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_by: Option<FileLine>,
    /// The fact of the hub that gives the value, as in `ManagedCluster edge-1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fact: Option<String>,
    /// Locations that it overrides, lowest precedence first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<FileLine>,
}

/// An object and the location of its manifest.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ObjectLocation {
    /// The name, as in `Deployment shop/web`.
    pub object: String,
    /// Where the manifest begins.
    #[serde(flatten)]
    pub place: FileLine,
}
