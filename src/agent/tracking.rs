//! Which objects of the cluster belong to which works, and their last observed versions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::items::{Metadata, ObjectVersion};
use gitwork_agent_core::manifest::ResourceMapping;
use gitwork_agent_core::object::Object;

/// A key of the pass queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueKey {
    /// A ManifestWork, by name.
    Work(Arc<str>),
    /// An AppliedManifestWork, by name.
    Applied(Arc<str>),
}

/// A tracked kind: its index in the list of kinds.
pub type KindId = usize;

/// A tracked object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: KindId,
    /// Its namespace; empty if the kind is cluster-scoped.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
}

/// One manifest of a work that observes an object.
#[derive(Debug, Clone)]
pub struct Subscription {
    /// The work, or the AppliedManifestWork while the object is being deleted.
    pub key: QueueKey,
    /// The manifest's ordinal; see [`tracking_ordinal`].
    pub ordinal: u32,
    /// Whether status changes count too.
    pub wants_all: bool,
    /// Digest of the manifest when the live content last matched it; 0: never.
    pub applied_digest: u64,
}

/// Whether an object exists, as far as the last read, write or event showed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ObservedState {
    /// The last read failed: the object may exist.
    #[default]
    Unknown,
    /// The object does not exist.
    Absent,
    /// The object exists and has this version.
    Present(ObjectVersion),
}

impl ObservedState {
    /// The state after a successful read. `live`: the object; `None` if it does not exist.
    pub fn of_read(live: Option<&Object>) -> Self {
        live.map_or(Self::Absent, |live| Self::Present(ObjectVersion::of_object(live)))
    }

    /// The version of an object that exists.
    pub fn version(self) -> Option<ObjectVersion> {
        match self {
            Self::Present(version) => Some(version),
            Self::Unknown | Self::Absent => None,
        }
    }
}

#[derive(Debug, Default)]
struct Tracked {
    state: ObservedState,
    /// Events up to this revision are ignored.
    revision: u64,
    subscribers: Vec<Subscription>,
}

struct Kind {
    mapping: ResourceMapping,
    objects: BTreeMap<(Box<str>, Box<str>), Tracked>,
}

/// The ordinal under which objects are tracked that are no longer in the work.
pub const REMOVED_OBJECTS: u32 = u32::MAX;

/// The revision of a change that requires a read whatever version is stored.
pub const ANY_REVISION: u64 = u64::MAX;

/// A manifest's ordinal as the tracking stores it.
pub fn tracking_ordinal(ordinal: usize) -> u32 {
    u32::try_from(ordinal).unwrap_or(REMOVED_OBJECTS)
}

/// All tracked objects.
#[derive(Default)]
pub struct Tracking {
    kinds: Vec<Kind>,
    ids: HashMap<(String, String), KindId>,
}

/// The last observed state of a tracked object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastObserved {
    /// Whether it exists, and its version.
    pub state: ObservedState,
    /// See [`Subscription::applied_digest`].
    pub applied_digest: u64,
}

/// A change that a tracked manifest has to observe: its work, its ordinal, and the revision, or
/// [`ANY_REVISION`].
pub type ObjectChange = (QueueKey, u32, u64);

impl Tracking {
    /// The id of a kind. Group and resource make it; of two versions the first is watched.
    pub fn kind(&mut self, mapping: &ResourceMapping) -> KindId {
        let name = (mapping.group.clone(), mapping.resource.clone());
        if let Some(id) = self.ids.get(&name) {
            return *id;
        }
        self.kinds.push(Kind { mapping: mapping.clone(), objects: BTreeMap::new() });
        let id = self.kinds.len() - 1;
        self.ids.insert(name, id);
        id
    }

    /// Kinds with and without tracked objects.
    pub fn kinds(&self) -> impl Iterator<Item = (KindId, &ResourceMapping, bool)> {
        self.kinds
            .iter()
            .enumerate()
            .map(|(id, kind)| (id, &kind.mapping, !kind.objects.is_empty()))
    }

