//! Prints a review as a pull-request comment.

use super::difference::{Review, WorkChange, WorkReview};
use super::print::{Group, bytes, details, groups, guarded, losses, remarks, totals};
use super::words::headline;
use crate::forge::WebPages;
use gitwork_core::limits;
use gitwork_core::model::diagnostic::Location;
use gitwork_core::model::name::CommitId;
use gitwork_core::text::diagnostics::{Block, DiagnosticSummary, blocks};
use gitwork_core::text::escape::escape_untrusted;
use gitwork_core::text::style::{ColorMode, count};
use gitwork_core::text::truncate::truncate_chars;

/// Rows of a comment's table, and diagnostics that it lists.
const ROWS_MAX: usize = 50;
/// Bytes reserved for the last remark of a comment.
const REMARK_CHARS: usize = 200;

/// The review as a pull-request comment in GitHub's Markdown: counts, a table, and folded details.
/// At most `limits::COMMENT_CHARS_MAX` bytes. The rest is counted. With the `pages` of the
/// repository, works and problems are links to them, unless the head is a working directory or the
/// links would take the room of the changes.
pub fn markdown(review: &Review, pages: Option<&WebPages>) -> String {
    let groups = groups(review);
    let with = |pages| Links { pages, base: review.base, head: review.head };
    let mut out = overview(review, &groups, &with(pages));
    if out.len() > limits::COMMENT_CHARS_MAX / 2 {
        out = overview(review, &groups, &with(None));
    }
    let mut left_out = 0;
    for group in &groups {
        let section = section(group);
        if section.is_empty() {
            continue;
        }
        if out.len() + section.len() + REMARK_CHARS > limits::COMMENT_CHARS_MAX {
            left_out += 1;
        } else {
            out.push_str(&section);
        }
    }
    if left_out > 0 {
        let what = count(left_out, "change");
        out.push_str(&format!(
            "\nThe details of {what} are left out: this comment would be too long. \
             `gitwork plan` shows them.\n"
        ));
    }
    out
}

/// The counts, the table and the problems.
fn overview(review: &Review, groups: &[Group<'_>], links: &Links<'_>) -> String {
    let mut out = String::from("### gitwork plan\n\n");
    out.push_str(&format!("**{}**\n\n", totals(review)));
    if review.base.is_some() || review.head.is_some() {
        out.push_str(&format!("{} → {}\n\n", revision(review.base), revision(review.head)));
    }
    for change in &review.member_changes {
        out.push_str(&format!("- {change}\n"));
    }
    for remark in remarks(review) {
        out.push_str(&format!("> ⚠️ {remark}\n"));
    }
    for line in losses(review) {
        out.push_str(&format!("> ⚠️ {}\n", code(&line)));
    }
    for line in guarded(review) {
        out.push_str(&format!("> ⏸️ {}\n", code(&line)));
    }
    if !groups.is_empty() {
        out.push_str("\n| | work | clusters | change | size |\n|---|---|---|---|---|\n");
        groups.iter().take(ROWS_MAX).for_each(|group| out.push_str(&row(group, links)));
        if let Some(more) = groups.len().checked_sub(ROWS_MAX).filter(|more| *more > 0) {
            out.push_str(&format!("| | and {more} more | | | |\n"));
        }
    }
    problems(&mut out, review, links);
    out
}

fn revision(commit: Option<CommitId>) -> String {
    commit.map_or("working directory".into(), |commit| commit.to_string())
}

/// Where the comment's links go.
struct Links<'a> {
    pages: Option<&'a WebPages>,
    base: Option<CommitId>,
    head: Option<CommitId>,
}

impl Links<'_> {
    /// The name of a work, as a link to its folder: in the base if the head has no such work.
    fn work(&self, work: &WorkReview) -> String {
        let name = code(work.key.work.as_str());
        let commit = match work.change {
            WorkChange::Deleted { .. } | WorkChange::Released { .. } => self.base,
            _ => self.head,
        };
        let (Some(pages), Some(commit), Some(path)) = (self.pages, commit, &work.path) else {
            return name;
        };
        link(&pages.folder(commit, path), &name)
    }

    /// The place of a problem in the head, as a link to its line.
    fn place(&self, location: &Location) -> String {
        let place = match location.span {
            Some(span) => format!("{}:{}:{}", location.file, span.line, span.column),
            None => location.file.to_string(),
        };
        let place = code(&truncate_chars(&place, MESSAGE_CHARS_MAX));
        let (Some(pages), Some(commit)) = (self.pages, self.head) else { return place };
        match location.span {
            Some(span) => link(&pages.line(commit, &location.file, span.line), &place),
            None => place,
        }
    }
}

