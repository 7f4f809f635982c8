//! What works tell on the hub, as a whole: each section of OCM's behaviour that ends in a condition
//! has a snapshot.

use http::Method;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::executor::executor;
use super::fixture::{DEADLINE, Fixture, condition_of, kind, stable};
use crate::harness::eventually;
use crate::harness::faults::Fault;

/// Options for all objects of one resource.
fn options(fixture: &Fixture<'_>, group: &str, resource: &str, rest: &Value) -> Value {
    let mut one = json!({"resourceIdentifier":
        {"group": group, "resource": resource, "namespace": fixture.namespace, "name": "*"}});
    one.as_object_mut().unwrap().extend(rest.as_object().cloned().unwrap());
    json!({"manifestConfigs": [one]})
}

fn maps(fixture: &Fixture<'_>, rest: &Value) -> Value {
    options(fixture, "", "configmaps", rest)
}

/// Waits until the work is both applied, or not, and looked at, and gives its status.
async fn stable_status(
    fixture: &Fixture<'_>,
    name: &str,
    applied: &str,
    available: &str,
) -> String {
    fixture.condition(name, "Applied", applied).await;
    let work = fixture.condition(name, "Available", available).await;
    stable(&work, fixture)
}

#[tokio::test]
async fn inapplicable_manifests_are_reported() {
    let fixture = Fixture::start().await;
    let manifest = |api_version: &str, kind: &str, metadata: Value| {
        let (api_version, kind) = (json!(api_version), json!(kind));
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
    };
    let here = fixture.namespace.as_str();
    let manifests = vec![
        manifest("nowhere.example.com/v1", "Nothing", json!({"name": "a", "namespace": here})),
        manifest("v1", "ConfigMap", json!({"name": "a"})),
        manifest("v1", "ConfigMap", json!({"generateName": "a-", "namespace": here})),
        manifest("v1", "ConfigMapList", json!({"name": "a", "namespace": here})),
        manifest("v1", "ConfigMap", json!({"name": "good", "namespace": here})),
    ];
    fixture.create("web", manifests, json!({})).await;
    insta::assert_snapshot!(
        "nobody_can_apply",
        stable_status(&fixture, "web", "False", "False").await
    );
}

#[tokio::test]
async fn read_only_and_create_only_are_complete_with_and_without_an_object() {
    let fixture = Fixture::start().await;
    let read_only = maps(&fixture, &json!({"updateStrategy": {"type": "ReadOnly"}}));
    fixture.create("reads", vec![fixture.config_map("a", "1")], read_only).await;
    insta::assert_snapshot!(
        "read_only_missing",
        stable_status(&fixture, "reads", "True", "False").await
    );
    let create_only = maps(&fixture, &json!({"updateStrategy": {"type": "CreateOnly"}}));
    fixture.create("creates", vec![fixture.config_map("a", "1")], create_only).await;
    insta::assert_snapshot!(
        "create_only",
        stable_status(&fixture, "creates", "True", "True").await
    );
    insta::assert_snapshot!(
        "read_only_there",
        stable_status(&fixture, "reads", "True", "True").await
    );
}

#[tokio::test]
async fn server_side_apply_reports_conflicts_and_fields_that_cannot_be_ignored() {
    let fixture = Fixture::start().await;
    let mut theirs = DynamicObject::new("a", &kind("v1", "ConfigMap"));
    theirs.data = json!({"data": {"key": "theirs"}});
    let by_other = PostParams { field_manager: Some("other".into()), ..PostParams::default() };
    fixture.config_maps().create(&by_other, &theirs).await.unwrap();
    let side_apply = |rest: Value| {
        maps(
            &fixture,
            &json!({"updateStrategy": {"type": "ServerSideApply", "serverSideApply": rest}}),
        )
    };
    let map = || vec![fixture.config_map("a", "1")];
    fixture.create("conflict", map(), side_apply(json!({}))).await;
    insta::assert_snapshot!(
        "side_apply_conflict",
        stable_status(&fixture, "conflict", "False", "True").await
    );
    for (name, field) in [
        ("pointer", json!({"jsonPointers": ["data/key"]})),
        ("jq", json!({"jqPathExpressions": [".data | repeat(.)"]})),
        ("jq-whole", json!({"jqPathExpressions": ["."]})),
    ] {
        let mut field = field;
        field["condition"] = "OnSpokePresent".into();
        fixture.create(name, map(), side_apply(json!({"ignoreFields": [field]}))).await;
        let condition = fixture.manifest_condition(name, 0, "Applied", "False").await;
        assert_eq!(condition["reason"], "AppliedManifestSSAIgnoreFieldError");
        insta::assert_snapshot!(
            format!("ignore_fields_{name}"),
            condition["message"].as_str().unwrap()
        );
    }
}

