//! See `checks/tenancy.rs`.
#![no_main]

#[path = "../checks/tenancy.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
