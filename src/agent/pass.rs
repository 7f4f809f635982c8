//! One pass over one ManifestWork: apply its manifests, record the objects, report the status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gitwork_agent_core::applied_resources;
use gitwork_agent_core::applied_resources::{applied_resource, applied_resources_patch};
use gitwork_agent_core::condition;
use gitwork_agent_core::condition::COMPLETE;
use gitwork_agent_core::drift_backoff::DriftBackoff;
use gitwork_agent_core::manifest::{ManifestError, ParsedManifest, api_ordinal, apply_order};
use gitwork_agent_core::owner::Owner;
use gitwork_agent_core::status::{ApplyOutcome, Observation, manifests};
use gitwork_api::work::{
    AppliedManifestResourceMeta, ManifestResourceMeta, ManifestWorkSpec, ManifestWorkStatus,
};
use gitwork_retry::log_error;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::applied_works::AppliedWorks;
use super::apply::ManifestApplier;
use super::error::PassError;
use super::hub_works::HubWorks;
use super::items::{AppliedItem, HubWork};
use super::metrics::AgentMetrics;
use super::removal::ObjectRemover;
use super::schedule::{PassInput, PassOutcome};
use super::shared::SharedState;
use super::state::{ManifestOutcome, PendingChanges, Retry};
use super::steps::ApplyContext;
use super::tracking::{QueueKey, tracking_ordinal};

/// Number of manifests after which a pass lets other passes run first.
const MANIFESTS_PER_SLOT: usize = 25;

/// The manifests of a work in the order in which they are applied, with their ordinals.
type OrderedManifests = Vec<(usize, Result<ParsedManifest, ManifestError>)>;

/// Runs the passes over the ManifestWorks of this cluster.
pub struct WorkReconciler {
    /// Reads and writes them.
    pub hub_works: Arc<HubWorks>,
    /// Reads and writes their AppliedManifestWorks.
    pub applied_works: Arc<AppliedWorks>,
    /// Applies their manifests.
    pub applier: ManifestApplier,
    /// Deletes objects that left them.
    pub remover: Arc<ObjectRemover>,
    /// Their latest versions and pending changes, and the queue.
    pub shared: Arc<SharedState>,
    /// Limits the passes that apply manifests at the same time.
    pub apply_slots: Semaphore,
    /// Counts the passes.
    pub metrics: Arc<AgentMetrics>,
}

impl WorkReconciler {
    /// Runs one pass, and queues the next one if there is to be one.
    pub async fn pass(&self, name: &Arc<str>) {
        let input = self.shared.lock().take_input(name, &self.applied_works.hub_hash);
        let Some(mut input) = input else { return };
        let (pass_outcome, unapplied) = match self.run(name, &mut input).await {
            Ok(pass_outcome) => (pass_outcome, PendingChanges::default()),
            Err(error) => {
                log_error!(
                    info, &error, work = %name, "the pass over the ManifestWork failed; retrying"
                );
                (PassOutcome { failed: true, ..PassOutcome::default() }, input.pending)
            }
        };
        self.metrics.pass(match (pass_outcome.failed, pass_outcome.changed) {
            (true, _) => "failed",
            (false, true) => "changed",
            (false, false) => "settled",
        });
        let wait = self.shared.lock().end_pass(name, input.last_pass, &unapplied, &pass_outcome);
        if let Some(wait) = wait {
            self.shared.queue.add_at(QueueKey::Work(name.clone()), Instant::now() + wait);
        }
    }

    async fn run(&self, name: &Arc<str>, input: &mut PassInput) -> Result<PassOutcome, PassError> {
        if input.work.deleting {
            let pass_outcome = self.finish_work(&input.work, input.applied.as_deref()).await?;
            if input.applied.is_some() {
                self.watch_end(name, input).await?;
            }
            return Ok(pass_outcome);
        }
        if !input.work.has_finalizer() {
            let Some(work) = self.hub_works.add_finalizer(&input.work).await? else {
                return Ok(PassOutcome::default());
            };
            input.work = work;
        }
        let spec: ManifestWorkSpec = match input.work.spec.read() {
            Ok(spec) => spec,
            Err(error) => {
                let error = PassError::InvalidSpec(error);
                log_error!(warn, &error, work = %name, "cannot apply the ManifestWork");
                return Ok(PassOutcome::default());
            }
        };
        let status: ManifestWorkStatus = input.work.status.read().unwrap_or_default();
        if condition::is_true(&status.conditions, COMPLETE) {
            return self.watch_complete(name, input, &spec, &status).await;
        }
        let applied = self.applied_works.ensure_applied(&input.work, input.applied.take()).await?;
        if applied.is_deleting() {
            // The event of its deletion starts the next pass.
            return Ok(PassOutcome { forced: true, ..PassOutcome::default() });
        }
        input.applied = Some(applied.clone());
        self.apply_all(name, input, spec, &status, &applied).await
    }

