//! Questions about history, clones and folders on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use gitwork_core::model::name::{CommitId, ObjectId, RepoPath};
use gitwork_core::model::operation_error::describe;
use gitwork_core::model::snapshot::{EntryKind, ObjectError, Objects as _};
use gitwork_core::signature::SignatureError;
use gitwork_git::changed_files::ComparisonBudget;
use gitwork_git::directory::DirectoryError;
use gitwork_git::history;
use gitwork_git::history::PathRemoval;
use gitwork_git::watch::Watch;
use gitwork_git::{Directory, LocalRepository, Repository, RepositoryError};

use crate::git_server::Repo;

fn path(text: &str) -> RepoPath {
    RepoPath::parse(text).unwrap()
}

fn paths(texts: &[&str]) -> BTreeSet<RepoPath> {
    texts.iter().map(|text| path(text)).collect()
}

struct World {
    folder: tempfile::TempDir,
    repo: Repo,
}

impl World {
    fn new() -> World {
        let (folder, repo) = Repo::in_new_folder();
        World { folder, repo }
    }

    fn changed(&self, head: CommitId, texts: &[&str]) -> BTreeMap<String, CommitId> {
        let repository = Repository::open(self.repo.path()).unwrap();
        let never = AtomicBool::new(false);
        let found = history::last_changed(&repository, head, &paths(texts), &never).unwrap();
        found.into_iter().map(|(path, commit)| (path.to_string(), commit)).collect()
    }

    fn stood(&self, head: CommitId, texts: &[&str]) -> BTreeMap<String, PathRemoval> {
        let repository = Repository::open(self.repo.path()).unwrap();
        let never = AtomicBool::new(false);
        let found = history::last_removals(&repository, head, &paths(texts), &never).unwrap();
        found.into_iter().map(|(path, removal)| (path.to_string(), removal)).collect()
    }
}

fn map<T: Copy>(pairs: &[(&str, T)]) -> BTreeMap<String, T> {
    pairs.iter().map(|(path, value)| ((*path).to_owned(), *value)).collect()
}

#[test]
fn last_change_of_each_folder_is_found_in_one_walk() {
    let world = World::new();
    let repo = &world.repo;
    let first = repo.commit("main", &[("a/x", Some("1")), ("b/x", Some("1")), ("c", Some("1"))]);
    let second = repo.commit("main", &[("b/deep/y", Some("1"))]);
    let third = repo.commit("main", &[("c", Some("2"))]);
    let found = world.changed(third, &["a", "b", "b/deep", "c", "", "none", "a/none"]);
    let expected = [("a", first), ("b", second), ("b/deep", second), ("c", third), (".", third)];
    assert_eq!(found, map(&expected));
    assert_eq!(world.changed(first, &["b"]), map(&[("b", first)]), "at the commit asked about");
}

#[test]
fn merges_do_not_count_as_changes_of_merged_folders() {
    let world = World::new();
    let repo = &world.repo;
    let base = repo.commit("main", &[("a/x", Some("1")), ("b/x", Some("1"))]);
    repo.set_branch("side", base);
    let side = repo.commit("side", &[("a/x", Some("2"))]);
    let main = repo.commit("main", &[("b/x", Some("2"))]);
    let merge = repo.merge("main", "side", &[("a/x", Some("2"))]);
    assert_eq!(world.changed(merge, &["a", "b"]), map(&[("a", side), ("b", main)]));
    // A merge that makes something of its own has changed it.
    repo.set_branch("other", main);
    repo.commit("other", &[("a/x", Some("3"))]);
    let own = repo.merge("main", "other", &[("a/x", Some("4"))]);
    assert_eq!(world.changed(own, &["a", "b"]), map(&[("a", own), ("b", main)]));
    // One that takes a side's older state back was changed where that side changed it.
    let reverted = repo.commit("main", &[("b/x", Some("1"))]);
    assert_eq!(world.changed(reverted, &["b"]), map(&[("b", reverted)]));
}

