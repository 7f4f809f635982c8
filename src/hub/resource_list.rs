//! Lists the objects of a kind, part by part.

use kube::api::{ListParams, Request};
use serde_json::Value;
use tokio::time::timeout;

use crate::fleet_error::FleetError;
use crate::fleet_resource::{Resource, value, without_bookkeeping};
use crate::list::{WholeList, no_list};
use crate::{HubError, limits};
use gitwork_kube::connection::RequestError;
use gitwork_retry::log_error;

/// A list under way. After the first page, all objects come in one response if the API server makes
/// that from memory, and page by page otherwise, as [`crate::list`] does it.
pub(crate) struct ResourceList {
    /// The next page.
    page: ListParams,
    pages_read: usize,
    response: Response,
}

enum Response {
    /// Pages follow. `may_be_whole`: unless one response has all objects.
    Pages { may_be_whole: bool },
    /// One response has all objects.
    Whole(Box<WholeList>),
    /// All objects were read, as of this resourceVersion.
    End(String),
}

/// A part of a list.
pub(crate) enum ListPart<T> {
    /// The next objects.
    Objects(Vec<T>),
    /// The list begins again: the objects so far do not count.
    Again,
    /// The list is complete, as of this resourceVersion.
    End(String),
}

impl ResourceList {
    /// A list of the objects with these labels.
    pub fn new(labels: Option<&str>) -> Self {
        let mut page = ListParams::default().limit(limits::HUB_LIST_PAGE);
        page.label_selector = labels.map(str::to_owned);
        Self { page, pages_read: 0, response: Response::Pages { may_be_whole: true } }
    }

    /// The next part; each object is reduced by `read` as it comes.
    pub async fn next<T>(
        &mut self,
        resource: &Resource,
        read: impl Fn(Value) -> T,
    ) -> Result<ListPart<T>, FleetError> {
        // The first page has come, and others follow.
        if matches!(self.response, Response::Pages { may_be_whole: true })
            && self.pages_read == 1
            && resource.connection.lists_from_memory().await
        {
            match self.open_whole(resource).await {
                Ok(()) => return Ok(ListPart::Again),
                Err(error) => self.in_pages(&error),
            }
        }
        // A response that breaks off is not gone on with.
        match std::mem::replace(&mut self.response, Response::Pages { may_be_whole: false }) {
            pages @ Response::Pages { .. } => {
                self.response = pages;
                self.next_page(resource, read).await
            }
            Response::Whole(list) => match self.next_batch(list, resource, read).await {
                Ok(part) => Ok(part),
                Err(error) => {
                    self.in_pages(&error);
                    (self.page.continue_token, self.pages_read) = (None, 0);
                    Ok(ListPart::Again)
                }
            },
            Response::End(version) => Ok(ListPart::End(version)),
        }
    }

    /// Whether all objects were read.
    pub fn is_at_end(&self) -> bool {
        matches!(self.response, Response::End(_))
    }

