//! Random numbers that must differ between processes: generations, seeds, jitter.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Returns 64 random bits. They come from the keys that the standard library draws from the system for its
/// hash maps. They are good enough to distinguish two lives of a process, but not for secrets.
pub(crate) fn draw() -> u64 {
    RandomState::new().build_hasher().finish()
}
