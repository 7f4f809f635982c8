//! What is wrong with an object.

use gitwork_api::count::{count, is_or_are};
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
    /// JSON pointer of the value from the object. That of a missing field leads to where it would
    /// be, if one field is missing, or to its parent.
    pub pointer: String,
    /// Whether the key of the field is wrong, rather than its value. Of a missing field, it is the
    /// key of the nearest parent.
    pub is_key: bool,
    /// What is wrong, in one clause without a full stop.
    pub message: String,
    /// What to do, where that differs from the other problems of its kind. In sentences.
    pub help: Option<&'static str>,
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

/// The type of a value whose text must not be in messages.
pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "text",
        Value::Number(_) => "a number",
        Value::Bool(_) => "a boolean",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
        Value::Null => "null",
    }
}

/// A type that a value needs, as far as quotes decide whether it has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Text,
    Whole,
    Number,
    Boolean,
    Other,
}

/// Whether quotes make a value the text that is needed.
pub(crate) fn is_unquoted(value: &Value, expected: Expected) -> bool {
    expected == Expected::Text && matches!(value, Value::Number(_) | Value::Bool(_))
}

/// How to write a value so that it has the type that is needed; reads after a message.
pub(crate) fn quotes_hint(value: &Value, expected: Expected) -> &'static str {
    let is_quoted = match (value, expected) {
        (Value::String(text), Expected::Whole) => text.parse::<i64>().is_ok(),
        (Value::String(text), Expected::Number) => text.parse().is_ok_and(f64::is_finite),
        (Value::String(text), Expected::Boolean) => matches!(&**text, "true" | "false"),
        _ => false,
    };
    match (is_quoted, is_unquoted(value, expected)) {
        (true, _) => "; remove the quotes",
        (false, true) => "; quote it",
        (false, false) => "",
    }
}

/// What is wrong with a length; reads after the name of what has it.
pub(crate) fn length_problem(
    length: usize,
    (least, most): (usize, usize),
    noun: &str,
) -> Option<String> {
    let has = count(length, noun);
    if length > most {
        Some(format!("has {has}; at most {most} {} allowed", is_or_are(most)))
    } else if length < least {
        Some(format!("has {has}; at least {least} {} needed", is_or_are(least)))
    } else {
        None
    }
}
