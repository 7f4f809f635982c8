//! The daemon and the agents as processes that are killed, stopped and started again.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::harness::eventually;

/// The promise is ten seconds; a machine that also runs a build may take longer.
const END: Duration = Duration::from_secs(30);

/// One program and its processes, one after the other.
pub struct Program {
    pub name: String,
    binary: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    child: Option<Child>,
    lives: usize,
}

impl Program {
    /// Copies `binary` into `folder`, so that a build meanwhile changes nothing.
    pub fn new(name: &str, binary: &Path, folder: &Path, arguments: Vec<String>) -> Program {
        let copy = folder.join(format!("{name}.program"));
        std::fs::copy(binary, &copy).unwrap();
        let log = folder.join(format!("{name}.log"));
        File::create(&log).unwrap();
        Program { name: name.to_owned(), binary: copy, arguments, log, state: Mutex::default() }
    }

    /// The path of the program.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn start(&self) {
        let mut state = self.state();
        assert!(state.child.is_none(), "{} runs", self.name);
        let log = File::options().append(true).open(&self.log).unwrap();
        let child = Command::new(&self.binary)
            .args(&self.arguments)
            .env("GITWORK_LOG", "info")
            .env("RUST_LOG", "info")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        state.lives += 1;
        state.child = Some(child);
    }

    /// The process, and its number among the program's processes.
    pub fn process(&self) -> Option<(u32, usize)> {
        let state = self.state();
        state.child.as_ref().map(|child| (child.id(), state.lives))
    }

    /// Kills it, as a crash does.
    pub fn kill(&self) {
        if let Some(mut child) = self.state().child.take() {
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }

    pub fn signal(&self, name: &str) {
        if let Some((id, _)) = self.process() {
            signal(id, name);
        }
    }

    /// Stops it, as a kubelet does, and returns how long that took.
    pub async fn end(&self) -> Result<Duration> {
        self.signal("TERM");
        let begun = Instant::now();
        let Some(mut child) = self.state().child.take() else { bail!("{} is gone", self.name) };
        let status = eventually(&format!("the end of {}", self.name), END, || {
            let ended = child.try_wait().unwrap();
            async move { ended.ok_or_else(|| "it runs".to_owned()) }
        })
        .await?;
        if !status.success() {
            bail!("{} was asked to end, and did so with {status}", self.name);
        }
        Ok(begun.elapsed())
    }

    /// How it ended, if it ended by itself.
    pub fn died(&self) -> Option<ExitStatus> {
        let mut state = self.state();
        let status = state.child.as_mut()?.try_wait().unwrap()?;
        state.child = None;
        Some(status)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap();
    assert!(sent.success(), "kill -s {name} {process}");
}
