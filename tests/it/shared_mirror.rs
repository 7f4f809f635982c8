//! One mirror and one fetch for all sources of a repository, in one process and in several.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gitwork_core::config::tenancy::Tenancy;
use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{ClusterName, CommitId, GroupName, RepoPath, SourceId};
use gitwork_core::model::operation_error::{OperationError as _, describe};
use gitwork_core::model::snapshot::Objects as _;
use gitwork_core::rollout::earlier::{EarlierContent, EarlierContents};
use gitwork_git::{
    Auth, FetchError, FolderLock, Mirror, MirrorError, MirrorLimits, Mirrors, Reference, Remote,
};
use gitwork_source::verification::Verification;
use gitwork_source::{Source, SourceConfig, SourceLocation, SourceReadError, Sources};
use gitwork_sync::verification_base::VerificationBase;
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::{code, err, gitwork, out};
use crate::forge::daemon::Daemon;
use crate::git_server::{Access, GitServer, Repo};
use crate::sync::fixture::{Sync, config_map};

const WEB: &str = "clusters/edge-1/web/cm.yaml";
const DB: &str = "team/clusters/edge-2/db/cm.yaml";

/// A repository on a server with the branches `main` and `next`, and a cache folder.
struct World {
    folder: TempDir,
    repo: Repo,
    server: GitServer,
    main: CommitId,
    next: CommitId,
}

impl World {
    fn new() -> Self {
        let (folder, repo) = Repo::in_new_folder();
        let main = repo.commit("main", &[(WEB, Some(&config_map("web", "one")))]);
        let next = repo.commit("next", &[(DB, Some(&config_map("db", "one")))]);
        let server = GitServer::http(folder.path()).start();
        Self { folder, repo, server, main, next }
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn remote(&self, auth: Auth) -> Remote {
        let url = self.server.url("fleet.git");
        Remote { url, auth, ca_bundle: None, client_certificate: None, proxy: None }
    }

    fn config(&self, id: &str, reference: Reference, path: &str, auth: Auth) -> SourceConfig {
        let remote = Box::new(self.remote(auth));
        SourceConfig {
            id: SourceId::parse(id).unwrap(),
            repository: SourceLocation::Git { remote, reference, cache: self.cache() },
            path: RepoPath::parse(path).unwrap(),
            tenancy: Tenancy::default(),
            schema_checks: Default::default(),
            content_bytes_max: gitwork_core::limits::CONTENT_BYTES_MAX,
            facts: None,
        }
    }

    /// The sources `one` (`main`, the root) and `two` (`next`, the folder `team`).
    fn two(&self, sources: &Sources) -> [Source; 2] {
        let branch = |name: &str| Reference::Branch(name.to_owned());
        let one = self.config("one", branch("main"), "", Auth::None);
        let two = self.config("two", branch("next"), "team", Auth::None);
        [one, two].map(|config| sources.open(config).unwrap())
    }

    /// The folders of the mirrors in the cache.
    fn mirrors(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.cache()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|e| e == "git")).collect()
    }

    /// How often references were listed and packs were sent so far.
    fn requests(&self) -> (usize, usize) {
        let requests = self.server.requests();
        let count = |start: &str| requests.iter().filter(|line| line.starts_with(start)).count();
        (count("GET /fleet.git/info/refs"), count("POST /fleet.git/git-upload-pack"))
    }

    /// A command on the repository's URL with the cache.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = gitwork(arguments);
        command.args(["--repo", &self.server.url("fleet.git"), "--cache"]).arg(self.cache());
        command.env("KUBECONFIG", "/does/not/exist");
        command
    }

    fn daemon_file(&self, sources: &Value) -> String {
        let file = self.folder.path().join("daemon.yaml");
        let all = json!({ "cache": self.cache(), "sources": sources });
        fs::write(&file, all.to_string()).unwrap();
        file.display().to_string()
    }
}

