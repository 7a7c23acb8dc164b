//! Keeps freed memory in the process.
//!
//! A large partial lives for milliseconds, and the next one of its size follows at once. The GNU C library
//! returns a large block to the kernel as soon as it is freed. For the next block, the kernel must find and
//! clear every page again. For vectors that are summed, this takes as long as the sum.

/// Lets this process keep freed memory for later use: up to `bytes_max` bytes at the end of its heap.
///
/// Blocks of up to 32 MiB are then taken from the heap. Returns false if there is no such setting; only the
/// GNU C library has it.
///
/// The setting concerns the whole process, so the library never changes it. `treefold node` keeps as much
/// as a node may hold anyway ([`Limits::held_bytes_max`](crate::Limits::held_bytes_max)). Call this
/// function with the same value, before the program starts other threads.
pub fn keep_freed(bytes_max: usize) -> bool {
    set(bytes_max)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn set(bytes_max: usize) -> bool {
    /// The largest threshold that the C library accepts. Larger blocks always come from the kernel.
    const BLOCK_BYTES_MAX: libc::c_int = 32 << 20;
    let bytes_max = libc::c_int::try_from(bytes_max).unwrap_or(libc::c_int::MAX);
    // SAFETY: mallopt sets two numbers that malloc uses from now on, and touches no memory that is in use.
    // A thread that allocates at the same time uses the old or the new numbers.
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

    /// Page faults of this thread so far that needed no I/O.
    fn faults() -> i64 {
        // SAFETY: `usage` is a valid structure that outlives the call.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
            usage.ru_minflt
        }
    }

    #[test]
    fn freed_memory_is_reused_without_page_faults() {
        assert!(super::keep_freed(64 << 20));
        let large = || drop(black_box(vec![1_u8; 8 << 20]));
        large();
        let before = faults();
        (0..10).for_each(|_| large());
        let found = faults() - before;
        assert!(found < 2_048, "{found} page faults while reusing a block of 2,048 pages ten times");
    }
}
