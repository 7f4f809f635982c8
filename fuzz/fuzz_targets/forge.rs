//! See `checks/forge.rs`.
#![no_main]

#[path = "../checks/forge.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
