//! The steps of one manifest, until the cluster has its object as desired.

use std::sync::Arc;
use std::time::Duration;

use gitwork_agent_core::apply::{
    ApplyStep, DesiredObject, LiveObject, StepError, is_read_only, next_step,
};
use gitwork_agent_core::manifest::{ParsedManifest, ResourceMapping};
use gitwork_agent_core::object::{Object, edit_metadata, meta};
use gitwork_agent_core::owner::{Owner, owner_patch};
use gitwork_agent_core::work::{ManifestOptions, is_owned};
use gitwork_api::work::{
    AppliedManifestResourceMeta, ManifestResourceMeta, ManifestWorkSpec, ManifestWorkStatus,
};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::apply_error::ApplyError;
use super::deletion::DeletionTarget;
use super::discovery::Discovery;
use super::executor::ExecutorPermissions;
use super::executor_access::AccessRequest;
use super::items::ObjectVersion;
use super::server::{ApiError, ApiServer};
use super::shared::SharedState;
use super::state::Retry;
use super::tracking::{
    LastObserved, ObjectKey, ObservedState, QueueKey, Subscription, tracking_ordinal,
};

/// More steps than any manifest needs if no other client interferes.
const STEPS_MAX: usize = 8;
/// Waits before the tries of an update that other clients overtake (upstream: 10 ms, times five).
const CONFLICT_WAITS_MS: [u64; 4] = [0, 10, 50, 250];
/// Time limit of expressions, which run on a thread of their own. Upstream gives a jq expression
/// 1 s.
pub const EXPRESSIONS: Duration = Duration::from_secs(2);
/// The fields of a Secret that cannot be changed in place: its type, and the rest if it says
/// `immutable: true`. As library-go, the agent deletes and creates it.
const SECRET_IMMUTABLE: &[&str] = &["type", "data", "immutable"];

/// What the steps need of the managed cluster.
pub struct ClusterAccess {
    /// The managed cluster.
    pub server: ApiServer,
    /// The resources of its kinds.
    pub discovery: Discovery,
    /// What the executors of works may do on it.
    pub permissions: Arc<ExecutorPermissions>,
    /// The tracked objects, among others.
    pub shared: Arc<SharedState>,
}

/// What the manifests of one pass share.
pub struct ApplyContext<'a> {
    /// The work's spec; its manifests may be left out.
    pub spec: &'a ManifestWorkSpec,
    /// The work's status before the pass.
    pub status: &'a ManifestWorkStatus,
    /// The AppliedManifestWork, which owns the objects.
    pub owner: &'a Owner,
    /// The work.
    pub key: &'a QueueKey,
    /// The objects that the AppliedManifestWork records.
    pub recorded: &'a [AppliedManifestResourceMeta],
    /// The work is unchanged: another client changed what differs.
    pub is_drift: bool,
}

/// Where the object of a manifest is.
pub struct ObjectTarget {
    /// The path of its collection.
    pub collection: String,
    /// Its own path.
    pub path: String,
    /// Its resource.
    pub mapping: ResourceMapping,
    /// Its key in the tracking.
    pub object: ObjectKey,
}

/// How far the steps came.
#[derive(Default)]
pub struct Progress {
    /// The object as last seen; `None`: it does not exist, or is not read yet.
    pub live: Option<Object>,
    /// Whether the object was read, or a write returned it.
    pub is_read: bool,
    /// Why it could not be read.
    pub unread: String,
    /// Whether a write changed it.
    pub wrote: bool,
    /// Whether the executor may read the object, as far as it was asked.
    pub may_be_read: bool,
    /// Why the status says nothing about the object: the executor may not read it. Only metadata
    /// was read then, which stays on the cluster.
    pub withheld: Option<String>,
}

