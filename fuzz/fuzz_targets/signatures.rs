//! See `checks/signatures.rs`.
#![no_main]

#[path = "../checks/signatures.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
