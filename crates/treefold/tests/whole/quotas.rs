//! The part of a node that one client, or many together, may take: bytes of unfinished frames, connections, calls, streams.
//! The others find the node as they left it.

use crate::figures::{Gate, PATIENCE, Trick, Tricks, eventually, service, total};
use crate::strangers::{Stranger, client_id, node, works};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use treefold::foreign::{Foreign, Loaded};
use treefold::operators::merge::Sum;
use treefold::operators::{Raw, erase_async};
use treefold::parts::wire::{FaultCode, Hello, Incoming};
use treefold::{
    Aggregation, AsyncAggregation, Body, CallError, Client, Cluster, ClusterOptions, Limits, Node,
    OperatorError, Partition, Service, Status, cancelled,
};
use treefold_core::call::CallOptions;
use treefold_core::message::{Message, Request};

const KIB: usize = 1 << 10;

/// The beginning of a frame of `bytes` bytes, without its last byte.
fn unfinished(bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; bytes - 1];
    frame[..4].copy_from_slice(&(bytes as u32 - 4).to_le_bytes());
    frame[4] = 0x20;
    frame
}

#[tokio::test]
async fn unfinished_frames_of_all_connections_are_bounded_together() {
    let limits = Limits {
        unfinished_bytes_max: 1_000 * KIB,
        payload_bytes_max: 300 * KIB,
        header_bytes_max: 64 * KIB,
        ..Limits::default()
    };
    let node = node(limits).await;
    let mut strangers = Vec::new();
    for generation in 0..10 {
        let mut stranger = Stranger::greeted(&node, 1 + generation).await;
        // A stranger that has been closed in the meantime can't send the rest.
        let _ = stranger.stream.write_all(&unfinished(200 * KIB)).await;
        strangers.push(stranger);
    }
    // Five of them fit. The others were closed, the oldest first, because all of them progressed alike.
    for stranger in &mut strangers[..5] {
        let fault = stranger.hear_fault().await;
        assert_eq!((fault.code, fault.field.as_str()), (FaultCode::TooLarge, "unfinished_bytes_max"));
        assert_eq!(fault.limit, 1_000 * KIB as u64);
    }
    for stranger in &mut strangers[5..] {
        // The rest of the frame, which makes no sense and is dropped.
        stranger.stream.write_all(&[0]).await.unwrap();
        stranger.say(|outbox| outbox.push(&Message::StatusRequest { id: 1 }).unwrap()).await;
        let status = stranger.hear().await.expect("the connection goes on");
        assert!(matches!(status, Incoming::Message(Message::Status { id: 1, .. })), "{status:?}");
    }
    works(&node).await;
}

fn request(id: u64, name: &str, params: bytes::Bytes) -> Message<bytes::Bytes> {
    let options = CallOptions { deadline: Duration::from_secs(600).into(), ..CallOptions::default() };
    Message::Request(Box::new(Request { id, name: name.into(), params: params.into(), options }))
}

#[tokio::test]
async fn one_client_leaves_calls_for_others() {
    let gate = Arc::<Gate>::default();
    let node = Node::builder()
        .cluster(ClusterOptions::default().limits(Limits { calls_open_max: 8, ..Limits::default() }))
        .service(service(0..2, 2, &gate))
        .processors(8)
        .start()
        .await
        .unwrap();
    let mut greedy = Stranger::greeted(&node, 1).await;
    let hang = Tricks::at(1, Trick::Hang).encode().unwrap();
    for id in 0..8 {
        let request = request(id, "figures/tricky", hang.clone());
        greedy.say(|outbox| outbox.push(&request).unwrap()).await;
    }
    let mut refused = 0;
    while refused < 4 {
        if let Incoming::Message(Message::Reply { outcome, .. }) =
            greedy.hear().await.expect("it is not closed")
        {
            assert_eq!(outcome.status, Status::Rejected(CallError::TooManyCallsOfClient { limit: 4 }));
            refused += 1;
        }
    }
    works(&node).await;
    gate.open();
}

