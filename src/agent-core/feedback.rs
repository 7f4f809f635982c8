//! Status feedback: values of a live object that the hub asks for.

use gitwork_api::work::{
    FeedbackRule, FeedbackType, FeedbackValue, FieldValue, JsonPath, ValueType,
};
use serde_json::Value;

use super::condition::{FEEDBACK_SYNCED, NewCondition};
use super::object::{Object, group_version, gvk, text};
use gitwork_rules::jsonpath::{EvaluateError, JsonPathError, JsonPathQuery};

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
}

/// Evaluates all rules of one object. A path that fails does not stop the others.
pub fn evaluate_feedback(
    live: &Object,
    value: &Value,
    rules: &[FeedbackRule],
    raw: RawJsonFeedback,
) -> EvaluatedFeedback {
    let mut values: Vec<FeedbackValue> = Vec::new();
    let mut errors: Vec<String> = Vec::new();
    for rule in rules {
        match &rule.type_ {
            FeedbackType::WellKnownStatus => match well_known(live) {
                Some(paths) => {
                    for (name, path) in paths {
                        let path = JsonPath {
                            name: (*name).into(),
                            path: (*path).into(),
                            ..JsonPath::default()
                        };
                        collect(evaluate(live, value, &path, raw), &mut values, &mut errors);
                    }
                }
                None => errors.push(format!(
                    "cannot find the wellknown statuses for resource with gvk {}",
                    gvk(live)
                )),
            },
            FeedbackType::JSONPaths => {
                for path in &rule.json_paths {
                    collect(evaluate(live, value, path, raw), &mut values, &mut errors);
                }
            }
            FeedbackType::Other(_) => {}
        }
    }
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

fn collect(
    outcome: Result<Option<FeedbackValue>, FeedbackError>,
    values: &mut Vec<FeedbackValue>,
    errors: &mut Vec<String>,
) {
    match outcome {
        // The API server refuses a status with two values of one name, and with it the whole work's
        // status.
        Ok(Some(value)) if values.iter().any(|other| other.name == value.name) => {
            errors.push(format!("the name {} is used by more than one feedback value", value.name));
        }
        Ok(value) => values.extend(value),
        Err(error) => errors.push(error.to_string()),
    }
}

/// One error as it is, several distinct ones as a list: as Kubernetes' aggregate prints them.
pub fn aggregate(errors: &[String]) -> Option<String> {
    let mut distinct: Vec<&str> = Vec::new();
    for error in errors {
        if !distinct.contains(&error.as_str()) {
            distinct.push(error);
        }
    }
    match distinct.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

type NamedPath = (&'static str, &'static str);

const DEPLOYMENT: &[NamedPath] = &[
    ("ReadyReplicas", ".status.readyReplicas"),
    ("Replicas", ".status.replicas"),
    ("AvailableReplicas", ".status.availableReplicas"),
];
const DAEMON_SET: &[NamedPath] = &[
    ("NumberReady", ".status.numberReady"),
    ("DesiredNumberScheduled", ".status.desiredNumberScheduled"),
    ("NumberAvailable", ".status.numberAvailable"),
];
const JOB: &[NamedPath] = &[
    ("JobComplete", r#".status.conditions[?(@.type=="Complete")].status"#),
    ("JobSucceeded", ".status.succeeded"),
];
const POD: &[NamedPath] = &[
    ("PodReady", r#".status.conditions[?(@.type=="Ready")].status"#),
    ("PodPhase", ".status.phase"),
];

fn well_known(live: &Object) -> Option<&'static [NamedPath]> {
    match (text(live, &["apiVersion"]), text(live, &["kind"])) {
        ("apps/v1", "Deployment") => Some(DEPLOYMENT),
        ("apps/v1", "DaemonSet") => Some(DAEMON_SET),
        ("batch/v1", "Job") => Some(JOB),
        ("v1", "Pod") => Some(POD),
        _ => None,
    }
}

fn evaluate(
    live: &Object,
    value: &Value,
    rule: &JsonPath,
    raw: RawJsonFeedback,
) -> Result<Option<FeedbackValue>, FeedbackError> {
    let JsonPath { name, version, path, .. } = rule;
    let (_, live_version) = group_version(text(live, &["apiVersion"]));
    if !version.is_empty() && version != live_version {
        return Err(FeedbackError::Version { name: name.clone() });
    }
    let parsed = JsonPathQuery::parse(path).map_err(|error| FeedbackError::Path {
        name: name.clone(),
        path: path.clone(),
        error,
    })?;
    let matches =
        parsed.find(value).map_err(|error| FeedbackError::Find { name: name.clone(), error })?;
    let value = match matches.as_slice() {
        [] => return Ok(None),
        [first, ..] if !raw.enabled => (*first).clone(),
        [one] => (*one).clone(),
        several => Value::Array(several.iter().map(|one| (*one).clone()).collect()),
    };
    field_value(name, &value, raw).map(|value| {
        value.map(|field_value| FeedbackValue {
            name: name.clone(),
            field_value,
            ..FeedbackValue::default()
        })
    })
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
fn go_json(value: &Value) -> String {
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
        evaluate_feedback(live, &Value::Object(live.clone()), rules, raw)
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
    fn gotcha_15_one_bad_path_keeps_the_good_values() {
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
    fn gotcha_15_duplicate_names_do_not_block_the_status() {
        let found =
            feedback(&deployment(), &paths(&[("n", ".spec.replicas"), ("n", ".spec.paused")]), OFF);
        assert_eq!(found.values.len(), 1);
        assert_eq!(found.synced.status, "False");
    }

    #[test]
    fn gotcha_15_raw_json_is_as_go_writes_it() {
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
