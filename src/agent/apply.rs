//! Applies one manifest, observes its object, and tracks the object from then on.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use gitwork_agent_core::drift_backoff::DriftBackoff;
use gitwork_agent_core::manifest::{ParsedManifest, ResourceMapping};
use gitwork_agent_core::status::{ApplyOutcome, Observation, is_complete};
use gitwork_agent_core::work::{ManifestOptions, is_addressable};
use gitwork_agent_core::{ReportSettings, observe};
use gitwork_api::secret;
use gitwork_api::work::{ManifestResourceMeta, ManifestWorkSpec};
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::apply_error::ApplyError;
use super::executor_access::ReadRequest;
use super::metrics::AgentMetrics;
use super::resource_path::path;
use super::state::{ManifestOutcome, Retry};
use super::steps::{ApplyContext, ClusterAccess, EXPRESSIONS, ObjectTarget, Progress, Steps};
use super::tracking::{ObjectKey, ObservedState, QueueKey, Subscription, tracking_ordinal};

/// Applies manifests and observes their objects.
pub struct ManifestApplier {
    /// The managed cluster.
    pub cluster: ClusterAccess,
    /// What the status on the hub may say.
    pub report: ReportSettings,
    /// Whether the status reports on objects that the work's executor may not read.
    pub reports_without_executor: bool,
    /// Counts corrections and delayed corrections.
    pub metrics: Arc<AgentMetrics>,
    /// When the agent started. The times of corrections count from here.
    pub started: Instant,
}

/// One attempt to apply a manifest.
struct Attempt {
    outcome: ApplyOutcome,
    retry: Retry,
    /// See [`Subscription::applied_digest`].
    applied_digest: u64,
}

/// An object that was read without being applied.
pub struct ObservedObject {
    /// What the status needs of it.
    pub observation: Observation,
    /// Its key in the tracking, if it can be read at all.
    pub object: Option<ObjectKey>,
    /// Its uid; empty if it does not exist.
    pub uid: String,
    /// When to read it again although nothing has changed: it could not be read.
    pub retry: Retry,
}

impl ManifestApplier {
    /// Applies one manifest and observes its object. `before`: the outcome of the last pass.
    pub async fn apply(
        &self,
        context: &ApplyContext<'_>,
        manifest: &ParsedManifest,
        before: Option<&ManifestOutcome>,
    ) -> (ManifestOutcome, Observation) {
        let ClusterAccess { server, discovery, .. } = &self.cluster;
        let found = discovery.mapping(server, manifest.group_version(), manifest.kind()).await;
        let Ok(Some(mapping)) = found else {
            return (no_mapping(manifest), Observation::Incomplete);
        };
        let meta = manifest.resource_meta(Some(&mapping));
        let target = self.target(mapping, &meta);
        let options = ManifestOptions::of(context.spec, &meta);
        let mut drift_backoff = before
            .filter(|before| before.object.as_ref() == Some(&target.object))
            .map(|before| before.drift_backoff.clone())
            .unwrap_or_default();
        let steps = Steps {
            cluster: &self.cluster,
            context,
            manifest,
            options: &options,
            target: &target,
            meta: &meta,
            digest: digest(manifest, &options, context),
        };
        steps.subscribe();
        let mut progress = Progress::default();
        let attempt = self.attempt(&steps, &mut drift_backoff, &mut progress).await;
        self.read_for_status(context.key, context.spec, &meta, &target, &mut progress).await;
        let subscription = Subscription {
            key: context.key.clone(),
            ordinal: tracking_ordinal(manifest.ordinal),
            wants_all: options.needs_content() || !progress.is_read,
            applied_digest: attempt.applied_digest,
        };
        self.track_object(&target.object, &progress, subscription);
        let observation = self.observe_object(&progress, &options).await;
        let resource = &target.mapping.resource;
        let unrecorded =
            (!progress.is_read).then(|| format!("cannot read {resource} {}", meta.name));
        let retry = match attempt.retry {
            Retry::Never => progress.retry(),
            retry => retry,
        };
        let outcome = ManifestOutcome {
            meta,
            applied: attempt.outcome,
            uid: progress.uid(),
            unrecorded,
            retry,
            object: Some(target.object),
            drift_backoff,
        };
        (outcome, observation)
    }

