//! The guards of one source: directives of operators, the record on the hub, the history of Git's
//! head, and windows for changes. They set the policy of the next plan. No IO and no clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::config::RewindPolicy;
use crate::config::window;
use crate::config::window::ChangeWindows;
use crate::limits;
use crate::model::approval::{Approval, Approvals, Rewind};
use crate::model::name::CommitId;
use crate::plan::directives::Directives;
use crate::plan::record::{Record, RecordInputs};
use crate::plan::rewind;
use crate::plan::rewind::{AppliedCommits, HeadAncestry};
use crate::plan::{Effect, Guard, Plan, PlanPolicy};
use crate::render::desired::Desired;
use crate::sync::hub::StoredRecord;

/// The operator's settings for one source.
#[derive(Debug, Clone, Default)]
pub struct GuardOptions {
    /// Budgets, and whether all may be deleted.
    pub policy: PlanPolicy,
    pub rewind: RewindPolicy,
    pub windows: ChangeWindows,
}

/// The guards of one source.
#[derive(Debug)]
pub struct Guards {
    options: GuardOptions,
    /// `None` before they were read.
    directives: Option<Directives>,
    /// When to read them again.
    directives_due: Option<Instant>,
    /// `None` before it was read, `Some(None)` if there is none.
    record: Option<Option<StoredRecord>>,
    /// When to read or write it again.
    record_due: Option<Instant>,
    /// The highest generation of the record that this process or its mirror has seen.
    known_moves: u64,
    /// The hub was restored from a backup: its record is older than before.
    restored: bool,
    ancestry: HeadAncestry,
    /// The repository's windows in the last commit without held changes.
    windows_before: Option<ChangeWindows>,
    /// Applied commits that the head does not build on, and is allowed to leave.
    left: BTreeSet<CommitId>,
    /// The applied commits that were known before the last read of Git.
    known_at_read: AppliedCommits,
    /// The head does not contain a commit that became known as applied after the read of Git:
    /// another process may have read Git later and applied it.
    doubts_read: bool,
    /// An operator confirmed that the hub was restored.
    confirmed: bool,
}

impl Guards {
    /// `known_moves`: the generation of the record that this machine remembers.
    pub fn new(options: GuardOptions, known_moves: u64) -> Self {
        Self {
            options,
            directives: None,
            directives_due: None,
            record: None,
            record_due: None,
            known_moves,
            restored: false,
            ancestry: HeadAncestry::default(),
            windows_before: None,
            left: BTreeSet::new(),
            known_at_read: AppliedCommits::default(),
            doubts_read: false,
            confirmed: false,
        }
    }

    pub fn set_options(&mut self, options: GuardOptions) {
        self.options = options;
    }

    /// Directives and record are known; nothing is planned without them.
    pub fn is_known(&self) -> bool {
        self.directives.is_some() && self.record.is_some()
    }

    pub fn wants_directives(&self, now: Instant) -> bool {
        self.directives_due.is_none_or(|due| due <= now)
    }

    pub fn ask_directives_again(&mut self) {
        self.directives_due = None;
    }

    pub fn wants_record(&self, now: Instant) -> bool {
        self.record.is_none() && self.record_due.is_none_or(|due| due <= now)
    }

    /// When the next read is due.
    pub fn next_due(&self) -> Option<Instant> {
        let record = self.record_due.filter(|_| self.record.is_none());
        self.directives_due.into_iter().chain(record).min()
    }

    /// Sets the directives; `None` keeps the known ones after a failed read. Gives whether they
    /// changed, and whether an operator requests a sync now.
    pub fn set_directives(&mut self, found: Option<Directives>, now: Instant) -> (bool, bool) {
        let known = self.directives.is_some() || found.is_some();
        let wait = if known { limits::DIRECTIVES_POLL } else { limits::DIRECTIVES_RETRY };
        self.directives_due = Some(now + wait);
        let Some(found) = found else { return (false, false) };
        let before = self.directives.replace(found);
        let now = self.directives.as_ref();
        let wish = |directives: Option<&Directives>| directives.and_then(|d| d.reconcile.clone());
        // The first fetch of this process served earlier requests.
        let wanted = before.is_some() && wish(before.as_ref()) != wish(now) && wish(now).is_some();
        (before.as_ref() != now, wanted)
    }

