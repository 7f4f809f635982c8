//! The commands as a user meets them: the binary, its streams and its exit codes.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use gitwork_hub::KubeHub;
use serde_json::Value;
use tempfile::TempDir;

use crate::catalogue::assert_up_to_date;
use crate::sync::fixture::{Sync, config_map};

pub fn gitwork(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gitwork"));
    command
        .args(arguments)
        .env_remove("NO_COLOR")
        .env_remove("GITWORK_REPO")
        .env_remove("CLICOLOR_FORCE");
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    gitwork(arguments).current_dir(folder).output().unwrap()
}

pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

/// A clone with one commit: `edge-1/web` and `edge-2/db`.
pub fn clone() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "clusters/edge-1/web/cm.yaml", &config_map("web", "one"));
    write(folder.path(), "clusters/edge-2/db/cm.yaml", &config_map("db", "one"));
    git(folder.path(), &["init", "-q", "-b", "main"]);
    git(folder.path(), &["add", "."]);
    git(folder.path(), &["commit", "-q", "-m", "first"]);
    folder
}

#[track_caller]
pub fn git(folder: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=Ann", "-c", "user.email=ann@example.com"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

pub fn write(folder: &Path, file: &str, text: &str) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn generated_command_pages_are_up_to_date() {
    let mut command = ::gitwork::command(None).term_width(100);
    command.build();
    let mut page = String::from(
        "<!-- Generated from the code: GITWORK_UPDATE=1 cargo test --test it -->\n# Commands\n",
    );
    let mut all = Vec::new();
    for sub in command.get_subcommands() {
        all.push((sub.get_name().to_owned(), sub.clone()));
        let below = sub.get_subcommands();
        all.extend(
            below.map(|one| (format!("{} {}", sub.get_name(), one.get_name()), one.clone())),
        );
    }
    all.retain(|(name, _)| name.split(' ').all(|word| word != "help"));
    for (name, sub) in all {
        let help = sub.term_width(100).render_long_help().to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        page.push_str(&format!("\n## {}\n\n```text\n{}\n```\n", name, help.join("\n").trim_end()));
    }
    assert_up_to_date("docs/commands.md", &page);
    let reported =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cli.md")).unwrap();
    for exit in ::gitwork::Exit::ALL {
        assert!(
            reported.contains(&format!("\n| {} | ", exit.code())),
            "docs/cli.md lacks {exit:?}"
        );
    }
}

#[test]
fn exit_codes_match_the_documented_table() {
    let clone = clone();
    let cases: &[(&[&str], i32)] = &[
        (&["validate"], 0),
        (&["render"], 0),
        (&["--help"], 0),
        (&["plan", "--base", "HEAD", "--exit-code"], 0),
        (&["render", "--repo", "/does/not/exist"], 1),
        (&["plan", "--base", "no-such-revision"], 1),
        (&["status", "--kubeconfig", "/does/not/exist"], 1),
        (&["tree", "--kubeconfig", "/does/not/exist"], 1),
        (&["status", "--watch", "--kubeconfig", "/does/not/exist"], 1),
        (&["status", "--state", "broken"], 2),
        (&["tree", "edge-1", "--cluster", "edge-2"], 2),
        (&["explain", "edge-1"], 2),
        (&["frobnicate"], 2),
        (&["render", "--path", "../elsewhere"], 2),
        (&["render", "--semver", "not a range"], 2),
        (&["render", "--branch", "a", "--tag", "b"], 2),
    ];
    for (arguments, expected) in cases {
        let output = run(clone.path(), arguments);
        assert_eq!(code(&output), Some(*expected), "{arguments:?}: {}", err(&output));
        if *expected != 0 {
            assert!(out(&output).is_empty() && !err(&output).is_empty(), "{arguments:?}");
        }
    }
    write(clone.path(), "clusters/edge-1/web/cm.yaml", &config_map("web", "two"));
    assert_eq!(code(&run(clone.path(), &["plan", "--base", "HEAD"])), Some(0));
    assert_eq!(code(&run(clone.path(), &["plan", "--base", "HEAD", "--exit-code"])), Some(3));
    write(clone.path(), "clusters/edge-1/web/cm.yaml", "kind: [");
    for command in ["validate", "render"] {
        assert_eq!(code(&run(clone.path(), &[command])), Some(1), "{command}");
    }
    assert_eq!(code(&run(clone.path(), &["plan", "--base", "HEAD", "--exit-code"])), Some(1));
}

#[test]
fn filter_that_selects_nothing_is_an_error_unless_an_error_hides_the_work() {
    let clone = clone();
    for (arguments, message) in [
        (["--cluster", "edge-9"].as_slice(), "no cluster matches edge-9; did you mean edge-1?"),
        (&["--cluster", "x*"], "no cluster matches x*"),
        (&["--cluster", "edge-1", "--work", "wbe"], "no work matches wbe; did you mean web?"),
        (&["--cluster", "edge-2", "--work", "web"], "no work matches web"),
    ] {
        let output = run(clone.path(), &[&["render"], arguments].concat());
        let found = err(&output);
        assert_eq!(code(&output), Some(2), "{arguments:?}: {found}");
        assert_eq!(found.trim_end(), format!("error: {message}"), "{arguments:?}");
    }
    write(clone.path(), "clusters/edge-9/bad/cm.yaml", "kind: [");
    let output = run(clone.path(), &["render", "--cluster", "edge-9"]);
    assert_eq!(code(&output), Some(1), "{}", err(&output));
    assert!(!err(&output).contains("no cluster matches"), "{}", err(&output));
}

#[test]
fn filter_is_no_error_if_it_is_unknown_what_it_selects() {
    let clone = clone();
    let group = "selector: {labelSelector: {matchLabels: {tier: store}}}\n";
    write(clone.path(), "groups/stores/group.yaml", group);
    write(clone.path(), "groups/stores/till/cm.yaml", &config_map("till", "one"));
    let output = run(clone.path(), &["render", "--cluster", "edge-9"]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    assert!(err(&output).contains("GW601"), "{}", err(&output));
    assert!(!err(&output).contains("no cluster matches"), "{}", err(&output));
}

#[test]
fn rendering_continues_past_an_invalid_work_and_is_deterministic() {
    let clone = clone();
    write(clone.path(), "clusters/edge-1/bad/cm.yaml", "kind: [");
    let first = run(clone.path(), &["render"]);
    assert_eq!(first.stdout, run(clone.path(), &["render"]).stdout);
    assert!(out(&first).contains("namespace: edge-2") && !out(&first).contains("name: bad"));
    assert!(err(&first).contains("clusters/edge-1/bad/cm.yaml:1:7"), "{}", err(&first));

    let one = run(clone.path(), &["render", "--cluster", "edge-2", "-o", "json"]);
    let list: Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(list["items"][0]["metadata"]["name"], "db");

    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().to_str().unwrap();
    let written = run(clone.path(), &["render", "--out", target, "--work", "d*"]);
    assert!(written.stdout.is_empty());
    let file = fs::read_to_string(folder.path().join("edge-2/db.yaml")).unwrap();
    assert!(out(&first).contains(&file));
}

#[test]
fn ref_flag_reads_the_commit_and_default_reads_the_folder() {
    let clone = clone();
    write(clone.path(), "clusters/edge-1/web/cm.yaml", &config_map("web", "uncommitted"));
    let cache = tempfile::tempdir().unwrap();
    let cache = cache.path().to_str().unwrap();
    assert!(out(&run(clone.path(), &["render"])).contains("uncommitted"));
    let committed = run(clone.path(), &["render", "--branch", "main", "--cache", cache]);
    assert!(
        !out(&committed).contains("uncommitted") && out(&committed).contains("gitwork.dev/commit")
    );
}

#[test]
fn diagnostics_are_printed_as_text_json_and_sarif() {
    let clone = clone();
    write(clone.path(), "sub/clusters/edge-1/web/cm.yaml", "a: 1\na: 2\n");
    let at = |format: &str| run(clone.path(), &["validate", "--path", "sub", "-o", format]);
    let text = out(&at("text"));
    assert!(
        text.contains("error[GW102]") && text.contains("sub/clusters/edge-1/web/cm.yaml:2:1"),
        "{text}"
    );
    let json: Value = serde_json::from_slice(&at("json").stdout).unwrap();
    let found = json["diagnostics"].as_array().unwrap();
    assert!(found.iter().any(|found| found["code"] == "GW102"), "{json}");
    let sarif: Value = serde_json::from_slice(&at("sarif").stdout).unwrap();
    let uri = "/runs/0/results/0/locations/0/physicalLocation/artifactLocation/uri";
    assert_eq!(sarif.pointer(uri).and_then(Value::as_str), Some("sub/clusters/edge-1/web/cm.yaml"));
}

#[test]
fn plans_between_revisions_are_printed_as_text_markdown_and_json() {
    let clone = clone();
    write(clone.path(), "clusters/edge-1/web/cm.yaml", &config_map("web", "two"));
    fs::remove_dir_all(clone.path().join("clusters/edge-2/db")).unwrap();
    write(clone.path(), "clusters/edge-2/new/cm.yaml", &config_map("new", "one"));
    let plan = |format: &str| out(&run(clone.path(), &["plan", "--base", "main", "-o", format]));
    let text = plan("text");
    for line in [
        "+ edge-2/new",
        "~ edge-1/web",
        "- edge-2/db",
        "data.value: one -> two",
        "deleteOption Foreground",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(plan("markdown").contains("<details>"));
    let json: Value = serde_json::from_str(&plan("json")).unwrap();
    assert_eq!(json["counts"]["worksDeleted"], 1);
    let narrow = run(clone.path(), &["plan", "--base", "main", "--cluster", "edge-1"]);
    assert!(!out(&narrow).contains("edge-2"), "{}", out(&narrow));

    git(clone.path(), &["remote", "add", "origin", "git@github.com:acme/fleet.git"]);
    let link = "<a href=\"https://github.com/acme/fleet/tree/";
    assert_eq!(plan("markdown").matches(link).count(), 1, "the working directory has no page");
    git(clone.path(), &["add", "."]);
    git(clone.path(), &["commit", "-q", "-m", "second"]);
    let committed =
        run(clone.path(), &["plan", "--base", "HEAD~1", "--head", "HEAD", "-o", "markdown"]);
    assert_eq!(out(&committed).matches(link).count(), 3, "{}", out(&committed));
}

#[test]
fn colour_is_used_on_terminals_only() {
    let clone = clone();
    write(clone.path(), "clusters/edge-1/web/cm.yaml", "a: 1\na: 2\n");
    let piped = run(clone.path(), &["validate"]);
    assert!(!out(&piped).contains('\u{1b}'));
    let colored = run(clone.path(), &["validate", "--color", "always"]);
    assert!(out(&colored).contains('\u{1b}'));
    // `script` gives the command a terminal.
    let on_terminal_with = |no_color: bool, flags: &str| {
        let mut command = Command::new("script");
        let validate = format!("{} validate {flags}", env!("CARGO_BIN_EXE_gitwork"));
        command.args(["-qec", &validate, "/dev/null"]);
        command.env_remove("NO_COLOR").env("TERM", "xterm").current_dir(clone.path());
        if no_color {
            command.env("NO_COLOR", "1");
        }
        out(&command.stdin(Stdio::null()).output().unwrap())
    };
    let on_terminal = |no_color: bool| on_terminal_with(no_color, "");
    let never = on_terminal_with(false, "--color never");
    assert!(never.contains("GW102") && !never.contains('\u{1b}'), "{never}");
    assert!(on_terminal(false).contains('\u{1b}'), "{}", on_terminal(false));
    assert!(!on_terminal(true).contains('\u{1b}'), "{}", on_terminal(true));
}

#[test]
fn closed_pipe_is_not_an_error() {
    let clone = clone();
    for i in 0..300 {
        let text = config_map(&format!("large-{i}"), &"x".repeat(1_000));
        write(clone.path(), &format!("clusters/edge-1/work-{i}/cm.yaml"), &text);
    }
    let mut child = gitwork(&["render"])
        .current_dir(clone.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut start = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), err(&output)), (Some(0), String::new()));
}

#[test]
fn schemas_crds_and_completions_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["gitwork", "cluster", "work", "manifest-config", "daemon"] {
        let schema: Value =
            serde_json::from_slice(&run(folder.path(), &["schema", file]).stdout).unwrap();
        assert_eq!(schema["type"], "object", "{file}");
    }
    let crds = out(&run(folder.path(), &["crds"]));
    assert_eq!(crds.matches("\nkind: CustomResourceDefinition\n").count(), 9);
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = out(&run(folder.path(), &["completions", shell]));
        assert!(script.contains("GITWORK_COMPLETE"), "{shell}: {script}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_and_status_show_differences_between_git_and_hub() {
    let sync = Sync::new(1).await;
    sync.commit(&[
        (0, "web/cm.yaml", Some(&config_map("web", "one"))),
        (0, "db/cm.yaml", Some(&config_map("db", "one"))),
    ]);
    let kubeconfig = sync.hub.kubeconfig_path();
    let cache = sync.folder.path().join("cli-cache");
    let plan = |more: &[&str]| {
        gitwork(&["plan", "--branch", "main", "--source-id", sync.id.as_str(), "--exit-code"])
            .args(["--repo", &sync.server.url("fleet.git")])
            .arg("--cache")
            .arg(&cache)
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(more)
            .output()
            .unwrap()
    };
    let before = plan(&[]);
    assert_eq!(code(&before), Some(3), "{}", err(&before));
    assert!(
        out(&before).contains("+ create") && out(&before).contains("2 create"),
        "{}",
        out(&before)
    );
    let hub = Arc::new(KubeHub::new(sync.hub.client()));
    sync.engine(hub, sync.source()).once().await.unwrap();
    let after = plan(&["-o", "json"]);
    assert_eq!(code(&after), Some(0), "{}", err(&after));
    let summary: Value = serde_json::from_slice(&after.stdout).unwrap();
    assert_eq!((&summary["counts"]["keep"], &summary["counts"]["create"]), (&2.into(), &0.into()));

    sync.agent_takes(0, "web").await;
    sync.agent_applies(0, "web").await;
    let status = |more: &[&str]| {
        let arguments = ["status", "--source-id", sync.id.as_str()];
        gitwork(&arguments).arg("--kubeconfig").arg(&kubeconfig).args(more).output().unwrap()
    };
    let table = out(&status(&[]));
    let lines: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..3], ["CLUSTER", "WORK", "STATE"]);
    assert_eq!(lines[1][1..4], ["db", "pending", "0/1"]);
    assert_eq!(lines[2][1..3], ["web", "applied"]);
    assert!(table.ends_with("0/1 cluster applied, 1 pending\n"), "{table}");
    let json: Value =
        serde_json::from_slice(&status(&["-o", "json", "--work", "web"]).stdout).unwrap();
    assert_eq!(json["works"].as_array().map(Vec::len), Some(1));
    assert_eq!(json["works"][0]["state"], "applied");
}

