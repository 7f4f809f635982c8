//! See `checks/observed.rs`.
#![no_main]

#[path = "../checks/observed.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
