//! See `checks/tree.rs`.
#![no_main]

#[path = "../checks/tree.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
