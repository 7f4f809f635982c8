//! The `gitwork` command: parses its arguments and runs the library.

use std::process::ExitCode;

use libmimalloc_sys::{mi_option_set, mi_option_t, mi_option_use_numa_nodes};
use mimalloc::MiMalloc;

/// Reading YAML takes many small pieces of memory on all cores: with the allocator of glibc,
/// `validate` takes half as long again. libgit2 keeps that one.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Milliseconds until the system gets free memory back. It stands before `use_numa_nodes` in
/// mimalloc's list.
const PURGE_DELAY: mi_option_t = mi_option_use_numa_nodes - 1;

fn main() -> ExitCode {
    give_memory_back_at_once();
    gitwork_runtime::heap::share(gitwork_runtime::limits::HEAP_ARENAS_MAX);
    gitwork::answer_shell();
    gitwork::main(std::env::args_os())
}

/// With the delay of a second that is the default, threads that have ended keep what they freed: a
/// daemon with 10,000 works had 117 MiB, and now has 82 MiB.
fn give_memory_back_at_once() {
    #[expect(unsafe_code, reason = "there is no safe way to set this")]
    // SAFETY: sets a number, and refuses an option that does not exist.
    unsafe {
        mi_option_set(PURGE_DELAY, 0);
    }
}
