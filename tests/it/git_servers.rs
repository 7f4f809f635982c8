//! The Git servers of the harness, asked by the `git` program: what the other tests stand on.

use std::path::Path;
use std::process::{Command, Output};

use crate::git_server::{Access, Authority, GitServer, Proxy, Repo, SshServer, keygen};

fn git(arguments: &[&str]) -> Output {
    Command::new("git")
        .args(arguments)
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env_remove("GIT_SSL_CAINFO")
        .output()
        .unwrap()
}

fn listed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn repository(root: &Path) -> (Repo, String) {
    let repo = Repo::create(&root.join("fleet.git"));
    let commit = repo.commit("main", &[("clusters/edge-7/web/a.yaml", Some("kind: ConfigMap"))]);
    (repo, format!("{commit}\trefs/heads/main"))
}

#[test]
fn http_server_checks_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let (_, line) = repository(folder.path());
    let server = GitServer::http(folder.path()).start();
    let url = server.url("fleet.git");
    assert!(listed(&git(&["ls-remote", &url])).contains(&line));

    server.set_access(Access::Authorization("Bearer let-me-in".into()));
    assert!(!git(&["ls-remote", &url]).status.success());
    let header = "http.extraHeader=Authorization: Bearer let-me-in";
    assert!(listed(&git(&["-c", header, "ls-remote", &url])).contains(&line));
    let clone = folder.path().join("clone");
    let clone = clone.to_str().unwrap();
    listed(&git(&["-c", header, "clone", "-q", &url, clone]));
    assert!(server.requests().iter().any(|r| r == "POST /fleet.git/git-upload-pack 200"));
}

#[test]
fn https_server_accepts_client_certificates_through_a_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let (_, line) = repository(folder.path());
    let authority = Authority::create("test");
    let server = GitServer::https(folder.path(), &authority).clients_of(&authority).start();
    let proxy = Proxy::start();
    let bundle = folder.path().join("ca.crt");
    std::fs::write(&bundle, authority.pem()).unwrap();
    let (certificate, key) = authority.client("fleet").write(folder.path(), "client");
    let bundle = format!("http.sslCAInfo={}", bundle.display());
    let certificate = format!("http.sslCert={}", certificate.display());
    let key = format!("http.sslKey={}", key.display());
    let through = format!("http.proxy={}", proxy.url());
    let url = server.url("fleet.git");
    let common = ["-c", &bundle, "-c", &through];
    assert!(!git(&[&common[..], &["ls-remote", &url]].concat()).status.success());
    let identity = ["-c", &certificate, "-c", &key, "ls-remote", &url];
    assert!(listed(&git(&[&common[..], &identity].concat())).contains(&line));
    assert!(proxy.requests().iter().all(|r| r.starts_with("CONNECT 127.0.0.1:")));
}

#[test]
fn ssh_server_serves_a_repository() {
    let folder = tempfile::tempdir().unwrap();
    let (repo, line) = repository(folder.path());
    let key = keygen(folder.path(), "id", "ed25519", "");
    let server = SshServer::start(&["ed25519"], &[&key.with_extension("pub")]);
    let known_hosts = folder.path().join("known_hosts");
    std::fs::write(&known_hosts, server.known_hosts("ed25519")).unwrap();
    let ssh = format!(
        "core.sshCommand=ssh -F none -i {} -o UserKnownHostsFile={} -o StrictHostKeyChecking=yes",
        key.display(),
        known_hosts.display()
    );
    let output = git(&["-c", &ssh, "ls-remote", &server.url(repo.path())]);
    assert!(listed(&output).contains(&line), "{}", server.log());
}
