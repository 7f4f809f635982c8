//! Several replicas, restarts, and OCM's own controller.

use std::process::Command;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;

use super::fixture::{Controller, DEADLINE, Fixture, new_hub, template, template_with_rules};
use crate::harness::{Cluster, apply_all, eventually};

fn leases(hub: &Cluster, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease");
    Api::namespaced_with(hub.client(), namespace, &ApiResource::from_gvk(&kind))
}

#[tokio::test(flavor = "multi_thread")]
async fn standby_goes_on_in_the_middle_of_a_rollout() {
    let (hub, kubeconfig) = new_hub().await;
    let fixture = Fixture::new(&hub, 4).await;
    let first = Controller::start(&kubeconfig, &[]);
    first.until_logged("became the leader").await;
    let second = Controller::start(&kubeconfig, &[]);
    second.until_logged("another replica leads; standing by").await;
    let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": 1}});
    fixture.create(&strategy, &template_with_rules("one")).await;
    fixture.until_values("one - - -").await;
    let uid = fixture.work(0).await.unwrap().metadata.uid;
    // The leader is killed. Nobody writes until its Lease has expired.
    drop(first);
    fixture.succeed(&[0]).await;
    second.until_logged("became the leader").await;
    fixture.until_values("one one - -").await;
    assert_eq!(fixture.work(0).await.unwrap().metadata.uid, uid);
    fixture.succeed(&[1]).await;
    fixture.until_values("one one one -").await;
    // Both are gone for a while, and clusters report and leave meanwhile.
    drop(second);
    fixture.succeed(&[2]).await;
    fixture.select("all", &[1, 2, 3]).await;
    let third = Controller::start(&kubeconfig, &[]);
    third.until_logged("became the leader").await;
    fixture.until_values("- one one one").await;
    fixture.succeed(&[3]).await;
    fixture.until_condition("PlacementRolledOut", "True Complete: 3 of 3").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn controller_goes_on_after_the_hub_has_restarted() {
    let (hub, kubeconfig) = new_hub().await;
    let fixture = Fixture::new(&hub, 2).await;
    let _controller = Controller::start(&kubeconfig, &[]);
    fixture.create(&json!({"type": "All"}), &template_with_rules("one")).await;
    fixture.until_values("one one").await;
    let uid = fixture.work(0).await.unwrap().metadata.uid;
    hub.kill();
    hub.restart().await.unwrap();
    fixture.set_template(&template_with_rules("two")).await;
    fixture.until_values("two two").await;
    assert_eq!(fixture.work(0).await.unwrap().metadata.uid, uid);
    fixture.succeed(&[0, 1]).await;
    fixture.until_condition("PlacementRolledOut", "True Complete").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn upstream_semantics_are_a_flag() {
    let (hub, kubeconfig) = new_hub().await;
    let _controller = Controller::start(&kubeconfig, &["--upstream-rollout-semantics"]);
    let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": 1}});
    // OCM waits for the condition Progressing, which nobody reports without a rule.
    let waiting = Fixture::new(&hub, 2).await;
    waiting.create(&strategy, &template("one")).await;
    waiting.until_values("one -").await;
    waiting.report(&[0], "Applied=True Available=True").await;
    let quoted = Fixture::new(&hub, 1).await;
    let failures = json!({"type": "Progressive", "progressive": {"maxFailures": "3"}});
    quoted.create(&failures, &template("one")).await;
    let message = "False NotAsExpected: spec.placementRefs[0].rolloutStrategy.progressive.\
                   maxFailures is \"3\"; write the number without quotes";
    quoted.until_condition("PlacementVerified", message).await;
    // What began later has come to its end.
    let other = Fixture::new(&hub, 2).await;
    other.create(&strategy, &template_with_rules("one")).await;
    other.until_values("one -").await;
    other.succeed(&[0]).await;
    other.until_values("one one").await;
    other.succeed(&[1]).await;
    other.until_condition("PlacementRolledOut", "True Complete").await;
    assert_eq!(waiting.values().await, "one -");
}

#[tokio::test(flavor = "multi_thread")]
async fn controller_refuses_to_run_where_ocm_leads() {
    let (hub, kubeconfig) = new_hub().await;
    hub.create_namespace("open-cluster-management-hub").await;
    let lease = |holder: &str| {
        let renewed = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": "open-cluster-management-hub", "name": "work-manager-lock"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 137,
                "renewTime": renewed}})
    };
    apply_all(hub.client(), &[lease("work-1")]).await.unwrap();
    let output = tokio::task::spawn_blocking({
        let kubeconfig = kubeconfig.clone();
        move || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_gitwork"));
            command.arg("controller").arg("--kubeconfig").arg(kubeconfig).output().unwrap()
        }
    })
    .await
    .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("work-1 holds the Lease open-cluster-management-hub/"), "{text}");
    assert!(text.contains("disable the feature gates ManifestWorkReplicaSet"), "{text}");
    // It stops as well if OCM's controller starts later.
    let params = PatchParams::default();
    let free = Patch::Merge(json!({"spec": {"holderIdentity": ""}}));
    let api = leases(&hub, "open-cluster-management-hub");
    api.patch("work-manager-lock", &params, &free).await.unwrap();
    let running = Controller::start(&kubeconfig, &[]);
    running.until_logged("read the hub").await;
    apply_all(hub.client(), &[lease("work-2")]).await.unwrap();
    running.until_logged("work-2 holds the Lease").await;
    // It has released its own Lease.
    let probe = || async {
        let lease = leases(&hub, "gitwork").get("gitwork-controller").await.unwrap();
        let holder = lease.data.pointer("/spec/holderIdentity").cloned().unwrap_or_default();
        if holder == json!("") { Ok(()) } else { Err(holder.to_string()) }
    };
    eventually("the Lease to be released", DEADLINE, probe).await.unwrap();
}