    /// Runs the steps, unless the manifest is complete or another client keeps changing its object.
    async fn attempt(
        &self,
        steps: &Steps<'_>,
        drift_backoff: &mut DriftBackoff,
        progress: &mut Progress,
    ) -> Attempt {
        let is_drift = steps.context.is_drift;
        let now = self.started.elapsed();
        let delay = if is_drift { drift_backoff.delay(now) } else { Duration::ZERO };
        let applied_digest = if delay.is_zero() { steps.digest } else { 0 };
        if is_complete(steps.context.status, steps.meta) {
            let outcome = ApplyOutcome::Complete { note: None };
            return Attempt { outcome, retry: Retry::Never, applied_digest };
        }
        if !delay.is_zero() {
            self.metrics.drift_backoffs.inc();
            let outcome = ApplyOutcome::Complete { note: drift_backoff.note(now) };
            return Attempt { outcome, retry: Retry::After(delay), applied_digest };
        }
        if let Err(error) = steps.run(progress).await {
            let outcome = failed(&error, steps, progress);
            return Attempt { outcome, retry: error.retry(), applied_digest: 0 };
        }
        if is_drift && progress.wrote {
            self.metrics.corrections.inc();
            drift_backoff.corrected(now);
        }
        let outcome = ApplyOutcome::Complete { note: drift_backoff.note(now) };
        Attempt { outcome, retry: Retry::Never, applied_digest }
    }

    /// Reads and tracks an object that is not applied.
    pub async fn read(
        &self,
        key: &QueueKey,
        spec: &ManifestWorkSpec,
        ordinal: usize,
        meta: &ManifestResourceMeta,
    ) -> ObservedObject {
        if !is_addressable(meta) {
            let (observation, uid) = (Observation::Incomplete, String::new());
            return ObservedObject { observation, object: None, uid, retry: Retry::Never };
        }
        let options = &ManifestOptions::of(spec, meta);
        let mapping = ResourceMapping {
            group: meta.group.clone(),
            version: meta.version.clone(),
            resource: meta.resource.clone(),
            namespaced: !meta.namespace.is_empty(),
        };
        let target = self.target(mapping, meta);
        let subscription = Subscription {
            key: key.clone(),
            ordinal: tracking_ordinal(ordinal),
            wants_all: options.needs_content(),
            applied_digest: 0,
        };
        {
            let mut state = self.cluster.shared.lock();
            let unknown = || ObservedState::Unknown;
            state.tracking.subscribe_before(&target.object, unknown, subscription.clone());
        }
        let mut progress = Progress::default();
        self.read_for_status(key, spec, meta, &target, &mut progress).await;
        if progress.is_read {
            self.track_object(&target.object, &progress, subscription);
        }
        let observation = self.observe_object(&progress, options).await;
        let (uid, retry) = (progress.uid(), progress.retry());
        ObservedObject { observation, object: Some(target.object), uid, retry }
    }

    /// Reads an object for the status, unless a step has read it. If the work's executor may not
    /// read it, only its metadata is read, which the AppliedManifestWork needs: without a uid the
    /// object would count as gone, and its deletion would be lost.
    async fn read_for_status(
        &self,
        key: &QueueKey,
        spec: &ManifestWorkSpec,
        meta: &ManifestResourceMeta,
        target: &ObjectTarget,
        progress: &mut Progress,
    ) {
        let ClusterAccess { server, permissions, .. } = &self.cluster;
        if let Some(executor) = &spec.executor
            && !progress.may_be_read
            && !self.reports_without_executor
        {
            let request = ReadRequest { executor, mapping: &target.mapping, meta };
            if let Err(error) = permissions.authorize_read(key, &request).await {
                progress.withheld = Some(error.to_string());
                progress.record_read(server.get_metadata(&target.path).await);
                return;
            }
        }
        if !progress.is_read {
            progress.record_read(server.get(&target.path).await);
        }
    }

