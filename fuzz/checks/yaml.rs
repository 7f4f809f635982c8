//! Any bytes as a YAML file. A document written as JSON reads back the same.

use gitwork_core::model::diagnostic::Scope;
use gitwork_core::model::name::RepoPath;
use gitwork_core::text::escape::escape_untrusted_json;
use gitwork_core::text::yaml;
use gitwork_yaml::ProblemKind;
use gitwork_yaml::limits::{FILE_BYTES_MAX, YAML_MEMORY_MAX, YAML_PROBLEMS_MAX};
use serde_json::{Value, json};

/// The largest length of a key on one line, with its colon (YAML 1.2, 7.4.2).
const KEY_CHARACTERS_MAX: usize = 1_024;

/// The listed problems, one more of each kind, and the number of the others.
const PROBLEMS_MAX: usize = YAML_PROBLEMS_MAX + ProblemKind::ALL.len() + 1;

/// Bytes of the texts and nodes of a value.
fn value_bytes(value: &Value) -> usize {
    let node = size_of::<Value>();
    node + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_bytes).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| name.len() + node + value_bytes(value)).sum()
        }
        _ => 0,
    }
}

pub fn check(bytes: &[u8]) -> bool {
    let file = RepoPath::root().join("a.yaml");
    let read = yaml::read(&file, bytes, &Scope::Source);
    for diagnostic in &read.diagnostics {
        assert!(!diagnostic.message.is_empty(), "{diagnostic:?}");
    }
    assert!(read.diagnostics.len() <= PROBLEMS_MAX);
    let kept: usize = read.documents.iter().map(|one| value_bytes(&one.value)).sum();
    assert!(kept <= YAML_MEMORY_MAX, "{kept} bytes of {}", bytes.len());
    for document in &read.documents {
        // YAML has some line breaks that JSON does not have. As escapes both read them the same.
        let json =
            escape_untrusted_json(&serde_json::to_string(&document.value).unwrap()).into_bytes();
        // Expanded aliases may be too large for a file.
        if json.len() > FILE_BYTES_MAX || has_long_key(&document.value) {
            continue;
        }
        let again = yaml::read(&file, &json, &Scope::Source);
        let values: Vec<_> = again.documents.iter().map(|document| &document.value).collect();
        assert_eq!(values, [&document.value], "{:?}", again.diagnostics);
    }
    !read.documents.is_empty()
}

/// Whether a key is too long for one line in JSON, where escapes may be longer than the characters.
fn has_long_key(value: &Value) -> bool {
    let is_long =
        |key: &str| escape_untrusted_json(&json!(key).to_string()).len() >= KEY_CHARACTERS_MAX;
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(key, value)| is_long(key) || has_long_key(value))
        }
        Value::Array(items) => items.iter().any(has_long_key),
        _ => false,
    }
}
