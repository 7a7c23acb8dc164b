//! Applications whose workers push, over real sockets: through relays that fold, that die, and that are
//! flooded, and despite workers that send invalid messages.

use bytes::Bytes;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use treefold::operators::merge::Sum;
use treefold::operators::merging;
use treefold::parts::wire::{Hello, Inbox, Incoming, Outbox};
use treefold::push::{PushError, Worker, application};
use treefold::{
    Body, Client, ClusterOptions, Error, Limits, Node, NodeId, Partition, Reason, Service, Status,
};
use treefold_core::membership::MemberCard;
use treefold_core::message::Message;
use treefold_core::push::message::PushMessage;

/// Time limit for things that must happen, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(20);

/// A relay that serves `words` and joins through the first one.
async fn relay(rack: &str, first: Option<&Node>) -> Node {
    let limits = Limits { push_window_bytes: 64 << 10, ..Limits::default() };
    let builder = Node::builder()
        .relay()
        .rack(rack)
        .cluster(ClusterOptions::default().limits(limits))
        .service(application("words"));
    builder.join(first.map(Node::addr)).start().await.unwrap()
}

async fn relays(count: usize) -> Vec<Node> {
    let mut relays: Vec<Node> = Vec::new();
    for at in 0..count {
        let rack = format!("r{}", at % 2);
        relays.push(relay(&rack, relays.first()).await);
    }
    for node in &relays {
        assert!(node.members_at_least(count, PATIENCE).await);
    }
    relays
}

