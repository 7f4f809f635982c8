//! One pass over one ManifestWork: apply its manifests, record the objects, report the status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tracing::{info, warn};

use super::Agent;
use super::error::PassError;
use super::items::{AppliedItem, HubWork};
use super::state::{LastPass, ManifestOutcome, PendingChanges, Retry};
use super::tracking::{ObjectKey, QueueKey, REMOVED_OBJECTS, tracking_ordinal};
use gitwork_agent_core::applied_resources;
use gitwork_agent_core::applied_resources::{applied_resource, applied_resources_patch};
use gitwork_agent_core::condition;
use gitwork_agent_core::condition::COMPLETE;
use gitwork_agent_core::drift_backoff::retry_after;
use gitwork_agent_core::identity::applied_name;
use gitwork_agent_core::manifest::{ParsedManifest, apply_order};
use gitwork_agent_core::owner::Owner;
use gitwork_agent_core::status::{ApplyOutcome, Observation, manifests};
use gitwork_agent_core::work::ManifestOptions;
use gitwork_api::work::{
    AppliedManifestResourceMeta, ManifestResourceMeta, ManifestWorkSpec, ManifestWorkStatus,
};

/// After this many manifests a pass lets other passes run first.
const MANIFESTS_OF_A_TURN: usize = 25;

/// What one pass works on.
struct PassInput {
    work: Arc<HubWork>,
    applied: Option<Arc<AppliedItem>>,
    last_pass: LastPass,
    pending: PendingChanges,
}

/// How a pass ended.
#[derive(Default)]
pub struct PassOutcome {
    /// When to run the next pass although nothing has changed.
    pub retry_after: Option<Duration>,
    /// Manifests to apply then.
    pub ordinals: Vec<u32>,
    pub failed: bool,
    pub changed: bool,
}

impl Agent {
    /// Runs one pass over a work.
    pub async fn pass_work(self: &Arc<Self>, name: &Arc<str>) {
        let Some(mut job) = self.take_job(name) else { return };
        let before = job.pending.clone();
        let result = self.run_job(name, &mut job).await;
        let (ended, undone) = match result {
            Ok(ended) => (ended, PendingChanges::default()),
            Err(error) => {
                info!(work = %name, %error, "the pass over the ManifestWork failed; retrying");
                (PassOutcome { failed: true, ..PassOutcome::default() }, before)
            }
        };
        self.metrics.pass(match (ended.failed, ended.changed) {
            (true, _) => "failed",
            (false, true) => "changed",
            (false, false) => "settled",
        });
        let again = self.put_back(name, job.last_pass, undone, &ended);
        if let Some(again) = again {
            self.shared
                .queue
                .add_at(QueueKey::Work(name.clone()), tokio::time::Instant::now() + again);
        }
        self.follow_kinds();
    }

    /// Takes the pending changes of a work. Changes that the agent itself made do not count.
    fn take_job(&self, name: &Arc<str>) -> Option<PassInput> {
        let mut state = self.state();
        let state = &mut *state;
        let entry = state.works.get_mut(name)?;
        let mut pending = std::mem::take(&mut entry.pending);
        let outcomes = &entry.last_pass.outcomes;
        let tracking = &state.tracking;
        pending.ordinals.retain(|place, revision| {
            let known = usize::try_from(*place).ok().and_then(|place| outcomes.get(place));
            match known.and_then(|outcome| outcome.object.as_ref()) {
                Some(object) if *revision != u64::MAX => tracking.is_newer(object, *revision),
                _ => true,
            }
        });
        if !pending.everything && pending.ordinals.is_empty() && !entry.work.deleting {
            return None;
        }
        let applied =
            state.applied.get(applied_name(&self.settings.hub_hash, name).as_str()).cloned();
        Some(PassInput {
            work: entry.work.clone(),
            applied,
            last_pass: std::mem::take(&mut entry.last_pass),
            pending,
        })
    }

