//! Conditions of a replica set.

use gitwork_api::truncate::truncate_chars;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::limits;

/// A condition to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetCondition {
    pub kind: &'static str,
    pub is_true: bool,
    pub reason: &'static str,
    pub message: String,
}

/// `conditions` with these ones. Those of other types stay. The transition time changes with the
/// status only, as Kubernetes defines it.
pub(crate) fn with_conditions(
    conditions: Option<&Value>,
    set: &[SetCondition],
    generation: i64,
    now: Timestamp,
) -> Value {
    let mut all = conditions.and_then(Value::as_array).cloned().unwrap_or_default();
    for one in set {
        let status = if one.is_true { "True" } else { "False" };
        let is_it = |condition: &Value| condition.get("type") == Some(&json!(one.kind));
        let position = all.iter().position(is_it);
        let before = position.and_then(|position| all.get(position));
        let same = before.filter(|before| before.get("status") == Some(&json!(status)));
        let time = same.and_then(|before| before.get("lastTransitionTime")).cloned();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
        let condition = json!({
            "type": one.kind,
            "status": status,
            "reason": one.reason,
            "message": truncate_chars(&one.message, limits::MESSAGE_CHARS_MAX),
            "observedGeneration": generation,
            "lastTransitionTime": time.unwrap_or(Value::String(now)),
        });
        match position.and_then(|position| all.get_mut(position)) {
            Some(before) => *before = condition,
            None => all.push(condition),
        }
    }
    Value::Array(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transition_time_changes_with_the_status_only() {
        let condition = |is_true: bool, message: &str| SetCondition {
            kind: "PlacementVerified",
            is_true,
            reason: "AsExpected",
            message: message.to_owned(),
        };
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let foreign = json!([{"type": "Other", "status": "True"}, "odd"]);
        let first = with_conditions(Some(&foreign), &[condition(true, "a")], 1, at(10));
        assert_eq!(first[0], foreign[0]);
        let second = with_conditions(Some(&first), &[condition(true, "b")], 2, at(20));
        assert_eq!(second[2]["lastTransitionTime"], first[2]["lastTransitionTime"]);
        assert_eq!(
            (&second[2]["message"], &second[2]["observedGeneration"]),
            (&json!("b"), &json!(2))
        );
        let third = with_conditions(Some(&second), &[condition(false, "b")], 2, at(30));
        assert_eq!(third[2]["lastTransitionTime"], "1970-01-01T00:00:30Z");
    }
}
