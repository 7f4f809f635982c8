//! How the C library shares memory between threads, and gives it back.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

/// Has all threads take their memory from so many arenas. To be called before the first thread is
/// started; with another C library than glibc it does nothing.
pub fn share(arenas: i32) {
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _unused = arenas;
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "there is no safe way to set this")]
    // SAFETY: mallopt takes two numbers and touches the allocator's own parameters; no other thread
    // runs yet. Where it refuses the number, the allocator goes on as it would have.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, arenas);
    }
}

/// Has the kernel give this process pages of the usual size, although mimalloc asks for huge ones.
/// A daemon with 1,000 works takes 37 MiB with these, and 60 MiB with huge ones, in the same time.
/// With another system than Linux it does nothing.
pub fn use_small_pages() {
    #[cfg(target_os = "linux")]
    #[expect(unsafe_code, reason = "there is no safe way to set this")]
    // SAFETY: prctl takes numbers here, and sets a flag of the process (PR_SET_THP_DISABLE of
    // prctl(2)). Where the kernel refuses it, pages are as they would have been.
    unsafe {
        libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
    }
}

/// Gives the pages that nothing is in back to the system, every so often, for ever. What a commit
/// needs while it is read and planned leaves holes all over the heap, which glibc by itself keeps.
pub async fn give_back(every: Duration) {
    let mut beat = interval(every);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        trim();
    }
}

/// Gives the pages that nothing is in back to the system. It takes some milliseconds for a heap of
/// a hundred megabytes. With another C library than glibc it does nothing.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "there is no safe way to ask for this")]
    // SAFETY: malloc_trim takes a number and looks only at the allocator's own state, under its
    // locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod tests {
    use std::process::Command;

    /// Set in the process that measures.
    const MEASURES: &str = "GITWORK_TEST_MEASURES_HEAP";

    /// The resident memory of this process, in MiB (`proc_pid_statm(5)`).
    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4 / 1_024
    }

    /// Other tests allocate in this process at the same time, so a process of its own measures.
    #[test]
    fn trim_returns_free_pages_between_used_blocks() {
        if std::env::var_os(MEASURES).is_some() {
            return measure();
        }
        let (_, module) = module_path!().split_once("::").unwrap();
        let test = format!("{module}::trim_returns_free_pages_between_used_blocks");
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--exact", &test]).env(MEASURES, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    fn measure() {
        let before = resident();
        // Too small for mappings of their own, and one in a hundred stays.
        let mut blocks: Vec<Vec<u8>> = (0..4_000).map(|_| vec![1; 64 * 1_024]).collect();
        let full = resident();
        let mut number = 0;
        blocks.retain(|_| {
            number += 1;
            number % 100 == 0
        });
        super::trim();
        let after = resident();
        assert!(full >= before + 200 && after <= before + 100, "{before}, {full}, {after} MiB");
        assert_eq!(blocks.len(), 40);
    }
}