#[test]
fn removed_folders_are_found_in_their_last_state() {
    let world = World::new();
    let repo = &world.repo;
    let first = repo.commit("main", &[("a/x", Some("1")), ("b/x", Some("1")), ("k", Some("1"))]);
    let gone = repo.commit("main", &[("a", None)]);
    let again = repo.commit("main", &[("a/x", Some("2"))]);
    let gone_again = repo.commit("main", &[("a", None)]);
    let renamed = repo.commit("main", &[("b", None), ("c/x", Some("1"))]);
    let head = repo.commit("main", &[("k", Some("2"))]);
    let expected = [
        ("a", PathRemoval { removed_by: gone_again, last_in: again }),
        ("b", PathRemoval { removed_by: renamed, last_in: gone_again }),
        ("b/x", PathRemoval { removed_by: renamed, last_in: gone_again }),
    ];
    assert_eq!(world.stood(head, &["a", "b", "b/x", "c", "k", "never", "k/never"]), map(&expected));
    let before = PathRemoval { removed_by: gone, last_in: first };
    assert_eq!(world.stood(gone, &["a"]), map(&[("a", before)]));
    assert_eq!(world.stood(again, &["a"]), map(&[]), "it is there");
}

#[test]
fn removals_on_merged_branches_are_attributed_to_their_commit() {
    let world = World::new();
    let repo = &world.repo;
    let base = repo.commit("main", &[("a/x", Some("1")), ("b/x", Some("1"))]);
    repo.set_branch("side", base);
    // The branch first changes how it is to be deleted, then deletes it.
    let orphaned = repo.commit("side", &[("a/work.yaml", Some("deleteOption: Orphan"))]);
    let removed = repo.commit("side", &[("a", None)]);
    repo.commit("main", &[("b/x", Some("2"))]);
    let merge = repo.merge("main", "side", &[("a", None)]);
    let expected = PathRemoval { removed_by: removed, last_in: orphaned };
    assert_eq!(world.stood(merge, &["a"]), map(&[("a", expected)]));

    // A branch that is older than the removal is no evidence of it.
    repo.set_branch("old", base);
    repo.commit("old", &[("z", Some("1"))]);
    let merge = repo.merge("main", "old", &[("z", Some("1"))]);
    assert_eq!(world.stood(merge, &["a"]), map(&[("a", expected)]));

    // What only a merge dropped was removed by that merge.
    repo.set_branch("adds", merge);
    let added = repo.commit("adds", &[("n/x", Some("1"))]);
    let dropping = repo.merge("main", "adds", &[]);
    let expected = PathRemoval { removed_by: dropping, last_in: added };
    assert_eq!(world.stood(dropping, &["n"]), map(&[("n", expected)]));
}

#[test]
fn shallow_clone_limits_history_answers() {
    let world = World::new();
    let repo = &world.repo;
    repo.commit("main", &[("a/x", Some("1")), ("b/x", Some("1"))]);
    let old = repo.commit("main", &[("c/x", Some("1"))]);
    repo.commit("main", &[("b", None)]);
    let head = repo.commit("main", &[("a/x", Some("2"))]);
    let clone = world.folder.path().join("clone");
    let git = Command::new("git")
        .args(["clone", "-q", "--depth=2", &repo.file_url()])
        .arg(&clone)
        .output()
        .unwrap();
    assert!(git.status.success(), "{}", String::from_utf8_lossy(&git.stderr));
    let local = LocalRepository::discover(&clone).unwrap();
    let never = AtomicBool::new(false);
    let asked = paths(&["a", "b", "c"]);
    let changed = history::last_changed(local.repository(), head, &asked, &never).unwrap();
    assert_eq!(changed, BTreeMap::from([(path("a"), head)]));
    let stood = history::last_removals(local.repository(), head, &asked, &never).unwrap();
    assert_eq!(stood, BTreeMap::new(), "the removal is not in this clone");
    let ancestry = local.repository().is_ancestor(old, head).unwrap();
    assert_eq!(ancestry, gitwork_git::AncestorCheck::Unknown);
    let error = local.repository().resolve("HEAD~3").unwrap_err();
    assert!(describe(&error).contains("unshallow"), "says what to do: {error}");

    let stopped = AtomicBool::new(true);
    let error = history::last_changed(local.repository(), head, &asked, &stopped).unwrap_err();
    assert!(matches!(error, RepositoryError::Cancelled { .. }), "{error}");
}

