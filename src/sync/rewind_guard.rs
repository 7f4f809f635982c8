//! Judges whether the source may leave applied commits: a rewind is held, or followed.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::facts::SourceFacts;
use gitwork_core::config::RewindPolicy;
use gitwork_core::model::approval::Rewind;
use gitwork_core::model::name::CommitId;

/// The guard against rewinds of one source.
#[derive(Debug)]
pub struct RewindGuard {
    policy: RewindPolicy,
    /// Applied commits that the head does not build on, as the policy or an approval allows.
    abandoned_commits: BTreeSet<CommitId>,
    /// The head does not contain a commit that became known as applied after the read of Git:
    /// another process may have read Git later and applied it.
    doubts_read: bool,
}

impl RewindGuard {
    pub(crate) fn new(policy: RewindPolicy) -> Self {
        Self { policy, abandoned_commits: BTreeSet::new(), doubts_read: false }
    }

    /// Replaces the policy from the next judgement on.
    pub(crate) fn set_policy(&mut self, policy: RewindPolicy) {
        self.policy = policy;
    }

    /// Judges the head of Git, and gives the rewind to hold. `is_restored`: the hub was restored
    /// from a backup, and no operator has confirmed it.
    pub(crate) fn judge(&mut self, facts: &SourceFacts, is_restored: bool) -> Option<Arc<Rewind>> {
        self.abandoned_commits.clear();
        self.doubts_read = false;
        let (desired, history) = (facts.desired()?, &facts.history);
        let head = desired.commit.filter(|_| !history.ancestry().is_clear())?;
        let abandoned_commits = history.ancestry().rewound(facts.applied());
        if abandoned_commits.is_empty() {
            return None;
        }
        // On a restored hub no rewind is followed without approval: its earlier state is not known.
        // Signatures must not be escaped by a return to an older commit.
        let holds = self.policy == RewindPolicy::Hold || is_restored || facts.is_signed();
        let approvals = facts.approved_rewinds();
        let is_approved = history.ancestry().is_approved(&abandoned_commits, &approvals);
        self.doubts_read = !is_approved && !history.known_at_read().has_all(&abandoned_commits);
        if holds && !is_approved {
            let source = desired.source.clone();
            return Some(Arc::new(Rewind { source, from: abandoned_commits, to: head }));
        }
        self.abandoned_commits = abandoned_commits;
        None
    }

    /// Whether the branch may only seem rewound because it was read too early: read it again first.
    pub fn doubts_read(&self) -> bool {
        self.doubts_read
    }

    /// Applied commits that the head is allowed to leave, if that is to be logged.
    pub fn followed(&self) -> Option<&BTreeSet<CommitId>> {
        let is_logged = self.policy != RewindPolicy::Follow && !self.abandoned_commits.is_empty();
        is_logged.then_some(&self.abandoned_commits)
    }

    /// Applied commits that the head is allowed to leave.
    pub(crate) fn abandoned_commits(&self) -> &BTreeSet<CommitId> {
        &self.abandoned_commits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::{commit, desired, facts, stored, test_now};
    use crate::git_history::AncestryLookup;
    use gitwork_core::plan::directives::Directives;
    use gitwork_core::plan::record::Record;
    use gitwork_core::plan::rewind::AppliedCommits;

    /// The facts of a source whose head is commit 1, while commit 9 was applied and is not part of
    /// its history.
    fn rewound() -> SourceFacts {
        let mut facts = facts(1);
        let record = Record { commit: Some(commit(9)), ..Record::default() };
        facts.record.set_read(stored(record), true);
        let looked_up = BTreeSet::from([commit(9)]);
        assert_eq!(facts.ancestry_lookup(test_now()), AncestryLookup::Due(looked_up.clone()));
        facts.history.set_ancestry(commit(1), &looked_up, &looked_up);
        facts
    }

    #[test]
    fn on_a_restored_hub_a_rewind_is_held_whatever_the_policy() {
        let facts = rewound();
        for (policy, is_restored, held) in [
            (RewindPolicy::Hold, false, true),
            (RewindPolicy::Warn, false, false),
            (RewindPolicy::Follow, false, false),
            (RewindPolicy::Warn, true, true),
            (RewindPolicy::Follow, true, true),
        ] {
            let mut guard = RewindGuard::new(policy);
            let rewind = guard.judge(&facts, is_restored);
            assert_eq!(rewind.is_some(), held, "{policy:?} {is_restored}");
            assert_eq!(guard.followed().is_some(), !held && policy == RewindPolicy::Warn);
            assert_eq!(guard.abandoned_commits().is_empty(), held);
        }
    }

    #[test]
    fn rewind_of_signed_commits_is_held_whatever_the_policy() {
        let mut facts = rewound();
        facts.set_signed(true);
        for (policy, _) in RewindPolicy::ALL {
            assert!(RewindGuard::new(policy).judge(&facts, false).is_some(), "{policy:?}");
        }
    }

    #[test]
    fn rewind_counts_only_after_a_read_of_git_that_follows_the_abandoned_commit() {
        let mut guard = RewindGuard::new(RewindPolicy::Warn);
        let (mut facts, newer) = (rewound(), BTreeSet::from([commit(9)]));
        // Another process may have read Git after this one, and applied what it found.
        guard.judge(&facts, false);
        assert!(guard.doubts_read());
        let known =
            |commits: BTreeSet<_>| AppliedCommits { on_works: Arc::new(commits), recorded: None };
        facts.history.read_after(known([commit(7)].into()));
        guard.judge(&facts, false);
        assert!(guard.doubts_read(), "of another commit that is no news");
        facts.history.read_after(known(newer.clone()));
        guard.judge(&facts, false);
        assert!(!guard.doubts_read());
        assert_eq!(guard.followed(), Some(&newer));
        // An approval names both ends: it needs no second look.
        let rewind = Rewind { source: desired(1).source, from: newer, to: commit(1) };
        let mut directives = Directives::default();
        directives.approvals.rewinds.insert(rewind);
        facts.directives.set(Some(directives), test_now());
        facts.history.read_after(AppliedCommits::default());
        guard.judge(&facts, false);
        assert!(!guard.doubts_read());
    }
}
