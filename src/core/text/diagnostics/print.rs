//! Diagnostics as text: the message, the place, the source line with a caret, and what to do.

use unicode_width::UnicodeWidthChar as _;

use super::blocks::{blocks, most_severe};
use super::summary::DiagnosticSummary;
use crate::limits;
use crate::model::diagnostic::{Diagnostic, Location, Severity, Span};
use crate::text::escape::escape_untrusted;
use crate::text::style::{ColorMode, TextStyle};

/// All diagnostics as text, with a summary as the last line. Copies of one mistake are one block.
/// Past `limits::DIAGNOSTICS_MAX` blocks they are counted only.
pub fn text(diagnostics: &[Diagnostic], style: ColorMode) -> String {
    let see_all = "select fewer with --cluster, --work or --changed-since";
    bounded_text(diagnostics, (limits::DIAGNOSTICS_MAX, see_all), style)
}

/// As [`text`], with at most `max` blocks, the most severe ones. The last line says how many
/// diagnostics are not shown, and after it how to see them.
pub fn bounded_text(
    diagnostics: &[Diagnostic],
    (max, see_all): (usize, &str),
    style: ColorMode,
) -> String {
    let mut out = String::new();
    let (shown, hidden) = most_severe(blocks(diagnostics), max, |block| block.first.severity);
    for block in shown {
        write_one(&mut out, block.first, style);
        if let Some(more) = block.more() {
            let margin = margin(block.first);
            let equals = style.styled(TextStyle::Dim, "=");
            out.push_str(&format!("{margin} {equals} {}\n", style.styled(TextStyle::Strong, more)));
        }
        out.push('\n');
    }
    out.push_str(&style.styled(TextStyle::Strong, DiagnosticSummary::of(diagnostics)));
    out.push('\n');
    if !hidden.is_empty() {
        let hidden = hidden.iter().flat_map(|block| block.others.iter().chain([&block.first]));
        let counts = DiagnosticSummary::of(hidden.copied()).counts();
        out.push_str(&format!("not shown: {counts}; {see_all}\n"));
    }
    out
}

/// The space before the bar at the left of a diagnostic.
fn margin(diagnostic: &Diagnostic) -> String {
    let digits = diagnostic.location.span.map_or(1, |span| span.line.to_string().len());
    " ".repeat(digits)
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
    let margin = margin(diagnostic);
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
