//! Demonstrates gitwork with real parts: a hub and two managed clusters, a forge, the daemon and
//! its agents.
//!
//! `cargo run --example demo` runs until Ctrl-C; with `--exit` it ends after the tour.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a demonstration prints, and panics on errors"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Parser as _;
use gitwork_api::cluster::ManagedCluster;
use gitwork_core::model::name::{ClusterName, CommitId};
use gitwork_hub::fleet;
use gitwork_hub::fleet::Selection;
use gitwork_report::status::{WorkStatus, aggregate};
use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/harness/gitea.rs"]
mod gitea;
#[path = "../tests/harness/mod.rs"]
mod harness;

use gitea::{Gitea, GiteaRepository, request};
use harness::git_server;
use harness::process::Port;
use harness::{Cluster, ClusterOptions, ControlPlane, crds, eventually};

/// The clusters that run. The hub sees the other clusters of the example as unreachable.
const MANAGED: [&str; 2] = ["store-berlin", "store-lisbon"];
const AWAY: [&str; 2] = ["staging", "production"];
const DEADLINE: Duration = Duration::from_secs(180);

#[derive(clap::Parser)]
struct Args {
    /// End after the tour
    #[arg(long)]
    exit: bool,
}

struct Demo {
    repo: GiteaRepository,
    hub: Cluster,
    managed: Vec<Cluster>,
    /// Address of the status page.
    page: String,
    /// Commit and state of each work when they were last printed.
    before: BTreeMap<String, (Option<String>, String)>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            ended = demo(&args) => ended,
            // The daemon and the agents end with them, too: no step would come to its end.
            interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
            _ = terminate.recv() => Ok(()),
        }
    })?;
    // The threads of the daemon and the agents still run; the control plane ends with this process.
    std::process::exit(0);
}

async fn demo(args: &Args) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let log = std::env::temp_dir().join("gitwork-demo.log");
    start_log(&log)?;
    print_step(
        "Starting a hub, two managed clusters and a forge (the first start builds them, which \
         takes minutes)",
    );
    let plane = ControlPlane::boot().await?;
    let hub = plane.start("hub", ClusterOptions { crds: crds::hub(), ..Default::default() }).await;
    // The place of gitwork's own objects, such as the record of what was rolled out.
    hub.create_namespace("gitwork").await;
    let mut managed = Vec::new();
    for name in MANAGED {
        let options = ClusterOptions {
            controller_manager: true,
            scheduler_and_kwok: true,
            crds: crds::managed(),
        };
        let cluster = plane.start(name, options).await;
        let kubeconfig = hub.accept_as_file(name).await;
        start_agent(name, &kubeconfig, &cluster.kubeconfig_path())?;
        managed.push(cluster);
    }
    for name in AWAY {
        hub.accept(name).await;
        mark_unreachable(&hub, name).await?;
    }

    let repo = Gitea::shared().await.repository().await;
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/repo-layout");
    let files = read_folder(&example, &example)?;
    let first = push(&repo, &files);
    let url = repo.http_url();
    let port = Port::reserve()?;
    let page = format!("http://127.0.0.1:{}", port.number());
    print_step(&format!(
        "Serving examples/repo-layout at {url}; starting gitwork, with its page at {page}"
    ));
    start_gitwork(&repo, &page, &hub.kubeconfig_path(), &folder.path().join("cache")).await;

    let mut demo = Demo { repo, hub, managed, page, before: BTreeMap::new() };
    demo.tour(first).await?;
    demo.print_kubeconfigs(&log);
    if args.exit {
        return Ok(());
    }
    print_step("Push to the repository and watch; Ctrl-C ends the demo");
    std::future::pending().await
}

impl Demo {
    async fn tour(&mut self, first: CommitId) -> Result<()> {
        self.first_sync(first).await?;
        self.change_settings().await?;
        print_step(
            "3. A user deletes a Service on the cluster and edits a work on the hub: gitwork \
             reverts both",
        );
        self.drift().await?;
        self.break_one_work().await?;
        print_step("5. A cluster rejects an object: commit, page and status branch name the work");
        self.reject_object().await?;
        self.change_group().await?;
        self.join_group().await?;
        self.roll_out().await?;
        self.remove_work().await
    }

