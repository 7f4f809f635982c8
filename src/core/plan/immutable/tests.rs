use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

/// Changes that a real API server refuses or accepts: see `tests/it/immutable_fields.rs`.
const CHANGES: &str = include_str!("../../../../tests/immutable-fields.yaml");

/// JSON Merge Patch (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { return *target = patch.clone() };
    if !target.is_object() {
        *target = json!({});
    }
    let fields = target.as_object_mut().unwrap();
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// An object, an object with a change, and the field that the API server refuses to change.
fn changes() -> Vec<(Value, Value, Option<String>)> {
    let documents = gitwork_yaml::read(CHANGES.as_bytes()).documents;
    let of_document = |document: Value| {
        let list = |name: &str| document[name].as_array().cloned().unwrap_or_default();
        let refused = list("refused").into_iter().map(|one| {
            let field = one["field"].as_str().unwrap().to_owned();
            (one["patch"].clone(), Some(field))
        });
        let accepted = list("accepted").into_iter().map(|patch| (patch, None));
        let object = document["object"].clone();
        let changed = |(patch, field): (Value, Option<String>)| {
            let mut after = object.clone();
            merge(&mut after, &patch);
            (object.clone(), after, field)
        };
        refused.chain(accepted).map(changed).collect::<Vec<_>>()
    };
    documents.into_iter().flat_map(|document| of_document(document.value)).collect()
}

#[test]
fn fields_that_the_api_server_refuses_to_change_are_named() {
    for (before, after, expected) in changes() {
        let found = ImmutableChange::between(&before, &after, AgentWrite::Apply);
        let found = found.map(|change| change.field);
        let is_expected = match (&found, &expected) {
            (Some(found), Some(field)) => found == field || found.starts_with(&format!("{field}.")),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(is_expected, "{expected:?}, found {found:?}: {before} -> {after}");
        // It is no change of another kind of the same name.
        let [mut before, mut after] = [before, after];
        for manifest in [&mut before, &mut after] {
            manifest["apiVersion"] = "example.com/v1".into();
        }
        assert_eq!(ImmutableChange::between(&before, &after, AgentWrite::Apply), None);
    }
}

#[test]
fn every_field_has_a_change_that_the_api_server_refuses() {
    let tested = changes().into_iter().filter_map(|(before, _, field)| {
        let (group, kind) = group_and_kind(&before);
        Some((group.to_owned(), kind.to_owned(), field?))
    });
    let tested: BTreeSet<(String, String, String)> = tested.collect();
    for (group, kind, field) in all_fields() {
        let all = [group, kind, field].map(str::to_owned).into();
        assert!(tested.contains(&all), "no change of {field} of {group} {kind}");
    }
}

fn manifest(api_version: &str, kind: &str, fields: Value) -> Value {
    let mut manifest = fields;
    (manifest["apiVersion"], manifest["kind"]) = (api_version.into(), kind.into());
    manifest["metadata"] = json!({"namespace": "shop", "name": "a"});
    manifest
}

#[test]
fn agent_creates_some_kinds_again() {
    let secret = |kind: &str| manifest("v1", "Secret", json!({ "type": kind }));
    let class = |policy: &str| {
        manifest("storage.k8s.io/v1", "StorageClass", json!({ "reclaimPolicy": policy }))
    };
    let driver = |capacity: bool| {
        let spec = json!({ "spec": {"storageCapacity": capacity} });
        manifest("storage.k8s.io/v1", "CSIDriver", spec)
    };
    let (fails, recreates) = (ImmutableOutcome::Fails, ImmutableOutcome::Recreates);
    for (before, after, with_update, with_apply) in [
        (secret("a/b"), secret("a/c"), ("type", recreates), Some(("type", fails))),
        (
            class("Retain"),
            class("Delete"),
            ("reclaimPolicy", recreates),
            Some(("reclaimPolicy", fails)),
        ),
        // Agents compare the spec as a whole.
        (driver(true), driver(false), ("spec", recreates), None),
    ] {
        let found = |write| {
            let change = ImmutableChange::between(&before, &after, write)?;
            assert_eq!(change.advice.is_some(), change.outcome == fails);
            Some((change.field, change.outcome))
        };
        let owned = |(field, outcome): (&str, _)| (field.to_owned(), outcome);
        assert_eq!(found(AgentWrite::Update), Some(owned(with_update)));
        assert_eq!(found(AgentWrite::Apply), with_apply.map(owned));
    }
    let same = ImmutableChange::between(&driver(true), &driver(true), AgentWrite::Update);
    assert_eq!(same, None);
}

#[test]
fn only_an_object_that_the_agent_writes_must_be_recreated() {
    let role = |name: &str| {
        let role = json!({"roleRef": {"kind": "Role", "name": name}});
        manifest("rbac.authorization.k8s.io/v1", "RoleBinding", role)
    };
    let found = |strategy: Value| {
        let object = json!({
            "group": "rbac.authorization.k8s.io", "resource": "rolebindings",
            "namespace": "shop", "name": "a",
        });
        let config = json!({"resourceIdentifier": object, "updateStrategy": strategy});
        let work = WorkSpec::of(json!({"manifestConfigs": [config]}));
        ImmutableChange::in_work(&work, &role("a"), &role("b")).map(|change| change.field)
    };
    let ignoring = |fields: Value| {
        let apply = json!({"ignoreFields": [fields]});
        json!({"type": "ServerSideApply", "serverSideApply": apply})
    };
    for (strategy, is_named) in [
        (Value::Null, true),
        (json!({"type": "Update"}), true),
        (json!({"type": "ServerSideApply"}), true),
        (ignoring(json!({"condition": "OnSpokePresent", "jsonPaths": [".roleRef"]})), false),
        (ignoring(json!({"jsonPointers": ["/roleRef/name"]})), false),
        (ignoring(json!({"jqPathExpressions": [".roleRef | .name"]})), false),
        (ignoring(json!({"jsonPaths": [".metadata.labels"]})), true),
        // The agent writes such a field once Git changes it.
        (ignoring(json!({"condition": "OnSpokeChange", "jsonPaths": [".roleRef"]})), true),
        (ignoring(json!({"jqPathExpressions": [".roleRef.name + 1"]})), false),
        (ignoring(json!({"jsonPaths": [7]})), false),
        (json!({"type": "CreateOnly"}), false),
        (json!({"type": "ReadOnly"}), false),
        (json!({"type": "Other"}), false),
    ] {
        let expected = is_named.then(|| "roleRef.name".to_owned());
        assert_eq!(found(strategy.clone()), expected, "{strategy}");
    }
}

#[test]
fn words_say_what_happens_and_what_to_do() {
    let set =
        |name: &str| manifest("apps/v1", "StatefulSet", json!({"spec": {"serviceName": name}}));
    let change = ImmutableChange::between(&set("a"), &set("b"), AgentWrite::Update).unwrap();
    assert_eq!(
        change.words(),
        "must be recreated: spec.serviceName cannot change, so its agent cannot apply it; delete \
         it with `kubectl delete --cascade=orphan` after this change: its agent creates it again, \
         and its pods stay"
    );
    let secret = |kind: &str| manifest("v1", "Secret", json!({ "type": kind }));
    let change = ImmutableChange::between(&secret("a"), &secret("b"), AgentWrite::Update).unwrap();
    assert_eq!(change.words(), "its agent deletes it and creates it again: type cannot change");
}
