//! What the controller of replica sets costs: a template that changes on 1,000 clusters, relative
//! to a bare client with the same kind of request, and 20 such sets while nothing changes.

use std::process::{Command, Stdio};
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{self, StreamExt};
use http::{Method, Request as HttpRequest, header};
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{GroupVersionKind, ObjectMeta};
use serde_json::{Value, json};

use super::harness::placements::Placements;
use super::harness::requests::{Request, Requests};
use super::harness::{Cluster, eventually, tally};
use super::program::Gitwork;
use super::repository::manifests;
use super::{CONCURRENCY, DEADLINE, count, works, works_in};

const CLUSTERS: usize = 1_000;
const SETS: usize = 20;
const ROUNDS: usize = 3;
const NAMESPACE: &str = "bench-sets";
const OWNER: &str = "work.open-cluster-management.io/manifestworkreplicaset";
/// The bare client's work on each cluster.
const BARE: &str = "bare";
/// How long the requests and the processor time of the steady state are counted.
const STEADY: Duration = Duration::from_secs(60);

/// Prints the figures of the controller.
pub async fn controller(hub: &Cluster) {
    let clusters: Vec<String> = (0..CLUSTERS).map(|number| format!("set-{number:04}")).collect();
    each(&clusters, async |cluster| hub.create_namespace(cluster).await).await;
    hub.create_namespace(NAMESPACE).await;
    let placements = Placements { client: hub.client(), namespace: NAMESPACE.to_owned() };
    let names: Vec<&str> = clusters.iter().map(String::as_str).collect();
    placements.select("all", &names).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_gitwork"));
    command.args(["controller", "--kubeconfig"]).arg(hub.kubeconfig_path());
    command.env("GITWORK_LOG", "error").stderr(Stdio::inherit());
    let controller = Gitwork::start(&mut command);
    create_set(hub, 0).await;
    until_works(hub, 0).await;
    changed_template(hub, &clusters, &controller).await;
    for set in 1..SETS {
        create_set(hub, set).await;
        until_works(hub, set).await;
    }
    steady(hub, &clusters, &controller).await;
}

