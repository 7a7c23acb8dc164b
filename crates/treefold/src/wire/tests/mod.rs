//! Tests of the two halves of a connection: against each other, against golden bytes, and against arbitrary
//! bytes.

mod fields;
mod garbage;
mod golden;
mod kept;
mod limits;
mod order;
mod push;
mod reduce_params;
mod round_trip;
mod samples;
mod schema;
mod strategies;
mod stream;
mod stream_limits;

use super::{Hello, Inbox, Incoming, Outbox, WireError};
use bytes::{BufMut, Bytes};
use std::io::IoSlice;
use treefold_core::limits::Limits;
use treefold_core::message::Message;

/// An inbox that has received a greeting.
fn greeted_inbox(limits: &Limits) -> Inbox {
    let mut outbox = Outbox::new(limits.clone());
    outbox.push_hello(&samples::hello()).unwrap();
    let mut inbox = Inbox::new(limits.clone());
    let came = feed(&mut inbox, &written(&mut outbox, usize::MAX));
    assert!(matches!(came.as_slice(), [Ok(Incoming::Hello(_))]), "{came:?}");
    inbox
}

/// One write of at most `bytes_max` bytes, as a socket would accept it.
fn write_once(outbox: &mut Outbox, bytes_max: usize) -> Vec<u8> {
    let mut slices = [IoSlice::new(&[]); 8];
    let filled = outbox.fill_slices(&mut slices);
    let mut bytes = slices[..filled].iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<u8>>();
    bytes.truncate(bytes_max);
    outbox.advance(bytes.len());
    bytes
}

/// All bytes of an outbox, written in steps of at most `step` bytes.
fn written(outbox: &mut Outbox, step: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !outbox.is_empty() {
        bytes.extend(write_once(outbox, step));
    }
    assert_eq!(outbox.len_bytes(), 0);
    bytes
}

/// The items that an inbox decodes from some bytes, up to and including a fatal error.
fn feed(inbox: &mut Inbox, bytes: &[u8]) -> Vec<Result<Incoming, WireError>> {
    let (mut came, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let mut room = inbox.read_buffer();
        let (read, later) = rest.split_at(rest.len().min(room.remaining_mut()));
        room.put_slice(read);
        rest = later;
        if !take_all(inbox, &mut came) {
            break;
        }
    }
    came
}

/// Takes all available items from an inbox. Returns false after a fatal error.
fn take_all(inbox: &mut Inbox, came: &mut Vec<Result<Incoming, WireError>>) -> bool {
    loop {
        match inbox.next() {
            Ok(None) => return true,
            Ok(Some(incoming)) => came.push(Ok(incoming)),
            Err(error) => {
                let is_fatal = error.is_fatal();
                came.push(Err(error));
                if is_fatal {
                    return false;
                }
            }
        }
    }
}

/// An outbox whose peer has greeted as this build does.
fn greeted_outbox(limits: &Limits, hello: &Hello) -> Outbox {
    let mut inbox = Inbox::new(limits.clone());
    feed(&mut inbox, &hello_bytes(hello));
    let mut outbox = Outbox::new(limits.clone());
    outbox.heed(&inbox).unwrap();
    outbox
}

/// An outbox to a peer of this build that keeps no trees.
fn usual_outbox(limits: &Limits) -> Outbox {
    greeted_outbox(limits, &Hello { trees: 0, ..samples::hello_of_this_build() })
}

/// Encodes one message.
fn bytes_of(message: &Message<Bytes>, limits: &Limits) -> Result<Vec<u8>, WireError> {
    let mut outbox = usual_outbox(limits);
    outbox.push(message)?;
    Ok(written(&mut outbox, usize::MAX))
}

/// Messages do not implement `PartialEq`; their `Debug` text is compared instead.
fn shown(message: &Message<Bytes>) -> String {
    format!("{message:?}")
}

/// The `Debug` texts of received items.
fn shown_all(came: &[Result<Incoming, WireError>]) -> Vec<String> {
    let show = |came: &Result<Incoming, WireError>| match came {
        Ok(Incoming::Message(message)) => shown(message),
        other => format!("{other:?}"),
    };
    came.iter().map(show).collect()
}

/// The bytes of a greeting, for tests that examine single frames.
fn hello_bytes(hello: &Hello) -> Vec<u8> {
    let mut outbox = Outbox::new(Limits::DEFAULT);
    outbox.push_hello(hello).unwrap();
    written(&mut outbox, usize::MAX)
}
