//! A network that a front-end starts from a topology file.

use crate::boundary::{duration, given, guard, lent_slice, lent_text, whole, zeroable};
use crate::code::{Failure, Outcome, treefold_code, treefold_error};
use crate::connection::treefold_connection;
use crate::network::token;
use std::ffi::{c_char, c_int};
use std::mem::offset_of;
use std::ptr;
use std::time::Duration;
use treefold_network::launch::options::TIMEOUT_DEFAULT;
use treefold_network::launch::{Launcher, Token};
use treefold_network::topology::Topology;
use treefold_network::{Network, UpError, UpOptions};

/// A network to start. Set it to zero and fill in the needed fields. Every field that is zero or null has a default, except
/// `size` and `topology`. It is read only during the call.
#[repr(C)]
pub struct treefold_raising {
    /// The size of this structure, `sizeof(treefold_raising)`, as in a treefold_attachment.
    pub size: usize,
    /// Path of the topology file.
    pub topology: *const c_char,
    /// The command of each back-end, its words, the program first. In them, {attach} is replaced by the address to attach to,
    /// {number} by the back-end's number, {total} by the number of back-ends, and {place} by its name in the topology. Default:
    /// back-ends serve "echo", endpoints that send each packet back.
    pub back_end: *const *const c_char,
    /// Length of `back_end`.
    pub back_end_count: usize,
    /// The command treefold, which inner processes run, on each host. Default: "treefold", on the PATH.
    pub program: *const c_char,
    /// The network's token. Default: the environment variable TREEFOLD_TOKEN, or else one that is drawn at random.
    pub token: *const c_char,
    /// The front-end's listening address, "host:port". Default: a free port, of the loopback address if all processes run here.
    pub listen: *const c_char,
    /// The address at which other processes reach the front-end.
    pub advertise: *const c_char,
    /// Not 0: start all processes on this host, even if the topology names other hosts.
    pub local: c_int,
    /// Not 0: accept a network in which some processes did not start.
    pub allow_failures: c_int,
    /// Time limit for the start of all processes. -1: for ever. 0: thirty seconds.
    pub timeout_ms: i64,
}

// Pointers and numbers.
zeroable!(treefold_raising);

/// Size of the first version of [`treefold_raising`].
const SIZE_LEAST: usize = offset_of!(treefold_raising, timeout_ms) + size_of::<i64>();

/// Starts a network from a topology file, with this program as its front-end, and waits until all processes have attached.
/// Streams follow the topology, and its inner processes fold. Returns null on failure; the error names a process that did not
/// attach. The caller owns the result and must give it to treefold_disconnect; the network ends when that and all streams of the
/// connection are closed, or with this program. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_up(
    raising: *const treefold_raising,
    error: *mut treefold_error,
) -> *mut treefold_connection {
    let mut handle = ptr::null_mut();
    let body = || {
        // SAFETY: the caller lends these options, or null, and all that they point to.
        let (topology, options) = unsafe { read(raising)? };
        let connection = treefold_connection::begin(|runtime| {
            // Local processes end with the thread that started them, so it is one of the connection's.
            let raised = runtime.block_on(runtime.spawn(Network::up(topology, options)));
            let raised = raised.map_err(|panic| Failure::new(treefold_code::TREEFOLD_BROKEN, panic))?;
            let network = raised.map_err(|problem| refused(&problem))?;
            Ok((network.client(), Some(network)))
        })?;
        handle = given(connection);
        Ok(())
    };
    // SAFETY: the caller lends a place for an error, or null.
    unsafe { guard(error, body) };
    handle
}

/// # Safety
/// `raising` is null, or points to complete options, whose pointers are null or as their fields' docs require.
unsafe fn read(raising: *const treefold_raising) -> Outcome<(Topology, UpOptions)> {
    // SAFETY: as the caller promises.
    let given = unsafe { whole("raising", raising, SIZE_LEAST)? };
    // SAFETY: as the caller promises for each of these pointers.
    let text = |name, pointer| unsafe { lent_text(name, pointer) };
    let path = text("raising.topology", given.topology)?;
    let path = path.ok_or_else(|| Failure::argument("raising.topology", "is null"))?;
    let wrong = |problem: String| Failure::argument("raising.topology", problem);
    let file = std::fs::read_to_string(path).map_err(|error| wrong(format!("can't read {path}: {error}")))?;
    let topology: Topology = file.parse().map_err(|problem| wrong(format!("{path}: {problem}")))?;
    // SAFETY: as above.
    let words = unsafe { lent_slice("raising.back_end", given.back_end, given.back_end_count)? };
    let mut back_end = Vec::with_capacity(words.len());
    for &word in words {
        let word = text("raising.back_end", word)?;
        back_end.push(word.ok_or_else(|| Failure::argument("raising.back_end", "holds a null"))?.to_owned());
    }
    let program = text("raising.program", given.program)?.unwrap_or("treefold");
    let mut options = UpOptions::of_program(&[program.to_owned()], back_end);
    let drawn = || Token::drawn().map_err(|error| Failure::new(treefold_code::TREEFOLD_START, error));
    let token = token("raising.token", text("raising.token", given.token)?)?;
    options.token = Some(token.map_or_else(drawn, Ok)?);
    options.listen = text("raising.listen", given.listen)?.map(str::to_owned);
    options.advertise = text("raising.advertise", given.advertise)?.map(str::to_owned);
    if given.local != 0 {
        options.launcher = Launcher::Local;
    }
    options.allow_failures = given.allow_failures != 0;
    options.timeout = match duration("raising.timeout_ms", given.timeout_ms)? {
        Duration::ZERO => TIMEOUT_DEFAULT,
        timeout => timeout,
    };
    Ok((topology, options))
}

fn refused(problem: &UpError) -> Failure {
    let code = match problem {
        UpError::BadOption { .. } => treefold_code::TREEFOLD_INVALID,
        UpError::Failed { .. } => treefold_code::TREEFOLD_UNREACHABLE,
        _ => treefold_code::TREEFOLD_START,
    };
    Failure::new(code, problem)
}
