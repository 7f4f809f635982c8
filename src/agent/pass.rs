//! One pass over one ManifestWork: apply what is to be applied, record it, report it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tracing::{debug, info, warn};

use super::Agent;
use super::core::condition::{self, COMPLETE};
use super::core::identity::{
    APPLIED_FINALIZER, APPLIED_KIND, WORK_API_VERSION, WORK_FINALIZER, applied_name,
};
use super::core::manifest::{Manifest, turn};
use super::core::object::Object;
use super::core::owner::Owner;
use super::core::patience::retry_after;
use super::core::status::{Applied, Seen, WorkStatus, fold_applied, fold_seen};
use super::core::tracked::{self, AppliedResource};
use super::core::work::{ResourceMeta, WorkSpec};
use super::items::{AppliedItem, HubWork, WorkItem};
use super::server::ApiError;
use super::state::{Outcome, Retry, ToDo, WorkMemory};
use super::tracking::{Key, ObjectKey};

/// After so many manifests a pass lets others go first.
const MANIFESTS_OF_A_TURN: usize = 25;
/// The place of objects that are no longer in the work, in its list of things to look at.
pub const NO_PLACE: u32 = u32::MAX;
/// How often a status is written anew after somebody else wrote it.
const STATUS_TRIES: usize = 4;