    fn put_back(
        &self,
        name: &Arc<str>,
        last_pass: LastPass,
        undone: PendingChanges,
        ended: &PassOutcome,
    ) -> Option<Duration> {
        let mut state = self.state();
        let Some(entry) = state.works.get_mut(name) else {
            // The work was deleted meanwhile: stop tracking its objects.
            for (place, outcome) in last_pass.outcomes.iter().enumerate() {
                if let Some(object) = &outcome.object {
                    state.tracking.unsubscribe(
                        object,
                        &QueueKey::Work(name.clone()),
                        tracking_ordinal(place),
                    );
                }
            }
            return None;
        };
        entry.last_pass = last_pass;
        entry.last_pass_end = Some(tokio::time::Instant::now());
        entry.pending.everything |= undone.everything;
        for (place, revision) in undone.ordinals {
            entry.pending.ordinals.entry(place).or_insert(revision);
        }
        for place in &ended.ordinals {
            entry.pending.ordinals.insert(*place, u64::MAX);
        }
        if ended.failed {
            let wait = retry_after(entry.failures);
            entry.failures = entry.failures.saturating_add(1);
            return Some(ended.retry_after.map_or(wait, |again| again.min(wait)));
        }
        entry.failures = 0;
        // The response to one of our own writes may have had a new spec before its event.
        if entry.pending.everything { Some(Duration::ZERO) } else { ended.retry_after }
    }

    async fn run_job(
        self: &Arc<Self>,
        name: &Arc<str>,
        job: &mut PassInput,
    ) -> Result<PassOutcome, PassError> {
        if job.work.deleting {
            let ended = self.finish_work(&job.work, job.applied.as_deref()).await?;
            if job.applied.is_some() {
                self.watch_end(name, job).await?;
            }
            return Ok(ended);
        }
        if !job.work.has_finalizer() {
            let Some(work) = self.hub_works.add_finalizer(&job.work).await? else {
                return Ok(PassOutcome::default());
            };
            job.work = work;
        }
        let spec: ManifestWorkSpec = match serde_json::from_str(&job.work.spec) {
            Ok(spec) => spec,
            Err(error) => {
                warn!(work = %name, %error, "invalid ManifestWork spec; fix it on the hub");
                return Ok(PassOutcome::default());
            }
        };
        let status: ManifestWorkStatus = serde_json::from_str(&job.work.status).unwrap_or_default();
        if condition::is_true(&status.conditions, COMPLETE) {
            return self.watch_complete(name, job, &spec, &status).await;
        }
        let applied = self.applied_works.ensure_applied(&job.work, job.applied.take()).await?;
        if applied.is_deleting() {
            // The event of its deletion starts the next pass.
            return Ok(PassOutcome { ordinals: vec![REMOVED_OBJECTS], ..PassOutcome::default() });
        }
        job.applied = Some(applied.clone());
        self.apply_all(name, job, spec, &status, &applied).await
    }

    async fn apply_all(
        self: &Arc<Self>,
        name: &Arc<str>,
        job: &mut PassInput,
        mut spec: ManifestWorkSpec,
        status: &ManifestWorkStatus,
        applied: &AppliedItem,
    ) -> Result<PassOutcome, PassError> {
        let raw = spec.workload.take().unwrap_or_default().manifests;
        let everything = job.pending.everything
            || job.last_pass.generation != job.work.generation
            || job.last_pass.outcomes.len() != raw.len();
        let owner =
            Owner { name: applied.metadata.name.clone(), uid: applied.metadata.uid.clone() };
        let old = std::mem::take(&mut job.last_pass.outcomes);
        let mut manifests: Vec<(usize, Result<ParsedManifest, _>)> = raw
            .into_iter()
            .enumerate()
            .map(|(place, raw)| (place, ParsedManifest::parse(place, raw)))
            .collect();
        manifests
            .sort_by_key(|(_, parsed)| parsed.as_ref().map_or(1001, |one| apply_order(one.kind())));

        let key = QueueKey::Work(name.clone());
        let context = super::apply::Context {
            spec: &spec,
            status,
            owner: &owner,
            key: &key,
            recorded: &applied.status.applied_resources,
            is_drift: !everything,
        };
        let mut outcomes: BTreeMap<usize, ManifestOutcome> = BTreeMap::new();
        let mut seen: Vec<(usize, Observation)> = Vec::new();
        let mut slot = self.slots.acquire().await.ok();
        for (count, (place, parsed)) in manifests.into_iter().enumerate() {
            let before = old.get(place);
            let wanted = everything || job.pending.ordinals.contains_key(&tracking_ordinal(place));
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
                Err(error) => (unparsable(place, &error.to_string()), Observation::Incomplete),
            };
            outcomes.insert(place, outcome);
            seen.push((place, looked));
        }
        drop(slot);
        let outcomes: Vec<ManifestOutcome> = outcomes.into_values().collect();
        self.release_old(&key, &old, &outcomes);
        job.last_pass.outcomes = outcomes;
        job.last_pass.generation = job.work.generation;
        seen.sort_by_key(|(place, _)| *place);

