//! A long story of one source, and the state at its end without what differs from run to run.

use std::path::Path;

use gitwork_core::model::name::CommitId;
use gitwork_core::model::work::LABEL_SOURCE;
use gitwork_core::plan::observed::ObservedWork;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, interval};

use super::fleet::{is_applied, value_of, works_of};
use super::world::{DEADLINE, World};
use crate::harness::fault_proxy::Call;
use crate::sync::fixture::config_map;

const ORPHAN: &str = "deleteOption: {propagationPolicy: Orphan}\n";
const BRANCH: &str = "gitwork-status";

/// The deletions that Git and the operator ask for: the work, when, and with which option.
const DELETIONS: [(&str, usize, &str); 6] = [
    ("a/old", 2, "Orphan"),
    ("a/stay", 2, "SelectivelyOrphan"),
    ("a/blue", 2, "Foreground"),
    ("b/cache", 2, "Foreground"),
    ("c/one", 4, "Foreground"),
    ("c/two", 4, "Foreground"),
];

/// Works of nobody or of others, as they were made.
const FOREIGN: [&str; 2] = ["a/foreign", "c/foreign"];

/// What came of one run.
pub struct Story {
    pub end: String,
    pub calls: Vec<Call>,
    pub starts: usize,
}

/// Files of works, by key and name: `a/web/cm.yaml`.
fn commit(world: &World, files: &[(&str, Option<&str>)]) -> CommitId {
    let path = |file: &str| {
        let (letter, rest) = file.split_once('/').unwrap();
        format!("clusters/{}/{rest}", world.cluster(letter))
    };
    let files: Vec<(String, Option<&str>)> =
        files.iter().map(|(file, text)| (path(file), *text)).collect();
    let files: Vec<(&str, Option<&str>)> =
        files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    world.sync.repo.commit("main", &files)
}

/// Waits until these works have these values and their agents have applied them, and those are
/// gone.
async fn until(world: &World, there: &[(&str, &str)], gone: &[&str]) {
    let what = format!("{there:?}, and without {gone:?}");
    let source = world.sync.id.as_str();
    world
        .until(&what, |works| {
            for (key, value) in there {
                let work = works.get(*key).ok_or_else(|| format!("{key} is not there"))?;
                let is_ours = work["metadata"]["labels"][LABEL_SOURCE] == source;
                if !is_ours || value_of(work) != *value || !is_applied(work) {
                    return Err(format!("{key} is {work}"));
                }
            }
            let left = gone.iter().find(|key| works.contains_key(**key));
            left.map_or(Ok(()), |key| Err(format!("{key} is there: {}", works[*key])))
        })
        .await;
}

#[track_caller]
fn is_there(world: &World, key: &str, value: &str) {
    let works = world.works();
    let work = works.get(key).unwrap_or_else(|| panic!("{key} is gone"));
    assert!(work["metadata"]["deletionTimestamp"].is_null(), "{key} goes");
    assert_eq!(value_of(work), value, "{key}");
}

/// Creates a ManifestWork as another client.
async fn make_foreign(world: &World, key: &str) -> Value {
    let (letter, name) = key.split_once('/').unwrap();
    let api = works_of(world.sync.hub.client(), world.cluster(letter));
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": { "name": name, "labels": {"team": "others"},
            "annotations": {"example.com/by": "hand"} },
        "spec": { "workload": { "manifests": [] } },
    });
    let work = serde_json::from_value(work).unwrap();
    serde_json::to_value(api.create(&PostParams::default(), &work).await.unwrap()).unwrap()
}

