//! The task that keeps commit statuses as the clusters are, in real time against a forge on
//! loopback.

use std::collections::BTreeSet;
use std::sync::Arc;

use gitwork_core::config::commit_status::ContextConfig;
use gitwork_core::config::commit_status::Provider;
use gitwork_core::model::name::{ClusterName, CommitId, RepoPath, WorkKey, WorkName};
use gitwork_forge::{CommitStatusReporter, Contexts};
use gitwork_report::forge::address::TargetSettings;
use gitwork_report::forge::{CommitState, ForgeTarget};
use gitwork_report::status::State;
use gitwork_report::status::source::{SourceStatus, WorkState};
use gitwork_report::status::view::StatusView;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::server::{Client, Forge, client, commit};
use crate::harness::source_status as fixture;

/// A source with one work on each of these clusters.
pub fn source_status(number: u8, clusters: &[(&str, State)]) -> Arc<SourceStatus> {
    source_status_of(commit(number), clusters)
}

pub fn source_status_of(commit: CommitId, clusters: &[(&str, State)]) -> Arc<SourceStatus> {
    let work = |(name, state): &(&str, State)| {
        let cluster = ClusterName::parse(name).unwrap();
        let key = WorkKey { cluster, work: WorkName::parse("web").unwrap() };
        (key, fixture::work_state(*state, StatusView::default()))
    };
    let status = fixture::source_status("fleet", clusters.iter().map(work));
    Arc::new(SourceStatus { commit: Some(commit), ..status })
}

struct Running {
    feed: watch::Sender<Option<Arc<SourceStatus>>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    _client: Client,
}

fn run(client: Client) -> Running {
    let (feed, fed) = watch::channel(None);
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(
        CommitStatusReporter::new(client.forge.clone(), Contexts::default()).run(fed, stopped),
    );
    Running { feed, stop, task, _client: client }
}

#[tokio::test]
async fn commit_status_goes_from_pending_to_final_and_older_commits_are_superseded() {
    let forge = Forge::start().await;
    let running = run(client(Provider::Gitea, &format!("http://{}", forge.address), &json!({})));
    running.feed.send_replace(Some(source_status(1, &[("edge-1", State::Pending)])));
    let seen = forge.wait_for(1).await;
    assert_eq!(seen[0].body["state"], "pending");
    assert_eq!(seen[0].body["description"], "0/1 cluster applied, 1 pending");
    running.feed.send_replace(Some(source_status(2, &[("edge-1", State::Progressing)])));
    let seen = forge.wait_for(3).await;
    assert!(seen[1].path.ends_with(&commit(2).to_string()), "the newest comes first");
    assert_eq!(seen[2].body["state"], "warning");
    assert_eq!(
        seen[2].body["description"],
        "superseded by 02020202; 0/1 cluster applied, 1 pending"
    );
    running.feed.send_replace(Some(source_status(2, &[("edge-1", State::Failed)])));
    let seen = forge.wait_for(4).await;
    assert_eq!(seen[3].body["state"], "failure");
    assert_eq!(seen[3].body["description"], "0/1 cluster applied, 1 failed: edge-1");
    running.stop.send_replace(true);
    running.task.await.unwrap();
    assert_eq!(forge.seen().len(), 4);
}

#[tokio::test]
async fn recovered_forge_gets_missed_statuses() {
    let forge = Forge::start().await;
    forge.answer_next(503, &[], "");
    let running = run(client(Provider::Gitea, &format!("http://{}", forge.address), &json!({})));
    running.feed.send_replace(Some(source_status(1, &[("edge-1", State::Pending)])));
    forge.wait_for(1).await;
    running.feed.send_replace(Some(source_status(1, &[("edge-1", State::Applied)])));
    let seen = forge.wait_for(2).await;
    assert_eq!(
        seen[1].body["state"], "success",
        "what was overtaken in the meantime is not written"
    );
    running.stop.send_replace(true);
    running.task.await.unwrap();
}

#[tokio::test]
async fn reporter_stops_with_the_engine() {
    let forge = Forge::start().await;
    let running = run(client(Provider::Gitea, &format!("http://{}", forge.address), &json!({})));
    drop(running.feed);
    running.task.await.unwrap();
    assert!(forge.seen().is_empty());
}

