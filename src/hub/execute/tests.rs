//! On paused time, with a hub that is nothing but a script.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use futures::future::FutureExt;
use serde_json::json;

use super::*;
use crate::{HubEvent, StoredRecord};
use gitwork_core::model::name::{CommitId, RepoPath, SourceId, WorkKey, WorkName};
use gitwork_core::model::work::{DeletionPolicy, WorkBody};
use gitwork_core::plan::observed::WorkContent;

/// One call of the hub: what was asked, of whom, with how many at once, and how often before.
struct Call<'a> {
    key: &'a WorkKey,
    in_flight: usize,
    attempt: u32,
}

type Reply = (Duration, Result<Option<ObservedWork>, HubError>);

struct Script<F> {
    answer: F,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    calls: Vec<WorkKey>,
    attempts: BTreeMap<WorkKey, u32>,
    in_flight: BTreeMap<ClusterName, usize>,
    most_in_flight: usize,
    in_flight_of_calls: Vec<usize>,
    most_of_a_cluster: usize,
}

impl Log {
    fn total(&self) -> usize {
        self.in_flight.values().sum()
    }
}

impl<F: Fn(&Call<'_>) -> Reply + Send + Sync + 'static> Hub for Script<F> {
    fn watch(&self, _: &SourceId) -> BoxStream<'static, HubEvent> {
        stream::pending().boxed()
    }
    fn list<'a>(
        &'a self,
        _: Option<&'a SourceId>,
    ) -> BoxFuture<'a, Result<Vec<ObservedWork>, HubError>> {
        async { Ok(Vec::new()) }.boxed()
    }
    fn get<'a>(&'a self, _: &'a WorkKey) -> BoxFuture<'a, Result<Option<ObservedWork>, HubError>> {
        async { Ok(None) }.boxed()
    }
    fn content<'a>(
        &'a self,
        _: &'a WorkKey,
    ) -> BoxFuture<'a, Result<Option<WorkContent>, HubError>> {
        unreachable!("executing reads no content")
    }
    fn directives<'a>(
        &'a self,
        _: &'a SourceId,
    ) -> BoxFuture<'a, Result<gitwork_core::plan::directives::Directives, HubError>> {
        unreachable!("executing asks for no directives")
    }
    fn record<'a>(
        &'a self,
        _: &'a SourceId,
    ) -> BoxFuture<'a, Result<Option<StoredRecord>, HubError>> {
        unreachable!("executing asks for no record")
    }
    fn set_record<'a>(
        &'a self,
        _: &'a SourceId,
        _: &'a gitwork_core::plan::record::Record,
        _: Option<&'a StoredRecord>,
    ) -> BoxFuture<'a, Result<StoredRecord, HubError>> {
        unreachable!("executing writes no record")
    }
    fn execute<'a>(
        &'a self,
        key: &'a WorkKey,
        _: &'a Effect,
        _: Option<CommitId>,
    ) -> BoxFuture<'a, Result<Option<ObservedWork>, HubError>> {
        async move {
            let (wait, answer) = {
                let mut log = self.log.lock().unwrap();
                log.calls.push(key.clone());
                let attempt = log.attempts.entry(key.clone()).or_default();
                *attempt += 1;
                let attempt = *attempt;
                let of_cluster = log.in_flight.entry(key.cluster.clone()).or_default();
                *of_cluster += 1;
                let of_cluster = *of_cluster;
                log.most_of_a_cluster = log.most_of_a_cluster.max(of_cluster);
                let in_flight = log.total();
                log.most_in_flight = log.most_in_flight.max(in_flight);
                log.in_flight_of_calls.push(in_flight);
                (self.answer)(&Call { key, in_flight, attempt })
            };
            tokio::time::sleep(wait).await;
            *self.log.lock().unwrap().in_flight.get_mut(&key.cluster).unwrap() -= 1;
            answer
        }
        .boxed()
    }
}

