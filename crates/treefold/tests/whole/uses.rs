//! Every built-in operator, over real sockets: the same samples give the same result as a call, as a
//! stream, and as pushes. (The crate `wasm` has the same tests for guests.)

use bytes::Bytes;
use std::time::Duration;
use treefold::endpoint::{Endpoint, Opening, Outlet, Packet, Took};
use treefold::push::{Worker, application, ready};
use treefold::{Client, Cluster, Node, PartitionSet, Raw, Service, Shape};
use treefold_operators::filter::merge_sorted::{Combine, MergeSorted};
use treefold_operators::fold::examples::{Example, examples};
use treefold_operators::packet::{Packet as Typed, Row};
use treefold_operators::{Body, Partition};

/// Time limit for things that must happen, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of nodes, of samples per example, and of workers.
const NODES: u32 = 4;

/// The only operator with another sample format in streams.
const MERGE_SORTED: &str = "merge-sorted";

/// A run as the last chunk of a stream.
fn chunk_of(run: &Bytes) -> Bytes {
    let run = Typed::read(run).unwrap();
    let keys: Vec<&str> = run.strs(0).unwrap().collect();
    let counts: Vec<i64> = run.i64s(1).unwrap().iter().collect();
    Row::new().blobs(&keys).i64s(&counts).u64(1).u64(0).packet().into_bytes()
}

/// The run inside a single chunk.
fn run_of(chunk: &Bytes) -> Bytes {
    let chunk = Typed::read(chunk).unwrap();
    let keys: Vec<&str> = chunk.blobs(0).unwrap().map(|key| std::str::from_utf8(key).unwrap()).collect();
    let counts: Vec<i64> = chunk.i64s(1).unwrap().iter().collect();
    Row::new().strs(&keys).i64s(&counts).packet().into_bytes()
}

/// Answers the name of an operator with this endpoint's sample for it.
struct Sampler(u32);

impl Endpoint for Sampler {
    fn packet(&mut self, outlet: &mut Outlet<'_>, packet: Packet) -> Took {
        let asked = examples().into_iter().find(|example| packet.payload == example.name).unwrap();
        let sample = asked.samples[self.0 as usize].clone();
        let sample = if asked.name == MERGE_SORTED { chunk_of(&sample) } else { sample };
        outlet.send_tagged(packet.tag, sample).unwrap();
        Took::Now
    }
}

/// The samples of one node, by operator.
type Samples = Vec<(&'static str, Bytes)>;

/// A service with an aggregation for each operator. Its partitions hold the samples of one node.
fn called(at: u32) -> Service {
    let samples: Samples =
        examples().into_iter().map(|example| (example.name, example.samples[at as usize].clone())).collect();
    let service = Service::new("called").partition(at, samples).total(NODES);
    examples().into_iter().fold(service, |service, Example { name, params, .. }| {
        let call = ready::sampled(name, &Raw(params), move |partition: &Partition, (): &()| {
            let samples = partition.data_as::<Samples>()?;
            Ok(Raw(samples.iter().find(|(known, _)| *known == name).unwrap().1.clone()))
        });
        service.operator(name, call.unwrap())
    })
}

async fn called_of(client: &Client, example: &Example) -> Bytes {
    let call = client.call_raw(&format!("called/{}", example.name), Bytes::new()).shape(Shape::KAry(2));
    let reply = call.deadline(PATIENCE).await.unwrap();
    assert!(reply.missing.is_empty(), "{}: {:?}", example.name, reply.missing);
    reply.value.unwrap().0
}

async fn streamed_of(client: &Client, example: &Example) -> Bytes {
    let is_chunked = example.name == MERGE_SORTED;
    let params = if is_chunked {
        MergeSorted { combine: Combine::Sum, ..MergeSorted::default() }.encode().unwrap()
    } else {
        example.params.clone()
    };
    let opening = client.stream("sampler").up_filter(example.name).filter_params(&Raw(params));
    let mut stream = opening.shape(Shape::KAry(2)).open().await.unwrap();
    stream.send(Bytes::from_static(example.name.as_bytes())).await.unwrap();
    let wave = stream.wave().await.unwrap();
    assert_eq!(wave.contributors, PartitionSet::first(NODES), "{}: {:?}", example.name, wave.missing);
    let [packet] = &wave.packets[..] else { panic!("{}: {:?}", example.name, wave.packets) };
    if is_chunked { run_of(packet) } else { packet.clone() }
}

/// Makes workers push partials: each is a stream filter's result for one sample alone.
async fn pushed_of(client: &Client, example: &Example, request: u64, workers: &[Worker]) -> Bytes {
    let kind = format!("pushed/{}", example.name);
    let announced = client.announce(&kind, example.params.clone(), request, PartitionSet::first(NODES));
    let announced = tokio::spawn(announced.deadline(PATIENCE).patience(PATIENCE).into_future());
    for ((number, worker), sample) in (0..).zip(workers).zip(&example.samples) {
        let lift =
            ready::sampled(example.name, &Raw(example.params.clone()), |partition: &Partition, (): &()| {
                Ok(Raw(partition.data_as::<Bytes>()?.clone()))
            });
        let partition = Partition::new("one".into(), number, NODES, std::sync::Arc::new(sample.clone()));
        let partial = lift.unwrap().local(&partition, &Bytes::new()).now().unwrap().unwrap();
        worker.push_last(request, partial).await.unwrap();
    }
    let reply = announced.await.unwrap().unwrap();
    assert!(reply.missing.is_empty(), "{}: {:?}", example.name, reply.missing);
    reply.value.unwrap().0
}

/// Operators that the guide's table lists for streams only.
const FILTERS_ALONE: [&str; 3] = ["identity", "time-aligned", "clock-skew"];

#[tokio::test]
async fn operators_with_state_are_no_reduces() {
    let relay = Node::builder().relay().service(application("pushed")).start().await.unwrap();
    for (request, name) in (0..).zip(FILTERS_ALONE) {
        assert!(ready::sampled(name, &(), |_: &Partition, (): &()| Ok(())).is_err(), "{name} in a call");
        let announced =
            relay.client().announce(&format!("pushed/{name}"), Bytes::new(), request, PartitionSet::first(1));
        let refused = announced.deadline(PATIENCE).patience(PATIENCE).await.unwrap_err().to_string();
        assert!(refused.contains("an aggregation that this node has"), "{name} in pushes: {refused}");
    }
}

#[tokio::test]
async fn every_operator_gives_the_same_in_a_call_a_stream_and_pushes() {
    let cluster = Cluster::embedded(NODES as usize)
        .service(|at| {
            let at = at as u32;
            let sampler = |opening: &Opening| Sampler(opening.endpoint);
            let sampler = Service::new("sampler").endpoints([at], sampler).total(NODES);
            vec![called(at), sampler, application("pushed")]
        })
        .start()
        .await
        .unwrap();
    let client = cluster.client(0);
    let mut workers = Vec::new();
    for number in 0..NODES {
        let at = [cluster.nodes()[number as usize].addr()];
        workers.push(Worker::builder("pushed", number).at(at).attach().await.unwrap());
    }
    for (request, example) in (1..).zip(examples()) {
        let seen = |result: Bytes| {
            let mut octets = result.to_vec();
            if !example.is_ordered {
                octets.sort_unstable();
            }
            octets
        };
        let called = seen(called_of(&client, &example).await);
        assert_eq!(seen(pushed_of(&client, &example, request, &workers).await), called, "{}", example.name);
        assert_eq!(seen(streamed_of(&client, &example).await), called, "{}", example.name);
    }
}
