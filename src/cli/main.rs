//! The `gitwork` command: parses its arguments and runs the library.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Reading YAML takes many small pieces of memory on all cores: with the allocator of glibc,
/// `validate` takes half as long again. libgit2 keeps that one.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    gitwork_runtime::heap::use_small_pages();
    gitwork_runtime::heap::share(gitwork_runtime::limits::HEAP_ARENAS_MAX);
    gitwork::answer_shell();
    gitwork::main(std::env::args_os())
}