#[tokio::test]
async fn clients_leave_connections_for_members() {
    let limits = Limits { peers_max: 4, ..Limits::default() };
    let node = node(limits).await;
    let _first = Stranger::greeted(&node, 1).await;
    let _second = Stranger::greeted(&node, 2).await;
    let _third = Stranger::greeted(&node, 3).await;
    let mut fourth = Stranger::connect(&node).await;
    fourth.say(|outbox| outbox.push_hello(&Hello::new("treefold", client_id(4))).unwrap()).await;
    let fault = fourth.hear_fault().await;
    assert_eq!(
        (fault.code, fault.field.as_str(), fault.limit),
        (FaultCode::TooManyPeers, "peers_reserved", 3)
    );
    let member = Node::builder().join([node.addr()]).start().await.unwrap();
    assert!(member.members_at_least(2, PATIENCE).await);
}

#[tokio::test]
async fn idle_client_is_closed_for_a_new_one() {
    let gate = Arc::<Gate>::default();
    let node = Node::builder()
        .cluster(ClusterOptions::default().limits(Limits { peers_max: 2, ..Limits::default() }))
        .service(service(0..2, 2, &gate))
        .start()
        .await
        .unwrap();
    let mut busy = Stranger::greeted(&node, 1).await;
    let hang = Tricks::at(1, Trick::Hang).encode().unwrap();
    busy.say(|outbox| outbox.push(&request(1, "figures/tricky", hang)).unwrap()).await;
    let mut idle = Stranger::greeted(&node, 2).await;
    eventually("the idle client is closed for a new one", || async {
        Client::connect(node.addr()).await.is_ok()
    })
    .await;
    assert_eq!(idle.hear_fault().await.field, "peers_max");
    gate.open();
    while !matches!(busy.hear().await.expect("it stays"), Incoming::Message(Message::Reply { id: 1, .. })) {}
}

/// A value that is as long as the parameter says.
struct Long;

impl Aggregation for Long {
    type Params = u64;
    type Partial = Raw;

    fn local(&self, _: &Partition, bytes: &u64) -> Result<Raw, OperatorError> {
        Ok(Raw(vec![0; *bytes as usize].into()))
    }

    fn reduce(&self, a: Raw, _: Raw, _: &u64) -> Result<Raw, OperatorError> {
        Ok(a)
    }
}

#[tokio::test]
async fn clients_that_do_not_read_hold_a_bounded_sum() {
    const MIB: u64 = 1 << 20;
    let limits =
        Limits { outbox_bytes_max: 48 << 20, clients_outbox_bytes_max: 48 << 20, ..Limits::default() };
    let node = Node::builder()
        .cluster(ClusterOptions::default().limits(limits))
        .service(service(0..2, 2, &Arc::default()))
        .service(Service::new("long").aggregation("value", Long).partition(0, ()))
        .start()
        .await
        .unwrap();
    let mut deaf = Vec::new();
    // The systems' buffers take up to about 10 MiB of each.
    for generation in 0..8 {
        let mut stranger = Stranger::greeted(&node, 1 + generation).await;
        let params = (32 * MIB).encode().unwrap();
        stranger.say(|outbox| outbox.push(&request(1, "long/value", params)).unwrap()).await;
        deaf.push(stranger);
    }
    eventually("all calls have ended", || async { node.status().await.unwrap().open.calls == 0 }).await;
    let mut closed = 0;
    for stranger in &mut deaf {
        let is_answered = loop {
            match stranger.hear().await {
                Some(Incoming::Message(Message::Reply { .. })) => break true,
                Some(_) => {}
                None => break false,
            }
        };
        closed += usize::from(!is_answered);
    }
    assert!((4..8).contains(&closed), "{closed} of 8 were closed; the last one always fits");
    works(&node).await;
}

/// Computes until nobody waits for it.
struct Endless;

impl Aggregation for Endless {
    type Params = ();
    type Partial = i64;

    fn local(&self, _: &Partition, (): &()) -> Result<i64, OperatorError> {
        while !cancelled() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(OperatorError::cancelled())
    }

