//! The main job on real parts: a hub and two managed clusters, a forge, gitwork and its agents.
//!
//! `cargo run --example demo` stays up until Ctrl-C; `--exit` ends after the tour.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a demonstration prints, and ends where something is wrong"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Parser as _;
use gitwork::agent;
use gitwork::api::cluster::ManagedCluster;
use gitwork::core::name::{ClusterName, CommitId};
use gitwork::core::status::{WorkStatus, aggregate};
use gitwork::hub::fleet::Selection;
use gitwork::hub::{client, fleet};
use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

#[path = "../tests/harness/git_server/mod.rs"]
mod git_server;
#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/harness/gitea.rs"]
mod gitea;
#[path = "../tests/harness/mod.rs"]
mod harness;

use gitea::{Gitea, GiteaRepository, request};
use harness::process::Port;
use harness::{Cluster, ClusterOptions, ControlPlane, crds, eventually};

/// These run for real; the other clusters of the example are switched off, as far as the hub can tell.
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
    /// What the hub had at the last look: generation and state of each work.
    before: BTreeMap<String, (Option<String>, String)>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(demo(&args))?;
    // Threads with the daemon and the agents are still there; the control plane ends with this process.
    std::process::exit(0);
}

async fn demo(args: &Args) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let log = std::env::temp_dir().join("gitwork-demo.log");
    start_log(&log)?;
    say(
        "Starting a hub, two managed clusters and a forge (the first time they are built, which takes minutes)",
    );
    let plane = ControlPlane::boot().await?;
    let hub = plane.start("hub", ClusterOptions { crds: crds::hub(), ..Default::default() }).await;
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
        switch_off(&hub, name).await?;
    }

    let repo = Gitea::shared().await.repository().await;
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/repo-layout");
    let files = read_folder(&example, &example)?;
    let first = push(&repo, &files);
    let url = repo.http_url();
    let port = Port::reserve()?;
    let page = format!("http://127.0.0.1:{}", port.number());
    say(&format!(
        "Serving examples/repo-layout at {url}; starting gitwork, with its page at {page}"
    ));
    start_gitwork(&repo, &page, &hub.kubeconfig_path(), &folder.path().join("cache")).await;

    let mut demo = Demo { repo, hub, managed, page, before: BTreeMap::new() };
    demo.tour(first).await?;
    demo.print_kubeconfigs(&log);
    if args.exit {
        return Ok(());
    }
    say("Push to the repository and watch; Ctrl-C ends it all");
    tokio::signal::ctrl_c().await?;
    Ok(())
}

