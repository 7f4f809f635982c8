//! The guards that hold changes until an operator approves them, or until time passes.

/// A guard that holds changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guard {
    /// The source has another origin on the hub.
    Origin,
    /// The plan deletes more than its budget allows.
    Budget,
    /// Git's head does not build on the commits that were applied.
    Rewind,
    /// The hub was restored from a backup.
    Restore,
    /// No change window is open.
    Window,
    /// A wave of a group's rollout needs an approval, or the rollout was stopped.
    Rollout,
    /// An operator or Git suspends the work.
    Suspension,
}

impl Guard {
    /// Every guard.
    pub const ALL: [Guard; 7] = [
        Self::Origin,
        Self::Budget,
        Self::Rewind,
        Self::Restore,
        Self::Window,
        Self::Rollout,
        Self::Suspension,
    ];

    /// The word for it in metrics and outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Origin => "origin",
            Self::Budget => "budget",
            Self::Rewind => "rewind",
            Self::Restore => "restore",
            Self::Window => "window",
            Self::Rollout => "rollout",
            Self::Suspension => "suspension",
        }
    }
}
