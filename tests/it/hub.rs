//! The hub on a real kube-apiserver, with faults in between.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use gitwork_core::model::name::{ClusterName, RepoPath, SourceId, WorkKey, WorkName};
use gitwork_core::model::operation_error::describe;
use gitwork_core::model::work::WorkBody;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_core::plan::request::{Request, request};
use gitwork_core::plan::{Effect, MetadataChange};
use gitwork_hub::execute::{ExecuteOptions, Outcome, Task, execute};
use gitwork_hub::fleet::{self, FleetError, FleetList, Selection, fleet};
use gitwork_hub::limits;
use gitwork_hub::{Hub, HubError, HubEvent, KubeHub, client};
use gitwork_report::status::live::ViewEvent;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::harness::faults::{Fault, Faults, Seen};
use crate::harness::{self, Cluster, ClusterOptions, ControlPlane, crds, eventually};

/// Far beyond what anything here takes on an idle machine.
const DEADLINE: Duration = Duration::from_secs(300);

fn faulty(cluster: &Cluster, faults: &Faults) -> KubeHub {
    KubeHub::new(client::client_with(cluster.config(), faults).unwrap())
}

fn source(name: &str) -> SourceId {
    SourceId::parse(name).unwrap()
}

fn key(cluster: &str, work: &str) -> WorkKey {
    let cluster = ClusterName::parse(cluster).unwrap();
    WorkKey { cluster, work: WorkName::parse(work).unwrap() }
}

fn body_of(source: &SourceId, manifest: &Value) -> Arc<WorkBody> {
    let spec = json!({"workload": {"manifests": [manifest]}});
    let path = RepoPath::parse("clusters/a/web").unwrap();
    Arc::new(WorkBody::new(source, &path, spec, BTreeMap::new(), BTreeMap::new(), true))
}

/// A work of one ConfigMap.
fn body(source: &SourceId, text: &str) -> Arc<WorkBody> {
    let manifest = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "a"}, "data": {"text": text},
    });
    body_of(source, &manifest)
}

fn create(key: &WorkKey, body: &Arc<WorkBody>) -> Task {
    Task { key: key.clone(), effect: Effect::Create { body: body.clone() }, commit: None }
}

