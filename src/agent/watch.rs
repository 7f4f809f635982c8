//! List and watch of one collection: a list in pages, then a watch from its version on.

use std::time::Duration;

use gitwork_retry::{Backoff, log_error, spread_by_quarter};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::server::{ApiError, ApiServer, LIST_PAGE};
use gitwork_kube::list_page::ListPage;
use gitwork_kube::watch_stream::{WatchEnd, WatchEvent};

/// How long the API server is asked to keep a watch open, at least; up to half more, so that not
/// all end at once.
const WATCH: Duration = Duration::from_secs(600);
/// A watch that is open for this much longer counts as dead.
const GRACE: Duration = Duration::from_secs(20);
/// Interval between full lists. They should report nothing new.
const RELIST: Duration = Duration::from_secs(6 * 3600);
/// A watch that ends sooner was cut.
const SHORT: Duration = Duration::from_secs(1);
/// The longest wait before an API server is tried again.
const RETRY_LONGEST: Duration = Duration::from_secs(10);
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), RETRY_LONGEST);

/// Receives the objects of a watched collection.
pub trait Follower: Send {
    /// The part of an object that is kept while the response is read.
    type Item: DeserializeOwned + Versioned + Send;
    /// A list begins: objects that are not in it are gone.
    fn list_started(&mut self);
    /// The object exists in this version.
    fn present(&mut self, item: Self::Item);
    /// The object is deleted. The resourceVersion is that of the deletion.
    fn gone(&mut self, item: Self::Item);
    /// A list has ended, as of a revision.
    fn list_ended(&mut self, revision: u64);
    /// The collection cannot be followed for now. Returns the shortest wait before the next try.
    fn failed(&mut self, error: &ApiError) -> Duration;
    /// The collection can be followed again.
    fn recovered(&mut self) {}
}

/// An object with a resourceVersion.
pub trait Versioned {
    /// The resourceVersion.
    fn version(&self) -> &str;
}

/// A resourceVersion as a number. API servers promise since Kubernetes 1.35 that they compare so,
/// and did before.
pub fn revision(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or(0)
}

/// Failures in a row of one collection.
#[derive(Debug, Default)]
struct Failures(u32);

impl Failures {
    /// Counts a failure of a try that took `took`. Returns the wait before the next try, which is
    /// at least `at_least`, both without jitter.
    fn next_wait(&mut self, took: Duration, at_least: Duration) -> Duration {
        if took > RETRY_LONGEST {
            // The collection was followed for a while: the failures are not in a row.
            self.0 = 0;
        }
        let wait = RETRY.wait(self.0).max(at_least);
        self.0 = self.0.saturating_add(1);
        wait
    }

    /// Ends the row. Returns whether there was a failure.
    fn end(&mut self) -> bool {
        std::mem::take(&mut self.0) > 0
    }
}

/// A collection, the version to go on from, and the failures since.
struct Collection<'a, F> {
    server: &'a ApiServer,
    path: &'a str,
    metadata_only: bool,
    follower: &'a mut F,
    /// The resourceVersion to watch from, and when it was last listed.
    from: Option<(String, Instant)>,
    failures: Failures,
    /// Versions that expired in a row, without a watch in between. A list does not end the row: its
    /// version may expire at once.
    expiries: Failures,
}

/// Follows a collection until the future is dropped.
pub async fn follow<F: Follower>(
    server: &ApiServer,
    path: &str,
    metadata_only: bool,
    follower: &mut F,
) {
    let (failures, expiries) = (Failures::default(), Failures::default());
    let mut all =
        Collection { server, path, metadata_only, follower, from: None, failures, expiries };
    loop {
        let begun = Instant::now();
        let step = match all.from.take().filter(|(_, listed)| listed.elapsed() < RELIST) {
            Some(from) => all.watch(from).await,
            None => all.list().await,
        };
        let Err(error) = step else {
            let is_watch = all.from.as_ref().is_some_and(|(_, listed)| *listed < begun);
            // A watch reports it when it opens.
            if all.failures.end() && !is_watch {
                all.follower.recovered();
            }
            if is_watch && begun.elapsed() < SHORT {
                // A proxy may end each watch at once: bound the number of requests.
                sleep(SHORT).await;
            }
            continue;
        };
        log_error!(debug, &error, path, "cannot follow");
        let wait = if error.is_expired() {
            all.from = None;
            all.expiries.next_wait(begun.elapsed(), Duration::ZERO)
        } else {
            let at_least = all.follower.failed(&error);
            all.failures.next_wait(begun.elapsed(), at_least)
        };
        sleep(spread_by_quarter(wait, fastrand::u64(..))).await;
    }
}

