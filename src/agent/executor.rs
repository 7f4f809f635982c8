//! The executor of a work: whether its ServiceAccount may do what the work asks for. It is only asked; the agent
//! writes as itself.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::core::manifest::Mapping;
use super::core::object::Object;
use super::core::work::{Executor, ResourceMeta, ServiceAccount};
use super::items::MetadataItem;
use super::server::{ApiError, path};
use super::tracking::Key;
use super::watch::{Follower, follow, revision};
use super::{Agent, lock};

const RBAC: &str = "rbac.authorization.k8s.io";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// Where roles cannot be watched: upstream asks anew with each pass, every 4 to 6 minutes.
const UNWATCHED: Duration = Duration::from_secs(300);
/// Roles and bindings usually change several at a time.
const COALESCE: Duration = Duration::from_millis(500);
/// API servers take a change of roles over a moment after they have told of it, and not all at once.
const TAKEN_OVER: Duration = Duration::from_secs(5);

/// Why an executor's work is not done.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    #[error(
        "not allowed to apply the resource {group} {resource}, {namespace} {name}{detail}, will try again in 1m0s; \
         {account} needs {need}"
    )]
    NotAllowed {
        group: String,
        resource: String,
        namespace: String,
        name: String,
        detail: &'static str,
        account: String,
        need: String,
    },
    #[error("only support ServiceAccount type for the executor")]
    Kind,
    #[error("the executor service account is nil")]
    NoAccount,
    #[error("{0}")]
    Api(#[from] ApiError),
}

impl Denied {
    /// Whether the answer was no, rather than none.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::NotAllowed { .. })
    }
}

/// What was asked: who, for what, and whether it may be deleted too.
type Question = (ServiceAccount, Mapping, String, String, bool);

/// What is known of executors.
#[derive(Default)]
pub struct Executors {
    answers: Mutex<Answers>,
    /// Works with an executor: asked about anew when roles or bindings change.
    works: Mutex<HashSet<Arc<str>>>,
    follows: Mutex<Option<JoinSet<()>>>,
}

/// The answers that are kept. A refusal is not: it is asked about with each pass, so that none outlives its reason.
#[derive(Default)]
struct Answers {
    allowed: HashSet<Question>,
    /// Counts how often all were forgotten. An answer to a question from before is not kept.
    forgotten: u64,
}

impl Answers {
    fn forget(&mut self) {
        self.allowed.clear();
        self.forgotten += 1;
    }
}

impl Executors {
    pub fn stop(&self) {
        lock(&self.follows).take();
    }
}

impl Agent {
    /// Asks whether the executor may apply one manifest.
    pub(super) async fn authorize(
        self: &Arc<Self>,
        key: &Key,
        executor: &Executor,
        mapping: &Mapping,
        meta: &ResourceMeta,
        owned: bool,
        object: &Object,
    ) -> Result<(), Denied> {
        if executor.subject.kind != "ServiceAccount" {
            return Err(Denied::Kind);
        }
        let account = executor.subject.service_account.as_ref().ok_or(Denied::NoAccount)?;
        self.follow_roles(key);
        if let Some(verb) = self.denied_verb(account, mapping, meta, owned).await? {
            let need = format!(
                "a role with the rule {{apiGroups: [\"{}\"], resources: [\"{}\"], verbs: [\"{verb}\"]}}",
                mapping.group, mapping.resource
            );
            return Err(not_allowed(account, mapping, meta, "", need));
        }
        if mapping.group == RBAC
            && matches!(
                mapping.resource.as_str(),
                "roles" | "rolebindings" | "clusterroles" | "clusterrolebindings"
            )
        {
            self.check_escalation(account, mapping, meta, object).await?;
        }
        Ok(())
    }

