//! Events from the subject of a NATS server.
//!
//! NATS keeps nothing and waits for nobody: a message that is sent while this source is away or slow is lost. Events
//! with numbers show it, because the origin refuses the event behind a gap. For a source that loses nothing, use
//! JetStream ([`crate::jetstream`]).

use crate::feeder::{Feeder, HandError, Refused};
use crate::intake::{Intake, Reached};
use crate::limits::SourceLimits;
use crate::message::Key;
use async_nats::{Client, ConnectOptions, Event as NatsEvent, Message, Subject};
use futures_util::StreamExt;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;
use treefold_mirror::Event;
use treefold_mirror::event::Defaults;
use treefold_mirror::origin::{Numbers, Refusal};

/// Messages that wait to be read. NATS drops messages above it, and says so.
const MESSAGES_MAX: usize = 4096;
/// Longest time between two attempts to connect.
const RECONNECT_MAX: Duration = Duration::from_secs(4);

/// A server, and the way to log in.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Addresses, separated by commas, as in `nats://127.0.0.1:4222`.
    pub url: String,
    /// File with a user's credentials.
    pub credentials: Option<PathBuf>,
}

/// The reason why a NATS source can't start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// The server's address is invalid, or it refuses this client.
    #[error("can't connect to {url}: {problem}")]
    Connect {
        /// The address.
        url: String,
        /// The problem.
        problem: String,
    },
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

impl Server {
    /// Connects, and connects again whenever the connection is lost.
    ///
    /// # Errors
    /// [`NatsError::Connect`].
    pub async fn connect(&self) -> Result<Client, NatsError> {
        let fail = |problem: String| NatsError::Connect { url: self.url.clone(), problem };
        let url = self.url.clone();
        let options = ConnectOptions::new()
            .name("treefold")
            .subscription_capacity(MESSAGES_MAX)
            .reconnect_delay_callback(back_off)
            .event_callback(move |event| {
                let url = url.clone();
                async move { log(&url, &event) }
            });
        let options = match &self.credentials {
            None => options,
            Some(file) => {
                let read = options.credentials_file(file).await;
                read.map_err(|error| fail(format!("{}: {error}", file.display())))?
            }
        };
        let servers: Vec<&str> = self.url.split(',').collect();
        options.connect(servers).await.map_err(|error| fail(error.to_string()))
    }
}

/// The wait before an attempt to connect, which doubles up to a limit.
pub(crate) fn back_off(attempts: usize) -> Duration {
    let doublings = attempts.saturating_sub(1).min(10) as u32;
    (Duration::from_millis(50) * 2_u32.pow(doublings)).min(RECONNECT_MAX)
}

fn log(url: &str, event: &NatsEvent) {
    match event {
        NatsEvent::Connected => tracing::info!(url, "connected"),
        NatsEvent::SlowConsumer(_) => tracing::warn!(url, "messages were lost, because the origin is busy"),
        event => tracing::warn!(url, %event, "NATS"),
    }
}

/// Settings of a NATS source.
#[derive(Clone, Debug, Default)]
pub struct NatsOptions {
    /// The source of an event's key.
    pub key: Key,
    /// Number the messages that have no number as they arrive. Lost messages then leave no gap, so nobody notices them.
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
    /// [`NatsError`].
    pub async fn run<I: Intake>(self, feeder: Feeder<I>) -> Result<(), NatsError> {
        let Self { subscription, options, subject } = self;
        let mut messages = subscription.ready_chunks(SourceLimits::BATCH_EVENTS_MAX);
        let mut stop = feeder.stop.clone();
        let mut intake = Intaking { feeder, options, received: 0, reached: Reached::default() };
        loop {
            let messages = tokio::select! {
                biased;
                () = stop.asked() => return Ok(()),
                messages = messages.next() => messages,
            };
            let Some(messages) = messages else {
                return Err(NatsError::Request { subject, problem: "the subscription has ended".to_owned() });
            };
            tokio::select! {
                taken = intake.take(&messages) => taken?,
                () = stop.asked() => return Ok(()),
            }
        }
    }
}

struct Intaking<I> {
    feeder: Feeder<I>,
    options: NatsOptions,
    /// Messages that were numbered here.
    received: u64,
    reached: Reached,
}

impl<I: Intake> Intaking<I> {
    async fn take(&mut self, messages: &[Message]) -> Result<(), HandError> {
        let mut events = VecDeque::with_capacity(messages.len());
        for message in messages {
            let number = self.options.number_received.then_some(self.received + 1);
            let defaults = Defaults { stream: self.feeder.stream.as_ref(), number };
            let limits = &self.feeder.limits.events;
            match self.options.key.read(&message.subject, &message.payload, &defaults, limits) {
                Ok((event, numbers)) => {
                    self.received += u64::from(numbers == Numbers::Growing);
                    events.push_back(event);
                }
                Err(error) => {
                    tracing::warn!(subject = %message.subject, %error, "a message is no event");
                    self.feeder.tally.malformed();
                }
            }
        }
        let mut behind = None;
        self.hand_over(&mut events, &mut behind).await?;
        if let Some(last) = behind.filter(|_| self.options.number_received) {
            self.received = self.received.max(last);
        }
        Ok(())
    }

    async fn hand_over(
        &mut self,
        events: &mut VecDeque<Event>,
        behind: &mut Option<u64>,
    ) -> Result<(), HandError> {
        let refused = |Refused { stream, number, refusal, .. }: Refused| {
            tracing::warn!(%stream, number, %refusal, "an event is refused");
            if let Refusal::Repeated { last, .. } = refusal {
                *behind = Some(last);
            }
        };
        self.feeder.hand_over(events, Numbers::Consecutive, None, &mut self.reached, refused).await
    }
}
