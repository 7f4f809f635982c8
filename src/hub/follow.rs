//! Follows the objects of one kind: a list, then one watch after the other.

use std::collections::VecDeque;

use futures::stream::{self, BoxStream, StreamExt};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::limits;
use gitwork_kube::watch_stream::{WatchEnd, WatchEvent, WatchStream};
use gitwork_retry::RetryClass;

/// The class of a watch that the API server ends early.
const EARLY_END: RetryClass = RetryClass::Unavailable { retry_after_seconds: None };

/// After more failures in a row, waits get no longer: to some 16 s if the API server does not
/// answer. One that has started refuses lists until it has read all objects, and it is known soon
/// when it has.
const FAILURES_MAX: u32 = 5;

/// Objects of one kind that an API server lists and watches.
pub(crate) trait Followed: Send + 'static {
    type Event: Send + 'static;
    type Error: Send + 'static;

    /// Lists all objects, as events: the next part of them. After an error the list begins again.
    fn list(&mut self) -> impl Future<Output = Result<Listing<Self::Event>, Self::Error>> + Send;

    /// Opens a watch from a resourceVersion. `None`: it expired (410).
    fn open(
        &mut self,
        resource_version: &str,
    ) -> impl Future<Output = Result<Option<WatchStream>, Self::Error>> + Send;

    /// What a change means; `None` for an object that does not count.
    fn read(&mut self, change: Change) -> Option<Self::Event>;

    /// The error of a watch that ended and cannot go on.
    fn error(&self, end: WatchEnd) -> Self::Error;

    /// How long to wait after an error.
    fn retry_class(error: &Self::Error) -> RetryClass;
}

/// A part of a list.
pub(crate) struct Listing<T> {
    items: Vec<T>,
    /// The resourceVersion to watch from; `None` if more of the list follows.
    resource_version: Option<String>,
}

impl<T> Listing<T> {
    /// A part that others follow.
    pub fn part(items: impl IntoIterator<Item = T>) -> Self {
        Self { items: items.into_iter().collect(), resource_version: None }
    }

    /// The last part, or all of a list.
    pub fn last(items: impl IntoIterator<Item = T>, resource_version: String) -> Self {
        let resource_version = Some(resource_version);
        Self { items: items.into_iter().collect(), resource_version }
    }
}

/// One object of a watch.
pub(crate) enum Change {
    /// It was created or changed.
    Present(Value),
    /// It was deleted; this is its last version.
    Gone(Value),
}

/// The events of `followed`, without end. A broken watch is opened again from its last
/// resourceVersion. If that fails, an error comes, and the events of a list follow once the API
/// server answers again.
pub(crate) fn follow<F: Followed>(followed: F) -> BoxStream<'static, Result<F::Event, F::Error>> {
    let following = Following {
        followed,
        phase: Phase::List,
        failures: 0,
        retry_class: EARLY_END,
        ready: VecDeque::new(),
    };
    stream::unfold(following, |mut following| async move {
        loop {
            if let Some(event) = following.ready.pop_front() {
                return Some((event, following));
            }
            following.step().await;
        }
    })
    .boxed()
}

enum Phase {
    /// The objects are not known: list.
    List,
    /// The next part of a list.
    Listing,
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

struct Following<F: Followed> {
    followed: F,
    phase: Phase,
    /// Failures in a row, and the class of the last one.
    failures: u32,
    retry_class: RetryClass,
    ready: VecDeque<Result<F::Event, F::Error>>,
}

impl<F: Followed> Following<F> {
    async fn step(&mut self) {
        match std::mem::replace(&mut self.phase, Phase::List) {
            Phase::List => {
                self.pause().await;
                self.list().await;
            }
            Phase::Listing => self.list().await,
            Phase::Open { resource_version, listed } => self.open(resource_version, listed).await,
            Phase::Reading(reading) => self.read(reading).await,
        }
    }

    async fn list(&mut self) {
        match self.followed.list().await {
            Ok(Listing { items, resource_version }) => {
                self.ready.extend(items.into_iter().map(Ok));
                self.phase = resource_version.map_or(Phase::Listing, |resource_version| {
                    Phase::Open { resource_version, listed: true }
                });
            }
            Err(error) => self.interrupted(error),
        }
    }

    async fn open(&mut self, resource_version: String, listed: bool) {
        match self.followed.open(&resource_version).await {
            Ok(None) if listed => self.interrupted(self.followed.error(WatchEnd::Expired)),
            Ok(None) => {}
            Ok(Some(stream)) => {
                self.phase = Phase::Reading(Reading::new(stream, resource_version, listed));
            }
            Err(error) => self.interrupted(error),
        }
    }

