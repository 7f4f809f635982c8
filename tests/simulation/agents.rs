//! The work agents of all clusters: the decisions of gitwork's own agent (`src/agent/core`), which are OCM's, carried
//! out on clusters in memory. What an agent deletes is judged by what was really applied, not by what it believes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gitwork::agent::core::apply::{Live as Found, Step, Wanted, is_read_only, next_step};
use gitwork::agent::core::condition::{self, COMPLETE, DELETING, Finding};
use gitwork::agent::core::eviction::{Eviction, eviction};
use gitwork::agent::core::feedback::RawJson;
use gitwork::agent::core::identity::{applied_name, hub_hash};
use gitwork::agent::core::look;
use gitwork::agent::core::manifest::{Manifest, Mapping, ordinal, turn};
use gitwork::agent::core::object::Object as Fields;
use gitwork::agent::core::owner::{Owner, owner_patch};
use gitwork::agent::core::status::{
    Applied, Seen, WorkStatus, fold_applied, fold_seen, is_complete,
};
use gitwork::agent::core::tracked::{AppliedResource, Removal, record, removal, stale};
use gitwork::agent::core::work::{ManifestOptions, ResourceMeta, WorkSpec};
use gitwork::core::manifest::Identity;
use gitwork::core::name::{ClusterName, WorkKey};
use gitwork::core::observed::AGENT_FINALIZER;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::cluster::{Cluster, Live, Refused};
use super::hub::{SimulatedHub, generation, is_deleting};

/// An object on a cluster.
pub type Object = (ClusterName, Identity);

/// How long a cluster keeps what the hub has no work for any more. OCM's agent is given an hour; worlds are shorter.
const EVICTION_GRACE: Duration = Duration::from_secs(600);
/// More steps than an object needs that nobody else writes.
const STEPS_MAX: usize = 8;
const RAW: RawJson = RawJson { enabled: false, bytes_max: 0 };

/// What a careless change of the agent would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slip {
    /// What the work does not own goes with it.
    DeletesOrphans,
    /// What is under the name of an applied object is taken for that object.
    IgnoresUids,
}

/// An AppliedManifestWork.
#[derive(Debug, Clone, Default)]
struct AppliedWork {
    uid: String,
    /// The uid of the ManifestWork that was applied last.
    work: String,
    resources: Vec<AppliedResource>,
    evicted_since: Option<Timestamp>,
}

/// The agents' memory, and their clusters.
#[derive(Debug, Default)]
pub struct Agents {
    clusters: BTreeMap<ClusterName, Cluster>,
    applied: BTreeMap<WorkKey, AppliedWork>,
    made: u64,
    /// Objects that cannot be applied, for example because their CRD is missing.
    pub failing: BTreeSet<Object>,
    /// Clusters that do not reach the hub.
    pub cut: BTreeSet<ClusterName>,
    /// The time on the clusters.
    pub now: Timestamp,
    pub slip: Option<Slip>,
    /// What an agent did that it should not have done.
    wrong: Option<String>,
}

/// The object of a manifest, with a plural that is right for the kinds of these tests.
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
    format!("{}s", kind.to_lowercase())
}

fn mapping(manifest: &Manifest) -> Mapping {
    let (group, version) = manifest.group_version();
    Mapping {
        group: group.into(),
        version: version.into(),
        resource: plural(manifest.kind()),
        namespaced: true,
    }
}

fn identity_of(meta: &ResourceMeta) -> Identity {
    let ResourceMeta { group, resource, namespace, name, .. } = meta.clone();
    Identity { group, resource, namespace, name }
}

fn recorded_identity(one: &AppliedResource) -> Identity {
    let AppliedResource { group, resource, namespace, name, .. } = one.clone();
    Identity { group, resource, namespace, name }
}

fn owner(key: &WorkKey, applied: &AppliedWork) -> Owner {
    let name = applied_name(&hub_hash("https://hub"), key.work.as_str());
    Owner { name, uid: applied.uid.clone() }
}

fn finalizers(work: &Value) -> Vec<Value> {
    work["metadata"]["finalizers"].as_array().cloned().unwrap_or_default()
}

/// How one manifest ended.
struct Outcome {
    meta: ResourceMeta,
    applied: Applied,
    uid: String,
    seen: Seen,
}

impl Agents {
    /// Lets the agent of every cluster act until it has nothing to do.
    pub fn settle(&mut self, hub: &SimulatedHub) {
        for key in self.keys(hub) {
            self.step(hub, &key);
        }
        assert_eq!(self.wrong, None);
    }

    /// The works that an agent may have something to do for.
    pub fn keys(&self, hub: &SimulatedHub) -> BTreeSet<WorkKey> {
        hub.keys().into_iter().chain(self.applied.keys().cloned()).collect()
    }

