//! Which objects of the cluster belong to which works, and what was last known of each.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::core::manifest::Mapping;
use super::items::{Facts, Metadata};

/// What is worked on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A ManifestWork, by name.
    Work(Arc<str>),
    /// An AppliedManifestWork, by name.
    Applied(Arc<str>),
}

/// A kind that objects are tracked of: a place in a list.
pub type KindId = usize;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub kind: KindId,
    pub namespace: Box<str>,
    pub name: Box<str>,
}

/// One place of one work that wants to know of an object.
#[derive(Debug, Clone)]
struct Holder {
    key: Key,
    ordinal: u32,
    /// Each change counts, not only those of what we applied.
    wants_all: bool,
    /// Digest of what was applied when the content was last known to be as wanted; 0: never.
    applied_digest: u64,
}

#[derive(Debug, Default)]
struct Tracked {
    /// `None`: not there.
    facts: Option<Facts>,
    /// The revision up to which events are old news.
    revision: u64,
    holders: Vec<Holder>,
}

struct Kind {
    mapping: Mapping,
    objects: BTreeMap<(Box<str>, Box<str>), Tracked>,
}

/// All tracked objects.
#[derive(Default)]
pub struct Tracking {
    kinds: Vec<Kind>,
    ids: HashMap<(String, String), KindId>,
}

/// What is known of an object before it is looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known {
    /// Seen, and not gone since.
    pub facts: Option<Facts>,
    /// Seen and found missing, or seen to go.
    pub is_absent: bool,
    pub applied_digest: u64,
}

/// Somebody to be told of a change: a place in a work, and the change's revision.
pub type Told = (Key, u32, u64);

