//! Streams over real sockets: waves up, packets down, back-pressure, and nodes that die.

use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use treefold::endpoint::{Arrival, Endpoint, Opening, Outlet, Packet, Took, accept};
use treefold::operators::filter::by_node::{self, ByNode, Chosen};
use treefold::operators::packet::Row;
use treefold::{
    Client, ClusterOptions, Limits, Node, PartitionSet, Service, Shape, Stream, StreamError, Synchronisation,
};

/// Answers each packet with the endpoint's number, in the wave of the packet's tag, as soon as there is room.
struct Echo {
    answer: Bytes,
    unanswered: VecDeque<u64>,
}

impl Endpoint for Echo {
    fn packet(&mut self, outlet: &mut Outlet<'_>, packet: Packet) -> Took {
        self.unanswered.push_back(packet.tag);
        self.room(outlet);
        Took::Now
    }

    fn room(&mut self, outlet: &mut Outlet<'_>) {
        while let Some(&tag) = self.unanswered.front() {
            if outlet.send_tagged(tag, self.answer.clone()).is_err() {
                return;
            }
            self.unanswered.pop_front();
        }
    }
}

fn echoes(ids: std::ops::Range<u32>, total: u32) -> Service {
    let echo = |opening: &Opening| Echo {
        answer: Row::new().i64(i64::from(opening.endpoint)).packet().into_bytes(),
        unanswered: VecDeque::new(),
    };
    Service::new("echo").endpoints(ids, echo).total(total)
}

async fn cluster(nodes: u32, each: u32) -> Vec<Node> {
    let total = nodes * each;
    let mut all: Vec<Node> = Vec::new();
    for at in 0..nodes {
        let join: Vec<String> = all.first().map(|first| first.addr().to_string()).into_iter().collect();
        let service = echoes(at * each..(at + 1) * each, total);
        all.push(Node::builder().join(join).service(service).start().await.expect("a node starts"));
    }
    for node in &all {
        assert!(node.members_at_least(nodes as usize, Duration::from_secs(10)).await, "all meet");
    }
    all
}

async fn sum_stream(client: &Client, shape: Shape) -> Stream {
    let builder = client.stream("echo").up_filter("sum").shape(shape);
    builder.open().await.expect("the stream opens")
}

fn figure(packet: &Bytes) -> i64 {
    treefold::operators::packet::Packet::read(packet)
        .and_then(|packet| packet.i64(0))
        .expect("a sum is an i64")
}

#[tokio::test]
async fn a_broadcast_comes_back_as_one_sum() {
    let nodes = cluster(6, 2).await;
    let client = nodes[0].client();
    let mut stream = sum_stream(&client, Shape::KAry(2)).await;
    assert_eq!(stream.endpoints(), &PartitionSet::first(12));
    for _ in 0..100 {
        let tag = stream.send(Bytes::from_static(b"?")).await.expect("it is open");
        let wave = stream.wave().await.expect("it is open");
        assert_eq!((wave.tag, figure(&wave.packets[0])), (tag, 66));
        assert_eq!(wave.contributors, PartitionSet::first(12));
    }
    let status = client.status().await.expect("the node answers");
    let traffic = status.streams[0].traffic;
    assert_eq!((traffic.waves, traffic.packets_up, traffic.packets_down), (100, 100, 100));
    assert_eq!((traffic.filter_runs, traffic.bytes_down), (100, 100), "one byte down a wave, and one sum up");
    assert_eq!(traffic.packets_in, 100 * (2 + 2), "from two endpoints here, and two children");
}

#[tokio::test]
async fn nodes_and_the_front_end_have_filters_of_their_own() {
    let nodes = cluster(4, 2).await;
    let client = nodes[0].client();
    let chosen = ByNode {
        others: Chosen::new("sum"),
        front_end: Some(Chosen::new("concatenate")),
        nodes: [(nodes[2].addr().to_string(), Chosen::new("max"))].into(),
    };
    let builder = client.stream("echo").up_filter(by_node::NAME).filter_params(&chosen).shape(Shape::Flat);
    let mut stream = builder.open().await.expect("the stream opens");
    stream.send(Bytes::new()).await.expect("it is open");
    let wave = stream.wave().await.expect("it is open");
    let joined = treefold::operators::Packet::read(&wave.packets[0]).expect("a packet");
    let mut figures = joined.i64s(0).expect("figures").to_vec();
    figures.sort_unstable();
    // The front-end's own endpoints 0 and 1, the greater one of the third node, and two sums.
    assert_eq!(figures, [0, 1, 5, 2 + 3, 6 + 7]);
    assert_eq!(wave.contributors, PartitionSet::first(8));
}

