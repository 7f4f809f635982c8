//! One manifest: step by step until the cluster has it as it should be, and a look at the result.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tracing::debug;

use super::Agent;
use super::executor::ExecutorError;
use super::items::ObjectVersion;
use super::server::{ApiError, ApiServer, path};
use super::state::{ManifestOutcome, Retry};
use super::tracking::{ObjectKey, QueueKey, tracking_ordinal};
use gitwork_agent_core::apply::{
    ApplyStep, DesiredObject, LiveObject, StepError, is_read_only, next_step,
};
use gitwork_agent_core::drift_backoff::{APPLY_CONFLICT, DriftBackoff, NOT_ALLOWED};
use gitwork_agent_core::manifest::{ParsedManifest, ResourceMapping};
use gitwork_agent_core::object::{Object, meta};
use gitwork_agent_core::observe;
use gitwork_agent_core::owner::{Owner, owner_patch};
use gitwork_agent_core::status::{ApplyOutcome, Observation, is_complete};
use gitwork_agent_core::work::{ManifestOptions, is_addressable, is_owned};
use gitwork_api::secret;
use gitwork_api::work::{
    AppliedManifestResourceMeta, ManifestResourceMeta, ManifestWorkSpec, ManifestWorkStatus,
};

/// More steps than any manifest needs where nobody interferes.
const STEPS_MAX: usize = 8;
/// Waits between tries where somebody else wrote the object in between (upstream: 10 ms, times
/// five).
const CONFLICT_WAITS_MS: [u64; 4] = [0, 10, 50, 250];
/// Rules with expressions run aside, for no longer than this; upstream gives a jq expression a
/// second.
const EXPRESSIONS: Duration = Duration::from_secs(2);

/// What the manifests of one pass share.
pub struct Context<'a> {
    pub spec: &'a ManifestWorkSpec,
    pub status: &'a ManifestWorkStatus,
    pub owner: &'a Owner,
    pub key: &'a QueueKey,
    pub recorded: &'a [AppliedManifestResourceMeta],
    /// Nothing new is asked for: what differs was changed on the cluster.
    pub is_drift: bool,
}

