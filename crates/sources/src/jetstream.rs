//! Events from a JetStream stream: a durable pull consumer, whose messages are acknowledged once the origin has
//! acknowledged their events.
//!
//! - A message whose payload has no number has its sequence in the JetStream stream as its number. It is a real number:
//!   it is kept, it grows, and a repeated message has it again. Deleted messages leave gaps, which the source vouches
//!   for ([`Numbers::Growing`]).
//! - **Resuming.** JetStream delivers new messages before it delivers lost ones again, but events must come in order.
//!   So each start makes a new consumer that begins behind the last acknowledged message, `treefold-FEED-2` after
//!   `treefold-FEED-1`, and deletes the earlier one. This also ends a source that still runs elsewhere. The same is
//!   done if the consumer's own sequence shows that a delivery was lost.
//! - A message that is no event is counted, reported, and acknowledged with the others: it would be delivered for ever.
//!   An event that leaves a gap in the numbers of its payload ends the source: to go on would lose the events behind
//!   it.

mod consumer;
mod unacknowledged;

use crate::feeder::{Feeder, HandError, Refused};
use crate::intake::{Intake, Reached};
use crate::limits::SourceLimits;
use crate::message::Key;
use crate::nats::{NatsError, Server, back_off};
use async_nats::Client;
use async_nats::jetstream::Message;
use consumer::Place;
use futures_util::StreamExt;
use std::collections::VecDeque;
use tokio::time::{Instant, sleep, timeout};
use treefold_mirror::Event;
use treefold_mirror::event::Defaults;
use treefold_mirror::origin::{Numbers, Refusal};
use unacknowledged::Unacknowledged;

/// Settings of a JetStream source.
#[derive(Clone, Debug, Default)]
pub struct JetStreamOptions {
    /// The source of an event's key.
    pub key: Key,
    /// The feed, which names the consumer.
    pub feed: String,
    /// Begin with the first message of the stream, instead of behind the last acknowledged one.
    pub from_start: bool,
}

/// A JetStream stream as a source.
pub struct JetStreamSource {
    client: Client,
    place: Place,
    key: Key,
}

/// The reason why a consumer is not read any further.
enum Cut {
    /// A new consumer can go on.
    Again(String),
    /// The source has ended.
    Failed(NatsError),
}

impl From<HandError> for Cut {
    fn from(error: HandError) -> Self {
        Self::Failed(error.into())
    }
}

impl JetStreamSource {
    /// Connects to a server that has the stream.
    ///
    /// # Errors
    /// [`NatsError`].
    pub async fn open(server: &Server, stream: &str, options: JetStreamOptions) -> Result<Self, NatsError> {
        let client = server.connect().await?;
        let place = Place::find(&client, stream, &options).await?;
        Ok(Self { client, place, key: options.key })
    }

    /// Offers the events of all messages until the source is stopped; then waits for their acknowledgement.
    ///
    /// # Errors
    /// [`NatsError`].
    pub async fn run<I: Intake>(mut self, feeder: Feeder<I>) -> Result<(), NatsError> {
        let mut attempts = 0;
        loop {
            let began = Instant::now();
            match self.read(&feeder).await {
                Ok(()) => return Ok(()),
                Err(Cut::Failed(error)) => return Err(error),
                Err(Cut::Again(problem)) => {
                    tracing::warn!(stream = %self.place.stream, problem, "reads the stream again");
                    attempts = if began.elapsed() > back_off(usize::MAX) { 1 } else { attempts + 1 };
                    let mut stop = feeder.stop.clone();
                    tokio::select! {
                        () = sleep(back_off(attempts)) => {}
                        () = stop.asked() => return Ok(()),
                    }
                }
            }
        }
    }

