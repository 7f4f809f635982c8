//! What gitwork-agent costs and how fast it is, between a real hub and a real managed cluster, each
//! with an API server of its own. No controllers run there, so that all that happens is the agent's
//! doing. One run, as machines are noisy.
//!
//! Smaller or larger by environment variable: `GITWORK_BENCH_WORKS` (500),
//! `GITWORK_BENCH_UNRELATED` (50000 objects of the same kinds that belong to no work),
//! `GITWORK_BENCH_ROUNDS` (50 of each change), `GITWORK_BENCH_STEADY` (60 seconds in which nothing
//! changes), `GITWORK_BENCH_BURSTS` (3 times all works are deleted at once, and created again).
//!
//! The benchmark keeps its connections open, and watches over others than it writes: a new
//! connection would add 40 ms to what it measures.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking and prints its results"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt, TryStreamExt};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
    WatchEvent, WatchParams,
};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::timeout;

#[path = "agent/bare.rs"]
mod bare;
#[path = "../tests/harness/mod.rs"]
mod harness;

use bare::BareClient;
use harness::requests::Requests;
use harness::resources;
use harness::{Cluster, ClusterOptions, ControlPlane, crds, tally};

/// Requests of the benchmark itself in flight.
const CONCURRENCY: usize = 32;
const CLUSTER: &str = "edge";
const NAMESPACE: &str = "apps";
/// As OCM's agent calls itself.
const USER_AGENT: &str = "work-agent";
const DEADLINE: Duration = Duration::from_secs(900);

struct Counts {
    works: usize,
    unrelated: usize,
    rounds: usize,
    steady: Duration,
    bursts: usize,
}

impl Counts {
    fn read() -> Self {
        let of = |name: &str, default: usize| {
            std::env::var(format!("GITWORK_BENCH_{name}"))
                .map_or(default, |text| text.parse().unwrap())
        };
        Self {
            works: of("WORKS", 500),
            unrelated: of("UNRELATED", 50_000),
            rounds: of("ROUNDS", 50),
            steady: Duration::from_secs(of("STEADY", 60) as u64),
            bursts: of("BURSTS", 3),
        }
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let counts = Counts::read();
        assert!(counts.works > 0 && counts.rounds > 0, "at least one work and one round");
        let plane = ControlPlane::boot().await.unwrap();
        let of = |crds| ClusterOptions { crds, ..Default::default() };
        let (hub, cluster) = tokio::join!(
            plane.start("hub", of(crds::hub())),
            plane.start("edge", of(crds::managed()))
        );
        let hub_kubeconfig = hub.accept_as_file(CLUSTER).await;
        cluster.create_namespace(NAMESPACE).await;
        let clients = Clients {
            hub: hub.client(),
            cluster: cluster.client(),
            hub_watches: hub.client(),
            cluster_watches: cluster.client(),
        };
        let bench = Bench { hub, hub_kubeconfig, cluster, clients };
        println!("| what | measured |\n|---|---|");
        bench.bare(counts.works).await;
        let agent = bench.start_and_idle().await;
        bench.create_at_once(counts.works).await;
        bench.memory(&agent, &format!("{} works", counts.works)).await;
        bench.drift(&counts).await;
        bench.feedback(&counts).await;
        bench.spec_changes(&counts).await;
        bench.steady(&agent, counts.steady).await;
        bench.memory(&agent, &format!("{} works at rest", counts.works)).await;
        for _ in 0..counts.bursts {
            bench.delete_at_once(counts.works).await;
            bench.memory(&agent, "one work, after the deletions").await;
            bench.create_at_once(counts.works).await;
        }
        bench.restart(agent, &counts).await;
    });
}

/// The program in the state that users run it: optimised.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

impl Program {
    /// Processor time so far.
    fn cpu(&self) -> Duration {
        resources::cpu_of(self.0.id()).unwrap()
    }

    /// MiB in memory: now, and at most so far.
    fn memory(&self) -> (f64, f64) {
        let [now, most] = resources::memory_of(self.0.id()).unwrap();
        (now as f64 / 1024.0, most as f64 / 1024.0)
    }

