//! One card, as gossip carries it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treefold_core::membership::codec::{decode_card, encode_card};

fuzz_target!(|input: &[u8]| {
    let mut rest = input;
    let Ok(card) = decode_card(&mut rest) else { return };
    let read = &input[..input.len() - rest.len()];
    let mut written = Vec::new();
    // A decoder may take a card that no member would write; it is then refused as a whole.
    if encode_card(&card, &mut written).is_ok() {
        assert_eq!(written, read, "one card has one encoding");
    }
});
