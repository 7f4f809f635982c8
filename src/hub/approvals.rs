//! Approved deletions on the hub: a ConfigMap for each source in gitwork's own namespace, with one key for each approval.
//! The daemon only reads it; `gitwork approve` writes it with the rights of who approves.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::answer::Verb;
use super::server::{KubeHub, Question, unanswered};
use super::{HubError, bounded, transport};
use crate::core::budget::{self, Approved};
use crate::core::digest::Digest;
use crate::core::name::SourceId;
use crate::core::work::MANAGER;
use crate::limits;

/// The ConfigMap of a source's approvals.
pub fn config_map_name(source: &SourceId) -> String {
    format!("gitwork-approvals-{source}")
}

/// Why an approval was not stored.
#[derive(Debug, thiserror::Error)]
pub enum ApproveError {
    #[error(
        "the approvals of this source would have {bytes} bytes, and a ConfigMap takes {limit}; commit the approval to Git: \
         `gitwork approve {hash} --print > approvals/{hash}`"
    )]
    TooLarge { hash: Digest, bytes: usize, limit: usize },
    #[error("storing the approval in the ConfigMap {namespace}/{name} is refused: {message}")]
    Refused { namespace: String, name: String, message: String },
    #[error("the hub did not answer: {0}")]
    Unavailable(String),
}

/// The works that the data of such a ConfigMap approves of. An entry that is no approval approves nothing.
fn read(data: &BTreeMap<String, String>) -> Approved {
    let mut approved = Approved::new();
    for (name, text) in data {
        match budget::read_approval(name, text) {
            Ok(works) => approved.extend(works),
            Err(why) => {
                tracing::debug!(approval = name, %why, "an approval on the hub approves nothing");
            }
        }
    }
    approved
}

impl KubeHub {
    /// Reads what was approved on the hub.
    pub(super) async fn read_approvals(&self, source: &SourceId) -> Result<Approved, HubError> {
        let (namespace, name) = (self.namespace(), config_map_name(source));
        let question = Question {
            verb: Verb::Get,
            path: format!("/api/v1/namespaces/{namespace}/configmaps/{name}"),
            body: Vec::new(),
            content_type: "application/json",
        };
        let answer = self.ask(&question).await?;
        match answer.status {
            StatusCode::NOT_FOUND => return Ok(Approved::new()),
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {
                let message = format!(
                    "reading approvals needs `get` on configmaps in the namespace {namespace}, for {name}"
                );
                return Err(HubError::Forbidden { message });
            }
            status if !status.is_success() => {
                return Err(unanswered(format!("{status} for the ConfigMap {namespace}/{name}")));
            }
            _ => {}
        }
        let map: ConfigMap = serde_json::from_slice(&answer.body)
            .map_err(|error| unanswered(format!("the answer is no ConfigMap: {error}")))?;
        Ok(read(&map.data.unwrap_or_default()))
    }
}

/// Stores an approval, with who gave it and when (`at`), and drops those of which nothing is left on the hub:
/// `is_there` tells whether a uid still is. Answers who the hub says approved.
pub async fn approve(
    client: &Client,
    namespace: &str,
    source: &SourceId,
    works: &Approved,
    at: &str,
    is_there: impl Fn(&str) -> bool,
) -> Result<String, ApproveError> {
    let (name, hash) = (config_map_name(source), budget::plan_hash(works));
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let failed = |error: kube::Error| match error {
        kube::Error::Api(status) => ApproveError::Refused {
            namespace: namespace.to_owned(),
            name: name.clone(),
            message: bounded(&status.message),
        },
        other => ApproveError::Unavailable(transport::describe(&other)),
    };
    let who = within(limits::HUB_CALL, who(client)).await?.unwrap_or_else(|| "somebody".into());
    let text = format!("# approved by {who} at {at}\n{}", budget::listing(works));
    let before = within(limits::HUB_CALL, api.get_opt(&name)).await?.map_err(failed)?;
    let mut data = before.as_ref().and_then(|map| map.data.clone()).unwrap_or_default();
    let is_done = |(name, text): (&String, &String)| {
        let works = budget::read_approval(name, text).unwrap_or_default();
        !works.iter().any(|target| is_there(&target.uid))
    };
    let done: Vec<String> =
        data.iter().filter(|entry| is_done(*entry)).map(|(name, _)| name.clone()).collect();
    done.iter().for_each(|name| drop(data.remove(name)));
    data.insert(hash.to_string(), text.clone());
    let bytes: usize = data.iter().map(|(name, text)| name.len() + text.len()).sum();
    let limit = limits::CONFIG_MAP_BYTES_MAX;
    if bytes > limit {
        return Err(ApproveError::TooLarge { hash, bytes, limit });
    }
    if before.is_some() {
        let mut change: BTreeMap<String, Value> =
            done.into_iter().map(|name| (name, Value::Null)).collect();
        change.insert(hash.to_string(), text.into());
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let patch = Patch::Merge(json!({ "data": change }));
        within(limits::HUB_CALL, api.patch(&name, &params, &patch)).await?.map_err(failed)?;
    } else {
        let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
        map.metadata.name = Some(name.clone());
        map.labels_mut().insert("app.kubernetes.io/managed-by".into(), MANAGER.into());
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        within(limits::HUB_CALL, api.create(&params, &map)).await?.map_err(failed)?;
    }
    Ok(who)
}

/// The user that the hub takes the caller for; `None` where it does not tell.
async fn who(client: &Client) -> Option<String> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = api.create(&PostParams::default(), &SelfSubjectReview::default()).await.ok()?;
    Some(bounded(&review.status?.user_info?.username?))
}

async fn within<T>(limit: Duration, call: impl Future<Output = T>) -> Result<T, ApproveError> {
    let late = |_| ApproveError::Unavailable(format!("no answer within {} s", limit.as_secs()));
    timeout(limit, call).await.map_err(late)
}
