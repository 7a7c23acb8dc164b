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
//! - **An event that a rule holds back** is not acknowledged before the rule has decided, nor are the messages behind it.
//!   The others pass meanwhile, up to [`SourceLimits::unacknowledged_max`]. Then the source waits, and its log names the
//!   rule.
//! - A message that is no event is counted, reported, and acknowledged with the others: it would be delivered for ever.
//!   An event that leaves a gap in the numbers of its payload ends the source: to go on would lose the events behind
//!   it.

mod consumer;
mod unacknowledged;

use crate::feeder::{Feeder, HandError, Refused};
use crate::intake::{Intake, Reached};
use crate::limits::SourceLimits;
use crate::message::Key;
use crate::nats::{NatsError, Server};
use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::Message;
use consumer::Place;
use futures_util::StreamExt;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use treefold_feed::Acknowledged;
use treefold_mirror::Event;
use treefold_mirror::event::Defaults;
use treefold_mirror::origin::{Numbers, Refusal};
use treefold_nats::server::back_off;
use unacknowledged::Unacknowledged;

/// Time after which a source that waits says so again.
const SAY_AGAIN: Duration = Duration::from_secs(60);
/// Time between two looks whether the server is there.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Waits until the connection is lost.
async fn gone(client: &Client) {
    while client.connection_state() == State::Connected {
        sleep(LOOK_EVERY).await;
    }
}

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
        let mut stop = feeder.stop.clone();
        let unacknowledged_max = feeder.limits.unacknowledged_max;
        let messages = tokio::select! {
            consumed = self.place.consume(unacknowledged_max) => consumed.map_err(Cut::Again)?,
            // A server that is away would hold it up.
            () = stop.asked() => return Ok(()),
        };
        let mut messages = messages.ready_chunks(SourceLimits::BATCH_EVENTS_MAX);
        let mut reading = Reading {
            feeder,
            client: self.client.clone(),
            key: self.key,
            stream: self.place.stream.clone(),
            delivered: 0,
            reached: Reached::default(),
            acknowledged: feeder.intake.acknowledged(),
            unacknowledged: Unacknowledged::new(self.place.is_queue),
        };
        let cut = loop {
            if reading.unacknowledged.len() >= unacknowledged_max {
                // The client would drop messages that are not read.
                drop(messages);
                tokio::select! {
                    waited = reading.wait(&mut self.place) => waited?,
                    () = stop.asked() => break None,
                }
                break Some(Cut::Again("there is room again".to_owned()));
            }
            tokio::select! {
                biased;
                () = stop.asked() => break None,
                confirmed = reading.confirm_next(&mut self.place) => confirmed?,
                next = messages.next() => {
                    let next = next.ok_or_else(|| Cut::Again("the consumer has ended".to_owned()))?;
                    let mut chunk = Vec::with_capacity(next.len());
                    for message in next {
                        chunk.push(message.map_err(|error| Cut::Again(error.to_string()))?);
                    }
                    tokio::select! {
                        taken = reading.take_and_confirm(&chunk, &mut self.place) => taken?,
                        () = stop.asked() => break None,
                    }
                }
            }
        };
        match cut {
            Some(cut) => Err(cut),
            None => {
                reading.settle().await;
                Ok(())
            }
        }
    }
}

/// Reads the messages of one consumer.
struct Reading<'a, I> {
    feeder: &'a Feeder<I>,
    client: Client,
    key: Key,
    stream: String,
    /// The consumer's sequence of the last delivery.
    delivered: u64,
    reached: Reached,
    acknowledged: watch::Receiver<Acknowledged>,
    unacknowledged: Unacknowledged,
}

impl<I: Intake> Reading<'_, I> {
    /// Waits until further events are acknowledged, and acknowledges their messages.
    async fn confirm_next(&mut self, place: &mut Place) -> Result<(), Cut> {
        self.acknowledged.changed().await.map_err(|_| HandError::Ended)?;
        self.confirm(place).await;
        Ok(())
    }

    async fn confirm(&mut self, place: &mut Place) {
        let known = self.acknowledged.borrow_and_update().clone();
        place.note_floor(self.unacknowledged.confirm(&self.client, &known).await);
    }

    async fn take_and_confirm(&mut self, messages: &[Message], place: &mut Place) -> Result<(), Cut> {
        self.take(messages).await?;
        self.confirm(place).await;
        Ok(())
    }

    /// Waits until half of the messages are acknowledged, and says for which event it waits.
    async fn wait(&mut self, place: &mut Place) -> Result<(), Cut> {
        let limit = self.feeder.limits.unacknowledged_max;
        loop {
            if self.unacknowledged.len() <= limit / 2 {
                tracing::warn!(stream = self.stream, "the source reads further messages");
                return Ok(());
            }
            let (messages, first) = (self.unacknowledged.len(), self.unacknowledged.first());
            let (of, number) = first.map_or(("", 0), |(stream, number)| (stream.as_str(), number));
            let rule = match first {
                Some((stream, number)) => self.feeder.intake.held_by(stream, number).await,
                None => None,
            };
            match rule {
                Some(rule) => tracing::warn!(
                    stream = self.stream,
                    messages,
                    limit,
                    "the source waits: rule `{rule}` holds event {number} of stream `{of}` back, and the events behind \
                     it can't be acknowledged before"
                ),
                None => tracing::warn!(
                    stream = self.stream,
                    messages,
                    limit,
                    "the source waits: event {number} of stream `{of}` is not in the journal and at mirrors yet"
                ),
            }
            let repeat_at = Instant::now() + SAY_AGAIN;
            while self.unacknowledged.len() > limit / 2 {
                match timeout_at(repeat_at, self.confirm_next(place)).await {
                    Ok(confirmed) => confirmed?,
                    Err(_) => break,
                }
            }
        }
    }

    /// Waits for the acknowledgement of the events that the origin has, and tells JetStream.
    async fn settle(mut self) {
        let (limits, client) = (&self.feeder.limits, self.client.clone());
        let settled = async {
            while self.unacknowledged.len() > 0 && self.acknowledged.changed().await.is_ok() {
                let known = self.acknowledged.borrow_and_update().clone();
                self.unacknowledged.confirm(&client, &known).await;
            }
            // Without it, the last acknowledgement could be lost with this process; the message would come again.
            let _ = timeout(limits.write_within, client.flush()).await;
        };
        // Messages that are not acknowledged now are delivered again to the next source.
        tokio::select! {
            _ = timeout(limits.acknowledge_within + limits.write_within, settled) => {}
            () = gone(&client) => {
                tracing::warn!(stream = self.stream, "the server is away, so its last messages come again");
            }
        }
    }

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
                    self.unacknowledged.push(sequence, reply, Some((&event.stream, event.number)));
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
