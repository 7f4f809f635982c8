//! `gitwork controller` on a real API server, with the rights of `deploy/controller.yaml`. The
//! tests write what OCM's Placement controller and the agents would.

mod agents;
mod defects;
mod deliver;
mod faults;
pub mod fixture;
mod replicas;

use std::collections::BTreeMap;
use std::sync::Mutex;

use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::requests::Request;
use crate::harness::{Cluster, eventually, tally};
use fixture::{DEADLINE, Fixture, OWNER, now, shared, template, template_with_rules};

const PLACEMENT: &str = "work.open-cluster-management.io/placementname";

/// What a controller serves that has read the hub.
pub async fn scrape() -> String {
    shared().await.1.scrape().await
}

#[tokio::test(flavor = "multi_thread")]
async fn set_is_created_updated_and_deleted() {
    let fixture = Fixture::new(&shared().await.0, 2).await;
    fixture.create(&json!({"type": "All"}), &template("one")).await;
    fixture.until_values("one one").await;
    let work = fixture.work(0).await.unwrap();
    let labels = work.metadata.labels.clone().unwrap();
    assert_eq!(labels[OWNER], format!("{}.web", fixture.namespace));
    assert_eq!((labels[PLACEMENT].as_str(), labels["team"].as_str()), ("all", "shop"));
    let name = work.metadata.name.clone().unwrap();
    assert_eq!(fixture.work(1).await.unwrap().metadata.name, Some(name.clone()));
    fixture.until_condition("PlacementVerified", "True AsExpected").await;
    fixture.until_condition("ManifestworkApplied", "False NotAsExpected").await;
    fixture.until_condition("PlacementRolledOut", "False Progressing: 0 of 2").await;
    fixture.report(&[0, 1], "Applied=True Available=True").await;
    fixture.until_condition("ManifestworkApplied", "True AsExpected").await;
    fixture.until_condition("PlacementRolledOut", "True Complete").await;
    let status = fixture.status().await;
    assert_eq!(status["summary"]["available"], 2);
    let groups = &status["placementSummary"][0]["availableDecisionGroups"];
    assert_eq!(groups, "1 (2 / 2 clusters applied)");

    // Labels of others stay. What somebody else changes in the content is put back.
    let api = fixture.works(&fixture.clusters[0]);
    let foreign = json!({"metadata": {"labels": {"foreign": "stays"}},
        "spec": {"workload": {"manifests": []}}});
    api.patch(&name, &PatchParams::default(), &Patch::Merge(foreign)).await.unwrap();
    fixture.until_values("one one").await;
    fixture.set_template(&template("two")).await;
    fixture.until_values("two two").await;
    let labels = fixture.work(0).await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels["foreign"], "stays");
    fixture.patch(json!({"metadata": {"labels": {"team": "books"}}})).await;
    let relabelled = || async {
        let labels = fixture.work(0).await.unwrap().metadata.labels.unwrap();
        if labels["team"] == "books" { Ok(()) } else { Err(format!("{labels:?}")) }
    };
    eventually("the label to reach the work", DEADLINE, relabelled).await.unwrap();

    fixture.sets().delete("web", &DeleteParams::default()).await.unwrap();
    fixture.until_gone().await;
    assert_eq!(fixture.values().await, "- -");
}