    /// Waits until it has used no processor for two seconds.
    async fn idle(&self) {
        resources::until_idle(self.0.id(), DEADLINE).await;
    }

    /// Asks it to end, as a kubelet does.
    fn terminate(mut self) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
        assert!(self.0.wait().unwrap().success());
    }
}

/// Clients that keep their connections.
struct Clients {
    hub: Client,
    cluster: Client,
    /// For watches, which take a connection for themselves.
    hub_watches: Client,
    cluster_watches: Client,
}

/// One kind of object in one namespace.
struct Watched {
    api: Api<DynamicObject>,
    watches: Api<DynamicObject>,
}

impl Watched {
    fn new(client: &Client, watches: &Client, namespace: &str, kind: &ApiResource) -> Self {
        let of = |client: &Client| Api::namespaced_with(client.clone(), namespace, kind);
        Self { api: of(client), watches: of(watches) }
    }

    /// The resourceVersion of now.
    async fn version(&self) -> String {
        let params = ListParams::default().limit(1);
        let page = self.api.list_metadata(&params).await.unwrap();
        page.metadata.resource_version.unwrap()
    }
}

struct Bench {
    hub: Cluster,
    /// With the rights that OCM gives an agent.
    hub_kubeconfig: PathBuf,
    cluster: Cluster,
    clients: Clients,
}

impl Bench {
    fn start(&self) -> Program {
        let argument = |name: &str, file: &Path| format!("--{name}={}", file.display());
        let child = Command::new(harness::agent_program(env!("CARGO_BIN_EXE_gitwork")))
            .args(["agent", "--workload-source-driver=kube", "--listen=127.0.0.1:0"])
            .arg(format!("--spoke-cluster-name={CLUSTER}"))
            .arg(format!("--namespace={NAMESPACE}"))
            .arg(argument("workload-source-config", &self.hub_kubeconfig))
            .arg(argument("kubeconfig", &self.cluster.kubeconfig_path()))
            .env("RUST_LOG", "warn")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Program(child)
    }

    fn works(&self) -> Watched {
        let kind = resource("work.open-cluster-management.io", "v1", "ManifestWork");
        let Clients { hub, hub_watches, .. } = &self.clients;
        Watched::new(hub, hub_watches, CLUSTER, &kind)
    }

    fn config_maps(&self) -> Watched {
        let Clients { cluster, cluster_watches, .. } = &self.clients;
        Watched::new(cluster, cluster_watches, NAMESPACE, &resource("", "v1", "ConfigMap"))
    }

    fn deployments(&self) -> Watched {
        let Clients { cluster, cluster_watches, .. } = &self.clients;
        Watched::new(cluster, cluster_watches, NAMESPACE, &resource("apps", "v1", "Deployment"))
    }

    async fn create_work(&self, name: &str) {
        self.works().api.create(&PostParams::default(), &work(name)).await.unwrap();
    }

    /// The same requests without an agent, for comparison.
    async fn bare(&self, count: usize) {
        let client = BareClient::new(&self.clients.hub, &self.clients.cluster);
        let [created, deleted] = client.measure(count).await.map(|time| time.as_secs_f64());
        println!(
            "| the requests for {count} works, by a bare client | created in {created:.2} s, \
             deleted in {deleted:.2} s |"
        );
    }

    /// Memory without works, and how soon a work that is there at the start is applied.
    async fn start_and_idle(&self) -> Program {
        let agent = self.start();
        agent.idle().await;
        self.memory(&agent, "no works").await;
        agent.terminate();
        self.create_work("first").await;
        let works = self.works();
        let applied = pin!(watch_from(&works, "first", "0", is_applied));
        let begun = Instant::now();
        let agent = self.start();
        applied.await;
        println!("| start to first work Applied | {} ms |", begun.elapsed().as_millis());
        agent
    }

    async fn memory(&self, agent: &Program, what: &str) {
        agent.idle().await;
        let (now, most) = agent.memory();
        println!("| memory with {what} | {now:.1} MiB RSS, {most:.1} MiB at most |");
    }

