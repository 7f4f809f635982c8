//! The change that each work needs, if nothing but the state of the work stood against it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::name::{RepoPath, WorkKey};
use crate::model::work::{
    ANNOTATION_ADOPT, ANNOTATION_GROUP_CONTENT, DeletionPolicy, DesiredWork, OWN_ANNOTATIONS,
    WorkBody, WorkMetadata,
};
use crate::plan::blocked::{BlockedWorks, consent};
use crate::plan::effect::{Effect, MetadataChange};
use crate::plan::inputs::{PlanInputs, is_removed, is_unknown};
use crate::plan::moves::{LeavingObjects, Moves, TransitionalWork};
use crate::plan::name_holder::NameHolder;
use crate::plan::observed::{Observed, ObservedWork};
use crate::plan::reason::Reason;
use crate::plan::replica_sets::{self, HandOver};
use crate::render::desired::Desired;
use crate::render::layout;

/// The change that one work needs.
#[derive(Debug, Clone, PartialEq)]
pub struct CandidateChange {
    /// The work.
    pub key: WorkKey,
    /// The work folder, if Git has or had one.
    pub path: Option<RepoPath>,
    /// The change; `None` if there is nothing to do now.
    pub effect: Option<Effect>,
    /// Why.
    pub reason: Reason,
    /// Whether it deletes its work with an object that Git no longer has, begins to, or waits
    /// before it may.
    pub is_deletion: bool,
    /// Whether objects move from other works to it.
    pub receives_objects: bool,
    /// Whether Git has works that it depends on.
    pub has_dependencies: bool,
}

impl CandidateChange {
    /// Whether it deletes its work, or begins to.
    pub fn deletes(&self) -> bool {
        matches!(self.effect, Some(Effect::Delete { .. } | Effect::SetDeleteOption { .. }))
    }
}

/// A change and its reason.
type Decision = (Option<Effect>, Reason);

/// The works of this source that the hub has and Git does not, and whose history in Git the plan
/// needs, each with its folder: the one that the hub names, or else the default one for the name.
/// Those that are being deleted are among them: what they depend on waits until they are gone.
/// Frozen works are left out.
pub fn removed_candidates(desired: &Desired, observed: &Observed) -> Vec<(WorkKey, RepoPath)> {
    let removed = observed
        .works
        .values()
        .filter(|work| is_removed(work, desired) && !is_unknown(work, desired));
    let folder = |work: &ObservedWork| {
        let WorkKey { cluster, work: name } = &work.key;
        path_on_hub(work).unwrap_or_else(|| layout::cluster_path(cluster).join(name.as_str()))
    };
    removed.map(|work| (work.key.clone(), folder(work))).collect()
}

/// The candidates of all works, sorted by key.
pub fn candidates(
    inputs: PlanInputs<'_>,
    blocked: &BlockedWorks,
    moves: &Moves,
    leaving: &LeavingObjects<'_>,
) -> Vec<CandidateChange> {
    let desired = inputs.desired;
    let mut all: Vec<CandidateChange> = Vec::with_capacity(desired.works.len());
    let block = |key: &WorkKey| blocked.get(key).map(|reason| (None, reason.clone()));
    let wait = |key: &WorkKey, decision| wait_for_other_agents(key, decision, inputs, leaving);
    for (key, work) in &desired.works {
        let (effect, reason) = block(key).unwrap_or_else(|| wait(key, wanted(work, inputs, moves)));
        let (key, path) = (key.clone(), Some(work.path.clone()));
        let receives_objects = moves.has_receiver(&key);
        all.push(CandidateChange {
            key,
            path,
            effect,
            reason,
            is_deletion: false,
            receives_objects,
            has_dependencies: !work.depends_on.is_empty(),
        });
    }
    for (key, work) in inputs.removed_works() {
        let (effect, reason) = block(key).unwrap_or_else(|| wait(key, remove(work, inputs, moves)));
        let is_deletion = is_deletion(effect.as_ref(), &reason, work, inputs)
            && !moves.is_moved_away(key, inputs);
        all.push(CandidateChange {
            key: key.clone(),
            path: path_on_hub(work),
            effect,
            reason,
            is_deletion,
            receives_objects: false,
            has_dependencies: false,
        });
    }
    all.sort_by(|a, b| a.key.cmp(&b.key));
    all
}

/// Holds a write after which the agent of another work would delete an object of this one.
fn wait_for_other_agents(
    key: &WorkKey,
    (effect, reason): Decision,
    inputs: PlanInputs<'_>,
    leaving: &LeavingObjects<'_>,
) -> Decision {
    let there = inputs.observed.works.get(key);
    let other = there
        .zip(effect.as_ref())
        .and_then(|(there, effect)| Some(leaving.would_delete(there, effect)?.clone()));
    match (other, reason) {
        (Some(_), reason @ Reason::MovesObjects { .. }) => (None, reason),
        (Some(work), _) => (None, shares_objects(&work, inputs.observed)),
        (None, reason) => (effect, reason),
    }
}