#[tokio::test(flavor = "multi_thread")]
async fn placement_reference_is_switched_without_a_gap() {
    let fixture = Fixture::new(&shared().await.0, 3).await;
    fixture.select("all", &[0, 1]).await;
    fixture.select("more", &[1, 2]).await;
    fixture.create(&json!({"type": "All"}), &template("one")).await;
    fixture.until_values("one one -").await;
    let before = fixture.work(1).await.unwrap();
    fixture.patch(json!({"spec": {"placementRefs": [{"name": "more"}]}})).await;
    fixture.until_values("- one one").await;
    let after = fixture.work(1).await.unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(after.metadata.labels.unwrap()[PLACEMENT], "more");
    // A cluster that leaves loses its work, and a missing Placement deletes none.
    fixture.select("more", &[2]).await;
    fixture.until_values("- - one").await;
    fixture.patch(json!({"spec": {"placementRefs": [{"name": "nowhere"}, {"name": "all"}]}})).await;
    fixture.until_values("one one one").await;
    let missing = format!(
        "False PlacementDecisionNotFound: there is no Placement {}/nowhere",
        fixture.namespace
    );
    fixture.until_condition("PlacementVerified", &missing).await;
    // An empty Placement has its own reason.
    fixture.select("all", &[]).await;
    fixture.patch(json!({"spec": {"placementRefs": [{"name": "all"}]}})).await;
    fixture.until_values("- - -").await;
    fixture.until_condition("PlacementRolledOut", "False PlacementDecisionEmpty").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rollout_goes_two_by_two_over_six_clusters() {
    let fixture = Fixture::new(&shared().await.0, 6).await;
    let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": 2}});
    fixture.create(&strategy, &template_with_rules("one")).await;
    fixture.until_values("one one - - - -").await;
    fixture.until_condition("ManifestworkApplied", "False Processing: 2 of 6 works").await;
    fixture.succeed(&[0, 1]).await;
    fixture.until_values("one one one one - -").await;
    fixture.succeed(&[2, 3]).await;
    fixture.until_values("one one one one one one").await;
    fixture.succeed(&[4, 5]).await;
    fixture.until_condition("PlacementRolledOut", "True Complete: 6 of 6").await;
    fixture.set_template(&template_with_rules("two")).await;
    fixture.until_values("two two one one one one").await;
    let status = fixture.status().await;
    assert_eq!(status["summary"]["total"], 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn rollout_stops_at_max_failures_and_a_fix_goes_through() {
    let fixture = Fixture::new(&shared().await.0, 4).await;
    let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": 2}});
    fixture.create(&strategy, &template_with_rules("bad")).await;
    fixture.until_values("bad bad - -").await;
    fixture.report(&[0], "Applied=True Available=True Progressing=True Degraded=True").await;
    fixture.succeed(&[1]).await;
    let failed = format!(
        "False Progressing: 1 of 4 clusters have succeeded; 1 cluster of all has failed: {} \
         (more than maxFailures",
        fixture.clusters[0]
    );
    fixture.until_condition("PlacementRolledOut", &failed).await;
    assert_eq!(fixture.values().await, "bad bad - -");
    fixture.set_template(&template_with_rules("good")).await;
    fixture.until_values("good good - -").await;
    fixture.succeed(&[0, 1]).await;
    fixture.until_values("good good good good").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_soak_and_a_deadline_passes_with_a_tolerated_failure() {
    let fixture = Fixture::new(&shared().await.0, 4).await;
    let strategy = json!({"type": "Progressive", "progressive": {
        "maxConcurrency": 2, "minSuccessTime": "2s", "progressDeadline": "4s", "maxFailures": 1,
    }});
    fixture.create(&strategy, &template_with_rules("one")).await;
    fixture.until_values("one one - -").await;
    fixture.succeed(&[0]).await;
    let soaking = "False Progressing: 0 of 4 clusters have succeeded; 1 for less than";
    fixture.until_condition("PlacementRolledOut", soaking).await;
    // The second one never reports. Its deadline passes, which is one failure.
    fixture.until_values("one one one one").await;
    fixture.succeed(&[2, 3]).await;
    let tolerated = format!("{} (within maxFailures)", fixture.clusters[1]);
    let probe = || async {
        let found = fixture.conditions().await["PlacementRolledOut"].clone();
        let is_it = found.contains("3 of 4") && found.contains(&tolerated);
        if is_it { Ok(()) } else { Err(found) }
    };
    eventually("three successes and a tolerated failure", DEADLINE, probe).await.unwrap();
}

/// M13, M15: a set that OCM's controller cannot decode makes it stop for all sets, and it loses the
/// events of sets with a dot in their name.
#[tokio::test(flavor = "multi_thread")]
async fn poison_set_and_odd_names_stop_nobody() {
    let hub = &shared().await.0;
    let poison = Fixture::new(hub, 1).await;
    let strategy = json!({"type": "Progressive", "progressive": {"minSuccessTime": "5 minutes"}});
    poison.create(&strategy, &template("one")).await;
    let mut dotted = Fixture::new(hub, 1).await;
    dotted.name = "web.v2".into();
    dotted.create(&json!({"type": "All"}), &template("one")).await;
    let mut long = Fixture::new(hub, 1).await;
    long.name = "w".repeat(200);
    long.create(&json!({"type": "All"}), &template("one")).await;
    for fixture in [&dotted, &long] {
        fixture.until_values("one").await;
        // A report of the agent is noticed.
        fixture.report(&[0], "Applied=True Available=True").await;
        fixture.until_condition("PlacementRolledOut", "True Complete").await;
        fixture.sets().delete(&fixture.name, &DeleteParams::default()).await.unwrap();
        fixture.until_gone().await;
        assert_eq!(fixture.values().await, "-");
    }
    let message = "False NotAsExpected: spec.placementRefs[0].rolloutStrategy.progressive.\
                   minSuccessTime is \"5 minutes\"";
    poison.until_condition("PlacementVerified", message).await;
    assert_eq!(poison.values().await, "-");
}

#[tokio::test(flavor = "multi_thread")]
async fn foreground_deletion_waits_for_the_agents_and_background_deletion_does_not() {
    for (policy, waits) in [("Foreground", true), ("Background", false)] {
        let fixture = Fixture::new(&shared().await.0, 1).await;
        let references = json!([{"name": "all"}]);
        let spec = json!({"placementRefs": references, "manifestWorkTemplate": template("one"),
            "cascadeDeletionPolicy": policy});
        fixture.create_spec(spec).await;
        fixture.until_values("one").await;
        let name = fixture.work(0).await.unwrap().metadata.name.unwrap();
        let api = fixture.works(&fixture.clusters[0]);
        let finalizers = |all: Value| Patch::Merge(json!({"metadata": {"finalizers": all}}));
        let agent = finalizers(json!(["cluster.open-cluster-management.io/manifest-work-cleanup"]));
        api.patch(&name, &PatchParams::default(), &agent).await.unwrap();
        fixture.sets().delete("web", &DeleteParams::default()).await.unwrap();
        if waits {
            let deleting = "False Processing: deleting the ManifestWorks of 1 clusters";
            fixture.until_condition("ManifestworkApplied", deleting).await;
        } else {
            fixture.until_gone().await;
        }
        let work = api.get(&name).await.unwrap();
        assert!(work.metadata.deletion_timestamp.is_some(), "{policy}");
        api.patch(&name, &PatchParams::default(), &finalizers(json!([]))).await.unwrap();
        fixture.until_gone().await;
    }
}

/// A work with `ttlSecondsAfterFinished` that is complete since a minute.
async fn complete_work(fixture: &Fixture<'_>, name: &str, labels: &Value) {
    let mut spec = template("job");
    spec["deleteOption"] = json!({"ttlSecondsAfterFinished": 5});
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": name, "labels": labels}, "spec": spec,
    });
    let work: DynamicObject = serde_json::from_value(work).unwrap();
    let api = fixture.works(&fixture.clusters[0]);
    api.create(&PostParams::default(), &work).await.unwrap();
    let condition = json!({"type": "Complete", "status": "True", "reason": "Test", "message": "",
        "observedGeneration": 1, "lastTransitionTime": now()});
    let status = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    api.patch_status(name, &PatchParams::default(), &status).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn completed_works_are_deleted_after_their_ttl_unless_somebody_owns_them() {
    let fixture = Fixture::new(&shared().await.0, 1).await;
    complete_work(&fixture, "of-a-source", &json!({"gitwork.dev/source": "fleet"})).await;
    complete_work(&fixture, "of-a-set", &json!({OWNER: "elsewhere.web"})).await;
    complete_work(&fixture, "job", &json!({})).await;
    let api = fixture.works(&fixture.clusters[0]);
    let created = api.get("job").await.unwrap().metadata.creation_timestamp.unwrap();
    let probe = || async {
        match api.get_opt("job").await.unwrap() {
            None => Ok(()),
            Some(_) => Err("it is there".to_owned()),
        }
    };
    eventually("the work to be deleted", DEADLINE, probe).await.unwrap();
    let took = jiff::Timestamp::now().duration_since(created.0);
    assert!(took.as_secs() >= 4, "{took:?}");
    assert!(api.get_opt("of-a-source").await.unwrap().is_some());
    assert!(api.get_opt("of-a-set").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_without_a_namespace_stops_no_other_and_is_tried_again() {
    let mut fixture = Fixture::new(&shared().await.0, 2).await;
    let missing = format!("{}-later", fixture.clusters[0]);
    fixture.clusters[0].clone_from(&missing);
    fixture.select("all", &[0, 1]).await;
    let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": 1}});
    fixture.create(&strategy, &template("one")).await;
    let other = fixture.clusters[1].clone();
    let probe = || async {
        let all = fixture.works(&other).list(&ListParams::default()).await.unwrap().items;
        if all.len() == 1 { Ok(()) } else { Err(format!("{:?}", fixture.conditions().await)) }
    };
    eventually("the other cluster to have the work", DEADLINE, probe).await.unwrap();
    let message = format!("False NotAsExpected: cannot create ManifestWork {missing}/{}", "web-");
    fixture.until_condition("ManifestworkApplied", &message).await;
    fixture.hub.create_namespace(&missing).await;
    // One at a time: the other one has to be done.
    let name = fixture.works(&other).list(&ListParams::default()).await.unwrap().items.remove(0);
    let name = name.metadata.name.unwrap();
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "Test", "message": "",
            "observedGeneration": 1, "lastTransitionTime": now()})
    };
    let conditions = [condition("Applied"), condition("Available")];
    let status = Patch::Merge(json!({"status": {"conditions": conditions}}));
    let params = PatchParams::default();
    fixture.works(&other).patch_status(&name, &params, &status).await.unwrap();
    fixture.until_values("one one").await;
}

/// Somebody else has a work of the name that the set would use.
#[tokio::test(flavor = "multi_thread")]
async fn work_of_another_owner_is_never_changed() {
    let fixture = Fixture::new(&shared().await.0, 2).await;
    fixture.select("all", &[0]).await;
    fixture.create(&json!({"type": "All"}), &template("one")).await;
    fixture.until_values("one -").await;
    let name = fixture.work(0).await.unwrap().metadata.name.unwrap();
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": name}, "spec": template("theirs"),
    });
    let work: DynamicObject = serde_json::from_value(work).unwrap();
    let api = fixture.works(&fixture.clusters[1]);
    let theirs = api.create(&PostParams::default(), &work).await.unwrap();
    fixture.select("all", &[0, 1]).await;
    let message = format!(
        "False NotAsExpected: cannot create ManifestWork {}/{name}: another owner has",
        fixture.clusters[1]
    );
    fixture.until_condition("ManifestworkApplied", &message).await;
    let there = api.get(&name).await.unwrap();
    assert_eq!(there.metadata.resource_version, theirs.metadata.resource_version);
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_clusters_cost_one_write_each() {
    let hub = &shared().await.0;
    let fixture = Fixture::new(hub, 300).await;
    let mut requests = hub.requests();
    let mut writes = || {
        let all = requests.take().into_iter().filter(|one| {
            let is_work = one.resource == "manifestworks" && one.is_write();
            is_work && fixture.clusters.contains(&one.namespace)
        });
        tally(&all.collect::<Vec<_>>())
    };
    let until_updated = async |generation: u64| {
        let probe = || async {
            let status = fixture.status().await;
            let is_current = status["conditions"][0]["observedGeneration"] == generation;
            let updated = &status["summary"]["updated"];
            if is_current && *updated == 300 { Ok(()) } else { Err(status.to_string()) }
        };
        eventually("300 works with the template", DEADLINE, probe).await.unwrap();
    };
    fixture.create(&json!({"type": "All"}), &template_with_rules("one")).await;
    until_updated(1).await;
    assert_eq!(writes(), BTreeMap::from([("create manifestworks".to_owned(), 300)]));
    fixture.set_template(&template_with_rules("two")).await;
    until_updated(2).await;
    assert_eq!(writes(), BTreeMap::from([("patch manifestworks".to_owned(), 300)]));
}

/// That it has what it needs, the other tests show: they run with this account.
#[tokio::test(flavor = "multi_thread")]
async fn service_account_lacks_rights_that_it_does_not_need() {
    let hub = &shared().await.0;
    let client = hub.client_for("gitwork", "gitwork-controller").await;
    let work = "work.open-cluster-management.io";
    let leases = ("coordination.k8s.io", "leases");
    for (verb, (group, resource), subresource, namespace, name) in [
        ("get", ("", "secrets"), "", "gitwork", ""),
        ("create", (work, "manifestworkreplicasets"), "", "default", ""),
        ("delete", (work, "manifestworkreplicasets"), "", "default", ""),
        ("update", (work, "manifestworks"), "", "default", ""),
        ("deletecollection", (work, "manifestworks"), "", "default", ""),
        ("execute-as", (work, "manifestworks"), "", "default", ""),
        ("patch", (work, "manifestworks"), "status", "default", ""),
        ("get", leases, "", "default", "managed-cluster-lease"),
        ("list", leases, "", "gitwork", ""),
        ("patch", leases, "", "gitwork", "another"),
        ("patch", leases, "", "default", "work-manager-lock"),
        ("patch", ("cluster.open-cluster-management.io", "placements"), "", "default", ""),
        ("impersonate", ("", "users"), "", "", ""),
    ] {
        let review = json!({"apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview", "metadata": {},
            "spec": {"resourceAttributes": {"verb": verb, "group": group, "resource": resource,
                "subresource": subresource, "namespace": namespace, "name": name}}});
        let review: SelfSubjectAccessReview = serde_json::from_value(review).unwrap();
        let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
        let review = reviews.create(&PostParams::default(), &review).await.unwrap();
        assert!(!review.status.unwrap().allowed, "{verb} {group}/{resource} {name} is allowed");
    }
}

/// Nothing to do costs no request but those of the Lease and of watches.
#[tokio::test(flavor = "multi_thread")]
async fn steady_state_sends_no_requests() {
    let (hub, kubeconfig) = fixture::new_hub().await;
    let fixture = Fixture::new(&hub, 3).await;
    let controller = fixture::Controller::start(&kubeconfig, &[]);
    // The API server adds defaults to the works.
    fixture.create(&json!({"type": "All"}), &template_with_rules("one")).await;
    fixture.until_values("one one one").await;
    fixture.succeed(&[0, 1, 2]).await;
    fixture.until_condition("PlacementRolledOut", "True Complete").await;
    // The decisions have settled once a renewal of the Lease follows on another one.
    until_renewed(&hub, 2).await;
    let others = until_renewed(&hub, 4).await;
    assert_eq!(others, [], "requests with nothing to do");
    // A restart reads everything and writes nothing.
    drop(controller);
    let mut requests = hub.requests();
    let second = fixture::Controller::start(&kubeconfig, &[]);
    second.until_logged("read the hub").await;
    until_renewed(&hub, 3).await;
    let mut sent = requests.take();
    sent.retain(|one| one.user.ends_with(":gitwork-controller") && one.resource != "leases");
    assert!(sent.iter().any(|one| one.verb == "list"), "{sent:?}");
    sent.retain(Request::is_write);
    assert_eq!(sent, [], "writes after a restart");
}

/// Waits until the controller has renewed its Lease so often. Gives its other requests meanwhile.
async fn until_renewed(hub: &Cluster, times: usize) -> Vec<Request> {
    let (requests, seen) = (Mutex::new(hub.requests()), Mutex::new((0, Vec::new())));
    let probe = || async {
        let all = requests.lock().unwrap().take();
        let of = all.into_iter().filter(|one| one.user.ends_with(":gitwork-controller"));
        let (leases, others): (Vec<_>, Vec<_>) = of.partition(|one| one.resource == "leases");
        let mut seen = seen.lock().unwrap();
        seen.0 += leases.len();
        seen.1.extend(others);
        if seen.0 >= times { Ok(()) } else { Err(format!("{} renewals", seen.0)) }
    };
    eventually("the Lease to be renewed", DEADLINE, probe).await.unwrap();
    seen.into_inner().unwrap().1
}
