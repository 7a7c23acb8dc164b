//! The requests of a node's users in this process, and their answers.
//!
//! A [`Handle`] sends requests over a bounded channel. Each request contains a oneshot channel for its
//! answer. If the user drops the future of a call, a cancellation follows on an unbounded channel, because a
//! dropped future cannot wait. If the loop ends for any reason, its ends of the oneshot channels are dropped,
//! and every user that still waits gets an error.

use super::launching::LaunchAsk;
use super::operators::{Asker, OperatorAnswer};
use super::{Loop, Members};
use crate::error::Error;
use crate::service::PartitionData;
use crate::stream::FrontEndUser;
use bytes::Bytes;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot, watch};
use treefold_core::call::{CallOptions, Outcome};
use treefold_core::error::Reason;
use treefold_core::id::{PartitionId, RequestId};
use treefold_core::input::{Command, Input};
use treefold_core::limits::Limits;
use treefold_core::params::Params;
use treefold_core::partitions::PartitionSet;
use treefold_core::placement::{PlacementAsk, PlacementReport};
use treefold_core::schedule::share::{ShareSetting, SharesReport};
use treefold_core::status::NodeStatus;
use treefold_core::stream::{StreamId, StreamOptions, StreamSpec};

/// Requests that wait for the loop. Further senders wait.
const ASKS_QUEUED_MAX: usize = 1_024;
/// Requests of each kind that one turn takes.
const ASKS_PER_TURN_MAX: usize = 64;

/// The answer to a request about shares: the shares and consumption of each application, or why the shares
/// were not changed.
pub(crate) type SharesAnswer = Result<Box<SharesReport>, Arc<str>>;

/// The answer to a request about placement: the placement at the node, or why nothing has changed.
pub(crate) type PlacementAnswer = Result<Box<PlacementReport>, Arc<str>>;

/// A request to a loop.
pub(crate) enum Ask {
    Call {
        request: RequestId,
        name: Arc<str>,
        params: Params<Bytes>,
        options: CallOptions,
        answer: oneshot::Sender<Outcome<Bytes>>,
    },
    Status {
        request: RequestId,
        answer: oneshot::Sender<NodeStatus>,
    },
    /// Shares to set. An empty list only asks for the current shares.
    Shares {
        request: RequestId,
        settings: Vec<ShareSetting>,
        answer: oneshot::Sender<SharesAnswer>,
    },
    /// An operator's request about placement.
    Placement {
        request: RequestId,
        ask: PlacementAsk,
        answer: oneshot::Sender<PlacementAnswer>,
    },
    /// A partition whose data is here from now on, or not any more.
    Hold {
        request: RequestId,
        service: Arc<str>,
        partition: PartitionId,
        data: Option<PartitionData>,
        answer: oneshot::Sender<PlacementAnswer>,
    },
    Leave {
        answer: oneshot::Sender<()>,
    },
    /// An operator to keep. `None` asks for the list of operators.
    Operators {
        payload: Option<Bytes>,
        answer: oneshot::Sender<OperatorAnswer>,
    },
}

/// A request about a stream. No sender waits for the loop to take it, and windows bound the number of these
/// requests.
pub(crate) enum StreamAsk {
    Open { request: RequestId, spec: Box<StreamSpec<Bytes>>, options: StreamOptions, user: FrontEndUser },
    Send { request: RequestId, tag: u64, to: Option<PartitionSet>, payload: Bytes },
    Took { request: RequestId, waves: u32 },
    Close { request: RequestId },
    EndpointSend { stream: StreamId, endpoint: u32, tag: Option<u64>, payload: Bytes },
    EndpointTook { stream: StreamId, endpoint: u32, sequence: u64 },
    EndpointGone { stream: StreamId, endpoint: u32, reason: Reason },
}

/// The loop's ends of its channels.
pub(crate) struct Asks {
    asks: mpsc::Receiver<Ask>,
    cancels: mpsc::UnboundedReceiver<RequestId>,
    streams: mpsc::UnboundedReceiver<StreamAsk>,
    launches: mpsc::UnboundedReceiver<LaunchAsk>,
}

/// The requests that one turn takes from the channels. Every turn takes from all channels. Many calls
/// therefore cannot delay cancellations or acknowledgements of streams, and many of those cannot delay calls.
#[derive(Default)]
struct Turn {
    asks: Vec<Ask>,
    cancels: Vec<RequestId>,
    streams: Vec<StreamAsk>,
    launches: Vec<LaunchAsk>,
}

