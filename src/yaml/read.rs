//! Reads a text: checks its encoding, composes its documents, adds snippets to its problems.

use crate::block;
use crate::compose::stream::compose;
use crate::document::Document;
use crate::limits;
use crate::lines::Lines;
use crate::problem::{ProblemKind, YamlProblem};

/// The documents of a text and its problems.
#[derive(Debug, Default)]
pub struct ParsedYaml {
    /// Documents in the order of the text, without empty ones.
    pub documents: Vec<Document>,
    /// Problems in the order of the text.
    pub problems: Vec<YamlProblem>,
    /// Bytes that the documents take in memory, about.
    pub memory: usize,
}

/// Reads all documents of a text. Keeps the documents before a syntax error.
pub fn read(bytes: &[u8]) -> ParsedYaml {
    let text = match text_of(bytes) {
        Ok(text) => text,
        Err((kind, message)) => {
            let problem = YamlProblem { kind, span: None, message, related: vec![], snippet: None };
            return ParsedYaml { problems: vec![problem], ..ParsedYaml::default() };
        }
    };
    let composed = block::compose(text).unwrap_or_else(|| compose(text));
    // Split the lines once: a text may have as many problems as lines.
    let lines = if composed.problems.is_empty() { None } else { Lines::new(bytes) };
    let masked = lines.as_ref().is_none_or(|lines| lines.masked);
    let problems = composed.problems.into_iter().map(|problem| YamlProblem {
        kind: problem.kind,
        span: Some(problem.span),
        message: match problem.kind {
            // It has no text of the file.
            ProblemKind::Omitted => problem.message,
            _ if masked => problem.kind.title().to_owned(),
            _ => problem.message,
        },
        related: problem.related,
        snippet: lines.as_ref().and_then(|lines| lines.snippet(problem.span)),
    });
    let (documents, memory) = (composed.documents, composed.memory);
    ParsedYaml { documents, problems: problems.collect(), memory }
}

/// Decodes a file: strips the byte order mark, refuses Git LFS pointers and what is not UTF-8.
fn text_of(bytes: &[u8]) -> Result<&str, (ProblemKind, String)> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.len() > limits::FILE_BYTES_MAX {
        let (size, most) = (bytes.len(), limits::FILE_BYTES_MAX);
        let message = format!("the file has {size} bytes; at most {most} are read");
        return Err((ProblemKind::FileTooLarge, message));
    }
    if bytes.starts_with(b"version https://git-lfs.github.com/spec/") {
        let message = "this is a Git LFS pointer, not the manifest itself";
        return Err((ProblemKind::LfsPointer, message.into()));
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
