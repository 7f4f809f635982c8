//! How far each move has come.

use serde_json::Value;

use crate::limits;
use crate::model::kinds::KindIndex;
use crate::model::manifest::Identity;
use crate::model::name::WorkKey;
use crate::model::object_digest::ObjectDigest;
use crate::model::work::DeletionPolicy;
use crate::plan::inputs::PlanInputs;
use crate::plan::moves::body;
use crate::plan::moves::find::{FoundMove, Receiver};
use crate::plan::moves::object_move::{MoveProgress, ObjectMove};
use crate::plan::observed::{ListedObject, ObservedWork, WorkContent, update_strategy};
use crate::render::work_folder::wire_size;

/// Why a work must not be written until somebody acts; `None` if it may be.
pub type StandsStill<'a> = dyn Fn(&WorkKey) -> Option<String> + 'a;

/// All found moves with their progress, in the same order.
pub(super) fn moves(
    found: &[FoundMove<'_>],
    inputs: PlanInputs<'_>,
    stands_still: &StandsStill<'_>,
) -> Vec<ObjectMove> {
    let mut all = Vec::with_capacity(found.len());
    for givers in found.chunk_by(|a, b| a.from.key == b.from.key) {
        let first = all.len();
        let content = givers.first().and_then(|first| inputs.observed.content(&first.from.key));
        let content = content.map(WorkContent::spec);
        let specs: Vec<ObjectSpec> =
            givers.iter().map(|found| ObjectSpec::of(found, content.as_ref())).collect();
        let judges: Vec<Judge<'_>> = givers
            .iter()
            .zip(&specs)
            .map(|(found, spec)| {
                let content = content.as_ref();
                Judge { found, spec, content, inputs, stands_still }
            })
            .collect();
        for judge in &judges {
            let object = judge.spec.identity();
            let progress = judge.progress(&object);
            let (from, to) = (judge.found.from.key.clone(), judge.found.to.key().clone());
            let digest = judge.found.digest;
            all.push(ObjectMove { digest, object, from, to, progress });
        }
        let moves = all.get_mut(first..).unwrap_or_default();
        if is_too_large(moves, inputs) {
            // A giving work that would be too large with what it keeps orphans it first.
            for (one, judge) in moves.iter_mut().zip(&judges) {
                if matches!(one.progress, MoveProgress::Applying { .. }) {
                    one.progress = judge.orphaning();
                }
            }
        }
    }
    all
}

/// Whether the giving work of these moves would be too large for the hub with all that it keeps.
fn is_too_large(moves: &[ObjectMove], inputs: PlanInputs<'_>) -> bool {
    let Some(key) = moves.first().map(|one| &one.from) else { return false };
    let (Some(wanted), Some(content)) =
        (inputs.desired.works.get(key), inputs.observed.content(key))
    else {
        return false;
    };
    let kept = moves.iter().filter(|one| !one.progress.is_complete());
    let kept: Vec<ObjectDigest> = kept.map(|one| one.digest).collect();
    let mut manifests = body::manifests(&wanted.body.spec.value()).to_vec();
    let spec = content.spec();
    let of_hub = body::manifests(&spec).iter();
    let is_kept =
        |one: &&Value| ObjectDigest::of_manifest(one).is_some_and(|digest| kept.contains(&digest));
    manifests.extend(of_hub.filter(is_kept).cloned());
    let sizes = manifests.iter().map(|manifest| wire_size(manifest.to_string().len()));
    !kept.is_empty() && sizes.sum::<usize>() > limits::WORK_BYTES_MAX
}

/// One object, with the spec of its receiving work if that can be read, or else of its giving one.
struct ObjectSpec {
    spec: Value,
    digest: ObjectDigest,
    /// The plural of its kind.
    resource: String,
}

impl ObjectSpec {
    fn of(found: &FoundMove<'_>, content: Option<&Value>) -> Self {
        let digest = found.digest;
        match found.to {
            Receiver::Work(work, object) => {
                Self { spec: work.body.spec.value(), digest, resource: object.resource.to_string() }
            }
            Receiver::Frozen(_) => {
                let spec = content.cloned().unwrap_or_default();
                let mut this = Self { spec, digest, resource: String::new() };
                let kinds = KindIndex::default();
                let found = kinds.lookup(this.group(), this.text("/kind"));
                found.resource().clone_into(&mut this.resource);
                this
            }
        }
    }

    fn manifest(&self) -> Option<&Value> {
        let is_object = |one: &&Value| ObjectDigest::of_manifest(one) == Some(self.digest);
        body::manifests(&self.spec).iter().find(is_object)
    }

    fn text(&self, pointer: &str) -> &str {
        let field = self.manifest().and_then(|one| one.pointer(pointer));
        field.and_then(Value::as_str).unwrap_or_default()
    }

    fn group(&self) -> &str {
        self.text("/apiVersion").split_once('/').map_or("", |(group, _)| group)
    }

    fn identity(&self) -> Identity {
        Identity {
            group: self.group().to_owned(),
            resource: self.resource.clone(),
            namespace: self.text("/metadata/namespace").to_owned(),
            name: self.text("/metadata/name").to_owned(),
        }
    }
}

/// Judges one move.
struct Judge<'a> {
    found: &'a FoundMove<'a>,
    spec: &'a ObjectSpec,
    /// The spec of the giving work on the hub; `None` if it has not been read.
    content: Option<&'a Value>,
    inputs: PlanInputs<'a>,
    stands_still: &'a StandsStill<'a>,
}

