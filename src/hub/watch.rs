//! Follows the works of one source, and its replica sets: for each kind a list, then one watch
//! after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::connection::HubConnection;
use crate::list::{self, WorkQuery, reduce};
use crate::response::{self, Verb};
use crate::work_kind::WorkKind;
use crate::{HubError, HubEvent, limits, unavailable};
use gitwork_core::model::name::SourceId;
use gitwork_kube::watch_stream::{WatchEnd, WatchEvent, WatchStream};
use gitwork_retry::{RetryClass, log_error};

/// The class of a watch that the hub ends early.
const EARLY_END: RetryClass = RetryClass::Unavailable { retry_after_seconds: None };

/// The state of the watch.
enum Phase {
    /// The works are not known: list.
    List,
    /// Watch from this resourceVersion. `listed`: it is that of a list, not of an event.
    Open {
        resource_version: String,
        listed: bool,
    },
    Reading(Box<Reading>),
}

/// One open watch request.
struct Reading {
    stream: WatchStream,
    resource_version: String,
    /// The resourceVersion is that of a list.
    listed: bool,
    opened: Instant,
    events: u64,
}

struct Watch {
    connection: Arc<HubConnection>,
    source: SourceId,
    selection: WorkQuery,
    phase: Phase,
    /// Failures in a row, and the class of the last one.
    failures: u32,
    retry_class: RetryClass,
    ready: VecDeque<HubEvent>,
}

/// The events of `source`. A broken watch is opened again from its last resourceVersion. If that
/// fails, `Interrupted` has the error, and `Listed` follows once the hub answers again. Replica
/// sets come after the first list of works. A hub without their kind has none.
pub fn watch(connection: Arc<HubConnection>, source: SourceId) -> BoxStream<'static, HubEvent> {
    let (listed, on_list) = oneshot::channel();
    let mut listed = Some(listed);
    let works = WorkQuery::works(Some(&source));
    let works = follow(Arc::clone(&connection), source.clone(), works).inspect(move |event| {
        let is_list = matches!(event, HubEvent::Listed(_));
        if let Some(listed) = listed.take_if(|_| is_list) {
            // Without a receiver, nobody wants the replica sets.
            let _ = listed.send(());
        }
    });
    let sets = stream::once(on_list)
        .flat_map(move |_| follow(connection.clone(), source.clone(), WorkQuery::replica_sets()));
    stream::select(works, sets).boxed()
}

fn follow(
    connection: Arc<HubConnection>,
    source: SourceId,
    selection: WorkQuery,
) -> BoxStream<'static, HubEvent> {
    let (phase, ready, failures, retry_class) = (Phase::List, VecDeque::new(), 0, EARLY_END);
    let watch = Watch { connection, source, selection, phase, failures, retry_class, ready };
    stream::unfold(watch, |mut watch| async move {
        loop {
            if let Some(event) = watch.ready.pop_front() {
                return Some((event, watch));
            }
            watch.step().await;
        }
    })
    .boxed()
}

impl Watch {
    async fn step(&mut self) {
        match std::mem::replace(&mut self.phase, Phase::List) {
            Phase::List => self.list().await,
            Phase::Open { resource_version, listed } => self.open(resource_version, listed).await,
            Phase::Reading(reading) => self.read(reading).await,
        }
    }

    async fn list(&mut self) {
        self.pause().await;
        match list::list(&self.connection, &self.selection).await {
            Ok(listed) => {
                self.ready.push_back(match self.selection.kind {
                    WorkKind::ManifestWork => HubEvent::Listed(listed.works),
                    WorkKind::ReplicaSet => {
                        let sets = listed.works.into_values();
                        let ours = sets.filter(|set| set.is_ours(&self.source)).collect();
                        HubEvent::ListedSets(ours)
                    }
                });
                let resource_version = listed.resource_version;
                self.phase = Phase::Open { resource_version, listed: true };
            }
            Err(error) => self.interrupted(error),
        }
    }

    async fn open(&mut self, resource_version: String, listed: bool) {
        let query = format!(
            "watch=1&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={resource_version}",
            limits::HUB_WATCH.as_secs(),
        );
        match self.connection.open(&self.selection.request(Verb::Watch, &query)).await {
            Ok(None) if listed => self.interrupted(expired()),
            Ok(None) => {}
            Ok(Some(stream)) => {
                self.phase = Phase::Reading(Reading::new(stream, resource_version, listed));
            }
            Err(error) => self.interrupted(error),
        }
    }

