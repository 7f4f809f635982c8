//! See `checks/layout.rs`.
#![no_main]

#[path = "../checks/layout.rs"]
mod check;
#[path = "../../tests/simulation/memory_repository.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod memory_repository;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
});
