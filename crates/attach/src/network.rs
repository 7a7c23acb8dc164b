//! A program's place in a network: taken, listened at, left.

use crate::bell::Bell;
use crate::boundary::{
    duration, given, guard, lent, lent_slice, lent_text, place, taken_back, used_from_any_thread,
};
use crate::code::{Failure, Outcome, treefold_code, treefold_error};
use crate::signals::Blocked;
use crate::stream::treefold_stream;
use std::env;
use std::ffi::{c_char, c_int};
use std::mem::{MaybeUninit, offset_of};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;
use treefold::endpoint::AcceptError;
use treefold::{ClusterOptions, StartError};
use treefold_network::attach::ATTACH_TIMEOUT;
use treefold_network::launch::Token;
use treefold_network::launch::command::TOKEN_VARIABLE;
use treefold_network::{AttachError, Attached, Attachment, attach};

/// What attaches, and where. Set it to zero and fill in what is needed: all that is zero or null has a default, save
/// `size`, `at`, `service` and `endpoints`. It is read during the call only.
#[repr(C)]
pub struct treefold_attachment {
    /// Its size, `sizeof(treefold_attachment)`: says which fields the program knows of. Later versions may add some at
    /// the end; a program that was compiled before then has their defaults.
    pub size: usize,
    /// Nodes of the network as "host:port", any of them; they are tried in turn.
    pub at: *const *const c_char,
    /// How many.
    pub at_count: usize,
    /// The cluster's name; "treefold" by default.
    pub cluster: *const c_char,
    /// The service that streams are opened to.
    pub service: *const c_char,
    /// Which of the service's endpoints the program is, from 0. Each gets streams of its own.
    pub endpoints: *const u32,
    /// How many.
    pub endpoint_count: usize,
    /// How many endpoints the service has in all; by default one more than the highest here.
    pub total: u32,
    /// Where to listen, "host:port"; by default a free port of the address that the network was reached from.
    pub listen: *const c_char,
    /// Where others reach it, when that is not where it listens.
    pub advertise: *const c_char,
    /// The rack it stands in.
    pub rack: *const c_char,
    /// The zone it stands in.
    pub zone: *const c_char,
    /// How long attaching may take: -1 for ever, 0 for ten seconds. A network that is not there yet is waited for.
    pub timeout_ms: i64,
    /// The cluster's token; by default the environment's TREEFOLD_TOKEN. Without either, only a cluster that has none
    /// takes the program in.
    pub token: *const c_char,
}

/// Bytes of the first version of [`treefold_attachment`], which all programs fill in.
const SIZE_LEAST: usize = offset_of!(treefold_attachment, token);
/// A larger one is no size, but memory that was not set.
const SIZE_MAX: usize = 4 << 10;

/// A program's place in a network.
pub struct treefold_attached {
    attached: Attached,
    bell: Arc<Bell>,
}

const _: () = used_from_any_thread::<treefold_attached>();

/// Attaches the program, as one thread beside its own, and waits until streams may be opened to it. Null when that
/// fails. The result is the caller's, to be given to treefold_detach. From any thread.
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

/// Gives out the next stream that was opened to the program. TREEFOLD_AGAIN when none was within the time,
/// TREEFOLD_OVER when the node has ended. The stream is the caller's, to be given to treefold_stream_close. From any
/// thread, several at a time.
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

/// A file descriptor that is readable when something may have come: a stream, a packet, room to send, an end. For poll,
/// epoll, kqueue and select; it is the library's, and must not be read or closed. When it is readable, call
/// treefold_event_clear first, then look at everything with a time of 0 until there is TREEFOLD_AGAIN. -1 for null. From
/// any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_event_fd(attached: *const treefold_attached) -> c_int {
    // SAFETY: the caller lends a handle, or null.
    unsafe { lent("attached", attached) }.map_or(-1, |it| it.bell.descriptor())
}

