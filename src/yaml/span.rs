//! Locations in a file.

use serde::Serialize;

/// A location in a file. Lines and columns count from 1; columns and lengths are in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Span {
    /// The line, from 1.
    pub line: u32,
    /// The first character in the line, from 1.
    pub column: u32,
    /// The number of characters, at least 1. All of them are in one line.
    pub length: u32,
}
