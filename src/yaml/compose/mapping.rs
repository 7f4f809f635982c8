//! Composes mappings: their keys, duplicate keys and merge keys, as go-yaml v2 does.

use std::collections::HashMap;
use std::sync::Arc;

use granit_parser::{Event, ScalarStyle};
use serde_json::{Map, Value};

use super::problems::{Description, quoted};
use super::{Composer, FIELD_BYTES, MAPPING_BYTES, Stop, TEXT_BYTES, span_of, yaml_tag};
use crate::document::{Children, FieldSpans, NodeSpans};
use crate::problem::ProblemKind;
use crate::scalar;
use crate::span::Span;

/// The fields of a mapping so far.
#[derive(Default)]
struct Fields {
    values: Map<String, Value>,
    /// In the order of the text. A second sorted map would cost as much as the values.
    places: Vec<FieldPlace>,
    /// Where the place of each name is. Made once a name occurs again in a large mapping.
    index: HashMap<Box<str>, usize>,
}

/// Where a field is.
struct FieldPlace {
    name: Box<str>,
    key: Option<Span>,
    value: NodeSpans,
    /// Whether the mapping itself has the field, rather than a mapping merged into it.
    is_own: bool,
}

/// Names of a mapping that are searched for one after the other.
const SEARCHED_MAX: usize = 16;

impl Fields {
    fn insert(&mut self, name: String, value: Value, place: FieldPlace) {
        let at = self.position(&name);
        match at.and_then(|at| self.places.get_mut(at)) {
            Some(before) => *before = place,
            None => {
                if !self.index.is_empty() {
                    self.index.insert(place.name.clone(), self.places.len());
                }
                self.places.push(place);
            }
        }
        self.values.insert(name, value);
    }

    /// The number of the place of a name.
    fn position(&mut self, name: &str) -> Option<usize> {
        if !self.values.contains_key(name) {
            return None;
        }
        if self.places.len() <= SEARCHED_MAX {
            return self.places.iter().position(|place| *place.name == *name);
        }
        if self.index.is_empty() {
            let names = self.places.iter().enumerate();
            self.index = names.map(|(at, place)| (place.name.clone(), at)).collect();
        }
        self.index.get(name).copied()
    }

    /// Returns the location of a field that the mapping itself has.
    fn own(&mut self, name: &str) -> Option<&FieldPlace> {
        let at = self.position(name)?;
        self.places.get(at).filter(|place| place.is_own)
    }

    fn finish(mut self, span: Span) -> (Value, NodeSpans) {
        // As the values are.
        self.places.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let fields = self.places.into_iter();
        let fields =
            fields.map(|FieldPlace { name, key, value, .. }| FieldSpans { name, key, value });
        let fields: Arc<[FieldSpans]> = fields.collect();
        let children = match fields.len() {
            0 => Children::None,
            _ => Children::Fields(fields),
        };
        (Value::Object(self.values), NodeSpans { value: Some(span), children })
    }
}

/// A field of a merged mapping.
type MergedField = (String, Value, FieldPlace);

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
            let first = if fields.values.is_empty() { MAPPING_BYTES } else { 0 };
            self.count_memory(first + FIELD_BYTES + key.len() + TEXT_BYTES, key_span)?;
            let (event, at) = self.expect_next()?;
            let (before, is_mode) = (self.problems.mark(), is_file_mode(&key, &event));
            let (value, spans) = self.node(event, &at, depth + 1)?;
            if is_mode {
                self.problems.retract_ambiguous(before);
            }
            if is_merge {
                self.merge(&mut fields, value, spans, key_span);
                continue;
            }
            if let Some(first) = fields.own(&key) {
                self.problems.add(ProblemKind::DuplicateKey, key_span, || Description {
                    message: format!("the key {} occurs twice in this mapping", quoted(&key)),
                    related: vec![(first.key.unwrap_or(span), "first here".into())],
                });
                continue;
            }
            let name = key.as_str().into();
            let place = FieldPlace { name, key: Some(key_span), value: spans, is_own: true };
            fields.insert(key, value, place);
        }
    }

    /// Merges the value of a merge key. As in kubectl it overrides fields above it.
    fn merge(&mut self, fields: &mut Fields, value: Value, spans: NodeSpans, key_span: Span) {
        for (name, value, place) in self.merged_fields(value, spans, key_span) {
            if fields.own(&name).is_some() {
                self.problems.add(ProblemKind::MergeOverrides, key_span, || {
                    format!("this merge key overrides {} above it", quoted(&name)).into()
                });
            }
            fields.insert(name, value, place);
        }
    }

    /// Returns the fields in the value of a merge key. Of several mappings the earlier one wins, so
    /// it comes last.
    fn merged_fields(
        &mut self,
        value: Value,
        spans: NodeSpans,
        key_span: Span,
    ) -> Vec<MergedField> {
        let maps: Vec<(Value, Children)> = match (value, spans.children) {
            (value @ Value::Object(_), children) => vec![(value, children)],
            (Value::Array(items), Children::Items(spans)) if items.iter().all(Value::is_object) => {
                let children = spans.iter().map(|spans| spans.children.clone());
                items.into_iter().zip(children).rev().collect()
            }
            (Value::Array(items), _) if items.is_empty() => return Vec::new(),
            _ => {
                let message = "a merge key takes a mapping or a list of mappings";
                self.report(ProblemKind::Syntax, key_span, message);
                return Vec::new();
            }
        };
        let mut fields = Vec::new();
        for (map, children) in maps {
            if let (Value::Object(map), Children::Fields(places)) = (map, children) {
                // Both are sorted by name.
                fields.extend(map.into_iter().zip(places.iter()).map(|((name, value), place)| {
                    let FieldSpans { name: place_name, key, value: spans } = place.clone();
                    let place = FieldPlace { name: place_name, key, value: spans, is_own: false };
                    (name, value, place)
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
        let before = self.problems.mark();
        let (value, _) = self.node(event, at, depth + 1)?;
        // An ambiguous key is reported once, as a key.
        self.problems.retract_ambiguous(before);
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

/// Whether a value is the mode of a file, for which an octal number is meant (Kubernetes:
/// `defaultMode` of volumes, `mode` of their items).
fn is_file_mode(key: &str, value: &Event<'_>) -> bool {
    let is_octal = |text: &str| text.starts_with('0');
    matches!(key, "defaultMode" | "mode")
        && matches!(value, Event::Scalar(text, ScalarStyle::Plain, _, None) if is_octal(text))
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
