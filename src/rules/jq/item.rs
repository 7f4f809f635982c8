//! Values with their paths, and how results are passed on.

use std::rc::Rc;

use super::error::JqError;
use super::value::{JqValue, ValueTooDeep};
use crate::limits::JQ_PATH_MAX;

/// Why an evaluation ends before its last result.
#[derive(Debug, Clone)]
pub enum Stop {
    /// An error that `try` can catch.
    Error(JqValue),
    /// A `break` to the label with this id.
    Break(u64),
    /// The end of the whole evaluation.
    Fatal(JqError),
    /// The receiver of a result ended the evaluation; it knows why.
    Passed,
}

impl From<ValueTooDeep> for Stop {
    fn from(_: ValueTooDeep) -> Self {
        Self::Fatal(JqError::TooDeep)
    }
}

/// `Ok` asks for the next result.
pub type Flow = Result<(), Stop>;

/// An error that `try` can catch.
pub fn failed<T>(message: impl AsRef<str>) -> Result<T, Stop> {
    Err(Stop::Error(JqValue::text(message)))
}

/// A path, from its last step to its first.
#[derive(Debug, Clone)]
pub struct PathStep {
    step: JqValue,
    before: Option<Rc<PathStep>>,
    length: usize,
}

/// A value, and where it stands in the input.
#[derive(Debug, Clone)]
pub struct Item {
    pub value: JqValue,
    /// `None`: it is computed.
    path: Option<Option<Rc<PathStep>>>,
}

impl Item {
    /// A value that is computed.
    pub fn computed(value: JqValue) -> Self {
        Self { value, path: None }
    }

    /// A value that paths begin at.
    pub fn root(value: JqValue) -> Self {
        Self { value, path: Some(None) }
    }

    /// A value inside this one.
    pub fn child(&self, step: &JqValue, value: JqValue) -> Result<Self, Stop> {
        let Some(before) = &self.path else { return Ok(Self::computed(value)) };
        let length = before.as_ref().map_or(0, |before| before.length) + 1;
        if length > JQ_PATH_MAX {
            return Err(Stop::Fatal(JqError::TooDeep));
        }
        let step = PathStep { step: step.clone(), before: before.clone(), length };
        Ok(Self { value, path: Some(Some(Rc::new(step))) })
    }

    /// The steps from the root; `None` if it is computed.
    pub fn steps(&self) -> Option<Vec<JqValue>> {
        let mut at = self.path.as_ref()?.as_ref();
        let mut steps = Vec::new();
        while let Some(step) = at {
            steps.push(step.step.clone());
            at = step.before.as_ref();
        }
        steps.reverse();
        Some(steps)
    }
}

/// The receiver of results.
pub type Out<'o> = &'o mut dyn FnMut(Item) -> Flow;

/// The value of a number in an expression.
pub fn literal(text: &str) -> Result<JqValue, Stop> {
    let integer = text.parse().map(JqValue::Integer).ok();
    let number = integer.or_else(|| text.parse().map(JqValue::number).ok());
    number.map_or_else(|| failed("a number cannot be read"), Ok)
}
