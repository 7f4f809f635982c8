//! Makes a plan within the hazards.

use std::sync::Arc;

use crate::model::name::WorkKey;
use crate::model::work::{ANNOTATION_CREATED_DURING_HOLD, WorkBody};
use crate::plan::candidates::{CandidateChange, candidates, marked, update};
use crate::plan::effect::Effect;
use crate::plan::hazards::Hazards;
use crate::plan::inputs::PlanInputs;
use crate::plan::last_known::LastKnownStates;
use crate::plan::moves::{LeavingObjects, Moves};
use crate::plan::observed::{Observed, ObservedWork};
use crate::plan::order::{Order, Waits};
use crate::plan::policy::PlanPolicy;
use crate::plan::reason::Reason;
use crate::plan::step::{Plan, PlanStep};
use crate::render::desired::Desired;

/// Plans one pass. It reads nothing but its arguments; equal arguments give equal plans.
pub fn plan(
    desired: &Desired,
    observed: &Observed,
    last_known: &LastKnownStates,
    policy: &PlanPolicy,
) -> Plan {
    let inputs = PlanInputs { desired, observed, last_known, policy };
    let hazards = Hazards::observe(inputs);
    let candidates = candidates_of(inputs, &hazards);
    let hazards = hazards.with_guards(inputs, &candidates);
    let change = |key: &WorkKey| {
        let at = candidates.binary_search_by(|candidate| candidate.key.cmp(key)).ok()?;
        candidates.get(at)
    };
    let order = Order { inputs, hazards: &hazards, change: &change };
    let waits = order.waits(candidates.iter());
    let rest = (inputs, &hazards, &waits);
    let steps = candidates.into_iter().map(|candidate| step(candidate, rest));
    Plan { commit: desired.commit, steps: steps.collect() }
}

/// The candidates of all works, with what moves between them.
pub(super) fn candidates_of(inputs: PlanInputs<'_>, hazards: &Hazards) -> Vec<CandidateChange> {
    let leaving = LeavingObjects::observe(inputs.observed);
    let moves = Moves::observe(inputs, &leaving, &|key| hazards.stands_still(key, inputs.desired));
    candidates(inputs, hazards.blocked(), &moves, &leaving)
}

/// The step of one work: its candidate, or the reason of the hazard that forbids it, or for which
/// it waits.
pub(super) fn step(
    candidate: CandidateChange,
    (inputs, hazards, waits): (PlanInputs<'_>, &Hazards, &Waits),
) -> PlanStep {
    let waits = || waits.get(&candidate.key).cloned();
    if let Some(reason) = hazards.forbids(&candidate, inputs).or_else(waits) {
        return PlanStep { key: candidate.key, path: candidate.path, effect: None, reason };
    }
    let candidate = if hazards.deletions_held() {
        mark(candidate, inputs.observed)
    } else {
        unmark(candidate, inputs)
    };
    let CandidateChange { key, path, effect, reason, .. } = candidate;
    let is_settled = effect.is_none() && reason == Reason::UpToDate;
    let waits = hazards.waits(&key, inputs.desired).filter(|_| is_settled);
    PlanStep { key, path, effect, reason: waits.unwrap_or(reason) }
}

/// Marks a work that is created while deletions are held.
fn mark(mut candidate: CandidateChange, observed: &Observed) -> CandidateChange {
    let may_be_new =
        || observed.works.get(&candidate.key).is_none_or(|work| work.written.is_none());
    match &mut candidate.effect {
        Some(Effect::Create { body } | Effect::Adopt { body, .. }) => mark_body(body),
        // Another writer removed the marker, together with gitwork's other annotations.
        Some(Effect::Update { body, .. }) if may_be_new() => mark_body(body),
        _ => {}
    }
    candidate
}

/// The marker is not content: the digest stays.
fn mark_body(body: &mut Arc<WorkBody>) {
    Arc::make_mut(body).created_during_hold = true;
}

/// Removes the marker from a work once no deletion is held. A list may be older than the work: then
/// the works to delete may be unknown, and the marker stays until the watch has shown the work.
fn unmark(mut candidate: CandidateChange, inputs: PlanInputs<'_>) -> CandidateChange {
    let unlisted = &inputs.observed.unlisted;
    let is_marked =
        |work: &&ObservedWork| work.created_during_hold && !unlisted.contains(&work.key);
    let Some(there) = inputs.observed.works.get(&candidate.key).filter(is_marked) else {
        return candidate;
    };
    if candidate.effect.is_none()
        && candidate.reason == Reason::UpToDate
        && let Some(work) = inputs.desired.works.get(&candidate.key)
    {
        candidate.effect = Some(update(there, &marked(&work.body, work)));
        candidate.reason = Reason::DeletesNoLongerHeld;
    }
    if let Some(Effect::Update { metadata, .. } | Effect::Adopt { metadata, .. }) =
        &mut candidate.effect
    {
        metadata.remove_annotations.insert(ANNOTATION_CREATED_DURING_HOLD.into());
    }
    candidate
}
