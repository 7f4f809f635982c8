//! The program with a configuration file, as a subprocess with the rights of `deploy/`.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::harness::eventually;
use crate::sync::fixture::Sync;
use crate::sync::program::{get, rights};

/// How much of the log a test that fails shows.
const LINES_SHOWN: usize = 200;

/// A running `gitwork run`. It is killed when this is dropped.
pub struct Daemon {
    child: Mutex<Child>,
    log: PathBuf,
}

impl Daemon {
    /// Runs with this configuration file, its cache and hub aside.
    pub async fn start(sync: &Sync, config: &Value) -> Daemon {
        Daemon::start_as(sync, "daemon", &rights(sync).await, config)
    }

    /// The same, for one of several: `name` is that of its files, `kubeconfig` says who it is to
    /// the hub.
    pub fn start_as(sync: &Sync, name: &str, kubeconfig: &Path, config: &Value) -> Daemon {
        let folder = sync.folder.path();
        let file = folder.join(format!("gitwork-{name}.yaml"));
        let log = folder.join(format!("{name}.log"));
        let mut config = config.clone();
        config["cache"] = folder.join(format!("{name}-cache")).to_str().unwrap().into();
        fs::write(&file, config.to_string()).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_gitwork"))
            .args(["run", "--log-format", "json", "--config"])
            .arg(&file)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .env("GITWORK_LOG", "gitwork=debug")
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Daemon { child: Mutex::new(child), log }
    }

    /// Has every source fetched now.
    pub fn hang_up(&self) {
        self.signal("HUP");
    }

    pub fn signal(&self, name: &str) {
        let id = self.child.lock().unwrap().id().to_string();
        let kill = Command::new("kill").args(["-s", name, &id]).status();
        assert!(kill.unwrap().success());
    }

    /// Asks it to end, and answers how it did.
    pub async fn terminate(mut self) -> Option<i32> {
        self.signal("TERM");
        let wait = move || self.child.get_mut().unwrap().wait().unwrap().code();
        let ended = tokio::task::spawn_blocking(wait);
        tokio::time::timeout(Duration::from_secs(60), ended).await.unwrap().unwrap()
    }

    /// Every line of the log.
    pub fn log(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.log).unwrap();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Lines that say this.
    pub fn logged(&self, words: &str) -> Vec<Value> {
        let mut lines = self.log();
        lines.retain(|line| line["message"].as_str().is_some_and(|said| said.contains(words)));
        lines
    }

    /// Waits until the log has these words, and returns the first such line.
    ///
    /// # Panics
    /// If they do not come in time, or the program has ended without them.
    pub async fn until_logged(&self, words: &str) -> Value {
        eventually(&format!("the log to say {words:?}"), Duration::from_secs(300), || async {
            // Before the log is read: what it logged until its end is in there.
            let ended = self.child.lock().unwrap().try_wait().unwrap();
            let found = self.logged(words).into_iter().next();
            assert!(
                found.is_some() || ended.is_none(),
                "the program has ended ({ended:?}), and did not log {words:?}"
            );
            found.ok_or_else(|| self.log().iter().map(|line| format!("{line}\n")).collect())
        })
        .await
        .unwrap()
    }

    /// The address that it listens on for this.
    pub async fn address(&self, words: &str) -> SocketAddr {
        self.until_logged(words).await["address"].as_str().unwrap().parse().unwrap()
    }

    /// A metric's value now. `name` is with its labels.
    pub async fn metric(&self, name: &str) -> Option<f64> {
        let address = self.address("listening for probes").await;
        let answer = get(address, "/metrics").await;
        let line = answer.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.and_then(|value| value.parse().ok())
    }

    /// Waits until a metric has this value, and answers all of them. `name` is with its labels.
    pub async fn until_metric(&self, name: &str, is_it: impl Fn(f64) -> bool) -> String {
        let address = self.address("listening for probes").await;
        eventually(&format!("the metric {name}"), Duration::from_secs(300), || async {
            let answer = get(address, "/metrics").await;
            let text = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            let is_so = line.and_then(|value| value.parse().ok()).is_some_and(&is_it);
            if is_so { Ok(text) } else { Err(text) }
        })
        .await
        .unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // A test may have failed while it had the lock.
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let ended = child.try_wait();
        let _gone = child.kill();
        let _reaped = child.wait();
        if std::thread::panicking() {
            let text = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
            eprintln!("{} ended: {ended:?}; its last lines:\n{last}", self.log.display());
        }
    }
}