/// Makes the file descriptor of treefold_event_fd quiet until something comes again. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_event_clear(
    attached: *const treefold_attached,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends a handle and a place for an error, or null.
    unsafe { guard(error, || lent("attached", attached).map(|it| it.bell.clear())) }
}

/// Leaves the network in order: the others hear of it at once and go on without the program. What it has sent is
/// written, for `grace_ms` at most; TREEFOLD_AGAIN says that this was too short. The handle is gone in any case, and no
/// other call on it may be under way. Streams that were accepted are over, and are still to be closed. Does nothing with
/// null. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_detach(
    attached: *mut treefold_attached,
    grace_ms: i64,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller gives back a handle that it had from us, or null.
        let it = unsafe { taken_back(attached) };
        // Only now: the handle is gone, whatever else is wrong.
        let grace = duration("grace_ms", grace_ms)?;
        let Some(it) = it else { return Ok(()) };
        let treefold_attached { attached, bell: _kept } = *it;
        if attached.detach_within(grace) {
            return Ok(());
        }
        Err(Failure::new(treefold_code::TREEFOLD_AGAIN, "what was being sent was cut off"))
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// An attachment as this library knows it: what the program doesn't know of has its default, and so has what only the
/// program knows of.
///
/// # Safety
/// `attachment` is null, or points to as many bytes as its `size` says.
unsafe fn whole(attachment: *const treefold_attachment) -> Outcome<treefold_attachment> {
    let known = size_of::<treefold_attachment>();
    // SAFETY: as the caller promises; `size` is the first field.
    let size = *unsafe { lent("attachment", attachment.cast::<usize>())? };
    if !(SIZE_LEAST..=SIZE_MAX).contains(&size) {
        let problem = format_args!("is {size}; allowed: {known}, the size of a treefold_attachment");
        return Err(Failure::argument("attachment.size", problem));
    }
    // SAFETY: as the caller promises.
    let given = unsafe { lent_slice("attachment", attachment.cast::<u8>(), size)? };
    let (ours, theirs) = given.split_at(size.min(known));
    if let Some(at) = theirs.iter().position(|&byte| byte != 0) {
        let problem = format_args!("byte {} is set, and this library knows {known} of them", known + at);
        return Err(Failure::argument("attachment.size", problem));
    }
    let mut whole = MaybeUninit::<treefold_attachment>::zeroed();
    // SAFETY: both are as long, and do not overlap; zero is a value of each field, and so is what the program has set.
    unsafe {
        ptr::copy_nonoverlapping(ours.as_ptr(), whole.as_mut_ptr().cast(), ours.len());
        Ok(whole.assume_init())
    }
}

/// # Safety
/// `attachment` is null, or points to a whole one, whose pointers are null or point to what their fields say.
unsafe fn read(attachment: *const treefold_attachment) -> Outcome<Attachment> {
    // SAFETY: as the caller promises.
    let given = unsafe { whole(attachment)? };
    // SAFETY: as the caller promises of each of these.
    let text = |name, pointer| unsafe { lent_text(name, pointer) };
    // SAFETY: the same.
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
    result = result.cluster(cluster.token(token(text("attachment.token", given.token)?)?));
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

/// The token that the program gives, else the environment's.
fn token(given: Option<&str>) -> Outcome<Option<Token>> {
    let of_environment = || env::var(TOKEN_VARIABLE).ok().map(|text| (TOKEN_VARIABLE, text));
    let given = given.map(|text| ("attachment.token", text.to_owned())).or_else(of_environment);
    let read = |(name, text)| {
        Token::new(text)
            .ok_or_else(|| Failure::argument(name, "is none; allowed: 1 to 1024 bytes, on one line"))
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
            | StartError::Address { .. },
        ) => treefold_code::TREEFOLD_INVALID,
        _ => treefold_code::TREEFOLD_START,
    };
    // A field's name is that of the C struct's.
    match error {
        AttachError::Field { field, problem } => Failure::argument(&format!("attachment.{field}"), problem),
        error => Failure::new(code, error),
    }
}