fn shares_objects(with: &WorkKey, observed: &Observed) -> Reason {
    let other = observed.works.get(with);
    let complete = other.is_some_and(|other| other.agent.complete && !other.deleting);
    Reason::SharesObjects { work: with.work.clone(), complete }
}

/// Why a work that Git has is otherwise on the hub for a while.
fn transition(transitional: &TransitionalWork, observed: &Observed) -> Option<Reason> {
    let TransitionalWork { moves, shared_with, .. } = transitional;
    if !moves.is_empty() {
        return Some(Reason::MovesObjects { moves: moves.clone() });
    }
    shared_with.as_ref().map(|other| shares_objects(other, observed))
}

fn is_deletion(
    effect: Option<&Effect>,
    reason: &Reason,
    work: &ObservedWork,
    inputs: PlanInputs<'_>,
) -> bool {
    match reason {
        Reason::WaitingForAgent { .. } | Reason::NotYetOrphaned { .. } => true,
        // The deletion follows the move.
        Reason::MovesObjects { .. } | Reason::SharesObjects { .. } => inputs.is_pruned(work),
        Reason::ReplicaSetGives { .. } => {
            let removed = inputs.policy.removed_sets.get(&work.key);
            !removed.is_some_and(|removed| removed.keeps_all) && inputs.is_pruned(work)
        }
        _ => matches!(effect, Some(Effect::Delete { .. } | Effect::SetDeleteOption { .. })),
    }
}

fn path_on_hub(work: &ObservedWork) -> Option<RepoPath> {
    work.path.as_deref().and_then(RepoPath::parse)
}

/// A work that Git has.
fn wanted(work: &DesiredWork, inputs: PlanInputs<'_>, moves: &Moves) -> Decision {
    let PlanInputs { desired, observed, policy, .. } = inputs;
    let transitional = moves.transitional(&work.key);
    let moving = transitional.and_then(|one| transition(one, observed));
    let body = match (transitional, &moving) {
        (Some(TransitionalWork { body: Some(body), .. }), _) => body,
        (Some(moved), Some(moving)) => return (empty(moved, &work.key, inputs), moving.clone()),
        _ => &work.body,
    };
    let body = &marked(body, work);
    let Some(there) = observed.works.get(&work.key) else {
        return (Some(Effect::Create { body: body.clone() }), Reason::NewInGit);
    };
    if !there.is_ours(&desired.source) {
        let Some(reason) = consent(there, work, desired, policy.adoption) else {
            let owner = there.source.clone();
            return (
                None,
                Reason::Conflict { owner, holder: NameHolder::of(there, policy.adoption) },
            );
        };
        return (Some(adopt(there, body)), reason);
    }
    let is_marked = there.group_content == work.group_content;
    let has_content = observed.has_content(there, body.digest);
    if has_content && !is_marked {
        return (Some(update(there, body)), moving.unwrap_or(Reason::GroupChanged));
    }
    if there.digest == body.digest {
        return (None, moving.unwrap_or(Reason::UpToDate));
    }
    let effect = update(there, body);
    if has_content {
        return (None, moving.unwrap_or(Reason::ChangedByServer));
    }
    let is_untouched = there.written == Some(there.digest) || observed.is_as_stored(there);
    if is_untouched {
        return (Some(effect), moving.unwrap_or(Reason::ChangedInGit));
    }
    (Some(effect), Reason::EditedOnHub { by: there.edited_by.clone() })
}

/// The body with the content of the work's group. That is no content of the work: the digest stays.
pub(super) fn marked(body: &Arc<WorkBody>, work: &DesiredWork) -> Arc<WorkBody> {
    let mut body = body.clone();
    if body.group_content != work.group_content {
        Arc::make_mut(&mut body).group_content.clone_from(&work.group_content);
    }
    body
}

/// Deletes a work that would be empty for a while.
fn empty(moved: &TransitionalWork, key: &WorkKey, inputs: PlanInputs<'_>) -> Option<Effect> {
    let there = inputs.observed.works.get(key).filter(|_| moved.is_emptied)?;
    if !there.is_ours(&inputs.desired.source) || waits_for(there).is_some() {
        return None;
    }
    let (uid, resource_version) = (there.uid.clone(), there.resource_version.clone());
    Some(Effect::Delete { uid, resource_version })
}

/// The write of a body over what the hub has.
pub fn update(there: &ObservedWork, body: &Arc<WorkBody>) -> Effect {
    Effect::Update {
        body: body.clone(),
        resource_version: there.resource_version.clone(),
        metadata: metadata_change(there, body).into(),
    }
}

fn adopt(there: &ObservedWork, body: &Arc<WorkBody>) -> Effect {
    Effect::Adopt {
        body: body.clone(),
        resource_version: there.resource_version.clone(),
        metadata: metadata_change(there, body).into(),
    }
}