    /// Reads by one consumer.
    async fn read<I: Intake>(&mut self, feeder: &Feeder<I>) -> Result<(), Cut> {
        let messages = self.place.consume().await.map_err(Cut::Again)?;
        let mut messages = messages.ready_chunks(SourceLimits::BATCH_EVENTS_MAX);
        let mut acknowledged = feeder.intake.acknowledged();
        let mut reading = Reading {
            feeder,
            key: self.key,
            stream: self.place.stream.clone(),
            delivered: 0,
            reached: Reached::default(),
            unacknowledged: Unacknowledged::new(self.place.is_queue),
        };
        let mut stop = feeder.stop.clone();
        loop {
            tokio::select! {
                biased;
                () = stop.asked() => break,
                changed = acknowledged.changed() => {
                    changed.map_err(|_| HandError::Ended)?;
                    let known = acknowledged.borrow_and_update().clone();
                    let floor = reading.unacknowledged.confirm(&self.client, &known).await;
                    self.place.note_floor(floor);
                }
                next = messages.next() => {
                    let next = next.ok_or_else(|| Cut::Again("the consumer has ended".to_owned()))?;
                    let mut chunk = Vec::with_capacity(next.len());
                    for message in next {
                        chunk.push(message.map_err(|error| Cut::Again(error.to_string()))?);
                    }
                    tokio::select! {
                        taken = reading.take(&chunk) => taken?,
                        () = stop.asked() => break,
                    }
                    let known = acknowledged.borrow_and_update().clone();
                    let floor = reading.unacknowledged.confirm(&self.client, &known).await;
                    self.place.note_floor(floor);
                }
            }
        }
        let mut unacknowledged = reading.unacknowledged;
        let settled = async {
            while !unacknowledged.is_empty() && acknowledged.changed().await.is_ok() {
                let known = acknowledged.borrow_and_update().clone();
                unacknowledged.confirm(&self.client, &known).await;
            }
        };
        // Messages that are not acknowledged now are delivered again to the next source.
        let _ = timeout(feeder.limits.acknowledge_within, settled).await;
        // Without it, the last acknowledgement could be lost with this process; the message would come again.
        let _ = timeout(feeder.limits.write_within, self.client.flush()).await;
        Ok(())
    }
}

/// Reads the messages of one consumer.
struct Reading<'a, I> {
    feeder: &'a Feeder<I>,
    key: Key,
    stream: String,
    /// The consumer's sequence of the last delivery.
    delivered: u64,
    reached: Reached,
    unacknowledged: Unacknowledged,
}

impl<I: Intake> Reading<'_, I> {
    async fn take(&mut self, messages: &[Message]) -> Result<(), Cut> {
        let mut batch = (VecDeque::with_capacity(messages.len()), Vec::new());
        let mut numbered = Numbers::Growing;
        for message in messages {
            let info = message.info().map_err(|error| Cut::Again(error.to_string()))?;
            if info.consumer_sequence != self.delivered + 1 {
                let lost = format!("deliveries behind {} were lost", self.delivered);
                return Err(Cut::Again(lost));
            }
            self.delivered = info.consumer_sequence;
            let sequence = info.stream_sequence;
            let reply =
                message.reply.clone().ok_or_else(|| Cut::Again("a message has no reply".to_owned()))?;
            let defaults = Defaults { stream: self.feeder.stream.as_ref(), number: Some(sequence) };
            let limits = &self.feeder.limits.events;
            let unnumbered = Numbers::Growing;
            match self.key.read(&message.subject, &message.payload, &defaults, unnumbered, limits) {
                Ok((event, numbers)) => {
                    if numbers != numbered {
                        self.offer(&mut batch, numbered).await?;
                        numbered = numbers;
                    }
                    self.unacknowledged.push(sequence, reply, Some((event.stream.clone(), event.number)));
                    batch.0.push_back(event);
                    batch.1.push(sequence);
                }
                Err(error) => {
                    tracing::warn!(stream = self.stream, sequence, %error, "a message is no event");
                    self.feeder.tally.malformed();
                    self.unacknowledged.push(sequence, reply, None);
                }
            }
        }
        self.offer(&mut batch, numbered).await
    }

    async fn offer(&mut self, batch: &mut (VecDeque<Event>, Vec<u64>), numbers: Numbers) -> Result<(), Cut> {
        let (events, sequences) = batch;
        let mut fatal = None;
        let (stream, unacknowledged) = (&self.stream, &mut self.unacknowledged);
        let refused = |one: Refused| match &one.refusal {
            Refusal::Repeated { .. } => {}
            Refusal::Event(error) => {
                let sequence = sequences[one.index];
                tracing::warn!(stream, sequence, %error, "an event is refused");
                unacknowledged.pass_over(sequence);
            }
            _ => fatal = fatal.take().or(Some(one.refusal.to_string())),
        };
        self.feeder.hand_over(events, numbers, None, &mut self.reached, refused).await?;
        sequences.clear();
        match fatal {
            None => Ok(()),
            Some(problem) => {
                let subject = self.stream.clone();
                Err(Cut::Failed(NatsError::Request { subject, problem }))
            }
        }
    }
}