    /// The number of tracked objects.
    pub fn count(&self) -> usize {
        self.kinds.iter().map(|kind| kind.objects.len()).sum()
    }

    fn get(&self, key: &ObjectKey) -> Option<&Tracked> {
        let kind = self.kinds.get(key.kind)?;
        kind.objects.get(&(key.namespace.clone(), key.name.clone()))
    }

    /// The last observed state of an object, and what `holder` applied to it; `None` if the object
    /// is not tracked.
    pub fn last_observed(
        &self,
        key: &ObjectKey,
        holder: &QueueKey,
        ordinal: u32,
    ) -> Option<LastObserved> {
        let tracked = self.get(key)?;
        let digest = tracked
            .subscribers
            .iter()
            .find(|one| one.key == *holder && one.ordinal == ordinal)
            .map_or(0, |one| one.applied_digest);
        Some(LastObserved { state: tracked.state, applied_digest: digest })
    }

    /// The last version of an object that is known to have existed; `None` if the object is not
    /// tracked, or not known to exist.
    pub fn version(&self, key: &ObjectKey) -> Option<ObjectVersion> {
        self.get(key)?.state.version()
    }

    /// Forgets the state of an object: the API server has another version than the tracking.
    pub fn forget_state(&mut self, key: &ObjectKey) {
        let name = (key.namespace.clone(), key.name.clone());
        let kind = self.kinds.get_mut(key.kind);
        if let Some(tracked) = kind.and_then(|kind| kind.objects.get_mut(&name)) {
            tracked.state = ObservedState::Unknown;
        }
    }

    /// Whether an object is tracked and known not to exist.
    pub fn is_absent(&self, key: &ObjectKey) -> bool {
        self.get(key).is_some_and(|tracked| tracked.state == ObservedState::Absent)
    }

    /// Records an object's state after a read or a write, and subscribes the manifest to changes.
    pub fn subscribe(&mut self, key: &ObjectKey, state: ObservedState, new: Subscription) {
        let Some(kind) = self.kinds.get_mut(key.kind) else { return };
        let tracked = kind.objects.entry((key.namespace.clone(), key.name.clone())).or_default();
        match state {
            ObservedState::Present(version) if version.revision < tracked.revision => {}
            ObservedState::Present(version) => {
                tracked.revision = version.revision;
                tracked.state = state;
            }
            ObservedState::Absent | ObservedState::Unknown => tracked.state = state,
        }
        let is_same = |old: &&mut Subscription| old.key == new.key && old.ordinal == new.ordinal;
        match tracked.subscribers.iter_mut().find(is_same) {
            Some(old) => *old = new,
            None => tracked.subscribers.push(new),
        }
    }

    /// Subscribes the manifest to an object before it is read or written, so that no change is
    /// missed that comes before the response. `state`: that of an object that is not tracked yet;
    /// what is known of others stays.
    pub fn subscribe_before(
        &mut self,
        key: &ObjectKey,
        state: impl FnOnce() -> ObservedState,
        new: Subscription,
    ) {
        let Some(kind) = self.kinds.get_mut(key.kind) else { return };
        let tracked = kind
            .objects
            .entry((key.namespace.clone(), key.name.clone()))
            .or_insert_with(|| Tracked { state: state(), ..Tracked::default() });
        let is_same = |old: &Subscription| old.key == new.key && old.ordinal == new.ordinal;
        if !tracked.subscribers.iter().any(is_same) {
            tracked.subscribers.push(new);
        }
    }

    /// The other works' manifests of an object that one work has just written: two works with
    /// different manifests for it must both observe it.
    pub fn other_subscribers(&self, key: &ObjectKey, writer: &QueueKey) -> Vec<ObjectChange> {
        self.get(key).map_or_else(Vec::new, |tracked| {
            let others = tracked.subscribers.iter().filter(|holder| holder.key != *writer);
            others.map(|holder| (holder.key.clone(), holder.ordinal, ANY_REVISION)).collect()
        })
    }