    /// One commit changes the work of a group. Each cluster gets it with its own values.
    async fn change_group(&mut self) -> Result<()> {
        print_step(
            "6. A commit changes one folder of a group: both stores get it, with their own values",
        );
        let path = "groups/edge/price-board/board.yaml";
        let changed = self.read(path)?.replace("Prices in", "Fresh prices in");
        let commit = self.repo.push("main", &[(path, Some(&changed))]);
        for number in 0..MANAGED.len() {
            self.print_data(number, ("price-board", "board"), "title", "Fresh").await?;
        }
        self.show_commit_status(commit, "success").await
    }

    /// A cluster gets a label, and with it the works of a group, without a commit.
    async fn join_group(&mut self) -> Result<()> {
        print_step(
            "7. A group by a label of the ManagedCluster: a cluster that gets the label joins it",
        );
        let group = "selector:\n  labelSelector:\n    matchLabels: {campaign: summer}\n\
                     defaults:\n  substitute: true\n";
        let banner = "apiVersion: v1\nkind: ConfigMap\n\
                      metadata: {name: banner, namespace: default}\n\
                      data: {text: \"Summer in ${CITY}\"}\n";
        self.set_label(MANAGED[0], "campaign", "summer").await?;
        let files = [
            ("groups/campaign/group.yaml", Some(group)),
            ("groups/campaign/banner/banner.yaml", Some(banner)),
        ];
        let commit = self.repo.push("main", &files);
        self.print_data(0, ("default", "banner"), "text", "Summer").await?;
        self.show_commit_status(commit, "success").await?;
        let start = Instant::now();
        self.set_label(MANAGED[1], "campaign", "summer").await?;
        self.print_data(1, ("default", "banner"), "text", "Summer").await?;
        println!("   {} joined after {:.1} s", MANAGED[1], start.elapsed().as_secs_f64());
        Ok(())
    }

