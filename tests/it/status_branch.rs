//! The status branch, pushed to real servers on the loopback.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{ClusterName, CommitId, GroupName, SourceId, WorkKey, WorkName};
use gitwork_core::model::operation_error::OperationError as _;
use gitwork_core::plan::rollout_progress::GroupProgress;
use gitwork_forge::StatusBranchReporter;
use gitwork_git::{
    Auth, FetchError, Published, PublishedRecord, PushError, Remote, StatusBranch,
    StatusBranchCheckpoint,
};
use gitwork_report::status::State;
use gitwork_report::status::source::SourceStatus;
use gitwork_report::status_branch::StatusSummary;
use gitwork_runtime::clock::WallClock;
use tokio::sync::watch;

use crate::forge::reporting::source_status;
use crate::git_server::{Access, GitServer, Repo, SshServer, keygen};
use crate::harness::resources::mapped_below;

const BRANCH: &str = "gitwork-status";

/// A repository below a folder.
struct World {
    folder: tempfile::TempDir,
    repo: Repo,
}

impl World {
    fn new() -> World {
        let (folder, repo) = Repo::in_new_folder();
        repo.commit("main", &[("clusters/edge-1/web/a.yaml", Some("kind: ConfigMap"))]);
        World { folder, repo }
    }

    /// The status branch as a process with this name has it.
    fn branch(&self, process: &str, remote: Remote) -> StatusBranch {
        StatusBranch::open(&self.folder.path().join(process), remote, BRANCH).unwrap()
    }

    fn local(&self, process: &str) -> StatusBranch {
        self.branch(process, remote(self.repo.file_url(), Auth::None))
    }

    /// Ids of the branch's commits, the newest first.
    fn history(&self) -> Vec<CommitId> {
        let Some(mut next) = self.repo.tip(BRANCH) else { return Vec::new() };
        let mut found = vec![next];
        let git = self.repo.git2();
        while let Some(parent) =
            git.find_commit(git2::Oid::from_bytes(&next.0).unwrap()).unwrap().parent_ids().next()
        {
            next = CommitId::parse(&parent.to_string()).unwrap();
            found.push(next);
        }
        found
    }

    fn read(&self, file: &str) -> Option<String> {
        let git = self.repo.git2();
        let tip =
            git.find_commit(git2::Oid::from_bytes(&self.repo.tip(BRANCH)?.0).unwrap()).unwrap();
        let tree = tip.tree().unwrap();
        let entry = tree.get_path(Path::new(file)).ok()?;
        let blob = entry.to_object(git).unwrap().into_blob().ok()?;
        Some(String::from_utf8(blob.content().to_vec()).unwrap())
    }

    fn summary(&self) -> String {
        let summary: StatusSummary =
            serde_json::from_str(&self.read("summary.json").unwrap()).unwrap();
        summary.summary
    }
}

fn remote(url: String, auth: Auth) -> Remote {
    Remote { url, auth, ca_bundle: None, client_certificate: None, proxy: None }
}

fn publish(branch: &mut StatusBranch, status: &Arc<SourceStatus>) -> Result<Published, PushError> {
    branch.publish(status, 1_800_000_000, &Arc::new(AtomicBool::new(false)))
}

fn pushed(branch: &mut StatusBranch, status: &Arc<SourceStatus>) -> CommitId {
    match publish(branch, status).unwrap() {
        Published::Pushed { commit } => commit,
        Published::Unchanged => panic!("something has changed"),
    }
}