async fn run(hub: &KubeHub, tasks: Vec<Task>) -> Vec<Outcome> {
    let stop = watch::channel(false).1;
    execute(Arc::new(hub.clone()), tasks, ExecuteOptions::default(), stop).collect().await
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_ahead_do_not_wait_for_each_other() {
    let faults = Faults::none();
    let is_version = |seen: &Seen| seen.path == "/version";
    faults.next(usize::MAX, Fault::HoldAnswer, is_version);
    let hub = faulty(harness::hub().await, &faults);
    let ahead = tokio::spawn(async move { hub.connect_ahead().await });
    let all_wait = async || match faults.count(is_version) {
        limits::HUB_IN_FLIGHT => Ok(()),
        count => Err(format!("{count} requests")),
    };
    eventually("a request over each connection", DEADLINE, all_wait).await.unwrap();
    faults.release();
    ahead.await.unwrap();
}

/// The next event; none for `DEADLINE` is a failure.
async fn next(events: &mut BoxStream<'static, HubEvent>) -> HubEvent {
    let event = tokio::time::timeout(DEADLINE, events.next()).await;
    event.expect("an event before the deadline").expect("a watch goes on for ever")
}

async fn until(
    events: &mut BoxStream<'static, HubEvent>,
    wanted: impl Fn(&HubEvent) -> bool,
) -> HubEvent {
    loop {
        let event = next(events).await;
        if wanted(&event) {
            return event;
        }
    }
}

/// Creates so many works, whose names are sorted.
async fn create_many(
    hub: &KubeHub,
    namespace: &str,
    source: &SourceId,
    count: usize,
) -> Vec<WorkKey> {
    let body = body(source, "x");
    let keys: Vec<WorkKey> = (0..count).map(|n| key(namespace, &format!("w{n:04}"))).collect();
    let outcomes = run(hub, keys.iter().map(|key| create(key, &body)).collect()).await;
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
    keys
}

fn is_listed(event: &HubEvent) -> bool {
    matches!(event, HubEvent::Listed(_))
}

#[tokio::test]
async fn response_to_a_creation_need_not_be_parsed_whole() {
    let cluster = harness::hub().await;
    let namespace = cluster.namespace("created").await;
    let (key, body) = (key(&namespace, "web"), body(&source("created"), "one"));
    let effect = Effect::Create { body: body.clone() };
    let Request::Create(object) = request(&key, &effect, None) else { panic!("no create") };
    let works = format!("namespaces/{namespace}/manifestworks?fieldManager=gitwork");
    let request = http::Request::post(format!("/apis/work.open-cluster-management.io/v1/{works}"))
        .header("Content-Type", "application/json")
        .body(object.text().into_bytes());
    let text = cluster.client().request_text(request.unwrap()).await.unwrap();
    let whole = ObservedWork::from_manifest_work(serde_json::from_str(&text).unwrap()).unwrap();
    assert!(whole.written_at.is_some());
    assert_eq!(ObservedWork::from_created(text.as_bytes(), &key, &body), Some(whole));
}

#[tokio::test]
async fn write_with_a_lost_response_happens_once() {
    let cluster = harness::hub().await;
    let namespace = cluster.namespace("lost").await;
    let (key, source) = (key(&namespace, "web"), source("lost-answers"));
    let faults = Faults::none();
    let hub = faulty(cluster, &faults);
    let (one, two) = (body(&source, "one"), body(&source, "two"));

    faults.next(1, Fault::LoseAnswer, |seen| seen.method == http::Method::POST);
    let outcomes = run(&hub, vec![create(&key, &one)]).await;
    let created = outcomes[0].result.clone().unwrap().unwrap();
    assert_eq!((outcomes[0].attempts, created.digest), (2, one.digest));

    faults.next(1, Fault::LoseAnswer, |seen| seen.method == http::Method::PATCH);
    let (resource_version, metadata) = (created.resource_version, MetadataChange::default());
    let effect = Effect::Update { body: two.clone(), resource_version, metadata: metadata.into() };
    let outcomes = run(&hub, vec![Task { key: key.clone(), effect, commit: None }]).await;
    let updated = outcomes[0].result.clone().unwrap().unwrap();
    assert_eq!((outcomes[0].attempts, updated.digest, updated.generation), (2, two.digest, 2));

    faults.next(1, Fault::LoseAnswer, |seen| seen.method == http::Method::DELETE);
    let (uid, resource_version) = (updated.uid, updated.resource_version);
    let effect = Effect::Delete { uid, resource_version };
    let outcomes = run(&hub, vec![Task { key: key.clone(), effect, commit: None }]).await;
    assert_eq!((outcomes[0].attempts, &outcomes[0].result), (2, &Ok(None)));
    assert_eq!(hub.get(&key).await, Ok(None));
    assert_eq!(faults.count(|seen| seen.fault.is_some()), 3);
}

/// What is to be done so that each of `keys` is there with `body`, or gone with `None`.
async fn tasks(
    hub: &KubeHub,
    source: &SourceId,
    keys: &[WorkKey],
    wanted: Option<&Arc<WorkBody>>,
) -> Option<Vec<Task>> {
    let there = hub.list(Some(source)).await.ok()?;
    let there: BTreeMap<&WorkKey, _> = there.iter().map(|work| (&work.key, work)).collect();
    let effect = |key: &WorkKey| match (there.get(key), wanted) {
        (None, Some(body)) => Some(Effect::Create { body: body.clone() }),
        (Some(work), Some(body)) if work.digest != body.digest => Some(Effect::Update {
            body: body.clone(),
            resource_version: work.resource_version.clone(),
            metadata: Box::default(),
        }),
        (Some(work), None) => Some(Effect::Delete {
            uid: work.uid.clone(),
            resource_version: work.resource_version.clone(),
        }),
        _ => None,
    };
    let task = |key: &WorkKey| Some(Task { key: key.clone(), effect: effect(key)?, commit: None });
    Some(keys.iter().filter_map(task).collect())
}

#[tokio::test]
async fn passes_converge_through_every_fault() {
    let cluster = harness::hub().await;
    let source = source("passes");
    let mut keys = Vec::new();
    for _ in 0..4 {
        let namespace = cluster.namespace("passes").await;
        keys.extend((0..6).map(|n| key(&namespace, &format!("web-{n}"))));
    }
    keys.sort();
    let answer = |code| Fault::Answer { code, retry_after_seconds: None };
    let all = [
        Fault::LoseRequest,
        Fault::LoseAnswer,
        answer(409),
        answer(500),
        answer(503),
        Fault::Answer { code: 429, retry_after_seconds: Some(1) },
    ];
    // A failing run prints its seed, and `SEED` repeats it.
    let seed = match std::env::var("SEED") {
        Ok(text) => text.parse().expect("SEED is a number"),
        Err(_) => fastrand::u64(..),
    };
    let (one, two) = (body(&source, "one"), body(&source, "two"));
    for (step, wanted) in [Some(&one), Some(&two), None].into_iter().enumerate() {
        let faults = Faults::none();
        faults.next(2, Fault::LoseAnswer, |seen| seen.method != http::Method::GET);
        faults.seed(seed.wrapping_add(step as u64), 25, &all);
        let hub = faulty(cluster, &faults);
        let mut passes = 0;
        loop {
            passes += 1;
            assert!(passes < 50, "seed {seed}: no end in sight");
            match tasks(&hub, &source, &keys, wanted).await {
                Some(tasks) if tasks.is_empty() => break,
                Some(tasks) => {
                    let expected = tasks.len();
                    assert_eq!(run(&hub, tasks).await.len(), expected, "seed {seed}");
                }
                None => {}
            }
        }
        let lost = faults.count(|seen| seen.fault == Some(Fault::LoseAnswer));
        assert!(lost >= 2, "seed {seed}");
        let there = KubeHub::new(cluster.client()).list(Some(&source)).await.unwrap();
        let found: Vec<_> = there.iter().map(|work| (&work.key, work.digest)).collect();
        let expected: Vec<_> =
            keys.iter().filter_map(|key| wanted.map(|body| (key, body.digest))).collect();
        assert_eq!(found, expected, "seed {seed}");
        let generation = step as i64 + 1;
        assert!(there.iter().all(|work| work.generation == generation), "seed {seed}: {there:?}");
    }
}

#[tokio::test]
async fn paginated_list_is_complete() {
    let cluster = harness::hub().await;
    let namespace = cluster.namespace("pages").await;
    let source = source("pages");
    let faults = Faults::none();
    let hub = faulty(cluster, &faults);
    let count = limits::HUB_LIST_PAGE as usize * 2 + 7;
    let keys = create_many(&hub, &namespace, &source, count).await;
    let listed = hub.list(Some(&source)).await.unwrap();
    assert_eq!(
        listed.iter().map(|work| &work.key).collect::<Vec<_>>(),
        keys.iter().collect::<Vec<_>>()
    );
    // After a first page, all works at once.
    let is_whole = |seen: &Seen| seen.is_list() && seen.query.contains("timeoutSeconds=");
    assert_eq!((faults.count(Seen::is_list), faults.count(is_whole)), (2, 1));

    // A list that fails as a whole is read in pages. These works are small: the second page has all
    // others.
    faults.next(usize::MAX, Fault::LoseAnswer, is_whole);
    assert_eq!(hub.list(Some(&source)).await.unwrap().len(), count);
    assert_eq!(faults.count(Seen::is_list), 5);

    // An expired continue token: from the start.
    let gone = Fault::Answer { code: 410, retry_after_seconds: None };
    faults.next(1, gone, |seen| seen.query.contains("continue="));
    assert_eq!(hub.list(Some(&source)).await.unwrap().len(), count);
    assert_eq!(faults.count(Seen::is_list), 11);

    // A large page that fails is read in parts.
    faults.next(1, Fault::LoseAnswer, |seen| seen.query.contains("continue="));
    assert_eq!(hub.list(Some(&source)).await.unwrap().len(), count);
    assert_eq!(faults.count(Seen::is_list), 16);

    // A page that fails makes no shorter list.
    faults.next(2, Fault::LoseAnswer, |seen| seen.query.contains("continue="));
    let answer = hub.list(Some(&source)).await;
    assert!(matches!(answer, Err(HubError::Unavailable { .. })), "{answer:?}");

    // An API server that does not say its version is asked for pages only.
    let faults = Faults::none();
    faults.next(usize::MAX, Fault::LoseRequest, |seen| seen.path == "/version");
    assert_eq!(faulty(cluster, &faults).list(Some(&source)).await.unwrap().len(), count);
    assert_eq!((faults.count(Seen::is_list), faults.count(is_whole)), (2, 0));
}

#[tokio::test]
async fn views_read_many_works_at_once_or_in_pages() {
    let cluster = harness::hub().await;
    let namespace = cluster.namespace("views").await;
    let source = source("views");
    let count = limits::HUB_LIST_PAGE as usize + 7;
    let keys = create_many(&faulty(cluster, &Faults::none()), &namespace, &source, count).await;
    let of_cluster = Some(ClusterName::parse(&namespace).unwrap());
    let is_page = |seen: &Seen| seen.is_list() && seen.query.contains("limit=");
    let is_whole = |seen: &Seen| seen.is_list() && !seen.query.contains("limit=");
    for cluster_name in [None, of_cluster] {
        let selection = Selection {
            source: Some(source.clone()),
            cluster: cluster_name,
            ..Selection::default()
        };
        let faults = Faults::none();
        let client = client::client_with(cluster.config(), &faults).unwrap();
        let shown = async || {
            let works = fleet(&client, &selection).await.unwrap().works;
            works.into_iter().map(|tree| tree.work).collect::<Vec<_>>()
        };
        let at_once = shown().await;
        assert!(
            at_once.iter().map(|work| work.work.as_str()).eq(keys.iter().map(|k| k.work.as_str()))
        );
        assert_eq!((faults.count(is_page), faults.count(is_whole)), (1, 1));
        faults.next(1, Fault::LoseAnswer, is_whole);
        assert_eq!(shown().await, at_once, "the same from pages");
        assert_eq!((faults.count(is_page), faults.count(is_whole)), (3, 2));
    }
    let kubeconfig = cluster.kubeconfig_path();
    let note = format!("\rreading the hub: {} works so far", limits::HUB_LIST_PAGE);
    // The first page has come, and others follow. No work has failed.
    for (states, printed) in [("failed", 0), ("pending,failed", count)] {
        let status = format!(
            "exec {} status --source-id {source} --state {states} --kubeconfig {}",
            env!("CARGO_BIN_EXE_gitwork"),
            kubeconfig.display()
        );
        // `script` gives the command a terminal.
        let mut command = Command::new("script");
        command.args(["-qefc", &status, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::null());
        let shown = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(printed > 0 || shown.contains(&note), "{shown:?}");
        assert!(shown.matches(&note).count() <= shown.matches("\r\u{1b}[K").count(), "{shown:?}");
        // The line is gone before works are printed.
        let texts = shown.split(&note).flat_map(|text| text.split("\r\u{1b}[K"));
        let rows = texts.flat_map(str::lines).filter(|row| row.starts_with(namespace.as_str()));
        assert_eq!(rows.count(), printed, "{shown:?}");
    }
    for (view, first) in [("status", "CLUSTER"), ("tree", "WORK")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gitwork"));
        command.args([view, "--source-id", source.as_str(), "--kubeconfig"]).arg(&kubeconfig);
        let shown = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0].starts_with(first), "{shown}");
        let names = lines.iter().filter(|line| line.starts_with(namespace.as_str()));
        let names = names.map(|line| line.split([' ', '/']).find(|part| part.starts_with('w')));
        assert!(names.eq(keys.iter().map(|key| Some(key.work.as_str()))), "{shown}");
        assert_eq!(lines.last(), Some(&"0/1 cluster applied, 1 pending"));
    }
}

