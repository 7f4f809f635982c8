//! Reads the block style that nearly all manifests have, much faster than a parser of all of YAML.
//! It leaves every text with anything else to that parser, and every text with a problem.

use std::sync::Arc;

use memchr::memchr;
use serde_json::{Map, Value};

use crate::compose::stream::ComposedStream;
use crate::compose::{FIELD_BYTES, MAPPING_BYTES, NODE_BYTES, TEXT_BYTES, number};
use crate::document::{Children, Document, FieldSpans, NodeSpans};
use crate::limits;
use crate::scalar::{self, Scalar};
use crate::span::Span;

/// Levels that are read: fewer than the parser allows.
const DEPTH_MAX: usize = 64;
/// Bytes of a key: fewer than YAML allows (1,024 characters).
const KEY_BYTES_MAX: usize = 512;
/// The longest word that is no text without quotes has five letters: `false`.
const WORD_BYTES_MAX: usize = 5;

/// Composes every document of a text; `None` if the parser has to read it. What it returns equals
/// what the parser and the composer make of the text, without a problem.
pub(crate) fn compose(text: &str) -> Option<ComposedStream> {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n');
    if !text.ends_with('\n') || !text.bytes().all(is_plain) {
        return None;
    }
    let mut reader = Reader { text, at: 0, number: 0, line: Line::End, nodes: 0, memory: 0 };
    let documents = reader.documents()?;
    Some(ComposedStream { documents, problems: Vec::new(), memory: reader.memory })
}

/// A line that is neither empty nor a comment.
#[derive(Clone, Copy)]
enum Line {
    Content(Content),
    /// `---`
    Marker,
    End,
}

/// The rest of a line.
#[derive(Clone, Copy)]
struct Content {
    number: u32,
    /// Spaces before it; in an item of a sequence, with the dash.
    indent: usize,
    /// Where the line begins.
    line: usize,
    start: usize,
    end: usize,
}

type Node = (Value, NodeSpans);

/// A field of a mapping.
struct Field {
    name: String,
    value: Value,
    key: Span,
    spans: NodeSpans,
}

struct Reader<'a> {
    text: &'a str,
    /// Where the next line begins.
    at: usize,
    /// The number of the last line.
    number: u32,
    /// What is read next.
    line: Line,
    nodes: usize,
    memory: usize,
}

impl<'a> Reader<'a> {
    fn documents(&mut self) -> Option<Vec<Document>> {
        let mut documents = Vec::new();
        let mut index = 0;
        self.next_line()?;
        loop {
            match self.line {
                Line::End => return Some(documents),
                Line::Marker => self.next_line()?,
                // After a document, only a marker begins another one.
                Line::Content(_) if index > 0 => return None,
                Line::Content(_) => {}
            }
            index += 1;
            if index > limits::YAML_DOCUMENTS_MAX {
                return None;
            }
            if let Line::Content(line) = self.line {
                let (value, spans) = self.block(line, 1)?;
                documents.push(Document { index: u32::try_from(index).ok()?, value, spans });
            } else {
                // The parser gives an empty document the value `~`.
                self.count(NODE_BYTES + "~".len() + TEXT_BYTES, 1)?;
            }
        }
    }

    /// Goes to the next line with content.
    fn next_line(&mut self) -> Option<()> {
        let bytes = self.text.as_bytes();
        loop {
            let rest = bytes.get(self.at..)?;
            let Some(length) = memchr(b'\n', rest) else {
                self.line = Line::End;
                return Some(());
            };
            let (start, end) = (self.at, self.at + length);
            let line = rest.get(..length)?;
            (self.at, self.number) = (end + 1, self.number.checked_add(1)?);
            let Some(indent) = line.iter().position(|byte| *byte != b' ') else { continue };
            match line.get(indent..)? {
                [b'#', ..] => continue,
                b"---" if indent == 0 => self.line = Line::Marker,
                // More than a marker, the end of a document, a directive.
                [b'-', b'-', b'-', ..] | [b'.', b'.', b'.', ..] | [b'%', ..] if indent == 0 => {
                    return None;
                }
                _ => {
                    let (number, line, start) = (self.number, start, start + indent);
                    self.line = Line::Content(Content { number, indent, line, start, end });
                }
            }
            return Some(());
        }
    }

