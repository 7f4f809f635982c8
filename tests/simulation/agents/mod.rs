//! The work agents of all clusters. They decide with the code of gitwork's own agent
//! (`src/agent-core`), which decides as OCM's agent does, and act on clusters in memory. The checks
//! of their deletions use the real applies, not the agents' own records.
//!
//! An agent does all that it has to do for a work at once, or, as OCM's agent does ([`ocm`]), in
//! single requests and from caches that lag.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gitwork_agent_core::ReportSettings;
use gitwork_agent_core::applied_resources::{
    CleanupAction, applied_resource, cleanup_action, record, stale_resources,
};
use gitwork_agent_core::condition::{COMPLETE, DELETING, NewCondition};
use gitwork_agent_core::eviction::{EvictionAction, eviction_action};
use gitwork_agent_core::feedback::RawJsonFeedback;
use gitwork_agent_core::identity::{applied_name, hub_hash};
use gitwork_agent_core::manifest::{ParsedManifest, ResourceMapping, api_ordinal, apply_order};
use gitwork_agent_core::owner::Owner;
use gitwork_agent_core::status::{
    ApplyOutcome, Observation, is_complete, manifests, record_apply_outcomes, record_observations,
    status_patch,
};
use gitwork_agent_core::work::{ManifestOptions, is_owned};
use gitwork_agent_core::{condition, observe};
use gitwork_api::work::{
    AppliedManifestResourceMeta, ManifestResourceMeta, ManifestWorkSpec, ManifestWorkStatus,
};
use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::{ClusterName, WorkKey};
use gitwork_core::plan::observed::AGENT_FINALIZER;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Live, ObjectEvent};
use crate::hub::{SimulatedHub, generation, is_deleting};
use apply::Wanted;
use ocm::OcmAgent;

mod apply;
mod ocm;
mod queries;

/// An object on a cluster.
pub type Object = (ClusterName, Identity);

/// How long a cluster keeps objects of works that the hub no longer has. OCM's agent waits an hour;
/// worlds are shorter.
const EVICTION_GRACE: Duration = Duration::from_secs(600);
/// More steps than an object needs if no other client writes it.
const STEPS_MAX: usize = 8;
const REPORT: ReportSettings =
    ReportSettings { raw: RawJsonFeedback { enabled: false, bytes_max: 0 }, secret_values: false };

/// A bug that a careless change of the agent could have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentBug {
    /// The agent deletes objects that the work does not own.
    DeletesOrphans,
    /// The agent takes another object of the same name for the applied one.
    IgnoresUids,
}

/// An AppliedManifestWork.
#[derive(Debug, Clone, Default)]
struct AppliedWork {
    uid: String,
    /// Changes with every write. Only OCM's agent uses it.
    version: u64,
    /// Whether it is being deleted. Only OCM's agent lets it exist meanwhile.
    deleting: bool,
    /// The uid of the last applied ManifestWork.
    work: String,
    resources: Vec<AppliedManifestResourceMeta>,
    evicted_since: Option<Timestamp>,
}

/// The agents' memory, and their clusters.
#[derive(Debug, Default)]
pub struct Agents {
    clusters: BTreeMap<ClusterName, Cluster>,
    applied: BTreeMap<WorkKey, AppliedWork>,
    /// The clusters that have OCM's agent.
    ocm: BTreeMap<ClusterName, OcmAgent>,
    made: u64,
    /// Objects that an agent created for a work that the hub does not have any more in this form.
    created_late: BTreeSet<Object>,
    /// Objects that went with a work that owned them, and that another work orphaned last.
    orphaned_elsewhere: BTreeSet<Object>,
    /// Objects that cannot be applied, for example because their CRD is missing.
    pub failing: BTreeSet<Object>,
    /// Clusters that cannot reach the hub.
    pub cut: BTreeSet<ClusterName>,
    /// The time on the clusters.
    pub now: Timestamp,
    pub agent_bug: Option<AgentBug>,
    /// The first wrong deletion of an agent.
    wrong: Option<String>,
}