/// Why a manifest is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{0}")]
    Api(#[from] ApiError),
    #[error("{error}{hint}")]
    Forbidden { error: ApiError, hint: String },
    #[error(transparent)]
    Refused(#[from] StepError),
    #[error("{0}")]
    SideApplyConflict(ApiError),
    #[error("{0}")]
    Executor(ExecutorError),
    #[error("an empty namespace may not be set when a resource name is provided")]
    NoNamespace,
    #[error("the expressions of ignoreFields took too long")]
    TooLong,
    #[error("somebody else changes the object as fast as it is applied")]
    Unsettled,
}

impl ApplyError {
    fn applied(&self) -> ApplyOutcome {
        match self {
            Self::Refused(StepError::Ignore(error)) => {
                ApplyOutcome::IgnoreFieldsFailed(error.to_string())
            }
            Self::SideApplyConflict(error) => ApplyOutcome::Failed(error.to_string()),
            other => ApplyOutcome::Failed(other.to_string()),
        }
    }
    fn retry(&self) -> Retry {
        match self {
            Self::Executor(denied) if denied.is_denied() => Retry::After(NOT_ALLOWED),
            Self::SideApplyConflict(_) => Retry::After(APPLY_CONFLICT),
            _ => Retry::BackOff,
        }
    }
}

/// Where the object of a manifest is.
struct Target {
    collection: String,
    path: String,
    mapping: ResourceMapping,
}

/// How far the steps came.
struct Progress {
    /// The object as last seen; `None`: not there, or not looked at.
    live: Option<Object>,
    looked: bool,
    /// Why it could not be looked at.
    unread: String,
    wrote: bool,
}

impl Agent {
    /// Applies one manifest and looks at its object.
    pub async fn apply_one(
        self: &Arc<Self>,
        context: &Context<'_>,
        manifest: &ParsedManifest,
        before: Option<&ManifestOutcome>,
    ) -> (ManifestOutcome, Observation) {
        let mapping =
            self.discovery.mapping(&self.cluster, manifest.group_version(), manifest.kind()).await;
        let Ok(Some(mapping)) = mapping else {
            return (no_mapping(manifest), Observation::Incomplete);
        };
        let resource_meta = manifest.resource_meta(Some(&mapping));
        let options = ManifestOptions::of(context.spec, &resource_meta);
        let object_key = self.object_key(&mapping, &resource_meta);
        let mut fight = before
            .filter(|before| before.object.as_ref() == Some(&object_key))
            .map(|before| before.fight.clone())
            .unwrap_or_default();
        let target = target(&mapping, &resource_meta);
        let mut progress =
            Progress { live: None, looked: false, unread: String::new(), wrote: false };
        let now = self.started.elapsed();
        let hold = if context.is_drift { fight.hold(now) } else { Duration::ZERO };
        let digest = digest(manifest, &options, context);
        let mut retry = Retry::Never;
        let applied = if is_complete(context.status, &resource_meta) {
            ApplyOutcome::Complete { note: None }
        } else if !hold.is_zero() {
            self.metrics.fights.inc();
            retry = Retry::After(hold);
            ApplyOutcome::Complete { note: fight.note(now) }
        } else {
            let steps = Steps {
                agent: self,
                context,
                manifest,
                options: &options,
                target: &target,
                object_key: &object_key,
                digest,
                resource_meta: &resource_meta,
            };
            match steps.run(&mut progress).await {
                Ok(()) => {
                    if context.is_drift && progress.wrote {
                        self.metrics.corrections.inc();
                        fight.corrected(now);
                    }
                    ApplyOutcome::Complete { note: fight.note(now) }
                }
                Err(error) => {
                    retry = error.retry();
                    let mut applied = error.applied();
                    if let ApplyOutcome::Failed(problem)
                    | ApplyOutcome::IgnoreFieldsFailed(problem) = &mut applied
                    {
                        // API servers quote what they refuse, and this goes to the hub.
                        let objects = [Some(&manifest.object), progress.live.as_ref()];
                        secret::hide(problem, objects.into_iter().flatten());
                        debug!(kind = manifest.kind(), name = resource_meta.name, %problem, "not applied");
                    }
                    applied
                }
            }
        };
        if !progress.looked {
            match self.cluster.get(&target.path).await {
                Ok(found) => (progress.live, progress.looked) = (found, true),
                Err(error) => progress.unread = error.to_string(),
            }
        }
        let settled = if applied.is_complete() && hold.is_zero() { digest } else { 0 };
        self.note_object(context.key, manifest.ordinal, &object_key, &options, &progress, settled);
        let seen = self.see(&progress, &options).await;
        let uid =
            progress.live.as_ref().map(|live| meta(live, "uid").to_owned()).unwrap_or_default();
        let unrecorded = (!progress.looked)
            .then(|| format!("cannot read {} {}", mapping.resource, resource_meta.name));
        let outcome = ManifestOutcome {
            meta: resource_meta,
            applied,
            uid,
            unrecorded,
            retry,
            object: Some(object_key),
            fight,
        };
        (outcome, seen)
    }

    /// Looks at an object that is not applied.
    pub async fn look_at(
        self: &Arc<Self>,
        key: &QueueKey,
        place: usize,
        resource_meta: &ManifestResourceMeta,
        options: &ManifestOptions,
    ) -> (Observation, Option<ObjectKey>, String) {
        if !is_addressable(resource_meta) {
            return (Observation::Incomplete, None, String::new());
        }
        let mapping = ResourceMapping {
            group: resource_meta.group.clone(),
            version: resource_meta.version.clone(),
            resource: resource_meta.resource.clone(),
            namespaced: !resource_meta.namespace.is_empty(),
        };
        let object_key = self.object_key(&mapping, resource_meta);
        let found = self.cluster.get(&target(&mapping, resource_meta).path).await;
        let live = match found {
            Ok(live) => live,
            Err(error) => {
                return (Observation::Failed(error.to_string()), Some(object_key), String::new());
            }
        };
        let progress = Progress { live, looked: true, unread: String::new(), wrote: false };
        self.note_object(key, place, &object_key, options, &progress, 0);
        let uid =
            progress.live.as_ref().map(|live| meta(live, "uid").to_owned()).unwrap_or_default();
        (self.see(&progress, options).await, Some(object_key), uid)
    }

    fn object_key(
        &self,
        mapping: &ResourceMapping,
        resource_meta: &ManifestResourceMeta,
    ) -> ObjectKey {
        ObjectKey {
            kind: self.state().tracking.kind(mapping),
            namespace: resource_meta.namespace.as_str().into(),
            name: resource_meta.name.as_str().into(),
        }
    }

    fn note_object(
        &self,
        key: &QueueKey,
        place: usize,
        object: &ObjectKey,
        options: &ManifestOptions,
        progress: &Progress,
        digest: u64,
    ) {
        let facts = progress.live.as_ref().map(ObjectVersion::of_object);
        let wants_all = options.needs_content() || !progress.looked;
        let others = {
            let mut state = self.state();
            state.tracking.subscribe(
                object,
                key,
                tracking_ordinal(place),
                wants_all,
                facts,
                digest,
            );
            if progress.wrote { state.tracking.other_subscribers(object, key) } else { Vec::new() }
        };
        self.shared.notify(others);
    }

    async fn see(&self, progress: &Progress, options: &ManifestOptions) -> Observation {
        let Some(live) = &progress.live else {
            return if progress.looked {
                Observation::Absent
            } else {
                Observation::Failed(progress.unread.clone())
            };
        };
        let raw = self.settings.raw;
        if options.condition_rules.is_empty() {
            return observe(live, options, raw);
        }
        // Expressions are bounded in steps, but not so tightly that other works should wait for
        // them.
        let (live, options) = (live.clone(), options.clone());
        let looking = tokio::task::spawn_blocking(move || observe(&live, &options, raw));
        match timeout(EXPRESSIONS, looking).await {
            Ok(Ok(seen)) => seen,
            _ => Observation::Failed("the condition rules took too long".into()),
        }
    }
}

/// Digest of all that decides what is applied.
fn digest(manifest: &ParsedManifest, options: &ManifestOptions, context: &Context) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (key, value) in &manifest.object {
        key.hash(&mut hasher);
        value.to_string().hash(&mut hasher);
    }
    format!("{:?}", options.update_strategy).hash(&mut hasher);
    context.owner.uid.hash(&mut hasher);
    hasher.finish().max(1)
}