/// The works in the next list of a view.
async fn shown(
    events: &mut BoxStream<'static, Result<ViewEvent, FleetError>>,
) -> Result<Vec<String>, FleetError> {
    let mut works = Vec::new();
    loop {
        let event = tokio::time::timeout(DEADLINE, events.next()).await;
        match event.expect("an event before the deadline").expect("a watch goes on for ever")? {
            ViewEvent::ListStarted => works.clear(),
            ViewEvent::Updated(tree) => works.push(tree.work.work.clone()),
            ViewEvent::ListCompleted => return Ok(works),
            ViewEvent::Removed { .. } | ViewEvent::Unreachable(_) | ViewEvent::Reported(_) => {}
        }
    }
}

#[tokio::test]
async fn followed_view_shows_works_before_its_list_is_complete() {
    let cluster = harness::hub().await;
    let namespace = cluster.namespace("early").await;
    let source = source("early");
    let count = limits::HUB_LIST_PAGE as usize + 7;
    create_many(&faulty(cluster, &Faults::none()), &namespace, &source, count).await;
    let faults = Faults::none();
    faults.next(usize::MAX, Fault::LoseRequest, |seen| seen.path == "/version");
    faults.next(1, Fault::HoldAnswer, |seen| seen.query.contains("continue="));
    let client = client::client_with(cluster.config(), &faults).unwrap();
    let selection = Selection { source: Some(source), ..Selection::default() };
    let works = fleet::watch(&client, &selection).filter_map(async |event| match event {
        Ok(event @ (ViewEvent::Updated(_) | ViewEvent::ListCompleted)) => Some(event),
        _ => None,
    });
    let mut works = std::pin::pin!(works);
    for _ in 0..limits::HUB_LIST_PAGE {
        let event = tokio::time::timeout(DEADLINE, works.next()).await.unwrap();
        assert!(matches!(event, Some(ViewEvent::Updated(_))), "{event:?}");
    }
    faults.release();
    let rest: Vec<ViewEvent> = works.take(8).collect().await;
    assert_eq!(rest.last(), Some(&ViewEvent::ListCompleted));

    // What else belongs to the states of works comes before them, and is read once.
    let faults = Faults::none();
    faults.next(usize::MAX, Fault::LoseRequest, |seen| seen.path == "/version");
    let client = client::client_with(cluster.config(), &faults).unwrap();
    let first: Vec<_> = fleet::watch(&client, &selection).take(3).collect().await;
    assert!(matches!(first[..2], [Ok(ViewEvent::Unreachable(_)), Ok(ViewEvent::Reported(_))]));
    assert_eq!(first[2], Ok(ViewEvent::ListStarted));
    let is_first_page_of_clusters = |seen: &Seen| {
        let is_first_page = seen.query.contains("limit=") && !seen.query.contains("continue=");
        seen.path.ends_with("/managedclusters") && is_first_page
    };
    assert_eq!(faults.count(is_first_page_of_clusters), 1);

    // A tenant may read neither.
    let forbidden = Fault::Answer { code: 403, retry_after_seconds: None };
    let is_fact =
        |seen: &Seen| ["/managedclusters", "/leases"].iter().any(|kind| seen.path.ends_with(kind));
    faults.next(usize::MAX, forbidden, is_fact);
    let first = fleet::watch(&client, &selection).take(3).collect::<Vec<_>>();
    let first = tokio::time::timeout(DEADLINE, first).await.unwrap();
    let none = [ViewEvent::Unreachable(BTreeSet::new()), ViewEvent::Reported(Vec::new())];
    assert_eq!(first, none.into_iter().chain([ViewEvent::ListStarted]).map(Ok).collect::<Vec<_>>());

    let before = faults.count(Seen::is_list);
    let mut list = FleetList::start(&client, &selection).await.unwrap();
    let first = list.next().await.unwrap().unwrap().len();
    assert_eq!((first, faults.count(Seen::is_list) - before), (limits::HUB_LIST_PAGE as usize, 1));
    assert!(list.next().await.unwrap().is_none());
    assert_eq!(list.end().works.len(), count);
}