/// Measures changes of the template of one set.
async fn changed_template(hub: &Cluster, clusters: &[String], controller: &Gitwork) {
    let bare = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": BARE, "labels": {"bench": BARE}}, "spec": template("first"),
    });
    let bare: DynamicObject = serde_json::from_value(bare).unwrap();
    let client = works(hub);
    each(clusters, async |cluster| {
        works_in(&client, cluster).create(&PostParams::default(), &bare).await.unwrap();
    })
    .await;
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let before = bare_rate(hub, clusters, 2 * round).await;
        let mut requests = hub.requests();
        let text = format!("template-{round}");
        let patch = json!({"spec": {"manifestWorkTemplate": template(&text)}});
        let cpu = controller.cpu();
        let sets = sets(hub);
        sets.patch(&set_name(0), &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        let written = rate(&mut requests, |request| request.name != BARE).await;
        controller.idle().await;
        let cpu = controller.cpu() - cpu;
        let after = bare_rate(hub, clusters, 2 * round + 1).await;
        let ratio = written / f64::midpoint(before, after);
        println!(
            "| template changed on {CLUSTERS} clusters (round {round}) | {written:.0} writes/s, \
             bare client {before:.0}/s before and {after:.0}/s after: ratio {ratio:.2}; {} ms of \
             CPU |",
            cpu.as_millis()
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    println!("| template changed, median ratio to the bare client | {:.2} |", ratios[ROUNDS / 2]);
}

/// Measures all sets once every work is applied.
async fn steady(hub: &Cluster, clusters: &[String], controller: &Gitwork) {
    let client = works(hub);
    each(clusters, async |cluster| {
        let api = works_in(&client, cluster);
        let listed = api.list_metadata(&ListParams::default().labels(OWNER)).await.unwrap();
        assert_eq!(listed.items.len(), SETS);
        join_all(listed.items.iter().map(|item| report(&api, &item.metadata))).await;
    })
    .await;
    let applied = |set: Value| {
        let summary = set.pointer("/status/summary").cloned().unwrap_or_default();
        if summary["applied"] == json!(CLUSTERS) { Ok(()) } else { Err(summary.to_string()) }
    };
    for set in 0..SETS {
        let (sets, name) = (sets(hub), set_name(set));
        eventually("the summary of a set", DEADLINE, || async {
            applied(serde_json::to_value(sets.get(&name).await.unwrap()).unwrap())
        })
        .await
        .unwrap();
    }
    controller.idle().await;
    let mut requests = hub.requests();
    let cpu = controller.cpu();
    tokio::time::sleep(STEADY).await;
    let cpu = controller.cpu() - cpu;
    let made = requests.take();
    let made = made.iter().filter(|request| {
        // Leader election depends on the clock, and watches end after some minutes.
        request.user_agent.starts_with("gitwork")
            && request.resource != "leases"
            && request.verb != "watch"
    });
    let (now, most) = controller.memory();
    println!(
        "| {SETS} sets on {CLUSTERS} clusters, nothing changes for {} s | {:?}, {} ms of CPU, \
         {now} MiB RSS, {most} MiB at most |",
        STEADY.as_secs(),
        tally(made),
        cpu.as_millis()
    );
}

/// A bare client writes new content to its works; writes a second.
async fn bare_rate(hub: &Cluster, clusters: &[String], round: usize) -> f64 {
    let mut requests = hub.requests();
    let client = hub.client();
    let template = template(&format!("bare-{round}"));
    each(clusters, async |cluster| {
        let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
        // What the controller's patch has, but for the precondition.
        let patch = json!([
            add("/metadata/labels/bench", json!(BARE)),
            add("/metadata/labels/placement", json!("all")),
            add("/metadata/annotations", json!({"owner": BARE, "labels": "", "written": now()})),
            add("/spec", template.clone()),
        ]);
        let path = format!(
            "/apis/work.open-cluster-management.io/v1/namespaces/{cluster}/manifestworks/{BARE}"
        );
        let request = HttpRequest::builder().method(Method::PATCH).uri(path);
        let request = request.header(header::CONTENT_TYPE, "application/json-patch+json");
        let request = request.body(patch.to_string().into_bytes()).unwrap();
        let _answer: Value = client.request(request).await.unwrap();
    })
    .await;
    rate(&mut requests, |request| request.name == BARE).await
}

/// Waits until a work of each cluster was patched; patches a second, from the first to the last
/// that the API server received.
async fn rate(requests: &mut Requests, is_counted: impl Fn(&Request) -> bool) -> f64 {
    let requests = std::cell::RefCell::new((requests, Vec::new()));
    eventually("a write for each cluster", DEADLINE, || async {
        let (requests, times) = &mut *requests.borrow_mut();
        let made = requests.take();
        let patches = made.iter().filter(|request| {
            request.verb == "patch" && request.resource == "manifestworks" && is_counted(request)
        });
        times.extend(patches.map(|request| request.at));
        if times.len() >= CLUSTERS { Ok(()) } else { Err(times.len().to_string()) }
    })
    .await
    .unwrap();
    let (_, times) = requests.into_inner();
    assert_eq!(times.len(), CLUSTERS, "one write for each");
    let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    (CLUSTERS - 1) as f64 / last.duration_since(*first).as_secs_f64()
}

async fn create_set(hub: &Cluster, set: usize) {
    let object = json!({
        "apiVersion": "work.open-cluster-management.io/v1alpha1",
        "kind": "ManifestWorkReplicaSet",
        "metadata": {"name": set_name(set), "namespace": NAMESPACE},
        "spec": {"placementRefs": [{"name": "all"}], "manifestWorkTemplate": template("first")},
    });
    let object = serde_json::from_value(object).unwrap();
    sets(hub).create(&PostParams::default(), &object).await.unwrap();
}

/// Waits until the set has a work on each cluster.
async fn until_works(hub: &Cluster, set: usize) {
    let owner = format!("{OWNER}={NAMESPACE}.{}", set_name(set));
    eventually("the works of a set", DEADLINE, || async {
        let found = count(hub, &owner).await;
        if found == CLUSTERS { Ok(()) } else { Err(found.to_string()) }
    })
    .await
    .unwrap();
}

/// The agent of a cluster reports a work as applied and available.
async fn report(works: &Api<DynamicObject>, work: &ObjectMeta) {
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "Bench", "message": "",
            "observedGeneration": work.generation, "lastTransitionTime": now()})
    };
    let status = json!({"status": {"conditions": [condition("Applied"), condition("Available")]}});
    let name = work.name.as_deref().unwrap();
    works.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

/// Does the same for each cluster, as many at a time as the controller writes.
async fn each(clusters: &[String], run: impl AsyncFn(&str)) {
    stream::iter(clusters)
        .map(|cluster| run(cluster))
        .buffer_unordered(CONCURRENCY)
        .for_each(async |()| {})
        .await;
}

fn template(text: &str) -> Value {
    json!({"workload": {"manifests": manifests(0, text)}})
}

fn set_name(set: usize) -> String {
    format!("set-{set:02}")
}

fn sets(hub: &Cluster) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(
        "work.open-cluster-management.io",
        "v1alpha1",
        "ManifestWorkReplicaSet",
    );
    Api::namespaced_with(hub.client(), NAMESPACE, &ApiResource::from_gvk(&kind))
}

/// The time, as conditions have it.
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
