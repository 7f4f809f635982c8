//! Clusters and works on the hub, for the commands that show them: reads and watches only.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;

use futures::future::join3;
use futures::stream::{self, BoxStream, StreamExt};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::timeout;

use super::bounded;
use super::source_report::of_lease;
pub use crate::fleet_error::FleetError;
use crate::limits;
use gitwork_core::model::name::{ClusterName, SourceId};
use gitwork_core::model::work::{LABEL_MANAGED_BY, LABEL_SOURCE, MANAGER};
use gitwork_core::report::explain::ClusterReachability;
use gitwork_core::report::status;
use gitwork_core::report::status::live::ViewEvent;
use gitwork_core::report::status::source_report;
use gitwork_core::report::status::source_report::ReportedSource;
use gitwork_core::report::status::tree::WorkTree;
use gitwork_kube::connection_error;

/// The works to read, as far as the API server can select them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// One source only.
    pub source: Option<SourceId>,
    /// One cluster only; permissions in its namespace are enough.
    pub cluster: Option<ClusterName>,
    /// The namespace with the reports of sources.
    pub home: String,
}

impl Default for Selection {
    fn default() -> Self {
        Self { source: None, cluster: None, home: super::NAMESPACE.into() }
    }
}

impl Selection {
    /// The label selector of the reports of sources.
    fn report_labels(&self) -> String {
        match &self.source {
            Some(source) => format!("{LABEL_SOURCE}={source}"),
            None => LABEL_SOURCE.to_owned(),
        }
    }

    /// The report in a Lease, for the selected works.
    fn report_in(&self, lease: &Value) -> Option<ReportedSource> {
        let mut one = of_lease(lease)?;
        if let Some(cluster) = &self.cluster {
            one.report.works.retain(|work| work.cluster == cluster.as_str());
        }
        Some(one)
    }

    fn labels(&self) -> String {
        match &self.source {
            Some(source) => format!("{LABEL_MANAGED_BY}={MANAGER},{LABEL_SOURCE}={source}"),
            None => format!("{LABEL_MANAGED_BY}={MANAGER}"),
        }
    }
}

/// The works, and the unreachable clusters.
#[derive(Debug)]
pub struct Fleet {
    /// The works, each with the status that its agent reports.
    pub works: Vec<WorkTree>,
    /// The clusters whose ManagedCluster is not available, or why they are not known.
    pub unreachable: Result<BTreeSet<ClusterName>, FleetError>,
    /// The reports of their sources; the works include them already.
    pub reports: Result<Vec<ReportedSource>, FleetError>,
}

/// Lists the works that gitwork wrote.
pub async fn fleet(client: &Client, selection: &Selection) -> Result<Fleet, FleetError> {
    let works = Resource::works(client, selection);
    let labels = selection.labels();
    let works = works.list(Some(&labels), |work| WorkTree::of(&work, |_| false));
    let (works, unreachable, reports) =
        join3(works, unreachable(client), reports(client, selection)).await;
    let mut works = works?;
    source_report::apply(reports.as_deref().unwrap_or_default(), &mut works);
    if let Ok(lost) = &unreachable {
        for tree in &mut works {
            tree.work.unreachable = lost.iter().any(|name| name.as_str() == tree.work.cluster);
        }
    }
    Ok(Fleet { works, unreachable, reports })
}

/// The reports of sources.
async fn reports(
    client: &Client,
    selection: &Selection,
) -> Result<Vec<ReportedSource>, FleetError> {
    let leases = Resource::leases(client, selection);
    let all =
        leases.list(Some(&selection.report_labels()), |lease| selection.report_in(&lease)).await?;
    Ok(all.into_iter().flatten().collect())
}

/// The unreachable clusters.
pub async fn unreachable(client: &Client) -> Result<BTreeSet<ClusterName>, FleetError> {
    let clusters = Resource::clusters(client).list(None, |cluster| cluster).await?;
    Ok(status::unreachable(&clusters))
}

/// Whether one cluster is reachable.
pub async fn reach_of(client: &Client, cluster: &ClusterName) -> ClusterReachability {
    let clusters = Resource::clusters(client);
    match timeout(limits::HUB_CALL, clusters.api.get_opt(cluster.as_str())).await {
        Ok(Ok(Some(found))) => {
            let found: Vec<Value> = value(found).into_iter().collect();
            if status::unreachable(&found).is_empty() {
                ClusterReachability::Reachable
            } else {
                ClusterReachability::Unreachable
            }
        }
        Ok(Ok(None)) => ClusterReachability::NotRegistered,
        Ok(Err(_)) | Err(_) => ClusterReachability::Unknown,
    }
}

/// The works that gitwork wrote and their changes, without end. After an error the watch restarts
/// with exponential backoff.
pub fn watch(
    client: &Client,
    selection: &Selection,
) -> BoxStream<'static, Result<ViewEvent, FleetError>> {
    let works = Resource::works(client, selection);
    let labels = selection.labels();
    let works = works.watch(Some(&labels)).map(|event| {
        event.map(|event| match event {
            Event::Init => ViewEvent::ListStarted,
            Event::InitDone => ViewEvent::ListCompleted,
            Event::Apply(work) | Event::InitApply(work) => {
                ViewEvent::Updated(Box::new(WorkTree::of(&work, |_| false)))
            }
            Event::Delete(work) => {
                let name = |field| {
                    let found = work.pointer(field).and_then(Value::as_str);
                    found.unwrap_or_default().to_owned()
                };
                ViewEvent::Removed {
                    cluster: name("/metadata/namespace"),
                    work: name("/metadata/name"),
                }
            }
        })
    });
    stream::select(
        stream::select(works, watch_reachability(client)),
        watch_reports(client, selection),
    )
    .boxed()
}

