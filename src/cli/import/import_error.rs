//! Why nothing more is imported.

use std::io;
use std::path::PathBuf;

use gitwork_core::model::name::RepoPath;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_hub::fleet::FleetError;

/// Why nothing more is imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The files have more bytes than are read.
    #[error("the files have more than {limit} bytes")]
    TooLarge { limit: u64 },
    /// The files have more objects than are read.
    #[error("there are more than {limit} {what}")]
    TooMany { what: &'static str, limit: usize },
    /// A file is not valid YAML.
    #[error("{} is not valid YAML; nothing is imported", .path.display())]
    Invalid { path: PathBuf },
    /// The hub cannot be read.
    #[error(transparent)]
    Hub(#[from] FleetError),
    /// Another program made the file after the folder was checked.
    #[error("{file} is there already")]
    Exists { file: RepoPath },
}

impl OperationError for ImportError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Hub(error) => error.class(),
            _ => ErrorClass::NeedsAction,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Hub(error) => error.reason(),
            _ => "Import",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Hub(error) => error.hints(),
            Self::TooLarge { .. } => vec!["import them one after the other".to_owned()],
            Self::TooMany { .. } => vec!["select fewer".to_owned()],
            _ => Vec::new(),
        }
    }
}
