//! The main job on real parts: a hub and two managed clusters, a Git server, gitwork and its agents.
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
use gitwork::core::status::{WorkStatus, aggregate};
use gitwork::hub::{client, fleet};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::json;

#[path = "../tests/harness/git_server/mod.rs"]
mod git_server;
#[path = "../tests/harness/mod.rs"]
mod harness;

use git_server::{GitServer, Repo};
use harness::{Cluster, ClusterOptions, ControlPlane, crds, eventually};

/// These run for real; of the other clusters of the example there is only the namespace on the hub.
const MANAGED: [&str; 2] = ["store-berlin", "store-lisbon"];
const HUB_ONLY: [&str; 2] = ["staging", "production"];
const DEADLINE: Duration = Duration::from_secs(180);

#[derive(clap::Parser)]
struct Args {
    /// End after the tour
    #[arg(long)]
    exit: bool,
}

struct Demo {
    repo: Repo,
    hub: Cluster,
    managed: Vec<Cluster>,
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
        "Starting a hub and two managed clusters (the first time they are built, which takes minutes)",
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
    for name in HUB_ONLY {
        hub.create_namespace(name).await;
    }

    let repo = Repo::create(&folder.path().join("fleet.git"));
    let server = GitServer::http(folder.path()).start();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/repo-layout");
    let files = read_folder(&example, &example)?;
    push(&repo, &files);
    let url = server.url("fleet.git");
    say(&format!("Serving examples/repo-layout at {url}; starting gitwork"));
    start_gitwork(&url, &hub.kubeconfig_path(), &folder.path().join("cache"));

    let mut demo = Demo { repo, hub, managed, before: BTreeMap::new() };
    demo.tour().await?;
    demo.print_kubeconfigs(&url, &log);
    if args.exit {
        return Ok(());
    }
    say("Push to the repository and watch; Ctrl-C ends it all");
    tokio::signal::ctrl_c().await?;
    Ok(())
}

impl Demo {
    async fn tour(&mut self) -> Result<()> {
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

        say("2. A commit changes the settings of one store");
        let path = "clusters/store-berlin/shop/settings.yaml";
        let settings = self.read(path)?.replace("sundays=", "open on sundays=");
        let commit = self.repo.commit("main", &[(path, Some(&settings))]);
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
        self.repo.commit("main", &[(path, Some(broken)), (other, Some(&changed))]);
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
        self.repo.commit("main", &[(path, Some(&namespace))]);

        say("5. A commit removes a work folder: the work goes, and with it its objects");
        self.repo.commit("main", &[("clusters/store-berlin/tills", None)]);
        self.show("store-berlin/tills to be gone", |works| {
            !works.iter().any(|work| work.cluster == "store-berlin" && work.work == "tills")
        })
        .await?;

        say("6. The status is in Git too, at most 30 s later: branch gitwork-status, README.md");
        let told = eventually("the status branch to tell of it", DEADLINE, || async {
            let told = self.at("gitwork-status:README.md").map_err(|error| error.to_string())?;
            let tip = self.repo.tip("main").ok_or("the repository has no main")?.to_string();
            let done = told.contains(&tip) && told.contains("2&#47;4 clusters applied");
            if done { Ok(told) } else { Err(format!("it tells of another state:\n{told}")) }
        })
        .await?;
        told.lines().take(30).for_each(|line| println!("   | {line}"));
        Ok(())
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
            let fleet = fleet::fleet(&client, &fleet::Selection::default()).await;
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
        Ok(())
    }

    fn read(&self, path: &str) -> Result<String> {
        self.at(&format!("main:{path}"))
    }

    /// A file of the repository, named as `git show` does.
    fn at(&self, path: &str) -> Result<String> {
        let tip = self.repo.git2().revparse_single(path)?;
        let blob = tip.as_blob().ok_or_else(|| anyhow!("{path} is no file"))?;
        Ok(String::from_utf8(blob.content().to_vec())?)
    }

    fn print_kubeconfigs(&self, url: &str, log: &Path) {
        say("All of it is still there:");
        println!("   export KUBECONFIG={}   # the hub", self.hub.kubeconfig_path().display());
        for (name, cluster) in MANAGED.iter().zip(&self.managed) {
            println!("   export KUBECONFIG={}   # {name}", cluster.kubeconfig_path().display());
        }
        println!("   git clone {url}");
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

/// The very command line that a pod has.
fn start_gitwork(url: &str, kubeconfig: &Path, cache: &Path) {
    let arguments = [
        "gitwork".into(),
        "run".into(),
        format!("--repo={url}"),
        "--branch=main".into(),
        "--source-id=demo".into(),
        "--interval=1".into(),
        "--status-branch".into(),
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

fn push(repo: &Repo, files: &[(String, String)]) {
    let files: Vec<(&str, Option<&str>)> =
        files.iter().map(|(path, text)| (path.as_str(), Some(text.as_str()))).collect();
    repo.commit("main", &files);
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
