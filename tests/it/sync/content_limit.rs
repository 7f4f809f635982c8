//! A source whose works hold more memory than it may, beside another one in the same daemon.

use std::collections::BTreeSet;

use serde_json::json;

use super::fixture::{Sync, config_map};
use crate::forge::daemon::Daemon;

/// Works of 300 KiB that differ.
fn commit_large(sync: &Sync, works: usize) {
    let all: Vec<(String, String)> = (0..works)
        .map(|n| {
            let value = format!("{n} {}", "x".repeat(300 * 1024));
            (sync.path(1, &format!("large-{n}/cm.yaml")), config_map(&format!("cm-{n}"), &value))
        })
        .collect();
    let all: Vec<(&str, Option<&str>)> =
        all.iter().map(|(path, text)| (path.as_str(), Some(text.as_str()))).collect();
    sync.repo.commit("large", &all);
}

#[tokio::test(flavor = "multi_thread")]
async fn source_over_its_memory_keeps_its_works_while_another_source_syncs() {
    let sync = Sync::new(2).await;
    let url = sync.server.url("fleet.git");
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    let kept = sync.path(1, "kept/cm.yaml");
    // A work that stays, so that the deletion budget does not hold the removal of the other one.
    let stays = sync.path(1, "stays/cm.yaml");
    let first = [(&*kept, config_map("kept", "one")), (&*stays, config_map("stays", "one"))];
    sync.repo.commit("large", &first.each_ref().map(|(path, text)| (*path, Some(&**text))));
    let large = format!("{}-large", sync.id);
    let daemon = Daemon::start(
        &sync,
        &json!({ "listen": "127.0.0.1:0", "sources": [
            { "id": sync.id.as_str(), "repo": url, "branch": "main", "intervalSeconds": 3600 },
            { "id": large, "repo": url, "branch": "large", "intervalSeconds": 3600,
              "maxContentMib": 1 },
        ] }),
    )
    .await;
    sync.until_value(0, "web", "one").await;
    sync.until_value(1, "kept", "one").await;
    sync.until_value(1, "stays", "one").await;

    // Too much, and a change and a removal that must not be applied in part.
    sync.repo.commit("large", &[(&kept, None)]);
    commit_large(&sync, 10);
    daemon.hang_up();
    let line = daemon.until_logged("MiB of memory").await.to_string();
    for part in [&*large, "take more than 1 MiB", "maxContentMib", "split the source into several"]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "two")))]);
    daemon.hang_up();
    sync.until_value(0, "web", "two").await;
    let address = daemon.address("listening for probes").await;
    let ready = crate::sync::program::get(address, "/readyz").await;
    assert!(ready.starts_with("HTTP/1.1 200 "), "{ready}");
    let api = sync.works(1);
    let there = api.list(&Default::default()).await.unwrap().items;
    let there: BTreeSet<String> = there.into_iter().filter_map(|work| work.metadata.name).collect();
    let before = ["kept", "stays"].map(str::to_owned).into();
    assert_eq!(there, before, "nothing is created, changed or deleted");

    // The next commit that fits is applied.
    let files: Vec<String> = (2..10).map(|n| sync.path(1, &format!("large-{n}/cm.yaml"))).collect();
    let gone: Vec<(&str, Option<&str>)> = files.iter().map(|path| (path.as_str(), None)).collect();
    sync.repo.commit("large", &gone);
    daemon.hang_up();
    sync.until_there(1, "large-1").await;
    sync.until_gone(1, "kept").await;
    assert_eq!(daemon.terminate().await, Some(0));
}
