//! What the daemon's guards would say of a change, as far as two commits tell: the hub is taken to be as the base wants
//! it, and nobody to have approved of anything.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::core::budget::{Budget, Toll, excess};
use crate::core::desired::Desired;
use crate::core::name::{ClusterName, CommitId};
use crate::core::plan::{Guard, Policy};
use crate::core::report::count;
use crate::core::signature::judge::Refusal;
use crate::core::window::Closed;
use crate::core::work::DesiredWork;

/// What the signatures of the commits of a change come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "camelCase")]
pub enum Signatures {
    /// They are asked for, and nobody has named the keys to check them with.
    Unchecked { head: CommitId },
    /// All that are asked for are there.
    Verified { head: CommitId },
    /// The head would not be applied: the hub would be brought to `verified`, and stay there.
    Refused {
        verified: CommitId,
        #[serde(flatten)]
        refusal: Refusal,
    },
}

/// Changes that a guard would keep back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WouldHold {
    /// `budget` or `window`.
    pub guard: &'static str,
    /// How many works would wait.
    pub works: usize,
    /// Why, for people.
    pub reason: String,
    /// When they would go on by themselves (RFC 3339), where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// What the guards would hold of the change. `policy` is the operator's; `closed`: no window is open.
pub fn would_hold(
    base: &Desired,
    head: &Desired,
    policy: &Policy,
    closed: Option<&Closed>,
) -> Vec<WouldHold> {
    if head.frozen.source {
        return Vec::new();
    }
    let budget = over_budget(base, head, policy);
    let windows = closed.and_then(|closed| outside_windows(base, head, budget.is_some(), closed));
    budget.into_iter().chain(windows).collect()
}

/// Whether the head may only seem to lack a work of the base.
fn is_unread(work: &DesiredWork, head: &Desired) -> bool {
    head.frozen.holds(&work.key, Some(work.path.as_str()))
}

fn over_budget(base: &Desired, head: &Desired, policy: &Policy) -> Option<WouldHold> {
    if policy.allow_delete_all {
        return None;
    }
    let mut clusters: BTreeMap<ClusterName, Toll> = BTreeMap::new();
    for (key, work) in &base.works {
        let toll = clusters.entry(key.cluster.clone()).or_default();
        if head.works.contains_key(key) || is_unread(work, head) {
            toll.kept += 1;
        } else if work.prune {
            toll.unapproved += 1;
        }
    }
    let [before, after] =
        [base, head].map(|desired| Budget::of(&policy.budgets, &desired.rules.budgets));
    let excess = excess(before.stricter(after), &clusters)?;
    let works = clusters.values().map(|toll| toll.unapproved).sum();
    let what = count(works, "deletion");
    let reason = format!("{what} would wait for an approval: {excess}");
    Some(WouldHold { guard: Guard::Budget.as_str(), works, reason, until: None })
}

/// `deletions_wait`: for their budget already.
fn outside_windows(
    base: &Desired,
    head: &Desired,
    deletions_wait: bool,
    closed: &Closed,
) -> Option<WouldHold> {
    let written = head.works.values().filter(|work| {
        let before = base.works.get(&work.key);
        let is_same = before.is_some_and(|before| before.body.digest == work.body.digest);
        !is_same && !work.suspend && !head.suspended.covers(&work.key)
    });
    let gone = base.works.values().filter(|work| {
        let stays = head.works.contains_key(&work.key) || is_unread(work, head);
        let waits = deletions_wait && work.prune;
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
