//! Runs requests in tasks of their own: responses and events are parsed and their digests computed
//! there, while the caller's task goes on.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::pin;

use futures::stream::{self, BoxStream, Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Runs a future in a task. Dropping the caller's future aborts it.
pub(crate) async fn in_own_task<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> T {
    let mut tasks = JoinSet::new();
    tasks.spawn(future);
    match tasks.join_next().await {
        Some(Ok(result)) => result,
        Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
        // The runtime ends, and the caller with it.
        Some(Err(_)) | None => std::future::pending().await,
    }
}

/// Reads a stream in a task, up to `ahead` items before the reader. The task begins with the first
/// read and ends with the reader.
pub(crate) fn stream_in_own_task<T: Send + 'static>(
    source: impl Stream<Item = T> + Send + 'static,
    ahead: usize,
) -> BoxStream<'static, T> {
    let begin = async move {
        let (sender, receiver) = mpsc::channel(ahead);
        tokio::spawn(forward(source, sender));
        stream::unfold(receiver, |mut receiver| async move {
            let item = receiver.recv().await?;
            Some((item, receiver))
        })
    };
    stream::once(begin).flatten().boxed()
}

async fn forward<T>(source: impl Stream<Item = T>, sender: mpsc::Sender<T>) {
    let mut source = pin!(source);
    loop {
        let item = tokio::select! {
            biased;
            () = sender.closed() => return,
            item = source.next() => item,
        };
        match item {
            Some(item) if sender.send(item).await.is_ok() => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_stream_is_read_ahead_and_ends_with_its_reader() {
        let alive = Arc::new(());
        let held = Arc::clone(&alive);
        let endless = stream::iter(0..).map(move |number| (number, Arc::clone(&held)));
        let mut items = stream_in_own_task(endless, 2);
        assert_eq!(Arc::strong_count(&alive), 2, "nothing is read before the first read");
        assert_eq!(items.next().await.unwrap().0, 0);
        assert_eq!(items.next().await.unwrap().0, 1);
        drop(items);
        while Arc::strong_count(&alive) > 1 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_stream_ends_after_its_last_item() {
        let items: Vec<u8> = stream_in_own_task(stream::iter([1, 2, 3]), 1).collect().await;
        assert_eq!(items, [1, 2, 3]);
    }

    #[tokio::test]
    async fn a_dropped_future_ends_its_task() {
        let alive = Arc::new(());
        let held = Arc::clone(&alive);
        let mut waiting = Box::pin(in_own_task(async move {
            std::future::pending::<()>().await;
            drop(held);
        }));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(waiting);
        while Arc::strong_count(&alive) > 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(in_own_task(async { 7 }).await, 7);
    }
}
