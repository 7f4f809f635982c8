//! Clusters and works on the hub, for the commands that show them: reads and watches only.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;

use futures::FutureExt as _;
use futures::future::join3;
use futures::stream::{self, BoxStream, StreamExt};
use kube::Client;
use serde_json::Value;
use tokio::time::timeout;

use super::source_report::of_lease;
pub use crate::fleet_error::FleetError;
use crate::fleet_resource::{Resource, value};
use crate::limits;
use crate::resource_list::{ListPart, ResourceList};
use crate::resource_watch::ResourceEvent;
use gitwork_core::model::name::{ClusterName, SourceId};
use gitwork_core::model::work::{LABEL_MANAGED_BY, LABEL_SOURCE, MANAGER};
use gitwork_report::explain::ClusterReachability;
use gitwork_report::status;
use gitwork_report::status::live::ViewEvent;
use gitwork_report::status::source_report::{ReportedSource, ReportedWorks};
use gitwork_report::status::tree::WorkTree;

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

/// What happens on the hub, and errors that a view can show while it goes on.
pub type ViewEvents = BoxStream<'static, Result<ViewEvent, FleetError>>;

/// Lists the works that gitwork wrote.
pub async fn fleet(client: &Client, selection: &Selection) -> Result<Fleet, FleetError> {
    let mut list = FleetList::start(client, selection).await?;
    while list.next().await?.is_some() {}
    Ok(list.end())
}

/// A list of works under way.
pub struct FleetList {
    resource: Resource,
    list: ResourceList,
    /// The first part of the list, until it is taken.
    first: Option<ListPart<WorkTree>>,
    works: Vec<WorkTree>,
    unreachable: Result<BTreeSet<ClusterName>, FleetError>,
    reports: Result<Vec<ReportedSource>, FleetError>,
    reported: ReportedWorks,
}

fn work_tree(work: &Value) -> WorkTree {
    WorkTree::of(work, |_| false)
}

impl FleetList {
    /// Starts a list. Reads what else belongs to the state of a work, too.
    pub async fn start(client: &Client, selection: &Selection) -> Result<Self, FleetError> {
        let resource = Resource::works(client, selection.cluster.as_ref());
        let mut list = ResourceList::new(Some(&selection.labels()));
        let (first, unreachable, reports) = join3(
            list.next(&resource, |work| work_tree(&work)),
            unreachable(client),
            reports(client, selection),
        )
        .await;
        let first = Some(first?);
        let reported = ReportedWorks::of(reports.as_deref().unwrap_or_default());
        Ok(Self { resource, list, first, works: Vec::new(), unreachable, reports, reported })
    }

    /// The next works that were read, if others may follow. A list that begins again has the same
    /// works again. `None` once it is complete.
    pub async fn next(&mut self) -> Result<Option<&[WorkTree]>, FleetError> {
        loop {
            let part = match self.first.take() {
                Some(first) => first,
                None => self.list.next(&self.resource, |work| work_tree(&work)).await?,
            };
            match part {
                ListPart::Objects(mut works) => {
                    works.iter_mut().for_each(|work| self.reported.mark(work));
                    works.iter_mut().for_each(|work| self.add_reachability(work));
                    let before = self.works.len();
                    self.works.append(&mut works);
                    if !self.list.is_at_end() {
                        return Ok(self.works.get(before..));
                    }
                }
                ListPart::Again => self.works.clear(),
                ListPart::End(_) => return Ok(None),
            }
        }
    }

    fn add_reachability(&self, tree: &mut WorkTree) {
        let lost = self.unreachable.as_ref();
        tree.work.unreachable = lost.is_ok_and(|lost| lost.contains(tree.work.cluster.as_str()));
    }

    /// How many works were read.
    pub fn count(&self) -> usize {
        self.works.len()
    }

    /// All works, sorted, once the list is complete.
    pub fn end(mut self) -> Fleet {
        let mut works = std::mem::take(&mut self.works);
        self.reported.add_missing(&mut works);
        works.iter_mut().for_each(|work| self.add_reachability(work));
        Fleet { works, unreachable: self.unreachable, reports: self.reports }
    }
}

/// Lists the ManifestWorks of all owners, of one cluster or of all: what `read` makes of each.
pub async fn manifest_works<T>(
    client: &Client,
    cluster: Option<&ClusterName>,
    read: impl Fn(Value) -> T,
) -> Result<Vec<T>, FleetError> {
    Resource::works(client, cluster).list(None, read).await
}