#[test]
fn source_flag_selects_one_source_of_the_config_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("daemon.yaml");
    let sources = "sources:\n- {id: fleet, repo: 'https://git.example/a.git'}\n\
                   - {id: other, repo: 'https://git.example/b.git', adopt: never}\n\
                   - {id: fleet, repo: 'https://git.example/c.git'}\n";
    for (text, reported) in [
        (sources.to_owned(), "sources[2].id: the id \"fleet\" is used twice"),
        (sources.replace("adopt: never", "adopt: all"), "sources[1].adopt"),
    ] {
        fs::write(&file, format!("cache: {}\n{text}", folder.path().display())).unwrap();
        let ended = gitwork(&["run", "--once", "--config"]).arg(&file).output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(reported), "{stderr}");
    }
}

/// Without a file, too: whoever may push could otherwise return to an older signed commit.
#[test]
fn rewind_flag_is_refused_together_with_signers() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("allowed_signers");
    fs::write(&keys, "").unwrap();
    let keys = keys.display().to_string();
    for (rewind, signers) in [
        ("warn", vec!["--verify", "commits", "--allowed-signers", &keys]),
        ("follow", vec!["--allowed-signers", &keys]),
        ("follow", vec!["--openpgp-keys", &keys]),
    ] {
        let mut command = gitwork(&["run", "--once", "--source-id", "fleet"]);
        command.args(["--repo", "https://git.example/fleet.git", "--rewind", rewind]);
        let ended = command.args(&signers).env("KUBECONFIG", "/does/not/exist").output().unwrap();
        assert_eq!(code(&ended), Some(2), "{rewind} {signers:?}: {}", err(&ended));
        for part in ["--rewind must be hold with --verify", "an older signed commit"] {
            assert!(err(&ended).contains(part), "{part}: {}", err(&ended));
        }
    }
}

