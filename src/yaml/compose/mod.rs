//! Composes parser events into values, with the location of every node.

mod mapping;
mod scalar;
mod stream;

pub(crate) use stream::compose;

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{Event, ScanError, Tag};
use serde_json::Value;

use crate::document::NodeSpans;
use crate::limits;
use crate::problem::ProblemKind;
use crate::span::Span;

/// A problem in a stream, before its snippet is known.
pub(crate) struct StreamProblem {
    pub kind: ProblemKind,
    pub span: Span,
    pub message: String,
    /// Other locations that matter, each with the reason.
    pub related: Vec<(Span, String)>,
}

/// Ends composition: the syntax is broken or a limit is passed. The problem is recorded already.
struct Stop;

/// The value of an anchor, with the number of its nodes.
type Anchored = (Value, NodeSpans, usize);

type ParserEvent<'a> = (Event<'a>, granit_parser::Span);

struct Composer<'a> {
    parser: Box<dyn Iterator<Item = Result<ParserEvent<'a>, ScanError>> + 'a>,
    /// By the parser's id of the anchor.
    anchors: HashMap<usize, Anchored>,
    /// Nodes of the stream so far, aliases expanded.
    nodes: usize,
    problems: Vec<StreamProblem>,
}

impl<'a> Composer<'a> {
    fn stop(&mut self, kind: ProblemKind, span: Span, message: impl Into<String>) -> Stop {
        self.report(kind, span, message);
        Stop
    }

    fn report(&mut self, kind: ProblemKind, span: Span, message: impl Into<String>) {
        let message = message.into();
        self.problems.push(StreamProblem { kind, span, message, related: Vec::new() });
    }

    fn too_deep(&mut self, span: Span) -> Stop {
        let message = format!("more than {} levels deep", limits::YAML_DEPTH_MAX);
        self.stop(ProblemKind::Limit, span, message)
    }

    fn count(&mut self, nodes: usize, span: Span) -> Result<(), Stop> {
        self.nodes += nodes;
        if self.nodes > limits::YAML_NODES_MAX {
            let message =
                format!("more than {} nodes once aliases are expanded", limits::YAML_NODES_MAX);
            return Err(self.stop(ProblemKind::Limit, span, message));
        }
        Ok(())
    }

    /// Composes the node that begins with `event`. `depth` is 1 for the root of a document.
    fn node(
        &mut self,
        event: Event<'a>,
        at: &granit_parser::Span,
        depth: usize,
    ) -> Result<(Value, NodeSpans), Stop> {
        let span = span_of(at);
        self.count(1, span)?;
        if depth > limits::YAML_DEPTH_MAX {
            return Err(self.too_deep(span));
        }
        let before = self.nodes;
        let (anchor, (value, spans)) = match event {
            Event::Scalar(text, style, anchor, tag) => {
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
            let nodes = self.nodes - before + 1;
            self.anchors.insert(anchor, (value.clone(), spans.clone(), nodes));
        }
        Ok((value, spans))
    }

    fn alias(&mut self, id: usize, span: Span, depth: usize) -> Result<(Value, NodeSpans), Stop> {
        let Some((value, spans, nodes)) = self.anchors.get(&id).cloned() else {
            let message = "this alias stands inside its own anchor";
            return Err(self.stop(ProblemKind::Syntax, span, message));
        };
        self.count(nodes, span)?;
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
                let spans = NodeSpans { value: Some(span), key: None, children };
                return Ok((Value::Array(items), spans));
            }
            let (value, spans) = self.node(event, &at, depth + 1)?;
            children.push((items.len().to_string(), spans));
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

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