#[test]
fn clone_is_found_from_a_subfolder() {
    let world = World::new();
    let commit = world.repo.commit("main", &[("fleet/clusters/a/w/x.yaml", Some("1"))]);
    let clone = world.folder.path().join("clone");
    git2::Repository::clone(&world.repo.file_url(), &clone).unwrap();
    let inside = LocalRepository::discover(&clone.join("fleet/clusters")).unwrap();
    assert_eq!(inside.path(), &path("fleet/clusters"));
    assert_eq!(LocalRepository::discover(&clone).unwrap().path(), &RepoPath::root());
    assert_eq!(LocalRepository::discover(world.repo.path()).unwrap().path(), &RepoPath::root());
    let repository = inside.repository();
    assert_eq!(repository.resolve("main").unwrap(), commit);
    assert_eq!(repository.resolve(&commit.short()).unwrap(), commit);
    assert_eq!(repository.commit(commit).unwrap().author_name, "Ada Example");
    assert_eq!(repository.signature(commit).unwrap(), Err(SignatureError::Unsigned));
    let snapshot = repository.snapshot(commit, inside.path()).unwrap();
    assert!(snapshot.tree(snapshot.root).unwrap().contains_key("a"));
    let missing = repository.snapshot(commit, &path("fleet/none"));
    assert!(matches!(missing, Err(RepositoryError::PathMissing { .. })));
    let file = repository.snapshot(commit, &path("fleet/clusters/a/w/x.yaml"));
    assert!(matches!(file, Err(RepositoryError::NotAFolder { .. })));
    let below_file = repository.snapshot(commit, &path("fleet/clusters/a/w/x.yaml/y"));
    assert!(matches!(below_file, Err(RepositoryError::NotAFolder { .. })));
    for revision in ["none", "", "main:", "\u{0}", "main^9"] {
        let error = repository.resolve(revision).unwrap_err();
        assert!(
            matches!(error, RepositoryError::RevisionMissing { .. }),
            "{revision:?}: {error:?}"
        );
    }
    let outside = LocalRepository::discover(Path::new("/"));
    assert!(matches!(outside, Err(RepositoryError::NoRepository { .. })));
}

/// Writes a folder whose files are older than the coarseness of time stamps.
fn write_old(file: &Path, content: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, content).unwrap();
    let old = SystemTime::now() - Duration::from_secs(60);
    fs::File::options().write(true).open(file).unwrap().set_modified(old).unwrap();
}

#[test]
fn folder_tree_ids_match_git() {
    let world = World::new();
    let folder = world.folder.path().join("work");
    write_old(&folder.join("clusters/a/w/x.yaml"), "kind: A");
    write_old(&folder.join("clusters/a.b"), "sorts before the folder a/");
    fs::create_dir_all(folder.join("empty/deeper")).unwrap();
    std::os::unix::fs::symlink("x.yaml", folder.join("clusters/a/w/link.yaml")).unwrap();
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&folder).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    let expected = ObjectId::parse(&git(&["write-tree"])).unwrap();
    let mut directory = Directory::new(&folder);
    let snapshot = directory.snapshot().unwrap();
    assert_eq!(snapshot.root, expected);
    let tree = snapshot.tree(snapshot.root).unwrap();
    assert_eq!(tree.keys().collect::<Vec<_>>(), ["clusters"], "no .git, nothing empty");

    // A change (of another size: Git's index goes by whole seconds), an executable, a nested
    // repository.
    write_old(&folder.join("clusters/a/w/x.yaml"), "kind: Changed");
    let executable = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(folder.join("clusters/a.b"), executable).unwrap();
    let changed = directory.snapshot().unwrap();
    assert_ne!(changed.root, expected);
    git(&["add", "-A"]);
    assert_eq!(changed.root, ObjectId::parse(&git(&["write-tree"])).unwrap());
    git2::Repository::init(folder.join("vendored")).unwrap();
    let nested = directory.snapshot().unwrap();
    let entry = nested.tree(nested.root).unwrap().get("vendored").unwrap().clone();
    assert_eq!(entry.kind, EntryKind::Gitlink);
}

