//! Tables for a terminal: columns apart by three blanks as kubectl's, cut to the width at hand.
//! Whatever a cell is given, it takes one line and commands no terminal.

use unicode_width::UnicodeWidthStr as _;

use super::escape::single_line;
use super::style::{ColorMode, TextStyle};
use super::truncate::truncate_columns;

/// Between two columns.
const GAP: usize = 3;

/// What a column is not cut below while another one can be.
const COLUMN_WIDTH_MIN: usize = 8;

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    text: String,
    paint: Option<TextStyle>,
}

impl Cell {
    /// A cell in the terminal's own style; line breaks and control characters are escaped.
    pub fn new(text: &str) -> Self {
        Self { text: single_line(text), paint: None }
    }
    /// A cell in a style of its own.
    pub fn styled(text: &str, paint: Option<TextStyle>) -> Self {
        Self { paint, ..Self::new(text) }
    }
}

/// A header and rows of as many cells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// The header first.
    rows: Vec<Vec<Cell>>,
    /// The widest cell of each column so far.
    widest: Vec<usize>,
}

impl Table {
    /// A table without rows but the header.
    pub fn new(header: &[&str]) -> Self {
        let header = header.iter().map(|name| Cell::styled(name, Some(TextStyle::Strong)));
        let mut table = Self::default();
        table.add(header.collect());
        table
    }

    /// Adds a row at the end.
    pub fn add(&mut self, row: Vec<Cell>) {
        self.widest.resize(self.widest.len().max(row.len()), 0);
        for (widest, cell) in self.widest.iter_mut().zip(&row) {
            *widest = cell.text.width().max(*widest);
        }
        self.rows.push(row);
    }

    /// The lines of the rows since the last call, as [`Self::lines`] has them. No column becomes
    /// narrower, so that a table can be printed while its rows come.
    pub fn take_lines(&mut self, width: Option<usize>, style: ColorMode) -> Vec<String> {
        let lines = self.lines(width, style);
        self.rows.clear();
        lines
    }

    /// The lines, none wider than `width` columns of the terminal where one is given.
    pub fn lines(&self, width: Option<usize>, style: ColorMode) -> Vec<String> {
        let widths = self.widths(width);
        let line = |row: &Vec<Cell>| {
            let mut line = String::new();
            let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or(0);
            for (index, (cell, width)) in row.iter().zip(&widths).enumerate().take(last + 1) {
                let text = truncate_columns(&cell.text, *width);
                let blanks = if index == last { 0 } else { width + GAP - text.width() };
                match cell.paint {
                    Some(paint) => line.push_str(&style.styled(paint, &text)),
                    None => line.push_str(&text),
                }
                line.push_str(&" ".repeat(blanks));
            }
            line
        };
        self.rows.iter().map(line).collect()
    }

    /// How wide each column is: as its widest cell, or less where the whole would be too wide. The
    /// last column gives way first, as it holds messages; then the widest.
    fn widths(&self, width: Option<usize>) -> Vec<usize> {
        let (columns, mut widths) = (self.widest.len(), self.widest.clone());
        let Some(width) = width else { return widths };
        let room = width.saturating_sub(GAP * columns.saturating_sub(1));
        if let Some(last) = widths.len().checked_sub(1) {
            shrink(&mut widths, last, room, COLUMN_WIDTH_MIN);
        }
        for least in [COLUMN_WIDTH_MIN, 1] {
            for _ in 0..columns {
                let widest = (0..columns).max_by_key(|index| widths.get(*index)).unwrap_or(0);
                shrink(&mut widths, widest, room, least);
            }
        }
        widths
    }
}

/// Takes from a column what is over `room`, down to `least`.
fn shrink(widths: &mut [usize], column: usize, room: usize, least: usize) {
    let over = widths.iter().sum::<usize>().saturating_sub(room);
    if let Some(width) = widths.get_mut(column) {
        *width -= over.min(width.saturating_sub(least));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["NAME", "STATE", "MESSAGE"]);
        table.add(vec![
            Cell::new("edge-1/web"),
            Cell::styled("failed", Some(TextStyle::Bad)),
            Cell::new("no such image, and more of that kind"),
        ]);
        table.add(vec![Cell::new("値"), Cell::new("applied"), Cell::new("")]);
        table
    }

    #[test]
    fn columns_stand_under_each_other_and_fit_the_width() {
        let lines = table().lines(None, ColorMode::Plain);
        assert_eq!(
            lines,
            [
                "NAME         STATE     MESSAGE",
                "edge-1/web   failed    no such image, and more of that kind",
                "値           applied",
            ]
        );
        for width in [120, 59, 40, 30, 20, 12] {
            let lines = table().lines(Some(width), ColorMode::Plain);
            assert!(lines.iter().all(|line| line.width() <= width), "{width}: {lines:?}");
        }
        let cut = table().lines(Some(40), ColorMode::Plain);
        assert_eq!(cut[1], "edge-1/web   failed    no such image, a…");
        let mut in_parts = table();
        let first = in_parts.take_lines(None, ColorMode::Plain);
        assert_eq!(first, table().lines(None, ColorMode::Plain));
        in_parts.add(vec![Cell::new("b"), Cell::new("progressing"), Cell::new("1/2")]);
        in_parts.add(vec![Cell::new("c"), Cell::new("applied"), Cell::new("2/2")]);
        let second = in_parts.take_lines(None, ColorMode::Plain);
        assert_eq!(second, ["b            progressing   1/2", "c            applied       2/2"]);
        assert!(in_parts.take_lines(None, ColorMode::Plain).is_empty());
        let coloured = table().lines(None, ColorMode::Colored);
        assert!(coloured[1].contains("\u{1b}[31mfailed\u{1b}[0m  "), "{:?}", coloured[1]);
    }
}
