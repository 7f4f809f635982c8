//! See `checks/names.rs`.
#![no_main]

#[path = "../checks/names.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
