//! The JSONPath of OCM's rules: the dialect of client-go's `util/jsonpath`, as OCM's work agent
//! uses it. The agent puts the path between braces, ignores missing keys, and uses the result of
//! the first expression only.
//!
//! The results must equal client-go's, including its oddities: `['a.b']` means `.a.b`, and `[]`
//! means `[0]`. An index past the end is an error, but a missing key is not. A comparison of a text
//! with a number fails the whole path. `tests/jsonpath/table.json` has the results of client-go
//! itself.
//!
//! Three differences are intended. `range` and `end`, which only kubectl's templates need, have no
//! meaning. The results of `*` and `..` are in the order of the keys; in client-go their order is
//! random. Length, nesting and steps are bounded (see [`crate::limits`]).

mod evaluate;
mod parse;
mod problem;
mod query;
mod quote;
mod removal;
mod types;

pub use evaluate::EvaluateError;
pub use problem::{JsonPathError, JsonPathProblem};
pub use query::{JsonPathQuery, check};
pub use removal::{FieldRemoval, RemovalError};

#[cfg(test)]
mod tests;
