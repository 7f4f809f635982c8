//! The rules of OCM's own fields: `deleteOption`, `executor`, `manifestConfigs`. The CRD's schema
//! says what is there, of what type and with which defaults; the rest is what the hub or the agent
//! would find out too late.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::Value;

use super::schema::{self, SchemaProblem};
use crate::limits;
use crate::model::diagnostic::Code;
use crate::text::truncate::truncate_chars;
use gitwork_api::names::check_subdomain;
use gitwork_api::work::manifest_work_spec_schema;
use gitwork_rules::cel::check as cel;
use gitwork_rules::jq;
use gitwork_rules::jsonpath;
use gitwork_rules::jsonpath::FieldRemoval;

/// The rule fields of a `manifestConfigs` entry (OCM: ManifestConfigOption), which a manifest
/// sidecar has too.
pub const RULE_FIELDS: [&str; 4] =
    ["feedbackRules", "updateStrategy", "conditionRules", "feedbackScrapeType"];

/// The fields of configuration files that OCM defines. [`crate::config::file`] checks them with the
/// rules of this module instead of the file's own schema.
pub const OCM_FIELDS: [&str; 7] = [
    "deleteOption",
    "executor",
    "manifestConfigs",
    "feedbackRules",
    "updateStrategy",
    "conditionRules",
    "feedbackScrapeType",
];

static SPEC: LazyLock<Value> = LazyLock::new(manifest_work_spec_schema);

fn spec_part(pointer: &str) -> &'static Value {
    SPEC.pointer(pointer).unwrap_or(&Value::Null)
}

fn problem(pointer: impl Into<String>, code: Code, message: impl Into<String>) -> SchemaProblem {
    SchemaProblem { pointer: pointer.into(), code, message: message.into(), hint: None, fix: None }
}

/// Checks a `spec.deleteOption`.
pub fn check_delete_option(value: &Value) -> Vec<SchemaProblem> {
    let mut problems = schema::check(value, spec_part("/properties/deleteOption"), &[]);
    let policy = value.get("propagationPolicy").and_then(Value::as_str).unwrap_or("Foreground");
    let rules = value.pointer("/selectivelyOrphans/orphaningRules").and_then(Value::as_array);
    if policy == "SelectivelyOrphan" && rules.is_none_or(Vec::is_empty) {
        problems.push(problem(
            "/propagationPolicy",
            Code::BadValue,
            "SelectivelyOrphan needs selectivelyOrphans.orphaningRules: without one every object \
             is deleted",
        ));
    }
    if policy != "SelectivelyOrphan" && value.get("selectivelyOrphans").is_some() {
        problems.push(problem(
            "/selectivelyOrphans",
            Code::NoEffect,
            format!(
                "selectivelyOrphans is without effect under propagationPolicy {}",
                shortened(policy)
            ),
        ));
    }
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        for field in ["name", "namespace", "resource"] {
            if rule.get(field).and_then(Value::as_str).is_some_and(|text| text.contains('*')) {
                problems.push(problem(
                    format!("/selectivelyOrphans/orphaningRules/{index}/{field}"),
                    Code::BadValue,
                    "orphaning rules take no wildcards: the agent would compare the text as it is",
                ));
            }
        }
    }
    problems
}

/// Checks a `spec.executor`.
pub fn check_executor(value: &Value) -> Vec<SchemaProblem> {
    let mut problems = schema::check(value, spec_part("/properties/executor"), &[]);
    let account = "/subject/serviceAccount";
    match value.pointer(account) {
        Some(account_value) => {
            for field in ["namespace", "name"] {
                if let Some(Err(why)) = account_value
                    .get(field)
                    .and_then(Value::as_str)
                    .map(|t| check_subdomain(t, 253))
                {
                    let at = format!("{account}/{field}");
                    // Says more than the schema's pattern.
                    problems.retain(|problem| problem.pointer != at);
                    problems.push(problem(at, Code::BadValue, format!("{field} {why}")));
                }
            }
        }
        None if value.is_object() => {
            problems.push(problem(
                "",
                Code::BadValue,
                "subject.serviceAccount is missing: the agent would apply nothing",
            ));
        }
        None => {}
    }
    problems
}

/// Checks a `resourceIdentifier`.
pub fn check_resource_identifier(value: &Value) -> Vec<SchemaProblem> {
    let schema = spec_part("/properties/manifestConfigs/items/properties/resourceIdentifier");
    let mut problems = schema::check(value, schema, &[]);
    if let Some(resource) = value.get("resource").and_then(Value::as_str)
        && resource != resource.to_lowercase()
    {
        problems.push(SchemaProblem {
            hint: Some("write the plural, as in kubectl api-resources: deployments".into()),
            ..problem(
                "/resource",
                Code::BadValue,
                format!("{:?} is no resource: that is lower case and plural", shortened(resource)),
            )
        });
    }
    problems
}

