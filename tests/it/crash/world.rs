//! One source, its clusters, and the real program between them, every request of which goes through
//! a proxy.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::fleet::{Fleet, LETTERS, Works};
use crate::forge::server::Forge;
use crate::harness::eventually;
use crate::harness::fault_proxy::{FaultProxy, Namer, Upstream};
use crate::sync::fixture::Sync;

/// Longer than any wait of the program's and the load of a busy machine together.
pub const DEADLINE: Duration = Duration::from_secs(240);

/// Where the program is started again after it was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// With the folder that it had.
    Same,
    /// With an empty one.
    New,
}

pub struct World {
    pub sync: Sync,
    pub proxy: FaultProxy,
    pub forge: Forge,
    fleet: Fleet,
    machine: Machine,
    hub_url: String,
    git_url: String,
    forge_url: String,
    process: Mutex<Process>,
}

#[derive(Default)]
struct Process {
    child: Option<Child>,
    /// How many there were.
    number: usize,
}

impl World {
    /// `rights` are those that `deploy/` grants.
    pub async fn new(machine: Machine, rights: &Config) -> Self {
        let mut sync = Sync::new(LETTERS.len()).await;
        // So that they come in the same order in every run.
        sync.clusters.sort();
        let fleet = Fleet::follow(&sync.hub.client(), &sync.clusters, sync.id.as_str());
        let proxy = FaultProxy::new(namer(&sync));
        let mut config = rights.clone();
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        let forge = Forge::start().await;
        let hub_url = proxy.serve(Upstream::ApiServer(client)).await;
        let git_url = proxy.serve(Upstream::Http(sync.server.base().to_owned())).await;
        let forge_url = proxy.serve(Upstream::Http(format!("http://{}", forge.address))).await;
        let process = Mutex::default();
        Self { sync, proxy, forge, fleet, machine, hub_url, git_url, forge_url, process }
    }

    /// The cluster's name on the hub.
    pub fn cluster(&self, letter: &str) -> &str {
        &self.sync.clusters[LETTERS.iter().position(|one| *one == letter).unwrap()]
    }

    /// `CLUSTER/WORK` on the hub of a key as in `a/web`.
    pub fn on_hub(&self, key: &str) -> String {
        let (letter, work) = key.split_once('/').unwrap();
        format!("{}/{work}", self.cluster(letter))
    }

    pub async fn start(&self) {
        self.start_process(&mut *self.process.lock().await);
    }

    /// Kills the program, as often as the proxy holds a request of it for that, and starts it
    /// again.
    pub async fn revive(&self) {
        let mut held = self.proxy.held();
        while held.changed().await.is_ok() {
            let mut process = self.process.lock().await;
            process.child.take().unwrap().kill().await.unwrap();
            self.start_process(&mut process);
        }
    }

    fn start_process(&self, process: &mut Process) {
        process.number += 1;
        let cache = match self.machine {
            Machine::Same => "cache".to_owned(),
            Machine::New => format!("cache-{}", process.number),
        };
        let folder = self.sync.folder.path();
        let (config, kubeconfig) = (folder.join("daemon.yaml"), folder.join("kubeconfig"));
        let token = folder.join("token");
        fs::write(&token, "token\n").unwrap();
        fs::write(&kubeconfig, FaultProxy::kubeconfig(&self.hub_url)).unwrap();
        let source = json!({
            "id": self.sync.id.as_str(), "repo": format!("{}/fleet.git", self.git_url),
                "branch": "main",
            "intervalSeconds": 3600, "rewind": "hold",
            "statusBranch": { "intervalSeconds": 1 },
            "commitStatus": {
                "provider": "gitea", "repository": "acme/fleet", "apiUrl": self.forge_url,
                "tokenFile": token.to_str().unwrap(),
            },
        });
        let all = json!({ "cache": folder.join(cache).to_str().unwrap(), "sources": [source] });
        fs::write(&config, all.to_string()).unwrap();
        let log = fs::File::create(self.log_file(process.number)).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_gitwork"))
            .args(["run", "--log-format", "json", "--config"])
            .arg(&config)
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .env_remove("GITWORK_LOG")
            .env("HOSTNAME", "gitwork")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        process.child = Some(child);
    }

    fn log_file(&self, number: usize) -> PathBuf {
        self.sync.folder.path().join(format!("log-{number}"))
    }

    /// How often the program was started; it must be running.
    pub async fn starts(&self) -> usize {
        let mut process = self.process.lock().await;
        let ended = process.child.as_mut().and_then(|child| child.try_wait().unwrap());
        assert!(ended.is_none(), "{ended:?}: {}", self.last_lines(process.number));
        process.number
    }