#[tokio::test]
async fn a_stream_is_refused_if_a_node_can_not_have_its_filter() {
    let nodes = cluster(3, 1).await;
    let client = nodes[0].client();
    let refused = async |chosen: ByNode| {
        let builder = client.stream("echo").up_filter(by_node::NAME).filter_params(&chosen);
        builder.open().await.expect_err("one node can't open its filter").to_string()
    };
    let of_one = |filter| [(nodes[2].addr().to_string(), Chosen::new(filter))].into();
    let unknown = refused(ByNode { nodes: of_one("nowhere"), ..ByNode::default() }).await;
    assert!(unknown.contains("no filter is called \"nowhere\""), "{unknown}");
    let without_k = refused(ByNode { nodes: of_one("top-k"), ..ByNode::default() }).await;
    assert!(without_k.contains("missing field `k`"), "{without_k}");
    let itself = refused(ByNode { others: Chosen::new(by_node::NAME), ..ByNode::default() }).await;
    assert!(itself.contains("by-node can't choose itself"), "{itself}");
}

#[tokio::test]
async fn direct_client_can_be_front_end_and_front_mode_client_cannot() {
    let nodes = cluster(3, 1).await;
    let front = Client::connect(nodes[0].addr()).await.expect("it connects");
    let refused = front.stream("echo").open().await.expect_err("it has no node loop").to_string();
    assert!(refused.contains("direct"), "{refused}");
    let direct = Client::builder().at([nodes[0].addr()]).direct(true).connect().await.expect("it connects");
    let mut stream = loop {
        // Its view may still lack some members.
        let stream = sum_stream(&direct, Shape::Flat).await;
        if stream.endpoints().len() == 3 {
            break stream;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    stream.send(Bytes::new()).await.expect("it is open");
    assert_eq!(figure(&stream.wave().await.expect("it is open").packets[0]), 3);
}

#[tokio::test]
async fn dead_node_loses_only_its_endpoints() {
    let mut nodes = cluster(7, 1).await;
    let client = nodes[0].client();
    let mut stream = sum_stream(&client, Shape::KAry(2)).await;
    drop(nodes.remove(1)); // an inner node, if there is one
    let mut last = None;
    for _ in 0..200 {
        stream.send(Bytes::new()).await.expect("it is open");
        let wave = stream.wave().await.expect("it is open");
        let expected: i64 = wave.contributors.iter().map(i64::from).sum();
        assert_eq!(figure(&wave.packets[0]), expected, "a sum of its contributors");
        last = Some(wave);
    }
    let last = last.expect("there were waves");
    assert_eq!(last.contributors.len(), 6);
    assert_eq!(last.missing.len(), 1);
}

#[tokio::test]
async fn accepted_streams_are_read_and_written() {
    let (accepting, acceptor) = accept();
    let service = Service::new("echo").endpoints(0..1, accepting);
    let node = Node::builder().service(service).start().await.expect("a node starts");
    let worker = tokio::spawn(async move {
        let mut stream = acceptor.accept().await.expect("a stream is opened");
        while let Some(packet) = stream.recv().await {
            stream.send_tagged(packet.tag, packet.payload).await.expect("it is open");
        }
    });
    let client = node.client();
    let mut stream = client.stream("echo").open().await.expect("it opens");
    for number in 0..1_000u32 {
        stream.send(Bytes::from(number.to_le_bytes().to_vec())).await.expect("it is open");
        let wave = stream.wave().await.expect("it is open");
        assert_eq!(wave.packets, [Bytes::from(number.to_le_bytes().to_vec())]);
    }
    drop(stream);
    worker.await.expect("the endpoint learns that the stream is over");
}

#[tokio::test]
async fn packet_without_a_tag_follows_the_highest_tag_that_was_chosen() {
    let nodes = cluster(1, 2).await;
    let client = nodes[0].client();
    let mut stream = sum_stream(&client, Shape::Auto).await;
    let sender = stream.sender();
    sender.send_tagged(1, Bytes::new()).await.expect("it is open");
    assert_eq!(stream.send(Bytes::new()).await.expect("it is open"), 2);
    sender.send_to(PartitionSet::from_iter([0, 1]), 7, Bytes::new()).await.expect("it is open");
    assert_eq!(sender.send(Bytes::new()).await.expect("it is open"), 8);
    let mut tags = Vec::new();
    for _ in 0..4 {
        let wave = stream.wave().await.expect("it is open");
        assert_eq!(wave.contributors.len(), 2);
        tags.push(wave.tag);
    }
    tags.sort_unstable();
    assert_eq!(tags, [1, 2, 7, 8]);
    let refused = sender.send_tagged(u64::MAX, Bytes::new()).await.expect_err("there is no next tag");
    assert!(refused.to_string().contains("tag"), "{refused}");
    assert_eq!(sender.send(Bytes::new()).await.expect("it is open"), 9);
}

#[tokio::test]
async fn unread_senders_wait_and_lose_nothing() {
    let nodes = cluster(3, 1).await;
    let client = nodes[0].client();
    let builder = client.stream("echo").up_filter("sum").window_bytes(64 << 10);
    let mut stream = builder.open().await.expect("it opens");
    let sender = stream.sender();
    let sending = tokio::spawn(async move {
        for _ in 0..20_000 {
            sender.send(Bytes::new()).await.expect("it is open");
        }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    for tag in 1..=20_000 {
        let wave = stream.wave().await.expect("it is open");
        assert_eq!((wave.tag, figure(&wave.packets[0])), (tag, 3));
    }
    sending.await.expect("all is sent");
}

#[tokio::test]
async fn unknown_filter_is_refused_by_name() {
    let nodes = cluster(2, 1).await;
    let client = nodes[0].client();
    let refused = client.stream("echo").up_filter("summ").open().await.expect_err("no such filter");
    assert!(refused.to_string().contains("no filter is called \"summ\""), "{refused}");
    let refused = client.stream("nobody").open().await.expect_err("no such service");
    assert!(refused.to_string().contains("\"nobody\""), "{refused}");
    let none = Synchronisation::TimeOut(Duration::ZERO);
    let refused = client.stream("echo").synchronisation(none).open().await.expect_err("a time of zero");
    assert!(refused.to_string().contains("above 0"), "{refused}");
}

#[tokio::test]
async fn sender_need_not_read_between_sends() {
    let nodes = cluster(2, 1).await;
    let client = nodes[0].client();
    let builder = client.stream("echo").up_filter("sum").window_bytes(16 << 10);
    let mut stream = builder.open().await.expect("it opens");
    for _ in 0..2_000 {
        stream.send(Bytes::new()).await.expect("it is open");
    }
    for tag in 1..=2_000 {
        assert_eq!(stream.wave().await.expect("it is open").tag, tag);
    }
}

#[tokio::test]
async fn oversized_packet_is_refused_with_its_limit() {
    let limits = Limits { payload_bytes_max: 1_024, ..Limits::DEFAULT };
    let (accepting, acceptor) = accept();
    let service = Service::new("echo").endpoints(0..1, accepting);
    let node = Node::builder()
        .cluster(ClusterOptions::default().limits(limits))
        .service(service)
        .start()
        .await
        .expect("a node starts");
    let stream = node.client().stream("echo").open().await.expect("it opens");
    let endpoint = acceptor.accept().await.expect("a stream is opened");
    let packet = |bytes: usize| Bytes::from(vec![0; bytes]);
    stream.send(packet(1_024)).await.expect("that is allowed");
    endpoint.send(packet(1_024)).await.expect("that is allowed");
    for refused in [stream.send(packet(1_025)).await.map(drop), endpoint.send(packet(1_025)).await] {
        let refused = refused.expect_err("one byte too many").to_string();
        assert_eq!(refused, "the packet has 1025 bytes; allowed: at most 1024 (payload_bytes_max)");
    }
}

/// Fails in the way that its number selects.
struct Failing(u32);

impl Endpoint for Failing {
    fn opened(&mut self, outlet: &mut Outlet<'_>) {
        if self.0 == 1 {
            outlet.leave("it has a headache");
        }
    }

    fn packet(&mut self, outlet: &mut Outlet<'_>, packet: Packet) -> Took {
        assert_ne!(self.0, 2, "endpoint 2 was asked to panic");
        let _ = outlet.send_tagged(packet.tag, Row::new().i64(1).packet().into_bytes());
        Took::Now
    }

    fn closed(&mut self, _: &StreamError) {
        assert_ne!(self.0, 4, "endpoint 4 panics at its end");
    }
}

#[tokio::test]
async fn failed_endpoints_are_missing_with_reasons() {
    let open = |opening: &Opening| {
        assert_ne!(opening.endpoint, 3, "endpoint 3 panics at its beginning");
        Failing(opening.endpoint)
    };
    let service = Service::new("failing").endpoints(0..5, open);
    let node = Node::builder().service(service).start().await.expect("a node starts");
    let client = node.client();
    let mut stream = client.stream("failing").up_filter("sum").open().await.expect("it opens");
    stream.send(Bytes::new()).await.expect("it is open");
    let wave = stream.wave().await.expect("it is open");
    assert_eq!(wave.contributors, [0, 4].into_iter().collect());
    let said = |endpoint| {
        let loss = wave.missing.iter().find(|loss| loss.partitions.contains(endpoint));
        loss.map(|loss| loss.reason.to_string()).unwrap_or_default()
    };
    assert!(said(1).contains("it has a headache"), "{wave:?}");
    assert!(said(2).contains("endpoint 2 was asked to panic"), "{wave:?}");
    assert!(said(3).contains("endpoint 3 panics at its beginning"), "{wave:?}");
    drop(stream);
    let mut again = client.stream("failing").up_filter("sum").open().await.expect("the node lives");
    again.send(Bytes::new()).await.expect("it is open");
    assert_eq!(again.wave().await.expect("it is open").contributors.len(), 2);
}

#[tokio::test]
async fn partitions_without_endpoints_are_not_in_streams() {
    let service = Service::new("data").partition(0, 7_u32);
    let node = Node::builder().service(service).start().await.expect("a node starts");
    let mut stream = node.client().stream("data").open().await.expect("it opens");
    while stream.missing().is_empty() {
        stream.next().await.expect("it is open");
    }
    assert_eq!((stream.endpoints().len(), stream.missing()[0].reason.name()), (0, "not_hosted"));
}

/// The number of a packet of the next test.
fn number_of(payload: &Bytes) -> u64 {
    u64::from_le_bytes(payload[..8].try_into().expect("a number"))
}

#[tokio::test]
async fn endpoint_that_does_not_read_holds_up_nobody_and_is_told_what_it_missed() {
    const PACKETS: u64 = 4_000;
    let (accepting, acceptor) = accept();
    let (other_kind, others) = accept();
    let first = Service::new("live").endpoints([0], accepting).total(2);
    let first = Node::builder().service(first).start().await.expect("a node");
    let second = Service::new("live").endpoints([1], other_kind).total(2);
    let _second = Node::builder().join([first.addr()]).service(second).start().await.expect("a node");
    let front = Node::builder().join([first.addr()]).start().await.expect("a node");
    assert!(front.members_at_least(3, Duration::from_secs(10)).await);
    let builder = front.client().stream("live").synchronisation(Synchronisation::DoNotWait);
    let stream = builder.shape(Shape::Flat).lag_bytes_max(256 << 10).open().await.expect("it opens");
    let mut slow = acceptor.accept().await.expect("a stream");
    let mut fast = others.accept().await.expect("a stream");
    let reading = tokio::spawn(async move {
        let mut next = 1;
        while next <= PACKETS {
            let packet = fast.recv().await.expect("the next packet");
            assert_eq!((number_of(&packet.payload), fast.missed()), (next, 0));
            next += 1;
        }
    });
    // Four windows: without a lag limit, the endpoint that does not read would stop this for ever.
    let packet = |number: u64| {
        let mut payload = vec![0; 1_000];
        payload[..8].copy_from_slice(&number.to_le_bytes());
        Bytes::from(payload)
    };
    for number in 1..=PACKETS {
        stream.send(packet(number)).await.expect("it is open");
    }
    reading.await.expect("the other endpoint gets every packet");

    let (mut seen, mut missed) = (0, 0);
    while missed == 0 {
        match slow.next().await.expect("the stream is open") {
            Arrival::Packet(packet) => {
                assert_eq!(number_of(&packet.payload), seen + 1);
                seen += 1;
            }
            Arrival::Missed(news) => missed = news.packets(),
        }
    }
    stream.send(packet(PACKETS + 1)).await.expect("it is open");
    let mut next = seen + missed + 1;
    while next <= PACKETS + 1 {
        let packet = slow.recv().await.expect("the stream is open");
        assert_eq!(number_of(&packet.payload), next, "no gap without news");
        next += 1;
    }
    assert_eq!(slow.missed(), missed);
}

#[tokio::test]
async fn endpoint_that_has_caught_up_holds_up_nobody_with_packets_it_took_before_it_lagged() {
    let (accepting, acceptor) = accept();
    let (other_kind, others) = accept();
    let first = Service::new("live").endpoints([0], accepting).total(2);
    let first = Node::builder().service(first).start().await.expect("a node");
    let second = Service::new("live").endpoints([1], other_kind).total(2);
    let _second = Node::builder().join([first.addr()]).service(second).start().await.expect("a node");
    let front = Node::builder().join([first.addr()]).start().await.expect("a node");
    assert!(front.members_at_least(3, Duration::from_secs(10)).await);
    let builder = front.client().stream("live").synchronisation(Synchronisation::DoNotWait);
    let stream = builder.shape(Shape::Flat).lag_bytes_max(256 << 10).open().await.expect("it opens");
    let mut slow = acceptor.accept().await.expect("a stream");
    let mut fast = others.accept().await.expect("a stream");
    let sender = stream.sender();
    let sent = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&sent);
    let sending = tokio::spawn(async move {
        while sender.send(Bytes::from(vec![0; 1_000])).await.is_ok() {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    // One endpoint reads until the other one lags. Then it stops, too, and the window fills.
    for _ in 0..4_000 {
        fast.recv().await.expect("the next packet");
    }
    let mut before = 0;
    while before < sent.load(Ordering::Relaxed) {
        before = sent.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // The laggard takes everything up to the packets that it missed, and no more after them.
    while !matches!(slow.next().await.expect("the stream is open"), Arrival::Missed(_)) {}
    // All that fills the window is for the other one. When it reads on, the front-end must go on.
    let reading = tokio::spawn(async move { while fast.recv().await.is_some() {} });
    let goes_on = async {
        while sent.load(Ordering::Relaxed) < before + 4_000 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), goes_on).await.expect("the front-end sends on");
    sending.abort();
    reading.abort();
}

#[tokio::test]
async fn lag_limit_above_half_of_the_window_is_refused_by_name() {
    let nodes = cluster(1, 2).await;
    for bytes in [1, 600 << 10] {
        let refused = nodes[0].client().stream("echo").lag_bytes_max(bytes).open().await.unwrap_err();
        assert!(refused.to_string().contains("lag_bytes_max"), "{refused}");
    }
}

/// The endpoint withholds the acknowledgement of the small packet, and the large one must not wait for it.
#[tokio::test]
async fn packet_larger_than_the_window_follows_a_small_one() {
    let (accepting, acceptor) = accept();
    let service = Service::new("live").endpoints([0], accepting).total(1);
    let node = Node::builder().service(service).start().await.expect("a node");
    let front = Node::builder().join([node.addr()]).start().await.expect("a node");
    assert!(front.members_at_least(2, Duration::from_secs(10)).await);
    let stream = front.client().stream("live").window_bytes(64 << 10).open().await.expect("it opens");
    let mut endpoint = acceptor.accept().await.expect("a stream");
    for bytes in [1, 1 << 20, 10, 2 << 20, 3] {
        let passes = async {
            stream.send(vec![7; bytes].into()).await.expect("it is open");
            endpoint.recv().await.expect("the stream is open")
        };
        let packet = tokio::time::timeout(Duration::from_secs(20), passes).await.expect("it comes");
        assert_eq!(packet.payload.len(), bytes);
    }
}
