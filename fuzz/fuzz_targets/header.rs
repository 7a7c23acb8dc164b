//! One frame. The first byte of the input is its kind, the second its flags, the rest its header.
//!
//! If the flags announce a payload, the last 16 bytes are the payload. A received message is sent and
//! received again: alone, and four times over one connection, which may keep its tree.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use std::io::IoSlice;
use treefold::parts::wire::{Hello, Inbox, Incoming, Launch, Outbox};
use treefold_core::id::NodeId;
use treefold_core::limits::Limits;
use treefold_core::message::Message;

const PREFIX_BYTES: usize = 30;
/// Flags of a frame with data behind its header: a payload, or the announcement of one.
const WITH_PAYLOAD: u8 = 3;
const PAYLOAD_BYTES: usize = 16;

fn written(outbox: &mut Outbox) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !outbox.is_empty() {
        let mut slices = [IoSlice::new(&[]); 4];
        let filled = outbox.fill_slices(&mut slices);
        let before = bytes.len();
        slices[..filled].iter().for_each(|slice| bytes.extend_from_slice(slice));
        let count = bytes.len() - before;
        outbox.advance(count);
    }
    bytes
}

fn read(frame: &[u8]) -> Option<Incoming> {
    let mut inbox = greeted();
    inbox.put(frame);
    inbox.next().ok().flatten()
}

fn greeted() -> Inbox {
    let node = NodeId::new(([127, 0, 0, 1], 7700).into(), 1);
    let mut greeting = Outbox::new(Limits::DEFAULT);
    greeting.push_hello(&Hello::new("treefold", node)).expect("a greeting is within its limits");
    let mut inbox = Inbox::new(Limits::DEFAULT);
    inbox.put(&written(&mut greeting));
    inbox.next().expect("the greeting is valid");
    inbox
}

fn check_kept(message: &Message<Bytes>, shown: &str) {
    let (mut outbox, mut inbox) = (Outbox::new(Limits::DEFAULT), greeted());
    outbox.heed(&inbox).expect("nothing was queued before the greeting");
    for _ in 0..4 {
        outbox.push(message).expect("a received message can be sent");
        inbox.put(&written(&mut outbox));
        let Ok(Some(Incoming::Message(again))) = inbox.next() else {
            panic!("the message was not received again: {message:?}")
        };
        assert_eq!(format!("{again:?}"), shown);
    }
}

fn check_launch(launch: &Launch) {
    let mut outbox = Outbox::new(Limits::DEFAULT);
    outbox.push_launch(launch).expect("a received launch can be sent");
    let Some(Incoming::Launch(again)) = read(&written(&mut outbox)) else {
        panic!("the launch was not received again: {launch:?}")
    };
    assert_eq!(*again, *launch);
}

fuzz_target!(|input: &[u8]| {
    let [kind, flags, rest @ ..] = input else { return };
    let payload_length = if flags & WITH_PAYLOAD == 0 { 0 } else { PAYLOAD_BYTES };
    let header_length = rest.len().saturating_sub(payload_length) as u32;
    let mut frame = vec![0; PREFIX_BYTES];
    frame[0..4].copy_from_slice(&(26 + rest.len() as u32).to_le_bytes());
    frame[4] = *kind;
    frame[5] = *flags;
    frame[6..10].copy_from_slice(&header_length.to_le_bytes());
    frame.extend_from_slice(rest);
    let message = match read(&frame) {
        Some(Incoming::Message(message)) => message,
        Some(Incoming::Launch(launch)) => return check_launch(&launch),
        _ => return,
    };
    let mut outbox = Outbox::new(Limits::DEFAULT);
    outbox.heed(&greeted()).expect("nothing was queued before the greeting");
    outbox.push(&message).expect("a received message can be sent");
    let Some(Incoming::Message(again)) = read(&written(&mut outbox)) else {
        panic!("the message was not received again: {message:?}")
    };
    check_kept(&again, &format!("{again:?}"));
    let (first, second) = (format!("{message:?}"), format!("{again:?}"));
    // A time that overflows nanoseconds is cut once, and a negative zero becomes zero. After that, values are
    // stable.
    if !first.contains("18446744073") && !first.contains("-0.0") {
        assert_eq!(first, second);
    }
});
