//! Work on emulated processors: the paper's MICRO with more processors than the machine has.
//!
//! [`Hold`](crate::Hold) keeps one of core's processors for a time that the runtime's timer counts in milliseconds;
//! that will do for trying things, not for figures. Here a node has exactly k processors (`processors.rs` says what
//! that means and how exactly time is kept), so a machine of two can stand for twenty-four nodes of two, and what is
//! measured is the tree, the queues and the middleware's own cost, all of them real. Each answer tells how exact the
//! emulation was ([`Timed`]), so no figure has to be believed.
//!
//! It is an [`Operator`] by hand, not an aggregation: a worker thread must wait until the job has a processor, and
//! the node must learn the cost of the job without that wait, which is how a job on a real processor would be
//! measured. [`Operator::local`] therefore blocks and then gives a future. Core has at most one job more in hand than
//! there are processors, so no more than one worker is ever blocked.
//!
//! A reduction doesn't know at which node it runs, but parameters speak of nodes; so a node learns which partitions
//! are its own from the locals it is given. Before its first local it is as fast and has as many processors as most.

use crate::draw;
use crate::emulation::Emulation;
use crate::number_of;
use crate::processors::{Line, Processors};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use treefold_operators::merge::{Count, Sum};
use treefold_operators::{
    Body, Codec, Merge, MergeError, Operator, OperatorError, Outcome, Partition, Placement,
};

type Result<T> = std::result::Result<T, OperatorError>;

/// The partial of `emulated`: a sum that can be checked, and how exactly the time was kept.
///
/// The latter is of the jobs that this partial was made of: one local per partition, and one reduction less.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timed {
    /// The sum of the partitions' numbers.
    pub sum: i64,
    /// How many partitions.
    pub partitions: u32,
    /// How long all jobs together were to take.
    pub asked_ns: u64,
    /// How much longer all jobs together seemed to take: the word of a job's end comes after its end.
    pub late_ns: u64,
}

impl Timed {
    /// How many jobs it was made of.
    pub fn jobs(&self) -> u64 {
        (2 * u64::from(self.partitions)).saturating_sub(1)
    }

    fn mark(&self) -> (i64, u32) {
        (self.sum, self.partitions)
    }

    fn took(&mut self, asked: Duration, late: Duration) {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.asked_ns = self.asked_ns.saturating_add(nanos(asked));
        self.late_ns = self.late_ns.saturating_add(nanos(late));
    }
}

impl Merge for Timed {
    fn merge(&mut self, other: Self) -> std::result::Result<(), MergeError> {
        let add = |a: u64, b: u64, figure| a.checked_add(b).ok_or(MergeError::Overflow { figure });
        let (mut sum, mut partitions) = (Sum(self.sum), Count(self.partitions.into()));
        sum.merge(Sum(other.sum))?;
        partitions.merge(Count(other.partitions.into()))?;
        let partitions = u32::try_from(partitions.0)
            .map_err(|_| MergeError::Overflow { figure: "number of partitions" })?;
        let asked_ns = add(self.asked_ns, other.asked_ns, "time asked for")?;
        let late_ns = add(self.late_ns, other.late_ns, "time late")?;
        *self = Self { sum: sum.0, partitions, asked_ns, late_ns };
        Ok(())
    }
}

/// Takes turns on a node's emulated processors, for each local and each reduce. One value for each node.
#[derive(Debug)]
pub struct Emulated {
    processors: Processors,
    /// The partitions whose locals came here: the node's own.
    own: Mutex<BTreeSet<u32>>,
}

impl Default for Emulated {
    fn default() -> Self {
        Self { processors: Processors::new(), own: Mutex::default() }
    }
}

impl Emulated {
    /// Blocks until a job of the node has a processor, and gives its partial when the job's time is over.
    fn run(&self, line: Line, usual: Duration, asked: &Emulation, mut partial: Timed) -> Result<Outcome> {
        let (processors, factor) = {
            let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
            let hosts = |partition| own.contains(&partition);
            (asked.processors_where(hosts), asked.factor_where(hosts))
        };
        let duration = usual.mul_f64(factor);
        let ended = self.processors.begin(line, duration, processors);
        let ended = ended.map_err(|error| OperatorError::caused_by("no thread to keep the time", error))?;
        Ok(Outcome::Later(Box::pin(async move {
            let late = ended.await.map_err(|_| OperatorError::new("the node's processors are gone"))?;
            partial.took(duration, late);
            Ok(partial.encode()?)
        })))
    }

    fn begin_local(&self, partition: &Partition, params: &Bytes) -> Result<Outcome> {
        let asked = params_of(params)?;
        self.own.lock().unwrap_or_else(PoisonError::into_inner).insert(partition.id);
        let usual = asked.distribution.duration(asked.local_ms, asked.seed, draw::local_of(partition.id));
        let partial = Timed { sum: number_of(partition), partitions: 1, ..Timed::default() };
        self.run(Line::Locals, usual, &asked, partial)
    }

