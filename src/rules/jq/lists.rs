//! Functions of jq over lists and maps.

use super::budget::StepBudget;
use super::item::{Flow, Stop, failed};
use super::value::JqValue;

/// The value of `length`.
pub fn length(budget: &StepBudget, input: &JqValue) -> Result<JqValue, Stop> {
    Ok(match input {
        JqValue::Null => JqValue::Integer(0),
        JqValue::Text(text) => {
            budget.charge(text.len() / 16)?;
            JqValue::integer(text.chars().count())
        }
        JqValue::List(list) => JqValue::integer(list.content.len()),
        JqValue::Map(map) => JqValue::integer(map.content.len()),
        JqValue::Boolean(_) => return failed("boolean has no length"),
        number => JqValue::number(number.as_float().unwrap_or_default().abs()),
    })
}

/// The value of `keys`.
pub fn keys(budget: &StepBudget, input: &JqValue) -> Result<JqValue, Stop> {
    let keys: Vec<JqValue> = match input {
        JqValue::List(list) => (0..list.content.len()).map(JqValue::integer).collect(),
        JqValue::Map(map) => map.content.keys().cloned().map(JqValue::Text).collect(),
        other => return failed(format!("{} has no keys", other.kind())),
    };
    budget.charge(keys.len())?;
    Ok(JqValue::list(keys)?)
}

/// Whether a value contains another one.
pub fn contains(budget: &StepBudget, outer: &JqValue, inner: &JqValue) -> Result<bool, Stop> {
    budget.charge(1)?;
    match (outer, inner) {
        (JqValue::Map(outer), JqValue::Map(inner)) => {
            for (key, inner) in &inner.content {
                let Some(outer) = outer.content.get(key) else { return Ok(false) };
                if !contains(budget, outer, inner)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (JqValue::List(outer), JqValue::List(inner)) => {
            for inner in &inner.content {
                let mut any = false;
                for outer in &outer.content {
                    budget.charge(1)?;
                    if outer.kind() == inner.kind() && contains(budget, outer, inner)? {
                        any = true;
                        break;
                    }
                }
                if !any {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (JqValue::Text(outer), JqValue::Text(inner)) => {
            budget.charge((outer.len() + inner.len()) / 16)?;
            Ok(outer.contains(inner.as_ref()))
        }
        (outer, inner) if outer.kind() == inner.kind() => Ok(outer == inner),
        (outer, inner) => failed(format!("{} cannot contain {}", outer.kind(), inner.kind())),
    }
}

/// The values of `reverse`, `flatten` and `transpose`.
pub fn rearranged(
    budget: &StepBudget,
    name: &str,
    input: &JqValue,
    values: &[JqValue],
) -> Result<JqValue, Stop> {
    if let ("reverse", JqValue::Text(text)) = (name, input) {
        budget.charge(text.len() / 16)?;
        return Ok(JqValue::text(text.chars().rev().collect::<String>()));
    }
    if let ("reverse", JqValue::Null) = (name, input) {
        return Ok(JqValue::list(Vec::new())?);
    }
    let JqValue::List(list) = input else {
        return failed(format!("{name} needs an array, and this is {}", input.kind()));
    };
    budget.charge(list.content.len())?;
    let mut items = Vec::new();
    match name {
        "reverse" => items.extend(list.content.iter().rev().cloned()),
        "flatten" => {
            let depth = values.first().and_then(JqValue::as_index).unwrap_or_default();
            flatten(budget, &list.content, depth, &mut items)?;
        }
        _ => {
            let width = list.content.iter().map(JqValue::children_count).max().unwrap_or(0);
            budget.charge(width.saturating_mul(list.content.len()))?;
            let rows: Vec<Vec<JqValue>> = list.content.iter().map(JqValue::children).collect();
            for column in 0..width {
                let cells = rows.iter().map(|row| row.get(column).cloned());
                let cells = cells.map(|cell| cell.unwrap_or(JqValue::Null)).collect();
                items.push(JqValue::list(cells)?);
            }
        }
    }
    Ok(JqValue::list(items)?)
}

fn flatten(budget: &StepBudget, items: &[JqValue], depth: i64, found: &mut Vec<JqValue>) -> Flow {
    for item in items {
        budget.charge(1)?;
        match item {
            JqValue::List(list) if depth > 0 => {
                flatten(budget, &list.content, depth - 1, found)?;
            }
            other => found.push(other.clone()),
        }
    }
    Ok(())
}

/// The value of `has`.
pub fn has(input: &JqValue, key: &JqValue) -> Result<JqValue, Stop> {
    match (input, key) {
        (JqValue::Map(map), JqValue::Text(key)) => {
            Ok(JqValue::Boolean(map.content.contains_key(key)))
        }
        (JqValue::List(list), JqValue::Integer(_) | JqValue::Float(_)) => {
            let index = key.as_index().and_then(|index| usize::try_from(index).ok());
            Ok(JqValue::Boolean(index.is_some_and(|index| index < list.content.len())))
        }
        _ => failed(format!("{} cannot have a key that is {}", input.kind(), key.kind())),
    }
}
