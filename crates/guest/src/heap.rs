//! A guest's heap: it first uses the free part of the initial memory, then the memory that is added.
//!
//! A reduce lives for one invocation and seldom needs more than a few pages. Yet the standard library's heap
//! on wasm32 requests memory at its first allocation. That costs a system call and page faults, while the
//! rest of an invocation costs almost nothing. A module's memory consists of whole pages of 64 KiB, so there
//! is free space behind its data. This heap begins there.
//!
//! Blocks have sizes that are powers of two, and a freed block goes to the list of its size. Blocks are never
//! split or joined: memory that one size has freed is not used for another size. The limit on a guest's
//! memory also limits this waste. To use another heap, turn the feature `heap` off.
#![cfg_attr(target_arch = "wasm32", allow(unsafe_code))]

/// Bytes of the smallest block.
const LEAST_BYTES: usize = 16;
/// Number of sizes: from 16 bytes to 2 GiB.
const SIZES: usize = 28;
/// Every block begins at a multiple of its size or of this value, whichever is smaller.
const ALIGNMENT_MAX: usize = 64;

/// Returns the size class for `bytes` at a multiple of `alignment`, or `None` if there is none.
fn size(bytes: usize, alignment: usize) -> Option<usize> {
    let block = bytes.max(alignment).max(LEAST_BYTES).checked_next_power_of_two()?;
    let size = (block / LEAST_BYTES).trailing_zeros() as usize;
    (size < SIZES && alignment <= ALIGNMENT_MAX).then_some(size)
}

/// Bytes of a block of this size class.
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
    /// Least number of pages by which the memory grows, so that many small blocks grow it rarely.
    const GROW_PAGES_MIN: usize = 4;

    unsafe extern "C" {
        /// The first byte behind the guest's data, defined by the linker.
        static __heap_base: u8;
    }

    /// The memory not yet divided into blocks, and the freed blocks.
    ///
    /// A freed block begins with the address of the next one of its size.
    struct Free {
        start: usize,
        end: usize,
        blocks: [usize; SIZES],
    }

    struct Heap(Held<Free>);

    #[global_allocator]
    static HEAP: Heap = Heap(Held::new(Free { start: 0, end: 0, blocks: [0; SIZES] }));

    impl Free {
        /// Returns the address of a block; 0 if there is no memory for it.
        fn take(&mut self, size: usize) -> usize {
            let freed = self.blocks[size];
            if freed != 0 {
                // SAFETY: a freed block contains the address of the next one, and nothing else uses it.
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

        /// Grows the memory by at least `bytes` plus the space for their alignment.
        fn grow(&mut self, bytes: usize) -> bool {
            let pages = (bytes + ALIGNMENT_MAX).div_ceil(PAGE_BYTES).max(GROW_PAGES_MIN);
            let before = memory_grow(0, pages);
            if before == usize::MAX {
                return false;
            }
            if before * PAGE_BYTES != self.end {
                // Other code has grown the memory too, and the part in between belongs to it.
                self.start = before * PAGE_BYTES;
            }
            self.end = (before + pages).saturating_mul(PAGE_BYTES);
            true
        }
    }

    // SAFETY: a block is handed out once until it is freed. It has at least the requested bytes, and begins
    // at a multiple of its size or of 64, which is at least the alignment. A guest has one thread, and
    // nothing here allocates, so there is never a second borrow.
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
            let size = size(layout.size(), layout.align())
                .expect("invariant: the block was allocated with this layout");
            // SAFETY: the block has at least 16 bytes, and nothing uses it from now on.
            unsafe { *block.cast::<usize>() = free.blocks[size] };
            free.blocks[size] = block.expose_provenance();
        }

        unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
            if size(bytes, layout.align()) == size(layout.size(), layout.align()) {
                return block;
            }
            // SAFETY: the caller guarantees that `bytes` with this alignment is a layout.
            let wanted = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
            // SAFETY: both blocks belong to this heap, do not overlap, and have at least this many bytes.
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
    fn blocks_fit_the_requested_size_and_alignment() {
        for (bytes, alignment, expected) in [(0, 1, 16), (16, 8, 16), (17, 1, 32), (3, 64, 64), (65, 64, 128)]
        {
            assert_eq!(size(bytes, alignment).map(block_bytes), Some(expected));
        }
        assert_eq!(size(1 << 31, 8).map(block_bytes), Some(1 << 31));
    }

    #[test]
    fn impossible_blocks_are_refused() {
        assert_eq!(size((1 << 31) + 1, 8), None);
        assert_eq!(size(8, 128), None);
        assert_eq!(size(usize::MAX, 8), None);
    }
}
