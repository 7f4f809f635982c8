//! Checks the CEL of condition rules before it reaches a cluster: its syntax, and that all names
//! are declared.
//!
//! The check ignores types, so the agent may still reject an expression. The functions are those of
//! OCM's work agent. A test calls each of them in the agent's own CEL.

mod error;
mod functions;
mod names;

pub use error::{CelCheckError, CelProblem};
#[cfg(test)]
pub(super) use functions::FUNCTIONS;

use std::sync::LazyLock;

use cel::{Env, ParseErrors};

use self::names::Names;
use crate::limits::{CEL_BYTES_MAX, CEL_DEPTH_MAX, CEL_SIGNS_MAX};

/// The environment of macros: `has`, `all`, `exists`, `exists_one`, `map`, `filter`, `optMap`,
/// `optFlatMap`, and the optional syntax.
static ENV: LazyLock<Env> = LazyLock::new(Env::stdlib);

/// Checks an expression that may use `variables`.
///
/// # Errors
/// Returns the first syntax error, undeclared variable or unknown function, with its location.
pub fn check(expression: &str, variables: &[&str]) -> Result<(), CelCheckError> {
    let at_start = |problem| CelCheckError { line: 1, column: 1, problem };
    if expression.trim().is_empty() {
        return Err(at_start(CelProblem::Empty));
    }
    if expression.len() > CEL_BYTES_MAX {
        return Err(at_start(CelProblem::TooLong));
    }
    if signs(expression) > CEL_SIGNS_MAX {
        return Err(at_start(CelProblem::TooManySigns));
    }
    let (tree, source) = ENV
        .parser()
        .max_recursion_depth(CEL_DEPTH_MAX)
        .parse_with_source_info(expression)
        .map_err(|errors| syntax_error(&errors))?;
    let names = Names { expression, source: &source, variables };
    names.check(&tree)
}

/// Counts the operators, dots and brackets, which make syntax trees deep.
fn signs(expression: &str) -> usize {
    let is_sign = |b: &u8| b.is_ascii_punctuation() && !matches!(b, b'_' | b',' | b'"' | b'\'');
    let words = expression.split_whitespace().filter(|word| *word == "in").count();
    expression.bytes().filter(is_sign).count() + words
}

fn syntax_error(errors: &ParseErrors) -> CelCheckError {
    // The parser reports what went wrong behind its limit too. Its errors have a text and a place,
    // and no kind (cel 0.15, parser/parser.rs).
    let deep = errors.errors.iter().find(|error| error.msg.contains("Recursion limit"));
    let Some(error) = deep.or(errors.errors.first()) else {
        return CelCheckError { line: 1, column: 1, problem: CelProblem::Syntax("no CEL".into()) };
    };
    // Macros report without a place.
    let from_one = |number: isize| usize::try_from(number).unwrap_or(1).max(1);
    let problem = if deep.is_some() {
        CelProblem::TooDeep
    } else {
        CelProblem::Syntax(error.msg.trim_start_matches("Syntax error: ").to_owned())
    };
    CelCheckError { line: from_one(error.pos.0), column: from_one(error.pos.1), problem }
}

#[cfg(test)]
mod tests;
