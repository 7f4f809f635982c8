//! Fetching into a mirror, from real servers on the loopback.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_core::model::operation_error::{OperationError as _, describe};
use gitwork_core::model::snapshot::Objects as _;
use gitwork_git::{
    Auth, ClientCertificate, FetchError, Fetched, Mirror, MirrorError, MirrorLimits, Reference,
    Remote,
};

use crate::git_server::{Access, Authority, Fault, GitServer, Proxy, Repo, SshServer, keygen};

const FILE: &str = "clusters/edge-7/web/a.yaml";

/// A repository below a folder, and a place for a mirror.
struct World {
    folder: tempfile::TempDir,
    repo: Repo,
    commit: CommitId,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("served")).unwrap();
        let repo = Repo::create(&folder.path().join("served/fleet.git"));
        let commit = repo.commit("main", &[(FILE, Some("kind: ConfigMap"))]);
        World { folder, repo, commit }
    }

    fn served(&self) -> PathBuf {
        self.folder.path().join("served")
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// The mirror's folder on disk: the only one that there is.
    fn cache(&self) -> PathBuf {
        let entries = fs::read_dir(self.folder.path().join("cache")).unwrap();
        let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        found.retain(|path| path.extension().is_some_and(|e| e == "git"));
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    fn mirror(&self, remote: Remote) -> Mirror {
        self.mirror_with(remote, MirrorLimits::default())
    }

    fn mirror_with(&self, remote: Remote, limits: MirrorLimits) -> Mirror {
        Mirror::open(&self.folder.path().join("cache"), remote, limits).unwrap()
    }

    /// One fetch of HEAD into a mirror of its own.
    fn fetch(&self, remote: &Remote) -> Result<Fetched, FetchError> {
        let folder = tempfile::tempdir().unwrap();
        let mut mirror =
            Mirror::open(folder.path(), remote.clone(), MirrorLimits::default()).unwrap();
        let fetched = fetch(&mut mirror, &Reference::Head)?;
        assert_eq!(fetched.commit, self.commit);
        assert_eq!(read(&mirror, fetched.commit, FILE), "kind: ConfigMap");
        Ok(fetched)
    }
}

fn remote(url: String) -> Remote {
    Remote { url, auth: Auth::None, ca_bundle: None, client_certificate: None, proxy: None }
}

fn fetch(mirror: &mut Mirror, reference: &Reference) -> Result<Fetched, FetchError> {
    mirror.fetch(reference, &Arc::new(AtomicBool::new(false)))
}

fn read(mirror: &Mirror, commit: CommitId, file: &str) -> String {
    let path = RepoPath::parse(file).unwrap();
    let snapshot = mirror.snapshot(commit, &path.parent().unwrap()).unwrap();
    let entry = snapshot.tree(snapshot.root).unwrap().get(path.name()).unwrap().clone();
    String::from_utf8(snapshot.blob(entry.id, 1000).unwrap().to_vec()).unwrap()
}

/// The error's text with those of its causes.
fn text(error: &FetchError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

#[test]
fn basic_credentials_are_read_for_every_fetch() {
    let world = World::new();
    let server = GitServer::http(&world.served()).start();
    let password_file = world.file("password", "first\n");
    let mut remote = remote(server.url("fleet.git"));
    let wanted = |password: &str| {
        Access::Authorization(format!("Basic {}", STANDARD.encode(format!("ada:{password}"))))
    };
    server.set_access(wanted("first"));

    let error = world.fetch(&remote).unwrap_err();
    assert!(matches!(error, FetchError::AuthRefused { .. }) && error.needs_action(), "{error}");
    remote.auth = Auth::Basic { username: "ada".into(), password_file: password_file.clone() };
    let mut mirror = world.mirror(remote.clone());
    fetch(&mut mirror, &Reference::Head).unwrap();

    server.set_access(wanted("second"));
    let error = fetch(&mut mirror, &Reference::Head).unwrap_err();
    assert_eq!(error.reason(), "AuthenticationRefused");
    assert!(!text(&error).contains("first"), "{error}");
    world.file("password", "second");
    fetch(&mut mirror, &Reference::Head).unwrap();

    fs::remove_file(&password_file).unwrap();
    let error = fetch(&mut mirror, &Reference::Head).unwrap_err();
    assert!(matches!(error, FetchError::CredentialFile { .. }), "{error}");
}

#[test]
fn bearer_token_authenticates() {
    let world = World::new();
    let server = GitServer::http(&world.served()).start();
    server.set_access(Access::Authorization("Bearer t0ken".into()));
    let mut remote = remote(server.url("fleet.git"));
    remote.auth = Auth::Token { file: world.file("token", "t0ken\n") };
    world.fetch(&remote).unwrap();
    remote.auth = Auth::Token { file: world.file("token", "wrong\n") };
    let error = world.fetch(&remote).unwrap_err();
    assert!(matches!(error, FetchError::AuthRefused { .. }), "{error}");
    assert!(!text(&error).contains("wrong"), "{error}");
}

#[test]
fn tls_trusts_only_the_configured_bundle() {
    let world = World::new();
    let authority = Authority::create("ours");
    let server = GitServer::https(&world.served(), &authority).start();
    let mut remote = remote(server.url("fleet.git"));
    let bundle = world.file("ca.crt", authority.pem());
    let error = world.fetch(&remote).unwrap_err();
    assert!(matches!(error, FetchError::Tls { .. }) && error.needs_action(), "{error}");
    assert!(describe(&error).contains("CA bundle"), "says what to do: {error}");

    remote.ca_bundle = Some(world.file("other.crt", Authority::create("other").pem()));
    assert!(matches!(world.fetch(&remote), Err(FetchError::Tls { .. })));
    remote.ca_bundle = Some(world.file("empty.crt", "nothing"));
    assert!(matches!(world.fetch(&remote), Err(FetchError::CredentialFile { .. })));
    remote.ca_bundle = Some(bundle);
    world.fetch(&remote).unwrap();

    let misnamed = authority.server_named("git.example.com");
    let server = GitServer::http(&world.served()).identity(misnamed).start();
    remote.url = server.url("fleet.git");
    let error = world.fetch(&remote).unwrap_err();
    assert!(matches!(error, FetchError::Tls { .. }), "{error}");
}

#[test]
fn client_certificate_is_presented() {
    let world = World::new();
    let (servers, clients) = (Authority::create("servers"), Authority::create("clients"));
    let server = GitServer::https(&world.served(), &servers).clients_of(&clients).start();
    let mut remote = remote(server.url("fleet.git"));
    remote.ca_bundle = Some(world.file("ca.crt", servers.pem()));
    let error = world.fetch(&remote).unwrap_err();
    assert!(describe(&error).contains("client certificate"), "{error}");

    let folder = world.folder.path();
    let (certificate, key) = clients.client("gitwork").write(folder, "right");
    remote.client_certificate = Some(ClientCertificate { certificate, key });
    world.fetch(&remote).unwrap();

    let (certificate, key) = Authority::create("x").client("gitwork").write(folder, "wrong");
    let wrong_key = key.clone();
    remote.client_certificate = Some(ClientCertificate { certificate, key });
    assert!(matches!(world.fetch(&remote), Err(FetchError::Tls { .. })));
    let certificate = folder.join("right.crt");
    remote.client_certificate = Some(ClientCertificate { certificate, key: wrong_key });
    let error = world.fetch(&remote).unwrap_err();
    assert!(matches!(error, FetchError::CredentialFile { .. }), "key of another: {error}");
}

#[test]
fn proxy_is_used_for_every_request() {
    let world = World::new();
    let authority = Authority::create("ours");
    let plain = GitServer::http(&world.served()).start();
    let secure = GitServer::https(&world.served(), &authority).start();
    let credentials = format!("Basic {}", STANDARD.encode("ada:p@ss"));
    let proxy = Proxy::start_with(Some(&credentials));
    let mut remote = remote(plain.url("fleet.git"));
    remote.ca_bundle = Some(world.file("ca.crt", authority.pem()));

    remote.proxy = Some(proxy.url());
    let error = world.fetch(&remote).unwrap_err();
    assert!(matches!(error, FetchError::Proxy { status: 407, .. }), "{error}");
    remote.proxy = Some(format!("http://ada:p%40ss@127.0.0.1:{}", proxy.port()));
    world.fetch(&remote).unwrap();
    let line = format!("POST {}/git-upload-pack HTTP/1.1", plain.url("fleet.git"));
    assert!(proxy.requests().contains(&line), "{:?}", proxy.requests());
    remote.url = secure.url("fleet.git");
    world.fetch(&remote).unwrap();
    let host = secure.base().strip_prefix("https://").unwrap();
    assert!(proxy.requests().contains(&format!("CONNECT {host} HTTP/1.1")));

    remote.proxy = Some("http://ada:s3cret@127.0.0.1:1".into());
    let error = world.fetch(&remote).unwrap_err();
    assert!(matches!(error, FetchError::Connect { .. }) && !error.needs_action(), "{error}");
    assert!(!text(&error).contains("s3cret"), "{error}");
}

#[test]
fn credentials_do_not_follow_a_redirect_to_another_host() {
    let world = World::new();
    let target = GitServer::http(&world.served()).start();
    let server = GitServer::http(&world.served()).start();
    server.set_fault(Fault::Redirect(target.base().to_owned()));
    let mut remote = remote(server.url("fleet.git"));
    world.fetch(&remote).unwrap();
    let before = target.requests().len();

    remote.auth = Auth::Token { file: world.file("token", "t0ken") };
    let error = world.fetch(&remote).unwrap_err();
    assert!(matches!(error, FetchError::Redirect { .. }) && error.needs_action(), "{error}");
    assert!(error.to_string().contains(target.base()), "{error}");
    assert_eq!(target.requests().len(), before, "nothing was sent there");

    // On the same host they do: forges add `.git` so.
    server.set_fault(Fault::Redirect("/again".into()));
    let error = world.fetch(&remote).unwrap_err();
    assert!(error.to_string().contains("too many redirects"), "{error}");
}

#[test]
fn non_git_responses_are_classified() {
    let world = World::new();
    let server = GitServer::http(&world.served()).start();
    let there = remote(server.url("fleet.git"));
    let missing = world.fetch(&remote(server.url("none.git"))).unwrap_err();
    assert!(matches!(missing, FetchError::RepositoryMissing { .. }), "{missing}");
    for (fault, reason, permanent) in [
        (Fault::Page, "RepositoryMissing", true),
        (Fault::Status(403), "AuthenticationRefused", true),
        (Fault::Status(429), "Server", false),
        (Fault::Status(503), "Server", false),
        (Fault::Status(418), "Server", true),
    ] {
        server.set_fault(fault);
        let error = world.fetch(&there).unwrap_err();
        assert_eq!((error.reason(), error.needs_action()), (reason, permanent), "{error}");
    }
    drop(server);
    let error = world.fetch(&there).unwrap_err();
    assert_eq!((error.reason(), error.needs_action()), ("Network", false), "{error}");
}

#[test]
fn references_of_every_kind_are_found() {
    let world = World::new();
    let repo = &world.repo;
    let first = world.commit;
    let second = repo.commit("main", &[("b", Some("2"))]);
    let other = repo.commit_on("other", &[first], &[("c", Some("3"))]);
    repo.tag("v1.2.3", first);
    repo.annotated_tag("v1.10.0", second);
    repo.tag("2.0.0-rc.1", other);
    repo.tag("not-a-version", other);
    let server = GitServer::http(&world.served()).start();
    let mut mirror = world.mirror(remote(server.url("fleet.git")));
    let range = |text: &str| Reference::Semver(text.parse().unwrap());
    for (reference, commit, name) in [
        (Reference::Head, second, "refs/heads/main"),
        (Reference::Branch("other".into()), other, "refs/heads/other"),
        (Reference::Tag("v1.2.3".into()), first, "refs/tags/v1.2.3"),
        (Reference::Tag("v1.10.0".into()), second, "refs/tags/v1.10.0"),
        (range("^1.2"), second, "refs/tags/v1.10.0"),
        (range("~1.2"), first, "refs/tags/v1.2.3"),
        (range("*"), second, "refs/tags/v1.10.0"),
        (range(">=2.0.0-rc.0"), other, "refs/tags/2.0.0-rc.1"),
    ] {
        let fetched = fetch(&mut mirror, &reference).unwrap();
        assert_eq!((fetched.commit, fetched.name.as_str()), (commit, name), "{reference}");
        assert_eq!(fetch(&mut mirror, &reference).unwrap(), fetched, "again");
    }
    for reference in [
        Reference::Branch("none".into()),
        Reference::Tag("main".into()),
        range("^2"),
        Reference::Commit(CommitId::parse(&"1".repeat(40)).unwrap()),
    ] {
        let error = fetch(&mut mirror, &reference).unwrap_err();
        assert!(matches!(error, FetchError::ReferenceMissing { .. }), "{reference}: {error}");
        assert!(error.to_string().contains(&reference.to_string()), "{error}");
    }
}

#[test]
fn head_may_be_any_branch_or_missing() {
    let world = World::new();
    let side = world.repo.commit_on("side", &[world.commit], &[("b", Some("2"))]);
    let mut mirror = world.mirror(remote(world.repo.file_url()));
    world.repo.set_head("side");
    let fetched = fetch(&mut mirror, &Reference::Head).unwrap();
    assert_eq!((fetched.commit, fetched.name.as_str()), (side, "refs/heads/side"));

    let detached = world.repo.commit_on("gone", &[side], &[("b", Some("3"))]);
    let oid = git2::Oid::from_bytes(&detached.0).unwrap();
    world.repo.git2().set_head_detached(oid).unwrap();
    world.repo.delete_branch("gone");
    let fetched = fetch(&mut mirror, &Reference::Head).unwrap();
    assert_eq!((fetched.commit, fetched.name.as_str()), (detached, "HEAD"));

    let empty = Repo::create(&world.folder.path().join("empty.git"));
    let error = world.fetch(&remote(empty.file_url())).unwrap_err();
    assert!(matches!(error, FetchError::ReferenceMissing { .. }), "{error}");
    assert!(describe(&error).contains("is it empty"), "{error}");
}

#[test]
fn commits_are_fetched_by_id() {
    let world = World::new();
    let tip = world.repo.commit("main", &[("b", Some("2"))]);
    // On no branch: servers send it only if it is requested by id, if at all.
    let hidden = world.repo.commit_on("gone", &[tip], &[("b", Some("3"))]);
    world.repo.delete_branch("gone");
    let server = GitServer::http(&world.served()).start();
    let mut mirror = world.mirror(remote(server.url("fleet.git")));
    let fetched = fetch(&mut mirror, &Reference::Commit(world.commit)).unwrap();
    assert_eq!(fetched.name, world.commit.to_string());
    let requests = server.requests().len();
    fetch(&mut mirror, &Reference::Commit(world.commit)).unwrap();
    assert_eq!(server.requests().len(), requests, "a commit that is here is not asked for");

    assert!(fetch(&mut mirror, &Reference::Commit(hidden)).is_err());
    let mut config = world.repo.git2().config().unwrap();
    config.set_bool("uploadpack.allowAnySHA1InWant", true).unwrap();
    let fetched = fetch(&mut mirror, &Reference::Commit(hidden)).unwrap();
    assert_eq!(read(&mirror, fetched.commit, "b"), "3");
}

#[test]
fn force_pushes_and_deleted_branches_are_detected() {
    let world = World::new();
    let old = world.repo.commit("main", &[("b", Some("2"))]);
    let server = GitServer::http(&world.served()).start();
    let mut mirror = world.mirror(remote(server.url("fleet.git")));
    let main = Reference::Branch("main".into());
    assert_eq!(fetch(&mut mirror, &main).unwrap().commit, old);
    assert_eq!(mirror.resolve("main").unwrap(), old);

    let forced = world.repo.commit_on("main", &[world.commit], &[("b", Some("3"))]);
    assert_eq!(fetch(&mut mirror, &main).unwrap().commit, forced);
    use gitwork_git::AncestorCheck;
    assert_eq!(mirror.is_ancestor(old, forced).unwrap(), AncestorCheck::No);
    assert_eq!(mirror.is_ancestor(world.commit, forced).unwrap(), AncestorCheck::Yes);
    let unknown = CommitId::parse(&"1".repeat(40)).unwrap();
    assert_eq!(mirror.is_ancestor(unknown, forced).unwrap(), AncestorCheck::Unknown);
    // A commit that was pushed back is still here, with its tree.
    assert_eq!(mirror.fetch(&main, &Arc::default()).unwrap().commit, forced);

    world.repo.set_branch("main", world.commit);
    assert_eq!(fetch(&mut mirror, &main).unwrap().commit, world.commit);
    world.repo.delete_branch("main");
    assert!(matches!(fetch(&mut mirror, &main), Err(FetchError::ReferenceMissing { .. })));
    // The deleted branch's name may become a folder of branches.
    let nested = world.repo.commit_on("main/next", &[world.commit], &[("b", Some("4"))]);
    let fetched = fetch(&mut mirror, &Reference::Branch("main/next".into())).unwrap();
    assert_eq!(fetched.commit, nested);
}

#[test]
fn unchanged_poll_is_one_request() {
    let world = World::new();
    let server = GitServer::http(&world.served()).start();
    let mut mirror = world.mirror(remote(server.url("fleet.git")));
    fetch(&mut mirror, &Reference::Head).unwrap();
    let before = server.requests().len();
    fetch(&mut mirror, &Reference::Head).unwrap();
    assert_eq!(server.requests().len(), before + 1);
}

#[test]
fn local_paths_are_valid_remotes() {
    let world = World::new();
    world.fetch(&remote(world.repo.path().to_str().unwrap().to_owned())).unwrap();
    world.fetch(&remote(world.repo.file_url())).unwrap();
    let error = world.fetch(&remote("/no/such/repository".into())).unwrap_err();
    assert!(!text(&error).is_empty());
}

fn ssh_world() -> (World, PathBuf, SshServer) {
    let world = World::new();
    let key = keygen(world.folder.path(), "id", "ed25519", "");
    let locked = keygen(world.folder.path(), "locked", "ed25519", "open sesame");
    let authorized = [key.with_extension("pub"), locked.with_extension("pub")];
    let authorized: Vec<&Path> = authorized.iter().map(PathBuf::as_path).collect();
    let server = SshServer::start(&["ed25519", "ecdsa", "rsa"], &authorized);
    (world, key, server)
}

fn ssh(server: &SshServer, repository: &Path, key: &Path, known_hosts: &Path) -> Remote {
    let auth = Auth::Ssh {
        key: key.to_owned(),
        passphrase_file: None,
        known_hosts: known_hosts.to_owned(),
    };
    Remote { auth, ..remote(server.url(repository)) }
}

#[test]
fn every_kind_of_ssh_key_authenticates() {
    let (world, key, server) = ssh_world();
    let known = world.file("known_hosts", &server.known_hosts("ed25519"));
    let mut remote = ssh(&server, world.repo.path(), &key, &known);
    world.fetch(&remote).unwrap();

    let stranger = keygen(world.folder.path(), "stranger", "ecdsa", "");
    remote = ssh(&server, world.repo.path(), &stranger, &known);
    let error = world.fetch(&remote).unwrap_err();
    assert!(matches!(error, FetchError::AuthRefused { .. }) && error.needs_action(), "{error}");

    let locked = world.folder.path().join("locked");
    for (passphrase, expected) in
        [(None, "is encrypted"), (Some("wrong"), "passphrase right"), (Some("open sesame"), "")]
    {
        let file = passphrase.map(|text| world.file("passphrase", text));
        remote.auth =
            Auth::Ssh { key: locked.clone(), passphrase_file: file, known_hosts: known.clone() };
        match world.fetch(&remote) {
            Ok(_) => assert_eq!(expected, ""),
            Err(error) => {
                let text = text(&error);
                assert!(!expected.is_empty() && text.contains(expected), "{text}");
                assert!(!text.contains("wrong"), "{text}");
            }
        }
    }
}

#[test]
fn ssh_keys_of_all_kinds_and_formats_authenticate() {
    let world = World::new();
    let kinds = ["ed25519", "ecdsa", "rsa"];
    let keys = kinds.map(|kind| keygen(world.folder.path(), kind, kind, ""));
    let public = keys.clone().map(|key| key.with_extension("pub"));
    let authorized: Vec<&Path> = public.iter().map(PathBuf::as_path).collect();
    let server = SshServer::start(&["ed25519"], &authorized);
    let known = world.file("known_hosts", &server.known_hosts("ed25519"));
    let passphrase = world.file("passphrase", "open sesame");
    let fetch = |key: &Path| {
        let auth = Auth::Ssh {
            key: key.to_owned(),
            passphrase_file: Some(passphrase.clone()),
            known_hosts: known.clone(),
        };
        world.fetch(&Remote { auth, ..remote(server.url(world.repo.path())) })
    };
    for (key, kind) in keys.iter().zip(kinds) {
        // A passphrase that the key does not need does no harm.
        fetch(key).unwrap_or_else(|error| panic!("{kind}: {}", text(&error)));
        for (format, passphrase) in [
            ("RFC4716", "open sesame"),
            ("PEM", ""),
            ("PEM", "open sesame"),
            ("PKCS8", ""),
            ("PKCS8", "open sesame"),
        ] {
            let copy = world.folder.path().join(format!("{kind}-{format}-{}", passphrase.len()));
            fs::copy(key, &copy).unwrap();
            let converted = Command::new("ssh-keygen")
                .args(["-q", "-p", "-m", format, "-P", "", "-N", passphrase, "-f"])
                .arg(&copy)
                .status();
            assert!(converted.unwrap().success(), "{kind} {format}");
            let result = fetch(&copy);
            let written = fs::read_to_string(&copy).unwrap();
            let first = written.lines().next().unwrap();
            if kind == "ecdsa" && written.contains("DEK-Info") {
                let error = text(&result.unwrap_err());
                assert!(error.contains("`ssh-keygen -p` writes"), "{error}");
                continue;
            }
            result.unwrap_or_else(|error| {
                panic!("{kind} {format} {passphrase:?} {first}: {}", text(&error))
            });
        }
    }
}

/// An EC private key (RFC 5915) of P-256 whose number needs 31 bytes, as PEM.
fn short_p256_key() -> String {
    let number: Vec<u8> = [0].into_iter().chain(1..32).collect();
    let p256 = [0xa0, 0x0a, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
    let der = [&[0x30, 49, 2, 1, 1, 4, 32][..], &number, &p256].concat();
    let base64 = STANDARD.encode(der);
    format!("-----BEGIN EC PRIVATE KEY-----\n{base64}\n-----END EC PRIVATE KEY-----\n")
}

#[test]
fn p256_key_of_fewer_than_32_bytes_authenticates() {
    let world = World::new();
    let keygen = |arguments: &[&str], key: &Path| {
        let output = Command::new("ssh-keygen").args(arguments).arg(key).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let write = |name: &str, passphrase: &str, cipher: &str| {
        let key = world.file(name, &short_p256_key());
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        keygen(&["-q", "-p", "-Z", cipher, "-P", "", "-N", passphrase, "-f"], &key);
        assert!(fs::read_to_string(&key).unwrap().contains("BEGIN OPENSSH PRIVATE KEY"));
        key
    };
    let plain = write("plain", "", "aes256-ctr");
    let authorized = world.file("short.pub", &keygen(&["-y", "-f"], &plain));
    let server = SshServer::start(&["ed25519"], &[authorized.as_path()]);
    let known = world.file("known_hosts", &server.known_hosts("ed25519"));
    let passphrase = world.file("passphrase", "open sesame");
    let fetch = |key: &Path, passphrase_file: Option<&PathBuf>| {
        let auth = Auth::Ssh {
            key: key.to_owned(),
            passphrase_file: passphrase_file.cloned(),
            known_hosts: known.clone(),
        };
        world.fetch(&Remote { auth, ..remote(server.url(world.repo.path())) })
    };
    fetch(&plain, None).unwrap_or_else(|error| panic!("{}", text(&error)));
    for cipher in ["aes256-ctr", "aes256-gcm@openssh.com"] {
        let locked = write(cipher, "open sesame", cipher);
        fetch(&locked, Some(&passphrase))
            .unwrap_or_else(|error| panic!("{cipher}: {}", text(&error)));
        let wrong = world.file("wrong", "let me in");
        let error = text(&fetch(&locked, Some(&wrong)).unwrap_err());
        assert!(error.contains("passphrase right"), "{error}");
    }
}

#[test]
fn ssh_host_key_is_checked_before_authentication() {
    let (world, key, server) = ssh_world();
    let fetch_knowing = |lines: &str| {
        let known = world.file("known_hosts", lines);
        world.fetch(&ssh(&server, world.repo.path(), &key, &known))
    };
    // Whichever kind is known, the server is asked for that one.
    for kind in ["ed25519", "ecdsa", "rsa"] {
        fetch_knowing(&server.known_hosts(kind)).unwrap();
    }
    let error = fetch_knowing("").unwrap_err();
    let FetchError::HostKeyUnknown { key: offered } = &error else { panic!("{error}") };
    assert_eq!(offered.host, format!("127.0.0.1:{}", server.port()));
    let kind = ["ed25519", "ecdsa", "rsa"].into_iter().find(|kind| offered.kind.contains(kind));
    let listed = Command::new("ssh-keygen").arg("-lf").arg(server.host_key(kind.unwrap())).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    assert!(listed.contains(&offered.fingerprint), "{listed} {error}");
    assert!(describe(&error).contains(&offered.line), "says what to add: {error}");
    fetch_knowing(&offered.line).unwrap();

    let other = keygen(world.folder.path(), "other", "ed25519", "");
    let public = fs::read_to_string(other.with_extension("pub")).unwrap();
    let changed = format!("# a comment\n[127.0.0.1]:{} {public}", server.port());
    let error = fetch_knowing(&changed).unwrap_err();
    assert!(matches!(error, FetchError::HostKeyChanged { known_line: 2, .. }), "{error}");
    assert!(error.needs_action() && error.reason() == "HostKey");
    let revoked: String = ["ed25519", "ecdsa", "rsa"]
        .map(|kind| format!("{0}@revoked {0}", server.known_hosts(kind)))
        .concat();
    let error = fetch_knowing(&revoked).unwrap_err();
    assert!(matches!(error, FetchError::HostKeyRevoked { .. }), "{error}");

    // A file with hashed names, as Debian's ssh writes it.
    let hashed = world.file("hashed", &server.known_hosts("ed25519"));
    let status = Command::new("ssh-keygen").arg("-Hqf").arg(&hashed).output();
    assert!(status.unwrap().status.success());
    let text = fs::read_to_string(&hashed).unwrap();
    assert!(text.starts_with("|1|"), "{text}");
    fetch_knowing(&text).unwrap();
}

#[test]
fn missing_ssh_repository_is_named() {
    let (world, key, server) = ssh_world();
    let known = world.file("known_hosts", &server.known_hosts("ed25519"));
    let missing = world.folder.path().join("it's-not-here.git");
    let remote = ssh(&server, &missing, &key, &known);
    let error = world.fetch(&remote).unwrap_err();
    assert!(matches!(error, FetchError::RepositoryMissing { .. }), "{}", text(&error));
    let proxy = Proxy::start();
    let mut remote = ssh(&server, world.repo.path(), &key, &known);
    remote.proxy = Some(proxy.url());
    world.fetch(&remote).unwrap();
    assert_eq!(proxy.requests(), [format!("CONNECT 127.0.0.1:{} HTTP/1.1", server.port())]);
}

fn impatient() -> MirrorLimits {
    MirrorLimits { stall_time_max: Duration::from_millis(300), ..MirrorLimits::default() }
}

#[test]
fn silent_git_servers_time_out() {
    let world = World::new();
    let server = GitServer::http(&world.served()).start();
    let mut mirror = world.mirror_with(remote(server.url("fleet.git")), impatient());
    for fault in [Fault::Stall, Fault::StallPack] {
        server.set_fault(fault);
        let error = fetch(&mut mirror, &Reference::Head).unwrap_err();
        assert!(matches!(error, FetchError::Stalled { .. }), "{}", text(&error));
        assert!(!error.needs_action());
    }
    drop(mirror);
    server.set_fault(Fault::None);
    let mut mirror = world.mirror(remote(server.url("fleet.git")));
    assert_eq!(fetch(&mut mirror, &Reference::Head).unwrap().commit, world.commit);
    drop(mirror);

    // An SSH server that never sends its banner, and a TLS server that never responds.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let key = keygen(world.folder.path(), "id", "ed25519", "");
    let known_hosts = world.file("known_hosts", "");
    let auth = Auth::Ssh { key, passphrase_file: None, known_hosts };
    for (url, auth) in [
        (format!("ssh://git@127.0.0.1:{port}/a"), auth),
        (format!("https://127.0.0.1:{port}/a"), Auth::None),
    ] {
        let remote = Remote { auth, ..remote(url) };
        let error = fetch(&mut world.mirror_with(remote, impatient()), &Reference::Head);
        assert!(matches!(error, Err(FetchError::Stalled { .. })), "{error:?}");
    }
}

#[test]
fn fetch_ends_at_its_deadline_or_when_cancelled() {
    let world = World::new();
    let server = GitServer::http(&world.served()).start();
    server.set_fault(Fault::Stall);
    let limits =
        MirrorLimits { fetch_time_max: Duration::from_millis(300), ..MirrorLimits::default() };
    let mut mirror = world.mirror_with(remote(server.url("fleet.git")), limits);
    let error = fetch(&mut mirror, &Reference::Head).unwrap_err();
    assert!(matches!(error, FetchError::Timeout { .. }), "{error}");
    drop(mirror);

    let mut mirror = world.mirror(remote(server.url("fleet.git")));
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    let fetching = std::thread::spawn(move || mirror.fetch(&Reference::Head, &flag));
    cancel.store(true, Ordering::Relaxed);
    let error = fetching.join().unwrap().unwrap_err();
    assert!(matches!(error, FetchError::Cancelled { .. }), "{error}");
}

/// Text that does not compress.
fn noise(bytes: usize) -> String {
    let mut random = fastrand::Rng::with_seed(7);
    (0..bytes).map(|_| random.alphanumeric()).collect()
}

#[test]
fn oversized_packs_are_rejected() {
    let world = World::new();
    world.repo.commit("main", &[("big", Some(&noise(400_000)))]);
    let server = GitServer::http(&world.served()).start();
    for url in [server.url("fleet.git"), world.repo.file_url()] {
        let limits = MirrorLimits { fetch_bytes_max: 100_000, ..MirrorLimits::default() };
        let mut mirror = world.mirror_with(remote(url), limits);
        let error = fetch(&mut mirror, &Reference::Head).unwrap_err();
        assert!(matches!(error, FetchError::TooLarge { limit: 100_000, .. }), "{}", text(&error));
        assert!(error.needs_action() && mirror.size().unwrap() < 100_000);
    }
}

#[test]
fn mirror_over_its_size_limit_is_recreated() {
    let world = World::new();
    let server = GitServer::http(&world.served()).start();
    let limits = MirrorLimits { mirror_bytes_max: 300_000, ..MirrorLimits::default() };
    let mut mirror = world.mirror_with(remote(server.url("fleet.git")), limits);
    world.repo.commit("main", &[("big", Some(&noise(400_000)))]);
    // The first fetch is bounded by its own limit.
    fetch(&mut mirror, &Reference::Head).unwrap();
    assert!(mirror.size().unwrap() > 300_000);
    // What was pushed by mistake is pushed away again, and the mirror loses it.
    let small = world.repo.commit_on("main", &[world.commit], &[("b", Some("2"))]);
    assert_eq!(fetch(&mut mirror, &Reference::Head).unwrap().commit, small);
    assert!(mirror.size().unwrap() < 300_000);
    assert_eq!(read(&mirror, small, "b"), "2");

    world.repo.commit("main", &[("big", Some(&noise(400_000)))]);
    fetch(&mut mirror, &Reference::Head).unwrap();
    let error = fetch(&mut mirror, &Reference::Head).unwrap_err();
    assert_eq!((error.reason(), error.needs_action()), ("TooLarge", true), "{error}");
    assert_eq!(read(&mirror, small, "b"), "2", "what was there stays");
}

#[test]
fn damaged_mirror_is_recreated() {
    let world = World::new();
    let server = GitServer::http(&world.served()).start();
    type Damage<'a> = (&'a str, &'a dyn Fn(&Path));
    let damages: [Damage<'_>; 6] = [
        ("no HEAD", &|cache| fs::remove_file(cache.join("HEAD")).unwrap()),
        ("bad config", &|cache| fs::write(cache.join("config"), "[core\n").unwrap()),
        ("no objects", &|cache| fs::remove_dir_all(cache.join("objects")).unwrap()),
        ("bad reference", &|cache| fs::write(cache.join("refs/gitwork/heads/main"), "x").unwrap()),
        ("empty packs", &|cache| each_pack_file(cache, &|file| fs::write(file, "").unwrap())),
        ("a file in its place", &|cache| {
            fs::remove_dir_all(cache).unwrap();
            fs::write(cache, "").unwrap();
        }),
    ];
    for (name, damage) in damages {
        let mut mirror = world.mirror(remote(server.url("fleet.git")));
        fetch(&mut mirror, &Reference::Head).unwrap();
        drop(mirror);
        damage(&world.cache());
        let mut mirror = world.mirror(remote(server.url("fleet.git")));
        let fetched = fetch(&mut mirror, &Reference::Head);
        assert_eq!(fetched.unwrap().commit, world.commit, "{name}");
        assert_eq!(read(&mirror, world.commit, FILE), "kind: ConfigMap", "{name}");
    }
}

fn each_pack_file(cache: &Path, change: &dyn Fn(&Path)) {
    use std::os::unix::fs::PermissionsExt as _;
    for file in fs::read_dir(cache.join("objects/pack")).unwrap() {
        let path = file.unwrap().path();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        change(&path);
    }
}

#[test]
fn damaged_blob_is_an_error_and_the_next_fetch_repairs_it() {
    let world = World::new();
    // The one large blob is where the pack's middle is.
    let commit = world.repo.commit("main", &[("big", Some(&noise(200_000)))]);
    let server = GitServer::http(&world.served()).start();
    let mut mirror = world.mirror(remote(server.url("fleet.git")));
    fetch(&mut mirror, &Reference::Head).unwrap();
    drop(mirror);
    each_pack_file(&world.cache(), &|file| {
        if file.extension().is_some_and(|e| e == "pack") {
            let mut bytes = fs::read(file).unwrap();
            let middle = bytes.len() / 2;
            bytes.get_mut(middle..middle + 1000).unwrap().fill(0);
            fs::write(file, bytes).unwrap();
        }
    });
    let mut mirror = world.mirror(remote(server.url("fleet.git")));
    fetch(&mut mirror, &Reference::Head).unwrap();
    let snapshot = mirror.snapshot(commit, &RepoPath::root()).unwrap();
    let id = snapshot.tree(snapshot.root).unwrap().get("big").unwrap().id;
    assert!(snapshot.blob(id, 1 << 20).is_err());
    assert_eq!(fetch(&mut mirror, &Reference::Head).unwrap().commit, commit);
    let snapshot = mirror.snapshot(commit, &RepoPath::root()).unwrap();
    assert_eq!(snapshot.blob(id, 1 << 20).unwrap().len(), 200_000);
}

#[test]
fn mirror_of_another_repository_is_recreated() {
    let world = World::new();
    let server = GitServer::http(&world.served()).start();
    let mut mirror = world.mirror(remote(server.url("fleet.git")));
    fetch(&mut mirror, &Reference::Head).unwrap();
    drop(mirror);

    // Of another repository: nothing of the old one can be seen in it.
    let other = Repo::create(&world.served().join("other.git"));
    let tip = other.commit("main", &[("x", Some("1"))]);
    let mut mirror = world.mirror(remote(server.url("other.git")));
    assert!(mirror.resolve("main").is_err());
    assert_eq!(fetch(&mut mirror, &Reference::Head).unwrap().commit, tip);
    assert!(mirror.snapshot(world.commit, &RepoPath::root()).is_err());
    drop(mirror);

    // Of another user, which only root can give away.
    let cache = world.cache();
    match std::os::unix::fs::chown(&cache, Some(12_345), None) {
        Ok(()) => {
            let mut mirror = world.mirror(remote(server.url("other.git")));
            assert_ne!(world.cache(), cache, "a new one");
            assert_eq!(fetch(&mut mirror, &Reference::Head).unwrap().commit, tip);
        }
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
    }
}

#[test]
fn url_with_credentials_is_refused_without_showing_them() {
    let world = World::new();
    let folder = world.folder.path().join("cache");
    let secret = remote("https://ada:s3cret@example.com/a".into());
    let error = Mirror::open(&folder, secret, MirrorLimits::default()).err().unwrap();
    assert!(
        matches!(error, MirrorError::Url(_)) && !error.to_string().contains("s3cret"),
        "{error}"
    );
}
