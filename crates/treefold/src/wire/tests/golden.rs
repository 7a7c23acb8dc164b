//! Encoded bytes that must never change, because other versions and other languages read them.
//!
//! `golden.txt` has one frame per line, with prefix, header and payload separated. If the protocol was
//! changed on purpose, add the new line that the failing test prints. A change of an old line needs a new
//! [`VERSION`](crate::wire::VERSION).

use super::{bytes_of, feed, greeted_inbox, hello_bytes, samples, shown, shown_all, stream, written};
use crate::wire::{Inbox, Incoming, Outbox, WireError};
use bytes::Bytes;
use std::fmt::Write as _;
use treefold_core::limits::Limits;
use treefold_core::message::Message;

const GOLDEN: &str = include_str!("golden.txt");

pub(super) fn golden(name: &str) -> String {
    let line = GOLDEN.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or("(no line)").to_owned()
}

/// Frames in the format of golden.txt.
pub(super) fn spelled(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let number = |at: usize| u32::from_le_bytes(*rest[at..].first_chunk().unwrap()) as usize;
        let (header_at, end) = (30 + number(6), 4 + number(0));
        for (part, after) in [(0..30, " | "), (30..header_at, " | "), (header_at..end, " ; ")] {
            rest[part].iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
            text.push_str(after);
        }
        rest = &rest[end..];
    }
    text.trim_end_matches([' ', ';']).to_owned()
}

fn parsed(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn every_kind_keeps_its_encoding() {
    let mut wrong = String::new();
    for (name, message) in samples::messages().into_iter().chain(stream::messages()) {
        let now = spelled(&bytes_of(&message, &Limits::DEFAULT).unwrap());
        if now != golden(name) {
            writeln!(wrong, "{name}: {now}").unwrap();
            continue;
        }
        let came = feed(&mut greeted_inbox(&Limits::DEFAULT), &parsed(&now));
        assert_eq!(shown_all(&came), [shown(&message)], "{name}");
    }
    assert!(wrong.is_empty(), "these lines of golden.txt differ from the current encoding:\n{wrong}");
}

#[test]
fn greetings_and_faults_never_change() {
    let mut outbox = Outbox::new(Limits::DEFAULT);
    outbox.push_fault(&samples::fault()).unwrap();
    let fault = spelled(&written(&mut outbox, usize::MAX));
    let hello = spelled(&hello_bytes(&samples::hello()));
    assert_eq!(format!("hello: {hello}\nfault: {fault}"), {
        format!("hello: {}\nfault: {}", golden("hello"), golden("fault"))
    });
    let came = feed(&mut Inbox::new(Limits::DEFAULT), &parsed(&format!("{hello}{fault}")));
    let expected = format!("Ok(Hello({:?}))\nOk(Fault({:?}))", samples::hello(), samples::fault());
    assert_eq!(shown_all(&came).join("\n"), expected);
}

#[test]
fn launch_messages_keep_their_encoding() {
    let mut wrong = String::new();
    for (name, launch) in samples::launches() {
        let mut outbox = Outbox::new(Limits::DEFAULT);
        outbox.push_launch(&launch).unwrap();
        let now = spelled(&written(&mut outbox, usize::MAX));
        if now != golden(name) {
            writeln!(wrong, "{name}: {now}").unwrap();
            continue;
        }
        let came = feed(&mut greeted_inbox(&Limits::DEFAULT), &parsed(&now));
        assert_eq!(shown_all(&came), [format!("Ok(Launch({launch:?}))")], "{name}");
    }
    assert!(wrong.is_empty(), "these lines of golden.txt differ from the current encoding:\n{wrong}");
}

#[test]
fn keys_keep_their_encoding() {
    let mut outbox = Outbox::new(Limits::DEFAULT);
    outbox.push_keys(&samples::keys()).unwrap();
    let now = spelled(&written(&mut outbox, usize::MAX));
    assert_eq!(now, golden("keys"));
    let came = feed(&mut greeted_inbox(&Limits::DEFAULT), &parsed(&now));
    assert!(matches!(&came[..], [Ok(Incoming::Keys(keys))] if *keys == samples::keys()), "{came:?}");
    let mut outbox = Outbox::new(Limits::DEFAULT);
    outbox
        .push_keys(
            &[samples::keys(), samples::keys(), samples::keys(), samples::keys(), samples::keys()].concat(),
        )
        .unwrap();
    let came = feed(&mut greeted_inbox(&Limits::DEFAULT), &written(&mut outbox, usize::MAX));
    let refused = WireError::TooLarge { field: "keys", limit: 8, got: 10 };
    assert!(matches!(&came[..], [Err(error)] if *error == refused), "{came:?}");
}

#[test]
fn a_payload_in_chunks_is_announced() {
    let limits = Limits { chunk_bytes: 4, ..Limits::DEFAULT };
    let message = Message::Partial(Box::new(samples::partial(Bytes::from_static(b"chunks"))));
    assert_eq!(spelled(&bytes_of(&message, &limits).unwrap()), golden("partial-in-chunks"));
}
