//! Push waves that are folded by operators that were sent to running nodes, over real sockets: relays fetch them from their
//! parents, and a request whose operator nobody has is refused.
//!
//! The operators here stand in for WebAssembly: their bytes are the name of a ready reduce.

use crate::names::Names;
use crate::pushes::hear_of_workers;
use std::sync::Arc;
use std::time::Duration;
use treefold::foreign::{filter_name, id_of};
use treefold::push::{Worker, application};
use treefold::{Client, ClusterOptions, Error, Limits, Node, Shape, Status};

const PATIENCE: Duration = Duration::from_secs(20);
const SUM_LINES: &[u8] = b"sum-lines";
/// It folds no push waves.
const FILTER: &[u8] = b"identity";
/// How long a node takes to make an operator.
const COMPILES_FOR: Duration = Duration::from_millis(20);

/// Starts relays that accept `words`, each in a rack of its own.
async fn relays(count: usize, foreign: &Arc<Names>) -> Vec<Node> {
    let mut relays: Vec<Node> = Vec::new();
    for at in 0..count {
        let builder = Node::builder().relay().rack(format!("r{at}")).service(application("words"));
        let builder = builder.foreign(foreign.clone());
        relays.push(builder.join(relays.first().map(Node::addr)).start().await.unwrap());
    }
    for node in &relays {
        assert!(node.members_at_least(count, PATIENCE).await);
    }
    relays
}

/// Attaches two workers to each relay. Each pushes a line of its own and one that all have, in two pieces.
async fn workers(relays: &[Node], request: u64) -> Vec<Worker> {
    let mut workers = Vec::new();
    for number in 0..2 * relays.len() {
        let at = relays[number / 2].addr();
        let worker = Worker::builder("words", number as u32).at([at]).attach().await.unwrap();
        worker.push(request, "all\t1\n").await.unwrap();
        worker.push_last(request, format!("worker {number:02}\t1\n")).await.unwrap();
        workers.push(worker);
    }
    workers
}

fn folded(workers: usize) -> String {
    let own: String = (0..workers).map(|number| format!("worker {number:02}\t1\n")).collect();
    format!("all\t{workers}\n{own}")
}

fn named(bytes: &[u8]) -> String {
    format!("words/{}", filter_name(id_of(bytes)))
}

/// Waits until a node has made the operator. A wave that needs no fold there does not wait for it.
async fn until_made(node: &Node, bytes: &[u8]) {
    let made = async {
        while !node.client().operators().await.unwrap().iter().any(|operator| operator.id == id_of(bytes)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, made).await.expect("the operator is fetched");
}

#[tokio::test]
async fn relays_fetch_the_reduce_from_their_parents_and_fold_by_it() {
    for shape in [Shape::Flat, Shape::Chain] {
        let names = Arc::new(Names::taking(COMPILES_FOR));
        let relays = relays(4, &names).await;
        let client = Client::connect(relays[0].addr()).await.unwrap();
        let pushed = client.operator_push(SUM_LINES).await.unwrap();
        assert_eq!(&*pushed.kind, "reduce");
        // The second request finds the operator everywhere.
        for request in [7, 8] {
            let workers = workers(&relays, request).await;
            hear_of_workers(&relays[0], workers.len()).await;
            let expected = (0..workers.len() as u32).collect();
            let reply = client
                .announce(&named(SUM_LINES), "", request, expected)
                .shape(shape)
                .deadline(PATIENCE)
                .patience(PATIENCE)
                .await
                .unwrap();
            assert_eq!((reply.status, &reply.missing), (Status::Full, &Vec::new()), "{shape}");
            assert_eq!(reply.value.unwrap().0, folded(workers.len()), "{shape}");
            // A front that still heard of these workers would ask a relay for one of the next two before it hears of
            // the other, and fold both itself.
            drop(workers);
            hear_of_workers(&relays[0], 0).await;
        }
        for relay in &relays {
            until_made(relay, SUM_LINES).await;
            let folds = relay.status().await.unwrap().counters.waves.reductions_run;
            assert!(folds >= 2 * 3, "{shape}: each worker has two pieces: {folds}");
        }
        assert_eq!(names.loaded(), 4, "{shape}: once by each relay");
    }
}

#[tokio::test]
async fn request_whose_reduce_the_front_lacks_is_refused_by_name() {
    let names = Arc::new(Names::taking(COMPILES_FOR));
    let relays = relays(2, &names).await;
    let client = Client::connect(relays[0].addr()).await.unwrap();
    client.operator_push(FILTER).await.unwrap();
    // The front keeps none with these bytes; the second is a filter; the third is no name of an operator.
    for name in [named(SUM_LINES), named(FILTER), "words/wasm:12".to_owned()] {
        let refused = client.announce(&name, "", 7, (0..1).collect()).await.unwrap_err();
        assert!(matches!(refused, Error::Rejected(_)), "{refused:?}");
        assert!(refused.to_string().contains("a reduce that was sent to it"), "{refused}");
    }
    assert_eq!(names.loaded(), 1);
}

#[tokio::test]
async fn results_at_a_relay_that_accepts_no_operators_are_missing_with_the_reason() {
    let names = Arc::new(Names::taking(COMPILES_FOR));
    let front = relays(1, &names).await.remove(0);
    let builder = Node::builder().relay().rack("other").service(application("words"));
    let other = builder.join([front.addr()]).start().await.unwrap();
    assert!(front.members_at_least(2, PATIENCE).await && other.members_at_least(2, PATIENCE).await);
    let client = Client::connect(front.addr()).await.unwrap();
    client.operator_push(SUM_LINES).await.unwrap();
    let relays = [front, other];
    let _workers = workers(&relays, 7).await;
    let reply = client
        .announce(&named(SUM_LINES), "", 7, (0..4).collect())
        .min_coverage(0.5)
        .deadline(PATIENCE)
        .patience(PATIENCE)
        .await
        .unwrap();
    assert_eq!((reply.status, reply.contributed.to_string().as_str()), (Status::Partial, "0-1"));
    assert_eq!(reply.value.unwrap().0, folded(2));
    let reasons: Vec<String> = reply.missing.iter().map(|missing| missing.reason.to_string()).collect();
    assert!(reasons.iter().any(|reason| reason.contains("does not accept operators")), "{reasons:?}");
}

#[tokio::test]
async fn evicted_reduce_is_fetched_again() {
    let names = Arc::new(Names::taking(COMPILES_FOR));
    let front = relays(1, &names).await.remove(0);
    let limits = Limits { operators_max: 1, ..Limits::default() };
    let builder = Node::builder().relay().rack("other").service(application("words")).foreign(names.clone());
    let builder = builder.cluster(ClusterOptions::default().limits(limits)).join([front.addr()]);
    let other = builder.start().await.unwrap();
    assert!(front.members_at_least(2, PATIENCE).await && other.members_at_least(2, PATIENCE).await);
    let client = Client::connect(front.addr()).await.unwrap();
    let reduces = [SUM_LINES, b"merge-lines"];
    for reduce in reduces {
        client.operator_push(reduce).await.unwrap();
    }
    let relays = [front, other];
    for (request, reduce) in (7..).zip([reduces[0], reduces[1], reduces[0]]) {
        let _workers = workers(&relays, request).await;
        let announced = client.announce(&named(reduce), "", request, (0..4).collect());
        let reply = announced.deadline(PATIENCE).patience(PATIENCE).await.unwrap();
        assert_eq!((reply.status, &reply.missing), (Status::Full, &Vec::new()));
        until_made(&relays[1], reduce).await;
    }
    assert_eq!(names.loaded(), 2 + 3);
}
