//! Networks that are started from a topology file, with this process as their front-end.

use crate::client::Client;
use crate::detached::Detached;
use crate::error;
use crate::options::token_of;
use crate::pending::{Finish, Pending};
use crate::runtime;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use treefold::Token;
use treefold_network::launch::Launcher;
use treefold_network::topology::Topology;
use treefold_network::{UpError, UpOptions};

/// A network's options, as the package's Python part describes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct NetworkSpec {
    /// The text of the topology file.
    topology: String,
    /// The program `treefold`, which inner processes run.
    program: Vec<String>,
    /// The back-ends' command line; empty for the service `echo`.
    back_end: Vec<String>,
    local: bool,
    token: Option<String>,
    timeout: f64,
    allow_failures: bool,
    listen: Option<String>,
    advertise: Option<String>,
}

impl NetworkSpec {
    fn read(self) -> PyResult<(Topology, UpOptions)> {
        let refuse = |problem: String| error::raise("InvalidOption", problem);
        let topology: Topology =
            self.topology.parse().map_err(|problem| refuse(format!("topology: {problem}")))?;
        let token = match self.token {
            Some(text) => token_of(text)?,
            None => Token::drawn().map_err(|problem| refuse(format!("can't draw a token: {problem}")))?,
        };
        let mut options = UpOptions::of_program(&self.program, self.back_end);
        if self.local {
            options.launcher = Launcher::Local;
        }
        options.token = Some(token);
        options.timeout = Duration::try_from_secs_f64(self.timeout).unwrap_or(Duration::MAX);
        options.allow_failures = self.allow_failures;
        (options.listen, options.advertise) = (self.listen, self.advertise);
        Ok((topology, options))
    }
}

/// Starts a network, and waits until its processes have attached.
#[pyfunction]
pub(crate) fn raise_network(spec: NetworkSpec) -> PyResult<Pending> {
    let (topology, options) = spec.read()?;
    // Local processes end with the thread that started them, so it is one that lives as long as this process.
    let raising = runtime::handle()?.spawn(treefold_network::Network::up(topology, options));
    Ok(Pending::new(async move {
        let raised = raising.await;
        let finish: Finish = Box::new(|py| {
            let broken = |problem: tokio::task::JoinError| error::raise("StartFailed", problem.to_string());
            let network = raised.map_err(broken)?.map_err(|problem| of_up(&problem))?;
            Ok(Py::new(py, Network::of(network))?.into_any())
        });
        finish
    }))
}

fn of_up(problem: &UpError) -> PyErr {
    match problem {
        UpError::BadOption { .. } => error::raise("InvalidOption", problem.to_string()),
        UpError::Failed { failed, .. } => {
            let lines = failed.iter().map(|failed| format!("\n{failed}"));
            error::raise("StartFailed", std::iter::once(problem.to_string()).chain(lines).collect::<String>())
        }
        problem => error::raise("StartFailed", problem.to_string()),
    }
}

/// A running network.
#[pyclass(frozen, module = "treefold._native")]
pub(crate) struct Network {
    #[pyo3(get)]
    addr: String,
    /// Each process's name, its role, and its address if it is there.
    #[pyo3(get)]
    processes: Vec<(String, &'static str, Option<String>)>,
    /// Processes that did not attach, with the reason.
    #[pyo3(get)]
    failures: Vec<(String, String)>,
    client: Detached<treefold::Client>,
    network: Detached<Mutex<Option<treefold_network::Network>>>,
}

impl Network {
    fn of(network: treefold_network::Network) -> Self {
        let processes = network.topology().processes().iter().zip(network.addrs());
        let processes = processes
            .map(|(process, addr)| (process.name(), process.role.name(), addr.map(|addr| addr.to_string())));
        let failures = network.failures().iter().map(|failed| (failed.place.clone(), failed.what.clone()));
        Self {
            addr: network.node().addr().to_string(),
            processes: processes.collect(),
            failures: failures.collect(),
            client: Detached::new(network.client()),
            network: Detached::new(Mutex::new(Some(network))),
        }
    }
}

#[pymethods]
impl Network {
    /// The front-end's client, without a socket.
    fn client(&self) -> Client {
        Client::of_node((*self.client).clone())
    }

    /// Ends the network in order, within `grace` seconds.
    fn down(&self, grace: Option<f64>) -> PyResult<Pending> {
        let network = self.network.lock().unwrap_or_else(PoisonError::into_inner).take();
        let grace = Duration::try_from_secs_f64(grace.unwrap_or_default()).unwrap_or_default();
        let ending = runtime::handle()?.spawn(async move {
            if let Some(network) = network {
                network.down(grace).await;
            }
        });
        Ok(Pending::new(async move {
            let _ = ending.await;
            let finish: Finish = Box::new(|py| Ok(py.None()));
            finish
        }))
    }
}
