//! What the works of a move have on the hub until it is complete.
//!
//! Each body follows from what Git and the hub have, and is the same when it is computed again from
//! itself on the hub. So a restart in the middle of a move changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::model::digest::Digest;
use crate::model::manifest::Identity;
use crate::model::name::WorkKey;
use crate::model::object_digest::ObjectDigest;
use crate::model::work::{DeletionPolicy, DesiredWork, WorkBody};
use crate::plan::inputs::PlanInputs;
use crate::plan::moves::leaving::LeavingObjects;
use crate::plan::moves::object_move::{MoveProgress, ObjectMove};
use crate::plan::moves::receiving::Receiving;
use crate::plan::observed::WorkContent;
use crate::plan::update_strategies::{CREATE_ONLY, UpdateStrategies};
use crate::plan::work_spec::WorkSpec;

/// What a work has on the hub while objects move from it or to it.
#[derive(Debug, Clone, PartialEq)]
pub struct TransitionalWork {
    /// What to write. `None`: nothing can be written now, because the body has no objects or a
    /// work of the move must be read first.
    pub body: Option<Arc<WorkBody>>,
    /// It has given all its objects away, and cannot list those that it gets yet. As the hub
    /// rejects empty works, it is deleted and then created again.
    pub is_emptied: bool,
    /// The moves that are not completed, or that this body completes. Empty if the work only goes
    /// on owning objects that other agents may still own.
    pub moves: Arc<[ObjectMove]>,
    /// A work whose agent may still own an object that this one is to own no longer.
    pub shared_with: Option<WorkKey>,
}

/// What the work has meanwhile; `None` if Git's state, or the work's deletion, is right.
/// `moves`: those from the work and to it.
pub(super) fn transitional(
    key: &WorkKey,
    moves: &[&ObjectMove],
    leaving: &LeavingObjects<'_>,
    inputs: PlanInputs<'_>,
) -> Option<TransitionalWork> {
    let giving: Vec<&ObjectMove> = moves.iter().copied().filter(|one| one.from == *key).collect();
    let receiving = Receiving::of(key, moves, leaving, inputs);
    let keeps = giving.iter().any(|one| !one.progress.is_complete());
    let wanted = inputs.desired.works.get(key);
    let given: BTreeSet<ObjectDigest> = giving.iter().map(|one| one.digest).collect();
    let on_hub = inputs.observed.works.get(key);
    let lists_more =
        on_hub.is_some_and(|work| work.objects.iter().any(|o| !given.contains(&o.digest)));
    // Objects that have moved leave a removed work while it still has others: before its release,
    // and if another work waits for one of them, as the deletion may be held.
    let is_released = on_hub.is_some_and(|work| !inputs.is_pruned(work));
    let is_awaited = giving.iter().any(|one| one.progress.is_awaited());
    let drops = wanted.is_none() && !keeps && lists_more && (is_released || is_awaited);
    if !keeps && !drops && receiving.has_all() {
        return None;
    }
    let is_open =
        |one: &ObjectMove| !one.progress.is_complete() || receiving.withheld.contains(&one.digest);
    let mut open: Vec<ObjectMove> =
        moves.iter().copied().filter(|one| drops || is_open(one)).cloned().collect();
    // What somebody has to act on comes first.
    open.sort_by_key(|one| !one.progress.is_held());
    let content = inputs.observed.content(key);
    let waits = waits_for_content(key, moves, &receiving.withheld);
    let body = match (wanted, content) {
        _ if waits => None,
        (Some(work), content) if !keeps => {
            of_desired(work, None, &giving, &receiving).or_else(|| without_moved(content?, &given))
        }
        (_, None) => None,
        (None, Some(content)) if drops && is_released => without_moved(content, &given),
        (None, Some(content)) => Some(removed(key, content, &giving, inputs)),
        (Some(work), Some(content)) => keeping(work, content, &giving, &receiving),
    };
    let gives_all = || gives_all(key, giving.iter().copied(), inputs);
    let is_emptied = body.is_none() && !waits && !keeps && gives_all();
    let shared_with = receiving.shared_with().cloned();
    Some(TransitionalWork { body: body.map(Arc::new), is_emptied, moves: open.into(), shared_with })
}

