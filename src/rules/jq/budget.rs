//! The work that one evaluation may do.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::rc::Rc;

use regex::Regex;

use super::error::JqError;
use super::item::{Flow, Stop};
use super::value::JqValue;

/// What compiling a regular expression costs: some milliseconds at most.
const REGEX_COST: usize = 20_000;

/// Counts work. A unit is a step, or a value or some bytes that are created or compared.
pub struct StepBudget {
    room: usize,
    spent: Cell<usize>,
    /// The last regular expression, by its flags and pattern.
    regex: RefCell<Option<(String, Rc<Regex>)>>,
}

impl StepBudget {
    /// A budget of so many units.
    pub fn new(room: usize) -> Self {
        Self { room, spent: Cell::new(0), regex: RefCell::new(None) }
    }

    /// The units that were charged.
    pub fn spent(&self) -> usize {
        self.spent.get()
    }

    /// Charges units.
    ///
    /// # Errors
    /// Fails if fewer units remain.
    pub fn charge(&self, units: usize) -> Flow {
        let spent = self.spent.get().saturating_add(units);
        self.spent.set(spent);
        if spent > self.room { Err(Stop::Fatal(JqError::TooMuchWork)) } else { Ok(()) }
    }

    /// Charges and gives what a value weighs as JSON. A part counts as often as it is in the value.
    pub fn charge_weight(&self, value: &JqValue) -> Result<usize, Stop> {
        let left = self.room.saturating_sub(self.spent.get());
        let weight = value.weight(left.saturating_add(1));
        self.charge(weight)?;
        Ok(weight)
    }

    /// A regular expression that `compile` makes of a pattern and flags. The last one is kept.
    pub fn regex(
        &self,
        pattern: &str,
        flags: &str,
        compile: impl FnOnce() -> Result<Regex, Stop>,
    ) -> Result<Rc<Regex>, Stop> {
        let key = format!("{flags}/{pattern}");
        if let Some((last, regex)) = &*self.regex.borrow()
            && *last == key
        {
            return Ok(regex.clone());
        }
        self.charge(REGEX_COST)?;
        let regex = Rc::new(compile()?);
        self.regex.replace(Some((key, regex.clone())));
        Ok(regex)
    }

    /// Compares two values, as the operators of jq do: no two NaN are equal. Each part that is
    /// compared costs.
    pub fn compare(&self, left: &JqValue, right: &JqValue) -> Result<Ordering, Stop> {
        self.charge(1)?;
        match (left, right) {
            (JqValue::Text(left), JqValue::Text(right)) => self.compare_texts(left, right),
            (JqValue::List(left), JqValue::List(right)) => {
                self.compare_all(left.content.iter(), right.content.iter())
            }
            (JqValue::Map(left), JqValue::Map(right)) => {
                for (one, other) in left.content.keys().zip(right.content.keys()) {
                    self.charge(1)?;
                    let order = self.compare_texts(one, other)?;
                    if order.is_ne() {
                        return Ok(order);
                    }
                }
                let lengths = left.content.len().cmp(&right.content.len());
                if lengths.is_ne() {
                    return Ok(lengths);
                }
                self.compare_all(left.content.values(), right.content.values())
            }
            (left, right) if left.is_nan() && right.is_nan() => Ok(Ordering::Less),
            (left, right) => Ok(left.cmp(right)),
        }
    }

    fn compare_texts(&self, left: &str, right: &str) -> Result<Ordering, Stop> {
        self.charge(left.len().min(right.len()) / 16)?;
        Ok(left.cmp(right))
    }

    fn compare_all<'v>(
        &self,
        left: impl ExactSizeIterator<Item = &'v JqValue>,
        right: impl ExactSizeIterator<Item = &'v JqValue>,
    ) -> Result<Ordering, Stop> {
        let lengths = left.len().cmp(&right.len());
        for (one, other) in left.zip(right) {
            let order = self.compare(one, other)?;
            if order.is_ne() {
                return Ok(order);
            }
        }
        Ok(lengths)
    }
}
