//! Nodes, and clusters of nodes in this process.

use crate::client::Client;
use crate::detached::Detached;
use crate::ending;
use crate::endpoint::Acceptor;
use crate::error;
use crate::operator::{AggregationSpec, Data};
use crate::options::Secrets;
use crate::pending::{Finish, Pending};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use treefold::endpoint::{Accepting, accept};
use treefold::{LoadPartition, NodeBuilder, Operator, PartitionData};

/// A service, as the package's Python part describes it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ServiceSpec {
    name: String,
    total: Option<u32>,
    aggregations: Vec<AggregationSpec>,
    /// True if the partitions are endpoints of streams as well.
    endpoints: bool,
    /// True if the partitions are workers that attach and push.
    pushed: bool,
    partitions: BTreeMap<u32, Py<PyAny>>,
    /// Loads a partition, if the nodes share the partitions among themselves.
    loader: Option<Py<PyAny>>,
    /// Copies of each partition that is shared.
    replicas: u32,
}

/// A node's settings, as the package's Python part describes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct NodeSpec {
    listen: String,
    advertise: Option<String>,
    join: Vec<String>,
    rack: String,
    zone: String,
    name: String,
    processors: Option<u32>,
    relay: bool,
    record: Option<PathBuf>,
    secrets: Secrets,
    service: ServiceSpec,
}

/// A service whose functions can be shared by several nodes.
#[derive(Clone)]
struct Plan {
    name: String,
    total: Option<u32>,
    operators: Vec<(String, Arc<dyn Operator>)>,
    partitions: BTreeMap<u32, Arc<Data>>,
    accepting: Option<Accepting>,
    pushed: bool,
    loader: Option<Arc<Loader>>,
    replicas: u32,
}

/// The function that loads partitions.
struct Loader(Py<PyAny>);

impl Loader {
    fn load(&self, partition: u32) -> Result<PartitionData, String> {
        let loaded = ending::attach(|py| match self.0.bind(py).call1((partition,)) {
            Ok(data) => Ok(Arc::new(Data(data.unbind())) as PartitionData),
            Err(error) => Err(error.to_string()),
        });
        loaded.unwrap_or_else(|| Err("the interpreter is shutting down".to_owned()))
    }
}

/// A loader that several nodes share.
struct Shared(Arc<Loader>);

impl LoadPartition for Shared {
    fn load(&self, partition: u32) -> Result<PartitionData, String> {
        self.0.load(partition)
    }
}

impl Plan {
    /// The plan, and the acceptor of its endpoints' streams if it has any.
    fn of(py: Python<'_>, spec: ServiceSpec) -> PyResult<(Self, Option<Acceptor>)> {
        let operators = spec.aggregations.into_iter().map(|aggregation| aggregation.operator(py));
        let (accepting, acceptor) = spec.endpoints.then(accept).unzip();
        let plan = Self {
            name: spec.name,
            total: spec.total,
            operators: operators.collect::<PyResult<_>>()?,
            partitions: spec.partitions.into_iter().map(|(id, data)| (id, Arc::new(Data(data)))).collect(),
            accepting,
            pushed: spec.pushed,
            loader: spec.loader.map(|function| Arc::new(Loader(function))),
            replicas: spec.replicas,
        };
        Ok((plan, acceptor.map(|acceptor| Acceptor(Arc::new(acceptor)))))
    }

    /// The service, with the partitions that `holds` accepts.
    fn service(&self, holds: impl Fn(usize) -> bool) -> treefold::Service {
        let mut service = treefold::Service::new(&self.name);
        for (name, operator) in &self.operators {
            service = service.operator(name, Arc::clone(operator));
        }
        for (at, (&id, data)) in self.partitions.iter().enumerate() {
            if holds(at) {
                service = service.partition_arc(id, Arc::clone(data) as _);
                if let Some(accepting) = &self.accepting {
                    service = service.endpoints([id], accepting.clone());
                }
            }
        }
        if self.pushed {
            service = service.pushed();
        }
        if let Some(total) = self.total {
            service = service.total(total);
        }
        match &self.loader {
            Some(loader) => service.placed(self.replicas, Shared(Arc::clone(loader))),
            None => service,
        }
    }
}