/// Whether every object of a work on the hub moves to another work. `giving`: the moves from it.
pub(super) fn gives_all<'a>(
    key: &WorkKey,
    giving: impl IntoIterator<Item = &'a ObjectMove>,
    inputs: PlanInputs<'_>,
) -> bool {
    let Some(work) = inputs.observed.works.get(key) else { return false };
    // What an unreadable folder may have can still be this work's own.
    let is_certain = |one: &&ObjectMove| {
        // A replica set is another cluster's in the inputs of this one.
        one.to.is_replica_set()
            || (one.from != one.to && inputs.desired.works.contains_key(&one.to))
    };
    let moves = giving.into_iter().filter(is_certain);
    let given: BTreeSet<ObjectDigest> = moves.map(|one| one.digest).collect();
    !work.objects.is_empty() && work.objects.iter().all(|object| given.contains(&object.digest))
}

/// Whether the work must wait until the content of the giving work is read: it is written once,
/// with what it gets.
fn waits_for_content(
    key: &WorkKey,
    moves: &[&ObjectMove],
    withheld: &BTreeSet<ObjectDigest>,
) -> bool {
    moves.iter().any(|one| {
        one.progress == MoveProgress::Unread && (one.from == *key || withheld.contains(&one.digest))
    })
}

fn is_orphaning(one: &ObjectMove) -> bool {
    matches!(one.progress, MoveProgress::Orphaning { .. })
}

fn is_shared(one: &ObjectMove) -> bool {
    matches!(one.progress, MoveProgress::Shared { .. })
}

/// A giving work that Git still has. `None` if it would be empty.
fn keeping(
    work: &DesiredWork,
    content: &WorkContent,
    giving: &[&ObjectMove],
    receiving: &Receiving<'_>,
) -> Option<WorkBody> {
    if giving.iter().any(|one| is_orphaning(one)) {
        return Some(of_hub(content, giving, None));
    }
    let body = of_desired(work, Some(content), giving, receiving)?;
    // The hub would reject it: its other changes wait until objects have left it.
    let is_too_large = WorkSpec::of(body.spec.value()).is_too_large_with(std::iter::empty());
    Some(if is_too_large { of_hub(content, giving, None) } else { body })
}

/// Git's state, without the objects that the work does not get yet, and with those that it still
/// keeps. `None` if nothing would be left.
fn of_desired(
    work: &DesiredWork,
    content: Option<&WorkContent>,
    giving: &[&ObjectMove],
    receiving: &Receiving<'_>,
) -> Option<WorkBody> {
    let mut spec = work.body.spec.value();
    let manifests = manifests_mut(&mut spec)?;
    let is_in = |objects: &BTreeSet<ObjectDigest>, manifest: &Value| {
        ObjectDigest::of_manifest(manifest).is_some_and(|digest| objects.contains(&digest))
    };
    manifests.retain(|one| !is_in(&receiving.withheld, one));
    let kept = giving.iter().copied().filter(|one| !one.progress.is_complete());
    let kept: Vec<&ObjectMove> = kept.filter(|_| content.is_some()).collect();
    if let Some(content) = content {
        let hub = content.spec();
        let digests = kept.iter().map(|one| one.digest).collect();
        let of_hub = self::manifests(&hub).iter();
        manifests.extend(of_hub.filter(|one| is_in(&digests, one)).cloned());
        let entries = config_entries(&kept, &hub);
        prepend_configs(&mut spec, entries);
    }
    if !receiving.owned.is_empty() {
        let strategies = UpdateStrategies::of(&spec);
        let owned = receiving.owned.values().filter(|object| strategies.is_read_only(object));
        prepend_configs(&mut spec, owned.map(create_only).collect());
    }
    let option = delete_option(work, &spec, &kept, receiving);
    if let (Value::Object(fields), Some(option)) = (&mut spec, option) {
        let in_git = fields.remove("deleteOption");
        let option = option.to_value(in_git.as_ref());
        // What the hub had before has none, as a rule: no write is needed for a default.
        if option != DeletionPolicy::Foreground.to_value(None) {
            fields.insert("deleteOption".into(), option);
        }
    }
    if self::manifests(&spec).is_empty() {
        return None;
    }
    Some(WorkBody::from_parts(spec, &work.body.metadata()))
}

