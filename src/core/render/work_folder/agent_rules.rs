//! What the agent would find out about the rules of a work's objects: known here, because the
//! manifests are.

use serde_json::Value;

use super::checks::location;
use super::diagnostics::WorkDiagnostics;
use crate::model::diagnostic::{Code, Location};
use crate::model::manifest::{Identity, Manifest};
use crate::model::name::RepoPath;
use gitwork_rules::{jq, well_known};

/// Work of all jq expressions of one work folder. Expressions beyond it are only parsed.
const JQ_WORK_MAX: usize = 1_000_000;

/// Reports rules that have no effect on their object, and jq expressions that the agent could not
/// use. `configs` are in the order of the manifests.
pub fn check_agent_rules(
    manifests: &[Manifest],
    configs: &[Value],
    diagnostics: &mut WorkDiagnostics<'_>,
) {
    let mut manifests = manifests.iter();
    let mut jq_work = JQ_WORK_MAX;
    for config in configs {
        let identity = Identity::of_value(config.get("resourceIdentifier"));
        let Some(manifest) = manifests.find(|one| one.identity == identity) else { return };
        check_well_known(manifest, config, diagnostics);
        check_jq(manifest, config, &mut jq_work, diagnostics);
    }
}

fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn check_well_known(manifest: &Manifest, config: &Value, diagnostics: &mut WorkDiagnostics<'_>) {
    let Manifest { api_version, kind, .. } = manifest;
    let by_status = |rule: &Value| text(rule, "type") == "WellKnownStatus";
    if items(config, "/feedbackRules").any(by_status)
        && well_known::status_paths(api_version, kind).is_none()
    {
        let message = format!(
            "the feedback rule WellKnownStatus reports nothing for {api_version} {kind}, and the \
             agent reports an error: use JSONPaths"
        );
        diagnostics.add(Code::NoEffect, location(manifest), message);
    }
    for rule in items(config, "/conditionRules") {
        let condition = text(rule, "condition");
        if text(rule, "type") == "WellKnownConditions"
            && !well_known::has_condition(api_version, kind, condition)
        {
            let message = format!(
                "the condition rule WellKnownConditions sets no condition {condition:?} for \
                 {api_version} {kind}: use CEL"
            );
            diagnostics.add(Code::NoEffect, location(manifest), message);
        }
    }
}

/// Removes the fields that the agent would remove, and reports the agent's error.
fn check_jq(
    manifest: &Manifest,
    config: &Value,
    work: &mut usize,
    diagnostics: &mut WorkDiagnostics<'_>,
) {
    let mut object = None;
    for rule in items(config, "/updateStrategy/serverSideApply/ignoreFields") {
        if text(rule, "condition") == "OnSpokeChange" {
            continue;
        }
        for expression in items(rule, "/jqPathExpressions").filter_map(Value::as_str) {
            if *work == 0 {
                return;
            }
            let before = object.take().unwrap_or_else(|| manifest.object.clone());
            match jq::delete_within(expression, before, work) {
                Ok(after) => object = Some(after),
                Err(_) if *work == 0 => return,
                Err(problem) => {
                    let message = format!("JQ expression error in '{expression}': {problem}");
                    diagnostics.add(Code::BadValue, location(manifest), message);
                    return;
                }
            }
        }
    }
}

/// A work that the hub deletes earlier than this is created again and again, before anybody removes
/// its folder.
const TTL_SECONDS_MIN: i64 = 86_400;

