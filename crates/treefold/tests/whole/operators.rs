//! Operators that are sent to running nodes, over real sockets: pushed once, fetched along the tree by the
//! nodes that lack them, refused with a reason if invalid, and listed.
//!
//! The operators here stand in for WebAssembly: their bytes are the name of a built-in filter.

use crate::names::Names;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use treefold::endpoint::{Endpoint, Opening, Outlet, Packet, Took};
use treefold::foreign::{filter_name, id_of};
use treefold::operators::packet::Row;
use treefold::{Client, Cluster, Limits, Service, Shape, Stream};

/// Answers each packet with its own number.
struct Echo(Bytes);

impl Endpoint for Echo {
    fn packet(&mut self, outlet: &mut Outlet<'_>, packet: Packet) -> Took {
        outlet.send_tagged(packet.tag, self.0.clone()).expect("few are on their way");
        Took::Now
    }
}

fn echo(at: usize, total: usize) -> Service {
    let kind = |opening: &Opening| Echo(Row::new().i64(opening.endpoint.into()).packet().into_bytes());
    Service::new("echo").endpoints([at as u32], kind).total(total as u32)
}

async fn cluster(nodes: usize) -> (Cluster, Arc<Names>) {
    let names = Arc::new(Names::default());
    let foreign = Arc::clone(&names);
    let cluster = Cluster::embedded(nodes)
        .service(move |at| vec![echo(at, nodes)])
        .configure(move |_, node| node.foreign(foreign.clone()))
        .start()
        .await
        .expect("the nodes meet");
    (cluster, names)
}

async fn open(client: &Client, filter: String) -> Result<Stream, treefold::Error> {
    client.stream("echo").up_filter(filter).shape(Shape::KAry(2)).open().await
}

async fn sum(stream: &mut Stream) -> i64 {
    stream.send(Bytes::new()).await.expect("it is open");
    let wave = stream.wave().await.expect("it is open");
    let packet = treefold::operators::packet::Packet::read(&wave.packets[0]);
    packet.and_then(|packet| packet.i64(0)).expect("a sum is an i64")
}

/// An operator long enough to be sent in chunks.
fn summing() -> Bytes {
    Bytes::from(format!("sum{}", " ".repeat(300_000)))
}

#[tokio::test]
async fn pushed_operator_is_fetched_and_listed_by_all_nodes() {
    let (cluster, names) = cluster(7).await;
    let client = cluster.client(0);
    let pushed = client.operator_push(summing()).await.expect("it is taken");
    assert_eq!((pushed.id, pushed.bytes, pushed.uses, pushed.streams), (id_of(&summing()), 300_003, 0, 0));
    let mut stream = open(&client, filter_name(pushed.id)).await.expect("it opens");
    assert_eq!(sum(&mut stream).await, 21);
    for node in cluster.nodes() {
        let listed =
            Client::connect(node.addr()).await.expect("it connects").operators().await.expect("it answers");
        assert_eq!((listed.len(), listed[0].id, listed[0].uses, listed[0].streams), (1, pushed.id, 1, 1));
    }
    assert_eq!(names.loaded(), 7, "each node loaded it once");
    let mut again = open(&cluster.client(3), filter_name(pushed.id)).await.expect("every node has it");
    assert_eq!(sum(&mut again).await, 21);
    assert_eq!(names.loaded(), 7);
}

#[tokio::test]
async fn operator_pushed_to_one_node_is_found_by_other_front_ends() {
    let (cluster, _) = cluster(7).await;
    let elsewhere = Client::connect(cluster.nodes()[6].addr()).await.expect("it connects");
    let pushed = elsewhere.operator_push(summing()).await.expect("it is taken");
    let mut stream = open(&cluster.client(0), filter_name(pushed.id)).await.expect("it opens");
    assert_eq!(sum(&mut stream).await, 21);
}

#[tokio::test]
async fn operators_for_both_directions_are_fetched() {
    let (cluster, _) = cluster(5).await;
    let client = cluster.client(0);
    let up = client.operator_push(summing()).await.expect("it is taken");
    let down = client.operator_push("identity").await.expect("it is taken");
    for down in [up.id, down.id] {
        let builder = client.stream("echo").up_filter(filter_name(up.id)).down_filter(filter_name(down));
        let mut stream = builder.shape(Shape::Chain).open().await.expect("it opens");
        let packet = Row::new().i64(1).packet().into_bytes();
        stream.send(packet).await.expect("it is open");
        assert_eq!(stream.wave().await.expect("it is open").contributors.len(), 5);
    }
}

#[tokio::test]
async fn invalid_operator_is_refused_with_reason() {
    let (cluster, _) = cluster(1).await;
    let (own, front) = (cluster.client(0), cluster.connect().await.expect("it connects"));
    let too_long = Bytes::from(vec![b' '; Limits::DEFAULT.operator_bytes_max + 1]);
    for (bytes, why) in [
        (Bytes::from_static(b"summ"), "\"summ\" is no filter"),
        (Bytes::from_static(b"panic"), "panicked"),
        (too_long, "operator_bytes_max"),
    ] {
        for client in [&own, &front] {
            let refused = client.operator_push(bytes.clone()).await.expect_err("it is invalid").to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }
    assert_eq!(front.operators().await.expect("it answers"), []);
    own.operator_push("sum").await.expect("the node goes on");
}

#[tokio::test]
async fn unknown_or_malformed_operator_name_fails_the_stream() {
    let (cluster, _) = cluster(5).await;
    let client = cluster.client(0);
    let unknown = open(&client, filter_name(id_of(b"?"))).await.expect_err("no node has it").to_string();
    assert!(unknown.contains("no node of the stream has the operator"), "{unknown}");
    let senseless = open(&client, "wasm:7".to_owned()).await.expect_err("the name is invalid").to_string();
    assert!(senseless.contains("64 hexadecimal digits"), "{senseless}");
    assert_eq!(sum(&mut open(&client, "sum".to_owned()).await.expect("it opens")).await, 10);
}

#[tokio::test]
async fn node_without_loader_refuses_operators() {
    let plain = Cluster::embedded(1).service(|at| vec![echo(at, 1)]).start().await.expect("it starts");
    let client = plain.client(0);
    let refused = client.operator_push("sum").await.expect_err("it takes none").to_string();
    assert!(refused.contains("does not accept operators"), "{refused}");
    let refused = open(&client, filter_name(id_of(b"sum"))).await.expect_err("nor in streams").to_string();
    assert!(refused.contains("does not accept operators"), "{refused}");
}

#[tokio::test]
async fn restarted_node_fetches_the_operator_from_its_users() {
    let (mut cluster, names) = cluster(5).await;
    let client = cluster.client(0);
    let pushed = client.operator_push(summing()).await.expect("it is taken");
    let mut stream = open(&client, filter_name(pushed.id)).await.expect("it opens");
    assert_eq!(sum(&mut stream).await, 10);
    cluster.restart(4).await.expect("it starts again");
    let all_are_back = async {
        while sum(&mut stream).await != 10 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all_are_back).await.expect("the new node folds, too");
    assert_eq!(names.loaded(), 6);
}