/// The identity of a manifest's object, with the plural of the kinds of these tests.
pub fn identity(manifest: &Value) -> Identity {
    let text = |pointer: &str| {
        manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let group = text("/apiVersion").rsplit_once('/').map(|(group, _)| group.to_owned());
    Identity {
        group: group.unwrap_or_default(),
        resource: plural(&text("/kind")),
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
    }
}

fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}

fn mapping(manifest: &ParsedManifest) -> ResourceMapping {
    let (group, version) = manifest.group_version();
    ResourceMapping {
        group: group.into(),
        version: version.into(),
        resource: plural(manifest.kind()),
        namespaced: true,
    }
}

fn identity_of(meta: &ManifestResourceMeta) -> Identity {
    let ManifestResourceMeta { group, resource, namespace, name, .. } = meta.clone();
    Identity { group, resource, namespace, name }
}

fn recorded_identity(one: &AppliedManifestResourceMeta) -> Identity {
    let AppliedManifestResourceMeta { group, resource, namespace, name, .. } = one.clone();
    Identity { group, resource, namespace, name }
}

fn owner(key: &WorkKey, applied: &AppliedWork) -> Owner {
    let name = applied_name(&hub_hash("https://hub"), key.work.as_str());
    Owner { name, uid: applied.uid.clone() }
}

fn finalizers(work: &Value) -> Vec<Value> {
    work["metadata"]["finalizers"].as_array().cloned().unwrap_or_default()
}

/// The result of one manifest.
struct Outcome {
    meta: ManifestResourceMeta,
    applied: ApplyOutcome,
    uid: String,
    seen: Observation,
}

impl Agents {
    /// Gives a cluster OCM's agent.
    pub fn use_ocm(&mut self, cluster: &ClusterName) {
        self.ocm.insert(cluster.clone(), OcmAgent::default());
    }

    pub fn has_ocm(&self, cluster: &ClusterName) -> bool {
        self.ocm.contains_key(cluster)
    }

    /// Lets the agent of every cluster act until it has nothing to do.
    pub fn settle(&mut self, hub: &SimulatedHub) {
        for key in self.keys(hub) {
            self.step(hub, &key);
        }
        assert_eq!(self.wrong, None);
    }

    /// Lets the agent of a cluster do a part of its work. Returns the works that it acted on.
    pub fn act(
        &mut self,
        hub: &SimulatedHub,
        key: &WorkKey,
        random: &mut fastrand::Rng,
    ) -> BTreeSet<WorkKey> {
        if self.has_ocm(&key.cluster) {
            return self.act_as_ocm(hub, &key.cluster, random);
        }
        self.step(hub, key);
        [key.clone()].into()
    }

    /// Takes the objects that went with a work that owned them, and that another work orphaned
    /// last.
    pub fn take_orphaned_elsewhere(&mut self) -> BTreeSet<Object> {
        std::mem::take(&mut self.orphaned_elsewhere)
    }

    /// Takes the events of all objects since the last call, and the objects that were created from
    /// an old state of a work.
    pub fn take_events(&mut self) -> (Vec<(ClusterName, ObjectEvent)>, BTreeSet<Object>) {
        let clusters = self.clusters.iter_mut();
        let events = clusters.flat_map(|(name, cluster)| {
            cluster.take_events().into_iter().map(|event| (name.clone(), event))
        });
        (events.collect(), std::mem::take(&mut self.created_late))
    }

    /// The works that an agent may have to act on.
    pub fn keys(&self, hub: &SimulatedHub) -> BTreeSet<WorkKey> {
        let in_caches = self.ocm.values().flat_map(OcmAgent::keys);
        let known = self.applied.keys().chain(in_caches).cloned();
        hub.keys().into_iter().chain(known).collect()
    }

    /// Takes the first wrong deletion of an agent.
    pub fn take_wrong(&mut self) -> Option<String> {
        self.wrong.take()
    }

