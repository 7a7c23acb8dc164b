//! Push waves on the wire: values at a limit pass, and malformed values are refused by field.

use super::limits::{frame, passes_only_within};
use super::{bytes_of, feed, greeted_inbox, shown, shown_all};
use crate::wire::frame::{FLAG_PAYLOAD, Kind};
use crate::wire::{Outbox, WireError};
use bytes::Bytes;
use treefold_core::limits::Limits;
use treefold_core::message::Message;
use treefold_core::push::message::PushMessage;

fn message(push: PushMessage<Bytes>) -> Message<Bytes> {
    Message::Push(Box::new(push))
}

fn push(sequence: u32, payload: impl Into<Bytes>) -> Message<Bytes> {
    message(PushMessage::Push { request: 7, sequence, last: false, payload: payload.into() })
}

#[test]
fn an_application_s_name_is_bounded() {
    let named =
        |bytes: usize| message(PushMessage::Attach { application: "a".repeat(bytes).into(), worker: 0 });
    let longest = named(128);
    let bytes = bytes_of(&longest, &Limits::DEFAULT).unwrap();
    assert_eq!(shown_all(&feed(&mut greeted_inbox(&Limits::DEFAULT), &bytes)), [shown(&longest)]);
    let refused = Outbox::new(Limits::DEFAULT).push(&named(129)).unwrap_err();
    assert_eq!(refused, WireError::TooLarge { field: "application", limit: 128, got: 129 });
}

#[test]
fn problems_are_clipped_when_sent_and_bounded_when_read() {
    let limits = Limits { message_bytes_max: 4, ..Limits::DEFAULT };
    let problem = PushMessage::Failed { request: 7, problem: "no disk".into() };
    let clipped = message(PushMessage::Failed { request: 7, problem: "no d".into() });
    let bytes = bytes_of(&message(problem.clone()), &limits).unwrap();
    assert_eq!(shown_all(&feed(&mut greeted_inbox(&limits), &bytes)), [shown(&clipped)]);
    let bytes = bytes_of(&message(problem), &Limits::DEFAULT).unwrap();
    let came = feed(&mut greeted_inbox(&limits), &bytes);
    assert!(matches!(came[0], Err(WireError::TooLarge { field: "problem", limit: 4, got: 7 })), "{came:?}");
}

#[test]
fn a_payload_is_bounded_as_any_other() {
    let tighter = Limits { payload_bytes_max: 4_999, ..Limits::DEFAULT };
    let limits = Limits { payload_bytes_max: 5_000, ..Limits::DEFAULT };
    passes_only_within(&push(1, vec![1; 5_000]), &limits, &tighter, "payload");
}

#[test]
fn pushes_are_numbered_from_one_and_have_a_payload() {
    let refused = Outbox::new(Limits::DEFAULT).push(&push(0, "run")).unwrap_err();
    assert_eq!(refused.to_string(), WireError::Malformed { field: "sequence" }.to_string());
    let senseless = [
        (frame(Kind::Push, FLAG_PAYLOAD, &[0x08, 7], b"run"), "sequence"),
        (frame(Kind::Push, 0, &[0x08, 7, 0x10, 1], b""), "payload"),
        (frame(Kind::PushTaken, FLAG_PAYLOAD, &[0x08, 7], b"run"), "payload"),
        (frame(Kind::PushAttached, 0, &[0x08, 7, 0x12, 1, b'x'], b""), "window_bytes"),
    ];
    for (bytes, field) in senseless {
        let sound = bytes_of(&push(1, "run"), &Limits::DEFAULT).unwrap();
        let came = feed(&mut greeted_inbox(&Limits::DEFAULT), &[bytes, sound].concat());
        assert!(matches!(&came[0], Err(WireError::Malformed { field: of }) if *of == field), "{came:?}");
        assert!(came[1].is_ok(), "the next message is read");
    }
}
