//! Programs that attach to a network that a launcher keeps: as the topology's back-ends, by number, or as guests.

use crate::sums::sum_of;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;
use treefold::endpoint::{AcceptError, RecvError};
use treefold::operators::packet::Row;
use treefold::{ClusterOptions, Node, PartitionSet, Stream};
use treefold_network::launch::{Ending, Launcher, Network, NetworkEvent, Post, Token, UpOptions};
use treefold_network::{AttachError, Attached, Attachment, attach};

/// Longer than any step takes. Tests wait for conditions, never for this time.
const LONG: Duration = Duration::from_secs(30);

fn cluster() -> ClusterOptions {
    ClusterOptions::default().token(token())
}

fn token() -> Option<Token> {
    Token::new("a secret of this test")
}

/// A front-end that waits for the processes of a topology, and its address.
async fn awaited(topology: &str) -> (tokio::task::JoinHandle<Network>, SocketAddr) {
    let (ready, is_ready) = oneshot::channel();
    let nothing = vec!["true".to_owned()];
    let mut options = UpOptions::new(nothing.clone(), nothing);
    (options.launcher, options.timeout, options.token) = (Launcher::Wait, LONG, token());
    options.on_ready = Some(Box::new(|addr| ready.send(addr).unwrap()));
    let topology = topology.parse().unwrap();
    let network = tokio::spawn(async { Network::up(topology, options).await.expect("all come") });
    (network, is_ready.await.unwrap())
}

/// An inner process that runs until the network is over.
async fn inner(front: SocketAddr, place: &'static str) -> tokio::task::JoinHandle<Ending> {
    let node = Node::builder().attached_to(front).cluster(cluster()).start().await.unwrap();
    let post = Post::new(front, place).token(token());
    tokio::spawn(async move { post.run(&node, std::future::pending()).await.unwrap() })
}

fn program(at: SocketAddr, endpoint: u32) -> Attachment {
    Attachment::new("tool").at([at]).endpoint(endpoint).total(4).cluster(cluster())
}

/// Answers every packet of every stream with its own number, on plain threads, until the network is over.
fn serve(attachment: Attachment) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let attached = attach(attachment).expect("it attaches");
        loop {
            match attached.accept_timeout(LONG) {
                Ok(mut stream) => {
                    thread::spawn(move || {
                        let answer =
                            Row::new().i64(i64::from(stream.opening().endpoint)).packet().into_bytes();
                        while let Ok(packet) = stream.recv_timeout(LONG) {
                            if stream.send_timeout(Some(packet.tag), answer.clone(), LONG).is_err() {
                                return;
                            }
                        }
                    });
                }
                Err(AcceptError::Closed) => return,
                Err(other) => panic!("{other}"),
            }
        }
    })
}

async fn until_sum(stream: &mut Stream, expected: (i64, PartitionSet)) {
    let same = async { while sum_of(stream).await != expected {} };
    tokio::time::timeout(LONG, same).await.expect("the sum becomes the expected one");
}

async fn event(network: &mut Network) -> NetworkEvent {
    tokio::time::timeout(LONG, network.event()).await.expect("an event is reported").unwrap()
}

#[tokio::test]
async fn programs_take_the_places_of_their_numbers() {
    let (network, front) = awaited("a:0 => a:1 b:0; a:1 => a:2 a:3;").await;
    // The order does not matter: a program that comes before its parent waits for it.
    let programs: Vec<_> = (0..3).map(|endpoint| serve(program(front, endpoint))).collect();
    let inner = inner(front, "a:1").await;
    let network = network.await.unwrap();
    assert_eq!((network.back_ends(), network.guests()), (PartitionSet::first(3), Vec::new()));
    let opening = network.client().stream("tool").up_filter("sum");
    let mut stream = opening.open().await.expect("it opens");
    assert_eq!(stream.trees().iter().map(|tree| tree.seats().len()).collect::<Vec<_>>(), [3, 1]);
    until_sum(&mut stream, (3, PartitionSet::first(3))).await;
    let taken = tokio::task::spawn_blocking(move || attach(program(front, 1))).await.unwrap();
    let Err(AttachError::Refused { problem, .. }) = taken else { panic!("a number was taken in twice") };
    assert!(problem.contains("a:2") || problem.contains("a:3"), "{problem}");
    network.down(LONG).await;
    assert_eq!(inner.await.unwrap(), Ending::Ended);
    programs.into_iter().for_each(|program| program.join().expect("it has ended on its own"));
}