    /// A group's content in waves: one that fails on the first store, and one without the mistake.
    async fn roll_out(&mut self) -> Result<()> {
        print_step(
            "8. A rollout in waves: a change fails on the first store, the other one is spared, \
             and the first one gets its last content back",
        );
        let group = "clusters: [store-berlin, store-lisbon]\nrollout:\n  waves: [{name: canary, \
                     clusters: [store-berlin]}]\n  progressDeadline: 15s\n  onFailure: return\n";
        let (path, offers) = ("groups/offers/offers/offers.yaml", ("default", "offers"));
        let manifests = |text: &str, address: &str| {
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: offers, namespace: \
                 default}}\ndata: {{text: {text}}}\n---\napiVersion: v1\nkind: \
                 Service\nmetadata: {{name: offers, namespace: default}}\nspec: {{{address}ports: \
                 [{{port: 80}}]}}\n"
            )
        };
        let first = manifests("apples", "");
        let files = [("groups/offers/group.yaml", Some(group)), (path, Some(first.as_str()))];
        let commit = self.repo.push("main", &files);
        self.print_data(0, offers, "text", "apples").await?;
        self.print_data(1, offers, "text", "apples").await?;
        self.show_commit_status(commit, "success").await?;

        // A cluster accepts no other address for a Service that has one.
        let mistake = manifests("pears", "clusterIP: 10.0.0.77, ");
        let commit = self.repo.push("main", &[(path, Some(&mistake))]);
        self.print_data(0, offers, "text", "pears").await?;
        self.print_data(0, offers, "text", "apples").await?;
        self.print_data(1, offers, "text", "apples").await?;
        self.show_commit_status(commit, "failure").await?;

        let commit = self.repo.push("main", &[(path, Some(&manifests("plums", "")))]);
        self.print_data(0, offers, "text", "plums").await?;
        self.print_data(1, offers, "text", "plums").await?;
        self.show_commit_status(commit, "success").await
    }

    async fn set_label(&self, cluster: &str, name: &str, value: &str) -> Result<()> {
        let kind = kube::core::ApiResource::erase::<ManagedCluster>(&());
        let clusters: Api<DynamicObject> = Api::all_with(self.hub.client(), &kind);
        let patch = json!({ "metadata": { "labels": { name: value } } });
        clusters.patch(cluster, &PatchParams::default(), &Patch::Merge(patch)).await?;
        println!("   {cluster} has the label {name}={value}");
        Ok(())
    }

    /// Waits until a ConfigMap on a managed cluster has a value that begins so, and prints it.
    async fn print_data(
        &self,
        cluster: usize,
        (namespace, name): (&str, &str),
        key: &str,
        begin: &str,
    ) -> Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.managed[cluster].client(), namespace);
        let value = eventually("the value on the cluster", DEADLINE, || async {
            let found = maps.get_opt(name).await.map_err(|error| error.to_string())?;
            let value = found.and_then(|map| map.data?.get(key).cloned()).unwrap_or_default();
            if value.starts_with(begin) { Ok(value) } else { Err(format!("{key} is {value:?}")) }
        })
        .await?;
        println!("   {}: {name} has {key}: {value}", MANAGED[cluster]);
        Ok(())
    }

    async fn first_sync(&mut self, first: CommitId) -> Result<()> {
        print_step(
            "1. The first sync: every work folder becomes a ManifestWork, which the agents apply",
        );
        self.show("all works of both stores to be applied", |works| {
            let of =
                |name: &str| works.iter().filter(|work| work.cluster == name).collect::<Vec<_>>();
            MANAGED.iter().all(|name| {
                let works = of(name);
                works.len() >= 3 && works.iter().all(|work| work.state.is_applied())
            })
        })
        .await?;
        self.show_objects().await?;
        self.show_commit_status(first, "success").await
    }

    async fn change_settings(&mut self) -> Result<()> {
        print_step("2. A commit changes the settings of one store");
        let path = "clusters/store-berlin/shop/settings.yaml";
        let settings = self.read(path)?.replace("sundays=", "open on sundays=");
        let commit = self.repo.push("main", &[(path, Some(&settings))]);
        println!("   pushed {}", commit.short());
        let start = Instant::now();
        self.wait_for_opening_hours(0).await?;
        println!("   on the cluster after {:.1} s", start.elapsed().as_secs_f64());
        self.show("the changed work to be applied", |works| {
            works
                .iter()
                .filter(|work| work.cluster == "store-berlin")
                .all(|work| work.state.is_applied())
        })
        .await?;
        self.show_commit_status(commit, "success").await
    }

    /// Waits until a managed cluster has the changed opening hours.
    async fn wait_for_opening_hours(&self, cluster: usize) -> Result<()> {
        let settings: Api<ConfigMap> = Api::namespaced(self.managed[cluster].client(), "shop");
        eventually("the change on the cluster", DEADLINE, || async {
            let found = settings.get("shop-settings").await.map_err(|error| error.to_string())?;
            let hours = found.data.and_then(|data| data.get("opening-hours").cloned());
            match hours {
                Some(hours) if hours.starts_with("open on") => Ok(()),
                other => Err(format!("opening-hours is {other:?}")),
            }
        })
        .await?;
        Ok(())
    }

    async fn break_one_work(&mut self) -> Result<()> {
        print_step(
            "4. A commit breaks one work and changes another: only the broken one is frozen",
        );
        let broken = "kind: Namespace\n  metadata: [";
        let path = "clusters/store-berlin/shop/namespace.yaml";
        let namespace = self.read(path)?;
        let other = "clusters/store-lisbon/shop/settings.yaml";
        let changed = self.read(other)?.replace("sundays=", "open on sundays=");
        let commit = self.repo.push("main", &[(path, Some(broken)), (other, Some(&changed))]);
        self.wait_for_opening_hours(1).await?;
        self.show("store-berlin/shop to stay as it was", |works| {
            let kept =
                works.iter().any(|work| work.cluster == "store-berlin" && work.work == "shop");
            let lisbon = works.iter().filter(|work| work.cluster == "store-lisbon");
            kept && lisbon.clone().all(|work| work.state.is_applied())
        })
        .await?;
        self.show_commit_status(commit, "failure").await?;
        self.repo.push("main", &[(path, Some(&namespace))]);
        Ok(())
    }

    async fn remove_work(&mut self) -> Result<()> {
        print_step("9. A commit removes a work folder: gitwork deletes the work and its objects");
        let commit = self.repo.push("main", &[("clusters/store-berlin/tills", None)]);
        self.show("store-berlin/tills to be gone", |works| {
            !works.iter().any(|work| work.cluster == "store-berlin" && work.work == "tills")
        })
        .await?;
        self.show_commit_status(commit, "success").await?;

        print_step(
            "10. The status is in Git too, at most 30 s later: branch gitwork-status, README.md",
        );
        let readme = self.status_branch(&commit.to_string()).await?;
        readme.lines().take(30).for_each(|line| println!("   | {line}"));
        Ok(())
    }

    /// Pushes an object that its cluster's API server rejects, and removes it again. Only the
    /// cluster can know: it does not have the namespace.
    async fn reject_object(&self) -> Result<()> {
        let path = "clusters/store-lisbon/shop/refused.yaml";
        let refused = "apiVersion: v1\nkind: ConfigMap\n\
                       metadata: {name: refused, namespace: attic}\ndata: {key: x}\n";
        let commit = self.repo.push("main", &[(path, Some(refused))]);
        self.show_commit_status(commit, "failure").await?;
        let work = eventually("the page to show the reason", DEADLINE, || async {
            let path = "/api/works/demo/store-lisbon/shop";
            let answer = request(&self.page, Method::GET, path, None, None).await;
            let (_, text) = answer.map_err(|error| format!("{error:#}"))?;
            let work: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            let why = work["why"].as_str().or(work["message"].as_str()).unwrap_or_default();
            if why.contains("attic") { Ok(why.to_owned()) } else { Err(text) }
        })
        .await?;
        println!("   page: store-lisbon/shop: {work}");
        let readme = self.status_branch("failed").await?;
        let line = readme.lines().find(|line| line.contains("store-lisbon.md"));
        println!("   status branch: {}", line.unwrap_or_default().trim());
        let commit = self.repo.push("main", &[(path, None)]);
        self.show_commit_status(commit, "success").await
    }

    /// Waits until gitwork's status on the commit is `state`, and prints all statuses up to then.
    async fn show_commit_status(&self, commit: CommitId, state: &str) -> Result<()> {
        let path = format!("/commits/{commit}/statuses?sort=oldest");
        let statuses =
            eventually(&format!("the status of {commit} to be {state}"), DEADLINE, || async {
                let (_, answer) = self.repo.call(Method::GET, &path, None).await;
                let mut all = answer.as_array().cloned().unwrap_or_default();
                all.sort_by_key(|status| status["id"].as_u64());
                let is_it = all.last().is_some_and(|status| status["status"] == state);
                if is_it { Ok(all) } else { Err(answer.to_string()) }
            })
            .await?;
        for status in statuses {
            let [state, words] = ["status", "description"].map(|name| status[name].as_str());
            let (state, words) = (state.unwrap_or_default(), words.unwrap_or_default());
            println!("   commit {}: {state:<8} {words}", commit.short());
        }
        Ok(())
    }

    /// The status branch's README, once it has `words`.
    async fn status_branch(&self, words: &str) -> Result<String> {
        let readme = eventually("the status branch to show it", DEADLINE, || async {
            let text = self.repo.file("gitwork-status", "README.md").await.unwrap_or_default();
            if text.contains(words) {
                Ok(text)
            } else {
                Err(format!("it has no {words:?}:\n{text}"))
            }
        })
        .await?;
        Ok(readme)
    }

    async fn drift(&self) -> Result<()> {
        let services: Api<Service> = Api::namespaced(self.managed[0].client(), "shop");
        let list = services.list(&Default::default()).await?;
        let name = list.items.first().and_then(|service| service.metadata.name.clone());
        let name = name.ok_or_else(|| anyhow!("store-berlin has no Service in namespace shop"))?;
        let uid = services.get(&name).await?.metadata.uid;
        let start = Instant::now();
        services.delete(&name, &DeleteParams::default()).await?;
        eventually("the Service to be back", DEADLINE, || async {
            let found = services.get_opt(&name).await.map_err(|error| error.to_string())?;
            if found.is_some_and(|found| found.metadata.uid != uid) {
                Ok(())
            } else {
                Err("it is gone".into())
            }
        })
        .await?;
        println!("   service/{name} was back after {:.2} s", start.elapsed().as_secs_f64());

        let works: Api<DynamicObject> = Api::namespaced_with(
            self.hub.client(),
            "store-lisbon",
            &kube::core::ApiResource::erase::<gitwork_api::work::ManifestWork>(&()),
        );
        let start = Instant::now();
        let patch = json!({ "spec": { "deleteOption": { "propagationPolicy": "Orphan" } } });
        works.patch("shop", &PatchParams::default(), &Patch::Merge(patch)).await?;
        eventually("the edit to be reverted", DEADLINE, || async {
            let work = works.get("shop").await.map_err(|error| error.to_string())?;
            let policy = work.data.pointer("/spec/deleteOption/propagationPolicy").cloned();
            if policy == Some("Orphan".into()) { Err("it is as edited".into()) } else { Ok(()) }
        })
        .await?;
        println!(
            "   ManifestWork store-lisbon/shop was reverted after {:.2} s",
            start.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// Waits until `done` accepts the works on the hub, and prints the changed ones.
    async fn show(&mut self, what: &str, done: impl Fn(&[WorkStatus]) -> bool) -> Result<()> {
        let client = self.hub.client();
        let works = eventually(what, DEADLINE, || async {
            let fleet = fleet::fleet(&client, &Selection::default()).await;
            let fleet = fleet.map_err(|error| error.to_string())?;
            let works: Vec<_> = fleet.works.into_iter().map(|tree| tree.work).collect();
            if done(&works) { Ok(works) } else { Err(describe_pending(&works)) }
        })
        .await?;
        let now: BTreeMap<String, (Option<String>, String)> = works
            .iter()
            .map(|work| {
                let commit = work.commit.as_deref().map(|id| id.chars().take(8).collect());
                (format!("{}/{}", work.cluster, work.work), (commit, work.state.to_string()))
            })
            .collect();
        for (key, (commit, state)) in &now {
            if self.before.get(key) != Some(&(commit.clone(), state.clone())) {
                let sign = if self.before.contains_key(key) { "~" } else { "+" };
                println!("   {sign} {key:<30} {state:<12} {}", commit.as_deref().unwrap_or("-"));
            }
        }
        for key in self.before.keys().filter(|key| !now.contains_key(*key)) {
            println!("   - {key}");
        }
        println!("   {}", aggregate(&works));
        self.before = now;
        Ok(())
    }

    async fn show_objects(&self) -> Result<()> {
        for (name, cluster) in MANAGED.iter().zip(&self.managed) {
            let deployments: Api<k8s_openapi::api::apps::v1::Deployment> =
                Api::namespaced(cluster.client(), "shop");
            let line = eventually("the Deployment to be ready", DEADLINE, || async {
                let all = deployments
                    .list(&Default::default())
                    .await
                    .map_err(|error| error.to_string())?;
                let web = all.items.first().ok_or("there is none")?;
                let status = web.status.clone().unwrap_or_default();
                let (ready, wanted) =
                    (status.ready_replicas.unwrap_or(0), status.replicas.unwrap_or(0));
                let line = format!(
                    "deployment/{} {ready}/{wanted} ready",
                    web.metadata.name.clone().unwrap_or_default()
                );
                if ready > 0 && ready == wanted { Ok(line) } else { Err(line) }
            })
            .await?;
            println!("   {name}: {line}");
        }
        let of = |cluster: &str| Selection {
            cluster: ClusterName::parse(cluster).ok(),
            ..Selection::default()
        };
        let fleet = fleet::fleet(&self.hub.client(), &of(MANAGED[0])).await?;
        let objects = fleet.works.iter().flat_map(|tree| &tree.objects);
        for object in objects.filter(|object| !object.feedback.is_empty()) {
            let values: Vec<String> =
                object.feedback.iter().map(|(name, value)| format!("{name}={value}")).collect();
            println!("   {}: feedback on the hub: {object} {}", MANAGED[0], values.join(" "));
        }
        Ok(())
    }

    fn read(&self, path: &str) -> Result<String> {
        self.at(&format!("main:{path}"))
    }

    /// A file of the repository, named as `git show` does.
    fn at(&self, path: &str) -> Result<String> {
        let git = self.repo.local.git2();
        let tip = git.revparse_single(path)?;
        let blob = tip.as_blob().ok_or_else(|| anyhow!("{path} is not a file"))?;
        Ok(String::from_utf8(blob.content().to_vec())?)
    }

    fn print_kubeconfigs(&self, log: &Path) {
        print_step("Everything is still running:");
        println!("   export KUBECONFIG={}   # the hub", self.hub.kubeconfig_path().display());
        for (name, cluster) in MANAGED.iter().zip(&self.managed) {
            println!("   export KUBECONFIG={}   # {name}", cluster.kubeconfig_path().display());
        }
        println!("   git clone {}", self.repo.push_url());
        println!("   the status page: {}", self.page);
        println!("   the logs of gitwork and its agents: {}", log.display());
    }
}

/// The works of the stores that are not applied.
fn describe_pending(works: &[WorkStatus]) -> String {
    let pending = works
        .iter()
        .filter(|work| MANAGED.contains(&work.cluster.as_str()) && !work.state.is_applied());
    let describe = |work: &WorkStatus| {
        format!(
            "{}/{} is {} {}",
            work.cluster,
            work.work,
            work.state,
            work.message.as_deref().unwrap_or_default()
        )
    };
    let pending: Vec<String> = pending.map(describe).collect();
    format!("{}; {}", aggregate(works), pending.join(", "))
}

fn print_step(text: &str) {
    println!("\n{text}");
}

fn start_log(file: &Path) -> Result<()> {
    let file = std::fs::File::create(file)?;
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::sync::Mutex::new(file)).init();
    Ok(())
}

