//! Arrow record batches over real sockets: the rows that endpoints send come up grouped, in trees of
//! every shape.
#![cfg(feature = "arrow")]

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use treefold::endpoint::{Endpoint, Opening, Outlet, Packet, Took};
use treefold::operators::codec::Batch;
use treefold::operators::filter::group::{Aggregate, Function, GroupParams};
use treefold::{Body, Node, PartitionSet, Service, Shape};

const ENDPOINTS: u32 = 8;

/// Sends its rows for each packet.
struct Rows(Bytes);

impl Endpoint for Rows {
    fn packet(&mut self, outlet: &mut Outlet<'_>, packet: Packet) -> Took {
        outlet.send_tagged(packet.tag, self.0.clone()).expect("one answer has room");
        Took::Now
    }
}

/// Two rows of each endpoint: bytes of its rack, which is one of two.
fn rows(endpoint: u32) -> Bytes {
    let rack = ["east", "west"][endpoint as usize % 2];
    let columns: [(&str, ArrayRef); 2] = [
        ("rack", Arc::new(StringArray::from(vec![rack, rack]))),
        ("bytes", Arc::new(Int64Array::from(vec![i64::from(endpoint), 100]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    Batch(batch).encode().expect("a batch can be written")
}

async fn cluster(nodes: u32) -> Vec<Node> {
    let each = ENDPOINTS / nodes;
    let mut all: Vec<Node> = Vec::new();
    for at in 0..nodes {
        let join: Vec<String> = all.first().map(|first| first.addr().to_string()).into_iter().collect();
        let endpoint = |opening: &Opening| Rows(rows(opening.endpoint));
        let service = Service::new("rows").endpoints(at * each..(at + 1) * each, endpoint).total(ENDPOINTS);
        all.push(Node::builder().join(join).service(service).start().await.expect("a node starts"));
    }
    for node in &all {
        assert!(node.members_at_least(nodes as usize, Duration::from_secs(10)).await, "all meet");
    }
    all
}

#[tokio::test]
async fn rows_of_all_endpoints_are_grouped_in_any_tree() {
    let nodes = cluster(4).await;
    let client = nodes[0].client();
    let of_bytes = |function| Aggregate { column: "bytes".into(), function };
    let params = GroupParams {
        keys: vec!["rack".into()],
        aggregates: [Function::Sum, Function::Average].map(of_bytes).into(),
        ..GroupParams::default()
    };
    for shape in [Shape::Flat, Shape::KAry(1), Shape::KAry(2)] {
        let builder = client.stream("rows").up_filter("group").filter_params(&params).shape(shape);
        let mut stream = builder.open().await.expect("the stream opens");
        stream.send(Bytes::new()).await.expect("it is open");
        let wave = stream.wave().await.expect("it is open");
        assert_eq!((wave.contributors, &wave.missing[..]), (PartitionSet::first(ENDPOINTS), &[][..]));
        let partial = Batch::decode(&wave.packets[0]).expect("a batch comes up");
        let Batch(groups) = params.finish(&partial).expect("it is this stream's");
        let column = |name: &str| groups.column_by_name(name).expect("the column is there");
        let racks: Vec<_> = column("rack").as_string::<i32>().iter().flatten().collect();
        assert_eq!(racks, ["east", "west"]);
        let sums = column("sum(bytes)").as_primitive::<Decimal128Type>();
        assert_eq!(sums.values(), &[2 + 4 + 6 + 400, 1 + 3 + 5 + 7 + 400]);
        let averages = column("average(bytes)").as_primitive::<Float64Type>();
        assert_eq!(averages.values(), &[412.0 / 8.0, 416.0 / 8.0]);
    }
}
