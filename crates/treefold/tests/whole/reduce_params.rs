//! Calls whose reduce has parameters apart from those of the locals, over real sockets.

use crate::figures::eventually;
use crate::names::Names;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use treefold::foreign::{filter_name, id_of};
use treefold::operators::packet::{Packet, Row};
use treefold::operators::{Codec, Declared, Outcome, ReduceParams, ready};
use treefold::push::{Worker, application};
use treefold::{
    CallError, Client, Cluster, Error, Node, Operator, OperatorError, Partition, Placement, Raw, Reply,
    SeparateAggregation, Service, Shape, Slice, Status,
};

const PATIENCE: Duration = Duration::from_secs(20);
const MEMBERS: u32 = 6;

/// The greatest words that begin with the local's text; the reduce has the number of words to keep.
struct Greatest;

impl SeparateAggregation for Greatest {
    type Params = String;
    type ReduceParams = u32;
    type Partial = Vec<String>;

    fn local(&self, partition: &Partition, prefix: &String) -> Result<Vec<String>, OperatorError> {
        Ok((0..2).map(|at| format!("{prefix}{}{at}", partition.id)).collect())
    }

    fn reduce(&self, mut a: Vec<String>, b: Vec<String>, k: &u32) -> Result<Vec<String>, OperatorError> {
        a.extend(b);
        a.sort_by(|x, y| y.cmp(x));
        a.truncate(*k as usize);
        Ok(a)
    }

    fn finish(&self, mut partial: Vec<String>, k: &u32) -> Result<Vec<String>, OperatorError> {
        partial.push(format!("the greatest {k}"));
        Ok(partial)
    }

    fn is_sliceable(&self) -> bool {
        true
    }

    fn split(
        &self,
        partial: Vec<String>,
        slices: u32,
        prefix: &String,
    ) -> Result<Vec<Vec<String>>, OperatorError> {
        let mut parts = vec![Vec::new(); slices as usize];
        for word in partial {
            let number: usize = word[prefix.len()..].parse()?;
            parts[number % slices as usize].push(word);
        }
        Ok(parts)
    }
}

fn service(at: usize) -> Vec<Service> {
    let at = u32::try_from(at).unwrap();
    // Each partition has a replica at the next member.
    let words = Service::new("words").aggregation("greatest", Greatest).total(MEMBERS);
    vec![words.partition(at, ()).partition((at + 1) % MEMBERS, ())]
}

async fn cluster() -> Cluster {
    Cluster::embedded(MEMBERS as usize).service(service).start().await.unwrap()
}

async fn greatest(client: &Client, shape: Shape, k: u32) -> Vec<String> {
    let call = client.call::<Vec<String>>("words/greatest", &"w".to_owned()).shape(shape).deadline(PATIENCE);
    let reply = call.reduce_params(&k).await.unwrap();
    assert_eq!(reply.status, Status::Full, "{shape}: {:?}", reply.missing);
    reply.value.unwrap()
}

#[tokio::test]
async fn the_reduce_gets_its_own_parameters_in_every_shape_and_after_a_death() {
    let cluster = cluster().await;
    let direct = cluster.connect_direct().await.unwrap();
    for client in [cluster.client(0), cluster.connect().await.unwrap(), direct] {
        for shape in [Shape::Flat, Shape::Chain, Shape::KAry(2), Shape::Adaptive] {
            // Trees are kept at the second call, and named at the third.
            for k in [3, 2, 1, 4] {
                let expected = &["w51", "w50", "w41", "w40"][..k as usize];
                assert_eq!(greatest(&client, shape, k).await, expected, "{shape}");
            }
        }
    }
    assert_eq!(greatest(&cluster.client(0), Shape::Base, 2).await, ["w51", "w50"]);
    // The replica of the dead member's partition, and the nodes that take over its children, get the same parameters.
    cluster.kill(4);
    assert_eq!(greatest(&cluster.client(0), Shape::Chain, 3).await, ["w51", "w50", "w41"]);
    cluster.shutdown().await;
}

#[tokio::test]
async fn slices_single_partitions_and_finish_have_theirs_beside_it() {
    let cluster = cluster().await;
    let (client, word) = (cluster.client(1), "w".to_owned());
    let call = || client.aggregate("words/greatest", &Greatest, &word).deadline(PATIENCE);
    let own = call().params_for(3, &"x".to_owned()).reduce_params(&2_u32).await.unwrap();
    assert_eq!(own.value.unwrap(), ["x31", "x30", "the greatest 2"]);
    // Every slice keeps two words, and joining keeps two of them.
    let sliced = call().slices(3).reduce_params(&2_u32).await.unwrap();
    assert_eq!(sliced.value.unwrap(), ["w51", "w50", "the greatest 2"]);
    cluster.shutdown().await;
}

#[tokio::test]
async fn without_them_the_reduce_reads_the_calls_and_mistakes_are_named() {
    let cluster = cluster().await;
    for client in [cluster.client(2), cluster.connect().await.unwrap()] {
        let call = || client.call::<Vec<String>>("words/greatest", &"w".to_owned()).deadline(PATIENCE);
        let reply = call().min_coverage(0.0).await.unwrap();
        assert!(reply.missing.iter().any(|missing| missing.reason.to_string().contains("can't read u32")));
        let wrong = call().min_coverage(0.0).reduce_params(&"two".to_owned()).await.unwrap();
        assert!(wrong.missing.iter().any(|missing| missing.reason.to_string().contains("can't read u32")));
        let long = Raw(vec![0; (1 << 20) - 10].into());
        for (refused, bytes) in [
            (call().reduce_params(&Raw(vec![0; 1 << 21].into())), 1 << 21),
            (call().params_for(1, &"x".to_owned()).reduce_params(&long), (1 << 20) + 8),
        ] {
            let error = refused.await.unwrap_err();
            assert!(matches!(&error, Error::Rejected(CallError::BadField { .. })), "{error:?}");
            let says = format!(
                "reduce_params is {bytes} bytes; allowed: at most 1048576 bytes (own_params_bytes_max), params_for included"
            );
            assert!(error.to_string().contains(&says), "{error}");
        }
    }
    cluster.shutdown().await;
}

