//! Composes the documents of a stream.

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Options, Parser, ScanError};
use serde::de::IgnoredAny;

use super::problems::{StreamProblem, StreamProblems};
use super::{Composer, ParserEvent, Size, Stop, number, span_of};
use crate::document::Document;
use crate::limits;
use crate::problem::ProblemKind;
use crate::span::Span;

/// The documents of a stream up to the first syntax error or limit.
#[derive(Default)]
pub(crate) struct ComposedStream {
    pub documents: Vec<Document>,
    pub problems: Vec<StreamProblem>,
    /// As [`Composer`] counts it.
    pub memory: usize,
}

/// Composes every document of `text`.
pub(crate) fn compose(text: &str) -> ComposedStream {
    let mut options = Options::default();
    options.emit_comments = false;
    // kubectl cuts the stream at `---` first, so it never reads a directive.
    options.disallow_directives = true;
    options.flow_nesting_limit = limits::YAML_DEPTH_MAX;
    options.block_nesting_limit = limits::YAML_DEPTH_MAX;
    let mut composer = Composer {
        parser: Box::new(Parser::new_from_str_with_options(text, options)),
        anchors: HashMap::new(),
        size: Size::default(),
        problems: StreamProblems::default(),
    };
    let mut documents = Vec::new();
    match foreign_line_break(text) {
        Some((span, character)) => {
            let code = u32::from(character);
            let message = format!(
                "the character U+{code:04X} ends a line for kubectl and for few others; write \
                 \"\\u{code:04X}\" in double quotes"
            );
            composer.report(ProblemKind::Syntax, span, message);
        }
        None => {
            // Documents before a stop are kept.
            let _ = composer.documents(&mut documents);
        }
    }
    let memory = composer.size.memory;
    ComposedStream { documents, problems: composer.problems.into_all(), memory }
}

/// Finds the first line break that only YAML 1.1 has. In JSON these are plain characters.
fn foreign_line_break(text: &str) -> Option<(Span, char)> {
    // Most are, and this reads many bytes at once.
    if text.is_ascii() {
        return None;
    }
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

/// Whether the whole text is JSON objects. A text that only begins with one is YAML.
fn is_json(text: &str) -> bool {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{')
        && values.all(|value| value.is_ok())
}

impl<'a> Composer<'a> {
    fn documents(&mut self, documents: &mut Vec<Document>) -> Result<(), Stop> {
        let mut index = 0;
        while let Some((event, at)) = self.next()? {
            match event {
                Event::DocumentStart(explicit, ..) => {
                    index += 1;
                    self.begin_document(index, explicit, span_of(&at))?;
                }
                Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
                event => {
                    let (value, spans) = self.node(event, &at, 1)?;
                    if !value.is_null() {
                        documents.push(Document { index, value, spans });
                    }
                }
            }
        }
        Ok(())
    }

    fn begin_document(&mut self, index: u32, explicit: bool, span: Span) -> Result<(), Stop> {
        if index > 1 && !explicit {
            let message = "kubectl ignores what follows `...`; begin a document with `---`";
            return Err(self.stop(ProblemKind::Syntax, span, message));
        }
        self.anchors.clear();
        if index as usize > limits::YAML_DOCUMENTS_MAX {
            let message = format!("more than {} documents in one file", limits::YAML_DOCUMENTS_MAX);
            return Err(self.stop(ProblemKind::Limit, span, message));
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<ParserEvent<'a>>, Stop> {
        match self.parser.next() {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(error)) => Err(self.stop_at_error(&error)),
        }
    }

    /// Reads the next event of a document that is not complete.
    pub(super) fn expect_next(&mut self) -> Result<ParserEvent<'a>, Stop> {
        match self.next()? {
            Some(next) => Ok(next),
            None => {
                let span = Span { line: 1, column: 1, length: 1 };
                Err(self.stop(ProblemKind::Syntax, span, "the document ends too early"))
            }
        }
    }

    fn stop_at_error(&mut self, error: &ScanError) -> Stop {
        let marker = error.marker();
        let (line, column) = (number(marker.line()), number(marker.col() + 1));
        let span = Span { line, column, length: 1 };
        match error.kind() {
            ErrorKind::RecursionLimitExceeded => self.too_deep(span),
            _ => self.stop(ProblemKind::Syntax, span, error.info()),
        }
    }
}
