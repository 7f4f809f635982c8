//! The shortest edit from one list to another, and from one text to another.

use std::collections::HashMap;
use std::hash::Hash;

use similar::{Algorithm, DiffOp, DiffTag};

use crate::limits;
use crate::text::style::count;
use crate::text::truncate::truncate_bytes;

/// The edits from one list to another. Past `limits::DIFF_ITEMS_MAX` items that differ all of them
/// count as replaced: the cost of finding the shortest edit grows with the square.
pub(super) fn operations<T: Hash + Eq>(before: &[T], after: &[T]) -> Vec<DiffOp> {
    let mut numbers: HashMap<&T, u32> = HashMap::new();
    let mut number = |item| {
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        *numbers.entry(item).or_insert(next)
    };
    let old: Vec<u32> = before.iter().map(&mut number).collect();
    let new: Vec<u32> = after.iter().map(&mut number).collect();
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old, new) = (old.get(head..).unwrap_or_default(), new.get(head..).unwrap_or_default());
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_len, new_len) = (old.len() - tail, new.len() - tail);
    let old = old.get(..old_len).unwrap_or_default();
    let new = new.get(..new_len).unwrap_or_default();
    let mut operations = Vec::new();
    if head > 0 {
        operations.push(DiffOp::Equal { old_index: 0, new_index: 0, len: head });
    }
    if old_len + new_len > limits::DIFF_ITEMS_MAX {
        operations.push(DiffOp::Replace { old_index: head, old_len, new_index: head, new_len });
    } else {
        let middle = similar::capture_diff_slices(Algorithm::Myers, old, new);
        operations.extend(middle.into_iter().map(|op| shifted(&op, head)));
    }
    if tail > 0 {
        let (old_index, new_index) = (head + old_len, head + new_len);
        operations.push(DiffOp::Equal { old_index, new_index, len: tail });
    }
    operations
}

/// The operation, with its indices moved by `by`.
fn shifted(op: &DiffOp, by: usize) -> DiffOp {
    let (old, new) = (op.old_range(), op.new_range());
    let (old_index, new_index) = (old.start + by, new.start + by);
    let (old_len, new_len) = (old.len(), new.len());
    match op.tag() {
        DiffTag::Equal => DiffOp::Equal { old_index, new_index, len: old_len },
        DiffTag::Delete => DiffOp::Delete { old_index, old_len, new_index },
        DiffTag::Insert => DiffOp::Insert { old_index, new_index, new_len },
        DiffTag::Replace => DiffOp::Replace { old_index, old_len, new_index, new_len },
    }
}

/// Unchanged lines around a changed one.
const CONTEXT_LINES: usize = 2;

/// The lines of a unified diff, at most `limits::DIFF_LINES_MAX` of them and a last one that says
/// what is left.
pub fn unified(before: &str, after: &str) -> Vec<String> {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let mut lines = Lines::default();
    for group in similar::group_diff_ops(operations(&old, &new), CONTEXT_LINES) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let header = |start: usize, end: usize| format!("{},{}", start + 1, end - start);
        lines.push(format!(
            "@@ -{} +{} @@",
            header(first.old_range().start, last.old_range().end),
            header(first.new_range().start, last.new_range().end)
        ));
        for op in &group {
            if op.tag() == DiffTag::Equal {
                lines.all(' ', old.get(op.old_range()));
            } else {
                lines.all('-', old.get(op.old_range()));
                lines.all('+', new.get(op.new_range()));
            }
        }
    }
    lines.finish()
}

#[derive(Default)]
struct Lines {
    kept: Vec<String>,
    left_out: usize,
}

impl Lines {
    fn push(&mut self, line: String) {
        if self.kept.len() < limits::DIFF_LINES_MAX {
            self.kept.push(line);
        } else {
            self.left_out += 1;
        }
    }
    fn all(&mut self, sign: char, lines: Option<&[&str]>) {
        for line in lines.into_iter().flatten() {
            let text = line.strip_suffix('\n').unwrap_or(line);
            let text = truncate_bytes(text, limits::DIFF_VALUE_BYTES_MAX);
            let end = if line.ends_with('\n') { "" } else { " (no line break at the end)" };
            self.push(format!("{sign}{text}{end}"));
        }
    }
    fn finish(mut self) -> Vec<String> {
        if self.left_out > 0 {
            self.kept.push(format!("... and {} more", count(self.left_out, "line")));
        }
        self.kept
    }
}