    async fn apply_all(
        &self,
        name: &Arc<str>,
        input: &mut PassInput,
        mut spec: ManifestWorkSpec,
        status: &ManifestWorkStatus,
        applied: &AppliedItem,
    ) -> Result<PassOutcome, PassError> {
        let raw = spec.workload.take().unwrap_or_default().manifests;
        if input.last_pass.generation != input.work.generation
            || input.last_pass.outcomes.len() != raw.len()
        {
            input.pending.everything = true;
        }
        let key = QueueKey::Work(name.clone());
        let owner =
            Owner { name: applied.metadata.name.clone(), uid: applied.metadata.uid.clone() };
        let context = ApplyContext {
            spec: &spec,
            status,
            owner: &owner,
            key: &key,
            recorded: &applied.status.applied_resources,
            is_drift: !input.pending.everything,
        };
        let seen = self.apply_pending(&context, in_order(raw), input).await;
        input.last_pass.generation = input.work.generation;
        let outcomes = &input.last_pass.outcomes;
        let recorded = self.record(&key, outcomes, applied, &owner).await;
        let results: Vec<(ManifestResourceMeta, ApplyOutcome)> =
            outcomes.iter().map(|one| (one.meta.clone(), one.applied.clone())).collect();
        let changed = self.hub_works.write_status(&input.work, Some(&results), &seen).await?;
        Ok(PassOutcome::of_manifests(outcomes, recorded, changed, name))
    }

    /// Applies the manifests with pending changes. The outcomes of the others stay. Returns what it
    /// observed, by ordinal.
    async fn apply_pending(
        &self,
        context: &ApplyContext<'_>,
        manifests: OrderedManifests,
        input: &mut PassInput,
    ) -> Vec<(usize, Observation)> {
        let old = std::mem::take(&mut input.last_pass.outcomes);
        let pending = &input.pending;
        let mut outcomes: BTreeMap<usize, ManifestOutcome> = BTreeMap::new();
        let mut seen: Vec<(usize, Observation)> = Vec::new();
        let mut apply_slot = self.apply_slots.acquire().await.ok();
        for (count, (ordinal, parsed)) in manifests.into_iter().enumerate() {
            let before = old.get(ordinal);
            let is_pending =
                pending.everything || pending.ordinals.contains_key(&tracking_ordinal(ordinal));
            if let (Some(before), false) = (before, is_pending) {
                outcomes.insert(ordinal, before.clone());
                continue;
            }
            if count > 0 && count % MANIFESTS_PER_SLOT == 0 {
                drop(apply_slot.take());
                apply_slot = self.apply_slots.acquire().await.ok();
            }
            let (outcome, observation) = match parsed {
                Ok(manifest) => self.applier.apply(context, &manifest, before).await,
                Err(error) => (unparsable(ordinal, &error), Observation::Incomplete),
            };
            outcomes.insert(ordinal, outcome);
            seen.push((ordinal, observation));
        }
        drop(apply_slot);
        let outcomes: Vec<ManifestOutcome> = outcomes.into_values().collect();
        self.shared.lock().unsubscribe_changed(context.key, &old, &outcomes);
        input.last_pass.outcomes = outcomes;
        seen.sort_by_key(|(ordinal, _)| *ordinal);
        seen
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
        let pending = self.remover.remove_all(key, &stale, owner).await?;
        let is_pending = !pending.is_empty();
        let list = applied_resources::record(current, pending);
        if list != applied.status.applied_resources {
            let patch = json!({"appliedResources": applied_resources_patch(&list)});
            self.applied_works.write_applied_status(applied, &patch).await?;
        }
        Ok(is_pending)
    }

    /// Reads the objects of a work that is not applied any more, and keeps watching them.
    async fn read_all(
        &self,
        name: &Arc<str>,
        input: &mut PassInput,
        spec: &ManifestWorkSpec,
        status: &ManifestWorkStatus,
    ) -> Vec<(usize, Observation)> {
        let key = QueueKey::Work(name.clone());
        let mut seen = Vec::new();
        let old = std::mem::take(&mut input.last_pass.outcomes);
        let mut outcomes = Vec::new();
        for (ordinal, manifest) in manifests(status).iter().enumerate() {
            let meta = manifest.resource_meta.clone();
            let read = self.applier.read(&key, spec, ordinal, &meta).await;
            seen.push((ordinal, read.observation));
            outcomes.push(ManifestOutcome {
                meta,
                applied: ApplyOutcome::Complete { note: None },
                uid: read.uid,
                unrecorded: None,
                retry: read.retry,
                object: read.object,
                drift_backoff: DriftBackoff::default(),
            });
        }
        self.shared.lock().unsubscribe_changed(&key, &old, &outcomes);
        input.last_pass.outcomes = outcomes;
        seen
    }

