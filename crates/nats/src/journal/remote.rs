//! The messages of a journal: how they are written, read and removed.

use super::{IN_FLIGHT_MAX, StreamOptions};
use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use async_nats::jetstream::context::{GetStreamErrorKind, PublishAckFuture, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, LastRawMessageErrorKind, RetentionPolicy, Stream,
};
use async_nats::jetstream::{self, Context, ErrorCode};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use std::collections::VecDeque;
use std::fmt::Display;
use std::time::Duration;
use treefold_journal::epochs;
use treefold_journal::{Epoch, JournalError, Stored};

/// Time that the server has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Messages that are read at a time.
const READ_MESSAGES: usize = 256;
/// Bytes of a message beside the payload: its headers.
const HEADER_BYTES: usize = 512;
/// The header of a record: first and last position, index of this part, and `end` in the last part.
const RECORD: &str = "Treefold-Record";
/// The header by which the server tells the bytes of a payload that it leaves out.
const SIZE: &str = "Nats-Msg-Size";
/// The header of a message about epochs: the number of the epoch.
const EPOCH: &str = "Treefold-Epoch";

/// The server's side of a journal.
#[derive(Debug)]
pub(super) struct Remote {
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

/// A record as it was read.
pub(super) struct Record {
    pub(super) stored: Stored,
    /// Sequence of its last message.
    pub(super) sequence: u64,
    pub(super) bytes: usize,
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
        let mut context = jetstream::new(client);
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
        Ok(Self { context, stream, place, epochs, records, part_bytes_max })
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
            match answer.await {
                Ok(answer) if refused.is_none() => {
                    (writing.sequence, writing.record) = (answer.sequence, answer.sequence);
                    stored.extend(end);
                }
                Ok(_) => {}
                Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => {
                    refused = refused.or(Some(Refused::Sequence));
                }
                Err(error) => refused = refused.or_else(|| Some(Refused::Other(error.to_string()))),
            }
        }
        writing.is_certain = refused.is_none();
        (writing, stored, refused)
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
        let left = consumer.cached_info().num_pending;
        Ok(Reading {
            consumer,
            left,
            place: self.place.clone(),
            part: Part::default(),
            seen: from.saturating_sub(1),
        })
    }
}

fn epoch_message(number: u32, epochs: &[Epoch]) -> PublishMessage {
    PublishMessage::build().payload(epochs::to_text(epochs).into()).header(EPOCH, number.to_string())
}

/// The head of a record's message.
struct Head {
    first: u64,
    last: u64,
    index: u64,
    is_end: bool,
}

impl Head {
    fn read(headers: &HeaderMap) -> Option<Self> {
        let mut words = headers.get(RECORD)?.as_str().split(' ');
        let mut number = || words.next()?.parse().ok();
        let (first, last, index) = (number()?, number()?, number()?);
        let is_end = words.next() == Some("end");
        (1..=last).contains(&first).then_some(Self { first, last, index, is_end })
    }
}

/// The parts of a record that were read.
#[derive(Default)]
struct Part {
    first: u64,
    next: u64,
    bytes: BytesMut,
}

/// Records that are being read.
pub(super) struct Reading {
    consumer: PullConsumer,
    /// Messages that were there when the reading began.
    left: u64,
    place: String,
    part: Part,
    /// Sequence of the last message.
    pub(super) seen: u64,
}

impl Reading {
    /// The next records. `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Record>>, JournalError> {
        if self.left == 0 {
            return Ok(None);
        }
        let place = self.place.clone();
        let away = move |problem: &dyn Display| JournalError::Unavailable {
            place: place.clone(),
            problem: problem.to_string(),
        };
        let count = READ_MESSAGES.min(usize::try_from(self.left).unwrap_or(READ_MESSAGES));
        let batch = self.consumer.batch().max_messages(count).expires(ANSWER_WITHIN).messages().await;
        let mut messages = batch.map_err(|error| away(&error))?;
        let mut records = Vec::new();
        let before = self.left;
        while let Some(message) = messages.next().await {
            let message = message.map_err(|error| away(&error))?;
            let sequence = message.info().map_err(|error| away(&error))?.stream_sequence;
            self.left = self.left.saturating_sub(1);
            self.seen = sequence;
            let head = message.headers.as_ref().and_then(Head::read);
            let head = head.ok_or_else(|| JournalError::Remote {
                place: self.place.clone(),
                problem: format!("message {sequence} is no record"),
            })?;
            let size = message.headers.as_ref().and_then(|headers| headers.get(SIZE));
            let size = size.and_then(|size| size.as_str().parse().ok());
            let record = self.take(&head, sequence, &message.payload);
            records.extend(record.map(|record| Record { bytes: size.unwrap_or(record.bytes), ..record }));
        }
        if self.left == before {
            return Err(away(&"it does not send its records"));
        }
        Ok(Some(records))
    }

    /// Takes a part. Returns the record that it completes. The parts of a record that a dead writer began are left out.
    fn take(&mut self, head: &Head, sequence: u64, payload: &Bytes) -> Option<Record> {
        if head.index == 0 {
            self.part = Part { first: head.first, ..Part::default() };
        }
        let part = &mut self.part;
        if (part.first, part.next) != (head.first, head.index) {
            return None;
        }
        part.next += 1;
        // A record of one message is not copied.
        let payload = if head.index == 0 && head.is_end {
            payload.clone()
        } else {
            part.bytes.extend_from_slice(payload);
            if !head.is_end {
                return None;
            }
            std::mem::take(&mut part.bytes).freeze()
        };
        let (first, last, bytes) = (head.first, head.last, payload.len());
        Some(Record { stored: Stored { first, last, payload }, sequence, bytes })
    }
}
