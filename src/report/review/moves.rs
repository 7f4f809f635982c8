//! Objects that are in one work of a cluster in the base, and in another one in the head.
//!
//! The hub is assumed to have the base. So these are the moves that the daemon makes: see
//! `plan::moves`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::object_name::ObjectName;
use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
use gitwork_core::model::object_digest::ObjectDigest;
use gitwork_core::model::work::DesiredWork;
use gitwork_core::plan::immutable::ImmutableChange;
use gitwork_core::plan::work_spec::WorkSpec;
use gitwork_core::render::desired::{Desired, FrozenWork};
use gitwork_core::text::diff::{self, FieldDiff};

/// How an object gets from one work to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(tag = "move", rename_all = "camelCase")]
pub enum MoveForecast {
    /// The giving work keeps it until the receiving one has applied it.
    Kept,
    /// The giving work orphans it first, because one of both works does not own it. The receiving
    /// work gets it after that.
    OrphanedFirst,
    /// Held: this field differs, and Kubernetes never lets it change.
    ImmutableField {
        /// As in `spec.selector`.
        field: String,
    },
    /// Held while one of both works is suspended in the head.
    Suspended {
        /// The suspended work.
        by: WorkName,
    },
    /// Held: the head has the giving work in a part that cannot be read. It keeps the object.
    Unreadable,
}

/// Where an object was in the base.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct MovedFrom {
    /// The work that had it.
    pub work: WorkName,
    /// How it gets from there to its new work.
    #[serde(flatten)]
    pub forecast: MoveForecast,
    /// The fields of the object that differ; values of Secrets are hidden.
    pub fields: FieldDiff,
}

type Key<'a> = (&'a ClusterName, ObjectDigest);

/// The moves between two states, without their details.
#[derive(Debug)]
pub(super) struct FoundMoves<'a> {
    /// The works that have the object in the base and in the head.
    works: BTreeMap<Key<'a>, (&'a DesiredWork, &'a DesiredWork)>,
    /// Objects that the head may have in a frozen work.
    frozen: BTreeMap<Key<'a>, &'a WorkKey>,
}

impl<'a> FoundMoves<'a> {
    pub(super) fn between(base: &'a Desired, head: &'a Desired) -> Self {
        let mut lost: BTreeMap<Key<'a>, &DesiredWork> = BTreeMap::new();
        for from in base.works.values() {
            let now = head.works.get(&from.key);
            if now.is_some_and(|now| now.body.digest == from.body.digest) {
                continue;
            }
            let objects = from.objects.iter().map(|object| object.digest);
            let gone = objects.filter(|one| now.is_none_or(|now| now.object(*one).is_none()));
            lost.extend(gone.map(|digest| ((&from.key.cluster, digest), &**from)));
        }
        let clusters: BTreeSet<&ClusterName> = lost.keys().map(|(cluster, _)| *cluster).collect();
        let mut works = BTreeMap::new();
        for to in head.works.values().filter(|work| clusters.contains(&work.key.cluster)) {
            for object in &*to.objects {
                let key = (&to.key.cluster, object.digest);
                works.extend(lost.remove(&key).map(|from| (key, (from, &**to))));
            }
        }
        for (cluster, sets) in head.delivered.iter().filter(|(name, _)| clusters.contains(name)) {
            for (to, object) in sets.iter().flat_map(|to| to.objects.iter().map(move |o| (to, o))) {
                let key = (cluster, object.digest);
                works.extend(lost.remove(&key).map(|from| (key, (from, &**to))));
            }
        }
        give_from_sets(base, head, &mut lost, &mut works);
        Self { works, frozen: in_frozen(&lost, head) }
    }

    fn is_from(&self, work: &DesiredWork, digest: ObjectDigest) -> bool {
        let found = self.works.get(&(&work.key.cluster, digest));
        found.is_some_and(|(from, _)| from.key == work.key)
    }

    /// Whether the base's work keeps an object for another one, which has it or may have it.
    pub(super) fn gives(&self, work: &DesiredWork) -> bool {
        work.objects.iter().any(|object| {
            let key = (&work.key.cluster, object.digest);
            self.is_from(work, object.digest) || self.frozen.contains_key(&key)
        })
    }

    /// Whether all objects of the base's work move to others, so that its deletion loses none.
    pub(super) fn is_moved_away(&self, work: &DesiredWork) -> bool {
        !work.objects.is_empty()
            && work.objects.iter().all(|object| self.is_from(work, object.digest))
    }
}