    /// Has the program fetch now. One that has not read anything yet is waited for: only then does
    /// it surely listen.
    pub async fn hint(&self) {
        eventually("the program to have read Git", DEADLINE, || async {
            let process = self.process.lock().await;
            let log = fs::read_to_string(self.log_file(process.number)).unwrap_or_default();
            if !log.lines().any(|line| line.contains(r#""message":"read""#)) {
                return Err(self.last_lines(process.number));
            }
            let id = process.child.as_ref().and_then(Child::id).ok_or("it is gone")?;
            let sent = Command::new("kill").args(["-s", "HUP", &id.to_string()]).status().await;
            if sent.is_ok_and(|status| status.success()) { Ok(()) } else { Err("no kill".into()) }
        })
        .await
        .unwrap();
    }

    /// Waits until the program, or one before it, has said that this guard holds something, and
    /// answers the hash of it.
    pub async fn until_held(&self, guard: &str) -> String {
        eventually(&format!("something to be held by {guard}"), DEADLINE, || async {
            let number = self.process.lock().await.number;
            for number in (1..=number).rev() {
                let log = fs::read_to_string(self.log_file(number)).unwrap_or_default();
                let lines = log.lines().rev();
                let held = lines
                    .filter_map(|line| serde_json::from_str::<Value>(line).ok())
                    .find(|line| line["guard"] == guard);
                if let Some(line) = held {
                    return Ok(line["hash"].as_str().unwrap().to_owned());
                }
            }
            Err(self.last_lines(number))
        })
        .await
        .unwrap()
    }

    fn last_lines(&self, number: usize) -> String {
        let log = fs::read_to_string(self.log_file(number)).unwrap_or_default();
        let skipped = log.lines().count().saturating_sub(25);
        log.lines().skip(skipped).collect::<Vec<_>>().join("\n")
    }

    /// The works as the hub has them.
    pub fn works(&self) -> Works {
        self.fleet.works().borrow().clone()
    }

    /// Waits until `probe` accepts the works; its error names what is missing.
    pub async fn until(&self, what: &str, probe: impl Fn(&Works) -> Result<(), String>) {
        let mut works = self.fleet.works();
        let deadline = Instant::now() + DEADLINE;
        loop {
            let Err(why) = probe(&works.borrow_and_update()) else { return };
            if timeout_at(deadline, works.changed()).await.is_err() {
                let number = self.process.lock().await.number;
                panic!("waited for {what}: {why}\n{}", self.last_lines(number));
            }
        }
    }

    /// What an operator says, directly to the hub. A hub that is too busy to answer is asked again;
    /// what it did of the first time shows in what comes of it.
    pub async fn say(&self, command: &[&str]) {
        self.run_command(command, &["did not answer"]).await;
    }

    /// Runs a command. An error with one of these texts is answered with another try.
    async fn run_command(&self, command: &[&str], transient: &[&str]) {
        let (what, busy) = (format!("{command:?} to be heard"), AtomicBool::new(false));
        eventually(&what, DEADLINE, || async {
            let output = Command::new(env!("CARGO_BIN_EXE_gitwork"))
                .args(command)
                .args(["--source-id", self.sync.id.as_str()])
                .arg("--kubeconfig")
                .arg(self.sync.hub.kubeconfig_path())
                .output()
                .await
                .unwrap();
            let reported = String::from_utf8_lossy(&output.stderr).into_owned();
            let is_transient = transient.iter().any(|text| reported.contains(text));
            if !output.status.success() && is_transient {
                busy.store(true, Ordering::Relaxed);
                return Err(reported);
            }
            assert!(output.status.success() || busy.load(Ordering::Relaxed), "{reported}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// The host and port of the Git server.
    pub fn git_host(&self) -> &str {
        self.git_url.trim_start_matches("http://")
    }

    /// The same, of a command that reads the repository.
    pub async fn say_of_repo(&self, command: &[&str]) {
        let cache = self.sync.folder.path().join("cli-cache");
        // The same URL as the daemon's: a source has one origin.
        let url = format!("{}/fleet.git", self.git_url);
        let of_repo = ["--repo", &url, "--branch", "main", "--cache", cache.to_str().unwrap()];
        // It fetches through the proxy, which injects faults into its requests as well.
        let transient = ["did not answer", "127.0.0.1"];
        self.run_command(&[command, &of_repo].concat(), &transient).await;
    }
}

/// Names of requests that are the same in every run.
fn namer(sync: &Sync) -> Namer {
    let clusters = sync.clusters.clone();
    Arc::new(move |method: &Method, path: &str, body: &[u8]| {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let body = || serde_json::from_slice::<Value>(body).unwrap_or_default();
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let letter = |namespace: &str| {
            let at = clusters.iter().position(|cluster| cluster == namespace);
            at.map_or("?", |at| LETTERS[at])
        };
        match parts.as_slice() {
            ["apis", _, _, "manifestworks"] if query.contains("watch=") => "WATCH works".into(),
            ["apis", _, _, "manifestworks"] => "LIST works".into(),
            ["apis", _, _, "managedclusters"] => "LIST clusters".into(),
            ["apis", _, _, "namespaces", cluster, "manifestworks"] => {
                let name = body()["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                format!("{method} work {}/{name}", letter(cluster))
            }
            ["apis", _, _, "namespaces", cluster, "manifestworks", name] => {
                format!("{method} work {}/{name}", letter(cluster))
            }
            ["apis", _, _, "namespaces", cluster, "events"] => {
                let (event, cluster) = (body(), letter(cluster));
                let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
                let (name, reason) = (text(&event["regarding"]["name"]), text(&event["reason"]));
                format!("{method} event {cluster}/{name} {reason}")
            }
            ["apis", _, _, "namespaces", _, "leases", ..] => format!("{method} record"),
            ["api", "v1", "namespaces", _, "configmaps", _] => format!("{method} directives"),
            ["fleet.git", "info", "refs"] => {
                format!("git {}", query.trim_start_matches("service=git-")) + " refs"
            }
            ["fleet.git", service] => format!("git {}", service.trim_start_matches("git-")),
            [.., "statuses", _] => {
                format!("{method} commit status {}", body()["state"].as_str().unwrap_or_default())
            }
            _ => format!("{method} {path}"),
        }
    })
}
