//! Keys and signatures of commits, made with `ssh-keygen` and `gpg`.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gitwork_core::model::name::{CommitId, ObjectId};
use tempfile::TempDir;

use super::repo::Repo;

/// A key that signs as Git does.
pub trait Signing {
    /// The armored signature of a text.
    fn sign(&self, content: &[u8]) -> String;
}

/// An SSH key in its own folder.
pub struct SshKey {
    folder: TempDir,
}

/// A GnuPG home with its own agent, which ends with it.
pub struct Gpg {
    home: TempDir,
}

/// One key in a GnuPG home.
pub struct GpgKey<'a> {
    gpg: &'a Gpg,
    pub fingerprint: String,
}

fn program(name: &str, package: &str) -> Command {
    let there = Command::new("sh").args(["-c", "command -v \"$1\"", "sh", name]).output().unwrap();
    assert!(there.status.success(), "these tests sign with {name}: install {package}");
    Command::new(name)
}

fn run(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {log}");
    output
}

impl SshKey {
    /// Creates a key of a kind in ssh-keygen's terms, with a size if the kind has several.
    pub fn new(kind: &str, bits: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = program("ssh-keygen", "openssh-client");
        command
            .args(["-q", "-t", kind, "-N", "", "-C", "test", "-f"])
            .arg(folder.path().join("key"));
        if let Some(bits) = bits {
            command.args(["-b", bits]);
        }
        run(&mut command, b"");
        Self { folder }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("key")
    }

    /// Kind and key, as in an authorized_keys file.
    pub fn public(&self) -> String {
        let text = fs::read_to_string(self.folder.path().join("key.pub")).unwrap();
        text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
    }

    /// A line of allowed_signers.
    pub fn line(&self, principals: &str, options: &str) -> String {
        format!("{principals} {options} {}\n", self.public())
    }

    /// The fingerprint as OpenSSH prints it.
    pub fn fingerprint(&self) -> String {
        let mut command = program("ssh-keygen", "openssh-client");
        command.arg("-lf").arg(self.path());
        let output = run(&mut command, b"");
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().nth(1).unwrap().to_owned()
    }

    pub fn sign_in(&self, namespace: &str, content: &[u8]) -> String {
        let mut command = program("ssh-keygen", "openssh-client");
        command.args(["-q", "-Y", "sign", "-n", namespace, "-f"]).arg(self.path());
        String::from_utf8(run(&mut command, content).stdout).unwrap()
    }
}

impl Signing for SshKey {
    fn sign(&self, content: &[u8]) -> String {
        self.sign_in("git", content)
    }
}

impl Gpg {
    pub fn new() -> Self {
        // The folder has the agent's socket, and a socket's path has at most 107 bytes.
        let home = tempfile::Builder::new().prefix("gpg").tempdir_in("/tmp").unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
        Self { home }
    }

    fn command(&self, time: &str) -> Command {
        let mut command = program("gpg", "gnupg");
        command.arg("--homedir").arg(self.home.path());
        command.args(["--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback"]);
        command.args(["--passphrase", ""]);
        if !time.is_empty() {
            command.args(["--faked-system-time", time]);
        }
        command
    }

    pub fn run_at(&self, time: &str, args: &[&str], input: &[u8]) -> Vec<u8> {
        run(self.command(time).args(args), input).stdout
    }

    /// Creates a key at a time (`20240101T000000`; now if empty) with a lifetime (`0` for
    /// unlimited).
    pub fn key(
        &self,
        user: &str,
        kind: &str,
        usage: &str,
        expires: &str,
        time: &str,
    ) -> GpgKey<'_> {
        self.run_at(time, &["--quick-generate-key", user, kind, usage, expires], b"");
        let list = self.run_at("", &["--list-keys", "--with-colons", user], b"");
        let list = String::from_utf8(list).unwrap();
        let line = list.lines().find(|line| line.starts_with("fpr:")).unwrap();
        GpgKey { gpg: self, fingerprint: line.split(':').nth(9).unwrap().to_owned() }
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        let mut command = Command::new("gpgconf");
        command.arg("--homedir").arg(self.home.path()).args(["--kill", "gpg-agent"]);
        let _ended = command.output();
    }
}

impl GpgKey<'_> {
    /// The public key, armored.
    pub fn public(&self) -> String {
        let all = self.gpg.run_at("", &["--armor", "--export", &self.fingerprint], b"");
        String::from_utf8(all).unwrap()
    }

    pub fn sign_at(&self, time: &str, content: &[u8]) -> String {
        let args = ["--local-user", &self.fingerprint, "--armor", "--detach-sign"];
        String::from_utf8(self.gpg.run_at(time, &args, content)).unwrap()
    }

    /// Adds a subkey for signing, and returns its fingerprint.
    pub fn add_signing_subkey(&self, kind: &str) -> String {
        self.gpg.run_at("", &["--quick-add-key", &self.fingerprint, kind, "sign", "0"], b"");
        let list = self.gpg.run_at("", &["--list-keys", "--with-colons", &self.fingerprint], b"");
        let list = String::from_utf8(list).unwrap();
        let line = list.lines().rfind(|line| line.starts_with("fpr:")).unwrap();
        line.split(':').nth(9).unwrap().to_owned()
    }

    /// Imports the revocation certificate that GnuPG prepared for the key.
    pub fn revoke(&self) {
        let name = format!("openpgp-revocs.d/{}.rev", self.fingerprint);
        let text = fs::read_to_string(self.gpg.home.path().join(name)).unwrap();
        // GnuPG puts a colon before it to prevent accidental use.
        let text = text.replace(":-----BEGIN", "-----BEGIN");
        self.gpg.run_at("", &["--import"], text.as_bytes());
    }
}

impl Signing for GpgKey<'_> {
    fn sign(&self, content: &[u8]) -> String {
        self.sign_at("", content)
    }
}

impl Repo {
    /// Signs the newest commit of a branch, which changes its id.
    pub fn sign(&self, branch: &str, key: &dyn Signing) -> CommitId {
        let tip = self.tip(branch).unwrap();
        let odb = self.git2().odb().unwrap();
        let raw = odb.read(git2::Oid::from_bytes(&tip.0).unwrap()).unwrap();
        let content = std::str::from_utf8(raw.data()).unwrap();
        let signed = self.git2().commit_signed(content, &key.sign(content.as_bytes()), None);
        let signed = ObjectId(signed.unwrap().as_bytes().try_into().unwrap());
        self.set_branch(branch, signed);
        signed
    }

    /// Commits, and signs the commit.
    pub fn commit_signed(
        &self,
        branch: &str,
        files: &[(&str, Option<&str>)],
        key: &dyn Signing,
    ) -> CommitId {
        self.commit(branch, files);
        self.sign(branch, key)
    }
}

/// Git's own verification of a commit's SSH signature with an allowed_signers file.
pub fn git_verifies(repo: &Path, commit: CommitId, allowed_signers: &Path) -> bool {
    let mut command = program("git", "git");
    command.arg("--git-dir").arg(repo);
    command.arg("-c").arg(format!("gpg.ssh.allowedSignersFile={}", allowed_signers.display()));
    command.args(["verify-commit", &commit.to_string()]);
    command.output().unwrap().status.success()
}