impl Demo {
    async fn tour(&mut self, first: CommitId) -> Result<()> {
        say(
            "1. The first sync: every work folder becomes a ManifestWork, and the agents apply them",
        );
        self.show("all works of both stores to be taken by their clusters", |works| {
            let of =
                |name: &str| works.iter().filter(|work| work.cluster == name).collect::<Vec<_>>();
            MANAGED.iter().all(|name| {
                let works = of(name);
                works.len() >= 3 && works.iter().all(|work| work.state.is_applied())
            })
        })
        .await?;
        self.show_objects().await?;
        self.told(first, "success").await?;

        say("2. A commit changes the settings of one store");
        let path = "clusters/store-berlin/shop/settings.yaml";
        let settings = self.read(path)?.replace("sundays=", "open on sundays=");
        let commit = self.repo.push("main", &[(path, Some(&settings))]);
        println!("   pushed {}", commit.short());
        let settings: Api<ConfigMap> = Api::namespaced(self.managed[0].client(), "shop");
        let start = Instant::now();
        eventually("the change on the cluster", DEADLINE, || async {
            let found = settings.get("shop-settings").await.map_err(|error| error.to_string())?;
            let hours = found.data.and_then(|data| data.get("opening-hours").cloned());
            match hours {
                Some(hours) if hours.starts_with("open on") => Ok(()),
                other => Err(format!("opening-hours is {other:?}")),
            }
        })
        .await?;
        println!("   on the cluster after {:.1} s", start.elapsed().as_secs_f64());
        self.show("the changed work to be applied", |works| {
            works
                .iter()
                .filter(|work| work.cluster == "store-berlin")
                .all(|work| work.state.is_applied())
        })
        .await?;
        self.told(commit, "success").await?;

        say(
            "3. Somebody deletes a Service on the cluster and edits a work on the hub: both are put back",
        );
        self.drift().await?;

        say("4. A commit breaks one work and changes another: only the broken one is held");
        let broken = "kind: Namespace\n  metadata: [";
        let path = "clusters/store-berlin/shop/namespace.yaml";
        let namespace = self.read(path)?;
        let other = "clusters/store-lisbon/shop/settings.yaml";
        let changed = self.read(other)?.replace("sundays=", "open on sundays=");
        let commit = self.repo.push("main", &[(path, Some(broken)), (other, Some(&changed))]);
        let settings: Api<ConfigMap> = Api::namespaced(self.managed[1].client(), "shop");
        eventually("the other change on the cluster", DEADLINE, || async {
            let found = settings.get("shop-settings").await.map_err(|error| error.to_string())?;
            let hours = found.data.and_then(|data| data.get("opening-hours").cloned());
            if hours.is_some_and(|hours| hours.starts_with("open on")) {
                Ok(())
            } else {
                Err("not yet".into())
            }
        })
        .await?;
        self.show("store-berlin/shop to stay as it was", |works| {
            let kept =
                works.iter().any(|work| work.cluster == "store-berlin" && work.work == "shop");
            let lisbon = works.iter().filter(|work| work.cluster == "store-lisbon");
            kept && lisbon.clone().all(|work| work.state.is_applied())
        })
        .await?;
        self.told(commit, "failure").await?;
        self.repo.push("main", &[(path, Some(&namespace))]);

        say("5. A commit has what a cluster refuses: commit, page and status branch name the work");
        self.refused().await?;

        say("6. A commit removes a work folder: the work goes, and with it its objects");
        let commit = self.repo.push("main", &[("clusters/store-berlin/tills", None)]);
        self.show("store-berlin/tills to be gone", |works| {
            !works.iter().any(|work| work.cluster == "store-berlin" && work.work == "tills")
        })
        .await?;

        self.told(commit, "success").await?;

        say("7. The status is in Git too, at most 30 s later: branch gitwork-status, README.md");
        let told = self.branch(&commit.to_string()).await?;
        told.lines().take(30).for_each(|line| println!("   | {line}"));
        Ok(())
    }

