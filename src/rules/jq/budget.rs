//! The work that one evaluation may do.

use std::cell::Cell;
use std::cmp::Ordering;

use super::error::JqError;
use super::item::{Flow, Stop};
use super::value::JqValue;

/// No comparison costs more than this.
const HEAVY: usize = 1_000_000;

/// Counts work. A unit is a step, or a value or some bytes that are created or compared.
pub struct StepBudget {
    room: usize,
    spent: Cell<usize>,
}

impl StepBudget {
    /// A budget of so many units.
    pub fn new(room: usize) -> Self {
        Self { room, spent: Cell::new(0) }
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

    /// Compares two values. The cost is that of the lighter one.
    pub fn compare(&self, left: &JqValue, right: &JqValue) -> Result<Ordering, Stop> {
        self.charge(left.weight(HEAVY).min(right.weight(HEAVY)))?;
        Ok(left.cmp(right))
    }
}
