//! `validate --fix`: what it changes in the files of a folder, and what it leaves alone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use tempfile::TempDir;

use crate::cli::{clone, code, err, gitwork, out, write};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    gitwork(arguments).current_dir(folder).output().unwrap()
}

fn read(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap()
}

/// All files of the working tree.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with(".git") {
            all.extend(files(&path));
        } else if path.is_file() {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

const DEPLOYMENT: &str = "\
# The shop. # Keep this.
apiVersion: apps/v1
kind: Deployment
metadata:
  name:   web      # spaces stay
  namespace: shop
  labels: {version: 1.10, app: web}
spec:
  replica: 2
  selector:
    matchLabels:
      app: web
  template:
    metadata:
      labels:
        app: web
    spec:
      containers:
        - name: web
          image: nginx
          env:
            - name: DEBUG
              value: yes
            - name: \"PORT\"
              value: 0644   # octal for kubectl
          imagePullpolicy: Always
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: cm
  namespace: shop
data:
  k: 8080
  text: kept
";

/// A repository with mistakes of each kind that is corrected.
fn repository() -> TempDir {
    let clone = clone();
    let folder = clone.path();
    write(folder, "clusters/edge-1/shop/web.yaml", DEPLOYMENT);
    write(folder, "clusters/edge-1/shop/Work.yml", "lables:\n  team: 7 # number\n");
    let json = "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\",\n \"metadata\": {\"name\": \
                \"j\", \"namespace\": \"shop\"}, \"data\": {\"a\": true}}";
    write(folder, "clusters/edge-1/shop/j.json", json);
    write(folder, "gitwork.yml", "defaults:\n  substitute: false\n");
    clone
}

#[test]
fn fix_changes_what_is_wrong_and_nothing_else() {
    let clone = repository();
    let folder = clone.path();
    let path = folder.join("clusters/edge-1/shop/web.yaml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(code(&run(folder, &["validate"])), Some(1));

    let before = files(folder);
    let dry = run(folder, &["validate", "--fix", "--dry-run"]);
    assert!(files(folder) == before, "--dry-run changes nothing");
    assert_eq!(code(&dry), Some(1), "{}", err(&dry));
    let diff = out(&dry);
    for line in [
        "--- clusters/edge-1/shop/web.yaml\n+++ clusters/edge-1/shop/web.yaml\n",
        "-  replica: 2\n",
        "+  replicas: 2\n",
        "+              value: \"0644\"   # octal for kubectl\n",
        "--- clusters/edge-1/shop/Work.yml\n+++ clusters/edge-1/shop/work.yaml\n",
        "--- gitwork.yml\n+++ gitwork.yaml\n",
    ] {
        assert!(diff.contains(line), "{line:?} in {diff}");
    }
    assert!(err(&dry).contains("would fix "), "{}", err(&dry));

    let fixed = run(folder, &["validate", "--fix"]);
    assert_eq!(code(&fixed), Some(0), "{}{}", out(&fixed), err(&fixed));
    let said = err(&fixed);
    for line in [
        "clusters/edge-1/shop/web.yaml:9:3: renamed replica to replicas\n",
        "clusters/edge-1/shop/web.yaml:23:22: quoted the value\n",
        "clusters/edge-1/shop/Work.yml: renamed to work.yaml\n",
        "gitwork.yml: renamed to gitwork.yaml\n",
    ] {
        assert!(said.contains(line), "{line:?} in {said}");
    }
    let expected = DEPLOYMENT
        .replace("version: 1.10", "version: \"1.10\"")
        .replace("replica:", "replicas:")
        .replace("value: yes", "value: \"yes\"")
        .replace("value: 0644", "value: \"0644\"")
        .replace("imagePullpolicy", "imagePullPolicy")
        .replace("k: 8080", "k: \"8080\"");
    assert_eq!(read(folder, "clusters/edge-1/shop/web.yaml"), expected);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    let work = "labels:\n  team: \"7\" # number\n";
    assert_eq!(read(folder, "clusters/edge-1/shop/work.yaml"), work);
    assert!(read(folder, "clusters/edge-1/shop/j.json").ends_with("{\"a\": \"true\"}}"));
    assert!(
        !folder.join("gitwork.yml").exists()
            && !folder.join("clusters/edge-1/shop/Work.yml").exists()
    );

    let after = files(folder);
    let again = run(folder, &["validate", "--fix"]);
    assert!(err(&again).ends_with("nothing to fix\n"), "{}", err(&again));
    assert!(files(folder) == after, "a second run changes nothing");
    assert_eq!(out(&run(folder, &["validate"])), "no problems\n");
}

#[test]
fn fix_leaves_other_works_and_uncertain_mistakes_alone() {
    let clone = repository();
    let folder = clone.path();
    let uncertain = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  namespace: shop\n\
                     dat4: {a: b}\nsomething: 1\n";
    write(folder, "clusters/edge-2/db/cm.yaml", uncertain);
    let anchors = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: anchors\n  namespace: shop\n\
                   data:\n  a: &one 1\n  b: *one\n";
    write(folder, "clusters/edge-2/db/anchors.yaml", anchors);
    let fixed = run(folder, &["validate", "--fix", "--cluster", "edge-2"]);
    assert_eq!(code(&fixed), Some(1), "{}", err(&fixed));
    assert_eq!(read(folder, "clusters/edge-1/shop/web.yaml"), DEPLOYMENT);
    assert_eq!(read(folder, "clusters/edge-2/db/anchors.yaml"), anchors);
    let left = read(folder, "clusters/edge-2/db/cm.yaml");
    assert!(left.contains("something: 1"), "{left}");
}

#[test]
fn fix_writes_through_no_link_and_only_to_folders() {
    let clone = clone();
    let folder = clone.path();
    let outside = tempfile::tempdir().unwrap();
    let text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: l, namespace: shop}\ndata: {a: 1}\n";
    fs::write(outside.path().join("cm.yaml"), text).unwrap();
    write(folder, "clusters/edge-1/web/real.txt", text);
    symlink("real.txt", folder.join("clusters/edge-1/web/link.yaml")).unwrap();
    symlink(outside.path(), folder.join("clusters/edge-1/elsewhere")).unwrap();
    let fixed = run(folder, &["validate", "--fix"]);
    assert!(err(&fixed).ends_with("nothing to fix\n"), "{}", err(&fixed));
    assert_eq!(read(folder, "clusters/edge-1/web/real.txt"), text);
    assert_eq!(read(outside.path(), "cm.yaml"), text);
    let cache = outside.path().to_str().unwrap();
    let branch = run(folder, &["validate", "--fix", "--branch", "main", "--cache", cache]);
    assert_eq!(code(&branch), Some(2), "{}", err(&branch));
    assert!(err(&branch).contains("--fix needs a folder on disk"), "{}", err(&branch));
}

#[test]
fn fix_shows_no_secret() {
    let clone = clone();
    let folder = clone.path();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\n\
                  stringData:\n  pin: 12345678\n";
    write(folder, "clusters/edge-1/web/secret.yaml", secret);
    for arguments in [&["validate", "--fix", "--dry-run"][..], &["validate", "--fix"]] {
        let output = run(folder, arguments);
        let all = format!("{}{}", out(&output), err(&output));
        assert!(!all.contains("12345678") && all.contains("quoted the value"), "{all}");
    }
    let fixed = read(folder, "clusters/edge-1/web/secret.yaml");
    assert!(fixed.ends_with("  pin: \"12345678\"\n"), "{fixed}");
}
