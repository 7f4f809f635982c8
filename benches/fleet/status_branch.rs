//! The cost of the status branch, without a hub.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
use gitwork_git::status_branch::{Published, StatusBranch};
use gitwork_git::{Auth, Remote};
use gitwork_report::status::State;
use gitwork_report::status::source::SourceStatus;
use gitwork_report::status::view::StatusView;
use serde_json::json;

use super::harness::git_server::{GitServer, Repo};
use super::harness::source_status::{source_status, work_state};
use super::program::own_cpu;
use super::repository::Layout;

/// Publications of one changed work each.
const PUBLICATIONS: i64 = 50;

/// The status of works that are all available.
pub fn available_works(layout: Layout) -> SourceStatus {
    let condition = json!({
        "type": "Available", "status": "True", "reason": "ResourcesAvailable",
        "observedGeneration": 1, "message": "All resources are available",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({ "conditions": [condition] });
    let work = work_state(State::Available, StatusView::of(&status, 1, 3));
    let keys = (0..layout.works).map(|number| WorkKey {
        cluster: ClusterName::parse(&layout.namespace(number)).unwrap(),
        work: WorkName::parse(&layout.name(number)).unwrap(),
    });
    source_status("bench", keys.map(|key| (key, work.clone())))
}

/// Measures a push to the status branch after one work has changed.
pub fn status_branch(folder: &Path, layout: Layout) {
    let mut now = available_works(layout);
    Repo::create(&folder.join("status.git"));
    let server = GitServer::http(folder).start();
    let remote = Remote {
        url: server.url("status.git"),
        auth: Auth::None,
        ca_bundle: None,
        client_certificate: None,
        proxy: None,
    };
    let mut branch = StatusBranch::open(&folder.join("status"), remote, "gitwork-status").unwrap();
    let cancel = Arc::new(AtomicBool::new(false));
    let mut publish = |status: &Arc<SourceStatus>, at: i64| {
        let published = branch.publish(status, at, &cancel).unwrap();
        assert!(matches!(published, Published::Pushed { .. }), "{published:?}");
    };
    let Layout { works, clusters, .. } = layout;
    let first = Arc::new(now.clone());
    let before = own_cpu();
    publish(&first, 0);
    let cpu = own_cpu() - before;
    println!(
        "| status branch of {works} works on {clusters} clusters, first push: CPU | {cpu:?} |"
    );
    let keys: Vec<WorkKey> = now.works.keys().cloned().collect();
    let changed = (1..=PUBLICATIONS).map(|round| {
        now.works.get_mut(&keys[round as usize * 191 % keys.len()]).unwrap().state = State::Failed;
        (Arc::new(now.clone()), round)
    });
    let changed: Vec<(Arc<SourceStatus>, i64)> = changed.collect();
    let before = own_cpu();
    changed.iter().for_each(|(status, round)| publish(status, *round));
    let each = (own_cpu() - before) / PUBLICATIONS as u32;
    println!(
        "| one changed work of them, {PUBLICATIONS} times: CPU each, with the push over HTTP \
         | {each:?} |"
    );
}
