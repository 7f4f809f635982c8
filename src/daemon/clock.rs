//! The clocks of the daemon. A simulation replaces both.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;

/// The time of tokio's clock, which only goes forward. In a simulation it advances only when all
/// tasks wait.
pub(crate) fn monotonic() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The time of day, which may jump in both directions. Clones read the same clock.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl WallClock {
    /// A clock that reads its time from `read`.
    pub fn new(read: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// The clock of this machine.
    pub fn system() -> Self {
        Self::new(Timestamp::now)
    }

    /// Reads the clock.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}
