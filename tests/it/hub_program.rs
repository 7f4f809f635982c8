//! Programs of a hub, as `gitwork controller` and `gitwork admission` run.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::admission::raw;
use crate::harness::eventually;

pub const DEADLINE: Duration = Duration::from_secs(120);

/// A running program. It is killed when this is dropped, and when this process ends.
pub struct HubProgram {
    child: Child,
    folder: TempDir,
}

impl HubProgram {
    /// Starts `gitwork` with the arguments, and with flags for this one.
    pub fn start(arguments: &[&str], kubeconfig: &Path, flags: &[&str]) -> Self {
        Self::run(&[arguments, &["--log-format", "json"], flags].concat(), kubeconfig)
    }

    /// Starts `gitwork` with just these arguments, which make it log as JSON.
    pub fn run(arguments: &[&str], kubeconfig: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // A static is never dropped: the shell kills the program at the end of its input. It notes
        // the program's process id and exit code.
        let script = "trap '' INT; exec 3<&0; \"$@\" & pid=$!; echo $pid > \"$0/pid\"; \
                      (cat <&3 > /dev/null; kill -9 $pid) & wait $pid; echo $? > \"$0/code\"";
        let log = File::create(folder.path().join("log")).unwrap();
        let child = Command::new("sh")
            .args(["-c", script])
            .arg(folder.path())
            .arg(env!("CARGO_BIN_EXE_gitwork"))
            .args(arguments)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .env("GITWORK_LOG", "gitwork=debug")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    pub async fn until_logged(&self, words: &str) {
        let what = format!("the log to say {words:?}");
        let probe = || async { if self.log().contains(words) { Ok(()) } else { Err(self.log()) } };
        eventually(&what, DEADLINE, probe).await.unwrap();
    }

    /// The address in a line of the log.
    pub async fn address(&self, message: &str) -> SocketAddr {
        self.until_logged(message).await;
        let log = self.log();
        let line = log.lines().find(|line| line.contains(message)).unwrap();
        let after = line.split("\"address\":\"").nth(1).unwrap();
        after.split('"').next().unwrap().parse().unwrap()
    }

    /// The answer of a probe: the status and the body.
    pub async fn probe(&self, path: &str) -> (u16, String) {
        let address = self.address("listening for probes and scrapes").await;
        let answer = raw::plain(
            address,
            &format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"),
        )
        .await;
        (raw::status(&answer), answer)
    }

    /// What a scrape gets.
    pub async fn scrape(&self) -> String {
        let (status, answer) = self.probe("/metrics").await;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(status, 200, "{answer}");
        body.to_owned()
    }

    pub async fn until_ready(&self) {
        let probe = || async {
            match self.probe("/readyz").await {
                (200, _) => Ok(()),
                (_, answer) => Err(format!("{answer}\n{}", self.log())),
            }
        };
        eventually("the program to be ready", DEADLINE, probe).await.unwrap();
    }

    /// Asks the program to end, as a kubelet does.
    pub fn terminate(&self) {
        let pid = std::fs::read_to_string(self.folder.path().join("pid")).unwrap();
        assert!(Command::new("kill").args(["-TERM", pid.trim()]).status().unwrap().success());
    }

    /// Waits for the end. Gives the exit code.
    pub async fn until_ended(&self) -> i32 {
        let code = self.folder.path().join("code");
        let probe = || async {
            let code = std::fs::read_to_string(&code).map_err(|error| error.to_string())?;
            code.trim().parse::<i32>().map_err(|error| error.to_string())
        };
        eventually("the program to end", DEADLINE, probe).await.unwrap()
    }
}

impl Drop for HubProgram {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ended = self.child.wait();
    }
}
