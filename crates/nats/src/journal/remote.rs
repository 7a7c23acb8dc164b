//! The messages of a journal: how they are written, read and removed.

use super::reading::{Head, RECORD, Reading};
use super::{IN_FLIGHT_MAX, StreamOptions};
use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use async_nats::jetstream::context::{GetStreamErrorKind, PublishAckFuture, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, LastRawMessageErrorKind, RetentionPolicy, Stream,
};
use async_nats::jetstream::{self, Context, ErrorCode};
use std::collections::VecDeque;
use std::fmt::Display;
use std::time::Duration;
use treefold_journal::epochs;
use treefold_journal::{Epoch, JournalError, Stored};

/// Time that the server has to answer.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Time between two looks whether the connection is there.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Bytes of a message beside the payload: its headers.
const HEADER_BYTES: usize = 512;
/// The header of a message about epochs: the number of the epoch.
const EPOCH: &str = "Treefold-Epoch";

/// The server's side of a journal.
#[derive(Debug)]
pub(super) struct Remote {
    client: Client,
    context: Context,
    stream: Stream,
    place: String,
    epochs: String,
    /// The subjects of all records.
    records: String,
    part_bytes_max: usize,
}

/// The epochs that a stream names.
pub(super) struct Found {
    pub(super) epochs: Vec<Epoch>,
    /// The greatest epoch, of which the writer may not have written its beginning.
    pub(super) claimed: u32,
    /// Sequence of the message.
    pub(super) sequence: u64,
}

/// The place of a writer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) epoch: u32,
    /// The sequence of the stream's last message.
    pub(super) sequence: u64,
    /// The sequence of this epoch's last record; 0 before the first.
    pub(super) record: u64,
    /// False after a write whose outcome is not known.
    pub(super) is_certain: bool,
}

/// The reason why a record was not stored.
pub(super) enum Refused {
    /// Another message was written, or an answer was lost.
    Sequence,
    Other(String),
}

/// A stored record: its last position, its sequence and its bytes.
type Confirmed = (u64, u64, usize);

