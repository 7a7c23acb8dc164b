//! A front whose replies contradict themselves: no command prints them as answers.

use crate::real::run_args;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use treefold::parts::wire::{Hello, Inbox, Incoming, Outbox};
use treefold::{NodeId, PartitionSet};
use treefold_core::call::{Outcome, Status};
use treefold_core::limits::Limits;
use treefold_core::message::Message;
use treefold_core::time::Duration;

/// Starts a front that answers one request with this status and this number of contributed partitions.
fn front(status: Status, contributed: u32) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut inbox, mut outbox) = (Inbox::new(Limits::DEFAULT), Outbox::new(Limits::DEFAULT));
        outbox.push_hello(&Hello::new("treefold", NodeId::new(addr, 1))).unwrap();
        loop {
            while !outbox.is_empty() {
                let mut slices = [std::io::IoSlice::new(&[]); 8];
                let filled = outbox.fill_slices(&mut slices);
                let written = stream.write_vectored(&slices[..filled]).unwrap();
                outbox.advance(written);
            }
            if let Some(incoming) = inbox.next().unwrap() {
                if let Incoming::Message(Message::Request(request)) = incoming {
                    let outcome = Outcome {
                        status: status.clone(),
                        value: Some(vec![0x01].into()),
                        asked: PartitionSet::first(4),
                        contributed: PartitionSet::first(contributed),
                        missing: Vec::new(),
                        total_is_guess: false,
                        elapsed: Duration::from_micros(7),
                        report: None,
                    };
                    let reply = Message::Reply { id: request.id, outcome: Box::new(outcome) };
                    outbox.push(&reply).unwrap();
                }
                continue;
            }
            let mut bytes = [0; 4_096];
            match stream.read(&mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(read) => inbox.put(&bytes[..read]),
            }
        }
    };
    (addr.to_string(), std::thread::spawn(serve))
}

#[test]
fn status_that_contradicts_partitions_is_an_error() {
    let (addr, serving) = front(Status::Full, 2);
    let ended = run_args(&["call", "micro/sum", "--at", &addr, "-o", "json"]);
    serving.join().unwrap();
    assert_eq!(ended.code, 1, "{}", ended.stdout);
    assert!(ended.stderr.contains("the front's reply contradicts itself"), "{}", ended.stderr);
    assert!(ended.stderr.contains("partitions 2-3 did not contribute"), "{}", ended.stderr);
    assert_eq!(ended.json()["error"]["kind"], "failed");
}

#[test]
fn status_that_matches_partitions_is_an_answer() {
    let (addr, serving) = front(Status::Full, 4);
    let ended = run_args(&["call", "micro/sum", "--at", &addr]);
    serving.join().unwrap();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("full: coverage 1.000 (4 of 4 partitions)"), "{}", ended.stdout);
}
