//! Lists ManifestWorks and ManifestWorkReplicaSets. Each one is reduced to what planning needs
//! while it is read.
//!
//! Many objects come as one whole list if the API server makes it from memory, and page by page
//! otherwise: it reads each page but the first one from etcd, which takes eight times as long.

use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::connection::{HubConnection, no_response};
use crate::request::ApiRequest;
use crate::response::{self, RequestTarget, Verb};
use crate::work_kind::WorkKind;
use crate::{HubError, bounded, limits, unavailable};
use gitwork_core::model::name::{SourceId, WorkKey};
use gitwork_core::model::work::LABEL_SOURCE;
use gitwork_core::model::works_by_cluster::WorksByCluster;
use gitwork_core::plan::observed::{LABEL_REPLICA_SET, ObservedWork};
use gitwork_kube::connection::{ApiResponse, ResponseBody};
use gitwork_kube::list_items::{ItemBatch, ListItems};
use gitwork_kube::list_page::ListPage;
use gitwork_retry::log_error;

/// A complete list, and the resourceVersion to watch from.
pub struct Listed {
    pub works: WorksByCluster<ObservedWork>,
    pub resource_version: String,
}

/// Objects of one kind, all or those with a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkQuery {
    pub kind: WorkKind,
    /// The end of a query.
    selector: String,
}

impl WorkQuery {
    /// The works of `source`, or of all sources.
    pub fn works(source: Option<&SourceId>) -> Self {
        let selector = source.map(|source| label_selector(LABEL_SOURCE, source.as_str()));
        Self { kind: WorkKind::ManifestWork, selector: selector.unwrap_or_default() }
    }

    /// All replica sets: no label has the source.
    pub fn replica_sets() -> Self {
        Self { kind: WorkKind::ReplicaSet, selector: String::new() }
    }

    /// The works of a replica set.
    pub fn works_of(set: &WorkKey) -> Self {
        let value = format!("{}.{}", set.cluster.namespace(), set.work);
        let selector = label_selector(LABEL_REPLICA_SET, &value);
        Self { kind: WorkKind::ManifestWork, selector }
    }

    /// A list or watch.
    pub fn request(&self, verb: Verb, query: &str) -> ApiRequest {
        ApiRequest::of_all(self.kind, verb, &format!("{query}{}", self.selector))
    }
}

/// RFC 3986: `/` and `=` are escaped in a query value.
fn label_selector(label: &str, value: &str) -> String {
    format!("&labelSelector={}%3D{value}", label.replace('/', "%2F"))
}

/// Reduces an object to what planning needs; `None` if it is invalid. gitwork writes valid names
/// only, so that an invalid one is never its own.
pub fn reduce(kind: WorkKind, object: Value) -> Option<ObservedWork> {
    let name = kind.names().1;
    kind.read(object)
        .inspect_err(|error| log_error!(warn, error, kind = name, "ignoring an object on the hub"))
        .ok()
}

/// Lists all objects of a selection.
pub async fn list(connection: &HubConnection, selection: &WorkQuery) -> Result<Listed, HubError> {
    for _ in 0..limits::HUB_LIST_ATTEMPTS_MAX {
        if let Some(listed) = list_once(connection, selection).await? {
            return Ok(listed);
        }
    }
    Err(unavailable("the continue token expired before the end of the list (410)".into()))
}

/// `None` if the continue token expired. The hub makes the next page while the works of the last
/// one are read: both take as long.
async fn list_once(
    connection: &HubConnection,
    selection: &WorkQuery,
) -> Result<Option<Listed>, HubError> {
    let mut works = WorksByCluster::new();
    let (kind, mut next) = (selection.kind, String::new());
    let mut reading: Option<ItemReader> = None;
    let mut sizes = PageSizes::default();
    for _ in 0..limits::HUB_LIST_PAGES_MAX {
        let query = format!("limit={}{next}", sizes.limit);
        let response = connection.send(&selection.request(Verb::List, &query)).await;
        if response.as_ref().is_ok_and(|response| response.status == http::StatusCode::GONE) {
            return Ok(None);
        }
        let bytes = response.as_ref().map_or(0, |response| response.body.len());
        let read = response.and_then(|response| read_page(kind, &response));
        // The works of this page may be larger than those before.
        if read.is_err() && sizes.shrink() {
            continue;
        }
        let (page, items) = read?;
        let is_first = next.is_empty() && !page.metadata.next.is_empty();
        if is_first && connection.lists_from_memory().await {
            match list_whole(connection, selection).await {
                Ok(listed) => return Ok(Some(listed)),
                Err(error) => {
                    log_error!(info, &error, "a list failed as a whole; reading it in pages");
                }
            }
        }
        sizes.add(bytes, items.items().count());
        if let Some(before) = reading.take() {
            works.append(before.works().await?);
        }
        let reader = ItemReader::start(kind, items);
        let Some(query) = page.next_query() else {
            works.append(reader.works().await?);
            return Ok(Some(Listed { works, resource_version: page.metadata.resource_version }));
        };
        (next, reading) = (query, Some(reader));
    }
    Err(unavailable(format!("the list has more than {} pages", limits::HUB_LIST_PAGES_MAX)))
}