/// The log of both programs, which quotes what others have written.
#[test]
fn the_agents_log_escapes_what_hides_or_reorders_text() {
    let file = "/tmp/a\u{202e}b\u{200b}c";
    for json in [false, true] {
        let mut command =
            Command::new(crate::harness::agent_program(env!("CARGO_BIN_EXE_gitwork")));
        command.args(["agent", "--spoke-cluster-name=a", "--listen=127.0.0.1:0"]);
        command.args([&format!("--workload-source-config={file}"), "--kubeconfig=/does/not/exist"]);
        command.args(json.then_some("--log-json")).env("NO_COLOR", "1").env_remove("RUST_LOG");
        let ended = command.output().unwrap();
        let log = err(&ended);
        assert_eq!(code(&ended), Some(1), "{log}");
        let escaped = if json { "a\\u202eb\\u200bc" } else { "a\\u{202e}b\\u{200b}c" };
        assert!(log.contains(escaped), "{log}");
        assert!(!log.contains(['\u{202e}', '\u{200b}']), "{log}");
    }
}

/// A folder on disk and a clone, with links to a file outside, a filter and a hook. No cluster and
/// no credentials are there.
#[test]
fn pull_request_of_a_stranger_runs_nothing_and_reads_no_other_file() {
    let outside = tempfile::tempdir().unwrap();
    let canary = outside.path().join("canary.yaml");
    fs::write(&canary, config_map("canary", "canary-of-the-machine")).unwrap();
    let clone = clone();
    let evil = clone.path().join("clusters/edge-1/evil");
    fs::create_dir_all(&evil).unwrap();
    let up = format!("../../../../../../../../..{}", canary.display());
    for (name, target) in [("a.yaml", canary.display().to_string()), ("b.yaml", up)] {
        std::os::unix::fs::symlink(target, evil.join(name)).unwrap();
    }
    std::os::unix::fs::symlink(outside.path(), clone.path().join("clusters/edge-1/all")).unwrap();
    let touched = outside.path().join("touched");
    let program = format!("#!/bin/sh\ntouch {}\n", touched.display());
    write(clone.path(), ".gitattributes", "* filter=evil diff=evil\n");
    write(clone.path(), ".githooks/post-checkout", &program);
    write(clone.path(), "clusters/edge-1/kustomize/kustomization.yaml", "generators: [x]\n");
    let bare = tempfile::tempdir().unwrap();
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(clone.path().join("clusters")).arg(bare.path());
    assert!(copy.status().unwrap().success());
    for (folder, arguments) in [
        (clone.path(), &["validate"][..]),
        (clone.path(), &["render"]),
        (clone.path(), &["plan", "--base", "main"]),
        (clone.path(), &["plan", "--base", "main", "-o", "markdown"]),
        (bare.path(), &["validate"]),
        (bare.path(), &["render"]),
    ] {
        let mut command = gitwork(arguments);
        command.current_dir(folder).env("KUBECONFIG", "/does/not/exist").env("HOME", "/nowhere");
        let output = command.output().unwrap();
        let text = out(&output) + &err(&output);
        assert!(!text.contains("canary-of-the-machine"), "{arguments:?}: {text}");
        assert!(text.contains("edge-1/evil"), "the commands read the folder: {text}");
        assert!(!touched.exists(), "{arguments:?}");
    }
}
