//! See `checks/sidecars.rs`.
#![no_main]

#[path = "../checks/sidecars.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
