//! A source whose root folder is no Git tree for a while, beside another one in the same daemon.

use gitwork_core::model::name::CommitId;
use serde_json::json;

use super::fixture::{Sync, config_map};
use crate::forge::daemon::Daemon;

/// Moves a branch to a new commit that has any object as its tree.
fn commit_any_tree(sync: &Sync, branch: &str, tree: git2::Oid) -> CommitId {
    let parent = sync.repo.tip(branch).unwrap();
    let person = "a <a@example.com> 1700000000 +0000";
    let text =
        format!("tree {tree}\nparent {parent}\nauthor {person}\ncommitter {person}\n\nchange\n");
    let odb = sync.repo.git2().odb().unwrap();
    let commit = odb.write(git2::ObjectType::Commit, text.as_bytes()).unwrap();
    let commit = CommitId::parse(&commit.to_string()).unwrap();
    sync.repo.set_branch(branch, commit);
    commit
}

/// A folder with a file named `..`. Git stores and sends it, if nobody checks.
fn malformed_tree(sync: &Sync) -> git2::Oid {
    let odb = sync.repo.git2().odb().unwrap();
    let file = odb.write(git2::ObjectType::Blob, b"text").unwrap();
    let entry = [&b"100644 ..\0"[..], file.as_bytes()].concat();
    odb.write(git2::ObjectType::Tree, &entry).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn source_with_a_malformed_root_keeps_its_works_while_another_source_syncs() {
    let sync = Sync::new(2).await;
    let url = sync.server.url("fleet.git");
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    let [kept, stays] = ["kept", "stays"].map(|name| sync.path(1, &format!("{name}/cm.yaml")));
    let [kept_map, stays_map] = ["kept", "stays"].map(|name| config_map(name, "one"));
    let first = sync.repo.commit("other", &[(&kept, Some(&kept_map)), (&stays, Some(&stays_map))]);
    let other = format!("{}-other", sync.id);
    let daemon = Daemon::start(
        &sync,
        &json!({ "listen": "127.0.0.1:0", "sources": [
            { "id": sync.id.as_str(), "repo": url, "branch": "main", "intervalSeconds": 3600 },
            { "id": other, "repo": url, "branch": "other", "intervalSeconds": 3600 },
        ] }),
    )
    .await;
    sync.until_value(0, "web", "one").await;
    sync.until_value(1, "kept", "one").await;
    sync.until_value(1, "stays", "one").await;

    let malformed = commit_any_tree(&sync, "other", malformed_tree(&sync));
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "two")))]);
    daemon.hang_up();
    let line = daemon.until_logged("is malformed").await;
    assert_eq!((&line["source"], &line["place"]), (&json!(other), &json!(".")), "{line}");
    sync.until_value(0, "web", "two").await;
    sync.until_value(1, "kept", "one").await;

    // The history over the malformed commit shows what the next one removes.
    let dropped = sync.repo.commit_on("dropped", &[first], &[(&kept, None)]);
    let dropped = git2::Oid::from_bytes(&dropped.0).unwrap();
    let tree = sync.repo.git2().find_commit(dropped).unwrap().tree_id();
    let next = commit_any_tree(&sync, "other", tree);
    assert_ne!(next, malformed);
    daemon.hang_up();
    sync.until_gone(1, "kept").await;
    sync.until_value(1, "stays", "one").await;
    assert_eq!(daemon.terminate().await, Some(0));
}
