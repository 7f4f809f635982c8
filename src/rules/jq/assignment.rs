//! Assignments of jq.

use jaq_core::load::parse::BinaryOp;

use super::access::set;
use super::arithmetic::compute;
use super::evaluation::{Evaluation, Input, JqTerm};
use super::item::{Flow, Item, Out, Stop};
use super::value::JqValue;

/// The value of `left = right`, `left |= right` and the like.
pub fn assign<'a>(
    run: &Evaluation,
    left: &'a JqTerm<'a>,
    operator: &'a BinaryOp<&'a str>,
    right: &'a JqTerm<'a>,
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    let paths = || {
        let mut paths = Vec::new();
        run.each_path(left, input, &mut |steps| {
            paths.push(steps);
            Ok(())
        })?;
        Ok::<_, Stop>(paths)
    };
    if matches!(operator, BinaryOp::Update) {
        let mut value = input.item.value.clone();
        for path in paths()? {
            value = set(&run.budget, &value, &path, &mut |old| {
                let new = run.collect(right, input.of(&Item::computed(old.clone())))?;
                Ok(new.into_iter().next().unwrap_or(JqValue::Null))
            })?;
        }
        return out(Item::computed(value));
    }
    run.eval(right, input, &mut |new| {
        let mut value = input.item.value.clone();
        for path in paths()? {
            value = set(&run.budget, &value, &path, &mut |old| match operator {
                BinaryOp::UpdateMath(operator) => compute(&run.budget, *operator, old, &new.value),
                BinaryOp::UpdateAlt if old.is_true() => Ok(old.clone()),
                _ => Ok(new.value.clone()),
            })?;
        }
        out(Item::computed(value))
    })
}