#[test]
fn content_changed_after_listing_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.yaml");
    write_old(&file, "one");
    write_old(&folder.path().join("big"), &"x".repeat(3 << 20));
    std::os::unix::fs::symlink("x.yaml", folder.path().join("link")).unwrap();
    let mut directory = Directory::new(folder.path());
    let snapshot = directory.snapshot().unwrap();
    let tree = snapshot.tree(snapshot.root).unwrap();
    let id = |name: &str| tree.get(name).unwrap().id;
    assert_eq!(&*snapshot.blob(id("x.yaml"), 10).unwrap(), b"one");
    assert_eq!(&*snapshot.blob(id("link"), 10).unwrap(), b"x.yaml");
    let large = snapshot.blob(id("x.yaml"), 2);
    assert!(matches!(large, Err(ObjectError::TooLarge { size: 3, .. })));
    let large = snapshot.blob(id("big"), usize::MAX);
    assert!(matches!(large, Err(ObjectError::TooLarge { .. })), "{large:?}");

    // The same size and time: only the content differs.
    fs::write(&file, "two").unwrap();
    assert!(matches!(snapshot.blob(id("x.yaml"), 10), Err(ObjectError::Corrupt(..))));
    let second = directory.snapshot().unwrap();
    fs::write(&file, "six").unwrap();
    let third = directory.snapshot().unwrap();
    assert!(second.root != snapshot.root && third.root != second.root);

    fs::remove_dir_all(folder.path()).unwrap();
    assert!(matches!(directory.snapshot(), Err(DirectoryError::Io { .. })), "not an empty one");
    fs::write(folder.path(), "").unwrap();
    assert!(matches!(directory.snapshot(), Err(DirectoryError::NotAFolder { .. })));
    fs::remove_file(folder.path()).unwrap();
    fs::create_dir(folder.path()).unwrap();
    let empty = directory.snapshot().unwrap();
    assert_eq!(
        empty.root.to_string(),
        "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        "Git's empty tree"
    );
}

/// Files and folders with the content of files.
type Listing = BTreeMap<PathBuf, String>;

/// The files and folders below a folder, except `.git`; `None` if it is missing.
fn listing(folder: &Path) -> Option<Listing> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).ok()? {
            let path = entry.ok()?.path();
            if path.is_dir() && !path.ends_with(".git") {
                open.push(path.clone());
            }
            found.insert(path.clone(), fs::read_to_string(&path).unwrap_or_default());
        }
    }
    Some(found)
}

/// Each change is waited for by what a hint finds in the folder: a late hint of an earlier change
/// does not count for a later one.
#[test]
fn watched_folder_sends_hints_also_after_recreation() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("work");
    fs::create_dir_all(folder.join("clusters")).unwrap();
    let (sender, hints) = mpsc::channel();
    let watched = folder.clone();
    let watch = Watch::start(&folder, Duration::from_millis(20), move || {
        let _ = sender.send(listing(&watched));
    });
    let watch = watch.unwrap();
    let hinted = |what: &str, is_seen: &dyn Fn(Option<&Listing>) -> bool| {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let seen = hints.recv_timeout(left).unwrap_or_else(|_| panic!("no hint: {what}"));
            if is_seen(seen.as_ref()) {
                return;
            }
        }
    };
    let has = |path: &str, content: &str| {
        let (path, content) = (folder.join(path), content.to_owned());
        move |seen: Option<&Listing>| seen.is_some_and(|seen| seen.get(&path) == Some(&content))
    };
    fs::write(folder.join("clusters/a.yaml"), "1").unwrap();
    hinted("a new file", &has("clusters/a.yaml", "1"));
    fs::create_dir(folder.join("clusters/new")).unwrap();
    hinted("a new folder", &has("clusters/new", ""));
    fs::write(folder.join("clusters/new/b.yaml"), "1").unwrap();
    hinted("a file in a new folder", &has("clusters/new/b.yaml", "1"));
    fs::remove_dir_all(&folder).unwrap();
    hinted("the removal", &|seen| seen.is_none());
    fs::create_dir(&folder).unwrap();
    hinted("the return", &|seen| seen.is_some_and(BTreeMap::is_empty));
    fs::write(folder.join("c.yaml"), "1").unwrap();
    hinted("a file in the folder that came back", &has("c.yaml", "1"));
    drop(watch);
    fs::write(folder.join("d.yaml"), "1").unwrap();
    // The thread has ended: the channel is closed.
    let late = hints.iter().flatten().any(|seen| seen.contains_key(&folder.join("d.yaml")));
    assert!(!late);
}