/// A service without endpoints of streams, for a node that another part starts.
#[cfg(feature = "command")]
pub(crate) fn service_of(py: Python<'_>, spec: ServiceSpec) -> PyResult<treefold::Service> {
    let (plan, _) = Plan::of(py, spec)?;
    Ok(plan.service(|_| true))
}

/// Starts a node.
#[pyfunction]
pub(crate) fn start_node(py: Python<'_>, spec: NodeSpec) -> PyResult<Pending> {
    let (plan, acceptor) = Plan::of(py, spec.service)?;
    let mut builder = treefold::Node::builder()
        .listen(&spec.listen)
        .join(&spec.join)
        .rack(spec.rack)
        .zone(spec.zone)
        .name(spec.name)
        .cluster(spec.secrets.options()?)
        .service(plan.service(|_| true));
    if let Some(addr) = &spec.advertise {
        builder = builder.advertise(addr);
    }
    if spec.relay {
        builder = builder.relay();
    }
    if let Some(path) = spec.record {
        builder = builder.record(path);
    }
    builder = with_processors(builder, spec.processors);
    Ok(Pending::new(async move {
        let started = builder.start().await;
        let finish: Finish = Box::new(|py| {
            let node = started.map_err(|error| error::of_start(&error))?;
            let (addr, client) = (node.addr().to_string(), node.client());
            let acceptor = acceptor.map(|acceptor| Py::new(py, acceptor)).transpose()?;
            Ok(Py::new(
                py,
                Node {
                    addr,
                    acceptor,
                    client: Detached::new(client),
                    node: Detached::new(Mutex::new(Some(node))),
                },
            )?
            .into_any())
        });
        finish
    }))
}

fn with_processors(builder: NodeBuilder, processors: Option<u32>) -> NodeBuilder {
    match processors {
        Some(processors) => builder.processors(processors),
        None => builder,
    }
}

/// A running node.
#[pyclass(frozen, module = "treefold._native")]
pub(crate) struct Node {
    #[pyo3(get)]
    addr: String,
    #[pyo3(get)]
    acceptor: Option<Py<Acceptor>>,
    client: Detached<treefold::Client>,
    node: Detached<Mutex<Option<treefold::Node>>>,
}

