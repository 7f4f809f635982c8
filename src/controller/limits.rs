//! The limits of this crate, each with its reason.

use std::time::Duration;

/// Writes in flight, unless the operator chooses another number. The API server accepts 200
/// mutating requests at once by default, for all clients.
pub const WRITES_IN_FLIGHT: usize = 32;
/// Passes at once. A replica set whose requests are slow delays no other one.
pub const PASSES_AT_ONCE: usize = 16;
/// Delay before a pass after an event: agents report several conditions of many works at once.
pub const COALESCE: Duration = Duration::from_millis(50);
/// Deletions of works that are remembered. Answers of older requests come within seconds.
pub const GONE_WORKS_MAX: usize = 10_000;
/// Between two writes of one status.
pub const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// How long the API server is asked to keep a watch open, at least; up to half more. The hub's
/// client counts a connection as dead that is silent for `gitwork_hub::limits::HUB_WATCH_OPEN`.
pub const WATCH: Duration = Duration::from_secs(80);
const _: () = assert!(WATCH.as_secs() * 3 / 2 < gitwork_hub::limits::HUB_WATCH_OPEN.as_secs());
/// A watch that is open for this much longer counts as dead.
pub const WATCH_GRACE: Duration = Duration::from_secs(20);
/// A watch that ends sooner was cut.
pub const WATCH_SHORT: Duration = Duration::from_secs(1);
/// The longest wait before a collection that cannot be read is tried again.
pub const WATCH_RETRY_MAX: Duration = Duration::from_secs(30);
/// Objects on one page of a list: as in `gitwork run`.
pub const LIST_PAGE: u32 = 100;
/// Pages of one list, so that endless continue tokens end in an error: 100,000 works, twice.
pub const LIST_PAGES_MAX: usize = 2_000;
/// One response, in bytes: a page of works of the largest size that etcd stores by default.
pub const RESPONSE_BYTES_MAX: usize = LIST_PAGE as usize * 1536 * 1024;
/// One event of a watch, in bytes. The API server accepts requests of up to 3 MiB.
pub const EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long a Lease is valid without a renewal, as in Kubernetes' own controllers.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// A leader that could not renew for so long stops writing, before another one may begin.
pub const LEASE_RENEW: Duration = Duration::from_secs(10);
/// Between two attempts to hold the Lease.
pub const LEASE_RETRY: Duration = Duration::from_secs(3);
/// For the release of the Lease at the end.
pub const LEASE_RELEASE: Duration = Duration::from_secs(1);
/// How far the clocks of two machines may differ before OCM's controller is overlooked, or waited
/// for although it is gone.
pub const CLOCK_SKEW: Duration = Duration::from_secs(60);
/// The wait after a write that succeeded and has to be repeated: something on the hub undoes it.
pub const UNDONE_WRITE: Duration = Duration::from_secs(60);
