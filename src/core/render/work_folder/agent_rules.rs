//! What the agent would find out about the rules of a work's objects: known here, because the
//! manifests are.

use std::collections::HashSet;

use serde_json::Value;

use super::checks::location;
use super::diagnostics::WorkDiagnostics;
use super::folder_config::FolderConfig;
use super::manifest_configs::{ObjectRules, RuleSource};
use super::near_objects::NearObjects;
use super::sidecar::Sidecar;
use crate::config::file;
use crate::model::diagnostic::{Code, Diagnostic, Severity};
use crate::model::manifest::{Identity, Manifest};
use gitwork_rules::{jq, well_known};

/// Work of all jq expressions of one work folder. Expressions beyond it are only parsed.
const JQ_WORK_MAX: usize = 1_000_000;

/// Reports rules that have no effect on their object, and jq expressions that the agent could not
/// use, where they stand.
pub fn check_agent_rules(
    manifests: &[Manifest],
    rules: &[ObjectRules],
    (sidecars, folder): (&[Sidecar], &FolderConfig<'_>),
    diagnostics: &mut WorkDiagnostics<'_>,
) {
    let mut jq_work = JQ_WORK_MAX;
    for rules in rules {
        let Some(manifest) = manifests.get(rules.manifest) else { continue };
        let of_object = RulesOfObject { manifest, rules, sidecars, folder };
        of_object.check_well_known(diagnostics);
        of_object.check_jq(&mut jq_work, diagnostics);
    }
}

/// Reports orphaning rules in work.yaml that name no object of the work: the object that is meant
/// would be deleted.
pub fn check_orphaning_rules(
    manifests: &[Manifest],
    folder: &FolderConfig<'_>,
    diagnostics: &mut WorkDiagnostics<'_>,
) {
    let option = folder.work_file.and_then(|config| config.value.delete_option.as_ref());
    let rules = option.map(|option| items(option, RULES_OF_ORPHANS).enumerate());
    // Where a manifest could not be read, a rule may have been meant for it.
    let Some(rules) = rules.filter(|_| !diagnostics.freezes_work()) else { return };
    let objects: HashSet<&Identity> = manifests.iter().map(|one| &one.identity).collect();
    let mut near = NearObjects::of(manifests);
    for (index, rule) in rules {
        let identity = Identity::of_value(Some(rule));
        if objects.contains(&identity) {
            continue;
        }
        let pointer = format!("/deleteOption{RULES_OF_ORPHANS}/{index}");
        let message = format!(
            "the orphaning rule names {identity}, and the work has no such object{}",
            near.hint(&identity)
        );
        let at = folder.location(&pointer);
        let found = diagnostics.of(Code::MatchesNothing, at, message);
        let found = found.with_field(file::dotted(&pointer)).with_hint(
            "Correct the rule: an object that it should keep would be deleted with the work.",
        );
        diagnostics.push(Diagnostic { severity: Severity::Warning, ..found });
    }
}

const RULES_OF_ORPHANS: &str = "/selectivelyOrphans/orphaningRules";

/// An object with its rules, and the files that have these.
struct RulesOfObject<'a> {
    manifest: &'a Manifest,
    rules: &'a ObjectRules,
    sidecars: &'a [Sidecar],
    folder: &'a FolderConfig<'a>,
}

impl RulesOfObject<'_> {
    /// A diagnostic of a rule, by its JSON pointer from the entry. Rules of the levels above the
    /// work are reported at the manifest.
    fn found(
        &self,
        code: Code,
        pointer: &str,
        message: String,
        diagnostics: &WorkDiagnostics<'_>,
    ) -> Diagnostic {
        let field = pointer.split('/').nth(1).unwrap_or_default();
        let (at, pointer) = match self.rules.source(field) {
            RuleSource::Sidecar(number) => {
                let sidecar = self.sidecars.get(number as usize);
                (sidecar.map(|one| one.config.location(pointer)), pointer.to_owned())
            }
            RuleSource::Entry(number) => {
                let pointer = format!("/manifestConfigs/{number}{pointer}");
                (Some(self.folder.location(&pointer)), pointer)
            }
            RuleSource::Above => (None, String::new()),
        };
        let at = at.unwrap_or_else(|| location(self.manifest));
        let found = diagnostics.of(code, at, message);
        if pointer.is_empty() { found } else { found.with_field(file::dotted(&pointer)) }
    }

    fn check_well_known(&self, diagnostics: &mut WorkDiagnostics<'_>) {
        let Manifest { api_version, kind, .. } = self.manifest;
        let by_status = |rule: &Value| text(rule, "type") == "WellKnownStatus";
        let number = self.rules_of("feedbackRules").position(by_status);
        if let Some(number) = number
            && well_known::status_paths(api_version, kind).is_none()
        {
            let message = format!(
                "the feedback rule WellKnownStatus reports nothing for {api_version} {kind}, and \
                 the agent reports an error"
            );
            let at = format!("/feedbackRules/{number}");
            let found = self.found(Code::NoEffect, &at, message, diagnostics);
            diagnostics.push(found.with_hint("Use a rule of the type JSONPaths."));
        }
        for (number, rule) in self.rules_of("conditionRules").enumerate() {
            let condition = text(rule, "condition");
            if text(rule, "type") == "WellKnownConditions"
                && !well_known::has_condition(api_version, kind, condition)
            {
                let message = format!(
                    "the condition rule WellKnownConditions sets no condition {condition:?} for \
                     {api_version} {kind}"
                );
                let at = format!("/conditionRules/{number}");
                let found = self.found(Code::NoEffect, &at, message, diagnostics);
                diagnostics.push(found.with_hint("Use a rule of the type CEL."));
            }
        }
    }

    fn rules_of(&self, field: &str) -> impl Iterator<Item = &Value> {
        self.rules.fields.get(field).and_then(Value::as_array).into_iter().flatten()
    }

    /// Removes the fields that the agent would remove, and reports the agent's error.
    fn check_jq(&self, work: &mut usize, diagnostics: &mut WorkDiagnostics<'_>) {
        let Some(strategy) = self.rules.fields.get("updateStrategy") else { return };
        let mut object = None;
        let rules = items(strategy, "/serverSideApply/ignoreFields").enumerate();
        for (rule, ignored) in rules.filter(|(_, rule)| text(rule, "condition") != "OnSpokeChange")
        {
            let expressions = items(ignored, "/jqPathExpressions").enumerate();
            for (number, expression) in expressions {
                // One that cannot be used for any object is reported at its file.
                let Some(expression) = expression.as_str().filter(|text| jq::check(text).is_ok())
                else {
                    return;
                };
                if *work == 0 {
                    return;
                }
                let before = object.take().unwrap_or_else(|| self.manifest.object.clone());
                match jq::delete_within(expression, before, work) {
                    Ok(after) => object = Some(after),
                    Err(_) if *work == 0 => return,
                    Err(problem) => {
                        let what = &self.manifest.identity;
                        let message = format!("the jq expression fails for {what}: {problem}");
                        let at = format!(
                            "/updateStrategy/serverSideApply/ignoreFields/{rule}/\
                             jqPathExpressions/{number}"
                        );
                        let found = self.found(Code::BadValue, &at, message, diagnostics);
                        diagnostics.push(found.with_hint(
                            "Correct the expression, or narrow the objects that it is about: the \
                             agent would report this error.",
                        ));
                        return;
                    }
                }
            }
        }
    }
}

fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A work that the hub deletes earlier than this is created again and again, before anybody removes
/// its folder.
const TTL_SECONDS_MIN: i64 = 86_400;

/// Reports a time limit after which the hub deletes a work that gitwork then creates again.
pub fn check_ttl(
    delete_option: Option<&Value>,
    configs: &[Value],
    folder: &FolderConfig<'_>,
    diagnostics: &mut WorkDiagnostics<'_>,
) {
    let ttl = delete_option.and_then(|option| option.get("ttlSecondsAfterFinished"));
    let Some(ttl) = ttl.filter(|ttl| !ttl.is_null()) else { return };
    let completes = |rule: &Value| text(rule, "condition") == well_known::COMPLETE;
    let can_complete = configs.iter().any(|config| items(config, "/conditionRules").any(completes));
    if can_complete && ttl.as_i64().is_none_or(|ttl| ttl >= TTL_SECONDS_MIN) {
        return;
    }
    let (message, hint) = if can_complete {
        let message = format!(
            "{ttl} s after the work is complete, the hub deletes it, and gitwork creates it again, \
             so its Jobs run again and again"
        );
        (message, format!("Set at least a day ({TTL_SECONDS_MIN}), and remove the folder in it."))
    } else {
        let message = "deleteOption.ttlSecondsAfterFinished is without effect: no condition rule \
                       sets the condition Complete";
        (message.to_owned(), "Add such a rule for the Job, or remove the setting.".to_owned())
    };
    let at = folder.location("/deleteOption/ttlSecondsAfterFinished");
    let found = diagnostics.of(Code::NoEffect, at, message);
    diagnostics.push(found.with_field("deleteOption.ttlSecondsAfterFinished").with_hint(hint));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::diagnostic::{Scope, Span};
    use crate::model::manifest::Origin;
    use crate::model::name::RepoPath;

    fn found(check: impl FnOnce(&mut WorkDiagnostics<'_>)) -> Vec<String> {
        let scope = Scope::Source;
        let mut diagnostics = WorkDiagnostics::new(&scope, Vec::new());
        check(&mut diagnostics);
        let all = diagnostics.into_all();
        all.into_iter().map(|one| format!("{:?}: {}", one.code, one.message)).collect()
    }

    fn of_rules(api_version: &str, kind: &str, config: Value) -> Vec<String> {
        let (group, _) = api_version.split_once('/').unwrap_or(("", api_version));
        let identity = Identity {
            group: group.into(),
            resource: "things".into(),
            namespace: "shop".into(),
            name: "a".into(),
        };
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
        let Value::Object(fields) = config else { unreachable!() };
        let rules = ObjectRules::new(0, fields);
        let path = RepoPath::parse("clusters/a/web").unwrap();
        let folder = FolderConfig { path: &path, work_file: None };
        found(|diagnostics| check_agent_rules(&[manifest], &[rules], (&[], &folder), diagnostics))
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
        let folder = FolderConfig { path: &path, work_file: None };
        let of = |option: Value, configs: &[Value]| {
            found(|diagnostics| check_ttl(Some(&option), configs, &folder, diagnostics))
        };
        let ttl = |seconds: i64| json!({"ttlSecondsAfterFinished": seconds});
        assert_eq!(of(ttl(86_400), &complete), Vec::<String>::new());
        assert_eq!(of(json!({}), &[]), Vec::<String>::new());
        assert!(of(ttl(300), &complete)[0].contains("300 s after the work is complete"));
        assert!(of(ttl(86_400), &[])[0].contains("is without effect"));
    }
}
