//! All objects of a cluster, to find what an installation leaves behind.

use std::collections::BTreeSet;

use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::{ApiGroup, Discovery, verbs};
use kube::{Client, ResourceExt};

use crate::harness::{Cluster, eventually};
use crate::hub_program::DEADLINE;

/// What the control plane makes last, some of it after it is ready.
const MADE_LAST: [&str; 3] = [
    "Service default/kubernetes",
    "ServiceAccount default/default",
    "ConfigMap default/kube-root-ca.crt",
];

/// The objects of a cluster at one time, as `Kind namespace/name`.
pub struct Inventory(BTreeSet<String>);

impl Inventory {
    /// What a new cluster has, once its control plane has made its own objects.
    pub async fn of_new(cluster: &Cluster) -> Self {
        let probe = || async {
            let found = list(cluster.client()).await.map_err(|error| error.to_string())?;
            let missing = MADE_LAST.into_iter().find(|own| !found.contains(*own));
            missing.map_or(Ok(Self(found)), |missing| Err(format!("no {missing}")))
        };
        eventually("the objects of a new cluster", DEADLINE, probe).await.unwrap()
    }

    /// Waits until the cluster has nothing more than this.
    pub async fn until_restored(&self, cluster: &Cluster) {
        let probe = || async {
            let found = list(cluster.client()).await.map_err(|error| error.to_string())?;
            let left: Vec<&String> = found.difference(&self.0).collect();
            if left.is_empty() { Ok(()) } else { Err(format!("left: {left:#?}")) }
        };
        let what = format!("{} to have only what it had at first", cluster.name());
        eventually(&what, DEADLINE, probe).await.unwrap();
    }
}

/// Without Events, which expire, and without the control plane's own objects, which it makes and
/// renews when it likes.
async fn list(client: Client) -> kube::Result<BTreeSet<String>> {
    let discovery = Discovery::new(client.clone()).run().await?;
    let kinds = discovery.groups().flat_map(ApiGroup::resources_by_stability);
    let mut found = BTreeSet::new();
    for (kind, capabilities) in kinds {
        if !capabilities.supports_operation(verbs::LIST)
            || matches!(kind.kind.as_str(), "Event" | "ComponentStatus")
        {
            continue;
        }
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        for object in all.list(&ListParams::default()).await? {
            let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
            if !namespace.starts_with("kube-") && !name.starts_with("system:") {
                found.insert(format!("{} {namespace}/{name}", kind.kind));
            }
        }
    }
    Ok(found)
}
