//! A program's place in a network: attaching, accepting streams, leaving.

use crate::bell::Bell;
use crate::boundary::{
    duration, given, guard, lent, lent_slice, lent_text, place, taken_back, used_from_any_thread, whole,
    zeroable,
};
use crate::code::{Failure, Outcome, treefold_code, treefold_error};
use crate::signals::Blocked;
use crate::stream::treefold_stream;
use std::env;
use std::ffi::{c_char, c_int};
use std::mem::offset_of;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;
use treefold::endpoint::AcceptError;
use treefold::{ClusterOptions, StartError};
use treefold_network::attach::ATTACH_TIMEOUT;
use treefold_network::launch::Token;
use treefold_network::{AttachError, Attached, Attachment, attach};

/// The attachment of a program. Set it to zero and fill in the needed fields. Every field that is zero or
/// null has a default, except `size`, `at`, `service` and `endpoints`. It is read only during the call.
#[repr(C)]
pub struct treefold_attachment {
    /// The size of this structure, `sizeof(treefold_attachment)`, which shows which fields the program
    /// knows. Later versions may add fields at the end; a program that was compiled before that gets their
    /// defaults.
    pub size: usize,
    /// Nodes of the network, any of them, as "host:port". They are tried in turn.
    pub at: *const *const c_char,
    /// Length of `at`.
    pub at_count: usize,
    /// The cluster's name. Default: "treefold".
    pub cluster: *const c_char,
    /// The service to which streams are opened.
    pub service: *const c_char,
    /// The service's endpoints that are this program, numbered from 0. Each gets its own streams.
    pub endpoints: *const u32,
    /// Length of `endpoints`.
    pub endpoint_count: usize,
    /// The number of endpoints of the service in all. Default: one more than the highest in `endpoints`.
    pub total: u32,
    /// The listening address, "host:port". Default: a free port at the address from which the network was
    /// reached.
    pub listen: *const c_char,
    /// The address at which others reach the program, if it differs from the listening address.
    pub advertise: *const c_char,
    /// The rack of the program's host.
    pub rack: *const c_char,
    /// The zone of the program's host.
    pub zone: *const c_char,
    /// Time limit for attaching. -1: for ever. 0: ten seconds. The call also waits for a network that
    /// starts later.
    pub timeout_ms: i64,
    /// The cluster's token. Default: the environment variable TREEFOLD_TOKEN. A program without a token is
    /// only taken in by a cluster without one.
    pub token: *const c_char,
}

/// Size of the first version of [`treefold_attachment`], whose fields every program fills in.
const SIZE_LEAST: usize = offset_of!(treefold_attachment, token);

/// A program's place in a network.
pub struct treefold_attached {
    attached: Attached,
    bell: Arc<Bell>,
}

const _: () = used_from_any_thread::<treefold_attached>();

// Pointers and numbers.
zeroable!(treefold_attachment);

/// Attaches the program and waits until streams can be opened to it. The node runs on one thread of its
/// own. Returns null on failure. The caller owns the result and must give it to treefold_detach. May be
/// called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_attach(
    attachment: *const treefold_attachment,
    error: *mut treefold_error,
) -> *mut treefold_attached {
    let mut handle = ptr::null_mut();
    let body = || {
        // SAFETY: the caller lends an attachment, or null, and all that it points to.
        let attachment = unsafe { read(attachment)? };
        let start = |error: std::io::Error| Failure::new(treefold_code::TREEFOLD_START, error);
        let bell = Arc::new(Bell::new().map_err(start)?);
        let ring = Arc::clone(&bell);
        let _blocked = Blocked::new();
        let attached = attach(attachment.on_news(move || ring.ring())).map_err(refused)?;
        handle = given(treefold_attached { attached, bell });
        Ok(())
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) };
    handle
}

/// Gets the next stream that was opened to the program. TREEFOLD_AGAIN: none was opened in that time.
/// TREEFOLD_OVER: the node has ended. The caller owns the stream and must give it to treefold_stream_close.
/// May be called from any thread, and from several at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_accept(
    attached: *const treefold_attached,
    timeout_ms: i64,
    stream: *mut *mut treefold_stream,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends a handle and a place, or null.
        let (it, place) = unsafe { (lent("attached", attached)?, place("stream", stream)?) };
        place.write(ptr::null_mut());
        match it.attached.accept_timeout(duration("timeout_ms", timeout_ms)?) {
            Ok(stream) => {
                place.write(given(treefold_stream::new(stream)));
                Ok(())
            }
            Err(AcceptError::Empty) => Err(Failure::new(treefold_code::TREEFOLD_AGAIN, AcceptError::Empty)),
            Err(gone) => Err(Failure::new(treefold_code::TREEFOLD_OVER, gone)),
        }
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// A file descriptor that is readable when there may be news: a stream, a packet, room to send, or an end.
/// Use it with poll, epoll, kqueue or select. It belongs to the library: do not read or close it. When it
/// is readable, call treefold_event_clear first, then call every function of interest with a time of 0
/// until it returns TREEFOLD_AGAIN. Returns -1 for null. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_event_fd(attached: *const treefold_attached) -> c_int {
    // SAFETY: the caller lends a handle, or null.
    unsafe { lent("attached", attached) }.map_or(-1, |it| it.bell.descriptor())
}

