//! Every operator that nodes have by name, over real sockets: the same samples give the same result as a call, as a stream,
//! and as pushes. (The crate `wasm` has the same for guests.)

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use bytes::Bytes;
use std::time::Duration;
use treefold::endpoint::{Endpoint, Opening, Outlet, Packet, Took};
use treefold::push::{Worker, application, ready};
use treefold::{Client, Cluster, PartitionSet, Raw, Service, Shape};
use treefold_operators::Partition;
use treefold_operators::fold::examples::{Example, examples};

/// How long what must happen may take on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(20);
/// Nodes, samples of an example, workers.
const NODES: u32 = 4;

/// Answers the name of an operator with this endpoint's sample for it.
struct Sampler(u32);

impl Endpoint for Sampler {
    fn packet(&mut self, outlet: &mut Outlet<'_>, packet: Packet) -> Took {
        let asked = examples().into_iter().find(|example| packet.payload == example.name).unwrap();
        outlet.send_tagged(packet.tag, asked.samples[self.0 as usize].clone()).unwrap();
        Took::Now
    }
}

/// The samples of one node, by operator.
type Samples = Vec<(&'static str, Bytes)>;

/// A service with a call of each operator, whose partitions have the samples of one node.
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
    let opening = client.stream("sampler").up_filter(example.name).filter_params(&Raw(example.params.clone()));
    let mut stream = opening.shape(Shape::KAry(2)).open().await.unwrap();
    stream.send(Bytes::from_static(example.name.as_bytes())).await.unwrap();
    let wave = stream.wave().await.unwrap();
    assert_eq!(wave.contributors, PartitionSet::first(NODES), "{}: {:?}", example.name, wave.missing);
    wave.packets[0].clone()
}

/// Workers push partials: what a stream's filter makes of one sample alone.
async fn pushed_of(client: &Client, example: &Example, request: u64, workers: &[Worker]) -> Bytes {
    let kind = format!("pushed/{}", example.name);
    let announced = client.announce(&kind, example.params.clone(), request, PartitionSet::first(NODES));
    let announced = tokio::spawn(announced.deadline(PATIENCE).patience(PATIENCE).into_future());
    for ((number, worker), sample) in (0..).zip(workers).zip(&example.samples) {
        let lift = ready::sampled(example.name, &Raw(example.params.clone()), |partition: &Partition, (): &()| {
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
        // In a stream, runs of `merge-sorted` come in chunks.
        if example.name != "merge-sorted" {
            assert_eq!(seen(streamed_of(&client, &example).await), called, "{}", example.name);
        }
    }
}