    /// Lets an agent act on one work until it has nothing to do for it.
    pub fn step(&mut self, hub: &SimulatedHub, key: &WorkKey) {
        if self.cut.contains(&key.cluster) {
            return;
        }
        if self.has_ocm(&key.cluster) {
            self.settle_ocm(hub, key);
            return;
        }
        let Some(mut work) = hub.object(key) else {
            self.evict(key);
            return;
        };
        if is_deleting(&work) {
            self.finish(hub, key, &work);
            return;
        }
        let mut all = finalizers(&work);
        if !all.contains(&AGENT_FINALIZER.into()) {
            all.push(AGENT_FINALIZER.into());
            let patch = json!({"metadata": {"finalizers": all}});
            work = hub.user_patches(key, &patch).unwrap().unwrap();
        }
        // A work that is no longer complete is applied again at once.
        if self.report(hub, key, &work) {
            let work = hub.object(key).unwrap();
            self.report(hub, key, &work);
        }
    }

    /// Applies a work, or reads the objects of a complete one, and reports. Returns whether it is
    /// no longer complete.
    fn report(&mut self, hub: &SimulatedHub, key: &WorkKey, work: &Value) -> bool {
        let spec = ManifestWorkSpec::deserialize(&work["spec"]).unwrap();
        let old = ManifestWorkStatus::deserialize(&work["status"]).unwrap_or_default();
        let (generation, now) = (generation(work), self.now);
        let mut status = old.clone();
        let was_complete = condition::is_true(&old.conditions, COMPLETE);
        let seen: Vec<(usize, Observation)> = if was_complete {
            let manifests = manifests(&old).iter().enumerate();
            let looked = |meta: &ManifestResourceMeta| {
                self.look_at(key, meta, &ManifestOptions::of(&spec, meta))
            };
            manifests.map(|(place, one)| (place, looked(&one.resource_meta))).collect()
        } else {
            self.ensure_applied(key, work);
            let outcomes = self.apply(key, spec, &old);
            let results: Vec<(ManifestResourceMeta, ApplyOutcome)> =
                outcomes.iter().map(|one| (one.meta.clone(), one.applied.clone())).collect();
            record_apply_outcomes(&mut status, generation, &results, now);
            outcomes.into_iter().map(|one| one.seen).enumerate().collect()
        };
        record_observations(&mut status, generation, seen, now);
        if status != old {
            hub.patch_status(key, &json!({ "status": status_patch(&status) })).unwrap();
        }
        was_complete && !condition::is_true(&status.conditions, COMPLETE)
    }

    fn ensure_applied(&mut self, key: &WorkKey, work: &Value) {
        self.made += 1;
        let made = self.made;
        let applied = self.applied.entry(key.clone()).or_default();
        if applied.uid.is_empty() {
            applied.uid = format!("applied-{made}");
        }
        applied.work = work["metadata"]["uid"].as_str().unwrap().to_owned();
        let since = applied.evicted_since;
        if eviction_action(true, since, EVICTION_GRACE, self.now) == EvictionAction::ClearStart {
            applied.evicted_since = None;
        }
    }

