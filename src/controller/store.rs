//! What the watches have shown: replica sets, their works, Placements, and completed works.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use gitwork_core::model::digest::Digest;
use gitwork_core::model::facts::{Facts, PlacementFacts, PlacementKey};
use gitwork_core::model::name::ClusterName;
use gitwork_hub::facts;
use gitwork_replica_sets::completed_work::CompletedWork;
use gitwork_replica_sets::decision::SetWorks;
use gitwork_replica_sets::decision_groups::{DecisionGroupLabels, DecisionGroups};
use gitwork_replica_sets::names::SetKey;
use gitwork_replica_sets::replica_set::ReplicaSet;
use gitwork_replica_sets::semantics::RolloutSemantics;
use gitwork_replica_sets::set_work::SetWork;
use gitwork_replica_sets::write::WriteFailure;
use gitwork_sync::observed_facts::{
    DecisionFacts, FactsEvent, ObjectEvent, ObservedFacts, PresentFacts,
};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use crate::collection_watch::{CollectionEvent, revision};
use crate::limits;

/// Cluster and name of a work.
pub(crate) type WorkId = (ClusterName, String);

/// A write that is tried again later.
#[derive(Debug, Clone)]
pub(crate) struct WriteRetry {
    /// What the status says; `None` if the object only has changed in the meantime.
    pub failure: Option<WriteFailure>,
    /// When it is tried again.
    pub due: Instant,
    /// Failures in a row.
    pub count: u32,
}

/// A replica set, with what this process knows besides its object.
pub(crate) struct SetEntry {
    pub set: Arc<ReplicaSet>,
    pub retries: BTreeMap<ClusterName, WriteRetry>,
    pub status_written: Option<Instant>,
    /// Failures in a row of writes of the set itself.
    pub failures: u32,
}

/// Which collections are complete.
#[derive(Debug, Default)]
struct ListedKinds {
    sets: bool,
    works: bool,
    placements: bool,
    decisions: bool,
}

/// The objects of the hub.
pub(crate) struct ControllerState {
    semantics: RolloutSemantics,
    pub sets: BTreeMap<SetKey, SetEntry>,
    /// By the value of the owner label.
    owners: HashMap<String, SetKey>,
    works: HashMap<String, SetWorks>,
    work_owners: HashMap<WorkId, String>,
    pub completed: BTreeMap<WorkId, CompletedWork>,
    observed: ObservedFacts,
    pub facts: Option<Arc<Facts>>,
    pub groups: DecisionGroups,
    /// Placements whose groups have changed since the facts were taken.
    changed_groups: BTreeSet<PlacementKey>,
    listed: ListedKinds,
    listing_sets: BTreeSet<SetKey>,
    listing_works: BTreeSet<WorkId>,
    listing_groups: BTreeSet<(String, String)>,
    /// Deleted works, with the version of the deletion: an answer that comes after the event must
    /// not bring them back.
    gone: HashMap<WorkId, u64>,
}

/// What an event concerns.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ChangedObjects {
    pub sets: BTreeSet<SetKey>,
    pub completed: Vec<(WorkId, Timestamp)>,
    /// Everything may be different.
    pub all: bool,
}

impl ChangedObjects {
    fn all() -> Self {
        Self { all: true, ..Self::default() }
    }
}

impl ControllerState {
    pub fn new(semantics: RolloutSemantics, placement_grace: Duration) -> Self {
        Self {
            semantics,
            sets: BTreeMap::new(),
            owners: HashMap::new(),
            works: HashMap::new(),
            work_owners: HashMap::new(),
            completed: BTreeMap::new(),
            observed: ObservedFacts::new(placement_grace),
            facts: None,
            groups: DecisionGroups::new(),
            changed_groups: BTreeSet::new(),
            listed: ListedKinds::default(),
            listing_sets: BTreeSet::new(),
            listing_works: BTreeSet::new(),
            listing_groups: BTreeSet::new(),
            gone: HashMap::new(),
        }
    }

