//! Fixes of a file's text. A fix changes the characters that it is about and nothing else.

use std::collections::BTreeMap;

use gitwork_yaml::{Lines, Span};
use serde_json::{Map, Value};

use super::diff::unified;
use super::escape::escape_untrusted;
use super::style::{ColorMode, TextStyle};
use crate::model::diagnostic::{FixKind, TextFix};
use crate::model::name::RepoPath;

/// A changed text, and what was changed.
#[derive(Debug, PartialEq, Eq)]
pub struct FixedText {
    /// The text of the whole file.
    pub text: String,
    /// The changes in the order of the file. The places are those in the text before.
    pub changes: Vec<TextChange>,
}

/// The change of a file as a unified diff, headed by its names before and after. That of a file
/// which may hold a Secret is not shown.
pub fn diff_of(
    (old, new): (&RepoPath, &RepoPath),
    (before, after): (&[u8], &[u8]),
    style: ColorMode,
) -> String {
    let (old, new) = (escape_untrusted(old.as_str()), escape_untrusted(new.as_str()));
    let head = format!("--- {old}\n+++ {new}");
    let mut out = format!("{}\n", style.styled(TextStyle::Strong, head));
    if Lines::new(before).is_none_or(|lines| lines.may_hold_secret()) {
        out.push_str("the lines are not shown: the file may hold a Secret\n");
        return out;
    }
    let [before, after] = [before, after].map(String::from_utf8_lossy);
    for line in unified(&before, &after) {
        let line = escape_untrusted(&line);
        let style_of_line = match line.chars().next() {
            Some('-') => TextStyle::Bad,
            Some('+') => TextStyle::Good,
            Some('@') => TextStyle::Note,
            _ => TextStyle::Dim,
        };
        out.push_str(&format!("{}\n", style.styled(style_of_line, line)));
    }
    out
}

/// One change of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextChange {
    /// Where it is.
    pub at: Span,
    /// What was changed, as in `renamed replica to replicas`.
    pub what: String,
}

/// One replacement of bytes.
struct Edit {
    at: Span,
    /// From this byte up to another one.
    range: (usize, usize),
    with: String,
    what: String,
}

/// Applies fixes to a file. Leaves out fixes that would change more than they are about, such as
/// the value of an anchor that other fields use. `None` if none is left.
pub fn fixed_text(bytes: &[u8], fixes: &[&TextFix]) -> Option<FixedText> {
    let text = std::str::from_utf8(bytes).ok()?;
    let starts = line_starts(text);
    let mut edits: BTreeMap<usize, Edit> = BTreeMap::new();
    for fix in fixes {
        if let Some(edit) = edit(text, &starts, fix) {
            // Copies of one problem have one fix.
            edits.entry(edit.range.0).or_insert(edit);
        }
    }
    let all: Vec<&Edit> = edits.values().collect();
    let before = values(text)?;
    if let Some(fixed) = applied(text, &before, &all) {
        return Some(fixed);
    }
    let alone = |edit: &&Edit| applied(text, &before, &[edit]).is_some();
    let some: Vec<&Edit> = edits.values().filter(alone).collect();
    applied(text, &before, &some)
}

/// The text after these edits; `None` if something else would change, too.
fn applied(text: &str, before: &[Value], edits: &[&Edit]) -> Option<FixedText> {
    if edits.is_empty() {
        return None;
    }
    let (mut out, mut at) = (String::with_capacity(text.len() + 2 * edits.len()), 0);
    for edit in edits {
        let (from, to) = edit.range;
        out.push_str(text.get(at..from)?);
        out.push_str(&edit.with);
        at = to;
    }
    out.push_str(text.get(at..)?);
    let after = values(&out)?;
    let mut count = 0;
    let pairs = before.iter().zip(&after);
    let is_same = before.len() == after.len()
        && pairs.into_iter().all(|(one, other)| is_allowed(one, other, &mut count));
    let changes = edits.iter().map(|edit| TextChange { at: edit.at, what: edit.what.clone() });
    (is_same && count == edits.len()).then(|| FixedText { text: out, changes: changes.collect() })
}

/// The documents of a text; `None` if it is not valid.
fn values(text: &str) -> Option<Vec<Value>> {
    let read = gitwork_yaml::read(text.as_bytes());
    let is_valid = !read.problems.iter().any(|problem| problem.kind.is_error());
    is_valid.then(|| read.documents.into_iter().map(|document| document.value).collect())
}

