//! Lists ManifestWorks page by page. Each work is reduced to what planning needs while it is read.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::connection::HubConnection;
use crate::request::ApiRequest;
use crate::response::{self, RequestTarget, Verb};
use crate::{HubError, bounded, limits, unavailable};
use gitwork_core::model::name::{SourceId, WorkKey};
use gitwork_core::model::work::LABEL_SOURCE;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_kube::connection::ApiResponse;
use gitwork_kube::list_page::ListPage;
use gitwork_retry::log_error;

/// A complete list, and the resourceVersion to watch from.
pub struct Listed {
    pub works: Vec<ObservedWork>,
    pub resource_version: String,
}

/// One page. Each work is reduced before the next one is parsed.
type Page = ListPage<Reduced>;

struct Reduced(Option<ObservedWork>);

impl<'de> Deserialize<'de> for Reduced {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|object| Self(reduce(object)))
    }
}

/// Reduces a ManifestWork to what planning needs; `None` if it is invalid. gitwork writes valid
/// names only, so that an invalid work is never its own.
pub fn reduce(object: Value) -> Option<ObservedWork> {
    ObservedWork::from_manifest_work(object)
        .inspect_err(|error| log_error!(warn, error, "ignoring a ManifestWork on the hub"))
        .ok()
}

/// The query that selects the works of `source`.
pub fn selector(source: Option<&SourceId>) -> String {
    // RFC 3986: `/` and `=` are escaped in a query value.
    source.map_or_else(String::new, |source| {
        format!("&labelSelector={}%3D{source}", LABEL_SOURCE.replace('/', "%2F"))
    })
}

/// Lists the works of `source`, or of all sources.
pub async fn list(
    connection: &HubConnection,
    source: Option<&SourceId>,
) -> Result<Listed, HubError> {
    for _ in 0..limits::HUB_LIST_ATTEMPTS_MAX {
        if let Some(listed) = list_once(connection, source).await? {
            return Ok(listed);
        }
    }
    Err(unavailable("the continue token expired before the end of the list (410)".into()))
}

/// `None` if the continue token expired.
async fn list_once(
    connection: &HubConnection,
    source: Option<&SourceId>,
) -> Result<Option<Listed>, HubError> {
    let mut works: BTreeMap<WorkKey, ObservedWork> = BTreeMap::new();
    let mut next = String::new();
    for _ in 0..limits::HUB_LIST_PAGES_MAX {
        let query = format!("limit={}{}{next}", limits::HUB_LIST_PAGE, selector(source));
        let response = connection.send(&ApiRequest::of_works(Verb::List, &query)).await?;
        if response.status == http::StatusCode::GONE {
            return Ok(None);
        }
        let page = read(&response)?;
        let next_query = page.next_query();
        works.extend(page.items.into_iter().flatten().filter_map(|item| {
            let work = item.0?;
            Some((work.key.clone(), work))
        }));
        let Some(query) = next_query else {
            let works = works.into_values().collect();
            let resource_version = page.metadata.resource_version;
            return Ok(Some(Listed { works, resource_version }));
        };
        next = query;
    }
    Err(unavailable(format!("the list has more than {} pages", limits::HUB_LIST_PAGES_MAX)))
}

/// Reads one page. Anything but a valid list is an error: its missing works would count as deleted.
fn read(response: &ApiResponse) -> Result<Page, HubError> {
    if !response.status.is_success() {
        return Err(response::error(response, Verb::List, RequestTarget::Works, None));
    }
    let page: Page = serde_json::from_slice(&response.body).map_err(|error| {
        unavailable(format!(
            "the response is no list of ManifestWorks: {}",
            bounded(&error.to_string())
        ))
    })?;
    let is_complete = page.items.is_some() && !page.metadata.resource_version.is_empty();
    if page.kind != "ManifestWorkList" || !is_complete {
        return Err(unavailable("the response is no list of ManifestWorks".into()));
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;

    use super::*;

    fn page(body: &Value) -> Result<Page, HubError> {
        let body = body.to_string().into_bytes().into();
        read(&ApiResponse { status: StatusCode::OK, retry_after_seconds: None, body })
    }

    #[test]
    fn an_incomplete_list_is_an_error() {
        let metadata = json!({"resourceVersion": "7", "continue": "a+b"});
        let kind = "ManifestWorkList";
        let good = page(&json!({"kind": kind, "metadata": metadata, "items": []})).ok().unwrap();
        assert_eq!((good.items.unwrap().len(), good.metadata.next.as_str()), (0, "a+b"));
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
    fn queries_are_escaped() {
        let source = SourceId::parse("fleet").unwrap();
        assert_eq!(selector(Some(&source)), "&labelSelector=gitwork.dev%2Fsource%3Dfleet");
        assert_eq!(selector(None), "");
    }
}