    /// Sets the record as stored on the hub. `has_works`: the hub has works of the source.
    pub fn set_record(&mut self, found: Option<StoredRecord>, has_works: bool) {
        let moves = found.as_ref().map_or(0, |stored| stored.record.moves);
        // A hub without any data of the source is new.
        if moves < self.known_moves && (found.is_some() || has_works) {
            self.restored = true;
        }
        self.known_moves = self.known_moves.max(moves);
        if let Some(stored) = &found {
            self.windows_before = Some(stored.record.rules.windows.clone());
        }
        self.record = Some(found);
        self.record_due = None;
    }

    /// Sets the generation that is remembered elsewhere. Gives whether the record must be read
    /// again.
    pub fn learn_moves(&mut self, moves: u64) -> bool {
        if moves <= self.known_moves {
            return false;
        }
        self.known_moves = moves;
        self.ask_record_again(None);
        true
    }

    pub fn recorded(&self) -> Option<&Record> {
        Some(&self.record.as_ref()?.as_ref()?.record)
    }

    pub fn stored(&self) -> Option<&StoredRecord> {
        self.record.as_ref()?.as_ref()
    }

    /// The record could not be read or written, or another process wrote it: read it again.
    pub fn ask_record_again(&mut self, due: Option<Instant>) {
        self.record = None;
        self.record_due = due;
    }

    pub fn known_moves(&self) -> u64 {
        self.known_moves
    }

    /// Commits to look up in Git before the next plan for this head. `named`: the commits in the
    /// annotations of works on the hub.
    pub fn to_ask(&self, desired: &Desired, named: &BTreeSet<CommitId>) -> BTreeSet<CommitId> {
        let Some(head) = desired.commit else { return BTreeSet::new() };
        let applied = || rewind::applied(named, self.recorded());
        let unreached = !self.ancestry.is_clear() && !self.ancestry.rewound(applied()).is_empty();
        // The commits of approvals matter only if there is a rewind.
        let approved = if unreached { self.rewinds(desired) } else { BTreeSet::new() };
        let approved = approved.into_iter().map(|rewind| rewind.to);
        self.ancestry.to_ask(head, applied().chain(approved))
    }

    pub fn learn(
        &mut self,
        head: CommitId,
        asked: &BTreeSet<CommitId>,
        unreached: &BTreeSet<CommitId>,
    ) {
        self.ancestry.learn(head, asked, unreached);
    }

    fn approvals(&self) -> Approvals {
        self.directives.as_ref().map(|said| said.approvals.clone()).unwrap_or_default()
    }

    fn rewinds(&self, desired: &Desired) -> BTreeSet<Rewind> {
        let on_hub = self.directives.iter().flat_map(|said| &said.approvals.rewinds);
        on_hub.chain(&desired.approved.rewinds).cloned().collect()
    }

    /// Sets the current guards in `policy`. `zone` looks up time zones.
    pub fn apply(
        &mut self,
        policy: &mut PlanPolicy,
        desired: &Desired,
        named: &BTreeSet<CommitId>,
        now: Timestamp,
        zone: &dyn Fn(&str) -> Option<TimeZone>,
    ) {
        policy.approved = self.approvals();
        policy.suspensions =
            self.directives.as_ref().map(|said| said.suspensions.clone()).unwrap_or_default();
        self.apply_restore(policy, desired);
        self.apply_rewind(policy, desired, named);
        let repository = [Some(&desired.rules.windows), self.windows_before.as_ref()];
        let mut all: Vec<&ChangeWindows> = vec![&self.options.windows];
        all.extend(repository.into_iter().flatten());
        policy.closed = window::closed(&all, zone, now);
    }

