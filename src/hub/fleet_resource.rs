//! The kinds that show the fleet.

use std::fmt::Display;

use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::Value;

use crate::bounded;
use crate::connection::HubConnection;
use crate::fleet_error::FleetError;
use gitwork_core::model::name::ClusterName;
use gitwork_kube::api_status::ApiStatus;
use gitwork_kube::connection_error;

/// The group of ManagedClusters, Placements and PlacementDecisions.
const CLUSTER_GROUP: &str = "cluster.open-cluster-management.io";

/// One kind on the hub, in all namespaces or one.
pub(crate) struct Resource {
    pub(crate) api: Api<DynamicObject>,
    pub(crate) connection: HubConnection,
    pub(crate) kind: &'static str,
    plural: &'static str,
    one_namespace: bool,
}

impl Resource {
    /// The works of one cluster, or of all.
    pub(crate) fn works(client: &Client, cluster: Option<&ClusterName>) -> Self {
        let (kind, plural) = ("ManifestWork", "manifestworks");
        let resource = resource("work.open-cluster-management.io", "v1", kind, plural);
        let api = match cluster {
            Some(cluster) => Api::namespaced_with(client.clone(), cluster.as_str(), &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let plural = "manifestworks.work.open-cluster-management.io";
        Self { one_namespace: cluster.is_some(), ..Self::new(client, api, kind, plural) }
    }

    pub(crate) fn clusters(client: &Client) -> Self {
        let resource = resource(CLUSTER_GROUP, "v1", "ManagedCluster", "managedclusters");
        let plural = "managedclusters.cluster.open-cluster-management.io";
        Self::everywhere(client, &resource, "ManagedCluster", plural)
    }

    pub(crate) fn placements(client: &Client) -> Self {
        let resource = resource(CLUSTER_GROUP, "v1beta1", "Placement", "placements");
        let plural = "placements.cluster.open-cluster-management.io";
        Self::everywhere(client, &resource, "Placement", plural)
    }

    pub(crate) fn placement_decisions(client: &Client) -> Self {
        let kind = "PlacementDecision";
        let resource = resource(CLUSTER_GROUP, "v1beta1", kind, "placementdecisions");
        let plural = "placementdecisions.cluster.open-cluster-management.io";
        Self::everywhere(client, &resource, kind, plural)
    }

    /// A kind that no command can read for one cluster only.
    fn everywhere(
        client: &Client,
        resource: &ApiResource,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self::new(client, Api::all_with(client.clone(), resource), kind, plural)
    }

    /// The Leases in the namespace `home`.
    pub(crate) fn leases(client: &Client, home: &str) -> Self {
        let (kind, plural) = ("Lease", "leases");
        let resource = resource("coordination.k8s.io", "v1", kind, plural);
        let api = Api::namespaced_with(client.clone(), home, &resource);
        Self::new(client, api, kind, "leases.coordination.k8s.io")
    }

    fn new(
        client: &Client,
        api: Api<DynamicObject>,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        let connection = HubConnection::new(client.clone(), None);
        Self { api, connection, kind, plural, one_namespace: true }
    }

    pub(crate) fn error(&self, verb: &'static str, error: &kube::Error) -> FleetError {
        match error {
            kube::Error::Api(status) => self.rejected(verb, &ApiStatus::of_client(status)),
            other => self.other(verb, &connection_error::describe(other)),
        }
    }

    /// The error of a failed response.
    pub(crate) fn rejected(&self, verb: &'static str, status: &ApiStatus) -> FleetError {
        let (plural, one_namespace) = (self.plural, self.one_namespace);
        match status.code {
            404 => FleetError::CrdMissing { kind: self.kind },
            401 => FleetError::NotAccepted,
            403 => {
                let message = bounded(&status.message);
                FleetError::Forbidden { verb, plural, one_namespace, message }
            }
            _ => self.other(verb, &bounded(&status.text())),
        }
    }

    pub(crate) fn other(&self, verb: &'static str, problem: &dyn Display) -> FleetError {
        FleetError::Other { verb, plural: self.plural, message: problem.to_string() }
    }
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: format!("{group}/{version}"),
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// The JSON form of an object.
pub(crate) fn value(mut object: DynamicObject) -> Option<Value> {
    // Bookkeeping of the API server, often larger than the rest.
    object.metadata.managed_fields = None;
    serde_json::to_value(object).ok()
}

/// An object as [`value`] gives it.
pub(crate) fn without_bookkeeping(mut object: Value) -> Value {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    object
}