    /// Reads a mapping or a sequence whose first line is `line`.
    fn block(&mut self, line: Content, depth: usize) -> Option<Node> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.count(NODE_BYTES, 1)?;
        if self.item(line).is_some() {
            self.sequence(line, depth)
        } else {
            self.mapping(line, depth)
        }
    }

    fn mapping(&mut self, first: Content, depth: usize) -> Option<Node> {
        let mut fields = Vec::new();
        self.memory += MAPPING_BYTES;
        while let Line::Content(line) = self.line
            && line.indent == first.indent
            && self.item(line).is_none()
        {
            let (name, key, value) = self.key(line)?;
            self.count_key(name)?;
            let (value, spans) = self.value(value, depth)?;
            fields.push(Field { name: name.to_owned(), value, key, spans });
        }
        mapping(fields, first)
    }

    fn sequence(&mut self, first: Content, depth: usize) -> Option<Node> {
        let (mut items, mut spans) = (Vec::new(), Vec::new());
        while let Line::Content(line) = self.line
            && line.indent == first.indent
            && let Some(start) = self.item(line)
        {
            let content = Content { indent: line.indent + start - line.start, start, ..line };
            if self.item(content).is_some() {
                return None;
            }
            let (value, of_value) = if self.key(content).is_some() {
                self.line = Line::Content(content);
                self.block(content, depth + 1)?
            } else {
                self.in_line(content, line.indent, depth + 1)?
            };
            items.push(value);
            spans.push(of_value);
        }
        Some(sequence(items, spans, first))
    }

    /// Reads the value of a field of a block: what follows its colon.
    fn value(&mut self, rest: Content, depth: usize) -> Option<Node> {
        let (text, indent) = (self.text.get(rest.start..rest.end)?, rest.indent);
        let content = text.trim_start_matches(' ');
        if !content.is_empty() && !content.starts_with('#') {
            let start = rest.end - content.len();
            return self.in_line(Content { start, ..rest }, indent, depth + 1);
        }
        self.next_line()?;
        let Line::Content(line) = self.line else { return None };
        if line.indent > indent {
            return self.block(line, depth + 1);
        }
        // Only a sequence may stand below its key; otherwise the value is null. The parser places
        // such a sequence at its first item.
        let start = self.item(line).filter(|_| line.indent == indent)?;
        let (value, spans) = self.block(line, depth + 1)?;
        Some((value, NodeSpans { value: Some(span(Content { start, ..line }, 1)), ..spans }))
    }

    /// Reads a node that ends with its line, or a literal text. `indent` is that of the block in
    /// which it is.
    fn in_line(&mut self, at: Content, indent: usize, depth: usize) -> Option<Node> {
        let text = self.text.get(at.start..at.end)?;
        if let Some(header) = text.strip_prefix('|') {
            let (value, span) = self.literal(header, indent)?;
            let bytes = value.len();
            return self.scalar(Value::String(value), bytes, span);
        }
        self.next_line()?;
        // The scalar goes on in the next line.
        if matches!(self.line, Line::Content(next) if next.indent > indent) {
            return None;
        }
        if !text.starts_with(['[', '{', '"', '\'']) {
            let text = plain(text)?;
            return self.scalar(resolved(text)?, text.len(), span(at, text.len()));
        }
        let (node, after) = self.flow(at, depth)?;
        is_end(self.text.get(after.start..at.end)?).then_some(node)
    }

    fn scalar(&mut self, value: Value, bytes: usize, span: Span) -> Option<Node> {
        self.count(NODE_BYTES + bytes + TEXT_BYTES, 1)?;
        Some((value, NodeSpans { value: Some(span), ..NodeSpans::default() }))
    }

    /// Reads a node in brackets, braces or quotes, or a word within one of these. All of it is in
    /// one line. Returns the rest of the line, too.
    fn flow(&mut self, at: Content, depth: usize) -> Option<(Node, Content)> {
        let text = self.text.get(at.start..at.end)?;
        match *text.as_bytes().first()? {
            _ if depth > DEPTH_MAX => None,
            b'[' => self.flow_sequence(at, depth),
            b'{' => self.flow_mapping(at, depth),
            b'"' | b'\'' => {
                let (inner, rest) = quoted(text)?;
                let (value, place) = (Value::String(inner.to_owned()), span(at, inner.len() + 2));
                let node = self.scalar(value, inner.len(), place)?;
                Some((node, Content { start: at.end - rest.len(), ..at }))
            }
            _ => {
                let word = word(text)?;
                let node = self.scalar(resolved(word)?, word.len(), span(at, word.len()))?;
                Some((node, Content { start: at.start + word.len(), ..at }))
            }
        }
    }

    fn flow_sequence(&mut self, first: Content, depth: usize) -> Option<(Node, Content)> {
        self.count(NODE_BYTES, 1)?;
        let (mut items, mut spans) = (Vec::new(), Vec::new());
        let mut at = self.past(first, "[")?;
        if let Some(after) = self.past(at, "]") {
            return Some(((Value::Array(items), empty(first)), after));
        }
        loop {
            let ((value, of_value), after) = self.flow(self.past(at, "")?, depth + 1)?;
            items.push(value);
            spans.push(of_value);
            if let Some(after) = self.past(after, "]") {
                return Some((sequence(items, spans, first), after));
            }
            at = self.past(after, ",")?;
        }
    }

    fn flow_mapping(&mut self, first: Content, depth: usize) -> Option<(Node, Content)> {
        self.count(NODE_BYTES, 1)?;
        let mut fields = Vec::new();
        let mut at = self.past(first, "{")?;
        if let Some(after) = self.past(at, "}") {
            return Some(((Value::Object(Map::new()), empty(first)), after));
        }
        self.memory += MAPPING_BYTES;
        loop {
            let (name, key, value) = self.key(self.past(at, "")?)?;
            self.count_key(name)?;
            let ((value, spans), after) = self.flow(self.past(value, "")?, depth + 1)?;
            fields.push(Field { name: name.to_owned(), value, key, spans });
            if let Some(after) = self.past(after, "}") {
                return Some((mapping(fields, first)?, after));
            }
            at = self.past(after, ",")?;
        }
    }

    /// Goes past spaces, and then `token`.
    fn past(&self, at: Content, token: &str) -> Option<Content> {
        let text = self.text.get(at.start..at.end)?.trim_start_matches(' ');
        let text = text.strip_prefix(token)?;
        Some(Content { start: at.end - text.len(), ..at })
    }

    /// Reads the lines of a literal text after its header, and goes to the line after it. Its place
    /// is its first character.
    fn literal(&mut self, header: &str, indent: usize) -> Option<(String, Span)> {
        let keeps_end = match header {
            "" => true,
            "-" => false,
            _ => return None,
        };
        let bytes = self.text.as_bytes();
        let (mut value, line) = (String::new(), self.number.checked_add(1)?);
        let mut depth = None;
        let mut empty = 0;
        while let Some(length) = memchr(b'\n', bytes.get(self.at..)?) {
            let line = self.text.get(self.at..self.at + length)?;
            let spaces = line.len() - line.trim_start_matches(' ').len();
            let depth = *depth.get_or_insert(spaces);
            if depth <= indent || value.is_empty() && spaces == line.len() {
                // An empty text, or one that begins with empty lines.
                return None;
            }
            if spaces < depth && spaces < line.len() {
                if spaces > indent {
                    return None;
                }
                break;
            }
            (self.at, self.number) = (self.at + length + 1, self.number.checked_add(1)?);
            match line.get(depth..) {
                None | Some("") => empty += 1,
                Some(content) => {
                    value.extend(std::iter::repeat_n('\n', std::mem::take(&mut empty)));
                    value.push_str(content);
                    value.push('\n');
                }
            }
        }
        if value.is_empty() {
            return None;
        }
        if !keeps_end {
            value.pop();
        }
        self.next_line()?;
        Some((value, Span { line, column: number(depth? + 1), length: 1 }))
    }

    /// The content after the dash of an item of a sequence.
    fn item(&self, line: Content) -> Option<usize> {
        let rest = self.text.get(line.start..line.end)?.strip_prefix("- ")?;
        let content = rest.trim_start_matches(' ');
        (!content.is_empty() && !content.starts_with('#')).then(|| line.end - content.len())
    }

    /// A key with its place, and the rest of its line.
    fn key(&self, line: Content) -> Option<(&'a str, Span, Content)> {
        let text = self.text.get(line.start..line.end)?;
        let (key, length, rest) = if text.starts_with(['"', '\'']) {
            let (inner, rest) = quoted(text)?;
            (inner, inner.len() + 2, rest)
        } else {
            let is_of_key = |byte: &u8| byte.is_ascii_alphanumeric() || b"._/-".contains(byte);
            let length = text.bytes().take_while(is_of_key).count();
            let (key, rest) = text.split_at_checked(length)?;
            if key.starts_with('-') || !is_text(key) {
                return None;
            }
            (key, length, rest)
        };
        let after = rest.strip_prefix(':')?;
        let is_key = !key.is_empty() && key.len() <= KEY_BYTES_MAX;
        let rest = Content { start: line.end - after.len(), ..line };
        (is_key && (after.is_empty() || after.starts_with(' ')))
            .then(|| (key, span(line, length), rest))
    }

    /// Counts a key: as a node, and once more as a field.
    fn count_key(&mut self, name: &str) -> Option<()> {
        self.count(NODE_BYTES + FIELD_BYTES + 2 * (name.len() + TEXT_BYTES), 1)
    }

    fn count(&mut self, memory: usize, nodes: usize) -> Option<()> {
        self.nodes += nodes;
        self.memory += memory;
        (self.nodes <= limits::YAML_NODES_MAX && self.memory <= limits::YAML_MEMORY_MAX)
            .then_some(())
    }
}

