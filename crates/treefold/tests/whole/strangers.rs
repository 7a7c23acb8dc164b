//! Any peer may connect to a node: a scanner, another cluster, another version, a faulty peer. The node
//! tells it why it is refused, and continues unharmed.

use crate::figures::{PATIENCE, eventually, service, total};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use treefold::operators::merge::Sum;
use treefold::parts::wire::{Fault, FaultCode, Hello, Inbox, Incoming, Outbox};
use treefold::{Body, CallError, Client, ClusterOptions, Error, Limits, Node, NodeId, Status};
use treefold_core::call::CallOptions;
use treefold_core::message::{Message, Request};
use treefold_core::push::message::PushMessage;
use treefold_core::stream::StreamError;
use treefold_core::stream::message::StreamMessage;

pub(crate) async fn node(limits: Limits) -> Node {
    Node::builder()
        .cluster(ClusterOptions::default().limits(limits))
        .service(service(0..2, 2, &Arc::default()))
        .start()
        .await
        .unwrap()
}

pub(crate) async fn works(node: &Node) {
    let client = Client::connect(node.addr()).await.unwrap();
    let reply = client.call::<Sum>("figures/sum", &()).deadline(PATIENCE).await.unwrap();
    assert_eq!(reply.value, Some(Sum(total(2))));
}

pub(crate) fn client_id(generation: u64) -> NodeId {
    NodeId::new(SocketAddr::from(([0, 0, 0, 0], 0)), generation)
}

/// A peer that sends raw protocol messages.
pub(crate) struct Stranger {
    pub(crate) stream: TcpStream,
    pub(crate) inbox: Inbox,
}

impl Stranger {
    pub(crate) async fn connect(node: &Node) -> Self {
        let stream = TcpStream::connect(node.addr()).await.unwrap();
        Self { stream, inbox: Inbox::new(Limits::default()) }
    }

    /// A peer that has completed the handshake.
    pub(crate) async fn greeted(node: &Node, generation: u64) -> Self {
        let mut stranger = Self::connect(node).await;
        stranger
            .say(|outbox| outbox.push_hello(&Hello::new("treefold", client_id(generation))).unwrap())
            .await;
        assert!(matches!(stranger.hear().await, Some(Incoming::Hello(hello)) if hello.node == node.id()));
        stranger
    }

    pub(crate) async fn say(&mut self, what: impl FnOnce(&mut Outbox)) {
        let mut outbox = Outbox::new(Limits::default());
        what(&mut outbox);
        self.send(&mut outbox).await;
    }

    /// Sends what is queued, and returns the number of bytes.
    pub(crate) async fn send(&mut self, outbox: &mut Outbox) -> usize {
        let mut bytes = 0;
        while !outbox.is_empty() {
            let mut slices = [std::io::IoSlice::new(&[]); 8];
            let filled = outbox.fill_slices(&mut slices);
            let written = self.stream.write_vectored(&slices[..filled]).await.unwrap();
            outbox.advance(written);
            bytes += written;
        }
        bytes
    }

    /// The next message of the node, except keys; `None` if it has closed the connection.
    pub(crate) async fn hear(&mut self) -> Option<Incoming> {
        loop {
            match self.inbox.next().unwrap() {
                Some(Incoming::Keys(_)) => continue,
                Some(incoming) => return Some(incoming),
                None => {}
            }
            let mut room = self.inbox.read_buffer();
            let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut room));
            match read.await.expect("the node says nothing") {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// The fault with which the node closes the connection.
    pub(crate) async fn hear_fault(&mut self) -> Fault {
        loop {
            match self.hear().await {
                Some(Incoming::Fault(fault)) => {
                    assert!(self.hear().await.is_none(), "nothing follows a fault");
                    return fault;
                }
                Some(_) => {}
                None => panic!("the connection was closed without a fault"),
            }
        }
    }
}

#[tokio::test]
async fn garbage_on_a_connection_is_answered_with_a_fault() {
    let node = node(Limits::default()).await;
    for garbage in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        &[0xff; 200],
        &[0; 200],
        b"\x1a\0\0\0garbage garbage garbage garbage",
    ] {
        let mut stranger = Stranger::connect(&node).await;
        stranger.stream.write_all(garbage).await.unwrap();
        let fault = stranger.hear_fault().await;
        assert!(
            matches!(
                fault.code,
                FaultCode::Framing | FaultCode::Malformed | FaultCode::OutOfTurn | FaultCode::TooLarge
            ),
            "{fault}"
        );
    }
    works(&node).await;
}

