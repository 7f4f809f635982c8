//! Permissions of executors: whether a work's ServiceAccount may apply its manifests. The agent
//! only checks this; it writes with its own permissions.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::executor_access::{
    Access, AccessRequest, ExecutorError, Question, ReadRequest, ServiceAccount,
};
use super::items::MetadataItem;
use super::mutex::lock;
use super::resource_path::path;
use super::server::{ApiError, ApiServer};
use super::shared::SharedState;
use super::tracking::QueueKey;
use super::watch::{Follower, follow, revision};
use gitwork_agent_core::manifest::ResourceMapping;
use gitwork_api::work::ManifestResourceMeta;

const RBAC: &str = "rbac.authorization.k8s.io";
const RBAC_RESOURCES: &[&str] = &["roles", "rolebindings", "clusterroles", "clusterrolebindings"];
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// Interval between checks if roles cannot be watched. OCM's agent checks every 4 to 6 minutes.
const UNWATCHED: Duration = Duration::from_secs(300);
/// Roles and bindings usually change several at a time.
const COALESCE: Duration = Duration::from_millis(500);
/// API servers apply a change of roles shortly after its event, and not all at the same time.
const ROLES_APPLIED: Duration = Duration::from_secs(5);

/// Checks permissions of executors. Caches them if asked to, until roles or bindings change.
pub struct ExecutorPermissions {
    cluster: ApiServer,
    shared: Arc<SharedState>,
    is_cached: bool,
    answers: Mutex<AllowedPermissions>,
    /// Works with an executor: checked again when roles or bindings change.
    works: Mutex<HashSet<Arc<str>>>,
    follows: Mutex<Option<JoinSet<()>>>,
}

/// The cached permissions. A denial is not cached, so it ends with its cause.
#[derive(Default)]
struct AllowedPermissions {
    allowed: HashSet<Question>,
    /// Counts invalidations. A response to an earlier request is not cached.
    forgotten: u64,
}

impl AllowedPermissions {
    fn forget(&mut self) {
        self.allowed.clear();
        self.forgotten += 1;
    }
}

impl ExecutorPermissions {
    /// `is_cached`: keep allowed permissions until roles or bindings change.
    pub fn new(cluster: ApiServer, shared: Arc<SharedState>, is_cached: bool) -> Arc<Self> {
        Arc::new(Self {
            cluster,
            shared,
            is_cached,
            answers: Mutex::default(),
            works: Mutex::default(),
            follows: Mutex::default(),
        })
    }

    /// Stops watching roles and bindings.
    pub fn stop(&self) {
        lock(&self.follows).take();
    }
}

impl ExecutorPermissions {
    /// Checks whether the executor of a work may apply one manifest.
    pub async fn authorize(
        self: &Arc<Self>,
        key: &QueueKey,
        request: &AccessRequest<'_>,
    ) -> Result<(), ExecutorError> {
        let account = &ServiceAccount::of(request.executor).map_err(|error| *error)?;
        self.follow_roles(key);
        let mapping = request.mapping;
        if let Some(verb) = self.denied_verb(account, request).await? {
            let need = format!(
                "a role with the rule {{apiGroups: [\"{}\"], resources: [\"{}\"], \
                 verbs: [\"{verb}\"]}}",
                mapping.group, mapping.resource
            );
            return Err(request.denied(account, "", need));
        }
        if mapping.group == RBAC && RBAC_RESOURCES.contains(&mapping.resource.as_str()) {
            self.check_escalation(account, request).await?;
        }
        Ok(())
    }

    /// Checks whether the executor of a work may read an object, for the status of the work.
    pub async fn authorize_read(
        self: &Arc<Self>,
        key: &QueueKey,
        request: &ReadRequest<'_>,
    ) -> Result<(), ExecutorError> {
        let account = &ServiceAccount::of(request.executor).map_err(|error| *error)?;
        self.follow_roles(key);
        let ReadRequest { mapping, meta, .. } = *request;
        let question = Question::read(account, mapping, meta);
        let Some(forgotten) = self.not_cached(&question) else { return Ok(()) };
        if !self.is_allowed(account, mapping, meta, "get").await? {
            return Err(request.denied(account));
        }
        self.cache(question, forgotten);
        Ok(())
    }

    /// `None` if the permission is cached; otherwise the number of invalidations so far.
    fn not_cached(&self, question: &Question) -> Option<u64> {
        let answers = lock(&self.answers);
        let is_known = self.is_cached && answers.allowed.contains(question);
        (!is_known).then_some(answers.forgotten)
    }

    fn cache(&self, question: Question, forgotten: u64) {
        let mut answers = lock(&self.answers);
        if self.is_cached && answers.forgotten == forgotten {
            answers.allowed.insert(question);
        }
    }

