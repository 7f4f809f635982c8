//! What a shell completes in a repository, by the script that `gitwork completions` prints.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::{clone, code, err, git, out, write};

/// What bash completes at the end of a command line.
fn completed(folder: &Path, words: &[&str]) -> Vec<String> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_gitwork"));
    let path = format!("{}:{}", program.parent().unwrap().display(), env::var("PATH").unwrap());
    let script = "source <(gitwork completions bash)\nCOMP_WORDS=(\"$@\")\nCOMP_CWORD=$(($# - 1))\n\
                  COMP_TYPE=9\n_clap_complete_gitwork gitwork \"${COMP_WORDS[COMP_CWORD]}\"\n\
                  printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash", "gitwork"]).args(words).current_dir(folder);
    let output = command.env("PATH", path).env_remove("GITWORK_REPO").output().unwrap();
    assert_eq!((code(&output), err(&output).as_str()), (Some(0), ""), "{words:?}");
    let text = out(&output);
    let candidates = text.split(['\n', '\u{b}']).filter(|candidate| !candidate.is_empty());
    candidates.map(str::to_owned).collect()
}

/// Puts files on the status branch of a clone.
fn publish(folder: &Path, files: &[(&str, &str)]) {
    git(folder, &["checkout", "-q", "--orphan", "gitwork-status"]);
    git(folder, &["rm", "-rqf", "."]);
    for (path, text) in files {
        write(folder, path, text);
    }
    git(folder, &["add", "."]);
    git(folder, &["commit", "-q", "-m", "status"]);
    git(folder, &["checkout", "-q", "main"]);
}

#[test]
fn shell_completes_names_of_the_repository() {
    let folder = clone();
    let of = |words: &[&str]| completed(folder.path(), words);
    assert_eq!(of(&["plan", "--cluster", "edge"]), ["edge-1", "edge-2"]);
    assert_eq!(of(&["plan", "--work", ""]), ["db", "web"]);
    assert_eq!(of(&["explain", "ed"]), ["edge-1/", "edge-2/"]);
    assert_eq!(of(&["explain", "edge-1/"]), ["edge-1/web"]);
    assert_eq!(of(&["explain", "gw40"])[..2], ["GW401", "GW402"]);
    assert_eq!(of(&["delete", "work", "web", "--clusters", "edge-1,e"]).len(), 2);
    write(folder.path(), "groups/stores/group.yaml", "clusters: [\"*\"]\n");
    write(folder.path(), "groups/stores/tills/cm.yaml", "");
    assert_eq!(of(&["rollout", "approve", "s"]), ["stores"]);
    assert_eq!(of(&["explain", "edge-2/"]), ["edge-2/db", "edge-2/tills"]);
    let below = folder.path().join("groups/stores");
    assert_eq!(completed(&below, &["plan", "--work", "t"]), ["tills"], "from a folder below");
    let repo = folder.path().to_str().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let words = ["plan", "--repo", repo, "--cluster", "edge-2"];
    assert_eq!(completed(elsewhere.path(), &words), ["edge-2"]);
    let unknown = completed(elsewhere.path(), &["plan", "--cluster", ""]);
    assert_eq!(unknown, Vec::<String>::new());
}

#[test]
fn shell_completes_what_the_status_branch_and_the_daemon_file_name() {
    let folder = clone();
    let of = |words: &[&str]| completed(folder.path(), words);
    let facts = r#"{"managedClusters": {"store-1": {}, "store-2": {}}}"#;
    publish(folder.path(), &[("facts.json", facts), ("summary.json", r#"{"source": "fleet"}"#)]);
    assert_eq!(of(&["plan", "--cluster", "store"]), ["store-1", "store-2"]);
    assert_eq!(of(&["suspend", "--source-id", "f"]), ["fleet"]);
    let config = "sources:\n- {id: mesh, repo: https://git.example/mesh.git, branch: main}\n- \
                  {id: second, repo: https://git.example/second.git, branch: main}\n";
    write(folder.path(), "gitwork-daemon.yaml", config);
    let words = ["validate", "--config", "gitwork-daemon.yaml", "--source-id", ""];
    assert_eq!(of(&words), ["fleet", "mesh", "second"]);
    write(folder.path(), "gitwork-daemon.yaml", "sources: [");
    assert_eq!(of(&words), ["fleet"], "a broken file is no error at the prompt");
}