/// A mapping, unless it has a key twice.
fn mapping(mut fields: Vec<Field>, first: Content) -> Option<Node> {
    fields.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    let is_twice = fields.windows(2).any(|two| matches!(two, [a, b] if a.name == b.name));
    if fields.is_empty() || is_twice {
        return None;
    }
    let spans = fields.iter_mut().map(|field| FieldSpans {
        name: field.name.as_str().into(),
        key: Some(field.key),
        value: std::mem::take(&mut field.spans),
    });
    let children = Children::Fields(spans.collect());
    let values: Map<String, Value> =
        fields.into_iter().map(|field| (field.name, field.value)).collect();
    Some((Value::Object(values), NodeSpans { children, ..empty(first) }))
}

fn sequence(mut items: Vec<Value>, mut spans: Vec<NodeSpans>, first: Content) -> Node {
    items.shrink_to_fit();
    spans.shrink_to_fit();
    let children = Children::Items(Arc::new(spans));
    (Value::Array(items), NodeSpans { children, ..empty(first) })
}

/// The place of an empty mapping or sequence.
fn empty(first: Content) -> NodeSpans {
    NodeSpans { value: Some(span(first, 1)), children: Children::None }
}

/// The place of so many characters at the start of `at`.
fn span(at: Content, length: usize) -> Span {
    Span { line: at.number, column: number(at.start - at.line + 1), length: number(length) }
}