    async fn denied_verb(
        &self,
        account: &ServiceAccount,
        request: &AccessRequest<'_>,
    ) -> Result<Option<&'static str>, ApiError> {
        let AccessRequest { mapping, meta, owned, .. } = *request;
        let access = if owned { Access::ApplyAndDelete } else { Access::Apply };
        let question = Question { access, ..Question::read(account, mapping, meta) };
        let Some(forgotten) = self.not_cached(&question) else { return Ok(None) };
        let verbs =
            ["create", "update", "patch", "get"].into_iter().chain(owned.then_some("delete"));
        for verb in verbs {
            if !self.is_allowed(account, mapping, meta, verb).await? {
                return Ok(Some(verb));
            }
        }
        self.cache(question, forgotten);
        Ok(None)
    }

    async fn is_allowed(
        &self,
        account: &ServiceAccount,
        mapping: &ResourceMapping,
        meta: &ManifestResourceMeta,
        verb: &str,
    ) -> Result<bool, ApiError> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": account.user(),
                "groups": [
                    "system:serviceaccounts",
                    "system:authenticated",
                    format!("system:serviceaccounts:{}", account.namespace),
                ],
                "resourceAttributes": {
                    "group": mapping.group,
                    "version": mapping.version,
                    "resource": mapping.resource,
                    "namespace": meta.namespace,
                    "name": meta.name,
                    "verb": verb,
                },
            },
        });
        let answer = self.cluster.review(REVIEWS, &review).await?;
        Ok(answer.pointer("/status/allowed").and_then(Value::as_bool).unwrap_or(false))
    }

    /// Whether the executor could write this role or binding itself: the API server checks
    /// escalation before it checks whether the object exists.
    async fn check_escalation(
        &self,
        account: &ServiceAccount,
        request: &AccessRequest<'_>,
    ) -> Result<(), ExecutorError> {
        let collection = path(request.mapping, &request.meta.namespace, None);
        let user = account.user();
        match self.cluster.dry_run_create_as(&collection, request.object, &user).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_already_exists() => Ok(()),
            Err(error) if error.is_forbidden() => {
                let need = "all that the role grants itself, or the verb \"escalate\" \
                            (for a binding: \"bind\")";
                let detail = ", error: permission escalation";
                Err(request.denied(account, detail, need.into()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Follows roles and bindings from the first executor on.
    fn follow_roles(self: &Arc<Self>, key: &QueueKey) {
        if let QueueKey::Work(name) = key {
            lock(&self.works).insert(name.clone());
        }
        let mut follows = lock(&self.follows);
        if follows.is_some() {
            return;
        }
        let mut all = JoinSet::new();
        let changed = Arc::new(tokio::sync::Notify::new());
        for resource in RBAC_RESOURCES {
            let mapping = ResourceMapping {
                group: RBAC.into(),
                version: "v1".into(),
                resource: (*resource).into(),
                namespaced: false,
            };
            let permissions = self.clone();
            let changed = changed.clone();
            all.spawn(async move {
                let mut follower = Roles { changed, latest: 0 };
                follow(&permissions.cluster, &path(&mapping, "", None), true, &mut follower).await;
            });
        }
        let permissions = self.clone();
        all.spawn(async move {
            loop {
                changed.notified().await;
                tokio::time::sleep(COALESCE).await;
                permissions.recheck();
                while tokio::time::timeout(ROLES_APPLIED, changed.notified()).await.is_ok() {
                    tokio::time::sleep(COALESCE).await;
                    permissions.recheck();
                }
                permissions.recheck();
            }
        });
        *follows = Some(all);
    }

    fn recheck(&self) {
        lock(&self.answers).forget();
        let mut works = lock(&self.works);
        for gone in self.shared.apply_again(works.iter().cloned()) {
            works.remove(&gone);
        }
    }
}

/// Roles or bindings: any change counts.
struct Roles {
    changed: Arc<tokio::sync::Notify>,
    latest: u64,
}

impl Follower for Roles {
    type Item = MetadataItem;
    fn list_started(&mut self) {}
    fn present(&mut self, item: MetadataItem) {
        let at = revision(&item.metadata.resource_version);
        if at > self.latest {
            self.changed.notify_one();
        }
        self.latest = self.latest.max(at);
    }
    fn gone(&mut self, _item: MetadataItem) {
        self.changed.notify_one();
    }
    fn list_ended(&mut self, revision: u64) {
        self.latest = self.latest.max(revision);
        // Also after the first list: the first questions are asked before anything is followed.
        self.changed.notify_one();
    }
    fn failed(&mut self, error: &ApiError) -> Duration {
        if !error.is_forbidden() {
            return Duration::ZERO;
        }
        self.changed.notify_one();
        UNWATCHED
    }
}
