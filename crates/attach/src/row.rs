//! Typed packets: built value by value, then sent.

use crate::boundary::{
    duration, given, guard, guard_silently, lent, lent_alone, lent_slice, lent_text, taken_back,
    used_by_one_thread_at_a_time,
};
use crate::code::{Failure, Outcome, treefold_code, treefold_error};
use crate::stream::treefold_stream;
use bytes::Bytes;
use std::ffi::c_char;
use treefold::operators::packet::{FIELDS_MAX, Row};

/// A typed packet under construction. Only one thread at a time may use it.
pub struct treefold_row {
    row: Row,
    fields: usize,
}

const _: () = used_by_one_thread_at_a_time::<treefold_row>();

/// Makes an empty row. The caller owns it and must give it to treefold_row_free. May be called from any
/// thread.
#[unsafe(no_mangle)]
pub extern "C" fn treefold_row_new() -> *mut treefold_row {
    given(treefold_row { row: Row::new(), fields: 0 })
}

/// Removes all values from the row. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_row_clear(row: *mut treefold_row) {
    // SAFETY: the caller lends a row for exclusive use, or null.
    guard_silently(|| {
        if let Ok(it) = unsafe { lent_alone("row", row) } {
            it.clear();
        }
    });
}

/// Frees a row. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_row_free(row: *mut treefold_row) {
    // SAFETY: the caller gives back a row that it got from us, or null.
    guard_silently(|| drop(unsafe { taken_back(row) }));
}

/// Appends a signed integer, an `i64`. A row has at most 255 values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_row_i64(
    row: *mut treefold_row,
    value: i64,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends a row for exclusive use and a place for an error, or null.
    unsafe { guard(error, || append(row, |row| row.i64(value))) }
}

/// Appends an unsigned integer, a `u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_row_u64(
    row: *mut treefold_row,
    value: u64,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends a row for exclusive use and a place for an error, or null.
    unsafe { guard(error, || append(row, |row| row.u64(value))) }
}

/// Appends a floating-point number, an `f64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_row_f64(
    row: *mut treefold_row,
    value: f64,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends a row for exclusive use and a place for an error, or null.
    unsafe { guard(error, || append(row, |row| row.f64(value))) }
}

/// Appends an array of `count` signed integers, `i64s`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_row_i64s(
    row: *mut treefold_row,
    values: *const i64,
    count: usize,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends this many values, or null, and a row for exclusive use, or null.
        unsafe { append_many(row, lent_slice("values", values, count)?, Row::i64s) }
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// Appends an array of `count` floating-point numbers, `f64s`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_row_f64s(
    row: *mut treefold_row,
    values: *const f64,
    count: usize,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends this many values, or null, and a row for exclusive use, or null.
        unsafe { append_many(row, lent_slice("values", values, count)?, Row::f64s) }
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// Appends a text, a `str`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_row_str(
    row: *mut treefold_row,
    text: *const c_char,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends a text, or null.
        let text = unsafe { lent_text("text", text)? }.ok_or_else(|| Failure::argument("text", "is null"))?;
        check_length("text", text.len())?;
        // SAFETY: the caller lends a row for exclusive use, or null.
        unsafe { append(row, |row| row.str(text)) }
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// Appends `len` bytes, a `blob`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_row_blob(
    row: *mut treefold_row,
    data: *const u8,
    len: usize,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends this many bytes, or null, and a row for exclusive use, or null.
        unsafe { append_many(row, lent_slice("data", data, len)?, Row::blob) }
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// Sends the row's values as a typed packet, like treefold_send. After TREEFOLD_OK the row is empty and can
/// be filled again; otherwise it is unchanged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_send_row(
    stream: *const treefold_stream,
    row: *mut treefold_row,
    timeout_ms: i64,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends all of these, the row for exclusive use, or null.
    unsafe { guard(error, || send(stream, None, row, timeout_ms)) }
}

/// Sends a row like treefold_send_row, in the wave of `tag`: as the answer to a packet with that tag.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_send_row_tagged(
    stream: *const treefold_stream,
    tag: u64,
    row: *mut treefold_row,
    timeout_ms: i64,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends all of these, the row for exclusive use, or null.
    unsafe { guard(error, || send(stream, Some(tag), row, timeout_ms)) }
}

impl treefold_row {
    /// The row as a packet's bytes.
    pub(crate) fn bytes(&self) -> Bytes {
        self.row.clone().packet().into_bytes()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self { row: Row::new(), fields: 0 };
    }
}

/// # Safety
/// `row` is null, or a live row that nothing else uses during the call.
pub(crate) unsafe fn append(row: *mut treefold_row, value: impl FnOnce(Row) -> Row) -> Outcome {
    // SAFETY: as the caller promises.
    let it = unsafe { lent_alone("row", row)? };
    if it.fields == FIELDS_MAX {
        return Err(Failure::argument("row", format_args!("has {FIELDS_MAX} values, the maximum")));
    }
    it.row = value(std::mem::take(&mut it.row));
    it.fields += 1;
    Ok(())
}

/// # Safety
/// As [`append`].
pub(crate) unsafe fn append_many<T>(
    row: *mut treefold_row,
    values: &[T],
    value: impl FnOnce(Row, &[T]) -> Row,
) -> Outcome {
    check_length("values", values.len())?;
    // SAFETY: as the caller promises.
    unsafe { append(row, |row| value(row, values)) }
}

/// Checks a value's length, which is encoded as a `u32`.
fn check_length(name: &str, length: usize) -> Outcome {
    match u32::try_from(length) {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(Failure::argument(name, format_args!("has length {length}; allowed: at most {}", u32::MAX)))
        }
    }
}

/// # Safety
/// The handles are null or live, and nothing else uses the row during the call.
unsafe fn send(
    stream: *const treefold_stream,
    tag: Option<u64>,
    row: *mut treefold_row,
    timeout_ms: i64,
) -> Outcome {
    // SAFETY: as the caller promises.
    let (stream, row) = unsafe { (lent("stream", stream)?, lent_alone("row", row)?) };
    stream.send(tag, row.bytes(), duration("timeout_ms", timeout_ms)?)?;
    row.clear();
    Ok(())
}
