//! Tests that a small body costs one allocation.
//!
//! A fold of two numbers runs thousands of times a second on the loop that also handles all other messages,
//! so its number of allocations is a guarantee.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use treefold_operators::codec::INLINE_BYTES_MAX;
use treefold_operators::filter::{Piece, Source, Wave, builtin};
use treefold_operators::packet::Row;
use treefold_operators::{Body, Packet, Raw};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every request is passed unchanged to the system's allocator. The counter is const-initialised and
// has no destructor, so counting never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of<T>(operation: impl FnOnce() -> T) -> usize {
    let before = ALLOCATIONS.get();
    let kept = operation();
    let after = ALLOCATIONS.get();
    drop(kept);
    after - before
}

#[derive(Serialize, Deserialize)]
struct Figures {
    sum: i64,
    partitions: u32,
    mean: f64,
}

#[test]
fn a_small_body_is_written_with_one_allocation_and_read_with_none() {
    let figures = Figures { sum: -5, partitions: 1000, mean: 0.5 };
    assert_eq!(allocations_of(|| 123_456i64.encode().unwrap()), 1);
    assert_eq!(allocations_of(|| figures.encode().unwrap()), 1);
    let bytes = figures.encode().unwrap();
    assert!(bytes.len() < INLINE_BYTES_MAX);
    assert_eq!(allocations_of(|| Figures::decode(&bytes).unwrap()), 0);
}

#[test]
fn raw_bytes_cost_no_allocation() {
    // The second handle of a buffer allocates its reference count, once. From then on, sharing is free.
    let payload = Bytes::from(vec![1; 4096]);
    let shared = payload.clone();
    assert_eq!(allocations_of(|| Raw::decode(&payload).unwrap().encode().unwrap()), 0);
    drop(shared);
}

#[test]
fn a_packet_of_scalars_is_made_with_one_allocation_and_read_with_none() {
    let make = || Row::new().i64(-5).f64(0.5).str("phase").packet();
    assert_eq!(allocations_of(make), 1);
    let payload = make().into_bytes();
    let shared = payload.clone();
    assert_eq!(allocations_of(|| Packet::read(&payload).unwrap().f64(1).unwrap()), 0);
    drop(shared);
}

#[test]
fn a_sum_of_many_pieces_costs_one_allocation() {
    for packet in [Row::new().i64(7).packet(), Row::new().f64s(&[0.5; 1000]).packet()] {
        let piece = |id| Piece { source: Source::Endpoint(id), payload: packet.bytes().clone() };
        let pieces: Vec<Piece> = (0..64).map(piece).collect();
        let mut filter = builtin("sum").unwrap().open(&Bytes::new()).unwrap();
        let mut out = Vec::with_capacity(1);
        let up = || filter.up(Wave { tag: 0, pieces: &pieces, now_ns: 0 }, &mut out).unwrap();
        assert_eq!(allocations_of(up), 1);
    }
}
