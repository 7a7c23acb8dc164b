//! The implementation of a guest's exports: turns the host's pointers into slices.
//!
//! The host calls one function at a time, and a guest has one thread (hosts refuse modules with threads). The
//! host calls [`alloc`] for a buffer, fills it, and calls the function. It copies the result before its next
//! call. So one buffer is enough for all input, and one for all output.
//!
//! Only the exports written by the macros may call these functions.
#![allow(unsafe_code)]

use crate::error::Result;
use crate::filter::{Descent, Filter, Packets, Piece, Source, Wave};
use crate::packed;
use crate::reduce::Reduce;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::UnsafeCell;

/// A value that stays in the guest's memory from call to call.
pub struct Held<T>(UnsafeCell<T>);

// SAFETY: a guest has one thread, so nothing is ever shared between threads.
unsafe impl<T> Sync for Held<T> {}

impl<T> Held<T> {
    /// Creates a place that holds `value`.
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// # Safety
    /// No other reference to the value may exist until the returned one is dropped.
    #[expect(clippy::mut_from_ref, reason = "the caller guarantees that there is no other")]
    pub(crate) unsafe fn borrow(&self) -> &mut T {
        // SAFETY: guaranteed by the caller.
        unsafe { &mut *self.0.get() }
    }
}

/// The input, in words of 8 bytes, so that its address is a multiple of 8.
static INPUT: Held<Vec<u64>> = Held::new(Vec::new());
/// The partial that is returned.
static PARTIAL: Held<Vec<u8>> = Held::new(Vec::new());
/// The packets that are returned, and the position of each.
static PACKETS: Held<(Packets, Vec<Span>)> = Held::new((Packets::new(), Vec::new()));
/// The text of an error or a panic.
static TEXT: Held<String> = Held::new(String::new());

/// A packet as the host reads it.
#[repr(C)]
struct Span {
    address: u32,
    bytes: u32,
}

/// A piece as the host writes it.
#[repr(C)]
struct RawPiece {
    kind: u32,
    number: u32,
    address: u32,
    bytes: u32,
}

/// A source as the host writes it.
#[repr(C)]
struct RawSource {
    kind: u32,
    number: u32,
}

/// # Safety
/// Only between the host's calls: all references returned by earlier calls are gone.
pub unsafe fn alloc(bytes: u32) -> u32 {
    say_panics();
    // SAFETY: all borrows of an earlier call ended with it.
    let input = unsafe { INPUT.borrow() };
    let words = (bytes as usize).div_ceil(8);
    if input.capacity() < words {
        // The old buffer is freed first, so that memory need not hold both.
        *input = Vec::new();
        if input.try_reserve(words).is_err() {
            return 0;
        }
    }
    input.as_mut_ptr().expose_provenance() as u32
}

/// # Safety
/// `count` values of type `T` that the host has written into the buffer of [`alloc`]. The buffer must not
/// change during the lifetime.
unsafe fn given<'a, T>(address: u32, count: u32) -> &'a [T] {
    if count == 0 {
        return &[]; // the address may be arbitrary then
    }
    // SAFETY: the buffer exists, is aligned to 8, and has been filled by the host. The types `T` used here
    // accept every bit pattern.
    unsafe {
        core::slice::from_raw_parts(core::ptr::with_exposed_provenance(address as usize), count as usize)
    }
}

fn address_of<T>(slice: &[T]) -> u32 {
    slice.as_ptr().expose_provenance() as u32
}

fn source(kind: u32, number: u32) -> Source {
    if kind == 0 { Source::Endpoint(number) } else { Source::Child(number) }
}

fn failed(error: &crate::Error) -> u64 {
    use alloc::string::ToString;
    // SAFETY: this borrow ends here, and no other is alive.
    let text = unsafe { TEXT.borrow() };
    *text = error.to_string();
    packed::error(address_of(text.as_bytes()), text.len())
}

/// # Safety
/// The three slices lie in the buffer of [`alloc`], at the positions given by the host.
pub unsafe fn reduce<R: Reduce>(a: [u32; 2], b: [u32; 2], params: [u32; 2]) -> u64 {
    // SAFETY: guaranteed by the caller. The last borrow of the output ended with the last call.
    let (a, b, params, out) =
        unsafe { (given(a[0], a[1]), given(b[0], b[1]), given(params[0], params[1]), PARTIAL.borrow()) };
    out.clear();
    match R::reduce(a, b, params, out) {
        Ok(()) => packed::outcome(address_of(out), out.len()),
        Err(error) => failed(&error),
    }
}