#[tokio::test]
async fn followed_view_lists_at_once_and_only_if_it_must() {
    let cluster = harness::hub().await;
    let namespace = cluster.namespace("followed").await;
    let (source, other) = (source("followed"), faulty(cluster, &Faults::none()));
    let count = limits::HUB_LIST_PAGE as usize + 7;
    let keys = create_many(&other, &namespace, &source, count).await;
    let mut names: Vec<String> = keys.iter().map(|key| key.work.to_string()).collect();
    let body = body(&source, "y");
    let faults = Faults::none();
    let client = client::client_with(cluster.config(), &faults).unwrap();
    let selection = Selection { source: Some(source), ..Selection::default() };
    let mut events = fleet::watch(&client, &selection);
    assert_eq!(shown(&mut events).await.unwrap(), names);
    let is_page = |seen: &Seen| seen.is_list() && seen.query.contains("limit=");
    let requests = || {
        let whole = faults.count(|seen| seen.is_list() && !is_page(seen));
        (faults.count(is_page), whole, faults.count(Seen::is_watch_of_works))
    };
    let mut add = async |events: &mut BoxStream<'static, _>, work: &str| {
        run(&other, vec![create(&key(&namespace, work), &body)]).await;
        names.push(work.to_owned());
        let is_it = |event: Result<ViewEvent, FleetError>| match event {
            Ok(ViewEvent::Updated(tree)) => tree.work.work == work,
            _ => false,
        };
        let seen = async { while !is_it(events.next().await.unwrap()) {} };
        tokio::time::timeout(DEADLINE, seen).await.unwrap();
        names.clone()
    };
    add(&mut events, "x1").await;
    assert_eq!(requests(), (1, 1, 1));
    faults.cut_watches();
    add(&mut events, "x2").await;
    assert_eq!(requests(), (1, 1, 2), "a watch that is cut goes on where it was");
    let mut now = add(&mut events, "x3").await;

    faults.next(1, Fault::Forgotten, Seen::is_watch_of_works);
    faults.cut_watches();
    assert_eq!(shown(&mut events).await.unwrap(), now, "it was too old to go on");
    now = add(&mut events, "x4").await;
    assert_eq!(requests(), (2, 2, 4));

    let broken = Fault::Answer { code: 503, retry_after_seconds: None };
    faults.next(1, broken, Seen::is_watch_of_works);
    faults.cut_watches();
    let error = shown(&mut events).await.unwrap_err();
    assert!(matches!(error, FleetError::Other { verb: "watch", .. }), "{error:?}");
    assert_eq!(shown(&mut events).await.unwrap(), now);
}

