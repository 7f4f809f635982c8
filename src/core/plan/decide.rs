//! The rules: one work at a time, then what only the whole pass can tell.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Departed, Effect, LastStood, MetadataChange, Plan, Policy, Reason, Step, guards, hold,
};
use crate::core::adoption::Adoption;
use crate::core::desired::Desired;
use crate::core::layout;
use crate::core::name::{RepoPath, WorkKey};
use crate::core::observed::{Observed, ObservedWork};
use crate::core::work::{
    ANNOTATION_ADOPT, DeleteOption, DesiredWork, OWN_ANNOTATIONS, WorkBody, WorkMetadata,
};

/// What a step does and why.
type Decision = (Option<Effect>, Reason);

/// The works that the hub has of this source and Git does not, with their folder, whose history in Git the plan asks for:
/// the one that the hub names, or, where somebody took that annotation off, the one that a work of this name has by
/// default. Nothing that is frozen or going already.
pub fn departed_candidates(desired: &Desired, observed: &Observed) -> Vec<(WorkKey, RepoPath)> {
    let departed = observed
        .works
        .values()
        .filter(|work| is_departed(work, desired) && !work.deleting && !is_held(work, desired));
    let folder = |work: &ObservedWork| {
        let WorkKey { cluster, work: name } = &work.key;
        path_on_hub(work).unwrap_or_else(|| layout::cluster_path(cluster).join(name.as_str()))
    };
    departed.map(|work| (work.key.clone(), folder(work))).collect()
}

/// Plans one pass. Looks at nothing but its arguments; equal arguments give equal plans.
pub fn plan(desired: &Desired, observed: &Observed, departed: &Departed, policy: &Policy) -> Plan {
    let mut steps: Vec<Step> = Vec::with_capacity(desired.works.len());
    for (key, work) in &desired.works {
        let (effect, reason) = decide_wanted(work, observed, desired, policy.adoption);
        steps.push(Step { key: key.clone(), path: Some(work.path.clone()), effect, reason });
    }
    for (key, work) in observed.works.iter().filter(|(_, work)| is_departed(work, desired)) {
        let (effect, reason) = decide_departed(work, departed.get(key), observed, desired);
        steps.push(Step { key: key.clone(), path: path_on_hub(work), effect, reason });
    }
    steps.sort_by(|a, b| a.key.cmp(&b.key));
    if !policy.allow_delete_all {
        hold::hold_deletes(&mut steps, desired, observed, departed, policy);
    }
    let going = hold::going(&steps);
    guards::guard(&mut steps, desired, observed, policy);
    hold::mark(&mut steps, &going, desired, observed);
    Plan { commit: desired.commit, steps }
}

fn is_departed(work: &ObservedWork, desired: &Desired) -> bool {
    work.is_ours(&desired.source) && !desired.works.contains_key(&work.key)
}

/// Whether it cannot be told if Git still has it.
pub(super) fn is_held(work: &ObservedWork, desired: &Desired) -> bool {
    desired.frozen.holds(&work.key, work.path.as_deref())
}

fn path_on_hub(work: &ObservedWork) -> Option<RepoPath> {
    work.path.as_deref().and_then(RepoPath::parse)
}

/// A work that Git has.
fn decide_wanted(
    work: &DesiredWork,
    observed: &Observed,
    desired: &Desired,
    adoption: Adoption,
) -> Decision {
    if desired.frozen.covers(&work.key) {
        return (None, Reason::Frozen);
    }
    if work.suspend {
        return (None, Reason::Suspended);
    }
    let Some(there) = observed.works.get(&work.key) else {
        return (Some(Effect::Create { body: work.body.clone() }), Reason::NewInGit);
    };
    let ours = there.is_ours(&desired.source);
    let consent = if ours { None } else { consent(there, work, desired, adoption) };
    if !ours && consent.is_none() {
        return (None, Reason::Conflict { owner: there.source.clone(), adoption });
    }
    if there.deleting {
        return (None, Reason::BeingDeleted { wanted: true });
    }
    if ours && there.digest == work.body.digest {
        return (None, Reason::UpToDate);
    }
    let body = work.body.clone();
    let resource_version = there.resource_version.clone();
    let metadata = metadata_change(there, &work.body);
    if let Some(reason) = consent {
        return (Some(Effect::Adopt { body, resource_version, metadata }), reason);
    }
    let effect = Effect::Update { body, resource_version, metadata };
    if observed.is_stored_form(there, &effect) {
        return (None, Reason::StoredDifferently);
    }
    let untouched = there.written == Some(there.digest) || observed.is_as_stored(there);
    if untouched {
        return (Some(effect), Reason::ChangedInGit);
    }
    (Some(effect), Reason::EditedOnHub { by: there.edited_by.clone() })
}

