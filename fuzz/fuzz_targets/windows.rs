//! See `checks/windows.rs`.
#![no_main]

#[path = "../checks/windows.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
