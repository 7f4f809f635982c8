//! How far each move has come.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::kinds;
use crate::model::manifest::Identity;
use crate::model::name::WorkKey;
use crate::model::object_digest::ObjectDigest;
use crate::plan::immutable::ImmutableChange;
use crate::plan::inputs::PlanInputs;
use crate::plan::moves::find::{FoundMove, Receiver};
use crate::plan::moves::leaving::LeavingObjects;
use crate::plan::moves::object_move::{CREATE_AGAIN, MoveProgress, ObjectMove};
use crate::plan::observed::{ListedObject, ObservedWork};
use crate::plan::reason::Reason;
use crate::plan::update_strategies::CREATE_ONLY;
use crate::plan::work_spec::WorkSpec;
use crate::render::desired::FrozenWork;

/// Why a work must not be written until somebody acts; `None` if it may be.
pub type StandsStill<'a> = dyn Fn(&WorkKey) -> Option<Reason> + 'a;

/// All found moves with their progress, in the same order: sorted by giving work.
pub(super) fn moves(
    found: &[FoundMove<'_>],
    inputs: PlanInputs<'_>,
    leaving: &LeavingObjects<'_>,
    stands_still: &StandsStill<'_>,
) -> Vec<ObjectMove> {
    let mut all = Vec::with_capacity(found.len());
    let all_frozen = inputs.desired.frozen.objects_by_cluster();
    for cluster in found.chunk_by(|a, b| a.from.key.cluster == b.from.key.cluster) {
        let receivers = receivers(cluster, inputs);
        let mut givers: BTreeMap<ObjectDigest, Vec<&ObservedWork>> = BTreeMap::new();
        cluster.iter().for_each(|one| givers.entry(one.digest).or_default().push(one.from));
        let contents = contents(cluster, inputs);
        for moves in cluster.chunk_by(|a, b| a.from.key == b.from.key) {
            let Some(FoundMove { from, .. }) = moves.first() else { continue };
            let frozen = all_frozen.get(&from.key.cluster).map_or(&[][..], Vec::as_slice);
            let (receivers, givers, contents) = (&receivers, &givers, &contents);
            let giver =
                Giver { from, contents, receivers, frozen, givers, leaving, inputs, stands_still };
            all.extend(giver.moves(moves));
        }
    }
    all
}

/// One of the two works of a move, with what its agent reports.
struct Side<'a> {
    spec: WorkSpec,
    /// `None`: the hub has no such work of the source.
    on_hub: Option<&'a ObservedWork>,
    /// Read at the first failure.
    messages: OnceCell<Messages>,
}

/// Why an agent has not applied objects.
struct Messages {
    /// By object, as in `ConfigMap shop/data`.
    of_objects: BTreeMap<String, String>,
    of_work: Option<String>,
}

/// The giving works of these moves as the hub has them, without those that have not been read.
fn contents<'a>(
    found: &[FoundMove<'a>],
    inputs: PlanInputs<'a>,
) -> BTreeMap<&'a WorkKey, Side<'a>> {
    let moves = found.chunk_by(|a, b| a.from.key == b.from.key).filter_map(<[_]>::first);
    let read = moves.filter_map(|FoundMove { from, .. }| {
        let content = inputs.observed.content(&from.key)?;
        Some((&from.key, Side::of(content.spec(), Some(from))))
    });
    read.collect()
}

/// The receiving works of these moves.
fn receivers<'a>(
    found: &[FoundMove<'a>],
    inputs: PlanInputs<'a>,
) -> BTreeMap<&'a WorkKey, Side<'a>> {
    let mut all = BTreeMap::new();
    for one in found {
        match one.to {
            Receiver::Work(work, _) => all.entry(&work.key).or_insert_with(|| {
                let on_hub = inputs.observed.works.get(&work.key);
                let on_hub = on_hub.filter(|there| there.is_ours(&inputs.desired.source));
                Side::of(work.body.spec.value(), on_hub)
            }),
            Receiver::Set(set, _) => all.entry(&set.key).or_insert_with(|| {
                let on_hub = inputs.observed.delivered_by(&set.key, &one.from.key.cluster);
                Side::of(set.body.spec.value(), on_hub)
            }),
            Receiver::Frozen(_) | Receiver::Later(_) => continue,
        };
    }
    all
}

impl<'a> Side<'a> {
    fn of(spec: Value, on_hub: Option<&'a ObservedWork>) -> Self {
        Self { spec: WorkSpec::of(spec), on_hub, messages: OnceCell::new() }
    }

