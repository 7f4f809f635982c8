//! A path in the first line, an object in JSON after it. The work is bounded, and a removed field
//! is gone.

use gitwork_rules::jsonpath;
use gitwork_rules::jsonpath::{FieldRemoval, JsonPathQuery};
use serde_json::Value;

const OBJECT: &str =
    r#"{"a":{"b":[{"c":1,"d":"x"},{"c":2.5},null,"y",[1,2,3]]},"e":true,"f":{"g":{"h":"z"}}}"#;

pub fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let (path, object) = text.split_once('\n').unwrap_or((text, OBJECT));
    let Ok(mut object) = serde_json::from_str::<Value>(object) else { return false };
    let parsed = JsonPathQuery::parse(path);
    match jsonpath::check(path) {
        Ok(()) => assert!(parsed.is_ok()),
        Err(error) => {
            assert!(error.column >= 1 && error.column <= path.chars().count() + 2, "{error}");
        }
    }
    if let Ok(parsed) = &parsed {
        assert_eq!(parsed.find(&object), parsed.find(&object));
    }
    if let Ok(removal) = FieldRemoval::parse(path)
        && removal.remove(&mut object).is_ok()
    {
        let before = object.clone();
        if removal.remove(&mut object).is_ok() {
            // A filter may select other maps the second time, but never more of them in an object
            // without it.
            assert!(object.to_string().len() <= before.to_string().len());
        }
    }
    parsed.is_ok()
}
