//! Arbitrary bytes: an inbox answers with an error. It never panics and never returns more messages than it
//! received.

use super::strategies::message;
use super::{bytes_of, feed, greeted_inbox};
use crate::wire::frame::{Kind, LENGTH_LEAST, NO_TAG, Prefix};
use crate::wire::{Inbox, Incoming};
use proptest::prelude::*;
use treefold_core::limits::Limits;

/// Small limits, so that they are reached often.
const TIGHT: Limits = Limits {
    header_bytes_max: 4_096,
    payload_bytes_max: 20_000,
    chunk_bytes: 4_000,
    tree_seats_max: 16,
    missing_max: 2,
    partitions_max: 1 << 19,
    message_bytes_max: 16,
    ..Limits::DEFAULT
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 384 }))]

    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        feed(&mut Inbox::new(TIGHT), &bytes);
        feed(&mut greeted_inbox(&TIGHT), &bytes);
    }

    #[test]
    fn random_headers_of_every_kind(
        kind in proptest::sample::select(Kind::ALL),
        flags in 0_u8..4,
        header in proptest::collection::vec(any::<u8>(), 0..300),
        payload in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let length = (LENGTH_LEAST + header.len() + payload.len()) as u32;
        let header_length = header.len() as u32;
        let prefix = Prefix { length, kind: kind as u8, flags, header_length, tag: NO_TAG };
        let frame = [&prefix.to_bytes()[..], &header, &payload].concat();
        let came = feed(&mut greeted_inbox(&TIGHT), &frame);
        prop_assert!(came.len() <= 1);
    }

    #[test]
    fn true_messages_with_a_few_bits_flipped(
        message in message(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 0_u32..8), 1..4),
    ) {
        let mut bytes = bytes_of(&message, &Limits::DEFAULT).unwrap();
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        feed(&mut greeted_inbox(&TIGHT), &bytes);
        let came = feed(&mut greeted_inbox(&Limits::DEFAULT), &bytes);
        // Every decoded message can be encoded again.
        for incoming in came.into_iter().flatten() {
            if let Incoming::Message(message) = incoming {
                prop_assert!(bytes_of(&message, &Limits::DEFAULT).is_ok());
            }
        }
    }

    #[test]
    fn a_truncated_message_does_not_arrive(message in message(), at in any::<prop::sample::Index>()) {
        let bytes = bytes_of(&message, &Limits::DEFAULT).unwrap();
        let came = feed(&mut greeted_inbox(&Limits::DEFAULT), &bytes[..at.index(bytes.len())]);
        prop_assert!(came.is_empty());
    }

    #[test]
    fn an_inbox_accepts_exactly_what_an_outbox_may_send(message in message()) {
        match bytes_of(&message, &TIGHT) {
            Ok(bytes) => {
                let came = feed(&mut greeted_inbox(&TIGHT), &bytes);
                prop_assert!(matches!(came.as_slice(), [Ok(_)]), "{:?}", came);
            }
            Err(refused) => {
                let sent = Limits { chunk_bytes: TIGHT.chunk_bytes, ..Limits::DEFAULT };
                let came = feed(&mut greeted_inbox(&TIGHT), &bytes_of(&message, &sent).unwrap());
                prop_assert!(matches!(came.as_slice(), [Err(_)]), "outbox: {refused}, inbox: {:?}", came);
            }
        }
    }
}
