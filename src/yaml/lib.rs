//! Reads YAML and JSON as kubectl does: sigs.k8s.io/yaml over go-yaml v2, then JSON. What reaches a
//! cluster must be what kubectl would have sent; `tests::as_kubectl` is the table of it.
//!
//! The parser gives events; composition, the meaning of scalars, merge keys and bounds are ours.

mod compose;
pub mod limits;
mod scalar;
mod write;

pub use write::write;

use serde::Serialize;
use serde_json::Value;

/// A location in a file. Lines and columns count from 1; columns and lengths are in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Span {
    pub line: u32,
    pub column: u32,
    pub length: u32,
}

/// One document of a file.
#[derive(Debug)]
pub struct Document {
    /// Counts from 1; empty documents count too, but are left out.
    pub index: u32,
    pub value: Value,
    places: Place,
}

/// Where a node stands, and the nodes in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    pub span: Option<Span>,
    pub key: Option<Span>,
    /// By JSON pointer token: a mapping's key or a sequence's index. Sorted for sequences by
    /// construction.
    pub children: Vec<(String, Place)>,
}

impl Document {
    /// The document's first line.
    pub fn span(&self) -> Span {
        self.places.span.unwrap_or(Span { line: 1, column: 1, length: 1 })
    }

    /// The value at a JSON pointer, or the nearest thing above it that there is.
    pub fn span_of(&self, pointer: &str) -> Span {
        self.find(pointer).and_then(|place| place.span).unwrap_or_else(|| self.span())
    }

    /// The key of the field at a JSON pointer; the value where there is no key.
    pub fn key_span_of(&self, pointer: &str) -> Span {
        self.find(pointer).and_then(|place| place.key.or(place.span)).unwrap_or_else(|| self.span())
    }

    fn find(&self, pointer: &str) -> Option<&Place> {
        let mut at = &self.places;
        for token in pointer.split('/').skip(1) {
            let name = token.replace("~1", "/").replace("~0", "~");
            match at.children.iter().find(|(child, _)| *child == name) {
                Some((_, place)) => at = place,
                None => break,
            }
        }
        Some(at)
    }
}

/// What is wrong with a text; the core gives each a stable code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    Syntax,
    DuplicateKey,
    Limit,
    Tag,
    Number,
    AmbiguousScalar,
    NonStringKey,
    NotText,
    LfsPointer,
    FileTooLarge,
    UnexpectedShape,
    MergeOverrides,
}

impl ProblemKind {
    /// Every kind.
    pub const ALL: &[Self] = &[
        Self::Syntax,
        Self::DuplicateKey,
        Self::Limit,
        Self::Tag,
        Self::Number,
        Self::AmbiguousScalar,
        Self::NonStringKey,
        Self::NotText,
        Self::LfsPointer,
        Self::FileTooLarge,
        Self::UnexpectedShape,
        Self::MergeOverrides,
    ];

    /// One line without any value of the text.
    pub fn title(self) -> &'static str {
        match self {
            Self::Syntax => "not valid YAML",
            Self::DuplicateKey => "a key stands twice in one mapping",
            Self::Limit => "the YAML is too deep, too long or expands too far",
            Self::Tag => "a custom YAML tag",
            Self::Number => "a number that JSON cannot carry",
            Self::AmbiguousScalar => {
                "an unquoted word or number that YAML 1.1 reads in its own way"
            }
            Self::NonStringKey => "a mapping key that is not text",
            Self::NotText => "the file is not UTF-8 text",
            Self::LfsPointer => "a Git LFS pointer in place of a manifest",
            Self::FileTooLarge => "the file is larger than gitwork reads",
            Self::UnexpectedShape => "the document is not a mapping",
            Self::MergeOverrides => "a merge key that overrides a key above it",
        }
    }

    /// Whether the text cannot be used; the other kinds are warnings.
    pub fn is_error(self) -> bool {
        !matches!(self, Self::AmbiguousScalar | Self::NonStringKey | Self::MergeOverrides)
    }
}

/// One problem of a text. It holds no value of a text that may hold a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub kind: ProblemKind,
    /// `None` where the text as a whole is concerned.
    pub span: Option<Span>,
    pub message: String,
    /// Other locations that matter, each with the reason.
    pub related: Vec<(Span, String)>,
    /// The line that `span` points to.
    pub snippet: Option<String>,
}