#[tokio::test]
async fn clusters_and_groups_have_separate_contexts() {
    let forge = Forge::start().await;
    let client = client(Provider::Gitea, &format!("http://{}", forge.address), &json!({}));
    let contexts = json!([
        { "clusters": ["edge-*"], "name": "edge" },
        { "clusters": ["prod-?"] },
    ]);
    let contexts = Contexts::new(&serde_json::from_value::<Vec<_>>(contexts).unwrap()).unwrap();
    let (feed, fed) = watch::channel(None);
    let (_stop, stopped) = watch::channel(false);
    tokio::spawn(CommitStatusReporter::new(client.forge.clone(), contexts).run(fed, stopped));
    feed.send_replace(Some(source_status(
        1,
        &[
            ("edge-1", State::Applied),
            ("edge-2", State::Failed),
            ("prod-1", State::Applied),
            ("prod-22", State::Applied),
        ],
    )));
    let mut reported: Vec<(String, String, String)> = forge
        .wait_for(3)
        .await
        .iter()
        .map(|seen| {
            let text = |field: &str| seen.body[field].as_str().unwrap().to_owned();
            (text("context"), text("state"), text("description"))
        })
        .collect();
    reported.sort();
    let reported: Vec<(&str, &str, &str)> =
        reported.iter().map(|(context, state, words)| (&**context, &**state, &**words)).collect();
    assert_eq!(
        reported,
        [
            ("gitwork", "failure", "3/4 clusters applied, 1 failed: edge-2"),
            ("gitwork/edge", "failure", "1/2 clusters applied, 1 failed: edge-2"),
            ("gitwork/prod-1", "success", "1/1 work applied"),
        ]
    );
    for bad in [
        json!([{ "clusters": [] }]),
        json!([{ "clusters": ["a["] }]),
        json!([{ "clusters": ["a"], "name": "a/b" }]),
        json!([{}]),
        json!([{ "clusters": ["a"], "groups": ["b"] }]),
        json!([{ "groups": ["b"], "name": "c" }]),
        json!([{ "groups": ["b["] }]),
    ] {
        let bad: Vec<ContextConfig> = serde_json::from_value(bad).unwrap();
        let why = Contexts::new(&bad).unwrap_err().to_string();
        assert!(why.starts_with("contexts[0]: "), "{why}");
    }
}

/// The works of a cluster that are of no group, or of another one, do not count.
#[test]
fn groups_have_contexts_that_count_their_works_on_their_clusters() {
    let work = |(cluster, path, state): (&str, &str, State)| {
        let cluster = ClusterName::parse(cluster).unwrap();
        let path = RepoPath::parse(path).unwrap();
        let key = WorkKey { cluster, work: WorkName::parse(path.name()).unwrap() };
        let state = fixture::work_state(state, StatusView::default());
        (key, WorkState { path: Some(path), ..state })
    };
    let works = [
        ("edge-1", "groups/stores/tills", State::Available),
        ("edge-1", "groups/everywhere/base", State::Failed),
        ("edge-2", "groups/stores/tills", State::Available),
        ("edge-2", "groups/stores/tills-db", State::Failed),
        ("edge-3", "clusters/edge-3/tills", State::Failed),
        ("edge-4", "groups/stores/tills", State::Pending),
    ];
    let mut status = fixture::source_status("fleet", works.map(work));
    status.unreachable.insert(ClusterName::parse("edge-4").unwrap());
    let contexts = Contexts::new(
        &serde_json::from_value::<Vec<_>>(json!([
            { "groups": ["st*", "stores"] },
            { "clusters": ["edge-3"], "name": "everywhere" },
            { "groups": ["*"] },
        ]))
        .unwrap(),
    );
    let (parts, _) = contexts.unwrap().of(&status, 140);
    let parts: Vec<(&str, &str)> =
        parts.iter().map(|(part, (_, line))| (part.as_str(), line.as_str())).collect();
    assert_eq!(
        parts,
        [
            ("everywhere", "0/1 cluster applied, 1 failed: edge-3"),
            ("stores", "1/3 clusters applied, 1 failed: edge-2, 1 unreachable: edge-4"),
        ]
    );
}

#[test]
fn contexts_are_limited_and_names_fit_the_forge() {
    let names: Vec<String> = (0..60).map(|n| format!("edge-{n:02}-{}", "x".repeat(40))).collect();
    let clusters: Vec<(&str, State)> =
        names.iter().map(|name| (name.as_str(), State::Applied)).collect();
    let all = Contexts::new(&[ContextConfig { clusters: vec!["*".into()], ..Default::default() }])
        .unwrap();
    let (parts, left_out) = all.of(&source_status(1, &clusters), 140);
    assert_eq!((parts.len(), left_out), (50, 10));
    let settings = TargetSettings { context: "gitwork", ..TargetSettings::default() };
    let target =
        ForgeTarget::new(Provider::BitbucketCloud, "https://bitbucket.org/acme/fleet", &settings)
            .unwrap();
    let contexts: BTreeSet<String> = parts
        .keys()
        .map(|part| {
            let mut status = super::server::status(CommitState::Success);
            status.part = Some(part.clone());
            target.context_of(&status)
        })
        .collect();
    assert_eq!(contexts.len(), 50, "they stay apart");
    assert!(contexts.iter().all(|name| name.chars().count() <= 40), "{contexts:?}");
}
