//! The `gitwork` command: parses its arguments and runs the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    gitwork_runtime::heap::share(gitwork_runtime::limits::HEAP_ARENAS_MAX);
    gitwork::answer_shell();
    gitwork::main(std::env::args_os())
}
