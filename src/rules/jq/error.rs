//! Errors of jq expressions.

use crate::limits::{JQ_BYTES_MAX, JQ_PATHS_MAX, JQ_WORK_MAX};

/// Why an expression deleted nothing. Messages have no values of the object, which may be a Secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JqError {
    /// The expression exceeds [`JQ_BYTES_MAX`].
    #[error("it is longer than {JQ_BYTES_MAX} bytes")]
    TooLong,
    /// The expression does not parse.
    #[error("it does not parse")]
    Syntax,
    /// The expression uses something that is not supported, named here.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// The expression uses a variable or label that it does not define.
    #[error("it names a variable or label that it does not define")]
    UnknownName,
    /// The expression uses a function that is not there with so many arguments.
    #[error("there is no function {name} with {arguments} arguments")]
    UnknownFunction {
        /// The name in the expression.
        name: String,
        /// The number of its arguments.
        arguments: usize,
    },
    /// The manifest cannot be converted for jq.
    #[error("the manifest is no JSON for jq")]
    BadInput,
    /// The evaluation failed.
    #[error("it cannot be followed in this manifest")]
    Evaluation,
    /// The evaluation exceeds [`JQ_WORK_MAX`].
    #[error("it needs more than {JQ_WORK_MAX} steps in this manifest")]
    TooMuchWork,
    /// The expression, or a value that it makes, nests too deep.
    #[error("it nests too deep, or calls itself too often")]
    TooDeep,
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
