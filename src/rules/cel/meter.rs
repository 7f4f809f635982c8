//! Bounds an expression: the steps of its loops, and the bytes of the values that it creates and
//! compares. CEL itself has no bound: a few operators can build a list or text of any size.
//!
//! The tree of an expression is rewritten before it runs. Each loop step evaluates a variable.
//! Created and compared values pass through functions that charge the [`Meter`]. The meter is a
//! variable that no expression can name.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cel::ExecutionError;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, operators,
};
use cel::common::types::{CelBool, CelBytes, CelList, CelMap, CelOptional, CelString, Kind, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::context::VariableResolver;
use regex::{Regex, RegexBuilder};

use super::values::failed;

/// Variables that no expression can name.
const STEP: &str = "@step";
pub const METER: &str = "@meter";
/// Functions that no expression can name. They return a value and charge for it. `MADE` charges
/// only for a new value.
pub const MADE: &str = "@made";
pub const KEPT: &str = "@kept";

/// Functions whose short calls can create large values or take long. Those of [`super::bounded`]
/// replace them; their names start with `@`.
const REPLACED: &[&str] = &["find", "findAll", "join", "matches", "replace"];

/// Bytes of a value besides its text.
pub const VALUE_BYTES: u64 = 48;
/// Bytes of a compiled pattern. Real ones are far smaller.
const PATTERN_BYTES_MAX: usize = 256 * 1024;
/// Cost of compiling a pattern, in bytes. A search of as many bytes takes at least as long.
const PATTERN_COST: u64 = 16 * 1024;
/// Compiled patterns in the cache. An expression rarely has more than one.
const PATTERNS_KEPT: usize = 8;

/// The budget of one expression. Clones share it.
#[derive(Debug, Clone)]
pub struct Meter(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    steps: AtomicU64,
    bytes: AtomicU64,
    /// Compiled patterns, the latest first.
    patterns: Mutex<Vec<Regex>>,
}

impl Meter {
    pub fn new(steps: u64, bytes: u64) -> Self {
        let counts =
            Counts { steps: steps.into(), bytes: bytes.into(), patterns: Mutex::default() };
        Self(Arc::new(counts))
    }

    /// Returns the remaining steps and bytes.
    pub fn left(&self) -> (u64, u64) {
        (self.0.steps.load(Ordering::Relaxed), self.0.bytes.load(Ordering::Relaxed))
    }

    /// Whether the steps or bytes are used up.
    pub fn is_empty(&self) -> bool {
        let (steps, bytes) = self.left();
        steps == 0 || bytes == 0
    }

    fn spend(count: &AtomicU64, cost: u64) -> bool {
        let spend = |left: u64| Some(left.saturating_sub(cost));
        let before = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend);
        before.is_ok_and(|before| before > cost)
    }

    /// Charges bytes.
    ///
    /// # Errors
    /// Fails if fewer bytes remain.
    pub fn charge(&self, cost: u64) -> Result<(), ExecutionError> {
        if Self::spend(&self.0.bytes, cost) {
            Ok(())
        } else {
            Err(failed("@charge", "the budget is exceeded"))
        }
    }

    /// Charges for a value. Visits no more of it than the budget allows.
    pub fn charge_value(&self, value: &dyn Val) -> Result<(), ExecutionError> {
        let left = self.0.bytes.load(Ordering::Relaxed);
        let mut weight = 0;
        weigh(value, left, &mut weight);
        self.charge(weight)
    }

    /// Compiles a pattern, or returns it from the cache.
    pub fn pattern(&self, function: &str, text: &str) -> Result<Regex, ExecutionError> {
        let mut kept = self.0.patterns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pattern) = kept.iter().find(|pattern| pattern.as_str() == text) {
            return Ok(pattern.clone());
        }
        self.charge(PATTERN_COST)?;
        let pattern = RegexBuilder::new(text)
            .size_limit(PATTERN_BYTES_MAX)
            .build()
            .map_err(|_| failed(function, "the pattern is no regular expression"))?;
        kept.insert(0, pattern.clone());
        kept.truncate(PATTERNS_KEPT);
        Ok(pattern)
    }
}

