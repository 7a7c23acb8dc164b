//! Networks of back-ends, one process and one endpoint each; this process is their front-end.
//!
//! A network can start in two ways. A tool's network is started from a topology (`FrontEnd::over_topology`,
//! as `treefold up` does): the front-end starts its children, each inner process starts its own, and they attach. The nodes of a
//! cluster ([`FrontEnd::of_cluster`]) find each other by gossip, can come back after they were killed, and need
//! longer to know each other. The same streams are opened over either kind, in any shape.

use crate::commands::{connect, failure_of, up};
use crate::exit::Failure;
use crate::fleet::processes::Processes;
use crate::fleet::{Fleet, Placement};
use crate::serve::pulse::Part;
use std::time::{Duration, Instant};
use treefold::{Client, Error, Node, PartitionSet, Stream, StreamBuilder};
use treefold_network::Network;
use treefold_network::launch::command::node_command;
use treefold_network::launch::{Launcher, UpOptions};
pub use treefold_network::topology::generate::Layout;
use treefold_network::topology::generate::{Placement as Places, generate};
use treefold_network::topology::host::Host;
use treefold_network::topology::{Bounds, Topology};

/// Limit on the time until a stream includes all back-ends.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval between two checks whether all back-ends are present.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Time that the processes of a network have to end.
const END_GRACE: Duration = Duration::from_secs(5);

/// Opens streams over back-ends.
pub struct FrontEnd {
    client: Client,
    backends: u32,
}

/// A network that was started from a topology.
pub struct Started {
    network: Network,
    pub nodes: Processes,
    /// Time from the first process's start until all had attached.
    pub up: Duration,
    /// When the first process was started.
    pub started_at: Instant,
}

impl Started {
    /// Ends all processes.
    async fn end(self) {
        self.network.down(END_GRACE).await;
    }
}

impl FrontEnd {
    /// Starts a network in this layout, with a random token or without one, runs `measure` on it, and then ends its processes
    /// even if that failed.
    pub async fn during<T>(
        backends: u32,
        layout: &Layout,
        has_token: bool,
        measure: impl AsyncFnOnce(&Self, &Started) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (front_end, started) = Self::over_topology(backends, layout, has_token).await?;
        let measured = measure(&front_end, &started).await;
        started.end().await;
        measured
    }

    /// Starts the processes of a generated topology, all on this machine.
    ///
    /// In a flat one all back-ends are children of this process, and each stream decides which of them fold for others.
    async fn over_topology(
        backends: u32,
        layout: &Layout,
        has_token: bool,
    ) -> Result<(Self, Started), Failure> {
        let topology = topology_here(layout, backends)?;
        let others = topology.processes().len() - 1;
        let own = crate::own_program()
            .map_err(|error| Failure::failed(format!("can't find the path of this program: {error}")))?;
        let node = node_command(&[own.to_string_lossy().into_owned()]);
        let serve =
            ["--serve".to_owned(), format!("{}:partitions={{number}}/{{total}}", treefold_micro::SERVICE)];
        let mut options = UpOptions::new(node.clone(), node.into_iter().chain(serve).collect());
        options.launcher = Launcher::Local;
        options.token = has_token.then(up::drawn_token).transpose()?;
        options.timeout = OPEN_TIMEOUT;
        options.node = Node::builder().workers(1);
        let started_at = Instant::now();
        let network = Network::up(topology, options).await;
        let network = network.map_err(|error| Failure::failed(error.to_string()))?;
        let up = started_at.elapsed();
        let front_end = Self { client: network.client(), backends };
        let nodes = Processes::new(network.children().iter().cloned()).with_descendants()?;
        if nodes.len() < others {
            let found = nodes.len();
            network.down(END_GRACE).await;
            return Err(Failure::failed(format!("found {found} running processes, expected {others}")));
        }
        Ok((front_end, Started { network, nodes, up, started_at }))
    }

    /// Starts the nodes of a cluster.
    ///
    /// Returns once this process has all of them in sight.
    pub async fn of_cluster(backends: u32) -> Result<(Self, Fleet), Failure> {
        let fleet = Fleet::start(Placement::one_each(backends)).await?;
        let client = connect(&[fleet.first_addr().to_owned()], true, fleet.cluster()).await?;
        let give_up_at = Instant::now() + OPEN_TIMEOUT;
        loop {
            let in_sight = client.status().await.map_err(failure_of)?.members.len();
            if in_sight >= backends as usize {
                return Ok((Self { client, backends }, fleet));
            }
            if Instant::now() >= give_up_at {
                return Err(Failure::failed(format!(
                    "{in_sight} of {backends} back-ends in sight after {OPEN_TIMEOUT:?}"
                )));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Opens a stream over all back-ends with the given part, and with every endpoint in it from the start.
    ///
    /// A stream that opened without some of them is closed and opened again, because an endpoint that joins
    /// late gives the tree another shape than the requested one.
    pub async fn open(
        &self,
        part: Part,
        lay_out: impl Fn(StreamBuilder) -> StreamBuilder,
    ) -> Result<Stream, Failure> {
        let all = PartitionSet::first(self.backends);
        let give_up_at = Instant::now() + OPEN_TIMEOUT;
        loop {
            let builder = self.client.stream(treefold_micro::SERVICE).params(&part).endpoints(all.clone());
            let problem = match lay_out(builder).open().await {
                Ok(stream) if *stream.endpoints() == all => return Ok(stream),
                Ok(stream) => format!("{} of {} take part", stream.endpoints().len(), self.backends),
                Err(error @ Error::Stream(_)) => error.to_string(),
                Err(error) => return Err(failure_of(error)),
            };
            if Instant::now() >= give_up_at {
                return Err(Failure::failed(format!("no stream over all after {OPEN_TIMEOUT:?}: {problem}")));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
}

/// The topology of a layout with all processes on this machine.
fn topology_here(layout: &Layout, backends: u32) -> Result<Topology, Failure> {
    let localhost = Host::new("localhost").expect("invariant: localhost is a name");
    let places = Places {
        front_end: localhost.clone(),
        hosts: vec![localhost],
        inner_hosts: Vec::new(),
        slots: backends,
        back_ends: Some(backends),
    };
    generate(layout, &places, &Bounds::DEFAULT).map_err(|error| Failure::usage(error.to_string()))
}
