//! See `checks/record.rs`.
#![no_main]

#[path = "../checks/record.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