    /// All works are created, with [`CONCURRENCY`] requests under way.
    async fn create_at_once(&self, count: usize) {
        let requests = [self.hub.requests(), self.cluster.requests()];
        let version = self.works().version().await;
        let begun = Instant::now();
        let create = async {
            let requests = stream::iter(0..count)
                .map(async |number| self.create_work(&name_of(number)).await)
                .buffer_unordered(CONCURRENCY);
            requests.for_each(|()| async {}).await;
            begun.elapsed()
        };
        let applied = async {
            self.until_all(count, version, |event| match event {
                WatchEvent::Added(work) | WatchEvent::Modified(work) if is_applied(&work) => {
                    Some(work.name_any())
                }
                _ => None,
            })
            .await;
            begun.elapsed()
        };
        let both = async { tokio::join!(create, applied) };
        let (created, applied) = timeout(DEADLINE, both).await.expect("all works Applied in time");
        println!(
            "| {count} works created at once, all Applied | {:.2} s after the first request, \
             {:.2} s after the last response; {:?} |",
            applied.as_secs_f64(),
            applied.saturating_sub(created).as_secs_f64(),
            of_agent(requests)
        );
    }

    /// All works are deleted, with [`CONCURRENCY`] requests under way, until hub and cluster have
    /// nothing left of them.
    async fn delete_at_once(&self, count: usize) {
        let works = self.works();
        let requests = [self.hub.requests(), self.cluster.requests()];
        let version = works.version().await;
        let begun = Instant::now();
        let delete = async {
            let requests = stream::iter(0..count)
                .map(async |number| {
                    let (name, params) = (name_of(number), DeleteParams::default());
                    works.api.delete(&name, &params).await.unwrap();
                })
                .buffer_unordered(CONCURRENCY);
            requests.for_each(|()| async {}).await;
            begun.elapsed()
        };
        let gone = async {
            self.until_all(count, version, |event| match event {
                WatchEvent::Deleted(work) => Some(work.name_any()),
                _ => None,
            })
            .await;
            begun.elapsed()
        };
        let both = async { tokio::join!(delete, gone) };
        let (deleted, gone) = timeout(DEADLINE, both).await.expect("all works gone in time");
        for objects in [self.config_maps(), self.deployments()] {
            let left = objects.api.list_metadata(&ListParams::default()).await.unwrap().items;
            let of_works = left.iter().filter(|object| object.name_any().starts_with("work-"));
            assert_eq!(of_works.count(), 0, "the objects go before their works");
        }
        println!(
            "| {count} works deleted at once, all gone | {:.2} s after the first request, {:.2} s \
             after the last response; {:?} |",
            gone.as_secs_f64(),
            gone.saturating_sub(deleted).as_secs_f64(),
            of_agent(requests)
        );
    }

    /// Watches the works from a version on, until `name_of_event` has given the names of all.
    async fn until_all(
        &self,
        count: usize,
        mut version: String,
        name_of_event: impl Fn(WatchEvent<DynamicObject>) -> Option<String>,
    ) {
        let works = self.works();
        let mut missing: std::collections::HashSet<String> = (0..count).map(name_of).collect();
        while !missing.is_empty() {
            let params = WatchParams::default();
            let mut events = works.watches.watch(&params, &version).await.unwrap().boxed();
            while let Some(event) = events.try_next().await.unwrap() {
                if let WatchEvent::Added(work)
                | WatchEvent::Modified(work)
                | WatchEvent::Deleted(work) = &event
                {
                    version = work.resource_version().unwrap();
                }
                if let Some(name) = name_of_event(event) {
                    missing.remove(&name);
                }
                if missing.is_empty() {
                    break;
                }
            }
        }
    }

