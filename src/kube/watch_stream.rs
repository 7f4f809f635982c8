//! One open watch request: its body, cut into events, with a bound on each event and on silence.

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use gitwork_retry::operation_error::{ErrorClass, OperationError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::api_status::ApiStatus;
use crate::connection_error;

/// One event of a watch. `T` is the object, in the form that the caller needs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", content = "object", rename_all = "UPPERCASE")]
pub enum WatchEvent<T> {
    /// The object was created, or existed before a watch without a resourceVersion began.
    Added(T),
    /// The object changed; this is its new version.
    Modified(T),
    /// The object was deleted; this is its last version, with the resourceVersion of the deletion.
    Deleted(T),
    /// The watch has passed this resourceVersion, the only field that is set.
    Bookmark(T),
    /// The `Status` object of a failure. [`WatchStream::next`] ends with it.
    Error(Value),
}

/// Why a watch request ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnd {
    /// The API server closed it, as it does after `timeoutSeconds`.
    #[error("the API server closed the watch")]
    Closed,
    /// The resourceVersion is too old (410): list again.
    #[error("the resourceVersion of the watch expired (410)")]
    Expired,
    /// The API server reported a failure in the stream.
    #[error("{}", .0.text())]
    Failed(ApiStatus),
    /// Nothing came until the deadline, longer than the API server keeps a watch open.
    #[error("the watch is silent")]
    Silent,
    /// The connection broke, for this reason.
    #[error("{0}")]
    Broken(String),
    /// One event is larger than the limit.
    #[error("an event of the watch is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The limit that the caller set.
        limit_bytes: usize,
    },
    /// The stream has something that is no watch event.
    #[error("the watch sends no valid event: {0}")]
    Invalid(String),
}

impl OperationError for WatchEnd {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Failed(status) => status.retry_class().into(),
            _ => ErrorClass::TRANSIENT,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Failed(status) => status.code_name(),
            Self::Closed => "WatchClosed",
            Self::Expired => "Expired",
            Self::Silent => "Timeout",
            Self::Broken(_) => "Network",
            Self::TooLarge { .. } => "TooLarge",
            Self::Invalid(_) => "InvalidResponse",
        }
    }
}

/// The events of one watch request.
pub struct WatchStream {
    body: BoxStream<'static, Result<Bytes, WatchEnd>>,
    /// The begin of a line whose end has not arrived.
    line: Vec<u8>,
    deadline: Instant,
    event_bytes_max: usize,
}

impl WatchStream {
    /// Reads the events in `body`, one JSON object a line, until `deadline`.
    pub fn new<E>(
        body: impl futures::Stream<Item = Result<Bytes, E>> + Send + 'static,
        deadline: Instant,
        event_bytes_max: usize,
    ) -> Self
    where
        E: std::error::Error + Send + 'static,
    {
        let broken = |error: E| WatchEnd::Broken(connection_error::describe(&error));
        let body = body.map(move |chunk| chunk.map_err(broken));
        Self { body: body.boxed(), line: Vec::new(), deadline, event_bytes_max }
    }

    /// Waits for the next chunk of the body and passes its complete events to `observe`, in order.
    ///
    /// `observe` can end the watch. An error event ends it, too.
    pub async fn next<T: DeserializeOwned>(
        &mut self,
        mut observe: impl FnMut(WatchEvent<T>) -> Result<(), WatchEnd>,
    ) -> Result<(), WatchEnd> {
        let chunk = match timeout_at(self.deadline, self.body.next()).await {
            Err(_) => return Err(WatchEnd::Silent),
            Ok(None) => return Err(WatchEnd::Closed),
            Ok(Some(chunk)) => chunk?,
        };
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.len() > self.event_bytes_max {
                return Err(WatchEnd::TooLarge { limit_bytes: self.event_bytes_max });
            }
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                if !line.trim_ascii().is_empty() {
                    observe(event(&line)?)?;
                }
            }
        }
        Ok(())
    }
}

fn event<T: DeserializeOwned>(line: &[u8]) -> Result<WatchEvent<T>, WatchEnd> {
    match serde_json::from_slice(line) {
        Ok(WatchEvent::Error(object)) => {
            let status = ApiStatus::of_watch_event(&object);
            Err(if status.is_expired() { WatchEnd::Expired } else { WatchEnd::Failed(status) })
        }
        Ok(event) => Ok(event),
        Err(error) => Err(WatchEnd::Invalid(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::stream;
    use serde_json::json;

    use super::*;

    const EVENT_BYTES_MAX: usize = 1_000;

    fn watch(chunks: Vec<Vec<u8>>) -> WatchStream {
        let chunks = chunks.into_iter().map(|chunk| Ok::<_, std::io::Error>(Bytes::from(chunk)));
        let deadline = Instant::now() + Duration::from_secs(60);
        WatchStream::new(stream::iter(chunks), deadline, EVENT_BYTES_MAX)
    }

    /// The events up to the end of a watch.
    async fn read(mut watch: WatchStream) -> (Vec<WatchEvent<Value>>, WatchEnd) {
        let mut events = Vec::new();
        loop {
            let next = watch.next(|event| {
                events.push(event);
                Ok(())
            });
            if let Err(end) = next.await {
                return (events, end);
            }
        }
    }

    fn line(kind: &str, object: &Value) -> String {
        json!({ "type": kind, "object": object }).to_string() + "\n"
    }

    #[tokio::test]
    async fn events_are_independent_of_the_chunks_that_carry_them() {
        let text = line("ADDED", &json!(1)) + "\n" + &line("DELETED", &json!(2)) + "{\"type\"";
        for size in [1, 7, text.len()] {
            let chunks = text.as_bytes().chunks(size).map(<[u8]>::to_vec).collect();
            let (events, end) = read(watch(chunks)).await;
            let expected = [WatchEvent::Added(json!(1)), WatchEvent::Deleted(json!(2))];
            assert_eq!((events, end), (expected.to_vec(), WatchEnd::Closed), "chunks of {size}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_ends_at_its_deadline_and_at_errors() {
        let silence = stream::pending::<Result<Bytes, std::io::Error>>();
        let begin = Instant::now();
        let silent = WatchStream::new(silence, begin + Duration::from_secs(9), EVENT_BYTES_MAX);
        assert_eq!(read(silent).await.1, WatchEnd::Silent);
        assert_eq!(begin.elapsed(), Duration::from_secs(9));
        let expired = line("ERROR", &json!({ "kind": "Status", "code": 410 }));
        assert_eq!(read(watch(vec![expired.into()])).await.1, WatchEnd::Expired);
        let failed = line("ERROR", &json!({ "code": 500 }));
        assert!(matches!(read(watch(vec![failed.into()])).await.1, WatchEnd::Failed(_)));
        for odd in ["<html>\n", "{}\n", "[1]\n"] {
            let end = read(watch(vec![odd.into()])).await.1;
            assert!(matches!(end, WatchEnd::Invalid(_)), "{odd}: {end}");
        }
        let large = vec![vec![b'x'; EVENT_BYTES_MAX], vec![b'x']];
        assert!(matches!(read(watch(large)).await.1, WatchEnd::TooLarge { .. }));
    }
}
