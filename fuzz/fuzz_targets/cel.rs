//! See `checks/cel.rs`.
#![no_main]

#[path = "../checks/cel.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
