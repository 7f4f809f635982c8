//! One evaluation of an expression: its budget, and how deep it is in the expression.

use std::cell::Cell;

use jaq_core::load::parse::Term;

use super::budget::StepBudget;
use super::error::JqError;
use super::item::{Flow, Item, Out, Stop};
use super::scope::NameScope;
use super::value::JqValue;
use crate::limits::JQ_DEPTH_MAX;

/// A part of an expression.
pub type JqTerm<'a> = Term<&'a str>;

/// What a term is evaluated for.
#[derive(Clone, Copy)]
pub struct Input<'a, 'i> {
    /// The names that the term can use.
    pub scope: &'i NameScope<'a>,
    /// The value of `.`.
    pub item: &'i Item,
}

impl<'a, 'i> Input<'a, 'i> {
    /// The same names, and another value.
    pub fn of(self, item: &'i Item) -> Self {
        Self { item, ..self }
    }

    /// The same value, and other names.
    pub fn with(self, scope: &'i NameScope<'a>) -> Self {
        Self { scope, ..self }
    }
}

/// Evaluates a term by its kind, and passes on each result.
type EvaluateKind = for<'a> fn(&Evaluation, &'a JqTerm<'a>, Input<'a, '_>, Out<'_>) -> Flow;

/// One evaluation.
pub struct Evaluation {
    /// The work that it may do.
    pub budget: StepBudget,
    /// Passed in, since the modules for the kinds of terms evaluate terms themselves.
    evaluate_kind: EvaluateKind,
    depth: Cell<usize>,
    labels: Cell<u64>,
}

impl Evaluation {
    /// An evaluation that may do so much work.
    pub fn new(room: usize, evaluate_kind: EvaluateKind) -> Self {
        let (depth, labels) = (Cell::new(0), Cell::new(0));
        Self { budget: StepBudget::new(room), evaluate_kind, depth, labels }
    }

    /// A number for a label that no other label has.
    pub fn next_label(&self) -> u64 {
        self.labels.set(self.labels.get() + 1);
        self.labels.get()
    }

    /// Evaluates a term, and passes on each result.
    pub fn eval<'a>(&self, term: &'a JqTerm<'a>, input: Input<'a, '_>, out: Out<'_>) -> Flow {
        self.budget.charge(1)?;
        if self.depth.get() >= JQ_DEPTH_MAX {
            return Err(Stop::Fatal(JqError::TooDeep));
        }
        self.depth.set(self.depth.get() + 1);
        let flow = (self.evaluate_kind)(self, term, input, out);
        self.depth.set(self.depth.get() - 1);
        flow
    }

    /// All results of a term.
    pub fn collect<'a>(
        &self,
        term: &'a JqTerm<'a>,
        input: Input<'a, '_>,
    ) -> Result<Vec<JqValue>, Stop> {
        let mut found = Vec::new();
        self.eval(term, input, &mut |one| {
            found.push(one.value);
            self.budget.charge(1)
        })?;
        Ok(found)
    }

    /// The paths that a term yields.
    pub fn each_path<'a>(
        &self,
        term: &'a JqTerm<'a>,
        input: Input<'a, '_>,
        out: &mut dyn FnMut(Vec<JqValue>) -> Flow,
    ) -> Flow {
        self.eval(term, input.of(&Item::root(input.item.value.clone())), &mut |found| {
            let steps = found.steps().ok_or(Stop::Fatal(JqError::NotAPath))?;
            self.budget.charge(steps.len())?;
            out(steps)
        })
    }
}
