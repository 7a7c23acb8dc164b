//! A guest's heap: first what its memory begins with, then what it grows by.
//!
//! A reduce lives for one invocation and seldom needs more than some pages. The standard library's heap on wasm32
//! asks for memory at its first allocation all the same, and that is a call of the operating system and page faults
//! where the rest costs next to nothing. A module's memory is whole pages of 64 KiB, so behind its data there is room;
//! this heap begins there.
//!
//! Blocks have sizes that are powers of two, and a freed one waits in the list of its size. No block is ever split or
//! joined: what one size has freed no other gets, and the bound on a guest's memory bounds that too. Whoever would
//! rather have another heap turns the feature `heap` off.
#![cfg_attr(target_arch = "wasm32", allow(unsafe_code))]

/// Bytes of the least block.
const LEAST_BYTES: usize = 16;
/// Sizes there are: from 16 bytes to 2 GiB.
const SIZES: usize = 28;
/// Every block begins at a multiple of its size, or of this.
const ALIGNMENT_MAX: usize = 64;

/// Which size serves `bytes` at a multiple of `alignment`; `None` when none does.
fn size(bytes: usize, alignment: usize) -> Option<usize> {
    let block = bytes.max(alignment).max(LEAST_BYTES).checked_next_power_of_two()?;
    let size = (block / LEAST_BYTES).trailing_zeros() as usize;
    (size < SIZES && alignment <= ALIGNMENT_MAX).then_some(size)
}

/// Bytes of a block of this size.
const fn block_bytes(size: usize) -> usize {
    LEAST_BYTES << size
}

#[cfg(target_arch = "wasm32")]
mod global {
    use super::{ALIGNMENT_MAX, SIZES, block_bytes, size};
    use crate::raw::Held;
    use core::alloc::{GlobalAlloc, Layout};
    use core::arch::wasm32::{memory_grow, memory_size};
    use core::ptr::{null_mut, with_exposed_provenance_mut};

    const PAGE_BYTES: usize = 64 << 10;
    /// What the memory grows by at least, so that many small blocks grow it seldom.
    const GROW_PAGES_MIN: usize = 4;

    unsafe extern "C" {
        /// The first byte behind the guest's data; the linker's.
        static __heap_base: u8;
    }

    /// The memory that no block has been made of yet, and the blocks that were freed, each beginning with the address
    /// of the next of its size.
    struct Free {
        start: usize,
        end: usize,
        blocks: [usize; SIZES],
    }

    struct Heap(Held<Free>);

    #[global_allocator]
    static HEAP: Heap = Heap(Held::new(Free { start: 0, end: 0, blocks: [0; SIZES] }));

    impl Free {
        /// The address of a block; 0 when there is no memory for it.
        fn take(&mut self, size: usize) -> usize {
            let freed = self.blocks[size];
            if freed != 0 {
                // SAFETY: a freed block holds the address of the next one, and nobody else uses it.
                self.blocks[size] = unsafe { *with_exposed_provenance_mut::<usize>(freed) };
                return freed;
            }
            let bytes = block_bytes(size);
            if self.end == 0 {
                (self.start, self.end) =
                    ((&raw const __heap_base).expose_provenance(), memory_size(0) * PAGE_BYTES);
            }
            let at = |start: usize| start.next_multiple_of(bytes.min(ALIGNMENT_MAX));
            if at(self.start).checked_add(bytes).is_none_or(|end| end > self.end) && !self.grow(bytes) {
                return 0;
            }
            let block = at(self.start);
            self.start = block + bytes;
            block
        }

        /// Makes room for `bytes` more, and for their alignment.
        fn grow(&mut self, bytes: usize) -> bool {
            let pages = (bytes + ALIGNMENT_MAX).div_ceil(PAGE_BYTES).max(GROW_PAGES_MIN);
            let before = memory_grow(0, pages);
            if before == usize::MAX {
                return false;
            }
            if before * PAGE_BYTES != self.end {
                // somebody else has grown it too: what lies between is theirs
                self.start = before * PAGE_BYTES;
            }
            self.end = (before + pages).saturating_mul(PAGE_BYTES);
            true
        }
    }

    // SAFETY: a block is given out once until it is freed; it has at least the bytes asked for, and begins at a
    // multiple of its size or of 64, which is no less than the alignment. A guest has one thread, and nothing in here
    // allocates, so there is never a second borrow.
    unsafe impl GlobalAlloc for Heap {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: see above.
            let free = unsafe { self.0.borrow() };
            match size(layout.size(), layout.align()).map(|size| free.take(size)) {
                None | Some(0) => null_mut(),
                Some(address) => with_exposed_provenance_mut(address),
            }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            // SAFETY: see above.
            let free = unsafe { self.0.borrow() };
            let size =
                size(layout.size(), layout.align()).expect("invariant: it was allocated with this layout");
            // SAFETY: the block has 16 bytes at least, and is nobody's from now on.
            unsafe { *block.cast::<usize>() = free.blocks[size] };
            free.blocks[size] = block.expose_provenance();
        }

        unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
            if size(bytes, layout.align()) == size(layout.size(), layout.align()) {
                return block;
            }
            // SAFETY: the caller promises that `bytes` with this alignment is a layout.
            let wanted = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
            // SAFETY: both blocks are ours, apart from each other, and have this many bytes at least.
            unsafe {
                let other = self.alloc(wanted);
                if !other.is_null() {
                    core::ptr::copy_nonoverlapping(block, other, bytes.min(layout.size()));
                    self.dealloc(block, layout);
                }
                other
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_as_large_and_as_aligned_as_was_asked_for() {
        for (bytes, alignment, expected) in [(0, 1, 16), (16, 8, 16), (17, 1, 32), (3, 64, 64), (65, 64, 128)]
        {
            assert_eq!(size(bytes, alignment).map(block_bytes), Some(expected));
        }
        assert_eq!(size(1 << 31, 8).map(block_bytes), Some(1 << 31));
    }

    #[test]
    fn what_no_block_can_be_is_refused() {
        assert_eq!(size((1 << 31) + 1, 8), None);
        assert_eq!(size(8, 128), None);
        assert_eq!(size(usize::MAX, 8), None);
    }
}