/// The documents of a text, and what is wrong with it.
#[derive(Debug, Default)]
pub struct Read {
    pub documents: Vec<Document>,
    pub problems: Vec<Problem>,
}

/// Reads all documents of a text. After a syntax error the documents before it are still there.
pub fn read(bytes: &[u8]) -> Read {
    let text = match text_of(bytes) {
        Ok(text) => text,
        Err((kind, message)) => {
            let problem = Problem { kind, span: None, message, related: vec![], snippet: None };
            return Read { documents: Vec::new(), problems: vec![problem] };
        }
    };
    let composed = compose::stream(text);
    // Split the lines once: a text may have as many problems as lines.
    let lines = if composed.problems.is_empty() { None } else { Lines::new(bytes) };
    let masked = lines.as_ref().is_none_or(|lines| lines.masked);
    let problems = composed.problems.into_iter().map(|problem| Problem {
        kind: problem.kind,
        span: Some(problem.span),
        message: if masked { problem.kind.title().to_owned() } else { problem.message },
        related: problem.related,
        snippet: lines.as_ref().and_then(|lines| lines.snippet(problem.span)),
    });
    Read { documents: composed.documents, problems: problems.collect() }
}

/// The file as text: no byte order mark, valid UTF-8, no Git LFS pointer.
fn text_of(bytes: &[u8]) -> Result<&str, (ProblemKind, String)> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.len() > limits::FILE_BYTES_MAX {
        let message = format!(
            "the file has {} bytes; at most {} are read",
            bytes.len(),
            limits::FILE_BYTES_MAX
        );
        return Err((ProblemKind::FileTooLarge, message));
    }
    if bytes.starts_with(b"version https://git-lfs.github.com/spec/") {
        return Err((
            ProblemKind::LfsPointer,
            "this is a Git LFS pointer, not the manifest itself".into(),
        ));
    }
    let text = std::str::from_utf8(bytes).map_err(|why| {
        let before = bytes.get(..why.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        (
            ProblemKind::NotText,
            format!("the file is not UTF-8: see byte {} (line {line})", why.valid_up_to()),
        )
    })?;
    if text.contains('\0') {
        return Err((ProblemKind::NotText, "the file has NUL bytes: it is not text".into()));
    }
    Ok(text)
}

/// The longest part of a line that a snippet shows, in characters.
const SNIPPET_CHARS_MAX: usize = 160;

/// The lines of one file, as diagnostics show them: without values where the file holds a Secret.
#[derive(Debug)]
pub struct Lines<'a> {
    lines: Vec<&'a str>,
    masked: bool,
}

impl<'a> Lines<'a> {
    /// `None` for a file that is no text.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text = std::str::from_utf8(bytes).ok()?;
        Some(Self { lines: text.lines().collect(), masked: holds_secret(text) })
    }

    /// The line that a place stands in.
    pub fn snippet(&self, span: Span) -> Option<String> {
        let line = self.lines.get(usize::try_from(span.line).ok()?.checked_sub(1)?)?;
        if self.masked {
            let (key, _) = line.split_once(':')?;
            let plain = key
                .trim_start()
                .trim_start_matches("- ")
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_./\"".contains(c));
            return plain.then(|| {
                format!("{}: ...", key.chars().take(SNIPPET_CHARS_MAX).collect::<String>())
            });
        }
        Some(line.chars().take(SNIPPET_CHARS_MAX).collect())
    }
}

/// Whether a text may hold a Secret: it says so anywhere, in YAML or JSON. Too often yes is fine
/// here.
fn holds_secret(text: &str) -> bool {
    text.match_indices("Secret").any(|(at, word)| {
        let before = text.get(..at).unwrap_or_default().trim_end_matches([' ', '\t', '"', '\'']);
        let after = text.get(at + word.len()..).unwrap_or_default();
        before.trim_end_matches([' ', '\t', '\n', '\r']).ends_with(':')
            && !after.starts_with(|c: char| c.is_ascii_alphanumeric() && !after.starts_with("List"))
    })
}

/// Whether a character may change what a terminal shows around it: control characters, the line and
/// paragraph separators, byte order marks and bidirectional controls.
pub fn is_dangerous(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests;
