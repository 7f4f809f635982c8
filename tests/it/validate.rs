//! `validate` on repositories with many clusters: blocks, bounds, filters, and what changed.

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::{clone, code, err, git, gitwork, out, write};
use crate::sync::fixture::config_map;

fn run(folder: &Path, arguments: &[&str]) -> Output {
    gitwork(arguments).current_dir(folder).output().unwrap()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A ConfigMap with an unquoted number, which the API server refuses.
const NUMBER: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n  namespace: \
                      default\ndata:\n  port: 8080\n";

/// 40 clusters with the same mistake, below other lines on one of them.
fn fleet_with_one_mistake() -> TempDir {
    let clone = clone();
    for cluster in 10..50 {
        write(clone.path(), &format!("clusters/edge-{cluster}/web/cm.yaml"), NUMBER);
    }
    let lower = format!("# This one has a comment.\n{NUMBER}");
    write(clone.path(), "clusters/edge-30/web/cm.yaml", &lower);
    clone
}

#[test]
fn one_mistake_on_many_clusters_is_one_block_and_json_has_all() {
    let clone = fleet_with_one_mistake();
    let output = run(clone.path(), &["validate"]);
    let text = out(&output);
    assert_eq!(code(&output), Some(1), "{text}");
    assert_eq!(text.matches("error[GW802]").count(), 1, "{text}");
    let more = "= and in 39 more clusters: edge-11, edge-12, edge-13, …\n";
    assert!(text.contains(more), "{text}");
    assert!(text.ends_with("40 errors in 40 works of 40 clusters\n"), "{text}");
    let report = json_of(&run(clone.path(), &["validate", "-o", "json"]));
    assert_eq!(report["diagnostics"].as_array().unwrap().len(), 40);
    // The same on stderr of the commands that only print problems beside their output.
    let rendered = run(clone.path(), &["render", "--cluster", "edge-?*"]);
    assert!(err(&rendered).contains(more), "{}", err(&rendered));
    let plan = run(clone.path(), &["plan", "--base", "HEAD"]);
    assert!(err(&plan).contains(more), "{}", err(&plan));
    let comment = out(&run(clone.path(), &["plan", "--base", "HEAD", "-o", "markdown"]));
    let line = comment.lines().find(|line| line.contains("GW802")).unwrap();
    assert!(line.ends_with("(and in 39 more clusters: edge-11, edge-12, edge-13, …)"), "{line}");
}

#[test]
fn bounded_report_has_errors_first_and_says_how_to_see_the_others() {
    let clone = fleet_with_one_mistake();
    let secret = config_map("token", "x").replace("ConfigMap", "Secret");
    let secret = secret.replace("\ndata:", "\nstringData:");
    write(clone.path(), "clusters/edge-1/token/secret.yaml", &secret);
    let text = out(&run(clone.path(), &["validate", "--max", "1"]));
    assert!(text.starts_with("error[GW802]") && !text.contains("GW408"), "{text}");
    assert!(text.ends_with("\nnot shown: 1 warning; see all without --max\n"), "{text}");
    let report = json_of(&run(clone.path(), &["validate", "--max", "1", "-o", "json"]));
    assert_eq!((&report["omitted"], &report["summary"]["errors"]), (&40.into(), &40.into()));
    let log = json_of(&run(clone.path(), &["validate", "--max", "1", "-o", "sarif"]));
    assert_eq!(log["runs"][0]["results"].as_array().unwrap().len(), 1);
    assert_eq!(code(&run(clone.path(), &["validate", "--max", "0"])), Some(2));
}

#[test]
fn filters_select_problems_and_unknown_names_are_refused() {
    let clone = fleet_with_one_mistake();
    let text = out(&run(clone.path(), &["validate", "--cluster", "edge-1?"]));
    assert!(text.contains("= and in 9 more clusters: edge-11"), "{text}");
    let clean = run(clone.path(), &["validate", "--cluster", "edge-2"]);
    assert_eq!((code(&clean), out(&clean).as_str()), (Some(0), "no problems\n"));
    let clean = run(clone.path(), &["validate", "--work", "db"]);
    assert_eq!(code(&clean), Some(0), "{}", out(&clean));
    // What is about the whole source is about the selected works, too.
    write(clone.path(), "gitwork.yaml", "unknownField: 1\n");
    let output = run(clone.path(), &["validate", "--cluster", "edge-2"]);
    assert!(out(&output).contains("GW301"), "{}", out(&output));
    std::fs::remove_file(clone.path().join("gitwork.yaml")).unwrap();
    for command in [&["validate"][..], &["plan", "--base", "HEAD"], &["render"]] {
        let wrong = run(clone.path(), &[command, &["--cluster", "edge-5"]].concat());
        assert_eq!(code(&wrong), Some(2), "{command:?}: {}", err(&wrong));
        let message = err(&wrong);
        assert!(message.contains("error: no cluster matches edge-5; did you mean "), "{message}");
        assert!(out(&wrong).is_empty(), "{command:?}");
        let wrong = run(clone.path(), &[command, &["--work", "wbe"]].concat());
        assert!(
            err(&wrong).contains("error: no work matches wbe; did you mean web?"),
            "{command:?}"
        );
    }
    write(clone.path(), "clusters/edge-9/bad/cm.yaml", "kind: [");
    assert_eq!(code(&run(clone.path(), &["validate", "--cluster", "edge-9"])), Some(1));
}

#[test]
fn problems_of_what_did_not_change_are_left_out() {
    let clone = clone();
    let folder = clone.path();
    let number = |name: &str| NUMBER.replace("name: web", &format!("name: {name}"));
    write(folder, "clusters/edge-1/old/cm.yaml", &number("old"));
    write(folder, "clusters/edge-1/cluster.yaml", "values: {SIZE: small}\n");
    let values = config_map("values", "one").replace("one", "${SIZE}");
    write(folder, "clusters/edge-1/values/cm.yaml", &values);
    write(folder, "clusters/edge-1/values/work.yaml", "substitute: true\n");
    git(folder, &["add", "."]);
    git(folder, &["commit", "-q", "-m", "second"]);
    let since = |arguments: &[&str]| {
        run(folder, &[&["validate", "--changed-since", "HEAD", "-o", "json"], arguments].concat())
    };
    let codes = |output: &Output| -> Vec<String> {
        let report = json_of(output);
        let all = report["diagnostics"].as_array().unwrap().iter();
        all.map(|one| format!("{} {}", one["code"].as_str().unwrap(), one["file"])).collect()
    };
    let unchanged = since(&[]);
    assert_eq!((code(&unchanged), codes(&unchanged)), (Some(0), vec![]));
    // A new mistake, one in a file that changed otherwise, and one in a file that did not change.
    write(folder, "clusters/edge-2/new/cm.yaml", &number("new"));
    assert_eq!(codes(&since(&[])), ["GW802 \"clusters/edge-2/new/cm.yaml\""]);
    write(folder, "clusters/edge-1/old/cm.yaml", &format!("{}  other: x\n", number("old")));
    write(folder, "clusters/edge-1/cluster.yaml", "labels: {size: small}\n");
    let changed = since(&[]);
    let expected = [
        "GW802 \"clusters/edge-1/old/cm.yaml\"",
        "GW308 \"clusters/edge-1/values/cm.yaml\"",
        "GW802 \"clusters/edge-2/new/cm.yaml\"",
    ];
    assert_eq!(codes(&changed), expected);
    assert_eq!(code(&changed), Some(1));
    assert_eq!(codes(&since(&["--cluster", "edge-2"])).len(), 1);
    let unknown = run(folder, &["validate", "--changed-since", "no-such"]);
    assert_eq!(code(&unknown), Some(1));
    assert!(err(&unknown).contains("no-such"), "{}", err(&unknown));
    // The commits of a branch, read from a mirror.
    git(folder, &["add", "."]);
    git(folder, &["commit", "-q", "-m", "third"]);
    let cache = tempfile::tempdir().unwrap();
    let cache = cache.path().to_str().unwrap();
    let branch = ["--branch", "main", "--cache", cache, "-o", "json"];
    let of = |revision: &str| {
        run(folder, &[&["validate", "--changed-since", revision], &branch[..]].concat())
    };
    assert_eq!(codes(&of("main~1")), expected);
    assert!(codes(&of("main")).is_empty());
}
