//! The record of a source on the hub: it lets a new process guard the source as the old one did.
//! Pure.
//!
//! It is written if the works themselves do not show it: when a commit deletes works, leaves
//! commits behind, or changes the rules that judge the next commit. A commit that only changes
//! works leaves its id on them.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::source_rules::SourceRules;
use crate::limits;
use crate::model::name::CommitId;

/// One source's record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// The last commit that the record was written for, before anything of it was.
    pub commit: Option<CommitId>,
    /// The number of writes of the record. It decreases only if the hub is restored from a
    /// backup.
    #[serde(rename = "moves")]
    pub record_generation: u64,
    /// The repository's rules as of the last commit that left nothing held.
    pub rules: SourceRules,
    /// Applied commits that the source has left behind by a rewind that was approved or followed.
    pub abandoned: BTreeSet<CommitId>,
    /// The hub was restored from a backup, and no operator has approved deletions since.
    pub restored: bool,
}

/// Why a record cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The text is longer than an annotation of gitwork can be.
    #[error("it has {bytes} bytes; at most {limit} are read")]
    TooLarge {
        /// The length of the text.
        bytes: usize,
        /// The longest that is read: [`limits::RECORD_BYTES_MAX`].
        limit: usize,
    },
    /// The text is no JSON of this type. Holds the message of the parser.
    #[error("it is not of the form that this version writes: {0}")]
    Form(String),
}

/// The facts of a plan that the record depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordInputs<'a> {
    /// The commit that is planned for.
    pub head: Option<CommitId>,
    /// Its rules.
    pub rules: SourceRules,
    /// Applied commits that it leaves behind, and is let to.
    pub left: BTreeSet<CommitId>,
    /// The commits that stand on works: one that stands on none any more need not be kept as left
    /// behind.
    pub on_hub: Option<&'a BTreeSet<CommitId>>,
    /// Nothing of the plan is held.
    pub free: bool,
    /// The plan does what leaves no trace on a work: it deletes or releases works.
    pub removes: bool,
    /// The plan writes something.
    pub writes: bool,
    /// An operator has confirmed that the hub was restored.
    pub confirmed: bool,
}

/// As an annotation has it. For numbers, texts and lists: there is nothing in them that JSON does
/// not take.
pub(crate) fn to_text(kept: &impl Serialize) -> String {
    serde_json::to_string(kept).unwrap_or_default()
}

/// What [`to_text`] wrote. All annotations of an object are no larger than the bound (Kubernetes).
pub(crate) fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, RecordError> {
    let (bytes, limit) = (text.len(), limits::RECORD_BYTES_MAX);
    if bytes > limit {
        return Err(RecordError::TooLarge { bytes, limit });
    }
    serde_json::from_str(text).map_err(|why| RecordError::Form(why.to_string()))
}

impl Record {
    /// As the hub keeps it.
    pub fn text(&self) -> String {
        to_text(self)
    }

    /// Parses the JSON that [`Self::text`] writes. Absent fields have their defaults.
    pub fn read(text: &str) -> Result<Self, RecordError> {
        from_text(text)
    }

    /// The record to write before a plan is carried out; `None` where the hub's own tells enough.
    pub fn next(before: Option<&Self>, course: &RecordInputs<'_>) -> Option<Self> {
        let known = before.cloned().unwrap_or_default();
        let mut next = known.clone();
        if let Some(on_hub) = course.on_hub {
            let stands =
                |commit: &CommitId| on_hub.contains(commit) || course.left.contains(commit);
            next.abandoned.retain(stands);
        }
        // Past the bound, a commit is judged again with each plan, by the same policy or approval.
        let room = limits::ABANDONED_MAX.saturating_sub(next.abandoned.len());
        let left: Vec<CommitId> =
            course.left.difference(&known.abandoned).take(room).copied().collect();
        let gives_up = !left.is_empty();
        next.abandoned.extend(left);
        if course.free {
            next.rules = course.rules.clone();
        }
        next.restored &= !course.confirmed;
        let is_new = before.is_none() && course.writes;
        let removes = course.removes && next.commit != course.head;
        // That a commit given up is forgotten is no reason to write.
        let changed = next.rules != known.rules || next.restored != known.restored;
        if !(is_new || removes || gives_up || changed) {
            return None;
        }
        if course.head.is_some() {
            next.commit = course.head;
        }
        next.record_generation = known.record_generation.saturating_add(1);
        Some(next)
    }

