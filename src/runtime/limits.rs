//! Every bound of this crate in one place, each with its reason. Input past a bound is a
//! diagnostic, never a crash and never a silent cut.

use std::time::Duration;

/// From SIGTERM to the end: writes in flight are waited for this long. With `LEASE_RELEASE` after
/// it, that leaves a second of the ten that Kubernetes operators expect (spec: graceful shutdown in
/// 10 s).
pub const SHUTDOWN: Duration = Duration::from_secs(7);
/// Connections for probes and metrics at once: a kubelet and some scrapers.
pub const PROBE_CONNECTIONS_MAX: usize = 64;
/// A connection for probes and metrics on which nothing moves for so long is closed. Scrapers keep
/// one between scrapes, which are usually 15 to 60 s apart.
pub const PROBE_IDLE: Duration = Duration::from_secs(120);
/// Arenas of glibc's allocator for a program with several threads. It would give each thread one of
/// its own, up to eight for each processor, and what is freed in one serves no other thread.
/// Measured after 25 minutes of pushes to 1,000 works: of 44 MiB in eight arenas 18 MiB were in
/// use.
pub const HEAP_ARENAS_MAX: i32 = 2;
/// Pages of the heap that nothing is in are given back so often. Measured after 15 minutes of
/// pushes to 1,000 works: of 26 MB in two arenas 11.5 MB were in use, and giving back took 9.5 MB
/// off the process.
pub const HEAP_GIVEN_BACK: Duration = Duration::from_secs(60);
