//! The operators' directives on the hub: a ConfigMap for each source in gitwork's own namespace.
//! The daemon only reads it; the commands write it with the permissions of their user.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::connection::HubConnection;
use crate::request::ApiRequest;
use crate::response::Verb;
use crate::{HubError, bounded, limits, retry_transient, unavailable};
use gitwork_core::model::approval::Approval;
use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::SourceId;
use gitwork_core::model::work::MANAGER;
use gitwork_core::plan::directives::{
    Directives, RECONCILE, Suspension, SuspensionTarget, Suspensions, suspension_key,
};
use gitwork_kube::api_status::ApiStatus;
use gitwork_kube::connection_error;
use gitwork_retry::RetryClass;

/// The name of the ConfigMap with a source's directives, and of the Lease with its record.
pub fn object_name(source: &SourceId) -> String {
    format!("gitwork-source-{source}")
}

/// Why a directive was not stored.
#[derive(Debug, thiserror::Error)]
pub enum DirectiveError {
    /// The ConfigMap has no room for an approval.
    #[error(
        "the directives of this source would have {bytes} bytes, \
         and a ConfigMap has at most {limit}"
    )]
    ApprovalTooLarge {
        /// The hash of the approval.
        hash: Digest,
        /// The size of all directives with it, in bytes.
        bytes: usize,
        /// `limits::CONFIG_MAP_BYTES_MAX`.
        limit: usize,
    },
    /// The ConfigMap has no room for a suspension.
    #[error(
        "the directives of this source would have {bytes} bytes, \
         and a ConfigMap has at most {limit}"
    )]
    TooLarge {
        /// The size of all directives with it, in bytes.
        bytes: usize,
        /// `limits::CONFIG_MAP_BYTES_MAX`.
        limit: usize,
    },
    /// gitwork's own namespace is missing.
    #[error("the hub has no namespace {namespace:?}")]
    NamespaceMissing {
        /// Its name.
        namespace: String,
    },
    /// The API server rejects the write: a permission is missing, or admission denies it.
    #[error("writing the ConfigMap {namespace}/{name} is refused: {message}")]
    WriteRejected {
        /// gitwork's own namespace.
        namespace: String,
        /// See [`object_name`].
        name: String,
        /// The message of the API server on one line.
        message: String,
    },
    /// Another client has created or deleted the ConfigMap since it was read.
    #[error("the ConfigMap {namespace}/{name} has changed on the hub in the meantime")]
    Stale {
        /// gitwork's own namespace.
        namespace: String,
        /// See [`object_name`].
        name: String,
    },
    /// A time-out, 429, 5xx or no connection.
    #[error("the hub did not answer: {message}")]
    Unavailable {
        /// The error of the connection, or the hub's message.
        message: String,
        /// The wait that the hub requests.
        retry_after_seconds: Option<u64>,
    },
}

impl DirectiveError {
    fn no_response(message: String) -> Self {
        Self::Unavailable { message, retry_after_seconds: None }
    }

    /// The error of a request for the ConfigMap of a source in `namespace`.
    fn of(error: &kube::Error, namespace: &str, source: &SourceId) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::no_response(connection_error::describe(error));
        };
        let status = ApiStatus::of_client(status);
        let (namespace, name) = (namespace.to_owned(), object_name(source));
        if status.is_not_found() && status.resource != "configmaps" {
            return Self::NamespaceMissing { namespace };
        }
        let message = status.text();
        match status.retry_class() {
            RetryClass::Stale => Self::Stale { namespace, name },
            RetryClass::Unavailable { retry_after_seconds } => {
                Self::Unavailable { message, retry_after_seconds }
            }
            RetryClass::Blocked | RetryClass::Rejected => {
                Self::WriteRejected { namespace, name, message }
            }
        }
    }
}

/// The new text of single keys; `None` removes the key.
type Changes = BTreeMap<String, Option<String>>;

/// Reads the directives of a source. `namespace` is gitwork's own.
pub(crate) async fn read(
    connection: &HubConnection,
    namespace: &str,
    source: &SourceId,
) -> Result<Directives, HubError> {
    let name = object_name(source);
    let request = ApiRequest {
        verb: Verb::Get,
        path: format!("/api/v1/namespaces/{namespace}/configmaps/{name}"),
        body: Vec::new(),
        content_type: "application/json",
    };
    let answer = connection.send(&request).await?;
    match answer.status {
        StatusCode::NOT_FOUND => return Ok(Directives::default()),
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {
            let message = format!(
                "reading approvals and suspensions needs `get` on configmaps in the \
                    namespace {namespace}, for {name}"
            );
            return Err(HubError::Forbidden { message, hint: None });
        }
        status if !status.is_success() => {
            return Err(unavailable(format!("{status} for the ConfigMap {namespace}/{name}")));
        }
        _ => {}
    }
    let map: ConfigMap = serde_json::from_slice(&answer.body)
        .map_err(|error| unavailable(format!("the response is no ConfigMap: {error}")))?;
    let (found, unread) = Directives::read(source, &map.data.unwrap_or_default());
    for why in unread {
        tracing::debug!(%source, why, "ignoring an entry of the directives");
    }
    Ok(found)
}