/// Makes the descriptor of treefold_event_fd unreadable until there is news again. May be called from any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_event_clear(
    attached: *const treefold_attached,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends a handle and a place for an error, or null.
    unsafe { guard(error, || lent("attached", attached).map(|it| it.bell.clear())) }
}

/// Leaves the network in order: the others learn of it at once and go on without the program. Packets that
/// were sent are still written, for at most `grace_ms`; TREEFOLD_AGAIN means that this time was too short.
/// The handle is freed in every case, and no other call on it may be running. Accepted streams are over,
/// but must still be closed. Null is ignored. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_detach(
    attached: *mut treefold_attached,
    grace_ms: i64,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller gives back a handle that it got from us, or null.
        let it = unsafe { taken_back(attached) };
        // Checked last: the handle must be freed even if another argument is invalid.
        let grace = duration("grace_ms", grace_ms)?;
        let Some(it) = it else { return Ok(()) };
        let treefold_attached { attached, bell: _kept } = *it;
        if attached.detach_within(grace) {
            return Ok(());
        }
        Err(Failure::new(treefold_code::TREEFOLD_AGAIN, "the grace was too short; the rest was not sent"))
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// # Safety
/// `attachment` is null, or points to a complete one, whose pointers are null or as their fields' docs
/// require.
unsafe fn read(attachment: *const treefold_attachment) -> Outcome<Attachment> {
    // SAFETY: as the caller promises.
    let given = unsafe { whole("attachment", attachment, SIZE_LEAST)? };
    // SAFETY: as the caller promises for each of these pointers.
    let text = |name, pointer| unsafe { lent_text(name, pointer) };
    // SAFETY: as above.
    let (at, endpoints) = unsafe {
        (
            lent_slice("attachment.at", given.at, given.at_count)?,
            lent_slice("attachment.endpoints", given.endpoints, given.endpoint_count)?,
        )
    };
    let service = text("attachment.service", given.service)?;
    let service = service.ok_or_else(|| Failure::argument("attachment.service", "is null"))?;
    let mut result = Attachment::new(service).endpoints(endpoints.iter().copied());
    for &addr in at {
        let addr = text("attachment.at", addr)?;
        result = result.at([addr.ok_or_else(|| Failure::argument("attachment.at", "holds a null"))?]);
    }
    if given.total != 0 {
        result = result.total(given.total);
    }
    let cluster = text("attachment.cluster", given.cluster)?;
    let cluster = cluster.map_or_else(ClusterOptions::default, ClusterOptions::new);
    result =
        result.cluster(cluster.token(token("attachment.token", text("attachment.token", given.token)?)?));
    if let Some(listen) = text("attachment.listen", given.listen)? {
        result = result.listen(listen);
    }
    if let Some(advertise) = text("attachment.advertise", given.advertise)? {
        result = result.advertise(advertise);
    }
    let rack = text("attachment.rack", given.rack)?.unwrap_or_default();
    let zone = text("attachment.zone", given.zone)?.unwrap_or_default();
    let timeout = match duration("attachment.timeout_ms", given.timeout_ms)? {
        Duration::ZERO => ATTACH_TIMEOUT,
        timeout => timeout,
    };
    Ok(result.rack(rack).zone(zone).timeout(timeout))
}

/// The program's token, or else the environment's.
pub(crate) fn token(name: &'static str, given: Option<&str>) -> Outcome<Option<Token>> {
    let of_environment = || env::var(Token::VARIABLE).ok().map(|text| (Token::VARIABLE, text));
    let given = given.map(|text| (name, text.to_owned())).or_else(of_environment);
    let read = |(name, text)| {
        Token::new(text)
            .ok_or_else(|| Failure::argument(name, "is not a token; allowed: 1 to 1024 bytes, on one line"))
    };
    given.map(read).transpose()
}

fn refused(error: AttachError) -> Failure {
    let code = match &error {
        AttachError::Field { .. } => treefold_code::TREEFOLD_INVALID,
        AttachError::Refused { .. } => treefold_code::TREEFOLD_REFUSED,
        AttachError::Unreachable { .. } | AttachError::NotJoined { .. } => {
            treefold_code::TREEFOLD_UNREACHABLE
        }
        AttachError::Start(
            StartError::Service { .. }
            | StartError::Cluster { .. }
            | StartError::Card(_)
            | StartError::Exposed { .. }
            | StartError::Seed { .. }
            | StartError::Address { .. },
        ) => treefold_code::TREEFOLD_INVALID,
        _ => treefold_code::TREEFOLD_START,
    };
    // A field here has the same name in the C structure.
    match error {
        AttachError::Field { field, problem } => Failure::argument(&format!("attachment.{field}"), problem),
        error => Failure::new(code, error),
    }
}