impl Asks {
    /// Waits for a request, then takes up to [`ASKS_PER_TURN_MAX`] requests from each channel. Returns false
    /// if the node and all its clients are gone.
    async fn take_turn(&mut self, turn: &mut Turn) -> bool {
        tokio::select! {
            biased;
            taken = self.asks.recv_many(&mut turn.asks, ASKS_PER_TURN_MAX) => {
                if taken == 0 {
                    return false;
                }
            }
            Some(request) = self.cancels.recv() => turn.cancels.push(request),
            Some(ask) = self.streams.recv() => turn.streams.push(ask),
            Some(ask) = self.launches.recv() => turn.launches.push(ask),
        }
        fill(&mut turn.asks, || self.asks.try_recv());
        fill(&mut turn.cancels, || self.cancels.try_recv());
        fill(&mut turn.streams, || self.streams.try_recv());
        fill(&mut turn.launches, || self.launches.try_recv());
        true
    }
}

fn fill<T>(taken: &mut Vec<T>, mut next: impl FnMut() -> Result<T, TryRecvError>) {
    while taken.len() < ASKS_PER_TURN_MAX
        && let Ok(ask) = next()
    {
        taken.push(ask);
    }
}

/// A user's end of the channels. Clones send to the same loop.
#[derive(Clone, Debug)]
pub struct Handle {
    asks: mpsc::Sender<Ask>,
    cancels: mpsc::UnboundedSender<RequestId>,
    streams: mpsc::UnboundedSender<StreamAsk>,
    launches: mpsc::UnboundedSender<LaunchAsk>,
    next_request: Arc<AtomicU64>,
    /// The node's limits.
    pub limits: Arc<Limits>,
    pub(crate) members: watch::Receiver<Members>,
}

/// Creates both ends of a loop's channels.
pub(crate) fn channels(limits: Arc<Limits>, members: watch::Receiver<Members>) -> (Handle, Asks) {
    let (asks, asks_end) = mpsc::channel(ASKS_QUEUED_MAX);
    // Unbounded, but each cancellation belongs to an open call, and the number of open calls is bounded.
    let (cancels, cancels_end) = mpsc::unbounded_channel();
    let (streams, streams_end) = mpsc::unbounded_channel();
    // Unbounded, but a launcher sends only a few requests for each of its children.
    let (launches, launches_end) = mpsc::unbounded_channel();
    let next_request = Arc::new(AtomicU64::new(1));
    let handle = Handle { asks, cancels, streams, launches, next_request, limits, members };
    (handle, Asks { asks: asks_end, cancels: cancels_end, streams: streams_end, launches: launches_end })
}

impl Handle {
    /// Refuses a packet above the limit, which no receiver would accept.
    pub(crate) fn check_packet(&self, payload: &Bytes) -> Result<(), Error> {
        let (bytes, bytes_max) = (payload.len(), self.limits.payload_bytes_max);
        if bytes > bytes_max { Err(Error::PacketTooLarge { bytes, bytes_max }) } else { Ok(()) }
    }

    /// Makes a call. Dropping the future cancels it.
    pub(crate) async fn call(
        &self,
        name: Arc<str>,
        params: Params<Bytes>,
        options: CallOptions,
    ) -> Result<Outcome<Bytes>, Error> {
        let (answer, answered) = oneshot::channel();
        let request = self.next_request();
        self.ask(Ask::Call { request, name, params, options, answer }).await?;
        let mut unless_done = CancelOnDrop { handle: self, request: Some(request) };
        let outcome = answered.await.map_err(|_| Error::Closed)?;
        unless_done.request = None;
        Ok(outcome)
    }

    /// Asks the node for its status.
    pub(crate) async fn status(&self) -> Result<NodeStatus, Error> {
        let (answer, answered) = oneshot::channel();
        self.ask(Ask::Status { request: self.next_request(), answer }).await?;
        answered.await.map_err(|_| Error::Closed)
    }

    /// Sets shares and returns the resulting shares.
    pub(crate) async fn shares(&self, settings: Vec<ShareSetting>) -> Result<SharesAnswer, Error> {
        let (answer, answered) = oneshot::channel();
        self.ask(Ask::Shares { request: self.next_request(), settings, answer }).await?;
        answered.await.map_err(|_| Error::Closed)
    }