fn target(mapping: &ResourceMapping, resource_meta: &ManifestResourceMeta) -> Target {
    Target {
        collection: path(mapping, &resource_meta.namespace, None),
        path: path(mapping, &resource_meta.namespace, Some(&resource_meta.name)),
        mapping: mapping.clone(),
    }
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
        fight: DriftBackoff::default(),
    }
}

/// The steps of one manifest.
struct Steps<'a> {
    agent: &'a Arc<Agent>,
    context: &'a Context<'a>,
    manifest: &'a ParsedManifest,
    options: &'a ManifestOptions,
    target: &'a Target,
    object_key: &'a ObjectKey,
    resource_meta: &'a ManifestResourceMeta,
    digest: u64,
}

impl Steps<'_> {
    /// Runs until the object is as it should be. An update that loses against another is tried
    /// again.
    async fn run(&self, progress: &mut Progress) -> Result<(), ApplyError> {
        if self.target.mapping.namespaced && self.resource_meta.namespace.is_empty() {
            return Err(ApplyError::NoNamespace);
        }
        let owned = is_owned(self.context.spec, self.resource_meta);
        if let Some(executor) = &self.context.spec.executor {
            self.agent
                .permissions
                .authorize(
                    self.context.key,
                    executor,
                    &self.target.mapping,
                    self.resource_meta,
                    owned,
                    &self.manifest.object,
                )
                .await
                .map_err(ApplyError::Executor)?;
        }
        let mut last = ApplyError::Unsettled;
        for wait in CONFLICT_WAITS_MS {
            sleep(Duration::from_millis(wait)).await;
            match self.settle(progress, owned).await {
                Err(ApplyError::Api(error)) if error.is_conflict() => {
                    progress.looked = false;
                    last = ApplyError::Api(error);
                }
                other => return other,
            }
        }
        Err(last)
    }

    async fn settle(&self, progress: &mut Progress, owned: bool) -> Result<(), ApplyError> {
        let owner = self.context.owner.reference(owned);
        if !progress.looked
            && self.may_exist()
            && !is_read_only(self.options.update_strategy.as_ref())
        {
            self.read(progress).await?;
        }
        for _ in 0..STEPS_MAX {
            let step = self.decide(progress, &owner).await?;
            if self.take(step, progress, &owner).await? {
                return Ok(());
            }
        }
        Err(ApplyError::Unsettled)
    }

    /// Whether to look before creating: the object was there when last heard of, or is recorded.
    fn may_exist(&self) -> bool {
        let known = self.known();
        if known.version.is_some() {
            return true;
        }
        !known.is_absent
            && self.context.recorded.iter().any(|one| {
                one.name == self.resource_meta.name
                    && one.namespace == self.resource_meta.namespace
                    && one.resource == self.resource_meta.resource
                    && one.group == self.resource_meta.group
            })
    }

    fn known(&self) -> super::tracking::LastObserved {
        self.agent.state().tracking.last_observed(
            self.object_key,
            self.context.key,
            tracking_ordinal(self.manifest.ordinal),
        )
    }

    async fn read(&self, progress: &mut Progress) -> Result<(), ApplyError> {
        progress.live = self.server().get(&self.target.path).await?;
        progress.looked = true;
        Ok(())
    }

    fn server(&self) -> &ApiServer {
        &self.agent.cluster
    }

    /// The pure decision; where it runs jq, aside and for a bounded time.
    async fn decide(
        &self,
        progress: &Progress,
        owner: &serde_json::Value,
    ) -> Result<ApplyStep, ApplyError> {
        let known = self.known();
        let facts = progress.live.as_ref().map(ObjectVersion::of_object);
        let content_unchanged = known.applied_digest == self.digest
            && matches!((known.version, facts), (Some(old), Some(new)) if old.generation > 0 && old.generation == new.generation);
        let decide = move |manifest: &Object,
                           options: &ManifestOptions,
                           live: Option<&Object>,
                           looked: bool,
                           owner: &serde_json::Value| {
            let wanted = DesiredObject {
                manifest,
                strategy: options.update_strategy.as_ref(),
                owner,
                content_unchanged,
            };
            let live = match live {
                Some(live) => LiveObject::Found(live),
                None if looked => LiveObject::Absent,
                None => LiveObject::Unseen,
            };
            next_step(&wanted, live)
        };
        let runs_jq =
            self.options.update_strategy.iter().flat_map(|one| &one.server_side_apply).any(
                |apply| apply.ignore_fields.iter().any(|rule| !rule.jq_path_expressions.is_empty()),
            );
        if !runs_jq {
            let live = progress.live.as_ref();
            return Ok(decide(&self.manifest.object, self.options, live, progress.looked, owner)?);
        }
        let (manifest, options, live) =
            (self.manifest.object.clone(), self.options.clone(), progress.live.clone());
        let (looked, owner) = (progress.looked, owner.clone());
        let deciding = tokio::task::spawn_blocking(move || {
            decide(&manifest, &options, live.as_ref(), looked, &owner)
        });
        match timeout(EXPRESSIONS, deciding).await {
            Ok(Ok(step)) => Ok(step?),
            _ => Err(ApplyError::TooLong),
        }
    }

    /// Takes one step. Gives whether it was the last.
    async fn take(
        &self,
        step: ApplyStep,
        progress: &mut Progress,
        owner: &serde_json::Value,
    ) -> Result<bool, ApplyError> {
        let server = self.server();
        match step {
            ApplyStep::Read => {
                self.read(progress).await?;
                Ok(false)
            }
            ApplyStep::Settled => {
                if !progress.looked {
                    self.read(progress).await?;
                }
                Ok(true)
            }
            ApplyStep::Create(object) => self.create(&object, progress).await,
            ApplyStep::Replace(object) => {
                let before =
                    progress.live.as_ref().map(|live| meta(live, "resourceVersion").to_owned());
                let written = server.replace(&self.target.path, &object).await;
                let written = match written {
                    Err(error) if is_immutable(&error) && self.manifest.kind() == "Secret" => {
                        return self.recreate(&object, progress).await;
                    }
                    other => other.map_err(|error| self.explain(error, "update"))?,
                };
                progress.wrote |= before.as_deref() != Some(meta(&written, "resourceVersion"));
                progress.live = Some(written);
                Ok(true)
            }
            ApplyStep::Recreate(object) => self.recreate(&object, progress).await,
            ApplyStep::PatchOwner(patch) => {
                let patched = server.merge_patch(&self.target.path, &patch).await;
                progress.live = Some(patched.map_err(|error| self.explain(error, "patch"))?);
                progress.looked = true;
                progress.wrote = true;
                Ok(true)
            }
            ApplyStep::Apply { object, field_manager, force } => {
                let before = self.known().version.map(|version| version.revision);
                let applied = server.apply(&self.target.path, &object, &field_manager, force).await;
                let mut live = applied.map_err(|error| self.explain_apply(error))?;
                if let Some(patch) = owner_patch(&live, owner) {
                    let patched = server.merge_patch(&self.target.path, &patch).await;
                    live = patched.map_err(|error| self.explain(error, "patch"))?;
                }
                progress.wrote |= before != Some(ObjectVersion::of_object(&live).revision);
                progress.live = Some(live);
                progress.looked = true;
                Ok(true)
            }
        }
    }

    async fn create(&self, object: &Object, progress: &mut Progress) -> Result<bool, ApplyError> {
        match self.server().create(&self.target.collection, object).await {
            Ok(live) => {
                progress.live = Some(live);
                progress.looked = true;
                progress.wrote = true;
                Ok(true)
            }
            Err(error) if error.is_already_exists() => {
                self.read(progress).await?;
                Ok(false)
            }
            Err(error) => {
                if error.is_not_found() {
                    // The namespace is missing, or the kind is not served any more.
                    let mapping = &self.target.mapping;
                    self.agent.discovery.forget(&mapping.group, &mapping.version).await;
                }
                Err(self.explain(error, "create"))
            }
        }
    }

    /// Deletes and creates. An object that does not go at once is waited for by trying again.
    async fn recreate(&self, object: &Object, progress: &mut Progress) -> Result<bool, ApplyError> {
        let uid =
            progress.live.as_ref().map(|live| meta(live, "uid").to_owned()).unwrap_or_default();
        let deleted = self.server().delete(&self.target.path, &uid).await;
        deleted.map_err(|error| self.explain(error, "delete"))?;
        let mut object = object.clone();
        gitwork_agent_core::object::edit_metadata(&mut object, |metadata| {
            for field in ["uid", "resourceVersion", "creationTimestamp"] {
                metadata.remove(field);
            }
        });
        let created = self.server().create(&self.target.collection, &object).await;
        progress.live = Some(created.map_err(|error| self.explain(error, "create"))?);
        progress.wrote = true;
        Ok(true)
    }

    fn explain_apply(&self, error: ApiError) -> ApplyError {
        if error.code() == 409 {
            ApplyError::SideApplyConflict(error)
        } else {
            self.explain(error, "patch")
        }
    }

    /// A refusal for want of permission says which rule is missing.
    fn explain(&self, error: ApiError, verb: &str) -> ApplyError {
        if !error.is_forbidden() || !error.to_string().contains("cannot") {
            return ApplyError::Api(error);
        }
        let ResourceMapping { group, resource, .. } = &self.target.mapping;
        let hint = format!(
            "; a ClusterRole with the label open-cluster-management.io/aggregate-to-work: \"true\" and the rule \
             {{apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [\"{verb}\"]}} would allow it"
        );
        ApplyError::Forbidden { error, hint }
    }
}

fn is_immutable(error: &ApiError) -> bool {
    error.to_string().contains("field is immutable")
}
