//! List and watch of one collection: a list in pages, then a watch from its version on. Objects are
//! passed on as JSON, one by one, so that an invalid one hides no other.

use gitwork_kube::list_page::ListPage;
use gitwork_kube::watch_stream::{WatchEnd, WatchEvent};
use gitwork_retry::{log_error, spread_by_quarter};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::hub_api::{HubApi, HubOperation, HubRequest, HubRequestCause, HubRequestError};
use crate::limits;

/// What happens to a collection.
#[derive(Debug, Clone, PartialEq)]
pub enum CollectionEvent {
    /// A list begins. The objects before its end are all there are.
    ListStarted,
    /// An object of the list.
    Listed(Value),
    /// The list is complete, as of this version.
    ListCompleted(u64),
    /// An object was created or changed.
    Changed(Value),
    /// An object was deleted; this is its last version.
    Gone(Value),
    /// The collection cannot be read for now; objects may change unseen.
    Interrupted,
}

/// A collection to follow.
#[derive(Debug, Clone)]
pub struct WatchedCollection {
    /// Its path, with a query or without.
    pub path: String,
    /// The kind in the plural, for messages.
    pub kind: &'static str,
}

/// A version as a number. API servers promise since Kubernetes 1.35 that they compare so, and did
/// before.
pub fn revision(object: &Value) -> u64 {
    let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Follows a collection until the future is dropped.
pub async fn follow(
    api: &HubApi,
    collection: &WatchedCollection,
    mut observe: impl FnMut(CollectionEvent),
) {
    let mut from: Option<u64> = None;
    let mut failures: u32 = 0;
    loop {
        let begun = Instant::now();
        let step = match from {
            Some(version) => watch(api, collection, version, &mut observe).await,
            None => list(api, collection, &mut observe).await,
        };
        let (error, next) = match step {
            Ok(version) => {
                if from.is_some() && begun.elapsed() < limits::WATCH_SHORT {
                    // A proxy may end each watch at once: bound the number of requests.
                    sleep(limits::WATCH_SHORT).await;
                }
                from = Some(version);
                continue;
            }
            Err(failed) => failed,
        };
        if begun.elapsed() > limits::WATCH_SHORT {
            failures = 0;
        }
        if !error.is_expired() {
            if failures == 0 && next.is_none() {
                log_error!(warn, &error, "nothing changes until it can be read");
            }
            if next.is_none() {
                observe(CollectionEvent::Interrupted);
            }
        }
        from = next;
        let wait = error.retry_class().backoff().wait(failures).min(limits::WATCH_RETRY_MAX);
        failures = failures.saturating_add(1);
        sleep(spread_by_quarter(wait, fastrand::u64(..))).await;
    }
}

/// The error, and the version to watch from; `None` to list first.
type Failed = (HubRequestError, Option<u64>);

async fn list(
    api: &HubApi,
    collection: &WatchedCollection,
    observe: &mut impl FnMut(CollectionEvent),
) -> Result<u64, Failed> {
    observe(CollectionEvent::ListStarted);
    let separator = separator(&collection.path);
    let mut next = String::new();
    for _ in 0..limits::LIST_PAGES_MAX {
        let path = format!("{}{separator}limit={}{next}", collection.path, limits::LIST_PAGE);
        let request = HubRequest::new(HubOperation::List, path, collection.kind);
        let page: ListPage<Value> = api.send(&request).await.map_err(|error| (error, None))?;
        let next_query = page.next_query();
        for item in page.items.into_iter().flatten() {
            observe(CollectionEvent::Listed(item));
        }
        let Some(query) = next_query else {
            let version = page.metadata.resource_version.parse().unwrap_or(0);
            observe(CollectionEvent::ListCompleted(version));
            return Ok(version);
        };
        next = query;
    }
    Err((failed(HubOperation::List, collection, "the list has no end".to_owned()), None))
}

/// Watches until the API server ends it. Gives the version to go on from.
async fn watch(
    api: &HubApi,
    collection: &WatchedCollection,
    from: u64,
    observe: &mut impl FnMut(CollectionEvent),
) -> Result<u64, Failed> {
    let open_for = limits::WATCH.mul_f64(1.0 + fastrand::f64() / 2.0);
    let path = format!(
        "{}{}watch=1&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={from}",
        collection.path,
        separator(&collection.path),
        open_for.as_secs(),
    );
    let request = HubRequest::new(HubOperation::Watch, path, collection.kind);
    let opened = api.watch(&request, open_for + limits::WATCH_GRACE).await;
    let mut events = opened.map_err(|error| (error, None))?;
    let mut version = from;
    loop {
        let next = events.next(|event: WatchEvent<Value>| {
            let (object, event) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    (revision(&object), Some(CollectionEvent::Changed(object)))
                }
                WatchEvent::Deleted(object) => {
                    (revision(&object), Some(CollectionEvent::Gone(object)))
                }
                WatchEvent::Bookmark(object) => (revision(&object), None),
                WatchEvent::Error(_) => (0, None),
            };
            version = version.max(object);
            event.into_iter().for_each(&mut *observe);
            Ok(())
        });
        let end = match next.await {
            Ok(()) => continue,
            Err(WatchEnd::Closed) => return Ok(version),
            Err(end) => end,
        };
        // A broken connection loses no event; anything else may.
        let next = matches!(end, WatchEnd::Broken(_) | WatchEnd::Silent).then_some(version);
        let (operation, subject) = (HubOperation::Watch, collection.kind.to_owned());
        let cause = HubRequestCause::Watch(Box::new(end));
        return Err((HubRequestError { operation, subject, cause }, next));
    }
}

fn failed(
    operation: HubOperation,
    collection: &WatchedCollection,
    problem: String,
) -> HubRequestError {
    let cause = HubRequestCause::NoAnswer(problem);
    HubRequestError { operation, subject: collection.kind.to_owned(), cause }
}

fn separator(path: &str) -> char {
    if path.contains('?') { '&' } else { '?' }
}