    /// Passes on an operator's request, and returns the placement at the node.
    pub(crate) async fn placement(&self, ask: PlacementAsk) -> Result<PlacementAnswer, Error> {
        let (answer, answered) = oneshot::channel();
        self.ask(Ask::Placement { request: self.next_request(), ask, answer }).await?;
        answered.await.map_err(|_| Error::Closed)
    }

    /// Adds the data of a partition, or drops a partition if there is none.
    ///
    /// # Errors
    /// If the node refuses the partition, or has ended.
    pub async fn hold(
        &self,
        service: Arc<str>,
        partition: PartitionId,
        data: Option<PartitionData>,
    ) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        self.ask(Ask::Hold { request: self.next_request(), service, partition, data, answer }).await?;
        let answer = answered.await.map_err(|_| Error::Closed)?;
        answer.map(drop).map_err(|problem| Error::Placement { problem })
    }

    /// Keeps an operator, or lists the operators.
    pub(crate) async fn operators(&self, payload: Option<Bytes>) -> Result<OperatorAnswer, Error> {
        let (answer, answered) = oneshot::channel();
        self.ask(Ask::Operators { payload, answer }).await?;
        answered.await.map_err(|_| Error::Closed)
    }

    /// Makes the node leave its cluster, and waits until it has finished its open work.
    pub async fn leave(&self) -> Result<(), Error> {
        let (answer, left) = oneshot::channel();
        self.ask(Ask::Leave { answer }).await?;
        left.await.map_err(|_| Error::Closed)
    }

    async fn ask(&self, ask: Ask) -> Result<(), Error> {
        self.asks.send(ask).await.map_err(|_| Error::Closed)
    }

    /// Sends a request about a stream. If the loop is gone, so are its streams, and their users receive an
    /// error.
    pub(crate) fn stream_ask(&self, ask: StreamAsk) {
        let _ = self.streams.send(ask);
    }

    /// Sends a request of a launcher. If the loop is gone, the launcher's own receivers report it.
    pub fn launch_ask(&self, ask: LaunchAsk) {
        let _ = self.launches.send(ask);
    }

    pub(crate) fn next_request(&self) -> RequestId {
        RequestId(self.next_request.fetch_add(1, Ordering::Relaxed))
    }
}

struct CancelOnDrop<'a> {
    handle: &'a Handle,
    request: Option<RequestId>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(request) = self.request {
            // If the loop is gone, so is the call.
            let _ = self.handle.cancels.send(request);
        }
    }
}

/// The users that wait for answers.
#[derive(Default)]
pub(crate) struct Answers {
    calls: HashMap<RequestId, oneshot::Sender<Outcome<Bytes>>>,
    statuses: HashMap<RequestId, oneshot::Sender<NodeStatus>>,
    shares: HashMap<RequestId, oneshot::Sender<SharesAnswer>>,
    placements: HashMap<RequestId, oneshot::Sender<PlacementAnswer>>,
    leaving: Vec<oneshot::Sender<()>>,
    drained: bool,
}

impl Answers {
    // A user that no longer waits needs no answer. A failed send is therefore ignored in all of these
    // functions.

    pub(super) fn call(&mut self, request: RequestId, outcome: Outcome<Bytes>) {
        if let Some(answer) = self.calls.remove(&request) {
            let _ = answer.send(outcome);
        }
    }

    pub(super) fn status(&mut self, request: RequestId, status: NodeStatus) {
        if let Some(answer) = self.statuses.remove(&request) {
            let _ = answer.send(status);
        }
    }

    pub(super) fn shares(&mut self, request: RequestId, result: SharesAnswer) {
        if let Some(answer) = self.shares.remove(&request) {
            let _ = answer.send(result);
        }
    }

    pub(super) fn await_placement(&mut self, request: RequestId, answer: oneshot::Sender<PlacementAnswer>) {
        self.placements.insert(request, answer);
    }

    pub(super) fn placement(&mut self, request: RequestId, result: PlacementAnswer) {
        if let Some(answer) = self.placements.remove(&request) {
            let _ = answer.send(result);
        }
    }

    /// Core has no open work.
    pub(super) fn drained(&mut self) {
        self.drained = true;
    }

    pub(super) fn is_drained(&self) -> bool {
        self.drained
    }

    /// The links are closed as well.
    pub(super) fn left(&mut self) {
        self.leaving.drain(..).for_each(|answer| {
            let _ = answer.send(());
        });
    }
}

