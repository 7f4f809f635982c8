//! The directives of operators for one source, and when they are read again.

use std::time::Instant;

use gitwork_core::limits;
use gitwork_core::plan::directives::Directives;

/// What operators say on the hub, as of the last read.
#[derive(Debug, Default)]
pub struct OperatorDirectives {
    /// `None` before they were read.
    known: Option<Directives>,
    /// When to read them again; `None` for at once.
    due: Option<Instant>,
    /// The number of changes.
    revision: u64,
}

impl OperatorDirectives {
    /// Whether they were read.
    pub fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Whether they are due to be read.
    pub fn is_due(&self, now: Instant) -> bool {
        self.due.is_none_or(|due| due <= now)
    }

    /// Sets the directives; `None` keeps the known ones after a failed read. Gives whether an
    /// operator requests a sync now.
    pub fn set(&mut self, found: Option<Directives>, now: Instant) -> bool {
        let is_known = self.known.is_some() || found.is_some();
        let wait = if is_known { limits::DIRECTIVES_POLL } else { limits::DIRECTIVES_RETRY };
        self.due = Some(now + wait);
        let Some(found) = found else { return false };
        let before = self.known.replace(found);
        let now = self.known.as_ref();
        if before.as_ref() != now {
            self.revision += 1;
        }
        let request =
            |directives: Option<&Directives>| directives.and_then(|d| d.reconcile.clone());
        // The first fetch of this process served earlier requests.
        before.is_some() && request(before.as_ref()) != request(now) && request(now).is_some()
    }

    /// Makes the next read due at once.
    pub(crate) fn ask_again(&mut self) {
        self.due = None;
    }

    /// The directives; `None` before they were read.
    pub(crate) fn known(&self) -> Option<&Directives> {
        self.known.as_ref()
    }

    /// When the next read is due; `None` for at once.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The number of changes so far.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::facts::tests::test_now;

    #[test]
    fn sync_request_counts_once_and_not_if_made_before_the_start() {
        let mut directives = OperatorDirectives::default();
        let request = |text: &str| {
            let reconcile = Some(text.to_owned());
            Some(Directives { reconcile, ..Directives::default() })
        };
        let now = test_now();
        assert!(directives.is_due(now) && !directives.is_known());
        // Whether the directives changed, and whether a sync is requested.
        let set = |directives: &mut OperatorDirectives, found| {
            let before = directives.revision();
            let is_requested = directives.set(found, now);
            (directives.revision() != before, is_requested)
        };
        assert_eq!(set(&mut directives, None), (false, false));
        assert!(!directives.is_due(now + Duration::from_secs(1)));
        assert!(directives.is_due(now + limits::DIRECTIVES_RETRY));
        assert_eq!(set(&mut directives, request("one")), (true, false));
        assert_eq!(set(&mut directives, request("one")), (false, false));
        assert_eq!(set(&mut directives, request("two")), (true, true));
        // A failed read keeps the known directives.
        assert_eq!(set(&mut directives, None), (false, false));
        assert_eq!(set(&mut directives, request("two")), (false, false));
        assert!(!directives.is_due(now + limits::DIRECTIVES_RETRY));
        directives.ask_again();
        assert!(directives.is_due(now));
    }
}
