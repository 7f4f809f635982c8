//! Any text as a CEL expression: no panic, no deep recursion, and a place that is in the text.
#![no_main]

use gitwork::core::cel;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = cel::check(text, &["object"]) {
        assert!(error.line >= 1 && error.column >= 1, "{error}");
        assert!(!error.to_string().is_empty());
    }
});
