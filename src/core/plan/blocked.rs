//! Works whose own state forbids every write: unreadable in Git, suspended there, owned by
//! another, or being deleted.

use std::collections::BTreeMap;

use crate::config::AdoptionPolicy;
use crate::model::name::{RepoPath, WorkKey};
use crate::model::work::DesiredWork;
use crate::plan::inputs::{PlanInputs, is_unknown};
use crate::plan::name_holder::NameHolder;
use crate::plan::observed::ObservedWork;
use crate::plan::reason::Reason;
use crate::render::desired::Desired;

/// Each blocked work with the reason.
pub type BlockedWorks = BTreeMap<WorkKey, Reason>;

/// Finds the blocked works among the desired ones and those that Git no longer has.
pub fn blocked(inputs: PlanInputs<'_>) -> BlockedWorks {
    let PlanInputs { desired, observed, policy, .. } = inputs;
    let wanted = desired.works.iter().filter_map(|(key, work)| {
        let there = observed.works.get(key);
        Some((key.clone(), block_wanted(work, there, desired, policy.adoption)?))
    });
    let removed = inputs
        .removed_works()
        .filter_map(|(key, work)| Some((key.clone(), block_removed(work, desired)?)));
    wanted.chain(removed).collect()
}

fn block_wanted(
    work: &DesiredWork,
    there: Option<&ObservedWork>,
    desired: &Desired,
    adoption: AdoptionPolicy,
) -> Option<Reason> {
    if desired.frozen.contains(&work.key) {
        return Some(Reason::Frozen);
    }
    if comes_from_group(work, there, desired) {
        return Some(Reason::UnknownMembership);
    }
    if work.suspend {
        return Some(Reason::Suspended);
    }
    let there = there?;
    if !there.is_ours(&desired.source) && consent(there, work, desired, adoption).is_none() {
        let holder = NameHolder::of(there, adoption);
        return Some(Reason::Conflict { owner: there.source.clone(), holder });
    }
    there.deleting.then_some(Reason::BeingDeleted { wanted: true })
}

/// Whether the work on the hub came from another folder, of a group that its cluster may still be
/// in: it is unknown then which of the two Git wants.
fn comes_from_group(work: &DesiredWork, there: Option<&ObservedWork>, desired: &Desired) -> bool {
    let there = there.filter(|there| there.is_ours(&desired.source));
    let path = there.and_then(|there| there.path.as_deref());
    path.filter(|path| RepoPath::parse(path).as_ref() != Some(&work.path))
        .is_some_and(|path| desired.frozen.may_be_of_group(&work.key.cluster, Some(path)))
}

fn block_removed(work: &ObservedWork, desired: &Desired) -> Option<Reason> {
    if is_unknown(work, desired) {
        let (cluster, folder) = (&work.key.cluster, work.path.as_deref());
        let is_of_group = desired.frozen.may_be_of_group(cluster, folder)
            || desired.frozen.may_have_by_group(&work.key, folder);
        return Some(if is_of_group { Reason::UnknownMembership } else { Reason::Frozen });
    }
    work.deleting.then_some(Reason::BeingDeleted { wanted: false })
}

/// Why the source may adopt the work of another owner; `None` if it may not.
pub(super) fn consent(
    there: &ObservedWork,
    work: &DesiredWork,
    desired: &Desired,
    adoption: AdoptionPolicy,
) -> Option<Reason> {
    let annotated = there.adopt.as_deref() == Some(desired.source.as_str());
    match adoption {
        AdoptionPolicy::Never => None,
        _ if annotated => Some(Reason::AdoptionAllowed { owner: there.source.clone() }),
        AdoptionPolicy::Unowned if there.unowned && there.digest == work.body.spec_digest() => {
            Some(Reason::AdoptedUnowned)
        }
        AdoptionPolicy::Annotated | AdoptionPolicy::Unowned => None,
    }
}
