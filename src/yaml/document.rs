//! Documents, with the location of every node.

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

/// The locations of a node, of its key, and of the nodes in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeSpans {
    pub value: Option<Span>,
    /// The key, for a field of a mapping.
    pub key: Option<Span>,
    /// By JSON pointer token, which is the key in a mapping or the index in a sequence.
    pub children: Vec<(String, NodeSpans)>,
}

impl Document {
    /// Returns the location of the document's first node.
    pub fn span(&self) -> Span {
        self.spans.value.unwrap_or(Span { line: 1, column: 1, length: 1 })
    }

    /// Returns the location of the value at a JSON pointer. Falls back to the nearest ancestor that
    /// exists.
    pub fn span_of(&self, pointer: &str) -> Span {
        self.nearest(pointer).value.unwrap_or_else(|| self.span())
    }

    /// Returns the location of the key of the field at a JSON pointer. Falls back to the value, for
    /// items of a sequence.
    pub fn key_span_of(&self, pointer: &str) -> Span {
        let node = self.nearest(pointer);
        node.key.or(node.value).unwrap_or_else(|| self.span())
    }

    fn nearest(&self, pointer: &str) -> &NodeSpans {
        let mut at = &self.spans;
        for token in pointer.split('/').skip(1) {
            let name = token.replace("~1", "/").replace("~0", "~");
            match at.children.iter().find(|(child, _)| *child == name) {
                Some((_, node)) => at = node,
                None => break,
            }
        }
        at
    }
}
