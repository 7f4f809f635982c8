//! The limits of this crate, each with its reason.

use std::time::Duration;

pub use gitwork_core::limits::{DIRECTIVES_POLL, DIRECTIVES_RETRY};

/// Between two statuses of a source: events come in bursts.
pub const STATUS_PAUSE: Duration = Duration::from_millis(500);
/// A pause between two statuses is at least so many times what the last one took, so that statuses
/// take at most a twentieth of the engine's time.
pub const STATUS_PAUSE_FACTOR: u32 = 20;
/// The longest pause between two statuses, for a machine that stood still while it made one.
pub const STATUS_PAUSE_MAX: Duration = Duration::from_secs(60);
/// A step of an engine that takes longer is logged and counted: events and outcomes of writes wait
/// for its end.
pub const ENGINE_PAUSE: Duration = Duration::from_millis(50);
/// Works that are planned, or whose states are computed, in one step of an engine: some 8 ms.
pub const WORKS_AT_ONCE: usize = 2_000;
/// A fetch while the hub was read for the first time, if it is no older than this, is not made
/// again: most hubs are read in less.
pub const FETCH_AHEAD_AGE_MAX: Duration = Duration::from_secs(5);
/// Log lines about single works for each pass or status. Where there are more, one line has their
/// counts, and each of them is at `debug`: 100,000 lines would cost more than the writes.
pub const WORK_LINES_MAX: usize = 50;
/// Wait before facts of the hub are read again, after there was no connection.
pub const FACTS_RETRY: Duration = Duration::from_secs(5);
/// Between two publications of facts that differ: a cluster may change its labels all the time, and
/// each change that matters is followed by a fetch.
pub const FACTS_PAUSE: Duration = Duration::from_secs(5);
/// For the first facts of the hub, in `run --once`. Without them, groups stay as they are.
pub const FACTS_WAIT: Duration = Duration::from_secs(20);
/// Between two writes of the report of a source.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(3);
/// Wait after a failed write of the report.
pub const REPORT_RETRY: Duration = Duration::from_secs(60);
/// How long a Lease is valid without a renewal, as in Kubernetes' own controllers. It is the
/// longest time without a leader after one has died.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// A leader that could not renew for so long stops writing, before another one may begin.
pub const LEASE_RENEW: Duration = Duration::from_secs(10);
/// Between two attempts to hold a Lease: three within `LEASE_RENEW`, and a third of a request a
/// second for each source and daemon.
pub const LEASE_RETRY: Duration = Duration::from_secs(3);
/// For the release of all Leases at the end.
pub const LEASE_RELEASE: Duration = Duration::from_secs(1);
/// Browsers that follow the status page at once. Each holds a connection.
pub const PAGE_FOLLOWERS_MAX: usize = 128;
/// Connections to the status page at once: a browser opens up to six.
pub const PAGE_CONNECTIONS_MAX: usize = 512;
/// An idle connection to the status page is closed after this. A browser that follows gets a
/// heartbeat every `PAGE_BEAT`.
pub const PAGE_IDLE: Duration = Duration::from_secs(30);
/// Between two heartbeats. The page shows itself as stale after two and a half of them.
pub const PAGE_BEAT: Duration = Duration::from_secs(10);
/// The body of a webhook, in bytes. GitHub sends at most 25 MB; it is hashed while it arrives.
pub const WEBHOOK_BODY_BYTES_MAX: usize = 25 * 1024 * 1024;
/// One webhook, from its head to its end: GitHub waits 10 s for a response.
pub const WEBHOOK_CALL: Duration = Duration::from_secs(10);
/// Connections for webhooks at once: forges send a few in a second.
pub const WEBHOOK_CONNECTIONS_MAX: usize = 64;
