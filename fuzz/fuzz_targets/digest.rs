//! See `checks/digest.rs`.
#![no_main]

#[path = "../checks/digest.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