/// The deleteOption until the moves are complete; `None` if it is Git's. `spec`: the work as it is
/// to be.
fn delete_option(
    work: &DesiredWork,
    spec: &Value,
    kept: &[&ObjectMove],
    receiving: &Receiving<'_>,
) -> Option<DeletionPolicy> {
    let on_hub = &receiving.there?.delete_option;
    let in_git = DeletionPolicy::from_value(spec.get("deleteOption").unwrap_or(&Value::Null));
    // Other works give up these objects first, or their agents do.
    let shared = kept.iter().filter(|one| is_shared(one) || receiving.is_beside(one.digest));
    let shared = shared.map(|one| &one.object).chain(receiving.owned.values());
    let waiting: BTreeSet<Identity> = shared.cloned().collect();
    let mut after = in_git.clone();
    if waiting.iter().any(|object| in_git.orphans(object)) {
        let all = manifests(spec).iter().filter_map(|manifest| {
            let digest = ObjectDigest::of_manifest(manifest)?;
            let kept = kept.iter().find(|one| one.digest == digest);
            let named = || Some(Identity::of_manifest(manifest, &work.object(digest)?.resource));
            kept.map(|one| one.object.clone()).or_else(named)
        });
        after = in_git.not_orphaning(&waiting, all);
    }
    let after = after.orphaning(held_orphans(kept, on_hub));
    (after != in_git).then_some(after)
}

/// The state on the hub, with the update strategy `CreateOnly` for what moves, and with orphaning
/// rules for what must be orphaned first. What another work waits for leaves it, as moves of other
/// objects may be held. `option`: the deleteOption to start from, if not that on the hub.
fn of_hub(
    content: &WorkContent,
    giving: &[&ObjectMove],
    option: Option<&DeletionPolicy>,
) -> WorkBody {
    let mut spec = content.spec();
    let left = giving.iter().filter(|one| one.progress.is_awaited());
    remove_objects(&mut spec, &left.map(|one| one.digest).collect());
    let moving = giving.iter().filter(|one| is_written_elsewhere(one));
    let entries = moving.map(|one| create_only(&one.object)).collect();
    prepend_configs(&mut spec, entries);
    let on_hub = spec.get("deleteOption").cloned();
    let before = DeletionPolicy::from_value(on_hub.as_ref().unwrap_or(&Value::Null));
    let orphaning = giving.iter().filter(|one| is_orphaning(one));
    let mut orphaned: Vec<Identity> = orphaning.map(|one| one.object.clone()).collect();
    orphaned.extend(held_orphans(giving, &before));
    let after = option.unwrap_or(&before).orphaning(orphaned);
    if let (Value::Object(fields), true) = (&mut spec, after != before) {
        fields.insert("deleteOption".into(), after.to_value(on_hub.as_ref()));
    }
    WorkBody::from_parts(spec, &content.metadata())
}

/// A giving work that Git no longer has.
fn removed(
    key: &WorkKey,
    content: &WorkContent,
    giving: &[&ObjectMove],
    inputs: PlanInputs<'_>,
) -> WorkBody {
    let last = inputs.last_known.get(key);
    // A work that is released keeps its deleteOption. Git's one can orphan an object that other
    // works are to give up first.
    let is_shared = giving.iter().any(|one| is_shared(one));
    let last = last.filter(|last| last.prune && !is_shared);
    let option = last.map(|last| &last.delete_option);
    of_hub(content, giving, option)
}

/// The state on the hub without the objects that have moved. `None` if nothing would be left.
fn without_moved(content: &WorkContent, given: &BTreeSet<ObjectDigest>) -> Option<WorkBody> {
    let mut spec = content.spec();
    remove_objects(&mut spec, given);
    let is_empty = manifests(&spec).is_empty();
    (!is_empty).then(|| WorkBody::from_parts(spec, &content.metadata()))
}

/// The objects that the giving work orphans or has orphaned for a move.
pub(super) fn orphaned_objects<'a>(
    giving: impl IntoIterator<Item = &'a ObjectMove>,
) -> Vec<Identity> {
    let orphaned = giving.into_iter().filter(|one| {
        matches!(one.progress, MoveProgress::Orphaning { .. } | MoveProgress::Orphaned)
    });
    orphaned.map(|one| one.object.clone()).collect()
}

