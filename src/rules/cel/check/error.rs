//! Errors of a check.

use crate::limits::{CEL_BYTES_MAX, CEL_DEPTH_MAX, CEL_SIGNS_MAX};

/// A problem of an expression, with its location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} (line {line}, character {column} of the expression)")]
pub struct CelCheckError {
    /// Line of the expression, from 1.
    pub line: usize,
    /// Character of the line, from 1.
    pub column: usize,
    /// What is wrong.
    pub problem: CelProblem,
}

/// What is wrong with an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CelProblem {
    /// The expression has only white space.
    #[error("the expression is empty")]
    Empty,
    /// The expression exceeds [`CEL_BYTES_MAX`].
    #[error("the expression is longer than {CEL_BYTES_MAX} bytes")]
    TooLong,
    /// The expression exceeds [`CEL_SIGNS_MAX`].
    #[error("the expression holds more than {CEL_SIGNS_MAX} operators, dots and brackets")]
    TooManySigns,
    /// The expression exceeds [`CEL_DEPTH_MAX`].
    #[error("brackets, calls and conditions nest deeper than {CEL_DEPTH_MAX} levels")]
    TooDeep,
    /// The expression does not parse; the parser's message.
    #[error("{0}")]
    Syntax(String),
    /// The expression uses a variable that is not declared.
    #[error("{name:?} is not declared: the variables here are {variables}")]
    UnknownVariable {
        /// The variable.
        name: String,
        /// The declared variables, separated by commas.
        variables: String,
    },
    /// The expression calls a function that OCM's work agent does not have.
    #[error("there is no function {0}() in the CEL of OCM's work agent")]
    UnknownFunction(String),
}