impl Node {
    fn hold(&self, service: &str, id: u32, data: Option<PartitionData>) -> PyResult<Pending> {
        let handle = self.lock().as_ref().map(|node| node.handle().clone());
        let handle = handle.ok_or_else(|| error::raise("Closed", "the node has been shut down"))?;
        let service: Arc<str> = service.into();
        Ok(Pending::new(async move {
            let held = handle.hold(service, id, data).await;
            let finish: Finish = Box::new(|py| match held {
                Ok(()) => Ok(py.None()),
                Err(error) => Err(error::of_call(error)),
            });
            finish
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Option<treefold::Node>> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Node {
    /// A client of the node, without a socket.
    fn client(&self) -> Client {
        Client::of_node((*self.client).clone())
    }

    /// True until the node has ended.
    fn is_running(&self) -> bool {
        self.lock().as_ref().is_some_and(treefold::Node::is_running)
    }

    /// Adds a partition of a service, or replaces its data.
    fn add_partition(&self, service: &str, id: u32, data: Py<PyAny>) -> PyResult<Pending> {
        self.hold(service, id, Some(Arc::new(Data(data))))
    }

    /// Stops to announce a partition, and drops it later.
    fn drop_partition(&self, service: &str, id: u32) -> PyResult<Pending> {
        self.hold(service, id, None)
    }

    /// Ends the node in order, within `grace` seconds.
    fn stop(&self, grace: f64) -> PyResult<Pending> {
        let node = self.lock().take();
        let grace = Duration::try_from_secs_f64(grace).unwrap_or_default();
        Ok(Pending::new(async move {
            if let Some(node) = node {
                node.shutdown(grace).await;
            }
            none()
        }))
    }

    /// Ends the node at once.
    fn abort(&self, py: Python<'_>) {
        let node = self.lock().take();
        // The node's threads may need the interpreter to end.
        py.detach(|| drop(node));
    }
}

fn none() -> Finish {
    Box::new(|py| Ok(py.None()))
}

/// Starts `size` nodes in this process; partition i is at node i modulo `size`.
#[pyfunction]
pub(crate) fn start_cluster(
    py: Python<'_>,
    size: usize,
    service: ServiceSpec,
    processors: Option<u32>,
) -> PyResult<Pending> {
    let (plan, acceptor) = Plan::of(py, service)?;
    let services = move |node: usize| vec![plan.service(|at| at % size == node)];
    let builder = treefold::Cluster::embedded(size)
        .service(services)
        .configure(move |_, builder| with_processors(builder, processors));
    Ok(Pending::new(async move {
        let started = builder.start().await;
        let finish: Finish = Box::new(|py| {
            let cluster = started.map_err(|error| error::of_start(&error))?;
            let addrs = cluster.nodes().iter().map(|node| node.addr().to_string()).collect();
            let client = cluster.client(0);
            let acceptor = acceptor.map(|acceptor| Py::new(py, acceptor)).transpose()?;
            Ok(Py::new(
                py,
                Cluster {
                    addrs,
                    acceptor,
                    client: Detached::new(client),
                    cluster: Detached::new(Mutex::new(Some(cluster))),
                },
            )?
            .into_any())
        });
        finish
    }))
}

/// Nodes in this process.
#[pyclass(frozen, module = "treefold._native")]
pub(crate) struct Cluster {
    #[pyo3(get)]
    addrs: Vec<String>,
    #[pyo3(get)]
    acceptor: Option<Py<Acceptor>>,
    client: Detached<treefold::Client>,
    cluster: Detached<Mutex<Option<treefold::Cluster>>>,
}

impl Cluster {
    fn lock(&self) -> MutexGuard<'_, Option<treefold::Cluster>> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with node `at`, detached from the interpreter.
    fn with(&self, py: Python<'_>, at: usize, act: impl FnOnce(&treefold::Cluster) + Send) -> PyResult<()> {
        let done = py.detach(|| {
            let cluster = self.lock();
            let cluster = cluster.as_ref().ok_or(None)?;
            let nodes = cluster.nodes().len();
            if at >= nodes {
                return Err(Some(nodes));
            }
            act(cluster);
            Ok(())
        });
        // The lock is free by now: nobody may wait for the interpreter while holding it.
        done.map_err(|nodes| match nodes {
            None => error::raise("Closed", "the cluster is closed"),
            Some(nodes) => {
                let last = nodes.saturating_sub(1);
                pyo3::exceptions::PyIndexError::new_err(format!("node {at}; the nodes are 0 to {last}"))
            }
        })
    }
}

#[pymethods]
impl Cluster {
    /// A client of the first node, without a socket.
    fn client(&self) -> Client {
        Client::of_node((*self.client).clone())
    }

    /// Ends a node as `kill -9` would.
    fn kill(&self, py: Python<'_>, node: usize) -> PyResult<()> {
        self.with(py, node, |cluster| cluster.kill(node))
    }

    /// Makes a node stand still, as after SIGSTOP, or go on.
    fn stall(&self, py: Python<'_>, node: usize, stalled: bool) -> PyResult<()> {
        self.with(py, node, |cluster| cluster.nodes()[node].stall(stalled))
    }

    /// Ends all nodes in order.
    fn stop(&self) -> PyResult<Pending> {
        let cluster = self.lock().take();
        Ok(Pending::new(async move {
            if let Some(cluster) = cluster {
                cluster.shutdown().await;
            }
            none()
        }))
    }

    /// Ends all nodes at once.
    fn abort(&self, py: Python<'_>) {
        let cluster = self.lock().take();
        py.detach(|| drop(cluster));
    }
}
