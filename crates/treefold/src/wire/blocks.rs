//! Reuses the memory of large payloads.
//!
//! A large payload lives for milliseconds, and another payload of similar size usually follows. A freed block
//! is therefore kept for the next payload. The system need not find and clear the pages again. The payload
//! also need not move as it grows, because an existing block may have the full announced size even if the
//! peer never sends that many bytes.

use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Smaller blocks are left to the allocator.
const BLOCK_BYTES_LEAST: usize = 256 << 10;
/// Upper bound on the free blocks of one node or one client, together. The oldest blocks are dropped first.
const FREE_BYTES_MAX: usize = 64 << 20;
/// A block is used only for a payload of at least 1/`FIT` of its capacity.
const FIT: usize = 2;

/// The free blocks that all connections of one node share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks(Arc<Mutex<Free>>);

#[derive(Debug, Default)]
struct Free {
    blocks: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Blocks {
    /// Takes an empty block with room for `bytes`, if a free block fits.
    pub(crate) fn take(&self, bytes: usize) -> Option<Vec<u8>> {
        if bytes < BLOCK_BYTES_LEAST {
            return None;
        }
        let mut free = self.free();
        let fits = |block: &Vec<u8>| (bytes..=bytes.saturating_mul(FIT)).contains(&block.capacity());
        // The block freed last: more of it is still in the processor's caches.
        let at = free.blocks.iter().rposition(fits)?;
        let block = free.blocks.remove(at)?;
        free.bytes -= block.capacity();
        Some(block)
    }

    /// Wraps `block` as a payload. Its memory returns here when the last reference is dropped.
    pub(crate) fn lend(&self, block: Vec<u8>) -> Bytes {
        if block.capacity() < BLOCK_BYTES_LEAST {
            return block.into();
        }
        Bytes::from_owner(Lent { block, home: self.clone() })
    }

    fn put(&self, mut block: Vec<u8>) {
        if block.capacity() > FREE_BYTES_MAX {
            return;
        }
        block.clear();
        let mut free = self.free();
        free.bytes += block.capacity();
        free.blocks.push_back(block);
        while free.bytes > FREE_BYTES_MAX
            && let Some(oldest) = free.blocks.pop_front()
        {
            free.bytes -= oldest.capacity();
        }
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Free> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A payload whose memory comes from a [`Blocks`].
struct Lent {
    block: Vec<u8>,
    home: Blocks,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.block
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.home.put(std::mem::take(&mut self.block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn memory_returns_when_the_last_reference_is_dropped() {
        let blocks = Blocks::default();
        let payload = blocks.lend(vec![7; MIB]);
        let (part, place) = (payload.slice(10..20), payload.as_ptr());
        drop(payload);
        assert_eq!(blocks.take(MIB), None, "a slice of the payload is still in use");
        drop(part);
        let again = blocks.take(MIB).expect("the block is free");
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        assert_eq!(blocks.take(MIB), None, "only one block was free");
    }

    #[test]
    fn a_block_is_reused_only_for_payloads_that_fit() {
        let blocks = Blocks::default();
        drop(blocks.lend(Vec::with_capacity(4 * MIB)));
        assert_eq!(blocks.take(4 * MIB + 1), None, "the block is too small");
        assert_eq!(blocks.take(2 * MIB - 1), None, "more than half of the block would be unused");
        assert!(blocks.take(2 * MIB).is_some());
    }

    #[test]
    fn free_blocks_are_bounded_and_the_oldest_is_dropped() {
        let blocks = Blocks::default();
        let sizes: Vec<usize> = (0..40).map(|at| 4 * MIB + at).collect();
        sizes.iter().for_each(|&size| drop(blocks.lend(Vec::with_capacity(size))));
        let kept: Vec<usize> = blocks.free().blocks.iter().map(Vec::capacity).collect();
        assert_eq!(kept, sizes[25..], "fifteen blocks fit");
        assert_eq!(blocks.free().bytes, kept.iter().sum::<usize>());
        drop(blocks.lend(Vec::with_capacity(FREE_BYTES_MAX + 1)));
        assert_eq!(blocks.free().blocks.len(), 15, "a block above the limit evicts no other block");
    }
}