fn sources() -> Sources {
    Sources::new(Mirrors::default(), Timestamp::now)
}

fn spawn(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn works(desired: &gitwork_core::render::desired::Desired) -> Vec<String> {
    desired.works.keys().map(ToString::to_string).collect()
}

#[test]
fn two_sources_of_one_repository_share_mirror_and_fetch() {
    let world = World::new();
    let [mut one, mut two] = world.two(&sources());
    for round in 1..=2 {
        let start = Instant::now();
        let read =
            |source: &mut Source| source.read_within(start.elapsed(), &Arc::default()).unwrap();
        let (first, second) = thread::scope(|scope| {
            let first = scope.spawn(|| read(&mut one));
            let second = scope.spawn(|| read(&mut two));
            (first.join().unwrap(), second.join().unwrap())
        });
        assert_eq!(world.requests(), (round, 1), "one connection, and one pack in all");
        assert_eq!(
            (first.desired.commit, first.name.as_str()),
            (Some(world.main), "refs/heads/main")
        );
        assert_eq!(
            (second.desired.commit, second.name.as_str()),
            (Some(world.next), "refs/heads/next")
        );
        assert_eq!(works(&first.desired), ["edge-1/web"]);
        assert_eq!(works(&second.desired), ["edge-2/db"], "its own branch and path");
    }
    assert_eq!(world.mirrors().len(), 1);

    let read = |source: &mut Source| source.read(&Arc::default()).unwrap();
    // One after the other they fetch by themselves: a push in between must not be missed.
    let pushed = world.repo.commit("next", &[(DB, Some(&config_map("db", "two")))]);
    read(&mut one);
    assert_eq!(read(&mut two).desired.commit, Some(pushed));
    let pushed = world.repo.commit("next", &[(DB, Some(&config_map("db", "three")))]);
    assert_eq!(read(&mut two).desired.commit, Some(pushed));
}

/// An engine does this while it reads the hub for the first time.
#[test]
fn fetch_ahead_serves_the_next_read_if_that_accepts_its_age() {
    let world = World::new();
    let [one, _two] = world.two(&sources());
    let mut one = one.with_verification(Verification::without_operator()).unwrap();
    one.set_verification_base(VerificationBase::default());
    let (never, hour) = (Arc::default(), Duration::from_secs(3_600));
    one.read_ahead(&never);
    assert_eq!(world.requests(), (1, 1));
    let pushed = world.repo.commit("main", &[(WEB, Some(&config_map("web", "two")))]);
    let read = one.read_within(hour, &never).unwrap();
    assert_eq!(read.desired.commit, Some(world.main), "as it was fetched");
    assert_eq!((works(&read.desired), world.requests()), (vec!["edge-1/web".into()], (1, 1)));
    assert_eq!(one.read(&never).unwrap().desired.commit, Some(pushed), "a hint came since");

    world.repo.delete_branch("main");
    one.read_ahead(&never);
    let before = world.requests();
    let error = one.read_within(hour, &never).unwrap_err();
    assert!(error.to_string().contains("has no branch `main`"), "{error}");
    assert_eq!(world.requests(), before, "the error is that of the fetch");
    one.read_ahead(&never);
    world.repo.commit("main", &[(WEB, Some(&config_map("web", "three")))]);
    one.read(&never).unwrap();
}

#[test]
fn failed_reference_of_one_source_does_not_fail_the_other() {
    let world = World::new();
    let [mut one, mut two] = world.two(&sources());
    world.repo.delete_branch("next");
    let read = |source: &mut Source| source.read(&Arc::default());
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| read(&mut one));
        let second = scope.spawn(|| read(&mut two));
        (first.join().unwrap(), second.join().unwrap())
    });
    assert_eq!(first.unwrap().desired.commit, Some(world.main));
    let error = second.unwrap_err();
    assert!(error.to_string().contains("has no branch `next`"), "{error}");
    // Both report that the server is gone, which one of them found out.
    drop(world.server);
    let failed = thread::scope(|scope| {
        let first = scope.spawn(|| read(&mut one));
        let second = scope.spawn(|| read(&mut two));
        [first.join().unwrap(), second.join().unwrap()]
    });
    for error in failed.map(Result::unwrap_err) {
        assert_eq!(error.reason(), "Network", "{error}");
    }
}

