//! Composes parser events into values, with the location of every node.

mod mapping;
mod problems;
mod scalar;
pub(crate) mod stream;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use granit_parser::{Event, ScanError, Tag};
use serde_json::Value;

use crate::document::{Children, NodeSpans};
use crate::limits;
use crate::problem::ProblemKind;
use crate::span::Span;
use problems::StreamProblems;

/// Bytes of a node with its location: a `Value`, a `NodeSpans`, and one more of both while a
/// sequence grows.
pub(crate) const NODE_BYTES: usize = 96;
/// Bytes of a text besides its own.
pub(crate) const TEXT_BYTES: usize = 16;
/// Bytes of a mapping with a first field: a node of a B-tree has room for eleven.
pub(crate) const MAPPING_BYTES: usize = 680;
/// Bytes of a field besides its key and its value, which count as nodes.
pub(crate) const FIELD_BYTES: usize = 40;

/// Ends composition: the syntax is broken or a limit is passed. The problem is recorded already.
struct Stop;

/// The value of an anchor.
#[derive(Clone)]
struct Anchored {
    value: Value,
    spans: NodeSpans,
    size: Size,
}

/// What nodes take, aliases expanded.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    memory: usize,
}

type ParserEvent<'a> = (Event<'a>, granit_parser::Span);

struct Composer<'a> {
    parser: Box<dyn Iterator<Item = Result<ParserEvent<'a>, ScanError>> + 'a>,
    /// By the parser's id of the anchor.
    anchors: HashMap<usize, Anchored>,
    /// The stream so far.
    size: Size,
    problems: StreamProblems,
}

impl<'a> Composer<'a> {
    fn stop(&mut self, kind: ProblemKind, span: Span, message: impl Into<String>) -> Stop {
        self.report(kind, span, message);
        Stop
    }

    fn report(&mut self, kind: ProblemKind, span: Span, message: impl Into<String>) {
        self.problems.add(kind, span, || message.into().into());
    }

    fn too_deep(&mut self, span: Span) -> Stop {
        let message = format!("more than {} levels deep", limits::YAML_DEPTH_MAX);
        self.stop(ProblemKind::Limit, span, message)
    }

    /// Counts what is about to be read or copied.
    fn count(&mut self, more: Size, span: Span) -> Result<(), Stop> {
        self.size.nodes += more.nodes;
        self.size.memory += more.memory;
        if self.size.nodes > limits::YAML_NODES_MAX {
            let message =
                format!("more than {} nodes once aliases are expanded", limits::YAML_NODES_MAX);
            return Err(self.stop(ProblemKind::Limit, span, message));
        }
        if self.size.memory > limits::YAML_MEMORY_MAX {
            let mib = limits::YAML_MEMORY_MAX >> 20;
            let message = format!("more than {mib} MiB in memory once aliases are expanded");
            return Err(self.stop(ProblemKind::Limit, span, message));
        }
        Ok(())
    }

    fn count_memory(&mut self, memory: usize, span: Span) -> Result<(), Stop> {
        self.count(Size { nodes: 0, memory }, span)
    }

    /// Composes the node that begins with `event`. `depth` is 1 for the root of a document.
    fn node(
        &mut self,
        event: Event<'a>,
        at: &granit_parser::Span,
        depth: usize,
    ) -> Result<(Value, NodeSpans), Stop> {
        let span = span_of(at);
        let before = self.size;
        self.count(Size { nodes: 1, memory: NODE_BYTES }, span)?;
        if depth > limits::YAML_DEPTH_MAX {
            return Err(self.too_deep(span));
        }
        let (anchor, (value, spans)) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.count_memory(text.len() + TEXT_BYTES, span)?;
                let value = self.scalar(&text, style, tag.as_deref(), span);
                (anchor, (value, NodeSpans { value: Some(span), ..NodeSpans::default() }))
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.check_collection_tag(tag.as_deref(), "seq", span);
                (anchor, self.sequence(span, depth)?)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.check_collection_tag(tag.as_deref(), "map", span);
                (anchor, self.mapping(span, depth)?)
            }
            Event::Alias(id) => (0, self.alias(id, span, depth)?),
            _ => return Err(self.stop(ProblemKind::Syntax, span, "a value is missing here")),
        };
        if anchor != 0 {
            let nodes = self.size.nodes - before.nodes;
            let size = Size { nodes, memory: self.size.memory - before.memory };
            // The anchor keeps a copy.
            self.count_memory(size.memory, span)?;
            let anchored = Anchored { value: value.clone(), spans: spans.clone(), size };
            self.anchors.insert(anchor, anchored);
        }
        Ok((value, spans))
    }

    fn alias(&mut self, id: usize, span: Span, depth: usize) -> Result<(Value, NodeSpans), Stop> {
        let Some(size) = self.anchors.get(&id).map(|anchored| anchored.size) else {
            let message = "this alias stands inside its own anchor";
            return Err(self.stop(ProblemKind::Syntax, span, message));
        };
        // Before the copy is made.
        self.count(size, span)?;
        let Some(Anchored { value, spans, .. }) = self.anchors.get(&id).cloned() else {
            return Err(Stop);
        };
        if depth + height(&value) > limits::YAML_DEPTH_MAX + 1 {
            return Err(self.too_deep(span));
        }
        Ok((value, NodeSpans { value: Some(span), ..spans }))
    }

    fn sequence(&mut self, span: Span, depth: usize) -> Result<(Value, NodeSpans), Stop> {
        let mut items = Vec::new();
        let mut children = Vec::new();
        loop {
            let (event, at) = self.expect_next()?;
            if event == Event::SequenceEnd {
                items.shrink_to_fit();
                children.shrink_to_fit();
                let children = match children.len() {
                    0 => Children::None,
                    _ => Children::Items(Arc::new(children)),
                };
                return Ok((Value::Array(items), NodeSpans { value: Some(span), children }));
            }
            let (value, spans) = self.node(event, &at, depth + 1)?;
            children.push(spans);
            items.push(value);
        }
    }
}

/// Returns the name of one of YAML's own tags: `str` for `!!str`.
fn yaml_tag(tag: &Tag) -> Option<Cow<'_, str>> {
    tag.suffix_in_namespace("tag:yaml.org,2002:")
}

/// Counts the levels of a value; a scalar has one.
fn height(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(height).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(height).max().unwrap_or_default(),
        _ => 1,
    }
}

/// Converts the parser's span. Only the first character of a span of several lines counts.
fn span_of(span: &granit_parser::Span) -> Span {
    let length = if span.start.line() == span.end.line() {
        span.end.col().saturating_sub(span.start.col()).max(1)
    } else {
        1
    };
    Span {
        line: number(span.start.line()),
        column: number(span.start.col() + 1),
        length: number(length),
    }
}

pub(crate) fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
