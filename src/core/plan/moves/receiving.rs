//! What a work gets from others, and what it must go on owning meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::manifest::Identity;
use crate::model::name::WorkKey;
use crate::model::object_digest::ObjectDigest;
use crate::plan::inputs::PlanInputs;
use crate::plan::moves::leaving::LeavingObjects;
use crate::plan::moves::object_move::{MoveProgress, ObjectMove};
use crate::plan::observed::ObservedWork;
use crate::plan::work_spec::WorkSpec;

/// What a work gets from others.
pub(super) struct Receiving<'a> {
    /// The objects that it must not list yet.
    pub(super) withheld: BTreeSet<ObjectDigest>,
    /// Objects that it has in Git and on the hub, and is to own no longer.
    ///
    /// A giving work still has them, and the hub may show it as it was before it dropped them: its
    /// agent would then delete what no work owns. The write with which the giving work orphans such
    /// an object finds that out. Or the agent of another work may still own them.
    pub(super) owned: BTreeMap<ObjectDigest, Identity>,
    /// The work on the hub.
    pub(super) there: Option<&'a ObservedWork>,
    /// The objects that it owns and that other works' agents may still own, with one of these.
    beside: BTreeMap<ObjectDigest, &'a WorkKey>,
}

impl<'a> Receiving<'a> {
    pub(super) fn of(
        key: &WorkKey,
        moves: &[&ObjectMove],
        leaving: &LeavingObjects<'a>,
        inputs: PlanInputs<'a>,
    ) -> Self {
        let there = inputs.observed.works.get(key);
        let moves = moves.iter().copied().filter(|one| one.to == *key && one.from != *key);
        let is_owner = |one: &&ObjectMove| {
            let listed = there.and_then(|there| there.object(one.digest));
            !one.progress.is_complete()
                && listed.is_some_and(|listed| listed.reported && listed.should_be_owned())
        };
        let received = moves.clone().filter(is_owner);
        let received = received.map(|one| (one.digest, one.object.clone()));
        let mut owned: BTreeMap<ObjectDigest, Identity> = received.collect();
        let beside = there.map(|there| leaving.shared_by(there)).unwrap_or_default();
        // A spec can be large: it is read only if an answer depends on it.
        if let Some(wanted) = inputs.desired.works.get(key)
            && !(owned.is_empty() && beside.is_empty())
        {
            let spec = WorkSpec::of(wanted.body.spec.value());
            owned.retain(|_, object| spec.disowns(object));
            for digest in beside.keys().copied().filter(|digest| spec.may_disown(*digest)) {
                let resource = wanted.object(digest).map(|object| &object.resource);
                let object = resource.and_then(|resource| spec.identity(digest, resource));
                let object = object.filter(|object| is_owned(there, digest, object, &spec));
                owned.extend(object.map(|object| (digest, object)));
            }
        } else {
            owned.clear();
        }
        let withheld = moves.filter(|one| is_withheld(one, inputs)).map(|one| one.digest);
        Self { withheld: withheld.collect(), owned, there, beside }
    }

    /// Whether the work may be as in Git, as far as it gets objects.
    pub(super) fn has_all(&self) -> bool {
        self.withheld.is_empty() && self.owned.is_empty()
    }

    /// Whether the work owns the object, and the agent of another work may still own it.
    pub(super) fn is_beside(&self, object: ObjectDigest) -> bool {
        self.beside.contains_key(&object)
    }

    /// A work whose agent may still own an object that this one is to own no longer.
    pub(super) fn shared_with(&self) -> Option<&'a WorkKey> {
        self.owned.keys().find_map(|object| self.beside.get(object)).copied()
    }
}

/// Whether the work owns an object on the hub that it should own, as far as that is known. Before
/// the agent has reported the object, its update strategy on the hub is not. `spec`: in Git.
fn is_owned(
    there: Option<&ObservedWork>,
    digest: ObjectDigest,
    object: &Identity,
    spec: &WorkSpec,
) -> bool {
    let Some(there) = there else { return false };
    let is_known = || !there.delete_option.orphans(object) && !spec.is_read_only(object);
    there.object(digest).is_some_and(|listed| listed.reported) || is_known()
}

/// Whether the receiving work must not list the object yet.
fn is_withheld(one: &ObjectMove, inputs: PlanInputs<'_>) -> bool {
    let there = inputs.observed.works.get(&one.to);
    let is_listed = || there.is_some_and(|there| there.object(one.digest).is_some());
    match &one.progress {
        MoveProgress::Unread
        | MoveProgress::Held { .. }
        | MoveProgress::Suspended { .. }
        | MoveProgress::Unreadable
        | MoveProgress::WaitsForWave
        | MoveProgress::Shared { .. }
        // It gets the object once the giving work no longer lists it. What it lists already, as of
        // an earlier move, it does not lose.
        | MoveProgress::Orphaning { .. }
        | MoveProgress::Orphaned => !is_listed(),
        MoveProgress::Applying { .. }
        | MoveProgress::AwaitingReport
        | MoveProgress::Unseen
        | MoveProgress::KeptByAnother
        | MoveProgress::Applied => false,
    }
}
