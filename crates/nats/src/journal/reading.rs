//! Records as they are read: batches of messages, and the parts of long records put together.

use super::remote::ANSWER_WITHIN;
use async_nats::HeaderMap;
use async_nats::jetstream::consumer::PullConsumer;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use std::fmt::Display;
use treefold_journal::{JournalError, Stored};

/// Messages that are read at a time.
const READ_MESSAGES: usize = 256;
/// The header of a record: first and last position, index of this part, and `end` in the last part.
pub(super) const RECORD: &str = "Treefold-Record";
/// The header by which the server tells the bytes of a payload that it leaves out.
const SIZE: &str = "Nats-Msg-Size";
/// A record as it was read.
pub(super) struct Record {
    pub(super) stored: Stored,
    /// Sequence of its last message.
    pub(super) sequence: u64,
    pub(super) bytes: usize,
}

/// The head of a record's message.
pub(super) struct Head {
    pub(super) first: u64,
    pub(super) last: u64,
    index: u64,
    pub(super) is_end: bool,
}

impl Head {
    pub(super) fn read(headers: &HeaderMap) -> Option<Self> {
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
    /// Reads by a consumer that begins at the sequence `from`.
    pub(super) fn new(consumer: PullConsumer, place: String, from: u64) -> Self {
        let left = consumer.cached_info().num_pending;
        Self { consumer, left, place, part: Part::default(), seen: from.saturating_sub(1) }
    }

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
