//! The messages of a consumer that JetStream still keeps for it.

use async_nats::{Client, Subject};
use bytes::Bytes;
use std::collections::VecDeque;
use treefold_feed::Acknowledged;
use treefold_mirror::Name;

/// Acknowledges a message, and all earlier ones of its consumer if that is its policy.
const ACK: Bytes = Bytes::from_static(b"+ACK");

/// The newest messages, of which each keeps its reply.
const DENSE: usize = 8_192;
/// Of older messages, only those keep their reply whose sequence is a multiple of it, because an acknowledgement covers
/// all earlier messages.
const SPARSE: u64 = 64;

/// Messages that were delivered and not acknowledged, in the order of their sequences in the stream. A rule may hold an
/// event back while many others pass it, so each costs little.
#[derive(Debug)]
pub(super) struct Unacknowledged {
    messages: VecDeque<Delivered>,
    /// The streams of events. The origin bounds their number.
    streams: Vec<Name>,
    /// Each message needs its own acknowledgement.
    is_each: bool,
}

#[derive(Debug)]
struct Delivered {
    sequence: u64,
    reply: Option<Subject>,
    /// Index of the stream, and number of the event; `None` if the origin will never acknowledge one.
    event: Option<(usize, u64)>,
}

impl Unacknowledged {
    pub(super) fn new(is_each: bool) -> Self {
        Self { messages: VecDeque::new(), streams: Vec::new(), is_each }
    }

    /// Notes a delivered message. One that was delivered before has another reply now.
    pub(super) fn push(&mut self, sequence: u64, reply: Subject, event: Option<(&Name, u64)>) {
        if self.messages.back().is_some_and(|last| last.sequence >= sequence) {
            if let Ok(at) = self.place_of(sequence) {
                self.messages[at].reply = Some(reply);
            }
            return;
        }
        let event = event.map(|(stream, number)| (self.index_of(stream), number));
        self.messages.push_back(Delivered { sequence, reply: Some(reply), event });
        if let Some(at) = self.messages.len().checked_sub(DENSE + 1)
            && !self.is_each
            && !self.messages[at].sequence.is_multiple_of(SPARSE)
        {
            self.messages[at].reply = None;
        }
    }

    fn index_of(&mut self, stream: &Name) -> usize {
        self.streams.iter().position(|known| known == stream).unwrap_or_else(|| {
            self.streams.push(stream.clone());
            self.streams.len() - 1
        })
    }

    fn place_of(&self, sequence: u64) -> Result<usize, usize> {
        self.messages.binary_search_by_key(&sequence, |delivered| delivered.sequence)
    }

    /// Notes that the origin has refused a message's event for good.
    pub(super) fn pass_over(&mut self, sequence: u64) {
        if let Ok(at) = self.place_of(sequence) {
            self.messages[at].event = None;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Stream and number of the first event.
    pub(super) fn first(&self) -> Option<(&Name, u64)> {
        let (stream, number) = self.messages.iter().find_map(|delivered| delivered.event)?;
        Some((&self.streams[stream], number))
    }

    /// Acknowledges the first messages, up to one whose event is not acknowledged. Returns the last sequence that is.
    pub(super) async fn confirm(&mut self, client: &Client, acknowledged: &Acknowledged) -> Option<u64> {
        let (sequence, replies) = self.take_acknowledged(acknowledged)?;
        for reply in replies {
            if let Err(error) = client.publish(reply, ACK).await {
                // The message comes again, and the origin recognises it.
                tracing::debug!(%error, "an acknowledgement is lost");
            }
        }
        Some(sequence)
    }

    fn take_acknowledged(&mut self, acknowledged: &Acknowledged) -> Option<(u64, Vec<Subject>)> {
        let reached: Vec<u64> =
            self.streams.iter().map(|stream| acknowledged.of(stream).unwrap_or(0)).collect();
        let (mut last, mut replies) = (None, Vec::new());
        while let Some(delivered) = self
            .messages
            .pop_front_if(|first| first.event.is_none_or(|(stream, number)| reached[stream] >= number))
        {
            last = Some(delivered.sequence);
            if let Some(reply) = delivered.reply {
                if !self.is_each {
                    replies.clear();
                }
                replies.push(reply);
            }
        }
        last.map(|last| (last, replies))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_acknowledged_if_the_consumer_needs_it() {
        let mut messages = Unacknowledged::new(true);
        for sequence in 1..=3 {
            messages.push(sequence, Subject::from(format!("reply.{sequence}")), None);
        }
        let (last, replies) = messages.take_acknowledged(&Acknowledged::default()).unwrap();
        assert_eq!((last, replies.len()), (3, 3));
    }

    #[test]
    fn messages_are_acknowledged_up_to_the_first_whose_event_is_not() {
        let name = |text: &'static str| Name::new(text).unwrap();
        let mut messages = Unacknowledged::new(false);
        for (sequence, event) in
            [(4, Some(("a", 4))), (5, None), (6, Some(("b", 1))), (7, Some(("a", 7))), (8, Some(("a", 8)))]
        {
            let event = event.map(|(stream, number)| (name(stream), number));
            let event = event.as_ref().map(|(stream, number)| (stream, *number));
            messages.push(sequence, Subject::from(format!("reply.{sequence}")), event);
        }
        let mut take = |numbers: &[(&'static str, u64)]| {
            let known = numbers.iter().map(|&(stream, number)| (name(stream), number)).collect();
            messages.take_acknowledged(&known).map(|(sequence, replies)| (sequence, replies.len()))
        };
        assert_eq!(take(&[("b", 9)]), None);
        assert_eq!(take(&[("a", 8)]), Some((5, 1)), "the message that is no event goes with the earlier one");
        assert_eq!(take(&[("a", 7), ("b", 1)]), Some((7, 1)));
        messages.pass_over(8);
        assert_eq!(messages.take_acknowledged(&Acknowledged::default()).unwrap().0, 8);
        assert_eq!(messages.len(), 0);
    }

    #[test]
    fn old_messages_share_replies_and_are_all_acknowledged() {
        let (stream, count) = (Name::new("a").unwrap(), 2 * DENSE as u64);
        let mut messages = Unacknowledged::new(false);
        for sequence in 1..=count {
            messages.push(sequence, Subject::from(format!("reply.{sequence}")), Some((&stream, sequence)));
        }
        assert_eq!(messages.first(), Some((&stream, 1)));
        let replies = messages.messages.iter().filter(|one| one.reply.is_some()).count();
        assert_eq!(replies, DENSE + DENSE / SPARSE as usize);
        let mut take = |number| messages.take_acknowledged(&[(stream.clone(), number)].into_iter().collect());
        assert_eq!(take(100), Some((100, vec![Subject::from("reply.64")])));
        assert_eq!(take(110), Some((110, vec![])), "a later acknowledgement covers them");
        // A message that comes again has a reply again.
        messages.push(111, Subject::from("again.111"), Some((&stream, 111)));
        let mut take = |number| messages.take_acknowledged(&[(stream.clone(), number)].into_iter().collect());
        assert_eq!(take(111), Some((111, vec![Subject::from("again.111")])));
        assert_eq!(take(count), Some((count, vec![Subject::from(format!("reply.{count}"))])));
    }
}
