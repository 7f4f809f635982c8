//! The program dies: killed after any of its writes, without API servers for a minute, and with
//! credentials that end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gitwork_agent_core::identity::hub_hash;
use http::Method;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject};
use serde_json::{Value, json};

use super::fixture::{DEADLINE, Fixture, kind};
use super::process::{Program, only_agent, start_as};
use crate::harness::fault_proxy::{Fault, FaultProxy, Target, Upstream};
use crate::harness::{ClusterOptions, ControlPlane, apply_all, crds, eventually};

const ALONE: [&str; 1] = ["--disable-leader-election"];

/// A namespace, a CRD and an object of it, a Deployment, a Job and a ConfigMap.
fn manifests(fixture: &Fixture<'_>, generation: u32) -> Vec<Value> {
    let id = &fixture.namespace;
    let labels = json!({"app": "web"});
    let pod = |policy: &str| {
        json!({"metadata": {"labels": labels}, "spec": {"restartPolicy": policy,
            "containers": [{"name": "app", "image": "registry.example.com/app:1"}]}})
    };
    let schema = json!({"openAPIV3Schema": {"type": "object",
        "x-kubernetes-preserve-unknown-fields": true}});
    let group = format!("{id}.example.com");
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("{id}-more"),
            "labels": {"generation": generation.to_string()}}}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("mice.{group}")}, "spec": {"group": group,
                "scope": "Namespaced", "names": {"kind": "Mouse", "plural": "mice"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}}),
        json!({"apiVersion": format!("{group}/v1"), "kind": "Mouse",
            "metadata": {"name": "jerry", "namespace": id}, "spec": {"generation": generation}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": id}, "spec": {"replicas": 0,
                "revisionHistoryLimit": generation, "selector": {"matchLabels": labels},
                "template": pod("Always")}}),
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once",
            "namespace": id}, "spec": {"suspend": true, "template": pod("Never")}}),
        fixture.config_map("a", &generation.to_string()),
    ]
}

/// The objects of the manifests, by kind.
fn apis(fixture: &Fixture<'_>) -> Vec<(Api<DynamicObject>, String)> {
    let of = |manifest: &Value| {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str);
        let resource = kind(text("/apiVersion").unwrap(), text("/kind").unwrap());
        // The plural of Mouse is not what the client would guess.
        let mut resource = resource;
        if resource.kind == "Mouse" {
            resource.plural = "mice".into();
        }
        let client = fixture.cluster.clone();
        let api = match text("/metadata/namespace") {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        (api, text("/metadata/name").unwrap().to_owned())
    };
    manifests(fixture, 1).iter().map(of).collect()
}

async fn uids(fixture: &Fixture<'_>) -> Vec<String> {
    let mut uids = Vec::new();
    for (api, name) in apis(fixture) {
        uids.push(api.get(&name).await.unwrap().uid().unwrap());
    }
    uids.sort();
    uids
}

/// Waits until the work is applied, and the AppliedManifestWork records exactly these objects.
async fn settled(fixture: &Fixture<'_>) -> Vec<String> {
    fixture.condition("all", "Applied", "True").await;
    fixture.condition("all", "Available", "True").await;
    eventually("the objects to be recorded", DEADLINE, || async {
        let applied = fixture.applied().get(&fixture.applied_name("all")).await;
        let applied = applied.map_err(|error| error.to_string())?;
        let recorded = applied.data["status"]["appliedResources"].as_array().cloned();
        let recorded = recorded.unwrap_or_default();
        let mut recorded: Vec<String> =
            recorded.iter().map(|one| one["uid"].as_str().unwrap_or_default().to_owned()).collect();
        recorded.sort();
        let uids = uids(fixture).await;
        if recorded == uids { Ok(uids) } else { Err(format!("{recorded:?} {uids:?}")) }
    })
    .await
    .unwrap()
}

/// Creates a work of all kinds, changes it, and deletes it.
async fn scenario(fixture: &Fixture<'_>) {
    fixture.create("all", manifests(fixture, 1), json!({})).await;
    let before = settled(fixture).await;
    let changed = json!({"workload": {"manifests": manifests(fixture, 2)}});
    fixture.patch_spec("all", changed).await;
    fixture.value("a", "2").await;
    assert_eq!(settled(fixture).await, before, "no object is created again");
    let web = fixture.objects("apps/v1", "Deployment").get("web").await.unwrap();
    assert_eq!(web.data["spec"]["revisionHistoryLimit"], 2);
    fixture.delete("all").await;
    fixture.is_gone(&fixture.works(), "all").await;
    fixture.is_gone(&fixture.applied(), &fixture.applied_name("all")).await;
    for (api, name) in apis(fixture) {
        let found = api.get_opt(&name).await;
        assert!(matches!(found, Ok(None)) || found.is_err(), "{name} is left");
    }
}

