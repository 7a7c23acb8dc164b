//! MICRO: work of given durations, to see the tree and not the application (DAC §5.1).
//!
//! The paper measures with a service that computes nothing and takes known time: locals and reduces whose
//! durations are fixed or drawn from an exponential distribution. Whatever such a run shows is the
//! middleware's. Four aggregations, all of which sum one number per partition (its own if it was registered
//! with an `i64`, its id otherwise), so that every answer can be checked:
//!
//! | name | takes | for |
//! |---|---|---|
//! | [`sum()`] | next to nothing | round trips and waves per second |
//! | [`spin`](Spin) | a processor, for the time asked | load, queueing and adaptive trees on real processors |
//! | [`hold`](Hold) | one of the node's processors, for about the time asked, and nothing of the machine's | trying things with many more nodes on one machine than it has processors |
//! | [`emulated`](Emulated) | one of the node's *emulated* processors, for exactly the time asked | the same, for figures: exact queues, nodes that are slow or have more processors |
//!
//! `spin` and `hold` share their parameters ([`Work`]): mean durations, the distribution, a seed, a payload's size,
//! and which partitions misbehave, since failing, panicking and never returning are durations too. A run can
//! be repeated: each duration is a function of the seed and of what it is for ([`draw`]). Callers that want
//! other durations at each call give another seed at each call. `emulated` has parameters of its own
//! ([`Emulation`]), drawn from in the same way.
//!
//! This crate knows no network: it exports aggregations, and whoever runs a node registers them.
#![forbid(unsafe_code)]

mod cpu;
pub mod draw;
mod emulated;
mod emulation;
mod folded;
mod hold;
mod processors;
mod spin;
mod work;

pub use emulated::{Emulated, Timed};
pub use emulation::Emulation;
pub use folded::Folded;
pub use hold::Hold;
pub use spin::Spin;
pub use work::{
    DURATION_MS_MAX, Distribution, FACTOR_MAX, LISTED_MAX, Misbehaviour, PAYLOAD_BYTES_MAX, PROCESSORS_MAX,
    Work, WorkError,
};

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use treefold_operators::merge::Sum;
use treefold_operators::{Aggregation, Operator, Partition, Placement, erase, erase_async, merging};

/// The service's name by custom.
pub const SERVICE: &str = "micro";

/// Its aggregations, each with a line on what it is for.
pub const DESCRIPTIONS: [(&str, &str); 4] = [
    ("sum", "one number per partition, summed as cheaply as can be; no parameters"),
    ("spin", "spins a processor: local_ms, reduce_ms, distribution, seed, payload_bytes, fail, stall, panic"),
    ("hold", "takes the same time without a processor, holding one of those the node says it has"),
    (
        "emulated",
        "takes turns on exactly emulated processors: local_ms, reduce_ms, distribution, seed, processors, \
         processors_of, slow",
    ),
];

/// All by name, ready to be registered; for one node, since some have a state that is a node's.
pub fn aggregations() -> Vec<(&'static str, Arc<dyn Operator>)> {
    vec![
        ("sum", erase(sum())),
        ("spin", erase(Spin)),
        ("hold", erase_async(Hold)),
        ("emulated", Arc::new(Emulated::default())),
    ]
}

/// No parameters: nil, or a map without entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// The sum of the partitions' numbers, nothing more: what is left is the price of a call.
///
/// Inline: a hand-over to a worker would cost many times what it does.
pub fn sum() -> impl Aggregation<Params = Option<NoParams>, Partial = Sum> {
    merging("sum", |partition: &Partition, _: &Option<NoParams>| Ok(Sum(number_of(partition))))
        .placed(Placement::Inline)
}

/// What a partition brings to the sum.
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
    fn sums_the_number_a_partition_was_registered_with_and_else_its_id() {
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
