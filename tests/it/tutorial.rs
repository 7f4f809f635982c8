//! `docs/tutorial.md`, word for word: its files are written, its commands run, and they print what
//! the page shows.
//!
//! A block `console` has commands after `$ `, each with its output. `…` stands for any text, and
//! alone on a line for any lines; the width of gaps does not count. A command without output may
//! print anything. A block `console repeat` is run until it prints what the page shows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use tempfile::TempDir;

use crate::agent::process;
use crate::docs::{Block, Page, blocks};
use crate::harness::{self, ClusterOptions, ControlPlane, crds, eventually};

const DEADLINE: Duration = Duration::from_secs(300);

/// A command of the page, and the lines that it prints.
struct Step {
    command: String,
    output: Vec<String>,
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => {
                steps.push(Step { command: command.to_owned(), output: Vec::new() });
            }
            (None, Some(step)) => step.output.push(line.to_owned()),
            (None, None) => panic!("output before the first command: {line}"),
        }
    }
    steps
}

/// Whether a line is as the page shows it.
fn matches_line(pattern: &str, line: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (pattern, line) = (plain(pattern), plain(line));
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Whether the lines are as the page shows them.
fn matches_lines(patterns: &[String], lines: &[&str]) -> bool {
    match (patterns.split_first(), lines.split_first()) {
        (None, None) => true,
        (Some((pattern, after)), _) if pattern == "…" => {
            (0..=lines.len()).any(|skipped| matches_lines(after, &lines[skipped..]))
        }
        (Some((pattern, after)), Some((line, rest))) => {
            matches_line(pattern, line) && matches_lines(after, rest)
        }
        _ => false,
    }
}

#[test]
fn shown_output_matches_with_gaps_and_left_out_lines() {
    let shown = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let pattern = shown("A  B\n…\nname … 3s, …\nend");
    assert!(matches_lines(&pattern, &["A B", "x", "y", "name   a 3s, ok", "end"]));
    assert!(matches_lines(&pattern, &["A B", "name a 3s, x", "end"]));
    assert!(!matches_lines(&pattern, &["A B", "name a 4s, ok", "end"]));
    assert!(!matches_lines(&pattern, &["A B", "name a 3s, ok", "end", "more"]));
    assert!(!matches_lines(&shown("A"), &["A", "B"]));
}

/// The shell of the reader: its folder and its variables stay from one command to the next.
struct Shell {
    home: TempDir,
}

impl Shell {
    fn new(hub_kubeconfig: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("hub.kubeconfig"), hub_kubeconfig).unwrap();
        fs::write(home.path().join(".state"), "").unwrap();
        Self { home }
    }

    fn run(&self, command: &str) -> Output {
        let state = self.home.path().join(".state");
        let script = format!(
            ". {state}\n{command}\ncode=$?\n{{ export -p; echo cd \"$PWD\"; }} > {state}\n\
             exit $code",
            state = state.display()
        );
        let programs = Path::new(env!("CARGO_BIN_EXE_gitwork")).parent().unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        Command::new("bash")
            .args(["--noprofile", "--norc", "-c", &script])
            .current_dir(&self.home)
            .env_clear()
            .envs([
                ("PATH", path.as_str()),
                ("GIT_AUTHOR_NAME", "Ann"),
                ("GIT_COMMITTER_NAME", "Ann"),
            ])
            .envs([("GIT_AUTHOR_EMAIL", "ann@example.com"), ("NO_COLOR", "1")])
            .env("GIT_COMMITTER_EMAIL", "ann@example.com")
            .env("HOME", self.home.path())
            .output()
            .unwrap()
    }

    /// The folder in which the reader is.
    fn folder(&self) -> PathBuf {
        let output = self.run("pwd");
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
    }

    /// Whether the command succeeds and prints this; what is wrong otherwise.
    fn follows(&self, step: &Step) -> Result<(), String> {
        let output = self.run(&step.command);
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = text.lines().collect();
        let is_as_shown = step.output.is_empty() || matches_lines(&step.output, &lines);
        if output.status.success() && is_as_shown {
            return Ok(());
        }
        Err(format!("$ {} ends with {} and prints\n{text}", step.command, output.status))
    }
}

async fn follow(shell: &Shell, page: &Page, block: &Block) {
    let place = format!("{}:{}", page.path, block.line);
    if let Some(path) = block.info.strip_prefix("yaml file=") {
        let file = shell.folder().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, &block.text).unwrap();
        return;
    }
    let Some(info) = block.info.strip_prefix("console") else { return };
    for step in steps(&block.text) {
        match info.trim() {
            "repeat" => {
                let probe = || async { shell.follows(&step) };
                eventually(&place, DEADLINE, probe).await.unwrap();
            }
            "" => shell.follows(&step).unwrap_or_else(|why| panic!("{place}: {why}")),
            other => panic!("{place}: a console block is not {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tutorial_leads_from_an_empty_folder_to_a_changed_object_on_a_cluster() {
    let plane = ControlPlane::shared().await;
    let options = ClusterOptions { crds: crds::hub(), ..ClusterOptions::default() };
    let hub = plane.start("tutorial", options).await;
    hub.accept("edge-1").await;
    let managed = harness::managed().await;
    let home = managed.namespace("tutorial").await;
    let kubeconfigs = (hub.kubeconfig(), managed.kubeconfig());
    let _agent = process::start_as(kubeconfigs, "edge-1", &home, &[]).await;
    let shell = Shell::new(&hub.kubeconfig());
    let page = Page::read("docs/tutorial.md");
    let all = blocks(&page);
    let count = all.iter().filter(|block| block.info.starts_with("console")).count();
    assert!(count >= 8, "the page has its commands: {count}");
    for block in &all {
        follow(&shell, &page, block).await;
    }
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let objects = Api::<DynamicObject>::namespaced_with(managed.client(), "hello", &kind);
    let object = objects.get("hello").await.unwrap();
    assert_eq!(object.data["data"]["greeting"], "Hello from a changed commit");
}
