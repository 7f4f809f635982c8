//! Steps over a value, with client-go's results and errors (`util/jsonpath/jsonpath.go`).

use std::cmp::Ordering;
use std::sync::LazyLock;

use serde_json::Value;

use super::types::{ComparisonOperator, End, Node, Part, Slice};
use crate::limits::JSONPATH_STEPS_MAX;

/// Why a path has no result in an object. Messages have no values of the object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvaluateError {
    /// An index or slice of a value that is not a list.
    #[error("an index needs a list, and this is {found}")]
    IndexOfNoList {
        /// The type of the value.
        found: &'static str,
    },
    /// A filter of a value that is not a list.
    #[error("a filter needs a list, and this is {found}")]
    FilterOfNoList {
        /// The type of the value.
        found: &'static str,
    },
    /// An index past the end of a list.
    #[error("array index out of bounds: index {index}, length {length}")]
    OutOfBounds {
        /// The index.
        index: i64,
        /// The length of the list.
        length: usize,
    },
    /// A slice that starts after its end.
    #[error("the slice starts at {start} and ends before it, at {end}")]
    Reversed {
        /// The first index.
        start: i64,
        /// The index after the last one.
        end: i64,
    },
    /// The step of a slice is not positive.
    #[error("a step must be greater than 0")]
    BadStep,
    /// A comparison of values of different types, or of types without a comparison.
    #[error("{left} and {right} cannot be compared")]
    Incomparable {
        /// The type of the left side.
        left: &'static str,
        /// The type of the right side.
        right: &'static str,
    },
    /// The operator orders values that have only equality.
    #[error("{0} cannot be ordered")]
    Unordered(&'static str),
    /// A side of a comparison has this many values instead of one.
    #[error("a filter compares one value with one value, and a side has {0}")]
    SeveralValues(usize),
    /// A run of operator characters is not an operator.
    #[error("{0:?} is no comparison")]
    UnknownOperator(String),
    /// A word is neither a field nor quoted.
    #[error("{0:?} is neither field nor text")]
    BareWord(String),
    /// The evaluation exceeds [`JSONPATH_STEPS_MAX`].
    #[error("the path needs more than {JSONPATH_STEPS_MAX} steps in this object")]
    TooManySteps,
}

/// An error, and whether the failed step had input values. If so, client-go's existence filter
/// keeps the element.
struct Failure {
    error: EvaluateError,
    had_values: bool,
}

type Found<'a> = Result<Vec<&'a Value>, Failure>;

/// Evaluates every part. Takes the steps that it needs from `steps`; 0 are left if they do not
/// suffice.
pub fn parts<'a>(
    parts: &'a [Part],
    root: &'a Value,
    steps: &mut usize,
) -> Result<Vec<Vec<&'a Value>>, EvaluateError> {
    let mut evaluation = Evaluation { steps };
    let mut found = Vec::new();
    for part in parts {
        found.push(match part {
            Part::Text(text) => vec![text],
            Part::Expression(nodes) => {
                evaluation.list(nodes, vec![root]).map_err(|failure| failure.error)?
            }
        });
    }
    Ok(found)
}

struct Evaluation<'b> {
    /// The steps that are left.
    steps: &'b mut usize,
}

