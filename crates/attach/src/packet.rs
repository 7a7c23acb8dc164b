//! Packets for C: three public fields, and functions that read typed values.
//!
//! The handle points to the first field of a larger structure. That structure keeps the packet's memory
//! alive, and keeps the parsed packet, so that reading ten fields costs one check.

use crate::boundary::{
    copy_out, given, guard, guard_silently, lent, place, taken_back, used_from_any_thread,
};
use crate::code::{Failure, Outcome, treefold_code, treefold_error};
use bytes::Bytes;
use std::ffi::c_char;
use std::sync::OnceLock;
use treefold::operators::Packet;
use treefold::operators::packet::{Number, Numbers, PacketError};

/// A packet from the front-end. It never changes, and lives until it is given to treefold_packet_free, even
/// if its stream is closed earlier. It may be read from any thread, and from several at a time. Only
/// packets from treefold_recv are valid: a structure that the program fills in itself is not a packet.
#[repr(C)]
pub struct treefold_packet {
    /// The tag with which it was sent. An answer uses the same tag.
    pub tag: u64,
    /// The packet's bytes.
    pub data: *const u8,
    /// Length of `data`.
    pub len: usize,
}

/// The structure behind a packet's handle. The public fields come first, where C expects them.
#[repr(C)]
struct Held {
    head: treefold_packet,
    kept: Kept,
}

/// The memory that the head's pointer points into, and the parsed packet.
struct Kept {
    payload: Bytes,
    typed: OnceLock<Result<Packet, PacketError>>,
}

const _: () = used_from_any_thread::<Kept>();

pub(crate) fn handle(tag: u64, payload: Bytes) -> *mut treefold_packet {
    let head = treefold_packet { tag, data: payload.as_ptr(), len: payload.len() };
    given(Held { head, kept: Kept { payload, typed: OnceLock::new() } }).cast()
}

/// Frees a packet, and all texts and bytes that were read from it. Null is ignored. May be called from any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_packet_free(packet: *mut treefold_packet) {
    // SAFETY: the caller gives back a packet that it got from us, which is the head of a `Held`, or null.
    guard_silently(|| drop(unsafe { taken_back(packet.cast::<Held>()) }));
}

/// Gets the number of fields of a typed packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_packet_fields(
    packet: *const treefold_packet,
    fields: *mut usize,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends all of these, or null.
    unsafe { guard(error, || place_field(packet, "fields", fields, |packet| Ok(packet.len()))) }
}

/// Reads the signed integer in field `field`, counted from 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_packet_i64(
    packet: *const treefold_packet,
    field: usize,
    value: *mut i64,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends all of these, or null.
    unsafe { guard(error, || place_field(packet, "value", value, |packet| packet.i64(field))) }
}

/// Reads the unsigned integer in field `field`, counted from 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_packet_u64(
    packet: *const treefold_packet,
    field: usize,
    value: *mut u64,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends all of these, or null.
    unsafe { guard(error, || place_field(packet, "value", value, |packet| packet.u64(field))) }
}

/// Reads the floating-point number in field `field`, counted from 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_packet_f64(
    packet: *const treefold_packet,
    field: usize,
    value: *mut f64,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends all of these, or null.
    unsafe { guard(error, || place_field(packet, "value", value, |packet| packet.f64(field))) }
}

/// Copies the array of integers in field `field` to `values`, which has room for `capacity` elements, and
/// sets `count` to the array's length. If there is too little room, nothing is copied and TREEFOLD_NO_ROOM
/// is returned. Use a capacity of 0 to get only the count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_packet_i64s(
    packet: *const treefold_packet,
    field: usize,
    values: *mut i64,
    capacity: usize,
    count: *mut usize,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends all of these, or null.
    unsafe { guard(error, || copy(packet, (values, capacity), count, |packet| packet.i64s(field))) }
}

/// Copies an array like treefold_packet_i64s, of floating-point numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_packet_f64s(
    packet: *const treefold_packet,
    field: usize,
    values: *mut f64,
    capacity: usize,
    count: *mut usize,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends all of these, or null.
    unsafe { guard(error, || copy(packet, (values, capacity), count, |packet| packet.f64s(field))) }
}

/// Gets the text in field `field`: `len` bytes of UTF-8 *without* a final zero byte. They belong to the
/// packet, and live as long as it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_packet_str(
    packet: *const treefold_packet,
    field: usize,
    text: *mut *const c_char,
    len: *mut usize,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends all of these, or null.
    unsafe {
        guard(error, || view(packet, "text", text.cast(), len, |packet| packet.str(field).map(str::as_bytes)))
    }
}

/// Gets the bytes in field `field`. They belong to the packet, and live as long as it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_packet_blob(
    packet: *const treefold_packet,
    field: usize,
    data: *mut *const u8,
    len: *mut usize,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends all of these, or null.
    unsafe { guard(error, || view(packet, "data", data, len, |packet| packet.blob(field))) }
}

pub(crate) fn mistyped(error: &PacketError) -> Failure {
    Failure::new(treefold_code::TREEFOLD_TYPE, error)
}

/// # Safety
/// `packet` is null, or a live packet that came from [`handle`].
pub(crate) unsafe fn typed<'a>(packet: *const treefold_packet) -> Outcome<&'a Packet> {
    // SAFETY: as the caller promises; a packet from `handle` is the head of a `Held`.
    let kept = &unsafe { lent("packet", packet.cast::<Held>())? }.kept;
    let read = kept.typed.get_or_init(|| Packet::read(&kept.payload));
    read.as_ref().map_err(mistyped)
}

/// # Safety
/// As [`typed`], and `value` is null or a place for a `T`.
pub(crate) unsafe fn place_field<T>(
    packet: *const treefold_packet,
    name: &str,
    value: *mut T,
    field: impl FnOnce(&Packet) -> Result<T, PacketError>,
) -> Outcome {
    // SAFETY: as the caller promises.
    let (packet, place) = unsafe { (typed(packet)?, place(name, value)?) };
    place.write(field(packet).map_err(|error| mistyped(&error))?);
    Ok(())
}

/// # Safety
/// As [`typed`], and the pointers are null or valid for writing, `values` for `capacity` elements.
unsafe fn copy<N: Number>(
    packet: *const treefold_packet,
    values: (*mut N, usize),
    count: *mut usize,
    field: impl FnOnce(&Packet) -> Result<Numbers<'_, N>, PacketError>,
) -> Outcome {
    // SAFETY: as the caller promises.
    let packet = unsafe { typed(packet)? };
    let numbers = field(packet).map_err(|error| mistyped(&error))?;
    // SAFETY: as the caller promises.
    unsafe { copy_out(values, count, numbers.iter()) }
}

/// # Safety
/// As [`typed`], and the pointers are null or valid for writing.
unsafe fn view(
    packet: *const treefold_packet,
    name: &str,
    data: *mut *const u8,
    len: *mut usize,
    field: impl FnOnce(&Packet) -> Result<&[u8], PacketError>,
) -> Outcome {
    // SAFETY: as the caller promises.
    let (packet, data, len) = unsafe { (typed(packet)?, place(name, data)?, place("len", len)?) };
    let octets = field(packet).map_err(|error| mistyped(&error))?;
    data.write(octets.as_ptr());
    len.write(octets.len());
    Ok(())
}