    fn apply_restore(&mut self, policy: &mut PlanPolicy, desired: &Desired) {
        let recorded = self.recorded().is_some_and(|record| record.restored);
        let moves = self.recorded().map_or(0, |record| record.moves);
        let approved =
            policy.approved.restored.contains(&moves) || desired.approved.restored.contains(&moves);
        self.confirmed = recorded && approved;
        let held = (recorded && !approved) || self.restored;
        let source = desired.source.clone();
        policy.restored = held.then(|| Arc::new(Approval::Restored { source, moves }));
    }

    fn apply_rewind(
        &mut self,
        policy: &mut PlanPolicy,
        desired: &Desired,
        named: &BTreeSet<CommitId>,
    ) {
        policy.held_rewind = None;
        self.left.clear();
        self.doubts_read = false;
        let Some(head) = desired.commit.filter(|_| !self.ancestry.is_clear()) else { return };
        let left = self.ancestry.rewound(rewind::applied(named, self.recorded()));
        if left.is_empty() {
            return;
        }
        // On a restored hub no rewind is followed without approval: its earlier state is not known.
        let holds = self.options.rewind == RewindPolicy::Hold || policy.restored.is_some();
        let approved = self.ancestry.is_approved(&left, &self.rewinds(desired));
        self.doubts_read = !approved && !self.known_at_read.has_all(&left);
        if holds && !approved {
            let rewind = Rewind { source: desired.source.clone(), from: left, to: head };
            policy.held_rewind = Some(Arc::new(rewind));
        } else {
            self.left = left;
        }
    }

    /// Git was read again. `known`: the applied commits that were known before.
    pub fn read_after(&mut self, known: AppliedCommits) {
        self.known_at_read = known;
    }

    /// Whether the branch may only seem rewound because it was read too early: read it again first.
    pub fn doubts_read(&self) -> bool {
        self.doubts_read
    }

    /// Applied commits that the head is allowed to leave, if that is to be logged.
    pub fn followed(&self) -> Option<&BTreeSet<CommitId>> {
        let is_logged = self.options.rewind != RewindPolicy::Follow && !self.left.is_empty();
        is_logged.then_some(&self.left)
    }

    /// Whether no guard of commits holds changes of the plan, so that the rules of this commit
    /// apply to the next one. A commit that could not be read completely has no rules.
    pub fn leaves_nothing_held(policy: &PlanPolicy, desired: &Desired, plan: &Plan) -> bool {
        let judges = Guard::ALL.into_iter().filter(|guard| *guard != Guard::Suspension);
        let held: usize = judges.map(|guard| plan.held_by(guard)).sum();
        let is_read = !desired.frozen.source && !desired.frozen.deletes;
        held == 0 && is_read && policy.suspensions.source.is_none() && !desired.suspended.source
    }

    /// Applies the rules of this commit to the next one.
    pub fn settle_rules(&mut self, desired: &Desired) {
        self.windows_before = Some(desired.rules.windows.clone());
    }

    /// The record to write before the plan is executed; `None` if it stays as it is.
    pub fn record_to_write(
        &self,
        desired: &Desired,
        named: &BTreeSet<CommitId>,
        plan: &Plan,
        free: bool,
    ) -> Option<Record> {
        // A folder on disk has no commits.
        desired.commit?;
        let recorded = self.recorded();
        if self.restored {
            return Some(Record::after_restore(recorded, self.known_moves));
        }
        let gave_up = recorded.is_some_and(|record| !record.abandoned.is_empty());
        let on_hub = gave_up.then_some(named);
        let effects = || plan.effects().map(|(_, effect)| effect);
        Record::next(
            recorded,
            &RecordInputs {
                head: desired.commit,
                rules: desired.rules.clone(),
                left: self.left.clone(),
                on_hub,
                free,
                removes: effects().any(|effect: &Effect| !effect.writes_content()),
                writes: effects().next().is_some(),
                confirmed: self.confirmed,
            },
        )
    }