#[test]
fn sources_with_different_credentials_use_different_mirrors() {
    let world = World::new();
    world.server.set_access(Access::Authorization("Bearer right".into()));
    let token = |name: &str, text: &str| {
        let file = world.folder.path().join(name);
        fs::write(&file, text).unwrap();
        Auth::Token { file }
    };
    let sources = sources();
    let open = |id, reference, auth| sources.open(world.config(id, reference, "", auth)).unwrap();
    let mut allowed = open("allowed", Reference::Head, token("right", "right"));
    allowed.read(&Arc::default()).unwrap();

    // The commit is on disk, but not for these credentials.
    let commit = Reference::Commit(world.main);
    let mut denied = open("denied", commit.clone(), token("wrong", "wrong"));
    let error = denied.read(&Arc::default()).unwrap_err();
    assert!(matches!(error, SourceReadError::Fetch(FetchError::AuthRefused { .. })), "{error}");
    assert!(denied.snapshots().resolve(&world.main.to_string(), &Arc::default()).is_err());
    assert_eq!(world.mirrors().len(), 2);

    // A rotated token stays in its file, and so with its mirror.
    world.server.set_access(Access::Authorization("Bearer rotated".into()));
    let mut again = open("again", Reference::Head, token("right", "rotated"));
    again.read(&Arc::default()).unwrap();
    assert_eq!(world.mirrors().len(), 2);
    for folder in world.mirrors() {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(!["right", "wrong", "rotated"].iter().any(|word| name.contains(word)), "{name}");
    }
}

#[test]
fn references_of_another_process_stay() {
    let world = World::new();
    world.repo.tag("v1.0.0", world.main);
    let version = Reference::Semver("^1".parse().unwrap());
    let other_process = sources();
    let open = |process: &Sources, id: &str, reference| {
        process.open(world.config(id, reference, "", Auth::None)).unwrap()
    };
    let mut one = open(&sources(), "one", Reference::Branch("main".into()));
    let mut others = [
        open(&other_process, "tag", Reference::Tag("v1.0.0".into())),
        open(&other_process, "version", version),
        open(&other_process, "commit", Reference::Commit(world.next)),
        open(&other_process, "head", Reference::Head),
    ];
    let read = |source: &mut Source| source.read(&Arc::default()).unwrap().desired.commit;
    for _ in 0..2 {
        assert_eq!(read(&mut one), Some(world.main));
        let found = others.each_mut().map(read);
        assert_eq!(found, [world.main, world.main, world.next, world.main].map(Some));
        let resolve = |name: &str, source: &mut Source| {
            source.snapshots().resolve(name, &Arc::default()).unwrap()
        };
        assert_eq!(resolve("main", &mut one), world.main);
        assert_eq!(resolve("HEAD", &mut one), world.main);
    }
    // A name of another source is fetched again, not taken from its last fetch.
    let pushed = world.repo.commit("next", &[(DB, Some(&config_map("db", "two")))]);
    let mut two = open(&other_process, "two", Reference::Branch("next".into()));
    assert_eq!(read(&mut two), Some(pushed));
    let newer = world.repo.commit("next", &[(DB, Some(&config_map("db", "three")))]);
    let resolved = one.snapshots().resolve("next~0", &Arc::default()).unwrap();
    assert_eq!(resolved, newer);
    assert!(one.snapshots().resolve("none", &Arc::default()).is_err());
}