/// Waits until `front` knows where this many workers are attached: cards travel once per gossip interval.
pub(crate) async fn hear_of_workers(front: &Node, count: usize) {
    let all_heard = async {
        loop {
            let status = front.status().await.unwrap();
            let of_card =
                |card: &MemberCard| card.services.get("words").map_or(0, |service| service.partitions.len());
            let heard = of_card(&status.card)
                + status.members.iter().map(|member| of_card(&member.card)).sum::<usize>();
            if heard == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all_heard).await.expect("the front hears of every worker");
}

async fn worker(number: u32, at: &[SocketAddr]) -> Worker {
    Worker::builder("words", number).at(at).attach().await.unwrap()
}

fn line(number: u32, count: u32) -> String {
    format!("all\t{count}\nworker {number}\t1\n")
}

/// The folded result of these lines.
fn folded(workers: u32, count: u32) -> String {
    let own: String = (0..workers).map(|number| format!("worker {number}\t1\n")).collect();
    format!("all\t{}\n{own}", workers * count)
}

#[tokio::test]
async fn results_in_pieces_from_many_workers_become_one() {
    let relays = relays(3).await;
    let addrs: Vec<SocketAddr> = relays.iter().map(Node::addr).collect();
    let mut workers = Vec::new();
    for number in 0..6 {
        let at = Worker::builder("words", number).at(&addrs).spread();
        workers.push(at.attach().await.unwrap());
    }
    let client = Client::connect(addrs[0]).await.unwrap();
    for request in 0..20 {
        let announced = client
            .announce("words/sum-lines", "", request, (0..6).collect())
            .deadline(PATIENCE)
            .patience(PATIENCE);
        let announced = tokio::spawn(async move { announced.await });
        for (number, worker) in (0..).zip(&workers) {
            worker.push(request, "all\t1\n").await.unwrap();
            worker.push(request, "").await.unwrap();
            worker.push_last(request, line(number, 2)).await.unwrap();
        }
        let reply = announced.await.unwrap().unwrap();
        assert_eq!(reply.status, Status::Full, "{:?}", reply.missing);
        assert_eq!(reply.value.unwrap().0, folded(6, 3));
    }
    for worker in &workers {
        worker.idle().await.unwrap();
        let over = worker.push(3, "all\t1\n").await;
        assert!(matches!(over, Err(PushError::Over { request: 3 })), "{over:?}");
    }
    let mut attached = 0;
    for node in &relays {
        let status = node.status().await.unwrap();
        assert_eq!(status.open.held_bytes, 0);
        attached += status.open.workers;
    }
    assert_eq!(attached, 6);
}

#[tokio::test]
async fn dead_relay_loses_no_worker() {
    let relays = relays(3).await;
    let addrs: Vec<SocketAddr> = relays.iter().map(Node::addr).collect();
    let mut workers = Vec::new();
    for number in 0..4 {
        // Workers 0 and 1 are at the relay that dies, and have another address to turn to.
        let at = if number < 2 { [addrs[1], addrs[2]] } else { [addrs[2], addrs[0]] };
        workers.push(worker(number, &at).await);
    }
    // Each relay is then asked for its two workers at once, and the relay that dies has passed nothing on.
    hear_of_workers(&relays[0], 4).await;
    let client = Client::connect(addrs[0]).await.unwrap();
    let announced =
        client.announce("words/sum-lines", "", 1, (0..4).collect()).deadline(PATIENCE).patience(PATIENCE);
    let announced = tokio::spawn(async move { announced.await });
    for (number, worker) in (0..).zip(&workers) {
        worker.push(1, "all\t5\n").await.unwrap();
        if number % 2 == 0 {
            worker.push_last(1, line(number, 1)).await.unwrap();
        }
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    relays[1].abort();
    for (number, worker) in (0..).zip(&workers).filter(|(number, _)| number % 2 == 1) {
        worker.push_last(1, line(number, 1)).await.unwrap();
    }
    let reply = announced.await.unwrap().unwrap();
    assert_eq!(reply.status, Status::Full, "{:?}", reply.missing);
    assert_eq!(reply.value.unwrap().0, folded(4, 6), "each once");
    for worker in &workers {
        tokio::time::timeout(PATIENCE, worker.idle()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn an_application_brings_its_own_reduce() {
    let unused = merging("total", |_: &Partition, (): &()| Ok(Sum(0)));
    let service = Service::new("sums").aggregation("total", unused).pushed();
    let relay = Node::builder().relay().service(service).start().await.unwrap();
    let client = relay.client();
    let mut workers = Vec::new();
    for number in 0..3 {
        let worker = Worker::builder("sums", number).at([relay.addr()]).attach().await.unwrap();
        worker.push_last(9, Sum(i64::from(number) + 1).encode().unwrap()).await.unwrap();
        workers.push(worker);
    }
    let params = ().encode().unwrap();
    let reply = client.announce("sums/total", params, 9, (0..3).collect()).deadline(PATIENCE).await.unwrap();
    assert_eq!(Sum::decode(&reply.value.unwrap().0).unwrap(), Sum(6));
}

#[tokio::test]
async fn failed_reduce_and_failed_worker_are_reported_as_missing() {
    let relay = relay("r0", None).await;
    let client = relay.client();
    let (good, bad) = (worker(0, &[relay.addr()]).await, worker(1, &[relay.addr()]).await);
    good.push_last(1, "a\t1\n").await.unwrap();
    bad.push(1, "no number\n").await.unwrap();
    bad.push_last(1, "a\t1\n").await.unwrap();
    let announce = |request| {
        client.announce("words/sum-lines", "", request, (0..2).collect()).deadline(PATIENCE).min_coverage(0.5)
    };
    let reply = announce(1).await.unwrap();
    assert_eq!((reply.status, reply.value.unwrap().0), (Status::Partial, Bytes::from("a\t1\n")));
    assert!(matches!(&reply.missing[0].reason, Reason::ReduceFailed(why) if why.contains("no number")));

    good.push_last(2, "a\t1\n").await.unwrap();
    bad.fail(2, "no disk").await.unwrap();
    let (reply, idle) = tokio::join!(async { announce(2).await }, bad.idle());
    idle.unwrap();
    let reply = reply.unwrap();
    assert_eq!(reply.missing[0].reason, Reason::LocalFailed("no disk".into()));
}

#[tokio::test]
async fn only_the_worker_whose_push_cannot_be_folded_is_missing() {
    let relay = relay("r0", None).await;
    let client = relay.client();
    let workers = [
        worker(0, &[relay.addr()]).await,
        worker(1, &[relay.addr()]).await,
        worker(2, &[relay.addr()]).await,
    ];
    for (worker, lines) in workers.iter().zip(["a\t1\nb\t1\n", "b\t1\na\t1\n", "a\t1\n"]) {
        worker.push_last(1, lines).await.unwrap();
    }
    let call = client.announce("words/sum-lines", "", 1, (0..3).collect());
    let reply = call.deadline(PATIENCE).min_coverage(0.5).await.unwrap();
    assert_eq!((reply.status, reply.value.unwrap().0), (Status::Partial, Bytes::from("a\t2\nb\t1\n")));
    let [missing] = &reply.missing[..] else { panic!("{:?}", reply.missing) };
    assert_eq!(missing.partitions.to_string(), "1");
    assert!(
        matches!(&missing.reason, Reason::ReduceFailed(why) if why.contains("comes after")),
        "{}",
        missing.reason
    );
}

#[tokio::test]
async fn refused_worker_is_told_the_reason() {
    let relay = relay("r0", None).await;
    let refused = |builder: treefold::push::WorkerBuilder| async {
        let short = Duration::from_millis(300);
        builder.at([relay.addr()]).timeout(short).attach().await.unwrap_err().to_string()
    };
    let problem = refused(Worker::builder("hits", 0)).await;
    assert!(problem.contains("accepted here: words"), "{problem}");
    let problem = refused(Worker::builder("words", 1 << 20)).await;
    assert!(problem.contains("partitions_max"), "{problem}");
    let problem = refused(Worker::builder("words", 0).cluster("other")).await;
    assert!(problem.contains("cluster"), "{problem}");
    let problem = refused(Worker::builder("a/b", 0)).await;
    assert!(problem.contains("application: its name"), "{problem}");

    let first = worker(3, &[relay.addr()]).await;
    let second = worker(3, &[relay.addr()]).await;
    let thrown = async {
        while first.push(1, "a\t1\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        first.push(1, "a\t1\n").await.unwrap_err().to_string()
    };
    let thrown = tokio::time::timeout(PATIENCE, thrown).await.unwrap();
    assert!(thrown.contains("attached again"), "{thrown}");
    second.push_last(1, "a\t1\n").await.unwrap();
    let rejected = relay.client().announce("hits/sum", "", 1, (0..1).collect()).await;
    assert!(matches!(rejected, Err(Error::Rejected(_))), "{rejected:?}");
}

/// A worker that sends raw protocol messages.
struct Stranger {
    stream: TcpStream,
    inbox: Inbox,
}

impl Stranger {
    async fn attached(at: SocketAddr, worker: u32) -> Self {
        let stream = TcpStream::connect(at).await.unwrap();
        let mut stranger = Self { stream, inbox: Inbox::new(Limits::default()) };
        let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
        let hello = Hello::new("treefold", NodeId::new(unspecified, 77));
        stranger.say(|outbox| outbox.push_hello(&hello).unwrap()).await;
        assert!(matches!(stranger.hear().await, Some(Incoming::Hello(_))));
        stranger.word(PushMessage::Attach { application: "words".into(), worker }).await;
        stranger
    }

    async fn say(&mut self, what: impl FnOnce(&mut Outbox)) {
        let mut outbox = Outbox::new(Limits::default());
        what(&mut outbox);
        while !outbox.is_empty() {
            let mut slices = [std::io::IoSlice::new(&[]); 8];
            let filled = outbox.fill_slices(&mut slices);
            let written = self.stream.write_vectored(&slices[..filled]).await.unwrap();
            outbox.advance(written);
        }
    }

    async fn word(&mut self, word: PushMessage<Bytes>) {
        self.say(|outbox| outbox.push(&Message::Push(Box::new(word))).unwrap()).await;
    }

    async fn hear(&mut self) -> Option<Incoming> {
        loop {
            if let Some(incoming) = self.inbox.next().unwrap() {
                return Some(incoming);
            }
            match self.stream.read_buf(&mut self.inbox.read_buffer()).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }
}

#[tokio::test]
async fn flood_beyond_the_window_is_dropped() {
    let relay = relay("r0", None).await;
    let mut flood = Stranger::attached(relay.addr(), 1).await;
    let piece = Bytes::from(vec![b'x'; 16 << 10]);
    // Sixteen megabytes where 64 KiB are allowed, for a request that was not announced.
    for sequence in 1..=1_024 {
        flood.word(PushMessage::Push { request: 1, sequence, last: false, payload: piece.clone() }).await;
    }
    // A message that a worker must not send, and an operator that was not asked for. They are dropped, and the connection stays,
    // also if it asks for an operator that is not here.
    flood.word(PushMessage::Ended { request: 1 }).await;
    let operator = treefold::foreign::id_of(b"code");
    let lent = Message::OperatorLent { id: operator, payload: Some(Bytes::from_static(b"code")) };
    flood.say(|outbox| outbox.push(&lent).unwrap()).await;
    flood.say(|outbox| outbox.push(&Message::OperatorWant { id: operator }).unwrap()).await;
    flood.word(PushMessage::Push { request: 2, sequence: 1, last: true, payload: "a\t1\n".into() }).await;
    let others = worker(0, &[relay.addr()]).await;
    others.push_last(2, "a\t1\n").await.unwrap();
    let announced = relay.client().announce("words/sum-lines", "", 2, (0..2).collect()).deadline(PATIENCE);
    assert_eq!(announced.await.unwrap().value.unwrap().0, "a\t2\n");
    let status = relay.status().await.unwrap();
    assert!(status.open.held_bytes <= 64 << 10, "{} bytes", status.open.held_bytes);
    assert!(status.counters.pushes.dropped >= 1_000 && status.counters.bad_messages == 1);
}