fn script<F: Fn(&Call<'_>) -> Reply + Send + Sync + 'static>(answer: F) -> Arc<Script<F>> {
    Arc::new(Script { answer, log: Mutex::default() })
}

fn create() -> Effect {
    let source = SourceId::parse("fleet").unwrap();
    let (labels, annotations) = (BTreeMap::new(), BTreeMap::new());
    let body = WorkBody::new(&source, &RepoPath::root(), json!({}), labels, annotations, true);
    Effect::Create { body: Arc::new(body) }
}

fn delete() -> Effect {
    Effect::Delete { uid: "u".into(), resource_version: "1".into() }
}

fn task(cluster: &str, work: &str, effect: Effect) -> Task {
    let cluster = ClusterName::parse(cluster).unwrap();
    let key = WorkKey { cluster, work: WorkName::parse(work).unwrap() };
    Task { key, effect, commit: None }
}

/// `works` creates for each of `clusters`.
fn creates(clusters: &[String], works: usize) -> Vec<Task> {
    let works = |cluster| (0..works).map(move |n| task(cluster, &format!("w{n}"), create()));
    clusters.iter().flat_map(|cluster| works(cluster.as_str())).collect()
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}-{n}")).collect()
}

fn away(retry_after_seconds: Option<u64>) -> HubError {
    HubError::Unavailable { message: "away".into(), retry_after_seconds }
}

fn never() -> watch::Receiver<bool> {
    watch::channel(false).1
}

/// All outcomes, each with the time since the start.
async fn run(hub: Arc<dyn Hub>, tasks: Vec<Task>) -> Vec<(Duration, Outcome)> {
    let start = Instant::now();
    let outcomes = execute(hub, tasks, ExecuteOptions::default(), never());
    outcomes.map(|outcome| (start.elapsed(), outcome)).collect().await
}

const SHORT: Duration = Duration::from_millis(10);

/// A hub whose clusters are slow or away, by their names.
fn with_slow_and_dead_clusters() -> Arc<dyn Hub> {
    script(|call: &Call<'_>| match call.key.cluster.as_str() {
        name if name.starts_with("slow") => (Duration::from_secs(9), Ok(None)),
        name if name.starts_with("dead") => (Duration::from_secs(10), Err(away(None))),
        _ => (SHORT, Ok(None)),
    })
}

#[tokio::test(start_paused = true)]
async fn each_task_has_one_outcome_and_no_more_is_in_flight_than_allowed() {
    for (clusters, works) in [(1, 100), (3, 50), (100, 5), (2_000, 1)] {
        let hub = script(|_| (SHORT, Ok(None)));
        let outcomes = run(hub.clone(), creates(&names("c", clusters), works)).await;
        assert!(outcomes.iter().all(|(_, o)| o.result == Ok(None) && o.attempts == 1));
        let log = hub.log.lock().unwrap();
        assert_eq!((outcomes.len(), log.attempts.len()), (clusters * works, clusters * works));
        let most = (limits::HUB_IN_FLIGHT).min(limits::HUB_IN_FLIGHT_PER_CLUSTER * clusters);
        assert!(log.most_in_flight <= most && log.most_in_flight * 4 >= most * 3, "{clusters}");
        assert!(log.most_of_a_cluster <= limits::HUB_IN_FLIGHT_PER_CLUSTER);
    }
}

#[tokio::test(start_paused = true)]
async fn clusters_begin_in_the_order_of_their_first_tasks() {
    let hub = script(|_| (SHORT, Ok(None)));
    let clusters = ["z", "b", "m", "a"];
    let tasks = clusters.map(|name| task(name, "web", create()));
    run(hub.clone(), tasks.into()).await;
    let calls = &hub.log.lock().unwrap().calls;
    let began: Vec<&str> = calls.iter().map(|key| key.cluster.as_str()).collect();
    assert_eq!(began, clusters);
}

