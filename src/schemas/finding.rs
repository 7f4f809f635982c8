//! What is wrong with an object.

use serde_json::Value;

use crate::limits;

/// Which kind of problem it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Problem {
    /// The type has no such field.
    UnknownField,
    /// The value has another type.
    WrongType,
    /// A required field is missing.
    MissingField,
    /// The API server rejects the value.
    InvalidValue,
    /// The API server rejects the object's name, a label, an annotation or other metadata.
    InvalidMetadata,
    /// The API group has no such kind.
    UnknownKind,
    /// The version of the API group exists no longer, or not yet.
    RemovedVersion,
    /// The version of the API group will be removed.
    DeprecatedVersion,
    /// The API server sets the field and ignores the value in Git.
    ServerField,
}

/// A change of an object that certainly corrects a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Correction {
    /// The value is the text that it is written as.
    Quote,
    /// The key is meant to be another one, which its mapping does not have.
    Rename(String),
    /// The only allowed value of a field that is missing in the mapping.
    Add(String, String),
}

/// One problem of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which kind of problem it is.
    pub problem: Problem,
    /// JSON pointer of the value from the object. That of a missing field leads to its parent.
    pub pointer: String,
    /// Whether the key of the field is wrong, rather than its value.
    pub is_key: bool,
    /// What is wrong, in one clause without a full stop.
    pub message: String,
    /// Whether the API server may accept it all the same: the cluster's version is not known well
    /// enough.
    pub is_uncertain: bool,
    /// What certainly corrects it.
    pub correction: Option<Correction>,
}

/// A text of the object as a message shows it.
pub(crate) fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let start: String = chars.by_ref().take(limits::TEXT_CHARS_MAX).collect();
    if chars.next().is_some() { format!("{start}…") } else { start }
}

/// A value as messages name it where another type is needed.
pub(crate) fn described(value: &Value) -> String {
    match value {
        Value::String(text) => format!("the text {:?}", shown(text)),
        Value::Number(number) => format!("the number {number}"),
        Value::Bool(truth) => format!("the boolean {truth}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
        Value::Null => "null".to_owned(),
    }
}

/// What makes a value text, where text is needed.
pub(crate) fn quote_hint(value: &Value, needs_text: bool) -> &'static str {
    if is_unquoted(value, needs_text) { "; quote it" } else { "" }
}

/// Whether quotes make a value the text that is needed.
pub(crate) fn is_unquoted(value: &Value, needs_text: bool) -> bool {
    needs_text && matches!(value, Value::Number(_) | Value::Bool(_))
}
