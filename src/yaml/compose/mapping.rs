//! Composes mappings: their keys, duplicate keys and merge keys, as go-yaml v2 does.

use std::collections::HashMap;

use granit_parser::{Event, ScalarStyle};
use serde_json::{Map, Value};

use super::{Composer, Stop, StreamProblem, span_of, yaml_tag};
use crate::document::NodeSpans;
use crate::problem::ProblemKind;
use crate::scalar;
use crate::span::Span;

/// The fields of a mapping so far.
#[derive(Default)]
struct Fields {
    values: Map<String, Value>,
    /// By name: the locations, and whether the mapping itself has the field, rather than a mapping
    /// merged into it.
    known: HashMap<String, (NodeSpans, bool)>,
    /// Names in the order of the text.
    order: Vec<String>,
}

impl Fields {
    fn insert(&mut self, name: String, value: Value, spans: NodeSpans, is_own: bool) {
        self.order.push(name.clone());
        self.known.insert(name.clone(), (spans, is_own));
        self.values.insert(name, value);
    }

    /// Returns the locations of a field that the mapping itself has.
    fn own(&self, name: &str) -> Option<&NodeSpans> {
        self.known.get(name).filter(|(_, is_own)| *is_own).map(|(spans, _)| spans)
    }

    fn finish(mut self, span: Span) -> (Value, NodeSpans) {
        let known = &mut self.known;
        let children = self
            .order
            .into_iter()
            .filter_map(|name| known.remove(&name).map(|(spans, _)| (name, spans)))
            .collect();
        (Value::Object(self.values), NodeSpans { value: Some(span), key: None, children })
    }
}

impl<'a> Composer<'a> {
    pub(super) fn mapping(&mut self, span: Span, depth: usize) -> Result<(Value, NodeSpans), Stop> {
        let mut fields = Fields::default();
        loop {
            let (event, at) = self.expect_next()?;
            if event == Event::MappingEnd {
                return Ok(fields.finish(span));
            }
            let key_span = span_of(&at);
            let is_merge = is_merge_key(&event);
            let key = if is_merge { "<<".to_owned() } else { self.key(event, &at, depth)? };
            let (event, at) = self.expect_next()?;
            let (value, mut spans) = self.node(event, &at, depth + 1)?;
            if is_merge {
                self.merge(&mut fields, value, spans, key_span);
                continue;
            }
            spans.key = Some(key_span);
            if let Some(first) = fields.own(&key) {
                self.problems.push(StreamProblem {
                    kind: ProblemKind::DuplicateKey,
                    span: key_span,
                    message: format!("the key {key:?} occurs twice in this mapping"),
                    related: vec![(first.key.unwrap_or(span), "first here".into())],
                });
                continue;
            }
            fields.insert(key, value, spans, true);
        }
    }

    /// Merges the value of a merge key. As in kubectl it overrides fields above it.
    fn merge(&mut self, fields: &mut Fields, value: Value, spans: NodeSpans, key_span: Span) {
        for (name, value, spans) in self.merged_fields(value, spans, key_span) {
            if fields.own(&name).is_some() {
                let message = format!("this merge key overrides {name:?} above it");
                self.report(ProblemKind::MergeOverrides, key_span, message);
            }
            fields.insert(name, value, spans, false);
        }
    }

    /// Returns the fields in the value of a merge key. Of several mappings the earlier one wins, so
    /// it comes last.
    fn merged_fields(
        &mut self,
        value: Value,
        spans: NodeSpans,
        key_span: Span,
    ) -> Vec<(String, Value, NodeSpans)> {
        let maps: Vec<(Value, NodeSpans)> = match value {
            Value::Object(_) => vec![(value, spans)],
            Value::Array(items) if items.iter().all(Value::is_object) => {
                let spans = spans.children.into_iter().map(|(_, spans)| spans);
                items.into_iter().zip(spans).rev().collect()
            }
            _ => {
                let message = "a merge key takes a mapping or a list of mappings";
                self.report(ProblemKind::Syntax, key_span, message);
                return Vec::new();
            }
        };
        let mut fields = Vec::new();
        for (map, spans) in maps {
            let mut spans: HashMap<String, NodeSpans> = spans.children.into_iter().collect();
            if let Value::Object(map) = map {
                fields.extend(map.into_iter().map(|(name, value)| {
                    let spans = spans.remove(&name).unwrap_or_default();
                    (name, value, spans)
                }));
            }
        }
        fields
    }

    /// Returns a mapping's key as JSON has it: text, or the text of a number or boolean.
    fn key(
        &mut self,
        event: Event<'a>,
        at: &granit_parser::Span,
        depth: usize,
    ) -> Result<String, Stop> {
        let span = span_of(at);
        let plain = match &event {
            Event::Scalar(text, ScalarStyle::Plain, _, None) => Some(text.clone()),
            _ => None,
        };
        let before = self.problems.len();
        let (value, _) = self.node(event, at, depth + 1)?;
        // An ambiguous key is reported once, as a key.
        let is_other = |problem: &StreamProblem| problem.kind != ProblemKind::AmbiguousScalar;
        let others = usize::from(self.problems[before..].iter().any(is_other));
        self.problems.truncate(before + others);
        let number = plain.as_ref().and_then(|text| scalar::number_key(text));
        let problem = match value {
            Value::String(text) => return Ok(text),
            Value::Number(_) if plain.is_some() && number.is_none() => {
                "a number like this cannot be a key; quote it"
            }
            Value::Bool(_) | Value::Number(_) if plain.is_some() => {
                let text = number.unwrap_or_else(|| value.to_string());
                let message = format!("this key is read as {text}, and becomes the text {text:?}");
                self.report(ProblemKind::NonStringKey, span, message);
                return Ok(text);
            }
            Value::Bool(_) | Value::Number(_) => return Ok(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => "a key must be text",
        };
        self.report(ProblemKind::UnexpectedShape, span, problem);
        Ok(String::new())
    }
}

fn is_merge_key(event: &Event<'_>) -> bool {
    match event {
        Event::Scalar(text, style, _, tag) if text == "<<" => match tag {
            None => *style == ScalarStyle::Plain,
            Some(tag) => yaml_tag(tag).as_deref() == Some("merge"),
        },
        _ => false,
    }
}