#[test]
fn status_branch_is_an_orphan_with_every_file_and_stays_unchanged() {
    let world = World::new();
    let main = world.repo.tip("main");
    let mut branch = world.local("a");
    let first = source_status(1, &[("edge-1", State::Available), ("edge-7", State::Failed)]);
    let commit = pushed(&mut branch, &first);
    assert_eq!(world.history(), [commit]);
    for file in ["README.md", "summary.json", "clusters/edge-1.md", "clusters/edge-7/web.yaml"] {
        assert!(world.read(file).is_some(), "{file}");
    }
    assert_eq!(world.summary(), "1/2 clusters applied, 1 failed: edge-7");
    assert_eq!(publish(&mut branch, &first).unwrap(), Published::Unchanged);
    // A new process finds everything as it left it.
    drop(branch);
    let mut branch = world.local("a");
    assert_eq!(publish(&mut branch, &first).unwrap(), Published::Unchanged);
    let second = source_status(2, &[("edge-1", State::Available)]);
    let next = pushed(&mut branch, &second);
    assert_eq!(world.history(), [next, commit]);
    assert!(
        world.read("clusters/edge-7.md").is_none()
            && world.read("clusters/edge-7/web.yaml").is_none()
    );
    assert_eq!(world.repo.tip("main"), main, "no other branch is touched");
}

#[test]
fn checkpoint_accepts_only_plausible_records_of_its_own_source() {
    let world = World::new();
    let cancel = Arc::new(AtomicBool::new(false));
    let read = |branch: &str, source: &str, url: String| {
        let folder = world.folder.path().join("checkpoint");
        let checkpoint = StatusBranchCheckpoint::new(&folder, remote(url, Auth::None), branch);
        checkpoint.read(&SourceId::parse(source).unwrap(), &cancel)
    };
    let record_generation = |branch: &str, source: &str, url: String| {
        read(branch, source, url).map(|published| published.generation)
    };
    let url = || world.repo.file_url();
    assert_eq!(
        record_generation(BRANCH, "fleet", url()).unwrap(),
        0,
        "there is no such branch yet"
    );
    assert_eq!(record_generation("main", "fleet", url()).unwrap(), 0, "it is no status branch");
    let mut branch = world.local("a");
    for (count, believed) in [(7, 7), (u64::from(u32::MAX), u64::from(u32::MAX)), (u64::MAX, 0)] {
        let mut status = SourceStatus::clone(&source_status(1, &[("edge-1", State::Applied)]));
        status.record_generation = count;
        pushed(&mut branch, &Arc::new(status));
        assert_eq!(record_generation(BRANCH, "fleet", url()).unwrap(), believed);
        assert_eq!(record_generation(BRANCH, "another", url()).unwrap(), 0);
    }

    let rollout = |group: &str, rejected| GroupProgress {
        group: group.into(),
        content: Digest::of(group.as_bytes()).to_string(),
        rejected,
        ..GroupProgress::default()
    };
    let mut status = SourceStatus::clone(&source_status(1, &[("edge-1", State::Applied)]));
    status.rollouts =
        vec![rollout("tills", true), rollout("web", false), rollout("No group", true)];
    pushed(&mut branch, &Arc::new(status));
    let tills = (GroupName::parse("tills").unwrap(), Digest::of(b"tills"));
    assert_eq!(read(BRANCH, "fleet", url()).unwrap().rejected, [tills].into());
    assert_eq!(read(BRANCH, "another", url()).unwrap(), PublishedRecord::default());

    let away = format!("{}-that-is-not-there", url());
    assert!(record_generation(BRANCH, "fleet", away).is_err(), "unknown is not none");
}

#[test]
fn one_changed_work_writes_only_the_git_objects_on_its_path() {
    let world = World::new();
    let mut branch = world.local("a");
    let names: Vec<String> = (0..50).map(|n| format!("edge-{n}")).collect();
    let clusters: Vec<(&str, State)> = names.iter().map(|n| (n.as_str(), State::Applied)).collect();
    let first = source_status(1, &clusters);
    pushed(&mut branch, &first);
    let objects = || {
        let mut count = 0;
        let git = git2::Repository::open(world.repo.path()).unwrap();
        let odb = git.odb().unwrap();
        odb.foreach(|_| {
            count += 1;
            true
        })
        .unwrap();
        count
    };
    let before = objects();
    let mut changed = SourceStatus::clone(&first);
    let cluster = ClusterName::parse("edge-7").unwrap();
    let key = WorkKey { cluster, work: WorkName::parse("web").unwrap() };
    changed.works.get_mut(&key).unwrap().state = State::Failed;
    pushed(&mut branch, &Arc::new(changed));
    // Four files, three folders, one commit.
    assert_eq!(objects() - before, 8);
}

