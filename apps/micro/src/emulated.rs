//! Work on emulated processors: the paper's MICRO with more processors than the machine has.
//!
//! [`Hold`](crate::Hold) keeps one of core's processors for a time that the runtime's timer counts in
//! milliseconds. That is good enough for experiments but not for measurements. Here a node has exactly k
//! processors (`processors.rs` defines this, and its exactness), so a machine with two processors can
//! represent twenty-four nodes with two each. The measured tree, queues and middleware cost are all real.
//! Each answer contains the emulation's error ([`Timed`]), so every figure can be checked.
//!
//! [`Emulated`] implements [`Operator`] directly and not [`Aggregation`](treefold_operators::Aggregation):
//! a worker thread must wait until the job has a processor, but the node must learn the job's cost without
//! that wait, as it would measure a job on a real processor. [`Operator::local`] therefore blocks first and
//! then returns a future. Core runs at most one job more than there are processors, so at most one worker
//! is ever blocked.
//!
//! A reduction does not know its node, but the parameters name nodes by their partitions. So a node learns
//! its own partitions from the locals that it runs. Before its first local it has the default speed and
//! number of processors.

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

/// The partial of `emulated`: a sum that can be checked, and the accuracy of the timing.
///
/// The times cover all jobs behind this partial: one local per partition, and one reduction fewer.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timed {
    /// The sum of the partitions' numbers.
    pub sum: i64,
    /// Number of partitions.
    pub partitions: u32,
    /// Requested duration of all jobs together.
    pub asked_ns: u64,
    /// Excess of the observed duration of all jobs together: a job's end is reported after the end itself.
    pub late_ns: u64,
}

impl Timed {
    /// Number of jobs behind this partial.
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

/// Runs each local and each reduce on a node's emulated processors. Each node has one value of this type.
#[derive(Debug)]
pub struct Emulated {
    processors: Processors,
    /// The partitions whose locals ran here: the node's own.
    own: Mutex<BTreeSet<u32>>,
}

impl Default for Emulated {
    fn default() -> Self {
        Self { processors: Processors::new(), own: Mutex::default() }
    }
}

impl Emulated {
    /// Blocks until the job has a processor; the outcome's future returns the partial when the job's time
    /// is over.
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

    /// Its reduces return futures, and the papers' nodes fold in pairs too.
    fn reduces_in_pairs(&self) -> bool {
        true
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
    Emulation::decode(params).map_err(OperatorError::invalid_params)
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

    /// Fixed durations that keep the tests short.
    fn quick() -> Emulation {
        let distribution = Distribution::Fixed;
        Emulation { local_ms: 2.0, reduce_ms: 1.0, distribution, ..Emulation::default() }
    }

    async fn ended(outcome: Outcome) -> Timed {
        let Outcome::Later(pending) = outcome else { panic!("it takes time: {outcome:?}") };
        Timed::decode(&pending.await.unwrap()).unwrap()
    }

    /// Runs partitions 3 and 4, each at its own node; the node of partition 3 folds.
    async fn folded(asked: &Emulation) -> Timed {
        let (here, there, params) = (Emulated::default(), Emulated::default(), asked.encode().unwrap());
        let a = ended(here.local(&partition(3), &params)).await;
        let b = ended(there.local(&partition(4), &params)).await;
        ended(here.reduce(a.encode().unwrap(), b.encode().unwrap(), &params)).await
    }

    #[tokio::test]
    async fn sums_and_reports_the_requested_duration() {
        let folded = folded(&quick()).await;
        assert_eq!((folded.sum, folded.partitions, folded.jobs()), (7, 2, 3));
        assert_eq!(folded.asked_ns, 5_000_000, "two locals of 2 ms and a reduction of 1 ms");
    }

    #[tokio::test]
    async fn slow_node_slows_its_own_local_and_fold_only() {
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
    fn unreadable_input_is_refused_at_once() {
        let (node, text) = (Emulated::default(), "text".to_string().encode().unwrap());
        let refused = |outcome: Outcome| outcome.now().unwrap().unwrap_err().to_string();
        assert!(refused(node.local(&partition(1), &text)).starts_with("can't read"));
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