impl<F: Follower> Collection<'_, F> {
    async fn list(&mut self) -> Result<(), ApiError> {
        self.follower.list_started();
        let mut next = String::new();
        loop {
            let path = format!("{}?limit={LIST_PAGE}{next}", self.path);
            let page: ListPage<F::Item> = self.server.list(&path, self.metadata_only).await?;
            let next_query = page.next_query();
            page.items.into_iter().flatten().for_each(|item| self.follower.present(item));
            let Some(query) = next_query else {
                let version = page.metadata.resource_version;
                self.follower.list_ended(revision(&version));
                self.from = Some((version, Instant::now()));
                return Ok(());
            };
            next = query;
        }
    }

    /// Watches until the API server ends it. Sets the version to go on from, also on an error.
    async fn watch(&mut self, from: (String, Instant)) -> Result<(), ApiError> {
        let open_for = WATCH.mul_f64(1.0 + fastrand::f64() / 2.0);
        let separator = if self.path.contains('?') { '&' } else { '?' };
        let path = format!(
            "{}{separator}watch=1&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
            self.path,
            open_for.as_secs(),
            from.0
        );
        let (version, _) = self.from.insert(from);
        let mut events = self.server.watch(&path, self.metadata_only, open_for + GRACE).await?;
        let opened = Instant::now();
        if self.failures.0 > 0 {
            self.follower.recovered();
        }
        loop {
            let follower = &mut *self.follower;
            let next = events.next(|event: WatchEvent<F::Item>| {
                let (WatchEvent::Added(item)
                | WatchEvent::Modified(item)
                | WatchEvent::Deleted(item)
                | WatchEvent::Bookmark(item)) = &event
                else {
                    return Ok(());
                };
                if !item.version().is_empty() {
                    item.version().clone_into(version);
                }
                match event {
                    WatchEvent::Added(item) | WatchEvent::Modified(item) => follower.present(item),
                    WatchEvent::Deleted(item) => follower.gone(item),
                    WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
                }
                Ok(())
            });
            match next.await {
                Ok(()) => {}
                Err(WatchEnd::Closed) => return Ok(()),
                Err(end) => return Err(end.into()),
            }
            if opened.elapsed() > SHORT {
                self.failures.end();
                self.expiries.end();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response, StatusCode};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::timeout;
    use tower::service_fn;

    use super::*;
    use crate::items::MetadataItem;

    #[test]
    fn outage_of_a_minute_is_tried_with_backoff_and_its_end_noticed_soon() {
        for quarter in [3, 4, 5] {
            let (mut failures, mut away, mut tries) = (Failures::default(), Duration::ZERO, 0);
            while away < Duration::from_secs(60) {
                let wait = failures.next_wait(Duration::from_millis(1), Duration::ZERO);
                assert!(wait <= RETRY_LONGEST, "{wait:?}");
                (away, tries) = (away + wait * quarter / 4, tries + 1);
            }
            assert!((8..=16).contains(&tries), "{tries} tries in a minute");
            assert!(failures.end() && !failures.end(), "the next failure is the first in a row");
        }
    }

    /// Ignores what it follows.
    struct Ignore;

    impl Follower for Ignore {
        type Item = MetadataItem;
        fn list_started(&mut self) {}
        fn present(&mut self, _item: MetadataItem) {}
        fn gone(&mut self, _item: MetadataItem) {}
        fn list_ended(&mut self, _revision: u64) {}
        fn failed(&mut self, _error: &ApiError) -> Duration {
            Duration::ZERO
        }
    }

    /// The number of requests in ten minutes to a server that answers each watch with 410, and
    /// lists too if `lists` is not set.
    async fn requests_while_versions_expire(lists: bool) -> usize {
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = requests.clone();
        let service = service_fn(move |request: Request<Body>| {
            assert!(counted.fetch_add(1, Ordering::Relaxed) < 1_000, "the requests have no end");
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=1"));
            let response = if is_watch || !lists {
                Response::builder().status(StatusCode::GONE).body(Body::empty())
            } else {
                let page = json!({"metadata": {"resourceVersion": "7"}, "items": []});
                Response::builder().body(Body::from(page.to_string().into_bytes()))
            };
            std::future::ready(response)
        });
        let server = ApiServer::new(Client::new(service, "default"), "hub", None, Arc::default());
        let ten_minutes = Duration::from_secs(600);
        let ended = timeout(ten_minutes, follow(&server, "/api/v1/pods", true, &mut Ignore)).await;
        assert!(ended.is_err());
        requests.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn versions_that_expire_at_once_are_listed_again_with_backoff() {
        for lists in [true, false] {
            let requests = requests_while_versions_expire(lists).await;
            assert!((60..=200).contains(&requests), "{lists}: {requests} requests");
        }
    }

    #[test]
    fn failure_after_a_while_is_the_first_in_a_row() {
        let mut failures = Failures::default();
        let waits = [(0, 0), (0, 0), (0, 300), (0, 0), (600, 0)].map(|(took, at_least)| {
            failures.next_wait(Duration::from_secs(took), Duration::from_secs(at_least))
        });
        assert_eq!(waits.map(|wait| wait.as_millis()), [100, 200, 300_000, 800, 100]);
    }
}
