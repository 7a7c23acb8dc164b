//! The front-end's side of a stream: opening it, packets down, waves up.

use crate::boundary::{
    copy_out, duration, given, guard, guard_silently, lent, lent_alone, lent_slice, lent_text, place,
    taken_back, used_from_any_thread, whole, zeroable,
};
use crate::code::{Failure, Outcome, treefold_code, treefold_error};
use crate::connection::{Shared, treefold_connection};
use crate::row::treefold_row;
use crate::wave::{self, treefold_wave};
use bytes::Bytes;
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::AbortHandle;
use treefold::{Error, PartitionSet, Raw, Stream, StreamBuilder, StreamSender, Synchronisation};

/// When a wave is complete.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum treefold_synchronisation {
    /// When every endpoint has contributed, or is known to be away. The default.
    TREEFOLD_WAIT_FOR_ALL = 0,
    /// As before, but at the latest `time_out_ms` after its first packet.
    TREEFOLD_TIME_OUT = 1,
    /// At once: packets go up one by one.
    TREEFOLD_DO_NOT_WAIT = 2,
}

/// A stream to open. Set it to zero and fill in the needed fields. Every field that is zero or null has a
/// default, except `size` and `service`. It is read only during the call.
#[repr(C)]
pub struct treefold_opening {
    /// The size of this structure, `sizeof(treefold_opening)`, as in a treefold_attachment.
    pub size: usize,
    /// The service to whose endpoints the stream is opened.
    pub service: *const c_char,
    /// The filter that folds the packets of a wave. Default: none, all packets arrive.
    pub up_filter: *const c_char,
    /// The filter that packets pass on their way down. Default: none.
    pub down_filter: *const c_char,
    /// The parameters of the filters: a MessagePack map.
    pub filter_params: *const u8,
    /// Length of `filter_params`.
    pub filter_params_len: usize,
    /// The parameters that each endpoint gets when the stream is opened, any bytes.
    pub params: *const u8,
    /// Length of `params`.
    pub params_len: usize,
    /// The endpoints. Default: all that the service has, and all that join later.
    pub endpoints: *const u32,
    /// Length of `endpoints`.
    pub endpoint_count: usize,
    /// When a wave is complete: a treefold_synchronisation.
    pub synchronisation: u32,
    /// The time of TREEFOLD_TIME_OUT.
    pub time_out_ms: u32,
    /// The program's own pointer for this stream, which treefold_recv_any returns with its waves. The library
    /// never follows it.
    pub context: *mut c_void,
}

// Pointers and numbers.
zeroable!(treefold_opening);

/// Size of the first version of [`treefold_opening`].
const SIZE_LEAST: usize = size_of::<treefold_opening>();

/// The front-end's side of a stream.
pub struct treefold_front {
    shared: Arc<Shared>,
    number: u64,
    sender: StreamSender,
    endpoints: PartitionSet,
    next_tag: AtomicU64,
    /// The task that takes the stream's waves. The stream ends with it.
    task: AbortHandle,
}

const _: () = used_from_any_thread::<treefold_front>();

impl Drop for treefold_front {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.hub.remove(self.number);
    }
}

