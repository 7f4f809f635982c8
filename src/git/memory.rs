//! What libgit2 may keep in memory, in the whole process.

/// Bytes of objects that were read. A daemon reads each tree once: with libgit2's own bound of
/// 256 MiB, it would keep those of 100,000 work folders.
const CACHE_BYTES_MAX: isize = 4 * 1024 * 1024;
/// Bytes of a pack that are mapped at once.
const WINDOW_BYTES: usize = 1024 * 1024;
/// Bytes of all packs that are mapped. What is mapped counts as the process's memory once it was
/// read; libgit2 would keep all of each pack.
const MAPPED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bounds what libgit2 keeps. To be called before the process has a second thread.
pub fn bound() {
    #[expect(unsafe_code, reason = "git2 has no safe way to set this")]
    // SAFETY: each call sets a number of libgit2, and no other thread runs yet that could read it.
    // One without such an option goes on with more memory.
    let _set = unsafe {
        [
            git2::opts::set_cache_max_size(CACHE_BYTES_MAX),
            git2::opts::set_mwindow_size(WINDOW_BYTES),
            git2::opts::set_mwindow_mapped_limit(MAPPED_BYTES_MAX),
        ]
    };
}