/// Whether two values differ only in what fixes change. Counts these differences.
fn is_allowed(before: &Value, after: &Value, count: &mut usize) -> bool {
    match (before, after) {
        (Value::Number(_) | Value::Bool(_), Value::String(_)) => {
            *count += 1;
            true
        }
        (Value::Array(before), Value::Array(after)) => {
            before.len() == after.len()
                && before.iter().zip(after).all(|(one, other)| is_allowed(one, other, count))
        }
        (Value::Object(before), Value::Object(after)) => are_allowed(before, after, count),
        (before, after) => before == after,
    }
}

fn are_allowed(before: &Map<String, Value>, after: &Map<String, Value>, count: &mut usize) -> bool {
    let mut renamed: Vec<&Value> = Vec::new();
    for (key, value) in before {
        match after.get(key) {
            Some(other) if !is_allowed(value, other, count) => return false,
            Some(_) => {}
            None => renamed.push(value),
        }
    }
    let mut added: Vec<&Value> =
        after.iter().filter(|(key, _)| !before.contains_key(*key)).map(|(_, one)| one).collect();
    *count += added.len();
    let all_found = renamed.into_iter().all(|value| {
        let found = added.iter().position(|other| is_allowed(value, other, &mut *count));
        found.map(|index| added.remove(index)).is_some()
    });
    // What is left was added, as text.
    all_found && added.iter().all(|value| value.is_string())
}

/// The edit of a fix; `None` if the text at its place is not what it expects.
fn edit(text: &str, starts: &[usize], fix: &TextFix) -> Option<Edit> {
    let (from, found) = slice(text, starts, fix.at)?;
    let range = (from, from + found.len());
    let (range, with, what) = match &fix.kind {
        FixKind::Quote => {
            is_plain_scalar(found).then_some(())?;
            (range, format!("\"{found}\""), "quoted the value".to_owned())
        }
        FixKind::RenameKey(name) => {
            let quote = found.chars().next().filter(|one| matches!(one, '"' | '\''));
            let old = quote.map_or(found, |quote| found.trim_matches(quote));
            (is_word(old) && is_word(name)).then_some(())?;
            let quote = quote.map_or_else(String::new, String::from);
            (range, format!("{quote}{name}{quote}"), format!("renamed {old} to {name}"))
        }
        FixKind::AddField(name, value) => {
            (is_word(name) && is_word(value)).then_some(())?;
            let at = if found.starts_with('{') { from + 1 } else { from };
            let start = starts.get(usize::try_from(fix.at.line).ok()?.checked_sub(1)?)?;
            let before = text.get(*start..from)?;
            let is_block = at == from && before.chars().all(|one| matches!(one, ' ' | '-'));
            let with = match is_block {
                true => format!("{name}: {value}\n{}", " ".repeat(before.len())),
                false => format!("\"{name}\": \"{value}\", "),
            };
            ((at, at), with, format!("added {name}: {value}"))
        }
    };
    Some(Edit { at: fix.at, range, with, what })
}

/// The byte at which each line begins.
fn line_starts(text: &str) -> Vec<usize> {
    let bom = text.len() - text.trim_start_matches('\u{feff}').len();
    let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
    std::iter::once(bom).chain(breaks).collect()
}

/// The characters of a span, and the byte at which they begin.
fn slice<'a>(text: &'a str, starts: &[usize], at: Span) -> Option<(usize, &'a str)> {
    let start = *starts.get(usize::try_from(at.line).ok()?.checked_sub(1)?)?;
    let line = text.get(start..)?.lines().next()?;
    let first = usize::try_from(at.column).ok()?.checked_sub(1)?;
    let offset = |chars: usize| match line.char_indices().nth(chars) {
        Some((offset, _)) => Some(offset),
        None => (line.chars().count() == chars).then_some(line.len()),
    };
    let from = offset(first)?;
    let to = offset(first.checked_add(usize::try_from(at.length).ok()?)?)?;
    Some((start + from, line.get(from..to)?))
}

/// A number or a boolean without tag, anchor or quotes.
fn is_plain_scalar(text: &str) -> bool {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || matches!(one, '.' | '-' | '+' | '_');
    let is_scalar = || match values(text).as_deref() {
        Some([value]) => value.is_number() || value.is_boolean(),
        _ => false,
    };
    !text.is_empty() && text.chars().all(is_plain) && is_scalar()
}

