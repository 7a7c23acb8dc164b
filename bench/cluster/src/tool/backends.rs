//! The processes of the daemons, and a front-end's connection to them.

use super::scale::Scale;
use std::time::{Duration, Instant};
use treefold::{Body, Client, PartitionSet, Shape, Stream, StreamBuilder, StreamEvent};
use treefold_cli::commands::{connect, failure_of};
use treefold_cli::exit::Failure;
use treefold_cli::fleet::Fleet;
use treefold_cli::fleet::cost::cpu_time;
use treefold_daemon::{Part, SERVICE};

/// Limit on the time until streams include all daemons, once the nodes know each other.
///
/// The front-end's own view may lag behind.
const ALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval between two checks of a stream's endpoints.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Limit on the time of an answer.
///
/// An answer that takes longer is a failure, not a figure.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Running daemons, and a client that can be a stream's front-end.
pub(super) struct Backends {
    fleet: Fleet,
    client: Client,
    pub(super) all: PartitionSet,
    pub(super) processes: u32,
}

/// Processor time so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Processor time of the front-end.
    pub(super) front: Duration,
    /// Processor time of all processes, including the front-end.
    pub(super) all: Duration,
}

impl Cost {
    pub(super) fn since(self, before: Self) -> Self {
        Self { front: self.front - before.front, all: self.all - before.all }
    }
}

impl Backends {
    /// Starts daemons, runs `measure`, and ends the daemons even if that failed.
    pub(super) async fn during<T>(
        scale: &Scale,
        measure: impl AsyncFnOnce(&Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let backends = Self::start(scale).await?;
        let measured = measure(&backends).await;
        backends.fleet.end().await;
        measured
    }

    /// Starts the daemons.
    ///
    /// Returns once a stream includes all of them.
    async fn start(scale: &Scale) -> Result<Self, Failure> {
        let total = scale.backends;
        let serves: Vec<String> =
            scale.processes()?.iter().map(|ids| format!("daemon:endpoints={ids}/{total}")).collect();
        let processes = serves.len() as u32;
        let fleet = Fleet::start_serving(serves, vec![1; processes as usize]).await?;
        fleet.meet().await?;
        let client = connect(&[fleet.first_addr().to_owned()], true, fleet.cluster()).await?;
        let backends = Self { fleet, client, all: PartitionSet::first(total), processes };
        backends.await_all().await?;
        Ok(backends)
    }

    async fn await_all(&self) -> Result<(), Failure> {
        let give_up_at = Instant::now() + ALL_TIMEOUT;
        loop {
            let opened = self.open(self.stream(Shape::Flat), &Part::Answer { seed: 0 }).await;
            match opened {
                Ok(stream) => {
                    stream.close();
                    return Ok(());
                }
                Err(failure) if Instant::now() >= give_up_at => return Err(failure),
                Err(_) => tokio::time::sleep(LOOK_INTERVAL).await,
            }
        }
    }

    /// Number of daemons.
    pub(super) fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// Returns a builder of a stream to the daemons.
    pub(super) fn stream(&self, shape: Shape) -> StreamBuilder {
        self.client.stream(SERVICE).shape(shape)
    }

    /// Opens a stream in which daemons play this part.
    ///
    /// Fails unless all take part.
    pub(super) async fn open(&self, stream: StreamBuilder, part: &Part) -> Result<Stream, Failure> {
        let mut stream = stream.params(part).open().await.map_err(failure_of)?;
        // On a busy machine some daemons may be late to join.
        let give_up_at = tokio::time::Instant::now() + ALL_TIMEOUT;
        while *stream.endpoints() != self.all {
            match tokio::time::timeout_at(give_up_at, stream.next()).await {
                Ok(Ok(StreamEvent::Changed { .. })) => {}
                Ok(Err(error)) => return Err(failure_of(error)),
                Ok(Ok(_)) | Err(_) => break,
            }
        }
        if *stream.endpoints() == self.all {
            return Ok(stream);
        }
        let (there, count) = (stream.endpoints().len(), self.count());
        Err(Failure::failed(format!("{there} of {count} daemons take part in a stream")))
    }

    /// Returns the processor time so far, or an error if a process has died.
    pub(super) fn cost(&self) -> Result<Cost, Failure> {
        let front = cpu_time(std::process::id())
            .map_err(|error| Failure::failed(format!("can't read this process's clock: {error}")))?;
        let nodes: Duration = self.fleet.processes().cpu_times()?.iter().sum();
        Ok(Cost { front, all: front + nodes })
    }
}

/// Encodes a body as it is sent on the wire.
pub(super) fn encoded(body: &impl Body) -> Result<bytes::Bytes, Failure> {
    body.encode().map_err(|error| Failure::failed(error.to_string()))
}

/// Waits for an answer, but for no longer than [`ANSWER_TIMEOUT`].
pub(super) async fn in_time<T>(what: impl Future<Output = Result<T, treefold::Error>>) -> Result<T, Failure> {
    match tokio::time::timeout(ANSWER_TIMEOUT, what).await {
        Ok(came) => came.map_err(failure_of),
        Err(_) => Err(Failure::failed(format!("no answer from the daemons for {ANSWER_TIMEOUT:?}"))),
    }
}
