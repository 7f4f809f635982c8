//! Events into values, with the place of every node.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Options, Parser, ScalarStyle, Tag};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::scalar::{self, AmbiguousReading, Scalar};
use super::{Document, Place, ProblemKind, Span};
use crate::limits;

/// A problem in a stream.
pub(crate) struct Problem {
    pub kind: ProblemKind,
    pub span: Span,
    pub message: String,
    pub related: Vec<(Span, String)>,
}

/// A stream, as far as it could be read.
#[derive(Default)]
pub(crate) struct Composed {
    pub documents: Vec<Document>,
    pub problems: Vec<Problem>,
}

/// Nothing more can be read: the syntax is broken or a bound is passed. The problem is already
/// noted.
struct Stop;

type Anchored = (Value, Place, usize);

struct Composer<'a> {
    parser: Box<
        dyn Iterator<Item = Result<(Event<'a>, granit_parser::Span), granit_parser::ScanError>>
            + 'a,
    >,
    anchors: HashMap<usize, Anchored>,
    nodes: usize,
    problems: Vec<Problem>,
}

/// Reads every document of `text`.
pub(crate) fn stream(text: &str) -> Composed {
    let mut options = Options::default();
    options.emit_comments = false;
    // kubectl reads none: it cuts the stream at `---` first.
    options.disallow_directives = true;
    options.flow_nesting_limit = limits::YAML_DEPTH_MAX;
    options.block_nesting_limit = limits::YAML_DEPTH_MAX;
    let mut composer = Composer {
        parser: Box::new(Parser::new_from_str_with_options(text, options)),
        anchors: HashMap::new(),
        nodes: 0,
        problems: Vec::new(),
    };
    let mut documents = Vec::new();
    if let Some((span, character)) = foreign_line_break(text) {
        let message = format!(
            "the character U+{:04X} ends a line for kubectl and for few others; write \"\\u{:04X}\" in double quotes",
            u32::from(character),
            u32::from(character)
        );
        composer.say(ProblemKind::Syntax, span, message);
        return Composed { documents, problems: composer.problems };
    }
    // Stop or not: what was read before stays.
    let _ = composer.documents(&mut documents);
    Composed { documents, problems: composer.problems }
}

/// The first line break of YAML 1.1 that no other format has. In JSON these are plain characters.
fn foreign_line_break(text: &str) -> Option<(Span, char)> {
    let (at, character) =
        text.char_indices().find(|(_, c)| matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}'))?;
    if is_json(text) {
        return None;
    }
    let before = text.get(..at).unwrap_or_default();
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let line = before.matches('\n').count() + 1;
    Some((Span { line: number(line), column: number(column), length: 1 }, character))
}

