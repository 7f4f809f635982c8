//! Any bytes as a YAML file: a document written as JSON reads back as the same document.

use gitwork::core::diagnostic::Scope;
use gitwork::core::name::RepoPath;
use gitwork::core::report::harmless_json;
use gitwork::core::yaml;
use gitwork::limits::FILE_BYTES_MAX;
use serde_json::{Value, json};

/// A key on one line with its colon is at most so long (YAML 1.2, 7.4.2).
const KEY_CHARACTERS_MAX: usize = 1_024;

pub fn check(bytes: &[u8]) -> bool {
    let file = RepoPath::root().join("a.yaml");
    let read = yaml::read(&file, bytes, &Scope::Source);
    for diagnostic in &read.diagnostics {
        assert!(!diagnostic.message.is_empty(), "{diagnostic:?}");
    }
    for document in &read.documents {
        // YAML takes some characters for line breaks that JSON does not; as escapes they are the same to both.
        let json = harmless_json(&serde_json::to_string(&document.value).unwrap()).into_bytes();
        // What aliases expand to may be too large for a file.
        if json.len() > FILE_BYTES_MAX || has_long_key(&document.value) {
            continue;
        }
        let again = yaml::read(&file, &json, &Scope::Source);
        let values: Vec<_> = again.documents.iter().map(|document| &document.value).collect();
        assert_eq!(values, [&document.value], "{:?}", again.diagnostics);
    }
    !read.documents.is_empty()
}

/// Whether a key is too long for one line, as JSON has it: its escapes may be longer than the key.
fn has_long_key(value: &Value) -> bool {
    let is_long = |key: &str| harmless_json(&json!(key).to_string()).len() >= KEY_CHARACTERS_MAX;
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(key, value)| is_long(key) || has_long_key(value))
        }
        Value::Array(items) => items.iter().any(has_long_key),
        _ => false,
    }
}
