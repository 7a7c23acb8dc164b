//! Every message arrives equal, however its bytes are split on the way.

use super::strategies::message;
use super::{
    bytes_of, feed, greeted_inbox, hello_bytes, samples, shown, shown_all, stream, usual_outbox, write_once,
};
use crate::wire::Inbox;
use proptest::prelude::*;
use treefold_core::limits::Limits;

/// Chunks short enough that arbitrary payloads need several.
const SHORT_CHUNKS: Limits = Limits { chunk_bytes: 8 << 10, ..Limits::DEFAULT };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 192 }))]

    #[test]
    fn messages_arrive_equal(
        messages in proptest::collection::vec(message(), 1..6),
        step in prop_oneof![1_usize..200, 1_000_usize..100_000],
    ) {
        let mut outbox = usual_outbox(&SHORT_CHUNKS);
        let mut inbox = greeted_inbox(&SHORT_CHUNKS);
        let mut came = Vec::new();
        messages.iter().for_each(|message| outbox.push(message).unwrap());
        while !outbox.is_empty() {
            came.extend(feed(&mut inbox, &write_once(&mut outbox, step)));
        }
        let mut arrived = shown_all(&came);
        let mut sent: Vec<String> = messages.iter().map(shown).collect();
        // Small messages overtake large ones of other waves. `order.rs` tests the order.
        arrived.sort();
        sent.sort();
        prop_assert_eq!(arrived, sent);
    }

    #[test]
    fn messages_pushed_while_writing_arrive(
        messages in proptest::collection::vec((message(), 0_usize..40_000), 1..8),
    ) {
        let mut outbox = usual_outbox(&SHORT_CHUNKS);
        let mut inbox = greeted_inbox(&SHORT_CHUNKS);
        let mut came = Vec::new();
        for (message, step) in &messages {
            outbox.push(message).unwrap();
            came.extend(feed(&mut inbox, &write_once(&mut outbox, *step)));
        }
        while !outbox.is_empty() {
            came.extend(feed(&mut inbox, &write_once(&mut outbox, usize::MAX)));
        }
        let mut arrived = shown_all(&came);
        let mut sent: Vec<String> = messages.iter().map(|(message, _)| shown(message)).collect();
        arrived.sort();
        sent.sort();
        prop_assert_eq!(arrived, sent);
    }
}

#[test]
fn reads_may_end_at_any_byte() {
    let mut bytes = hello_bytes(&samples::hello());
    let messages = || samples::messages().into_iter().chain(stream::messages());
    for (_, message) in messages() {
        bytes.extend(bytes_of(&message, &Limits { chunk_bytes: 2, ..Limits::DEFAULT }).unwrap());
    }
    let whole = shown_all(&feed(&mut Inbox::new(Limits::DEFAULT), &bytes));
    assert_eq!(whole.len(), 1 + messages().count());
    for cut in 0..=bytes.len() {
        let mut inbox = Inbox::new(Limits::DEFAULT);
        let mut came = feed(&mut inbox, &bytes[..cut]);
        came.extend(feed(&mut inbox, &bytes[cut..]));
        assert_eq!(shown_all(&came), whole, "cut at {cut}");
    }
}

#[test]
fn equal_names_arrive_as_one_allocation() {
    use crate::wire::Incoming;
    use treefold_core::message::Message;
    let bytes = bytes_of(&samples::messages()[0].1, &Limits::DEFAULT).unwrap();
    let came = feed(&mut greeted_inbox(&Limits::DEFAULT), &bytes.repeat(2));
    let [Ok(Incoming::Message(Message::Call(first))), Ok(Incoming::Message(Message::Call(second)))] =
        came.as_slice()
    else {
        panic!("{came:?}")
    };
    assert!(std::sync::Arc::ptr_eq(&first.name, &second.name));
}
