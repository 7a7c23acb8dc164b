//! A tool's daemon: threads without a runtime, attached to a network and detached again.

use crate::sums::sum_of;
use bytes::Bytes;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use treefold::endpoint::{AcceptError, RecvError, SendError};
use treefold::operators::packet::Row;
use treefold::{Node, PartitionSet, StreamError};
use treefold_network::{AttachError, Attached, Attachment, attach};

/// Longer than any step takes. Tests wait for conditions, never for this time.
const LONG: Duration = Duration::from_secs(30);

async fn front() -> Node {
    Node::builder().start().await.expect("a node starts")
}

fn to(node: &Node) -> Attachment {
    Attachment::new("tool").at([node.addr()])
}

/// Answers every packet of every stream with its own number, on plain threads.
fn serve(attached: Attached) -> thread::JoinHandle<bool> {
    thread::spawn(move || {
        let mut stream = attached.accept_timeout(LONG).expect("a stream is opened");
        let answer = Row::new().i64(i64::from(stream.opening().endpoint)).packet().into_bytes();
        loop {
            match stream.recv_timeout(LONG) {
                Ok(packet) => {
                    stream.send_timeout(Some(packet.tag), answer.clone(), LONG).expect("it is open");
                }
                Err(RecvError::Over(StreamError::Closed)) => return attached.detach(),
                Err(other) => panic!("{other}"),
            }
        }
    })
}

#[tokio::test]
async fn daemons_without_a_runtime_answer_a_broadcast() {
    let front = front().await;
    let daemons: Vec<_> = (0..4)
        .map(|endpoint| {
            let attachment = to(&front).endpoint(endpoint).total(4);
            thread::spawn(move || serve(attach(attachment).expect("it attaches")))
        })
        .collect();
    assert!(front.members_at_least(5, LONG).await);
    let mut stream = front.client().stream("tool").up_filter("sum").open().await.expect("it opens");
    for _ in 0..10 {
        assert_eq!(sum_of(&mut stream).await, (6, PartitionSet::first(4)));
    }
    stream.close();
    for daemon in daemons {
        assert!(daemon.join().unwrap().join().unwrap(), "its goodbye was heard");
    }
}

#[tokio::test]
async fn detached_endpoint_is_missing_until_attached_again() {
    let front = front().await;
    let first = serve(to(&front).endpoint(0).total(2).start().await.expect("it attaches"));
    let second = to(&front).endpoint(1).total(2).start().await.expect("it attaches");
    assert!(front.members_at_least(3, LONG).await);
    let mut stream = front.client().stream("tool").up_filter("sum").open().await.expect("it opens");
    let idle = second.accept().await.expect("it is opened to both");
    assert!(tokio::task::spawn_blocking(|| second.detach()).await.unwrap());
    assert_eq!(idle.over(), Some(&StreamError::ShuttingDown));
    // The front-end learns of it after a while; until then, no request of it stays unanswered.
    while sum_of(&mut stream).await.1 != PartitionSet::first(1) {}
    let second = serve(to(&front).endpoint(1).total(2).start().await.expect("it attaches again"));
    while sum_of(&mut stream).await != (1, PartitionSet::first(2)) {}
    stream.close();
    assert!(first.join().unwrap() && second.join().unwrap());
}

