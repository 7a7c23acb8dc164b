//! What becomes of memory that was freed.
//!
//! A large partial lives for milliseconds, and the next of its size comes right after it. The GNU C library gives a
//! large block back to the kernel as soon as it is free, and for the next one the kernel has to find and clear every
//! page anew: for vectors that are summed, that takes as long as the sum.

/// Lets this process keep freed memory for what comes next: up to `bytes_max` bytes at the end of its heap, and blocks of
/// up to 32 MiB are taken from there. False where there is no such setting: it is the GNU C library's.
///
/// It is the program's to decide, so the library never does. `treefold node` keeps as much as a node may hold anyway
/// ([`Limits::held_bytes_max`](crate::Limits::held_bytes_max)); call it with the same, before there are other threads.
pub fn keep_freed(bytes_max: usize) -> bool {
    set(bytes_max)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn set(bytes_max: usize) -> bool {
    /// The largest that the C library takes: larger blocks are the kernel's business always.
    const BLOCK_BYTES_MAX: libc::c_int = 32 << 20;
    let bytes_max = libc::c_int::try_from(bytes_max).unwrap_or(libc::c_int::MAX);
    // SAFETY: mallopt sets two numbers that malloc goes by from now on, and touches no memory that is in use; a thread
    // that allocates meanwhile goes by the old or the new ones.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, BLOCK_BYTES_MAX) == 1
            && libc::mallopt(libc::M_TRIM_THRESHOLD, bytes_max) == 1
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn set(_bytes_max: usize) -> bool {
    false
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use std::hint::black_box;

    /// Pages that the kernel had to find for this thread so far.
    fn faults() -> i64 {
        // SAFETY: `usage` is a valid structure that lives through the call.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
            usage.ru_minflt
        }
    }

    #[test]
    fn memory_that_was_freed_is_at_hand_again() {
        assert!(super::keep_freed(64 << 20));
        let large = || drop(black_box(vec![1_u8; 8 << 20]));
        large();
        let before = faults();
        (0..10).for_each(|_| large());
        let found = faults() - before;
        assert!(found < 2_048, "{found} pages were found anew for ten times 2,048");
    }
}
