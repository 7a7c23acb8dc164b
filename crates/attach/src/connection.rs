//! A front-end's connection to a network: it opens streams, and receives from all of them.

use crate::boundary::{
    copy_out, duration, given, guard, guard_silently, lent, lent_slice, lent_text, place, taken_back,
    used_from_any_thread, whole, zeroable,
};
use crate::code::{Failure, Outcome, treefold_code, treefold_error};
use crate::hub::Hub;
use crate::network::token;
use crate::signals::Blocked;
use crate::wave::{self, treefold_wave};
use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use treefold::{Client, ClusterOptions, Error};
use treefold_network::Network;

/// Default time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that the processes of a network have to end after the last of its front-end's handles is freed.
const DOWN_GRACE: Duration = Duration::from_secs(2);
/// Time between two attempts to reach a network that has not started yet.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);

/// The connection of a front-end. Set it to zero and fill in the needed fields. Every field that is zero or
/// null has a default, except `size` and `at`. It is read only during the call.
#[repr(C)]
pub struct treefold_connecting {
    /// The size of this structure, `sizeof(treefold_connecting)`, as in a treefold_attachment.
    pub size: usize,
    /// Nodes of the network, any of them, as "host:port".
    pub at: *const *const c_char,
    /// Length of `at`.
    pub at_count: usize,
    /// The cluster's name. Default: "treefold".
    pub cluster: *const c_char,
    /// The cluster's token. Default: the environment variable TREEFOLD_TOKEN.
    pub token: *const c_char,
    /// Time limit for connecting. -1: for ever. 0: ten seconds. The call also waits for a network that
    /// starts later.
    pub timeout_ms: i64,
}

// Pointers and numbers.
zeroable!(treefold_connecting);

/// Size of the first version of [`treefold_connecting`].
const SIZE_LEAST: usize = offset_of!(treefold_connecting, timeout_ms) + size_of::<i64>();

/// The parts that a connection and its streams use together. The last of them ends the threads.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) hub: Arc<Hub>,
    /// The network that treefold_up started, until its end.
    pub(crate) network: Option<Network>,
    pub(crate) runtime: Runtime,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(network) = self.network.take() {
            self.runtime.block_on(network.down(DOWN_GRACE));
        }
    }
}

/// A front-end's connection to a network.
pub struct treefold_connection {
    pub(crate) shared: Arc<Shared>,
}

const _: () = used_from_any_thread::<treefold_connection>();

/// Connects a front-end, and waits until a node of the network is in sight. The connection has two threads of its own.
/// Returns null on failure. The caller owns the result and must give it to treefold_disconnect. May be called from any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_connect(
    connecting: *const treefold_connecting,
    error: *mut treefold_error,
) -> *mut treefold_connection {
    let mut handle = ptr::null_mut();
    let body = || {
        // SAFETY: the caller lends these options, or null, and all that they point to.
        let (at, cluster, timeout) = unsafe { read(connecting)? };
        handle = given(treefold_connection::begin(|runtime| {
            Ok((connect(runtime, &at, &cluster, timeout)?, None))
        })?);
        Ok(())
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) };
    handle
}

impl treefold_connection {
    /// Starts a connection's threads, and reaches or starts its network on them.
    pub(crate) fn begin(reach: impl FnOnce(&Runtime) -> Outcome<(Client, Option<Network>)>) -> Outcome<Self> {
        let start = |error: std::io::Error| Failure::new(treefold_code::TREEFOLD_START, error);
        let hub = Arc::new(Hub::new().map_err(start)?);
        let _blocked = Blocked::new();
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("tf-front").enable_all().build();
        let runtime = runtime.map_err(start)?;
        let (client, network) = reach(&runtime)?;
        Ok(Self { shared: Arc::new(Shared { client, hub, network, runtime }) })
    }
}

/// Gets the next wave of any stream of the connection, and sets `context` to that of the stream's
/// treefold_opening. Streams with waves take turns. TREEFOLD_AGAIN: none arrived in that time. TREEFOLD_OVER: the
/// stream with this context is over, and all its waves have been received; each end is reported once. The caller owns the
/// wave and must give it to treefold_wave_free. May be called from any thread, and from several at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_recv_any(
    connection: *const treefold_connection,
    timeout_ms: i64,
    context: *mut *mut c_void,
    wave: *mut *mut treefold_wave,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends a handle and two places, or null.
        let (it, context, place) =
            unsafe { (lent("connection", connection)?, place("context", context)?, place("wave", wave)?) };
        place.write(ptr::null_mut());
        let Some((of, taken)) = it.shared.hub.take_any(duration("timeout_ms", timeout_ms)?) else {
            return Err(wave::none());
        };
        context.write(ptr::with_exposed_provenance_mut(of));
        place.write(wave::handle(taken)?);
        Ok(())
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// A file descriptor that is readable when there may be news of any stream: a wave or an end. Use it like that of
/// treefold_event_fd: when it is readable, call treefold_connection_clear first, then treefold_recv_any with a time of 0
/// until it returns TREEFOLD_AGAIN. Returns -1 for null. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_connection_fd(connection: *const treefold_connection) -> c_int {
    // SAFETY: the caller lends a handle, or null.
    unsafe { lent("connection", connection) }.map_or(-1, |it| it.shared.hub.bell.descriptor())
}