/// Checks a `manifestConfigs` entry but for its `resourceIdentifier`.
pub fn check_manifest_config(value: &Value) -> Vec<SchemaProblem> {
    let schema = spec_part("/properties/manifestConfigs/items");
    let mut problems = schema::check(value, schema, &["/resourceIdentifier"]);
    problems.retain(|p| !(p.pointer.is_empty() && p.message == "resourceIdentifier is missing"));
    check_rules(value, &mut problems);
    problems
}

/// Checks the rules of a manifest sidecar. Its other fields are not OCM's.
pub fn check_sidecar_rules(sidecar: &Value) -> Vec<SchemaProblem> {
    let mut problems = Vec::new();
    for field in RULE_FIELDS {
        let Some(value) = sidecar.get(field) else { continue };
        let schema = spec_part("/properties/manifestConfigs/items/properties").get(field);
        let found = schema::check(value, schema.unwrap_or(&Value::Null), &[]);
        problems.extend(
            found
                .into_iter()
                .map(|p| SchemaProblem { pointer: format!("/{field}{}", p.pointer), ..p }),
        );
    }
    check_rules(sidecar, &mut problems);
    problems
}

fn check_rules(value: &Value, problems: &mut Vec<SchemaProblem>) {
    check_feedback(value, problems);
    check_conditions(value, problems);
    check_update_strategy(value, problems);
}

/// A text of a file as a message shows it.
fn shortened(text: &str) -> Cow<'_, str> {
    truncate_chars(text, limits::MESSAGE_TEXT_CHARS_MAX)
}

fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    value.get(field).and_then(Value::as_array).into_iter().flatten().enumerate()
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

fn check_feedback(value: &Value, problems: &mut Vec<SchemaProblem>) {
    let mut names = BTreeSet::new();
    for (index, rule) in items(value, "feedbackRules") {
        let at = format!("/feedbackRules/{index}");
        let by_path = text(rule, "type") == Some("JSONPaths");
        let paths = rule.get("jsonPaths").and_then(Value::as_array);
        if by_path && paths.is_none_or(Vec::is_empty) {
            problems.push(problem(
                at.clone(),
                Code::BadValue,
                "a rule of type JSONPaths needs jsonPaths",
            ));
        }
        if !by_path && paths.is_some() && text(rule, "type").is_some() {
            let message = "jsonPaths is without effect: the rule is not of type JSONPaths";
            problems.push(problem(format!("{at}/jsonPaths"), Code::NoEffect, message));
        }
        for (path_index, path) in items(rule, "jsonPaths") {
            let at = format!("{at}/jsonPaths/{path_index}");
            if let Some(name) = text(path, "name")
                && !names.insert(name)
            {
                let message = format!(
                    "a second value named {:?}: the hub would refuse the whole status",
                    shortened(name)
                );
                problems.push(problem(format!("{at}/name"), Code::RuleConflict, message));
            }
            if let Some(Err(why)) = text(path, "path").map(jsonpath::check) {
                problems.push(problem(format!("{at}/path"), Code::BadJsonPath, why.to_string()));
            }
        }
    }
}

fn check_conditions(value: &Value, problems: &mut Vec<SchemaProblem>) {
    let mut conditions = BTreeSet::new();
    for (index, rule) in items(value, "conditionRules") {
        let at = |place: &str| format!("/conditionRules/{index}{place}");
        if let Some(condition) = text(rule, "condition")
            && !conditions.insert(condition)
        {
            let message = format!("a second rule for the condition {:?}", shortened(condition));
            problems.push(problem(at("/condition"), Code::RuleConflict, message));
        }
        if text(rule, "type") == Some("CEL") {
            if text(rule, "condition") == Some("") {
                problems.push(problem(
                    at("/condition"),
                    Code::BadValue,
                    "a CEL rule needs a condition",
                ));
            }
            if rule.get("celExpressions").and_then(Value::as_array).is_none_or(Vec::is_empty) {
                problems.push(problem(at(""), Code::BadValue, "a CEL rule needs celExpressions"));
            }
        }
        for (expression_index, expression) in items(rule, "celExpressions") {
            if let Some(Err(why)) = expression.as_str().map(|text| cel::check(text, &["object"])) {
                problems.push(problem(
                    at(&format!("/celExpressions/{expression_index}")),
                    Code::BadCel,
                    why.to_string(),
                ));
            }
        }
        if let Some(Err(why)) =
            text(rule, "messageExpression").map(|text| cel::check(text, &["object", "result"]))
        {
            problems.push(problem(at("/messageExpression"), Code::BadCel, why.to_string()));
        }
    }
}