/// A ready reduce whose parameters are a field of each call's, with a local that returns samples.
fn top_by_field() -> Arc<dyn Operator> {
    struct Samples(ready::Ready);

    impl Operator for Samples {
        fn local(&self, partition: &Partition, params: &Bytes) -> Outcome {
            self.local_slice(partition, Slice::WHOLE, params, params)
        }

        fn local_slice(&self, partition: &Partition, _: Slice, _: &Bytes, reduce: &Bytes) -> Outcome {
            let figures: Vec<f64> = (0..5).map(|at| f64::from(10 * partition.id + at)).collect();
            let sample = Row::new().f64s(&figures).strs(&["a"; 5]).packet().into_bytes();
            let params = ReduceParams::Field("top".to_owned()).of_call(reduce);
            let partial = params.and_then(|params| self.0.partial(partition.id, sample, &params));
            Outcome::Now(partial)
        }

        fn reduce(&self, a: Bytes, b: Bytes, params: &Bytes) -> Outcome {
            let given = self.0.given(ReduceParams::Field("top".to_owned())).unwrap();
            given.reduce(a, b, params)
        }

        fn finish(&self, partial: Bytes, _: &Bytes) -> Result<Bytes, OperatorError> {
            Ok(partial)
        }

        fn placement(&self) -> Placement {
            Placement::Pool
        }

        fn holds_processor(&self) -> bool {
            true
        }

        fn declared(&self) -> Option<Declared> {
            Some(Declared { reduce: "top-k".to_owned(), params: ReduceParams::Field("top".to_owned()) })
        }

        fn codecs(&self) -> (Codec, Codec) {
            (Codec::MessagePack, Codec::Raw)
        }
    }

    Arc::new(Samples(ready::Ready::of("top-k").unwrap()))
}

#[tokio::test]
async fn a_relay_that_learned_a_reduce_reads_its_field_of_them() {
    let member = |partition: u32, seed: Option<std::net::SocketAddr>| async move {
        let service = Service::new("figures").operator("top", top_by_field()).total(3);
        Node::builder().join(seed).service(service.partition(partition, ())).start().await.unwrap()
    };
    let first = member(0, None).await;
    let relay = Node::builder().join([first.addr()]).relay().start().await.unwrap();
    let others = [member(1, Some(first.addr())).await, member(2, Some(first.addr())).await];
    let ask = |k: u32| {
        let top = BTreeMap::from([("top".to_owned(), BTreeMap::from([("k".to_owned(), k)]))]);
        let call = first.client().call::<Raw>("figures/top", &"the locals' own".to_owned());
        call.reduce_params(&top).explain(true).deadline(PATIENCE)
    };
    let figures = |reply: &Reply<Raw>| -> Vec<f64> {
        let value = reply
            .value
            .as_ref()
            .map(|Raw(bytes)| Packet::read(bytes).unwrap().f64s(0).unwrap().iter().collect());
        value.unwrap_or_default()
    };
    let relay_folds = || async {
        let reply = ask(3).await.unwrap();
        let root = reply.explain().map(|report| report.node.addr);
        root == Some(relay.addr()) && figures(&reply) == [24.0, 23.0, 22.0]
    };
    eventually("the relay folds three partitions", relay_folds).await;
    assert_eq!(figures(&ask(2).await.unwrap()), [24.0, 23.0]);
    drop(others);
}

#[tokio::test]
async fn pushed_partials_are_folded_by_them_also_with_a_reduce_that_was_sent() {
    const TOP: &[u8] = b"top-k";
    let names = Arc::new(Names::taking(Duration::ZERO));
    let node = Node::builder().relay().service(application("scores")).foreign(names).start().await.unwrap();
    let client = Client::connect(node.addr()).await.unwrap();
    client.operator_push(TOP).await.unwrap();
    let k = BTreeMap::from([("k".to_owned(), 2_u32)]);
    let sent = format!("scores/{}", filter_name(id_of(TOP)));
    for (request, kind) in [(1, "scores/top-k"), (2, &*sent)] {
        let mut workers = Vec::new();
        for number in 0..3_u32 {
            let worker = Worker::builder("scores", number).at([node.addr()]).attach().await.unwrap();
            let partial = Row::new().f64s(&[f64::from(number)]).strs(&["a"]).packet().into_bytes();
            worker.push_last(request, partial).await.unwrap();
            workers.push(worker);
        }
        let announced = client.announce(kind, "read by no one", request, (0..3).collect());
        let reply = announced.reduce_params(&k).deadline(PATIENCE).patience(PATIENCE).await.unwrap();
        assert_eq!(reply.status, Status::Full, "{kind}: {:?}", reply.missing);
        let figures: Vec<f64> =
            Packet::read(&reply.value.unwrap().0).unwrap().f64s(0).unwrap().iter().collect();
        assert_eq!(figures, [2.0, 1.0], "{kind}");
    }
}