    async fn read(&mut self, mut reading: Box<Reading>) {
        let (kind, before) = (self.selection.kind, self.ready.len());
        let next = reading.next(kind, &mut self.ready).await;
        if kind == WorkKind::ReplicaSet {
            self.ready.iter_mut().skip(before).for_each(|event| hide_foreign(event, &self.source));
        }
        match next {
            Ok(()) => {
                self.failures = 0;
                self.phase = Phase::Reading(reading);
            }
            Err(end) => self.ended(*reading, end).await,
        }
    }

    /// Opens the next watch. Lists instead if the resourceVersion expired, or if watches end at
    /// once without an event.
    async fn ended(&mut self, reading: Reading, end: WatchEnd) {
        let early = reading.opened.elapsed() < limits::HUB_WATCH_SHORT;
        let error = match end {
            WatchEnd::Expired if reading.listed => expired(),
            WatchEnd::Expired => return,
            WatchEnd::Closed => unavailable("the hub ends each watch at once".into()),
            WatchEnd::Failed(status) => response::watch_error(&status, self.selection.kind),
            other => unavailable(other.to_string()),
        };
        if early && reading.events == 0 {
            return self.interrupted(error);
        }
        if early {
            sleep(gitwork_retry::delay(0, EARLY_END, fastrand::u64(..))).await;
        }
        let resource_version = reading.resource_version;
        self.phase = Phase::Open { resource_version, listed: false };
    }

    fn interrupted(&mut self, error: HubError) {
        self.failures = self.failures.saturating_add(1);
        self.retry_class = error.retry_class();
        if self.selection.kind == WorkKind::ReplicaSet {
            // Many hubs have no such kind, or let nobody read it. Without sets in Git nobody needs
            // it, and the write of a set says what is missing.
            log_error!(debug, &error, source = %self.source, "cannot follow the replica sets");
            return;
        }
        self.ready.push_back(HubEvent::Interrupted(error));
    }

    async fn pause(&mut self) {
        if let Some(attempt) = self.failures.checked_sub(1) {
            sleep(gitwork_retry::delay(attempt, self.retry_class, fastrand::u64(..))).await;
        }
    }
}

fn expired() -> HubError {
    unavailable("the resourceVersion expired right after the list (410)".into())
}

impl Reading {
    fn new(stream: WatchStream, resource_version: String, listed: bool) -> Box<Self> {
        Box::new(Self { stream, resource_version, listed, opened: Instant::now(), events: 0 })
    }

    /// Waits for the next chunk and puts its events into `ready`.
    async fn next(
        &mut self,
        kind: WorkKind,
        ready: &mut VecDeque<HubEvent>,
    ) -> Result<(), WatchEnd> {
        let Self { stream, resource_version, listed, events, .. } = self;
        let next = stream.next(|event: WatchEvent<Value>| {
            let (WatchEvent::Added(object)
            | WatchEvent::Modified(object)
            | WatchEvent::Deleted(object)
            | WatchEvent::Bookmark(object)
            | WatchEvent::Error(object)) = &event;
            *resource_version = version(object)?;
            (*events, *listed) = (*events + 1, false);
            ready.extend(match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    reduce(kind, object).map(|work| HubEvent::Changed(Box::new(work)))
                }
                WatchEvent::Deleted(object) => {
                    reduce(kind, object).map(|work| HubEvent::Gone(work.key))
                }
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => None,
            });
            Ok(())
        });
        next.await
    }
}

/// Replaces the event of another owner's set: no selector leaves these out.
fn hide_foreign(event: &mut HubEvent, source: &SourceId) {
    if let HubEvent::Changed(set) = event
        && !set.is_ours(source)
    {
        *event = HubEvent::Gone(set.key.clone());
    }
}

