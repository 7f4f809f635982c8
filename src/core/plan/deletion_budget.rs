//! Deletions over the budget: found from all candidates of a plan.
//!
//! A commit that removes works often adds others: a renamed folder, a wrong path. Added works must
//! not count as kept, or the same plan would pass once they are created. So a work that is created
//! while deletions are held carries a marker on the hub, which survives a restart, until nothing is
//! held. And works that Git did not have before the removal do not count either, with or without a
//! marker: the process that created them may not have known about the deletions.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::Budgets;
use crate::model::approval::{Approved, Target, plan_hash};
use crate::model::name::{ClusterName, GroupName, RepoPath, WorkKey};
use crate::plan::budget::{AllBudgets, Budget, DeletionCounts, OverBudget};
use crate::plan::candidates::CandidateChange;
use crate::plan::effect::Effect;
use crate::plan::inputs::PlanInputs;
use crate::plan::last_known::{AddedSince, LastKnownState};
use crate::plan::observed::ObservedWork;
use crate::plan::reason::Reason;
use crate::render::desired::{Desired, Frozen};
use crate::render::layout;

/// The deletions that are over the budget and not approved, each with the reason. All candidates
/// count, whatever else holds them. An approval does not name those that are suspended: the plan
/// says of them that they are, and their approval is asked for once they go on.
pub(crate) fn over_budget(
    inputs: PlanInputs<'_>,
    candidates: &[CandidateChange],
    is_suspended: impl Fn(&WorkKey) -> bool,
) -> BTreeMap<WorkKey, Reason> {
    let PlanInputs { desired, observed, last_known, policy } = inputs;
    if policy.allow_delete_all {
        return BTreeMap::new();
    }
    let mut counts = DeletionCounts::default();
    let DeletionCounts { clusters, groups } = &mut counts;
    let mut unapproved = Approved::new();
    for candidate in candidates.iter().filter(|candidate| candidate.is_deletion) {
        let Some(work) = observed.works.get(&candidate.key) else { continue };
        let target = Target { key: candidate.key.clone(), uid: work.uid.to_string() };
        let is_approved = policy.approved.deletions.contains(&target)
            || desired.approved.deletions.contains(&target);
        let works = works_of(work, inputs);
        clusters.entry(candidate.key.cluster.clone()).or_default().delete(works, is_approved);
        if let Some(group) = group_on_hub(work) {
            groups.entry(group).or_default().delete(works, is_approved);
        }
        if !is_approved {
            // What a move needs is written first, whatever holds the deletion.
            if !candidate.effect.as_ref().is_some_and(Effect::writes_content) {
                unapproved.insert(target);
            }
        }
    }
    if unapproved.is_empty() {
        return BTreeMap::new();
    }
    let states = unapproved.iter().filter_map(|target| last_known.get(&target.key));
    let added = AddedWorks::since(states);
    let mut folders = BTreeSet::new();
    let kept = observed.works.values().filter(|work| was_kept(work, desired, &mut folders));
    for work in kept.filter(|work| !added.contains(work, desired)) {
        clusters.entry(work.key.cluster.clone()).or_default().kept += work.works;
        let group = desired.works.get(&work.key).and_then(|work| layout::group_of(&work.path));
        if let Some(count) = group.and_then(|group| groups.get_mut(&group)) {
            count.kept += work.works;
        }
    }
    let all = budgets(inputs);
    let further = all.iter().copied().chain([&policy.budgets]);
    let over = OverBudget::find(&AllBudgets::new(budget(inputs, &all), further), &counts);
    let excess = |key: &WorkKey| {
        let group = observed.works.get(key).and_then(group_on_hub);
        over.excess(&key.cluster, group.as_ref()).cloned()
    };
    unapproved.retain(|target| excess(&target.key).is_some());
    let named = unapproved.iter().filter(|target| !is_suspended(&target.key));
    let named: Approved = named.cloned().collect();
    let (hash, works) = (plan_hash(&named), named.len());
    let held = unapproved.into_iter().filter_map(|Target { key, uid }| {
        let excess = excess(&key)?;
        Some((key, Reason::HeldByBudget { uid, hash, works, excess: excess.into() }))
    });
    held.collect()
}