/// A link. `text` is escaped already.
fn link(url: &str, text: &str) -> String {
    format!("<a href=\"{}\">{text}</a>", url.replace('&', "&amp;").replace('"', "%22"))
}

fn row(group: &Group<'_>, links: &Links<'_>) -> String {
    let (sign, _, words) = headline(group.first, code);
    let size = group
        .size()
        .map_or(String::new(), |size| format!("{} ({}%)", bytes(size.bytes), size.percent));
    let (work, clusters) = (links.work(group.first), group.clusters(code));
    signed_row(sign, &[work, clusters, words, size])
}

/// A row of a Markdown table: the sign of a change, then cells that are already escaped.
fn signed_row(sign: char, cells: &[String]) -> String {
    let sign = match sign {
        '+' => "➕",
        '-' => "➖",
        '!' => "⚠️",
        _ => "✏️",
    };
    format!("| {sign} | {} |\n", cells.join(" | "))
}

/// The first of the new diagnostics.
fn problems(out: &mut String, review: &Review, links: &Links<'_>) {
    let all = &review.new_diagnostics;
    if all.is_empty() {
        return;
    }
    out.push_str(&format!("\n**New: {}**\n\n", DiagnosticSummary::of(all)));
    let blocks = blocks(all);
    for block in blocks.iter().take(ROWS_MAX) {
        let diagnostic = block.first;
        let message = truncate_chars(&diagnostic.message, MESSAGE_CHARS_MAX);
        let place = links.place(&diagnostic.location);
        let more = block.more().map_or_else(String::new, |more| format!(" ({more})"));
        let id = diagnostic.code.id();
        out.push_str(&format!("- {id} {place}: {}{more}\n", code(&message)));
    }
    let more: usize = blocks.iter().skip(ROWS_MAX).map(Block::count).sum();
    if more > 0 {
        out.push_str(&format!("- and {more} more\n"));
    }
}

/// Characters of one message in a comment. `ROWS_MAX` diagnostics then leave room for the details.
const MESSAGE_CHARS_MAX: usize = 200;

/// Bytes of the details of one group in a comment, so that one large change leaves room for the
/// others.
const SECTION_CHARS_MAX: usize = 12_000;

/// The folded details of one group; empty if there are none.
fn section(group: &Group<'_>) -> String {
    let mut text = String::new();
    details(&mut text, group.first, ColorMode::Plain);
    if text.is_empty() {
        return text;
    }
    let (sign, ..) = headline(group.first, code);
    let mut lines = String::new();
    let mut left_out = 0;
    for line in text.lines().map(diff_line) {
        if left_out == 0 && lines.len() + line.len() <= SECTION_CHARS_MAX {
            lines.push_str(&line);
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        lines.push_str(&format!("... and {} more\n", count(left_out, "line")));
    }
    // A fence that is longer than any run of backticks in the text cannot be closed by it.
    let fence = "`".repeat(longest_run(&lines, '`').max(2) + 1);
    let more = match group.works.len() - 1 {
        0 => String::new(),
        more => format!(", and {} more", count(more, "cluster")),
    };
    let key = code(&group.first.key.to_string());
    format!(
        "\n<details><summary>{sign} \
         {key}{more}</summary>\n\n{fence}diff\n{lines}{fence}\n\n</details>\n"
    )
}

/// Converts a line to GitHub's `diff` highlighting: the sign in the first column, `!` for a change.
fn diff_line(line: &str) -> String {
    let rest = line.trim_start_matches(' ');
    let indent = line.len() - rest.len();
    let sign = match rest.chars().next() {
        Some(sign @ ('+' | '-')) => sign,
        Some('~') => '!',
        _ => return format!("{line}\n"),
    };
    let rest = rest.get(1..).unwrap_or_default();
    format!("{sign}{}{rest}\n", " ".repeat(indent))
}

fn longest_run(text: &str, wanted: char) -> usize {
    let mut longest = 0;
    let mut run = 0;
    for character in text.chars() {
        run = if character == wanted { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// Untrusted text for a comment: without Markdown, HTML, mentions and links.
fn code(text: &str) -> String {
    let mut out = String::from("<code>");
    for character in escape_untrusted(text).chars() {
        if character.is_ascii_punctuation() && !matches!(character, '-' | '.' | '/' | ',') {
            out.push_str(&format!("&#{};", u32::from(character)));
        } else {
            out.push(character);
        }
    }
    out.push_str("</code>");
    out
}