fn check_update_strategy(value: &Value, problems: &mut Vec<SchemaProblem>) {
    let Some(strategy) = value.get("updateStrategy") else { return };
    let at = "/updateStrategy/serverSideApply";
    let Some(apply) = strategy.get("serverSideApply") else { return };
    let kind = text(strategy, "type").unwrap_or("Update");
    if kind != "ServerSideApply" {
        let message = format!("serverSideApply is without effect under type {}", shortened(kind));
        problems.push(problem(at, Code::NoEffect, message));
    }
    let mut conditions = BTreeSet::new();
    for (index, fields) in items(apply, "ignoreFields") {
        let at = format!("{at}/ignoreFields/{index}");
        let condition = text(fields, "condition").unwrap_or("OnSpokePresent");
        if !conditions.insert(condition) {
            let message = format!("a second entry for the condition {}", shortened(condition));
            problems.push(problem(at.clone(), Code::RuleConflict, message));
        }
        for (path_index, path) in items(fields, "jsonPaths") {
            if let Some(Err(why)) = path.as_str().map(FieldRemoval::parse) {
                problems.push(problem(
                    format!("{at}/jsonPaths/{path_index}"),
                    Code::BadJsonPath,
                    why.to_string(),
                ));
            }
        }
        for (pointer_index, pointer) in items(fields, "jsonPointers") {
            if pointer.as_str().is_some_and(|p| !is_json_pointer(p)) {
                let message =
                    "a JSON pointer starts with '/' and writes '~' as ~0 and '/' as ~1 (RFC 6901)";
                problems.push(problem(
                    format!("{at}/jsonPointers/{pointer_index}"),
                    Code::BadValue,
                    message,
                ));
            }
        }
        for (path_index, path) in items(fields, "jqPathExpressions") {
            if let Some(Err(why)) = path.as_str().map(jq::check) {
                problems.push(problem(
                    format!("{at}/jqPathExpressions/{path_index}"),
                    Code::BadValue,
                    format!("the agent could not use this jq expression: {why}"),
                ));
            }
        }
    }
}

fn is_json_pointer(text: &str) -> bool {
    text.starts_with('/') && text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']))
}

/// OCM's wildcard: `*` stands for any run of characters, the empty one included (OCM work agent,
/// matching of `resourceIdentifier`).
pub fn wildcard(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(text) = text.strip_prefix(first) else { return false };
    // It is also the last part of what the middle leaves.
    let Some(mut text) = text.strip_suffix(last) else { return false };
    for part in middle.split('*') {
        match text.find(part) {
            Some(at) => text = text.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(problems: &[SchemaProblem]) -> Vec<(&str, Code)> {
        problems.iter().map(|p| (p.pointer.as_str(), p.code)).collect()
    }

    #[test]
    fn wildcards() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "abc", true),
            ("web", "web", true),
            ("web", "web2", false),
            ("web-*", "web-1", true),
            ("*-web", "a-web", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(wildcard(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn delete_options() {
        assert_eq!(found(&check_delete_option(&json!({"propagationPolicy": "Orphan"}))), []);
        assert_eq!(
            found(&check_delete_option(&json!({"propagationPolicy": "Orphann"}))),
            [("/propagationPolicy", Code::BadValue)]
        );
        assert_eq!(
            found(&check_delete_option(&json!({"propagationPolicy": "SelectivelyOrphan"}))),
            [("/propagationPolicy", Code::BadValue)]
        );
        let rules =
            json!({"orphaningRules": [{"resource": "pods"}, {"resource": "pods", "name": "*"}]});
        assert_eq!(
            found(&check_delete_option(
                &json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": rules})
            )),
            [
                ("/selectivelyOrphans/orphaningRules/0", Code::BadValue),
                ("/selectivelyOrphans/orphaningRules/1/name", Code::BadValue)
            ]
        );
    }

    #[test]
    fn manifest_configs() {
        let config = json!({
            "feedbackRules": [
                {
                    "type": "JSONPaths",
                    "jsonPaths": [{"name": "a", "path": ".status.x"}, {"name": "a", "path": "["}],
                },
                {"type": "WellKnownStatus", "jsonPaths": []},
                {"type": "JSONPaths"},
            ],
            "conditionRules": [
                {"condition": "Ready", "type": "CEL", "celExpressions": ["object.a =="]},
            ],
            "updateStrategy": {
                "type": "Update",
                "serverSideApply": {"fieldManager": "me", "forc": true},
            },
        });
        let problems = check_manifest_config(&config);
        for expected in [
            ("/updateStrategy/serverSideApply/forc", Code::UnknownField),
            ("/feedbackRules/0/jsonPaths/1/name", Code::RuleConflict),
            ("/feedbackRules/0/jsonPaths/1/path", Code::BadJsonPath),
            ("/feedbackRules/1/jsonPaths", Code::NoEffect),
            ("/feedbackRules/2", Code::BadValue),
            ("/conditionRules/0/celExpressions/0", Code::BadCel),
            ("/updateStrategy/serverSideApply", Code::NoEffect),
            ("/updateStrategy/serverSideApply/fieldManager", Code::BadValue),
        ] {
            assert!(found(&problems).contains(&expected), "{expected:?} in {problems:?}");
        }
        assert_eq!(problems.len(), 8, "{problems:?}");
    }
}