/// The objects that the hub orphans and whose moves are held: they stay as they are.
fn held_orphans(giving: &[&ObjectMove], on_hub: &DeletionPolicy) -> Vec<Identity> {
    let is_held = |one: &ObjectMove| !one.progress.is_complete() && !is_in_progress(one);
    let held = giving.iter().filter(|one| is_held(one) && on_hub.orphans(&one.object));
    held.map(|one| one.object.clone()).collect()
}

fn is_in_progress(one: &ObjectMove) -> bool {
    matches!(
        one.progress,
        MoveProgress::Applying { .. }
            | MoveProgress::AwaitingReport
            | MoveProgress::Orphaning { .. }
    )
}

/// Whether the receiving work writes the object, or will, so that the giving one must not.
fn is_written_elsewhere(one: &ObjectMove) -> bool {
    is_in_progress(one)
        // Nobody writes what only a later or a rejected content has.
        || (one.progress == MoveProgress::WaitsForWave && one.from == one.to)
        || matches!(
            one.progress,
            MoveProgress::Applied | MoveProgress::Shared { is_received: true }
        )
}

/// The entry of `manifestConfigs` with which a work owns an object and does not write it.
fn create_only(object: &Identity) -> Value {
    json!({
        "resourceIdentifier": object.to_value(),
        "updateStrategy": {"type": CREATE_ONLY},
    })
}

/// The entries of `manifestConfigs` for the objects that the giving work keeps. A held object has
/// those that it has on the hub.
fn config_entries(kept: &[&ObjectMove], hub: &Value) -> Vec<Value> {
    let configs = hub.get("manifestConfigs").and_then(Value::as_array);
    let mut of_hub: BTreeMap<Identity, Vec<&Value>> = BTreeMap::new();
    for config in configs.into_iter().flatten() {
        let object = Identity::of_value(config.get("resourceIdentifier"));
        of_hub.entry(object).or_default().push(config);
    }
    let entries = kept.iter().flat_map(|one| match of_hub.get(&one.object) {
        _ if is_written_elsewhere(one) => vec![create_only(&one.object)],
        Some(configs) => configs.iter().copied().cloned().collect(),
        None => Vec::new(),
    });
    entries.collect()
}

fn is_create_only(entry: &Value) -> bool {
    entry.pointer("/updateStrategy/type").and_then(Value::as_str) == Some(CREATE_ONLY)
}

/// Puts entries first: for each field, an agent takes the first entry that has it (OCM work agent,
/// config lookup).
fn prepend_configs(spec: &mut Value, mut entries: Vec<Value>) {
    if entries.is_empty() {
        return;
    }
    let Value::Object(fields) = spec else { return };
    if let Some(Value::Array(before)) = fields.remove("manifestConfigs") {
        // Entries that are first already stay where they are, so that a move that goes on in parts
        // does not change their order.
        let are_first = before.iter().take_while(|one| is_create_only(one));
        let are_first: BTreeSet<Digest> = are_first.map(Digest::of_json).collect();
        entries.retain(|one| !is_create_only(one) || !are_first.contains(&Digest::of_json(one)));
        let first: BTreeSet<Digest> = entries.iter().map(Digest::of_json).collect();
        let others = before.into_iter().filter(|one| !first.contains(&Digest::of_json(one)));
        entries.extend(others);
    }
    fields.insert("manifestConfigs".into(), entries.into());
}

/// `workload.manifests` of a spec.
pub(super) fn manifests(spec: &Value) -> &[Value] {
    let manifests = spec.pointer("/workload/manifests").and_then(Value::as_array);
    manifests.map_or(&[], Vec::as_slice)
}

fn remove_objects(spec: &mut Value, objects: &BTreeSet<ObjectDigest>) {
    let Some(manifests) = manifests_mut(spec) else { return };
    manifests.retain(|one| {
        ObjectDigest::of_manifest(one).is_none_or(|digest| !objects.contains(&digest))
    });
}

fn manifests_mut(spec: &mut Value) -> Option<&mut Vec<Value>> {
    spec.pointer_mut("/workload/manifests").and_then(Value::as_array_mut)
}