/// A text that YAML reads as the same text without quotes.
fn is_word(text: &str) -> bool {
    let is_inner = |one: char| one.is_ascii_alphanumeric() || matches!(one, '.' | '/' | '-' | '_');
    let starts_well = text.starts_with(|one: char| one.is_ascii_alphabetic());
    let is_text = || matches!(values(text).as_deref(), Some([Value::String(read)]) if read == text);
    starts_well && text.chars().all(is_inner) && is_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, column: u32, length: u32, kind: FixKind) -> TextFix {
        TextFix { at: Span { line, column, length }, kind }
    }

    fn fix(text: &str, fixes: &[TextFix]) -> Option<String> {
        fixed_text(text.as_bytes(), &fixes.iter().collect::<Vec<_>>()).map(|fixed| fixed.text)
    }

    fn rename(name: &str) -> FixKind {
        FixKind::RenameKey(name.to_owned())
    }

    #[test]
    fn only_the_characters_of_the_fix_change() {
        let text = "# Höhe\r\ndata:   # kept\r\n  port:  8080   # why\r\n  on: yes\r\n";
        let quoted = fix(text, &[at(3, 10, 4, FixKind::Quote), at(3, 10, 4, FixKind::Quote)]);
        assert_eq!(quoted.unwrap(), text.replace("8080", "\"8080\""));
        let flow = "{\"data\": {\"höhe\": 1, \"port\": 8080}}";
        let quoted = fix(flow, &[at(1, 30, 4, FixKind::Quote)]);
        assert_eq!(quoted.unwrap(), flow.replace("8080", "\"8080\""));
        let renamed = fix("spec:\n  replica: 3\n", &[at(2, 3, 7, rename("replicas"))]);
        assert_eq!(renamed.unwrap(), "spec:\n  replicas: 3\n");
        let renamed = fix("{\"spec\": {'replica': 3}}", &[at(1, 11, 9, rename("replicas"))]);
        assert_eq!(renamed.unwrap(), "{\"spec\": {'replicas': 3}}");
        let bom = fix("\u{feff}a: 1\n", &[at(1, 4, 1, FixKind::Quote)]);
        assert_eq!(bom.unwrap(), "\u{feff}a: \"1\"\n");
    }

    #[test]
    fn field_is_added_in_the_layout_of_its_mapping() {
        let add = || FixKind::AddField("type".to_owned(), "A/b".to_owned());
        for (text, place, expected) in [
            ("a:\n  - b: 1\n    c: 2\n", (2, 5), "a:\n  - type: A/b\n    b: 1\n    c: 2\n"),
            ("a:\n  b: 1\n", (2, 3), "a:\n  type: A/b\n  b: 1\n"),
            ("a: {b: 1}\n", (1, 4), "a: {\"type\": \"A/b\", b: 1}\n"),
            ("a: {b: 1}\n", (1, 5), "a: {\"type\": \"A/b\", b: 1}\n"),
        ] {
            assert_eq!(fix(text, &[at(place.0, place.1, 1, add())]).as_deref(), Some(expected));
        }
    }

    #[test]
    fn fix_that_would_change_more_is_left_out() {
        for (text, fixes) in [
            // The anchor is used elsewhere.
            ("a: &x 1\nb: *x\n", vec![at(1, 7, 1, FixKind::Quote)]),
            ("a: &x 1\nb: *x\n", vec![at(2, 4, 2, FixKind::Quote)]),
            // The name is taken.
            ("replica: 1\nreplicas: 2\n", vec![at(1, 1, 7, rename("replicas"))]),
            // Not what the fix expects.
            ("a: \"1\"\n", vec![at(1, 4, 3, FixKind::Quote)]),
            ("a: !!int 1\n", vec![at(1, 4, 7, FixKind::Quote)]),
            ("a: text\n", vec![at(1, 4, 4, FixKind::Quote)]),
            ("a: 1\n", vec![at(7, 1, 1, FixKind::Quote), at(1, 40, 1, FixKind::Quote)]),
            ("a: 1\n", vec![at(0, 0, 0, FixKind::Quote), at(1, 1, 1, rename("no"))]),
            ("a: [\n", vec![at(1, 1, 1, rename("b"))]),
        ] {
            assert_eq!(fix(text, &fixes), None, "{text:?}");
        }
        let text = "a: &x 1\nb: *x\nc: 2\n";
        let both = [at(1, 7, 1, FixKind::Quote), at(3, 4, 1, FixKind::Quote)];
        assert_eq!(fix(text, &both).unwrap(), "a: &x 1\nb: *x\nc: \"2\"\n");
        assert_eq!(fixed_text(b"\xff", &[]), None);
    }
}