/// The ManifestWorks that go with a work: one, or those of a replica set.
fn works_of(work: &ObservedWork, inputs: PlanInputs<'_>) -> usize {
    let removed = inputs.policy.removed_sets.get(&work.key);
    removed.map_or(work.works, |removed| removed.works.max(work.works))
}

/// The group that a work on the hub came from.
fn group_on_hub(work: &ObservedWork) -> Option<GroupName> {
    layout::group_of(&RepoPath::parse(work.path.as_deref()?)?)
}

/// The repository's budgets that judge the plan. No commit loosens its own.
fn budgets(inputs: PlanInputs<'_>) -> BTreeSet<&Budgets> {
    let PlanInputs { desired, last_known, policy, .. } = inputs;
    let before = last_known.works.values().filter_map(|last| last.budgets.as_ref());
    before.chain(&policy.budgets_before).chain([&desired.rules.budgets]).collect()
}

/// The budget for the whole source. `all`: those of the repository.
fn budget(inputs: PlanInputs<'_>, all: &BTreeSet<&Budgets>) -> Budget {
    let all = all.iter().map(|budgets| Budget::of(&inputs.policy.budgets, budgets));
    all.reduce(Budget::stricter).unwrap_or_default()
}

/// Whether the work was on the hub before the commit that is judged, and stays: Git has it, or has
/// a folder for it that could not be read. A work that is being deleted does not count, even if Git
/// wants it again: its objects may be gone before it is created again. A work without gitwork's
/// annotations does not count: it may be new.
///
/// An agent may label other works of its cluster, and name any folder in their annotations. So a
/// folder counts once a cluster: `folders` are those that have counted.
fn was_kept<'a>(
    work: &'a ObservedWork,
    desired: &Desired,
    folders: &mut BTreeSet<(&'a ClusterName, &'a str)>,
) -> bool {
    let Frozen { works, objects, .. } = &desired.frozen;
    let has_name = |key: &WorkKey| {
        desired.works.contains_key(key) || works.contains(key) || objects.contains_key(key)
    };
    let mut has_folder = || {
        let path = work.path.as_deref();
        desired.frozen.has_folder(&work.key, path)
            && path.is_some_and(|path| folders.insert((&work.key.cluster, path)))
    };
    work.is_ours(&desired.source)
        && !work.created_during_hold
        && work.written.is_some()
        && !work.deleting
        && (has_name(&work.key) || has_folder())
}

/// The works that Git has now and did not have before any of the removals.
struct AddedWorks<'a>(BTreeMap<*const AddedSince, &'a AddedSince>);

impl<'a> AddedWorks<'a> {
    fn since(states: impl Iterator<Item = &'a LastKnownState>) -> Self {
        // One commit usually removes many works, which share one set.
        let known = states.filter_map(|last| last.added_since.as_deref());
        Self(known.map(|set| (std::ptr::from_ref(set), set)).collect())
    }

    fn contains(&self, work: &ObservedWork, desired: &Desired) -> bool {
        // A work of an unknown name has the folder that the hub gives.
        let path = || work.path.as_deref().and_then(RepoPath::parse);
        let folder = (!desired.works.contains_key(&work.key)).then(path).flatten();
        let folder = folder.map(|path| (work.key.cluster.clone(), path));
        let is_in = |added: &AddedSince| {
            added.works.contains(&work.key)
                || folder.as_ref().is_some_and(|folder| added.folders.contains(folder))
        };
        !self.0.is_empty() && self.0.values().all(|added| is_in(added))
    }
}

#[cfg(test)]
mod tests;