#[test]
fn a_publication_leaves_no_pack_in_memory() {
    let world = World::new();
    let folder = world.folder.path().canonicalize().unwrap();
    let names: Vec<String> = (0..250).map(|n| format!("edge-{n}")).collect();
    for (process, state) in [("a", State::Pending), ("b", State::Applied)] {
        // Many files become packs, and those of the branch come as one.
        let clusters: Vec<(&str, State)> = names.iter().map(|n| (n.as_str(), state)).collect();
        let mut branch = world.local(process);
        pushed(&mut branch, &source_status(1, &clusters));
        assert_eq!(mapped_below(&folder.join(process)), BTreeSet::new());
        assert_eq!(
            publish(&mut branch, &source_status(1, &clusters)).unwrap(),
            Published::Unchanged
        );
        pushed(&mut branch, &source_status(2, &clusters));
    }
}

#[test]
fn concurrent_writers_lose_no_record() {
    let world = World::new();
    let (mut one, mut two) = (world.local("one"), world.local("two"));
    let states = [State::Pending, State::Progressing, State::Applied, State::Available];
    let mut commits = Vec::new();
    for (turn, state) in states.into_iter().cycle().take(8).enumerate() {
        let status = source_status(turn as u8, &[("edge-1", state)]);
        let writer = if turn % 2 == 0 { &mut one } else { &mut two };
        commits.insert(0, pushed(writer, &status));
    }
    assert_eq!(world.history(), commits, "each goes on top of the other");
    // What the other one has pushed already is not pushed again.
    let last = source_status(9, &[("edge-1", State::Failed)]);
    pushed(&mut one, &last);
    assert_eq!(publish(&mut two, &last).unwrap(), Published::Unchanged);
}

#[test]
fn rewritten_or_deleted_status_branch_is_restored() {
    let world = World::new();
    let mut branch = world.local("a");
    let first = pushed(&mut branch, &source_status(1, &[("edge-1", State::Pending)]));
    pushed(&mut branch, &source_status(1, &[("edge-1", State::Progressing)]));
    world.repo.set_branch(BRANCH, first);
    let next = pushed(&mut branch, &source_status(1, &[("edge-1", State::Applied)]));
    assert_eq!(world.history(), [next, first]);
    world.repo.delete_branch(BRANCH);
    let recreated = pushed(&mut branch, &source_status(1, &[("edge-1", State::Available)]));
    assert_eq!(world.history(), [recreated]);
}

