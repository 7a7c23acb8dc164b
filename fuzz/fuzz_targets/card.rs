//! One card, in the encoding of gossip.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treefold_core::membership::codec::{decode_card, encode_card};

fuzz_target!(|input: &[u8]| {
    let mut rest = input;
    let Ok(card) = decode_card(&mut rest) else { return };
    let read = &input[..input.len() - rest.len()];
    let mut written = Vec::new();
    // A decoder may accept a card that no member would write; encoding it then fails.
    if encode_card(&card, &mut written).is_ok() {
        assert_eq!(written, read, "one card has one encoding");
    }
});