impl Val for Meter {
    fn get_type(&self) -> &Type {
        Self::cel_type()
    }
    fn cel_type() -> &'static Type {
        static TYPE: Type = Type::simple_type(Kind::Opaque, METER);
        &TYPE
    }
    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(self.clone())
    }
    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Meter {}

/// Resolves the object and the variables of the rewritten tree.
pub struct Variables<'a> {
    pub object: &'a dyn Val,
    pub meter: Meter,
}

impl VariableResolver for Variables<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        match variable {
            "object" => Some(CowVal::Borrowed(self.object)),
            METER => Some(CowVal::Borrowed(&self.meter)),
            STEP => {
                let is_granted = Meter::spend(&self.meter.0.steps, 1);
                is_granted.then(|| CowVal::owned(CelBool::from(true)))
            }
            _ => None,
        }
    }
}

/// Adds up the bytes of a value, until they exceed `limit`.
fn weigh(value: &dyn Val, limit: u64, weight: &mut u64) {
    let text = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
    *weight = weight.saturating_add(VALUE_BYTES);
    if *weight > limit {
        return;
    }
    if let Some(string) = value.downcast_ref::<CelString<'_>>() {
        *weight = weight.saturating_add(text(string.inner().len()));
    } else if let Some(bytes) = value.downcast_ref::<CelBytes<'_>>() {
        *weight = weight.saturating_add(text(bytes.inner().len()));
    } else if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        for item in list.inner() {
            if *weight > limit {
                break;
            }
            weigh(item.as_ref(), limit, weight);
        }
    } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        for (key, item) in map.inner() {
            if *weight > limit {
                break;
            }
            weigh(key.inner(), limit, weight);
            weigh(item.as_ref(), limit, weight);
        }
    } else if let Some(inner) = value.downcast_ref::<CelOptional<'_>>().and_then(|o| o.option()) {
        weigh(inner, limit, weight);
    }
}

/// The tree of an expression is deeper than [`crate::limits::CEL_TREE_DEPTH_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooDeep;

/// Rewrites a tree of at most `room` levels so that it charges the meter.
///
/// # Errors
/// Fails for a deeper tree.
pub fn metered(node: &mut IdedExpr, room: usize) -> Result<(), TooDeep> {
    let room = room.checked_sub(1).ok_or(TooDeep)?;
    match &mut node.expr {
        Expr::Comprehension(all) => loop_counts(all, room),
        Expr::Call(call) => {
            call.target.iter_mut().try_for_each(|target| metered(target, room))?;
            call.args.iter_mut().try_for_each(|argument| metered(argument, room))?;
            call_counts(node);
            Ok(())
        }
        Expr::Select(select) => metered(&mut select.operand, room),
        Expr::List(list) => elements_count(list, room),
        Expr::Map(map) => {
            map.entries.iter_mut().try_for_each(|entry| entry_counts(&mut entry.expr, room))
        }
        Expr::Struct(all) => {
            all.entries.iter_mut().try_for_each(|entry| entry_counts(&mut entry.expr, room))
        }
        _ => Ok(()),
    }
}

fn loop_counts(all: &mut ComprehensionExpr, room: usize) -> Result<(), TooDeep> {
    for part in [&mut all.iter_range, &mut all.accu_init, &mut all.loop_cond, &mut all.result] {
        metered(part, room)?;
    }
    // Each step copies one element: all of them together are the list.
    passes(KEPT, &mut all.iter_range);
    // The interpreter adds to a list in place where the step has just the form of map() and
    // filter(): the sum is left as it is, and only what is added counts.
    let accu = all.accu_var.as_str();
    let step = &mut all.loop_step;
    if is_sum(step, accu) {
        sum_counts(step, room)?;
    } else if let Expr::Call(call) = &mut step.expr
        && call.func_name == operators::CONDITIONAL
    {
        for argument in &mut call.args {
            if is_sum(argument, accu) {
                sum_counts(argument, room)?;
            } else {
                metered(argument, room)?;
            }
        }
    } else {
        metered(step, room)?;
    }
    let id = step.id;
    let asked = IdedExpr { id, expr: Expr::Ident(STEP.into()) };
    if matches!(all.loop_cond.expr, Expr::Literal(_)) && matches!(all.result.expr, Expr::Ident(_)) {
        ask_in_step(all, asked);
    } else {
        let condition = std::mem::take(&mut all.loop_cond);
        all.loop_cond = function(id, operators::LOGICAL_AND, vec![asked, condition]);
    }
    Ok(())
}

