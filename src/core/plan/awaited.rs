//! What a work waits for in another one: see [`order`](crate::plan::order).

use std::fmt;
use std::time::Duration;

/// How long an update waits at most for the updates of the works that it depends on.
pub const UPDATE_WAIT_MAX: Duration = Duration::from_secs(300);

/// What a work waits for in another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AwaitedState {
    /// That its files in Git can be read.
    Readable,
    /// That the hub has its content.
    Written,
    /// That the agent has applied its content.
    Applied,
    /// That its objects are available.
    Available,
    /// That the agent has tried to apply its content.
    Tried,
    /// That it is gone from the hub.
    Gone,
}

impl fmt::Display for AwaitedState {
    /// A clause about the other work.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Readable => "whose files in Git have an error",
            Self::Written => "which is not on the hub as in this commit yet",
            Self::Applied => "which its agent has not applied yet",
            Self::Available => "which is applied and not available yet",
            Self::Tried => "whose change its agent has not tried to apply yet",
            Self::Gone => "which depends on it and is still on the hub",
        })
    }
}