/// Runs the scenario with a program that is killed after its write number `last`, and started
/// again. Returns whether it came so far.
async fn killed_after(last: usize) -> bool {
    let mut fixture = Fixture::start().await;
    fixture.kill().await;
    let proxy = FaultProxy::new(Arc::new(|method: &Method, path: &str, _: &[u8]| {
        let is_write = *method != Method::GET && !path.contains("reviews");
        if is_write { "write".to_owned() } else { "read".to_owned() }
    }));
    let hub = proxy.serve(Upstream::ApiServer(fixture.hub.clone())).await;
    let cluster = proxy.serve(Upstream::ApiServer(fixture.cluster.clone())).await;
    fixture.settings.hub_hash = hub_hash(&hub);
    let target = Target { name: "write".to_owned(), number: last };
    proxy.set_faults(BTreeMap::from([(target, Fault::KillAfter)]));
    let kubeconfigs = || (FaultProxy::kubeconfig(&hub), FaultProxy::kubeconfig(&cluster));
    let namespace = fixture.namespace.clone();
    let start = || start_as(kubeconfigs(), &fixture.cluster_name, &namespace, &ALONE);
    let mut held = proxy.held();
    let program = start().await;
    let revive = async {
        if held.wait_for(|held| *held > 0).await.is_ok() {
            program.kill().await;
            let _second: Program = start().await;
            std::future::pending::<()>().await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! { () = scenario(&fixture) => {}, () = revive => {} }
    proxy.faults_left().is_empty()
}

#[tokio::test]
async fn program_killed_after_any_write_reaches_the_same_end_state() {
    let mut last = 0;
    loop {
        let some = (last + 1..=last + 4).map(killed_after);
        let were_killed = futures::future::join_all(some).await;
        last += were_killed.iter().take_while(|was_killed| **was_killed).count();
        if were_killed.contains(&false) {
            break;
        }
        assert!(last < 100, "the scenario ends");
    }
    assert!(last >= 20, "{last} writes were tried");
}

#[tokio::test]
async fn program_survives_a_minute_without_hub_and_cluster() {
    let crds = [crds::hub(), crds::managed()].concat();
    let options = ClusterOptions { crds, ..ClusterOptions::default() };
    let server = ControlPlane::shared().await.start("minute", options).await;
    let mut fixture = Fixture::between(&server, &server, |_| {}).await;
    fixture.kill().await;
    fixture.settings.hub_hash = hub_hash(&server.url());
    let kubeconfigs = (server.kubeconfig(), server.kubeconfig());
    let namespace = fixture.namespace.clone();
    let program = start_as(kubeconfigs, &fixture.cluster_name, &namespace, &[]).await;
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.condition("web", "Available", "True").await;

    server.kill();
    let away = Instant::now();
    eventually("a minute to pass", DEADLINE, || async {
        program.get("/healthz").await.unwrap();
        let passed = away.elapsed();
        if passed >= Duration::from_secs(60) { Ok(()) } else { Err(format!("{passed:?}")) }
    })
    .await
    .unwrap();
    server.restart().await.unwrap();
    fixture.edit("a", json!({"data": {"key": "drift"}})).await;
    fixture.value("a", "1").await;
    let changed = json!({"workload": {"manifests": [fixture.config_map("a", "2")]}});
    fixture.patch_spec("web", changed).await;
    fixture.value("a", "2").await;
    fixture.condition("web", "Applied", "True").await;
    assert_eq!(program.terminate().await, Some(0), "it is the same process");
}

#[tokio::test]
async fn program_continues_with_rotated_credentials() {
    let _alone = only_agent().await;
    let mut fixture = Fixture::start().await;
    fixture.kill().await;
    let hub = ControlPlane::shared().await.hub().await;
    fixture.settings.hub_hash = hub_hash(&hub.url());
    let namespace = hub.namespace("agents").await;
    let old = hub.kubeconfig_for(&namespace, "old").await;
    let new = hub.kubeconfig_for(&namespace, "new").await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group",
            "name": format!("system:serviceaccounts:{namespace}")}]});
    apply_all(fixture.hub.clone(), &[binding]).await.unwrap();
    let kubeconfigs = (old, fixture.managed.kubeconfig());
    let program = start_as(kubeconfigs, &fixture.cluster_name, &fixture.namespace, &ALONE).await;
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.condition("web", "Available", "True").await;

    // From now on the old token is invalid.
    let accounts: Api<DynamicObject> =
        Api::namespaced_with(fixture.hub.clone(), &namespace, &kind("v1", "ServiceAccount"));
    accounts.delete("old", &DeleteParams::default()).await.unwrap();
    let changed = json!({"workload": {"manifests": [fixture.config_map("a", "2")]}});
    fixture.patch_spec("web", changed).await;
    program.write_hub_kubeconfig(&new);
    fixture.value("a", "2").await;
    // The API server may accept the old token for some seconds more.
    eventually("the program to reload the kubeconfig", DEADLINE, || async {
        let log = program.log();
        if log.contains("reloaded the hub's kubeconfig") { Ok(()) } else { Err(log) }
    })
    .await
    .unwrap();
    fixture.condition("web", "Applied", "True").await;
    fixture.create("more", vec![fixture.config_map("b", "1")], json!({})).await;
    fixture.condition("more", "Available", "True").await;
    assert_eq!(program.terminate().await, Some(0), "it is the same process");
}