/// An operator who writes directives of a source, as the hub authenticates them.
pub struct Operator<'a> {
    /// A client with the operator's credentials.
    pub client: &'a Client,
    /// gitwork's own namespace on the hub.
    pub namespace: &'a str,
    /// The source of the directives.
    pub source: &'a SourceId,
    /// The time of the directive (RFC 3339).
    pub at: String,
}

impl Operator<'_> {
    /// Stores an approval with its user and time, and gives the user. Drops approvals of deletions
    /// that are complete: `is_there` gives whether a uid still exists. Drops earlier approvals of
    /// an origin and earlier trusted commits with the next one: they would let the source return
    /// without another approval.
    pub async fn approve(
        &self,
        approval: &Approval,
        is_there: impl Fn(&str) -> bool,
    ) -> Result<String, DirectiveError> {
        let (who, hash) = (self.who().await?, approval.hash());
        let text = format!("# approved by {who} at {}\n{}", self.at, approval.text());
        let change = |data: &BTreeMap<String, String>| {
            let is_done = |(name, text): (&String, &String)| match Approval::read(name, text) {
                Ok(Approval::Deletions(works)) => !works.iter().any(|target| is_there(&target.uid)),
                Ok(Approval::Origin { .. }) => matches!(approval, Approval::Origin { .. }),
                Ok(Approval::Trust { .. }) => matches!(approval, Approval::Trust { .. }),
                _ => false,
            };
            let done = data.iter().filter(|entry| is_done(*entry)).map(|(name, _)| name.clone());
            let mut changes: Changes = done.map(|name| (name, None)).collect();
            changes.insert(hash.to_string(), Some(text.clone()));
            changes
        };
        match self.write_keys(change).await {
            Err(DirectiveError::TooLarge { bytes, limit }) => {
                Err(DirectiveError::ApprovalTooLarge { hash, bytes, limit })
            }
            other => other.map(|()| who),
        }
    }

    /// Suspends a source, a cluster or a work, and gives the user.
    pub async fn suspend(
        &self,
        target: &SuspensionTarget,
        reason: Option<String>,
    ) -> Result<String, DirectiveError> {
        let who = self.who().await?;
        let suspension = Suspension { by: who.clone(), at: self.at.clone(), reason };
        let changes: Changes = [(suspension_key(target), Some(suspension.text()))].into();
        self.write_keys(|_| changes.clone()).await.map(|()| who)
    }

    /// Ends a suspension. If there is none, gives those that there are.
    pub async fn resume(
        &self,
        target: &SuspensionTarget,
    ) -> Result<Option<Suspensions>, DirectiveError> {
        let key = suspension_key(target);
        let there = retry_transient(|| self.stored()).await?;
        let data = there.and_then(|map| map.data).unwrap_or_default();
        if !data.contains_key(&key) {
            return Ok(Some(Directives::read(self.source, &data).0.suspensions));
        }
        let changes: Changes = [(key, None)].into();
        self.write_keys(|_| changes.clone()).await.map(|()| None)
    }

    /// Requests a sync now, and gives the user.
    pub async fn reconcile(&self) -> Result<String, DirectiveError> {
        let who = self.who().await?;
        let text = format!("asked for by {who} at {}", self.at);
        let changes: Changes = [(RECONCILE.to_owned(), Some(text))].into();
        self.write_keys(|_| changes.clone()).await.map(|()| who)
    }

    /// The directives as they are stored; `None` without any.
    async fn stored(&self) -> Result<Option<ConfigMap>, DirectiveError> {
        let (api, name) = (self.api(), object_name(self.source));
        within(api.get_opt(&name)).await?.map_err(|error| self.failed(&error))
    }

    fn api(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    fn failed(&self, error: &kube::Error) -> DirectiveError {
        DirectiveError::of(error, self.namespace, self.source)
    }

    /// Writes single keys; other users may write other keys at the same time. A repeated write
    /// changes nothing.
    async fn write_keys(
        &self,
        change: impl Fn(&BTreeMap<String, String>) -> Changes,
    ) -> Result<(), DirectiveError> {
        retry_transient(|| self.write_keys_once(&change)).await
    }

    async fn write_keys_once(
        &self,
        change: &impl Fn(&BTreeMap<String, String>) -> Changes,
    ) -> Result<(), DirectiveError> {
        let (api, name) = (self.api(), object_name(self.source));
        let failed = |error: kube::Error| self.failed(&error);
        let before = self.stored().await?;
        let mut data = before.as_ref().and_then(|map| map.data.clone()).unwrap_or_default();
        let changes = change(&data);
        for (key, text) in &changes {
            match text {
                Some(text) => drop(data.insert(key.clone(), text.clone())),
                None => drop(data.remove(key)),
            }
        }
        let bytes: usize = data.iter().map(|(name, text)| name.len() + text.len()).sum();
        let limit = limits::CONFIG_MAP_BYTES_MAX;
        if bytes > limit {
            return Err(DirectiveError::TooLarge { bytes, limit });
        }
        if before.is_some() {
            let changes: BTreeMap<String, Value> =
                changes.into_iter().map(|(key, text)| (key, text.into())).collect();
            let params =
                PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
            let patch = Patch::Merge(json!({ "data": changes }));
            within(api.patch(&name, &params, &patch)).await?.map_err(failed)?;
        } else {
            let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
            map.metadata.name = Some(name.clone());
            map.labels_mut().insert("app.kubernetes.io/managed-by".into(), MANAGER.into());
            let params =
                PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
            within(api.create(&params, &map)).await?.map_err(failed)?;
        }
        Ok(())
    }

    /// The user as the hub authenticates it. A hub without this API knows no name.
    async fn who(&self) -> Result<String, DirectiveError> {
        let user = retry_transient(|| self.user()).await?;
        Ok(user.map_or_else(|| "somebody".to_owned(), |name| bounded(&name)))
    }

    async fn user(&self) -> Result<Option<String>, DirectiveError> {
        let api: Api<SelfSubjectReview> = Api::all(self.client.clone());
        let review = SelfSubjectReview::default();
        match within(api.create(&PostParams::default(), &review)).await? {
            Ok(review) => Ok(review.status.and_then(|status| status.user_info?.username)),
            Err(error) => match self.failed(&error) {
                error @ DirectiveError::Unavailable { .. } => Err(error),
                _ => Ok(None),
            },
        }
    }
}

