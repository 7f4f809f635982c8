//! `dependsOn` on a real hub: new works, updates, failures, restarts, other clusters, deletions.

use std::time::Duration;

use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::fixture::{Running, Sync, config_map};
use crate::agent::fixture::Fixture;
use crate::harness::eventually;

const DEADLINE: Duration = Duration::from_secs(300);
const ON_BASE: &str = "dependsOn: [base]\n";

/// The agent reports these conditions for the work's generation.
pub async fn report(sync: &Sync, cluster: usize, work: &str, applied: &str, available: &str) {
    let generation = sync.until_there(cluster, work).await.metadata.generation;
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "observedGeneration": generation, "reason": "X",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let conditions = [condition("Applied", applied), condition("Available", available)];
    let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
    sync.works(cluster).patch_status(work, &PatchParams::default(), &patch).await.unwrap();
}

/// Waits until the engine has planned with all that the hub says now: an edit of the work `marker`,
/// which nothing else depends on, is put back.
async fn until_planned(sync: &Sync) {
    let edit = json!({"spec": {"workload": {"manifests": []}}});
    sync.edit(0, "marker", edit).await;
    sync.until_value(0, "marker", "marker").await;
}

async fn is_there(sync: &Sync, cluster: usize, work: &str) -> bool {
    sync.works(cluster).get_opt(work).await.unwrap().is_some()
}

/// The value of the ConfigMap in a work on the first cluster.
async fn value(sync: &Sync, work: &str) -> Option<String> {
    super::fixture::value_of(&sync.works(0).get(work).await.unwrap())
}

fn commit(sync: &Sync, version: &str) {
    let far = format!("dependsOn: [{{cluster: {}, work: base}}]\n", sync.clusters[0]);
    sync.commit(&[
        (0, "marker/cm.yaml", Some(&config_map("marker", "marker"))),
        (0, "base/cm.yaml", Some(&config_map("base", version))),
        (0, "app/cm.yaml", Some(&config_map("app", version))),
        (0, "app/work.yaml", Some(ON_BASE)),
        (0, "web/cm.yaml", Some(&config_map("web", version))),
        (0, "web/work.yaml", Some("dependsOn: [app]\n")),
        (1, "far/cm.yaml", Some(&config_map("far", version))),
        (1, "far/work.yaml", Some(&far)),
    ]);
}

/// The first version is on the hub, each work after those that it depends on.
async fn create_in_order(sync: &Sync) -> Running {
    commit(sync, "one");
    let running = sync.start();
    sync.until_there(0, "base").await;
    sync.until_there(0, "marker").await;
    for (applied, available) in [("False", "False"), ("True", "False"), ("False", "True")] {
        report(sync, 0, "base", applied, available).await;
        until_planned(sync).await;
        for (cluster, work) in [(0, "app"), (0, "web"), (1, "far")] {
            assert!(!is_there(sync, cluster, work).await, "{work}: {applied} {available}");
        }
    }
    report(sync, 0, "base", "True", "True").await;
    sync.until_there(0, "app").await;
    sync.until_there(1, "far").await;
    until_planned(sync).await;
    assert!(!is_there(sync, 0, "web").await);
    report(sync, 0, "app", "True", "True").await;
    sync.until_there(0, "web").await;
    running
}

#[tokio::test(flavor = "multi_thread")]
async fn works_are_created_updated_and_deleted_in_the_order_of_their_dependencies() {
    let sync = Sync::new(2).await;
    let running = create_in_order(&sync).await;
    report(&sync, 0, "web", "True", "True").await;

    // An update, with a restart in the middle.
    commit(&sync, "two");
    running.hint();
    sync.until_value(0, "base", "two").await;
    running.stop().await;
    let running = sync.start();
    until_planned(&sync).await;
    assert_eq!(value(&sync, "app").await.as_deref(), Some("one"));
    // A dependency that fails keeps no update from its dependents.
    report(&sync, 0, "base", "False", "False").await;
    sync.until_value(0, "app", "two").await;
    sync.until_value(1, "far", "two").await;
    until_planned(&sync).await;
    assert_eq!(value(&sync, "web").await.as_deref(), Some("one"));
    report(&sync, 0, "app", "True", "True").await;
    sync.until_value(0, "web", "two").await;

    // All are removed at once.
    sync.agent_takes(0, "app").await;
    report(&sync, 0, "app", "True", "True").await;
    let gone = [(0, "base", None), (0, "app", None), (0, "web", None), (1, "far", None)];
    let map = config_map("kept", "kept");
    sync.commit(&[&gone[..], &[(1, "kept/cm.yaml", Some(map.as_str()))]].concat());
    running.hint();
    sync.until_gone(0, "web").await;
    sync.until_gone(1, "far").await;
    sync.until(0, "app", |work| {
        let is_going = work.is_some_and(|work| work.metadata.deletion_timestamp.is_some());
        if is_going { Ok(()) } else { Err("it is not being deleted".into()) }
    })
    .await;
    until_planned(&sync).await;
    let base = sync.until_there(0, "base").await;
    assert!(base.metadata.deletion_timestamp.is_none(), "its dependent is still there");
    sync.agent_lets_go(0, "app").await;
    sync.until_gone(0, "base").await;
    running.stop().await;
}