#[test]
fn foreign_branch_is_not_overwritten() {
    let world = World::new();
    let theirs = world.repo.commit(BRANCH, &[("notes.txt", Some("mine"))]);
    let status = source_status(1, &[("edge-1", State::Pending)]);
    let error = publish(&mut world.local("a"), &status).unwrap_err();
    assert!(matches!(error, PushError::Foreign { .. }) && error.needs_action(), "{error:?}");
    assert_eq!(world.repo.tip(BRANCH), Some(theirs));
    world.repo.commit(BRANCH, &[("summary.json", Some(r#"{"source":"other"}"#))]);
    assert!(matches!(publish(&mut world.local("b"), &status), Err(PushError::Foreign { .. })));
    for name in ["", "a..b", "-x", "a b", "refs/\u{7}"] {
        let remote = remote(world.repo.file_url(), Auth::None);
        let opened = StatusBranch::open(&world.folder.path().join("c"), remote, name);
        assert!(matches!(opened, Err(PushError::BadName { .. })), "{name:?}");
    }
}

#[test]
fn long_status_history_is_truncated() {
    let world = World::new();
    pushed(&mut world.local("a"), &source_status(1, &[("edge-1", State::Pending)]));
    for _ in 0..gitwork_git::limits::STATUS_HISTORY_MAX {
        world.repo.commit(BRANCH, &[]);
    }
    let mut branch = world.local("b");
    let root = pushed(&mut branch, &source_status(1, &[("edge-1", State::Applied)]));
    assert_eq!(world.history(), [root]);
    let next = pushed(&mut branch, &source_status(1, &[("edge-1", State::Failed)]));
    assert_eq!(world.history(), [next, root]);
}

#[test]
fn http_push_works_and_reports_missing_rights() {
    let world = World::new();
    let server = GitServer::http(world.folder.path()).start();
    let token = world.folder.path().join("token");
    std::fs::write(&token, "CANARY\n").unwrap();
    let auth = Auth::Token { file: token.clone() };
    server.set_access(Access::Authorization("Bearer CANARY".into()));
    let mut branch = world.branch("a", remote(server.url("fleet.git"), auth));
    let first = pushed(&mut branch, &source_status(1, &[("edge-1", State::Pending)]));
    assert_eq!(world.history(), [first]);
    assert!(server.requests().iter().any(|r| r == "POST /fleet.git/git-receive-pack 200"));
    // The token may read no more.
    server.set_access(Access::Authorization("Bearer other".into()));
    let status = source_status(1, &[("edge-1", State::Applied)]);
    let error = publish(&mut branch, &status).unwrap_err();
    assert!(matches!(error, PushError::Remote(FetchError::AuthRefused { .. })), "{error:?}");
    assert!(error.needs_action() && !format!("{error} {error:?}").contains("CANARY"));
    // Once it may again, what was missed is there.
    server.set_access(Access::Everybody);
    let next = pushed(&mut branch, &status);
    assert_eq!(world.history(), [next, first]);
    assert_eq!(world.summary(), "1/1 cluster applied");
}

#[test]
fn ssh_push_works() {
    let world = World::new();
    let folder = world.folder.path();
    let key = keygen(folder, "id", "ed25519", "");
    let server = SshServer::start(&["ed25519"], &[&key.with_extension("pub")]);
    let known_hosts = folder.join("known_hosts");
    std::fs::write(&known_hosts, server.known_hosts("ed25519")).unwrap();
    let auth = Auth::Ssh { key, passphrase_file: None, known_hosts };
    let mut branch = world.branch("a", remote(server.url(world.repo.path()), auth));
    let first = pushed(&mut branch, &source_status(1, &[("edge-1", State::Pending)]));
    let next = pushed(&mut branch, &source_status(1, &[("edge-1", State::Applied)]));
    assert_eq!(world.history(), [next, first]);
}

#[test]
fn protected_branch_is_reported() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    let hook = world.repo.path().join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = GitServer::http(world.folder.path()).start();
    let mut branch = world.branch("a", remote(server.url("fleet.git"), Auth::None));
    let status = source_status(1, &[("edge-1", State::Pending)]);
    let error = publish(&mut branch, &status).unwrap_err();
    assert!(
        matches!(&error, PushError::Rejected { message, .. } if message.contains("pre-receive")),
        "{error:?}"
    );
    assert!(error.needs_action());
    std::fs::remove_file(hook).unwrap();
    pushed(&mut branch, &status);
}

#[tokio::test]
async fn newest_state_is_published_at_most_once_per_interval() {
    let world = World::new();
    let (feed, fed) = watch::channel(None);
    let (stop, stopped) = watch::channel(false);
    let reporter = StatusBranchReporter::new(
        world.local("a"),
        Duration::from_millis(300),
        WallClock::system(),
    );
    let task = tokio::spawn(reporter.run(fed, stopped));
    let started = std::time::Instant::now();
    let mut sent = 0;
    while world.history().len() < 3 {
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", world.history());
        sent += 1;
        let state = if sent % 2 == 0 { State::Pending } else { State::Progressing };
        feed.send_replace(Some(source_status((sent % 200) as u8, &[("edge-1", state)])));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The first at once, each further one an interval later.
    assert!(started.elapsed() >= Duration::from_millis(600));
    feed.send_replace(Some(source_status(250, &[("edge-1", State::Failed)])));
    while world.summary() != "0/1 cluster applied, 1 failed: edge-1" {
        assert!(started.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.send_replace(true);
    task.await.unwrap();
}
