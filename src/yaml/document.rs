//! Documents, with the location of every node.

use std::sync::Arc;

use gitwork_api::escape::pointer_name;
use serde_json::Value;

use crate::span::Span;

/// One document of a file.
#[derive(Debug)]
pub struct Document {
    /// Position in the file, from 1. Empty documents count, but are not returned.
    pub index: u32,
    /// The content, as kubectl would send it.
    pub value: Value,
    pub(crate) spans: NodeSpans,
}

/// The locations of a node and of the nodes in it. Copies share what is below the node: aliases
/// make many.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NodeSpans {
    pub value: Option<Span>,
    pub children: Children,
}

/// The locations of the nodes in a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Children {
    #[default]
    None,
    /// Not a slice: its copy would double a long list while it is made.
    Items(Arc<Vec<NodeSpans>>),
    /// Sorted by key.
    Fields(Arc<[FieldSpans]>),
}

/// The locations of one field of a mapping.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldSpans {
    pub name: Box<str>,
    pub key: Option<Span>,
    pub value: NodeSpans,
}

impl Children {
    /// The field or item of a JSON pointer token.
    fn get(&self, token: &str) -> Option<(Option<Span>, &NodeSpans)> {
        match self {
            Self::None => None,
            Self::Items(items) => Some((None, items.get(token.parse::<usize>().ok()?)?)),
            Self::Fields(fields) => {
                let at = fields.binary_search_by(|field| (*field.name).cmp(token)).ok()?;
                fields.get(at).map(|field| (field.key, &field.value))
            }
        }
    }
}

impl Document {
    /// Returns the location of the document's first node.
    pub fn span(&self) -> Span {
        self.spans.value.unwrap_or(Span { line: 1, column: 1, length: 1 })
    }

    /// Returns the location of the value at a JSON pointer. Falls back to the nearest ancestor that
    /// exists.
    pub fn span_of(&self, pointer: &str) -> Span {
        self.nearest(pointer).1.value.unwrap_or_else(|| self.span())
    }

    /// Returns the location of the key of the field at a JSON pointer. Falls back to the value, for
    /// items of a sequence.
    pub fn key_span_of(&self, pointer: &str) -> Span {
        let (key, node) = self.nearest(pointer);
        key.or(node.value).unwrap_or_else(|| self.span())
    }

    fn nearest(&self, pointer: &str) -> (Option<Span>, &NodeSpans) {
        let mut at = (None, &self.spans);
        for token in pointer.split('/').skip(1) {
            match at.1.children.get(&pointer_name(token)) {
                Some(next) => at = next,
                None => break,
            }
        }
        at
    }
}
