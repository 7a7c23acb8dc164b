//! The messages of a consumer that JetStream still keeps for it.

use async_nats::{Client, Subject};
use bytes::Bytes;
use std::collections::BTreeMap;
use treefold_feed::Acknowledged;
use treefold_mirror::Name;

/// Acknowledges a message, and all earlier ones of its consumer if that is its policy.
const ACK: Bytes = Bytes::from_static(b"+ACK");

/// Messages that were delivered and not acknowledged, by their sequence in the stream. JetStream bounds their number.
#[derive(Debug)]
pub(super) struct Unacknowledged {
    messages: BTreeMap<u64, Delivered>,
    /// Each message needs its own acknowledgement.
    is_each: bool,
}

#[derive(Debug)]
struct Delivered {
    reply: Subject,
    /// Stream and number of the event; `None` if the origin will never acknowledge one.
    event: Option<(Name, u64)>,
}

impl Unacknowledged {
    pub(super) fn new(is_each: bool) -> Self {
        Self { messages: BTreeMap::new(), is_each }
    }

    /// Notes a delivered message.
    pub(super) fn push(&mut self, sequence: u64, reply: Subject, event: Option<(Name, u64)>) {
        self.messages.insert(sequence, Delivered { reply, event });
    }

    /// Notes that the origin has refused a message's event for good.
    pub(super) fn pass_over(&mut self, sequence: u64) {
        if let Some(delivered) = self.messages.get_mut(&sequence) {
            delivered.event = None;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
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
        let is_done = |delivered: &Delivered| match &delivered.event {
            None => true,
            Some((stream, number)) => acknowledged.of(stream).is_some_and(|reached| reached >= *number),
        };
        let (mut last, mut replies) = (None, Vec::new());
        while let Some(entry) = self.messages.first_entry()
            && is_done(entry.get())
        {
            let (sequence, delivered) = entry.remove_entry();
            last = Some(sequence);
            if !self.is_each {
                replies.clear();
            }
            replies.push(delivered.reply);
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
        assert!(messages.is_empty());
    }
}
