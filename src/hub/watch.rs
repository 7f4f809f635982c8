//! The works of one source and their changes: a list, then watches, one after the other, for ever.

use std::collections::VecDeque;

use futures::stream::{self, BoxStream, StreamExt};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use super::answer::{self, Verb};
use super::list::{self, reduce, selector};
use super::server::{KubeHub, Question, unanswered};
use super::{HubError, HubEvent, transport};
use crate::core::backoff::{self, Setback};
use crate::core::name::SourceId;
use crate::limits;

/// How a watch that the hub ends early is taken.
const SHORT: Setback = Setback::Unavailable { retry_after_seconds: None };

/// Where the watch stands.
enum Phase {
    /// Nothing is known, or too little: list.
    List,
    /// Go on after this resourceVersion. `listed`: it is the one of a list, not of an event.
    Open {
        resource_version: String,
        listed: bool,
    },
    Reading(Box<Reading>),
}

/// One watch request that is open.
struct Reading {
    body: axum::body::BodyDataStream,
    /// What has come and is no complete line yet.
    rest: Vec<u8>,
    resource_version: String,
    /// The resourceVersion was a list's.
    listed: bool,
    opened: Instant,
    events: u64,
}

/// Why a watch request is over.
enum End {
    /// The hub closed it, as it does now and then.
    Closed,
    /// The resourceVersion is too old.
    Expired,
    Broken(HubError),
}

struct Watch {
    hub: KubeHub,
    source: SourceId,
    phase: Phase,
    /// Failures in a row, and what the last one was.
    failures: u32,
    setback: Setback,
    ready: VecDeque<HubEvent>,
}

/// The events of `source`. A watch that breaks is opened again where it stood, unnoticed if that works at once; else
/// `Interrupted` says why, and `Listed` follows when the hub is back.
pub fn watch(hub: KubeHub, source: SourceId) -> BoxStream<'static, HubEvent> {
    let (phase, ready) = (Phase::List, VecDeque::new());
    let watch = Watch { hub, source, phase, failures: 0, setback: SHORT, ready };
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
        match list::list(&self.hub, Some(&self.source)).await {
            Ok(listed) => {
                self.ready.push_back(HubEvent::Listed(listed.works));
                let resource_version = listed.resource_version;
                self.phase = Phase::Open { resource_version, listed: true };
            }
            Err(error) => self.interrupted(error),
        }
    }

    async fn open(&mut self, resource_version: String, listed: bool) {
        let query = format!(
            "watch=1&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={resource_version}{}",
            limits::HUB_WATCH.as_secs(),
            selector(Some(&self.source)),
        );
        match self.hub.open(&Question::of_works(Verb::Watch, &query)).await {
            Ok(None) if listed => self.interrupted(expired()),
            Ok(None) => {}
            Ok(Some(body)) => {
                let (rest, opened) = (Vec::new(), Instant::now());
                let reading = Reading { body, rest, resource_version, listed, opened, events: 0 };
                self.phase = Phase::Reading(Box::new(reading));
            }
            Err(error) => self.interrupted(error),
        }
    }

    async fn read(&mut self, mut reading: Box<Reading>) {
        match reading.next(&mut self.ready).await {
            Ok(()) => {
                self.failures = 0;
                self.phase = Phase::Reading(reading);
            }
            Err(end) => self.ended(*reading, end).await,
        }
    }

    /// Opens the next watch, or lists where that cannot go on or where watches end at once without a word.
    async fn ended(&mut self, reading: Reading, end: End) {
        let early = reading.opened.elapsed() < limits::HUB_WATCH_SHORT;
        let error = match end {
            End::Expired if reading.listed => expired(),
            End::Expired => return,
            End::Closed => unanswered("the hub ends each watch at once".into()),
            End::Broken(error) => error,
        };
        if early && reading.events == 0 {
            return self.interrupted(error);
        }
        if early {
            sleep(backoff::delay(0, SHORT, fastrand::u64(..))).await;
        }
        let resource_version = reading.resource_version;
        self.phase = Phase::Open { resource_version, listed: false };
    }

    fn interrupted(&mut self, error: HubError) {
        tracing::warn!(source = %self.source, "the watch of the hub is interrupted: {error}");
        self.failures = self.failures.saturating_add(1);
        self.setback = error.setback();
        self.ready.push_back(HubEvent::Interrupted(error));
    }

    async fn pause(&mut self) {
        if let Some(attempt) = self.failures.checked_sub(1) {
            sleep(backoff::delay(attempt, self.setback, fastrand::u64(..))).await;
        }
    }
}

fn expired() -> HubError {
    unanswered("the hub has forgotten already where a list of just now ended (410)".into())
}