#[tokio::test]
async fn interrupted_watch_resumes_and_expired_watch_relists() {
    let cluster = harness::hub().await;
    let namespace = cluster.namespace("cut").await;
    let source = source("cut-watches");
    let faults = Faults::none();
    let hub = faulty(cluster, &faults);
    let other = KubeHub::new(cluster.client());
    let mut events = hub.watch(&source);
    assert_eq!(next(&mut events).await, HubEvent::Listed(Default::default()));
    assert_eq!(next(&mut events).await, HubEvent::ListedSets(Default::default()));
    // The watch of the replica sets has no event. If it is cut, it lists them again.
    let is_of_works = |event: &HubEvent| !matches!(event, HubEvent::ListedSets(_));
    let make = async |events: &mut BoxStream<'static, HubEvent>, work: &str| {
        let (key, body) = (key(&namespace, work), body(&source, work));
        let made = other.execute(&key, &Effect::Create { body }, None).await.unwrap().unwrap();
        assert_eq!(until(events, is_of_works).await, HubEvent::Changed(Box::new(made)));
    };
    make(&mut events, "first").await;
    faults.cut_watches();
    make(&mut events, "second").await;
    let lists = || faults.count(Seen::is_list);
    assert_eq!((lists(), faults.count(Seen::is_watch_of_works)), (1, 2));

    // Cut, and too old to go on.
    faults.next(1, Fault::Forgotten, Seen::is_watch_of_works);
    faults.cut_watches();
    let HubEvent::Listed(works) = until(&mut events, is_of_works).await else {
        panic!("a list was expected")
    };
    assert_eq!(works.len(), 2);
    assert_eq!(lists(), 2);

    // The watch is cut and cannot be reopened at once: it is reported, and relisted as soon as
    // possible.
    make(&mut events, "third").await;
    let broken = Fault::Answer { code: 503, retry_after_seconds: None };
    faults.next(1, broken, Seen::is_watch_of_works);
    faults.cut_watches();
    let interrupted = until(&mut events, is_of_works).await;
    assert!(matches!(interrupted, HubEvent::Interrupted(HubError::Unavailable { .. })));
    let HubEvent::Listed(works) = until(&mut events, is_listed).await else { unreachable!() };
    assert_eq!(works.len(), 3);
}

