//! The monotonic clock of the daemon. A simulation replaces it by virtual time.

use std::time::Instant;

/// The time of tokio's clock, which only goes forward. In a simulation it advances only when all
/// tasks wait.
pub(crate) fn monotonic() -> Instant {
    tokio::time::Instant::now().into_std()
}
