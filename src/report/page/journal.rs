//! The last changes of the page model. A browser that is slightly behind gets only the changes that
//! it missed; one that is further behind gets the whole model. The memory is bounded.

use std::collections::VecDeque;
use std::sync::Arc;

use gitwork_core::limits;

/// The last changes, oldest first, with consecutive versions.
#[derive(Debug, Default)]
pub struct Journal {
    changes: VecDeque<(u64, Arc<str>)>,
    bytes: usize,
}

impl Journal {
    /// Adds the change that results in `version`.
    pub fn push(&mut self, version: u64, change: Arc<str>) {
        self.bytes += change.len();
        self.changes.push_back((version, change));
        while self.changes.len() > limits::PAGE_CHANGES_MAX
            || self.bytes > limits::PAGE_CHANGES_BYTES_MAX
        {
            let Some((_, oldest)) = self.changes.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }

    /// Forgets all changes. Call it when the next version is no change of the last one.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The changes from version `seen` to the newest one; `None` if they are no longer known.
    pub fn since(&self, seen: u64) -> Option<Vec<Arc<str>>> {
        let oldest = self.changes.front().map(|(version, _)| *version)?;
        if seen.saturating_add(1) < oldest {
            return None;
        }
        let missed = self.changes.iter().filter(|(version, _)| *version > seen);
        Some(missed.map(|(_, change)| change.clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(journal: &Journal, seen: u64) -> Option<Vec<String>> {
        Some(journal.since(seen)?.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn browser_slightly_behind_gets_missed_changes() {
        let mut journal = Journal::default();
        assert_eq!(journal.since(0), None, "nothing leads anywhere");
        for version in 3..=5 {
            journal.push(version, format!("to {version}").into());
        }
        assert_eq!(texts(&journal, 5), Some(vec![]));
        assert_eq!(texts(&journal, 3), Some(vec!["to 4".into(), "to 5".into()]));
        assert_eq!(texts(&journal, 2).map(|all| all.len()), Some(3));
        assert_eq!(texts(&journal, 1), None);
        journal.clear();
        assert_eq!(texts(&journal, 5), None);
    }

    #[test]
    fn journal_is_bounded_by_count_and_by_bytes() {
        let mut journal = Journal::default();
        for version in 0..1_000 {
            journal.push(version, "x".into());
        }
        assert_eq!(journal.changes.len(), limits::PAGE_CHANGES_MAX);
        journal.push(1_000, "y".repeat(limits::PAGE_CHANGES_BYTES_MAX).into());
        assert_eq!((journal.changes.len(), journal.bytes), (1, limits::PAGE_CHANGES_BYTES_MAX));
        journal.push(1_001, "z".repeat(limits::PAGE_CHANGES_BYTES_MAX + 1).into());
        assert_eq!((journal.since(1_000), journal.bytes), (None, 0));
    }
}