    /// A work that its cluster's API server does not take, and its end.
    async fn refused(&self) -> Result<()> {
        let path = "clusters/store-lisbon/shop/refused.yaml";
        let refused = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: refused, namespace: shop}\ndata: {no key: x}\n";
        let commit = self.repo.push("main", &[(path, Some(refused))]);
        self.told(commit, "failure").await?;
        let work = eventually("the page to say why", DEADLINE, || async {
            let path = "/api/works/demo/store-lisbon/shop";
            let answer = request(&self.page, Method::GET, path, None, None).await;
            let (_, text) = answer.map_err(|error| format!("{error:#}"))?;
            let work: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            let told = work["why"].as_str().or(work["message"].as_str()).unwrap_or_default();
            if told.contains("refused") { Ok(told.to_owned()) } else { Err(text) }
        })
        .await?;
        println!("   page: store-lisbon/shop: {work}");
        let told = self.branch("failed").await?;
        let line = told.lines().find(|line| line.contains("store-lisbon.md"));
        println!("   status branch: {}", line.unwrap_or_default().trim());
        let commit = self.repo.push("main", &[(path, None)]);
        self.told(commit, "success").await
    }

    /// Waits until gitwork's status on the commit is this one, and prints what it was on the way.
    async fn told(&self, commit: CommitId, state: &str) -> Result<()> {
        let path = format!("/commits/{commit}/statuses?sort=oldest");
        let told =
            eventually(&format!("the status of {commit} to be {state}"), DEADLINE, || async {
                let (_, answer) = self.repo.call(Method::GET, &path, None).await;
                let mut all = answer.as_array().cloned().unwrap_or_default();
                all.sort_by_key(|status| status["id"].as_u64());
                let is_it = all.last().is_some_and(|status| status["status"] == state);
                if is_it { Ok(all) } else { Err(answer.to_string()) }
            })
            .await?;
        for status in told {
            let [state, words] = ["status", "description"].map(|name| status[name].as_str());
            let (state, words) = (state.unwrap_or_default(), words.unwrap_or_default());
            println!("   commit {}: {state:<8} {words}", commit.short());
        }
        Ok(())
    }

    /// The status branch's README once it says this.
    async fn branch(&self, words: &str) -> Result<String> {
        let told = eventually("the status branch to tell of it", DEADLINE, || async {
            let told = self.repo.file("gitwork-status", "README.md").await.unwrap_or_default();
            if told.contains(words) {
                Ok(told)
            } else {
                Err(format!("it does not say {words:?}:\n{told}"))
            }
        })
        .await?;
        Ok(told)
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
            &kube::core::ApiResource::erase::<gitwork::api::work::ManifestWork>(&()),
        );
        let start = Instant::now();
        let patch = json!({ "spec": { "deleteOption": { "propagationPolicy": "Orphan" } } });
        works.patch("shop", &PatchParams::default(), &Patch::Merge(patch)).await?;
        eventually("the work to be put back", DEADLINE, || async {
            let work = works.get("shop").await.map_err(|error| error.to_string())?;
            let policy = work.data.pointer("/spec/deleteOption/propagationPolicy").cloned();
            if policy == Some("Orphan".into()) { Err("it is as edited".into()) } else { Ok(()) }
        })
        .await?;
        println!(
            "   ManifestWork store-lisbon/shop was put back after {:.2} s",
            start.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// Waits until the hub is as `done` wants it, and prints what changed.
    async fn show(&mut self, what: &str, done: impl Fn(&[WorkStatus]) -> bool) -> Result<()> {
        let client = self.hub.client();
        let works = eventually(what, DEADLINE, || async {
            let fleet = fleet::fleet(&client, &Selection::default()).await;
            let fleet = fleet.map_err(|error| error.to_string())?;
            let works: Vec<_> = fleet.works.into_iter().map(|tree| tree.work).collect();
            if done(&works) { Ok(works) } else { Err(open(&works)) }
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
            let told = eventually("the Deployment to be ready", DEADLINE, || async {
                let all = deployments
                    .list(&Default::default())
                    .await
                    .map_err(|error| error.to_string())?;
                let web = all.items.first().ok_or("there is none")?;
                let status = web.status.clone().unwrap_or_default();
                let (ready, wanted) =
                    (status.ready_replicas.unwrap_or(0), status.replicas.unwrap_or(0));
                let told = format!(
                    "deployment/{} {ready}/{wanted} ready",
                    web.metadata.name.clone().unwrap_or_default()
                );
                if ready > 0 && ready == wanted { Ok(told) } else { Err(told) }
            })
            .await?;
            println!("   {name}: {told}");
        }
        let of = |cluster: &str| Selection {
            cluster: ClusterName::parse(cluster).ok(),
            ..Selection::default()
        };
        let seen = fleet::fleet(&self.hub.client(), &of(MANAGED[0])).await?;
        let objects = seen.works.iter().flat_map(|tree| &tree.objects);
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
        let blob = tip.as_blob().ok_or_else(|| anyhow!("{path} is no file"))?;
        Ok(String::from_utf8(blob.content().to_vec())?)
    }

    fn print_kubeconfigs(&self, log: &Path) {
        say("All of it is still there:");
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
fn open(works: &[WorkStatus]) -> String {
    let open = works
        .iter()
        .filter(|work| MANAGED.contains(&work.cluster.as_str()) && !work.state.is_applied());
    let told = |work: &WorkStatus| {
        format!(
            "{}/{} is {} {}",
            work.cluster,
            work.work,
            work.state,
            work.message.as_deref().unwrap_or_default()
        )
    };
    let open: Vec<String> = open.map(told).collect();
    format!("{}; {}", aggregate(works), open.join(", "))
}

fn say(text: &str) {
    println!("\n{text}");
}

fn start_log(file: &Path) -> Result<()> {
    let file = std::fs::File::create(file)?;
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::sync::Mutex::new(file)).init();
    Ok(())
}

/// A ManagedCluster as OCM has it whose agent has not been heard of for a while.
async fn switch_off(hub: &Cluster, name: &str) -> Result<()> {
    let kind = kube::core::ApiResource::erase::<ManagedCluster>(&());
    let clusters: Api<DynamicObject> = Api::all_with(hub.client(), &kind);
    let condition = json!({
        "type": "ManagedClusterConditionAvailable", "status": "Unknown", "reason": "ManagedClusterLeaseUpdateStopped",
        "message": "Registration agent stopped updating its lease.", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({ "status": { "conditions": [condition] } });
    clusters.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

/// The very command line that a pod has.
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
    std::thread::spawn(move || gitwork::cli::main(arguments.map(std::ffi::OsString::from)));
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
    let cli = agent::flags::Cli::try_parse_from(arguments).context("the agent's arguments")?;
    let agent::flags::Command::Agent(flags) = cli.command;
    client::install_crypto();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let name = name.to_owned();
    std::thread::spawn(move || {
        if let Err(problem) = runtime.block_on(agent::run::run(*flags)) {
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