/// The unreachable clusters, whenever they change. Without permission on ManagedClusters there are
/// no events.
fn watch_reachability(client: &Client) -> BoxStream<'static, Result<ViewEvent, FleetError>> {
    let mut lost: BTreeMap<String, BTreeSet<ClusterName>> = BTreeMap::new();
    let mut last = BTreeSet::new();
    let changes = Resource::clusters(client).watch(None).filter_map(move |event| {
        let name = |cluster: &Value| {
            cluster.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let complete = match event {
            Ok(Event::Init) => {
                lost.clear();
                false
            }
            Ok(Event::InitApply(cluster)) => {
                lost.insert(name(&cluster), status::unreachable(&[cluster]));
                false
            }
            Ok(Event::Apply(cluster)) => {
                lost.insert(name(&cluster), status::unreachable(&[cluster]));
                true
            }
            Ok(Event::Delete(cluster)) => {
                lost.remove(&name(&cluster));
                true
            }
            Ok(Event::InitDone) => true,
            Err(_) => false,
        };
        let now: BTreeSet<ClusterName> = lost.values().flatten().cloned().collect();
        let change = (complete && now != last).then(|| {
            last.clone_from(&now);
            Ok(ViewEvent::Unreachable(now))
        });
        ready(change)
    });
    changes.boxed()
}

/// The reports of sources, whenever they change. Without permission on Leases there are no events.
fn watch_reports(
    client: &Client,
    selection: &Selection,
) -> BoxStream<'static, Result<ViewEvent, FleetError>> {
    let mut known: BTreeMap<String, ReportedSource> = BTreeMap::new();
    let mut is_listed = false;
    let labels = selection.report_labels();
    let changes = Resource::leases(client, selection).watch(Some(&labels));
    let selection = selection.clone();
    let changes = changes.filter_map(move |event| {
        match event {
            Ok(Event::Init) => {
                known.clear();
                is_listed = false;
            }
            Ok(Event::InitApply(lease) | Event::Apply(lease)) => {
                known.extend(selection.report_in(&lease).map(|one| (one.source.clone(), one)));
            }
            Ok(Event::Delete(lease)) => {
                let gone = of_lease(&lease).map(|one| one.source);
                known.retain(|source, _| Some(source) != gone.as_ref());
            }
            Ok(Event::InitDone) => is_listed = true,
            Err(_) => return ready(None),
        }
        let change = is_listed.then(|| Ok(ViewEvent::Reported(known.values().cloned().collect())));
        ready(change)
    });
    changes.boxed()
}

/// One kind on the hub, in all namespaces or one.
struct Resource {
    api: Api<DynamicObject>,
    kind: &'static str,
    plural: &'static str,
    one_namespace: bool,
}

impl Resource {
    fn works(client: &Client, selection: &Selection) -> Self {
        let (kind, plural) = ("ManifestWork", "manifestworks");
        let resource = resource("work.open-cluster-management.io", kind, plural);
        let api = match &selection.cluster {
            Some(cluster) => Api::namespaced_with(client.clone(), cluster.as_str(), &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let one_namespace = selection.cluster.is_some();
        let plural = "manifestworks.work.open-cluster-management.io";
        Self { api, kind, plural, one_namespace }
    }

    fn clusters(client: &Client) -> Self {
        let (kind, plural) = ("ManagedCluster", "managedclusters");
        let resource = resource("cluster.open-cluster-management.io", kind, plural);
        let api = Api::all_with(client.clone(), &resource);
        let plural = "managedclusters.cluster.open-cluster-management.io";
        Self { api, kind, plural, one_namespace: true }
    }

    fn leases(client: &Client, selection: &Selection) -> Self {
        let (kind, plural) = ("Lease", "leases");
        let resource = resource("coordination.k8s.io", kind, plural);
        let api = Api::namespaced_with(client.clone(), &selection.home, &resource);
        Self { api, kind, plural: "leases.coordination.k8s.io", one_namespace: true }
    }

    /// Lists page by page; each object is reduced by `read` before the next page comes.
    async fn list<T>(
        &self,
        labels: Option<&str>,
        read: impl Fn(Value) -> T,
    ) -> Result<Vec<T>, FleetError> {
        let mut params = ListParams::default().limit(limits::HUB_LIST_PAGE);
        params.label_selector = labels.map(str::to_owned);
        let mut all = Vec::new();
        for _ in 0..limits::HUB_LIST_PAGES_MAX {
            let page = timeout(limits::HUB_CALL, self.api.list(&params)).await;
            let late = |_| {
                self.other("list", format!("no answer within {} s", limits::HUB_CALL.as_secs()))
            };
            let page = page.map_err(late)?.map_err(|error| self.error("list", &error))?;
            all.extend(page.items.into_iter().filter_map(value).map(&read));
            match page.metadata.continue_ {
                Some(next) if !next.is_empty() => params.continue_token = Some(next),
                _ => return Ok(all),
            }
        }
        Err(self.other("list", "the list has no end".into()))
    }

    fn watch(
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

fn resource(group: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.into(),
        version: "v1".into(),
        api_version: format!("{group}/v1"),
        kind: kind.into(),
        plural: plural.into(),
    }
}

fn value(mut object: DynamicObject) -> Option<Value> {
    // Bookkeeping of the API server, often larger than the rest.
    object.metadata.managed_fields = None;
    serde_json::to_value(object).ok()
}