/// Reads all objects of a selection from one response.
async fn list_whole(connection: &HubConnection, selection: &WorkQuery) -> Result<Listed, HubError> {
    let kind = selection.kind;
    let query = format!("timeoutSeconds={}", limits::HUB_LIST.as_secs());
    let request = selection.request(Verb::List, &query);
    let mut list = WholeList::new(connection.open_list(&request).await?);
    let mut works = WorksByCluster::new();
    let mut reading: Option<ItemReader> = None;
    while let Some(batch) = list.next().await? {
        if let Some(before) = reading.take() {
            works.append(before.works().await?);
        }
        reading = Some(ItemReader::start(kind, batch));
    }
    if let Some(last) = reading {
        works.append(last.works().await?);
    }
    Ok(Listed { works, resource_version: list.end(kind.names().1)? })
}

/// A list that comes as one response, which is read in parts.
pub(crate) struct WholeList {
    body: ResponseBody,
    list: ListItems,
    batch: ItemBatch,
}

impl WholeList {
    /// The list in the body of a response.
    pub fn new(body: ResponseBody) -> Self {
        Self { body, list: new_list(), batch: ItemBatch::default() }
    }

    /// The next items, some `limits::HUB_LIST_PAGE_BYTES`; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<ItemBatch>, HubError> {
        while let Some(part) = self.body.next().await.map_err(no_response)? {
            let read = self.list.read(&part, &mut self.batch);
            read.map_err(|error| unavailable(error.to_string()))?;
            if self.batch.bytes() >= limits::HUB_LIST_PAGE_BYTES {
                return Ok(Some(self.batch.take()));
            }
        }
        let last = self.batch.take();
        Ok((last.bytes() > 0).then_some(last))
    }

    /// The resourceVersion of a list of this kind that was read to its end.
    pub fn end(self, kind: &str) -> Result<String, HubError> {
        let page = read_envelope(kind, &self.list.into_envelope())?;
        if !page.metadata.next.is_empty() {
            return Err(unavailable("the response is not the whole list".into()));
        }
        Ok(page.metadata.resource_version)
    }
}

/// How many works the next page has at most.
#[derive(Debug)]
struct PageSizes {
    limit: u32,
    may_grow: bool,
}

impl Default for PageSizes {
    fn default() -> Self {
        Self { limit: limits::HUB_LIST_PAGE, may_grow: true }
    }
}

impl PageSizes {
    /// A page of so many bytes and works was read.
    fn add(&mut self, bytes: usize, works: usize) {
        if self.may_grow {
            let each = (bytes / works.max(1)).max(1);
            let fitting = u32::try_from(limits::HUB_LIST_PAGE_BYTES / each).unwrap_or(u32::MAX);
            self.limit = fitting.clamp(limits::HUB_LIST_PAGE, limits::HUB_LIST_PAGE_MAX);
        }
    }

    /// A large page failed: pages have the usual size from now on. False if it had that size.
    fn shrink(&mut self) -> bool {
        let was_large = self.limit > limits::HUB_LIST_PAGE;
        *self = Self { limit: limits::HUB_LIST_PAGE, may_grow: false };
        was_large
    }
}

/// Reads items of a list on a thread of its own. Each one is reduced before the next one is parsed.
struct ItemReader(JoinHandle<Result<WorksByCluster<ObservedWork>, HubError>>);

impl ItemReader {
    fn start(kind: WorkKind, batch: ItemBatch) -> Self {
        Self(tokio::task::spawn_blocking(move || read_works(kind, &batch)))
    }

    async fn works(self) -> Result<WorksByCluster<ObservedWork>, HubError> {
        self.0.await.unwrap_or_else(|why| Err(unavailable(format!("reading a page failed: {why}"))))
    }
}

/// Cuts a page into what it says of the list, and its items.
fn read_page(
    kind: WorkKind,
    response: &ApiResponse,
) -> Result<(ListPage<IgnoredAny>, ItemBatch), HubError> {
    if !response.status.is_success() {
        return Err(response::error(response, Verb::List, RequestTarget::All(kind), None));
    }
    let (mut list, mut items) = (new_list(), ItemBatch::default());
    list.read(&response.body, &mut items).map_err(|error| unavailable(error.to_string()))?;
    Ok((read_envelope(kind.names().1, &list.into_envelope())?, items))
}

fn new_list() -> ListItems {
    ListItems::new(limits::HUB_EVENT_BYTES_MAX)
}

