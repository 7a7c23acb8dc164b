//! Messages of a mirror to one reader, in any order. The reader's place must never go back, and a message that was
//! read must survive being written again.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use std::collections::VecDeque;
use treefold_mirror::event::Name;
use treefold_mirror::message::Message;
use treefold_mirror::receiver::{Receiver, Update};
use treefold_mirror::vector::Cut;

fuzz_target!(|input: (Option<u16>, Vec<(u8, Vec<u8>)>)| {
    let (from, messages) = input;
    let from = from.map(|position| Cut { epoch: 1, position: u64::from(position) });
    let mut receiver = Receiver::new(Name::new("feed").expect("a valid name"), from);
    let mut updates = VecDeque::new();
    for (tag, payload) in messages {
        // The tags of messages are small.
        let Ok(message) = Message::read(u64::from(tag % 12), Bytes::from(payload)) else { continue };
        let (tag, payload) = message.write();
        assert_eq!(Message::read(tag, payload), Ok(message.clone()));
        let before = receiver.cut();
        let taken = receiver.take(message, &mut updates);
        let began = updates.drain(..).any(|update| matches!(update, Update::Begins(_)));
        if let (Some(before), Some(after), false) = (before, receiver.cut(), began) {
            assert!(after.position >= before.position && after.epoch >= before.epoch);
        }
        if taken.is_err() {
            receiver.resume_from();
        }
    }
});
