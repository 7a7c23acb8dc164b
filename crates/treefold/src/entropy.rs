//! Random numbers for what must differ from process to process: generations, seeds, jitter.

use std::hash::{BuildHasher, Hasher, RandomState};

/// 64 random bits. They come from the keys the standard library draws from the system for its hash maps: good
/// enough to tell two lives of a process apart, not good enough for secrets.
pub(crate) fn draw() -> u64 {
    RandomState::new().build_hasher().finish()
}
