use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::forge::WebPages;
use gitwork_core::model::name::{CommitId, RepoPath, SourceId, WorkKey};

pub fn key(cluster: &str, work: &str) -> WorkKey {
    WorkKey { cluster: ClusterName::parse(cluster).unwrap(), work: WorkName::parse(work).unwrap() }
}

pub fn work(state: State) -> WorkState {
    WorkState {
        state,
        since: Timestamp::UNIX_EPOCH,
        why: None,
        code: None,
        uid: None,
        path: None,
        commit: None,
        view: Default::default(),
    }
}

pub fn status(works: Vec<(WorkKey, WorkState)>) -> SourceStatus {
    SourceStatus {
        source: SourceId::parse("fleet").unwrap(),
        commit: CommitId::parse(&"ab".repeat(20)),
        works: works.into_iter().collect(),
        unreachable: BTreeSet::new(),
        record_generation: 0,
        errors: 0,
        first_error: None,
        findings: Vec::new(),
        facts: None,
        held: Vec::new(),
        rollouts: Vec::new(),
    }
}

pub fn info() -> SourceInfo {
    let repository = "https://github.com/acme/fleet";
    let arguments = ["--repo", repository, "--source-id", "fleet"];
    SourceInfo {
        id: SourceId::parse("fleet").unwrap(),
        repository: repository.into(),
        reference: "branch main".into(),
        arguments: arguments.map(str::to_owned).to_vec(),
        pages: WebPages::of(None, repository),
    }
}

fn other(id: &str) -> SourceInfo {
    SourceInfo { id: SourceId::parse(id).unwrap(), ..info() }
}

