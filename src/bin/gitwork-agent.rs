//! The `gitwork` command: parses its arguments and runs the library.

fn main() {}
