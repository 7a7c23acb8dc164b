//! Waves for C: four public fields, and functions for the packets and the endpoints.

use crate::boundary::{
    copy_out, given, guard, guard_silently, lent, place, taken_back, used_from_any_thread,
};
use crate::code::{Failure, Outcome, treefold_code, treefold_error};
use crate::hub::Taken;
use crate::packet::{self, treefold_packet};
use bytes::Bytes;
use std::ffi::{CString, c_char};
use treefold::{PartitionSet, StreamWave};

/// A wave that a front-end has received. It never changes, and lives until it is given to treefold_wave_free, even if its
/// stream is closed earlier. It may be read from any thread, and from several at a time. Only waves from
/// treefold_front_recv and treefold_recv_any are valid.
#[repr(C)]
pub struct treefold_wave {
    /// Its tag: that of the packet which the endpoints answered, or its number.
    pub tag: u64,
    /// The number of its packets: one if a filter folds them, else one for each endpoint.
    pub packets: usize,
    /// The number of endpoints whose packets are in the wave.
    pub contributors: usize,
    /// The number of endpoints that are not in the wave, although they were expected.
    pub missing: usize,
}

/// The structure behind a wave's handle. The public fields come first, where C expects them.
#[repr(C)]
struct Held {
    head: treefold_wave,
    kept: Kept,
}

struct Kept {
    packets: Vec<Bytes>,
    contributors: PartitionSet,
    missing: Vec<(PartitionSet, CString)>,
}

const _: () = used_from_any_thread::<Kept>();

/// Makes a handle of a wave; the end of a stream is a failure.
pub(crate) fn handle(taken: Taken) -> Outcome<*mut treefold_wave> {
    let StreamWave { tag, packets, contributors, missing } =
        taken.map_err(|why| Failure::new(treefold_code::TREEFOLD_OVER, why))?;
    let missing: Vec<(PartitionSet, CString)> = missing
        .into_iter()
        .map(|missing| {
            // A text from another node may hold a zero byte, which would end it early in C.
            let reason = missing.reason.to_string().replace('\0', " ");
            (missing.partitions, CString::new(reason).expect("invariant: its zero bytes were replaced"))
        })
        .collect();
    let head = treefold_wave {
        tag,
        packets: packets.len(),
        contributors: contributors.len(),
        missing: missing.iter().map(|(endpoints, _)| endpoints.len()).sum(),
    };
    Ok(given(Held { head, kept: Kept { packets, contributors, missing } }).cast())
}

/// The failure of a wait in which no wave arrived.
pub(crate) fn none() -> Failure {
    Failure::new(treefold_code::TREEFOLD_AGAIN, "no wave has arrived")
}

/// Gets packet `at` of a wave, counted from 0, as a handle of its own: the caller must give it to treefold_packet_free. Its
/// bytes are not copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_wave_packet(
    wave: *const treefold_wave,
    at: usize,
    packet: *mut *mut treefold_packet,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends a wave and a place, or null.
        let (it, place) = unsafe { (held(wave)?, place("packet", packet)?) };
        place.write(std::ptr::null_mut());
        let payload = it.kept.packets.get(at).ok_or_else(|| {
            Failure::argument("at", format_args!("is {at}; the wave has {} packets", it.kept.packets.len()))
        })?;
        place.write(packet::handle(it.head.tag, payload.clone()));
        Ok(())
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// Copies the numbers of the endpoints whose packets are in the wave to `endpoints`, ascending, as treefold_packet_i64s copies
/// an array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_wave_contributors(
    wave: *const treefold_wave,
    endpoints: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends a wave, or null.
        let contributors: Vec<u32> = unsafe { held(wave)? }.kept.contributors.iter().collect();
        // SAFETY: the caller lends these places, or null.
        unsafe { copy_out((endpoints, capacity), count, contributors.into_iter()) }
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// Copies the numbers of the endpoints that are not in the wave to `endpoints`, as treefold_wave_contributors does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_wave_missing(
    wave: *const treefold_wave,
    endpoints: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends a wave, or null.
        let it = unsafe { held(wave)? };
        let mut missing: Vec<u32> =
            it.kept.missing.iter().flat_map(|(endpoints, _)| endpoints.iter()).collect();
        missing.sort_unstable();
        // SAFETY: the caller lends these places, or null.
        unsafe { copy_out((endpoints, capacity), count, missing.into_iter()) }
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// Gets the reason why an endpoint is not in the wave. The text ends with a zero byte, belongs to the wave and lives as long as
/// it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_wave_reason(
    wave: *const treefold_wave,
    endpoint: u32,
    reason: *mut *const c_char,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends a wave and a place, or null.
        let (it, place) = unsafe { (held(wave)?, place("reason", reason)?) };
        let missing = it.kept.missing.iter().find(|(endpoints, _)| endpoints.contains(endpoint));
        let (_, reason) = missing.ok_or_else(|| {
            Failure::argument("endpoint", format_args!("{endpoint} is not missing from the wave"))
        })?;
        place.write(reason.as_ptr());
        Ok(())
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// Frees a wave. Packets that were got from it stay valid. Null is ignored. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_wave_free(wave: *mut treefold_wave) {
    // SAFETY: the caller gives back a wave that it got from us, which is the head of a `Held`, or null.
    guard_silently(|| drop(unsafe { taken_back(wave.cast::<Held>()) }));
}

/// # Safety
/// `wave` is null, or a live wave that came from [`handle`].
unsafe fn held<'a>(wave: *const treefold_wave) -> Outcome<&'a Held> {
    // SAFETY: as the caller promises; a wave from `handle` is the head of a `Held`.
    unsafe { lent("wave", wave.cast::<Held>()) }
}