    fn target(&self, mapping: ResourceMapping, meta: &ManifestResourceMeta) -> ObjectTarget {
        let object = ObjectKey {
            kind: self.cluster.shared.lock().tracking.kind(&mapping),
            namespace: meta.namespace.as_str().into(),
            name: meta.name.as_str().into(),
        };
        ObjectTarget {
            collection: path(&mapping, &meta.namespace, None),
            path: path(&mapping, &meta.namespace, Some(&meta.name)),
            mapping,
            object,
        }
    }

    /// Tracks an object. After a write, the other works that have the object run a pass.
    fn track_object(&self, object: &ObjectKey, progress: &Progress, subscription: Subscription) {
        let observed = progress.observed_state();
        let others = {
            let mut state = self.cluster.shared.lock();
            let others =
                progress.wrote.then(|| state.tracking.other_subscribers(object, &subscription.key));
            state.tracking.subscribe(object, observed, subscription);
            others.unwrap_or_default()
        };
        self.cluster.shared.notify(others);
    }

    async fn observe_object(&self, progress: &Progress, options: &ManifestOptions) -> Observation {
        if let Some(reason) = &progress.withheld {
            return Observation::Failed(reason.clone());
        }
        let Some(live) = &progress.live else {
            return if progress.is_read {
                Observation::Absent
            } else {
                Observation::Failed(progress.unread.clone())
            };
        };
        let report = self.report;
        if options.condition_rules.is_empty() {
            return observe(live, options, report);
        }
        // Expressions are bounded in steps, but not so tightly that other works could wait for
        // them.
        let (live, options) = (live.clone(), options.clone());
        let observing = tokio::task::spawn_blocking(move || observe(&live, &options, report));
        match timeout(EXPRESSIONS, observing).await {
            Ok(Ok(observation)) => observation,
            _ => Observation::Failed("the condition rules took too long".into()),
        }
    }
}

/// The outcome of a failure, without values of Secrets: API servers quote what they reject, and
/// this goes to the hub.
fn failed(error: &ApplyError, steps: &Steps<'_>, progress: &Progress) -> ApplyOutcome {
    let mut outcome = error.outcome();
    let (ApplyOutcome::Failed(problem) | ApplyOutcome::IgnoreFieldsFailed(problem)) = &mut outcome
    else {
        return outcome;
    };
    let objects = [Some(&steps.manifest.object), progress.live.as_ref()];
    secret::hide(problem, objects.into_iter().flatten());
    let (kind, name) = (steps.manifest.kind(), &steps.meta.name);
    debug!(kind, name, %problem, "not applied");
    outcome
}

/// Digest of all that decides what is applied; never 0.
fn digest(manifest: &ParsedManifest, options: &ManifestOptions, context: &ApplyContext) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (key, value) in &manifest.object {
        key.hash(&mut hasher);
        value.to_string().hash(&mut hasher);
    }
    format!("{:?}", options.update_strategy).hash(&mut hasher);
    context.owner.uid.hash(&mut hasher);
    hasher.finish().max(1)
}

fn no_mapping(manifest: &ParsedManifest) -> ManifestOutcome {
    let error = format!("the server doesn't have a resource type \"{}\"", manifest.kind());
    ManifestOutcome {
        meta: manifest.resource_meta(None),
        applied: ApplyOutcome::Failed(error.clone()),
        uid: String::new(),
        unrecorded: Some(error),
        retry: Retry::BackOff,
        object: None,
        drift_backoff: DriftBackoff::default(),
    }
}
