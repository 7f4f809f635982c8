//! See `checks/ignore.rs`.
#![no_main]

#[path = "../checks/ignore.rs"]
mod check;
#[path = "../checks/jq.rs"]
#[allow(dead_code, reason = "only what it shares is used")]
mod jq;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