impl Reading {
    /// Waits for the next chunk and turns its complete lines into events.
    async fn next(&mut self, ready: &mut VecDeque<HubEvent>) -> Result<(), End> {
        let deadline = self.opened + limits::HUB_WATCH + limits::HUB_CALL;
        let chunk = match timeout_at(deadline, self.body.next()).await {
            Err(_) => return Err(End::Broken(unanswered("the watch has gone silent".into()))),
            Ok(None) => return Err(End::Closed),
            Ok(Some(Err(error))) => {
                return Err(End::Broken(unanswered(transport::describe(&error))));
            }
            Ok(Some(Ok(chunk))) => chunk,
        };
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(part);
            if self.rest.len() > limits::HUB_EVENT_BYTES_MAX {
                return Err(End::Broken(unanswered("an event of the watch is too large".into())));
            }
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.rest);
                if !line.trim_ascii().is_empty() {
                    ready.extend(self.event(&line)?);
                }
            }
        }
        Ok(())
    }

    fn event(&mut self, line: &[u8]) -> Result<Option<HubEvent>, End> {
        let mut event: Value = serde_json::from_slice(line)
            .map_err(|error| End::Broken(unanswered(format!("the watch is not JSON: {error}"))))?;
        let object = event.get_mut("object").map(Value::take).unwrap_or_default();
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind == "ERROR" {
            return Err(answer::watch_error(object).map_or(End::Expired, End::Broken));
        }
        let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        // It goes into the next query as it is.
        let opaque = |version: &&str| version.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let Some(version) = version.filter(|version| !version.is_empty()).filter(opaque) else {
            return Err(End::Broken(unanswered("the watch sends what is no object".into())));
        };
        self.resource_version = version.to_owned();
        self.events += 1;
        self.listed = false;
        Ok(match kind {
            "ADDED" | "MODIFIED" => reduce(object).map(|work| HubEvent::Changed(Box::new(work))),
            "DELETED" => reduce(object).map(|work| HubEvent::Gone(work.key)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use serde_json::json;

    use super::*;

    /// A watch that has these chunks to say, then ends.
    fn reading(chunks: Vec<Vec<u8>>) -> Reading {
        let chunks = stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>));
        let body = axum::body::Body::from_stream(chunks).into_data_stream();
        let resource_version = "1".to_owned();
        let opened = Instant::now();
        Reading { body, rest: Vec::new(), resource_version, listed: true, opened, events: 0 }
    }

    /// What a watch says, up to its end.
    fn read(mut reading: Reading) -> (Vec<String>, End, Reading) {
        let mut ready = VecDeque::new();
        let end = loop {
            if let Err(end) = reading.next(&mut ready).now_or_never().unwrap() {
                break end;
            }
        };
        let told = ready.into_iter().map(|event| match event {
            HubEvent::Changed(work) => format!("{} at {}", work.key, work.resource_version),
            HubEvent::Gone(key) => format!("{key} gone"),
            other => format!("{other:?}"),
        });
        (told.collect(), end, reading)
    }

    fn event(kind: &str, name: &str, version: &str) -> String {
        let metadata = json!({
            "namespace": "edge", "name": name, "uid": "u", "resourceVersion": version,
            "managedFields": [{"manager": "gitwork"}],
        });
        json!({"type": kind, "object": {"metadata": metadata}}).to_string() + "\n"
    }

    #[tokio::test]
    async fn events_come_out_whole_however_they_arrive() {
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
            let (told, end, after) = read(reading(chunks));
            assert_eq!(told, expected, "chunks of {size}");
            assert!(matches!(end, End::Closed));
            assert_eq!((after.resource_version.as_str(), after.events), ("9", 5));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_goes_silent_is_given_up() {
        let silence = stream::pending::<Result<Vec<u8>, std::io::Error>>();
        let body = axum::body::Body::from_stream(silence).into_data_stream();
        let mut reading = Reading { body, ..reading(Vec::new()) };
        let end = reading.next(&mut VecDeque::new()).await;
        assert!(matches!(end, Err(End::Broken(HubError::Unavailable { .. }))));
        assert_eq!(reading.opened.elapsed(), limits::HUB_WATCH + limits::HUB_CALL);
    }

    #[tokio::test]
    async fn what_is_no_watch_ends_it_and_too_old_asks_for_a_list() {
        let too_old = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n";
        let (told, end, _) = read(reading(vec![(event("ADDED", "web", "2") + too_old).into()]));
        assert_eq!(told, ["edge/web at 2"]);
        assert!(matches!(end, End::Expired));
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
            let (told, end, after) = read(reading(chunks));
            assert!(matches!(end, End::Broken(HubError::Unavailable { .. })), "{start}");
            assert_eq!((told.len(), after.resource_version.as_str()), (0, "1"), "{start}");
        }
    }
}