/// The resourceVersion of an object. It becomes part of a query, so that it must be alphanumeric.
fn version(object: &Value) -> Result<String, WatchEnd> {
    let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    let is_plain = |version: &&str| {
        !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let version = version.filter(is_plain).map(str::to_owned);
    version.ok_or_else(|| WatchEnd::Invalid("it has no valid resourceVersion".into()))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use serde_json::json;

    use super::*;

    /// A watch of these chunks.
    fn reading(chunks: Vec<Vec<u8>>) -> Box<Reading> {
        reading_of(stream::iter(chunks.into_iter().map(Ok)))
    }

    fn reading_of(
        chunks: impl futures::Stream<Item = Result<Vec<u8>, std::io::Error>> + Send + 'static,
    ) -> Box<Reading> {
        let chunks = chunks.map(|chunk| chunk.map(Into::into));
        let deadline = Instant::now() + limits::HUB_WATCH_OPEN;
        let chunks = WatchStream::new(chunks, deadline, limits::HUB_EVENT_BYTES_MAX);
        Reading::new(chunks, "1".to_owned(), true)
    }

    /// The events of a watch, up to its end.
    fn read(mut reading: Box<Reading>) -> (Vec<String>, WatchEnd, Box<Reading>) {
        let mut ready = VecDeque::new();
        let end = loop {
            if let Err(end) =
                reading.next(WorkKind::ManifestWork, &mut ready).now_or_never().unwrap()
            {
                break end;
            }
        };
        let events = ready.into_iter().map(|event| match event {
            HubEvent::Changed(work) => format!("{} at {}", work.key, work.resource_version),
            HubEvent::Gone(key) => format!("{key} gone"),
            other => format!("{other:?}"),
        });
        (events.collect(), end, reading)
    }

    fn event(kind: &str, name: &str, version: &str) -> String {
        let metadata = json!({
            "namespace": "edge", "name": name, "uid": "u", "resourceVersion": version,
            "managedFields": [{"manager": "gitwork"}],
        });
        json!({"type": kind, "object": {"metadata": metadata}}).to_string() + "\n"
    }

    #[tokio::test]
    async fn events_are_whole_for_all_sizes_of_chunks() {
        let text = event("ADDED", "web", "2")
            + "\n"
            + &event("MODIFIED", "web", "3")
            + &event("DELETED", "web", "4")
            + &event("ADDED", &"x".repeat(250), "5")
            + "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n"
            + event("ADDED", "cut off", "10").trim_end();
        let expected = ["edge/web at 2", "edge/web at 3", "edge/web gone"];
        for size in [1, 7, 100, text.len()] {
            let chunks = text.as_bytes().chunks(size).map(<[u8]>::to_vec).collect();
            let (events, end, after) = read(reading(chunks));
            assert_eq!(events, expected, "chunks of {size}");
            assert!(matches!(end, WatchEnd::Closed));
            assert_eq!((after.resource_version.as_str(), after.events), ("9", 5));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_watch_ends_at_its_deadline() {
        let mut reading = reading_of(stream::pending());
        let end = reading.next(WorkKind::ManifestWork, &mut VecDeque::new()).await;
        assert_eq!(end, Err(WatchEnd::Silent));
        assert_eq!(reading.opened.elapsed(), limits::HUB_WATCH + limits::HUB_CALL);
    }

    #[tokio::test]
    async fn invalid_events_end_a_watch_and_an_expired_version_lists_again() {
        let too_old = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n";
        let (events, end, _) = read(reading(vec![(event("ADDED", "web", "2") + too_old).into()]));
        assert_eq!(events, ["edge/web at 2"]);
        assert!(matches!(end, WatchEnd::Expired));
        let oversized = vec![vec![b'x'; limits::HUB_EVENT_BYTES_MAX], vec![b'x']];
        let odd: Vec<Vec<Vec<u8>>> = vec![
            vec![b"<html>\n".to_vec()],
            vec![b"{}\n".to_vec()],
            vec![b"[1]\n".to_vec()],
            vec![event("ADDED", "web", "").into()],
            vec![event("ADDED", "web", "2&timeoutSeconds=0").into()],
            vec![b"{\"type\":\"ERROR\",\"object\":{\"code\":500}}\n".to_vec()],
            oversized,
        ];
        for chunks in odd {
            let start = String::from_utf8_lossy(&chunks[0]).chars().take(60).collect::<String>();
            let (events, end, after) = read(reading(chunks));
            assert!(!matches!(end, WatchEnd::Closed | WatchEnd::Expired), "{start}");
            assert_eq!((events.len(), after.resource_version.as_str()), (0, "1"), "{start}");
        }
    }
}