    /// Applies every manifest, records the work's objects, and deletes the objects that left it.
    fn apply(
        &mut self,
        key: &WorkKey,
        mut spec: ManifestWorkSpec,
        status: &ManifestWorkStatus,
    ) -> Vec<Outcome> {
        let owner = owner(key, &self.applied[key]);
        let raw = spec.workload.take().unwrap_or_default().manifests;
        let parsed = raw.into_iter().enumerate();
        let mut parsed: Vec<_> =
            parsed.map(|(place, raw)| (place, ParsedManifest::parse(place, raw))).collect();
        parsed.sort_by_key(|(_, one)| one.as_ref().map_or(1001, |one| apply_order(one.kind())));
        let mut outcomes = BTreeMap::new();
        for (place, parsed) in parsed {
            let outcome = match parsed {
                Ok(manifest) => self.apply_one(key, &spec, status, &owner, &manifest),
                Err(error) => Outcome {
                    meta: ManifestResourceMeta {
                        ordinal: api_ordinal(place),
                        ..ManifestResourceMeta::default()
                    },
                    applied: ApplyOutcome::Failed(error.to_string()),
                    uid: String::new(),
                    seen: Observation::Incomplete,
                },
            };
            outcomes.insert(place, outcome);
        }
        let outcomes: Vec<Outcome> = outcomes.into_values().collect();
        let current: Vec<AppliedManifestResourceMeta> = outcomes
            .iter()
            .filter(|one| !one.uid.is_empty())
            .map(|one| applied_resource(&one.meta, &one.uid))
            .collect();
        let gone = stale_resources(&self.applied[key].resources, &current);
        let pending: Vec<AppliedManifestResourceMeta> =
            gone.into_iter().filter(|one| self.remove(key, one, &owner)).collect();
        if let Some(applied) = self.applied.get_mut(key) {
            applied.resources = record(current, pending);
        }
        outcomes
    }

    fn apply_one(
        &mut self,
        key: &WorkKey,
        spec: &ManifestWorkSpec,
        status: &ManifestWorkStatus,
        owner: &Owner,
        manifest: &ParsedManifest,
    ) -> Outcome {
        let meta = manifest.resource_meta(Some(&mapping(manifest)));
        let options = ManifestOptions::of(spec, &meta);
        let object = (key.cluster.clone(), identity_of(&meta));
        let applied = if is_complete(status, &meta) {
            ApplyOutcome::Complete { note: None }
        } else if self.failing.contains(&object) {
            ApplyOutcome::Failed("the API server failed".into())
        } else {
            let cluster = self.clusters.entry(key.cluster.clone()).or_default();
            let (id, options, owned) = (&object.1, &options, is_owned(spec, &meta));
            match (Wanted { id, manifest, options, owner, owned }).take_steps(cluster) {
                Ok(()) => ApplyOutcome::Complete { note: None },
                Err(why) => ApplyOutcome::Failed(why),
            }
        };
        let cluster = self.clusters.entry(key.cluster.clone()).or_default();
        if let Some(live) = cluster.get_mut(&object.1).filter(|it| it.is_owned_by(&owner.uid)) {
            // The agent takes an object that it only reads for its own if a user has created it
            // again, with its owners.
            live.applied_by.entry(owner.uid.clone()).or_insert(true);
        }
        let live = self.get(&object);
        let uid = live.map_or_else(String::new, |live| live.uid().to_owned());
        Outcome { applied, uid, seen: seen(live, &options), meta }
    }

    fn look_at(
        &self,
        key: &WorkKey,
        meta: &ManifestResourceMeta,
        options: &ManifestOptions,
    ) -> Observation {
        seen(self.get(&(key.cluster.clone(), identity_of(meta))), options)
    }

    /// Deletes an object that left the work, if that is right. Returns whether it still exists.
    fn remove(
        &mut self,
        key: &WorkKey,
        recorded: &AppliedManifestResourceMeta,
        owner: &Owner,
    ) -> bool {
        let object = (key.cluster.clone(), recorded_identity(recorded));
        let decided = self.cleanup_action(&object, recorded, owner);
        let (cluster_name, id) = &object;
        let cluster = self.clusters.entry(cluster_name.clone()).or_default();
        match decided {
            CleanupAction::Forget => false,
            CleanupAction::Wait => true,
            CleanupAction::RemoveOwner(patch) => cluster.patch(id, &patch).is_err(),
            CleanupAction::Delete => {
                let gone = cluster.delete(id);
                let wrong = gone.and_then(|live| is_wrong(&live, Some(&owner.uid)));
                self.note(cluster_name, id, wrong);
                false
            }
        }
    }