/// The conditions of a work on the hub, by type, of its generation.
async fn conditions(sync: &Sync, work: &str) -> Value {
    let work = serde_json::to_value(sync.works(0).get(work).await.unwrap()).unwrap();
    let generation = &work["metadata"]["generation"];
    let all = work["status"]["conditions"].as_array().into_iter().flatten();
    let current = all.filter(|condition| condition["observedGeneration"] == *generation);
    let of_type = |one: &Value| {
        let kind = one["type"].as_str().unwrap_or_default().to_owned();
        (kind, one["status"].clone())
    };
    current.map(of_type).collect::<serde_json::Map<_, _>>().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_dependency_of_a_real_agent_holds_new_works_until_it_is_fixed() {
    let agent = Fixture::start().await;
    let mut sync = Sync::new(1).await;
    sync.clusters = vec![agent.cluster_name.clone()];
    let map = |name: &str, namespace: &str| {
        config_map(name, "one").replace("namespace: default", &format!("namespace: {namespace}"))
    };
    let missing = format!("{}-missing", agent.namespace);
    sync.commit(&[
        (0, "marker/cm.yaml", Some(&map("marker", &agent.namespace).replace("one", "marker"))),
        (0, "base/cm.yaml", Some(&map("base", &missing))),
        (0, "app/cm.yaml", Some(&map("app", &agent.namespace))),
        (0, "app/work.yaml", Some(ON_BASE)),
    ]);
    let running = sync.start();
    sync.until_there(0, "base").await;
    eventually("the agent to fail", DEADLINE, || async {
        let found = conditions(&sync, "base").await;
        if found["Applied"] == "False" { Ok(()) } else { Err(found.to_string()) }
    })
    .await
    .unwrap();
    sync.until_there(0, "marker").await;
    until_planned(&sync).await;
    assert!(!is_there(&sync, 0, "app").await);

    sync.commit(&[(0, "base/cm.yaml", Some(&map("base", &agent.namespace)))]);
    running.hint();
    sync.until_there(0, "app").await;
    let found = conditions(&sync, "base").await;
    assert_eq!((&found["Applied"], &found["Available"]), (&json!("True"), &json!("True")));
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(agent.cluster.clone(), &agent.namespace);
    eventually("both ConfigMaps on the cluster", DEADLINE, || async {
        let all = maps.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let names: Vec<_> = all.items.iter().filter_map(|map| map.metadata.name.clone()).collect();
        let is_there = |name: &str| names.iter().any(|one| one == name);
        if is_there("base") && is_there("app") { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await
    .unwrap();
    running.stop().await;
}

/// An agent applies nothing of a Complete work any more. So nobody waits for its later content.
#[tokio::test(flavor = "multi_thread")]
async fn new_work_does_not_wait_for_a_change_of_a_complete_dependency() {
    let agent = Fixture::start().await;
    let mut sync = Sync::new(1).await;
    sync.clusters = vec![agent.cluster_name.clone()];
    let map = |name: &str, text: &str| {
        let namespace = format!("namespace: {}", agent.namespace);
        config_map(name, text).replace("namespace: default", &namespace) + "  done: \"yes\"\n"
    };
    let rule = "conditionRules:\n- condition: Complete\n  type: CEL\n  celExpressions: \
                [object.data.done == 'yes']\n";
    sync.commit(&[
        (0, "marker/cm.yaml", Some(&map("marker", "marker"))),
        (0, "base/cm.yaml", Some(&map("base", "one"))),
        (0, "base/cm.config.yaml", Some(rule)),
    ]);
    let running = sync.start();
    sync.until_there(0, "base").await;
    agent.condition("base", "Complete", "True").await;
    sync.commit(&[
        (0, "base/cm.yaml", Some(&map("base", "two"))),
        (0, "app/cm.yaml", Some(&map("app", "one"))),
        (0, "app/work.yaml", Some(ON_BASE)),
    ]);
    running.hint();
    sync.until_there(0, "app").await;
    let found = conditions(&sync, "base").await;
    assert_eq!((&found["Complete"], &found["Applied"]), (&json!("True"), &Value::Null));
    running.stop().await;
}