impl Tracking {
    /// The id of a kind. Group and resource make it; of two versions the first is watched.
    pub fn kind(&mut self, mapping: &Mapping) -> KindId {
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
    pub fn kinds(&self) -> impl Iterator<Item = (KindId, &Mapping, bool)> {
        self.kinds
            .iter()
            .enumerate()
            .map(|(id, kind)| (id, &kind.mapping, !kind.objects.is_empty()))
    }

    pub fn count(&self) -> usize {
        self.kinds.iter().map(|kind| kind.objects.len()).sum()
    }

    fn get(&self, key: &ObjectKey) -> Option<&Tracked> {
        let kind = self.kinds.get(key.kind)?;
        kind.objects.get(&(key.namespace.clone(), key.name.clone()))
    }

    pub fn known(&self, key: &ObjectKey, holder: &Key, ordinal: u32) -> Known {
        let Some(tracked) = self.get(key) else { return Known::default() };
        let digest = tracked
            .holders
            .iter()
            .find(|one| one.key == *holder && one.ordinal == ordinal)
            .map_or(0, |one| one.applied_digest);
        Known { facts: tracked.facts, is_absent: tracked.facts.is_none(), applied_digest: digest }
    }

    /// Notes what is known of an object after it was looked at or written, and who wants to know more.
    pub fn hold(
        &mut self,
        key: &ObjectKey,
        holder: &Key,
        ordinal: u32,
        wants_all: bool,
        facts: Option<Facts>,
        applied_digest: u64,
    ) {
        let Some(kind) = self.kinds.get_mut(key.kind) else { return };
        let tracked = kind.objects.entry((key.namespace.clone(), key.name.clone())).or_default();
        match facts {
            Some(facts) if facts.revision >= tracked.revision => {
                tracked.revision = facts.revision;
                tracked.facts = Some(facts);
            }
            Some(_) => {}
            None => tracked.facts = None,
        }
        let new = Holder { key: holder.clone(), ordinal, wants_all, applied_digest };
        match tracked.holders.iter_mut().find(|one| one.key == *holder && one.ordinal == ordinal) {
            Some(old) => *old = new,
            None => tracked.holders.push(new),
        }
    }

    /// Who else holds an object that one work has just written: of two works that want different things, each has to
    /// look again.
    pub fn others(&self, key: &ObjectKey, writer: &Key) -> Vec<Told> {
        self.get(key).map_or_else(Vec::new, |tracked| {
            let others = tracked.holders.iter().filter(|holder| holder.key != *writer);
            others.map(|holder| (holder.key.clone(), holder.ordinal, u64::MAX)).collect()
        })
    }

    /// One place of a work does not want to know of an object any more.
    pub fn release(&mut self, key: &ObjectKey, holder: &Key, ordinal: u32) {
        let Some(kind) = self.kinds.get_mut(key.kind) else { return };
        let place = (key.namespace.clone(), key.name.clone());
        if let Some(tracked) = kind.objects.get_mut(&place) {
            tracked.holders.retain(|one| one.key != *holder || one.ordinal != ordinal);
            if tracked.holders.is_empty() {
                kind.objects.remove(&place);
            }
        }
    }

    /// Whether an event is news: what is known is older.
    pub fn is_news(&self, key: &ObjectKey, revision: u64) -> bool {
        self.get(key).is_some_and(|tracked| tracked.revision < revision)
    }

    /// Who is to be told that an object is as an event says. An event changes what is known only where nobody needs
    /// to look: those who do will find out more.
    pub fn present(&mut self, kind: KindId, metadata: &Metadata) -> Vec<Told> {
        let place = (metadata.namespace.as_str().into(), metadata.name.as_str().into());
        let Some(tracked) = self.kinds.get_mut(kind).and_then(|kind| kind.objects.get_mut(&place))
        else {
            return Vec::new();
        };
        let facts = Facts::of(metadata);
        if facts.revision <= tracked.revision {
            return Vec::new();
        }
        let only_status = tracked.facts.is_some_and(|old| old.same_but_status(&facts));
        let told: Vec<Told> = tracked
            .holders
            .iter()
            .filter(|holder| !only_status || holder.wants_all)
            .map(|holder| (holder.key.clone(), holder.ordinal, facts.revision))
            .collect();
        if told.is_empty() {
            tracked.revision = facts.revision;
            tracked.facts = Some(facts);
        }
        told
    }

    /// Who is to be told that an object is gone, as of a revision.
    pub fn gone(&mut self, kind: KindId, namespace: &str, name: &str, revision: u64) -> Vec<Told> {
        let place = (namespace.into(), name.into());
        let Some(tracked) = self.kinds.get_mut(kind).and_then(|kind| kind.objects.get_mut(&place))
        else {
            return Vec::new();
        };
        if revision <= tracked.revision {
            return Vec::new();
        }
        tracked.facts = None;
        tracked
            .holders
            .iter()
            .map(|holder| (holder.key.clone(), holder.ordinal, revision))
            .collect()
    }

    /// Ends a list: what it did not name is gone.
    pub fn list_ended(
        &mut self,
        kind: KindId,
        seen: &BTreeSet<(Box<str>, Box<str>)>,
        revision: u64,
    ) -> Vec<Told> {
        let Some(all) = self.kinds.get(kind) else { return Vec::new() };
        let missing: Vec<(Box<str>, Box<str>)> = all
            .objects
            .iter()
            .filter(|(place, tracked)| tracked.facts.is_some() && !seen.contains(*place))
            .map(|(place, _)| place.clone())
            .collect();
        missing
            .iter()
            .flat_map(|(namespace, name)| self.gone(kind, namespace, name, revision))
            .collect()
    }

    pub fn is_tracked(&self, kind: KindId, namespace: &str, name: &str) -> bool {
        self.kinds
            .get(kind)
            .is_some_and(|kind| kind.objects.contains_key(&(namespace.into(), name.into())))
    }

    /// Everybody who holds an object of a kind: it cannot be watched, so all have to look.
    pub fn all_of(&self, kind: KindId) -> Vec<Told> {
        let Some(kind) = self.kinds.get(kind) else { return Vec::new() };
        kind.objects
            .values()
            .flat_map(|tracked| &tracked.holders)
            .map(|holder| (holder.key.clone(), holder.ordinal, u64::MAX))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(version: &str) -> Mapping {
        Mapping {
            group: "apps".into(),
            version: version.into(),
            resource: "deployments".into(),
            namespaced: true,
        }
    }

    fn metadata(revision: &str, generation: i64) -> Metadata {
        Metadata {
            name: "web".into(),
            namespace: "ns".into(),
            resource_version: revision.into(),
            generation,
            ..Metadata::default()
        }
    }

    fn setup(wants_all: bool) -> (Tracking, KindId, ObjectKey, Key) {
        let mut tracking = Tracking::default();
        let kind = tracking.kind(&mapping("v1"));
        assert_eq!(tracking.kind(&mapping("v1beta1")), kind);
        let key = ObjectKey { kind, namespace: "ns".into(), name: "web".into() };
        let holder = Key::Work("a".into());
        tracking.hold(&key, &holder, 3, wants_all, Some(Facts::of(&metadata("10", 1))), 7);
        (tracking, kind, key, holder)
    }

    #[test]
    fn only_news_that_counts_is_told() {
        let (mut tracking, kind, key, holder) = setup(false);
        assert!(tracking.present(kind, &metadata("10", 1)).is_empty(), "our own write");
        assert!(tracking.present(kind, &metadata("11", 1)).is_empty(), "only the status");
        assert!(!tracking.is_news(&key, 11));
        assert_eq!(tracking.present(kind, &metadata("12", 2)), [(holder.clone(), 3, 12)]);
        assert!(tracking.is_news(&key, 12), "until somebody has looked");
        assert_eq!(tracking.gone(kind, "ns", "web", 13), [(holder.clone(), 3, 13)]);
        assert!(tracking.known(&key, &holder, 3).is_absent);
        assert!(
            tracking
                .present(kind, &Metadata { name: "other".into(), ..metadata("14", 1) })
                .is_empty()
        );
        let (mut tracking, kind, _, holder) = setup(true);
        assert_eq!(
            tracking.present(kind, &metadata("11", 1)),
            [(holder, 3, 11)],
            "feedback wants the status"
        );
    }

    #[test]
    fn kinds_without_generation_are_always_looked_at() {
        let (mut tracking, kind, key, holder) = setup(false);
        tracking.hold(&key, &holder, 3, false, Some(Facts::of(&metadata("20", 0))), 7);
        assert_eq!(tracking.present(kind, &metadata("21", 0)).len(), 1);
    }

    #[test]
    fn a_list_tells_of_what_is_gone() {
        let (mut tracking, kind, key, holder) = setup(false);
        assert!(
            tracking.list_ended(kind, &BTreeSet::new(), 9).is_empty(),
            "the list is older than the object"
        );
        let seen = BTreeSet::from([("ns".into(), "web".into())]);
        assert!(tracking.list_ended(kind, &seen, 11).is_empty());
        assert_eq!(tracking.list_ended(kind, &BTreeSet::new(), 11), [(holder.clone(), 3, 11)]);
        tracking.release(&key, &holder, 3);
        assert_eq!(tracking.count(), 0);
        assert!(tracking.kinds().all(|(_, _, used)| !used));
    }
}
