//! See `checks/jq.rs`.
#![no_main]

#[path = "../checks/jq.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