impl Remote {
    pub(super) async fn connect(options: &StreamOptions) -> Result<Self, JournalError> {
        let StreamOptions { server, stream: name, replicas } = options;
        let place = format!("stream {name} of {}", server.url);
        let fail = |problem: &dyn Display| JournalError::Remote {
            place: place.clone(),
            problem: problem.to_string(),
        };
        let client = server.connect().await.map_err(|error| fail(&error))?;
        let part_bytes_max = client.server_info().max_payload.saturating_sub(HEADER_BYTES).max(1);
        let mut context = jetstream::new(client.clone());
        context.set_timeout(ANSWER_WITHIN);
        let subject = |of: &str| format!("treefold.journal.{name}.{of}");
        let wanted = Config {
            name: name.clone(),
            subjects: vec![subject("epochs"), subject("records.*")],
            discard: DiscardPolicy::New,
            num_replicas: *replicas,
            description: Some("The journal of a Treefold feed".to_owned()),
            ..Config::default()
        };
        let stream = match context.get_stream(name).await {
            Ok(stream) => stream,
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                    context.create_stream(wanted.clone()).await.map_err(|error| fail(&error))?
                }
                _ => return Err(fail(&error)),
            },
        };
        let config = &stream.cached_info().config;
        if config.subjects != wanted.subjects {
            return Err(fail(&format!(
                "it has the subjects {:?}; a journal has {:?}",
                config.subjects, wanted.subjects
            )));
        }
        let forgets = config.retention != RetentionPolicy::Limits
            || config.max_age > Duration::ZERO
            || config.max_messages_per_subject > 0
            || config.discard == DiscardPolicy::Old && (config.max_bytes > 0 || config.max_messages > 0);
        if forgets {
            return Err(fail(
                &"it forgets messages by itself; a journal needs limits retention, no age, and discards new ones",
            ));
        }
        let (epochs, records) = (subject("epochs"), subject("records.*"));
        Ok(Self { client, context, stream, place, epochs, records, part_bytes_max })
    }

    /// The subject of an epoch's records.
    fn records_of(&self, epoch: u32) -> String {
        self.records.replace('*', &epoch.to_string())
    }

    /// An error that repeating does not mend.
    pub(super) fn wrong(&self, problem: String) -> JournalError {
        JournalError::Remote { place: self.place.clone(), problem }
    }

    /// An error that may pass.
    pub(super) fn away(&self, problem: String) -> JournalError {
        JournalError::Unavailable { place: self.place.clone(), problem }
    }

    /// The epochs that the stream names.
    pub(super) async fn epochs(&self) -> Result<Found, JournalError> {
        let message = match self.stream.get_last_raw_message_by_subject(&self.epochs).await {
            Ok(message) => message,
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => {
                return Ok(Found { epochs: Vec::new(), claimed: 0, sequence: 0 });
            }
            Err(error) => return Err(self.away(error.to_string())),
        };
        let text = std::str::from_utf8(&message.payload).ok();
        let claimed = message.headers.get(EPOCH).and_then(|number| number.as_str().parse().ok());
        match (text.and_then(epochs::parse), claimed) {
            (Some(epochs), Some(claimed)) => Ok(Found { epochs, claimed, sequence: message.sequence }),
            _ => Err(self.wrong(format!("message {} does not name epochs", message.sequence))),
        }
    }

    /// Claims an epoch. It must follow the message about epochs at `epochs_at`; `None` if it does not.
    pub(super) async fn claim(
        &self,
        number: u32,
        earlier: &[Epoch],
        epochs_at: u64,
    ) -> Result<Option<u64>, JournalError> {
        let message = epoch_message(number, earlier).expected_last_subject_sequence(epochs_at);
        self.publish_alone(message).await
    }

    /// Writes where an epoch begins. `None` if another message was written after its claim.
    pub(super) async fn begin(
        &self,
        number: u32,
        epochs: &[Epoch],
        claimed_at: u64,
    ) -> Result<Option<u64>, JournalError> {
        let message = epoch_message(number, epochs).expected_last_sequence(claimed_at);
        let begun = self.publish_alone(message).await?;
        if begun.is_some()
            && let Err(error) = self.stream.purge().filter(&self.epochs).keep(1).await
        {
            // The last one counts.
            tracing::debug!(%error, "earlier messages about epochs stay");
        }
        Ok(begun)
    }

    async fn publish_alone(&self, message: PublishMessage) -> Result<Option<u64>, JournalError> {
        let sent = self.context.send_publish(self.epochs.clone(), message).await;
        let answered = match sent {
            Ok(answer) => answer.await,
            Err(error) => Err(error),
        };
        match answered {
            Ok(answer) => Ok(Some(answer.sequence)),
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(None),
            Err(error) => Err(self.away(error.to_string())),
        }
    }

    /// Writes records, many at a time. Returns the writer's place, the records that are stored, and the reason why the
    /// next one is not.
    pub(super) async fn write(
        &self,
        mut writing: Written,
        records: VecDeque<Stored>,
    ) -> (Written, Vec<Confirmed>, Option<Refused>) {
        let mut parts = records.iter().flat_map(|record| self.parts(record));
        let (mut in_flight, mut stored) =
            (VecDeque::<(PublishAckFuture, Option<Confirmed>)>::new(), Vec::new());
        let subject = self.records_of(writing.epoch);
        let (mut expected, mut record, mut refused) = (writing.sequence, writing.record, None);
        loop {
            while refused.is_none()
                && in_flight.len() < IN_FLIGHT_MAX
                && let Some((message, end)) = parts.next()
            {
                let message = message.expected_last_sequence(expected).expected_last_subject_sequence(record);
                match self.context.send_publish(subject.clone(), message).await {
                    Ok(answer) => {
                        expected += 1;
                        record = expected;
                        in_flight.push_back((answer, end.map(|(last, bytes)| (last, expected, bytes))));
                    }
                    Err(error) => refused = Some(Refused::Other(error.to_string())),
                }
            }
            let Some((answer, end)) = in_flight.pop_front() else { break };
            let answered = tokio::select! {
                biased;
                answered = answer.into_future() => answered,
                () = self.lost() => {
                    refused = Some(Refused::Other("the connection is lost".to_owned()));
                    break;
                }
            };
            match answered {
                Ok(answer) => {
                    (writing.sequence, writing.record) = (answer.sequence, answer.sequence);
                    stored.extend(end);
                }
                // The answers behind it would say the same, or not come for as long as this one.
                Err(error) => {
                    refused = Some(match error.kind() {
                        PublishErrorKind::WrongLastSequence => Refused::Sequence,
                        _ => Refused::Other(error.to_string()),
                    });
                    break;
                }
            }
        }
        writing.is_certain = refused.is_none();
        (writing, stored, refused)
    }

    /// Waits until the connection is lost.
    async fn lost(&self) {
        while self.client.connection_state() == State::Connected {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The messages of a record, and its last position and bytes with the last of them.
    fn parts(&self, record: &Stored) -> impl Iterator<Item = (PublishMessage, Option<(u64, usize)>)> {
        let Stored { first, last, payload } = record.clone();
        let count = payload.len().div_ceil(self.part_bytes_max).max(1);
        let part_bytes_max = self.part_bytes_max;
        (0..count).map(move |index| {
            let is_end = index + 1 == count;
            let end = if is_end { " end" } else { "" };
            let bytes = index * part_bytes_max..payload.len().min((index + 1) * part_bytes_max);
            let message = PublishMessage::build()
                .payload(payload.slice(bytes))
                .header(RECORD, format!("{first} {last} {index}{end}"));
            (message, is_end.then_some((last, payload.len())))
        })
    }

    /// Sequence and last position of an epoch's last record. A record whose last part is missing does not count.
    pub(super) async fn last_record(&self, epoch: u32) -> Result<Option<(u64, u64)>, JournalError> {
        let message = match self.stream.get_last_raw_message_by_subject(&self.records_of(epoch)).await {
            Ok(message) => message,
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => return Ok(None),
            Err(error) => return Err(self.away(error.to_string())),
        };
        let head = Head::read(&message.headers);
        let head = head.ok_or_else(|| self.wrong(format!("message {} is no record", message.sequence)))?;
        let last = if head.is_end { head.last } else { head.first - 1 };
        Ok(Some((message.sequence, last)))
    }

    /// Removes the records up to a sequence.
    pub(super) async fn trim(&self, sequence: u64) -> Result<(), JournalError> {
        let purged = self.stream.purge().filter(&self.records).sequence(sequence + 1).await;
        purged.map(drop).map_err(|error| self.away(error.to_string()))
    }

    /// Begins to read the records from a sequence on.
    pub(super) async fn read(&self, from: u64, heads_only: bool) -> Result<Reading, JournalError> {
        let config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from.max(1) },
            ack_policy: AckPolicy::None,
            filter_subject: self.records.clone(),
            headers_only: heads_only,
            inactive_threshold: Duration::from_secs(60),
            ..pull::Config::default()
        };
        let consumer: PullConsumer =
            self.stream.create_consumer(config).await.map_err(|error| self.away(error.to_string()))?;
        Ok(Reading::new(consumer, self.place.clone(), from))
    }
}

fn epoch_message(number: u32, epochs: &[Epoch]) -> PublishMessage {
    PublishMessage::build().payload(epochs::to_text(epochs).into()).header(EPOCH, number.to_string())
}