    /// A ConfigMap is edited, then another deleted; each is put back.
    async fn drift(&self, counts: &Counts) {
        let maps = self.config_maps();
        let (mut edits, mut deletions) = (Vec::new(), Vec::new());
        for round in 0..counts.rounds {
            let name = name_of(round % counts.works);
            let patch = Patch::Merge(json!({"data": {"key": "drift"}}));
            let params = PatchParams::default();
            let before = maps.api.get(&name).await.unwrap();
            let is_back = |map: &DynamicObject| map.data["data"]["key"] == "0";
            edits.push(
                time(&maps, &before, is_back, async {
                    maps.api.patch(&name, &params, &patch).await.unwrap();
                })
                .await,
            );
            // Of another work: changes of one work in quick succession are taken together.
            let name = name_of((round + counts.works / 2) % counts.works);
            let before = maps.api.get(&name).await.unwrap();
            let uid = before.uid();
            let is_new = |map: &DynamicObject| map.uid() != uid && is_back(map);
            deletions.push(
                time(&maps, &before, is_new, async {
                    maps.api.delete(&name, &DeleteParams::default()).await.unwrap();
                })
                .await,
            );
        }
        tell("object edited to put back", edits);
        tell("object deleted to put back", deletions);
    }

    /// A Deployment's status changes; its work has the new value on the hub.
    async fn feedback(&self, counts: &Counts) {
        let (works, deployments) = (self.works(), self.deployments());
        let mut times = Vec::new();
        for round in 0..counts.rounds {
            let name = name_of(round % counts.works);
            let replicas = i64::try_from(round).unwrap() + 1;
            let status = json!({"status": {"replicas": replicas, "readyReplicas": replicas,
                "availableReplicas": replicas}});
            let is_reported = |work: &DynamicObject| {
                let manifest = &work.data["status"]["resourceStatus"]["manifests"][1];
                let values = manifest["statusFeedback"]["values"].as_array();
                let values = values.map_or(&[][..], Vec::as_slice);
                values.iter().any(|value| {
                    value["name"] == "ReadyReplicas" && value["fieldValue"]["integer"] == replicas
                })
            };
            let before = works.api.get(&name).await.unwrap();
            times.push(
                time(&works, &before, is_reported, async {
                    let patch = Patch::Merge(&status);
                    deployments
                        .api
                        .patch_status(&name, &PatchParams::default(), &patch)
                        .await
                        .unwrap();
                })
                .await,
            );
        }
        tell("status changed to feedback on the hub", times);
    }

    async fn spec_changes(&self, counts: &Counts) {
        let works = self.works();
        let mut times = Vec::new();
        for round in 0..counts.rounds {
            let name = name_of(round % counts.works);
            let before = works.api.get(&name).await.unwrap();
            let mut manifests = before.data["spec"]["workload"]["manifests"].clone();
            manifests[0]["data"]["other"] = json!(format!("round {round}"));
            let patch = json!({"spec": {"workload": {"manifests": manifests}}});
            let generation = before.metadata.generation;
            let is_done =
                |work: &DynamicObject| work.metadata.generation > generation && is_applied(work);
            times.push(
                time(&works, &before, is_done, async {
                    let patch = Patch::Merge(&patch);
                    works.api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
                })
                .await,
            );
        }
        tell("spec changed to Applied on the hub", times);
    }

    async fn steady(&self, agent: &Program, length: Duration) {
        agent.idle().await;
        let mut requests = [self.hub.requests(), self.cluster.requests()];
        let cpu = agent.cpu();
        tokio::time::sleep(length).await;
        let used = agent.cpu() - cpu;
        let made: Vec<_> = requests.iter_mut().flat_map(Requests::take).collect();
        let of_agent = made.iter().filter(|request| request.user_agent.starts_with(USER_AGENT));
        let (expected, others): (Vec<_>, Vec<_>) =
            of_agent.partition(|request| request.verb == "watch" || request.resource == "leases");
        println!(
            "| nothing changes for {} s | {} requests {:?}, besides {} for Lease and \
             watches; {} ms of CPU |",
            length.as_secs(),
            others.len(),
            tally(others.iter().copied()),
            expected.len(),
            used.as_millis()
        );
    }

