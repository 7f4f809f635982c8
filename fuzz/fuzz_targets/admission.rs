//! See `checks/admission.rs`.
#![no_main]

#[path = "../checks/admission.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