/// Opens a stream, and waits until all endpoints that can be reached take part. Returns null on failure. The caller owns the
/// result and must give it to treefold_front_close. May be called from any thread, and from several at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_open(
    connection: *const treefold_connection,
    opening: *const treefold_opening,
    error: *mut treefold_error,
) -> *mut treefold_front {
    let mut handle = ptr::null_mut();
    let body = || {
        // SAFETY: the caller lends a connection and an opening, or null, and all that the opening points to.
        let shared = unsafe { &lent("connection", connection)?.shared };
        // SAFETY: as above.
        let (builder, context) = unsafe { read(shared, opening)? };
        let stream = shared.runtime.block_on(builder.open()).map_err(|error| refused(&error))?;
        let (sender, endpoints) = (stream.sender(), stream.endpoints().clone());
        let (number, room) = shared.hub.add(context);
        // The task must not keep the runtime alive in which it runs, so it gets only the hub.
        let hub = Arc::clone(&shared.hub);
        let task = shared.runtime.spawn(async move {
            let mut stream: Stream = stream;
            loop {
                let taken = match room.acquire().await {
                    Ok(permit) => {
                        permit.forget();
                        stream.wave().await.map_err(|error| error.to_string())
                    }
                    Err(closed) => Err(closed.to_string()),
                };
                let is_over = taken.is_err();
                hub.put(number, taken);
                if is_over {
                    return;
                }
            }
        });
        let (shared, task) = (Arc::clone(shared), task.abort_handle());
        handle =
            given(treefold_front { shared, number, sender, endpoints, next_tag: AtomicU64::new(1), task });
        Ok(())
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) };
    handle
}

/// Copies the numbers of the endpoints that took part when the stream was opened to `endpoints`, as treefold_packet_i64s
/// copies an array. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_front_endpoints(
    front: *const treefold_front,
    endpoints: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends a handle, or null.
        let all: Vec<u32> = unsafe { lent("front", front)? }.endpoints.iter().collect();
        // SAFETY: the caller lends these places, or null.
        unsafe { copy_out((endpoints, capacity), count, all.into_iter()) }
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// Copies `len` bytes and sends them to all endpoints of the stream. `tag`, which may be null, is set to the number by which
/// the endpoints' answers will form one wave. TREEFOLD_AGAIN: there was no room in that time because the endpoints are too
/// slow, and nothing was sent. TREEFOLD_OVER: the stream is over. May be called from any thread, and from several at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_front_send(
    front: *const treefold_front,
    data: *const u8,
    len: usize,
    timeout_ms: i64,
    tag: *mut u64,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends a handle and bytes, or null.
        let (it, data) = unsafe { (lent("front", front)?, lent_slice("data", data, len)?) };
        // SAFETY: the caller lends a place, or null.
        unsafe { send(it, None, Bytes::copy_from_slice(data), timeout_ms, tag) }
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// Sends a row like treefold_front_send. The row is empty after success, and unchanged otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_front_send_row(
    front: *const treefold_front,
    row: *mut treefold_row,
    timeout_ms: i64,
    tag: *mut u64,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends a handle, and a row for exclusive use, or null.
        let (it, row) = unsafe { (lent("front", front)?, lent_alone("row", row)?) };
        // SAFETY: the caller lends a place, or null.
        unsafe { send(it, None, row.bytes(), timeout_ms, tag)? };
        row.clear();
        Ok(())
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// Sends bytes like treefold_front_send, to some endpoints only. One endpoint is MRNet's point-to-point message. The other
/// endpoints are missing from the wave of the answers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_front_send_to(
    front: *const treefold_front,
    endpoints: *const u32,
    endpoint_count: usize,
    data: *const u8,
    len: usize,
    timeout_ms: i64,
    tag: *mut u64,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends all of these, or null.
        let (it, to, data) = unsafe {
            (
                lent("front", front)?,
                lent_slice("endpoints", endpoints, endpoint_count)?,
                lent_slice("data", data, len)?,
            )
        };
        let to = to.iter().copied().collect();
        // SAFETY: the caller lends a place, or null.
        unsafe { send(it, Some(to), Bytes::copy_from_slice(data), timeout_ms, tag) }
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// Gets the stream's next wave. TREEFOLD_AGAIN: none arrived in that time. TREEFOLD_OVER: the stream is over, and all its
/// waves have been received. The caller owns the wave and must give it to treefold_wave_free. May be called from any
/// thread, and from several at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_front_recv(
    front: *const treefold_front,
    timeout_ms: i64,
    wave: *mut *mut treefold_wave,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends a handle and a place, or null.
        let (it, place) = unsafe { (lent("front", front)?, place("wave", wave)?) };
        place.write(ptr::null_mut());
        let taken = it.shared.hub.take(it.number, duration("timeout_ms", timeout_ms)?);
        place.write(wave::handle(taken.ok_or_else(wave::none)?)?);
        Ok(())
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// Ends a stream at all its nodes. Waves that were received stay valid. No other call on the stream may be running. Null is
/// ignored. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_front_close(front: *mut treefold_front) {
    // SAFETY: the caller gives back a handle that it got from us, or null.
    guard_silently(|| drop(unsafe { taken_back(front) }));
}

