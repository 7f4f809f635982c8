//! Deployments and other workloads.

use serde_json::{Map, Value};

use super::pods;
use crate::checker::Checker;
use crate::fields::{items, text};
use crate::finding::{Problem, shown};

/// A selector that is not empty and selects the pods of the template, which restart always.
pub(super) fn selector(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let Some(Value::Object(selector)) = fields.get("selector") else { return };
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let expressions = items(selector, "matchExpressions");
    if labels.is_none_or(Map::is_empty) && expressions.is_empty() {
        checker.report_at(Problem::InvalidValue, "/selector", "`selector` must not be empty");
    }
    let Some(template) = fields.get("template").and_then(Value::as_object) else { return };
    let of_template = template_labels(template);
    let missing = labels
        .into_iter()
        .flatten()
        .find(|(key, value)| of_template.and_then(|labels| labels.get(*key)) != Some(*value));
    if let Some((key, value)) = missing {
        let value = shown(value.as_str().unwrap_or_default());
        not_selected(checker, &format!("`{}: {value}`", shown(key)));
    } else if let Some(one) = expressions.iter().find(|one| !matches(one, of_template)) {
        let key = one.get("key").and_then(Value::as_str).unwrap_or_default();
        not_selected(checker, &format!("the expression for `{}`", shown(key)));
    }
    restart_policy(checker, template, &["", "Always"]);
}

fn not_selected(checker: &mut Checker<'_>, what: &str) {
    let message = format!("`selector` has {what}, which the labels of `template` do not match");
    checker.report_at(Problem::InvalidValue, "/selector", message);
}

fn template_labels(template: &Map<String, Value>) -> Option<&Map<String, Value>> {
    template.get("metadata").and_then(|one| one.get("labels")).and_then(Value::as_object)
}

/// Whether labels match an expression; `true` for one that is reported elsewhere.
fn matches(expression: &Value, labels: Option<&Map<String, Value>>) -> bool {
    let key = expression.get("key").and_then(Value::as_str).unwrap_or_default();
    let value = labels.and_then(|labels| labels.get(key));
    let values = expression.get("values").and_then(Value::as_array);
    let is_in = || values.is_some_and(|values| value.is_some_and(|one| values.contains(one)));
    match expression.get("operator").and_then(Value::as_str) {
        Some("In") => is_in(),
        Some("NotIn") => !is_in(),
        Some("Exists") => value.is_some(),
        Some("DoesNotExist") => value.is_none(),
        _ => true,
    }
}

fn restart_policy(checker: &mut Checker<'_>, template: &Map<String, Value>, allowed: &[&str]) {
    let spec = template.get("spec").and_then(Value::as_object);
    let policy = spec.map(|spec| text(spec, "restartPolicy")).unwrap_or_default();
    if spec.is_some() && !allowed.contains(&policy) {
        let names: Vec<&str> = allowed.iter().copied().filter(|name| !name.is_empty()).collect();
        let message = format!("`restartPolicy` of these pods must be {}", names.join(" or "));
        let below = if policy.is_empty() { "/template" } else { "/template/spec/restartPolicy" };
        checker.report_at(Problem::InvalidValue, below, message);
    }
}

pub(super) fn replication_controller(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let Some(template) = fields.get("template").and_then(Value::as_object) else { return };
    let labels = template_labels(template);
    let selector = fields.get("selector").and_then(Value::as_object);
    if selector.is_none_or(Map::is_empty) && labels.is_none_or(Map::is_empty) {
        let message = "a ReplicationController needs `selector`, or labels in its `template`";
        checker.report_missing("selector", message);
    }
    let missing = selector
        .into_iter()
        .flatten()
        .find(|(key, value)| labels.and_then(|labels| labels.get(*key)) != Some(*value));
    if let Some((key, _)) = missing {
        not_selected(checker, &format!("`{}`", shown(key)));
    }
    restart_policy(checker, template, &["", "Always"]);
}

/// A Deployment fails when it makes no progress for longer than its pods need to be ready.
pub(super) fn deadline(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    const DEFAULT_SECONDS: i64 = 600;
    let number = |name: &str| fields.get(name).and_then(Value::as_i64);
    let deadline = number("progressDeadlineSeconds").unwrap_or(DEFAULT_SECONDS);
    let least = number("minReadySeconds").unwrap_or_default();
    if least >= deadline && least > 0 {
        let message = format!(
            "`minReadySeconds` is {least}, and must be less than `progressDeadlineSeconds`, \
             {deadline}"
        );
        checker.report_at(Problem::InvalidValue, "/minReadySeconds", message);
    }
}

/// The templates of claims are volumes of the pods.
pub(super) fn claims(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let templates = items(fields, "volumeClaimTemplates").iter();
    let names = templates.filter_map(|claim| claim.pointer("/metadata/name")?.as_str());
    let claims: Vec<&str> = names.collect();
    let pod = fields.get("template").and_then(|one| one.get("spec"));
    if let Some(pod) = pod.and_then(Value::as_object) {
        pods::mounts(checker, "/template/spec", pod, &claims);
    }
}

/// `rollingUpdate` belongs to the type RollingUpdate.
pub(super) fn strategy(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let of = text(fields, "type");
    if matches!(of, "Recreate" | "OnDelete")
        && fields.get("rollingUpdate").is_some_and(|one| !one.is_null())
    {
        let message = format!("`rollingUpdate` is not allowed with the type {of}");
        checker.report_at(Problem::InvalidValue, "/rollingUpdate", message);
    }
}

/// A container that succeeded matches no rule for failures.
pub(super) fn exit_codes(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let index = items(fields, "values").iter().position(|one| one.as_i64() == Some(0));
    if let Some(index) = index.filter(|_| text(fields, "operator") == "In") {
        let message = "the operator In takes no exit code 0";
        checker.report_at(Problem::InvalidValue, &format!("/values/{index}"), message);
    }
}

pub(super) fn job(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    if let Some(template) = fields.get("template").and_then(Value::as_object) {
        restart_policy(checker, template, &["OnFailure", "Never"]);
    }
    let is_manual = fields.get("manualSelector") == Some(&Value::Bool(true));
    if fields.get("selector").is_some_and(|one| !one.is_null()) && !is_manual {
        let message = "a Job has a `selector` only with `manualSelector: true`; remove it";
        checker.report_at(Problem::InvalidValue, "/selector", message);
    }
    let is_indexed = text(fields, "completionMode") == "Indexed";
    if is_indexed && fields.get("completions").is_none_or(Value::is_null) {
        checker.report_missing("completions", "an indexed Job needs `completions`");
    }
    for name in ["backoffLimitPerIndex", "successPolicy", "maxFailedIndexes"] {
        if !is_indexed && fields.get(name).is_some_and(|one| !one.is_null()) {
            let message = format!("`{name}` needs `completionMode: Indexed`");
            checker.report_at(Problem::InvalidValue, &format!("/{name}"), message);
        }
    }
}
