//! A work folder with its work.yaml.

use serde_json::Value;

use crate::config::WorkFile;
use crate::config::file::Config;
use crate::model::diagnostic::Location;
use crate::model::name::RepoPath;

/// What the outcome for a folder says of another folder with the same files and settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// That it has the same work if it is the same folder, for another cluster: its path decides
    /// what is ignored and what messages say.
    SameFolder,
    /// It has the same work, of this name.
    SameName,
    /// It has the same work, of the folder's name.
    FolderName,
}

/// A work folder with its work.yaml, for the places that messages point to.
#[derive(Debug)]
pub struct FolderConfig<'a> {
    /// The folder, from the source's path.
    pub path: &'a RepoPath,
    /// `None` where it is absent or cannot be read.
    pub work_file: Option<&'a Config<WorkFile>>,
}

impl<'a> FolderConfig<'a> {
    /// `manifestConfigs` of work.yaml.
    pub fn manifest_configs(&self) -> &'a [Value] {
        self.work_file.map_or(&[], |config| &config.value.manifest_configs)
    }

    /// The name that work.yaml or the folder gives the work. It may be invalid.
    pub fn work_name(&self) -> &str {
        let named = self.work_file.and_then(|config| config.value.name.as_deref());
        named.unwrap_or(self.path.name())
    }

    /// What a folder without problems says of another one with the same files and values.
    pub fn reuse(&self) -> Reuse {
        match self.work_file.is_some_and(|config| config.value.name.is_some()) {
            true => Reuse::SameName,
            false => Reuse::FolderName,
        }
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