/// Whether all of it is JSON objects: what only begins like one is YAML to its end.
fn is_json(text: &str) -> bool {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{')
        && values.all(|value| value.is_ok())
}

impl<'a> Composer<'a> {
    fn documents(&mut self, documents: &mut Vec<Document>) -> Result<(), Stop> {
        let mut index = 0;
        while let Some((event, span)) = self.next()? {
            match event {
                Event::DocumentStart(explicit, ..) => {
                    index += 1;
                    if index > 1 && !explicit {
                        let message =
                            "kubectl ignores what follows `...`; begin a document with `---`";
                        return Err(self.stop(ProblemKind::Syntax, place(&span), message));
                    }
                    self.anchors.clear();
                    if index as usize > limits::YAML_DOCUMENTS_MAX {
                        let message = format!(
                            "more than {} documents in one file",
                            limits::YAML_DOCUMENTS_MAX
                        );
                        return Err(self.stop(ProblemKind::Limit, place(&span), message));
                    }
                }
                Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
                event => {
                    let (value, places) = self.node(event, &span, 1)?;
                    if !value.is_null() {
                        documents.push(Document { index, value, places });
                    }
                }
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, granit_parser::Span)>, Stop> {
        match self.parser.next() {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(why)) => {
                let marker = why.marker();
                let span = Span {
                    line: number(marker.line()),
                    column: number(marker.col() + 1),
                    length: 1,
                };
                let (kind, message) = match why.kind() {
                    ErrorKind::RecursionLimitExceeded => (
                        ProblemKind::Limit,
                        format!("more than {} levels deep", limits::YAML_DEPTH_MAX),
                    ),
                    _ => (ProblemKind::Syntax, why.info()),
                };
                Err(self.stop(kind, span, message))
            }
        }
    }

    fn expect_next(&mut self) -> Result<(Event<'a>, granit_parser::Span), Stop> {
        match self.next()? {
            Some(next) => Ok(next),
            None => {
                let span = Span { line: 1, column: 1, length: 1 };
                Err(self.stop(ProblemKind::Syntax, span, "the document ends too early"))
            }
        }
    }

    fn stop(&mut self, kind: ProblemKind, span: Span, message: impl Into<String>) -> Stop {
        self.say(kind, span, message);
        Stop
    }

    fn say(&mut self, kind: ProblemKind, span: Span, message: impl Into<String>) {
        self.problems.push(Problem { kind, span, message: message.into(), related: Vec::new() });
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

    fn node(
        &mut self,
        event: Event<'a>,
        at: &granit_parser::Span,
        depth: usize,
    ) -> Result<(Value, Place), Stop> {
        let span = place(at);
        self.count(1, span)?;
        if depth > limits::YAML_DEPTH_MAX {
            let message = format!("more than {} levels deep", limits::YAML_DEPTH_MAX);
            return Err(self.stop(ProblemKind::Limit, span, message));
        }
        let before = self.nodes;
        let (anchor, (value, places)) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = self.scalar(text, style, tag.as_deref(), span);
                (anchor, (value, Place { span: Some(span), ..Place::default() }))
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.collection_tag(tag.as_deref(), "seq", span);
                (anchor, self.sequence(span, depth)?)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.collection_tag(tag.as_deref(), "map", span);
                (anchor, self.mapping(span, depth)?)
            }
            Event::Alias(id) => {
                let Some((value, places, nodes)) = self.anchors.get(&id).cloned() else {
                    return Err(self.stop(
                        ProblemKind::Syntax,
                        span,
                        "this alias stands inside its own anchor",
                    ));
                };
                self.count(nodes, span)?;
                let depth_below = depth + height(&value);
                if depth_below > limits::YAML_DEPTH_MAX + 1 {
                    let message = format!("more than {} levels deep", limits::YAML_DEPTH_MAX);
                    return Err(self.stop(ProblemKind::Limit, span, message));
                }
                (0, (value, Place { span: Some(span), ..places }))
            }
            _ => return Err(self.stop(ProblemKind::Syntax, span, "a value is missing here")),
        };
        if anchor != 0 {
            let nodes = self.nodes - before + 1;
            self.anchors.insert(anchor, (value.clone(), places.clone(), nodes));
        }
        Ok((value, places))
    }

    fn sequence(&mut self, span: Span, depth: usize) -> Result<(Value, Place), Stop> {
        let mut items = Vec::new();
        let mut children = Vec::new();
        loop {
            let (event, at) = self.expect_next()?;
            if event == Event::SequenceEnd {
                return Ok((Value::Array(items), Place { span: Some(span), key: None, children }));
            }
            let (value, place) = self.node(event, &at, depth + 1)?;
            children.push((items.len().to_string(), place));
            items.push(value);
        }
    }

    fn mapping(&mut self, span: Span, depth: usize) -> Result<(Value, Place), Stop> {
        let mut fields = Map::new();
        // By name: its place, and whether it stands here rather than in a mapping merged into this
        // one.
        let mut known: HashMap<String, (Place, bool)> = HashMap::new();
        let mut order = Vec::new();
        loop {
            let (event, at) = self.expect_next()?;
            if event == Event::MappingEnd {
                let children = order
                    .into_iter()
                    .filter_map(|name: String| known.remove(&name).map(|(place, _)| (name, place)))
                    .collect();
                return Ok((
                    Value::Object(fields),
                    Place { span: Some(span), key: None, children },
                ));
            }
            let key_span = place(&at);
            let is_merge = is_merge_key(&event);
            let key = if is_merge { "<<".to_owned() } else { self.key(event, &at, depth)? };
            let (event, at) = self.expect_next()?;
            let (value, mut value_place) = self.node(event, &at, depth + 1)?;
            if is_merge {
                for (name, value, place) in self.merged(value, value_place, key_span) {
                    if let Some((_, true)) = known.get(&name) {
                        self.say(
                            ProblemKind::MergeOverrides,
                            key_span,
                            format!("this merge key overrides {name:?} above it"),
                        );
                    }
                    order.push(name.clone());
                    known.insert(name.clone(), (place, false));
                    fields.insert(name, value);
                }
                continue;
            }
            value_place.key = Some(key_span);
            if let Some((first, true)) = known.get(&key) {
                let first = first.key.unwrap_or(span);
                self.problems.push(Problem {
                    kind: ProblemKind::DuplicateKey,
                    span: key_span,
                    message: format!("the key {key:?} stands twice in this mapping"),
                    related: vec![(first, "first here".into())],
                });
                continue;
            }
            order.push(key.clone());
            known.insert(key.clone(), (value_place, true));
            fields.insert(key, value);
        }
    }

    /// The fields that a merge key brings in. Of several mappings the earlier one wins.
    fn merged(&mut self, value: Value, place: Place, span: Span) -> Vec<(String, Value, Place)> {
        let maps: Vec<(Value, Place)> = match value {
            Value::Object(_) => vec![(value, place)],
            Value::Array(items) if items.iter().all(Value::is_object) => items
                .into_iter()
                .zip(place.children.into_iter().map(|(_, place)| place))
                .rev()
                .collect(),
            _ => {
                self.say(
                    ProblemKind::Syntax,
                    span,
                    "a merge key takes a mapping or a list of mappings",
                );
                return Vec::new();
            }
        };
        let mut fields = Vec::new();
        for (map, place) in maps {
            let mut places: HashMap<String, Place> = place.children.into_iter().collect();
            if let Value::Object(map) = map {
                fields.extend(map.into_iter().map(|(name, value)| {
                    let place = places.remove(&name).unwrap_or_default();
                    (name, value, place)
                }));
            }
        }
        fields
    }

    /// A mapping's key as JSON has it: text, or the text of a number or boolean.
    fn key(
        &mut self,
        event: Event<'a>,
        at: &granit_parser::Span,
        depth: usize,
    ) -> Result<String, Stop> {
        let span = place(at);
        let plain = match &event {
            Event::Scalar(text, ScalarStyle::Plain, _, None) => Some(text.clone()),
            _ => None,
        };
        let said = self.problems.len();
        let (value, _) = self.node(event, at, depth + 1)?;
        // A key that reads otherwise than it looks is said once, as a key.
        self.problems.truncate(
            said + usize::from(
                self.problems[said..].iter().any(|p| p.kind != ProblemKind::AmbiguousScalar),
            ),
        );
        Ok(match value {
            Value::String(text) => text,
            Value::Number(_)
                if plain.as_ref().is_some_and(|text| scalar::number_key(text).is_none()) =>
            {
                self.say(
                    ProblemKind::UnexpectedShape,
                    span,
                    "a number like this cannot be a key; quote it",
                );
                String::new()
            }
            Value::Bool(_) | Value::Number(_) if plain.is_some() => {
                let text = plain.and_then(|text| scalar::number_key(&text));
                let text = text.unwrap_or_else(|| value.to_string());
                self.say(
                    ProblemKind::NonStringKey,
                    span,
                    format!("this key is read as {text}, and becomes the text {text:?}"),
                );
                text
            }
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                self.say(ProblemKind::UnexpectedShape, span, "a key must be text");
                String::new()
            }
        })
    }

    fn scalar(
        &mut self,
        text: Cow<'a, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: Span,
    ) -> Value {
        let resolved = match tag {
            Some(tag) => match yaml_tag(tag).as_deref() {
                Some(name) => scalar::tagged(name, &text).map_err(|why| (ProblemKind::Tag, why)),
                // `!` alone means: text.
                None if tag.suffix().is_empty() || tag.original() == "!" => {
                    Ok(Scalar::Value(text.into()))
                }
                None => Err((
                    ProblemKind::Tag,
                    format!("the tag {} is not known to Kubernetes", tag.original()),
                )),
            },
            None if style == ScalarStyle::Plain => {
                let (value, surprise) = scalar::plain(&text);
                if let (Some(surprise), Scalar::Value(value)) = (surprise, &value) {
                    let message = match surprise {
                        AmbiguousReading::Word => format!("{text} is read as the boolean {value}"),
                        AmbiguousReading::Digits => format!("{text} is read as the number {value}"),
                    };
                    self.say(ProblemKind::AmbiguousScalar, span, message);
                }
                Ok(value)
            }
            None => Ok(Scalar::Value(text.into())),
        };
        match resolved {
            Ok(Scalar::Value(value)) => value,
            Ok(Scalar::NoJson) => {
                self.say(ProblemKind::Number, span, "JSON has no infinite numbers and no NaN");
                Value::Null
            }
            Err((kind, message)) => {
                self.say(kind, span, message);
                Value::Null
            }
        }
    }

    fn collection_tag(&mut self, tag: Option<&Tag>, expected: &str, span: Span) {
        if let Some(tag) = tag
            && yaml_tag(tag).as_deref() != Some(expected)
        {
            self.say(
                ProblemKind::Tag,
                span,
                format!("the tag {} is not known to Kubernetes", tag.original()),
            );
        }
    }
}

/// The name of one of YAML's own tags: `str` for `!!str`.
fn yaml_tag(tag: &Tag) -> Option<Cow<'_, str>> {
    tag.suffix_in_namespace("tag:yaml.org,2002:")
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

fn height(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(height).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(height).max().unwrap_or_default(),
        _ => 1,
    }
}

/// A parser's span as ours: one line, from 1.
fn place(span: &granit_parser::Span) -> Span {
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
