//! See `checks/commit.rs`.
#![no_main]

#[path = "../checks/commit.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
