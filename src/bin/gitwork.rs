//! The `gitwork` command: parses its arguments and runs the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    gitwork::heap::share();
    gitwork::cli::main(std::env::args_os())
}
