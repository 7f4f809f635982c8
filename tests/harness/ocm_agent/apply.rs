//! Applying one manifest by its update strategy: "CreateOnly", "ServerSideApply", "ReadOnly"; and
//! "Update" of [`super::update`].

use gitwork_agent_core::ignore::{IgnoreError, drop_null_creation_timestamps, ignore};
use gitwork_api::work::IgnoreField;
use serde_json::Value;

use super::config;
use super::json::{set_metadata, text, uid};
use super::requests::{Address, Mapping, RequestError, Requests};
use super::{owners, update};

/// Why a manifest was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Another manager has a field, and `force` is not set. Only the next resync tries again.
    #[error("Apply failed with conflict: {0}")]
    FieldConflict(RequestError),
    #[error(transparent)]
    IgnoreFields(#[from] IgnoreError),
    #[error("the server doesn't have a resource type {0:?}")]
    UnknownKind(String),
    #[error("this double of OCM's agent cannot update the kind")]
    Unsupported,
}

impl ApplyError {
    /// Whether the pass tries again at once.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Request(RequestError::Conflict(_)))
    }
}

/// A manifest and what its work says of it.
pub struct Wanted<'a> {
    pub manifest: &'a Value,
    pub mapping: &'a Mapping,
    pub config: config::ManifestConfig,
    /// The owner, or its removal.
    pub owner: Value,
    pub at: Address,
}

/// Applies a manifest, and returns the uid of its object if the strategy reads it.
pub async fn apply(cluster: &Requests, wanted: &Wanted<'_>) -> Result<Option<String>, ApplyError> {
    let strategy = wanted.config.update_strategy.clone().unwrap_or_default();
    let mut manifest = wanted.manifest.clone();
    set_metadata(&mut manifest, "uid", Value::Null);
    let live = match text(&strategy, "/type") {
        "ReadOnly" => return Ok(None),
        "CreateOnly" => create_only(cluster, wanted, &manifest).await?,
        "ServerSideApply" => server_side_apply(cluster, wanted, manifest, &strategy).await?,
        _ => {
            let Wanted { at, mapping, owner, .. } = wanted;
            update::update(cluster, at, mapping, &manifest, owner).await?
        }
    };
    Ok(Some(uid(&live).to_owned()))
}

/// Creates the object if there is none. Otherwise it writes nothing but the owner.
async fn create_only(
    cluster: &Requests,
    wanted: &Wanted<'_>,
    manifest: &Value,
) -> Result<Value, ApplyError> {
    let live = match cluster.get(&wanted.at).await? {
        Some(live) => live,
        None => {
            let mut manifest = manifest.clone();
            set_metadata(&mut manifest, "ownerReferences", vec![wanted.owner.clone()].into());
            cluster.create(&wanted.at, &owners::cleaned(&manifest)).await?
        }
    };
    owners::apply(cluster, &wanted.at, &live, &wanted.owner).await?;
    Ok(live)
}

/// Applies the manifest, and writes the owner with a second request.
async fn server_side_apply(
    cluster: &Requests,
    wanted: &Wanted<'_>,
    manifest: Value,
    strategy: &Value,
) -> Result<Value, ApplyError> {
    let options = &strategy["serverSideApply"];
    let force = options["force"].as_bool().unwrap_or(false);
    let manager = options["fieldManager"].as_str().unwrap_or("work-agent");
    let mut manifest = manifest.as_object().cloned().unwrap_or_default();
    drop_null_creation_timestamps(&mut manifest);
    let rules: Vec<IgnoreField> =
        serde_json::from_value(options["ignoreFields"].clone()).unwrap_or_default();
    let mut sent = manifest.clone();
    if !rules.is_empty() {
        let prepared = ignore(&manifest, &rules)?;
        let live = cluster.get(&wanted.at).await?;
        let hash = "/metadata/annotations/open-cluster-management.io~1config-spec-hash";
        match live {
            Some(live) if text(&live, hash) == prepared.hash => {
                owners::apply(cluster, &wanted.at, &live, &wanted.owner).await?;
                return Ok(live);
            }
            Some(_) => sent = prepared.reduced,
            None => sent = prepared.original,
        }
    }
    let applied = cluster.apply(&wanted.at, &Value::Object(sent), (manager, force)).await;
    let live = applied.map_err(|error| match error {
        RequestError::Conflict(_) => ApplyError::FieldConflict(error),
        error => error.into(),
    })?;
    owners::apply(cluster, &wanted.at, &live, &wanted.owner).await?;
    Ok(live)
}
