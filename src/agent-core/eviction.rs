//! Eviction of AppliedManifestWorks whose ManifestWork is gone from the hub, after a grace period.

use std::time::Duration;

use jiff::Timestamp;

/// From this grace period on, nothing is ever evicted: 100 years.
pub const GRACE_NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// What to do about one AppliedManifestWork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionAction {
    /// Its ManifestWork exists, or nothing is ever evicted.
    None,
    /// Remove `status.evictionStartTime`: the ManifestWork exists again, or nothing is evicted.
    ClearStart,
    /// Set `status.evictionStartTime` to now: the grace period begins.
    SetStart,
    /// Look again after this time, the rest of the grace period.
    Wait(Duration),
    /// The grace period is over.
    Delete,
}

/// Decides for one AppliedManifestWork that is not being deleted. `managed`: its ManifestWork is on
/// this hub.
pub fn eviction_action(
    managed: bool,
    start: Option<Timestamp>,
    grace: Duration,
    now: Timestamp,
) -> EvictionAction {
    if grace >= GRACE_NEVER || managed {
        return if start.is_some() { EvictionAction::ClearStart } else { EvictionAction::None };
    }
    let Some(start) = start else { return EvictionAction::SetStart };
    let passed = Duration::try_from(now.duration_since(start)).unwrap_or_default();
    match grace.checked_sub(passed) {
        Some(rest) if !rest.is_zero() => EvictionAction::Wait(rest),
        _ => EvictionAction::Delete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions() {
        let now = Timestamp::from_second(1_000).unwrap();
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        let grace = Duration::from_secs(60);
        for (managed, start, grace, expected) in [
            (true, None, grace, EvictionAction::None),
            (true, at(1), grace, EvictionAction::ClearStart),
            (false, None, grace, EvictionAction::SetStart),
            (false, at(990), grace, EvictionAction::Wait(Duration::from_secs(50))),
            (false, at(940), grace, EvictionAction::Delete),
            (false, at(1), GRACE_NEVER, EvictionAction::ClearStart),
            (false, None, GRACE_NEVER, EvictionAction::None),
            // A clock that was set back.
            (false, at(2_000), grace, EvictionAction::Wait(grace)),
        ] {
            assert_eq!(
                eviction_action(managed, start, grace, now),
                expected,
                "{managed} {start:?} {grace:?}"
            );
        }
    }
}
