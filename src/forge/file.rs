//! Reads files with tokens, keys and certificates at each use, so that a new content needs no
//! restart.

use std::path::{Path, PathBuf};

use crate::limits;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};

/// Why a file cannot be used. The message never holds its content.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the file {file} ({purpose}): {problem}")]
pub struct FileError {
    file: PathBuf,
    purpose: &'static str,
    problem: String,
}

impl FileError {
    /// `purpose` describes the content, as in "token".
    pub fn new(file: &Path, purpose: &'static str, problem: impl Into<String>) -> Self {
        Self { file: file.to_owned(), purpose, problem: problem.into() }
    }
}

impl OperationError for FileError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "CredentialFile"
    }
}

/// Reads a token or secret: the file's text without surrounding white space.
pub fn read_secret(file: &Path, purpose: &'static str) -> Result<String, FileError> {
    let bytes = read_bounded(file, purpose, limits::TOKEN_BYTES_MAX)?;
    let text =
        String::from_utf8(bytes).map_err(|_| FileError::new(file, purpose, "it is not text"))?;
    match text.trim() {
        "" => Err(FileError::new(file, purpose, "it is empty")),
        secret => Ok(secret.to_owned()),
    }
}

/// Reads at most `limit` bytes. A longer file is an error.
pub(crate) fn read_bounded(
    file: &Path,
    purpose: &'static str,
    limit: u64,
) -> Result<Vec<u8>, FileError> {
    use std::io::Read as _;
    let opened = std::fs::File::open(file)
        .map_err(|error| FileError::new(file, purpose, error.to_string()))?;
    let mut bytes = Vec::new();
    opened
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| FileError::new(file, purpose, error.to_string()))?;
    if bytes.len() as u64 > limit {
        return Err(FileError::new(file, purpose, format!("it is longer than {limit} bytes")));
    }
    Ok(bytes)
}