impl Judge<'_> {
    fn progress(&self, object: &Identity) -> MoveProgress {
        let FoundMove { from, to, .. } = *self.found;
        if let Some(why) = (self.stands_still)(&from.key) {
            return held(&from.key, &why);
        }
        if !from.agent.seen {
            return MoveProgress::Unseen;
        }
        let Some(content) = self.content else { return MoveProgress::Unread };
        let Receiver::Work(to, _) = to else { return MoveProgress::Unreadable };
        let orphans = self.needs_orphaning(content, object);
        if orphans && self.listed().is_some_and(ListedObject::is_orphaned) {
            return MoveProgress::Orphaned;
        }
        let there = self.inputs.observed.works.get(&to.key).filter(|there| self.is_ours(there));
        if !orphans && there.is_some_and(|there| self.is_applied(there)) {
            return MoveProgress::Applied;
        }
        if let Some(why) = (self.stands_still)(&to.key) {
            return held(&to.key, &why);
        }
        if orphans { self.orphaning() } else { self.applying(there) }
    }

    /// Whether one of both works does not own the object: its owner reference would not keep the
    /// object when the giving work drops it.
    fn needs_orphaning(&self, content: &Value, object: &Identity) -> bool {
        let receiver = &self.spec.spec;
        let strategy = |spec: &Value| {
            let configs = spec.get("manifestConfigs").and_then(Value::as_array);
            update_strategy(configs.map_or(&[], Vec::as_slice), object) == Some("ReadOnly")
        };
        let option =
            DeletionPolicy::from_value(receiver.get("deleteOption").unwrap_or(&Value::Null));
        self.found.from.delete_option.orphans(object)
            || self.final_option().is_some_and(|option| option.orphans(object))
            || option.orphans(object)
            || strategy(content)
            || strategy(receiver)
    }

    /// The final deleteOption of a giving work that Git no longer has.
    fn final_option(&self) -> Option<&DeletionPolicy> {
        let last = self.inputs.last_known.get(&self.found.from.key)?;
        Some(&last.delete_option)
    }

    fn listed(&self) -> Option<&ListedObject> {
        self.found.from.object(self.found.digest)
    }

    fn is_ours(&self, there: &ObservedWork) -> bool {
        there.is_ours(&self.inputs.desired.source)
    }

    /// Whether the hub shows the object applied at the receiving work's generation, and owned.
    fn is_applied(&self, there: &ObservedWork) -> bool {
        !there.deleting && there.object(self.found.digest).is_some_and(ListedObject::is_owned)
    }

    fn applying(&self, there: Option<&ObservedWork>) -> MoveProgress {
        let digest = self.found.digest;
        // OCM's agent does nothing more for such a work (OCM work agent, ManifestWorkController).
        if there.is_some_and(|there| there.agent.complete) {
            let why = "the work is Complete, so its agent applies nothing more";
            return held(self.found.to.key(), why);
        }
        let failure = there.filter(|there| has_failed(there, digest));
        let failure = failure.map(|there| failure_of(there, self.spec.manifest()));
        MoveProgress::Applying { failure }
    }

    fn orphaning(&self) -> MoveProgress {
        let FoundMove { from, digest, .. } = *self.found;
        if self.listed().is_some_and(|listed| listed.complete) {
            let why = "its manifest is Complete, so the agent never acts on it again; remove the \
                       object in one commit and add it in the next to create it again";
            return MoveProgress::Held { why: why.into() };
        }
        let failure = Some(from).filter(|from| has_failed(from, digest));
        let failure = failure.map(|from| failure_of(from, self.spec.manifest()));
        MoveProgress::Orphaning { failure }
    }
}

fn held(key: &WorkKey, why: &str) -> MoveProgress {
    MoveProgress::Held { why: format!("{}: {why}", key.work) }
}

fn has_failed(work: &ObservedWork, digest: ObjectDigest) -> bool {
    work.object(digest).is_some_and(|object| object.applied == Some(false))
}

/// What the agent says about the object.
fn failure_of(work: &ObservedWork, manifest: Option<&Value>) -> String {
    let text = |pointer| manifest.and_then(|one| one.pointer(pointer)).and_then(Value::as_str);
    let name = text("/metadata/name").unwrap_or_default();
    let name = match text("/metadata/namespace") {
        Some(namespace) => format!("{} {namespace}/{name}", text("/kind").unwrap_or_default()),
        None => format!("{} {name}", text("/kind").unwrap_or_default()),
    };
    let details = work.status.details();
    let object = details.objects.into_iter().find(|object| object.object == name);
    let conditions = object.into_iter().flat_map(|object| object.conditions);
    let mut messages = conditions.filter(|one| one.kind == "Applied").map(|one| one.message);
    messages.next().or(details.message).unwrap_or_else(|| "its agent gives no reason".into())
}
