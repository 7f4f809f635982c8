//! The kinds that show the fleet, listed and watched.

use std::future::ready;

use futures::stream::StreamExt;
use kube::api::{ApiResource, DynamicObject, ListParams, Request};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::timeout;

use crate::connection::HubConnection;
use crate::fleet_error::FleetError;
use crate::list::{WholeList, no_list};
use crate::request::ApiRequest;
use crate::response::Verb;
use crate::{HubError, bounded, limits, unavailable};
use gitwork_core::model::name::ClusterName;
use gitwork_kube::connection_error;
use gitwork_retry::log_error;

/// The group of ManagedClusters, Placements and PlacementDecisions.
const CLUSTER_GROUP: &str = "cluster.open-cluster-management.io";

/// One kind on the hub, in all namespaces or one.
pub(crate) struct Resource {
    pub(crate) api: Api<DynamicObject>,
    kind: &'static str,
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
        let one_namespace = cluster.is_some();
        let plural = "manifestworks.work.open-cluster-management.io";
        Self { api, kind, plural, one_namespace }
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
        let api = Api::all_with(client.clone(), resource);
        Self { api, kind, plural, one_namespace: true }
    }

    /// The Leases in the namespace `home`.
    pub(crate) fn leases(client: &Client, home: &str) -> Self {
        let (kind, plural) = ("Lease", "leases");
        let resource = resource("coordination.k8s.io", "v1", kind, plural);
        let api = Api::namespaced_with(client.clone(), home, &resource);
        Self { api, kind, plural: "leases.coordination.k8s.io", one_namespace: true }
    }

    /// Lists all objects; each one is reduced by `read` as it comes. Many come in one response if
    /// the API server makes it from memory, and page by page otherwise, as [`crate::list`] does it.
    pub(crate) async fn list<T>(
        &self,
        labels: Option<&str>,
        read: impl Fn(Value) -> T,
    ) -> Result<Vec<T>, FleetError> {
        let mut params = ListParams::default().limit(limits::HUB_LIST_PAGE);
        params.label_selector = labels.map(str::to_owned);
        let mut all = Vec::new();
        for number in 0..limits::HUB_LIST_PAGES_MAX {
            let page = timeout(limits::HUB_CALL, self.api.list(&params)).await;
            let late = |_| {
                self.other("list", format!("no answer within {} s", limits::HUB_CALL.as_secs()))
            };
            let page = page.map_err(late)?.map_err(|error| self.error("list", &error))?;
            let next = page.metadata.continue_.filter(|next| !next.is_empty());
            if number == 0 && next.is_some() {
                match self.list_whole(&params, &read).await {
                    Ok(Some(whole)) => return Ok(whole),
                    Ok(None) => {}
                    Err(error) => {
                        log_error!(debug, &error, "a list failed as a whole; reading it in pages");
                    }
                }
            }
            all.extend(page.items.into_iter().filter_map(value).map(&read));
            let Some(next) = next else { return Ok(all) };
            params.continue_token = Some(next);
        }
        Err(self.other("list", "the list has no end".into()))
    }

    /// Lists what `page` selects from one response; `None` if pages cost the API server less.
    async fn list_whole<T>(
        &self,
        page: &ListParams,
        read: impl Fn(Value) -> T,
    ) -> Result<Option<Vec<T>>, HubError> {
        let connection = HubConnection::new(self.api.clone().into_client(), None);
        if !connection.lists_from_memory().await {
            return Ok(None);
        }
        let whole = ListParams { limit: None, ..page.clone() };
        let request = Request::new(self.api.resource_url()).list(&whole);
        let request = request.map_err(|error| unavailable(error.to_string()))?;
        let path = request.uri().to_string();
        let content_type = "application/json";
        let request = ApiRequest { verb: Verb::List, path, body: Vec::new(), content_type };
        let mut list = WholeList::open(&connection, &request).await?;
        let mut all = Vec::new();
        while let Some(batch) = list.next().await? {
            for item in batch.items() {
                let object: Value =
                    serde_json::from_slice(item).map_err(|error| no_list(self.kind, &error))?;
                all.push(read(without_bookkeeping(object)));
            }
        }
        list.end(self.kind)?;
        Ok(Some(all))
    }

    pub(crate) fn watch(
        self,
        labels: Option<&str>,
    ) -> impl futures::Stream<Item = Result<Event<Value>, FleetError>> + Send + 'static {
        let seconds = u32::try_from(limits::HUB_WATCH.as_secs()).unwrap_or(u32::MAX);
        let mut config =
            watcher::Config::default().page_size(limits::HUB_LIST_PAGE).timeout(seconds);
        config.label_selector = labels.map(str::to_owned);
        watcher(self.api.clone(), config).default_backoff().filter_map(move |event| {
            ready(match event {
                Ok(event) => self.read(event).map(Ok),
                Err(error) => Some(Err(self.watch_error(&error))),
            })
        })
    }

    fn read(&self, event: Event<DynamicObject>) -> Option<Event<Value>> {
        Some(match event {
            Event::Init => Event::Init,
            Event::InitDone => Event::InitDone,
            Event::InitApply(object) => Event::InitApply(value(object)?),
            Event::Apply(object) => Event::Apply(value(object)?),
            Event::Delete(object) => Event::Delete(value(object)?),
        })
    }

    fn watch_error(&self, error: &watcher::Error) -> FleetError {
        match error {
            watcher::Error::InitialListFailed(error) => self.error("list", error),
            watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
                self.error("watch", error)
            }
            other => self.other("watch", bounded(&other.to_string())),
        }
    }

    fn error(&self, verb: &'static str, error: &kube::Error) -> FleetError {
        let (plural, one_namespace) = (self.plural, self.one_namespace);
        match error {
            kube::Error::Api(status) => match status.code {
                404 => FleetError::CrdMissing { kind: self.kind },
                401 => FleetError::NotAccepted,
                403 => {
                    let message = bounded(&status.message);
                    FleetError::Forbidden { verb, plural, one_namespace, message }
                }
                _ => self.other(verb, bounded(&status.message)),
            },
            other => self.other(verb, connection_error::describe(other)),
        }
    }

    fn other(&self, verb: &'static str, message: String) -> FleetError {
        FleetError::Other { verb, plural: self.plural, message }
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
fn without_bookkeeping(mut object: Value) -> Value {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    object
}