impl Loop {
    /// The task that takes requests.
    pub(super) async fn take_asks(self: Rc<Self>, mut ends: Asks) {
        let mut turn = Turn::default();
        while ends.take_turn(&mut turn).await {
            // A cancellation that arrives before its call has no effect. The call then finds its answer
            // channel closed.
            turn.cancels.drain(..).for_each(|request| self.cancel(request));
            // Launchers announce new processes here, and later requests of this turn must know them.
            turn.launches.drain(..).for_each(|ask| self.take_launch_ask(ask));
            turn.asks.drain(..).for_each(|ask| self.take(ask));
            self.take_stream_asks(turn.streams.drain(..));
        }
    }

    fn take(self: &Rc<Self>, ask: Ask) {
        match ask {
            Ask::Call { answer, .. } if answer.is_closed() => {}
            Ask::Call { request, mut name, mut params, options, answer } => {
                self.resolve_reduce(&mut name, &mut params);
                self.answers.borrow_mut().calls.insert(request, answer);
                self.feed(Input::Command(Command::Call { request, name, params, options }));
            }
            Ask::Status { request, answer } => {
                self.answers.borrow_mut().statuses.insert(request, answer);
                self.feed(Input::Command(Command::Status { request }));
            }
            Ask::Shares { request, settings, answer } => {
                self.answers.borrow_mut().shares.insert(request, answer);
                self.feed(Input::Command(Command::Shares { request, settings }));
            }
            Ask::Placement { request, ask, answer } => {
                self.answers.borrow_mut().await_placement(request, answer);
                self.feed(Input::Command(Command::Placement { request, ask }));
            }
            Ask::Hold { request, service, partition, data, answer } => {
                self.hold((request, service, partition), data, answer);
            }
            Ask::Operators { payload, answer } => self.serve_operators(Asker::User(answer), payload),
            Ask::Leave { answer } => {
                let is_first = {
                    let mut answers = self.answers.borrow_mut();
                    answers.leaving.push(answer);
                    answers.leaving.len() == 1
                };
                if is_first {
                    tokio::task::spawn_local(Rc::clone(self).leave());
                }
            }
        }
    }

    fn cancel(self: &Rc<Self>, request: RequestId) {
        if self.answers.borrow_mut().calls.remove(&request).is_some() {
            self.feed(Input::Command(Command::Cancel { request }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user of a loop that does not run, and the loop's end of the channels.
    fn user() -> (Handle, Asks, watch::Sender<Members>) {
        let (members, seen) = watch::channel(Members::default());
        let (handle, ends) = channels(Arc::new(Limits::DEFAULT), seen);
        (handle, ends, members)
    }

    fn status(handle: &Handle) -> Ask {
        Ask::Status { request: handle.next_request(), answer: oneshot::channel().0 }
    }

    fn took(waves: u32) -> StreamAsk {
        StreamAsk::Took { request: RequestId(1), waves }
    }

    #[tokio::test]
    async fn many_calls_do_not_delay_cancels_and_acknowledgements() {
        let (handle, mut ends, _members) = user();
        for number in 0..200 {
            handle.cancels.send(RequestId(number)).expect("the loop is there");
            handle.stream_ask(took(1));
        }
        let (mut cancels, mut waves, mut asks) = (Vec::new(), 0, 0);
        for turn_number in 1..=4 {
            while handle.asks.try_send(status(&handle)).is_ok() {}
            let mut turn = Turn::default();
            assert!(ends.take_turn(&mut turn).await);
            cancels.extend(turn.cancels);
            waves += turn.streams.len();
            asks += turn.asks.len();
            assert_eq!(asks, turn_number * ASKS_PER_TURN_MAX);
        }
        assert_eq!((cancels, waves), ((0..200).map(RequestId).collect(), 200));
    }

    #[tokio::test]
    async fn busy_streams_do_not_delay_calls() {
        let (handle, mut ends, _members) = user();
        (0..10 * ASKS_PER_TURN_MAX).for_each(|_| handle.stream_ask(took(1)));
        assert!(handle.asks.try_send(status(&handle)).is_ok());
        let mut turn = Turn::default();
        assert!(ends.take_turn(&mut turn).await);
        assert_eq!((turn.asks.len(), turn.streams.len()), (1, ASKS_PER_TURN_MAX));
    }

    #[tokio::test]
    async fn the_loop_ends_with_its_last_user() {
        let (handle, mut ends, _members) = user();
        drop(handle);
        assert!(!ends.take_turn(&mut Turn::default()).await);
    }
}