/// Adds the step variable to the guard of a step that appends to a list.
fn ask_in_step(all: &mut ComprehensionExpr, asked: IdedExpr) {
    let id = asked.id;
    let step = std::mem::take(&mut all.loop_step);
    let otherwise = |accu: &str| IdedExpr { id, expr: Expr::Ident(accu.into()) };
    all.loop_step = match step.expr {
        Expr::Call(mut call)
            if call.func_name == operators::CONDITIONAL && call.args.len() == 3 =>
        {
            let guard = call.args.remove(0);
            call.args.insert(0, function(id, operators::LOGICAL_AND, vec![asked, guard]));
            IdedExpr { id, expr: Expr::Call(call) }
        }
        expr => {
            let step = IdedExpr { id: step.id, expr };
            let arguments = vec![asked, step, otherwise(&all.accu_var)];
            function(id, operators::CONDITIONAL, arguments)
        }
    };
}

/// Whether a node is `accu + [..]`.
fn is_sum(node: &IdedExpr, accu: &str) -> bool {
    let Expr::Call(call) = &node.expr else { return false };
    let [left, right] = call.args.as_slice() else { return false };
    call.func_name == operators::ADD
        && matches!(&left.expr, Expr::Ident(name) if name == accu)
        && matches!(right.expr, Expr::List(_))
}

fn sum_counts(sum: &mut IdedExpr, room: usize) -> Result<(), TooDeep> {
    let Expr::Call(call) = &mut sum.expr else { return Ok(()) };
    match call.args.last_mut() {
        Some(IdedExpr { expr: Expr::List(list), .. }) => elements_count(list, room),
        _ => Ok(()),
    }
}

fn elements_count(list: &mut ListExpr, room: usize) -> Result<(), TooDeep> {
    list.elements.iter_mut().try_for_each(|element| {
        metered(element, room)?;
        passes(KEPT, element);
        Ok(())
    })
}

fn entry_counts(entry: &mut EntryExpr, room: usize) -> Result<(), TooDeep> {
    match entry {
        EntryExpr::StructField(field) => metered(&mut field.value, room),
        EntryExpr::MapEntry(entry) => {
            [&mut entry.key, &mut entry.value].into_iter().try_for_each(|part| {
                metered(part, room)?;
                passes(KEPT, part);
                Ok(())
            })
        }
    }
}

fn call_counts(node: &mut IdedExpr) {
    let Expr::Call(call) = &mut node.expr else { return };
    match call.func_name.as_str() {
        // What is compared is looked at whole: the left side, or the list that is searched.
        operators::EQUALS | operators::NOT_EQUALS => {
            call.args.first_mut().into_iter().for_each(|side| passes(KEPT, side));
        }
        operators::IN => call.args.last_mut().into_iter().for_each(|list| passes(KEPT, list)),
        operators::ADD => passes(MADE, node),
        name if REPLACED.contains(&name) => {
            let meter = IdedExpr { id: node.id, expr: Expr::Ident(METER.into()) };
            let target = call.target.take().map(|target| *target);
            let rest = std::mem::take(&mut call.args);
            call.args = std::iter::once(meter).chain(target).chain(rest).collect();
            call.func_name = format!("@{name}");
        }
        // Operators have no letter at either end, and choose or compute what is small.
        name if name.starts_with(|c: char| c.is_ascii_alphabetic()) => passes(MADE, node),
        _ => {}
    }
}

/// Passes a value through one of the functions that charge.
fn passes(through: &str, node: &mut IdedExpr) {
    if matches!(node.expr, Expr::Literal(_)) {
        return;
    }
    let id = node.id;
    let meter = IdedExpr { id, expr: Expr::Ident(METER.into()) };
    *node = function(id, through, vec![meter, std::mem::take(node)]);
}

fn function(id: u64, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    IdedExpr { id, expr: Expr::Call(CallExpr { func_name: name.into(), target: None, args }) }
}