/// Why a work of somebody else may be taken over; `None` where it may not.
fn consent(
    there: &ObservedWork,
    work: &DesiredWork,
    desired: &Desired,
    adoption: Adoption,
) -> Option<Reason> {
    let annotated = there.adopt.as_deref() == Some(desired.source.as_str());
    match adoption {
        Adoption::Never => None,
        _ if annotated => Some(Reason::AdoptionAllowed { owner: there.source.clone() }),
        Adoption::Unowned if there.unowned && there.digest == work.body.spec_digest() => {
            Some(Reason::AdoptedUnowned)
        }
        Adoption::Annotated | Adoption::Unowned => None,
    }
}

/// What of the labels and annotations there has to go: what gitwork once set and does not set now. A consent
/// is used up by the take-over.
pub(super) fn metadata_change(there: &ObservedWork, body: &WorkBody) -> MetadataChange {
    fn gone<'a>(
        once: impl Iterator<Item = &'a str>,
        now: &BTreeMap<String, String>,
    ) -> BTreeSet<String> {
        once.filter(|key| !now.contains_key(*key)).map(str::to_owned).collect()
    }
    let WorkMetadata { labels, annotations } = body.metadata();
    let users = there.owned.annotations.iter().map(String::as_str);
    let mut remove_annotations = gone(users.chain(OWN_ANNOTATIONS), &annotations);
    if there.adopt.is_some() {
        remove_annotations.insert(ANNOTATION_ADOPT.into());
    }
    MetadataChange {
        remove_labels: gone(there.owned.labels.iter().map(String::as_str), &labels),
        remove_annotations,
        labels_absent: there.labels_absent,
        annotations_absent: there.annotations_absent,
    }
}

/// A work of ours that Git no longer has.
fn decide_departed(
    work: &ObservedWork,
    last: Option<&LastStood>,
    observed: &Observed,
    desired: &Desired,
) -> Decision {
    if is_held(work, desired) {
        return (None, Reason::Frozen);
    }
    if work.deleting {
        return (None, Reason::BeingDeleted { wanted: false });
    }
    let by = last.and_then(|last| last.removed_by);
    let resource_version = work.resource_version.clone();
    if !last.map_or(work.prune, |last| last.prune) {
        return (Some(Effect::Release { resource_version }), Reason::PruneOff { by });
    }
    let git = last.map_or(&work.delete_option, |last| &last.delete_option);
    if *git != work.delete_option {
        let reason =
            Reason::DeleteOptionFirst { hub: work.delete_option.clone(), git: git.clone() };
        let effect = Effect::SetDeleteOption { delete_option: git.clone(), resource_version };
        if observed.is_stored_form(work, &effect) {
            return (None, Reason::StoredDifferently);
        }
        return (Some(effect), reason);
    }
    if let Some(reason) = waits_for(work) {
        return (None, reason);
    }
    let effect = Effect::Delete { uid: work.uid.clone(), resource_version };
    (Some(effect), Reason::RemovedFromGit { by })
}

/// Why a work with the right deleteOption on the hub must not be deleted yet. The agent acts on the option when it
/// applies the work, and no more once the work is being deleted (OCM work agent, Work deletion): it orphans
/// an object by taking its owner reference off. Where an object is to stay, that must have succeeded; an
/// agent that ignores a complete work never does it.
fn waits_for(work: &ObservedWork) -> Option<Reason> {
    let generation = work.generation;
    if !work.agent.has_settled(generation) {
        return Some(Reason::WaitingForAgent { generation });
    }
    if work.delete_option != DeleteOption::Foreground && !work.agent.has_orphaned(generation) {
        return Some(Reason::NotYetOrphaned { generation, complete: work.agent.complete });
    }
    None
}
