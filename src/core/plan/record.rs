//! The record of a source on the hub: it lets a new process guard the source as the old one did.
//! Pure.
//!
//! It is written before the first work of a commit, and when a commit abandons others, changes the
//! rules that judge the next commit or is verified, and when the source gets its origin. Only
//! gitwork writes it, so that it proves which commit was applied and verified last. What works say
//! is a hint: the agents of their clusters may write it.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::source_rules::SourceRules;
use crate::limits;
use crate::model::name::{CommitId, GroupName};
use crate::model::operation_error::{ErrorClass, OperationError};
use crate::model::source_origin::SourceOrigin;
use crate::plan::rollouts::GroupRecord;

/// One source's record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// The last commit that the record was written for, before anything of it was.
    pub commit: Option<CommitId>,
    /// The last verified commit; `None` if that commit needed no signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<CommitId>,
    /// The number of writes of the record. It decreases only if the hub is restored from a
    /// backup.
    #[serde(rename = "moves")]
    pub record_generation: u64,
    /// The repository's rules as of the last commit that left nothing held.
    pub rules: SourceRules,
    /// Applied commits that the source's ref no longer builds on, after an approved or followed
    /// rewind.
    pub abandoned: BTreeSet<CommitId>,
    /// The hub was restored from a backup, and no operator has approved deletions since.
    pub restored: bool,
    /// The first `record_generation` with `restored`: the approval has it, and stays the same while
    /// the record is written for other reasons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored_generation: Option<u64>,
    /// The repository and path that the source's works come from, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<SourceOrigin>,
    /// The last rollout of each group, as far as it has to be remembered.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rollouts: BTreeMap<GroupName, GroupRecord>,
}

/// Why a record cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The text is longer than an annotation of gitwork can be.
    #[error("it has {bytes} bytes; the limit is {limit}")]
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

impl OperationError for RecordError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "RecordTooLarge",
            Self::Form(_) => "InvalidRecord",
        }
    }
}

/// The facts of a plan that the record depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordInputs<'a> {
    /// The commit that is planned for.
    pub head: Option<CommitId>,
    /// Its rules.
    pub rules: SourceRules,
    /// Applied commits that the head does not build on, as the policy or an approval allows.
    pub abandoned_commits: BTreeSet<CommitId>,
    /// The commits on works. An abandoned commit that is on no work need not be kept. `None` to
    /// keep all.
    pub on_hub: Option<&'a BTreeSet<CommitId>>,
    /// No guard holds changes of the plan, so that its rules apply to the next commit.
    pub nothing_is_held: bool,
    /// The plan applies the head: it does more than revert edits on the hub.
    pub applies: bool,
    /// Somebody requires signatures, and the head has them.
    pub is_signed: bool,
    /// A guard holds all changes of the head because it does not build on what was applied.
    pub rewind_is_held: bool,
    /// The plan writes something.
    pub writes: bool,
    /// An operator has confirmed that the hub was restored.
    pub confirmed: bool,
    /// The repository and path that the source is read from, if known. The record gets it.
    pub origin: Option<SourceOrigin>,
    /// What the record is to have of rollouts; `None` to leave it as it is.
    pub rollouts: Option<&'a BTreeMap<GroupName, GroupRecord>>,
}

/// As an annotation has it. For numbers, texts and lists: there is nothing in them that JSON does
/// not take.
pub fn to_text(kept: &impl Serialize) -> String {
    serde_json::to_string(kept).unwrap_or_default()
}

