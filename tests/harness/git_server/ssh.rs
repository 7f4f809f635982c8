//! `sshd`, one process for each connection as under inetd. No process is left behind, and no port
//! is shared.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tempfile::TempDir;

/// An SSH server for the current user with the given public keys.
pub struct SshServer {
    port: u16,
    folder: TempDir,
    stopped: Arc<AtomicBool>,
}

impl SshServer {
    /// Starts a server with a host key of each kind (`ed25519`, `ecdsa`, `rsa`). It accepts the
    /// keys of `authorized` (paths of public key files).
    pub fn start(host_key_kinds: &[&str], authorized: &[&Path]) -> SshServer {
        let program = sshd();
        let folder = tempfile::tempdir().unwrap();
        let mut config = String::from(
            "UsePAM no\nStrictModes no\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nPermitRootLogin yes\nPidFile none\n\
             LogLevel VERBOSE\nPermitUserRC no\n",
        );
        for kind in host_key_kinds {
            let key = keygen(folder.path(), &format!("host_{kind}"), kind, "");
            config.push_str(&format!("HostKey {}\n", key.display()));
        }
        let keys: String = authorized.iter().map(|p| fs::read_to_string(p).unwrap()).collect();
        let authorized_keys = folder.path().join("authorized_keys");
        fs::write(&authorized_keys, keys).unwrap();
        config.push_str(&format!("AuthorizedKeysFile {}\n", authorized_keys.display()));
        let config_file = folder.path().join("sshd_config");
        fs::write(&config_file, config).unwrap();
        // The privilege separation folder of an sshd that runs as root; its package creates it at
        // boot.
        let _ = fs::create_dir_all("/run/sshd");

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stopped = Arc::new(AtomicBool::new(false));
        let log = folder.path().join("log");
        let stop = Arc::clone(&stopped);
        thread::spawn(move || {
            for client in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let client = client.unwrap();
                let mut child = Command::new(program)
                    .args(["-i", "-f"])
                    .arg(&config_file)
                    .arg("-E")
                    .arg(&log)
                    .stdin(Stdio::from(OwnedFd::from(client.try_clone().unwrap())))
                    .stdout(Stdio::from(OwnedFd::from(client)))
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap();
                thread::spawn(move || child.wait());
            }
        });
        SshServer { port, folder, stopped }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a repository at an absolute path.
    pub fn url(&self, repository: &Path) -> String {
        format!("ssh://{}@127.0.0.1:{}{}", user(), self.port, repository.display())
    }

    /// The line of `known_hosts` for the host key of a kind.
    pub fn known_hosts(&self, kind: &str) -> String {
        let key = self.host_key(kind);
        format!("[127.0.0.1]:{} {}", self.port, fs::read_to_string(key).unwrap())
    }

    /// The public key file of the host key of a kind.
    pub fn host_key(&self, kind: &str) -> PathBuf {
        self.folder.path().join(format!("host_{kind}.pub"))
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Creates a key pair and returns the private key's file. The public one has `.pub` added.
pub fn keygen(folder: &Path, name: &str, kind: &str, passphrase: &str) -> PathBuf {
    let file = folder.join(name);
    let status = Command::new("ssh-keygen")
        .args(["-q", "-t", kind, "-N", passphrase, "-C", name, "-f"])
        .arg(&file)
        .status();
    match status {
        Ok(status) if status.success() => file,
        other => panic!("ssh-keygen failed ({other:?}): apt-get install openssh-client"),
    }
}

fn sshd() -> &'static str {
    let places = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"];
    places.into_iter().find(|path| Path::new(path).exists()).unwrap_or_else(|| {
        panic!("sshd is not on this machine: apt-get install openssh-server");
    })
}

fn user() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
