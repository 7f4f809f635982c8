//! See `checks/yaml.rs`.
#![no_main]

#[path = "../checks/yaml.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
