//! The limits on all guests of an engine together, and their current use.

use crate::limits::Limits;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The limits, and the memory in use.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) limits: Limits,
    memory_bytes: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, memory_bytes: AtomicUsize::new(0) }
    }

    /// Reserves bytes for a guest's memory. Returns false if all guests together would exceed their limit.
    pub(crate) fn take_memory(&self, bytes: usize) -> bool {
        let bytes_max = self.limits.guests_memory_bytes_max;
        let more = |held: usize| held.checked_add(bytes).filter(|&held| held <= bytes_max);
        self.memory_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Releases bytes reserved by [`take_memory`](Self::take_memory).
    pub(crate) fn give_memory(&self, bytes: usize) {
        self.memory_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