/// Finds the objects of the base's replica sets that the head has in works of their clusters. One
/// work stands for all.
fn give_from_sets<'a>(
    base: &'a Desired,
    head: &'a Desired,
    lost: &mut BTreeMap<Key<'a>, &'a DesiredWork>,
    works: &mut BTreeMap<Key<'a>, (&'a DesiredWork, &'a DesiredWork)>,
) {
    let giving: Vec<&DesiredWork> = lost.values().copied().collect();
    let giving: BTreeSet<&WorkKey> =
        giving.into_iter().map(|from| &from.key).filter(|key| key.is_replica_set()).collect();
    if giving.is_empty() {
        return;
    }
    for (cluster, sets) in &base.delivered {
        for set in sets.iter().filter(|set| giving.contains(&set.key)) {
            for (_, to) in head.works.of_cluster(cluster) {
                for object in to.objects.iter() {
                    let key = (&set.key.cluster, object.digest);
                    works.extend(lost.remove(&key).map(|from| (key, (from, &**to))));
                }
            }
        }
    }
}

/// The lost objects that the head may have in a frozen work, with that work.
fn in_frozen<'a>(
    lost: &BTreeMap<Key<'a>, &'a DesiredWork>,
    head: &'a Desired,
) -> BTreeMap<Key<'a>, &'a WorkKey> {
    let by_cluster = head.frozen.objects_by_cluster();
    let mut givers: BTreeMap<&WorkKey, (&DesiredWork, Vec<Key<'a>>)> = BTreeMap::new();
    for (object, from) in lost.iter().filter(|((cluster, _), _)| by_cluster.contains_key(cluster)) {
        givers.entry(&from.key).or_insert((from, Vec::new())).1.push(*object);
    }
    let mut found = BTreeMap::new();
    for (from, objects) in givers.into_values() {
        let spec = WorkSpec::of(from.body.spec.value());
        for object in objects {
            let (cluster, digest) = object;
            let may_have = |(key, objects): &&FrozenWork<'_>| {
                **key != from.key && objects.may_contain(digest, spec.manifest(digest))
            };
            let frozen = by_cluster.get(cluster).and_then(|all| all.iter().find(may_have));
            found.extend(frozen.map(|(key, _)| (object, *key)));
        }
    }
    found
}

/// One object that moves.
#[derive(Debug)]
pub(super) struct Move<'a> {
    pub(super) from: &'a WorkName,
    pub(super) to: &'a WorkName,
    pub(super) forecast: MoveForecast,
    pub(super) fields: FieldDiff,
}

/// All moves between two states.
#[derive(Debug)]
pub(super) struct Moves<'a> {
    found: FoundMoves<'a>,
    by_cluster: BTreeMap<&'a ClusterName, BTreeMap<ObjectDigest, Move<'a>>>,
    /// Objects that the head may have in a frozen work.
    frozen: BTreeMap<&'a ClusterName, BTreeMap<ObjectDigest, &'a WorkName>>,
}

impl<'a> Moves<'a> {
    pub(super) fn between(base: &'a Desired, head: &'a Desired) -> Self {
        let found = FoundMoves::between(base, head);
        let mut givers: BTreeMap<&WorkKey, Vec<(Key<'a>, &DesiredWork)>> = BTreeMap::new();
        for (key, (from, to)) in &found.works {
            givers.entry(&from.key).or_default().push((*key, to));
        }
        let mut by_cluster: BTreeMap<&ClusterName, BTreeMap<ObjectDigest, Move<'a>>> =
            BTreeMap::new();
        for (key, moves) in givers {
            let Some(from) = base.works.get(key) else { continue };
            let giver = Giver { side: Side::of(from), head };
            let mut receivers: BTreeMap<&WorkKey, Side<'_>> = BTreeMap::new();
            let is_too_large = giver.is_too_large(moves.iter().map(|((_, digest), _)| *digest));
            for ((cluster, digest), to) in moves {
                let receiver = receivers.entry(&to.key).or_insert_with(|| Side::of(to));
                let forecast = giver.forecast(receiver, digest, is_too_large);
                let [was, is] = [&giver.side, receiver].map(|side| side.spec.manifest(digest));
                let fields = was.zip(is).map(|(was, is)| diff::diff(was, is)).unwrap_or_default();
                let (from, to) = (&from.key.work, &to.key.work);
                let one = Move { from, to, forecast, fields };
                by_cluster.entry(cluster).or_default().insert(digest, one);
            }
        }
        let mut frozen: BTreeMap<&ClusterName, BTreeMap<ObjectDigest, &WorkName>> = BTreeMap::new();
        for ((cluster, digest), key) in &found.frozen {
            frozen.entry(cluster).or_default().insert(*digest, &key.work);
        }
        Self { found, by_cluster, frozen }
    }

    /// The move of an object that the base's work no longer has.
    pub(super) fn from(&self, key: &WorkKey, object: &ObjectName) -> Option<&Move<'a>> {
        self.get(key, object).filter(|one| *one.from == key.work)
    }

