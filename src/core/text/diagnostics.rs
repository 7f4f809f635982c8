//! Diagnostics as text with the source line and a caret, and as JSON.
//!
//! All text of the repository is escaped before it is printed.

mod blocks;
mod json_report;
mod print;
mod summary;
#[cfg(test)]
mod tests;

pub use blocks::{Block, blocks, most_severe};
pub use json_report::{entries, entries_schema, json, report_schema};
pub use print::{bounded_text, text, write_one};
pub use summary::DiagnosticSummary;