/// Both texts are compared to the letter elsewhere: two spaces for the core group, and one at the
/// end.
#[tokio::test]
async fn condition_texts_match_ocm_literally() {
    let fixture = Fixture::start().await;
    fixture.create("refused", vec![fixture.config_map("a", "1")], executor(&fixture)).await;
    insta::assert_snapshot!(
        "executor_refused",
        stable_status(&fixture, "refused", "False", "Unknown").await
    );
    fixture.create("emptied", vec![fixture.config_map("b", "1")], json!({})).await;
    fixture.condition("emptied", "Available", "True").await;
    fixture.patch_spec("emptied", json!({"workload": {"manifests": []}})).await;
    let work = fixture.condition("emptied", "Available", "Unknown").await;
    insta::assert_snapshot!("emptied", stable(&work, &fixture));
}

#[tokio::test]
async fn feedback_of_every_type_and_of_paths_that_fail() {
    let paths = json!([
        {"name": "text", "path": ".data.key"},
        {"name": "number", "path": ".metadata.generation"},
        {"name": "flag", "path": ".immutable"},
        {"name": "missing", "path": ".data.nothing"},
        {"name": "list", "path": ".metadata.finalizers"},
        {"name": "many", "path": ".metadata.finalizers[*]"},
        {"name": "map", "path": ".data"},
        {"name": "beyond", "path": ".metadata.finalizers[7]"},
        {"name": "other", "version": "v2", "path": ".data.key"},
        {"name": "broken", "path": ".data[?("},
    ]);
    for raw in [false, true] {
        let fixture = Fixture::start_with(|settings| settings.report.raw.enabled = raw).await;
        let rules = json!({"feedbackRules": [{"type": "WellKnownStatus"},
            {"type": "JSONPaths", "jsonPaths": paths}]});
        let mut map = fixture.config_map("a", "<one & two>");
        map["immutable"] = true.into();
        map["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
        fixture.create("web", vec![map], maps(&fixture, &rules)).await;
        let name = if raw { "feedback_with_raw_json" } else { "feedback" };
        insta::assert_snapshot!(name, stable_status(&fixture, "web", "True", "True").await);
        fixture.edit("a", json!({"metadata": {"finalizers": null}})).await;
        fixture.delete("web").await;
    }
}

#[tokio::test]
async fn condition_rules_of_every_outcome() {
    let fixture = Fixture::start().await;
    let rule = |condition: &str, expressions: Value| {
        json!({"type": "CEL", "condition": condition,
        "celExpressions": expressions})
    };
    let with = |mut rule: Value, field: &str, value: &str| {
        rule[field] = value.into();
        rule
    };
    let rules = json!({"conditionRules": [
        rule("True", json!(["object.data.key == 'done'", "object.data.key.size() == 4"])),
        rule("False", json!(["object.data.key == 'done'", "false", "badcel"])),
        rule("Empty", json!([])),
        rule("Compile", json!(["badcel"])),
        rule("Runtime", json!(["object.missing == 1"])),
        rule("Type", json!(["object.data.key"])),
        rule("Budget", json!(["[object.data.key].map(a, [a, a, a, a, a, a, a, a, a, a]).map(a, a \
            + a + a + a + a + a + a + a + a + a).map(a, a + a + a + a + a + a + a + a + a + \
            a).map(a, a + a + a + a + a + a + a + a + a + a).map(a, a + a + a + a + a + a + a + a \
            + a + a).map(a, a + a + a + a + a + a + a + a + a + a).size() > 0"])),
        rule("Quantity", json!(["quantity('1Gi').isGreaterThan(quantity('1Mi'))"])),
        with(rule("Message", json!([])), "message", "as the rule says"),
        with(rule("Expression", json!([])), "messageExpression", "'it is ' + object.data.key + \
            (result ? '!' : '?')"),
        with(rule("BadMessage", json!([])), "messageExpression", "badcel"),
        with(rule("NumberMessage", json!([])), "messageExpression", "1"),
        {"type": "WellKnownConditions", "condition": "Complete"},
    ]});
    fixture.create("web", vec![fixture.config_map("a", "done")], maps(&fixture, &rules)).await;
    insta::assert_snapshot!(
        "condition_rules",
        stable_status(&fixture, "web", "True", "True").await
    );
    // A rule that goes takes its condition with it, at both levels.
    let fewer = json!({"conditionRules": [rule("True", json!(["true"]))]});
    fixture.patch_spec("web", maps(&fixture, &fewer)).await;
    let work = fixture
        .work("web", "the other conditions to go", |work| {
            let all = work["status"]["conditions"].as_array()?;
            (all.len() == 3 && work["metadata"]["generation"] == all[2]["observedGeneration"])
                .then(|| work.clone())
        })
        .await;
    insta::assert_snapshot!("condition_rules_that_went", stable(&work, &fixture));
}

#[tokio::test]
async fn a_finished_job_completes_its_work() {
    let fixture = Fixture::start().await;
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "once", "namespace": fixture.namespace},
        "spec": {"template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "once", "image": "once"}]}}}});
    let rules = json!({"conditionRules": [{"type": "WellKnownConditions", "condition": "Complete"}],
        "feedbackRules": [{"type": "WellKnownStatus"}]});
    fixture.create("web", vec![job], options(&fixture, "batch", "jobs", &rules)).await;
    // The cluster has controllers, and a kubelet that ends the pods of Jobs.
    let work = fixture
        .work("web", "the work to be complete", |work| {
            let complete = condition_of(&work["status"]["conditions"], "Complete")?;
            let values =
                &work["status"]["resourceStatus"]["manifests"][0]["statusFeedback"]["values"];
            (complete["status"] == "True" && values.as_array()?.len() == 2).then(|| work.clone())
        })
        .await;
    insta::assert_snapshot!("a_finished_job", stable(&work, &fixture));
}

#[tokio::test]
async fn deleting_work_has_a_deletion_condition() {
    let fixture = Fixture::start().await;
    let mut held = fixture.config_map("held", "1");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    fixture.create("web", vec![held, fixture.config_map("free", "1")], json!({})).await;
    stable_status(&fixture, "web", "True", "True").await;
    fixture.delete("web").await;
    fixture.condition("web", "Deleting", "True").await;
    let work = fixture.condition("web", "Available", "False").await;
    insta::assert_snapshot!("a_work_that_is_deleted", stable(&work, &fixture));
    fixture.edit("held", json!({"metadata": {"finalizers": null}})).await;
    fixture.is_gone(&fixture.works(), "web").await;
}

/// A conflict is tried again within the pass, four times in all; what fails otherwise is tried
/// again with a back-off that a new spec ends.
#[tokio::test]
async fn conflicts_are_retried_at_once_and_errors_after_a_delay() {
    let fixture = Fixture::start().await;
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    stable_status(&fixture, "web", "True", "True").await;
    let put = |seen: &crate::harness::faults::Seen| {
        seen.method == Method::PUT && seen.path.ends_with("/configmaps/a")
    };
    let conflict = Fault::Answer { code: 409, retry_after_seconds: None };
    fixture.faults.next(3, conflict, put);
    let failures = || fixture.faults.count(|seen| seen.fault.is_some());
    let change = |value: &str| json!({"workload": {"manifests": [fixture.config_map("a", value)]}});
    fixture.patch_spec("web", change("2")).await;
    fixture.value("a", "2").await;
    stable_status(&fixture, "web", "True", "True").await;
    assert_eq!(failures(), 3);
    let applied = |work: &Value| {
        let manifest = &work["status"]["resourceStatus"]["manifests"][0];
        condition_of(&manifest["conditions"], "Applied").unwrap().clone()
    };
    // Errors of the API server go into the condition, and away again.
    let error = Fault::Answer { code: 500, retry_after_seconds: None };
    fixture.faults.next(usize::MAX, error, put);
    fixture.patch_spec("web", change("3")).await;
    let work = fixture.condition("web", "Applied", "False").await;
    assert_eq!(applied(&work)["message"], "Failed to apply manifest: a fault of the test");
    fixture.faults.stop();
    // It does not wait for the back-off of the spec before.
    fixture.patch_spec("web", change("4")).await;
    fixture.value("a", "4").await;
    let work = fixture.condition("web", "Applied", "True").await;
    assert_eq!(applied(&work)["reason"], "AppliedManifestComplete");
}

/// Every status write carries the version that was read, so that conditions of others stay.
#[tokio::test]
async fn conditions_of_other_controllers_are_kept() {
    let fixture = Fixture::start().await;
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    for round in 0..5 {
        let work = fixture.works().get("web").await.unwrap();
        let status = work.data.get("status").cloned().unwrap_or_default();
        let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let kind = format!("Mine{round}");
        conditions.push(json!({"type": kind, "status": "True", "reason": "Mine", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}));
        let change = json!({"workload": {"manifests": [fixture.config_map("a", &kind)]}});
        fixture.patch_spec("web", change).await;
        eventually("our condition to be written", DEADLINE, || async {
            let now = fixture.works().get("web").await.map_err(|error| error.to_string())?;
            let mut all = now.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            all.push(conditions.last().unwrap().clone());
            let patch = json!({"metadata": {"resourceVersion": now.metadata.resource_version},
                "status": {"conditions": all}});
            let written = fixture
                .works()
                .patch_status("web", &PatchParams::default(), &Patch::Merge(patch))
                .await;
            written.map(drop).map_err(|error| error.to_string())
        })
        .await
        .unwrap();
        fixture.value("a", &kind).await;
        stable_status(&fixture, "web", "True", "True").await;
    }
    let work = fixture.works().get("web").await.unwrap();
    for round in 0..5 {
        let kind = format!("Mine{round}");
        assert!(condition_of(&work.data["status"]["conditions"], &kind).is_some(), "{kind}");
    }
}

#[tokio::test]
async fn labels_are_copied_at_creation_of_the_applied_work_only() {
    let fixture = Fixture::start().await;
    let mut work =
        DynamicObject::new("web", &kind("work.open-cluster-management.io/v1", "ManifestWork"));
    work.metadata.labels = Some([("team".to_owned(), "one".to_owned())].into());
    work.data = json!({"spec": {"workload": {"manifests": [fixture.config_map("a", "1")]}}});
    fixture.works().create(&PostParams::default(), &work).await.unwrap();
    stable_status(&fixture, "web", "True", "True").await;
    let labels = json!({"metadata": {"labels": {"team": "two"}}});
    fixture.works().patch("web", &PatchParams::default(), &Patch::Merge(labels)).await.unwrap();
    let change = json!({"workload": {"manifests": [fixture.config_map("a", "2")]}});
    fixture.patch_spec("web", change).await;
    fixture.value("a", "2").await;
    stable_status(&fixture, "web", "True", "True").await;
    let applied = fixture.applied().get(&fixture.applied_name("web")).await.unwrap();
    assert_eq!(applied.metadata.labels, work.metadata.labels);
}

#[tokio::test]
async fn finalizer_is_added_before_anything_is_applied() {
    let fixture = Fixture::start().await;
    fixture.faults.next(usize::MAX, Fault::LoseRequest, |seen| {
        seen.method == Method::PATCH && seen.path.ends_with("/manifestworks/web")
    });
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.create("other", vec![fixture.config_map("b", "1")], json!({})).await;
    stable_status(&fixture, "other", "True", "True").await;
    eventually("the finalizer to be tried", DEADLINE, || async {
        let tried = fixture.faults.count(|seen| seen.fault.is_some());
        if tried >= 3 { Ok(()) } else { Err(tried.to_string()) }
    })
    .await
    .unwrap();
    assert!(fixture.config_maps().get_opt("a").await.unwrap().is_none());
    assert!(fixture.applied().get_opt(&fixture.applied_name("web")).await.unwrap().is_none());
    let work = fixture.works().get("web").await.unwrap();
    assert_eq!(work.data.get("status").and_then(|status| status.get("conditions")), None);
    fixture.faults.stop();
    stable_status(&fixture, "web", "True", "True").await;
}
