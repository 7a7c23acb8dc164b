//! The native part of the Python package `treefold`.
//!
//! The package's Python files have the interface: names, documentation, exceptions, replies. This extension has what needs
//! the library. It does three things:
//!
//! ```text
//!   Python ──▶ client, node ──▶ Pending: a future ──▶ wait (polls it, and serves signals), or a callback by the runtime
//!   Python ◀── operator ◀────── a node's worker thread, which attaches to the interpreter for one run
//!   Python ◀─▶ payload, row ──▶ bytes that travel
//! ```
//!
//! - `runtime`: the threads on which connections live. `pending`: how Python waits.
//! - `client`, `node`, `network`: the library's clients, nodes, embedded clusters, and networks that are started from a
//!   topology. `options`: what they share.
//! - `operator`: Python functions as locals and reduces. `endpoint`: Python as the endpoints of streams.
//! - `slices`, `stream`, `mirror`, `push`: readers of sliced calls, front-ends of streams, readers of feeds, workers that push. `inbox`: how Python takes what
//!   streams and readers give.
//! - `payload`: values as MessagePack and back. `row`: values as typed packets and back. `sample`: values as partials of
//!   ready reduces.
//! - `reply`: outcomes as tuples. `error`: errors as exceptions of the package.
//! - `detached`: values whose end may wait for threads. `ending`: the end of the interpreter. `command`: the command line, if built with it.
//!
//! No thread waits for anything else while it is attached to the interpreter, so neither the interpreter's lock nor a node
//! can hold up the other for ever.

mod client;
#[cfg(feature = "command")]
mod command;
mod detached;
mod ending;
mod endpoint;
mod error;
mod inbox;
mod mirror;
mod network;
mod node;
mod operator;
mod options;
mod payload;
mod pending;
mod push;
mod reply;
mod row;
mod runtime;
mod sample;
mod slices;
mod stream;

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The interpreter that a process begins with.
const MAIN_INTERPRETER: i64 = 0;
const SUBINTERPRETER: &str = "treefold can't be used in a subinterpreter, because its threads call the main interpreter; \
     import it there, or in a process of its own";

/// The native part of treefold; use the package `treefold` instead.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // SAFETY: this thread is attached to the interpreter that imports the module.
    let interpreter = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    if interpreter != MAIN_INTERPRETER {
        return Err(PyImportError::new_err(SUBINTERPRETER));
    }
    module.add_class::<client::Client>()?;
    module.add_class::<node::Node>()?;
    module.add_class::<node::Cluster>()?;
    module.add_class::<endpoint::Acceptor>()?;
    module.add_class::<endpoint::Endpoint>()?;
    module.add_class::<mirror::Reader>()?;
    module.add_class::<network::Network>()?;
    module.add_class::<operator::Partition>()?;
    module.add_class::<pending::Pending>()?;
    module.add_class::<push::Worker>()?;
    module.add_class::<slices::Slices>()?;
    module.add_class::<stream::Stream>()?;
    module.add_function(wrap_pyfunction!(client::connect, module)?)?;
    module.add_function(wrap_pyfunction!(push::attach, module)?)?;
    module.add_function(wrap_pyfunction!(node::start_node, module)?)?;
    module.add_function(wrap_pyfunction!(node::start_cluster, module)?)?;
    module.add_function(wrap_pyfunction!(network::raise_network, module)?)?;
    module.add_function(wrap_pyfunction!(operator::cancelled, module)?)?;
    module.add_function(wrap_pyfunction!(operator::reduces, module)?)?;
    module.add_function(wrap_pyfunction!(payload::pack, module)?)?;
    module.add_function(wrap_pyfunction!(payload::unpack, module)?)?;
    module.add_function(wrap_pyfunction!(ending::begin_ending, module)?)?;
    module.add_function(wrap_pyfunction!(log_to_stderr, module)?)?;
    #[cfg(feature = "command")]
    module.add_function(wrap_pyfunction!(command::run_command, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}

/// Logs to standard error what the environment variable TREEFOLD_LOG names; by default, warnings.
#[pyfunction]
fn log_to_stderr() {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("TREEFOLD_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    // If the process logs already, it goes on as it does.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
}
