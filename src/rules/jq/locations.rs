//! Resolves paths of jq to locations in a value, and removes them.

use serde_json::Value;

use super::error::JqError;
use crate::limits::JQ_PATHS_MAX;

/// One step of a path to an existing location.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Index(usize),
    Key(String),
}

/// Adds the existing locations of a path. Indices may count from the end, and a slice has several
/// locations.
pub fn expand(
    value: &Value,
    path: &[Value],
    locations: &mut Vec<Vec<Step>>,
) -> Result<(), JqError> {
    if path.is_empty() {
        return Err(JqError::NotAnObject);
    }
    let mut here = value;
    let mut steps = Vec::with_capacity(path.len());
    // The part of the present list that slices have left.
    let mut window: Option<(usize, usize)> = None;
    for step in path {
        match (here, step) {
            (Value::Object(fields), Value::String(key)) => {
                let Some(field) = fields.get(key) else { return Ok(()) };
                steps.push(Step::Key(key.clone()));
                here = field;
            }
            (Value::Array(items), Value::Object(slice)) => {
                let (start, end) = window.unwrap_or((0, items.len()));
                let bound = |name: &str, otherwise: usize| match slice.get(name) {
                    Some(Value::Number(number)) => clamped(number.as_i64(), end - start),
                    _ => otherwise,
                };
                let from = start + bound("start", 0);
                window = Some((from, (start + bound("end", end - start)).max(from)));
            }
            (Value::Array(items), Value::Number(number)) => {
                let (start, end) = window.take().unwrap_or((0, items.len()));
                let at = position(number.as_i64(), end - start).map(|at| start + at);
                let Some((at, item)) = at.and_then(|at| Some((at, items.get(at)?))) else {
                    return Ok(());
                };
                steps.push(Step::Index(at));
                here = item;
            }
            _ => return Ok(()),
        }
    }
    match window {
        Some((start, end)) => locations.extend((start..end).map(|at| {
            let mut steps = steps.clone();
            steps.push(Step::Index(at));
            steps
        })),
        None => locations.push(steps),
    }
    if locations.len() > JQ_PATHS_MAX {
        return Err(JqError::TooManyPaths);
    }
    Ok(())
}

/// Resolves an index, which may count from the end.
fn position(index: Option<i64>, length: usize) -> Option<usize> {
    let index = index?;
    let at = match usize::try_from(index) {
        Ok(at) => at,
        Err(_) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?,
    };
    (at < length).then_some(at)
}

/// Resolves a bound of a slice, clamped to the list.
fn clamped(bound: Option<i64>, length: usize) -> usize {
    let bound = bound.unwrap_or_default();
    match usize::try_from(bound) {
        Ok(bound) => bound.min(length),
        Err(_) => length.saturating_sub(usize::try_from(bound.unsigned_abs()).unwrap_or(length)),
    }
}

/// Removes one location. Its parent still exists, as deeper and later locations are removed first.
pub fn remove(value: &mut Value, location: &[Step]) {
    let Some((last, parents)) = location.split_last() else { return };
    let parent = parents.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index(index) => value.get_mut(*index),
    });
    match (parent, last) {
        (Some(Value::Object(fields)), Step::Key(key)) => {
            fields.remove(key);
        }
        (Some(Value::Array(items)), Step::Index(index)) if *index < items.len() => {
            items.remove(*index);
        }
        _ => {}
    }
}