#[tokio::test]
async fn garbage_after_the_greeting_ends_that_connection_only() {
    let node = node(Limits::default()).await;
    let mut stranger = Stranger::greeted(&node, 1).await;
    stranger.stream.write_all(&[0xff; 64]).await.unwrap();
    let fault = stranger.hear_fault().await;
    assert_eq!((fault.code, fault.field.as_str()), (FaultCode::Framing, "length"));
    works(&node).await;
}

#[tokio::test]
async fn a_message_of_an_unknown_kind_is_skipped() {
    let node = node(Limits::default()).await;
    let mut stranger = Stranger::greeted(&node, 1).await;
    let mut frame = [0; 30];
    frame[..4].copy_from_slice(&26u32.to_le_bytes());
    frame[4] = 200;
    stranger.stream.write_all(&frame).await.unwrap();
    stranger.say(|outbox| outbox.push(&Message::StatusRequest { id: 5 }).unwrap()).await;
    loop {
        match stranger.hear().await.expect("the connection goes on") {
            Incoming::Message(Message::Status { id, .. }) => break assert_eq!(id, 5),
            Incoming::Message(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_message_before_the_greeting_is_out_of_turn() {
    let node = node(Limits::default()).await;
    let mut stranger = Stranger::connect(&node).await;
    stranger.say(|outbox| outbox.push(&Message::WantCards).unwrap()).await;
    assert_eq!(stranger.hear_fault().await.code, FaultCode::OutOfTurn);
    works(&node).await;
}

#[tokio::test]
async fn another_cluster_or_version_is_refused_with_reason() {
    let node = node(Limits::default()).await;
    let refused = Client::builder().at([node.addr()]).cluster("staging").connect().await.unwrap_err();
    assert!(matches!(refused, Error::Handshake { .. }), "{refused}");
    assert!(refused.to_string().contains("another cluster"), "{refused}");

    let mut stranger = Stranger::connect(&node).await;
    let hello = Hello { version: 900, version_least: 900, ..Hello::new("treefold", client_id(1)) };
    stranger.say(|outbox| outbox.push_hello(&hello).unwrap()).await;
    assert_eq!(stranger.hear_fault().await.code, FaultCode::Version);
    works(&node).await;
}

#[tokio::test]
async fn nodes_of_two_clusters_do_not_meet() {
    let ours = node(Limits::default()).await;
    let theirs = Node::builder().join([ours.addr()]).cluster("staging").start().await.unwrap();
    let ours_too = Node::builder().join([ours.addr()]).start().await.unwrap();
    assert!(ours_too.members_at_least(2, PATIENCE).await);
    assert_eq!(theirs.members(), [theirs.id()]);
    assert!(!ours.members().contains(&theirs.id()));
}

#[tokio::test]
async fn connections_beyond_peers_max_are_told_and_closed() {
    let node = node(Limits { peers_max: 2, ..Limits::default() }).await;
    let first = Stranger::greeted(&node, 1).await;
    let _second = Stranger::greeted(&node, 2).await;
    let mut third = Stranger::connect(&node).await;
    third.say(|outbox| outbox.push_hello(&Hello::new("treefold", client_id(3))).unwrap()).await;
    let fault = third.hear_fault().await;
    assert_eq!((fault.code, fault.limit), (FaultCode::TooManyPeers, 2));
    drop(first);
    eventually("a place is free again", || async { Client::connect(node.addr()).await.is_ok() }).await;
}

#[tokio::test]
async fn connection_without_greeting_is_closed() {
    let node = node(Limits::default()).await;
    let mut silent = Stranger::connect(&node).await;
    assert!(silent.hear().await.is_none());
    works(&node).await;
}

#[tokio::test]
async fn foreign_datagrams_are_dropped() {
    let node = node(Limits::default()).await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for garbage in [&b""[..], b"x", &[0xff; 1_400], b"tfd\x01", b"tfd\x01\0\0\0\0then something"] {
        socket.send_to(garbage, node.addr()).await.unwrap();
    }
    works(&node).await;
}

#[tokio::test]
async fn datagram_under_an_unknown_key_is_answered_with_less() {
    let node = node(Limits::default()).await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    // The class of gossip, a key, a sender, a counter, and bytes that should be sealed.
    let datagram = [&b"tfd\x02\0"[..], &[7; 8], &[8; 12], &[9; 8], &[0; 40]].concat();
    let mut answer = [0; 100];
    eventually_answered(&socket, &node, &datagram, &mut answer).await;
    assert_eq!(answer[..13], *[&b"tfd\x02\xff"[..], &[7; 8]].concat());
    assert_eq!(answer[13..], [0; 87]);
    works(&node).await;
}

#[tokio::test]
async fn silent_connections_do_not_keep_others_out() {
    raise_file_limit();
    let node = node(Limits::default()).await;
    let mut silent = Vec::new();
    for _ in 0..1_100 {
        silent.push(TcpStream::connect(node.addr()).await.unwrap());
    }
    works(&node).await;
    // The oldest have been closed for the others.
    assert_eq!(silent[0].read(&mut [0]).await.unwrap_or(0), 0);
}

/// Lets this process open as many files as the system allows it.
fn raise_file_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for both calls.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
}

/// Sends a datagram until an answer comes: any of both may get lost.
async fn eventually_answered(socket: &UdpSocket, node: &Node, datagram: &[u8], answer: &mut [u8]) {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        socket.send_to(datagram, node.addr()).await.unwrap();
        let came = tokio::time::timeout(Duration::from_millis(100), socket.recv_from(answer)).await;
        match came {
            Ok(came) => return assert_eq!(came.unwrap().1, node.addr()),
            Err(_) => assert!(tokio::time::Instant::now() < until, "no answer"),
        }
    }
}

#[tokio::test]
async fn calls_of_a_vanished_client_are_cancelled() {
    let gate = Arc::<crate::figures::Gate>::default();
    let node = Node::builder().service(service(0..2, 2, &gate)).start().await.unwrap();
    let (vanish, vanishes) = tokio::sync::oneshot::channel::<()>();
    let addr = node.addr();
    let client = std::thread::spawn(move || {
        // The runtime ends while the call is open, like that of a killed process.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = Client::connect(addr).await.unwrap();
            let hang = crate::figures::Tricks::at(1, crate::figures::Trick::Hang);
            let call = client.call::<i64>("figures/tricky", &hang).deadline(Duration::from_secs(600));
            let _open = tokio::spawn(call.into_future());
            vanishes.await.unwrap();
        });
    });
    eventually("the call is open", || async { node.status().await.unwrap().open.calls == 1 }).await;
    vanish.send(()).unwrap();
    eventually("the call is cancelled", || async {
        let status = node.status().await.unwrap();
        status.open.calls == 0 && status.counters.calls.cancelled == 1
    })
    .await;
    client.join().unwrap();
    gate.open();
}