/// The labels and annotations to remove: those that gitwork once set and Git no longer has. An
/// adoption uses up its consent.
fn metadata_change(there: &ObservedWork, body: &WorkBody) -> MetadataChange {
    fn gone<'a>(
        once: impl Iterator<Item = &'a str>,
        now: &BTreeMap<String, String>,
    ) -> BTreeSet<String> {
        once.filter(|key| !now.contains_key(*key)).map(str::to_owned).collect()
    }
    let WorkMetadata { labels, annotations } = body.metadata();
    let users = there.owned().annotations.iter().map(String::as_str);
    let own = OWN_ANNOTATIONS.into_iter().chain([ANNOTATION_GROUP_CONTENT]);
    let mut remove_annotations = gone(users.chain(own), &annotations);
    if there.adopt.is_some() {
        remove_annotations.insert(ANNOTATION_ADOPT.into());
    }
    MetadataChange {
        remove_labels: gone(there.owned().labels.iter().map(String::as_str), &labels),
        remove_annotations,
        labels_absent: there.labels_absent,
        annotations_absent: there.annotations_absent,
    }
}

/// A replica set that Git no longer has and whose objects move to other works.
fn hand_over(set: &ObservedWork, inputs: PlanInputs<'_>) -> Option<Decision> {
    let HandOver::Gives { body, waiting, is_deleted } = replica_sets::hand_over(set, inputs)?
    else {
        return Some((None, Reason::UnreadReplicaSet));
    };
    let effect = update(set, &body);
    let is_written = body.digest == set.digest || inputs.observed.is_normalized(set, &effect);
    let waits = !waiting.is_empty() || !is_deleted;
    let reason = Reason::ReplicaSetGives { waiting };
    if is_written && waits {
        return Some((None, reason));
    }
    let (uid, resource_version) = (set.uid.clone(), set.resource_version.clone());
    let delete = Effect::Delete { uid, resource_version };
    Some((Some(if is_written { delete } else { effect }), reason))
}

/// A work of this source that Git no longer has.
fn remove(work: &ObservedWork, inputs: PlanInputs<'_>, moves: &Moves) -> Decision {
    let of_set = work.key.is_replica_set().then(|| hand_over(work, inputs));
    if let Some(decision) = of_set.flatten() {
        return decision;
    }
    let observed = inputs.observed;
    let last = inputs.last_known.get(&work.key);
    let by = last.and_then(|last| last.removed_by);
    if let Some(TransitionalWork { body, moves, .. }) = moves.transitional(&work.key) {
        let reason = Reason::MovesObjects { moves: moves.clone() };
        let effect = body.as_ref().map(|body| update(work, body));
        let writes = |effect: &Effect| {
            let is_there = effect.body().is_some_and(|body| body.digest == work.digest);
            !is_there && !observed.is_normalized(work, effect)
        };
        return (effect.filter(writes), reason);
    }
    let resource_version = work.resource_version.clone();
    // A work that has given all its objects away would be empty, and the hub rejects empty works.
    let is_released = !inputs.is_pruned(work) && !moves.is_moved_away(&work.key, inputs);
    if is_released {
        // A released work is forgotten. Until its agent has removed the objects that have left it,
        // another work must go on owning them.
        let generation = work.generation;
        if !work.left.is_empty() && !work.agent.has_settled() {
            return (None, Reason::WaitingToRelease { generation });
        }
        return (Some(Effect::Release { resource_version }), Reason::PruneOff { by });
    }
    // Agents may label other works of their cluster: nobody has asked for that deletion.
    if inputs.last_known.is_never_in_git(&work.key) && !moves.is_moved_away(&work.key, inputs) {
        return (None, Reason::NeverInGit);
    }
    let git = last.map_or(&work.delete_option, |last| &last.delete_option);
    let git = moves.final_option(&work.key, git);
    if git != work.delete_option {
        let effect = Effect::SetDeleteOption { delete_option: git.clone(), resource_version };
        if observed.is_normalized(work, &effect) {
            return (None, Reason::ChangedByServer);
        }
        let hub = work.delete_option.clone();
        return (Some(effect), Reason::DeleteOptionFirst { hub, git });
    }
    if let Some(reason) = waits_for(work) {
        return (None, reason);
    }
    let effect = Effect::Delete { uid: work.uid.clone(), resource_version };
    (Some(effect), Reason::RemovedFromGit { by })
}

/// Why a work whose deleteOption on the hub is right must not be deleted yet.
///
/// The agent acts on the option when it applies the work, and no longer once the work is being
/// deleted (OCM work agent, Work deletion). It orphans an object by removing its owner reference.
/// If an object is to stay, that must have succeeded; for a Complete work the agent never does it.
fn waits_for(work: &ObservedWork) -> Option<Reason> {
    let generation = work.generation;
    if !work.agent.has_settled() {
        return Some(Reason::WaitingForAgent { generation });
    }
    if work.delete_option != DeletionPolicy::Foreground && !work.agent.has_orphaned() {
        return Some(Reason::NotYetOrphaned { generation, complete: work.agent.complete });
    }
    None
}
