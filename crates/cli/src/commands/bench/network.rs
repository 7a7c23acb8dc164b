//! Networks of back-ends, one process and one endpoint each, whose front-end this process is.
//!
//! There are two ways for a network to come to be. A tool's network is started from a topology
//! ([`FrontEnd::over_topology`], as `treefold up` does): the front-end starts its processes, and they attach. And the
//! nodes of a cluster find each other by gossip ([`FrontEnd::of_cluster`]), come back after they have been killed, and
//! need longer to know each other. Either way the same streams are opened over them, in whatever shape.

use super::fleet::{Fleet, Placement};
use super::processes::Processes;
use crate::commands::{connect, failure_of, up};
use crate::exit::Failure;
use crate::serve::pulse::Part;
use std::time::{Duration, Instant};
use treefold::{Client, Error, Node, PartitionSet, Stream, StreamBuilder};
use treefold_network::Network;
use treefold_network::launch::{Launcher, UpOptions};

/// How long it may take until a stream has all back-ends in it.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);

/// Between two looks whether all are there.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// How long the processes of a network have to end.
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
    /// From the first process's start until all had attached.
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
    /// Measures over a network that is started from a topology, and ends its processes whatever comes of that.
    pub async fn during<T>(
        backends: u32,
        measure: impl AsyncFnOnce(&Self, &Started) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (front_end, started) = Self::over_topology(backends).await?;
        let measured = measure(&front_end, &started).await;
        started.end().await;
        measured
    }

    /// Starts all back-ends as children of this process. Which of them fold for others is each stream's business.
    async fn over_topology(backends: u32) -> Result<(Self, Started), Failure> {
        let text = format!("localhost:0 => localhost:[1-{backends}];");
        let topology = text.parse().expect("invariant: this is a topology");
        let own = std::env::current_exe()
            .map_err(|error| Failure::failed(format!("this program's own path can't be had: {error}")))?;
        let node = up::node_command(&own);
        let serve =
            ["--serve".to_owned(), format!("{}:partitions={{number}}/{{total}}", treefold_micro::SERVICE)];
        let mut options = UpOptions::new(node.clone(), node.into_iter().chain(serve).collect());
        options.launcher = Launcher::Local;
        options.token = Some(up::drawn_token()?);
        options.timeout = OPEN_TIMEOUT;
        options.node = Node::builder().workers(1);
        let started_at = Instant::now();
        let network = Network::up(topology, options).await;
        let network = network.map_err(|error| Failure::failed(error.to_string()))?;
        let up = started_at.elapsed();
        let front_end = Self { client: network.client(), backends };
        let nodes = Processes::new(network.children().iter().cloned());
        Ok((front_end, Started { network, nodes, up, started_at }))
    }

    /// Starts the nodes of a cluster; returns once this process has all of them in sight.
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

    /// A stream over all back-ends, which play this part, with everyone in it from the start: one that opened without
    /// some is closed and opened anew, since who joins late finds the tree in another shape than was asked for.
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
