//! See `checks/approvals.rs`.
#![no_main]

#[path = "../checks/approvals.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
