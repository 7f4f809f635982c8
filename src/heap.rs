//! How the C library shares memory between threads.

/// Has all threads take their memory from `limits::HEAP_ARENAS_MAX` arenas. To be called before the first thread is
/// started; with another C library than glibc it does nothing.
pub fn share() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "there is no safe way to set this")]
    // SAFETY: mallopt takes two numbers and touches the allocator's own parameters; no other thread runs yet. Where
    // it refuses the number, the allocator goes on as it would have.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, crate::limits::HEAP_ARENAS_MAX);
    }
}
