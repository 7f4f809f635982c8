//! A real browser for the tests and the pictures of the status page: headless Chromium, controlled
//! over the DevTools protocol through a pipe. And a page with an invented fleet.
#![allow(dead_code, reason = "each of the tests and the example uses a part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "what is for tests fails by panicking"
)]

mod chromium;
pub mod fleet;

#[allow(unused_imports, reason = "each of the tests and the example uses a part")]
pub use chromium::{Browser, Tab};