#[tokio::test]
async fn hub_without_ocm_crds_is_retried() {
    let plane = ControlPlane::shared().await;
    let cluster = plane.start("away", ClusterOptions::default()).await;
    let source = source("away");
    cluster.kill();
    let hub = KubeHub::new(client::client(cluster.config()).unwrap());
    let mut events = hub.watch(&source);
    let HubEvent::Interrupted(error) = next(&mut events).await else { panic!("nobody is there") };
    assert!(error.to_string().contains("is the API server running"), "{error}");
    assert!(matches!(hub.list(None).await, Err(HubError::Unavailable { .. })));

    cluster.restart().await.unwrap();
    until(&mut events, |event| matches!(event, HubEvent::Interrupted(HubError::CrdMissing))).await;
    let missing = key("default", "web");
    assert_eq!(hub.get(&missing).await, Err(HubError::CrdMissing), "not known is not absent");
    let effect = Effect::Create { body: body(&source, "x") };
    assert_eq!(hub.execute(&missing, &effect, None).await, Err(HubError::CrdMissing));

    cluster.install(&crds::hub()).await.unwrap();
    assert_eq!(until(&mut events, is_listed).await, HubEvent::Listed(Default::default()));
    let made = hub.execute(&missing, &effect, None).await.unwrap().unwrap();
    until(&mut events, |event| matches!(event, HubEvent::Changed(work) if **work == made)).await;

    cluster.kill();
    until(&mut events, |event| matches!(event, HubEvent::Interrupted(_))).await;
    cluster.restart().await.unwrap();
    assert_eq!(until(&mut events, is_listed).await, HubEvent::Listed([made].into_iter().collect()));
}

