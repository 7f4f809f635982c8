//! Checks an expression before it is evaluated: that it parses, and that it uses only names that
//! are there.

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::path::Part;

use super::error::JqError;
use super::formats::FORMATS;
use super::names::{NATIVES, UNSUPPORTED};
use super::prelude::prelude;
use crate::limits::{JQ_BYTES_MAX, JQ_NESTING_MAX, JQ_PREFIXES_MAX};

/// Parses an expression, and refuses one that is too long or uses unknown names.
pub fn parse(expression: &str) -> Result<Term<&str>, JqError> {
    if expression.len() > JQ_BYTES_MAX {
        return Err(JqError::TooLong);
    }
    if !is_shallow(expression) {
        return Err(JqError::TooDeep);
    }
    let term = jaq_core::load::parse(expression, |parser| parser.term()).ok_or(JqError::Syntax)?;
    Names::default().term(&term)?;
    Ok(term)
}

/// Whether the parser, which calls itself, needs little stack. Brackets in texts count too: they
/// may hold expressions.
fn is_shallow(expression: &str) -> bool {
    let mut depth = 0_usize;
    for byte in expression.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > JQ_NESTING_MAX {
            return false;
        }
    }
    let words = expression.split(|character: char| !character.is_ascii_alphanumeric());
    let prefixes = words.filter(|word| PREFIXES.contains(word)).count();
    let negations = expression.matches('-').count();
    prefixes <= JQ_PREFIXES_MAX && negations <= JQ_PREFIXES_MAX
}

/// Words after which an expression can follow without a bracket.
const PREFIXES: &[&str] =
    &["as", "def", "elif", "else", "foreach", "if", "label", "reduce", "then", "try"];

/// The names that are in scope: variables and labels, and functions with their arguments.
#[derive(Clone, Default)]
struct Names<'a> {
    values: Vec<&'a str>,
    functions: Vec<(&'a str, usize)>,
}

type Checked = Result<(), JqError>;

impl<'a> Names<'a> {
    fn with_values(&self, values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names = self.clone();
        names.values.extend(values);
        names
    }

    fn term(&self, term: &Term<&'a str>) -> Checked {
        match term {
            Term::Id | Term::Recurse | Term::Num(_) => Ok(()),
            Term::Str(format, parts) => {
                format.map_or(Ok(()), known_format)?;
                parts.iter().try_for_each(|part| match part {
                    StrPart::Term(term) => self.term(term),
                    StrPart::Str(_) | StrPart::Char(_) => Ok(()),
                })
            }
            Term::Arr(inner) => inner.iter().try_for_each(|term| self.term(term)),
            Term::Obj(entries) => entries.iter().try_for_each(|(key, value)| {
                self.term(key)?;
                value.iter().try_for_each(|value| self.term(value))
            }),
            Term::Neg(inner) => self.term(inner),
            Term::BinOp(left, BinaryOp::Pipe(Some(pattern)), right) => {
                self.term(left)?;
                self.with_values(self.pattern(pattern)?).term(right)
            }
            Term::BinOp(left, _, right) => {
                self.term(left)?;
                self.term(right)
            }
            Term::Label(name, body) => self.with_values([*name]).term(body),
            Term::Break(name) | Term::Var(name) => self.value(name),
            Term::Fold(kind, source, pattern, arguments) => {
                if !matches!((*kind, arguments.len()), ("reduce", 2) | ("foreach", 2 | 3)) {
                    return Err(JqError::Syntax);
                }
                self.term(source)?;
                let inner = self.with_values(self.pattern(pattern)?);
                let mut arguments = arguments.iter();
                arguments.next().into_iter().try_for_each(|start| self.term(start))?;
                arguments.try_for_each(|update| inner.term(update))
            }
            Term::TryCatch(body, handler) => {
                self.term(body)?;
                handler.iter().try_for_each(|handler| self.term(handler))
            }
            Term::IfThenElse(cases, otherwise) => {
                cases.iter().try_for_each(|(condition, then)| {
                    self.term(condition)?;
                    self.term(then)
                })?;
                otherwise.iter().try_for_each(|term| self.term(term))
            }
            Term::Def(definitions, body) => self.definitions(definitions)?.term(body),
            Term::Call(name, arguments) => {
                self.function(name, arguments.len())?;
                arguments.iter().try_for_each(|argument| self.term(argument))
            }
            Term::Path(start, path) => {
                self.term(start)?;
                path.0.iter().try_for_each(|(part, _)| match part {
                    Part::Index(index) => self.term(index),
                    Part::Range(from, to) => from.iter().chain(to).try_for_each(|t| self.term(t)),
                })
            }
        }
    }

    fn definitions(&self, definitions: &[Def<&'a str>]) -> Result<Self, JqError> {
        let mut names = self.clone();
        for Def { name, args, body } in definitions {
            names.functions.push((*name, args.len()));
            let mut inner = names.clone();
            for argument in args {
                if argument.starts_with('$') {
                    inner.values.push(*argument);
                } else {
                    inner.functions.push((*argument, 0));
                }
            }
            inner.term(body)?;
        }
        Ok(names)
    }

    /// The variables of a pattern.
    fn pattern(&self, pattern: &Pattern<&'a str>) -> Result<Vec<&'a str>, JqError> {
        match pattern {
            Pattern::Var(name) => Ok(vec![*name]),
            Pattern::Arr(parts) => {
                let parts: Result<Vec<_>, _> = parts.iter().map(|one| self.pattern(one)).collect();
                Ok(parts?.concat())
            }
            Pattern::Obj(parts) => {
                let mut values = Vec::new();
                for (key, pattern) in parts {
                    match key {
                        Term::Var(name) => values.push(*name),
                        key => self.term(key)?,
                    }
                    values.extend(self.pattern(pattern)?);
                }
                Ok(values)
            }
        }
    }

    fn value(&self, name: &str) -> Checked {
        if self.values.contains(&name) || name == "$ENV" {
            Ok(())
        } else {
            Err(JqError::UnknownName)
        }
    }

    fn function(&self, name: &str, arguments: usize) -> Checked {
        if self.functions.contains(&(name, arguments))
            || NATIVES.contains(&(name, arguments))
            || prelude(name, arguments).is_some()
        {
            return Ok(());
        }
        if name.starts_with('@') && arguments == 0 {
            return known_format(name);
        }
        if UNSUPPORTED.contains(&name) {
            return Err(JqError::Unsupported(format!("the function {name}")));
        }
        Err(JqError::UnknownFunction { name: name.to_owned(), arguments })
    }
}

fn known_format(name: &str) -> Checked {
    if FORMATS.contains(&name) {
        Ok(())
    } else {
        Err(JqError::Unsupported(format!("the format {name}")))
    }
}