/// Runs the scenario to its end, independent of the program's state.
/// `expected` is the end of a run that nothing has disturbed.
pub async fn tell(world: &World, expected: Option<&str>) -> Story {
    let foreign = [make_foreign(world, FOREIGN[0]).await, make_foreign(world, FOREIGN[1]).await];
    make_foreign(world, "a/taken").await;
    world.proxy.set_phase(1);
    let first = create(world).await;
    world.proxy.set_phase(2);
    let second = change(world).await;
    world.proxy.set_phase(3);
    let third = hold_deletions(world).await;
    world.proxy.set_phase(4);
    let budget = world.until_held("budget").await;
    world.say_of_repo(&["approve", &budget]).await;
    world.say(&["resume", &world.on_hub("b/web")]).await;
    until(world, &[("b/web", "three")], &["c/one", "c/two"]).await;
    world.proxy.set_phase(5);
    let fourth = rewind(world, second[1]).await;

    let commits = [vec![first], second, vec![third, fourth]].concat();
    let end = at_rest(world, &commits, expected).await;
    let (works, calls) = (world.works(), world.proxy.calls());
    for (key, before) in FOREIGN.iter().zip(&foreign) {
        assert_eq!(works[*key], *before, "{key} is nobody's to touch");
    }
    check_requests(&calls);
    Story { end, calls, starts: world.starts().await }
}

/// Works of all kinds, one of which has a name that is taken until its owner consents.
async fn create(world: &World) -> CommitId {
    let maps = ["web", "db", "old", "keep", "stay", "colour", "taken", "cache", "one", "two"];
    let text = maps.map(|name| config_map(name, "one"));
    let [web, db, old, keep, stay, colour, taken, cache, one, two] =
        text.each_ref().map(|t| Some(t.as_str()));
    let files = [
        ("a/web/cm.yaml", web),
        ("a/db/cm.yaml", db),
        ("a/old/cm.yaml", old),
        ("a/keep/cm.yaml", keep),
        ("a/keep/work.yaml", Some("prune: false\nlabels: {team: shop}\n")),
        ("a/stay/cm.yaml", stay),
        ("a/stay/cm.config.yaml", Some("orphan: true\n")),
        ("a/blue/cm.yaml", colour),
        ("a/taken/cm.yaml", taken),
        ("b/web/cm.yaml", web),
        ("b/cache/cm.yaml", cache),
        ("c/one/cm.yaml", one),
        ("c/two/cm.yaml", two),
    ];
    let first = commit(world, &files);
    world.start().await;
    let all = [
        "a/web", "a/db", "a/old", "a/keep", "a/stay", "a/blue", "b/web", "b/cache", "c/one",
        "c/two",
    ];
    until(world, &all.map(|key| (key, "one")), &[]).await;
    assert_eq!(world.works()["a/taken"]["metadata"]["labels"], json!({"team": "others"}));
    world.say_of_repo(&["adopt", &world.on_hub("a/taken"), "--yes"]).await;
    until(world, &[("a/taken", "one")], &[]).await;
    first
}

/// An update, four ways to go, a move to another cluster and one to another name.
async fn change(world: &World) -> Vec<CommitId> {
    let (web, colour) = (config_map("web", "two"), config_map("colour", "two"));
    let cache = config_map("cache", "two");
    let option = commit(world, &[("a/old/work.yaml", Some(ORPHAN))]);
    let all = commit(
        world,
        &[
            ("a/web/cm.yaml", Some(&web)),
            ("a/old", None),
            ("a/keep", None),
            ("a/stay", None),
            ("a/blue", None),
            ("a/green/cm.yaml", Some(&colour)),
            ("b/cache", None),
            ("a/cache/cm.yaml", Some(&cache)),
        ],
    );
    world.hint().await;
    let there = [("a/web", "two"), ("a/green", "two"), ("a/cache", "two")];
    until(world, &there, &["a/old", "a/stay", "a/blue", "b/cache"]).await;
    let released = |works: &super::fleet::Works| {
        let labels = &works.get("a/keep").ok_or("it is gone")?["metadata"]["labels"];
        if labels[LABEL_SOURCE].is_null() { Ok(()) } else { Err(labels.to_string()) }
    };
    world.until("a/keep to be let go", released).await;
    is_there(world, "a/keep", "one");
    vec![option, all]
}

