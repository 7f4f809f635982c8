//! The promises that hold for any input, by target. The fuzzer and `cargo test` use the same
//! functions; `cargo test` runs the committed seeds through them. Each returns whether the input
//! got past the parser, so that a test can find useless seeds.

use crate::memory_repository;

mod admission;
mod approvals;
mod cel;
mod commit;
mod digest;
mod facts;
mod forge;
mod ignore;
mod jq;
mod jsonpath;
mod layout;
mod names;
mod observed;
mod record;
mod sidecars;
mod signatures;
mod tenancy;
mod tree;
mod webhook;
mod windows;
mod yaml;

/// Checks an input. Returns whether it is valid input of the target.
pub type Check = fn(&[u8]) -> bool;

/// Every target by its name.
pub const ALL: &[(&str, Check)] = &[
    ("admission", admission::check),
    ("approvals", approvals::check),
    ("cel", cel::check),
    ("commit", commit::check),
    ("digest", digest::check),
    ("facts", facts::check),
    ("forge", forge::check),
    ("ignore", ignore::check),
    ("jq", jq::check),
    ("jsonpath", jsonpath::check),
    ("layout", layout::check),
    ("names", names::check),
    ("observed", observed::check),
    ("record", record::check),
    ("sidecars", sidecars::check),
    ("signatures", signatures::check),
    ("tenancy", tenancy::check),
    ("tree", tree::check),
    ("webhook", webhook::check),
    ("windows", windows::check),
    ("yaml", yaml::check),
];
