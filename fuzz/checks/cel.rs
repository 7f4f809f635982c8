//! A CEL expression in the first line, an object in JSON behind it: no deep recursion, a place that is in the text, and
//! an evaluation that ends. What is refused before it reaches a cluster never runs there.

use gitwork::agent::core::cel::{CelError, Subject};
use gitwork::core::cel;
use serde_json::Value;

const OBJECT: &str = r#"{"metadata":{"name":"web","labels":{"a":"b"}},"spec":{"replicas":3,"ports":[80,443],"ratio":0.5},"status":{"conditions":[{"type":"Ready","status":"True"}],"text":"1.2.3"}}"#;

pub fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let (expression, object) = match text.rsplit_once('\n') {
        Some((expression, object)) if object.starts_with('{') => (expression, object),
        _ => (text, OBJECT),
    };
    let Ok(object) = serde_json::from_str::<Value>(object) else { return false };
    let checked = cel::check(expression, &["object"]);
    if let Err(error) = &checked {
        assert!(error.line >= 1 && error.column >= 1, "{error}");
        assert!(!error.to_string().is_empty());
    }
    let subject = Subject::new(&object);
    match (subject.test(expression), &checked) {
        (Err(CelError::Compile(_)), _) => {}
        (_, Err(error)) => panic!("the agent runs what was refused: {error}"),
        // Of the same object, the same answer, as long as there is something left of what it may spend.
        (Ok(result), Ok(())) => match subject.test(expression) {
            Ok(again) => assert_eq!(again, result),
            Err(error) => assert_eq!(error, CelError::Budget),
        },
        (Err(_), Ok(())) => {}
    }
    checked.is_ok()
}
