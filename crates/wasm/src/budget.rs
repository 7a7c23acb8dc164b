//! What all guests of an engine may have together, and what they have.

use crate::limits::Limits;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The limits, and what of them is in use.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) limits: Limits,
    memory_bytes: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, memory_bytes: AtomicUsize::new(0) }
    }

    /// Takes bytes for a guest's memory; false when all guests together would have too many.
    pub(crate) fn take_memory(&self, bytes: usize) -> bool {
        let bytes_max = self.limits.guests_memory_bytes_max;
        let more = |held: usize| held.checked_add(bytes).filter(|&held| held <= bytes_max);
        self.memory_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Gives back what was taken.
    pub(crate) fn give_memory(&self, bytes: usize) {
        self.memory_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