#[test]
fn four_validations_of_one_url_succeed_at_once() {
    let world = World::new();
    let four: Vec<Child> = (0..4).map(|_| spawn(world.command(&["validate"]))).collect();
    for child in four {
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), Some(0), "{}", err(&output));
    }
    assert_eq!(world.mirrors().len(), 1);
    assert_eq!(world.requests().1, 1, "the pack was sent once");
}

#[test]
fn commands_wait_for_a_running_fetch_and_name_it() {
    let world = World::new();
    let first = world.command(&["validate"]).output().unwrap();
    assert_eq!(code(&first), Some(0), "{}", err(&first));
    let folder = world.mirrors().remove(0);
    let fetch = FolderLock::acquire(&folder).unwrap();
    let main = world.main.to_string();
    let commands = [
        world.command(&["validate", "--branch", "main"]),
        world.command(&["plan", "--base", "main", "--head", "main"]),
        world.command(&["explain", "edge-1/web", "--branch", "main"]),
    ];
    let mut waiting = commands.map(spawn);
    // A commit that is on disk needs no fetch.
    let there = world.command(&["validate", "--commit", &main]).output().unwrap();
    assert_eq!((code(&there), err(&there)), (Some(0), String::new()));
    let named =
        format!("(pid {}), which is fetching into {}", std::process::id(), folder.display());
    let mut printed = waiting.each_mut().map(|child| BufReader::new(child.stderr.take().unwrap()));
    for stderr in &mut printed {
        let line = stderr.by_ref().lines().map(Result::unwrap).find(|line| line.contains(&named));
        assert!(line.is_some(), "a command has ended without a word on {named}");
    }
    drop(fetch);
    for (mut child, mut stderr) in waiting.into_iter().zip(printed) {
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
    }
}

#[test]
fn endless_fetch_of_another_process_is_an_error_that_names_it() {
    let world = World::new();
    let folder = world.folder.path().join("mirror");
    let limits =
        MirrorLimits { lock_time_max: Duration::from_millis(100), ..MirrorLimits::default() };
    let mut mirror = Mirror::open(&folder, world.remote(Auth::None), limits).unwrap();
    let fetch = FolderLock::acquire(&folder).unwrap();
    let error = mirror.fetch(&Reference::Head, &Arc::default()).unwrap_err();
    assert!(matches!(error, FetchError::Mirror(MirrorError::Busy { .. })), "{error}");
    let text = describe(&error);
    for words in [format!("pid {}", std::process::id()), folder.display().to_string()] {
        assert!(text.contains(&words), "{text}");
    }
    drop(fetch);
    assert_eq!(mirror.fetch(&Reference::Head, &Arc::default()).unwrap().commit, world.main);
}

/// The repositories in a mirror's folder.
fn repositories(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.starts_with("mirror-"));
    names.sort();
    names
}

