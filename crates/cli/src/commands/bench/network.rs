//! A network of back-ends, one process and one endpoint each, and its front-end, which is this process.
//!
//! How a network comes to be is its constructor's business; whoever measures streams only asks it for streams. There
//! is one way so far: nodes that find each other by gossip ([`Network::by_gossip`]), which is what a cluster's nodes
//! do, and what most of the time until the first wave goes to.

use super::fleet::{Fleet, Placement};
use crate::commands::{connect, failure_of};
use crate::exit::Failure;
use crate::serve::pulse::Part;
use std::time::{Duration, Instant};
use treefold::{Client, Error, PartitionSet, Stream, StreamBuilder};

/// How long it may take until a stream has all back-ends in it.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);

/// Between two looks whether all are there.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Processes and a front-end over them.
pub(super) struct Network {
    pub(super) fleet: Fleet,
    pub(super) started: Started,
    client: Client,
    backends: u32,
}

/// What had happened how long after the first process was started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Started {
    /// All processes listened.
    pub(super) listening: Duration,
    /// The front-end had all of them in sight.
    pub(super) in_sight: Duration,
}

impl Network {
    /// Starts back-ends that join the first of them, and a front-end that does.
    pub(super) async fn by_gossip(backends: u32) -> Result<Self, Failure> {
        let fleet = Fleet::start(Placement::one_each(backends)).await?;
        let listening = fleet.started_at().elapsed();
        let client = connect(&[fleet.first_addr().to_owned()], true, fleet.cluster()).await?;
        let give_up_at = Instant::now() + OPEN_TIMEOUT;
        loop {
            let in_sight = client.status().await.map_err(failure_of)?.members.len();
            if in_sight >= backends as usize {
                break;
            }
            if Instant::now() >= give_up_at {
                return Err(Failure::failed(format!(
                    "{in_sight} of {backends} back-ends in sight after {OPEN_TIMEOUT:?}"
                )));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        let started = Started { listening, in_sight: fleet.started_at().elapsed() };
        Ok(Self { fleet, started, client, backends })
    }

    /// A stream over all back-ends, which play this part, with everyone in it from the start: one that opened without
    /// some is closed and opened anew, since who joins late finds the tree in another shape than was asked for.
    pub(super) async fn open(
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
