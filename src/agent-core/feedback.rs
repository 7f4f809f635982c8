//! Status feedback: values of a live object that the hub asks for.

use std::collections::HashSet;

use gitwork_api::secret::is_hidden;
use gitwork_api::work::{
    FeedbackRule, FeedbackType, FeedbackValue, FieldValue, JsonPath, ValueType,
};
use serde_json::Value;

use super::condition::{FEEDBACK_SYNCED, NewCondition};
use super::object::{Object, group_version, gvk, text};
use gitwork_rules::jsonpath::{EvaluateError, JsonPathError, JsonPathQuery};
use gitwork_rules::limits::JSONPATH_OBJECT_STEPS_MAX;
use gitwork_rules::well_known::status_paths;

/// What may be sent as raw JSON: with the feature gate `RawFeedbackJsonString`, up to a number of
/// bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawJsonFeedback {
    /// Whether the feature gate is on. Values that are no scalar fail without it.
    pub enabled: bool,
    /// The longest value, in bytes of JSON (`--max-json-raw-length`).
    pub bytes_max: usize,
}

/// Values and how it went.
#[derive(Debug, Clone, PartialEq)]
pub struct EvaluatedFeedback {
    /// `statusFeedback.values`, in the order of the rules; no two have the same name.
    pub values: Vec<FeedbackValue>,
    /// `StatusFeedbackSynced`.
    pub synced: NewCondition,
}

/// An object whose fields are reported.
pub struct FeedbackObject<'a> {
    /// The live object.
    pub live: &'a Object,
    /// Its fields as rules may see them.
    pub value: &'a Value,
    /// Whether values of Secrets are hidden in `value`.
    pub is_redacted: bool,
}

/// Why a path of a rule has no value, in the words of OCM's agent. `name` is the path's name.
#[derive(Debug, thiserror::Error)]
enum FeedbackError {
    #[error("version set in the path {name} is not matched for the related resource")]
    Version { name: String },
    #[error("failed to parse json path {path} of {name} with error: {error}")]
    Path { name: String, path: String, error: JsonPathError },
    #[error("failed to find value for {name} with error: {error}")]
    Find { name: String, error: EvaluateError },
    #[error("the type {go_type} of the value for {name} is not found")]
    Type { name: String, go_type: &'static str },
    #[error(
        "the length of returned json raw string for name {name} \
         is larger than the maximum length {bytes_max}"
    )]
    TooLong { name: String, bytes_max: usize },
    #[error(
        "the value of {name} is from a Secret; the agent reports it only if an operator sets \
         --report-secret-values"
    )]
    Secret { name: String },
    #[error("the name {name} is used by more than one feedback value")]
    DuplicateName { name: String },
    #[error(
        "the feedback values of this object have more than {FEEDBACK_BYTES_MAX} bytes; \
         {name} is left out: select less"
    )]
    TooMuch { name: String },
    #[error(
        "the paths of this object need more than {JSONPATH_OBJECT_STEPS_MAX} steps together; \
         {name} and the paths after it have no value: use fewer wildcards and '..'"
    )]
    TooManySteps { name: String },
}

/// Bytes of the feedback values of one object. etcd stores a work with its status in 1.5 MiB; one
/// object must not fill it.
pub const FEEDBACK_BYTES_MAX: usize = 128 * 1024;

