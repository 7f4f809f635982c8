//! Problems of a path.

use crate::limits::{JSONPATH_BYTES_MAX, JSONPATH_DEPTH_MAX};

/// A path that does not parse, or cannot give a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} (character {column} of the path)")]
pub struct JsonPathError {
    /// Character of the path, from 1.
    pub column: usize,
    /// What is wrong.
    pub problem: JsonPathProblem,
}

/// What is wrong with a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathProblem {
    /// The path exceeds [`JSONPATH_BYTES_MAX`].
    #[error("the path is longer than {JSONPATH_BYTES_MAX} bytes")]
    TooLong,
    /// The path exceeds [`JSONPATH_DEPTH_MAX`].
    #[error("the path nests deeper than {JSONPATH_DEPTH_MAX} levels")]
    TooDeep,
    /// A line break or a final backslash ends the path too early.
    #[error("the path breaks off here: a line break or a final backslash is in the way")]
    Unfinished,
    /// A character that cannot begin a step.
    #[error("{0:?} has no meaning here: fields start with '.', texts stand in quotes")]
    UnexpectedCharacter(char),
    /// An opening brace.
    #[error("'{{' has no meaning here: write the path without braces")]
    Brace,
    /// A closing brace, which ends the path for client-go.
    #[error("the path ends at this '}}': write the path without braces")]
    EndsHere,
    /// A bracket without its closing bracket.
    #[error("'[' is never closed by ']'")]
    UnclosedBracket,
    /// A filter without its closing parenthesis.
    #[error("'[?(' is never closed by ')'; a ')' within quotes does not count")]
    UnclosedFilter,
    /// A filter whose parenthesis is not followed by a bracket.
    #[error("the filter must end with ')]'")]
    FilterWithoutBracket,
    /// A quote without its closing quote.
    #[error("the quote is never closed")]
    UnclosedQuote,
    /// A quoted text with an escape sequence that Go does not have.
    #[error("the quoted text {0} holds an escape that is not known")]
    BadEscape(String),
    /// The content of brackets is not an index, slice, wildcard or key.
    #[error("[{0}] is no index: write a number, a slice a:b:c, '*', or a key in single quotes")]
    BadIndex(String),
    /// A number that does not parse or is too large.
    #[error("{0} is no number, or one that is too large")]
    BadNumber(String),
    /// Two `..` in a row.
    #[error("'..' may not follow '..'")]
    RepeatedDescent,
    /// A word that is neither a field nor quoted.
    #[error("{0:?} is neither field nor text: a field is .{0}, a text is \"{0}\"")]
    BareWord(String),
    /// A run of operator characters that is not an operator.
    #[error("{0:?} is no comparison: use ==, !=, <, <=, > or >=")]
    UnknownOperator(String),
    /// `&` or `|`, which filters do not have.
    #[error("{0:?} has no meaning here: a filter knows no && and no ||")]
    LogicalOperator(char),
    /// A quoted key with a dot, which client-go reads as two fields.
    #[error("a '.' in a quoted key separates fields: write '\\.' where the key itself has a dot")]
    DottedKey,
    /// The step of a slice is not positive.
    #[error("a step must be greater than 0")]
    BadStep,
}