    /// Whether everything was read once.
    pub fn is_ready(&self) -> bool {
        self.listed.sets && self.listed.works && self.facts.is_some()
    }

    /// The works of a set.
    pub fn works_of(&self, set: &ReplicaSet) -> Option<&SetWorks> {
        self.works.get(&set.key.owner_label())
    }

    /// How many works of replica sets there are.
    pub fn count_works(&self) -> usize {
        self.work_owners.len()
    }

    pub fn observe_sets(&mut self, event: CollectionEvent) -> ChangedObjects {
        match event {
            CollectionEvent::ListStarted => self.listing_sets.clear(),
            CollectionEvent::Listed(object) => {
                self.put_set(&object).into_iter().for_each(|key| {
                    self.listing_sets.insert(key);
                });
            }
            CollectionEvent::ListCompleted(_) => {
                let listed = std::mem::take(&mut self.listing_sets);
                self.sets.retain(|key, _| listed.contains(key));
                self.owners.retain(|_, key| listed.contains(key));
                self.listed.sets = true;
                return ChangedObjects::all();
            }
            CollectionEvent::Changed(object) => {
                let sets = self.put_set(&object).into_iter().collect();
                return ChangedObjects { sets, ..ChangedObjects::default() };
            }
            CollectionEvent::Gone(object) => {
                if let Some(set) = ReplicaSet::read(&object, self.semantics) {
                    self.sets.remove(&set.key);
                    self.owners.remove(&set.key.owner_label());
                }
            }
            CollectionEvent::Interrupted => {}
        }
        ChangedObjects::default()
    }

    /// Keeps a replica set, unless a newer version is known. Gives its key if it is news.
    pub fn put_set(&mut self, object: &Value) -> Option<SetKey> {
        let set = ReplicaSet::read(object, self.semantics)?;
        let key = set.key.clone();
        self.owners.insert(key.owner_label(), key.clone());
        match self.sets.get_mut(&key) {
            Some(entry) if entry.set.uid == set.uid => {
                let known: u64 = entry.set.resource_version.parse().unwrap_or(0);
                if known <= revision(object) {
                    if entry.set.digest != set.digest || entry.set.generation != set.generation {
                        // What failed may work now.
                        entry.retries.clear();
                    }
                    entry.set = Arc::new(set);
                }
            }
            _ => {
                let retries = BTreeMap::new();
                let entry =
                    SetEntry { set: Arc::new(set), retries, status_written: None, failures: 0 };
                self.sets.insert(key.clone(), entry);
            }
        }
        Some(key)
    }

    /// Keeps the answer of a write, if the set still exists. One that comes after a newer version
    /// counts no more, also after that of another set with the name.
    pub fn update_set(&mut self, object: &Value) {
        let key = name_of(object).map(|(namespace, name)| SetKey { namespace, name });
        let known = key.and_then(|key| self.sets.get(&key));
        let known = known.map(|entry| entry.set.resource_version.parse().unwrap_or(0_u64));
        if known.is_some_and(|known| known <= revision(object)) {
            self.put_set(object);
        }
    }

    pub fn observe_works(&mut self, event: CollectionEvent) -> ChangedObjects {
        match event {
            CollectionEvent::ListStarted => self.listing_works.clear(),
            CollectionEvent::Listed(object) => {
                if let Some(id) = work_id(&object) {
                    self.listing_works.insert(id);
                }
                // The passes begin after the list.
                let mut changed = self.put_work(&object, None);
                changed.sets.clear();
                return changed;
            }
            CollectionEvent::ListCompleted(version) => {
                self.end_of_works(version);
                self.listed.works = true;
                return ChangedObjects::all();
            }
            CollectionEvent::Changed(object) => return self.put_work(&object, None),
            CollectionEvent::Gone(object) => {
                let Some(id) = work_id(&object) else { return ChangedObjects::default() };
                let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
                if self.gone.len() >= limits::GONE_WORKS_MAX {
                    self.gone.clear();
                }
                self.gone.insert(id.clone(), revision(&object));
                return self.remove_work(&id, uid.unwrap_or_default());
            }
            CollectionEvent::Interrupted => {}
        }
        ChangedObjects::default()
    }