    fn begin_reduce(&self, a: &Bytes, b: &Bytes, params: &Bytes) -> Result<Outcome> {
        let (asked, mut a, b) = (params_of(params)?, partial_of(a)?, partial_of(b)?);
        let purpose = draw::reduce_of(a.mark(), b.mark());
        let usual = asked.distribution.duration(asked.reduce_ms, asked.seed, purpose);
        a.merge(b)?;
        self.run(Line::Reductions, usual, &asked, a)
    }
}

impl Operator for Emulated {
    fn local(&self, partition: &Partition, params: &Bytes) -> Outcome {
        self.begin_local(partition, params).unwrap_or_else(|error| Outcome::Now(Err(error)))
    }

    fn reduce(&self, a: Bytes, b: Bytes, params: &Bytes) -> Outcome {
        self.begin_reduce(&a, &b, params).unwrap_or_else(|error| Outcome::Now(Err(error)))
    }

    fn finish(&self, partial: Bytes, _: &Bytes) -> Result<Bytes> {
        Ok(partial)
    }

    /// On a worker, since it blocks.
    fn placement(&self) -> Placement {
        Placement::Pool
    }

    fn holds_processor(&self) -> bool {
        true
    }

    fn codecs(&self) -> (Codec, Codec) {
        (Emulation::CODEC, Timed::CODEC)
    }
}

fn params_of(params: &Bytes) -> Result<Emulation> {
    Emulation::decode(params).map_err(|error| OperatorError::caused_by("parameters", error))
}

fn partial_of(partial: &Bytes) -> Result<Timed> {
    Timed::decode(partial).map_err(|error| OperatorError::caused_by("partial", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distribution;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn partition(id: u32) -> Partition {
        Partition::new("micro".into(), id, 8, Arc::new(()))
    }

    /// Fixed durations that keep tests short.
    fn quick() -> Emulation {
        let distribution = Distribution::Fixed;
        Emulation { local_ms: 2.0, reduce_ms: 1.0, distribution, ..Emulation::default() }
    }

    async fn ended(outcome: Outcome) -> Timed {
        let Outcome::Later(pending) = outcome else { panic!("it takes time: {outcome:?}") };
        Timed::decode(&pending.await.unwrap()).unwrap()
    }

    /// Partitions 3 and 4, each by its own node, folded by the first of them.
    async fn folded(asked: &Emulation) -> Timed {
        let (here, there, params) = (Emulated::default(), Emulated::default(), asked.encode().unwrap());
        let a = ended(here.local(&partition(3), &params)).await;
        let b = ended(there.local(&partition(4), &params)).await;
        ended(here.reduce(a.encode().unwrap(), b.encode().unwrap(), &params)).await
    }

    #[tokio::test]
    async fn sums_and_tells_how_long_it_was_to_take() {
        let folded = folded(&quick()).await;
        assert_eq!((folded.sum, folded.partitions, folded.jobs()), (7, 2, 3));
        assert_eq!(folded.asked_ns, 5_000_000, "two locals of 2 ms and a reduction of 1 ms");
    }

    #[tokio::test]
    async fn a_slow_node_is_slow_at_everything_and_others_are_not() {
        let slow = Emulation { slow: vec![(3, 5.0)], ..quick() };
        assert_eq!(
            folded(&slow).await.asked_ns,
            17_000_000,
            "partition 3's node does its local and the fold"
        );
    }

    #[tokio::test]
    async fn a_call_s_costs_are_a_function_of_its_seed() {
        let asked = |seed| Emulation { seed, distribution: Distribution::Exponential, ..quick() };
        let (once, again, other) =
            (folded(&asked(1)).await, folded(&asked(1)).await, folded(&asked(2)).await);
        assert_eq!(once.asked_ns, again.asked_ns);
        assert_ne!(once.asked_ns, other.asked_ns);
    }

    #[test]
    fn what_can_t_be_read_is_refused_at_once() {
        let (node, text) = (Emulated::default(), "text".to_string().encode().unwrap());
        let refused = |outcome: Outcome| outcome.now().unwrap().unwrap_err().to_string();
        assert!(refused(node.local(&partition(1), &text)).starts_with("parameters: can't read"));
        let reduced = node.reduce(text.clone(), text, &Bytes::new());
        assert!(refused(reduced).starts_with("partial: can't read"));
    }

    fn timed() -> impl Strategy<Value = Timed> {
        (-1_000_000i64..1_000_000, 0u32..1000, 0..u64::MAX / 4, 0..u64::MAX / 4)
            .prop_map(|(sum, partitions, asked_ns, late_ns)| Timed { sum, partitions, asked_ns, late_ns })
    }

    fn merged(mut a: Timed, b: Timed) -> Timed {
        a.merge(b).unwrap();
        a
    }

    proptest! {
        #[test]
        fn any_tree_gives_the_same(a in timed(), b in timed(), c in timed()) {
            let left = merged(merged(a.clone(), b.clone()), c.clone());
            prop_assert_eq!(left, merged(a.clone(), merged(b.clone(), c)));
            prop_assert_eq!(merged(a.clone(), b.clone()), merged(b, a.clone()));
            prop_assert_eq!(merged(a.clone(), Timed::default()), a);
        }
    }
}