#[tokio::test(start_paused = true)]
async fn slow_and_failing_clusters_do_not_delay_the_others() {
    let hub = with_slow_and_dead_clusters();
    let mut tasks = creates(&names("dead", 2), 50);
    tasks.extend(creates(&names("slow", 2), 5));
    tasks.extend(creates(&names("well", 40), 20));
    let outcomes = run(hub, tasks).await;
    let well = outcomes.iter().filter(|(_, o)| o.task.key.cluster.as_str().starts_with("well"));
    let last = well.map(|(at, _)| *at).max().unwrap();
    assert!(last < Duration::from_secs(1), "800 works take 0.3 s on 28 slots: {last:?}");
    assert_eq!(outcomes.len(), 910);
    let failed = outcomes.iter().filter(|(_, o)| o.result.is_err()).count();
    assert_eq!(failed, 100);
}

#[tokio::test(start_paused = true)]
async fn deletions_come_last_and_only_where_all_content_was_written() {
    let hub = script(|call: &Call<'_>| {
        let refused = call.key.work.as_str() == "bad";
        let error = HubError::WriteRejected { key: call.key.to_string(), message: "no".into() };
        (SHORT, if refused { Err(error) } else { Ok(None) })
    });
    let release = Effect::Release { resource_version: "1".into() };
    let option = Effect::SetDeleteOption {
        delete_option: DeletionPolicy::Orphan,
        resource_version: "1".into(),
    };
    let tasks = vec![
        task("good", "old", delete()),
        task("good", "new", create()),
        task("good", "bad", release),
        task("mixed", "old", delete()),
        task("mixed", "older", delete()),
        task("mixed", "bad", create()),
        task("waits", "old", delete()),
        task("waits", "bad", option),
        task("only", "old", delete()),
    ];
    let outcomes = run(hub.clone(), tasks).await;
    assert_eq!(outcomes.len(), 9);
    for (_, outcome) in &outcomes {
        let key = outcome.task.key.to_string();
        let withheld = matches!(
            &outcome.result,
            Err(ExecuteError::AfterFailedWrite { cluster }) if cluster == "mixed"
        );
        assert_eq!(withheld, key.starts_with("mixed/old"), "{key}: {:?}", outcome.result);
        assert_eq!(outcome.attempts, u32::from(!withheld), "{key}");
    }
    let log = hub.log.lock().unwrap();
    let of_good: Vec<&str> = log
        .calls
        .iter()
        .filter(|k| k.cluster.as_str() == "good")
        .map(|k| k.work.as_str())
        .collect();
    assert_eq!(of_good, ["new", "bad", "old"]);
}

#[tokio::test(start_paused = true)]
async fn a_hiccup_is_tried_again_and_nothing_else_is() {
    let hub = script(|call: &Call<'_>| {
        let key = call.key.to_string();
        let answer = match (call.key.work.as_str(), call.attempt) {
            ("hiccup", 1 | 2) | ("gone", _) => Err(away(None)),
            ("throttled", 1) => Err(away(Some(60))),
            ("stale", _) => Err(HubError::Stale { key }),
            _ => Ok(None),
        };
        (SHORT, answer)
    });
    let tasks =
        ["hiccup", "gone", "throttled", "stale", "well"].map(|work| task("c", work, create()));
    let outcomes = run(hub, tasks.to_vec()).await;
    let found: BTreeMap<&str, (u32, bool)> = outcomes
        .iter()
        .map(|(_, o)| (o.task.key.work.as_str(), (o.attempts, o.result.is_ok())))
        .collect();
    let expected = [
        ("hiccup", (3, true)),
        ("gone", (limits::HUB_ATTEMPTS_MAX, false)),
        // `Retry-After` is longer than a pass waits.
        ("throttled", (1, false)),
        ("stale", (1, false)),
        ("well", (1, true)),
    ];
    assert_eq!(found, BTreeMap::from(expected));
}

#[tokio::test(start_paused = true)]
async fn retry_after_reduces_requests_in_flight() {
    let hub = script(|call: &Call<'_>| {
        if call.in_flight > 6 { (Duration::ZERO, Err(away(Some(1)))) } else { (SHORT, Ok(None)) }
    });
    let outcomes = run(hub.clone(), creates(&names("c", 50), 20)).await;
    let done = outcomes.iter().filter(|(_, o)| o.result.is_ok()).count();
    let calls = hub.log.lock().unwrap().calls.len();
    assert_eq!(outcomes.len(), 1_000);
    assert!(done >= 990, "{done} of 1,000 done in one pass");
    assert!(calls < 1_300, "{calls} calls for 1,000 works");
}

