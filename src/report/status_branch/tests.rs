use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::status::State;
use crate::status::view::StatusView;
use gitwork_core::model::facts::{FactNeeds, Facts};
use gitwork_core::model::name::{CommitId, SourceId, WorkName};

fn key(cluster: &str, work: &str) -> WorkKey {
    let cluster = ClusterName::parse(cluster).unwrap();
    WorkKey { cluster, work: WorkName::parse(work).unwrap() }
}

fn work(state: State, why: Option<&str>) -> WorkState {
    WorkState {
        state,
        since: Timestamp::from_second(1_800_000_000).unwrap(),
        why: why.map(Into::into),
        code: None,
        uid: None,
        path: None,
        commit: None,
        view: Default::default(),
    }
}

fn status(works: &[(&str, &str, State)]) -> SourceStatus {
    SourceStatus {
        source: SourceId::parse("fleet").unwrap(),
        commit: CommitId::parse(&"ab".repeat(20)),
        works: works.iter().map(|(c, w, state)| (key(c, w), work(*state, None))).collect(),
        unreachable: BTreeSet::new(),
        record_generation: 0,
        errors: 0,
        first_error: None,
        held: Vec::new(),
        rollouts: Vec::new(),
        findings: Vec::new(),
        facts: None,
    }
}

fn file_changes(before: Option<&SourceStatus>, now: &SourceStatus) -> Vec<FileChange> {
    super::file_changes(before, now).collect()
}

fn paths(file_changes: &[FileChange]) -> Vec<&str> {
    file_changes.iter().map(|change| change.path.as_str()).collect()
}

fn content<'a>(file_changes: &'a [FileChange], path: &str) -> &'a str {
    let change = file_changes.iter().find(|change| change.path.as_str() == path).unwrap();
    change.content.as_deref().unwrap()
}

#[test]
fn a_change_touches_its_own_path_and_the_pages_above_it() {
    let before = status(&[
        ("a", "db", State::Applied),
        ("a", "web", State::Pending),
        ("b", "web", State::Applied),
    ]);
    let all = [
        "clusters/a/db.yaml",
        "clusters/a/web.yaml",
        "clusters/b/web.yaml",
        "clusters/a.md",
        "clusters/b.md",
        "README.md",
        "summary.json",
    ];
    assert_eq!(paths(&file_changes(None, &before)), all);
    assert_eq!(file_changes(Some(&before), &before), []);
    let mut now = before.clone();
    now.works.insert(key("a", "web"), work(State::Available, None));
    let changed = file_changes(Some(&before), &now);
    assert_eq!(
        paths(&changed),
        ["clusters/a/web.yaml", "clusters/a.md", "README.md", "summary.json"]
    );
    now = before.clone();
    now.works.remove(&key("b", "web"));
    let changed = file_changes(Some(&before), &now);
    assert_eq!(
        paths(&changed),
        ["clusters/b/web.yaml", "clusters/b.md", "README.md", "summary.json"]
    );
    assert!(changed[0].content.is_none() && changed[1].content.is_none());
    now = before.clone();
    now.unreachable.insert(ClusterName::parse("b").unwrap());
    let changed = file_changes(Some(&before), &now);
    assert_eq!(
        paths(&changed),
        ["clusters/b/web.yaml", "clusters/b.md", "README.md", "summary.json"]
    );
    now = before.clone();
    now.commit = CommitId::parse(&"cd".repeat(20));
    assert_eq!(paths(&file_changes(Some(&before), &now)), ["README.md", "summary.json"]);
}

#[test]
fn works_between_which_objects_move_have_state_and_reason() {
    let waits = "configmaps/data in namespace shop moves from shop to shop2; shop keeps it until \
                 shop2 has applied it";
    let held = "held: configmaps/data in namespace shop moves from shop to shop2: shop2: suspended";
    let mut now = status(&[("a", "shop2", State::Applied)]);
    now.works.insert(key("a", "shop"), work(State::Pending, Some(waits)));
    now.works.insert(key("b", "shop"), work(State::Held, Some(held)));
    let all = file_changes(None, &now);
    assert!(content(&all, "clusters/a/shop.yaml").contains(waits), "{all:?}");
    let page = content(&all, "clusters/a.md");
    assert!(page.contains("| pending |") && page.contains("moves from shop to shop2"), "{page}");
    let summary: serde_json::Value = serde_json::from_str(content(&all, "summary.json")).unwrap();
    assert_eq!(summary["state"], "pending");
    let problems = summary["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0]["message"], held);
}

#[test]
fn facts_are_published_when_they_change() {
    let facts = |label: &str| {
        let text = format!(
            r#"{{"time": "2026-11-20T10:00:00Z", "managedClusters": {{
                "a": {{"labels": {{"tier": "{label}", "other": "x"}}, "version": "v1.31.2"}}
            }}}}"#
        );
        let needs = FactNeeds { labels: ["tier".into()].into(), ..FactNeeds::default() };
        Facts::read(text.as_bytes()).unwrap().reduced(&needs)
    };
    let of = |label| SourceStatus { facts: Some(Arc::new(facts(label))), ..status(&[]) };
    let (before, now) = (of("edge"), of("store"));
    let all = file_changes(None, &before);
    let published = content(&all, "facts.json");
    assert_eq!(Facts::read(published.as_bytes()).unwrap(), facts("edge"));
    assert!(!published.contains("other") && !published.contains("time"), "{published}");
    assert!(!paths(&file_changes(Some(&before), &of("edge"))).contains(&"facts.json"));
    assert!(content(&file_changes(Some(&before), &now), "facts.json").contains("store"));
    let gone = file_changes(Some(&now), &status(&[]));
    let file = gone.iter().find(|change| change.path.as_str() == "facts.json").unwrap();
    assert_eq!(file.content, None);
}