/// A commit that removes too much and changes what is suspended.
async fn hold_deletions(world: &World) -> CommitId {
    let (web, db) = (config_map("web", "three"), config_map("db", "three"));
    world.say(&["suspend", &world.on_hub("b/web"), "--reason", "a broken node"]).await;
    let files = [
        ("b/web/cm.yaml", Some(web.as_str())),
        ("a/db/cm.yaml", Some(db.as_str())),
        ("c/one", None),
        ("c/two", None),
    ];
    let third = commit(world, &files);
    world.say(&["reconcile"]).await;
    until(world, &[("a/db", "three")], &[]).await;
    is_there(world, "b/web", "one");
    is_there(world, "c/one", "one");
    is_there(world, "c/two", "one");
    third
}

/// The branch is forced back to an older commit, with one on top of it.
async fn rewind(world: &World, to: CommitId) -> CommitId {
    world.sync.repo.set_branch("main", to);
    let web = config_map("web", "five");
    let fourth = commit(world, &[("a/web/cm.yaml", Some(&web))]);
    world.hint().await;
    let hash = world.until_held("rewind").await;
    is_there(world, "a/web", "two");
    is_there(world, "b/web", "three");
    world.say_of_repo(&["approve", &hash]).await;
    let back = [("a/db", "one"), ("b/web", "one"), ("c/one", "one"), ("c/two", "one")];
    until(world, &[&back[..], &[("a/web", "five")]].concat(), &[]).await;
    fourth
}

/// The state once it is as expected, or where nothing is expected, once the status says that all is
/// done.
async fn at_rest(world: &World, commits: &[CommitId], expected: Option<&str>) -> String {
    let deadline = Instant::now() + DEADLINE;
    let mut look = interval(std::time::Duration::from_millis(500));
    loop {
        look.tick().await;
        let end = state(world, commits).await;
        let is_done = match expected {
            Some(expected) => end == expected,
            None => {
                end.contains("\"state\": \"success\"")
                    && end.contains("\"commitStatus\": \"success\"")
            }
        };
        if is_done || Instant::now() > deadline {
            return end;
        }
    }
}

async fn state(world: &World, commits: &[CommitId]) -> String {
    let (hub, id) = (world.sync.hub.client(), &world.sync.id);
    let works: serde_json::Map<String, Value> =
        world.works().into_iter().map(|(key, work)| (key, work_state(work))).collect();
    let name = format!("gitwork-source-{id}");
    let leases: Api<Lease> = Api::namespaced(hub.clone(), "gitwork");
    let record = leases.get(&name).await.unwrap().annotations()["gitwork.dev/record"].clone();
    let maps: Api<ConfigMap> = Api::namespaced(hub, "gitwork");
    let said = maps.get(&name).await.unwrap().data.unwrap_or_default();
    // Who said it and when stands in comments, and a wish for a sync is a time.
    let said = said.into_iter().filter(|(key, _)| key != "reconcile").map(|(key, text)| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        (key, lines.map(Value::from).collect::<Value>())
    });
    // In the order of what they say: their names are hashes of uids.
    let mut said: Vec<Value> = said.map(|(_, lines)| lines).collect();
    said.sort_by_key(Value::to_string);
    let statuses = world.forge.seen();
    let head = commits.last().unwrap().to_string();
    let status = statuses.iter().rev().find(|seen| seen.path.contains(&head));
    let state = json!({
        "works": works,
        "record": serde_json::from_str::<Value>(&record).unwrap(),
        "said": said,
        "statusBranch": branch(world),
        "commitStatus": status.map(|seen| seen.body["state"].clone()),
    });
    normal(world, commits, &serde_json::to_string_pretty(&state).unwrap())
}

