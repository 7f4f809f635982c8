//! Diagnostics as text: the message, the place, the source line with a caret, and what to do.

use unicode_width::UnicodeWidthChar as _;

use super::summary::DiagnosticSummary;
use crate::limits;
use crate::model::diagnostic::{Diagnostic, Location, Severity, Span};
use crate::text::escape::escape_untrusted;
use crate::text::style::{ColorMode, TextStyle, count};

/// All diagnostics as text, with a summary as the last line. Past `limits::DIAGNOSTICS_MAX` they
/// are counted only.
pub fn text(diagnostics: &[Diagnostic], style: ColorMode) -> String {
    let mut out = String::new();
    let shown = diagnostics.get(..limits::DIAGNOSTICS_MAX).unwrap_or(diagnostics);
    // A folder of a group has the same problem for each member. Sorted, these stand together.
    for same in shown.chunk_by(is_same) {
        let Some((first, others)) = same.split_first() else { continue };
        write_one(&mut out, first, style);
        if !others.is_empty() {
            let works = count(others.len(), "other work");
            out.push_str(&format!(
                "  {} the same for {works}\n",
                style.styled(TextStyle::Dim, "=")
            ));
        }
        out.push('\n');
    }
    if let Some(left) = diagnostics.len().checked_sub(limits::DIAGNOSTICS_MAX).filter(|n| *n > 0) {
        out.push_str(&format!("... and {} more\n\n", count(left, "problem")));
    }
    out.push_str(&style.styled(TextStyle::Strong, DiagnosticSummary::of(diagnostics)));
    out.push('\n');
    out
}

/// Whether two diagnostics differ in their scopes only.
fn is_same(one: &Diagnostic, other: &Diagnostic) -> bool {
    let Diagnostic { location, code, severity, scope, field, message, hint, related, snippet } =
        one;
    *scope != other.scope
        && (*location == other.location && *code == other.code && *severity == other.severity)
        && (*field == other.field && *message == other.message && *hint == other.hint)
        && (*related == other.related && *snippet == other.snippet)
}

/// One diagnostic as text.
pub fn write_one(out: &mut String, diagnostic: &Diagnostic, style: ColorMode) {
    let (word, paint) = match diagnostic.severity {
        Severity::Error => ("error", TextStyle::Bad),
        Severity::Warning => ("warning", TextStyle::Warning),
        Severity::Info => ("note", TextStyle::Note),
    };
    let head = style.styled(paint, format_args!("{word}[{}]", diagnostic.code.id()));
    out.push_str(&format!(
        "{head}: {}\n",
        style.styled(TextStyle::Strong, escape_untrusted(&diagnostic.message))
    ));
    let span = diagnostic.location.span;
    let number = span.map_or(String::new(), |span| span.line.to_string());
    let margin = " ".repeat(number.len().max(1));
    let bar = style.styled(TextStyle::Dim, "|");
    out.push_str(&format!(
        "{margin}{} {}\n",
        style.styled(TextStyle::Dim, "-->"),
        style.styled(TextStyle::Note, place(&diagnostic.location))
    ));
    if let (Some(span), Some(snippet)) = (span, &diagnostic.snippet) {
        let (line, caret) = underline(snippet, span);
        let number = style.styled(TextStyle::Dim, number);
        out.push_str(&format!("{margin} {bar}\n{number} {bar} {line}\n"));
        if let Some((indent, width)) = caret {
            let mark = style.styled(paint, "^".repeat(width));
            out.push_str(&format!("{margin} {bar} {}{mark}\n", " ".repeat(indent)));
        }
    }
    for (location, why) in &diagnostic.related {
        out.push_str(&format!(
            "{margin}{} {}: {}\n",
            style.styled(TextStyle::Dim, ":::"),
            style.styled(TextStyle::Note, place(location)),
            escape_untrusted(why)
        ));
    }
    let mut remark = |word: &str, text: &str| {
        let word = style.styled(TextStyle::Strong, word);
        let equals = style.styled(TextStyle::Dim, "=");
        out.push_str(&format!("{margin} {equals} {word}: {}\n", escape_untrusted(text)));
    };
    if let Some(field) = &diagnostic.field {
        remark("field", field);
    }
    remark("help", diagnostic.help());
}

/// `file:line:column`, or the file alone.
fn place(location: &Location) -> String {
    let file = escape_untrusted(&location.file.to_string());
    match location.span {
        Some(span) => format!("{file}:{}:{}", span.line, span.column),
        None => file,
    }
}

/// Columns of a tab in a source line.
const TAB_COLUMNS: usize = 4;

/// The source line as it is shown, and where its caret stands: columns before it and columns below
/// it. No caret where the line was cut before the place.
pub(super) fn underline(snippet: &str, span: Span) -> (String, Option<(usize, usize)>) {
    let first = (span.column.max(1) - 1) as usize;
    let last = first.saturating_add(span.length.max(1) as usize);
    let (mut line, mut indent, mut width, mut characters) = (String::new(), 0, 0, 0);
    for (index, character) in snippet.trim_end_matches(['\r', '\n']).chars().enumerate() {
        let shown = match character {
            '\t' => " ".repeat(TAB_COLUMNS),
            other => escape_untrusted(other.encode_utf8(&mut [0; 4])),
        };
        let columns: usize = shown.chars().map(|c| c.width().unwrap_or_default()).sum();
        if index < first {
            indent += columns;
        } else if index < last {
            width += columns;
        }
        line.push_str(&shown);
        characters = index + 1;
    }
    let line = line.trim_end().to_owned();
    // The end of a line is a place too.
    (line, (first <= characters).then_some((indent, width.max(1))))
}
