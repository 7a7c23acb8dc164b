//! Bulky partials that come while a worker is busy are folded by one job, and a recording of that is repeated exactly.

use crate::figures::{Gate, PATIENCE, eventually};
use std::sync::{Arc, Mutex};
use treefold::operators::Raw;
use treefold::{Aggregation, Cluster, OperatorError, Partition, Placement, Service, Status};

const MEMBERS: usize = 8;
const PARTIAL_BYTES: usize = 1_000;

/// Concatenates partials. The first fold of all waits at the gate.
struct Gathering(Arc<Folds>);

#[derive(Default)]
struct Folds {
    gate: Gate,
    /// The number of partials in each fold, in order of their beginnings.
    inputs: Mutex<Vec<usize>>,
}

impl Aggregation for Gathering {
    /// The partition whose partial no fold accepts.
    type Params = Option<u8>;
    type Partial = Raw;

    fn local(&self, partition: &Partition, _: &Option<u8>) -> Result<Raw, OperatorError> {
        Ok(Raw(vec![partition.id as u8; PARTIAL_BYTES].into()))
    }

    fn reduce(&self, a: Raw, b: Raw, faulty: &Option<u8>) -> Result<Raw, OperatorError> {
        self.reduce_all(vec![a, b], faulty)
    }

    fn reduce_all(&self, parts: Vec<Raw>, faulty: &Option<u8>) -> Result<Raw, OperatorError> {
        self.0.inputs.lock().unwrap().push(parts.len());
        self.0.gate.pass();
        let is_faulty = |part: &Raw| faulty.is_some_and(|faulty| part.0.contains(&faulty));
        if let Some(at) = parts.iter().position(is_faulty) {
            return Err(OperatorError::new("it has the faulty byte").in_partial(at as u32));
        }
        Ok(Raw(parts.iter().map(|part| &part.0[..]).collect::<Vec<_>>().concat().into()))
    }

    fn placement(&self) -> Placement {
        Placement::Pool
    }
}

/// Members with a partition each, and a relay with one worker, which is recorded.
async fn cluster(folds: &Arc<Folds>, recording: std::path::PathBuf) -> Cluster {
    let folds = Arc::clone(folds);
    Cluster::embedded(MEMBERS + 1)
        .service(move |at| {
            let service = Service::new("bulk").aggregation("gather", Gathering(Arc::clone(&folds)));
            let service = service.total(MEMBERS as u32);
            vec![if at < MEMBERS { service.partition(at as u32, ()) } else { service }]
        })
        .configure(move |at, node| {
            let node = node.rack("r0").processors(1).workers(1);
            if at < MEMBERS { node } else { node.relay().record(&recording) }
        })
        .start()
        .await
        .unwrap()
}

/// Calls, and opens the gate when all partials are at the relay.
async fn gathered(cluster: &Cluster, folds: &Folds, faulty: Option<u8>) -> treefold::Reply<Raw> {
    let client = cluster.connect().await.unwrap();
    let call = client.call::<Raw>("bulk/gather", &faulty).deadline(PATIENCE).min_coverage(0.5);
    let relay = &cluster.nodes()[MEMBERS];
    let arrive = async {
        let have_come = || async { relay.status().await.unwrap().open.held_bytes == MEMBERS * PARTIAL_BYTES };
        eventually("all partials at the relay", have_come).await;
        folds.gate.open();
    };
    tokio::join!(async { call.await }, arrive).0.unwrap()
}

#[tokio::test]
async fn partials_that_wait_for_a_worker_are_folded_by_one_job() {
    let (folds, dir) = (Arc::<Folds>::default(), tempfile::tempdir().unwrap());
    let recording = dir.path().join("relay.rec");
    let cluster = cluster(&folds, recording.clone()).await;
    let reply = gathered(&cluster, &folds, None).await;
    assert_eq!((reply.status, reply.value.unwrap().0.len()), (Status::Full, MEMBERS * PARTIAL_BYTES));
    assert_eq!(*folds.inputs.lock().unwrap(), [2, 7], "six partials and the result of two");
    let counters = cluster.nodes()[MEMBERS].status().await.unwrap().counters;
    assert_eq!(counters.waves.reductions_run, MEMBERS as u64 - 1);
    cluster.shutdown().await;
    let summary = treefold::replay::run(&recording, |_| {}).unwrap();
    assert_eq!(summary.is_faithful(), Some(true), "{summary:?}");
}

#[tokio::test]
async fn faulty_partial_among_many_is_missing_alone() {
    let (folds, dir) = (Arc::<Folds>::default(), tempfile::tempdir().unwrap());
    let cluster = cluster(&folds, dir.path().join("relay.rec")).await;
    let reply = gathered(&cluster, &folds, Some(3)).await;
    assert_eq!(reply.status, Status::Partial);
    assert_eq!(reply.value.unwrap().0.len(), (MEMBERS - 1) * PARTIAL_BYTES);
    let [missing] = &reply.missing[..] else { panic!("one partition is missing: {:?}", reply.missing) };
    assert_eq!(missing.partitions.iter().collect::<Vec<_>>(), [3]);
    let inputs = folds.inputs.lock().unwrap();
    let many = inputs.iter().filter(|&&parts| parts > 2).count();
    assert!(many <= 1, "after a fold of many has failed, pairs are folded: {inputs:?}");
}