impl Progress {
    /// Records the result of a read. After a failure, the object stays as last seen.
    pub fn record_read(&mut self, found: Result<Option<Object>, ApiError>) {
        match found {
            Ok(live) => (self.live, self.is_read) = (live, true),
            Err(error) => self.unread = error.to_string(),
        }
    }

    /// What the tracking stores of the object.
    pub fn observed_state(&self) -> ObservedState {
        if self.live.is_none() && !self.is_read {
            return ObservedState::Unknown;
        }
        ObservedState::of_read(self.live.as_ref())
    }

    /// When to read the object again although nothing has changed.
    pub fn retry(&self) -> Retry {
        if self.is_read { Retry::Never } else { Retry::BackOff }
    }

    /// The uid of the object; empty if there is none.
    pub fn uid(&self) -> String {
        self.live.as_ref().map(|live| meta(live, "uid").to_owned()).unwrap_or_default()
    }

    /// The object is as desired after this write.
    fn written(&mut self, live: Object, is_change: bool) -> bool {
        self.wrote |= is_change;
        (self.live, self.is_read) = (Some(live), true);
        true
    }
}

/// One manifest, and all that decides how it is applied.
pub struct Steps<'a> {
    /// The managed cluster.
    pub cluster: &'a ClusterAccess,
    /// What it shares with the other manifests of the pass.
    pub context: &'a ApplyContext<'a>,
    /// The manifest.
    pub manifest: &'a ParsedManifest,
    /// Its options in the work's spec.
    pub options: &'a ManifestOptions,
    /// Where its object is.
    pub target: &'a ObjectTarget,
    /// What the status names it by.
    pub meta: &'a ManifestResourceMeta,
    /// Digest of all that decides what is applied; never 0.
    pub digest: u64,
}

