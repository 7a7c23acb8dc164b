//! MICRO: work of given durations, to measure the tree and not an application (DAC §5.1).
//!
//! The paper measures with a service that computes nothing and takes known time: its locals and reduces
//! have fixed durations, or durations drawn from an exponential distribution. Any other cost in such a run
//! is the middleware's. There are four aggregations. All of them sum one number per partition (the
//! partition's data if that is an `i64`, otherwise its id), so that every answer can be checked:
//!
//! | name | uses | purpose |
//! |---|---|---|
//! | [`sum()`] | almost nothing | round trips and waves per second |
//! | [`spin`](Spin) | a processor, for the given time | load, queueing and adaptive trees on real processors |
//! | [`hold`](Hold) | one of the node's processors for about the given time, and none of the machine's | experiments with many more nodes on one machine than it has processors |
//! | [`emulated`](Emulated) | one of the node's *emulated* processors, for exactly the given time | the same for measurements: exact queues, and nodes that are slow or have more processors |
//!
//! `spin` and `hold` have the same parameters ([`Work`]): mean durations, the distribution, a seed, a
//! payload size, and the partitions that misbehave by failing, panicking or never returning. A run can be
//! repeated: each duration is a function of the seed and its purpose ([`draw`]). For other durations in
//! each call, use another seed in each call. `emulated` has its own parameters ([`Emulation`]), and draws
//! in the same way.
//!
//! [`Stretched`] is for real work on emulated processors: it runs another aggregation, and takes a multiple of its
//! processor time. A node has the stretched forms of its aggregations ([`stretched()`]) beside them.
//!
//! This crate has no network code. It exports aggregations, and the program that runs a node registers
//! them.
#![forbid(unsafe_code)]

mod costs;
mod cpu;
pub mod draw;
mod emulated;
mod emulation;
mod folded;
mod hold;
mod processors;
mod spin;
mod stretch;
mod stretched;
mod work;

pub use costs::COSTS_MAX;
pub use emulated::{Emulated, Timed};
pub use emulation::Emulation;
pub use folded::Folded;
pub use hold::Hold;
pub use spin::Spin;
pub use stretch::{FACTOR_MAX as STRETCH_MAX, FactorError, Stretch};
pub use stretched::{Answer, RUNS, Stretched, stretched, stretched_name};
pub use work::{
    DURATION_MS_MAX, Distribution, FACTOR_MAX, LISTED_MAX, Misbehaviour, PAYLOAD_BYTES_MAX, PROCESSORS_MAX,
    Work, WorkError,
};

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use treefold_operators::merge::Sum;
use treefold_operators::{Aggregation, Operator, Partition, Placement, erase, erase_async, merging};

/// The conventional name of the service.
pub const SERVICE: &str = "micro";

/// The aggregations' names, each with a one-line description.
pub const DESCRIPTIONS: [(&str, &str); 4] = [
    ("sum", "sums one number per partition at the lowest cost; no parameters"),
    ("spin", "spins a processor: local_ms, reduce_ms, distribution, seed, payload_bytes, fail, stall, panic"),
    ("hold", "takes the same time, but only holds one of the processors that the node claims to have"),
    (
        "emulated",
        "takes turns on exactly emulated processors: local_ms, reduce_ms, distribution, seed, processors, \
         processors_of, slow",
    ),
];

/// All aggregations by name, ready to register, for one node: some have state that belongs to the node.
pub fn aggregations() -> Vec<(&'static str, Arc<dyn Operator>)> {
    vec![
        ("sum", erase(sum())),
        ("spin", erase(Spin)),
        ("hold", erase_async(Hold)),
        ("emulated", Arc::new(Emulated::default())),
    ]
}

/// No parameters: nil or an empty map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// The sum of the partitions' numbers and nothing more, so that only the cost of a call remains.
///
/// It runs inline, because a hand-over to a worker would cost many times more than the sum.
pub fn sum() -> impl Aggregation<Params = Option<NoParams>, Partial = Sum> {
    merging("sum", |partition: &Partition, _: &Option<NoParams>| Ok(Sum(number_of(partition))))
        .placed(Placement::Inline)
}

/// The number that a partition contributes to the sum.
fn number_of(partition: &Partition) -> i64 {
    partition.data::<i64>().copied().unwrap_or_else(|| i64::from(partition.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::collections::BTreeMap;
    use treefold_operators::Body;

    fn partition(id: u32, data: Arc<dyn std::any::Any + Send + Sync>) -> Partition {
        Partition::new(SERVICE.into(), id, 8, data)
    }

    #[test]
    fn every_aggregation_has_a_description() {
        let names: Vec<&str> = aggregations().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, DESCRIPTIONS.map(|(name, _)| name));
    }

    #[test]
    fn sums_registered_numbers_or_else_partition_ids() {
        let sum = erase(sum());
        let local = |partition| sum.local(&partition, &Bytes::new()).now().unwrap().unwrap();
        let (registered, bare) = (local(partition(1, Arc::new(40i64))), local(partition(2, Arc::new(()))));
        let folded = sum.reduce(registered, bare, &Bytes::new()).now().unwrap().unwrap();
        assert_eq!(Sum::decode(&folded), Ok(Sum(42)));
        assert_eq!(sum.placement(), Placement::Inline);
    }

    #[test]
    fn sum_takes_no_parameters_in_either_spelling() {
        let (sum, one) = (erase(sum()), partition(1, Arc::new(())));
        let local = |params: &Bytes| sum.local(&one, params).now().unwrap();
        assert!(local(&().encode().unwrap()).is_ok());
        assert!(local(&NoParams {}.encode().unwrap()).is_ok());
        let some = BTreeMap::from([("local_ms".to_string(), 1)]).encode().unwrap();
        let refused = local(&some).unwrap_err().to_string();
        assert!(refused.contains("unknown field `local_ms`"), "{refused}");
    }
}