impl Evaluation<'_> {
    fn charge(&mut self, steps: usize) -> Result<(), Failure> {
        let Some(left) = self.steps.checked_sub(steps) else {
            *self.steps = 0;
            return Err(Failure { error: EvaluateError::TooManySteps, had_values: false });
        };
        *self.steps = left;
        Ok(())
    }

    fn list<'a>(&mut self, nodes: &'a [Node], input: Vec<&'a Value>) -> Found<'a> {
        let mut values = input;
        for node in nodes {
            self.charge(values.len() + 1)?;
            values = self.node(node, &values)?;
        }
        Ok(values)
    }

    fn node<'a>(&mut self, node: &'a Node, input: &[&'a Value]) -> Found<'a> {
        match node {
            Node::Text(text) => Ok(vec![text]),
            Node::Literal(literal) => Ok(vec![literal; input.len()]),
            Node::Field(name) => Ok(input.iter().filter_map(|value| value.get(name)).collect()),
            Node::Slice(slice) => self.slice(*slice, input),
            Node::Wildcard => {
                let mut found = Vec::new();
                for value in input {
                    let before = found.len();
                    push_children(value, &mut found);
                    self.charge(found.len() - before)?;
                }
                Ok(found)
            }
            Node::Descent => self.descent(input),
            Node::Union(union) => {
                let mut found = Vec::new();
                for nodes in union {
                    found.extend(
                        self.list(nodes, input.to_vec()).map_err(|failure| Failure {
                            had_values: !input.is_empty(),
                            ..failure
                        })?,
                    );
                }
                Ok(found)
            }
            Node::Exists(_) | Node::Compare { .. } => self.filter(node, input),
            Node::Word(word) => Err(Failure {
                error: EvaluateError::BareWord(word.clone()),
                had_values: !input.is_empty(),
            }),
        }
    }

    fn slice<'a>(&mut self, slice: Slice, input: &[&'a Value]) -> Found<'a> {
        let mut found = Vec::new();
        for value in input {
            let items = match value {
                Value::Null => continue,
                Value::Array(items) => items,
                other => return Err(failed(EvaluateError::IndexOfNoList { found: kind(other) })),
            };
            let Some((from, to, step)) = bounds(slice, items.len()).map_err(failed)? else {
                // Nothing asked of one list ends the whole step: so does client-go.
                return Ok(found);
            };
            let items = items.get(from..to).unwrap_or_default();
            self.charge(items.len())?;
            found.extend(items.iter().step_by(step));
        }
        Ok(found)
    }

    /// Every map, list and text that is not empty, each before what is in it.
    fn descent<'a>(&mut self, input: &[&'a Value]) -> Found<'a> {
        let mut found = Vec::new();
        let mut stack: Vec<&Value> = input.iter().rev().copied().collect();
        while let Some(value) = stack.pop() {
            self.charge(1)?;
            let before = stack.len();
            match value {
                Value::Array(items) => stack.extend(items.iter().rev()),
                Value::Object(fields) => stack.extend(fields.values().rev()),
                Value::String(text) if !text.is_empty() => found.push(value),
                _ => {}
            }
            if stack.len() > before {
                found.push(value);
            }
        }
        Ok(found)
    }

    fn filter<'a>(&mut self, filter: &'a Node, input: &[&'a Value]) -> Found<'a> {
        let mut found = Vec::new();
        for value in input {
            let Value::Array(items) = value else {
                return Err(failed(EvaluateError::FilterOfNoList { found: kind(value) }));
            };
            for item in items {
                self.charge(1)?;
                let passes = match filter {
                    Node::Exists(nodes) => self.exists(nodes, item)?,
                    Node::Compare { left, operator, right } => self
                        .compare(left, operator, right, item)
                        .map_err(|(error, in_comparison)| Failure {
                            error,
                            had_values: !in_comparison || !found.is_empty(),
                        })?,
                    _ => false,
                };
                if passes {
                    found.push(item);
                }
            }
        }
        Ok(found)
    }

    fn exists<'a>(&mut self, nodes: &'a [Node], item: &'a Value) -> Result<bool, Failure> {
        match self.list(nodes, vec![item]) {
            Ok(values) => Ok(!values.is_empty()),
            Err(failure) if failure.error == EvaluateError::TooManySteps => Err(failure),
            Err(failure) => Ok(failure.had_values),
        }
    }

    /// Whether an item passes; the flag of an error says that it came from comparing itself.
    fn compare<'a>(
        &mut self,
        left: &'a [Node],
        operator: &'a ComparisonOperator,
        right: &'a [Node],
        item: &'a Value,
    ) -> Result<bool, (EvaluateError, bool)> {
        let mut side = |nodes| match self.list(nodes, vec![item]) {
            Err(failure) => Err((failure.error, false)),
            Ok(values) if values.len() > 1 => {
                Err((EvaluateError::SeveralValues(values.len()), false))
            }
            Ok(values) => Ok(values.first().copied()),
        };
        let Some(left) = side(left)? else { return Ok(false) };
        let Some(right) = side(right)? else { return Ok(false) };
        passes(left, operator, right).map_err(|error| (error, true))
    }
}

