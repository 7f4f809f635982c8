//! Lists of ManifestWorks, page by page, reduced to what planning needs while they are read.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::answer::{self, Answer, Subject, Verb};
use super::server::{KubeHub, Question, unanswered};
use super::{HubError, bounded};
use crate::core::name::{SourceId, WorkKey};
use crate::core::observed::ObservedWork;
use crate::core::work::LABEL_SOURCE;
use crate::limits;

/// A complete list, and where a watch goes on from it.
pub struct Listed {
    pub works: Vec<ObservedWork>,
    pub resource_version: String,
}

/// One page. The tree of a work is gone before the next one is parsed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    kind: String,
    metadata: PageMetadata,
    items: Vec<Reduced>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: String,
}

struct Reduced(Option<ObservedWork>);

impl<'de> Deserialize<'de> for Reduced {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|object| Self(reduce(object)))
    }
}

/// What planning needs of a work. One that cannot be read is none of ours: every name that gitwork writes can be.
pub fn reduce(object: Value) -> Option<ObservedWork> {
    ObservedWork::from_manifest_work(object)
        .inspect_err(|error| tracing::warn!("a ManifestWork of the hub is left alone: {error}"))
        .ok()
}

/// The query that selects the works of `source`.
pub fn selector(source: Option<&SourceId>) -> String {
    // `/` and `=` as RFC 3986 wants them inside of a query value.
    source.map_or_else(String::new, |source| {
        format!("&labelSelector={}%3D{source}", LABEL_SOURCE.replace('/', "%2F"))
    })
}

/// Lists the works of `source`, or all with `None`.
pub async fn list(hub: &KubeHub, source: Option<&SourceId>) -> Result<Listed, HubError> {
    for _ in 0..limits::HUB_LIST_ATTEMPTS_MAX {
        if let Some(listed) = list_once(hub, source).await? {
            return Ok(listed);
        }
    }
    Err(unanswered("the list changes faster than it can be read (410)".into()))
}

/// `None` where the continue token has expired on the way.
async fn list_once(hub: &KubeHub, source: Option<&SourceId>) -> Result<Option<Listed>, HubError> {
    let mut works: BTreeMap<WorkKey, ObservedWork> = BTreeMap::new();
    let mut next = String::new();
    for _ in 0..limits::HUB_LIST_PAGES_MAX {
        let query = format!("limit={}{}{next}", limits::HUB_LIST_PAGE, selector(source));
        let answer = hub.ask(&Question::of_works(Verb::List, &query)).await?;
        if answer.status == http::StatusCode::GONE {
            return Ok(None);
        }
        let page = read(&answer)?;
        works.extend(page.items.into_iter().filter_map(|item| {
            let work = item.0?;
            Some((work.key.clone(), work))
        }));
        if page.metadata.next.is_empty() {
            let works = works.into_values().collect();
            let resource_version = page.metadata.resource_version;
            return Ok(Some(Listed { works, resource_version }));
        }
        next = format!("&continue={}", escaped(&page.metadata.next));
    }
    Err(unanswered(format!("the list has more than {} pages", limits::HUB_LIST_PAGES_MAX)))
}

/// An answer that is not a list for certain is none: what it lacks would pass for absent.
fn read(answer: &Answer) -> Result<Page, HubError> {
    if !answer.status.is_success() {
        return Err(answer::error(answer, Verb::List, Subject::Works, None));
    }
    let page: Page = serde_json::from_slice(&answer.body).map_err(|error| {
        unanswered(format!(
            "the answer is no list of ManifestWorks: {}",
            bounded(&error.to_string())
        ))
    })?;
    if page.kind != "ManifestWorkList" || page.metadata.resource_version.is_empty() {
        return Err(unanswered("the answer is no list of ManifestWorks".into()));
    }
    Ok(page)
}

/// A continue token is base64 today, and opaque by contract.
fn escaped(token: &str) -> String {
    token.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;

    use super::*;

    fn page(body: &Value) -> Result<Page, HubError> {
        let body = body.to_string().into_bytes();
        read(&Answer { status: StatusCode::OK, retry_after_seconds: None, body })
    }

    #[test]
    fn only_a_complete_list_is_one() {
        let metadata = json!({"resourceVersion": "7", "continue": "a+b"});
        let kind = "ManifestWorkList";
        let good = page(&json!({"kind": kind, "metadata": metadata, "items": []})).ok().unwrap();
        assert_eq!((good.items.len(), good.metadata.next.as_str()), (0, "a+b"));
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
        assert_eq!(escaped("a-Z.9_~+/= \u{e9}"), "a-Z.9_~%2B%2F%3D%20%C3%A9");
        let source = SourceId::parse("fleet").unwrap();
        assert_eq!(selector(Some(&source)), "&labelSelector=gitwork.dev%2Fsource%3Dfleet");
        assert_eq!(selector(None), "");
    }
}
