//! Extensions of the API server, and its flow control.

use serde_json::{Map, Value};

use crate::checker::{Checker, is_missing};
use crate::fields::{items, text};
use crate::finding::{Problem, shown};

/// The field that belongs to the kind of a subject.
pub(super) fn flow_subject(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let field = match text(fields, "kind") {
        "User" => "user",
        "Group" => "group",
        "ServiceAccount" => "serviceAccount",
        _ => return,
    };
    if is_missing(fields.get(field)) {
        let message = format!("a subject of this kind needs `{field}`");
        checker.report_missing(field, message);
    }
    for other in ["user", "group", "serviceAccount"].iter().filter(|other| **other != field) {
        if !is_missing(fields.get(*other)) {
            let message = format!("a subject of this kind has no `{other}`");
            checker.report_at(Problem::InvalidValue, &format!("/{other}"), message);
        }
    }
}

pub(super) fn priority_level(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let is_limited = text(fields, "type") == "Limited";
    if is_limited && is_missing(fields.get("limited")) {
        checker.report_missing("limited", "a level of type Limited needs `limited`");
    }
}

pub(super) fn limit_response(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let has_queuing = !is_missing(fields.get("queuing"));
    match text(fields, "type") {
        "Queue" if !has_queuing => {
            checker.report_missing("queuing", "a response of type Queue needs `queuing`");
        }
        "Reject" if has_queuing => {
            let message = "a response of type Reject has no `queuing`";
            checker.report_at(Problem::InvalidValue, "/queuing", message);
        }
        _ => {}
    }
}

pub(super) fn admission_policy(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let Some(Value::Object(constraints)) = fields.get("matchConstraints") else { return };
    if is_missing(constraints.get("resourceRules")) {
        let message = "`matchConstraints` of a policy need `resourceRules`";
        checker.report_at(Problem::MissingField, "/matchConstraints/resourceRules", message);
    }
}

/// A wildcard stands alone.
pub(super) fn wildcards(checker: &mut Checker<'_>, fields: &Map<String, Value>, names: &[&str]) {
    for name in names {
        let all = items(fields, name);
        if all.len() > 1 && all.iter().any(|one| one == "*") {
            let message = format!("`{name}` has *, which must be its only item");
            checker.report_at(Problem::InvalidValue, &format!("/{name}"), message);
        }
    }
}

pub(super) fn api_service(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let skips = fields.get("insecureSkipTLSVerify") == Some(&Value::Bool(true));
    if skips && is_missing(fields.get("service")) {
        let message = "an APIService without `service` has no `insecureSkipTLSVerify`";
        checker.report_at(Problem::InvalidValue, "/insecureSkipTLSVerify", message);
    }
    if skips && !is_missing(fields.get("caBundle")) {
        let message = "`caBundle` and `insecureSkipTLSVerify` exclude each other";
        checker.report_at(Problem::InvalidValue, "/insecureSkipTLSVerify", message);
    }
}

/// The versions of a CRD: one is stored, and no name occurs twice.
pub(super) fn crd(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let versions = items(fields, "versions");
    let is_true = |one: &&Value, name: &str| one.get(name) == Some(&Value::Bool(true));
    let stored = versions.iter().filter(|one| is_true(one, "storage")).count();
    if !versions.is_empty() && stored != 1 {
        let message = format!("{stored} versions have `storage: true`; one must have it");
        checker.report_at(Problem::InvalidValue, "/versions", message);
    }
    let group = text(fields, "group");
    if !group.is_empty() && !group.contains('.') {
        let message = format!("the group {:?} must be a domain with a dot", shown(group));
        checker.report_at(Problem::InvalidValue, "/group", message);
    }
    if fields.get("preserveUnknownFields") == Some(&Value::Bool(true)) {
        let message = "`preserveUnknownFields: true` is not allowed; set \
                       `x-kubernetes-preserve-unknown-fields` in the schema";
        checker.report_at(Problem::InvalidValue, "/preserveUnknownFields", message);
    }
}

/// A schema must be structural: types everywhere, and at its root `object`.
pub(super) fn crd_schema(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let Some(Value::Object(schema)) = fields.get("openAPIV3Schema") else { return };
    if text(schema, "type") != "object" {
        let message = "a schema must have `type: object` at its root";
        checker.report_at(Problem::MissingField, "/openAPIV3Schema/type", message);
    }
    checker.below("openAPIV3Schema", |checker| structure(checker, schema, true));
}

/// Checks a part of a schema.
fn structure(checker: &mut Checker<'_>, schema: &Map<String, Value>, is_root: bool) {
    if !checker.may_go_on() {
        return;
    }
    let is_true = |name: &str| schema.get(name) == Some(&Value::Bool(true));
    let of = text(schema, "type");
    let is_free =
        is_true("x-kubernetes-int-or-string") || is_true("x-kubernetes-preserve-unknown-fields");
    if of.is_empty() && !is_free && !is_root {
        checker.report_missing("type", "a schema needs `type`");
    }
    if !of.is_empty() && is_true("x-kubernetes-int-or-string") {
        let message = "`type` and `x-kubernetes-int-or-string` exclude each other";
        checker.report(Problem::InvalidValue, message);
    }
    const TYPES: &[&str] = &["", "array", "boolean", "integer", "number", "object", "string"];
    if !TYPES.contains(&of) {
        let near = crate::suggest::did_you_mean(of, TYPES.iter().copied());
        let message = format!("{:?} is not a type of a schema{near}", shown(of));
        checker.report_at(Problem::InvalidValue, "/type", message);
    }
    if of == "array" && is_missing(schema.get("items")) {
        checker.report_missing("items", "a schema of type array needs `items`");
    }
    if let Some(Value::Object(properties)) = schema.get("properties") {
        checker.below("properties", |checker| {
            for (name, one) in properties {
                if let Value::Object(one) = one {
                    checker.below(name, |checker| structure(checker, one, false));
                }
            }
        });
    }
    for name in ["items", "additionalProperties"] {
        if let Some(Value::Object(one)) = schema.get(name) {
            checker.below(name, |checker| structure(checker, one, false));
        }
    }
}