    /// Forgets the works that a complete list as of `version` does not have. One that was created
    /// since stays.
    fn end_of_works(&mut self, version: u64) {
        let listed = std::mem::take(&mut self.listing_works);
        self.completed.retain(|id, _| listed.contains(id));
        let works = self.works.values().flat_map(BTreeMap::values).flatten();
        let is_older =
            |work: &&SetWork| work.resource_version.parse().is_ok_and(|one: u64| one <= version);
        let gone: Vec<(WorkId, String)> = works
            .filter(is_older)
            .map(|work| ((work.cluster.clone(), work.name.clone()), work.uid.clone()))
            .filter(|(id, _)| !listed.contains(id))
            .collect();
        for (id, uid) in gone {
            self.remove_work(&id, &uid);
        }
    }

    /// Keeps a work, unless a newer version is known. `normalized_from`: the template in the
    /// request whose answer this is.
    pub fn put_work(&mut self, object: &Value, normalized_from: Option<Digest>) -> ChangedObjects {
        let mut changed = ChangedObjects::default();
        let Some(id) = work_id(object) else { return changed };
        if self.gone.get(&id).is_some_and(|gone| *gone >= revision(object)) {
            return changed;
        }
        match CompletedWork::read(object) {
            Some(work) => {
                changed.completed.push((id.clone(), work.delete_at));
                self.completed.insert(id.clone(), work);
            }
            None => drop(self.completed.remove(&id)),
        }
        let work = SetWork::read(object);
        let owner_before = self.work_owners.get(&id).cloned();
        changed
            .sets
            .extend(owner_before.as_ref().and_then(|owner| self.owners.get(owner)).cloned());
        let Some(mut work) = work else {
            if owner_before.is_some() {
                self.forget_work(&id);
            }
            return changed;
        };
        if let Some(known) = self.find_work(&id).filter(|known| known.uid == work.uid) {
            let version: u64 = known.resource_version.parse().unwrap_or(0);
            if version > revision(object) {
                return changed;
            }
            if known.digest == work.digest {
                work.normalized_from = known.normalized_from;
            }
        }
        if normalized_from.is_some_and(|sent| sent != work.digest) {
            work.normalized_from = normalized_from;
        }
        changed.sets.extend(self.owners.get(&work.owner).cloned());
        self.forget_work(&id);
        self.work_owners.insert(id.clone(), work.owner.clone());
        self.works.entry(work.owner.clone()).or_default().entry(id.0).or_default().push(work);
        changed
    }

    fn find_work(&self, (cluster, name): &WorkId) -> Option<&SetWork> {
        let owner = self.work_owners.get(&(cluster.clone(), name.clone()))?;
        self.works.get(owner)?.get(cluster)?.iter().find(|work| work.name == *name)
    }

    fn forget_work(&mut self, id: &WorkId) {
        let Some(owner) = self.work_owners.remove(id) else { return };
        let Some(works) = self.works.get_mut(&owner) else { return };
        if let Some(of_cluster) = works.get_mut(&id.0) {
            of_cluster.retain(|work| work.name != id.1);
            if of_cluster.is_empty() {
                works.remove(&id.0);
            }
        }
        if works.is_empty() {
            self.works.remove(&owner);
        }
    }

    /// Forgets a work that is deleted.
    pub fn remove_work(&mut self, id: &WorkId, uid: &str) -> ChangedObjects {
        self.completed.remove(id);
        let mut changed = ChangedObjects::default();
        if self.find_work(id).is_some_and(|work| work.uid == uid) {
            let owner = self.work_owners.get(id).and_then(|owner| self.owners.get(owner));
            changed.sets.extend(owner.cloned());
            self.forget_work(id);
        }
        changed
    }

    pub fn observe_clusters(&mut self, event: CollectionEvent) {
        if let Some(event) = object_event(event, facts::cluster, |object| {
            facts::cluster(object.clone()).map(|(name, _)| name)
        }) {
            self.observed.observe(FactsEvent::Cluster(event));
        }
    }

