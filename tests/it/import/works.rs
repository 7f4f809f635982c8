//! ManifestWorks to import: with every field of a spec, and with hard names and texts.

use serde_json::{Value, json};

pub fn manifest_work(name: &str, spec: Value) -> Value {
    let mut work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"namespace": "edge-1", "name": name},
    });
    work["spec"] = spec;
    work
}

pub fn config_map(namespace: &str, name: &str, data: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name}});
    object["data"] = data;
    object
}

pub fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
    "metadata": {"namespace": "shop", "name": name},
    "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "web", "image": "nginx:1.29"}]},
        },
    }})
}

pub fn mouse(name: &str) -> Value {
    json!({"apiVersion": "x.io/v1", "kind": "Mouse",
        "metadata": {"namespace": "shop", "name": name}, "spec": {"size": 1}})
}

/// The CRD of Mouse, whose plural is no regular one.
fn mouse_crd() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": schema}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "mice.x.io"},
    "spec": {
        "group": "x.io", "scope": "Namespaced", "versions": [version],
        "names": {"kind": "Mouse", "plural": "mice", "singular": "mouse"},
    }})
}

/// An entry of `manifestConfigs`.
pub fn entry(group: &str, resource: &str, namespace: &str, name: &str, fields: Value) -> Value {
    let mut entry = fields;
    entry["resourceIdentifier"] =
        json!({"group": group, "resource": resource, "namespace": namespace, "name": name});
    entry
}

pub fn workload(manifests: Vec<Value>) -> Value {
    let mut spec = json!({"workload": {}});
    spec["workload"]["manifests"] = manifests.into();
    spec
}

pub fn with(mut spec: Value, mut fields: Value) -> Value {
    spec.as_object_mut().unwrap().append(fields.as_object_mut().unwrap());
    spec
}

/// Works with every field of a spec.
pub fn works_of_every_kind() -> Vec<Value> {
    [works_with_rules(), works_with_options()].concat()
}

fn three_deployments() -> Value {
    workload(vec![deployment("a"), deployment("b"), deployment("c")])
}

/// An entry with rules for a Deployment.
fn rules_of(name: &str, fields: Value) -> Value {
    entry("apps", "deployments", "shop", name, fields)
}

fn strategy(strategy: &str) -> Value {
    json!({"updateStrategy": {"type": strategy}})
}

/// A work of three Deployments with these rules.
fn with_configs(name: &str, configs: Vec<Value>) -> Value {
    let mut spec = three_deployments();
    spec["manifestConfigs"] = configs.into();
    manifest_work(name, spec)
}

fn works_with_rules() -> Vec<Value> {
    let status = || json!({"feedbackRules": [{"type": "WellKnownStatus"}]});
    let ignore_fields = json!([
        {"condition": "OnSpokeChange", "jsonPaths": [".spec.replicas"],
         "jsonPointers": ["/metadata/annotations/example.com~1paused"]},
        {"condition": "OnSpokePresent", "jqPathExpressions": [".spec.replicas"]},
    ]);
    let server_side = json!({"updateStrategy": {"type": "ServerSideApply", "serverSideApply":
        {"force": true, "fieldManager": "work-agent-shop", "ignoreFields": ignore_fields}}});
    let conditions = json!({
        "conditionRules": [{"condition": "Ready", "type": "CEL",
            "celExpressions": ["has(object.status)"], "message": "it has a status"}],
        "feedbackRules": [{"type": "JSONPaths", "jsonPaths":
            [{"name": "ready", "path": ".status.readyReplicas"}]}],
        "feedbackScrapeType": "Watch",
    });
    vec![
        manifest_work("plain", three_deployments()),
        with_configs(
            "strategies",
            vec![
                rules_of("a", strategy("CreateOnly")),
                rules_of("b", strategy("ReadOnly")),
                rules_of("c", strategy("Update")),
            ],
        ),
        with_configs(
            "server-side",
            vec![rules_of("b", server_side), rules_of("a", strategy("ServerSideApply"))],
        ),
        with_configs("wildcards", vec![rules_of("*", status())]),
        with_configs(
            "overlapping",
            vec![
                rules_of("a", strategy("ReadOnly")),
                rules_of("*", with(status(), strategy("CreateOnly"))),
                rules_of("gone", strategy("Update")),
            ],
        ),
        with_configs("conditions", vec![rules_of("a", conditions)]),
    ]
}

fn works_with_options() -> Vec<Value> {
    let rule = json!({"group": "apps", "resource": "deployments", "namespace": "shop",
        "name": "b"});
    let orphans = json!({"deleteOption": {"propagationPolicy": "SelectivelyOrphan",
        "selectivelyOrphans": {"orphaningRules": [rule]}}});
    let orphan_all = json!({"deleteOption": {"propagationPolicy": "Orphan"}});
    let executor = json!({"executor": {"subject": {"type": "ServiceAccount",
        "serviceAccount": {"namespace": "deploy", "name": "deployer"}}}});
    let mice = entry("x.io", "mice", "shop", "a", strategy("ReadOnly"));
    let configs = json!({"manifestConfigs": [mice]});
    let custom = with(workload(vec![mouse("a"), mouse("b")]), configs.clone());
    let with_crd = with(workload(vec![mouse_crd(), mouse("a")]), configs);
    vec![
        manifest_work("orphans", with(three_deployments(), orphans)),
        manifest_work("orphan-all", with(three_deployments(), orphan_all)),
        manifest_work("executor", with(three_deployments(), executor)),
        manifest_work("custom", custom),
        manifest_work("with-crd", with_crd),
    ]
}

/// Works whose names and texts are hard for files and for YAML.
pub fn works_with_hard_texts() -> Vec<Value> {
    let texts = json!({
        "answer": "yes", "mode": "0644", "float": "1e3", "null": "null", "tilde": "~",
        "date": "2026-01-01", "time": "12:30:45", "empty": "", "spaces": "  two  ",
        "lines": "one\ntwo\n\n  three\n", "no-end": "a\nb", "tabs": "a\tb\n\tc",
        "script": "#!/bin/sh\necho ${HOME} $$\n", "colon": "a: b", "hash": "a # b",
        "quotes": "'\"\\", "unicode": "ü \u{202e} \u{1f600}", "carriage": "a\r\nb",
        "yes": "key", "1": "one", "on": "off", "percent": "%a", "dash": "- a",
    });
    let role = |name: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name}, "rules": []})
    };
    let numbers = json!({"apiVersion": "x.io/v1", "kind": "Mouse",
        "metadata": {"namespace": "shop", "name": "numbers"},
        "spec": {"whole": 3, "float": 1.5, "large": 9_007_199_254_740_993_i64, "zero": 0,
            "no": false, "nothing": null, "list": [[1], [], {}]}});
    vec![
        manifest_work("texts", workload(vec![config_map("shop", "texts", texts)])),
        manifest_work("numbers", workload(vec![numbers])),
        manifest_work(
            "names",
            workload(vec![
                config_map("shop", "app.config", json!({"a": "1"})),
                config_map("shop", "web", json!({"a": "2"})),
                config_map("store", "web", json!({"a": "3"})),
                config_map("store", "work", json!({"a": "4"})),
                role("system:shop:reader"),
                role("system:Shop:reader"),
                role("system-shop-reader"),
            ]),
        ),
        manifest_work("long", workload(vec![config_map("shop", &"a".repeat(253), json!({}))])),
        // Not in the order of file names, and not in gitwork's own.
        manifest_work(
            "order",
            workload(vec![
                deployment("web"),
                config_map("shop", "web", json!({})),
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
            ]),
        ),
    ]
}
