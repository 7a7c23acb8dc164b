//! Events from the subject of a NATS server.
//!
//! NATS keeps nothing and waits for nobody: a message that is sent while this source is away or slow is lost. Events
//! with numbers show it, because the event behind a gap ends the source. For a source that loses nothing, use
//! JetStream ([`crate::jetstream`]).

use crate::feeder::{Feeder, HandError, Refused};
use crate::intake::{Intake, Reached};
use crate::limits::SourceLimits;
use crate::message::Key;
use async_nats::{Client, Message, Subject};
use futures_util::{FutureExt, StreamExt};
use std::collections::VecDeque;
use treefold_mirror::Event;
use treefold_mirror::event::Defaults;
use treefold_mirror::origin::{Numbers, Refusal};
use treefold_nats::ConnectError;
pub use treefold_nats::Server;

/// Bytes of messages that wait for a busy origin. Further messages are lost.
const WAITING_BYTES_MAX: usize = 32 << 20;
/// The reason why a NATS source can't start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// The server's address is invalid, or it refuses this client.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server refuses a request.
    #[error("{subject}: {problem}")]
    Request {
        /// The subject, or the stream.
        subject: String,
        /// The problem.
        problem: String,
    },
    /// The origin has ended.
    #[error(transparent)]
    Origin(#[from] HandError),
}

/// Settings of a NATS source.
#[derive(Clone, Debug, Default)]
pub struct NatsOptions {
    /// The source of an event's key.
    pub key: Key,
    /// Let the origin number the messages that have no number. Lost messages then leave no gap, so nobody notices them.
    pub number_received: bool,
}

/// A subscription.
#[derive(Debug)]
pub struct NatsSource {
    subscription: async_nats::Subscriber,
    options: NatsOptions,
    subject: String,
}

impl NatsSource {
    /// Subscribes to a subject, which may have wildcards.
    ///
    /// # Errors
    /// [`NatsError`].
    pub async fn subscribe(client: &Client, subject: &str, options: NatsOptions) -> Result<Self, NatsError> {
        let subject = subject.to_owned();
        let fail = |problem: String| NatsError::Request { subject: subject.clone(), problem };
        let subscription = client
            .subscribe(Subject::from(subject.as_str()))
            .await
            .map_err(|error| fail(error.to_string()))?;
        // The subscription is there once the server has answered.
        client.flush().await.map_err(|error| fail(error.to_string()))?;
        Ok(Self { subscription, options, subject })
    }

    /// Offers the events of all messages until the source is stopped.
    ///
    /// # Errors
    /// [`NatsError`]. An event that leaves a gap in the numbers of its stream ends the source: its predecessor is lost,
    /// and the origin would refuse all events behind it.
    pub async fn run<I: Intake>(self, feeder: Feeder<I>) -> Result<(), NatsError> {
        let Self { mut subscription, options, subject } = self;
        let mut stop = feeder.stop.clone();
        let mut waiting = Waiting::new(&subject);
        let intake = Intaking { feeder, options, subject: &subject };
        let ended = || NatsError::Request {
            subject: subject.clone(),
            problem: "the subscription has ended".to_owned(),
        };
        loop {
            let batch = waiting.take_batch();
            if batch.is_empty() {
                let first = tokio::select! {
                    biased;
                    () = stop.asked() => return Ok(()),
                    first = subscription.next() => first.ok_or_else(ended)?,
                };
                waiting.push(first);
                while waiting.wants_more()
                    && let Some(Some(next)) = subscription.next().now_or_never()
                {
                    waiting.push(next);
                }
                continue;
            }
            let taking = intake.take(&batch);
            tokio::pin!(taking);
            loop {
                tokio::select! {
                    biased;
                    () = stop.asked() => return Ok(()),
                    taken = &mut taking => {
                        taken?;
                        break;
                    }
                    // A busy origin must not leave messages in the client, which bounds their number and not their bytes.
                    next = subscription.next() => waiting.push(next.ok_or_else(ended)?),
                }
            }
        }
    }
}

/// Messages that were received and not offered yet. Above its limit, further messages are lost.
struct Waiting<'a> {
    subject: &'a str,
    messages: VecDeque<Message>,
    bytes: usize,
    lost: u64,
}

impl<'a> Waiting<'a> {
    fn new(subject: &'a str) -> Self {
        Self { subject, messages: VecDeque::new(), bytes: 0, lost: 0 }
    }

    /// True if a batch has room for another message.
    fn wants_more(&self) -> bool {
        self.messages.len() < SourceLimits::BATCH_EVENTS_MAX && self.bytes < SourceLimits::BATCH_BYTES_MAX
    }

    fn push(&mut self, message: Message) {
        let bytes = self.bytes + cost(&message);
        if bytes > WAITING_BYTES_MAX && !self.messages.is_empty() {
            if self.lost == 0 {
                tracing::warn!(subject = self.subject, "messages are lost, because the origin is busy");
            }
            self.lost += 1;
            return;
        }
        self.bytes = bytes;
        self.messages.push_back(message);
    }

    fn take_batch(&mut self) -> Vec<Message> {
        if self.lost > 0 && self.bytes < WAITING_BYTES_MAX / 2 {
            tracing::warn!(
                subject = self.subject,
                lost = self.lost,
                "messages were lost, because the origin was busy"
            );
            self.lost = 0;
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < SourceLimits::BATCH_EVENTS_MAX
            && bytes < SourceLimits::BATCH_BYTES_MAX
            && let Some(message) = self.messages.pop_front()
        {
            bytes += cost(&message);
            batch.push(message);
        }
        self.bytes -= bytes;
        batch
    }
}

/// Bytes of memory of a message, about.
fn cost(message: &Message) -> usize {
    message.length + size_of::<Message>()
}

struct Intaking<'a, I> {
    feeder: Feeder<I>,
    options: NatsOptions,
    subject: &'a str,
}

impl<I: Intake> Intaking<'_, I> {
    async fn take(&self, messages: &[Message]) -> Result<(), NatsError> {
        let mut events = VecDeque::with_capacity(messages.len());
        let mut numbered = Numbers::Consecutive;
        for message in messages {
            // The origin replaces it.
            let number = self.options.number_received.then_some(1);
            let defaults = Defaults { stream: self.feeder.stream.as_ref(), number };
            let (limits, unnumbered) = (&self.feeder.limits.events, Numbers::Received);
            match self.options.key.read(&message.subject, &message.payload, &defaults, unnumbered, limits) {
                Ok((event, numbers)) => {
                    if numbers != numbered {
                        self.offer(&mut events, numbered).await?;
                        numbered = numbers;
                    }
                    events.push_back(event);
                }
                Err(error) => {
                    tracing::warn!(subject = %message.subject, %error, "a message is no event");
                    self.feeder.tally.malformed();
                }
            }
        }
        self.offer(&mut events, numbered).await
    }

    async fn offer(&self, events: &mut VecDeque<Event>, numbers: Numbers) -> Result<(), NatsError> {
        let mut fatal = None;
        let refused = |Refused { stream, number, refusal, .. }: Refused| {
            tracing::warn!(%stream, number, %refusal, "an event is refused");
            if matches!(refusal, Refusal::Jump { .. }) {
                fatal = fatal.take().or(Some(refusal.to_string()));
            }
        };
        self.feeder.hand_over(events, numbers, None, &mut Reached::default(), refused).await?;
        fatal.map_or(Ok(()), |problem| Err(NatsError::Request { subject: self.subject.to_owned(), problem }))
    }
}