async fn within<T>(call: impl Future<Output = T>) -> Result<T, DirectiveError> {
    let limit: Duration = limits::HUB_CALL;
    let late = |_| DirectiveError::no_response(format!("no answer within {} s", limit.as_secs()));
    timeout(limit, call).await.map_err(late)
}

#[cfg(test)]
mod tests {
    use gitwork_core::model::operation_error::{ErrorClass, OperationError as _};

    use super::*;

    fn failed(status: Value) -> DirectiveError {
        let status: kube::core::Status = serde_json::from_value(status).unwrap();
        let source = SourceId::parse("fleet").unwrap();
        DirectiveError::of(&kube::Error::Api(status.boxed()), "gitwork", &source)
    }

    #[test]
    fn only_answers_that_may_change_soon_are_retried() {
        let after = |seconds| ErrorClass::Transient { retry_after: seconds };
        let of = |kind: &str| json!({"kind": kind});
        for (status, reason, class) in [
            (
                json!({"code": 429, "details": {"retryAfterSeconds": 2}}),
                "HubUnavailable",
                after(Some(Duration::from_secs(2))),
            ),
            (json!({"code": 503}), "HubUnavailable", ErrorClass::TRANSIENT),
            (json!({"code": 500}), "HubUnavailable", ErrorClass::TRANSIENT),
            (json!({"code": 403}), "WriteRejected", ErrorClass::NeedsAction),
            (json!({"code": 422}), "WriteRejected", ErrorClass::NeedsAction),
            (
                json!({"code": 404, "details": of("namespaces")}),
                "NamespaceMissing",
                ErrorClass::NeedsAction,
            ),
            // Another operator wrote at the same time.
            (json!({"code": 404, "details": of("configmaps")}), "Conflict", ErrorClass::TRANSIENT),
            (json!({"code": 409, "reason": "AlreadyExists"}), "Conflict", ErrorClass::TRANSIENT),
        ] {
            let error = failed(status.clone());
            assert_eq!((error.reason(), error.class()), (reason, class), "{status}");
        }
    }
}
