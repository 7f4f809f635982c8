//! List and watch of one collection: a list in pages, then a watch from its version on.

use std::time::Duration;

use futures::StreamExt;
use kube::core::WatchEvent;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::debug;

use super::server::{ApiError, ApiServer};

/// Objects of one page: little to hold at a time, and still 200 pages for 50,000.
const PAGE: u32 = 250;
/// How long the API server is asked to keep a watch open, at least; up to half more, so that not
/// all end at once.
const WATCH: Duration = Duration::from_secs(600);
/// A watch that is open for this much longer counts as dead.
const GRACE: Duration = Duration::from_secs(20);
/// Interval between full lists. They should report nothing new.
const RELIST: Duration = Duration::from_secs(6 * 3600);
/// A watch that ends sooner was cut.
const SHORT: Duration = Duration::from_secs(1);
const RETRY_FIRST: Duration = Duration::from_millis(100);
/// Longest wait before an API server is tried again.
const RETRY_LONGEST: Duration = Duration::from_secs(10);

/// Receives the objects of a watched collection.
pub trait Follower: Send {
    type Item: DeserializeOwned + Versioned + Clone + Send;
    /// A list begins: what it does not name is gone.
    fn list_started(&mut self);
    fn present(&mut self, item: Self::Item);
    fn gone(&mut self, item: Self::Item);
    /// A list has ended, as of a revision.
    fn list_ended(&mut self, revision: u64);
    /// The collection cannot be followed for now. Gives how long to wait at least.
    fn failed(&mut self, error: &ApiError) -> Duration;
    /// It can be followed again.
    fn recovered(&mut self) {}
}

/// A resourceVersion as a number. API servers promise since Kubernetes 1.35 that they compare so,
/// and did before.
pub fn revision(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or(0)
}

#[derive(Deserialize)]
struct Page<T> {
    metadata: PageMetadata,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: String,
}

/// Follows until it is dropped.
pub async fn follow<F: Follower>(
    server: &ApiServer,
    path: &str,
    metadata_only: bool,
    follower: &mut F,
) {
    let mut from: Option<(String, Instant)> = None;
    let mut failures: u32 = 0;
    loop {
        let begun = Instant::now();
        let step = match from.take().filter(|(_, listed)| listed.elapsed() < RELIST) {
            Some((version, listed)) => {
                watch(server, path, metadata_only, &version, follower, &mut failures)
                    .await
                    .map(|version| (version, listed))
                    .map_err(|(error, version)| (error, Some((version, listed))))
            }
            None => list(server, path, metadata_only, follower)
                .await
                .map(|version| (version, Instant::now()))
                .map_err(|error| (error, None)),
        };
        match step {
            Ok(next) => {
                let is_watch = next.1 < begun;
                // A watch has reported it when it was opened.
                if std::mem::take(&mut failures) > 0 && !is_watch {
                    follower.recovered();
                }
                from = Some(next);
                if is_watch && begun.elapsed() < SHORT {
                    // A proxy that ends watches at once must not make us ask without end.
                    sleep(SHORT).await;
                }
            }
            Err((error, next)) => {
                debug!(path, %error, "cannot follow");
                if !error.is_expired() {
                    from = next;
                    if begun.elapsed() > RETRY_LONGEST {
                        // It was well for a while: this is no failure in a row.
                        failures = 0;
                    }
                    let wait = RETRY_FIRST
                        .saturating_mul(2_u32.saturating_pow(failures))
                        .min(RETRY_LONGEST);
                    failures = failures.saturating_add(1);
                    let at_least = follower.failed(&error);
                    sleep(wait.max(at_least).mul_f64(0.75 + fastrand::f64() / 2.0)).await;
                }
            }
        }
    }
}

async fn list<F: Follower>(
    server: &ApiServer,
    path: &str,
    metadata_only: bool,
    follower: &mut F,
) -> Result<String, ApiError> {
    follower.list_started();
    let mut next = String::new();
    loop {
        let mut page_path = format!("{path}?limit={PAGE}");
        if !next.is_empty() {
            page_path.push_str("&continue=");
            page_path.push_str(&next);
        }
        let page: Page<F::Item> = server.list(&page_path, metadata_only).await?;
        page.items.into_iter().for_each(|item| follower.present(item));
        if page.metadata.next.is_empty() {
            follower.list_ended(revision(&page.metadata.resource_version));
            return Ok(page.metadata.resource_version);
        }
        next = page.metadata.next;
    }
}

