//! The messages of a consumer that JetStream still keeps for it.

use async_nats::{Client, Subject};
use bytes::Bytes;
use std::collections::BTreeMap;
use treefold_feed::Acknowledged;
use treefold_mirror::Name;

/// Acknowledges a message, and all earlier ones of its consumer.
const ACK: Bytes = Bytes::from_static(b"+ACK");

/// Messages that were delivered and not acknowledged, by their sequence in the stream. JetStream bounds their number.
#[derive(Debug, Default)]
pub(super) struct Unacknowledged(BTreeMap<u64, Delivered>);

#[derive(Debug)]
struct Delivered {
    reply: Subject,
    /// Stream and number of the event; `None` if the origin will never acknowledge one.
    event: Option<(Name, u64)>,
}

impl Unacknowledged {
    /// Notes a delivered message.
    pub(super) fn push(&mut self, sequence: u64, reply: Subject, event: Option<(Name, u64)>) {
        self.0.insert(sequence, Delivered { reply, event });
    }

    /// Notes that the origin has refused a message's event for good.
    pub(super) fn pass_over(&mut self, sequence: u64) {
        if let Some(delivered) = self.0.get_mut(&sequence) {
            delivered.event = None;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Acknowledges the first messages, up to one whose event is not acknowledged. Returns the last sequence that is.
    pub(super) async fn confirm(&mut self, client: &Client, acknowledged: &Acknowledged) -> Option<u64> {
        let (sequence, reply) = self.take_acknowledged(acknowledged)?;
        if let Err(error) = client.publish(reply, ACK).await {
            // The message comes again, and the origin recognises it.
            tracing::debug!(%error, "an acknowledgement is lost");
        }
        Some(sequence)
    }

    fn take_acknowledged(&mut self, acknowledged: &Acknowledged) -> Option<(u64, Subject)> {
        let is_done = |delivered: &Delivered| match &delivered.event {
            None => true,
            Some((stream, number)) => acknowledged.of(stream).is_some_and(|reached| reached >= *number),
        };
        let mut last = None;
        while let Some(entry) = self.0.first_entry()
            && is_done(entry.get())
        {
            let (sequence, delivered) = entry.remove_entry();
            last = Some((sequence, delivered.reply));
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_acknowledged_up_to_the_first_whose_event_is_not() {
        let name = |text: &'static str| Name::new(text).unwrap();
        let mut messages = Unacknowledged::default();
        for (sequence, event) in
            [(4, Some(("a", 4))), (5, None), (6, Some(("b", 1))), (7, Some(("a", 7))), (8, Some(("a", 8)))]
        {
            let event = event.map(|(stream, number)| (name(stream), number));
            messages.push(sequence, Subject::from(format!("reply.{sequence}")), event);
        }
        let mut take = |numbers: &[(&'static str, u64)]| {
            let known = numbers.iter().map(|&(stream, number)| (name(stream), number)).collect();
            messages.take_acknowledged(&known).map(|(sequence, _)| sequence)
        };
        assert_eq!(take(&[("b", 9)]), None);
        assert_eq!(take(&[("a", 8)]), Some(5), "the message that is no event goes with the earlier one");
        assert_eq!(take(&[("a", 7), ("b", 1)]), Some(7));
        messages.pass_over(8);
        assert_eq!(messages.take_acknowledged(&Acknowledged::default()).unwrap().0, 8);
        assert!(messages.is_empty());
    }
}