    /// The record was written.
    pub fn record_written(&mut self, stored: StoredRecord) {
        self.known_moves = stored.record.moves;
        self.restored = false;
        self.record = Some(Some(stored));
        self.record_due = None;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::config::source_rules::SourceRules;
    use crate::model::name::{ObjectId, SourceId};
    use crate::render::desired::{Frozen, Suspended};

    fn commit(number: u8) -> CommitId {
        ObjectId([number; 20])
    }

    fn desired(head: u8) -> Desired {
        Desired {
            source: SourceId::parse("fleet").unwrap(),
            commit: Some(commit(head)),
            works: BTreeMap::new(),
            frozen: Frozen::default(),
            rules: SourceRules::default(),
            approved: Approvals::default(),
            suspended: Suspended::default(),
            diagnostics: Vec::new(),
        }
    }

    fn stored(record: Record) -> Option<StoredRecord> {
        Some(StoredRecord { record, resource_version: "1".into() })
    }

    fn policy(guards: &mut Guards, desired: &Desired, now: &str) -> PlanPolicy {
        let mut policy = PlanPolicy::default();
        let now = now.parse().unwrap();
        guards.apply(&mut policy, desired, &BTreeSet::new(), now, &|_| None);
        policy
    }

    #[expect(clippy::disallowed_methods, reason = "an Instant has no other constructor")]
    fn test_now() -> Instant {
        Instant::now()
    }

    const NOON: &str = "2026-11-20T12:00:00Z";

    #[test]
    fn a_clock_that_jumps_opens_and_closes_windows_and_nothing_else() {
        let windows: ChangeWindows =
            serde_yaml::from_str("{allow: [{start: '09:00', end: '17:00'}]}").unwrap();
        let options = GuardOptions { windows, ..GuardOptions::default() };
        let mut guards = Guards::new(options, 0);
        guards.set_record(None, false);
        let mut policies = Vec::new();
        for (now, open) in [
            (NOON, true),
            ("2026-11-20T20:00:00Z", false),
            ("1970-01-01T00:00:00Z", false),
            ("2100-02-28T16:59:59Z", true),
            (NOON, true),
        ] {
            let mut policy = policy(&mut guards, &desired(1), now);
            assert_eq!(policy.closed.take().is_none(), open, "{now}");
            policies.push(policy);
        }
        policies.dedup();
        assert_eq!(policies.len(), 1, "all else is the same");
    }

    #[test]
    fn a_hub_whose_record_is_older_than_what_is_remembered_was_restored() {
        let record = |moves| stored(Record { moves, ..Record::default() });
        for (known, found, has_works, restored) in [
            (0, None, true, false),
            (3, record(3), true, false),
            (3, record(4), true, false),
            (3, record(2), false, true),
            (3, None, true, true),
            // A hub without any data of the source is new.
            (3, None, false, false),
        ] {
            let mut guards = Guards::new(GuardOptions::default(), known);
            guards.set_record(found.clone(), has_works);
            let policy = policy(&mut guards, &desired(1), NOON);
            assert_eq!(policy.restored.is_some(), restored, "{known} {found:?} {has_works}");
            let plan = Plan::default();
            let next = guards.record_to_write(&desired(1), &BTreeSet::new(), &plan, true);
            assert_eq!(next.as_ref().is_some_and(|next| next.restored), restored, "{next:?}");
            assert!(next.is_none_or(|next| next.moves > known));
        }
    }

    #[test]
    fn what_is_remembered_elsewhere_judges_the_hub_once_it_is_known() {
        let mut guards = Guards::new(GuardOptions::default(), 2);
        let record = || stored(Record { moves: 2, ..Record::default() });
        guards.set_record(record(), true);
        guards.set_directives(Some(Directives::default()), test_now());
        assert!(!guards.learn_moves(0) && !guards.learn_moves(2) && guards.is_known());
        assert!(policy(&mut guards, &desired(1), NOON).restored.is_none());
        assert!(guards.learn_moves(3) && !guards.is_known(), "the hub is asked again");
        guards.set_record(record(), true);
        assert!(policy(&mut guards, &desired(1), NOON).restored.is_some());
    }

    #[test]
    fn on_a_restored_hub_a_rewind_is_held_whatever_the_policy() {
        for (rewind, restored, held) in [
            (RewindPolicy::Hold, false, true),
            (RewindPolicy::Warn, false, false),
            (RewindPolicy::Follow, false, false),
            (RewindPolicy::Warn, true, true),
            (RewindPolicy::Follow, true, true),
        ] {
            let options = GuardOptions { rewind, ..GuardOptions::default() };
            let mut guards = Guards::new(options, 0);
            let record = Record { commit: Some(commit(9)), restored, ..Record::default() };
            guards.set_record(stored(record), true);
            let desired = desired(1);
            let asked = guards.to_ask(&desired, &BTreeSet::new());
            assert_eq!(asked, [commit(9)].into());
            guards.learn(commit(1), &asked, &asked.clone());
            let policy = policy(&mut guards, &desired, NOON);
            assert_eq!(policy.held_rewind.is_some(), held, "{rewind:?} {restored}");
            assert_eq!(guards.followed().is_some(), !held && rewind == RewindPolicy::Warn);
        }
    }

    #[test]
    fn a_rewind_is_believed_once_git_was_read_after_what_it_leaves() {
        let mut guards = Guards::new(GuardOptions::default(), 0);
        let (desired, newer) = (desired(1), BTreeSet::from([commit(9)]));
        let record = Record { commit: Some(commit(9)), ..Record::default() };
        guards.set_record(stored(record), true);
        guards.learn(commit(1), &newer, &newer);
        // Another process may have read Git after this one, and applied what it found.
        policy(&mut guards, &desired, NOON);
        assert!(guards.doubts_read());
        let known =
            |commits: BTreeSet<_>| AppliedCommits { named: Arc::new(commits), recorded: None };
        guards.read_after(known([commit(7)].into()));
        policy(&mut guards, &desired, NOON);
        assert!(guards.doubts_read(), "of another commit that is no news");
        guards.read_after(known(newer.clone()));
        policy(&mut guards, &desired, NOON);
        assert!(!guards.doubts_read());
        assert_eq!(guards.followed(), Some(&newer));
        // An approval names both ends: it needs no second look.
        let rewind = Rewind { source: desired.source.clone(), from: newer, to: commit(1) };
        let mut said = Directives::default();
        said.approvals.rewinds.insert(rewind);
        guards.set_directives(Some(said), test_now());
        guards.read_after(AppliedCommits::default());
        policy(&mut guards, &desired, NOON);
        assert!(!guards.doubts_read());
    }

    #[test]
    fn a_commit_that_cannot_be_read_brings_no_rules_for_the_next() {
        let free = |frozen: Frozen| {
            let desired = Desired { frozen, ..desired(1) };
            Guards::leaves_nothing_held(&PlanPolicy::default(), &desired, &Plan::default())
        };
        assert!(free(Frozen::default()));
        assert!(!free(Frozen { source: true, ..Frozen::default() }));
        assert!(!free(Frozen { deletes: true, ..Frozen::default() }));
    }

    #[test]
    fn a_wish_to_sync_is_heard_once_and_none_of_before_the_start() {
        let mut guards = Guards::new(GuardOptions::default(), 0);
        let said = |text: &str| {
            let reconcile = Some(text.to_owned());
            Some(Directives { reconcile, ..Directives::default() })
        };
        let now = test_now();
        assert!(guards.wants_directives(now) && !guards.is_known());
        assert_eq!(guards.set_directives(None, now), (false, false));
        assert!(!guards.wants_directives(now + Duration::from_secs(1)));
        assert!(guards.wants_directives(now + limits::DIRECTIVES_RETRY));
        assert_eq!(guards.set_directives(said("one"), now), (true, false));
        assert_eq!(guards.set_directives(said("one"), now), (false, false));
        assert_eq!(guards.set_directives(said("two"), now), (true, true));
        // What cannot be read changes nothing of what is known.
        assert_eq!(guards.set_directives(None, now), (false, false));
        assert_eq!(guards.set_directives(said("two"), now), (false, false));
    }
}
