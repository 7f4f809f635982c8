//! A CEL expression in the first line, an object in JSON after it. There is no deep recursion,
//! every location is inside the text, and an evaluation ends. A rejected expression never runs on a
//! cluster.

use gitwork_rules::cel::check as cel;
use gitwork_rules::cel::{CelEvaluationError, CelEvaluator};
use serde_json::Value;

const OBJECT: &str = r#"{
    "metadata":{"name":"web","labels":{"a":"b"}},
    "spec":{"replicas":3,"ports":[80,443],"ratio":0.5},
    "status":{"conditions":[{"type":"Ready","status":"True"}],"text":"1.2.3"}
}"#;

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
    let evaluator = CelEvaluator::new(&object);
    match (evaluator.test(expression), &checked) {
        (Err(CelEvaluationError::Compile(_)), _) => {}
        (_, Err(error)) => panic!("the agent runs what was refused: {error}"),
        // The same object gives the same result while the budget lasts.
        (Ok(result), Ok(())) => match evaluator.test(expression) {
            Ok(again) => assert_eq!(again, result),
            Err(error) => assert_eq!(error, CelEvaluationError::Budget),
        },
        (Err(_), Ok(())) => {}
    }
    checked.is_ok()
}
