//! Arithmetic operators of jq.

use std::cmp::Ordering;

use jaq_core::ops::Math;

use super::budget::StepBudget;
use super::item::{Stop, failed};
use super::texts::split;
use super::value::JqValue;

/// Computes `left operator right`.
pub fn compute(
    budget: &StepBudget,
    operator: Math,
    left: &JqValue,
    right: &JqValue,
) -> Result<JqValue, Stop> {
    use JqValue::{List, Map, Null, Text};
    budget.charge(1)?;
    let floats = left.as_float().zip(right.as_float());
    match (operator, left, right) {
        (Math::Add, Null, other) | (Math::Add, other, Null) => Ok(other.clone()),
        (Math::Add, Text(left), Text(right)) => {
            budget.charge((left.len() + right.len()) / 16)?;
            Ok(JqValue::text([left.as_ref(), right.as_ref()].concat()))
        }
        (Math::Add, List(left), List(right)) => {
            budget.charge(left.content.len() + right.content.len())?;
            Ok(JqValue::list([left.content.as_slice(), &right.content].concat())?)
        }
        (Math::Add, Map(left), Map(right)) => {
            budget.charge(left.content.len() + right.content.len())?;
            let mut fields = left.content.clone();
            fields.extend(right.content.iter().map(|(k, v)| (k.clone(), v.clone())));
            Ok(JqValue::map(fields)?)
        }
        (Math::Sub, List(left), List(right)) => difference(budget, &left.content, &right.content),
        (Math::Mul, Text(text), count) | (Math::Mul, count, Text(text))
            if count.as_float().is_some() =>
        {
            repeated(budget, text, count)
        }
        (Math::Mul, Map(_), Map(_)) => merged(budget, left, right),
        (Math::Div, Text(text), Text(separator)) => split(budget, text, separator),
        (Math::Div | Math::Rem, _, _) if floats.is_some_and(|(_, right)| right == 0.0) => {
            failed("a number cannot be divided by zero")
        }
        _ => {
            let Some(floats) = floats else {
                let (left, right) = (left.kind(), right.kind());
                return failed(format!("{left} and {right} cannot be computed with"));
            };
            Ok(of_numbers(operator, (left, right), floats))
        }
    }
}

/// Exact for integers, if the result fits.
fn of_numbers(operator: Math, values: (&JqValue, &JqValue), (left, right): (f64, f64)) -> JqValue {
    let exact = |compute: fn(i64, i64) -> Option<i64>| match values {
        (JqValue::Integer(left), JqValue::Integer(right)) => {
            compute(*left, *right).map(JqValue::Integer)
        }
        _ => None,
    };
    match operator {
        Math::Add => exact(i64::checked_add).unwrap_or(JqValue::number(left + right)),
        Math::Sub => exact(i64::checked_sub).unwrap_or(JqValue::number(left - right)),
        Math::Mul => exact(i64::checked_mul).unwrap_or(JqValue::number(left * right)),
        Math::Div => JqValue::number(left / right),
        Math::Rem => exact(i64::checked_rem).unwrap_or(JqValue::number(left % right)),
    }
}

fn difference(budget: &StepBudget, left: &[JqValue], right: &[JqValue]) -> Result<JqValue, Stop> {
    let mut rest = Vec::new();
    for item in left {
        let mut is_there = false;
        for other in right {
            if budget.compare(item, other)? == Ordering::Equal {
                is_there = true;
                break;
            }
        }
        if !is_there {
            rest.push(item.clone());
        }
    }
    Ok(JqValue::list(rest)?)
}

fn repeated(budget: &StepBudget, text: &str, count: &JqValue) -> Result<JqValue, Stop> {
    let count = count.as_float().unwrap_or_default();
    if count <= 0.0 {
        return Ok(JqValue::Null);
    }
    let times = match JqValue::number(count.ceil()) {
        JqValue::Integer(times) => usize::try_from(times).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    budget.charge(text.len().saturating_mul(times) / 16)?;
    Ok(JqValue::text(text.repeat(if text.is_empty() { 1 } else { times })))
}

/// `*` of two maps: fields of both, merged where both have a map.
fn merged(budget: &StepBudget, left: &JqValue, right: &JqValue) -> Result<JqValue, Stop> {
    let (JqValue::Map(left), JqValue::Map(right)) = (left, right) else {
        return Ok(right.clone());
    };
    budget.charge(left.content.len() + right.content.len())?;
    let mut fields = left.content.clone();
    for (key, value) in &right.content {
        let merged = match fields.get(key) {
            Some(old) => merged(budget, old, value)?,
            None => value.clone(),
        };
        fields.insert(key.clone(), merged);
    }
    Ok(JqValue::map(fields)?)
}

/// A number as a float.
pub fn number(value: &JqValue) -> Result<f64, Stop> {
    value.as_float().map_or_else(|| failed(format!("{} is not a number", value.kind())), Ok)
}