/// Why a pass did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    #[error("cannot {doing}: {error}")]
    Request { doing: &'static str, error: ApiError },
    #[error("cannot record what is applied: {0}")]
    Unrecorded(String),
    #[error("the API server's answer is no {0}")]
    Answer(&'static str),
}

fn doing(doing: &'static str) -> impl Fn(ApiError) -> PassError {
    move |error| PassError::Request { doing, error }
}

/// What one pass is about.
struct Job {
    work: Arc<HubWork>,
    applied: Option<Arc<AppliedItem>>,
    memory: WorkMemory,
    to_do: ToDo,
}

/// How a pass ended.
#[derive(Default)]
pub struct Ended {
    /// When to come back though nothing has changed.
    pub again: Option<Duration>,
    /// Places to look at then.
    pub places: Vec<u32>,
    pub failed: bool,
    pub changed: bool,
}

impl Agent {
    /// Brings one work to what the hub says.
    pub async fn pass_work(self: &Arc<Self>, name: &Arc<str>) {
        let Some(mut job) = self.take_job(name) else { return };
        let before = job.to_do.clone();
        let result = self.run_job(name, &mut job).await;
        let (ended, undone) = match result {
            Ok(ended) => (ended, ToDo::default()),
            Err(error) => {
                info!(work = %name, %error, "the work is tried again");
                (Ended { failed: true, ..Ended::default() }, before)
            }
        };
        self.metrics.pass(match (ended.failed, ended.changed) {
            (true, _) => "failed",
            (false, true) => "changed",
            (false, false) => "settled",
        });
        let again = self.put_back(name, job.memory, undone, &ended);
        if let Some(again) = again {
            self.queue.add_at(Key::Work(name.clone()), tokio::time::Instant::now() + again);
        }
        self.follow_kinds();
    }

    /// Takes what there is to do for a work. Events that tell of our own writes are none.
    fn take_job(&self, name: &Arc<str>) -> Option<Job> {
        let mut state = self.state();
        let state = &mut *state;
        let entry = state.works.get_mut(name)?;
        let mut to_do = std::mem::take(&mut entry.to_do);
        let outcomes = &entry.memory.outcomes;
        let tracking = &state.tracking;
        to_do.places.retain(|place, revision| {
            let known = usize::try_from(*place).ok().and_then(|place| outcomes.get(place));
            match known.and_then(|outcome| outcome.object.as_ref()) {
                Some(object) if *revision != u64::MAX => tracking.is_news(object, *revision),
                _ => true,
            }
        });
        if !to_do.everything && to_do.places.is_empty() && !entry.work.deleting {
            return None;
        }
        let applied =
            state.applied.get(applied_name(&self.settings.hub_hash, name).as_str()).cloned();
        Some(Job {
            work: entry.work.clone(),
            applied,
            memory: std::mem::take(&mut entry.memory),
            to_do,
        })
    }

    fn put_back(
        &self,
        name: &Arc<str>,
        memory: WorkMemory,
        undone: ToDo,
        ended: &Ended,
    ) -> Option<Duration> {
        let mut state = self.state();
        let Some(entry) = state.works.get_mut(name) else {
            // The work went meanwhile: nobody holds its objects any more.
            for (place, outcome) in memory.outcomes.iter().enumerate() {
                if let Some(object) = &outcome.object {
                    state.tracking.release(object, &Key::Work(name.clone()), place_number(place));
                }
            }
            return None;
        };
        entry.memory = memory;
        entry.looked = Some(tokio::time::Instant::now());
        entry.to_do.everything |= undone.everything;
        for (place, revision) in undone.places {
            entry.to_do.places.entry(place).or_insert(revision);
        }
        for place in &ended.places {
            entry.to_do.places.insert(*place, u64::MAX);
        }
        if ended.failed {
            let wait = retry_after(entry.failures);
            entry.failures = entry.failures.saturating_add(1);
            return Some(ended.again.map_or(wait, |again| again.min(wait)));
        }
        entry.failures = 0;
        // An answer to one of our own writes may have told of a new spec before its event did.
        if entry.to_do.everything { Some(Duration::ZERO) } else { ended.again }
    }

    async fn run_job(self: &Arc<Self>, name: &Arc<str>, job: &mut Job) -> Result<Ended, PassError> {
        if job.work.deleting {
            let ended = self.finish_work(&job.work, job.applied.as_deref()).await?;
            if job.applied.is_some() {
                self.watch_end(name, job).await?;
            }
            return Ok(ended);
        }
        if !job.work.has_finalizer() {
            let Some(work) = self.add_finalizer(&job.work).await? else {
                return Ok(Ended::default());
            };
            job.work = work;
        }
        let spec: WorkSpec = match serde_json::from_str(&job.work.spec) {
            Ok(spec) => spec,
            Err(error) => {
                warn!(work = %name, %error, "the spec of the ManifestWork is none; fix it on the hub");
                return Ok(Ended::default());
            }
        };
        let status: WorkStatus = serde_json::from_str(&job.work.status).unwrap_or_default();
        if condition::is_true(&status.conditions, COMPLETE) {
            return self.watch_complete(name, job, &spec, &status).await;
        }
        let applied = self.ensure_applied(&job.work, job.applied.take()).await?;
        if applied.is_deleting() {
            // The event of its end brings us back.
            return Ok(Ended { places: vec![NO_PLACE], ..Ended::default() });
        }
        job.applied = Some(applied.clone());
        self.apply_all(name, job, spec, &status, &applied).await
    }

    async fn apply_all(
        self: &Arc<Self>,
        name: &Arc<str>,
        job: &mut Job,
        mut spec: WorkSpec,
        status: &WorkStatus,
        applied: &AppliedItem,
    ) -> Result<Ended, PassError> {
        let raw = std::mem::take(&mut spec.workload.manifests);
        let everything = job.to_do.everything
            || job.memory.generation != job.work.generation
            || job.memory.outcomes.len() != raw.len();
        let owner =
            Owner { name: applied.metadata.name.clone(), uid: applied.metadata.uid.clone() };
        let old = std::mem::take(&mut job.memory.outcomes);
        let mut manifests: Vec<(usize, Result<Manifest, _>)> = raw
            .into_iter()
            .enumerate()
            .map(|(place, raw)| (place, Manifest::parse(place, raw)))
            .collect();
        manifests.sort_by_key(|(_, parsed)| parsed.as_ref().map_or(1001, |one| turn(one.kind())));

        let key = Key::Work(name.clone());
        let context = super::apply::Context {
            spec: &spec,
            status,
            owner: &owner,
            key: &key,
            recorded: &applied.status.applied_resources,
            is_drift: !everything,
        };
        let mut outcomes: BTreeMap<usize, Outcome> = BTreeMap::new();
        let mut seen: Vec<(usize, Seen)> = Vec::new();
        let mut slot = self.slots.acquire().await.ok();
        for (count, (place, parsed)) in manifests.into_iter().enumerate() {
            let before = old.get(place);
            let wanted = everything || job.to_do.places.contains_key(&place_number(place));
            if let (Some(before), false) = (before, wanted) {
                outcomes.insert(place, before.clone());
                continue;
            }
            if count > 0 && count % MANIFESTS_OF_A_TURN == 0 {
                drop(slot.take());
                slot = self.slots.acquire().await.ok();
            }
            let (outcome, looked) = match parsed {
                Ok(manifest) => self.apply_one(&context, &manifest, before).await,
                Err(error) => (unparsable(place, &error.to_string()), Seen::Incomplete),
            };
            outcomes.insert(place, outcome);
            seen.push((place, looked));
        }
        drop(slot);
        let outcomes: Vec<Outcome> = outcomes.into_values().collect();
        self.release_old(&key, &old, &outcomes);
        job.memory.outcomes = outcomes;
        job.memory.generation = job.work.generation;
        seen.sort_by_key(|(place, _)| *place);

        let recorded = self.record(&key, &job.memory.outcomes, applied, &owner).await;
        let results: Vec<(ResourceMeta, Applied)> =
            job.memory.outcomes.iter().map(|one| (one.meta.clone(), one.applied.clone())).collect();
        let changed = self.write_status(&job.work, Some(&results), &seen).await?;
        Ok(ending(&job.memory.outcomes, recorded, changed, name))
    }

    fn release_old(&self, key: &Key, old: &[Outcome], new: &[Outcome]) {
        let mut state = self.state();
        for (place, outcome) in old.iter().enumerate() {
            let Some(object) = &outcome.object else { continue };
            let still = new.get(place).and_then(|one| one.object.as_ref()) == Some(object);
            if !still {
                state.tracking.release(object, key, place_number(place));
            }
        }
    }

    /// Brings the AppliedManifestWork's list up to date, and deletes what is not in the work any more. Gives whether
    /// deletions are still going on.
    async fn record(
        &self,
        key: &Key,
        outcomes: &[Outcome],
        applied: &AppliedItem,
        owner: &Owner,
    ) -> Result<bool, PassError> {
        let problems: Vec<String> =
            outcomes.iter().filter_map(|one| one.unrecorded.clone()).collect();
        if let Some(problem) = super::core::feedback::aggregate(&problems) {
            return Err(PassError::Unrecorded(problem));
        }
        let current: Vec<AppliedResource> = outcomes
            .iter()
            .filter(|one| !one.uid.is_empty())
            .map(|one| AppliedResource::new(&one.meta, &one.uid))
            .collect();
        let stale = tracked::stale(&applied.status.applied_resources, &current);
        let pending = self.remove_all(key, &stale, owner).await?;
        let is_pending = !pending.is_empty();
        let list = tracked::record(current, pending);
        if list != applied.status.applied_resources {
            self.write_applied_status(applied, &json!({"appliedResources": list})).await?;
        }
        Ok(is_pending)
    }

    /// Looks at the objects of a work that is not applied any more, and goes on following them.
    async fn look_at_all(
        self: &Arc<Self>,
        name: &Arc<str>,
        job: &mut Job,
        spec: &WorkSpec,
        status: &WorkStatus,
    ) -> Vec<(usize, Seen)> {
        let key = Key::Work(name.clone());
        let mut seen = Vec::new();
        let old = std::mem::take(&mut job.memory.outcomes);
        let mut outcomes = Vec::new();
        for (place, manifest) in status.resource_status.manifests.iter().enumerate() {
            let meta = manifest.resource_meta.clone();
            let options = spec.options(&meta);
            let (looked, object, uid) = self.look_at(&key, place, &meta, &options).await;
            seen.push((place, looked));
            outcomes.push(Outcome {
                meta,
                applied: Applied::Complete { note: None },
                uid,
                unrecorded: None,
                retry: Retry::Never,
                object,
                fight: super::core::patience::Fight::default(),
            });
        }
        self.release_old(&key, &old, &outcomes);
        job.memory.outcomes = outcomes;
        seen
    }

    /// A work that is complete is not applied any more; its objects are still looked at.
    async fn watch_complete(
        self: &Arc<Self>,
        name: &Arc<str>,
        job: &mut Job,
        spec: &WorkSpec,
        status: &WorkStatus,
    ) -> Result<Ended, PassError> {
        let seen = self.look_at_all(name, job, spec, status).await;
        let changed = self.write_status(&job.work, None, &seen).await?;
        // No longer complete: it is to be applied again.
        let is_over = self.state().works.get(name).is_some_and(|entry| {
            let status: WorkStatus = serde_json::from_str(&entry.work.status).unwrap_or_default();
            !condition::is_true(&status.conditions, COMPLETE)
        });
        let places = if is_over { vec![NO_PLACE] } else { vec![] };
        job.memory.generation = 0;
        Ok(Ended { again: is_over.then_some(Duration::ZERO), places, changed, ..Ended::default() })
    }

    /// Says of a work that is being deleted which of its objects are still there, once its deletion is told.
    async fn watch_end(self: &Arc<Self>, name: &Arc<str>, job: &mut Job) -> Result<(), PassError> {
        let Some(work) = self.state().works.get(name).map(|entry| entry.work.clone()) else {
            return Ok(());
        };
        let (Ok(spec), Ok(status)) = (
            serde_json::from_str::<WorkSpec>(&work.spec),
            serde_json::from_str::<WorkStatus>(&work.status),
        ) else {
            return Ok(());
        };
        let manifests = &status.resource_status.manifests;
        let mut seen = Vec::new();
        if job.memory.outcomes.len() == manifests.len() {
            for (place, manifest) in manifests.iter().enumerate() {
                if job.to_do.places.contains_key(&place_number(place)) {
                    let (key, options) =
                        (Key::Work(name.clone()), spec.options(&manifest.resource_meta));
                    let meta = &manifest.resource_meta;
                    seen.push((place, self.look_at(&key, place, meta, &options).await.0));
                }
            }
        } else {
            // This process did not apply it.
            seen = self.look_at_all(name, job, &spec, &status).await;
        }
        if !seen.is_empty() {
            self.write_status(&work, None, &seen).await?;
        }
        Ok(())
    }

    async fn add_finalizer(&self, work: &HubWork) -> Result<Option<Arc<HubWork>>, PassError> {
        let mut finalizers = work.finalizers.clone();
        finalizers.push(WORK_FINALIZER.into());
        let patch = json!({"metadata": {"uid": work.uid, "resourceVersion": work.resource_version, "finalizers": finalizers}});
        match self.hub.merge_patch(&self.work_path(&work.name), &patch).await {
            Ok(object) => self.written(object).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(doing("add the finalizer to the ManifestWork")(error)),
        }
    }

    fn written(&self, object: Object) -> Result<Arc<HubWork>, PassError> {
        let item: WorkItem = serde_json::from_value(Value::Object(object))
            .map_err(|_| PassError::Answer("ManifestWork"))?;
        Ok(self.state().put_written(item.into()))
    }

    fn applied_written(&self, object: Object) -> Result<Arc<AppliedItem>, PassError> {
        let item: AppliedItem = serde_json::from_value(Value::Object(object))
            .map_err(|_| PassError::Answer("AppliedManifestWork"))?;
        let item = Arc::new(item);
        let mut state = self.state();
        let name: Arc<str> = item.metadata.name.as_str().into();
        let known = state.applied.get(&name).map_or(0, |known| known.revision());
        if item.revision() > known {
            state.applied.insert(name.clone(), item.clone());
        }
        drop(state);
        if item.is_deleting() {
            // Its event is no news any more.
            self.queue.add(Key::Applied(name));
        }
        Ok(item)
    }

    /// The AppliedManifestWork of a work: made, or brought to what it should say.
    async fn ensure_applied(
        &self,
        work: &HubWork,
        known: Option<Arc<AppliedItem>>,
    ) -> Result<Arc<AppliedItem>, PassError> {
        let name = applied_name(&self.settings.hub_hash, &work.name);
        let spec = json!({
            "hubHash": self.settings.hub_hash,
            "agentID": self.settings.agent_id,
            "manifestWorkName": work.name,
        });
        let known = match known {
            Some(known) => known,
            None => {
                let object = json!({
                    "apiVersion": WORK_API_VERSION,
                    "kind": APPLIED_KIND,
                    "metadata": {"name": name, "labels": work.labels, "finalizers": [APPLIED_FINALIZER]},
                    "spec": spec,
                });
                let Value::Object(object) = object else { return Err(PassError::Answer("object")) };
                match self.cluster.create(&self.applied_path(None), &object).await {
                    Ok(object) => return self.applied_written(object),
                    Err(error) if error.is_already_exists() => {
                        let found = self.cluster.get(&self.applied_path(Some(&name))).await;
                        let found = found.map_err(doing("read the AppliedManifestWork"))?;
                        self.applied_written(
                            found.ok_or(PassError::Answer("AppliedManifestWork"))?,
                        )?
                    }
                    Err(error) => return Err(doing("create the AppliedManifestWork")(error)),
                }
            }
        };
        let right = known.spec.hub_hash == self.settings.hub_hash
            && known.spec.agent_id == self.settings.agent_id
            && known.spec.manifest_work_name == work.name;
        if right || known.is_deleting() {
            return Ok(known);
        }
        let patch = json!({"metadata": version_of(&known), "spec": spec});
        let patched = self.cluster.merge_patch(&self.applied_path(Some(&name)), &patch).await;
        self.applied_written(patched.map_err(doing("update the AppliedManifestWork"))?)
    }

    pub async fn write_applied_status(
        &self,
        applied: &AppliedItem,
        status: &Value,
    ) -> Result<Arc<AppliedItem>, PassError> {
        let path = format!("{}/status", self.applied_path(Some(&applied.metadata.name)));
        let latest = self.state().applied.get(applied.metadata.name.as_str()).cloned();
        let version = latest.filter(|one| one.metadata.uid == applied.metadata.uid);
        let patch = json!({"metadata": version_of(version.as_deref().unwrap_or(applied)), "status": status});
        let patched = self.cluster.merge_patch(&path, &patch).await;
        self.applied_written(
            patched.map_err(doing("update the status of the AppliedManifestWork"))?,
        )
    }

    /// Folds what a pass found into the work's status, and writes it where it changes.
    async fn write_status(
        &self,
        work: &Arc<HubWork>,
        results: Option<&[(ResourceMeta, Applied)]>,
        seen: &[(usize, Seen)],
    ) -> Result<bool, PassError> {
        let mut work = work.clone();
        for _ in 0..STATUS_TRIES {
            let old: WorkStatus = serde_json::from_str(&work.status).unwrap_or_default();
            let mut status = old.clone();
            let now = Timestamp::now();
            if let Some(results) = results {
                fold_applied(&mut status, work.generation, results, now);
            }
            fold_seen(&mut status, work.generation, seen.iter().cloned(), now);
            if status == old {
                return Ok(false);
            }
            let patch = json!({
                "metadata": {"uid": work.uid, "resourceVersion": work.resource_version},
                "status": status,
            });
            let path = format!("{}/status", self.work_path(&work.name));
            match self.hub.merge_patch(&path, &patch).await {
                Ok(object) => {
                    self.written(object)?;
                    return Ok(true);
                }
                Err(error) if error.is_not_found() => return Ok(false),
                Err(error) if error.is_conflict() => match self.read_work(&work.name).await? {
                    Some(fresh) if fresh.generation == work.generation && fresh.uid == work.uid => {
                        work = fresh;
                    }
                    // Another pass will report on what is asked for now.
                    _ => return Ok(false),
                },
                Err(error) => return Err(doing("update the status of the ManifestWork")(error)),
            }
        }
        debug!(work = %work.name, "the status is written by somebody else too");
        Err(PassError::Answer("status that stays for long enough to be written"))
    }

    pub async fn read_work(&self, name: &str) -> Result<Option<Arc<HubWork>>, PassError> {
        match self.hub.get(&self.work_path(name)).await.map_err(doing("read the ManifestWork"))? {
            Some(object) => self.written(object).map(Some),
            None => Ok(None),
        }
    }
}

/// What binds a patch to the version that was read.
pub fn version_of(applied: &AppliedItem) -> Value {
    json!({"uid": applied.metadata.uid, "resourceVersion": applied.metadata.resource_version})
}

/// A place as events carry it.
pub fn place_number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(NO_PLACE)
}