/// Reports a time limit after which the hub deletes a work that gitwork then creates again.
pub fn check_ttl(
    delete_option: Option<&Value>,
    configs: &[Value],
    path: &RepoPath,
    diagnostics: &mut WorkDiagnostics<'_>,
) {
    let ttl = delete_option.and_then(|option| option.get("ttlSecondsAfterFinished"));
    let Some(ttl) = ttl.filter(|ttl| !ttl.is_null()) else { return };
    let completes = |rule: &Value| text(rule, "condition") == well_known::COMPLETE;
    let can_complete = configs.iter().any(|config| items(config, "/conditionRules").any(completes));
    if can_complete && ttl.as_i64().is_none_or(|ttl| ttl >= TTL_SECONDS_MIN) {
        return;
    }
    let message = if can_complete {
        format!(
            "deleteOption.ttlSecondsAfterFinished: {ttl} s after the work is complete, the hub \
             deletes it, and gitwork creates it again, so its Jobs run again and again; set at \
             least a day ({TTL_SECONDS_MIN}), and remove the folder in that time"
        )
    } else {
        "deleteOption.ttlSecondsAfterFinished is without effect: no condition rule sets the \
         condition Complete"
            .to_owned()
    };
    diagnostics.add(Code::NoEffect, Location::file(path), message);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::diagnostic::{Scope, Span};
    use crate::model::manifest::Origin;

    fn found(check: impl FnOnce(&mut WorkDiagnostics<'_>)) -> Vec<String> {
        let scope = Scope::Source;
        let mut diagnostics = WorkDiagnostics::new(&scope, Vec::new());
        check(&mut diagnostics);
        let all = diagnostics.into_all();
        all.into_iter().map(|one| format!("{:?}: {}", one.code, one.message)).collect()
    }

    fn of_rules(api_version: &str, kind: &str, mut config: Value) -> Vec<String> {
        let (group, _) = api_version.split_once('/').unwrap_or(("", api_version));
        let identity = Identity {
            group: group.into(),
            resource: "things".into(),
            namespace: "shop".into(),
            name: "a".into(),
        };
        config["resourceIdentifier"] = identity.to_value();
        let manifest = Manifest {
            object: json!({"apiVersion": api_version, "kind": kind, "spec": {"replicas": 1},
                "data": {"key": "1"}}),
            api_version: api_version.into(),
            kind: kind.into(),
            identity,
            origin: Origin {
                file: RepoPath::parse("clusters/a/web/a.yaml").unwrap(),
                document: 1,
                span: Span { line: 1, column: 1, length: 1 },
            },
        };
        found(|diagnostics| check_agent_rules(&[manifest], &[config], diagnostics))
    }

    #[test]
    fn well_known_rules_of_kinds_without_any_are_reported() {
        let status = || json!({"feedbackRules": [{"type": "WellKnownStatus"}]});
        let rule = json!({"type": "WellKnownConditions", "condition": "Complete"});
        let complete = || json!({"conditionRules": [rule]});
        for (api_version, kind) in [("apps/v1", "Deployment"), ("batch/v1", "Job")] {
            assert_eq!(of_rules(api_version, kind, status()), Vec::<String>::new());
        }
        assert_eq!(of_rules("v1", "Pod", complete()), Vec::<String>::new());
        for (kind, rule, expected) in [
            ("StatefulSet", status(), "WellKnownStatus reports nothing for apps/v1 StatefulSet"),
            ("Deployment", complete(), "sets no condition \"Complete\" for apps/v1 Deployment"),
        ] {
            let found = of_rules("apps/v1", kind, rule);
            assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
            assert!(found[0].starts_with("NoEffect"), "{found:?}");
        }
    }

    #[test]
    fn jq_is_evaluated_on_the_manifest_as_the_agent_does() {
        let ignored = |expressions: Value| {
            json!({"updateStrategy": {"type": "ServerSideApply", "serverSideApply":
                {"ignoreFields": [{"jqPathExpressions": expressions}]}}})
        };
        for (expressions, expected) in [
            (json!([".data.key", ".data | to_entries[] | empty"]), None),
            (json!([". as $x | .spec | select($x.data.key == \"1\") | .replicas"]), None),
            (json!([".spec.replicas + 1"]), Some("it gives something else than paths")),
            (json!([".spec.replicas.deeper"]), Some("it cannot be followed in this manifest")),
            (json!([".data", "."]), Some("the result is not an object")),
        ] {
            let found = of_rules("v1", "ConfigMap", ignored(expressions.clone()));
            match expected {
                None => assert_eq!(found, Vec::<String>::new(), "{expressions}"),
                Some(text) => assert!(found.len() == 1 && found[0].ends_with(text), "{found:?}"),
            }
        }
    }

    #[test]
    fn work_that_the_hub_would_delete_again_and_again_is_reported() {
        let complete = [json!({"conditionRules": [{"condition": "Complete"}]})];
        let path = RepoPath::parse("clusters/a/job").unwrap();
        let of = |option: Value, configs: &[Value]| {
            found(|diagnostics| check_ttl(Some(&option), configs, &path, diagnostics))
        };
        let ttl = |seconds: i64| json!({"ttlSecondsAfterFinished": seconds});
        assert_eq!(of(ttl(86_400), &complete), Vec::<String>::new());
        assert_eq!(of(json!({}), &[]), Vec::<String>::new());
        assert!(of(ttl(300), &complete)[0].contains("300 s after the work is complete"));
        assert!(of(ttl(86_400), &[])[0].contains("is without effect"));
    }
}