/// Evaluates all rules of one object. A path that fails does not stop the others.
pub fn evaluate_feedback(
    object: &FeedbackObject<'_>,
    rules: &[FeedbackRule],
    raw: RawJsonFeedback,
) -> EvaluatedFeedback {
    let mut collected = Collected { steps: JSONPATH_OBJECT_STEPS_MAX, ..Collected::default() };
    for rule in rules {
        match &rule.type_ {
            FeedbackType::WellKnownStatus => {
                match status_paths(text(object.live, &["apiVersion"]), text(object.live, &["kind"]))
                {
                    Some(paths) => {
                        for (name, path) in paths {
                            let path = JsonPath {
                                name: (*name).into(),
                                path: (*path).into(),
                                ..JsonPath::default()
                            };
                            collected.evaluate(object, &path, raw);
                        }
                    }
                    None => collected.errors.push(format!(
                        "cannot find the wellknown statuses for resource with gvk {}",
                        gvk(object.live)
                    )),
                }
            }
            FeedbackType::JSONPaths => {
                for path in &rule.json_paths {
                    collected.evaluate(object, path, raw);
                }
            }
            FeedbackType::Other(_) => {}
        }
    }
    let Collected { values, errors, .. } = collected;
    let synced = match (rules.is_empty(), aggregate(&errors)) {
        (true, _) => NewCondition::new(FEEDBACK_SYNCED, "True", "NoStatusFeedbackSynced", ""),
        (_, None) => NewCondition::new(FEEDBACK_SYNCED, "True", "StatusFeedbackSynced", ""),
        (_, Some(error)) => NewCondition::new(
            FEEDBACK_SYNCED,
            "False",
            "StatusFeedbackSyncFailed",
            format!("Sync status feedback failed with error {error}"),
        ),
    };
    EvaluatedFeedback { values, synced }
}

/// The values and errors of the paths so far, and what the rest may cost.
#[derive(Default)]
struct Collected {
    values: Vec<FeedbackValue>,
    names: HashSet<String>,
    bytes: usize,
    errors: Vec<String>,
    /// The steps that are left; 0: no more paths are evaluated.
    steps: usize,
}

impl Collected {
    fn evaluate(&mut self, object: &FeedbackObject<'_>, path: &JsonPath, raw: RawJsonFeedback) {
        if self.steps == 0 {
            return;
        }
        let outcome = evaluate(object, path, raw, &mut self.steps);
        if let Err(error) = outcome.and_then(|value| value.map_or(Ok(()), |one| self.add(one))) {
            self.errors.push(error.to_string());
        }
    }

    fn add(&mut self, value: FeedbackValue) -> Result<(), FeedbackError> {
        let FeedbackValue { name, field_value, .. } = &value;
        // The API server refuses a status with two values of one name, and with it the whole
        // work's status.
        if self.names.contains(name) {
            return Err(FeedbackError::DuplicateName { name: name.clone() });
        }
        let texts = [&field_value.string, &field_value.json_raw];
        let bytes = name.len() + texts.into_iter().flatten().map(String::len).sum::<usize>();
        if self.bytes + bytes > FEEDBACK_BYTES_MAX {
            return Err(FeedbackError::TooMuch { name: name.clone() });
        }
        self.bytes += bytes;
        self.names.insert(name.clone());
        self.values.push(value);
        Ok(())
    }
}

