//! A jq path in the first line, an object in JSON after it. The evaluation ends, and the remaining
//! fields were there before.

use gitwork_rules::jq;
use serde_json::Value;

const OBJECT: &str = r#"{
    "spec":{"replicas":1,"paused":true,"containers":[
        {"name":"web","image":"a","env":[{"name":"A"},{"name":"B"}]},
        {"name":"proxy","image":"b"},
        {"name":"log"}
    ]},
    "x":null
}"#;

/// Whether one value is another with fields and items removed.
pub fn is_part(left: &Value, of: &Value) -> bool {
    match (left, of) {
        (Value::Object(left), Value::Object(of)) => {
            left.iter().all(|(key, field)| of.get(key).is_some_and(|was| is_part(field, was)))
        }
        (Value::Array(left), Value::Array(of)) => {
            let mut was = of.iter();
            left.iter().all(|item| was.by_ref().any(|was| is_part(item, was)))
        }
        (left, of) => left == of,
    }
}

pub fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let (expression, object) = match text.rsplit_once('\n') {
        Some((expression, object)) if object.starts_with('{') => (expression, object),
        _ => (text, OBJECT),
    };
    let Ok(value) = serde_json::from_str::<Value>(object) else { return false };
    match jq::delete(expression, value.clone()) {
        Ok(left) => {
            assert_eq!(jq::delete(expression, value.clone()).as_ref(), Ok(&left));
            assert!(left.is_object(), "{left}");
            assert!(is_part(&left, &value), "{left}");
            true
        }
        Err(why) => {
            // The message has nothing of the manifest.
            let why = why.to_string();
            assert!(!why.is_empty() && why.len() < 400, "{why}");
            false
        }
    }
}