    /// Whether the hub shows the object applied at the receiving work's generation, and owned.
    ///
    /// A work that was to give the object away, and now gets it, has it as `CreateOnly` until it is
    /// written. A former leader may still delete that state of it, so it does not count, unless no
    /// agent would act on the write.
    fn owns(&self, digest: ObjectDigest, object: &Identity) -> bool {
        let Some(there) = self.on_hub.filter(|there| !there.deleting) else { return false };
        let Some(listed) = there.object(digest) else { return false };
        let is_create_only = || self.spec.update_strategy(object) == Some(CREATE_ONLY);
        let is_giving = listed.create_only && !there.agent.complete && !is_create_only();
        listed.is_owned() && !is_giving
    }

    /// The field that differs in the receiving work and that no agent can change in place. `None`
    /// if the receiving work lists the object on the hub: then it is no longer the move that
    /// changes it. Agents do not write an object with other update strategies.
    fn immutable_field(
        &self,
        receiver: &Side<'_>,
        object: &Identity,
        digest: ObjectDigest,
    ) -> Option<String> {
        let is_listed = receiver.on_hub.is_some_and(|there| there.object(digest).is_some());
        let write = receiver.spec.agent_write(object).filter(|_| !is_listed)?;
        let (was, is) = (self.spec.manifest(digest)?, receiver.spec.manifest(digest)?);
        Some(ImmutableChange::between(was, is, write)?.field)
    }

    /// Why the agent failed to apply the object, if it did.
    fn failure(&self, object: ObjectDigest) -> Option<String> {
        let work = self.on_hub?;
        work.object(object).filter(|object| object.applied == Some(false))?;
        let messages = self.messages.get_or_init(|| Messages::of(work));
        let name = self.spec.manifest(object).map(object_name).unwrap_or_default();
        let message = messages.of_objects.get(&name).or(messages.of_work.as_ref());
        Some(message.cloned().unwrap_or_else(|| "its agent gives no reason".into()))
    }
}

impl Messages {
    fn of(work: &ObservedWork) -> Self {
        let details = work.status.details();
        let mut of_objects = BTreeMap::new();
        for object in details.objects {
            let mut conditions = object.conditions.into_iter();
            if let Some(applied) = conditions.find(|one| one.kind == "Applied") {
                of_objects.entry(object.object).or_insert(applied.message);
            }
        }
        Self { of_objects, of_work: details.message }
    }
}

/// As in the details of a work's status.
fn object_name(manifest: &Value) -> String {
    let text = |pointer| manifest.pointer(pointer).and_then(Value::as_str);
    let (kind, name) = (text("/kind").unwrap_or_default(), text("/metadata/name"));
    let name = name.unwrap_or_default();
    match text("/metadata/namespace") {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Judges the moves from one work.
struct Giver<'a> {
    from: &'a ObservedWork,
    /// The giving works of the cluster as the hub has them, as far as they have been read.
    contents: &'a BTreeMap<&'a WorkKey, Side<'a>>,
    receivers: &'a BTreeMap<&'a WorkKey, Side<'a>>,
    /// The frozen works of the cluster.
    frozen: &'a [FrozenWork<'a>],
    /// The giving works of the cluster by object.
    givers: &'a BTreeMap<ObjectDigest, Vec<&'a ObservedWork>>,
    leaving: &'a LeavingObjects<'a>,
    inputs: PlanInputs<'a>,
    stands_still: &'a StandsStill<'a>,
}

