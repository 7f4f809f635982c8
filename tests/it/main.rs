//! All integration tests in one binary: linking is what costs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]

mod catalogue;
mod memory;
mod rendering;
mod report;
mod review;
mod schemas;
mod tidy;
mod yaml_oracle;