#[test]
fn reader_keeps_its_repository_while_another_process_rebuilds_the_mirror() {
    let world = World::new();
    let folder = world.folder.path().join("mirror");
    let open = |limits| Mirror::open(&folder, world.remote(Auth::None), limits).unwrap();
    let mut reader = open(MirrorLimits::default());
    for reference in [Reference::Head, Reference::Branch("next".into())] {
        reader.fetch(&reference, &Arc::default()).unwrap();
    }
    let snapshot = reader.snapshot(world.next, &RepoPath::root()).unwrap();

    // Every fetch of this one is into a new repository.
    let small = MirrorLimits { mirror_bytes_max: 1, ..MirrorLimits::default() };
    assert!(matches!(
        open(small).fetch(&Reference::Head, &Arc::default()),
        Err(FetchError::OverBudget { .. } | FetchError::TooLarge { .. })
    ));
    assert_eq!(
        repositories(&folder),
        ["mirror-0.git", "mirror-0.lock"],
        "a failure changes nothing"
    );
    let size = reader.size().unwrap();
    let tight = MirrorLimits { mirror_bytes_max: size - 1, ..MirrorLimits::default() };
    let mut rebuilding = open(tight);
    rebuilding.fetch(&Reference::Head, &Arc::default()).unwrap();
    let both = ["mirror-0.git", "mirror-0.lock", "mirror-1.git", "mirror-1.lock"];
    assert_eq!(repositories(&folder), both);
    let file = snapshot.tree(snapshot.root).unwrap().get("team").unwrap().id;
    assert!(snapshot.tree(file).is_ok(), "an open snapshot is read on");
    assert!(reader.snapshot(world.next, &RepoPath::root()).is_ok());

    // With its next fetch the reader moves on, and the snapshot alone keeps the old repository.
    let fetched = reader.fetch(&Reference::Branch("next".into()), &Arc::default()).unwrap();
    assert_eq!(fetched.commit, world.next);
    assert!(reader.snapshot(world.next, &RepoPath::root()).is_ok());
    assert_eq!(repositories(&folder).len(), 4);
    assert!(snapshot.tree(file).is_ok());
    drop(snapshot);
    reader.fetch(&Reference::Head, &Arc::default()).unwrap();
    assert_eq!(repositories(&folder), ["mirror-1.git", "mirror-1.lock"]);
}