#[tokio::test]
async fn waits_time_out_and_full_window_returns_packet() {
    let front = front().await;
    let attached = to(&front).endpoint(0).start().await.expect("it attaches");
    assert_eq!(attached.accept_timeout(Duration::ZERO).err(), Some(AcceptError::Empty));
    let builder = front.client().stream("tool").window_bytes(4 << 10);
    assert!(front.members_at_least(2, LONG).await);
    let mut stream = builder.open().await.expect("it opens");
    let (say, said) = mpsc::channel();
    let daemon = thread::spawn(move || {
        let mut stream = attached.accept_timeout(LONG).expect("a stream is opened");
        assert_eq!(stream.try_recv(), Err(RecvError::Empty));
        assert_eq!(stream.recv_timeout(Duration::from_millis(1)), Err(RecvError::Empty));
        let payload = Bytes::from(vec![7; 1 << 10]);
        let mut sent = 0;
        while stream.try_send(None, payload.clone()).is_ok() {
            sent += 1;
        }
        let refused = stream.send_timeout(None, payload.clone(), Duration::from_millis(1));
        assert_eq!(refused, Err(SendError::Full(payload.clone())), "no packet has been read yet");
        say.send(sent).unwrap();
        // The front-end reads from now on, so there is room again.
        stream.send_timeout(None, payload, LONG).expect("it is open");
        assert_eq!(stream.recv_timeout(LONG), Err(RecvError::Over(StreamError::Closed)));
        assert!(matches!(stream.try_send(None, Bytes::new()), Err(SendError::Over(StreamError::Closed))));
    });
    let sent = tokio::task::spawn_blocking(move || said.recv().unwrap()).await.unwrap();
    for _ in 0..=sent {
        stream.wave().await.expect("it is open");
    }
    stream.close();
    daemon.join().unwrap();
}

#[tokio::test]
async fn the_bell_rings_for_streams_packets_and_ends() {
    let front = front().await;
    let rung = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&rung);
    let ring = move || {
        count.fetch_add(1, Ordering::AcqRel);
    };
    let heard = async || {
        while rung.swap(0, Ordering::AcqRel) == 0 {
            tokio::task::yield_now().await;
        }
    };
    let attached = to(&front).endpoint(0).on_news(ring).start().await.expect("it attaches");
    assert!(front.members_at_least(2, LONG).await);
    let stream = front.client().stream("tool").open().await.expect("it opens");
    heard().await;
    let mut theirs = attached.accept_timeout(Duration::ZERO).expect("it was offered before the bell rang");
    stream.send(Bytes::new()).await.expect("it is open");
    heard().await;
    theirs.try_recv().expect("it came before the bell rang");
    stream.close();
    heard().await;
    assert_eq!(theirs.try_recv(), Err(RecvError::Over(StreamError::Closed)));
    tokio::task::spawn_blocking(|| attached.detach()).await.unwrap();
    heard().await; // the end of the node rings too
}

#[tokio::test]
async fn invalid_attachments_fail_with_named_errors() {
    let refused = |attachment: Attachment| async move { attachment.start().await.expect_err("it is wrong") };
    let front = front().await;
    let error = refused(Attachment::new("tool").endpoint(0)).await;
    assert!(matches!(error, AttachError::Field { field: "at", .. }), "{error}");
    let error = refused(to(&front)).await;
    assert!(matches!(error, AttachError::Field { field: "endpoints", .. }), "{error}");
    let error = refused(to(&front).endpoint(4).total(4)).await;
    assert_eq!(error.to_string(), "service \"tool\": partition 4 of 4: partitions are numbered from 0");
    let error = refused(to(&front).endpoint(0).cluster("staging")).await;
    assert!(matches!(error, AttachError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("another cluster"), "{error}");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = refused(to(&front).cluster("staging").at([nobody]).endpoint(0)).await;
    assert!(matches!(error, AttachError::Refused { .. }), "a refusal says more than silence: {error}");
    let alone = Attachment::new("tool").at([nobody]).endpoint(0).timeout(Duration::ZERO);
    let error = refused(alone).await;
    assert!(matches!(error, AttachError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn daemon_may_start_before_the_network() {
    let addr = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let early = tokio::spawn(Attachment::new("tool").at([addr]).endpoint(0).timeout(LONG).start());
    tokio::task::yield_now().await;
    let front = Node::builder().listen(addr).start().await.expect("a node starts");
    let attached = early.await.unwrap().expect("it attaches when the front-end is there");
    assert!(attached.node().sees(front.id(), LONG).await);
}

#[tokio::test]
async fn dropping_attached_says_goodbye() {
    let front = front().await;
    let attached = to(&front).endpoint(0).start().await.expect("it attaches");
    assert!(front.sees(attached.id(), LONG).await);
    let id = attached.id();
    tokio::task::spawn_blocking(move || drop(attached)).await.unwrap();
    while front.members().contains(&id) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