    pub fn observe_placements(&mut self, event: CollectionEvent) {
        self.listed.placements |= matches!(event, CollectionEvent::ListCompleted(_));
        // Of one whose status cannot be read, nothing is certain.
        let read = |object: Value| {
            let (namespace, name) = name_of(&object)?;
            let key = PlacementKey { namespace, name };
            Some(facts::placement(object).unwrap_or((key, PlacementFacts::default())))
        };
        let key = |object: &Value| {
            let (namespace, name) = name_of(object)?;
            Some(PlacementKey { namespace, name })
        };
        if let Some(event) = object_event(event, read, key) {
            self.observed.observe(FactsEvent::Placement(event));
        }
    }

    pub fn observe_decisions(&mut self, event: CollectionEvent) {
        self.listed.decisions |= matches!(event, CollectionEvent::ListCompleted(_));
        self.observe_groups(&event);
        // One that cannot be read has no clusters, which disagrees with the Placement's status.
        let read = |object: Value| {
            let key = name_of(&object)?;
            let placement = DecisionGroupLabels::read(&object)?.placement;
            let none = DecisionFacts { placement, clusters: Vec::new() };
            Some(facts::decision(object).unwrap_or((key, none)))
        };
        if let Some(event) = object_event(event, read, name_of) {
            self.observed.observe(FactsEvent::Decision(event));
        }
    }

    fn observe_groups(&mut self, event: &CollectionEvent) {
        let key = |object: &Value| name_of(object);
        match event {
            CollectionEvent::ListStarted => self.listing_groups.clear(),
            CollectionEvent::Listed(object) | CollectionEvent::Changed(object) => {
                let (Some(key), Some(labels)) = (key(object), DecisionGroupLabels::read(object))
                else {
                    return;
                };
                self.listing_groups.insert(key.clone());
                let placement = labels.placement.clone();
                if self.groups.insert(key, labels.clone()) != Some(labels) {
                    self.changed_groups.insert(placement);
                }
            }
            CollectionEvent::ListCompleted(_) => {
                let listed = std::mem::take(&mut self.listing_groups);
                self.groups.retain(|key, _| listed.contains(key));
            }
            CollectionEvent::Gone(object) => {
                if let Some(key) = key(object) {
                    self.groups.remove(&key);
                }
            }
            CollectionEvent::Interrupted => {}
        }
    }

    /// Takes the facts of now. Gives the sets whose Placements or clusters have changed, and when
    /// the facts change without an event. `None` before Placements and decisions were listed.
    pub fn refresh_facts(
        &mut self,
        now: std::time::Instant,
        time: Timestamp,
    ) -> Option<(BTreeSet<SetKey>, Option<std::time::Instant>)> {
        if !(self.listed.placements && self.listed.decisions) {
            return None;
        }
        let PresentFacts { facts, until } = self.observed.facts(now, time)?;
        let groups = std::mem::take(&mut self.changed_groups);
        let before = self.facts.replace(Arc::new(facts));
        let facts = self.facts.as_deref()?;
        let leaving = |facts: &Facts| -> BTreeSet<ClusterName> {
            let all = facts.managed_clusters.iter().filter(|(_, one)| one.is_deleting);
            all.map(|(name, _)| name.clone()).collect()
        };
        let is_first = before.is_none();
        let has_changed = |key: &PlacementKey| {
            let before = before.as_ref().and_then(|before| before.placements.get(key));
            groups.contains(key) || before != facts.placements.get(key)
        };
        let clusters_left = before.as_ref().is_some_and(|before| leaving(before) != leaving(facts));
        let is_concerned = |(key, entry): &(&SetKey, &SetEntry)| {
            let namespace = &key.namespace;
            let mut names = entry.set.placement_names();
            is_first
                || clusters_left
                || names.any(|name| {
                    let (namespace, name) = (namespace.clone(), name.to_owned());
                    has_changed(&PlacementKey { namespace, name })
                })
        };
        let sets = self.sets.iter().filter(is_concerned).map(|(key, _)| key.clone()).collect();
        Some((sets, until))
    }
}