/// Sets the condition that OCM gives a ManagedCluster whose agent no longer updates its lease.
async fn mark_unreachable(hub: &Cluster, name: &str) -> Result<()> {
    let kind = kube::core::ApiResource::erase::<ManagedCluster>(&());
    let clusters: Api<DynamicObject> = Api::all_with(hub.client(), &kind);
    let condition = json!({
        "type": "ManagedClusterConditionAvailable", "status": "Unknown",
        "reason": "ManagedClusterLeaseUpdateStopped",
        "message": "Registration agent stopped updating its lease.",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({ "status": { "conditions": [condition] } });
    clusters.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

/// Starts the daemon with the command line of a pod.
async fn start_gitwork(repo: &GiteaRepository, page: &str, kubeconfig: &Path, cache: &Path) {
    let token = repo.token(&["write:repository"]).await;
    let token = token.display();
    let arguments = [
        "gitwork".into(),
        "run".into(),
        format!("--repo={}", repo.http_url()),
        "--branch=main".into(),
        format!("--username={}", repo.owner),
        format!("--password-file={token}"),
        "--source-id=demo".into(),
        "--interval=1".into(),
        "--commit-status=gitea".into(),
        format!("--commit-status-token-file={token}"),
        "--status-branch".into(),
        format!("--page-bind={}", page.trim_start_matches("http://")),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--cache={}", cache.display()),
    ];
    std::thread::spawn(move || gitwork::main(arguments.map(std::ffi::OsString::from)));
}

fn start_agent(name: &str, hub: &Path, managed: &Path) -> Result<()> {
    let arguments = [
        "gitwork-agent".to_owned(),
        "agent".into(),
        format!("--workload-source-config={}", hub.display()),
        format!("--spoke-kubeconfig={}", managed.display()),
        format!("--spoke-cluster-name={name}"),
        "--disable-leader-election".into(),
        "--listen=127.0.0.1:0".into(),
    ];
    let cli =
        gitwork_agent::flags::Cli::try_parse_from(arguments).context("the agent's arguments")?;
    let gitwork_agent::flags::Command::Agent(flags) = cli.command;
    gitwork_kube::install_crypto();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let name = name.to_owned();
    std::thread::spawn(move || {
        if let Err(problem) = runtime.block_on(gitwork_agent::run::run(*flags)) {
            tracing::error!(%problem, cluster = name, "the agent has ended");
        }
    });
    Ok(())
}

fn push(repo: &GiteaRepository, files: &[(String, String)]) -> CommitId {
    let files: Vec<(&str, Option<&str>)> =
        files.iter().map(|(path, text)| (path.as_str(), Some(text.as_str()))).collect();
    repo.push("main", &files)
}

fn read_folder(root: &Path, folder: &Path) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files.extend(read_folder(root, &path)?);
        } else {
            let name =
                path.strip_prefix(root)?.to_str().ok_or_else(|| anyhow!("{path:?}"))?.to_owned();
            files.push((name, std::fs::read_to_string(&path)?));
        }
    }
    if files.is_empty() && root == folder {
        bail!("{} is empty", root.display());
    }
    Ok(files)
}