    async fn denied_verb(
        &self,
        account: &ServiceAccount,
        mapping: &Mapping,
        meta: &ResourceMeta,
        owned: bool,
    ) -> Result<Option<&'static str>, ApiError> {
        let question =
            (account.clone(), mapping.clone(), meta.namespace.clone(), meta.name.clone(), owned);
        let forgotten = {
            let answers = lock(&self.executors.answers);
            if self.settings.caches_executors && answers.allowed.contains(&question) {
                return Ok(None);
            }
            answers.forgotten
        };
        let verbs =
            ["create", "update", "patch", "get"].into_iter().chain(owned.then_some("delete"));
        for verb in verbs {
            if !self.is_allowed(account, mapping, meta, verb).await? {
                return Ok(Some(verb));
            }
        }
        let mut answers = lock(&self.executors.answers);
        if self.settings.caches_executors && answers.forgotten == forgotten {
            answers.allowed.insert(question);
        }
        Ok(None)
    }

    async fn is_allowed(
        &self,
        account: &ServiceAccount,
        mapping: &Mapping,
        meta: &ResourceMeta,
        verb: &str,
    ) -> Result<bool, ApiError> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user(account),
                "groups": [
                    "system:serviceaccounts",
                    "system:authenticated",
                    format!("system:serviceaccounts:{}", account.namespace),
                ],
                "resourceAttributes": {
                    "group": mapping.group, "version": mapping.version, "resource": mapping.resource,
                    "namespace": meta.namespace, "name": meta.name, "verb": verb,
                },
            },
        });
        let answer = self.cluster.review(REVIEWS, &review).await?;
        Ok(answer.pointer("/status/allowed").and_then(Value::as_bool).unwrap_or(false))
    }

    /// Whether the executor could write this role or binding itself: the API server checks escalation before it
    /// checks whether the object exists.
    async fn check_escalation(
        &self,
        account: &ServiceAccount,
        mapping: &Mapping,
        meta: &ResourceMeta,
        object: &Object,
    ) -> Result<(), Denied> {
        let collection = path(mapping, &meta.namespace, None);
        match self.cluster.dry_run_create_as(&collection, object, &user(account)).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_already_exists() => Ok(()),
            Err(error) if error.is_forbidden() => {
                let need = "all that the role grants itself, or the verb \"escalate\" (for a binding: \"bind\")";
                Err(not_allowed(
                    account,
                    mapping,
                    meta,
                    ", error: permission escalation",
                    need.into(),
                ))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Follows roles and bindings from the first executor on.
    fn follow_roles(self: &Arc<Self>, key: &Key) {
        if let Key::Work(name) = key {
            lock(&self.executors.works).insert(name.clone());
        }
        let mut follows = lock(&self.executors.follows);
        if follows.is_some() {
            return;
        }
        let mut all = JoinSet::new();
        let changed = Arc::new(tokio::sync::Notify::new());
        for resource in ["roles", "rolebindings", "clusterroles", "clusterrolebindings"] {
            let mapping = Mapping {
                group: RBAC.into(),
                version: "v1".into(),
                resource: resource.into(),
                namespaced: false,
            };
            let agent = self.clone();
            let changed = changed.clone();
            all.spawn(async move {
                let mut follower = Roles { changed, latest: 0 };
                follow(&agent.cluster, &path(&mapping, "", None), true, &mut follower).await;
            });
        }
        let agent = self.clone();
        all.spawn(async move {
            loop {
                changed.notified().await;
                tokio::time::sleep(COALESCE).await;
                agent.ask_anew();
                while tokio::time::timeout(TAKEN_OVER, changed.notified()).await.is_ok() {
                    tokio::time::sleep(COALESCE).await;
                    agent.ask_anew();
                }
                agent.ask_anew();
            }
        });
        *follows = Some(all);
    }

    fn ask_anew(&self) {
        lock(&self.executors.answers).forget();
        let works = lock(&self.executors.works).clone();
        let mut state = self.state();
        for name in works {
            match state.works.get_mut(&name) {
                Some(entry) => {
                    entry.to_do.everything = true;
                    self.queue.add(Key::Work(name));
                }
                None => {
                    lock(&self.executors.works).remove(&name);
                }
            }
        }
    }
}

fn user(account: &ServiceAccount) -> String {
    format!("system:serviceaccount:{}:{}", account.namespace, account.name)
}

fn not_allowed(
    account: &ServiceAccount,
    mapping: &Mapping,
    meta: &ResourceMeta,
    detail: &'static str,
    need: String,
) -> Denied {
    Denied::NotAllowed {
        group: mapping.group.clone(),
        resource: mapping.resource.clone(),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        detail,
        account: user(account),
        need,
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