#[tokio::test]
async fn stalled_request_times_out() {
    let cluster = harness::hub().await;
    let faults = Faults::none();
    let hub = faulty(cluster, &faults);
    assert_eq!(hub.get(&key("default", "web")).await, Ok(None));
    faults.next(1, Fault::Stall, |_| true);
    // Nothing is on its way now that time could overtake.
    tokio::time::pause();
    let answer = hub.get(&key("default", "web")).await;
    tokio::time::resume();
    let Err(HubError::Unavailable { message, .. }) = answer else { panic!("{answer:?}") };
    assert_eq!(message, "no answer within 10 s");
    assert_eq!(hub.get(&key("default", "web")).await, Ok(None));
}

#[tokio::test]
async fn rotated_credentials_are_read_again() {
    let cluster = harness::hub().await;
    let namespace = cluster.namespace("rotated").await;
    let token = cluster.kubeconfig_for(&namespace, "gitwork").await;
    let expired: String = token
        .lines()
        .map(|line| match line.split_once("token:") {
            Some((indent, _)) => format!("{indent}token: t0ps3cret.of.old\n"),
            None => format!("{line}\n"),
        })
        .collect();
    assert!(expired.contains("t0ps3cret"), "the kubeconfig has a token");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let source = source("rotated");

    for first_is_watch in [false, true] {
        std::fs::write(&path, &expired).unwrap();
        let hub = KubeHub::connect(client::connector(Some(path.clone()), None)).await.unwrap();
        std::fs::write(&path, cluster.kubeconfig()).unwrap();
        if first_is_watch {
            let mut events = hub.watch(&source);
            assert_eq!(next(&mut events).await, HubEvent::Listed(Default::default()));
        } else {
            assert_eq!(hub.list(Some(&source)).await, Ok(Vec::new()));
        }
    }

    std::fs::write(&path, &expired).unwrap();
    let hub = KubeHub::connect(client::connector(Some(path.clone()), None)).await.unwrap();
    let error = hub.list(Some(&source)).await.unwrap_err();
    assert!(matches!(error, HubError::Forbidden { .. }), "{error:?}");
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("401") && !shown.contains("t0ps3cret"), "{shown}");
}

