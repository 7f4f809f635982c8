//! A work folder with its work.yaml.

use serde_json::Value;

use crate::config::WorkFile;
use crate::config::file::Config;
use crate::model::diagnostic::Location;
use crate::model::name::RepoPath;

/// A work folder with its work.yaml, for the places that messages point to.
#[derive(Debug)]
pub struct FolderConfig<'a> {
    /// The folder, from the source's path.
    pub path: &'a RepoPath,
    /// `None` where it is absent or cannot be read.
    pub work_file: Option<&'a Config<WorkFile>>,
}

impl FolderConfig<'_> {
    /// The name that work.yaml or the folder gives the work. It may be invalid.
    pub fn work_name(&self) -> &str {
        let named = self.work_file.and_then(|config| config.value.name.as_deref());
        named.unwrap_or(self.path.name())
    }

    /// The place of a field of work.yaml, by its JSON pointer; the folder where work.yaml does not
    /// set it.
    pub fn location(&self, pointer: &str) -> Location {
        let is_set = |value: &Value| !value.is_null();
        match self.work_file {
            Some(config) if config.document.value.pointer(pointer).is_some_and(is_set) => {
                config.location(pointer)
            }
            _ => Location::file(self.path),
        }
    }
}
