//! The `jsonPaths` of `ignoreFields`: a path to maps and a key to take out of them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{EvaluateError, JsonPathError, JsonPathQuery, check};

/// A field to take out of an object, as OCM's agent does it: the text after the last dot is the
/// key, the rest is the path of the maps that lose it.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldRemoval {
    parents: JsonPathQuery,
    key: String,
}

/// A path that takes nothing out of any object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemovalError {
    #[error("{path:?} has no field to take out: write .field or .path.to.field")]
    NoKey { path: String },
    #[error(
        "{key:?} is no plain key: the agent splits at the last '.', takes what follows as it is, and removes no \
         list items; use jsonPointers or jqPathExpressions for this field"
    )]
    BadKey { key: String },
    #[error("the path before the last '.' does not parse, since the agent splits there: {0}")]
    Parents(#[source] JsonPathError),
}

impl FieldRemoval {
    /// Parses a path of `ignoreFields`.
    ///
    /// # Errors
    /// Paths of which OCM's agent makes a log line and no removal.
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

    /// Takes the field out of every map at the path. A field that is not there is no error.
    ///
    /// # Errors
    /// A path that cannot be followed in this object; the object is then as before.
    pub fn remove(&self, object: &mut Value) -> Result<(), EvaluateError> {
        let found = self.parents.find_in_parts(object)?;
        let maps: BTreeSet<usize> = found.into_iter().flatten().map(address).collect();
        take_out(object, &maps, &self.key);
        Ok(())
    }
}

/// Tells two values of one tree apart; never turned back into a reference.
fn address(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
}

/// What is in a map comes before the map itself: taking a key out moves its neighbours to other
/// addresses.
fn take_out(value: &mut Value, maps: &BTreeSet<usize>, key: &str) {
    let here = address(value);
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| take_out(item, maps, key)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| take_out(field, maps, key));
            if maps.contains(&here) {
                fields.remove(key);
            }
        }
        _ => {}
    }
}
