//! The host's pointers as slices: what a guest's exports are made of.
//!
//! The host calls one function at a time, and a guest has one thread (hosts refuse modules with threads). It asks
//! [`alloc`] for room, fills it, and calls; what it is given back it copies before it calls again. So there is one
//! buffer for all that comes in, and one for all that goes out.
//!
//! Every function here is meant for the exports that the macros write, and for nobody else.
#![allow(unsafe_code)]

use crate::error::Result;
use crate::filter::{Descent, Filter, Packets, Piece, Source, Wave};
use crate::packed;
use crate::reduce::Reduce;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::UnsafeCell;

/// What stays in the guest's memory from call to call.
pub struct Held<T>(UnsafeCell<T>);

// SAFETY: a guest has one thread, so nothing is ever shared between two.
unsafe impl<T> Sync for Held<T> {}

impl<T> Held<T> {
    /// A place that holds `value`.
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// # Safety
    /// Nobody else has a reference to what is in here until the one given out is dropped.
    #[expect(clippy::mut_from_ref, reason = "the caller promises that there is no other")]
    pub(crate) unsafe fn borrow(&self) -> &mut T {
        // SAFETY: as promised by the caller.
        unsafe { &mut *self.0.get() }
    }
}

/// What comes in; in words of 8 bytes, so that its address is a multiple of 8.
static INPUT: Held<Vec<u64>> = Held::new(Vec::new());
/// The partial that goes out.
static PARTIAL: Held<Vec<u8>> = Held::new(Vec::new());
/// The packets that go out, and where each is.
static PACKETS: Held<(Packets, Vec<Span>)> = Held::new((Packets::new(), Vec::new()));
/// An error's text, or a panic's.
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
/// Between the host's calls only: what was given out before is gone.
pub unsafe fn alloc(bytes: u32) -> u32 {
    say_panics();
    // SAFETY: all borrows of an earlier call ended with it.
    let input = unsafe { INPUT.borrow() };
    let words = (bytes as usize).div_ceil(8);
    if input.capacity() < words {
        // the old room goes first, so that both need not fit
        *input = Vec::new();
        if input.try_reserve(words).is_err() {
            return 0;
        }
    }
    input.as_mut_ptr().expose_provenance() as u32
}

/// # Safety
/// `count` values of type `T`, written by the host into [`alloc`]'s room, which stays as it is for the lifetime.
unsafe fn given<'a, T>(address: u32, count: u32) -> &'a [T] {
    if count == 0 {
        return &[]; // of which any address may have been given
    }
    // SAFETY: the room is there, aligned to 8, and the host has written to it; none of the `T` used here has an
    // invalid bit pattern.
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
    // SAFETY: nobody keeps this borrow, and no other is alive.
    let text = unsafe { TEXT.borrow() };
    *text = error.to_string();
    packed::error(address_of(text.as_bytes()), text.len())
}

/// # Safety
/// The three slices are in [`alloc`]'s room, as the host says.
pub unsafe fn reduce<R: Reduce>(a: [u32; 2], b: [u32; 2], params: [u32; 2]) -> u64 {
    // SAFETY: promised by the caller; the output's last borrow ended with the last call.
    let (a, b, params, out) =
        unsafe { (given(a[0], a[1]), given(b[0], b[1]), given(params[0], params[1]), PARTIAL.borrow()) };
    out.clear();
    match R::reduce(a, b, params, out) {
        Ok(()) => packed::outcome(address_of(out), out.len()),
        Err(error) => failed(&error),
    }
}

/// # Safety
/// The slice is in [`alloc`]'s room, as the host says.
pub unsafe fn open<F: Filter>(filter: &Held<Option<F>>, params: [u32; 2]) -> u64 {
    // SAFETY: promised by the caller; the filter's last borrow ended with the last call.
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
/// The pieces and what they point to are in [`alloc`]'s room, as the host says.
pub unsafe fn up<F: Filter>(filter: &Held<Option<F>>, pieces: [u32; 2], tag: u64, now_ns: u64) -> u64 {
    // SAFETY: promised by the caller.
    let raw: &[RawPiece] = unsafe { given(pieces[0], pieces[1]) };
    let pieces: Vec<Piece<'_>> = raw
        .iter()
        .map(|piece| Piece {
            source: source(piece.kind, piece.number),
            // SAFETY: promised by the caller.
            payload: unsafe { given(piece.address, piece.bytes) },
        })
        .collect();
    let wave = Wave { tag, pieces: &pieces, now_ns };
    packets(filter, |filter, out| filter.up(wave, out))
}

/// # Safety
/// The slice is in [`alloc`]'s room, as the host says.
pub unsafe fn down<F: Filter>(filter: &Held<Option<F>>, payload: [u32; 2], tag: u64, now_ns: u64) -> u64 {
    // SAFETY: promised by the caller.
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
/// Between the host's calls only.
pub unsafe fn holds_from<F: Filter>(filter: &Held<Option<F>>) -> u64 {
    // SAFETY: the filter's last borrow ended with the last call.
    let filter = unsafe { filter.borrow() };
    filter.as_ref().and_then(Filter::holds_from).unwrap_or(u64::MAX)
}

/// # Safety
/// Between the host's calls only.
pub unsafe fn joined<F: Filter>(filter: &Held<Option<F>>, who: [u32; 2]) {
    // SAFETY: the filter's last borrow ended with the last call.
    if let Some(filter) = unsafe { filter.borrow() } {
        filter.joined(source(who[0], who[1]));
    }
}

/// # Safety
/// The heirs are in [`alloc`]'s room, as the host says.
pub unsafe fn replaced<F: Filter>(filter: &Held<Option<F>>, lost: [u32; 2], heirs: [u32; 2]) {
    // SAFETY: promised by the caller; the filter's last borrow ended with the last call.
    let (raw, filter): (&[RawSource], _) = unsafe { (given(heirs[0], heirs[1]), filter.borrow()) };
    let heirs: Vec<Source> = raw.iter().map(|heir| source(heir.kind, heir.number)).collect();
    if let Some(filter) = filter {
        filter.replaced(source(lost[0], lost[1]), &heirs);
    }
}

/// # Safety
/// Between the host's calls only; here also after a call that trapped.
pub unsafe fn trap_text() -> u64 {
    // SAFETY: nobody reads or writes the text while the host asks for it.
    let text = unsafe { TEXT.borrow() };
    packed::outcome(address_of(text.as_bytes()), text.len())
}

/// From now on a panic leaves its text where the host finds it.
fn say_panics() {
    #[cfg(feature = "std")]
    {
        static SAID: Held<bool> = Held::new(false);
        // SAFETY: nobody keeps this borrow.
        if !core::mem::replace(unsafe { SAID.borrow() }, true) {
            std::panic::set_hook(alloc::boxed::Box::new(|panic| {
                // SAFETY: a panic ends the guest's call, so nobody goes on using a borrow that there may be.
                let text = unsafe { TEXT.borrow() };
                *text = alloc::string::ToString::to_string(panic).replace('\n', " ");
            }));
        }
    }
}
