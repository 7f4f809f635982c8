//! The values of variables, in `values` of `group.yaml` and `cluster.yaml`.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;

/// A value for `${NAME}`: text, a number, a boolean, a list or a mapping.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct SubstitutionValue(pub Value);

impl JsonSchema for SubstitutionValue {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SubstitutionValue".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "integer", "boolean", "array", "object"] })
    }
}

/// The names in `values` that no variable can have, each with what is wrong with it; reads after
/// the name.
pub fn bad_names(
    values: &BTreeMap<String, SubstitutionValue>,
) -> impl Iterator<Item = (&String, &'static str)> {
    let problem = "is no variable's name: letters, digits and '_' only, no digit first";
    values.keys().filter(|name| !is_variable_name(name)).map(move |name| (name, problem))
}

/// Letters, digits and `_`, not starting with a digit.
pub fn is_variable_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}
