//! Child processes, with their folder and ports. They end with this process.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::net::TcpSocket;

/// Removes a folder once the input ends. Programs that are shutting down may write into it for
/// three seconds, and longer on a busy machine.
const REMOVE_AT_END_OF_INPUT: &str = r#"trap '' INT TERM HUP; cat >/dev/null
for attempt in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
    rm -rf -- "$1" 2>/dev/null && exit
    sleep 1
done"#;

/// A running program. Dropping it kills it. If this process dies in another way, the pipe to the
/// program's standard input closes, and the program stops.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

/// The files of one control plane. A shell waits to remove the folder, because the destructors of
/// statics, where tests keep a control plane, never run.
pub struct Folder {
    path: PathBuf,
    remover: Child,
}

/// A reserved port of 127.0.0.1. The socket is bound and never listens. A child that sets
/// `SO_REUSEPORT`, or `SO_REUSEADDR` as Go's programs do, can listen on the port repeatedly, and no
/// other process can take it.
pub struct Port {
    _socket: TcpSocket,
    number: u16,
}

impl Process {
    /// Starts a command with its output in `<folder>/<name>.log`.
    pub fn start(mut command: Command, name: &str, folder: &Path) -> Result<Process> {
        let log = folder.join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log)?;
        contain(&mut command)
            .env("HOME", folder)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output);
        let child = command.spawn().with_context(|| format!("start {name}"))?;
        Ok(Process { name: name.to_owned(), child, log })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The report of a process that has ended.
    pub fn death(&mut self) -> Option<String> {
        let status = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        Some(format!("{} ended with {status}; its last lines:\n{}", self.name, self.last_lines()))
    }

    pub fn last_lines(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let skipped = text.lines().count().saturating_sub(20);
        text.lines().skip(skipped).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Folder {
    pub fn create() -> Result<Folder> {
        let path = TempDir::with_prefix("gitwork-control-plane-")?.keep();
        let mut command = Command::new("sh");
        command.args(["-c", REMOVE_AT_END_OF_INPUT, "sh"]).arg(&path);
        contain(&mut command).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let remover = command.spawn().context("start the shell that removes the folder")?;
        Ok(Folder { path, remover })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.remover.stdin.take());
        let _ = self.remover.wait();
    }
}

impl Port {
    pub fn reserve() -> Result<Port> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseport(true)?;
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).context("reserve a port")?;
        let number = socket.local_addr()?.port();
        Ok(Port { _socket: socket, number })
    }

    pub fn number(&self) -> u16 {
        self.number
    }
}

/// Protects the child from the terminal's interrupt, which this process handles, and from variables
/// such as `ETCD_NAME` that would change its behaviour.
fn contain(command: &mut Command) -> &mut Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.process_group(0).env_clear().env("PATH", path)
}
