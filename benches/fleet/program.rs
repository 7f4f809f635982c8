//! The program in the state that users run it: optimised.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::DEADLINE;
use super::harness::Cluster;
use super::harness::git_server::{GitServer, Repo};
use super::harness::process::Port;

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
        cpu_of(self.child.id())
    }

    /// MiB in memory: now, and at most so far.
    pub fn memory(&self) -> (u64, u64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let of = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
        };
        (of("VmRSS:"), of("VmHWM:"))
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// The value of a metric, by its name and its labels but for the source; `None` before the
    /// program listens and before the metric has a value.
    pub fn metric(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let text = scrape(self.port.as_ref()?.number()).ok()?;
        let is_meant = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'))
                && labels.iter().all(|label| line.contains(label))
        };
        text.lines().find(is_meant)?.rsplit_once(' ')?.1.parse().ok()
    }

    /// Waits until the program has used no processor for two seconds.
    pub async fn idle(&self) {
        let mut last = (self.cpu(), Instant::now());
        let deadline = Instant::now() + DEADLINE;
        // A signal needs a moment to be seen, so an idle program is watched for some time.
        while last.1.elapsed() < Duration::from_secs(2) {
            assert!(Instant::now() < deadline, "gitwork does not come to rest");
            tokio::time::sleep(Duration::from_millis(100)).await;
            let now = self.cpu();
            if now != last.0 {
                last = (now, Instant::now());
            }
        }
    }
}

fn scrape(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Processor time of a process so far.
fn cpu_of(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    // The unit is a hundredth of a second.
    Duration::from_millis(ticks * 10)
}

/// Processor time of this process so far.
pub fn own_cpu() -> Duration {
    cpu_of(std::process::id())
}