/// What a work is, and that it is what gitwork wrote.
fn work_state(work: Value) -> Value {
    let metadata = &work["metadata"];
    let state = json!({
        "labels": metadata["labels"], "annotations": metadata["annotations"],
        "finalizers": metadata["finalizers"], "deleting": !metadata["deletionTimestamp"].is_null(),
        "spec": work["spec"],
    });
    if let Ok(observed) = ObservedWork::from_manifest_work(work)
        && observed.source.is_some()
    {
        assert_eq!(observed.written, Some(observed.digest), "{state}");
    }
    state
}

/// The files of the status branch.
fn branch(world: &World) -> Value {
    let repo = world.sync.repo.git2();
    let mut files = serde_json::Map::new();
    let Ok(tip) = repo.find_reference(&format!("refs/heads/{BRANCH}")) else { return json!(null) };
    let tree = tip.peel_to_tree().unwrap();
    tree.walk(git2::TreeWalkMode::PreOrder, |folder, entry| {
        if let Ok(blob) = repo.find_blob(entry.id()) {
            let path = Path::new(folder).join(entry.name().unwrap_or_default());
            let text = String::from_utf8_lossy(blob.content());
            let content = serde_json::from_str(&text)
                .unwrap_or_else(|_| text.lines().map(Value::from).collect());
            files.insert(path.display().to_string(), content);
        }
        git2::TreeWalkResult::Ok
    })
    .unwrap();
    files.into()
}

/// The text with names for what is called otherwise in each run: clusters, commits, digests and
/// uids.
fn normal(world: &World, commits: &[CommitId], text: &str) -> String {
    let text = text.replace(world.sync.id.as_str(), "<source>");
    let text = text.replace(world.git_host(), "<git>");
    let commits: Vec<String> = commits.iter().map(CommitId::to_string).collect();
    let mut normal = String::new();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut rest = text.as_str();
    while let Some(start) = rest.find(is_word) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c| !is_word(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        normal.push_str(before);
        let is_hex = word.chars().all(|c| c.is_ascii_hexdigit());
        let commit = commits.iter().position(|id| word.len() >= 7 && id.starts_with(word));
        let cluster = world.sync.clusters.iter().position(|cluster| cluster == word);
        match (commit, cluster) {
            (Some(number), _) => normal.push_str(&format!("<commit {number}>")),
            (_, Some(number)) => normal.push_str(super::fleet::LETTERS[number]),
            _ if is_hex && word.len() == 64 => normal.push_str("<digest>"),
            _ if word.len() == 36 && word.matches('-').count() == 4 => normal.push_str("<uid>"),
            _ => normal.push_str(word),
        }
        rest = after;
    }
    normal + rest
}

/// No request of the program was a deletion that was not asked for, or a write to what belongs to
/// others.
fn check_requests(calls: &[Call]) {
    for call in calls {
        let name = &call.target.name;
        if let Some(key) = name.strip_prefix("DELETE work ") {
            // One that was held up, and comes once its work has gone, does nothing any more.
            let is_late = |phase| phase < call.phase && call.before.is_none();
            let asked = DELETIONS.iter().find(|(deleted, phase, _)| {
                *deleted == key && (*phase == call.phase || is_late(*phase))
            });
            let (_, _, option) = asked.unwrap_or_else(|| panic!("nobody asked for {call:?}"));
            if let Some(before) = &call.before {
                let policy = &before["spec"]["deleteOption"]["propagationPolicy"];
                let policy = policy.as_str().unwrap_or("Foreground");
                assert_eq!(policy, *option, "{call:?}");
                let is_deleting = !before["metadata"]["deletionTimestamp"].is_null();
                assert!(is_deleting || is_applied(before), "its agent has not seen it: {call:?}");
            }
        }
        let is_read = call.method == http::Method::GET;
        let is_foreign = FOREIGN.iter().any(|key| name.ends_with(&format!("work {key}")));
        assert!(is_read || !is_foreign, "{call:?}");
    }
}
