//! Where a fetch connects to, and when it gives up: IPv6 hosts, redirects, proxies, cancellation.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use gitwork_core::model::operation_error::OperationError as _;
use gitwork_git::{
    Auth, ClientCertificate, FetchError, Fetched, Mirror, MirrorLimits, Reference, Remote,
};
use tempfile::TempDir;

use crate::cli::{code, err, gitwork};
use crate::git_server::{Authority, Fault, GitServer, Proxy, Repo, SshServer, keygen};

/// A folder with one repository, `fleet.git`.
fn served() -> (TempDir, Repo) {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::create(&folder.path().join("fleet.git"));
    repo.commit("main", &[("clusters/edge-7/web/a.yaml", Some("kind: ConfigMap"))]);
    (folder, repo)
}

fn remote(url: String) -> Remote {
    Remote { url, auth: Auth::None, ca_bundle: None, client_certificate: None, proxy: None }
}

fn fetch_until(remote: &Remote, cancel: &Arc<AtomicBool>) -> Result<Fetched, FetchError> {
    let folder = tempfile::tempdir().unwrap();
    let mut mirror = Mirror::open(folder.path(), remote.clone(), MirrorLimits::default()).unwrap();
    mirror.fetch(&Reference::Head, cancel)
}

fn fetch(remote: &Remote) -> Result<Fetched, FetchError> {
    fetch_until(remote, &Arc::new(AtomicBool::new(false)))
}

fn file(folder: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// A port of the IPv6 loopback whose connections go to a port of the IPv4 loopback.
fn on_ipv6(port: u16) -> u16 {
    let listener = TcpListener::bind("[::1]:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            carry(client.try_clone().unwrap(), server.try_clone().unwrap());
            carry(server, client);
        }
    });
    own
}

/// Copies in one direction, and passes on the end.
fn carry(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}

#[test]
fn hosts_may_be_ipv6_addresses() {
    let (folder, repo) = served();
    let server = GitServer::http(folder.path()).start();
    let port = server.base().rsplit(':').next().unwrap().parse().unwrap();
    let port = on_ipv6(port);
    let mut there = remote(format!("http://[::1]:{port}/fleet.git"));
    fetch(&there).unwrap();
    let proxy = Proxy::start();
    there.proxy = Some(proxy.url());
    fetch(&there).unwrap();
    let line = format!("POST http://[::1]:{port}/fleet.git/git-upload-pack HTTP/1.1");
    assert!(proxy.requests().contains(&line), "{:?}", proxy.requests());

    let key = keygen(folder.path(), "id", "ed25519", "");
    let server = SshServer::start(&["ed25519"], &[&key.with_extension("pub")]);
    let port = on_ipv6(server.port());
    let here = format!("127.0.0.1:{}", server.port());
    let url = server.url(repo.path()).replace(&here, &format!("[::1]:{port}"));
    let there = |known: &str| {
        let known_hosts = file(&folder, "known_hosts", known);
        let auth = Auth::Ssh { key: key.clone(), passphrase_file: None, known_hosts };
        Remote { auth, ..remote(url.clone()) }
    };
    let error = fetch(&there("")).unwrap_err();
    let FetchError::HostKeyUnknown { key: offered } = &error else { panic!("{error}") };
    // OpenSSH's form of an address with a port.
    assert!(offered.line.starts_with(&format!("[::1]:{port} ssh-ed25519 ")), "{}", offered.line);
    fetch(&there(&offered.line)).unwrap();
    let proxy = Proxy::start();
    let mut through = there(&offered.line);
    through.proxy = Some(proxy.url());
    fetch(&through).unwrap();
    assert_eq!(proxy.requests(), [format!("CONNECT [::1]:{port} HTTP/1.1")]);
}

#[test]
fn redirects_leave_neither_tls_nor_the_host_of_a_client_certificate() {
    let (folder, _repo) = served();
    let authority = Authority::create("ours");
    let (plain, other) = (
        GitServer::http(folder.path()).start(),
        GitServer::https(folder.path(), &authority).start(),
    );
    let server = GitServer::https(folder.path(), &authority).start();
    let mut there = remote(server.url("fleet.git"));
    there.ca_bundle = Some(file(&folder, "ca.crt", authority.pem()));

    server.set_fault(Fault::Redirect(plain.base().to_owned()));
    let error = fetch(&there).unwrap_err();
    assert!(matches!(error, FetchError::Redirect { .. }) && error.needs_action(), "{error}");
    assert!(error.to_string().contains("plain HTTP after TLS"), "{error}");
    assert!(plain.requests().is_empty(), "{:?}", plain.requests());

    server.set_fault(Fault::Redirect(other.base().to_owned()));
    fetch(&there).unwrap();
    let before = other.requests().len();
    let (certificate, key) = authority.client("gitwork").write(folder.path(), "client");
    there.client_certificate = Some(ClientCertificate { certificate, key });
    let error = fetch(&there).unwrap_err();
    assert!(error.to_string().contains("credentials are not sent to another host"), "{error}");
    assert_eq!(other.requests().len(), before, "nothing was sent there");
}

#[test]
fn proxies_of_the_environment_are_not_used_for_git() {
    let (folder, _repo) = served();
    let server = GitServer::http(folder.path()).start();
    let proxy = Proxy::start();
    let mut command = gitwork(&["render", "--repo", &server.url("fleet.git")]);
    for name in ["http_proxy", "https_proxy", "all_proxy"] {
        command.env(name, proxy.url()).env(name.to_ascii_uppercase(), proxy.url());
    }
    let output = command.env_remove("no_proxy").env_remove("NO_PROXY").output().unwrap();
    assert!(code(&output).is_some(), "{}", err(&output));
    let packs = server.requests().iter().filter(|line| line.starts_with("POST ")).count();
    assert_eq!(packs, 1, "{:?} {}", server.requests(), err(&output));
    assert!(proxy.requests().is_empty(), "{:?}", proxy.requests());
}

#[test]
fn cancelled_fetches_end_while_the_server_is_silent() {
    let folder = tempfile::tempdir().unwrap();
    let key = keygen(folder.path(), "id", "ed25519", "");
    let known_hosts = file(&folder, "known_hosts", "");
    let ssh = Auth::Ssh { key, passphrase_file: None, known_hosts };
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    for (scheme, auth) in [("http", Auth::None), ("https", Auth::None), ("ssh", ssh)] {
        let there = Remote { auth, ..remote(format!("{scheme}://127.0.0.1:{port}/a")) };
        let cancel = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&cancel);
        let fetching = thread::spawn(move || fetch_until(&there, &flag));
        let (mut connection, _) = silent.accept().unwrap();
        cancel.store(true, Ordering::Relaxed);
        let error = fetching.join().unwrap().unwrap_err();
        assert!(matches!(error, FetchError::Cancelled { .. }), "{scheme}: {error}");
        // The client hangs up: nothing is left that waits for this server.
        io::copy(&mut connection, &mut io::sink()).unwrap();
    }
}
