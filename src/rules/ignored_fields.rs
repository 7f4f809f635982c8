//! The fields of `ignoreFields`, taken out of a manifest as OCM's agent does for an object that
//! exists.

use gitwork_api::escape::pointer_name;
use gitwork_api::work::{IgnoreField, IgnoreFieldsCondition};
use serde_json::Value;

use crate::jq::JqError;
use crate::jsonpath::FieldRemoval;

/// A path that cannot be taken out of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreError {
    /// An entry of `jsonPointers` (RFC 6901) cannot be used.
    #[error("JSON Pointer error in '{pointer}': {problem}")]
    Pointer {
        /// The entry.
        pointer: String,
        /// What is wrong with it.
        problem: PointerProblem,
    },
    /// An entry of `jqPathExpressions` cannot be evaluated on the manifest.
    #[error("JQ expression error in '{expression}': {problem}")]
    Jq {
        /// The entry; empty if the manifest is no object after all of them.
        expression: String,
        /// What is wrong with it.
        problem: JqError,
    },
}

/// Why a JSON Pointer cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PointerProblem {
    /// It does not begin with a slash.
    #[error("it must start with '/'")]
    NoLeadingSlash,
    /// It leads into a list, and its last segment is no index.
    #[error("a list needs a number")]
    NotAnIndex,
}

/// A manifest without the ignored fields. Those with `OnSpokeChange` stay in: the agent writes them
/// once the manifest changes. `delete` evaluates a jq expression, as [`crate::jq::delete`] does.
pub fn without(
    manifest: Value,
    rules: &[IgnoreField],
    mut delete: impl FnMut(&str, Value) -> Result<Value, JqError>,
) -> Result<Value, IgnoreError> {
    let mut value = manifest;
    for rule in rules.iter().filter(|rule| rule.condition != IgnoreFieldsCondition::OnSpokeChange) {
        for path in &rule.json_paths {
            remove_json_path(&mut value, path);
        }
        for pointer in &rule.json_pointers {
            remove_pointer(&mut value, pointer)?;
        }
        for expression in &rule.jq_path_expressions {
            value = delete(expression, value)
                .map_err(|problem| IgnoreError::Jq { expression: expression.clone(), problem })?;
        }
    }
    Ok(value)
}

/// The last segment is the key to delete, from every map that the rest leads to. What cannot be
/// found or parsed is left, as upstream does.
fn remove_json_path(value: &mut Value, path: &str) {
    if let Ok(removal) = FieldRemoval::parse(path) {
        let _left_as_upstream_does = removal.remove(value);
    }
}

/// JSON Patch `remove` (RFC 6902); what is not there is no error.
fn remove_pointer(value: &mut Value, pointer: &str) -> Result<(), IgnoreError> {
    let error = |problem: PointerProblem| IgnoreError::Pointer { pointer: pointer.into(), problem };
    let Some((parent, last)) = pointer.rsplit_once('/') else {
        return Err(error(PointerProblem::NoLeadingSlash));
    };
    if !parent.is_empty() && !parent.starts_with('/') {
        return Err(error(PointerProblem::NoLeadingSlash));
    }
    let key = pointer_name(last);
    match value.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.remove(&*key);
            Ok(())
        }
        Some(Value::Array(items)) => match key.parse::<usize>() {
            Ok(index) => {
                if index < items.len() {
                    items.remove(index);
                }
                Ok(())
            }
            Err(_) => Err(error(PointerProblem::NotAnIndex)),
        },
        _ => Ok(()),
    }
}