impl Steps<'_> {
    /// Runs until the object is as desired. Tries again if another client overtakes an update.
    pub async fn run(&self, progress: &mut Progress) -> Result<(), ApplyError> {
        let mapping = &self.target.mapping;
        if mapping.namespaced && self.meta.namespace.is_empty() {
            return Err(ApplyError::NoNamespace);
        }
        let owned = is_owned(self.context.spec, self.meta);
        if let Some(executor) = &self.context.spec.executor {
            let (meta, object) = (self.meta, &self.manifest.object);
            let request = AccessRequest { executor, mapping, meta, owned, object };
            let permissions = &self.cluster.permissions;
            permissions
                .authorize(self.context.key, &request)
                .await
                .map_err(ApplyError::Executor)?;
            progress.may_be_read = true;
        }
        let mut last = ApplyError::NotConverged;
        for wait in CONFLICT_WAITS_MS {
            sleep(Duration::from_millis(wait)).await;
            match self.converge(progress, owned).await {
                Err(ApplyError::Api(error)) if error.is_conflict() => {
                    progress.is_read = false;
                    last = ApplyError::Api(error);
                }
                other => return other,
            }
        }
        Err(last)
    }

    /// Takes steps until the object is as desired, at most [`STEPS_MAX`].
    async fn converge(&self, progress: &mut Progress, owned: bool) -> Result<(), ApplyError> {
        let owner = self.context.owner.reference(owned);
        if !progress.is_read
            && self.may_exist()
            && !is_read_only(self.options.update_strategy.as_ref())
        {
            self.read(progress).await?;
        }
        for _ in 0..STEPS_MAX {
            let step = self.decide(progress, &owner).await?;
            if self.perform(step, progress, &owner).await? {
                return Ok(());
            }
        }
        Err(ApplyError::NotConverged)
    }

    /// Subscribes the manifest to its object, before the first request for it.
    pub fn subscribe(&self) {
        let subscription = Subscription {
            key: self.context.key.clone(),
            ordinal: tracking_ordinal(self.manifest.ordinal),
            wants_all: self.options.needs_content(),
            applied_digest: 0,
        };
        let assumed = || assumed_state(self.is_recorded());
        let mut state = self.cluster.shared.lock();
        state.tracking.subscribe_before(&self.target.object, assumed, subscription);
    }

    fn is_recorded(&self) -> bool {
        self.context.recorded.iter().any(|one| {
            one.name == self.meta.name
                && one.namespace == self.meta.namespace
                && one.resource == self.meta.resource
                && one.group == self.meta.group
        })
    }

    /// Whether the object may exist, so that it is read before it is created.
    fn may_exist(&self) -> bool {
        self.last_observed().is_none_or(|last| last.state != ObservedState::Absent)
    }

    fn last_observed(&self) -> Option<LastObserved> {
        let ordinal = tracking_ordinal(self.manifest.ordinal);
        let state = self.cluster.shared.lock();
        state.tracking.last_observed(&self.target.object, self.context.key, ordinal)
    }

    async fn read(&self, progress: &mut Progress) -> Result<(), ApplyError> {
        progress.live = self.cluster.server.get(&self.target.path).await?;
        progress.is_read = true;
        Ok(())
    }

    /// Makes the pure decision. If it runs jq: on another thread and for a bounded time.
    async fn decide(&self, progress: &Progress, owner: &Value) -> Result<ApplyStep, ApplyError> {
        let version = progress.live.as_ref().map(ObjectVersion::of_object);
        let is_same_generation = |(old, new): (ObjectVersion, ObjectVersion)| {
            old.generation > 0 && old.generation == new.generation
        };
        let content_unchanged = self.last_observed().is_some_and(|last| {
            last.applied_digest == self.digest
                && last.state.version().zip(version).is_some_and(is_same_generation)
        });
        let rules = self.options.update_strategy.iter().flat_map(|one| &one.server_side_apply);
        let runs_jq = rules
            .flat_map(|apply| &apply.ignore_fields)
            .any(|rule| !rule.jq_path_expressions.is_empty());
        if !runs_jq {
            let decision = Decision {
                manifest: &self.manifest.object,
                options: self.options,
                live: progress.live.as_ref(),
                is_read: progress.is_read,
                content_unchanged,
            };
            return Ok(decision.step(owner)?);
        }
        let (manifest, options) = (self.manifest.object.clone(), self.options.clone());
        let (live, is_read) = (progress.live.clone(), progress.is_read);
        let owner = owner.clone();
        let deciding = tokio::task::spawn_blocking(move || {
            let (manifest, options, live) = (&manifest, &options, live.as_ref());
            Decision { manifest, options, live, is_read, content_unchanged }.step(&owner)
        });
        match timeout(EXPRESSIONS, deciding).await {
            Ok(Ok(step)) => Ok(step?),
            _ => Err(ApplyError::TooLong),
        }
    }

    /// Performs one step. Returns whether it was the last.
    async fn perform(
        &self,
        step: ApplyStep,
        progress: &mut Progress,
        owner: &Value,
    ) -> Result<bool, ApplyError> {
        match step {
            ApplyStep::Read => {
                self.read(progress).await?;
                Ok(false)
            }
            ApplyStep::UpToDate => {
                if !progress.is_read {
                    self.read(progress).await?;
                }
                Ok(true)
            }
            ApplyStep::Create(object) => self.create(&object, progress).await,
            ApplyStep::Replace(object) => self.replace(&object, progress).await,
            ApplyStep::Recreate(object) => self.recreate(&object, progress).await,
            ApplyStep::PatchOwner(patch) => {
                let live = self.patch(&patch).await?;
                Ok(progress.written(live, true))
            }
            ApplyStep::Apply { object, field_manager, force } => {
                let last = self.last_observed().and_then(|last| last.state.version());
                let before = last.map(|version| version.revision);
                let (server, path) = (&self.cluster.server, &self.target.path);
                let applied = server.apply(path, &object, &field_manager, force).await;
                let of_apply = |error| ApplyError::of_apply(error, &self.target.mapping);
                let mut live = applied.map_err(of_apply)?;
                if let Some(patch) = owner_patch(&live, owner) {
                    live = self.patch(&patch).await?;
                }
                let is_change = before != Some(ObjectVersion::of_object(&live).revision);
                Ok(progress.written(live, is_change))
            }
        }
    }

    async fn patch(&self, patch: &Value) -> Result<Object, ApplyError> {
        let patched = self.cluster.server.merge_patch(&self.target.path, patch).await;
        patched.map_err(|error| self.of_write(error))
    }

    async fn create(&self, object: &Object, progress: &mut Progress) -> Result<bool, ApplyError> {
        match self.cluster.server.create(&self.target.collection, object).await {
            Ok(live) => Ok(progress.written(live, true)),
            Err(error) if error.is_already_exists() => {
                self.read(progress).await?;
                Ok(false)
            }
            Err(error) => {
                if error.is_not_found() {
                    // The namespace is missing, or the kind is not served any more.
                    let ResourceMapping { group, version, .. } = &self.target.mapping;
                    self.cluster.discovery.forget(group, version);
                }
                Err(self.of_write(error))
            }
        }
    }

    async fn replace(&self, object: &Object, progress: &mut Progress) -> Result<bool, ApplyError> {
        let version = |object: &Object| meta(object, "resourceVersion").to_owned();
        let before = progress.live.as_ref().map(version);
        let is_secret = self.manifest.kind() == "Secret";
        match self.cluster.server.replace(&self.target.path, object).await {
            Ok(live) => {
                let is_change = before != Some(version(&live));
                Ok(progress.written(live, is_change))
            }
            Err(ApiError::Status(status)) if is_secret && status.is_immutable(SECRET_IMMUTABLE) => {
                self.recreate(object, progress).await
            }
            Err(error) => Err(self.of_write(error)),
        }
    }

    /// Deletes and creates. If the object still exists then, the create fails and is tried again.
    async fn recreate(&self, object: &Object, progress: &mut Progress) -> Result<bool, ApplyError> {
        let uid = progress.uid();
        let target = DeletionTarget::uid(&uid);
        let deleted = self.cluster.server.delete(&self.target.path, &target).await;
        deleted.map_err(|error| self.of_write(error))?;
        let mut object = object.clone();
        edit_metadata(&mut object, |metadata| {
            for field in ["uid", "resourceVersion", "creationTimestamp"] {
                metadata.remove(field);
            }
        });
        let created = self.cluster.server.create(&self.target.collection, &object).await;
        progress.live = Some(created.map_err(|error| self.of_write(error))?);
        progress.wrote = true;
        Ok(true)
    }

    fn of_write(&self, error: ApiError) -> ApplyError {
        ApplyError::of_write(error, &self.target.mapping)
    }
}

/// The arguments of one decision.
struct Decision<'a> {
    manifest: &'a Object,
    options: &'a ManifestOptions,
    live: Option<&'a Object>,
    is_read: bool,
    content_unchanged: bool,
}

impl Decision<'_> {
    fn step(&self, owner: &Value) -> Result<ApplyStep, StepError> {
        let desired = DesiredObject {
            manifest: self.manifest,
            strategy: self.options.update_strategy.as_ref(),
            owner,
            content_unchanged: self.content_unchanged,
        };
        let live = match self.live {
            Some(live) => LiveObject::Found(live),
            None if self.is_read => LiveObject::Absent,
            None => LiveObject::Unseen,
        };
        next_step(&desired, live)
    }
}

/// The state of an object that is not tracked yet. `is_recorded`: the AppliedManifestWork lists it.
fn assumed_state(is_recorded: bool) -> ObservedState {
    if is_recorded { ObservedState::Unknown } else { ObservedState::Absent }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_that_is_recorded_is_not_assumed_to_be_absent() {
        assert_eq!(assumed_state(true), ObservedState::Unknown);
        assert_eq!(assumed_state(false), ObservedState::Absent);
    }
}