    /// The move of an object that the head's work did not have.
    pub(super) fn to(&self, key: &WorkKey, object: &ObjectName) -> Option<MovedFrom> {
        let found = self.get(key, object).filter(|one| *one.to == key.work)?;
        let Move { from, forecast, fields, .. } = found;
        let (work, forecast, fields) = ((*from).clone(), forecast.clone(), fields.clone());
        Some(MovedFrom { work, forecast, fields })
    }

    fn get(&self, key: &WorkKey, object: &ObjectName) -> Option<&Move<'a>> {
        self.by_cluster.get(&key.cluster)?.get(&object.digest())
    }

    /// The frozen work of the head that may have an object which its work no longer has.
    pub(super) fn frozen(&self, key: &WorkKey, object: &ObjectName) -> Option<&WorkName> {
        self.frozen.get(&key.cluster)?.get(&object.digest()).copied()
    }

    /// See [`FoundMoves::is_moved_away`].
    pub(super) fn is_moved_away(&self, work: &DesiredWork) -> bool {
        self.found.is_moved_away(work)
    }
}

/// One of the two works of a move.
struct Side<'a> {
    work: &'a DesiredWork,
    spec: WorkSpec,
}

impl<'a> Side<'a> {
    fn of(work: &'a DesiredWork) -> Self {
        Self { work, spec: WorkSpec::of(work.body.spec.value()) }
    }

    fn identity(&self, digest: ObjectDigest) -> Option<Identity> {
        self.spec.identity(digest, &self.work.object(digest)?.resource)
    }
}

/// The work that has the objects in the base.
struct Giver<'a> {
    side: Side<'a>,
    head: &'a Desired,
}

impl Giver<'_> {
    /// The planner's judgement, as far as Git determines it: see `plan::moves::progress`.
    fn forecast(
        &self,
        receiver: &Side<'_>,
        digest: ObjectDigest,
        is_too_large: bool,
    ) -> MoveForecast {
        let (from, to) = (self.side.work, receiver.work);
        let is_kept = self.head.works.contains_key(&from.key);
        if !is_kept && self.head.frozen.may_contain(&from.key, Some(from.path.as_str())) {
            return MoveForecast::Unreadable;
        }
        if let Some(work) = [from, to].into_iter().find(|work| self.is_suspended(&work.key)) {
            return MoveForecast::Suspended { by: work.key.work.clone() };
        }
        let Some(object) = receiver.identity(digest) else { return MoveForecast::Kept };
        let manifests = self.side.spec.manifest(digest).zip(receiver.spec.manifest(digest));
        if let (Some(write), Some((was, is))) = (receiver.spec.agent_write(&object), manifests)
            && let Some(change) = ImmutableChange::between(was, is, write)
        {
            return MoveForecast::ImmutableField { field: change.field };
        }
        let sides = [&self.side, receiver];
        match is_too_large || sides.iter().any(|side| side.spec.disowns(&object)) {
            true => MoveForecast::OrphanedFirst,
            false => MoveForecast::Kept,
        }
    }

    fn is_suspended(&self, key: &WorkKey) -> bool {
        let work = self.head.works.get(key);
        self.head.suspended.covers(key) || work.is_some_and(|work| work.suspend)
    }

    /// Whether the head's work would be too large for the hub with these objects.
    fn is_too_large(&self, kept: impl Iterator<Item = ObjectDigest>) -> bool {
        let Some(now) = self.head.works.get(&self.side.work.key) else { return false };
        let now = WorkSpec::of(now.body.spec.value());
        now.is_too_large_with(kept.filter_map(|digest| self.side.spec.manifest(digest)))
    }
}
