//! Condition rules: conditions of a manifest, by its live object.

use gitwork_api::work::{ConditionRule, ConditionRuleType};
use serde_json::Value;

use super::condition::{NewCondition, is_condition_type};
use super::object::{Object, list, text};
use gitwork_rules::cel::{CelEvaluationError, CelEvaluator};
use gitwork_rules::well_known::has_condition;

const EVALUATED: &str = "ConditionRuleEvaluated";
const INVALID: &str = "ConditionRuleInvalid";
const EXPRESSION_ERROR: &str = "ConditionRuleExpressionError";

/// The conditions that rules make of one live object. A rule whose condition no API server takes
/// makes none: it would block the status of the whole work.
pub fn evaluate_conditions(
    live: &Object,
    value: &Value,
    rules: &[ConditionRule],
) -> Vec<NewCondition> {
    let evaluator = std::cell::LazyCell::new(|| CelEvaluator::new(value));
    rules
        .iter()
        .filter(|rule| rule.condition.is_empty() || is_condition_type(&rule.condition))
        .filter_map(|rule| match &rule.type_ {
            ConditionRuleType::CEL => Some(by_expressions(&evaluator, rule)),
            ConditionRuleType::WellKnownConditions => well_known(live, &evaluator, rule),
            ConditionRuleType::Other(other) => Some(NewCondition::new(
                &rule.condition,
                "Unknown",
                INVALID,
                format!("unrecognized condition rule type {other}"),
            )),
        })
        .collect()
}

fn by_expressions(evaluator: &CelEvaluator, rule: &ConditionRule) -> NewCondition {
    for expression in &rule.cel_expressions {
        match evaluator.test(expression) {
            Ok(true) => {}
            Ok(false) => return evaluated(evaluator, rule, false, None),
            Err(error) => return failed(rule, &error),
        }
    }
    evaluated(evaluator, rule, true, None)
}

fn failed(rule: &ConditionRule, error: &CelEvaluationError) -> NewCondition {
    NewCondition::new(&rule.condition, "False", EXPRESSION_ERROR, error.to_string())
}

fn evaluated(
    evaluator: &CelEvaluator,
    rule: &ConditionRule,
    result: bool,
    well_known_message: Option<String>,
) -> NewCondition {
    let status = if result { "True" } else { "False" };
    let plain = || {
        if rule.message.is_empty() {
            well_known_message.unwrap_or_else(|| {
                let not = if result { "" } else { "not " };
                format!("Manifest is {not}{}", rule.condition)
            })
        } else {
            rule.message.clone()
        }
    };
    let message = if rule.message_expression.is_empty() {
        plain()
    } else {
        match evaluator.message(&rule.message_expression, result) {
            Ok(message) if message.is_empty() => plain(),
            Ok(message) => message,
            Err(error) => error.to_string(),
        }
    };
    NewCondition::new(&rule.condition, status, EVALUATED, message)
}

/// Without an entry for the kind and condition there is no condition at all.
fn well_known(
    live: &Object,
    evaluator: &CelEvaluator,
    rule: &ConditionRule,
) -> Option<NewCondition> {
    let (api_version, kind) = (text(live, &["apiVersion"]), text(live, &["kind"]));
    if !has_condition(api_version, kind, &rule.condition) {
        return None;
    }
    let (result, message) = match kind {
        "Job" => {
            let finished = list(live, &["status", "conditions"]).iter().any(|condition| {
                let field = |name| condition.get(name).and_then(Value::as_str);
                matches!(field("type"), Some("Complete" | "Failed"))
                    && field("status") == Some("True")
            });
            (finished, format!("Job is {}finished", if finished { "" } else { "not " }))
        }
        _ => {
            let phase = text(live, &["status", "phase"]);
            (matches!(phase, "Succeeded" | "Failed"), format!("Pod is in phase {phase}"))
        }
    };
    Some(evaluated(evaluator, rule, result, Some(message)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::object::tests::object;
    use super::*;

    fn found(live: &Value, rule: Value) -> Option<(String, String, String)> {
        let rules: Vec<ConditionRule> = vec![serde_json::from_value(rule).unwrap()];
        let live_object = object(live.clone());
        let finding = evaluate_conditions(&live_object, live, &rules).pop()?;
        Some((finding.status.to_owned(), finding.reason.to_owned(), finding.message))
    }

    fn check(
        live: impl std::borrow::Borrow<Value>,
        rule: Value,
        status: &str,
        reason: &str,
        message: &str,
    ) {
        let (found_status, found_reason, found_message) = found(live.borrow(), rule).unwrap();
        assert_eq!(
            (found_status.as_str(), found_reason.as_str()),
            (status, reason),
            "{found_message}"
        );
        assert!(found_message.contains(message), "{found_message}");
    }

    #[test]
    fn well_known_conditions() {
        let job = |kind: &str, status: &str| {
            json!({"apiVersion": "batch/v1", "kind": "Job", "status":
            {"conditions": [{"type": kind, "status": status}]}})
        };
        let rule = || json!({"type": "WellKnownConditions", "condition": "Complete"});
        check(job("Failed", "True"), rule(), "True", EVALUATED, "Job is finished");
        check(job("Complete", "False"), rule(), "False", EVALUATED, "Job is not finished");
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Succeeded"}});
        check(pod, rule(), "True", EVALUATED, "Pod is in phase Succeeded");
        assert_eq!(found(&json!({"apiVersion": "v1", "kind": "Secret"}), rule()), None);
        let own =
            json!({"type": "WellKnownConditions", "condition": "Complete", "message": "mine"});
        check(job("Failed", "True"), own, "True", EVALUATED, "mine");
    }

    #[test]
    fn expressions() {
        let live = || json!({"spec": {"a": 1}});
        let rule = |expressions: Value| {
            json!({"type": "CEL", "condition": "Good",
                "celExpressions": expressions})
        };
        check(live(), rule(json!([])), "True", EVALUATED, "Manifest is Good");
        check(
            live(),
            rule(json!(["object.spec.a == 1", "object.spec.a == 2"])),
            "False",
            EVALUATED,
            "Manifest is not Good",
        );
        check(
            live(),
            rule(json!(["object.spec.b == 1"])),
            "False",
            EXPRESSION_ERROR,
            "no such key: b",
        );
        check(live(), rule(json!(["bad("])), "False", EXPRESSION_ERROR, "ERROR: <input>");
        check(
            live(),
            rule(json!(["1"])),
            "False",
            EXPRESSION_ERROR,
            "expected bool result, got int",
        );
        let with_expression = json!({
            "type": "CEL", "condition": "Good", "celExpressions": [], "message": "m",
            "messageExpression": "'a is ' + string(object.spec.a)"});
        check(live(), with_expression, "True", EVALUATED, "a is 1");
        let broken = json!({"type": "CEL", "condition": "Good", "message": "m",
            "messageExpression": "badcel"});
        check(live(), broken, "True", EVALUATED, "badcel");
        let unknown = json!({"type": "Other", "condition": "Good"});
        check(live(), unknown, "Unknown", INVALID, "unrecognized condition rule type Other");
        let unfit = json!({"type": "CEL", "condition": "has space"});
        assert_eq!(found(&live(), unfit), None);
    }
}
