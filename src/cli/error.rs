//! The error of a command, its exit code and its text: the only place where the command line
//! renders errors.

use std::fmt::Display;

use gitwork_core::model::operation_error::{OperationError, describe};

use super::exit::Exit;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// The arguments contradict each other or name nothing that exists.
    Usage(String),
    /// An operation failed: a fetch, a call to the hub, a write of a file.
    Operation(Box<dyn OperationError + Send + Sync>),
}

/// `; did you mean X?` for the name that was probably meant, or nothing.
pub(crate) fn did_you_mean(near: Option<impl Display>) -> String {
    near.map_or_else(String::new, |near| format!("; did you mean {near}?"))
}

impl CommandError {
    /// A wrong use of the command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// The program's exit code.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Operation(_) => Exit::Failed,
        }
    }

    /// The message with its causes and hints, on one line.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Usage(message) => message.clone(),
            Self::Operation(error) => describe(&**error),
        }
    }
}

impl<E: OperationError + Send + Sync> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self::Operation(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use gitwork_source::SourceReadError;

    use super::*;

    #[test]
    fn operation_errors_have_hints_and_exit_code_1() {
        let error = CommandError::from(SourceReadError::NothingSigned { path: "fleet".into() });
        assert_eq!(error.exit(), Exit::Failed);
        let message = error.message();
        assert!(message.starts_with("fleet is a folder on disk"), "{message}");
        assert!(message.contains("; name its repository by a URL"), "{message}");
        assert_eq!(CommandError::usage("--head needs --base").exit(), Exit::Usage);
    }
}