    /// A restart in a cluster with many objects of the same kinds.
    async fn restart(&self, agent: Program, counts: &Counts) {
        let (maps, deployments) = (self.config_maps(), self.deployments());
        stream::iter(0..counts.unrelated)
            .map(async |number| {
                let name = format!("unrelated-{number}");
                let (api, object) = if number % 2 == 0 {
                    (&maps.api, config_map(&name))
                } else {
                    (&deployments.api, deployment(&name))
                };
                let object = serde_json::from_value(object).unwrap();
                api.create(&PostParams::default(), &object).await.unwrap();
            })
            .buffer_unordered(CONCURRENCY)
            .for_each(|()| async {})
            .await;
        let there = maps.api.list_metadata(&ListParams::default().limit(1)).await.unwrap();
        assert!(!there.items.is_empty());
        let what = format!("{} works and {} unrelated objects", counts.works, counts.unrelated);
        self.memory(&agent, &what).await;
        agent.terminate();
        let works = self.works();
        self.create_work("last").await;
        let applied = pin!(watch_from(&works, "last", "0", is_applied));
        let begun = Instant::now();
        let agent = self.start();
        applied.await;
        println!(
            "| start with {what} to a new work Applied | {} ms |",
            begun.elapsed().as_millis()
        );
        self.memory(&agent, &format!("{what}, after a restart")).await;
    }
}

fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn name_of(number: usize) -> String {
    format!("work-{number:04}")
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE}, "data": {"key": "0"}})
}

fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "app", "image": "registry.example.com/app:1"}]}}}})
}

/// A ConfigMap, and a Deployment with feedback.
fn work(name: &str) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": name},
        "spec": {
            "workload": {"manifests": [config_map(name), deployment(name)]},
            "manifestConfigs": [{
                "resourceIdentifier": {"group": "apps", "resource": "deployments",
                    "namespace": NAMESPACE, "name": name},
                "feedbackRules": [{"type": "WellKnownStatus"}],
            }],
        },
    }))
    .unwrap()
}

/// Whether the hub says so of the present generation.
fn is_applied(work: &DynamicObject) -> bool {
    let conditions = work.data["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    conditions.iter().any(|condition| {
        condition["type"] == "Applied"
            && condition["status"] == "True"
            && condition["observedGeneration"].as_i64() == work.metadata.generation
    })
}

/// The agent's requests, by verb and resource, without watches and Leases.
fn of_agent(requests: [Requests; 2]) -> BTreeMap<String, usize> {
    let made: Vec<_> = requests.into_iter().flat_map(|mut requests| requests.take()).collect();
    let of_agent = made.iter().filter(|request| {
        request.user_agent.starts_with(USER_AGENT)
            && request.verb != "watch"
            && request.resource != "leases"
    });
    tally(of_agent)
}

/// How long after a change an object is as wanted. It is watched, as polling would blur it.
async fn time(
    objects: &Watched,
    before: &DynamicObject,
    wanted: impl Fn(&DynamicObject) -> bool,
    change: impl Future<Output = ()>,
) -> Duration {
    let only = WatchParams::default().fields(&format!("metadata.name={}", before.name_any()));
    let version = before.resource_version().unwrap();
    let mut events = objects.watches.watch(&only, &version).await.unwrap().boxed();
    let begun = Instant::now();
    let is_so = async {
        while let Some(event) = events.try_next().await.unwrap() {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
                && wanted(&object)
            {
                return begun.elapsed();
            }
        }
        panic!("the watch has ended");
    };
    // The change's own request counts: the agent can be faster than its answer.
    let both = async { tokio::join!(change, is_so).1 };
    timeout(DEADLINE, both).await.expect("it comes in time")
}

/// Waits until an object is as wanted, now or later.
async fn watch_from(
    objects: &Watched,
    name: &str,
    version: &str,
    wanted: impl Fn(&DynamicObject) -> bool,
) {
    let only = WatchParams::default().fields(&format!("metadata.name={name}"));
    let look = async {
        let mut events = objects.watches.watch(&only, version).await.unwrap().boxed();
        while let Some(event) = events.try_next().await.unwrap() {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
                && wanted(&object)
            {
                return;
            }
        }
        panic!("the watch has ended");
    };
    timeout(DEADLINE, look).await.expect("it comes in time");
}

fn tell(what: &str, mut times: Vec<Duration>) {
    times.sort();
    println!(
        "| {what}, {} times | p50 {} ms, max {} ms |",
        times.len(),
        times[times.len() / 2].as_millis(),
        times[times.len() - 1].as_millis()
    );
}
