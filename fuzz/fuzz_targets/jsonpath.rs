//! See `checks/jsonpath.rs`.
#![no_main]

#[path = "../checks/jsonpath.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