#[tokio::test]
async fn guest_takes_part_and_leaves_again() {
    let (network, front) = awaited("a:0 => a:1;").await;
    let back_end = serve(program(front, 0));
    let mut network = network.await.unwrap();
    let mut stream = network.client().stream("tool").up_filter("sum").open().await.expect("it opens");
    until_sum(&mut stream, (0, PartitionSet::first(1))).await;

    let guest: Attached = program(front, 3).start().await.expect("it attaches");
    let there = guest.node().addr();
    assert!(matches!(event(&mut network).await, NetworkEvent::Came { place } if place == there.to_string()));
    assert_eq!(network.guests(), [there]);
    let mut its_end = guest.accept().await.expect("the open stream reaches it, too");
    let answering = tokio::spawn(async move {
        let answer = Row::new().i64(3).packet().into_bytes();
        while let Ok(packet) = its_end.recv().await.ok_or(RecvError::Empty) {
            if its_end.send_tagged(packet.tag, answer.clone()).await.is_err() {
                return;
            }
        }
    });
    until_sum(&mut stream, (3, [0, 3].into_iter().collect())).await;

    assert!(tokio::task::spawn_blocking(|| guest.detach()).await.unwrap(), "its goodbye was heard");
    let NetworkEvent::Lost(gone) = event(&mut network).await else { panic!("its leaving is reported") };
    assert_eq!((gone.place, gone.what.as_str()), (there.to_string(), "has left"));
    answering.await.unwrap();
    until_sum(&mut stream, (0, PartitionSet::first(1))).await;

    // The same number in another service belongs to no place of the topology.
    let other = Attachment::new("other").at([front]).endpoint(0).total(1).cluster(cluster());
    let other = serve(other);
    assert!(matches!(event(&mut network).await, NetworkEvent::Came { .. }));
    let mut of_other = network.client().stream("other").up_filter("sum").open().await.expect("it opens");
    until_sum(&mut of_other, (0, PartitionSet::first(1))).await;
    network.down(LONG).await;
    [back_end, other].into_iter().for_each(|program| program.join().unwrap());
}

#[tokio::test]
async fn a_back_end_that_died_can_be_started_again() {
    let (network, front) = awaited("a:0 => a:1 a:2;").await;
    let first = serve(program(front, 0));
    let second = tokio::spawn(program(front, 1).start());
    let mut network = network.await.unwrap();
    let second = second.await.unwrap().expect("it attaches");
    let mut open = network.client().stream("tool").up_filter("sum").open().await.expect("it opens");
    second.node().abort();
    assert!(matches!(event(&mut network).await, NetworkEvent::Lost(lost) if lost.place == "a:2"));
    until_sum(&mut open, (0, PartitionSet::first(1))).await;
    let again = serve(program(front, 1));
    assert!(matches!(event(&mut network).await, NetworkEvent::Came { place } if place == "a:2"));
    until_sum(&mut open, (1, PartitionSet::first(2))).await;
    // A stream that is opened now asks the new process, and not the dead one.
    let mut next = network.client().stream("tool").up_filter("sum").open().await.expect("it opens");
    assert_eq!(sum_of(&mut next).await, (1, PartitionSet::first(2)));
    network.down(LONG).await;
    [first, again].into_iter().for_each(|program| program.join().unwrap());
}

#[tokio::test]
async fn program_with_another_token_is_refused() {
    let (network, front) = awaited("a:0 => a:1;").await;
    let stranger = Attachment::new("tool")
        .at([front])
        .endpoint(0)
        .total(1)
        .cluster(ClusterOptions::default().token(Token::new("another")));
    let Err(AttachError::Refused { problem, .. }) = stranger.start().await else { panic!("it was let in") };
    assert!(problem.contains("token"), "{problem}");
    network.abort();
}