fn unparsable(place: usize, error: &str) -> Outcome {
    Outcome {
        meta: ResourceMeta {
            ordinal: super::core::manifest::ordinal(place),
            ..ResourceMeta::default()
        },
        applied: Applied::Failed(error.to_owned()),
        uid: String::new(),
        unrecorded: Some(error.to_owned()),
        // Nothing but a new spec mends it.
        retry: Retry::Never,
        object: None::<ObjectKey>,
        fight: super::core::patience::Fight::default(),
    }
}

/// What follows from the outcomes of a pass.
fn ending(
    outcomes: &[Outcome],
    recorded: Result<bool, PassError>,
    changed: bool,
    name: &str,
) -> Ended {
    let mut ended = Ended { changed, ..Ended::default() };
    let soonest = |ended: &mut Ended, after: Duration| {
        ended.again = Some(ended.again.map_or(after, |again| again.min(after)));
    };
    for (place, outcome) in outcomes.iter().enumerate() {
        match outcome.retry {
            Retry::Never => continue,
            Retry::BackOff => ended.failed = true,
            Retry::After(after) => soonest(&mut ended, after),
        }
        ended.places.push(place_number(place));
    }
    match recorded {
        Ok(false) => {}
        Ok(true) => {
            // Events of the objects that go bring us back sooner.
            soonest(&mut ended, Duration::from_secs(5));
            ended.places.push(NO_PLACE);
        }
        Err(PassError::Unrecorded(_)) if !ended.failed => {}
        Err(error) => {
            info!(work = %name, %error, "the work's objects are recorded later");
            ended.failed = true;
            ended.places.push(NO_PLACE);
        }
    }
    ended
}
