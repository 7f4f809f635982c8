//! Errors of jq expressions.

use crate::limits::{JQ_BRANCHES_MAX, JQ_BYTES_MAX, JQ_PATHS_MAX, JQ_RECURSIONS_MAX};

/// Why an expression deleted nothing. Messages have no values of the object, which may be a Secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JqError {
    /// The expression exceeds [`JQ_BYTES_MAX`].
    #[error("it is longer than {JQ_BYTES_MAX} bytes")]
    TooLong,
    /// The expression does not parse.
    #[error("it does not parse")]
    Syntax,
    /// The expression exceeds [`JQ_BRANCHES_MAX`].
    #[error("it holds more than {JQ_BRANCHES_MAX} commas and lists")]
    TooManyBranches,
    /// The expression exceeds [`JQ_RECURSIONS_MAX`].
    #[error("it holds '..' more than {JQ_RECURSIONS_MAX} times")]
    TooManyRecursions,
    /// The expression uses a part of jq that is not supported, because it may not end.
    #[error(
        "{0} is not supported in a path; use select, test, startswith and the like, or jsonPointers"
    )]
    Unsupported(String),
    /// The expression uses a function or variable that jq does not have.
    #[error("it names a function or variable that jq does not have")]
    UnknownName,
    /// The manifest cannot be converted for jq.
    #[error("the manifest is no JSON for jq")]
    BadInput,
    /// The evaluation failed.
    #[error("it cannot be followed in this manifest")]
    Evaluation,
    /// A result is not a path.
    #[error("it gives something else than paths")]
    NotAPath,
    /// The expression yields more than [`JQ_PATHS_MAX`] paths.
    #[error("it leads to more than {JQ_PATHS_MAX} places")]
    TooManyPaths,
    /// The expression deletes the whole object.
    #[error("the result is not an object")]
    NotAnObject,
}