        let recorded = self.record(&key, &job.last_pass.outcomes, applied, &owner).await;
        let results: Vec<(ManifestResourceMeta, ApplyOutcome)> = job
            .last_pass
            .outcomes
            .iter()
            .map(|one| (one.meta.clone(), one.applied.clone()))
            .collect();
        let changed = self.hub_works.write_status(&job.work, Some(&results), &seen).await?;
        Ok(pass_outcome(&job.last_pass.outcomes, recorded, changed, name))
    }

    fn release_old(&self, key: &QueueKey, old: &[ManifestOutcome], new: &[ManifestOutcome]) {
        let mut state = self.state();
        for (place, outcome) in old.iter().enumerate() {
            let Some(object) = &outcome.object else { continue };
            let still = new.get(place).and_then(|one| one.object.as_ref()) == Some(object);
            if !still {
                state.tracking.unsubscribe(object, key, tracking_ordinal(place));
            }
        }
    }

    /// Updates the list of applied objects, and deletes objects that left the work. Returns whether
    /// deletions are still under way.
    async fn record(
        &self,
        key: &QueueKey,
        outcomes: &[ManifestOutcome],
        applied: &AppliedItem,
        owner: &Owner,
    ) -> Result<bool, PassError> {
        let problems: Vec<String> =
            outcomes.iter().filter_map(|one| one.unrecorded.clone()).collect();
        if let Some(problem) = gitwork_agent_core::feedback::aggregate(&problems) {
            return Err(PassError::Unrecorded(problem));
        }
        let current: Vec<AppliedManifestResourceMeta> = outcomes
            .iter()
            .filter(|one| !one.uid.is_empty())
            .map(|one| applied_resource(&one.meta, &one.uid))
            .collect();
        let stale = applied_resources::stale_resources(&applied.status.applied_resources, &current);
        let pending = self.remove_all(key, &stale, owner).await?;
        let is_pending = !pending.is_empty();
        let list = applied_resources::record(current, pending);
        if list != applied.status.applied_resources {
            self.applied_works
                .write_applied_status(
                    applied,
                    &json!({"appliedResources": applied_resources_patch(&list)}),
                )
                .await?;
        }
        Ok(is_pending)
    }

    /// Reads the objects of a work that is not applied any more, and keeps watching them.
    async fn look_at_all(
        self: &Arc<Self>,
        name: &Arc<str>,
        job: &mut PassInput,
        spec: &ManifestWorkSpec,
        status: &ManifestWorkStatus,
    ) -> Vec<(usize, Observation)> {
        let key = QueueKey::Work(name.clone());
        let mut seen = Vec::new();
        let old = std::mem::take(&mut job.last_pass.outcomes);
        let mut outcomes = Vec::new();
        for (place, manifest) in manifests(status).iter().enumerate() {
            let meta = manifest.resource_meta.clone();
            let options = ManifestOptions::of(spec, &meta);
            let (looked, object, uid) = self.look_at(&key, place, &meta, &options).await;
            seen.push((place, looked));
            outcomes.push(ManifestOutcome {
                meta,
                applied: ApplyOutcome::Complete { note: None },
                uid,
                unrecorded: None,
                retry: Retry::Never,
                object,
                fight: gitwork_agent_core::drift_backoff::DriftBackoff::default(),
            });
        }
        self.release_old(&key, &old, &outcomes);
        job.last_pass.outcomes = outcomes;
        seen
    }

    /// Observes a complete work. It is not applied any more; its objects are still read.
    async fn watch_complete(
        self: &Arc<Self>,
        name: &Arc<str>,
        job: &mut PassInput,
        spec: &ManifestWorkSpec,
        status: &ManifestWorkStatus,
    ) -> Result<PassOutcome, PassError> {
        let seen = self.look_at_all(name, job, spec, status).await;
        let changed = self.hub_works.write_status(&job.work, None, &seen).await?;
        // No longer complete: apply it again.
        let is_over = self.state().works.get(name).is_some_and(|entry| {
            let status: ManifestWorkStatus =
                serde_json::from_str(&entry.work.status).unwrap_or_default();
            !condition::is_true(&status.conditions, COMPLETE)
        });
        let ordinals = if is_over { vec![REMOVED_OBJECTS] } else { vec![] };
        job.last_pass.generation = 0;
        Ok(PassOutcome {
            retry_after: is_over.then_some(Duration::ZERO),
            ordinals,
            changed,
            ..PassOutcome::default()
        })
    }

    /// Reports which objects of a deleted work still exist, once the status says `Deleting`.
    async fn watch_end(
        self: &Arc<Self>,
        name: &Arc<str>,
        job: &mut PassInput,
    ) -> Result<(), PassError> {
        let Some(work) = self.state().works.get(name).map(|entry| entry.work.clone()) else {
            return Ok(());
        };
        let (Ok(spec), Ok(status)) = (
            serde_json::from_str::<ManifestWorkSpec>(&work.spec),
            serde_json::from_str::<ManifestWorkStatus>(&work.status),
        ) else {
            return Ok(());
        };
        let manifests = manifests(&status);
        let mut seen = Vec::new();
        if job.last_pass.outcomes.len() == manifests.len() {
            for (place, manifest) in manifests.iter().enumerate() {
                if job.pending.ordinals.contains_key(&tracking_ordinal(place)) {
                    let (key, options) = (
                        QueueKey::Work(name.clone()),
                        ManifestOptions::of(&spec, &manifest.resource_meta),
                    );
                    let meta = &manifest.resource_meta;
                    seen.push((place, self.look_at(&key, place, meta, &options).await.0));
                }
            }
        } else {
            // Another process applied it.
            seen = self.look_at_all(name, job, &spec, &status).await;
        }
        if !seen.is_empty() {
            self.hub_works.write_status(&work, None, &seen).await?;
        }
        Ok(())
    }
}