/// One error as it is, several distinct ones as a list: as Kubernetes' aggregate prints them.
pub fn aggregate(errors: &[String]) -> Option<String> {
    let mut seen: HashSet<&str> = HashSet::new();
    let texts = errors.iter().map(String::as_str);
    let distinct: Vec<&str> = texts.filter(|error| seen.insert(error)).collect();
    match distinct.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

fn evaluate(
    object: &FeedbackObject<'_>,
    rule: &JsonPath,
    raw: RawJsonFeedback,
    steps: &mut usize,
) -> Result<Option<FeedbackValue>, FeedbackError> {
    let JsonPath { name, version, path, .. } = rule;
    let (_, live_version) = group_version(text(object.live, &["apiVersion"]));
    if !version.is_empty() && version != live_version {
        return Err(FeedbackError::Version { name: name.clone() });
    }
    let parsed = JsonPathQuery::parse(path).map_err(|error| FeedbackError::Path {
        name: name.clone(),
        path: path.clone(),
        error,
    })?;
    let found = parsed.find_within(object.value, steps);
    if *steps == 0 {
        return Err(FeedbackError::TooManySteps { name: name.clone() });
    }
    let matches = found.map_err(|error| FeedbackError::Find { name: name.clone(), error })?;
    let value = match matches.as_slice() {
        [] => return Ok(None),
        [first, ..] if !raw.enabled => (*first).clone(),
        [one] => (*one).clone(),
        several => Value::Array(several.iter().map(|one| (*one).clone()).collect()),
    };
    if object.is_redacted && has_hidden(&value) {
        return Err(FeedbackError::Secret { name: name.clone() });
    }
    field_value(name, &value, raw).map(|value| {
        value.map(|field_value| FeedbackValue {
            name: name.clone(),
            field_value,
            ..FeedbackValue::default()
        })
    })
}

fn has_hidden(value: &Value) -> bool {
    match value {
        Value::String(text) => is_hidden(text),
        Value::Array(items) => items.iter().any(has_hidden),
        Value::Object(fields) => fields.values().any(has_hidden),
        _ => false,
    }
}

fn field_value(
    name: &str,
    value: &Value,
    raw: RawJsonFeedback,
) -> Result<Option<FieldValue>, FeedbackError> {
    let go_type = match value {
        Value::Null => return Ok(None),
        Value::String(string) => {
            return Ok(Some(FieldValue {
                type_: ValueType::String,
                string: Some(string.clone()),
                ..FieldValue::default()
            }));
        }
        Value::Bool(boolean) => {
            return Ok(Some(FieldValue {
                type_: ValueType::Boolean,
                boolean: Some(*boolean),
                ..FieldValue::default()
            }));
        }
        Value::Number(number) => match number.as_i64() {
            Some(integer) => {
                return Ok(Some(FieldValue {
                    type_: ValueType::Integer,
                    integer: Some(integer),
                    ..FieldValue::default()
                }));
            }
            None => "float64",
        },
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    if !raw.enabled {
        return Err(FeedbackError::Type { name: name.to_owned(), go_type });
    }
    let json_raw = go_json(value);
    if json_raw.len() > raw.bytes_max {
        return Err(FeedbackError::TooLong { name: name.to_owned(), bytes_max: raw.bytes_max });
    }
    Ok(Some(FieldValue {
        type_: ValueType::JsonRaw,
        json_raw: Some(json_raw),
        ..FieldValue::default()
    }))
}

/// JSON as Go writes it: sorted keys, and escapes for what HTML would take amiss. These characters
/// stand in strings only, so the text as a whole can be searched.
pub(crate) fn go_json(value: &Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::object::tests::object;
    use super::*;

    fn feedback(live: &Object, rules: &[FeedbackRule], raw: RawJsonFeedback) -> EvaluatedFeedback {
        let value = Value::Object(live.clone());
        evaluate_feedback(&FeedbackObject { live, value: &value, is_redacted: false }, rules, raw)
    }

    const OFF: RawJsonFeedback = RawJsonFeedback { enabled: false, bytes_max: 1024 };
    const ON: RawJsonFeedback = RawJsonFeedback { enabled: true, bytes_max: 30 };

    fn paths(paths: &[(&str, &str)]) -> Vec<FeedbackRule> {
        let paths: Vec<Value> =
            paths.iter().map(|(name, path)| json!({"name": name, "path": path})).collect();
        vec![serde_json::from_value(json!({"type": "JSONPaths", "jsonPaths": paths})).unwrap()]
    }

    fn well_known_rule() -> Vec<FeedbackRule> {
        vec![serde_json::from_value(json!({"type": "WellKnownStatus"})).unwrap()]
    }

    fn deployment() -> Object {
        object(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 3, "paused": true, "args": ["a<b", 1], "ratio": 1.5},
            "status": {"readyReplicas": 2, "replicas": 3}}))
    }

    #[test]
    fn well_known_statuses() {
        let found = feedback(&deployment(), &well_known_rule(), OFF);
        assert_eq!(
            serde_json::to_value(&found.values).unwrap(),
            json!([
                {"name": "ReadyReplicas", "fieldValue": {"type": "Integer", "integer": 2}},
                {"name": "Replicas", "fieldValue": {"type": "Integer", "integer": 3}},
            ])
        );
        assert_eq!((found.synced.status, found.synced.reason), ("True", "StatusFeedbackSynced"));
        let job =
            object(json!({"apiVersion": "batch/v1", "kind": "Job", "status": {"succeeded": 1,
            "conditions": [{"type": "Failed", "status": "False"},
                {"type": "Complete", "status": "True"}]}}));
        assert_eq!(
            serde_json::to_value(feedback(&job, &well_known_rule(), OFF).values).unwrap(),
            json!([
                {"name": "JobComplete", "fieldValue": {"type": "String", "string": "True"}},
                {"name": "JobSucceeded", "fieldValue": {"type": "Integer", "integer": 1}},
            ])
        );
        let account = object(json!({"apiVersion": "v1", "kind": "ServiceAccount"}));
        let found = feedback(&account, &well_known_rule(), OFF);
        assert_eq!(
            found.synced.message,
            "Sync status feedback failed with error cannot find the wellknown statuses \
             for resource with gvk /v1, Kind=ServiceAccount"
        );
    }

    #[test]
    fn one_bad_path_keeps_the_good_values() {
        let rules = paths(&[
            ("paused", ".spec.paused"),
            ("list", ".spec.args"),
            ("gone", ".spec.gone"),
            ("ratio", ".spec.ratio"),
        ]);
        let found = feedback(&deployment(), &rules, OFF);
        assert_eq!(
            serde_json::to_value(&found.values).unwrap(),
            json!([{"name": "paused", "fieldValue": {"type": "Boolean", "boolean": true}}])
        );
        assert_eq!(
            found.synced.message,
            "Sync status feedback failed with error \
             [the type []interface {} of the value for list is not found, \
             the type float64 of the value for ratio is not found]"
        );
    }

    #[test]
    fn duplicate_names_do_not_block_the_status() {
        let found =
            feedback(&deployment(), &paths(&[("n", ".spec.replicas"), ("n", ".spec.paused")]), OFF);
        assert_eq!(found.values.len(), 1);
        assert_eq!(found.synced.status, "False");
    }

    #[test]
    fn raw_json_is_as_go_writes_it() {
        let found = feedback(
            &deployment(),
            &paths(&[("args", ".spec.args"), ("status", ".status"), ("ratio", ".spec.ratio")]),
            ON,
        );
        assert_eq!(
            serde_json::to_value(&found.values).unwrap(),
            json!([
                {"name": "args", "fieldValue": {"type": "JsonRaw", "jsonRaw": r#"["a\u003cb",1]"#}},
                {"name": "ratio", "fieldValue": {"type": "JsonRaw", "jsonRaw": "1.5"}},
            ])
        );
        assert!(found.synced.message.ends_with(
            "the length of returned json raw string for name status \
             is larger than the maximum length 30"
        ));
    }

    #[test]
    fn paths_of_one_object_are_bounded_together() {
        let items: Vec<Value> = (0..30_000).map(|item| json!({"a": item})).collect();
        let live = object(json!({"apiVersion": "v1", "kind": "A", "items": items}));
        let many: Vec<(String, &str)> =
            (0..35_000).map(|path| (format!("p{path}"), ".items[*].a")).collect();
        let many: Vec<(&str, &str)> =
            many.iter().map(|(name, path)| (name.as_str(), *path)).collect();
        let found = feedback(&live, &paths(&many), OFF);
        let (count, message) = (found.values.len(), found.synced.message);
        // Each path takes some 60,000 steps here.
        assert!((60..70).contains(&count), "{count}");
        let expected = format!(
            "Sync status feedback failed with error the paths of this object need more than \
             {JSONPATH_OBJECT_STEPS_MAX} steps together; p{count} and the paths after it have no \
             value: use fewer wildcards and '..'"
        );
        assert_eq!(message, expected);
    }

    #[test]
    fn values_of_one_object_are_bounded_together() {
        let long = "x".repeat(50_000);
        let live = object(json!({"apiVersion": "v1", "kind": "A", "long": long, "short": "s"}));
        let all = paths(&[("a", ".long"), ("b", ".long"), ("c", ".long"), ("d", ".short")]);
        let found = feedback(&live, &all, OFF);
        let names: Vec<&str> = found.values.iter().map(|value| value.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "d"]);
        assert!(found.synced.message.ends_with("131072 bytes; c is left out: select less"));
    }

    #[test]
    fn a_version_that_is_not_the_objects() {
        let rules: Vec<FeedbackRule> = vec![
            serde_json::from_value(json!({"type": "JSONPaths",
                "jsonPaths": [{"name": "a", "path": ".spec", "version": "v2"}]}))
            .unwrap(),
        ];
        assert!(
            feedback(&deployment(), &rules, OFF)
                .synced
                .message
                .ends_with("version set in the path a is not matched for the related resource")
        );
        assert_eq!(feedback(&deployment(), &[], OFF).synced.reason, "NoStatusFeedbackSynced");
    }
}
