//! Commands in a clone find the clusters of groups in `facts.json` of the status branch.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::cli::{code, err, git, gitwork, out};
use crate::sync::fixture::config_map;

const FACTS: &str = r#"{"managedClusters": {
    "store-berlin": {"labels": {"tier": "store", "city": "Berlin"}},
    "store-lisbon": {"labels": {"tier": "store", "city": "Lisbon"}},
    "dc-berlin": {"labels": {"tier": "dc"}}
}}"#;
const WHERE: &str = "facts of clusters: refs/remotes/origin/gitwork-status:facts.json, commit ";

/// A remote with a group and a status branch, and a clone of it.
struct Clone {
    folder: TempDir,
}

impl Clone {
    fn new(facts: &str) -> Self {
        let clone = Self { folder: tempfile::tempdir().unwrap() };
        let origin = clone.folder.path().join("origin");
        let write = |path: &str, text: &str| {
            let path = origin.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("facts.json", facts);
        git(&origin, &["init", "-q", "-b", "gitwork-status"]);
        git(&origin, &["add", "."]);
        git(&origin, &["commit", "-q", "-m", "status"]);
        git(&origin, &["checkout", "-q", "--orphan", "main"]);
        git(&origin, &["rm", "-q", "-f", "facts.json"]);
        let selector = "selector: {labelSelector: {matchLabels: {tier: store}}}\n\
                        defaults: {substitute: true}\n";
        write("groups/stores/group.yaml", selector);
        write("groups/stores/web/cm.yaml", &config_map("web", "${cluster.labels['city']}"));
        git(&origin, &["add", "."]);
        git(&origin, &["commit", "-q", "-m", "a group"]);
        git(clone.folder.path(), &["clone", "-q", "origin", "clone"]);
        clone
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("clone")
    }

    /// The exit code, standard output and standard error.
    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let done = gitwork(arguments).current_dir(self.path()).output().unwrap();
        (code(&done).unwrap(), out(&done), err(&done))
    }
}

#[test]
fn facts_of_the_status_branch_tell_the_members_of_groups() {
    let clone = Clone::new(FACTS);
    let (status, _, said) = clone.run(&["validate", "--strict"]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains(WHERE), "{said}");
    let (status, works, said) = clone.run(&["render", "--strict"]);
    assert_eq!(status, 0, "{said}");
    for (cluster, city) in [("store-berlin", "Berlin"), ("store-lisbon", "Lisbon")] {
        assert!(
            works.contains(&format!("namespace: {cluster}")) && works.contains(city),
            "{works}"
        );
    }
    assert!(!works.contains("namespace: dc-berlin"), "{works}");

    // A change of the group is planned for its members, of a commit and of the working tree.
    let manifest = clone.path().join("groups/stores/web/cm.yaml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("value:", "other: x\n  value:")).unwrap();
    let (_, plan, said) = clone.run(&["plan", "--base", "HEAD"]);
    assert!(plan.contains("store-berlin") && plan.contains("store-lisbon"), "{plan}{said}");
    assert!(said.contains(WHERE), "{said}");
    git(&clone.path(), &["commit", "-q", "-a", "-m", "other"]);
    let (_, plan, said) = clone.run(&["plan", "--base", "HEAD~1", "--head", "HEAD"]);
    assert!(plan.contains("store-berlin") && plan.contains("store-lisbon"), "{plan}{said}");
}

#[test]
fn other_facts_and_a_broken_status_branch_are_told() {
    let clone = Clone::new("{\"managedClusters\": 3}");
    let (status, _, said) = clone.run(&["validate", "--strict"]);
    assert_eq!(status, 1, "{said}");
    let broken = "cannot use refs/remotes/origin/gitwork-status:facts.json: ";
    assert!(said.contains(broken), "{said}");
    let file = clone.folder.path().join("facts.json");
    std::fs::write(&file, FACTS).unwrap();
    let arguments = ["validate", "--strict", "--facts", file.to_str().unwrap()];
    let (status, _, said) = clone.run(&arguments);
    assert_eq!(status, 0, "{said}");
    assert!(!said.contains("status"), "the named file counts: {said}");
    // Without the branch, the members are unknown.
    git(&clone.path(), &["branch", "-q", "-r", "-d", "origin/gitwork-status"]);
    let (status, printed, said) = clone.run(&["validate", "--strict"]);
    assert_eq!(status, 1);
    assert!(format!("{printed}{said}").contains("GW601"), "{printed}{said}");
    assert!(!said.contains("facts.json"), "{said}");
}

/// Whoever may push the status branch chooses the names of fields, which errors quote.
#[test]
fn texts_of_a_broken_status_branch_are_escaped() {
    let clone = Clone::new("{\"\\u001b]0;a\\u0007\\nerror: \\u202eb\": 1}");
    let (_, _, said) = clone.run(&["validate"]);
    assert!(said.contains(r"\u{1b}]0;a\u{7}\nerror: \u{202e}b"), "{said}");
    assert!(!said.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{said}");
}

#[test]
fn facts_of_the_remote_tell_the_members_of_groups() {
    let clone = Clone::new(FACTS);
    let url = format!("file://{}", clone.folder.path().join("origin").display());
    let cache = clone.folder.path().join("cache");
    let remote = ["--repo", &url, "--branch", "main", "--cache", cache.to_str().unwrap()];
    let where_ = "facts of clusters: facts.json of the branch gitwork-status, commit ";
    let (status, works, said) = clone.run(&[&["render", "--strict"], &remote[..]].concat());
    assert_eq!(status, 0, "{said}");
    assert!(said.contains(where_) && works.contains("namespace: store-berlin"), "{works}{said}");
    let (status, _, said) = clone.run(&[&["validate", "--strict"], &remote[..]].concat());
    assert_eq!((status, said.contains(where_)), (0, true), "{said}");
    let revisions = ["plan", "--strict", "--base", "main", "--head", "main"];
    let (status, plan, said) = clone.run(&[&revisions[..], &remote[..]].concat());
    assert_eq!((status, said.contains(where_)), (0, true), "{plan}{said}");

    // A remote without the branch tells nothing.
    git(&clone.folder.path().join("origin"), &["branch", "-q", "-D", "gitwork-status"]);
    let (status, printed, said) = clone.run(&[&["validate", "--strict"], &remote[..]].concat());
    assert_eq!(status, 1);
    assert!(format!("{printed}{said}").contains("GW601"), "{printed}{said}");
    assert!(!said.contains("facts.json"), "{said}");
}