/// Reads what a list says of itself. Anything but a valid list is an error: its missing works would
/// count as deleted.
fn read_envelope(kind: &str, text: &[u8]) -> Result<ListPage<IgnoredAny>, HubError> {
    let page: ListPage<IgnoredAny> =
        serde_json::from_slice(text).map_err(|error| no_list(kind, &error))?;
    let is_complete = page.items.is_some() && !page.metadata.resource_version.is_empty();
    if page.kind.strip_suffix("List") != Some(kind) || !is_complete {
        return Err(unavailable(format!("the response is no list of {kind}s")));
    }
    Ok(page)
}

/// Reads the works among the items of a list.
fn read_works(kind: WorkKind, items: &ItemBatch) -> Result<WorksByCluster<ObservedWork>, HubError> {
    let read = |item: &[u8]| serde_json::from_slice(item).map(|item| reduce(kind, item));
    let works = items.items().map(read).collect::<Result<Vec<_>, _>>();
    let works = works.map_err(|error| no_list(kind.names().1, &error))?;
    Ok(works.into_iter().flatten().collect())
}

pub(crate) fn no_list(kind: &str, error: &serde_json::Error) -> HubError {
    unavailable(format!("the response is no list of {kind}s: {}", bounded(&error.to_string())))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;

    use gitwork_core::model::name::{ClusterName, WorkName};

    use super::*;

    fn page(body: &Value) -> Result<(ListPage<IgnoredAny>, usize), HubError> {
        let body = body.to_string().into_bytes().into();
        let response = ApiResponse { status: StatusCode::OK, retry_after_seconds: None, body };
        let (end, items) = read_page(WorkKind::ManifestWork, &response)?;
        Ok((end, read_works(WorkKind::ManifestWork, &items)?.len()))
    }

    #[test]
    fn an_incomplete_list_is_an_error() {
        let metadata = json!({"resourceVersion": "7", "continue": "a+b"});
        let kind = "ManifestWorkList";
        let work = json!({"metadata": {"name": "web", "namespace": "edge-1", "uid": "1",
            "resourceVersion": "5", "generation": 1}, "spec": {}});
        for (items, works) in [(json!([]), 0), (json!([work, {"metadata": {}}]), 1)] {
            let good = page(&json!({"kind": kind, "metadata": metadata, "items": items}));
            let (end, found) = good.ok().unwrap();
            assert_eq!((found, end.metadata.next.as_str()), (works, "a+b"));
        }
        for bad in [
            json!({}),
            json!({"kind": kind, "metadata": metadata}),
            json!({"kind": kind, "metadata": metadata, "items": null}),
            json!({"kind": kind, "metadata": {}, "items": []}),
            json!({"kind": kind, "metadata": {"resourceVersion": ""}, "items": []}),
            json!({"kind": "Status", "metadata": metadata, "items": []}),
        ] {
            assert!(matches!(page(&bad), Err(HubError::Unavailable { .. })), "{bad}");
        }
    }

    #[test]
    fn pages_grow_with_small_works_until_one_fails() {
        let mut sizes = PageSizes::default();
        assert!(!sizes.shrink(), "the first page has the usual size");
        let mut sizes_of = |bytes: usize, works: usize| {
            sizes = PageSizes::default();
            sizes.add(bytes, works);
            sizes.limit
        };
        assert_eq!(sizes_of(100 * 6 * 1024, 100), 682);
        assert_eq!(sizes_of(100 * 1024, 100), limits::HUB_LIST_PAGE_MAX);
        assert_eq!(sizes_of(0, 0), limits::HUB_LIST_PAGE_MAX);
        assert_eq!(sizes_of(100 * 1024 * 1024, 100), limits::HUB_LIST_PAGE);
        let mut sizes = PageSizes::default();
        sizes.add(100 * 1024, 100);
        assert!(sizes.shrink());
        sizes.add(100 * 1024, 100);
        assert_eq!((sizes.limit, sizes.shrink()), (limits::HUB_LIST_PAGE, false));
    }

    #[test]
    fn queries_are_escaped() {
        let source = SourceId::parse("fleet").unwrap();
        let of = |selection: WorkQuery| selection.selector;
        let selector = "&labelSelector=gitwork.dev%2Fsource%3Dfleet";
        assert_eq!(of(WorkQuery::works(Some(&source))), selector);
        assert_eq!(of(WorkQuery::works(None)), "");
        let cluster = ClusterName::of_replica_sets("stores").unwrap();
        let set = WorkKey { cluster, work: WorkName::parse("web").unwrap() };
        let label = "work.open-cluster-management.io%2Fmanifestworkreplicaset";
        assert_eq!(of(WorkQuery::works_of(&set)), format!("&labelSelector={label}%3Dstores.web"));
    }
}