/// The reports of the selected sources.
pub async fn reports(
    client: &Client,
    selection: &Selection,
) -> Result<Vec<ReportedSource>, FleetError> {
    let leases = Resource::leases(client, &selection.home);
    let read = |lease: Value| selection.report_in(&lease);
    let all = leases.list(Some(&selection.report_labels()), read).await?;
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

/// The works that gitwork wrote and their changes, without end. Unreachable clusters and reports
/// come before the first works. After an error the list starts again, with exponential backoff.
pub fn watch(client: &Client, selection: &Selection) -> ViewEvents {
    let works = Resource::works(client, selection.cluster.as_ref());
    let labels = selection.labels();
    let works = works.watch(Some(&labels), |work| work_tree(&work)).map(|event| {
        event.map(|event| match event {
            ResourceEvent::ListStarted => ViewEvent::ListStarted,
            ResourceEvent::ListCompleted => ViewEvent::ListCompleted,
            ResourceEvent::Changed(tree) | ResourceEvent::Listed(tree) => {
                ViewEvent::Updated(Box::new(tree))
            }
            ResourceEvent::Gone(WorkTree { work, .. }) => {
                ViewEvent::Removed { cluster: work.cluster, work: work.work }
            }
        })
    });
    after_facts(works.boxed(), watch_reachability(client), watch_reports(client, selection))
}

/// The works, after the first event of what else belongs to their states; then whatever comes.
fn after_facts(
    mut works: ViewEvents,
    mut reachability: ViewEvents,
    mut reports: ViewEvents,
) -> ViewEvents {
    let first = async move {
        let (work, lost, report) = join3(works.next(), reachability.next(), reports.next()).await;
        let changes = stream::select(works, stream::select(reachability, reports));
        stream::iter([lost, report, work].into_iter().flatten()).chain(changes)
    };
    first.flatten_stream().boxed()
}

/// The unreachable clusters, whenever they change. None if they cannot be read at first, as without
/// permission on ManagedClusters.
fn watch_reachability(client: &Client) -> ViewEvents {
    let mut lost: BTreeMap<String, BTreeSet<ClusterName>> = BTreeMap::new();
    let mut last = None;
    let reachability = |cluster: Value| {
        let name = cluster.pointer("/metadata/name").and_then(Value::as_str);
        (name.unwrap_or_default().to_owned(), status::unreachable(&[cluster]))
    };
    let changes = Resource::clusters(client).watch(None, reachability).filter_map(move |event| {
        let is_complete = match event {
            Ok(ResourceEvent::ListStarted) => {
                lost.clear();
                false
            }
            Ok(ResourceEvent::Listed((name, unreachable))) => {
                lost.insert(name, unreachable);
                false
            }
            Ok(ResourceEvent::Changed((name, unreachable))) => {
                lost.insert(name, unreachable);
                true
            }
            Ok(ResourceEvent::Gone((name, _))) => {
                lost.remove(&name);
                true
            }
            Ok(ResourceEvent::ListCompleted) => true,
            Err(_) if last.is_none() => {
                lost.clear();
                true
            }
            Err(_) => false,
        };
        if !is_complete {
            return ready(None);
        }
        let now: BTreeSet<ClusterName> = lost.values().flatten().cloned().collect();
        let before = last.replace(now.clone());
        ready((before.as_ref() != Some(&now)).then_some(Ok(ViewEvent::Unreachable(now))))
    });
    changes.boxed()
}

/// The reports of sources, whenever they change. None if they cannot be read at first, as without
/// permission on Leases.
fn watch_reports(client: &Client, selection: &Selection) -> ViewEvents {
    let mut known: BTreeMap<String, ReportedSource> = BTreeMap::new();
    let (mut is_listed, mut is_first) = (false, true);
    let labels = selection.report_labels();
    let leases = Resource::leases(client, &selection.home);
    let selection = selection.clone();
    let changes = leases.watch(Some(&labels), move |lease| selection.report_in(&lease));
    let changes = changes.filter_map(move |event| {
        match event {
            Ok(ResourceEvent::ListStarted) => {
                known.clear();
                is_listed = false;
            }
            Ok(ResourceEvent::Listed(report) | ResourceEvent::Changed(report)) => {
                known.extend(report.map(|one| (one.source.clone(), one)));
            }
            Ok(ResourceEvent::Gone(report)) => {
                let gone = report.map(|one| one.source);
                known.retain(|source, _| Some(source) != gone.as_ref());
            }
            Ok(ResourceEvent::ListCompleted) => is_listed = true,
            Err(_) if is_first => {
                known.clear();
                is_listed = true;
            }
            Err(_) => return ready(None),
        }
        is_first &= !is_listed;
        ready(is_listed.then(|| Ok(ViewEvent::Reported(known.values().cloned().collect()))))
    });
    changes.boxed()
}
