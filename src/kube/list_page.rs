//! One page of a list, and the query of the next one.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

/// One page of a list. `T` is an item, in the form that the caller needs.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListPage<T> {
    /// The kind of the list, such as `ManifestWorkList`. Empty if the response has none.
    #[serde(default)]
    pub kind: String,
    /// Where the list ends, and how it goes on.
    pub metadata: ListMetadata,
    /// The objects of this page. `None` if the field is missing or null: the API server writes null
    /// for an empty list of metadata only.
    pub items: Option<Vec<T>>,
}

/// The metadata of a list (`ListMeta` of the Kubernetes API).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMetadata {
    /// The version to watch from, after the last page. Empty if the response has none.
    #[serde(default)]
    pub resource_version: String,
    /// The token of the next page; empty after the last one.
    #[serde(default, rename = "continue")]
    pub next: String,
}

/// All but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl<T> ListPage<T> {
    /// The query parameter of the next page, with a leading `&`; `None` after the last page.
    pub fn next_query(&self) -> Option<String> {
        let next = &self.metadata.next;
        (!next.is_empty()).then(|| format!("&continue={}", escape_query(next)))
    }
}

/// `text` as a value in a query (RFC 3986). A continue token is opaque by contract.
pub fn escape_query(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_escaped_and_null_items_are_no_error() {
        assert_eq!(escape_query("a-Z.9_~+/= \u{e9}"), "a-Z.9_~%2B%2F%3D%20%C3%A9");
        let page = |text: &str| serde_json::from_str::<ListPage<u8>>(text).unwrap();
        let next = page(r#"{"metadata": {"continue": "a+b"}, "items": []}"#).next_query();
        assert_eq!(next.as_deref(), Some("&continue=a%2Bb"));
        assert_eq!(page(r#"{"metadata": {}, "items": [1]}"#).next_query(), None);
        assert_eq!(page(r#"{"metadata": {}, "items": null}"#).items, None);
    }
}