    /// Unsubscribes a manifest from an object.
    pub fn unsubscribe(&mut self, key: &ObjectKey, holder: &QueueKey, ordinal: u32) {
        let Some(kind) = self.kinds.get_mut(key.kind) else { return };
        let name = (key.namespace.clone(), key.name.clone());
        if let Some(tracked) = kind.objects.get_mut(&name) {
            tracked.subscribers.retain(|one| one.key != *holder || one.ordinal != ordinal);
            if tracked.subscribers.is_empty() {
                kind.objects.remove(&name);
            }
        }
    }

    /// Whether an event is newer than the stored version.
    pub fn is_newer(&self, key: &ObjectKey, revision: u64) -> bool {
        self.get(key).is_some_and(|tracked| tracked.revision < revision)
    }

    /// Records that an object exists as an event has it. Returns the manifests that must observe
    /// it. Only an event without such a manifest updates the stored version: a pass reads more.
    pub fn observe_present(&mut self, kind: KindId, metadata: &Metadata) -> Vec<ObjectChange> {
        let name = (metadata.namespace.as_str().into(), metadata.name.as_str().into());
        let Some(tracked) = self.kinds.get_mut(kind).and_then(|kind| kind.objects.get_mut(&name))
        else {
            return Vec::new();
        };
        let version = ObjectVersion::of(metadata);
        if version.revision <= tracked.revision {
            return Vec::new();
        }
        let only_status =
            tracked.state.version().is_some_and(|old| old.differs_only_in_status(&version));
        let changes: Vec<ObjectChange> = tracked
            .subscribers
            .iter()
            .filter(|holder| !only_status || holder.wants_all)
            .map(|holder| (holder.key.clone(), holder.ordinal, version.revision))
            .collect();
        if changes.is_empty() {
            tracked.revision = version.revision;
            tracked.state = ObservedState::Present(version);
        }
        changes
    }

    /// Records that an object is gone, as of a revision. Returns the manifests that must observe
    /// it.
    pub fn observe_gone(
        &mut self,
        kind: KindId,
        namespace: &str,
        name: &str,
        revision: u64,
    ) -> Vec<ObjectChange> {
        let name = (namespace.into(), name.into());
        let Some(tracked) = self.kinds.get_mut(kind).and_then(|kind| kind.objects.get_mut(&name))
        else {
            return Vec::new();
        };
        if revision <= tracked.revision {
            return Vec::new();
        }
        tracked.state = ObservedState::Absent;
        tracked
            .subscribers
            .iter()
            .map(|holder| (holder.key.clone(), holder.ordinal, revision))
            .collect()
    }

    /// Ends a list: objects that were not in it are gone.
    pub fn list_ended(
        &mut self,
        kind: KindId,
        seen: &BTreeSet<(Box<str>, Box<str>)>,
        revision: u64,
    ) -> Vec<ObjectChange> {
        let Some(all) = self.kinds.get(kind) else { return Vec::new() };
        let missing: Vec<(Box<str>, Box<str>)> = all
            .objects
            .iter()
            .filter(|(name, tracked)| {
                tracked.state != ObservedState::Absent && !seen.contains(*name)
            })
            .map(|(name, _)| name.clone())
            .collect();
        missing
            .iter()
            .flat_map(|(namespace, name)| self.observe_gone(kind, namespace, name, revision))
            .collect()
    }

    /// Whether an object is tracked.
    pub fn is_tracked(&self, kind: KindId, namespace: &str, name: &str) -> bool {
        self.kinds
            .get(kind)
            .is_some_and(|kind| kind.objects.contains_key(&(namespace.into(), name.into())))
    }

    /// All manifests with an object of a kind that cannot be watched: each must read its object.
    pub fn all_subscribers(&self, kind: KindId) -> Vec<ObjectChange> {
        let Some(kind) = self.kinds.get(kind) else { return Vec::new() };
        kind.objects
            .values()
            .flat_map(|tracked| &tracked.subscribers)
            .map(|holder| (holder.key.clone(), holder.ordinal, ANY_REVISION))
            .collect()
    }
}

#[cfg(test)]
mod tests;