#[test]
fn folders_over_the_limits_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let mut deep = folder.path().to_owned();
    for _ in 0..gitwork_git::limits::DIRECTORY_DEPTH_MAX {
        deep.push("d");
    }
    write_old(&deep.join("x"), "1");
    Directory::new(folder.path()).snapshot().unwrap();
    write_old(&deep.join("d/x"), "1");
    let error = Directory::new(folder.path()).snapshot().err().unwrap();
    assert!(matches!(error, DirectoryError::TooDeep { .. }), "{error}");
}

/// Git stores any bytes as a tree if it is asked to. Nothing is damaged then, so that no fetch can
/// repair it.
#[test]
fn malformed_tree_and_long_link_are_errors_of_their_work_alone() {
    let folder = tempfile::tempdir().unwrap();
    let git = git2::Repository::init_bare(folder.path()).unwrap();
    let odb = git.odb().unwrap();
    let tree = |entries: &[(&str, &str, git2::Oid)]| {
        let bytes: Vec<u8> = entries
            .iter()
            .flat_map(|(mode, name, id)| {
                [mode.as_bytes(), b" ", name.as_bytes(), b"\0", id.as_bytes()].concat()
            })
            .collect();
        odb.write(git2::ObjectType::Tree, &bytes).unwrap()
    };
    let object = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: x, name: web}\n";
    let object = odb.write(git2::ObjectType::Blob, object).unwrap();
    let target = odb.write(git2::ObjectType::Blob, "x/".repeat(2_500).as_bytes()).unwrap();
    let malformed = odb.write(git2::ObjectType::Tree, b"100644 x.yaml\0short").unwrap();
    let cluster = tree(&[
        ("40000", "blob", object),
        ("40000", "link", tree(&[("120000", "x.yaml", target)])),
        ("40000", "malformed", malformed),
        ("40000", "web", tree(&[("100644", "x.yaml", object)])),
    ]);
    let clusters = tree(&[("40000", "a", cluster)]);
    let root = git.find_tree(tree(&[("40000", "clusters", clusters)])).unwrap();
    let person = git2::Signature::now("a", "a@example.com").unwrap();
    let commit = git.commit(None, &person, &person, "m", &root, &[]).unwrap();
    let commit = CommitId::parse(&commit.to_string()).unwrap();
    let repository = Repository::open(folder.path()).unwrap();
    let snapshot = repository.snapshot(commit, &RepoPath::root()).unwrap();
    let source = crate::memory_repository::source();
    let mut renderer = gitwork_core::render::renderer::Renderer::new(source);
    let desired = renderer.render(&snapshot.snapshot()).unwrap();
    let works: Vec<String> = desired.works.keys().map(ToString::to_string).collect();
    assert_eq!(works, ["a/web"]);
    let errors: Vec<String> = desired
        .diagnostics
        .iter()
        .map(|one| format!("{}: {}", one.location.file, one.message))
        .collect();
    let [blob, link, malformed] = &errors[..] else { panic!("{errors:#?}") };
    assert!(blob.starts_with("clusters/a/blob: ") && blob.ends_with("it is a blob, not a tree"));
    assert_eq!(
        *link,
        "clusters/a/link/x.yaml: the target of the link has 5000 bytes; the limit is 4096"
    );
    assert!(malformed.starts_with("clusters/a/malformed: ") && malformed.contains("an id is cut"));
}

/// The states of the files that differ, as `git diff-tree` prints them.
fn differences_by_git(repo: &Path, from: git2::Oid, to: git2::Oid) -> Vec<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(repo)
        .args(["diff-tree", "-r", "-z", "--no-renames", &from.to_string(), &to.to_string()])
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut parts = printed.split('\0');
    let mut found = Vec::new();
    while let (Some(head), Some(path)) = (parts.next(), parts.next()) {
        let fields: Vec<&str> = head.split(' ').collect();
        let state = if fields[4] == "D" { "gone".into() } else { [fields[1], fields[3]].join(" ") };
        found.push(format!("{path} {state}"));
    }
    found
}

