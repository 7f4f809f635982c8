//! Commands give the same bytes with any number of threads, and `plan --base` the same as without
//! leaving out clusters.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::{code, err, gitwork, out, write};
use crate::git_server::Repo;
use crate::sync::fixture::config_map;

const CLUSTERS: usize = 12;

/// A fleet with works of clusters and of a group, variables, a CRD, and problems of every kind.
fn fleet() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let add = |file: &str, text: &str| write(folder.path(), file, text);
    add("groups/all/group.yaml", "clusters: [\"edge-*\"]\nvalues: {TEAM: shop}\n");
    let with_values = config_map("agent", "${cluster.name} of ${TEAM}");
    add("groups/all/agent/work.yaml", "substitute: true\n");
    add("groups/all/agent/cm.yaml", &with_values);
    add("groups/all/same/cm.yaml", &config_map("same", "one"));
    add("groups/some/group.yaml", "clusters: [edge-01, edge-02]\n");
    add("groups/some/bad/cm.yaml", &config_map("bad", "one").replace("data:", "dats:"));
    for cluster in 0..CLUSTERS {
        let at = |file: &str| format!("clusters/edge-{cluster:02}/{file}");
        for work in 0..4 {
            let text = (0..5).fold(String::new(), |mut text, number| {
                let _ = writeln!(text, "---\n{}", config_map(&format!("w{work}-{number}"), "x"));
                text
            });
            add(&at(&format!("web-{work}/cm.yaml")), &text);
        }
        if cluster % 3 == 1 {
            let thing = "apiVersion: e.io/v1\nkind: Thing\nmetadata: {name: t}\n";
            add(&at("web-0/thing.yaml"), thing);
        }
        match cluster % 4 {
            0 => add(&at("web-1/broken.yaml"), "broken: ["),
            1 => add(&at("web-1/twice.yaml"), &config_map("w2-1", "y")),
            2 => add(&at("cluster.yaml"), "values: {TEAM: other}\n"),
            _ => add(&at("web-1/old.yaml"), "apiVersion: batch/v1beta1\nkind: CronJob\n"),
        }
    }
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
               metadata: {name: thinges.e.io}\nspec: {group: e.io, scope: Cluster, names: {kind: \
               Thing, plural: thinges}, versions: [{name: v1, served: true, storage: true, \
               schema: {openAPIV3Schema: {type: object}}}]}\n";
    add("clusters/edge-07/web-0/crd.yaml", crd);
    folder
}

fn files(folder: &Path, below: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(folder, &path, found);
        } else {
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

/// The fleet in a repository with two commits.
fn repository(folder: &Path, change: &[(&str, &str)]) -> Repo {
    let (fleet, mut all) = (fleet(), Vec::new());
    files(fleet.path(), fleet.path(), &mut all);
    let repo = Repo::create(folder);
    let all: Vec<_> = all.iter().map(|(name, text)| (&**name, Some(&**text))).collect();
    repo.commit("main", &all);
    let change: Vec<_> = change.iter().map(|(name, text)| (*name, Some(*text))).collect();
    repo.commit("main", &change);
    repo
}

fn same_with_any_threads(folder: &Path, arguments: &[&str]) -> Output {
    let run = |threads: &str| {
        let all = [arguments, &["--threads", threads]].concat();
        gitwork(&all).current_dir(folder).output().unwrap()
    };
    let one = run("1");
    assert!(!one.stdout.is_empty(), "{arguments:?}: {}", err(&one));
    for threads in ["2", "3", "8"] {
        let several = run(threads);
        assert_eq!(out(&several), out(&one), "{arguments:?} with {threads} threads");
        assert_eq!((err(&several), code(&several)), (err(&one), code(&one)), "{arguments:?}");
    }
    one
}

#[test]
fn output_is_the_same_with_any_number_of_threads() {
    let fleet = fleet();
    for arguments in [
        &["validate"] as &[&str],
        &["validate", "-o", "json"],
        &["render", "-o", "json"],
        &["render"],
    ] {
        same_with_any_threads(fleet.path(), arguments);
    }
    let temp = tempfile::tempdir().unwrap();
    let other = config_map("w1-1", "other");
    let change = [("clusters/edge-06/web-3/cm.yaml", other.as_str())];
    let repo = repository(&temp.path().join("fleet.git"), &change);
    let (url, cache) = (repo.file_url(), temp.path().join("cache").display().to_string());
    let source = ["--repo", &url, "--branch", "main", "--cache", &cache];
    let with = |arguments: &[&'static str]| -> Vec<&str> { [arguments, &source].concat() };
    same_with_any_threads(temp.path(), &with(&["validate", "-o", "json"]));
    let whole = with(&["render", "-o", "json"]);
    let list: Value =
        serde_json::from_slice(&same_with_any_threads(temp.path(), &whole).stdout).unwrap();
    assert_eq!(list["kind"], "List");
    assert!(list["items"].as_array().unwrap().len() > 4 * CLUSTERS, "{}", list["items"]);
    let plan = same_with_any_threads(temp.path(), &with(&["plan", "--base", "main~1"]));
    assert!(out(&plan).contains("edge-06/web-3"), "{}", out(&plan));
}

#[test]
fn plan_of_a_change_is_the_plan_of_the_whole() {
    let temp = tempfile::tempdir().unwrap();
    let other = config_map("w1-1", "other");
    let changes: [&[(&str, &str)]; 4] = [
        &[("clusters/edge-06/web-3/cm.yaml", &other)],
        &[("clusters/edge-06/new/cm.yaml", &other)],
        &[("groups/all/same/cm.yaml", &other)],
        &[("gitwork.yaml", "defaults: {prune: false}\n")],
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let repo = repository(&temp.path().join(format!("{number}.git")), change);
        let (url, cache) = (repo.file_url(), temp.path().join("cache").display().to_string());
        let plan = |more: &[&str]| {
            let base = ["plan", "--base", "main~1", "-o", "json", "--repo", &url];
            let source = ["--branch", "main", "--cache", &cache];
            let all = [&base as &[&str], &source, more].concat();
            let output = gitwork(&all).current_dir(temp.path()).output().unwrap();
            let review: Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|_| panic!("{}", err(&output)));
            (review, code(&output))
        };
        // A filter reads all.
        let (changed, whole) = (plan(&[]), plan(&["--cluster", "*"]));
        let explicit = plan(&["--head", "main"]);
        assert_eq!(changed, whole, "{change:?}");
        assert_eq!(explicit, whole, "{change:?}");
    }
}