#[tokio::test]
async fn forbidden_request_is_reported_with_the_missing_rbac_rule() {
    let cluster = harness::hub().await;
    let namespace = cluster.namespace("forbidden").await;
    let hub = KubeHub::new(cluster.client_for(&namespace, "nobody").await);
    let source = source("forbidden");
    let effect = Effect::Create { body: body(&source, "x") };
    let key = key(&namespace, "web");
    let answers = [
        ("create", hub.execute(&key, &effect, None).await.map(|_| ())),
        ("get", hub.get(&key).await.map(|_| ())),
        ("list", hub.list(Some(&source)).await.map(|_| ())),
        (
            "delete",
            hub.execute(
                &key,
                &Effect::Delete { uid: "u".into(), resource_version: "1".into() },
                None,
            )
            .await
            .map(|_| ()),
        ),
        (
            "patch",
            hub.execute(&key, &Effect::Release { resource_version: "1".into() }, None)
                .await
                .map(|_| ()),
        ),
    ];
    for (verb, answer) in answers {
        let Err(error @ HubError::Forbidden { .. }) = &answer else { panic!("{verb}: {answer:?}") };
        let message = describe(error);
        assert!(message.contains(&format!("verbs: [{verb}]")), "{message}");
        assert!(
            message.contains(&format!("system:serviceaccount:{namespace}:nobody")),
            "{message}"
        );
    }
    let mut events = hub.watch(&source);
    let event = next(&mut events).await;
    assert!(matches!(event, HubEvent::Interrupted(HubError::Forbidden { .. })), "{event:?}");
}

#[tokio::test]
async fn terminating_namespace_gets_no_works() {
    let cluster = harness::hub().await;
    let namespace = cluster.namespace("leaving").await;
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    // Without controllers on this hub it stays like this.
    namespaces.delete(&namespace, &DeleteParams::default()).await.unwrap();
    let hub = KubeHub::new(cluster.client());
    let effect = Effect::Create { body: body(&source("leaving"), "x") };
    let answer = hub.execute(&key(&namespace, "web"), &effect, None).await;
    assert_eq!(answer, Err(HubError::ClusterNamespaceMissing { cluster: namespace }));
}

#[tokio::test]
async fn rejected_write_is_reported_without_secret_values() {
    let cluster = harness::hub().await;
    let namespace = cluster.namespace("refused").await;
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(json!({
        "metadata": {"name": namespace},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "resourceRules": [{
                    "apiGroups": ["work.open-cluster-management.io"], "apiVersions": ["v1"],
                    "operations": ["CREATE"], "resources": ["manifestworks"],
                }],
            },
            "validations": [{
                "expression": "false",
                "messageExpression":
                    "'dislikes ' + string(object.spec.workload.manifests[0].stringData.password)",
            }],
        },
    }))
    .unwrap();
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(json!({
        "metadata": {"name": namespace},
        "spec": {"policyName": namespace, "validationActions": ["Deny"]},
    }))
    .unwrap();
    let params = PostParams::default();
    Api::all(cluster.client()).create(&params, &policy).await.unwrap();
    Api::all(cluster.client()).create(&params, &binding).await.unwrap();

    let hub = KubeHub::new(cluster.client());
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"namespace": "default", "name": "a"}, "stringData": {"password": "t0ps3cret"},
    });
    let effect = Effect::Create { body: body_of(&source("refused"), &secret) };
    let mut tries = 0;
    // A policy takes a moment to count.
    let refused = eventually("the policy to count", DEADLINE, || {
        tries += 1;
        let (hub, effect) = (&hub, &effect);
        let key = key(&namespace, &format!("web-{tries}"));
        async move { hub.execute(&key, effect, None).await.err().ok_or("it is created".to_owned()) }
    });
    let error = refused.await.unwrap();
    let HubError::WriteRejected { message, .. } = &error else { panic!("{error:?}") };
    assert!(message.contains("dislikes (hidden)") && !message.contains("t0ps3cret"), "{message}");
}