/// An error of a step that looks at the values which came in.
fn failed(error: EvaluateError) -> Failure {
    Failure { error, had_values: true }
}

/// The items that a slice asks of a list: from, to, step; nothing if it asks for none.
fn bounds(slice: Slice, length: usize) -> Result<Option<(usize, usize, usize)>, EvaluateError> {
    let list = i64::try_from(length).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { index.wrapping_add(list) } else { index };
    let start = from_end(slice.start.unwrap_or(0));
    let end = match slice.end {
        End::Open => list,
        End::At(end) => from_end(end),
        // The place after -1 is the end of the list.
        End::AfterStart(0) => list,
        End::AfterStart(end) => from_end(end),
    };
    if start == end {
        return Ok(None);
    }
    let index = |index: i64, at_most: i64| usize::try_from(index).ok().filter(|_| index <= at_most);
    let Some(from) = index(start, list - 1) else {
        return Err(EvaluateError::OutOfBounds { index: start, length });
    };
    let Some(to) = index(end, list) else {
        return Err(EvaluateError::OutOfBounds { index: end.wrapping_sub(1), length });
    };
    if from > to {
        return Err(EvaluateError::Reversed { start, end });
    }
    let step = slice.step.unwrap_or(1);
    match usize::try_from(step) {
        Ok(step) if step > 0 => Ok(Some((from, to, step))),
        _ => Err(EvaluateError::BadStep),
    }
}

/// The bytes of a text as numbers: what client-go makes of `*` on a text.
static BYTES: LazyLock<Vec<Value>> = LazyLock::new(|| (0..=255_u8).map(Value::from).collect());

fn push_children<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) => found.extend(items),
        Value::Object(fields) => found.extend(fields.values()),
        Value::String(text) => {
            found.extend(text.bytes().filter_map(|byte| BYTES.get(usize::from(byte))));
        }
        _ => {}
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_i64() => "an integer",
        Value::Number(_) => "a floating-point number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

fn passes(
    left: &Value,
    operator: &ComparisonOperator,
    right: &Value,
) -> Result<bool, EvaluateError> {
    if let ComparisonOperator::Unknown(text) = operator {
        return Err(EvaluateError::UnknownOperator(text.clone()));
    }
    let incomparable = || EvaluateError::Incomparable { left: kind(left), right: kind(right) };
    let ordering = match (left, right) {
        (Value::Bool(a), Value::Bool(b)) => {
            return match operator {
                ComparisonOperator::Equal => Ok(a == b),
                ComparisonOperator::NotEqual => Ok(a != b),
                _ => Err(EvaluateError::Unordered("booleans")),
            };
        }
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            // An integer and a floating-point number do not compare, even where they are equal.
            (None, None) => a
                .as_f64()
                .zip(b.as_f64())
                .and_then(|(a, b)| a.partial_cmp(&b))
                .ok_or_else(incomparable)?,
            _ => return Err(incomparable()),
        },
        _ => return Err(incomparable()),
    };
    Ok(match operator {
        ComparisonOperator::Equal => ordering == Ordering::Equal,
        ComparisonOperator::NotEqual => ordering != Ordering::Equal,
        ComparisonOperator::Less => ordering == Ordering::Less,
        ComparisonOperator::LessEqual => ordering != Ordering::Greater,
        ComparisonOperator::Greater => ordering == Ordering::Greater,
        ComparisonOperator::GreaterEqual => ordering != Ordering::Less,
        ComparisonOperator::Unknown(_) => false,
    })
}