/// A text in quotes without an escape, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = *text.as_bytes().first()?;
    let (inner, rest) = text.get(1..)?.split_once(char::from(quote))?;
    let is_escaped =
        quote == b'\'' && rest.starts_with('\'') || quote == b'"' && inner.contains('\\');
    (!is_escaped).then_some((inner, rest))
}

/// A scalar without quotes in a list or mapping that is in one line.
fn word(text: &str) -> Option<&str> {
    let text = text.get(..text.find([',', ']', '}', ' '])?)?;
    let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._/:=-".contains(&byte);
    let is_word = text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && !text.ends_with(':')
        && text.bytes().all(is_of_word);
    is_word.then_some(text)
}

/// A scalar without quotes that ends in its line.
fn plain(text: &str) -> Option<&str> {
    let (first, second) = (*text.as_bytes().first()?, text.as_bytes().get(1));
    let is_indicator = b"?:,[]{}#&*!|>'\"%@`".contains(&first);
    if is_indicator || first == b'-' && second.is_none_or(|byte| *byte == b' ') {
        return None;
    }
    let text = text.find(" #").map_or(Some(text), |end| text.get(..end))?.trim_end_matches(' ');
    (!text.contains(": ") && !text.ends_with(':')).then_some(text)
}

/// What a plain scalar means, unless others read it in another way.
fn resolved(text: &str) -> Option<Value> {
    match scalar::plain(text) {
        (Scalar::Value(value), None) => Some(value),
        _ => None,
    }
}

/// Whether a plain key is text.
fn is_text(key: &str) -> bool {
    let is_long_word =
        key.len() > WORD_BYTES_MAX && key.starts_with(|first: char| first.is_ascii_alphabetic());
    is_long_word || matches!(resolved(key), Some(Value::String(_)))
}

/// Whether nothing follows in the line but a comment.
fn is_end(rest: &str) -> bool {
    let after = rest.trim_start_matches(' ');
    after.is_empty() || after.starts_with('#') && after.len() < rest.len()
}