    /// The record to write once the hub turns out to be older than before. `known` is the
    /// generation of the record that this process or its mirror remembers.
    pub fn after_restore(found: Option<&Self>, known: u64) -> Self {
        let mut next = found.cloned().unwrap_or_default();
        next.record_generation = known.max(next.record_generation).saturating_add(1);
        next.restored = true;
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Budgets;
    use crate::model::name::ObjectId;

    fn commit(number: u8) -> CommitId {
        ObjectId([number; 20])
    }

    fn record() -> Record {
        Record { commit: Some(commit(1)), record_generation: 4, ..Record::default() }
    }

    fn course<'a>() -> RecordInputs<'a> {
        RecordInputs { head: Some(commit(2)), free: true, writes: true, ..RecordInputs::default() }
    }

    #[test]
    fn the_record_is_written_if_the_works_do_not_show_the_change() {
        let rules = SourceRules {
            budgets: Budgets { works: Some(3), ..Budgets::default() },
            ..SourceRules::default()
        };
        let next = |course: RecordInputs<'_>| Record::next(Some(&record()), &course);
        assert_eq!(next(course()), None, "the works have the commit");
        assert_eq!(next(RecordInputs { rules: rules.clone(), free: false, ..course() }), None);
        for changes in [
            RecordInputs { removes: true, ..course() },
            RecordInputs { rules: rules.clone(), writes: false, ..course() },
            RecordInputs { left: [commit(1)].into(), ..course() },
        ] {
            let written = next(changes.clone()).unwrap();
            assert_eq!(
                (written.commit, written.record_generation),
                (Some(commit(2)), 5),
                "{changes:?}"
            );
            assert_eq!((written.rules, written.abandoned), (changes.rules, changes.left));
        }
        let first = Record::next(None, &course()).unwrap();
        assert_eq!((first.commit, first.record_generation), (Some(commit(2)), 1));
        assert_eq!(Record::next(None, &RecordInputs { writes: false, ..course() }), None);
        // A removal by the recorded commit itself is recorded already.
        let same = RecordInputs { head: Some(commit(1)), removes: true, ..course() };
        assert_eq!(next(same), None);
    }

    #[test]
    fn abandoned_commits_are_kept_while_a_work_names_them() {
        let before = Record { abandoned: [commit(7), commit(8)].into(), ..record() };
        let on_hub = [commit(8)].into();
        let quiet = RecordInputs { on_hub: Some(&on_hub), ..course() };
        assert_eq!(Record::next(Some(&before), &quiet), None);
        let written =
            Record::next(Some(&before), &RecordInputs { left: [commit(1)].into(), ..quiet })
                .unwrap();
        assert_eq!(written.abandoned, [commit(1), commit(8)].into());
    }

    #[test]
    fn abandoned_commits_are_bounded_and_written_once() {
        let number = |n: usize| {
            let mut id = ObjectId([0; 20]);
            id.0[..8].copy_from_slice(&n.to_be_bytes());
            id
        };
        let left: BTreeSet<CommitId> = (0..limits::ABANDONED_MAX + 50).map(number).collect();
        let on_hub = left.clone();
        let course = RecordInputs { left, on_hub: Some(&on_hub), ..course() };
        let before = Record { abandoned: [number(limits::ABANDONED_MAX + 9)].into(), ..record() };
        let written = Record::next(Some(&before), &course).unwrap();
        assert_eq!(written.abandoned.len(), limits::ABANDONED_MAX);
        assert!(written.abandoned.is_superset(&before.abandoned));
        assert!(written.text().len() <= limits::RECORD_BYTES_MAX);
        assert_eq!(Record::next(Some(&written), &course), None);
    }

    #[test]
    fn a_restored_hub_stays_restored_until_an_operator_confirms_it() {
        let restored = Record::after_restore(Some(&record()), 9);
        assert_eq!((restored.record_generation, restored.restored), (10, true));
        assert_eq!(Record::after_restore(None, 9).record_generation, 10);
        assert_eq!(Record::next(Some(&restored), &course()), None);
        let confirmed = RecordInputs { confirmed: true, ..course() };
        let written = Record::next(Some(&restored), &confirmed).unwrap();
        assert_eq!((written.record_generation, written.restored), (11, false));
    }

    #[test]
    fn it_reads_what_it_writes_and_takes_nothing_else() {
        let all = Record { abandoned: [commit(3)].into(), restored: true, ..record() };
        assert_eq!(Record::read(&all.text()), Ok(all));
        assert_eq!(Record::read("{}"), Ok(Record::default()));
        for bad in ["", "7", "{\"commit\": \"main\"}", "{\"moves\": -1}"] {
            assert!(matches!(Record::read(bad), Err(RecordError::Form(_))), "{bad}");
        }
        let huge = format!("{{\"x\": \"{}\"}}", "x".repeat(limits::RECORD_BYTES_MAX));
        assert!(matches!(Record::read(&huge), Err(RecordError::TooLarge { .. })));
    }
}