/// Namespace and name of an object.
fn name_of(object: &Value) -> Option<(String, String)> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
    Some((text("/metadata/namespace")?, text("/metadata/name")?))
}

fn work_id(object: &Value) -> Option<WorkId> {
    let (cluster, name) = name_of(object)?;
    Some((ClusterName::parse(&cluster).ok()?, name))
}

/// The event with what facts need of the object. `None` for an object that cannot be read.
fn object_event<K, V>(
    event: CollectionEvent,
    read: impl Fn(Value) -> Option<(K, V)>,
    key: impl Fn(&Value) -> Option<K>,
) -> Option<ObjectEvent<K, V>> {
    Some(match event {
        CollectionEvent::ListStarted => ObjectEvent::ListStarted,
        CollectionEvent::Listed(object) => {
            read(object).map(|(key, facts)| ObjectEvent::Listed(key, facts))?
        }
        CollectionEvent::ListCompleted(_) => ObjectEvent::ListCompleted,
        CollectionEvent::Changed(object) => {
            read(object).map(|(key, facts)| ObjectEvent::Changed(key, facts))?
        }
        CollectionEvent::Gone(object) => ObjectEvent::Gone(key(&object)?),
        CollectionEvent::Interrupted => ObjectEvent::Interrupted,
    })
}

#[cfg(test)]
mod tests {
    use gitwork_replica_sets::names::{FINALIZER, LABEL_OWNER};
    use serde_json::json;

    use super::*;

    fn state() -> ControllerState {
        ControllerState::new(RolloutSemantics::Gitwork, Duration::from_secs(120))
    }

    fn set(name: &str, placement: &str, version: u64) -> Value {
        json!({
            "metadata": {"namespace": "fleet", "name": name, "uid": name, "generation": 1,
                "resourceVersion": version.to_string(), "finalizers": [FINALIZER]},
            "spec": {"placementRefs": [{"name": placement}]},
        })
    }

    fn work(cluster: &str, version: u64, value: &str) -> Value {
        json!({
            "metadata": {"namespace": cluster, "name": "web-1", "uid": cluster,
                "resourceVersion": version.to_string(), "labels": {LABEL_OWNER: "fleet.web"}},
            "spec": {"value": value},
        })
    }

    fn key(name: &str) -> SetKey {
        SetKey { namespace: "fleet".into(), name: name.into() }
    }

    fn clusters(state: &ControllerState) -> Vec<String> {
        let set = state.sets[&key("web")].set.clone();
        let works = state.works_of(&set).into_iter().flat_map(BTreeMap::keys);
        works.map(ToString::to_string).collect()
    }

    #[test]
    fn odd_objects_of_a_list_hide_no_other() {
        let mut state = state();
        state.observe_sets(CollectionEvent::ListStarted);
        let mut poison = set("poison", "all", 2);
        poison["spec"] = json!({"placementRefs": [{"name": 3, "rolloutStrategy": "x"}]});
        for object in [json!("odd"), json!({"metadata": 3}), poison, set("web", "all", 1)] {
            state.observe_sets(CollectionEvent::Listed(object));
        }
        assert!(state.observe_sets(CollectionEvent::ListCompleted(9)).all);
        assert_eq!(state.sets.keys().collect::<Vec<_>>(), [&key("poison"), &key("web")]);
    }

    #[test]
    fn list_forgets_what_it_lacks_but_keeps_what_was_created_since() {
        let mut state = state();
        state.put_set(&set("web", "all", 1));
        state.put_work(&work("old", 5, "a"), None);
        state.observe_works(CollectionEvent::ListStarted);
        state.observe_works(CollectionEvent::Listed(work("listed", 6, "a")));
        // The answer of a create that comes during the list.
        state.put_work(&work("new", 12, "a"), None);
        assert_eq!(clusters(&state), ["listed", "new", "old"]);
        state.observe_works(CollectionEvent::ListCompleted(10));
        assert_eq!(clusters(&state), ["listed", "new"]);
        assert_eq!(state.count_works(), 2);
    }

