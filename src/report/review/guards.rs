//! The guards' verdict on a change, as far as two commits determine it. It assumes that the hub
//! matches the base, and that nothing is approved.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::moves::FoundMoves;
use gitwork_core::config::window::Closed;
use gitwork_core::model::name::{CommitId, GroupName, WorkKey};
use gitwork_core::model::work::DesiredWork;
use gitwork_core::plan::budget::{AllBudgets, Budget, DeletionCounts, OverBudget};
use gitwork_core::plan::{Guard, PlanPolicy};
use gitwork_core::render::desired::Desired;
use gitwork_core::render::layout;
use gitwork_core::signature::verification::VerificationFailure;
use gitwork_core::text::style::count;

/// The result of checking the signatures of a change's commits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "camelCase")]
pub enum Signatures {
    /// Signatures are required, but no keys are configured.
    Unchecked {
        /// The head's commit.
        head: CommitId,
    },
    /// All required signatures are valid.
    Verified {
        /// The head's commit.
        head: CommitId,
    },
    /// The head is not applied: the hub stops at `verified`.
    Refused {
        /// The last commit before the head whose signatures are valid.
        verified: CommitId,
        /// The commit that is not accepted, and why.
        #[serde(flatten)]
        failure: VerificationFailure,
    },
}

/// Changes that a guard would hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WouldHold {
    /// `budget` or `window`.
    pub guard: &'static str,
    /// How many works are held.
    pub works: usize,
    /// The reason, for people.
    pub reason: String,
    /// When the hold ends by itself (RFC 3339), if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// The changes that the guards would hold. `policy` is the operator's. `closed` is set if no window
/// is open.
pub fn would_hold(
    base: &Desired,
    head: &Desired,
    policy: &PlanPolicy,
    closed: Option<&Closed>,
) -> Vec<WouldHold> {
    if head.frozen.source {
        return Vec::new();
    }
    let change = JudgedChange { base, head, moves: FoundMoves::between(base, head) };
    let (budget, held) = change.over_budget(policy).unzip();
    let held = held.unwrap_or_default();
    let windows = closed.and_then(|closed| change.outside_windows(&held, closed));
    budget.into_iter().chain(windows).collect()
}

/// A change, with the objects that move between works.
struct JudgedChange<'a> {
    base: &'a Desired,
    head: &'a Desired,
    moves: FoundMoves<'a>,
}

/// Whether the head may have the work, but in an unreadable part.
fn is_unread(work: &DesiredWork, head: &Desired) -> bool {
    head.frozen.may_contain(&work.key, Some(work.path.as_str()))
}

impl JudgedChange<'_> {
    /// Whether the head deletes a work of the base, and does not release it.
    fn is_deleted(&self, key: &WorkKey, work: &DesiredWork) -> bool {
        let stays = self.head.works.contains_key(key) || is_unread(work, self.head);
        !stays && work.prune && !self.moves.is_moved_away(work)
    }

    /// The deletions over the budget, and their works.
    fn over_budget(&self, policy: &PlanPolicy) -> Option<(WouldHold, BTreeSet<WorkKey>)> {
        if policy.allow_delete_all {
            return None;
        }
        let Self { base, head, .. } = self;
        let mut counts = DeletionCounts::default();
        let mut deleted = Vec::new();
        for (key, work) in &base.works {
            let group = layout::group_of(&work.path);
            let of_group = group.clone().map(|group| counts.groups.entry(group).or_default());
            let of_cluster = counts.clusters.entry(key.cluster.clone()).or_default();
            let all = std::iter::once(of_cluster).chain(of_group);
            if head.works.contains_key(key) || is_unread(work, head) {
                all.for_each(|count| count.kept += 1);
            } else if self.is_deleted(key, work) {
                all.for_each(|count| count.unapproved += 1);
                deleted.push((key, group));
            }
        }
        let [before, after] =
            [base, head].map(|desired| Budget::of(&policy.budgets, &desired.rules.budgets));
        let further = [&policy.budgets, &base.rules.budgets, &head.rules.budgets];
        let budgets = AllBudgets::new(before.stricter(after), further.into_iter());
        let over = OverBudget::find(&budgets, &counts);
        let excess = |(key, group): &(&WorkKey, Option<GroupName>)| {
            over.excess(&key.cluster, group.as_ref())
        };
        let first = deleted.iter().find_map(excess)?;
        let held = deleted.iter().filter(|work| excess(work).is_some());
        let held: BTreeSet<WorkKey> = held.map(|(key, _)| (*key).clone()).collect();
        let (works, what) = (held.len(), count(held.len(), "deletion"));
        let reason = format!("{what} would wait for an approval: {first}");
        let hold = WouldHold { guard: Guard::Budget.as_str(), works, reason, until: None };
        Some((hold, held))
    }

    /// `held`: works whose deletions the budget holds already.
    fn outside_windows(&self, held: &BTreeSet<WorkKey>, closed: &Closed) -> Option<WouldHold> {
        let Self { base, head, moves } = self;
        let written = head.works.values().filter(|work| {
            let before = base.works.get(&work.key);
            let is_same = before.is_some_and(|before| before.body.digest == work.body.digest);
            !is_same && !work.suspend && !head.suspended.covers(&work.key)
        });
        let gone = base.works.values().filter(|work| {
            let stays = head.works.contains_key(&work.key) || is_unread(work, head);
            // What a move needs is written first, whatever holds the deletion.
            let waits = held.contains(&work.key) && !moves.gives(work);
            !stays && !waits && !head.suspended.covers(&work.key)
        });
        let works = written.count() + gone.count();
        (works > 0).then(|| WouldHold {
            guard: Guard::Window.as_str(),
            works,
            reason: format!("{} would wait: {closed}", count(works, "work")),
            until: closed.until.map(|until| until.to_string()),
        })
    }
}
