//! One connection: a task that reads events and offers them, and answers on the way back.

use super::received::{End, Received};
use super::replies::{self, Answers};
use crate::feeder::{Feeder, HandError};
use crate::intake::{Intake, Reached};
use crate::limits::SourceLimits;
use crate::reply::{Fatal, Refusals, Reply, push_refusal};
use serde::Deserialize;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{Semaphore, mpsc, watch};
use treefold_mirror::event::{Defaults, EventError, Given};
use treefold_mirror::origin::Numbers;
use treefold_mirror::{Event, Name};

/// Answers that wait for the peer. Above it, the connection is not read.
const REPLIES_MAX: usize = 64;

/// Serves a connection until it is closed.
pub(super) async fn serve<I: Intake>(stream: TcpStream, feeder: Feeder<I>, long_lines: Arc<Semaphore>) {
    // Answers are small and urgent. Without it they are only later.
    let _ = stream.set_nodelay(true);
    let (read, write) = stream.into_split();
    let (replies, queue) = mpsc::channel(REPLIES_MAX);
    let (reached, at_origin) = watch::channel(Reached::default());
    let answers = Answers { queue, at_origin, acknowledged: feeder.intake.acknowledged() };
    let limits = Arc::clone(&feeder.limits);
    let answering = replies::write_all(write, answers, &limits);
    let receiving = receive(read, feeder, long_lines, replies, reached);
    tokio::pin!(answering, receiving);
    tokio::select! {
        // The peer takes no answers any more, so it takes no refusals either.
        () = &mut answering => {}
        () = &mut receiving => answering.await,
    }
}

/// The first line of a connection, if it is not an event.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Greeting {
    stream: Name,
}

/// Reads a connection to its end.
async fn receive<I: Intake>(
    read: OwnedReadHalf,
    feeder: Feeder<I>,
    long_lines: Arc<Semaphore>,
    replies: mpsc::Sender<Reply>,
    reached: watch::Sender<Reached>,
) {
    let mut stop = feeder.stop.clone();
    let mut receiver = Receiver {
        received: Received::new(read, long_lines, &feeder.limits),
        stream: feeder.stream.clone(),
        is_first: true,
        feeder,
        replies,
        reached,
        here: Reached::default(),
    };
    let end = tokio::select! {
        biased;
        end = receiver.run() => end,
        () = stop.asked() => None,
    };
    if let Some(fatal) = end {
        // If the peer is gone, nobody waits for the line.
        let _ = receiver.replies.send(Reply::Error(fatal)).await;
    }
}

struct Receiver<I> {
    received: Received<OwnedReadHalf>,
    feeder: Feeder<I>,
    /// The stream of events that name none.
    stream: Option<Name>,
    /// True before the first line that is not empty.
    is_first: bool,
    replies: mpsc::Sender<Reply>,
    reached: watch::Sender<Reached>,
    here: Reached,
}

impl<I: Intake> Receiver<I> {
    /// Returns the error that ends the connection, if there is one.
    async fn run(&mut self) -> Option<Fatal> {
        let (mut events, mut places, mut refused) = (VecDeque::new(), Vec::new(), Vec::new());
        loop {
            let end = self.take_lines(&mut events, &mut places, &mut refused).await;
            if events.is_empty() && refused.is_empty() {
                // Empty lines have no limit, so others take turns with a peer that sends nothing else.
                tokio::task::yield_now().await;
            }
            if let Err(HandError::Ended | HandError::Busy) =
                self.offer(&mut events, &places, &mut refused).await
            {
                return Some(Fatal { line: None, problem: "ended", message: HandError::Ended.to_string() });
            }
            places.clear();
            for refusal in refused.drain(..) {
                self.replies.send(Reply::Refused(refusal)).await.ok()?;
            }
            match end {
                Ok(()) => {}
                Err(End::Closed) => return None,
                Err(End::Fatal(fatal)) => return Some(fatal),
            }
        }
    }

    /// Takes the lines that have been received, up to a batch; waits for one if there is none.
    async fn take_lines(
        &mut self,
        events: &mut VecDeque<Event>,
        places: &mut Vec<u64>,
        refused: &mut Vec<Refusals>,
    ) -> Result<(), End> {
        self.received.fill().await?;
        let mut bytes = 0;
        while events.len() < SourceLimits::BATCH_EVENTS_MAX && bytes < SourceLimits::BATCH_BYTES_MAX {
            let Some((line, text)) = self.received.next_text()? else { break };
            if self.is_first && !text.starts_with('{') {
                let message =
                    "expected a line of JSON that begins with `{`; this port takes no other protocol";
                let (line, message) = (Some(line), message.to_owned());
                return Err(End::Fatal(Fatal { line, problem: "protocol", message }));
            }
            let is_first = std::mem::take(&mut self.is_first);
            let defaults = Defaults { stream: self.stream.as_ref(), number: None };
            match Given::from_json(text, &defaults, &self.feeder.limits.events) {
                Ok(given) => {
                    bytes += given.event.bytes();
                    events.push_back(given.event);
                    places.push(line);
                }
                Err(_) if is_first && let Ok(greeting) = serde_json::from_str::<Greeting>(text) => {
                    self.greet(greeting.stream).await;
                }
                Err(error) => {
                    self.refuse(line, &error, refused);
                }
            }
            if refused.len() >= REPLIES_MAX {
                break;
            }
        }
        Ok(())
    }

    fn refuse(&self, line: u64, error: &EventError, refused: &mut Vec<Refusals>) {
        self.feeder.tally.malformed();
        push_refusal(refused, Refusals::of_line(line, error));
    }

    /// Notes the stream, and tells the peer from where to go on.
    async fn greet(&mut self, stream: Name) {
        self.here.note(&stream, 0);
        self.reached.send_replace(self.here.clone());
        self.stream = Some(stream);
        let acknowledged = self.feeder.intake.acknowledged();
        let numbers = crate::reply::Numbers::of(&acknowledged.borrow(), &self.here);
        // If the peer is gone, the next read says so.
        let _ = self.replies.send(Reply::Acknowledged(numbers)).await;
    }

    async fn offer(
        &mut self,
        events: &mut VecDeque<Event>,
        places: &[u64],
        refused: &mut Vec<Refusals>,
    ) -> Result<(), HandError> {
        if events.is_empty() {
            return Ok(());
        }
        let handed = self.feeder.hand_over(events, Numbers::Consecutive, None, &mut self.here, |one| {
            push_refusal(refused, Refusals::of(places[one.index], one));
        });
        handed.await?;
        self.reached.send_replace(self.here.clone());
        Ok(())
    }
}
