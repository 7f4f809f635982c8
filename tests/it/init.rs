//! `gitwork init`: what it makes passes every check, in any folder, and its workflows run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use gitwork_core::model::digest::Digest;
use serde_json::Value;

use crate::cli::{code, err, git, gitwork, out, write};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    gitwork(arguments).current_dir(folder).output().unwrap()
}

#[track_caller]
fn succeeds(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(code(&output), Some(0), "{arguments:?}: {}", err(&output));
    out(&output)
}

/// Every file of a folder but for those of Git, with its text.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let walk = ignore::WalkBuilder::new(folder).hidden(false).git_ignore(false).build();
    for entry in walk.map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        let path = entry.path().strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
        if !path.starts_with(".git/") {
            found.insert(path, fs::read_to_string(entry.path()).unwrap());
        }
    }
    found
}

/// What `init --cluster edge-1` makes is valid, and is one work.
#[track_caller]
fn is_first_repository(folder: &Path) {
    let output = run(folder, &["validate", "--strict", "-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((code(&output), &report["diagnostics"]), (Some(0), &serde_json::json!([])));
    let list: Value = serde_json::from_str(&succeeds(folder, &["render", "-o", "json"])).unwrap();
    let works = list["items"].as_array().unwrap();
    assert_eq!(works.len(), 1);
    let metadata = &works[0]["metadata"];
    assert_eq!((&metadata["namespace"], &metadata["name"]), (&"edge-1".into(), &"hello".into()));
    let manifests = works[0]["spec"]["workload"]["manifests"].as_array().unwrap();
    let kinds: Vec<&Value> = manifests.iter().map(|manifest| &manifest["kind"]).collect();
    assert_eq!(kinds, ["Namespace", "ConfigMap"]);
}

#[test]
fn first_repository_is_valid_in_an_empty_folder_and_in_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let made = succeeds(folder.path(), &["init", "--cluster", "edge-1"]);
    is_first_repository(folder.path());
    let lines: Vec<String> = made.lines().map(str::to_owned).collect();
    let expected: Vec<String> =
        files(folder.path()).keys().map(|path| format!("created {path}")).collect();
    let mut sorted = lines.clone();
    sorted.sort();
    assert_eq!(sorted, expected, "it names every file, and there is no workflow");
    assert_eq!(lines.len(), 3);
    succeeds(folder.path(), &["init", "deep/fleet", "--cluster", "edge-1"]);
    is_first_repository(&folder.path().join("deep/fleet"));
}

#[test]
fn repository_without_cluster_is_valid_and_gets_one_later() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["init"]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    assert!(err(&output).contains("gitwork init --cluster NAME"), "{}", err(&output));
    succeeds(folder.path(), &["validate", "--strict"]);
    succeeds(folder.path(), &["init", "--cluster", "edge-1"]);
    is_first_repository(folder.path());
}

