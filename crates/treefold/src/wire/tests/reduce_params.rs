//! Parameters of the reduce, to peers that know them and to peers that do not.

use super::samples::{self, call, tree};
use super::{feed, greeted_inbox, greeted_outbox, shown, shown_all, usual_outbox, written};
use crate::wire::{Hello, Inbox, Incoming, Outbox, WireError};
use bytes::Bytes;
use treefold_core::call::CallOptions;
use treefold_core::limits::Limits;
use treefold_core::message::{Call, Message, Request};
use treefold_core::params::{Params, REDUCE_PARAMS};
use treefold_core::push::PushRequest;
use treefold_core::time::Duration;

const LIMITS: Limits = Limits::DEFAULT;

fn apart(local: &str) -> Params<Bytes> {
    let own = vec![(2, Bytes::from_static(b"two"))];
    let common = Bytes::copy_from_slice(local.as_bytes());
    Params::new(common, own).unwrap().with_reduce(Some(Bytes::from_static(b"fold")))
}

fn message(local: &str) -> Message<Bytes> {
    Message::Call(Box::new(Call { params: Some(apart(local)), ..call() }))
}

fn old() -> Hello {
    samples::hello_with_trees()
}

/// The parameters of the only call.
fn params_in(outbox: &mut Outbox) -> Params<Bytes> {
    let came = feed(&mut greeted_inbox(&LIMITS), &written(outbox, usize::MAX));
    match &came[..] {
        [Ok(Incoming::Message(Message::Call(call)))] => call.params.clone().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_peer_that_does_not_know_them_folds_by_them_and_gives_its_partitions_theirs() {
    // A peer that has not greeted may be one of both.
    for mut outbox in [greeted_outbox(&LIMITS, &old()), Outbox::new(LIMITS)] {
        outbox.push(&message("local")).unwrap();
        let params = params_in(&mut outbox);
        assert_eq!((params.reduce(), &params.common[..]), (None, &b"fold"[..]));
        for partition in tree().partitions().iter() {
            assert_eq!(params.of(partition), apart("local").of(partition), "{partition}");
        }
    }
    let mut outbox = usual_outbox(&LIMITS);
    outbox.push(&message("local")).unwrap();
    assert_eq!(params_in(&mut outbox), apart("local"));
}

#[test]
fn a_call_that_a_peer_would_misread_is_not_sent() {
    let limits = Limits { own_params_bytes_max: 100, ..LIMITS };
    let long = "x".repeat(50);
    let refused = greeted_outbox(&limits, &old()).push(&message(&long)).unwrap_err();
    assert!(matches!(refused, WireError::TooLarge { field: "params.own", .. }), "{refused:?}");
    // To a peer that has not greeted it is sent as it is, and never reaches one that does not know it.
    for (hello, knows) in [(samples::hello_of_this_build(), true), (old(), false)] {
        let mut outbox = Outbox::new(limits.clone());
        outbox.push(&message(&long)).unwrap();
        let mut inbox = Inbox::new(limits.clone());
        feed(&mut inbox, &super::hello_bytes(&hello));
        let heeded = outbox.heed(&inbox);
        assert_eq!(heeded.is_ok(), knows, "{heeded:?}");
        assert_eq!(params_in(&mut outbox), apart(&long));
    }
    let request = Request { id: 7, name: "s/a".into(), params: apart("a"), options: CallOptions::default() };
    let refused = greeted_outbox(&LIMITS, &old()).push(&Message::Request(Box::new(request))).unwrap_err();
    assert_eq!(refused, WireError::Inexpressible { field: REDUCE_PARAMS });
}

#[test]
fn an_announced_call_has_only_those_of_the_reduce() {
    let push = Some(PushRequest { request: 7, patience: Duration::from_millis(2) });
    let params =
        Some(Params::from(Bytes::from_static(b"unread")).with_reduce(Some(Bytes::from_static(b"fold"))));
    let announced = Message::Call(Box::new(Call { params, push, ..call() }));
    let mut outbox = greeted_outbox(&LIMITS, &old());
    outbox.push(&announced).unwrap();
    assert_eq!(params_in(&mut outbox), Params::from(Bytes::from_static(b"fold")));
}

#[test]
fn calls_with_them_keep_and_name_their_trees() {
    let mut outbox = greeted_outbox(&LIMITS, &samples::hello_of_this_build());
    let mut inbox = greeted_inbox(&LIMITS);
    let (again, mut bytes) = (message("local"), Vec::new());
    for _ in 0..3 {
        outbox.push(&again).unwrap();
        let frame = written(&mut outbox, usize::MAX);
        bytes.push(frame.len());
        assert_eq!(shown_all(&feed(&mut inbox, &frame)), [shown(&again)]);
    }
    assert!(bytes[2] < bytes[0], "{bytes:?}: the third call names its tree");
}