/// # Safety
/// The slice lies in the buffer of [`alloc`], at the position given by the host.
pub unsafe fn open<F: Filter>(filter: &Held<Option<F>>, params: [u32; 2]) -> u64 {
    // SAFETY: guaranteed by the caller. The last borrow of the filter ended with the last call.
    let (params, filter) = unsafe { (given(params[0], params[1]), filter.borrow()) };
    match F::open(params) {
        Ok(opened) => {
            *filter = Some(opened);
            packed::outcome(0, 0)
        }
        Err(error) => failed(&error),
    }
}

/// # Safety
/// The pieces and their payloads lie in the buffer of [`alloc`], at the positions given by the host.
pub unsafe fn up<F: Filter>(filter: &Held<Option<F>>, pieces: [u32; 2], tag: u64, now_ns: u64) -> u64 {
    // SAFETY: guaranteed by the caller.
    let raw: &[RawPiece] = unsafe { given(pieces[0], pieces[1]) };
    let pieces: Vec<Piece<'_>> = raw
        .iter()
        .map(|piece| Piece {
            source: source(piece.kind, piece.number),
            // SAFETY: guaranteed by the caller.
            payload: unsafe { given(piece.address, piece.bytes) },
        })
        .collect();
    let wave = Wave { tag, pieces: &pieces, now_ns };
    packets(filter, |filter, out| filter.up(wave, out))
}

/// # Safety
/// The slice lies in the buffer of [`alloc`], at the position given by the host.
pub unsafe fn down<F: Filter>(filter: &Held<Option<F>>, payload: [u32; 2], tag: u64, now_ns: u64) -> u64 {
    // SAFETY: guaranteed by the caller.
    let payload = unsafe { given(payload[0], payload[1]) };
    packets(filter, |filter, out| filter.down(Descent { tag, payload, now_ns }, out))
}

fn packets<F: Filter>(filter: &Held<Option<F>>, run: impl FnOnce(&mut F, &mut Packets) -> Result) -> u64 {
    // SAFETY: their last borrows ended with the last call.
    let (filter, (packets, spans)) = unsafe { (filter.borrow(), PACKETS.borrow()) };
    packets.clear();
    let filter = filter.as_mut().expect("invariant: a host opens a filter before it uses it");
    match run(filter, packets) {
        Ok(()) => {
            spans.clear();
            spans
                .extend(packets.iter().map(|one| Span { address: address_of(one), bytes: one.len() as u32 }));
            packed::outcome(address_of(spans), spans.len())
        }
        Err(error) => failed(&error),
    }
}

/// # Safety
/// Only between the host's calls.
pub unsafe fn holds_from<F: Filter>(filter: &Held<Option<F>>) -> u64 {
    // SAFETY: the last borrow of the filter ended with the last call.
    let filter = unsafe { filter.borrow() };
    filter.as_ref().and_then(Filter::holds_from).unwrap_or(u64::MAX)
}

/// # Safety
/// Only between the host's calls.
pub unsafe fn joined<F: Filter>(filter: &Held<Option<F>>, who: [u32; 2]) {
    // SAFETY: the last borrow of the filter ended with the last call.
    if let Some(filter) = unsafe { filter.borrow() } {
        filter.joined(source(who[0], who[1]));
    }
}

/// # Safety
/// The heirs lie in the buffer of [`alloc`], at the position given by the host.
pub unsafe fn replaced<F: Filter>(filter: &Held<Option<F>>, lost: [u32; 2], heirs: [u32; 2]) {
    // SAFETY: guaranteed by the caller. The last borrow of the filter ended with the last call.
    let (raw, filter): (&[RawSource], _) = unsafe { (given(heirs[0], heirs[1]), filter.borrow()) };
    let heirs: Vec<Source> = raw.iter().map(|heir| source(heir.kind, heir.number)).collect();
    if let Some(filter) = filter {
        filter.replaced(source(lost[0], lost[1]), &heirs);
    }
}

/// # Safety
/// Only between the host's calls; also allowed after a call that trapped.
pub unsafe fn trap_text() -> u64 {
    // SAFETY: the text is neither read nor written elsewhere while the host asks for it.
    let text = unsafe { TEXT.borrow() };
    packed::outcome(address_of(text.as_bytes()), text.len())
}

/// Installs a hook, so that a panic leaves its text where the host reads it.
fn say_panics() {
    #[cfg(feature = "std")]
    {
        static SAID: Held<bool> = Held::new(false);
        // SAFETY: this borrow ends here, and no other is alive.
        if !core::mem::replace(unsafe { SAID.borrow() }, true) {
            std::panic::set_hook(alloc::boxed::Box::new(|panic| {
                // SAFETY: a panic ends the guest's call, so no other borrow is used after it.
                let text = unsafe { TEXT.borrow() };
                *text = alloc::string::ToString::to_string(panic).replace('\n', " ");
            }));
        }
    }
}
