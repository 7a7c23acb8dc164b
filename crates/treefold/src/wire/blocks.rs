//! Memory of large payloads, used again.
//!
//! A large payload lives for milliseconds, and the next of about its size comes right after it. Its memory is kept for
//! that one: the system need not find and clear the pages again, and the payload need not move as it grows, since a
//! block that is here already may be as large as was announced, whether the peer keeps its word or not.

use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Smaller blocks are the allocator's business.
const BLOCK_BYTES_LEAST: usize = 256 << 10;
/// Free blocks of one node, or of one client, take so many bytes together; the oldest go first.
const FREE_BYTES_MAX: usize = 64 << 20;
/// A block is not used for a payload of less than one part in so many of it.
const FIT: usize = 2;

/// The free blocks that the connections of one node have in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks(Arc<Mutex<Free>>);

#[derive(Debug, Default)]
struct Free {
    blocks: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Blocks {
    /// An empty block with room for so many bytes, if there is one that fits.
    pub(crate) fn take(&self, bytes: usize) -> Option<Vec<u8>> {
        if bytes < BLOCK_BYTES_LEAST {
            return None;
        }
        let mut free = self.free();
        let fits = |block: &Vec<u8>| (bytes..=bytes.saturating_mul(FIT)).contains(&block.capacity());
        // The one that was freed last, since more of it is in the processor's caches.
        let at = free.blocks.iter().rposition(fits)?;
        let block = free.blocks.remove(at)?;
        free.bytes -= block.capacity();
        Some(block)
    }

    /// These bytes, whose memory comes back here when nobody holds them any more.
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

/// A payload that has its memory from here.
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
    fn memory_comes_back_when_nobody_holds_the_payload() {
        let blocks = Blocks::default();
        let payload = blocks.lend(vec![7; MIB]);
        let (part, place) = (payload.slice(10..20), payload.as_ptr());
        drop(payload);
        assert_eq!(blocks.take(MIB), None, "a part of it is still held");
        drop(part);
        let again = blocks.take(MIB).expect("it is free");
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        assert_eq!(blocks.take(MIB), None, "there was one");
    }

    #[test]
    fn a_block_is_used_for_what_fits_it() {
        let blocks = Blocks::default();
        drop(blocks.lend(Vec::with_capacity(4 * MIB)));
        assert_eq!(blocks.take(4 * MIB + 1), None, "it is too small");
        assert_eq!(blocks.take(2 * MIB - 1), None, "most of it would lie idle");
        assert!(blocks.take(2 * MIB).is_some());
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_oldest_goes_first() {
        let blocks = Blocks::default();
        let sizes: Vec<usize> = (0..40).map(|at| 4 * MIB + at).collect();
        sizes.iter().for_each(|&size| drop(blocks.lend(Vec::with_capacity(size))));
        let kept: Vec<usize> = blocks.free().blocks.iter().map(Vec::capacity).collect();
        assert_eq!(kept, sizes[25..], "fifteen fit");
        assert_eq!(blocks.free().bytes, kept.iter().sum::<usize>());
        drop(blocks.lend(Vec::with_capacity(FREE_BYTES_MAX + 1)));
        assert_eq!(blocks.free().blocks.len(), 15, "what is too large pushes nobody out");
    }
}
