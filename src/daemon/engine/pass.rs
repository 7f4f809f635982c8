//! A running pass: look-ups on the hub, or the due effects of a plan.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::watch;

use crate::clock::monotonic;
use crate::metrics::Stage;
use gitwork_core::model::name::WorkKey;
use gitwork_core::plan::Effect;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_hub::execute::{ExecuteOptions, Outcome, Task, execute};
use gitwork_hub::{Hub, HubError};

/// An event of a pass.
pub(super) enum PassEvent {
    LookedUp(WorkKey, Box<Result<Option<ObservedWork>, HubError>>),
    Outcome(Box<Outcome>),
}

/// A running pass. Dropping it abandons the requests in flight.
pub(super) struct Pass {
    events: BoxStream<'static, PassEvent>,
    stop: watch::Sender<bool>,
    began: Instant,
    /// When the last write ended that is no deletion.
    last_write_end: Option<Instant>,
    last_deletion_end: Option<Instant>,
}

impl Pass {
    /// Reads works from the hub, a few at once.
    pub fn look_up(hub: &Arc<dyn Hub>, keys: Vec<WorkKey>) -> Self {
        let hub = hub.clone();
        let events = stream::iter(keys)
            .map(move |key| {
                let hub = hub.clone();
                async move {
                    let found = hub.get(&key).await;
                    PassEvent::LookedUp(key, Box::new(found))
                }
            })
            .buffer_unordered(gitwork_hub::limits::HUB_IN_FLIGHT_PER_CLUSTER)
            .boxed();
        Self::new(events, watch::Sender::new(false))
    }

    /// Writes the effects of a plan to the hub.
    pub fn execute(hub: &Arc<dyn Hub>, tasks: Vec<Task>, options: ExecuteOptions) -> Self {
        let (stop, stopped) = watch::channel(false);
        let outcomes = execute(hub.clone(), tasks, options, stopped);
        Self::new(outcomes.map(|outcome| PassEvent::Outcome(Box::new(outcome))).boxed(), stop)
    }

    fn new(events: BoxStream<'static, PassEvent>, stop: watch::Sender<bool>) -> Self {
        let (last_write_end, last_deletion_end) = (None, None);
        Self { events, stop, began: monotonic(), last_write_end, last_deletion_end }
    }

    /// Waits for the next event; `None` at the end. Cancel safe.
    pub async fn next(&mut self) -> Option<PassEvent> {
        let event = self.events.next().await;
        if let Some(PassEvent::Outcome(outcome)) = &event {
            let is_deletion = matches!(outcome.task.effect, Effect::Delete { .. });
            let last_end =
                if is_deletion { &mut self.last_deletion_end } else { &mut self.last_write_end };
            *last_end = Some(monotonic());
        }
        event
    }

    /// Leaves out the tasks that have not begun.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// The duration of writes and of deletions.
    pub fn spent(&self) -> impl Iterator<Item = (Stage, Duration)> {
        let writes = self.last_write_end.map(|end| (Stage::Apply, end - self.began));
        let from = self.last_write_end.unwrap_or(self.began);
        let deletions =
            self.last_deletion_end.map(|end| (Stage::Prune, end.saturating_duration_since(from)));
        writes.into_iter().chain(deletions)
    }
}

/// Waits for the next event of the running pass, `None` at its end; pending if there is no pass.
pub(super) async fn next_event(pass: &mut Option<Pass>) -> Option<PassEvent> {
    match pass {
        Some(pass) => pass.next().await,
        None => std::future::pending().await,
    }
}
