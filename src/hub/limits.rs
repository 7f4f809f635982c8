//! The limits of this crate, each with its reason.

use std::time::Duration;

/// The data of one ConfigMap, in bytes. The API server accepts 1 MiB (`MaxSecretSize`); the rest is
/// for metadata.
pub const CONFIG_MAP_BYTES_MAX: usize = 1000 * 1024;
/// One request to the hub, its response included. OCM's admission webhook has 10 s too, so that a
/// longer request would not succeed.
pub const HUB_CALL: Duration = Duration::from_secs(10);
// A former leader's last request has ended before the next leader relies on what it may change.
const _: () = assert!(gitwork_core::limits::LATE_WRITE.as_secs() >= 2 * HUB_CALL.as_secs());
/// Setting up a connection to the hub, TLS included.
pub const HUB_CONNECT: Duration = Duration::from_secs(5);
/// How long the hub keeps one watch request open. A dead connection is noticed after
/// `HUB_WATCH_OPEN`. The next watch continues at the last resourceVersion without a list.
pub const HUB_WATCH: Duration = Duration::from_secs(120);
/// How long a watch may stay open: a little longer than the hub keeps it open.
pub const HUB_WATCH_OPEN: Duration = Duration::from_secs(HUB_WATCH.as_secs() + HUB_CALL.as_secs());
/// Works on the first page of a list. Two pages are in memory as text: 100 MB with works of the
/// largest size that OCM's webhook accepts, 1 MB with usual works.
pub const HUB_LIST_PAGE: u32 = 100;
/// Bytes that a later page should have, by the size of the works before. An API server takes half
/// as long for large pages as for small ones.
pub const HUB_LIST_PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Works on such a page.
pub const HUB_LIST_PAGE_MAX: u32 = 1_000;
/// Pages of one list, so that endless continue tokens end in an error.
pub const HUB_LIST_PAGES_MAX: usize = 2 * gitwork_core::limits::WORKS_MAX / HUB_LIST_PAGE as usize;
/// A whole list, its text included. An API server ends requests after 60 s by default
/// (`--request-timeout`); one with 100,000 works needs a quarter of that.
pub const HUB_LIST: Duration = Duration::from_secs(60);
/// One response, in bytes: a page of works of the largest size that etcd stores by default (1.5
/// MiB).
pub const HUB_ANSWER_BYTES_MAX: usize = HUB_LIST_PAGE as usize * 1536 * 1024;
/// One event of a watch, in bytes. The API server accepts requests of up to 3 MiB.
pub const HUB_EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How often one call restarts a list whose continue token expired (410).
pub const HUB_LIST_ATTEMPTS_MAX: usize = 3;
/// Retries of a command's reads of the hub, in all. An API server takes some seconds to restart, or
/// to serve a new CRD.
pub const HUB_RETRIES: Duration = Duration::from_secs(20);
/// Between two reads of rejected credentials.
pub const HUB_RECONNECT: Duration = Duration::from_secs(5);
/// A watch that ends sooner than this without an event counts as a failure.
pub const HUB_WATCH_SHORT: Duration = Duration::from_secs(5);
/// Attempts of one effect within one pass.
pub const HUB_ATTEMPTS_MAX: u32 = 3;
/// The longest wait between two attempts; a longer one is left to the next pass.
pub const HUB_RETRY_MAX: Duration = Duration::from_secs(5);
/// Requests in a row without a response after which a pass ends: the hub is unavailable.
pub const HUB_UNANSWERED_MAX: usize = 64;
/// Effects in flight on one hub. The API server accepts 200 mutating requests at once by default
/// (`--max-mutating-requests-inflight`), for all clients.
pub const HUB_IN_FLIGHT: usize = 32;
/// An answer to a write that takes longer is slow: an API server needs some 30 ms, and with
/// webhooks some hundred. If most are slow, fewer writes are in flight.
pub const HUB_SLOW: Duration = Duration::from_secs(2);
/// Effects in flight for one cluster, so that a slow cluster does not delay others.
pub const HUB_IN_FLIGHT_PER_CLUSTER: usize = 8;
