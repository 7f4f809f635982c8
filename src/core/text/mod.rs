//! Text in and out: YAML files and fixes of them, tables, diffs, diagnostics, SARIF.

pub mod diagnostics;
pub mod diff;
pub mod escape;
pub mod fix;
pub mod percent;
pub mod sarif;
pub mod style;
pub mod table;
pub mod truncate;
pub mod yaml;

pub use gitwork_schemas::{certain, closest};
