//! See `checks/webhook.rs`.
#![no_main]

#[path = "../checks/webhook.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
