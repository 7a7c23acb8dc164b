//! The bytes of a connection. The first byte of the input selects how they are split into reads.
#![no_main]

use bytes::BufMut;
use libfuzzer_sys::fuzz_target;
use treefold::parts::wire::{Hello, Inbox, Outbox};
use treefold_core::id::NodeId;
use treefold_core::limits::Limits;

/// Small, so that inputs reach the limits.
const LIMITS: Limits = Limits {
    header_bytes_max: 4 << 10,
    payload_bytes_max: 16 << 10,
    tree_seats_max: 64,
    missing_max: 4,
    ..Limits::DEFAULT
};

fn greeting() -> Vec<u8> {
    let node = NodeId::new(([127, 0, 0, 1], 7700).into(), 1);
    let mut outbox = Outbox::new(LIMITS);
    outbox.push_hello(&Hello::new("treefold", node)).expect("a greeting is within its limits");
    let mut slices = [std::io::IoSlice::new(&[]); 4];
    let filled = outbox.fill_slices(&mut slices);
    slices[..filled].iter().flat_map(|slice| slice.to_vec()).collect()
}

fuzz_target!(|input: &[u8]| {
    let Some((&first, bytes)) = input.split_first() else { return };
    let mut inbox = Inbox::new(LIMITS);
    if first & 1 == 0 {
        // Without this, few inputs would get past the greeting.
        inbox.put(&greeting());
    }
    let (mut rest, step) = (bytes, 1 + usize::from(first >> 1));
    while !rest.is_empty() {
        let mut room = inbox.read_buffer();
        let (read, later) = rest.split_at(rest.len().min(step).min(room.remaining_mut()));
        room.put_slice(read);
        rest = later;
        loop {
            match inbox.next() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) if error.is_fatal() => {
                    assert_eq!(inbox.next().expect_err("a broken inbox must stay broken"), error);
                    return;
                }
                Err(_) => {}
            }
        }
    }
});