    fn reduce(&self, a: i64, _: i64, (): &()) -> Result<i64, OperatorError> {
        Ok(a)
    }
}

/// Waits for ever.
struct Forever;

impl AsyncAggregation for Forever {
    type Params = ();
    type Partial = i64;

    async fn local(&self, _: Partition, _: Arc<()>) -> Result<i64, OperatorError> {
        std::future::pending().await
    }

    async fn reduce(&self, a: i64, _: i64, _: Arc<()>) -> Result<i64, OperatorError> {
        Ok(a)
    }
}

/// Calls `name` on a cluster of three nodes with one processor each, gives up, and calls again.
async fn cancelled_call_gives_processors_back(name: &str) {
    let gate = Arc::<Gate>::default();
    let cluster = Cluster::embedded(3)
        .processors(1)
        .service(move |node| {
            let own = node as u32;
            let long = Service::new("long")
                .aggregation("endless", Endless)
                .async_aggregation("forever", Forever)
                // As programs register an operator of which they do not know the type.
                .operator("forever-pool", erase_async(Forever))
                .partition(own, ())
                .total(3);
            vec![service([own], 3, &gate), long]
        })
        .start()
        .await
        .unwrap();
    let client = Client::connect(cluster.nodes()[0].addr()).await.unwrap();
    for _ in 0..3 {
        let call = client.call::<i64>(name, &()).deadline(Duration::from_secs(600)).into_future();
        assert!(tokio::time::timeout(Duration::from_millis(200), call).await.is_err(), "{name} never ends");
    }
    let reply = client.call::<Sum>("figures/sum-pool", &()).deadline(PATIENCE).await.unwrap();
    assert_eq!(reply.value, Some(Sum(total(3))));
    for node in 0..3 {
        let node = &cluster.nodes()[node];
        eventually("no job is left", || async { node.status().await.unwrap().open.jobs_running == 0 }).await;
        assert_eq!(node.status().await.unwrap().open.jobs_stuck, 0);
    }
}

#[tokio::test]
async fn cancelled_call_ends_blocking_locals_that_ask() {
    cancelled_call_gives_processors_back("long/endless").await;
}

#[tokio::test]
async fn cancelled_call_drops_futures() {
    cancelled_call_gives_processors_back("long/forever").await;
}

#[tokio::test]
async fn cancelled_call_drops_futures_of_operators_that_began_on_a_worker() {
    cancelled_call_gives_processors_back("long/forever-pool").await;
}

/// Loads an operator once the gate is open.
struct Slow(Arc<Gate>);

impl Foreign for Slow {
    fn load(&self, _: &bytes::Bytes) -> Result<Loaded, OperatorError> {
        self.0.pass();
        let filter = treefold::operators::filter::builtin("sum").expect("a built-in filter");
        Ok(Loaded { kind: "filter", made_bytes: 0, filter, reduce: None })
    }
}

#[tokio::test]
async fn clients_wait_for_few_operators_of_others() {
    let gate = Arc::<Gate>::default();
    let node = Node::builder().foreign(Arc::new(Slow(Arc::clone(&gate)))).start().await.unwrap();
    let mut pushes = Vec::new();
    for number in 0..2u8 {
        let client = Client::connect(node.addr()).await.unwrap();
        let other = client.clone();
        let mut first = Box::pin(async move { client.operator_push(vec![number]).await });
        // Its request goes first, because both use one connection.
        tokio::select! {
            biased;
            pushed = &mut first => panic!("the gate is closed: {pushed:?}"),
            () = tokio::task::yield_now() => {}
        }
        pushes.push(tokio::spawn(first));
        let refused = other.operator_push(vec![number, 0]).await.unwrap_err().to_string();
        assert!(refused.contains("another operator of this client"), "{refused}");
    }
    let third = Client::connect(node.addr()).await.unwrap();
    let refused = third.operator_push(vec![9]).await.unwrap_err().to_string();
    assert!(refused.contains("2 operators of other clients"), "{refused}");
    gate.open();
    for push in pushes {
        push.await.unwrap().unwrap();
    }
    third.operator_push(vec![9]).await.unwrap();
}
