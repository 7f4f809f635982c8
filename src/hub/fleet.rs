//! What the hub knows of clusters and works, for `gitwork status`: reads only.

use std::collections::BTreeSet;

use futures::future::join;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::timeout;

use super::transport;
use crate::core::name::ClusterName;
use crate::core::status::{self, WorkStatus};
use crate::core::work::{LABEL_MANAGED_BY, LABEL_SOURCE, MANAGER};
use crate::limits;

/// Objects of one page. A ManifestWork may have 500 KiB, so that a page of them may have 50 MiB.
const PAGE: u32 = 100;

/// Why the state of the fleet is not known.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    #[error(
        "the hub does not know ManifestWork; is this the hub of an Open Cluster Management fleet? Choose another \
         one with --context"
    )]
    NoCrd,
    #[error(
        "listing ManifestWorks is forbidden ({0}); ask for `list` on manifestworks in all namespaces"
    )]
    Forbidden(String),
    #[error("cannot list the hub's ManifestWorks: {0}")]
    Other(String),
}

impl From<kube::Error> for FleetError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 404 => Self::NoCrd,
            kube::Error::Api(status) if status.code == 403 => {
                Self::Forbidden(status.message.clone())
            }
            kube::Error::Api(status) => Self::Other(status.message.clone()),
            other => Self::Other(transport::describe(&other)),
        }
    }
}

/// The state of every work that gitwork wrote, or of those of one source.
pub async fn status(client: &Client, source: Option<&str>) -> Result<Vec<WorkStatus>, FleetError> {
    let selector = match source {
        Some(source) => format!("{LABEL_MANAGED_BY}={MANAGER},{LABEL_SOURCE}={source}"),
        None => format!("{LABEL_MANAGED_BY}={MANAGER}"),
    };
    let works = ApiResource {
        group: "work.open-cluster-management.io".into(),
        version: "v1".into(),
        api_version: "work.open-cluster-management.io/v1".into(),
        kind: "ManifestWork".into(),
        plural: "manifestworks".into(),
    };
    let clusters = managed_clusters();
    let (works, clusters) =
        join(list(client, &works, Some(&selector)), list(client, &clusters, None)).await;
    // Who may not read ManagedClusters sees the works all the same.
    let unreachable: BTreeSet<ClusterName> =
        clusters.map(|clusters| status::unreachable(&clusters)).unwrap_or_default();
    let mut works: Vec<WorkStatus> =
        works?.iter().map(|work| status::of_work(work, &unreachable)).collect();
    works.sort_by(|a, b| (&a.cluster, &a.work).cmp(&(&b.cluster, &b.work)));
    Ok(works)
}

/// The clusters that the hub has lost touch with.
pub async fn unreachable(client: &Client) -> Result<BTreeSet<ClusterName>, FleetError> {
    Ok(status::unreachable(&list(client, &managed_clusters(), None).await?))
}

fn managed_clusters() -> ApiResource {
    ApiResource {
        group: "cluster.open-cluster-management.io".into(),
        version: "v1".into(),
        api_version: "cluster.open-cluster-management.io/v1".into(),
        kind: "ManagedCluster".into(),
        plural: "managedclusters".into(),
    }
}

async fn list(
    client: &Client,
    resource: &ApiResource,
    selector: Option<&str>,
) -> Result<Vec<Value>, FleetError> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let mut params = ListParams::default().limit(PAGE);
    params.label_selector = selector.map(str::to_owned);
    let mut all = Vec::new();
    loop {
        let page = timeout(limits::HUB_CALL, api.list(&params)).await;
        let late =
            |_| FleetError::Other(format!("no answer within {} s", limits::HUB_CALL.as_secs()));
        let page = page.map_err(late)??;
        let values = page.items.into_iter().filter_map(|item| serde_json::to_value(item).ok());
        all.extend(values);
        match page.metadata.continue_ {
            Some(next) if !next.is_empty() => params.continue_token = Some(next),
            _ => return Ok(all),
        }
    }
}
