//! A real browser for the tests of the status page and for its pictures: Chromium without a window, driven over the
//! DevTools protocol through a pipe. And a page with a fleet that is made up.
#![allow(dead_code, reason = "each of the tests and the example uses a part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "what is for tests fails by panicking"
)]

mod chromium;
pub mod fleet;

pub use chromium::{Browser, Tab};