/// Makes the descriptor of treefold_connection_fd unreadable until there is news again. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_connection_clear(
    connection: *const treefold_connection,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends a handle and a place for an error, or null.
    unsafe { guard(error, || lent("connection", connection).map(|it| it.shared.hub.bell.clear())) }
}

/// Copies the address of the node that hosts an endpoint of a service, as in "10.0.0.7:7700" with a zero byte at its end, to
/// `addr`, as treefold_packet_i64s copies an array. TREEFOLD_INVALID: the service has no such endpoint in sight. May be called
/// from any thread, and from several at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_endpoint_addr(
    connection: *const treefold_connection,
    service: *const c_char,
    endpoint: u32,
    addr: *mut c_char,
    capacity: usize,
    count: *mut usize,
    error: *mut treefold_error,
) -> treefold_code {
    let body = || {
        // SAFETY: the caller lends a handle and a text, or null.
        let (it, service) = unsafe { (lent("connection", connection)?, lent_text("service", service)?) };
        let service = service.ok_or_else(|| Failure::argument("service", "is null"))?;
        let status =
            it.shared.runtime.block_on(it.shared.client.status()).map_err(|error| refused(&error))?;
        let mut cards = std::iter::once(&status.card).chain(status.members.iter().map(|member| &member.card));
        let host = cards
            .find(|card| card.services.get(service).is_some_and(|held| held.partitions.contains(endpoint)));
        let host = host.ok_or_else(|| {
            Failure::argument("endpoint", format_args!("{endpoint} of service {service:?} is not in sight"))
        })?;
        let text: Vec<c_char> =
            host.node.addr.to_string().bytes().chain([0]).map(|byte| byte as c_char).collect();
        // SAFETY: the caller lends these places, or null.
        unsafe { copy_out((addr, capacity), count, text.into_iter()) }
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) }
}

/// Frees a connection. Its streams stay open until they are closed. No other call on the connection may be running. Null
/// is ignored. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_disconnect(connection: *mut treefold_connection) {
    // SAFETY: the caller gives back a handle that it got from us, or null.
    guard_silently(|| drop(unsafe { taken_back(connection) }));
}

/// # Safety
/// `connecting` is null, or points to complete options, whose pointers are null or as their fields' docs require.
unsafe fn read(connecting: *const treefold_connecting) -> Outcome<(Vec<String>, ClusterOptions, Duration)> {
    // SAFETY: as the caller promises.
    let given = unsafe { whole("connecting", connecting, SIZE_LEAST)? };
    // SAFETY: as the caller promises for each of these pointers.
    let text = |name, pointer| unsafe { lent_text(name, pointer) };
    // SAFETY: as above.
    let addrs = unsafe { lent_slice("connecting.at", given.at, given.at_count)? };
    if addrs.is_empty() {
        return Err(Failure::argument("connecting.at", "is empty"));
    }
    let mut at = Vec::with_capacity(addrs.len());
    for &addr in addrs {
        let addr = text("connecting.at", addr)?;
        at.push(addr.ok_or_else(|| Failure::argument("connecting.at", "holds a null"))?.to_owned());
    }
    let cluster = text("connecting.cluster", given.cluster)?;
    let cluster = cluster.map_or_else(ClusterOptions::default, ClusterOptions::new);
    let cluster = cluster.token(token("connecting.token", text("connecting.token", given.token)?)?);
    let timeout = match duration("connecting.timeout_ms", given.timeout_ms)? {
        Duration::ZERO => CONNECT_TIMEOUT,
        timeout => timeout,
    };
    Ok((at, cluster, timeout))
}

/// Connects, and tries again until the time is up, because tools are often started before their network.
fn connect(runtime: &Runtime, at: &[String], cluster: &ClusterOptions, timeout: Duration) -> Outcome<Client> {
    let until = Instant::now().checked_add(timeout);
    loop {
        // The first node to answer says whether cluster and token match, and a front-end needs its own loop only then.
        let knock = Client::builder().at(at).cluster(cluster.clone()).connect();
        let direct = Client::builder().at(at).cluster(cluster.clone()).direct(true);
        let connected = runtime.block_on(async {
            knock.await?;
            direct.connect().await
        });
        let error = match connected {
            Ok(client) => return Ok(client),
            Err(error) => error,
        };
        let may_come = matches!(error, Error::Connect { .. } | Error::NoMembers { .. } | Error::Lost);
        if !may_come || until.is_some_and(|until| Instant::now() + CONNECT_PAUSE > until) {
            return Err(refused(&error));
        }
        std::thread::sleep(CONNECT_PAUSE);
    }
}

fn refused(error: &Error) -> Failure {
    let code = match error {
        Error::Connect { .. } | Error::NoMembers { .. } | Error::Lost | Error::FrontSilent { .. } => {
            treefold_code::TREEFOLD_UNREACHABLE
        }
        Error::Handshake { .. } => treefold_code::TREEFOLD_REFUSED,
        Error::Start(_) => treefold_code::TREEFOLD_START,
        _ => treefold_code::TREEFOLD_INVALID,
    };
    Failure::new(code, error)
}