#[test]
fn workflow_is_that_of_the_forge_of_the_remote() {
    let github = ".github/workflows/gitwork.yaml";
    let gitea = ".gitea/workflows/gitwork.yaml";
    for (remote, flags, expected) in [
        (None, vec![], None),
        (Some("https://github.com/acme/fleet.git"), vec![], Some(github)),
        (Some("git@gitlab.example.com:acme/fleet.git"), vec![], Some(".gitlab-ci.yml")),
        (Some("ssh://git@forgejo.example.com:2222/acme/fleet"), vec![], Some(gitea)),
        (Some("https://codeberg.org/acme/fleet"), vec![], Some(gitea)),
        (Some("https://git.example.com/acme/github"), vec![], None),
        (Some("https://github.com/acme/fleet.git"), vec!["--forge", "none"], None),
        (None, vec!["--forge", "gitlab"], Some(".gitlab-ci.yml")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        git(folder.path(), &["init", "-q", "-b", "main"]);
        if let Some(remote) = remote {
            git(folder.path(), &["remote", "add", "origin", remote]);
        }
        let output = run(folder.path(), &[&["init", "--cluster", "edge-1"], &flags[..]].concat());
        assert_eq!(code(&output), Some(0), "{}", err(&output));
        is_first_repository(folder.path());
        let made = files(folder.path());
        let workflows: Vec<&String> = made.keys().filter(|path| path.starts_with('.')).collect();
        assert_eq!(workflows, expected.into_iter().collect::<Vec<_>>(), "{remote:?} {flags:?}");
        let is_explained = err(&output).contains("no workflow for pull requests: ");
        assert_eq!(is_explained, expected.is_none(), "{}", err(&output));
    }
}

/// A clone whose `origin` has the branch main, with an `init` of it that is not committed.
fn clone_of_forge(source: &str, forge: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (origin, clone) = (folder.path().join("origin.git"), folder.path().join("clone"));
    fs::create_dir(&clone).unwrap();
    git(folder.path(), &["init", "-q", "--bare", "-b", "main", origin.to_str().unwrap()]);
    git(&clone, &["init", "-q", "-b", "main"]);
    write(&clone, "README.md", "# Fleet\n");
    git(&clone, &["add", "."]);
    git(&clone, &["commit", "-q", "-m", "first"]);
    git(&clone, &["remote", "add", "origin", origin.to_str().unwrap()]);
    git(&clone, &["push", "-q", "origin", "main"]);
    succeeds(&clone, &["init", source, "--cluster", "edge-1", "--forge", forge]);
    folder
}

/// Runs the scripts of a workflow one after the other, as its runner does.
fn run_scripts(clone: &Path, scripts: &[String]) -> Output {
    let temp = tempfile::tempdir().unwrap();
    let program = fs::read(env!("CARGO_BIN_EXE_gitwork")).unwrap();
    let base = Command::new("git").args(["rev-parse", "origin/main"]).current_dir(clone).output();
    let mut last = None;
    for script in scripts {
        let path_file = fs::read_to_string(temp.path().join("path")).unwrap_or_default();
        let path = format!("{}:{}", path_file.trim(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]);
        command.current_dir(clone).env("PATH", path).env("RUNNER_TEMP", temp.path());
        command.env("GITHUB_PATH", temp.path().join("path"));
        command.env("GITHUB_STEP_SUMMARY", temp.path().join("summary"));
        command.env("GITHUB_BASE_REF", "main").env_remove("GITWORK_REPO");
        command.env("GITWORK_URL", format!("file://{}", env!("CARGO_BIN_EXE_gitwork")));
        command.env("GITWORK_SHA256", Digest::of(&program).to_string());
        let base = String::from_utf8(base.as_ref().unwrap().stdout.clone()).unwrap();
        command.env("CI_MERGE_REQUEST_DIFF_BASE_SHA", base.trim());
        let output = command.output().unwrap();
        let is_done = output.status.success();
        last = Some(output);
        if !is_done {
            break;
        }
    }
    last.unwrap()
}

/// The scripts of a workflow file.
fn scripts(clone: &Path, file: &str) -> Vec<String> {
    let text = fs::read_to_string(clone.join(file)).unwrap();
    let workflow: Value = serde_yaml::from_str(&text).unwrap();
    let texts = |value: &Value| -> Vec<String> {
        let all = value.as_array().unwrap().iter();
        all.filter_map(|one| one.as_str().or(one["run"].as_str())).map(str::to_owned).collect()
    };
    match file {
        // GitLab runs both in one shell, in a folder of the machine.
        ".gitlab-ci.yml" => {
            let job = &workflow["gitwork"];
            let all = [texts(&job["before_script"]), texts(&job["script"])].concat().join("\n");
            vec![all.replace("/tmp/bin", "\"$RUNNER_TEMP\"/bin")]
        }
        _ => texts(&workflow["jobs"]["plan"]["steps"]),
    }
}

#[test]
fn workflows_check_a_pull_request_at_the_top_and_in_a_folder() {
    for (forge, file) in [
        ("github", ".github/workflows/gitwork.yaml"),
        ("gitea", ".gitea/workflows/gitwork.yaml"),
        ("gitlab", ".gitlab-ci.yml"),
    ] {
        for source in [".", "fleets/eu"] {
            let folder = clone_of_forge(source, forge);
            let clone = folder.path().join("clone");
            let scripts = scripts(&clone, file);
            let commit = || {
                git(&clone, &["add", "."]);
                git(&clone, &["commit", "-q", "-m", "change"]);
            };
            commit();
            let output = run_scripts(&clone, &scripts);
            assert_eq!(code(&output), Some(0), "{forge} {source}: {output:?}");
            assert!(out(&output).contains("edge-1/hello"), "{forge}: {}", out(&output));
            let settings = format!("{source}/clusters/edge-1/hello/settings.yaml");
            write(&clone, &settings, "kind: [\n");
            commit();
            let output = run_scripts(&clone, &scripts);
            assert_eq!(code(&output), Some(1), "{forge} {source}: {output:?}");
            assert!(out(&output).contains("settings.yaml:"), "{forge}: {}", out(&output));
        }
    }
}

#[test]
fn files_that_are_there_are_left_and_named() {
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "-q", "-b", "main"]);
    git(folder.path(), &["remote", "add", "origin", "https://gitlab.com/acme/fleet.git"]);
    write(folder.path(), "gitwork.yaml", "secrets: refuse\n");
    write(folder.path(), ".gitlab-ci.yml", "test: {script: [make]}\n");
    write(
        folder.path(),
        "clusters/edge-1/web/cm.yaml",
        &crate::sync::fixture::config_map("web", "one"),
    );
    let before = files(folder.path());
    let output = run(folder.path(), &["init", "--cluster", "edge-1"]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    assert_eq!((out(&output), files(folder.path())), (String::new(), before.clone()));
    for path in ["gitwork.yaml", ".gitlab-ci.yml", "clusters/edge-1"] {
        let line = format!("{path} is there already; left as it is");
        assert!(err(&output).contains(&line), "{path}: {}", err(&output));
    }
    let hint = "add them to that file unless it has them";
    assert!(err(&output).contains(hint), "{}", err(&output));
    // From a folder inside, the source is the one above.
    let inside = folder.path().join("clusters/edge-1/web");
    succeeds(&inside, &["init", "--cluster", "edge-2"]);
    let mut after = files(folder.path());
    let added: Vec<String> =
        after.keys().filter(|path| !before.contains_key(*path)).cloned().collect();
    assert_eq!(
        added,
        ["clusters/edge-2/hello/namespace.yaml", "clusters/edge-2/hello/settings.yaml"]
    );
    after.retain(|path, _| before.contains_key(path));
    assert_eq!(after, before);
    succeeds(folder.path(), &["validate", "--strict"]);
}

#[test]
fn init_into_a_file_or_with_a_bad_name_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "fleet", "a file\n");
    let output = run(folder.path(), &["init", "fleet"]);
    assert_eq!((code(&output), err(&output).as_str()), (Some(1), "error: fleet is not a folder\n"));
    let output = run(folder.path(), &["init", "--cluster", "Edge_1"]);
    assert_eq!(code(&output), Some(2), "{}", err(&output));
    assert_eq!(files(folder.path()).len(), 1);
}