    /// What to do about an object that is to go, as it is now.
    fn cleanup_action(
        &self,
        object: &Object,
        recorded: &AppliedManifestResourceMeta,
        owner: &Owner,
    ) -> CleanupAction {
        let live = self.get(object);
        let mut recorded = recorded.clone();
        if let (Some(AgentBug::IgnoresUids), Some(live)) = (self.agent_bug, live) {
            live.uid().clone_into(&mut recorded.uid);
        }
        let decided = cleanup_action(&recorded, live.map(|live| &live.object), owner);
        let is_orphan = decided == CleanupAction::Forget && live.is_some();
        if self.agent_bug == Some(AgentBug::DeletesOrphans) && is_orphan {
            return CleanupAction::Delete;
        }
        decided
    }

    fn note(&mut self, cluster: &ClusterName, id: &Identity, wrong: Option<&str>) {
        if let (None, Some(why)) = (&self.wrong, wrong) {
            self.wrong = Some(format!("{id:?} is deleted on {cluster}, {why}"));
        }
    }

    /// Finishes a work that is being deleted: its objects go first.
    fn finish(&mut self, hub: &SimulatedHub, key: &WorkKey, work: &Value) {
        if self.applied.contains_key(key) {
            let mut status = ManifestWorkStatus::deserialize(&work["status"]).unwrap_or_default();
            let deleting = NewCondition::new(
                DELETING,
                "True",
                "WorkDeleting",
                "ManifestWork is being deleted",
            );
            condition::set(&mut status.conditions, deleting.at(generation(work)), self.now);
            let patch = json!({"status": {"conditions": status.conditions}});
            hub.patch_status(key, &patch).unwrap();
            self.finalize(key);
        }
        let mut rest = finalizers(work);
        let had = rest.len();
        rest.retain(|one| one != AGENT_FINALIZER);
        if rest.len() < had {
            hub.user_patches(key, &json!({"metadata": {"finalizers": rest}})).unwrap();
        }
    }

    /// Deletes an AppliedManifestWork with its objects.
    fn finalize(&mut self, key: &WorkKey) {
        let Some(applied) = self.applied.get(key).cloned() else { return };
        let owner = owner(key, &applied);
        for recorded in &applied.resources {
            while self.remove(key, recorded, &owner) {}
        }
        self.applied.remove(key);
        self.collect_garbage(&key.cluster);
    }

    fn collect_garbage(&mut self, name: &ClusterName) {
        let left = self.applied.values().map(|applied| applied.uid.as_str()).collect();
        let Some(cluster) = self.clusters.get_mut(name) else { return };
        for (id, live) in cluster.collect_garbage(&left) {
            // An object that a user created again with its owners goes with them.
            let wrong = is_wrong(&live, None).filter(|_| !live.has_owners_of_user());
            if wrong.is_some() && live.is_owned_by_apply() {
                // The agent did what the owner asked for. Git decides whether that was right.
                self.orphaned_elsewhere.insert((name.clone(), id));
            } else {
                self.note(name, &id, wrong);
            }
        }
    }

    /// Evicts a work that the hub does not have.
    fn evict(&mut self, key: &WorkKey) {
        let Some(applied) = self.applied.get_mut(key) else { return };
        match eviction_action(false, applied.evicted_since, EVICTION_GRACE, self.now) {
            EvictionAction::SetStart => applied.evicted_since = Some(self.now),
            EvictionAction::Delete => self.finalize(key),
            EvictionAction::None | EvictionAction::ClearStart | EvictionAction::Wait(_) => {}
        }
    }
}

fn seen(live: Option<&Live>, options: &ManifestOptions) -> Observation {
    live.map_or(Observation::Absent, |live| observe(&live.object, options, REPORT))
}

/// The reason why the agent for `applied`, or the garbage collector, should not have deleted an
/// object.
fn is_wrong(live: &Live, applied: Option<&String>) -> Option<&'static str> {
    let owned = applied.and_then(|applied| live.applied_by.get(applied));
    if owned.map_or(live.stays, |owned| !owned) {
        return Some("although the last apply lets it stay");
    }
    let foreign = applied.is_some_and(|applied| !live.applied_by.contains_key(applied));
    foreign.then_some("although another client created it")
}