    #[test]
    fn older_answers_change_nothing_and_bring_nothing_back() {
        let mut state = state();
        state.put_set(&set("web", "all", 1));
        let changed = state.observe_works(CollectionEvent::Changed(work("c1", 7, "b")));
        assert_eq!(changed.sets, [key("web")].into());
        assert_eq!(state.put_work(&work("c1", 6, "a"), None).sets, [key("web")].into());
        let digest = |state: &ControllerState| {
            let set = state.sets[&key("web")].set.clone();
            let cluster = ClusterName::parse("c1").unwrap();
            state.works_of(&set).and_then(|all| all.get(&cluster)).map(|all| all[0].digest)
        };
        let b = SetWork::read(&work("c1", 7, "b")).unwrap().digest;
        assert_eq!(digest(&state), Some(b));
        state.observe_works(CollectionEvent::Gone(work("c1", 9, "b")));
        state.put_work(&work("c1", 8, "b"), None);
        assert_eq!(digest(&state), None);
        // Another work of the name.
        state.put_work(&work("c1", 10, "b"), None);
        assert_eq!(digest(&state), Some(b));
    }

    #[test]
    fn answer_about_a_set_that_was_replaced_since_changes_nothing() {
        let mut state = state();
        state.put_set(&set("web", "before", 4));
        let mut again = set("web", "now", 9);
        again["metadata"]["uid"] = "again".into();
        state.observe_sets(CollectionEvent::Gone(set("web", "before", 8)));
        state.observe_sets(CollectionEvent::Changed(again.clone()));
        // The answer of the write that removed the finalizer of the first one.
        state.update_set(&set("web", "before", 7));
        assert_eq!(state.sets[&key("web")].set.uid, "again");
        again["metadata"]["resourceVersion"] = "10".into();
        state.update_set(&again);
        assert_eq!(state.sets[&key("web")].set.resource_version, "10");
    }

    #[test]
    fn content_that_admission_changed_stands_for_the_template() {
        let mut state = state();
        state.put_set(&set("web", "all", 1));
        let sent = SetWork::read(&work("c1", 1, "sent")).unwrap().digest;
        state.put_work(&work("c1", 2, "changed"), Some(sent));
        // Its agent reports.
        state.put_work(&work("c1", 3, "changed"), None);
        let stored = |state: &ControllerState| {
            let set = state.sets[&key("web")].set.clone();
            state.works_of(&set).unwrap().values().next().unwrap()[0].has_content(sent)
        };
        assert!(stored(&state));
        state.put_work(&work("c1", 4, "edited"), None);
        assert!(!stored(&state));
    }

    #[test]
    fn facts_concern_the_sets_of_changed_placements() {
        let mut state = state();
        let (now, time) = (std::time::Instant::now(), Timestamp::UNIX_EPOCH);
        assert_eq!(state.refresh_facts(now, time), None);
        state.put_set(&set("web", "all", 1));
        state.put_set(&set("db", "some", 1));
        for event in [CollectionEvent::ListStarted, CollectionEvent::ListCompleted(1)] {
            state.observe_clusters(event.clone());
            state.observe_placements(event.clone());
            state.observe_decisions(event);
        }
        let concerned = |state: &mut ControllerState| -> Vec<String> {
            let (sets, _) = state.refresh_facts(now, time).unwrap();
            sets.into_iter().map(|key| key.name).collect()
        };
        assert_eq!(concerned(&mut state), ["db", "web"], "the first facts concern all");
        assert_eq!(concerned(&mut state), Vec::<String>::new());
        // A Placement whose status cannot be read.
        let placement = json!({"metadata": {"namespace": "fleet", "name": "all"}, "status": 3});
        state.observe_placements(CollectionEvent::Changed(placement));
        assert_eq!(concerned(&mut state), ["web"]);
    }
}
