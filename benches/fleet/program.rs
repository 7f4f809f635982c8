//! The program in the state that users run it: optimised.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::DEADLINE;
use super::harness::Cluster;
use super::harness::git_server::{GitServer, Repo};
use super::harness::process::Port;
use super::harness::resources;

/// How long a request for metrics may take.
const METRICS: Duration = Duration::from_secs(30);

/// A running program. It ends when this is dropped.
pub struct Gitwork {
    child: Child,
    /// Of `/metrics`.
    port: Option<Port>,
}

impl Drop for Gitwork {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// `gitwork run` of a repository, with a file of settings: `more` has lines of the source.
pub fn command(
    hub: &Cluster,
    server: &GitServer,
    repo: &Repo,
    (source, more): (&str, &str),
) -> Command {
    let name = repo.path().file_name().unwrap().to_str().unwrap();
    let (file, cache) = (repo.path().with_extension("yaml"), repo.path().with_extension("cache"));
    let (url, cache) = (server.url(name), cache.display());
    // The default is for some 60,000 works of this size.
    let settings = format!(
        "cache: {cache}\nsources:\n- id: {source}\n  repo: {url}\n  branch: main\n  \
         intervalSeconds: 86400\n  maxContentMib: 1024\n{more}"
    );
    std::fs::write(&file, settings).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gitwork"));
    command
        .args(["run", "--config"])
        .arg(file)
        .arg("--kubeconfig")
        .arg(hub.kubeconfig_path())
        .env("GITWORK_LOG", "error")
        .stderr(Stdio::inherit());
    command
}

impl Gitwork {
    /// Starts a program without metrics.
    pub fn start(command: &mut Command) -> Self {
        Self { child: command.spawn().unwrap(), port: None }
    }

    /// Starts a daemon that fetches after SIGHUP, with metrics.
    pub fn daemon(mut command: Command) -> Self {
        let port = Port::reserve().unwrap();
        command.arg("--listen").arg(format!("127.0.0.1:{}", port.number()));
        Self { child: command.spawn().unwrap(), port: Some(port) }
    }

    /// Processor time so far.
    pub fn cpu(&self) -> Duration {
        resources::cpu_of(self.child.id()).unwrap()
    }

    /// MiB in memory: now, and at most so far.
    pub fn memory(&self) -> (u64, u64) {
        let [now, most] = resources::memory_of(self.child.id()).unwrap();
        (now / 1024, most / 1024)
    }

    /// Ends the program, which releases its Lease.
    pub fn stop(mut self) {
        self.signal("TERM");
        assert!(self.child.wait().unwrap().success());
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// The value of a metric, by its name and its labels but for the source; `None` before the
    /// program listens and before the metric has a value.
    pub fn metric(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let text = resources::metrics(self.port.as_ref()?.number(), METRICS).ok()?;
        let is_meant = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'))
                && labels.iter().all(|label| line.contains(label))
        };
        text.lines().find(is_meant)?.rsplit_once(' ')?.1.parse().ok()
    }

    /// Waits until the program has used no processor for two seconds.
    pub async fn idle(&self) {
        resources::until_idle(self.child.id(), DEADLINE).await;
    }
}

/// Processor time of this process so far.
pub fn own_cpu() -> Duration {
    resources::cpu_of(std::process::id()).unwrap()
}
