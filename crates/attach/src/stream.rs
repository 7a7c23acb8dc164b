//! A stream's two directions, usable from any thread.

use crate::boundary::{
    duration, guard, guard_silently, lent, lent_slice, place, taken_back, used_from_any_thread,
};
use crate::code::{Failure, Outcome, treefold_code, treefold_error};
use crate::packet::{self, treefold_packet};
use bytes::Bytes;
use std::ptr;
use std::sync::{Mutex, TryLockError};
use std::time::Duration;
use treefold::endpoint::{EndpointSender, EndpointStream, RecvError, SendError};

/// One endpoint's part in one stream.
pub struct treefold_stream {
    reader: Mutex<EndpointStream>,
    sender: EndpointSender,
    endpoint: u32,
    params: Bytes,
}

const _: () = used_from_any_thread::<treefold_stream>();

impl treefold_stream {
    pub(crate) fn new(stream: EndpointStream) -> Self {
        let (sender, opening) = (stream.sender(), stream.opening());
        let (endpoint, params) = (opening.endpoint, opening.spec.params.clone());
        Self { reader: Mutex::new(stream), sender, endpoint, params }
    }

    pub(crate) fn send(&self, tag: Option<u64>, payload: Bytes, timeout: Duration) -> Outcome {
        self.sender.send_timeout(tag, payload, timeout).map_err(|error| {
            let code = match error {
                SendError::Full(_) => treefold_code::TREEFOLD_AGAIN,
                SendError::TooLarge { .. } => treefold_code::TREEFOLD_INVALID,
                _ => treefold_code::TREEFOLD_OVER,
            };
            Failure::new(code, error)
        })
    }
}

/// Gets the number of the program's endpoint to which the stream was opened. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_stream_endpoint(
    stream: *const treefold_stream,
    endpoint: *mut u32,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends a handle and a place, or null.
        let (it, place) = unsafe { (lent("stream", stream)?, place("endpoint", endpoint)?) };
        place.write(it.endpoint);
        Ok(())
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// Gets the parameters that the front-end gave the endpoints when it opened the stream. The bytes belong to
/// the stream and live until it is closed. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_stream_params(
    stream: *const treefold_stream,
    data: *mut *const u8,
    len: *mut usize,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends a handle and two places, or null.
        let (it, data, len) = unsafe { (lent("stream", stream)?, place("data", data)?, place("len", len)?) };
        data.write(it.params.as_ptr());
        len.write(it.params.len());
        Ok(())
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// Gets the stream's next packet. TREEFOLD_AGAIN: none arrived in that time. TREEFOLD_OVER: the stream is
/// over, and all its packets have been received. TREEFOLD_BUSY: another thread is receiving from this
/// stream. The caller owns the packet and must give it to treefold_packet_free. May be called from any
/// thread, but only by one at a time; other threads may send at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_recv(
    stream: *const treefold_stream,
    timeout_ms: i64,
    packet: *mut *mut treefold_packet,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends a handle and a place, or null.
        let (it, place) = unsafe { (lent("stream", stream)?, place("packet", packet)?) };
        place.write(ptr::null_mut());
        let timeout = duration("timeout_ms", timeout_ms)?;
        let mut reader = match it.reader.try_lock() {
            Ok(reader) => reader,
            // A panic of another reader cannot have damaged the channel's end.
            Err(TryLockError::Poisoned(reader)) => reader.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let problem = "another thread receives from this stream";
                return Err(Failure::new(treefold_code::TREEFOLD_BUSY, problem));
            }
        };
        match reader.recv_timeout(timeout) {
            Ok(packet) => {
                place.write(packet::handle(packet.tag, packet.payload));
                Ok(())
            }
            Err(RecvError::Empty) => Err(Failure::new(treefold_code::TREEFOLD_AGAIN, RecvError::Empty)),
            Err(over) => Err(Failure::new(treefold_code::TREEFOLD_OVER, over)),
        }
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// Copies `len` bytes and sends them towards the front-end, in the wave after the last one of this
/// endpoint. TREEFOLD_AGAIN: there was no room in that time because the front-end is too slow, and nothing
/// was sent. TREEFOLD_OVER: the stream is over. May be called from any thread, and from several at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_send(
    stream: *const treefold_stream,
    data: *const u8,
    len: usize,
    timeout_ms: i64,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends all of these, or null.
    unsafe { guard(error, || send(stream, None, data, len, timeout_ms)) }
}

/// Sends bytes like treefold_send, in the wave of `tag`: as the answer to a packet with that tag.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_send_tagged(
    stream: *const treefold_stream,
    tag: u64,
    data: *const u8,
    len: usize,
    timeout_ms: i64,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends all of these, or null.
    unsafe { guard(error, || send(stream, Some(tag), data, len, timeout_ms)) }
}

/// Closes this endpoint's side of the stream. Only the front-end can end a stream: if it is still open, its
/// packets are discarded from now on, and waves that wait for all endpoints wait for this one until the
/// program detaches. Packets that were received stay valid. No other call on the stream may be running.
/// Null is ignored. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_stream_close(stream: *mut treefold_stream) {
    // SAFETY: the caller gives back a handle that it got from us, or null.
    guard_silently(|| drop(unsafe { taken_back(stream) }));
}

/// # Safety
/// As the functions above require of their arguments.
unsafe fn send(
    stream: *const treefold_stream,
    tag: Option<u64>,
    data: *const u8,
    len: usize,
    timeout_ms: i64,
) -> Outcome {
    // SAFETY: as the caller promises.
    let (it, data) = unsafe { (lent("stream", stream)?, lent_slice("data", data, len)?) };
    it.send(tag, Bytes::copy_from_slice(data), duration("timeout_ms", timeout_ms)?)
}
