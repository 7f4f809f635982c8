//! Checks that an expression uses only the supported subset of jq, which always terminates.

use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::path::Part;

use super::error::JqError;
use crate::limits::{JQ_BRANCHES_MAX, JQ_BYTES_MAX, JQ_RECURSIONS_MAX};

/// Functions of jq that are cheap for any input. Functions that loop by themselves or create large
/// values are left out: `range`, `repeat`, `while`, `until`, `recurse` with a filter, `add`,
/// `join`, `input`, `now`, `env`, and so on.
pub const FUNCTIONS: &[&str] = &[
    "abs",
    "all",
    "any",
    "arrays",
    "ascii_downcase",
    "ascii_upcase",
    "booleans",
    "ceil",
    "empty",
    "explode",
    "false",
    "first",
    "flatten",
    "floor",
    "getpath",
    "group_by",
    "isempty",
    "iterables",
    "keys",
    "keys_unsorted",
    "last",
    "length",
    "limit",
    "ltrim",
    "map",
    "max",
    "max_by",
    "min",
    "min_by",
    "not",
    "nth",
    "null",
    "nulls",
    "numbers",
    "objects",
    "reverse",
    "round",
    "rtrim",
    "scalars",
    "select",
    "sort",
    "sort_by",
    "strings",
    "to_entries",
    "tonumber",
    "tostring",
    "trim",
    "true",
    "type",
    "unique",
    "unique_by",
    "utf8bytelength",
    "values",
];

/// Functions that compare or search. Their arguments must be constants: a search of one part of an
/// object in another can take very long.
pub const SEARCHES: &[&str] = &[
    "contains",
    "endswith",
    "has",
    "in",
    "index",
    "inside",
    "ltrimstr",
    "rindex",
    "rtrimstr",
    "split",
    "startswith",
    "test",
];

/// Refuses an expression that is too long, does not parse, or may not end.
pub fn check(expression: &str) -> Result<(), JqError> {
    if expression.len() > JQ_BYTES_MAX {
        return Err(JqError::TooLong);
    }
    let term = jaq_core::load::parse(expression, |parser| parser.term()).ok_or(JqError::Syntax)?;
    let mut checked = Checked::default();
    checked.term(&term)?;
    if checked.branches > JQ_BRANCHES_MAX {
        return Err(JqError::TooManyBranches);
    }
    if checked.recursions > JQ_RECURSIONS_MAX {
        return Err(JqError::TooManyRecursions);
    }
    Ok(())
}

/// Refuses what may not terminate: definitions, folds and functions that loop. Counts what
/// multiplies the work.
#[derive(Default)]
struct Checked {
    branches: usize,
    recursions: usize,
}

impl Checked {
    fn term(&mut self, term: &Term<&str>) -> Result<(), JqError> {
        match term {
            Term::Id | Term::Num(_) => Ok(()),
            Term::Recurse => {
                self.recursions += 1;
                Ok(())
            }
            Term::Str(None, parts) => {
                let plain = |part: &_| !matches!(part, jaq_core::load::lex::StrPart::Term(_));
                if parts.iter().all(plain) {
                    Ok(())
                } else {
                    unsupported("text with parts to fill in")
                }
            }
            Term::Arr(inner) => {
                self.branches += usize::from(!is_constant(term));
                inner.iter().try_for_each(|term| self.term(term))
            }
            Term::Neg(inner) => self.term(inner),
            Term::BinOp(left, operator, right) => self.operation(left, operator, right),
            Term::TryCatch(inner, handler) => {
                self.term(inner)?;
                handler.iter().try_for_each(|term| self.term(term))
            }
            Term::IfThenElse(cases, otherwise) => {
                for (condition, then) in cases {
                    self.term(condition)?;
                    self.term(then)?;
                }
                otherwise.iter().try_for_each(|term| self.term(term))
            }
            Term::Call(name, arguments) => self.call(name, arguments),
            Term::Path(start, path) => {
                self.term(start)?;
                path.0.iter().try_for_each(|(part, _)| match part {
                    Part::Index(index) => self.term(index),
                    Part::Range(from, to) => from.iter().chain(to).try_for_each(|t| self.term(t)),
                })
            }
            _ => unsupported("a definition, variable, fold, label, object or format"),
        }
    }

    fn operation(
        &mut self,
        left: &Term<&str>,
        operator: &BinaryOp<&str>,
        right: &Term<&str>,
    ) -> Result<(), JqError> {
        use BinaryOp::{Alt, And, Cmp, Comma, Or, Pipe};
        match operator {
            Pipe(None) | Alt | Or | And | Cmp(_) => {}
            Comma => self.branches += 1,
            _ => return unsupported("an operator that computes, assigns or names a variable"),
        }
        self.term(left)?;
        self.term(right)
    }

    fn call(&mut self, name: &str, arguments: &[Term<&str>]) -> Result<(), JqError> {
        if name == "recurse" && arguments.is_empty() {
            self.recursions += 1;
            return Ok(());
        }
        if SEARCHES.contains(&name) {
            return if arguments.iter().all(is_constant) {
                Ok(())
            } else {
                unsupported(format!("an argument of {name} that is no constant"))
            };
        }
        if !FUNCTIONS.contains(&name) {
            return unsupported(format!("the function {name}"));
        }
        arguments.iter().try_for_each(|argument| self.term(argument))
    }
}

/// Whether a term is a constant: text, number, boolean, null, or a list of constants.
fn is_constant(term: &Term<&str>) -> bool {
    match term {
        Term::Num(_) => true,
        Term::Str(None, parts) => {
            !parts.iter().any(|part| matches!(part, jaq_core::load::lex::StrPart::Term(_)))
        }
        Term::Neg(inner) => is_constant(inner),
        Term::Arr(inner) => inner.as_deref().is_none_or(is_constant),
        Term::BinOp(left, BinaryOp::Comma, right) => is_constant(left) && is_constant(right),
        Term::Call(name, arguments) => {
            arguments.is_empty() && matches!(*name, "true" | "false" | "null")
        }
        _ => false,
    }
}

fn unsupported(what: impl Into<String>) -> Result<(), JqError> {
    Err(JqError::Unsupported(what.into()))
}