#[tokio::test]
async fn peer_that_does_not_read_is_dropped_without_delaying_others() {
    let limits = Limits { outbox_bytes_max: 1 << 20, ..Limits::default() };
    let node = node(limits).await;
    let mut deaf = Stranger::greeted(&node, 1).await;
    // Requests more than the system's buffers and the outbox hold, and reads nothing.
    let (mut closed, mut id) = (false, 0);
    while !closed {
        let mut outbox = Outbox::new(Limits::default());
        for _ in 0..10_000 {
            id += 1;
            outbox.push(&Message::StatusRequest { id }).unwrap();
        }
        let mut slices = [std::io::IoSlice::new(&[]); 8];
        let filled = outbox.fill_slices(&mut slices);
        for slice in &slices[..filled] {
            closed |= deaf.stream.write_all(slice).await.is_err();
        }
        assert!(id < 10_000_000, "the outbox grows without bound");
    }
    works(&node).await;
}

#[tokio::test]
async fn reconnecting_peer_replaces_its_first_connection() {
    let gate = Arc::<crate::figures::Gate>::default();
    let node = Node::builder().service(service(0..2, 2, &gate)).start().await.unwrap();
    let mut first = Stranger::greeted(&node, 1).await;
    let hang = crate::figures::Tricks::at(1, crate::figures::Trick::Hang).encode().unwrap();
    let options = CallOptions { deadline: Duration::from_secs(600).into(), ..CallOptions::default() };
    let request = Request { id: 1, name: "figures/tricky".into(), params: hang.into(), options };
    first.say(|outbox| outbox.push(&Message::Request(Box::new(request))).unwrap()).await;
    eventually("the call is open", || async { node.status().await.unwrap().open.calls == 1 }).await;

    let mut second = Stranger::greeted(&node, 1).await;
    while first.hear().await.is_some() {}
    eventually("the first connection's call is cancelled", || async {
        node.status().await.unwrap().open.calls == 0
    })
    .await;
    second.say(|outbox| outbox.push(&Message::StatusRequest { id: 2 }).unwrap()).await;
    while !matches!(second.hear().await.expect("it stays"), Incoming::Message(Message::Status { id: 2, .. }))
    {
    }
    gate.open();
}