impl<'a> Giver<'a> {
    /// As the hub has it; `None` if it has not been read.
    fn content(&self) -> Option<&Side<'_>> {
        self.contents.get(&self.from.key)
    }

    fn moves(&self, found: &[FoundMove<'_>]) -> Vec<ObjectMove> {
        let mut moves: Vec<ObjectMove> = found.iter().filter_map(|one| self.judge(one)).collect();
        if self.is_too_large(&moves) {
            // It would be too large with what it keeps, so it orphans that first.
            for one in &mut moves {
                if matches!(
                    one.progress,
                    MoveProgress::Applying { .. } | MoveProgress::AwaitingReport
                ) {
                    one.progress = self.orphaning(one.digest, &one.to);
                }
            }
        }
        moves
    }

    /// `None` if no work may have the object.
    fn judge(&self, found: &FoundMove<'_>) -> Option<ObjectMove> {
        let FoundMove { digest, from, .. } = *found;
        let (from, to) = (from.key.clone(), self.receiver(found)?);
        let object = self.identity(found);
        let progress = self.progress(found, &object);
        Some(ObjectMove { digest, object, from, to, progress })
    }

    /// The receiving work. Of frozen works, the first one that the policy lets have the object.
    fn receiver(&self, found: &FoundMove<'_>) -> Option<WorkKey> {
        let (Receiver::Frozen(_), Some(content)) = (found.to, self.content()) else {
            return Some(found.to.key().clone());
        };
        let manifest = content.spec.manifest(found.digest);
        let may_have = |(key, objects): &&FrozenWork<'_>| {
            **key != self.from.key && objects.may_contain(found.digest, manifest)
        };
        self.frozen.iter().find(may_have).map(|(key, _)| (*key).clone())
    }

    /// The object, with the plural of its kind as in the receiving work, if that can be read.
    fn identity(&self, found: &FoundMove<'_>) -> Identity {
        if let Receiver::Work(work, object) | Receiver::Set(work, object) = found.to {
            let receiver = self.receivers.get(&work.key);
            let manifest = receiver.and_then(|receiver| receiver.spec.manifest(found.digest));
            return Identity::of_manifest(manifest.unwrap_or(&Value::Null), &object.resource);
        }
        let content = self.content();
        let manifest = content.and_then(|content| content.spec.manifest(found.digest));
        kinds::guessed_identity(manifest.unwrap_or(&Value::Null))
    }

    fn progress(&self, found: &FoundMove<'_>, object: &Identity) -> MoveProgress {
        let (from, digest) = (self.from, found.digest);
        if let Some(why) = (self.stands_still)(&from.key) {
            return stopped(&from.key, &why);
        }
        if !from.agent.seen {
            return MoveProgress::Unseen;
        }
        let Some(content) = self.content() else { return MoveProgress::Unread };
        let to = match found.to {
            Receiver::Work(to, _) | Receiver::Set(to, _) => to,
            Receiver::Frozen(_) => return MoveProgress::Unreadable,
            Receiver::Later(_) => return MoveProgress::WaitsForWave,
        };
        let Some(receiver) = self.receivers.get(&to.key) else { return MoveProgress::Unreadable };
        // If a work does not own the object, its owner reference would not keep the object when
        // the giving work drops it.
        let orphans = content.spec.disowns(object)
            || self.finally_orphans(object)
            || self.is_to_orphan_shared(digest, object, &to.key)
            || receiver.spec.disowns(object);
        if !orphans && receiver.owns(digest, object) {
            return match from.agent.has_settled() {
                true => MoveProgress::Applied,
                false => MoveProgress::AwaitingReport,
            };
        }
        if let Some(field) = content.immutable_field(receiver, object, digest) {
            return MoveProgress::Held { why: format!("{field} cannot change; {CREATE_AGAIN}") };
        }
        if orphans && from.object(digest).is_some_and(ListedObject::is_orphaned) {
            return MoveProgress::Orphaned;
        }
        // A set that stands still has no work that gets the object: the move goes on later.
        let stands_still = (self.stands_still)(&to.key).filter(|_| to.key.is_work());
        if let Some(why) = stands_still {
            return stopped(&to.key, &why);
        }
        if orphans {
            return self.orphaning(digest, &to.key);
        }
        // The receiving work does not get what another work is to orphan: waiting for it would
        // never end.
        let early = self.others_orphan(digest, object).then(|| self.shared(digest, &to.key));
        match early.flatten() {
            Some(progress) if !matches!(progress, MoveProgress::Shared { .. }) => progress,
            _ => applying(&to.key, receiver, digest),
        }
    }

    /// Whether another giving work orphans the object on the hub or in Git, or did so last in Git.
    fn others_orphan(&self, digest: ObjectDigest, object: &Identity) -> bool {
        let others = self.givers.get(&digest).into_iter().flatten();
        others.filter(|other| other.key != self.from.key).any(|other| {
            let on_hub = self.contents.get(&other.key);
            let last = self.inputs.last_known.get(&other.key);
            on_hub.is_some_and(|content| content.spec.disowns(object))
                || last.is_some_and(|last| last.delete_option.orphans(object))
                || self.orphans_in_git(&other.key, object)
        })
    }

    /// Whether Git orphans the object with the giving work, which it no longer has.
    fn finally_orphans(&self, object: &Identity) -> bool {
        let last = self.inputs.last_known.get(&self.from.key);
        last.is_some_and(|last| last.delete_option.orphans(object))
    }

    /// Whether the next write of the giving work orphans an object that other works own, too, and
    /// that the receiving work does not have yet.
    fn is_to_orphan_shared(&self, digest: ObjectDigest, object: &Identity, to: &WorkKey) -> bool {
        self.orphans_in_git(&self.from.key, object)
            && !self.is_listed_by(to, digest)
            && self.owners(digest).any(|(other, _)| other.key != self.from.key)
    }

    /// Whether a work on the hub lists the object.
    fn is_listed_by(&self, work: &WorkKey, digest: ObjectDigest) -> bool {
        let there = self.inputs.observed.works.get(work);
        there.is_some_and(|there| there.object(digest).is_some())
    }

    /// Whether Git orphans the object with this work, which it still has.
    fn orphans_in_git(&self, work: &WorkKey, object: &Identity) -> bool {
        let wanted = self.inputs.desired.works.get(work);
        wanted.is_some_and(|wanted| wanted.delete_option.orphans(object))
    }

    /// Whether the giving work would be too large for the hub with all that it keeps.
    fn is_too_large(&self, moves: &[ObjectMove]) -> bool {
        let wanted = self.inputs.desired.works.get(&self.from.key);
        let (Some(wanted), Some(content)) = (wanted, self.content()) else { return false };
        let kept = moves.iter().filter(|one| !one.progress.is_complete());
        let mut kept = kept.filter_map(|one| content.spec.manifest(one.digest)).peekable();
        kept.peek().is_some() && WorkSpec::of(wanted.body.spec.value()).is_too_large_with(kept)
    }

    /// How the move goes on if several works own the object that this one is to orphan: one of them
    /// goes on owning it until the others have given it up. The hub may show another giving work as
    /// it was before its deletion, and then its agent would delete the orphaned object. The write
    /// with which it gives up the object finds that out. `None` if no other work owns the object,
    /// or if the receiving work writes it already.
    fn shared(&self, digest: ObjectDigest, to: &WorkKey) -> Option<MoveProgress> {
        if self.is_listed_by(to, digest) {
            return None;
        }
        let owners: Vec<(&ObservedWork, &ListedObject)> = self.owners(digest).collect();
        if owners.len() < 2 || !owners.iter().any(|(one, _)| one.key == self.from.key) {
            return None;
        }
        // The same order for all objects, or two works could wait for each other. A former leader
        // may still drop the object from a work that has it as `CreateOnly`.
        let order =
            |(one, listed): &(&'a ObservedWork, &ListedObject)| (!listed.create_only, &one.key);
        let (last, listed) = owners.into_iter().max_by_key(order)?;
        if last.key == self.from.key {
            return Some(MoveProgress::Shared { is_received: false });
        }
        Some(match listed.is_owned() && self.from.agent.has_settled() {
            true => MoveProgress::KeptByAnother,
            false => MoveProgress::AwaitingReport,
        })
    }

    /// The giving works that own the object, as the hub shows them.
    fn owners(
        &self,
        digest: ObjectDigest,
    ) -> impl Iterator<Item = (&'a ObservedWork, &'a ListedObject)> {
        self.givers.get(&digest).into_iter().flatten().filter_map(move |one| {
            let listed = one.object(digest).filter(|_| one.agent.seen)?;
            listed.should_be_owned().then_some((*one, listed))
        })
    }

    fn orphaning(&self, digest: ObjectDigest, to: &WorkKey) -> MoveProgress {
        if let Some(progress) = self.shared(digest, to) {
            return progress;
        }
        // The agent of a work that no longer lists the object would delete it.
        let is_owner = self.owners(digest).any(|(one, _)| one.key == self.from.key);
        if is_owner && self.leaving.is_beside(&self.from.key, digest) {
            return MoveProgress::Shared { is_received: self.is_listed_by(to, digest) };
        }
        let is_complete = self.from.object(digest).is_some_and(|listed| listed.complete);
        let complete = match (self.from.agent.complete, is_complete) {
            (true, _) => Some(format!("{} is Complete", self.from.key.work)),
            (false, true) => Some("its manifest is Complete".to_owned()),
            (false, false) => None,
        };
        if let Some(complete) = complete {
            let why = format!("{complete}, so the agent never acts on it again");
            return MoveProgress::Held { why: format!("{why}; {CREATE_AGAIN}") };
        }
        let failure = self.content().and_then(|content| content.failure(digest));
        MoveProgress::Orphaning { failure }
    }
}

fn applying(to: &WorkKey, receiver: &Side<'_>, digest: ObjectDigest) -> MoveProgress {
    // OCM's agent does nothing more for such a work (OCM work agent, ManifestWorkController).
    if receiver.on_hub.is_some_and(|there| there.agent.complete) {
        let why = "the work is Complete, so its agent applies nothing more";
        return MoveProgress::Held { why: format!("{}: {why}", to.work) };
    }
    MoveProgress::Applying { failure: receiver.failure(digest) }
}

/// The move of an object from a work or to a work that stands still.
fn stopped(key: &WorkKey, reason: &Reason) -> MoveProgress {
    let why = format!("{}: {reason}", key.work);
    match reason.is_suspension() {
        true => MoveProgress::Suspended { why },
        false => MoveProgress::Held { why },
    }
}
