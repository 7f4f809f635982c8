//! Watches an engine for pauses. While one step of it computes, events of the hub, outcomes of
//! writes and hints wait.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

use crate::clock::monotonic;
use crate::limits::ENGINE_PAUSE;

/// Runs a task, and calls `on_pause` with the duration of each step that takes longer than
/// [`ENGINE_PAUSE`]. A step is all that the task does without waiting.
pub(super) async fn watched<F: Future>(task: F, mut on_pause: impl FnMut(Duration)) -> F::Output {
    let mut task = pin!(task);
    poll_fn(|context| {
        let began = monotonic();
        let polled = task.as_mut().poll(context);
        let spent = monotonic().saturating_duration_since(began);
        if spent > ENGINE_PAUSE {
            on_pause(spent);
        }
        polled
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_long_steps_are_pauses() {
        let pauses = RefCell::new(Vec::new());
        let long = ENGINE_PAUSE + Duration::from_millis(1);
        let steps = RefCell::new(vec![long * 2, ENGINE_PAUSE, Duration::ZERO, long]);
        // Each poll advances the clock, as a step that computes does.
        let task = poll_fn(|context| {
            let Some(step) = steps.borrow_mut().pop() else { return std::task::Poll::Ready(7) };
            let mut advance = pin!(tokio::time::advance(step));
            let _ = advance.as_mut().poll(context);
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        });
        let result = watched(task, |spent| pauses.borrow_mut().push(spent)).await;
        assert_eq!(result, 7);
        assert_eq!(*pauses.borrow(), [long, long * 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_is_no_pause() {
        let mut pauses = 0;
        watched(tokio::time::sleep(Duration::from_secs(60)), |_| pauses += 1).await;
        assert_eq!(pauses, 0);
    }
}