#[test]
fn table_lists_unhealthy_clusters_first() {
    let now = status(&[
        ("a", "db", State::Applied),
        ("a", "web", State::Available),
        ("b", "web", State::Failed),
    ]);
    let changed = file_changes(None, &now);
    let readme = content(&changed, "README.md");
    let table: Vec<&str> = readme.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(
        table,
        [
            "| cluster | db | web |",
            "|---|---|---|",
            "| [b](clusters/b.md) |  | failed |",
            "| [a](clusters/a.md) | ✓ | ✓ |",
        ]
    );
    assert!(readme.contains("1&#47;2 clusters applied, 1 failed&#58; b"), "{readme}");
}

#[test]
fn many_works_are_listed_instead_of_tabulated() {
    let names: Vec<String> = (0..50).map(|n| format!("w{n:02}")).collect();
    let works: Vec<(&str, &str, State)> =
        names.iter().map(|name| ("a", name.as_str(), State::Held)).collect();
    let changed = file_changes(None, &status(&works));
    let readme = content(&changed, "README.md");
    assert!(readme.contains("| [a](clusters/a.md) | 0/50 | w00: held, "), "{readme}");
    assert!(readme.contains("and 38 more |"), "{readme}");
}

#[test]
fn hostile_texts_are_escaped_in_every_file() {
    let hostile = "</td><script>alert(1)</script> [x](javascript:y) ![i](http://e/i.png) \
                   `|` **b** @all https://evil.example www.evil.example\n# head\r\n\
                   \u{1b}[31m\u{202e}\u{0}---\n- a: b";
    let long = hostile.repeat(1_000);
    let conditions =
        json!([{ "type": "Applied", "status": "False", "observedGeneration": 1, "message": long }]);
    let values = json!([{ "name": long, "fieldValue": { "string": long } }]);
    let agent = json!({ "conditions": conditions, "resourceStatus": { "manifests": [
        { "resourceMeta": { "kind": hostile, "name": "x" }, "conditions": conditions,
          "statusFeedback": { "values": values } },
    ]}});
    let mut now = status(&[("b", "web", State::Pending)]);
    let view = StatusView::of(&agent, 1, 1);
    assert_eq!(view.state, State::Failed);
    now.works.insert(key("a", "web"), WorkState { view: view.into(), ..work(State::Failed, None) });
    now.works.insert(key("b", "web"), work(State::Held, Some(&long)));
    now.errors = 1;
    now.first_error = Some(long.clone());
    for FileChange { path, content } in file_changes(None, &now) {
        let text = content.unwrap();
        let dangerous = |c: char| c != '\n' && gitwork_yaml::is_dangerous(c);
        assert!(!text.chars().any(dangerous), "{path}");
        assert!(text.len() < 20_000, "{path} has {} bytes", text.len());
        if path.name().ends_with(".md") {
            for word in [
                "<",
                "javascript:",
                "![",
                "**",
                "@all",
                "https://evil",
                "www.evil",
                "\n# head",
                "`|`",
            ] {
                assert!(!text.contains(word), "{path} has {word:?}: {text}");
            }
            let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
            let columns = |row: &str| row.matches('|').count();
            assert!(rows.iter().all(|row| columns(row) == columns(rows[0])), "{path}: {text}");
        } else if path.name().ends_with(".yaml") {
            let read: serde_json::Value = serde_yaml::from_str(&text).unwrap();
            assert_eq!(read["work"], "web");
        } else {
            let read: StatusSummary = serde_json::from_str(&text).unwrap();
            assert_eq!(read.problems.len(), 2);
        }
    }
}

#[test]
fn many_clusters_of_a_group_in_the_same_state_share_a_row() {
    let of_group =
        |state| WorkState { path: RepoPath::parse("groups/stores/web"), ..work(state, None) };
    let mut now = status(&[("own", "web", State::Applied)]);
    for number in 0..9 {
        let state = if number == 7 { State::Failed } else { State::Applied };
        now.works.insert(key(&format!("edge-{number}"), "web"), of_group(state));
    }
    let all = file_changes(None, &now);
    let (_, table) = content(&all, "README.md").split_once("| cluster |").unwrap();
    assert_eq!(
        table,
        " web |\n|---|---|\n\
         | [edge-7](clusters/edge-7.md) | failed |\n\
         | [8 clusters](clusters) of stores | ✓ |\n\
         | [own](clusters/own.md) | ✓ |\n"
    );
    assert!(content(&all, "clusters/edge-3.md").contains("web"), "each one has its page");
}