fn read(change: ModelChange) -> Value {
    match change {
        ModelChange::Text(text) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn whole(model: &PageModel) -> Value {
    serde_json::from_str(&model.whole()).unwrap()
}

/// The cells by name, as a browser shows them.
fn cells(whole: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut found = BTreeMap::new();
    for (cluster, row) in whole["cells"].as_array().unwrap().iter().enumerate() {
        for pair in row.as_array().unwrap().chunks(2) {
            let column = &whole["columns"][pair[0].as_u64().unwrap() as usize];
            let state = &whole["states"][pair[1].as_u64().unwrap() as usize];
            let cluster = text(&whole["clusters"][cluster]);
            found.insert(format!("{cluster}/{}", text(&column[1])), text(state));
        }
    }
    found
}

#[test]
fn change_lists_only_differing_cells() {
    let mut model = PageModel::new(vec![info()]);
    assert_eq!(whole(&model)["line"], "nothing has been read yet");
    let (a, b) = (key("edge-1", "web"), key("edge-2", "web"));
    let first = status(vec![(a.clone(), work(State::Applied)), (b.clone(), work(State::Pending))]);
    let reported = read(model.set_status(0, &Arc::new(first.clone())));
    assert_eq!(reported["clusters"], json!(["edge-1", "edge-2"]));
    assert_eq!(reported["columns"], json!([[0, "web"]]));
    assert_eq!(reported["cells"], json!([[0, 0, 8], [1, 0, 5]]));
    assert_eq!(model.set_status(0, &Arc::new(first.clone())), ModelChange::Nothing);

    let mut next = first;
    next.works.insert(b.clone(), work(State::Failed));
    next.unreachable.insert(a.cluster.clone());
    let reported = read(model.set_status(0, &Arc::new(next.clone())));
    assert_eq!((&reported["cells"], &reported["lost"]), (&json!([[1, 0, 0]]), &json!([0])));
    assert_eq!((reported.get("clusters"), reported.get("columns")), (None, None));
    assert_eq!(reported["line"], "0/2 clusters applied, 1 failed: edge-2, 1 unreachable: edge-1");
    assert_eq!(reported["version"], model.version());

    next.works.remove(&a);
    let reported = read(model.set_status(0, &Arc::new(next)));
    assert_eq!(reported["cells"], json!([[0, 0, -1]]));
    assert_eq!(reported.get("lost"), None);
    assert_eq!(cells(&whole(&model)), [("edge-2/web".into(), "failed".into())].into());
}

#[test]
fn several_sources_have_columns_of_their_own_and_one_line() {
    let mut model = PageModel::new(vec![other("a"), other("b")]);
    let (one, two) = (key("edge-1", "web"), key("edge-1", "db"));
    let first = status(vec![(one, work(State::Applied))]);
    let reported = read(model.set_status(0, &Arc::new(first)));
    assert_eq!(reported["verdict"], "pending", "the other one is not known");
    let reported = read(model.set_status(1, &Arc::new(status(vec![(two, work(State::Failed))]))));
    assert_eq!(reported["columns"], json!([[1, "db"]]));
    assert_eq!(reported["line"], "0/1 cluster applied, 1 failed: edge-1");
    assert_eq!(reported["sources"][0][0], 1, "only the source that changed");
    assert_eq!(model.set_status(2, &Arc::new(status(vec![]))), ModelChange::Nothing);
}

#[test]
fn unreadable_source_shows_error_and_keeps_last_state() {
    let mut model = PageModel::new(vec![info()]);
    let first = status(vec![(key("edge-1", "web"), work(State::Applied))]);
    model.set_status(0, &Arc::new(first));
    let reported = read(model.set_source_error(0, Some("no route\u{1b}")));
    assert_eq!(reported["sources"][0][1]["trouble"], "no route\\u{1b}");
    assert_eq!((&reported["verdict"], reported.get("cells")), (&json!("failure"), None));
    assert_eq!(model.set_source_error(0, Some("no route\u{1b}")), ModelChange::Nothing);
    assert_eq!(read(model.set_source_error(0, None))["verdict"], "success");
    assert_eq!(cells(&whole(&model)).len(), 1);
}

#[test]
fn source_of_another_leader_is_marked() {
    let mut model = PageModel::new(vec![info()]);
    assert_eq!(whole(&model)["sources"][0]["leads"], true);
    let reported = read(model.set_leads(0, false));
    assert_eq!(reported["sources"][0][1]["leads"], false);
    assert_eq!(model.set_leads(0, false), ModelChange::Nothing);
    assert_eq!(model.set_leads(1, false), ModelChange::Nothing);
    assert_eq!(whole(&model)["sources"][0]["leads"], false);
}

#[test]
fn unused_numbers_are_dropped() {
    let mut model = PageModel::new(vec![info()]);
    let works = |from: usize| {
        let all = (from..from + 600).map(|n| (key(&format!("c-{n}"), "web"), work(State::Applied)));
        Arc::new(status(all.collect()))
    };
    for round in 0..3 {
        assert!(
            matches!(model.set_status(0, &works(600 * round)), ModelChange::Text(_)),
            "{round}"
        );
    }
    let before = model.version();
    let mut change = model.set_status(0, &works(600 * 3));
    if change != ModelChange::Whole {
        change = model.set_status(0, &works(600 * 4));
    }
    assert_eq!(change, ModelChange::Whole);
    assert!(model.version() > before);
    assert_eq!(model.clusters.len(), 600);
    assert_eq!(cells(&whole(&model)).len(), 600);
}

#[test]
fn ten_thousand_works_are_few_bytes_and_one_of_them_is_very_few() {
    let mut model = PageModel::new(vec![info()]);
    let mut all = BTreeMap::new();
    for cluster in 0..1_000 {
        for name in [
            "agents",
            "cert-manager",
            "dns",
            "ingress",
            "logs",
            "metrics",
            "mesh",
            "policies",
            "shop",
            "web",
        ] {
            all.insert(key(&format!("edge-{cluster:04}"), name), work(State::Available));
        }
    }
    let first = status(all.into_iter().collect());
    model.set_status(0, &Arc::new(first.clone()));
    let size = model.whole().len();
    assert!(size < 80_000, "the whole has {size} bytes");
    let mut next = first;
    next.works.insert(key("edge-0500", "web"), work(State::Failed));
    let ModelChange::Text(change) = model.set_status(0, &Arc::new(next)) else {
        panic!("a change")
    };
    assert!(change.len() < 700, "one changed work has {} bytes: {change}", change.len());
}

#[test]
fn clusters_with_works_of_groups_alone_have_these_groups() {
    let of_group = |state, group: &str| WorkState {
        path: RepoPath::parse(&format!("groups/{group}/web")),
        ..work(state)
    };
    let (a, b) = (key("edge-1", "web"), key("edge-2", "web"));
    let mut model = PageModel::new(vec![info()]);
    let mut now = status(vec![
        (a.clone(), of_group(State::Applied, "stores")),
        (b.clone(), of_group(State::Applied, "stores")),
        (key("edge-1", "dns"), of_group(State::Applied, "base")),
    ]);
    let reported = read(model.set_status(0, &Arc::new(now.clone())));
    assert_eq!(reported["groups"], json!(["base, stores", "stores"]));
    assert_eq!(reported["groupsOf"], json!([[0, 0], [1, 1]]));
    // A state alone changes no groups.
    now.works.insert(a.clone(), of_group(State::Failed, "stores"));
    let reported = read(model.set_status(0, &Arc::new(now.clone())));
    assert_eq!((reported.get("groups"), reported.get("groupsOf")), (None, None));
    // A work of its own does.
    now.works.insert(key("edge-2", "own"), work(State::Applied));
    let reported = read(model.set_status(0, &Arc::new(now.clone())));
    assert_eq!(reported["groupsOf"], json!([[1, -1]]));
    assert_eq!(whole(&model)["groupsOf"], json!([0, -1]));
    assert_eq!(whole(&model)["groups"], json!(["base, stores", "stores"]));
}