    /// What an agent did that it should not have done.
    pub fn take_wrong(&mut self) -> Option<String> {
        self.wrong.take()
    }

    /// Lets an agent act on one work until it has nothing to do for it.
    pub fn step(&mut self, hub: &SimulatedHub, key: &WorkKey) {
        if self.cut.contains(&key.cluster) {
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
        // A work that is complete no more is applied again at once.
        if self.report(hub, key, &work) {
            let work = hub.object(key).unwrap();
            self.report(hub, key, &work);
        }
    }

    /// Applies a work, or looks at the objects of a complete one, and reports. Answers whether it is complete no more.
    fn report(&mut self, hub: &SimulatedHub, key: &WorkKey, work: &Value) -> bool {
        let spec = WorkSpec::deserialize(&work["spec"]).unwrap();
        let old = WorkStatus::deserialize(&work["status"]).unwrap_or_default();
        let (generation, now) = (generation(work), self.now);
        let mut status = old.clone();
        let was_complete = condition::is_true(&old.conditions, COMPLETE);
        let seen: Vec<(usize, Seen)> = if was_complete {
            let manifests = old.resource_status.manifests.iter().enumerate();
            let looked = |meta: &ResourceMeta| self.look_at(key, meta, &spec.options(meta));
            manifests.map(|(place, one)| (place, looked(&one.resource_meta))).collect()
        } else {
            self.ensure_applied(key, work);
            let outcomes = self.apply(key, spec, &old);
            let results: Vec<(ResourceMeta, Applied)> =
                outcomes.iter().map(|one| (one.meta.clone(), one.applied.clone())).collect();
            fold_applied(&mut status, generation, &results, now);
            outcomes.into_iter().map(|one| one.seen).enumerate().collect()
        };
        fold_seen(&mut status, generation, seen, now);
        if status != old {
            hub.patch_status(key, &json!({ "status": status })).unwrap();
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
        if eviction(true, since, EVICTION_GRACE, self.now) == Eviction::ClearStart {
            applied.evicted_since = None;
        }
    }

    /// Applies every manifest, records what the work has, and deletes what it has no more.
    fn apply(&mut self, key: &WorkKey, mut spec: WorkSpec, status: &WorkStatus) -> Vec<Outcome> {
        let owner = owner(key, &self.applied[key]);
        let raw = std::mem::take(&mut spec.workload.manifests);
        let parsed = raw.into_iter().enumerate();
        let mut parsed: Vec<_> =
            parsed.map(|(place, raw)| (place, Manifest::parse(place, raw))).collect();
        parsed.sort_by_key(|(_, one)| one.as_ref().map_or(1001, |one| turn(one.kind())));
        let mut outcomes = BTreeMap::new();
        for (place, parsed) in parsed {
            let outcome = match parsed {
                Ok(manifest) => self.apply_one(key, &spec, status, &owner, &manifest),
                Err(error) => Outcome {
                    meta: ResourceMeta { ordinal: ordinal(place), ..ResourceMeta::default() },
                    applied: Applied::Failed(error.to_string()),
                    uid: String::new(),
                    seen: Seen::Incomplete,
                },
            };
            outcomes.insert(place, outcome);
        }
        let outcomes: Vec<Outcome> = outcomes.into_values().collect();
        let current: Vec<AppliedResource> = outcomes
            .iter()
            .filter(|one| !one.uid.is_empty())
            .map(|one| AppliedResource::new(&one.meta, &one.uid))
            .collect();
        let gone = stale(&self.applied[key].resources, &current);
        let pending: Vec<AppliedResource> =
            gone.into_iter().filter(|one| self.remove(key, one, &owner)).collect();
        if let Some(applied) = self.applied.get_mut(key) {
            applied.resources = record(current, pending);
        }
        outcomes
    }

    fn apply_one(
        &mut self,
        key: &WorkKey,
        spec: &WorkSpec,
        status: &WorkStatus,
        owner: &Owner,
        manifest: &Manifest,
    ) -> Outcome {
        let meta = manifest.resource_meta(Some(&mapping(manifest)));
        let options = spec.options(&meta);
        let object = (key.cluster.clone(), identity_of(&meta));
        let applied = if is_complete(status, &meta) {
            Applied::Complete { note: None }
        } else if self.failing.contains(&object) {
            Applied::Failed("the API server is having a bad day".into())
        } else {
            let cluster = self.clusters.entry(key.cluster.clone()).or_default();
            let owned = spec.owns(&meta);
            match take_steps(cluster, &object.1, manifest, &options, owner, owned) {
                Ok(()) => Applied::Complete { note: None },
                Err(why) => Applied::Failed(why),
            }
        };
        let live = self.get(&object);
        let uid = live.map_or_else(String::new, |live| live.uid().to_owned());
        Outcome { applied, uid, seen: seen(live, &options), meta }
    }

    fn look_at(&self, key: &WorkKey, meta: &ResourceMeta, options: &ManifestOptions) -> Seen {
        seen(self.get(&(key.cluster.clone(), identity_of(meta))), options)
    }

    /// Deletes what a work has recorded and has no more, where that is right. Answers whether it is still going.
    fn remove(&mut self, key: &WorkKey, recorded: &AppliedResource, owner: &Owner) -> bool {
        let id = recorded_identity(recorded);
        let cluster = self.clusters.entry(key.cluster.clone()).or_default();
        let live = cluster.get(&id);
        let mut recorded = recorded.clone();
        if let (Some(Slip::IgnoresUids), Some(live)) = (self.slip, live) {
            live.uid().clone_into(&mut recorded.uid);
        }
        let mut decided = removal(&recorded, live.map(|live| &live.object), owner);
        if self.slip == Some(Slip::DeletesOrphans) && decided == Removal::Forget && live.is_some() {
            decided = Removal::Delete;
        }
        match decided {
            Removal::Forget => false,
            Removal::Await => true,
            Removal::Disown(patch) => cluster.patch(&id, &patch).is_err(),
            Removal::Delete => {
                let gone = cluster.delete(&id);
                let wrong = gone.and_then(|live| is_wrong(&live, Some(&owner.uid)));
                self.note(&key.cluster, &id, wrong);
                false
            }
        }
    }

    fn note(&mut self, cluster: &ClusterName, id: &Identity, wrong: Option<&str>) {
        if let (None, Some(why)) = (&self.wrong, wrong) {
            self.wrong = Some(format!("{id:?} is deleted on {cluster}, {why}"));
        }
    }

    /// A work that is being deleted: what it holds goes first.
    fn finish(&mut self, hub: &SimulatedHub, key: &WorkKey, work: &Value) {
        if self.applied.contains_key(key) {
            let mut status = WorkStatus::deserialize(&work["status"]).unwrap_or_default();
            let told =
                Finding::new(DELETING, "True", "WorkDeleting", "ManifestWork is being deleted");
            condition::set(&mut status.conditions, told.at(generation(work)), self.now);
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

    /// An AppliedManifestWork goes, with all that it holds.
    fn finalize(&mut self, key: &WorkKey) {
        let Some(applied) = self.applied.get(key).cloned() else { return };
        let owner = owner(key, &applied);
        for recorded in &applied.resources {
            while self.remove(key, recorded, &owner) {}
        }
        self.applied.remove(key);
        let left = self.applied.values().map(|applied| applied.uid.as_str()).collect();
        let Some(cluster) = self.clusters.get_mut(&key.cluster) else { return };
        for (id, live) in cluster.collect_garbage(&left) {
            self.note(&key.cluster, &id, is_wrong(&live, None));
        }
    }

    /// The hub has no such work: what it left goes in the end.
    fn evict(&mut self, key: &WorkKey) {
        let Some(applied) = self.applied.get_mut(key) else { return };
        match eviction(false, applied.evicted_since, EVICTION_GRACE, self.now) {
            Eviction::SetStart => applied.evicted_since = Some(self.now),
            Eviction::Delete => self.finalize(key),
            Eviction::Nothing | Eviction::ClearStart | Eviction::Wait(_) => {}
        }
    }
}

/// Brings one object to what its manifest says.
fn take_steps(
    cluster: &mut Cluster,
    id: &Identity,
    manifest: &Manifest,
    options: &ManifestOptions,
    owner: &Owner,
    owned: bool,
) -> Result<(), String> {
    let reference = owner.reference(owned);
    let strategy = options.update_strategy.as_ref();
    for _ in 0..STEPS_MAX {
        let wanted = Wanted {
            manifest: &manifest.object,
            strategy,
            owner: &reference,
            content_is_known_same: false,
        };
        let live = cluster.get(id).map_or(Found::Absent, |live| Found::Found(&live.object));
        let step = next_step(&wanted, live).map_err(|refusal| refusal.to_string())?;
        let done = match step {
            Step::Read => return Err("asked to read what was just read".into()),
            Step::Settled => Ok(()),
            Step::Create(object) => cluster.create(id, object),
            Step::Replace(object) => cluster.replace(id, object),
            Step::PatchOwner(patch) => cluster.patch(id, &patch),
            Step::Recreate(object) => {
                cluster.delete(id);
                cluster.create(id, without_server_fields(object))
            }
            Step::Apply { object, .. } => side_apply(cluster, id, object, &reference),
        };
        match done {
            Ok(()) => {
                if let Some(live) = cluster.get_mut(id).filter(|_| !is_read_only(strategy)) {
                    live.applied_by.insert(owner.uid.clone());
                    live.stays = !owned;
                }
                return Ok(());
            }
            Err(Refused::Exists | Refused::Stale) => {}
        }
    }
    Err("somebody else changes the object as fast as it is applied".into())
}

/// A server-side apply of a manifest whose fields nobody else manages, and the owner after it.
fn side_apply(
    cluster: &mut Cluster,
    id: &Identity,
    object: Fields,
    reference: &Value,
) -> Result<(), Refused> {
    if cluster.get(id).is_some() {
        cluster.patch(id, &Value::Object(object))?;
    } else {
        cluster.create(id, object)?;
    }
    let patch = cluster.get(id).and_then(|live| owner_patch(&live.object, reference));
    patch.map_or(Ok(()), |patch| cluster.patch(id, &patch))
}

fn without_server_fields(mut object: Fields) -> Fields {
    gitwork::agent::core::object::edit_metadata(&mut object, |metadata| {
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(field);
        }
    });
    object
}

fn seen(live: Option<&Live>, options: &ManifestOptions) -> Seen {
    live.map_or(Seen::Absent, |live| look(&live.object, options, RAW))
}

/// Why an object should not have been deleted: by the agent for `applied`, or by the garbage collector.
fn is_wrong(live: &Live, applied: Option<&String>) -> Option<&'static str> {
    if live.stays {
        return Some("and what was applied last says that it stays");
    }
    let foreign = applied.is_some_and(|applied| !live.applied_by.contains(applied));
    foreign.then_some("and somebody else had made it")
}

/// What the checkers ask, and what others do on the clusters.
impl Agents {
    pub fn get(&self, object: &Object) -> Option<&Live> {
        self.clusters.get(&object.0)?.get(&object.1)
    }

    /// All objects of all clusters.
    pub fn objects(&self) -> impl Iterator<Item = (Object, &Live)> {
        self.clusters.iter().flat_map(|(name, cluster)| {
            cluster.objects().map(|(id, live)| ((name.clone(), id.clone()), live))
        })
    }

    pub fn cluster(&mut self, name: &ClusterName) -> &mut Cluster {
        self.clusters.entry(name.clone()).or_default()
    }

    /// Whether the object would go with what stands under this name.
    pub fn goes_with(&self, key: &WorkKey, id: &Identity) -> bool {
        let live = self.get(&(key.cluster.clone(), id.clone()));
        let applied = self.applied.get(key);
        live.zip(applied).is_some_and(|(live, applied)| live.is_owned_by(&applied.uid))
    }

    /// What of a ManifestWork that was applied last would go with it; `uid` is the ManifestWork's.
    pub fn would_go(&self, key: &WorkKey, uid: &str) -> Vec<Object> {
        let Some(applied) = self.applied.get(key).filter(|one| one.work == uid) else {
            return Vec::new();
        };
        let all = self.clusters.get(&key.cluster).into_iter().flat_map(Cluster::objects);
        // The owners of what somebody has made anew since are theirs.
        let owned = all.filter(|(_, live)| {
            live.is_owned_by(&applied.uid) && live.applied_by.contains(&applied.uid)
        });
        owned.map(|(id, _)| (key.cluster.clone(), id.clone())).collect()
    }

    /// An object of a work that was applied whole, which would not go with the work.
    pub fn would_stay(&self, key: &WorkKey, work: &Value) -> Option<Object> {
        let applied = self.applied.get(key).filter(|one| work["metadata"]["uid"] == *one.work)?;
        let status = WorkStatus::deserialize(&work["status"]).unwrap_or_default();
        let is_whole = condition::find(&status.conditions, "Applied")
            .is_none_or(|applied| applied.status == "True");
        if condition::is_true(&status.conditions, COMPLETE) || !is_whole {
            return None;
        }
        let cluster = self.clusters.get(&key.cluster)?;
        applied.resources.iter().map(recorded_identity).find_map(|id| {
            let live = cluster.get(&id)?;
            // What somebody has made anew since is not the agent's to delete, until it has applied it again.
            let is_applied = live.applied_by.contains(&applied.uid);
            (is_applied && !live.is_owned_by(&applied.uid)).then(|| (key.cluster.clone(), id))
        })
    }

    /// An object that was applied, belongs to nobody now, and was not to stay.
    pub fn left_behind(&self) -> Option<Object> {
        let uids: BTreeSet<&str> = self.applied.values().map(|one| one.uid.as_str()).collect();
        let is_left = |live: &Live| {
            let owned = uids.iter().any(|uid| live.is_owned_by(uid));
            !live.applied_by.is_empty() && !live.stays && !owned
        };
        self.objects().find(|(_, live)| is_left(live)).map(|(object, _)| object)
    }

    /// A work that the hub has no more, and of which something is still recorded.
    pub fn not_evicted(&self, hub: &SimulatedHub) -> Option<&WorkKey> {
        self.applied.keys().find(|key| hub.object(key).is_none())
    }
}