    /// Observes a complete work. It is not applied any more; its objects are still read.
    async fn watch_complete(
        &self,
        name: &Arc<str>,
        input: &mut PassInput,
        spec: &ManifestWorkSpec,
        status: &ManifestWorkStatus,
    ) -> Result<PassOutcome, PassError> {
        let seen = self.read_all(name, input, spec, status).await;
        let changed = self.hub_works.write_status(&input.work, None, &seen).await?;
        // No longer complete: apply it again.
        let is_over = self.shared.lock().works.get(name).is_some_and(|entry| {
            let status: ManifestWorkStatus = entry.work.status.read().unwrap_or_default();
            !condition::is_true(&status.conditions, COMPLETE)
        });
        input.last_pass.generation = 0;
        let failed = input.last_pass.outcomes.iter().any(|one| one.retry == Retry::BackOff);
        Ok(PassOutcome {
            retry_after: is_over.then_some(Duration::ZERO),
            forced: is_over || failed,
            failed,
            changed,
            ..PassOutcome::default()
        })
    }

    /// Finishes a work that is being deleted. Its AppliedManifestWork goes first, with its objects.
    async fn finish_work(
        &self,
        work: &HubWork,
        applied: Option<&AppliedItem>,
    ) -> Result<PassOutcome, PassError> {
        match applied {
            None => self.hub_works.drop_finalizer(work).await?,
            Some(applied) if !applied.is_deleting() => {
                self.hub_works.report_deleting(work).await?;
                let metadata = &applied.metadata;
                self.applied_works.delete(&metadata.name, &metadata.uid).await?;
            }
            // The event of its deletion starts the next pass.
            Some(_) => {}
        }
        Ok(PassOutcome { changed: true, ..PassOutcome::default() })
    }

    /// Reports which objects of a deleted work still exist, once the status says `Deleting`.
    async fn watch_end(&self, name: &Arc<str>, input: &mut PassInput) -> Result<(), PassError> {
        let Some(work) = self.shared.lock().works.get(name).map(|entry| entry.work.clone()) else {
            return Ok(());
        };
        let (Ok(spec), Ok(status)) =
            (work.spec.read::<ManifestWorkSpec>(), work.status.read::<ManifestWorkStatus>())
        else {
            return Ok(());
        };
        let manifests = manifests(&status);
        let mut seen = Vec::new();
        if input.last_pass.outcomes.len() == manifests.len() {
            let key = QueueKey::Work(name.clone());
            for (ordinal, manifest) in manifests.iter().enumerate() {
                if input.pending.ordinals.contains_key(&tracking_ordinal(ordinal)) {
                    let meta = &manifest.resource_meta;
                    let read = self.applier.read(&key, &spec, ordinal, meta).await;
                    seen.push((ordinal, read.observation));
                }
            }
        } else {
            // Another process applied it.
            seen = self.read_all(name, input, &spec, &status).await;
        }
        if !seen.is_empty() {
            self.hub_works.write_status(&work, None, &seen).await?;
        }
        Ok(())
    }
}

/// Parses manifests and sorts them by the order in which they are applied. Invalid ones come last.
fn in_order(raw: Vec<Value>) -> OrderedManifests {
    let parsed = raw.into_iter().enumerate();
    let mut manifests: OrderedManifests =
        parsed.map(|(ordinal, raw)| (ordinal, ParsedManifest::parse(ordinal, raw))).collect();
    manifests
        .sort_by_key(|(_, parsed)| parsed.as_ref().map_or(u16::MAX, |one| apply_order(one.kind())));
    manifests
}

fn unparsable(ordinal: usize, error: &ManifestError) -> ManifestOutcome {
    let meta =
        ManifestResourceMeta { ordinal: api_ordinal(ordinal), ..ManifestResourceMeta::default() };
    ManifestOutcome {
        meta,
        applied: ApplyOutcome::Failed(error.to_string()),
        uid: String::new(),
        unrecorded: Some(error.to_string()),
        // Only a new spec fixes it.
        retry: Retry::Never,
        object: None,
        drift_backoff: DriftBackoff::default(),
    }
}