/// Watches until the API server ends it. With an error comes the version to go on from. `failures`
/// came before it.
async fn watch<F: Follower>(
    server: &ApiServer,
    path: &str,
    metadata_only: bool,
    version: &str,
    follower: &mut F,
    failures: &mut u32,
) -> Result<String, (ApiError, String)> {
    let mut version = version.to_owned();
    let open_for = WATCH.mul_f64(1.0 + fastrand::f64() / 2.0);
    let deadline = Instant::now() + open_for + GRACE;
    let separator = if path.contains('?') { '&' } else { '?' };
    let watch_path = format!(
        "{path}{separator}watch=1&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={version}",
        open_for.as_secs()
    );
    let request = match ApiServer::watch_request(&watch_path, metadata_only) {
        Ok(request) => request,
        Err(error) => return Err((error, version)),
    };
    let opened =
        timeout_at(deadline, server.client().request_events::<Event<F::Item>>(request)).await;
    server.count("WATCH", 200);
    let mut events = match opened {
        Ok(Ok(events)) => Box::pin(events),
        Ok(Err(error)) => return Err((error.into(), version)),
        Err(_) => return Err((ApiError::Timeout, version)),
    };
    let opened = Instant::now();
    if *failures > 0 {
        follower.recovered();
    }
    loop {
        let event = match timeout_at(deadline, events.next()).await {
            Ok(Some(Ok(event))) => event,
            Ok(Some(Err(error))) => return Err((error.into(), version)),
            Ok(None) => return Ok(version),
            Err(_) => return Err((ApiError::Timeout, version)),
        };
        if opened.elapsed() > SHORT {
            *failures = 0;
        }
        let latest = match event {
            WatchEvent::Added(event) | WatchEvent::Modified(event) => {
                follower.present(event.item);
                event.version
            }
            WatchEvent::Deleted(event) => {
                follower.gone(event.item);
                event.version
            }
            WatchEvent::Bookmark(bookmark) => bookmark.metadata.resource_version,
            WatchEvent::Error(status) => return Err((ApiError::Status(status), version)),
        };
        if !latest.is_empty() {
            version = latest;
        }
    }
}

/// An object of an event, and its version.
#[derive(Clone)]
struct Event<T> {
    item: T,
    version: String,
}

/// Of items it is only known that they can be read; this one knows its version.
pub trait Versioned {
    fn version(&self) -> String;
}

impl<'de, T: Deserialize<'de> + Versioned> Deserialize<'de> for Event<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let item = T::deserialize(deserializer)?;
        let version = item.version();
        Ok(Self { item, version })
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use tower::service_fn;

    use super::*;
    use crate::items::MetadataItem;
    use crate::metrics::AgentMetrics;

    /// When the API server is away, from the start on.
    const AWAY: std::ops::Range<u64> = 30..90;

    #[derive(Default)]
    struct Calls {
        lists: Vec<u64>,
        failures: u32,
        recoveries: Vec<u64>,
    }

    struct Recorder {
        begun: Instant,
        calls: Arc<Mutex<Calls>>,
    }

    impl Follower for Recorder {
        type Item = MetadataItem;
        fn list_started(&mut self) {}
        fn present(&mut self, _: MetadataItem) {}
        fn gone(&mut self, _: MetadataItem) {}
        fn list_ended(&mut self, _: u64) {
            self.calls.lock().unwrap().lists.push(self.begun.elapsed().as_secs());
        }
        fn failed(&mut self, _: &ApiError) -> Duration {
            self.calls.lock().unwrap().failures += 1;
            Duration::ZERO
        }
        fn recovered(&mut self) {
            self.calls.lock().unwrap().recoveries.push(self.begun.elapsed().as_secs());
        }
    }

    /// Lists at once; breaks all connections while it is away, and lets watches wait otherwise.
    async fn answer(begun: Instant, request: Request<Body>) -> Result<Response<Body>, io::Error> {
        let broken = || io::Error::from(io::ErrorKind::ConnectionRefused);
        if AWAY.contains(&begun.elapsed().as_secs()) {
            return Err(broken());
        }
        if request.uri().query().is_some_and(|query| query.contains("watch=1")) {
            // It ends when the API server goes away.
            tokio::time::sleep_until(begun + Duration::from_secs(AWAY.start)).await;
            if begun.elapsed().as_secs() < AWAY.end {
                return Err(broken());
            }
            let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"X","apiVersion":"v1","metadata":{"resourceVersion":"9"}}}"#;
            return Ok(Response::new(Body::from(bookmark.as_bytes().to_vec())));
        }
        let list = r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#;
        Ok(Response::new(Body::from(list.as_bytes().to_vec())))
    }

    #[tokio::test(start_paused = true)]
    async fn api_server_away_for_60_s_is_tried_with_backoff_and_found_soon() {
        for round in 0..20 {
            let begun = Instant::now();
            let asked = Arc::new(AtomicU32::new(0));
            let counted = asked.clone();
            let service = service_fn(move |request| {
                counted.fetch_add(1, Ordering::Relaxed);
                answer(begun, request)
            });
            let client = Client::new(service, "default");
            let server = ApiServer::new(client, "cluster", None, Arc::new(AgentMetrics::new()));
            let calls = Arc::new(Mutex::new(Calls::default()));
            let mut recorder = Recorder { begun, calls: calls.clone() };
            let follows = follow(&server, "/api/v1/namespaces", true, &mut recorder);
            let until = begun + Duration::from_secs(AWAY.end + 14);
            assert!(timeout_at(until, follows).await.is_err(), "it follows for ever");
            let calls = calls.lock().unwrap();
            assert_eq!(calls.lists, [0], "it goes on from where it was, round {round}");
            assert!((8..=16).contains(&calls.failures), "{} tries in a minute", calls.failures);
            assert_eq!(calls.recoveries.len(), 1, "round {round}");
            assert!((90..=103).contains(&calls.recoveries[0]), "{:?}", calls.recoveries);
        }
    }
}