/// The commits that are kept in the newest repository of a mirror's folder.
fn kept(folder: &Path) -> Vec<String> {
    let newest = repositories(folder).into_iter().rfind(|name| name.ends_with(".git")).unwrap();
    let git = git2::Repository::open_bare(folder.join(newest)).unwrap();
    let mut names: Vec<String> = git
        .references_glob("refs/gitwork/kept/*")
        .unwrap()
        .map(|found| found.unwrap().name().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn kept_commits_outlive_their_branch_and_the_repository_of_the_mirror() {
    let world = World::new();
    let big: String = (0..20_000).map(|number| format!("{number:x}")).collect();
    world.repo.commit("big", &[("big", Some(&big))]);
    let folder = world.folder.path().join("mirror");
    let open = |limits| Mirror::open(&folder, world.remote(Auth::None), limits).unwrap();
    let mut mirror = open(MirrorLimits::default());
    for name in ["main", "next", "big"] {
        mirror.fetch(&Reference::Branch(name.into()), &Arc::default()).unwrap();
    }
    let [one, two] = ["one", "two"].map(|id| SourceId::parse(id).unwrap());
    mirror.keep(&one, &[world.next].into()).unwrap();
    mirror.keep(&two, &[world.main, world.next].into()).unwrap();
    mirror.keep(&two, &[world.next].into()).unwrap();
    let both = ["one", "two"].map(|id| format!("refs/gitwork/kept/{id}/{}", world.next));
    assert_eq!(kept(&folder), both);

    for name in ["next", "big"] {
        world.repo.delete_branch(name);
    }
    let limits =
        MirrorLimits { mirror_bytes_max: mirror.size().unwrap() - 1, ..MirrorLimits::default() };
    let mut rebuilding = open(limits);
    rebuilding.fetch(&Reference::Head, &Arc::default()).unwrap();
    assert!(repositories(&folder).contains(&"mirror-1.git".to_owned()));
    let file = "team/clusters/edge-2/db";
    assert!(rebuilding.snapshot(world.next, &RepoPath::parse(file).unwrap()).is_ok());
    assert_eq!(kept(&folder), both);
    rebuilding.keep(&one, &[].into()).unwrap();
    assert_eq!(kept(&folder), both[1..]);

    // What is kept must not make the mirror unusable. Its pack and index have more than 500 bytes.
    let other = world.folder.path().join("other");
    let mut plain =
        Mirror::open(&other, world.remote(Auth::None), MirrorLimits::default()).unwrap();
    plain.fetch(&Reference::Head, &Arc::default()).unwrap();
    let tight = MirrorLimits { mirror_bytes_max: plain.size().unwrap() + 500, ..limits };
    let mut mirror = open(tight);
    assert_eq!(mirror.fetch(&Reference::Head, &Arc::default()).unwrap().commit, world.main);
    assert_eq!(kept(&folder), Vec::<String>::new());
    assert!(mirror.snapshot(world.next, &RepoPath::root()).is_err());
}

#[test]
fn commits_of_earlier_contents_are_fetched_by_their_ids_and_kept() {
    let world = World::new();
    world.repo.delete_branch("next");
    let sources = sources();
    let branch = Reference::Branch("main".into());
    let mut source = sources.open(world.config("one", branch, "", Auth::None)).unwrap();
    source.read(&Arc::default()).unwrap();
    let folder = world.mirrors().remove(0);
    let content = Digest::of(b"an earlier content");
    let earlier = EarlierContent {
        head: Digest::of(b"the content of the branch"),
        commits: [(content, world.next)].into(),
        clusters: [(ClusterName::parse("edge-1").unwrap(), content)].into(),
    };
    let contents = Arc::new(EarlierContents::from([(GroupName::parse("web").unwrap(), earlier)]));
    source.set_earlier(contents.clone());
    // The server does not give what no branch has: the source is read all the same.
    assert_eq!(source.read(&Arc::default()).unwrap().desired.commit, Some(world.main));
    assert_eq!(kept(&folder), Vec::<String>::new());

    let mut config = world.repo.git2().config().unwrap();
    config.set_bool("uploadpack.allowAnySHA1InWant", true).unwrap();
    let requests = world.requests();
    source.read(&Arc::default()).unwrap();
    assert_eq!(
        world.requests().1,
        requests.1,
        "it is not asked for again before something changes"
    );
    source.set_earlier(contents);
    source.read(&Arc::default()).unwrap();
    assert_eq!(kept(&folder), [format!("refs/gitwork/kept/one/{}", world.next)]);
    source.set_earlier(Arc::default());
    source.read(&Arc::default()).unwrap();
    assert_eq!(kept(&folder), Vec::<String>::new());
}

#[test]
fn one_process_at_a_time_syncs_a_source() {
    let world = World::new();
    let config = || world.config("one", Reference::Head, "", Auth::None);
    let daemon = sources().open_to_sync(config()).unwrap();
    daemon.state_files().remember_record_generation(7).unwrap();
    let error = sources().open_to_sync(config()).err().unwrap();
    assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
    assert!(describe(&error).contains("its own cache folder"), "{}", describe(&error));

    // Other sources, and commands that only read this one, are not disturbed.
    let other = world.config("two", Reference::Head, "", Auth::None);
    assert!(sources().open_to_sync(other).is_ok());
    let mut reading = sources().open(config()).unwrap();
    assert_eq!(reading.known_record_generation(), 7);
    reading.state_files().remember_record_generation(8).unwrap();
    assert_eq!(daemon.known_record_generation(), 7, "only the daemon writes");
    assert_ne!(reading.state_files().holder("host"), daemon.state_files().holder("host"));
    reading.read(&Arc::default()).unwrap();
    drop(daemon);
    assert!(sources().open_to_sync(config()).is_ok());
}

#[test]
fn validation_of_a_config_file_covers_all_sources() {
    let world = World::new();
    let url = world.server.url("fleet.git");
    world.repo.commit("next", &[("team/clusters/edge-2/bad/cm.yaml", Some("a: 1\na: 2\n"))]);
    let one = json!({ "id": "one", "repo": url, "branch": "main" });
    let two = json!({ "id": "two", "repo": url, "branch": "next", "path": "team" });
    let file = world.daemon_file(&json!([one, two]));
    let validate = |more: &[&str]| -> Output {
        gitwork(&[&["validate", "--config", &file], more].concat()).output().unwrap()
    };
    let all = validate(&[]);
    assert_eq!(code(&all), Some(1), "{}", err(&all));
    let heads: Vec<String> =
        out(&all).lines().filter(|line| line.contains("[GW")).map(str::to_owned).collect();
    assert!(
        !heads.is_empty() && heads.iter().all(|line| line.contains("source two: ")),
        "{heads:?}"
    );
    assert_eq!(world.requests(), (1, 1), "one fetch for both");
    let listed: Value = serde_json::from_slice(&validate(&["-o", "json"]).stdout).unwrap();
    let message = listed["diagnostics"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("source two: "), "{message}");
    // A single one reports as before.
    assert_eq!(code(&validate(&["--source-id", "one"])), Some(0));
    assert!(!out(&validate(&["--source-id", "two"])).contains("source two: "));

    let three = json!({ "id": "three", "repo": world.server.url("none.git") });
    world.daemon_file(&json!([three, one, two]));
    let partly = validate(&[]);
    assert_eq!(code(&partly), Some(1));
    assert!(err(&partly).contains("source three: there is no repository"), "{}", err(&partly));
    assert!(out(&partly).contains("source two: "), "the others are validated: {}", out(&partly));
    world.daemon_file(&json!([one, one]));
    assert!(err(&validate(&[])).contains("sources[1].id"), "{}", err(&validate(&[])));
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_syncs_two_sources_of_one_repository_beside_commands() {
    let sync = Sync::new(2).await;
    let url = sync.server.url("fleet.git");
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    let second = format!("team/{}", sync.path(1, "db/cm.yaml"));
    sync.repo.commit("next", &[(&second, Some(&config_map("db", "one")))]);
    let other = format!("{}-next", sync.id);
    let daemon = Daemon::start(
        &sync,
        &json!({ "listen": "127.0.0.1:0", "sources": [
            { "id": sync.id.as_str(), "repo": url, "branch": "main" },
            { "id": other, "repo": url, "branch": "next", "path": "team" },
        ] }),
    )
    .await;
    sync.until_value(0, "web", "one").await;
    sync.until_value(1, "db", "one").await;

    // With the file and the cache of the daemon.
    let file = sync.folder.path().join("gitwork-daemon.yaml").display().to_string();
    let kubeconfig = sync.hub.kubeconfig_path();
    let run = |arguments: &[&str]| {
        let mut command = gitwork(arguments);
        command.args(["--config", &file]);
        if arguments[0] != "validate" {
            command.arg("--kubeconfig").arg(&kubeconfig);
        }
        spawn(command)
    };
    let work = format!("{}/db", sync.clusters[1]);
    let beside = [
        run(&["plan", "--source-id", sync.id.as_str()]),
        run(&["plan", "--source-id", &other]),
        run(&["explain", &work, "--source-id", &other]),
        run(&["validate"]),
        run(&["validate", "--source-id", &other]),
    ];
    for output in beside.map(|child| child.wait_with_output().unwrap()) {
        assert_eq!(code(&output), Some(0), "{}", err(&output));
    }
    // These have nothing to do, which they can only know from Git and the hub.
    let (approve, adopt) = (["approve", &"0".repeat(64)], ["adopt", &work]);
    for (command, reason) in
        [(approve, "no change is held"), (adopt, "already belongs to the source")]
    {
        let command = [&command[..], &["--source-id", &other]].concat();
        let refused = run(&command).wait_with_output().unwrap();
        let text = err(&refused);
        assert!(code(&refused) == Some(1) && text.contains(reason), "{text}");
    }
    sync.repo.commit("next", &[(&second, Some(&config_map("db", "two")))]);
    daemon.hang_up();
    sync.until_value(1, "db", "two").await;

    let once = run(&["run", "--once"]).wait_with_output().unwrap();
    assert_eq!(code(&once), Some(1));
    assert!(err(&once).contains("is used by gitwork (pid "), "{}", err(&once));
    assert_eq!(daemon.terminate().await, Some(0));
}