fn unparsable(place: usize, error: &str) -> ManifestOutcome {
    ManifestOutcome {
        meta: ManifestResourceMeta {
            ordinal: gitwork_agent_core::manifest::ordinal(place),
            ..ManifestResourceMeta::default()
        },
        applied: ApplyOutcome::Failed(error.to_owned()),
        uid: String::new(),
        unrecorded: Some(error.to_owned()),
        // Only a new spec fixes it.
        retry: Retry::Never,
        object: None::<ObjectKey>,
        fight: gitwork_agent_core::drift_backoff::DriftBackoff::default(),
    }
}

/// When the next pass runs, by the outcomes of this one.
fn pass_outcome(
    outcomes: &[ManifestOutcome],
    recorded: Result<bool, PassError>,
    changed: bool,
    name: &str,
) -> PassOutcome {
    let mut ended = PassOutcome { changed, ..PassOutcome::default() };
    let soonest = |ended: &mut PassOutcome, after: Duration| {
        ended.retry_after = Some(ended.retry_after.map_or(after, |again| again.min(after)));
    };
    for (place, outcome) in outcomes.iter().enumerate() {
        match outcome.retry {
            Retry::Never => continue,
            Retry::BackOff => ended.failed = true,
            Retry::After(after) => soonest(&mut ended, after),
        }
        ended.ordinals.push(tracking_ordinal(place));
    }
    match recorded {
        Ok(false) => {}
        Ok(true) => {
            // Events of the deleted objects start a pass sooner.
            soonest(&mut ended, Duration::from_secs(5));
            ended.ordinals.push(REMOVED_OBJECTS);
        }
        Err(PassError::Unrecorded(_)) if !ended.failed => {}
        Err(error) => {
            info!(work = %name, %error, "cannot record the work's objects; retrying");
            ended.failed = true;
            ended.ordinals.push(REMOVED_OBJECTS);
        }
    }
    ended
}
