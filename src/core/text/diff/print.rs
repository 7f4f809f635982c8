//! Changes as lines of text.

use serde_json::Value;

use super::change::{ChangeKind, FieldChange, FieldDiff};
use super::secrets::HIDDEN;
use crate::text::escape::escape_untrusted;
use crate::text::style::{ColorMode, TextStyle, count};
use crate::text::truncate::truncate_bytes;

impl FieldDiff {
    /// One line for each field, each with `indent` before it; texts take several.
    pub fn write_text(&self, out: &mut String, indent: &str, style: ColorMode) {
        for change in &self.changes {
            for (paint, line) in change.lines() {
                let line = escape_untrusted(&line);
                let line = paint.map_or(line.clone(), |paint| style.styled(paint, &line));
                out.push_str(&format!("{indent}{line}\n"));
            }
        }
        if self.left_out > 0 {
            out.push_str(&format!("{indent}... and {} more\n", count(self.left_out, "field")));
        }
    }
}

impl FieldChange {
    /// As text, each line with its meaning.
    fn lines(&self) -> Vec<(Option<TextStyle>, String)> {
        let path = if self.path.is_empty() { "(the whole)" } else { &self.path };
        let one = |paint, text: String| vec![(paint, text)];
        match &self.change {
            ChangeKind::Added { after } => {
                one(Some(TextStyle::Good), format!("+ {path}: {}", brief(after)))
            }
            ChangeKind::Removed { before } => {
                one(Some(TextStyle::Bad), format!("- {path}: {}", brief(before)))
            }
            ChangeKind::Changed { before, after } => {
                one(None, format!("~ {path}: {} -> {}", brief(before), brief(after)))
            }
            ChangeKind::Reordered => one(None, format!("~ {path}: other order")),
            ChangeKind::SecretAdded => one(Some(TextStyle::Good), format!("+ {path}: {HIDDEN}")),
            ChangeKind::SecretRemoved => one(Some(TextStyle::Bad), format!("- {path}: {HIDDEN}")),
            ChangeKind::SecretChanged => one(None, format!("~ {path}: {HIDDEN} -> {HIDDEN}")),
            ChangeKind::Text { lines } => {
                let mut all = one(None, format!("~ {path}:"));
                all.extend(lines.iter().map(|line| {
                    let paint = match line.chars().next() {
                        Some('+') => Some(TextStyle::Good),
                        Some('-') => Some(TextStyle::Bad),
                        Some('@') => Some(TextStyle::Dim),
                        _ => None,
                    };
                    (paint, format!("    {line}"))
                }));
                all
            }
        }
    }
}

/// The longest value on one line of text, in bytes.
const BRIEF_BYTES_MAX: usize = 240;

/// A value on one line. Text stands in quotes where it would be read as something else.
fn brief(value: &Value) -> String {
    let text = match value {
        Value::String(text) if is_plain(text) => text.clone(),
        other => other.to_string(),
    };
    if text.len() <= BRIEF_BYTES_MAX {
        return text;
    }
    truncate_bytes(&text, BRIEF_BYTES_MAX).into_owned()
}

fn is_plain(text: &str) -> bool {
    text == HIDDEN
        || (text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:@".contains(c))
            && !matches!(text, "true" | "false" | "null"))
}