/// A commit without parents of files with these modes and contents.
fn commit_of_modes(git: &git2::Repository, files: &[(&str, u32, &str)]) -> git2::Oid {
    let mut index = git2::Index::new().unwrap();
    for (path, mode, text) in files {
        let entry = git2::IndexEntry {
            ctime: git2::IndexTime::new(0, 0),
            mtime: git2::IndexTime::new(0, 0),
            dev: 0,
            ino: 0,
            mode: *mode,
            uid: 0,
            gid: 0,
            file_size: 0,
            id: git.blob(text.as_bytes()).unwrap(),
            flags: 0,
            flags_extended: 0,
            path: path.as_bytes().to_vec(),
        };
        index.add(&entry).unwrap();
    }
    let tree = git.find_tree(index.write_tree_to(git).unwrap()).unwrap();
    let person = git2::Signature::now("a", "a@example.com").unwrap();
    git.commit(None, &person, &person, "m", &tree, &[]).unwrap()
}

#[test]
fn changed_files_are_those_of_git() {
    let folder = tempfile::tempdir().unwrap();
    let git = git2::Repository::init_bare(folder.path()).unwrap();
    let (file, program, link, submodule) = (0o100_644, 0o100_755, 0o120_000, 0o160_000);
    let commit = |files: &[_]| commit_of_modes(&git, files);
    let from = commit(&[
        ("same/a.yaml", file, "a"),
        ("changed/deep/a.yaml", file, "a"),
        ("mode.sh", file, "a"),
        ("removed/a.yaml", file, "a"),
        ("file-to-link", file, "a"),
        ("file-to-folder", file, "a"),
        ("folder-to-file/a.yaml", file, "a"),
        ("folder-to-file/b/c.yaml", file, "a"),
        ("module", submodule, "1"),
    ]);
    let to = commit(&[
        ("same/a.yaml", file, "a"),
        ("changed/deep/a.yaml", file, "b"),
        ("mode.sh", program, "a"),
        ("new/a.yaml", file, "a"),
        ("file-to-link", link, "a"),
        ("file-to-folder/a.yaml", file, "a"),
        ("folder-to-file", file, "a"),
        ("module", submodule, "2"),
    ]);
    let repository = Repository::open(folder.path()).unwrap();
    let cancel = AtomicBool::new(false);
    let id = |commit: git2::Oid| CommitId::parse(&commit.to_string());
    for (from, to) in [(from, to), (to, from)] {
        let budget = ComparisonBudget::new(&cancel);
        let all = |_: &RepoPath| true;
        let found = repository.changed_files([id(from), id(to)], &RepoPath::root(), &budget, &all);
        let found: Vec<String> = found
            .unwrap()
            .into_iter()
            .map(|(path, state)| match state {
                Some((mode, id)) => format!("{path} {mode:06o} {id}"),
                None => format!("{path} gone"),
            })
            .collect();
        let mut expected = differences_by_git(folder.path(), from, to);
        expected.sort();
        assert_eq!(found, expected);
        assert_eq!(found.len(), 11);
    }
}

/// A few hundred bytes: 14 levels, each of ten equal folders.
#[test]
fn folders_that_contain_each_other_are_compared_up_to_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let git = git2::Repository::init_bare(folder.path()).unwrap();
    let mut lowest = git.treebuilder(None).unwrap();
    lowest.insert("x.yaml", git.blob(b"{}").unwrap(), 0o100_644).unwrap();
    let mut tree = lowest.write().unwrap();
    for _ in 0..14 {
        let mut above = git.treebuilder(None).unwrap();
        for name in 0..10 {
            above.insert(name.to_string(), tree, 0o040_000).unwrap();
        }
        tree = above.write().unwrap();
    }
    let tree = git.find_tree(tree).unwrap();
    let person = git2::Signature::now("a", "a@example.com").unwrap();
    let commit = git.commit(None, &person, &person, "m", &tree, &[]).unwrap();
    let commit = CommitId::parse(&commit.to_string());
    let repository = Repository::open(folder.path()).unwrap();
    let cancel = AtomicBool::new(false);
    for is_wanted in [true, false] {
        let budget = ComparisonBudget::new(&cancel);
        let wanted = |_: &RepoPath| is_wanted;
        let root = RepoPath::root();
        let error = repository.changed_files([None, commit], &root, &budget, &wanted).unwrap_err();
        assert!(matches!(error, RepositoryError::TooManyEntries { .. }), "{error}");
    }
    cancel.store(true, Ordering::Relaxed);
    let budget = ComparisonBudget::new(&cancel);
    let ended = repository.changed_files([None, commit], &RepoPath::root(), &budget, &|_| true);
    assert!(matches!(ended, Err(RepositoryError::Cancelled { .. })));
}
