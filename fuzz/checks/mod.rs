//! What must hold for any input, by target: the same functions for the fuzzer and for `cargo test`, which runs the
//! committed seeds through them. By their answers a test tells seeds that reach something from seeds that a parser throws
//! out at once.

use crate::memory;

mod approvals;
mod cel;
mod commit;
mod digest;
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

/// Takes an input, and answers whether it was taken for what the target is about.
pub type Check = fn(&[u8]) -> bool;

/// Every target by its name.
pub const ALL: &[(&str, Check)] = &[
    ("approvals", approvals::check),
    ("cel", cel::check),
    ("commit", commit::check),
    ("digest", digest::check),
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