/// Appends a varint.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A protobuf header with number fields and text fields.
fn header(numbers: &[(u64, u64)], texts: &[(u64, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for &(field, value) in numbers {
        varint(&mut out, field << 3);
        varint(&mut out, value);
    }
    for &(field, text) in texts {
        varint(&mut out, field << 3 | 2);
        varint(&mut out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// A frame of a kind with a header, and with an empty payload or none.
fn frame(kind: u8, header: &[u8], has_payload: bool) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&(26 + header.len() as u32).to_le_bytes());
    out.extend_from_slice(&[kind, u8::from(has_payload)]);
    out.extend_from_slice(&(header.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0; 20]);
    out.extend_from_slice(header);
    out
}

const REQUEST: u8 = 0x20;
const STREAM_OPEN: u8 = 0x40;
const PUSH_ATTACH: u8 = 0x50;

#[tokio::test]
async fn unreadable_request_is_rejected_by_field_and_limit() {
    let node = node(Limits::default()).await;
    let mut stranger = Stranger::greeted(&node, 1).await;
    let (long, name) = ("n".repeat(256), "figures/sum");
    let request =
        |waiting: u64, texts: &[(u64, &str)]| header(&[(1, 7), (3, 1_000_000), (7, waiting)], texts);
    let cases = [
        ("shape", "kary:K", frame(REQUEST, &request(2, &[(2, name), (5, "pyramid")]), true)),
        ("shape", "kary:K", frame(REQUEST, &request(2, &[(2, name)]), true)),
        ("policy", "polled:D", frame(REQUEST, &request(2, &[(2, name), (5, "auto"), (6, "nearest")]), true)),
        ("waiting", "1 to 5", frame(REQUEST, &request(0, &[(2, name), (5, "auto")]), true)),
        ("waiting", "1 to 5", frame(REQUEST, &request(6, &[(2, name), (5, "auto")]), true)),
        ("waiting", "1 to 5", frame(REQUEST, &request(99, &[(2, name), (5, "auto")]), true)),
        ("name", "at most 255", frame(REQUEST, &request(2, &[(2, &long), (5, "auto")]), true)),
        ("shape", "at most 64", frame(REQUEST, &request(2, &[(2, name), (5, &long)]), true)),
        ("payload", "one", frame(REQUEST, &request(2, &[(2, name), (5, "auto")]), false)),
        ("partitions", "protocol.md", {
            let mut bytes = request(2, &[(2, name), (5, "auto")]);
            // Selected partitions, and a run without an end.
            bytes.extend_from_slice(&[9 << 3, 1, 10 << 3 | 2, 1, 0x80]);
            frame(REQUEST, &bytes, true)
        }),
    ];
    let count = cases.len() as u64;
    for (wrong, allowed, bytes) in cases {
        stranger.stream.write_all(&bytes).await.unwrap();
        let Some(Incoming::Message(Message::Reply { id, outcome })) = stranger.hear().await else {
            panic!("no reply about {wrong}");
        };
        let Status::Rejected(CallError::BadField { field, limit, .. }) = &outcome.status else {
            panic!("{wrong}: {:?}", outcome.status);
        };
        assert_eq!((id, field.as_str()), (7, wrong), "{limit}");
        assert!(limit.contains(allowed), "{wrong}: {limit}");
    }
    let counters = node.status().await.unwrap().counters;
    assert_eq!((counters.bad_messages, counters.calls.rejected), (count, count));
    works(&node).await;
}

#[tokio::test]
async fn too_long_names_of_workers_and_streams_are_refused() {
    let node = node(Limits::default()).await;
    let mut stranger = Stranger::greeted(&node, 1).await;
    let long = "n".repeat(129);
    stranger.stream.write_all(&frame(PUSH_ATTACH, &header(&[(2, 3)], &[(1, &long)]), false)).await.unwrap();
    let Some(Incoming::Message(Message::Push(said))) = stranger.hear().await else { panic!("no answer") };
    assert!(
        matches!(&*said, PushMessage::Attached { result: Err(problem) } if problem.contains("application is 129")),
        "{said:?}"
    );
    stranger.stream.write_all(&frame(STREAM_OPEN, &header(&[], &[(1, &long)]), true)).await.unwrap();
    let Some(Incoming::Message(Message::Stream(said))) = stranger.hear().await else { panic!("no answer") };
    assert!(
        matches!(&*said, StreamMessage::Close { reason: StreamError::BadField { field, .. }, .. } if field == "service"),
        "{said:?}"
    );
    assert_eq!(node.status().await.unwrap().counters.bad_messages, 2);
}