#[tokio::test(start_paused = true)]
async fn slow_answers_reduce_requests_in_flight() {
    // A hub that needs a quarter of a second for each request that it has at once.
    let hub = script(|call: &Call<'_>| {
        let took = Duration::from_millis(250) * u32::try_from(call.in_flight).unwrap();
        (took, Ok(None))
    });
    let outcomes = run(hub.clone(), creates(&names("c", 200), 5)).await;
    assert!(outcomes.iter().all(|(_, o)| o.result == Ok(None)));
    let log = hub.log.lock().unwrap();
    assert_eq!(log.most_in_flight, limits::HUB_IN_FLIGHT, "at first");
    // Two seconds are no longer slow.
    let later = log.in_flight_of_calls[500..].iter().max().unwrap();
    assert!((8..=10).contains(later), "{later}");
}

/// As many clusters as a large fleet has, of which some are slow and some are away.
#[tokio::test(start_paused = true)]
async fn a_thousand_clusters_share_the_slots() {
    let hub = with_slow_and_dead_clusters();
    // The slow ones come first, and one has a hundred times as many works as others.
    let mut tasks = creates(&names("dead", 10), 10);
    tasks.extend(creates(&names("slow", 10), 10));
    tasks.extend(creates(&names("large", 1), 1_000));
    tasks.extend(creates(&names("well", 979), 5));
    let outcomes = run(hub, tasks).await;
    let last = |prefix: &str| {
        let of = outcomes.iter().filter(|(_, o)| o.task.key.cluster.as_str().starts_with(prefix));
        of.map(|(at, _)| *at).max().unwrap()
    };
    // 4,895 works of 10 ms on the 12 slots that the first ones leave.
    assert!(last("well") < Duration::from_secs(6), "{:?}", last("well"));
    // It gets as many slots as another cluster.
    assert!(last("large") < Duration::from_secs(20), "{:?}", last("large"));
    assert_eq!(outcomes.len(), 100 + 100 + 1_000 + 4_895);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_is_away_is_not_asked_for_every_work() {
    let hub = script(|_| (Duration::ZERO, Err(away(None))));
    let outcomes = run(hub.clone(), creates(&names("c", 100), 100)).await;
    assert_eq!(outcomes.len(), 10_000);
    assert!(outcomes.iter().all(|(_, o)| o.result == Err(away(None).into())));
    let calls = hub.log.lock().unwrap().calls.len();
    assert!(calls <= limits::HUB_UNANSWERED_MAX + limits::HUB_IN_FLIGHT, "{calls}");
    assert!(outcomes.last().unwrap().0 < Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_what_is_in_flight_end_and_begins_nothing() {
    let (sender, stop) = watch::channel(false);
    let hub = script(|_| (Duration::from_secs(1), Ok(None)));
    let mut tasks = creates(&names("c", 20), 10);
    tasks.push(task("c-0", "old", delete()));
    let mut outcomes = execute(hub.clone(), tasks, ExecuteOptions::default(), stop);
    let first = outcomes.next().await.unwrap();
    assert_eq!(first.result, Ok(None));
    sender.send(true).unwrap();
    let at_stop = hub.log.lock().unwrap().calls.len();
    let rest: Vec<Outcome> = outcomes.collect().await;
    assert_eq!(hub.log.lock().unwrap().calls.len(), at_stop);
    let done = rest.iter().filter(|o| o.result.is_ok()).count();
    let stopped = rest.iter().filter(|o| o.result == Err(ExecuteError::Stopped)).count();
    assert_eq!((done + 1, stopped), (at_stop, 201 - at_stop));
    assert_eq!(hub.log.lock().unwrap().total(), 0, "all that was in flight has ended");
}
