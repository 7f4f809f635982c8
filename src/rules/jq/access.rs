//! Parts of values: `.[index]`, `.[from:to]`, paths, and copies with another part.

use std::cmp::Ordering;
use std::rc::Rc;

use super::budget::StepBudget;
use super::item::{Flow, Item, Out, Stop, failed};
use super::value::{Fields, JqValue};

/// The value of `.[index]`.
pub fn index(budget: &StepBudget, item: &Item, index: &JqValue) -> Result<Item, Stop> {
    use JqValue::{Float, Integer, List, Map, Null, Text};
    budget.charge(1)?;
    let value = match (&item.value, index) {
        (Map(map), Text(key)) => map.content.get(key).cloned().unwrap_or(Null),
        (List(list), Integer(_) | Float(_)) => {
            let at = index.as_index().and_then(|index| position(index, list.content.len()));
            at.and_then(|at| list.content.get(at).cloned()).unwrap_or(Null)
        }
        (List(list), List(part)) => return positions(budget, &list.content, &part.content),
        (Null, Text(_) | Integer(_) | Float(_) | Null) => Null,
        (List(_) | Null | Text(_), Map(bounds)) => {
            let bound = |name: &str| bounds.content.get(name).cloned().unwrap_or(Null);
            return slice(budget, item, &bound("start"), &bound("end"));
        }
        (value, index) => {
            return failed(format!("{} cannot be indexed with {}", value.kind(), index.kind()));
        }
    };
    item.child(index, value)
}

/// The positions of a list in another one.
fn positions(budget: &StepBudget, list: &[JqValue], part: &[JqValue]) -> Result<Item, Stop> {
    let mut found = Vec::new();
    if !part.is_empty() {
        for (at, window) in list.windows(part.len()).enumerate() {
            let mut same = true;
            for (one, other) in window.iter().zip(part) {
                same = budget.compare(one, other)? == Ordering::Equal;
                if !same {
                    break;
                }
            }
            if same {
                found.push(JqValue::integer(at));
            }
        }
    }
    Ok(Item::computed(JqValue::list(found)?))
}

/// The value of `.[from:to]`.
pub fn slice(budget: &StepBudget, item: &Item, from: &JqValue, to: &JqValue) -> Result<Item, Stop> {
    let bounds = |length: usize| {
        let bound = |value: &JqValue, otherwise: usize, up: bool| match value {
            JqValue::Null => Ok(otherwise),
            JqValue::Integer(index) => Ok(clamped(*index, length)),
            JqValue::Float(float) => {
                let whole = if up { float.ceil() } else { float.floor() };
                Ok(clamped(JqValue::number(whole).as_index().unwrap_or(i64::MAX), length))
            }
            other => failed(format!("a slice cannot begin or end at {}", other.kind())),
        };
        let from = bound(from, 0, false)?;
        Ok::<_, Stop>((from, bound(to, length, true)?.max(from)))
    };
    let value = match &item.value {
        JqValue::Null => JqValue::Null,
        JqValue::List(list) => {
            let (from, to) = bounds(list.content.len())?;
            budget.charge(to - from)?;
            JqValue::list(list.content.get(from..to).unwrap_or_default().to_vec())?
        }
        JqValue::Text(text) => {
            budget.charge(text.len() / 16)?;
            let (from, to) = bounds(text.chars().count())?;
            JqValue::text(text.chars().skip(from).take(to - from).collect::<String>())
        }
        other => return failed(format!("{} cannot be sliced", other.kind())),
    };
    let key = |name: &str| Rc::from(name);
    let slice = Fields::from([(key("start"), from.clone()), (key("end"), to.clone())]);
    item.child(&JqValue::map(slice)?, value)
}

/// The value at a path.
pub fn get_path(budget: &StepBudget, item: &Item, steps: &[JqValue]) -> Result<Item, Stop> {
    let mut here = item.clone();
    for step in steps {
        budget.charge(1)?;
        here = match here.value {
            JqValue::Null => here.child(step, JqValue::Null)?,
            _ => index(budget, &here, step)?,
        };
    }
    Ok(here)
}

/// The items of a list or the values of a map; nothing of other values.
pub fn each_child(budget: &StepBudget, item: &Item, out: Out<'_>) -> Flow {
    match &item.value {
        JqValue::List(list) => {
            for (index, value) in list.content.iter().enumerate() {
                budget.charge(1)?;
                out(item.child(&JqValue::integer(index), value.clone())?)?;
            }
            Ok(())
        }
        JqValue::Map(map) => {
            for (key, value) in &map.content {
                budget.charge(1)?;
                out(item.child(&JqValue::Text(key.clone()), value.clone())?)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Everything in a value, each before its parts.
pub fn each_descendant(budget: &StepBudget, item: &Item, out: Out<'_>) -> Flow {
    let mut stack = vec![item.clone()];
    while let Some(item) = stack.pop() {
        budget.charge(1)?;
        let mut children = Vec::new();
        each_child(budget, &item, &mut |child| {
            children.push(child);
            Ok(())
        })?;
        stack.extend(children.into_iter().rev());
        out(item)?;
    }
    Ok(())
}

/// A copy of a value with another value at a path.
pub fn set(
    budget: &StepBudget,
    value: &JqValue,
    path: &[JqValue],
    change: &mut dyn FnMut(&JqValue) -> Result<JqValue, Stop>,
) -> Result<JqValue, Stop> {
    budget.charge(1)?;
    let Some((step, rest)) = path.split_first() else { return change(value) };
    let inner = index(budget, &Item::computed(value.clone()), step)?.value;
    let inner = set(budget, &inner, rest, change)?;
    match (value, step) {
        (JqValue::Map(map), _) => with_field(budget, step, &map.content, inner),
        (JqValue::Null, JqValue::Text(_)) => with_field(budget, step, &Fields::new(), inner),
        (JqValue::List(_) | JqValue::Null, JqValue::Integer(index)) => {
            let mut items = value.children();
            let Some(index) = position(*index, items.len()) else {
                return failed("out of bounds negative array index");
            };
            budget.charge(items.len().max(index))?;
            if index >= items.len() {
                items.resize(index + 1, JqValue::Null);
            }
            if let Some(item) = items.get_mut(index) {
                *item = inner;
            }
            Ok(JqValue::list(items)?)
        }
        _ => failed(format!("a part of {} cannot be assigned", value.kind())),
    }
}

/// A map with one more field.
fn with_field(
    budget: &StepBudget,
    key: &JqValue,
    fields: &Fields,
    value: JqValue,
) -> Result<JqValue, Stop> {
    let JqValue::Text(key) = key else {
        return failed(format!("{} cannot be a key", key.kind()));
    };
    budget.charge(fields.len())?;
    let mut fields = fields.clone();
    fields.insert(key.clone(), value);
    Ok(JqValue::map(fields)?)
}

/// Resolves an index, which may count from the end.
fn position(index: i64, length: usize) -> Option<usize> {
    match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

fn clamped(index: i64, length: usize) -> usize {
    position(index, length).unwrap_or(0).min(length)
}
