//! The JSONPath of OCM's rules: the dialect of client-go's `util/jsonpath`, as OCM's work agent
//! uses it. The agent puts the path between braces, lets missing keys pass and takes what the first
//! expression gives.
//!
//! The dialect is client-go's, warts included, since its verdict is what counts on a cluster:
//! `['a.b']` means `.a.b`, `[]` means `[0]`, an index past the end is an error while a missing key
//! is none, and a comparison of a text with a number fails the whole path.
//! `tests/jsonpath/table.json` holds what client-go itself answers.
//!
//! Three things differ on purpose. `range` and `end`, which only make sense in kubectl's templates,
//! are names without a meaning. What a `*` or `..` finds comes in the order of the keys; in
//! client-go it comes in random order. Length, nesting and work are bounded (see
//! [`crate::limits`]).

mod evaluate;
mod parse;
mod removal;

pub use evaluate::EvaluateError;
pub use parse::{JsonPathError, JsonPathProblem};
pub use removal::{FieldRemoval, RemovalError};

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPathQuery {
    /// The path between its braces is a template: a stray `}` in it ends the first expression.
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(Value),
    Expression(Vec<Node>),
}

/// One step: takes a list of values, gives a list of values.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    /// Quoted text: one value, whatever came in.
    Text(Value),
    /// A number or a boolean: once for each value that came in.
    Literal(Value),
    Field(String),
    Slice(Slice),
    Exists(Vec<Node>),
    Compare {
        left: Vec<Node>,
        operator: Operator,
        right: Vec<Node>,
    },
    Wildcard,
    Descent,
    Union(Vec<Vec<Node>>),
    /// A bare word: it parses, and fails when it is reached.
    Word(String),
}

#[derive(Debug, Clone, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// Other runs of `!`, `<`, `>` and `=` parse, and fail at the first comparison.
    Unknown(String),
}

/// `[start:end:step]`, or `[start]`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: End,
    step: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Open,
    At(i64),
    /// Of a single index: the place after it.
    AfterStart(i64),
}

impl JsonPathQuery {
    /// Parses a path as it stands in a rule, without braces.
    ///
    /// # Errors
    /// What client-go refuses to parse, and paths past our bounds.
    pub fn parse(path: &str) -> Result<Self, JsonPathError> {
        parse::path(path).map(|parts| Self { parts })
    }

    /// The values at the path, as client-go finds them with `AllowMissingKeys`. Only those of the
    /// first expression: OCM's agent looks at no other.
    ///
    /// # Errors
    /// What client-go calls an error, and more work than [`crate::limits::JSONPATH_STEPS_MAX`].
    pub fn find<'a>(&'a self, root: &'a Value) -> Result<Vec<&'a Value>, EvaluateError> {
        Ok(self.find_in_parts(root)?.into_iter().next().unwrap_or_default())
    }

    /// The values of every part of the template.
    fn find_in_parts<'a>(&'a self, root: &'a Value) -> Result<Vec<Vec<&'a Value>>, EvaluateError> {
        evaluate::parts(&self.parts, root)
    }
}

/// Checks a path before it reaches a cluster: what does not parse, and what parses but cannot give
/// a value.
///
/// # Errors
/// The first problem, with its place in the path.
pub fn check(path: &str) -> Result<(), JsonPathError> {
    JsonPathQuery::parse(path)?;
    parse::check(path)
}

#[cfg(test)]
mod tests;
