//! A service for tests: each partition holds a figure, and the aggregations do what the test says.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its part of it")]

use serde::{Deserialize, Serialize};
use std::future::Future;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use treefold::operators::merge::Sum;
use treefold::operators::{Result, merging};
use treefold::{
    Aggregation, AsyncAggregation, Cluster, ClusterBuilder, OperatorError, Partition, Placement, Service,
};

/// Longer than any step takes; a wait that lasts this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Makes the local of one partition misbehave instead of returning its figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trick {
    Panic,
    Fail,
    /// Waits until the gate is opened.
    Hang,
}

/// Parameters: the tricks, by partition.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tricks {
    pub at: Vec<(u32, Trick)>,
}

impl Tricks {
    pub fn at(partition: u32, trick: Trick) -> Self {
        Self { at: vec![(partition, trick)] }
    }
}

/// Holds hanging locals until it is opened.
#[derive(Debug, Default)]
pub struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    pub fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }

    pub fn pass(&self) {
        drop(self.changed.wait_while(self.open.lock().unwrap(), |open| !*open).unwrap());
    }
}

/// The data of a partition.
pub struct Figure {
    pub value: i64,
    pub gate: Arc<Gate>,
}

/// The sum of all figures, unless a trick is set.
pub struct Tricky;

impl Aggregation for Tricky {
    type Params = Tricks;
    type Partial = i64;

    fn local(&self, partition: &Partition, tricks: &Tricks) -> Result<i64> {
        let figure = partition.data_as::<Figure>()?;
        match tricks.at.iter().find(|(at, _)| *at == partition.id) {
            Some((_, Trick::Panic)) => panic!("partition {} panics as told", partition.id),
            Some((_, Trick::Fail)) => Err(OperatorError::new("fails as told")),
            Some((_, Trick::Hang)) => {
                figure.gate.pass();
                Ok(figure.value)
            }
            None => Ok(figure.value),
        }
    }

    fn reduce(&self, a: i64, b: i64, _: &Tricks) -> Result<i64> {
        Ok(a + b)
    }

    fn finish(&self, sum: i64, _: &Tricks) -> Result<i64> {
        Ok(-sum)
    }
}

/// The same sum, by async operators. The local of partition 1 panics if the factor is 0.
pub struct Waiting;

impl AsyncAggregation for Waiting {
    type Params = i64;
    type Partial = i64;

    async fn local(&self, partition: Partition, factor: Arc<i64>) -> Result<i64> {
        tokio::task::yield_now().await;
        assert!(*factor != 0 || partition.id != 1, "zero is no factor");
        Ok(partition.data_as::<Figure>()?.value * *factor)
    }

    async fn reduce(&self, a: i64, b: i64, _: Arc<i64>) -> Result<i64> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(a + b)
    }
}

pub fn figure(partition: u32) -> i64 {
    i64::from(partition) * i64::from(partition) + 1
}

/// The sum that a single process would compute.
pub fn total(partitions: u32) -> i64 {
    (0..partitions).map(figure).sum()
}

/// The service, with the partitions that live on one node.
pub fn service(local: impl IntoIterator<Item = u32>, total: u32, gate: &Arc<Gate>) -> Service {
    let sum =
        || merging("sum", |partition: &Partition, (): &()| Ok(Sum(partition.data_as::<Figure>()?.value)));
    let service = Service::new("figures")
        .aggregation("sum", sum())
        .aggregation("sum-inline", sum().placed(Placement::Inline))
        .aggregation("sum-pool", sum().placed(Placement::Pool))
        .aggregation("tricky", Tricky)
        .async_aggregation("waiting", Waiting)
        .total(total);
    let add =
        |service: Service, id| service.partition(id, Figure { value: figure(id), gate: Arc::clone(gate) });
    local.into_iter().fold(service, add)
}

/// A cluster in which node i holds partition i and the `replicas − 1` before it.
pub fn cluster(nodes: usize, replicas: u32, gate: &Arc<Gate>) -> ClusterBuilder {
    let (total, gate) = (nodes as u32, Arc::clone(gate));
    Cluster::embedded(nodes).processors(2).service(move |node| {
        let held = (0..replicas).map(|back| (node as u32 + total - back) % total);
        vec![service(held, total, &gate)]
    })
}

/// Waits until the condition holds.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let until = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < until, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
