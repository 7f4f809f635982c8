//! The record of one source on the hub, as last read or written. An older record than before shows
//! that the hub was restored from a backup.

use std::time::Instant;

use crate::hub::StoredRecord;
use gitwork_core::plan::record::{Record, RecordInputs};

/// What is known of the source's record.
#[derive(Debug)]
pub struct SourceRecord {
    /// `None` before it was read, `Some(None)` if there is none.
    known: Option<Option<StoredRecord>>,
    /// When to read an unknown record; `None` for at once.
    due: Option<Instant>,
    /// The highest generation that this process or its mirror has seen.
    known_generation: u64,
    /// The hub was restored from a backup: its record is older than before, and does not say so
    /// yet.
    restored: bool,
    /// The number of changes.
    revision: u64,
}

impl SourceRecord {
    /// `known_generation`: the generation of the record that this machine remembers.
    pub(crate) fn new(known_generation: u64) -> Self {
        Self { known: None, due: None, known_generation, restored: false, revision: 0 }
    }

    /// Whether the record was read, also if there is none.
    pub fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Whether the record is unknown and due to be read.
    pub fn is_due(&self, now: Instant) -> bool {
        !self.is_known() && self.due.is_none_or(|due| due <= now)
    }

    /// The record with its resourceVersion; `None` if it is not known or does not exist.
    pub fn stored(&self) -> Option<&StoredRecord> {
        self.known.as_ref()?.as_ref()
    }

    /// Reads the record again once `due` has come, or at once: it could not be read or written, or
    /// another process may have written it.
    pub fn ask_again(&mut self, due: Option<Instant>) {
        self.known = None;
        self.due = due;
        self.revision += 1;
    }

    /// Observes the generation that is remembered elsewhere. Gives whether the record must be read
    /// again.
    pub fn observe_generation(&mut self, generation: u64) -> bool {
        if generation <= self.known_generation {
            return false;
        }
        self.known_generation = generation;
        self.ask_again(None);
        true
    }

    /// Sets the record after it was written.
    pub fn set_written(&mut self, stored: StoredRecord) {
        self.known_generation = stored.record.record_generation;
        self.restored = false;
        self.known = Some(Some(stored));
        self.due = None;
        self.revision += 1;
    }

    /// Sets the record as read from the hub; `None` if the hub has none. `has_works`: the hub has
    /// works of the source.
    pub(crate) fn set_read(&mut self, found: Option<StoredRecord>, has_works: bool) {
        let generation = found.as_ref().map_or(0, |stored| stored.record.record_generation);
        // A hub without any data of the source is new.
        if generation < self.known_generation && (found.is_some() || has_works) {
            self.restored = true;
        }
        self.known_generation = self.known_generation.max(generation);
        if found.is_none() || self.stored() != found.as_ref() {
            self.revision += 1;
        }
        self.known = Some(found);
        self.due = None;
    }

    /// The record; `None` if it is not known or does not exist.
    pub(crate) fn current(&self) -> Option<&Record> {
        self.stored().map(|stored| &stored.record)
    }

    /// The generation that confirms the restore of the hub, if it waits for that: the one that the
    /// record has once it says so.
    pub(crate) fn unconfirmed_restore(&self) -> Option<u64> {
        let current = self.current();
        let next = || Record::after_restore(current, self.known_generation);
        let record = if self.restored { Some(next()) } else { current.cloned() };
        record?.unconfirmed_restore()
    }

    /// The record to write before a plan is executed; `None` if it stays as it is.
    pub(crate) fn next(&self, inputs: &RecordInputs<'_>) -> Option<Record> {
        if self.restored {
            return Some(Record::after_restore(self.current(), self.known_generation));
        }
        Record::next(self.current(), inputs)
    }

    /// When the next read is due; `None` for at once, or if the record is known.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| !self.is_known())
    }

    /// The number of changes so far.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::stored;

    fn of_generation(record_generation: u64) -> Option<StoredRecord> {
        stored(Record { record_generation, ..Record::default() })
    }

    #[test]
    fn a_hub_whose_record_is_older_than_what_is_remembered_was_restored() {
        for (known, found, has_works, restored) in [
            (0, None, true, false),
            (3, of_generation(3), true, false),
            (3, of_generation(4), true, false),
            (3, of_generation(2), false, true),
            (3, None, true, true),
            // A hub without any data of the source is new.
            (3, None, false, false),
        ] {
            let mut record = SourceRecord::new(known);
            record.set_read(found.clone(), has_works);
            assert_eq!(record.restored, restored, "{known} {found:?} {has_works}");
            let generation = record.unconfirmed_restore();
            assert_eq!(generation, restored.then_some(known + 1), "{known} {found:?}");
            let next = record.next(&RecordInputs { nothing_is_held: true, ..Default::default() });
            assert_eq!(next.as_ref().is_some_and(|next| next.restored), restored, "{next:?}");
            assert!(next.as_ref().is_none_or(|next| next.record_generation > known));
            for record_of_restore in next.into_iter().filter_map(stored) {
                record.set_written(record_of_restore);
                assert!(!record.restored, "the record itself says it now");
                assert_eq!(record.unconfirmed_restore(), generation);
            }
        }
    }

    #[test]
    fn what_is_remembered_elsewhere_judges_the_hub_once_it_is_known() {
        let mut record = SourceRecord::new(2);
        record.set_read(of_generation(2), true);
        assert!(!record.observe_generation(0) && !record.observe_generation(2));
        assert!(record.is_known() && !record.restored);
        assert!(record.observe_generation(3) && !record.is_known(), "the hub is asked again");
        record.set_read(of_generation(2), true);
        assert!(record.restored);
    }
}