    async fn read(&mut self, mut reading: Box<Reading>) {
        match reading.next(&mut self.followed, &mut self.ready).await {
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
        let is_expired = end == WatchEnd::Expired;
        if is_expired && !reading.listed {
            return;
        }
        if early && reading.events == 0 {
            return self.interrupted(self.followed.error(end));
        }
        if early {
            sleep(gitwork_retry::delay(0, EARLY_END, fastrand::u64(..))).await;
        }
        let resource_version = reading.resource_version;
        self.phase = Phase::Open { resource_version, listed: false };
    }

    fn interrupted(&mut self, error: F::Error) {
        self.failures = self.failures.saturating_add(1);
        self.retry_class = F::retry_class(&error);
        self.ready.push_back(Err(error));
    }

    async fn pause(&mut self) {
        if let Some(before) = self.failures.checked_sub(1) {
            let before = before.min(FAILURES_MAX);
            sleep(gitwork_retry::delay(before, self.retry_class, fastrand::u64(..))).await;
        }
    }
}

impl Reading {
    fn new(stream: WatchStream, resource_version: String, listed: bool) -> Box<Self> {
        Box::new(Self { stream, resource_version, listed, opened: Instant::now(), events: 0 })
    }

    /// Waits for the next chunk and puts its events into `ready`.
    async fn next<F: Followed>(
        &mut self,
        followed: &mut F,
        ready: &mut VecDeque<Result<F::Event, F::Error>>,
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
            let event = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    followed.read(Change::Present(object))
                }
                WatchEvent::Deleted(object) => followed.read(Change::Gone(object)),
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => None,
            };
            ready.extend(event.map(Ok));
            Ok(())
        });
        next.await
    }
}

/// What is wrong with a watch that ended and cannot go on.
pub(crate) fn problem(end: &WatchEnd) -> String {
    match end {
        WatchEnd::Expired => "the resourceVersion expired right after the list (410)".into(),
        WatchEnd::Closed => "the hub ends each watch at once".into(),
        other => other.to_string(),
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

    /// Names of objects and their versions.
    struct Names;

    impl Followed for Names {
        type Event = String;
        type Error = WatchEnd;

        async fn list(&mut self) -> Result<Listing<String>, WatchEnd> {
            Err(WatchEnd::Closed)
        }

        async fn open(&mut self, _: &str) -> Result<Option<WatchStream>, WatchEnd> {
            Ok(None)
        }

        fn read(&mut self, change: Change) -> Option<String> {
            let text = |object: &Value, field| {
                object.pointer(field).and_then(Value::as_str).map(str::to_owned)
            };
            let name = |object: &Value| text(object, "/metadata/name");
            match change {
                Change::Present(object) => {
                    let version = text(&object, "/metadata/resourceVersion")?;
                    Some(format!("{} at {version}", name(&object)?))
                }
                Change::Gone(object) => Some(format!("{} gone", name(&object)?)),
            }
        }

        fn error(&self, end: WatchEnd) -> WatchEnd {
            end
        }

        fn retry_class(_: &WatchEnd) -> RetryClass {
            EARLY_END
        }
    }

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
            if let Err(end) = reading.next(&mut Names, &mut ready).now_or_never().unwrap() {
                break end;
            }
        };
        (ready.into_iter().map(Result::unwrap).collect(), end, reading)
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
        let long = format!("{} at 5", "x".repeat(250));
        let expected = ["web at 2", "web at 3", "web gone", &long];
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
        let end = reading.next(&mut Names, &mut VecDeque::new()).await;
        assert_eq!(end, Err(WatchEnd::Silent));
        assert_eq!(reading.opened.elapsed(), limits::HUB_WATCH + limits::HUB_CALL);
    }

    #[tokio::test(start_paused = true)]
    async fn waits_before_a_list_grow_to_a_bound() {
        let mut events = follow(Names);
        let mut waits = Vec::new();
        for _ in 0..12 {
            let began = Instant::now();
            assert_eq!(events.next().await, Some(Err(WatchEnd::Closed)), "its lists fail");
            waits.push(began.elapsed().as_secs_f64());
        }
        assert!(waits[0] < 0.1 && waits[1..4].is_sorted(), "{waits:?}");
        assert!(waits[6..].iter().all(|wait| (12.0..20.1).contains(wait)), "{waits:?}");
    }

    #[tokio::test]
    async fn invalid_events_end_a_watch_and_an_expired_version_lists_again() {
        let too_old = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n";
        let (events, end, _) = read(reading(vec![(event("ADDED", "web", "2") + too_old).into()]));
        assert_eq!(events, ["web at 2"]);
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
