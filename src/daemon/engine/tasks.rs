//! The running fetch and the running pass of an engine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::error::EngineError;
use crate::clock::monotonic;
use crate::metrics::Stage;
use crate::reader::SourceReader;
use gitwork_core::model::name::WorkKey;
use gitwork_core::plan::Effect;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_hub::execute::Outcome;
use gitwork_hub::{Hub, HubError};
use gitwork_source::{SourceReadError, SourceState};

pub(super) type Fetched = (Box<dyn SourceReader>, Result<SourceState, SourceReadError>);
pub(super) type Fetch = JoinHandle<Fetched>;

/// An event of a pass.
pub(super) enum PassEvent {
    LookedUp(WorkKey, Box<Result<Option<ObservedWork>, HubError>>),
    Outcome(Box<Outcome>),
}

/// A running pass.
pub(super) struct Pass {
    events: BoxStream<'static, PassEvent>,
    stop: watch::Sender<bool>,
    began: Instant,
    /// When the last write ended that is no deletion.
    last_write_end: Option<Instant>,
    last_deletion_end: Option<Instant>,
}

impl Pass {
    pub(super) fn new(events: BoxStream<'static, PassEvent>, stop: watch::Sender<bool>) -> Self {
        let (last_write_end, last_deletion_end) = (None, None);
        Self { events, stop, began: monotonic(), last_write_end, last_deletion_end }
    }

    /// The next event; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<PassEvent> {
        self.events.next().await
    }

    /// Leaves out the tasks that have not begun.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Notes the time of an event.
    pub(super) fn note(&mut self, event: &PassEvent) {
        if let PassEvent::Outcome(outcome) = event {
            let is_deletion = matches!(outcome.task.effect, Effect::Delete { .. });
            let last_end =
                if is_deletion { &mut self.last_deletion_end } else { &mut self.last_write_end };
            *last_end = Some(monotonic());
        }
    }

    /// The duration of writes and of deletions.
    pub(super) fn spent(&self) -> impl Iterator<Item = (Stage, Duration)> {
        let writes = self.last_write_end.map(|end| (Stage::Apply, end - self.began));
        let from = self.last_write_end.unwrap_or(self.began);
        let deletions =
            self.last_deletion_end.map(|end| (Stage::Prune, end.saturating_duration_since(from)));
        writes.into_iter().chain(deletions)
    }
}

/// Reads works from the hub, a few at once.
pub(super) fn look_up(hub: &Arc<dyn Hub>, keys: Vec<WorkKey>) -> BoxStream<'static, PassEvent> {
    let hub = hub.clone();
    stream::iter(keys)
        .map(move |key| {
            let hub = hub.clone();
            async move {
                let found = hub.get(&key).await;
                PassEvent::LookedUp(key, Box::new(found))
            }
        })
        .buffer_unordered(gitwork_hub::limits::HUB_IN_FLIGHT_PER_CLUSTER)
        .boxed()
}

/// The end of the running fetch; pending if there is none.
pub(super) async fn finished(fetch: &mut Option<Fetch>) -> Result<Fetched, EngineError> {
    match fetch {
        Some(fetch) => fetch.await.map_err(|_| EngineError::Panic),
        None => std::future::pending().await,
    }
}

/// The next event of the running pass; `None` at its end.
pub(super) async fn next_event(pass: &mut Option<Pass>) -> Option<PassEvent> {
    match pass {
        Some(pass) => pass.next().await,
        None => std::future::pending().await,
    }
}
