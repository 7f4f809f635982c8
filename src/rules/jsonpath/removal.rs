//! Removes fields by the `jsonPaths` of `ignoreFields`: a path to maps and a key to remove.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{EvaluateError, JsonPathError, JsonPathQuery, check};

/// Removes a field from an object as OCM's agent does. The text after the last dot is the key. The
/// rest is the path of the maps that lose it.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldRemoval {
    parents: JsonPathQuery,
    key: String,
}

/// A path that removes nothing from any object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemovalError {
    /// The path does not end with a key.
    #[error("{path:?} has no field to take out: write .field or .path.to.field")]
    NoKey {
        /// The path.
        path: String,
    },
    /// The text after the last dot is not a plain key.
    #[error(
        "{key:?} is no plain key: the agent splits at the last '.', takes what follows as it is, \
         and removes no list items; use jsonPointers or jqPathExpressions for this field"
    )]
    BadKey {
        /// The text after the last dot.
        key: String,
    },
    /// The path before the last dot does not parse.
    #[error("the path before the last '.' does not parse, since the agent splits there: {0}")]
    Parents(#[source] JsonPathError),
}

impl FieldRemoval {
    /// Parses a path of `ignoreFields`.
    ///
    /// # Errors
    /// Fails for a path that OCM's agent logs as invalid and does not apply.
    pub fn parse(path: &str) -> Result<Self, RemovalError> {
        let Some((parents, key)) = path.rsplit_once('.') else {
            return Err(RemovalError::NoKey { path: path.to_owned() });
        };
        if key.is_empty() {
            return Err(RemovalError::NoKey { path: path.to_owned() });
        }
        if key.contains(['[', ']', '\'', '"', '*', '(', ')', '{', '}', '\\']) {
            return Err(RemovalError::BadKey { key: key.to_owned() });
        }
        check(parents).map_err(RemovalError::Parents)?;
        let parents = JsonPathQuery::parse(parents).map_err(RemovalError::Parents)?;
        Ok(Self { parents, key: key.to_owned() })
    }

    /// Removes the field from every map at the path. A missing field is not an error.
    ///
    /// # Errors
    /// Fails if the path has no result in this object, which then stays unchanged.
    pub fn remove(&self, object: &mut Value) -> Result<(), EvaluateError> {
        let found = self.parents.find_in_parts(object)?;
        let maps: BTreeSet<usize> = found.into_iter().flatten().map(address).collect();
        remove_key(object, &maps, &self.key);
        Ok(())
    }
}

/// Returns an address that distinguishes the values of one tree. It is never dereferenced.
fn address(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
}

/// Removes the key from the maps, innermost first: a removal moves the other fields of its map to
/// other addresses.
fn remove_key(value: &mut Value, maps: &BTreeSet<usize>, key: &str) {
    let here = address(value);
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| remove_key(item, maps, key)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| remove_key(field, maps, key));
            if maps.contains(&here) {
                fields.remove(key);
            }
        }
        _ => {}
    }
}