/// What [`to_text`] wrote. All annotations of an object are no larger than the bound (Kubernetes).
pub fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, RecordError> {
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

    /// The record to write before a plan is executed; `None` if the one on the hub suffices.
    pub fn next(before: Option<&Self>, inputs: &RecordInputs<'_>) -> Option<Self> {
        let known = before.cloned().unwrap_or_default();
        let mut next = known.clone();
        if let Some(on_hub) = inputs.on_hub {
            let is_in_use = |commit: &CommitId| {
                on_hub.contains(commit) || inputs.abandoned_commits.contains(commit)
            };
            next.abandoned.retain(is_in_use);
        }
        // Past the bound, a commit is judged again with each plan, by the same policy or approval.
        let room = limits::ABANDONED_MAX.saturating_sub(next.abandoned.len());
        let abandoned_commits: Vec<CommitId> =
            inputs.abandoned_commits.difference(&known.abandoned).take(room).copied().collect();
        let abandons = !abandoned_commits.is_empty();
        next.abandoned.extend(abandoned_commits);
        if inputs.nothing_is_held {
            next.rules = inputs.rules.clone();
        }
        if inputs.confirmed {
            (next.restored, next.restored_generation) = (false, None);
        }
        let head = inputs.head.filter(|_| !inputs.rewind_is_held);
        if head.is_some() {
            next.verified = head.filter(|_| inputs.is_signed);
        }
        let is_new = before.is_none() && inputs.writes;
        let applies = inputs.applies && head.is_some() && next.commit != head;
        // Dropping an abandoned commit alone is no reason to write.
        if let Some(rollouts) = inputs.rollouts {
            next.rollouts.clone_from(rollouts);
        }
        // That there is less to remember of rollouts is no reason, either.
        let rolls_out =
            next.rollouts.iter().any(|(group, now)| known.rollouts.get(group) != Some(now));
        let changed = next.rules != known.rules
            || next.restored != known.restored
            || next.verified != known.verified
            || rolls_out;
        let is_of_commit = is_new || applies || abandons || changed;
        if is_of_commit && head.is_some() {
            next.commit = head;
        }
        let gets_origin = inputs.origin.is_some() && inputs.origin != known.origin;
        if gets_origin {
            next.origin.clone_from(&inputs.origin);
        }
        if !(is_of_commit || gets_origin) {
            return None;
        }
        next.record_generation = known.record_generation.saturating_add(1);
        Some(next)
    }

    /// The record to write once the hub turns out to be older than before. `known` is the
    /// generation of the record that this process or its mirror remembers.
    pub fn after_restore(found: Option<&Self>, known: u64) -> Self {
        let mut next = found.cloned().unwrap_or_default();
        next.record_generation = known.max(next.record_generation).saturating_add(1);
        (next.restored, next.restored_generation) = (true, Some(next.record_generation));
        next
    }

    /// The generation that confirms the restore of the hub, if it waits for that.
    pub fn unconfirmed_restore(&self) -> Option<u64> {
        self.restored.then(|| self.restored_generation.unwrap_or(self.record_generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Budgets;
    use crate::model::name::{ObjectId, RepoPath};

    fn commit(number: u8) -> CommitId {
        ObjectId([number; 20])
    }

    fn record() -> Record {
        Record { commit: Some(commit(1)), record_generation: 4, ..Record::default() }
    }

    fn inputs<'a>() -> RecordInputs<'a> {
        RecordInputs {
            head: Some(commit(2)),
            nothing_is_held: true,
            writes: true,
            ..RecordInputs::default()
        }
    }

    #[test]
    fn record_is_written_before_a_commit_is_applied() {
        let rules = SourceRules {
            budgets: Budgets { works: Some(3), ..Budgets::default() },
            ..SourceRules::default()
        };
        let next = |inputs: RecordInputs<'_>| Record::next(Some(&record()), &inputs);
        assert_eq!(next(inputs()), None, "only edits on the hub are reverted");
        assert_eq!(
            next(RecordInputs { rules: rules.clone(), nothing_is_held: false, ..inputs() }),
            None
        );
        for changes in [
            RecordInputs { applies: true, ..inputs() },
            RecordInputs { is_signed: true, writes: false, ..inputs() },
            RecordInputs { rules: rules.clone(), writes: false, ..inputs() },
            RecordInputs { abandoned_commits: [commit(1)].into(), ..inputs() },
        ] {
            let written = next(changes.clone()).unwrap();
            assert_eq!(
                (written.commit, written.record_generation),
                (Some(commit(2)), 5),
                "{changes:?}"
            );
            assert_eq!(
                (written.rules, written.abandoned),
                (changes.rules, changes.abandoned_commits)
            );
        }
        let first = Record::next(None, &inputs()).unwrap();
        assert_eq!((first.commit, first.record_generation), (Some(commit(2)), 1));
        assert_eq!(Record::next(None, &RecordInputs { writes: false, ..inputs() }), None);
        // The recorded commit itself is recorded already.
        let same = RecordInputs { head: Some(commit(1)), applies: true, ..inputs() };
        assert_eq!(next(same), None);
    }

    #[test]
    fn verified_commit_is_recorded_once_and_not_while_its_rewind_is_held() {
        let signed = RecordInputs { is_signed: true, writes: false, ..inputs() };
        let written = Record::next(Some(&record()), &signed).unwrap();
        assert_eq!((written.commit, written.verified), (Some(commit(2)), Some(commit(2))));
        assert_eq!(Record::next(Some(&written), &signed), None);
        let next = RecordInputs { head: Some(commit(3)), ..signed.clone() };
        let held = RecordInputs { rewind_is_held: true, applies: true, ..next.clone() };
        assert_eq!(Record::next(Some(&written), &held), None);
        assert_eq!(Record::next(Some(&written), &next).unwrap().verified, Some(commit(3)));
        // Nobody requires signatures any longer.
        let unsigned = RecordInputs { is_signed: false, ..next };
        assert_eq!(Record::next(Some(&written), &unsigned).unwrap().verified, None);
        // A folder on disk has no commits.
        let folder = RecordInputs { head: None, ..unsigned };
        assert_eq!(Record::next(Some(&written), &folder), None);
    }

    #[test]
    fn abandoned_commits_are_kept_while_a_work_names_them() {
        let before = Record { abandoned: [commit(7), commit(8)].into(), ..record() };
        let on_hub = [commit(8)].into();
        let quiet = RecordInputs { on_hub: Some(&on_hub), ..inputs() };
        assert_eq!(Record::next(Some(&before), &quiet), None);
        let written = Record::next(
            Some(&before),
            &RecordInputs { abandoned_commits: [commit(1)].into(), ..quiet },
        )
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
        let abandoned_commits: BTreeSet<CommitId> =
            (0..limits::ABANDONED_MAX + 50).map(number).collect();
        let on_hub = abandoned_commits.clone();
        let inputs = RecordInputs { abandoned_commits, on_hub: Some(&on_hub), ..inputs() };
        let before = Record { abandoned: [number(limits::ABANDONED_MAX + 9)].into(), ..record() };
        let written = Record::next(Some(&before), &inputs).unwrap();
        assert_eq!(written.abandoned.len(), limits::ABANDONED_MAX);
        assert!(written.abandoned.is_superset(&before.abandoned));
        assert!(written.text().len() <= limits::RECORD_BYTES_MAX);
        assert_eq!(Record::next(Some(&written), &inputs), None);
    }

    #[test]
    fn a_restored_hub_stays_restored_until_an_operator_confirms_it() {
        let restored = Record::after_restore(Some(&record()), 9);
        assert_eq!((restored.record_generation, restored.restored), (10, true));
        assert_eq!(Record::after_restore(None, 9).record_generation, 10);
        assert_eq!(Record::next(Some(&restored), &inputs()), None);
        let confirmed = RecordInputs { confirmed: true, ..inputs() };
        assert_eq!(restored.unconfirmed_restore(), Some(10));
        let applied = RecordInputs { applies: true, ..inputs() };
        let later = Record::next(Some(&restored), &applied).unwrap();
        assert_eq!((later.record_generation, later.unconfirmed_restore()), (11, Some(10)));
        let written = Record::next(Some(&later), &confirmed).unwrap();
        assert_eq!((written.record_generation, written.restored), (12, false));
        assert_eq!(written, Record { commit: Some(commit(2)), record_generation: 12, ..record() });
    }

    #[test]
    fn record_gets_the_origin_alone_or_with_a_commit() {
        let of = |name: &str| Some(SourceOrigin::new(name, &RepoPath::root()));
        let unknown = RecordInputs { origin: of("a"), ..inputs() };
        let written = Record::next(Some(&record()), &unknown).unwrap();
        // A held commit must not become an applied one.
        assert_eq!((&written.origin, written.commit), (&of("a"), Some(commit(1))));
        assert_eq!(Record::next(Some(&written), &unknown), None);
        assert_eq!(Record::next(Some(&written), &inputs()), None, "an unknown origin is no other");
        let removes = RecordInputs { origin: of("b"), applies: true, ..inputs() };
        let written = Record::next(Some(&written), &removes).unwrap();
        assert_eq!((&written.origin, written.commit), (&of("b"), Some(commit(2))));
        let first = Record::next(None, &RecordInputs { writes: false, ..unknown }).unwrap();
        assert_eq!((&first.origin, first.commit), (&of("a"), None));
        assert_eq!(Record::after_restore(Some(&first), 9).origin, of("a"));
    }

    #[test]
    fn record_round_trips_and_invalid_text_is_rejected() {
        let origin = Some(SourceOrigin::new("git.example/fleet", &RepoPath::root()));
        let abandoned = [commit(3)].into();
        let all = Record { abandoned, restored: true, origin, ..record() };
        assert_eq!(Record::read(&all.text()), Ok(all));
        assert_eq!(Record::read("{}"), Ok(Record::default()));
        let bad_origin = "{\"origin\": \"a\\nb\"}";
        for bad in ["", "7", "{\"commit\": \"main\"}", "{\"moves\": -1}", bad_origin] {
            assert!(matches!(Record::read(bad), Err(RecordError::Form(_))), "{bad}");
        }
        let huge = format!("{{\"x\": \"{}\"}}", "x".repeat(limits::RECORD_BYTES_MAX));
        assert!(matches!(Record::read(&huge), Err(RecordError::TooLarge { .. })));
    }
}