/// # Safety
/// `tag` is null, or a place for a number.
unsafe fn send(
    front: &treefold_front,
    to: Option<PartitionSet>,
    payload: Bytes,
    timeout_ms: i64,
    tag: *mut u64,
) -> Outcome {
    let timeout: Duration = duration("timeout_ms", timeout_ms)?;
    let number = front.next_tag.fetch_add(1, Ordering::Relaxed);
    let sent = front.shared.runtime.block_on(async {
        tokio::time::timeout(timeout, async {
            match to {
                Some(to) => front.sender.send_to(to, number, payload).await,
                None => front.sender.send_tagged(number, payload).await,
            }
        })
        .await
    });
    match sent {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(refused(&error)),
        Err(_) => {
            return Err(Failure::new(
                treefold_code::TREEFOLD_AGAIN,
                "the endpoints have taken too little; there is no room",
            ));
        }
    }
    // SAFETY: as the caller promises.
    if let Ok(place) = unsafe { place("tag", tag) } {
        place.write(number);
    }
    Ok(())
}

/// # Safety
/// `opening` is null, or points to a complete one, whose pointers are null or as their fields' docs require.
unsafe fn read(shared: &Shared, opening: *const treefold_opening) -> Outcome<(StreamBuilder, usize)> {
    // SAFETY: as the caller promises.
    let given = unsafe { whole("opening", opening, SIZE_LEAST)? };
    // SAFETY: as the caller promises for each of these pointers.
    let text = |name, pointer| unsafe { lent_text(name, pointer) };
    // SAFETY: as above.
    let bytes = |name, pointer, len| unsafe { lent_slice(name, pointer, len).map(Bytes::copy_from_slice) };
    let service = text("opening.service", given.service)?;
    let service = service.ok_or_else(|| Failure::argument("opening.service", "is null"))?;
    let mut stream = shared.client.stream(service);
    if let Some(filter) = text("opening.up_filter", given.up_filter)? {
        stream = stream.up_filter(filter);
    }
    if let Some(filter) = text("opening.down_filter", given.down_filter)? {
        stream = stream.down_filter(filter);
    }
    let filter_params = bytes("opening.filter_params", given.filter_params, given.filter_params_len)?;
    let params = bytes("opening.params", given.params, given.params_len)?;
    stream = stream.filter_params(&Raw(filter_params)).params(&Raw(params));
    // SAFETY: as above.
    let endpoints = unsafe { lent_slice("opening.endpoints", given.endpoints, given.endpoint_count)? };
    if !endpoints.is_empty() {
        stream = stream.endpoints(endpoints.iter().copied().collect());
    }
    let time_out = Duration::from_millis(given.time_out_ms.into());
    stream = stream.synchronisation(match given.synchronisation {
        0 => Synchronisation::WaitForAll,
        1 => Synchronisation::TimeOut(time_out),
        2 => Synchronisation::DoNotWait,
        other => {
            let problem = format_args!("is {other}; allowed: a treefold_synchronisation, 0 to 2");
            return Err(Failure::argument("opening.synchronisation", problem));
        }
    });

    Ok((stream, given.context.expose_provenance()))
}

fn refused(error: &Error) -> Failure {
    let code = match error {
        Error::Closed => treefold_code::TREEFOLD_OVER,
        _ => treefold_code::TREEFOLD_INVALID,
    };
    Failure::new(code, error)
}