    async fn next_page<T>(
        &mut self,
        resource: &Resource,
        read: impl Fn(Value) -> T,
    ) -> Result<ListPart<T>, FleetError> {
        if self.pages_read == limits::HUB_LIST_PAGES_MAX {
            return Err(resource.other("list", &"the list has no end"));
        }
        let page = timeout(limits::HUB_CALL, resource.api.list(&self.page)).await;
        let late = |_| resource.other("list", &RequestError::Timeout(limits::HUB_CALL));
        let page = page.map_err(late)?.map_err(|error| resource.error("list", &error))?;
        self.pages_read += 1;
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => self.page.continue_token = Some(next),
            None => {
                let version = page.metadata.resource_version.unwrap_or_default();
                self.response = Response::End(version);
            }
        }
        Ok(ListPart::Objects(page.items.into_iter().filter_map(value).map(read).collect()))
    }

    /// Asks for all objects in one response.
    async fn open_whole(&mut self, resource: &Resource) -> Result<(), FleetError> {
        let whole = ListParams { limit: None, continue_token: None, ..self.page.clone() };
        let request = Request::new(resource.api.resource_url()).list(&whole);
        let request = request.map_err(|error| resource.other("list", &error))?;
        let response = resource.connection.api().open_response(request, limits::HUB_LIST).await;
        let body = response
            .map_err(|error| resource.other("list", &error))?
            .map_err(|response| resource.rejected("list", &response.api_status()))?;
        self.response = Response::Whole(Box::new(WholeList::new(body)));
        Ok(())
    }

    async fn next_batch<T>(
        &mut self,
        mut list: Box<WholeList>,
        resource: &Resource,
        read: impl Fn(Value) -> T,
    ) -> Result<ListPart<T>, FleetError> {
        let unreadable = |error: HubError| resource.other("list", &error);
        if let Some(batch) = list.next().await.map_err(unreadable)? {
            let read = |item: &[u8]| {
                let object = serde_json::from_slice(item);
                let object = object.map_err(|error| unreadable(no_list(resource.kind, &error)))?;
                Ok(read(without_bookkeeping(object)))
            };
            let objects = batch.items().map(read).collect::<Result<_, _>>()?;
            self.response = Response::Whole(list);
            return Ok(ListPart::Objects(objects));
        }
        list.end(resource.kind).map(ListPart::End).map_err(unreadable)
    }

    /// Goes on in pages.
    fn in_pages(&mut self, error: &FleetError) {
        log_error!(debug, error, "a list failed as a whole; reading it in pages");
        self.response = Response::Pages { may_be_whole: false };
    }
}

impl Resource {
    /// Lists all objects; each one is reduced by `read` as it comes.
    pub(crate) async fn list<T>(
        &self,
        labels: Option<&str>,
        read: impl Fn(Value) -> T,
    ) -> Result<Vec<T>, FleetError> {
        let (mut list, mut all) = (ResourceList::new(labels), Vec::new());
        loop {
            match list.next(self, &read).await? {
                ListPart::Objects(objects) => all.extend(objects),
                ListPart::Again => all.clear(),
                ListPart::End(_) => return Ok(all),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;

    use http::Response;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use tower::service_fn;

    use super::*;

    /// An API server with three works. It breaks off the response that should have all of them.
    fn broken(request: &http::Request<Body>) -> String {
        let list = |next: &str, names: &[&str]| {
            let work = |name: &&str| json!({"metadata": {"name": name, "namespace": "edge"}});
            let items: Vec<Value> = names.iter().map(work).collect();
            let metadata = json!({"resourceVersion": "7", "continue": next});
            json!({"apiVersion": "work.open-cluster-management.io/v1", "items": items,
                "kind": "ManifestWorkList", "metadata": metadata})
            .to_string()
        };
        let query = request.uri().query().unwrap_or_default();
        match request.uri().path() {
            "/version" => json!({"major": "1", "minor": "33"}).to_string(),
            _ if query.contains("continue=") => list("", &["c"]),
            _ if query.contains("limit=") => list("more", &["a", "b"]),
            _ => list("", &["a", "b", "c"]).split_once("\"kind\"").unwrap().0.to_owned(),
        }
    }

    #[tokio::test]
    async fn list_that_breaks_off_begins_again_in_pages() {
        let service = service_fn(|request| {
            ready(Ok::<_, Infallible>(Response::new(Body::from(broken(&request).into_bytes()))))
        });
        let works = Resource::works(&Client::new(service, "default"), None);
        let name = |work: Value| work["metadata"]["name"].as_str().unwrap().to_owned();
        let listed = works.list(None, name).await.unwrap();
        assert_eq!(listed, ["a", "b", "c"], "none is there twice");

        let (mut list, mut listed, mut counts) = (ResourceList::new(None), Vec::new(), Vec::new());
        loop {
            match list.next(&works, name).await.unwrap() {
                ListPart::Objects(objects) => listed.extend(objects),
                ListPart::Again => listed.clear(),
                ListPart::End(_) => break,
            }
            counts.push(listed.len());
        }
        assert_eq!(counts, [2, 0, 3, 0, 2, 3]);
    }
}
