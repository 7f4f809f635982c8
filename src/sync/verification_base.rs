//! The commit from which new commits are verified, as far as gitwork's own objects on the hub show
//! it. Works on the hub prove nothing: the agents of their clusters may write them.

use std::collections::BTreeSet;

use gitwork_core::model::approval::Approvals;
use gitwork_core::model::name::CommitId;
use gitwork_core::plan::record::Record;

/// What the hub proves about verified commits of one source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerificationBase {
    /// The last verified commit of the record; `None` if that commit needed no signature.
    pub verified: Option<CommitId>,
    /// The last applied commit of the record.
    pub applied: Option<CommitId>,
    /// The hub has works of the source, but no record: it is unknown what was verified.
    pub is_lost: bool,
    /// Commits that operators trust in place of the verified one.
    pub trusted: BTreeSet<CommitId>,
}

impl VerificationBase {
    /// What a record and the approvals on the hub prove. `has_works`: the hub has works of the
    /// source.
    pub fn new(record: Option<&Record>, has_works: bool, approvals: &Approvals) -> Self {
        let verified = record.and_then(|record| record.verified);
        // A commit is trusted in place of just one other: an old approval must not take gitwork
        // back once another commit was verified.
        let of_record = approvals.trusted.iter().filter(|(after, _)| *after == verified);
        Self {
            verified,
            applied: record.and_then(|record| record.commit),
            is_lost: record.is_none() && has_works,
            trusted: of_record.map(|(_, commit)| *commit).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::commit;

    #[test]
    fn trust_counts_in_place_of_just_one_verified_commit() {
        let mut approvals = Approvals::default();
        approvals.trusted.extend([(None, commit(7)), (Some(commit(1)), commit(8))]);
        let base = |verified: Option<CommitId>| {
            let record = Record { verified, ..Record::default() };
            VerificationBase::new(Some(&record), true, &approvals).trusted
        };
        assert_eq!(base(None), [commit(7)].into());
        assert_eq!(base(Some(commit(1))), [commit(8)].into());
        assert_eq!(base(Some(commit(8))), BTreeSet::new(), "it was used");
    }

    #[test]
    fn works_without_a_record_are_no_first_start() {
        let of = |record, has_works| {
            VerificationBase::new(record, has_works, &Approvals::default()).is_lost
        };
        assert!(of(None, true) && !of(None, false) && !of(Some(&Record::default()), true));
    }
}
