//! One typed packet. An accepted packet must be rebuilt from its values byte for byte.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use treefold::operators::packet::Packet;

fuzz_target!(|input: &[u8]| {
    let Ok(packet) = Packet::read(&Bytes::copy_from_slice(input)) else { return };
    assert_eq!(packet.values().count(), packet.len());
    assert_eq!(Packet::of(packet.values()).bytes(), packet.bytes(), "one row has one encoding");
});
