//! The costs of a node's locals, measured once for each partition and each parameters.

use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most costs that a node keeps. The cost of a local beyond them is measured in each of its calls.
pub const COSTS_MAX: usize = 1 << 16;

/// Longest parameters under which a cost is kept.
const PARAMS_BYTES_MAX: usize = 4 << 10;

/// Costs by partition and parameters.
#[derive(Debug)]
pub(crate) struct Costs {
    max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_partition: HashMap<u32, HashMap<Bytes, Duration>>,
    number: usize,
}

impl Default for Costs {
    fn default() -> Self {
        Self { max: COSTS_MAX, kept: Mutex::default() }
    }
}

impl Costs {
    /// The cost that was kept.
    pub(crate) fn of(&self, partition: u32, params: &Bytes) -> Option<Duration> {
        self.lock().by_partition.get(&partition)?.get(params).copied()
    }

    /// Keeps a cost, unless there is one already, too many are kept, or the parameters are too long.
    pub(crate) fn keep(&self, partition: u32, params: &Bytes, cost: Duration) {
        if params.len() > PARAMS_BYTES_MAX {
            return;
        }
        let mut kept = self.lock();
        let is_known = kept.by_partition.get(&partition).is_some_and(|costs| costs.contains_key(params));
        if is_known || kept.number >= self.max {
            return;
        }
        kept.number += 1;
        // A copy, because the parameters share the memory of the message that brought them.
        let params = Bytes::copy_from_slice(params);
        kept.by_partition.entry(partition).or_default().insert(params, cost);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Code under this lock does not panic half-way.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_cost_of_a_partition_and_its_parameters_is_kept() {
        let (costs, q, r) = (Costs::default(), Bytes::from_static(b"q"), Bytes::from_static(b"r"));
        let ms = Duration::from_millis;
        costs.keep(1, &q, ms(5));
        costs.keep(1, &q, ms(7));
        costs.keep(2, &q, ms(9));
        assert_eq!((costs.of(1, &q), costs.of(2, &q)), (Some(ms(5)), Some(ms(9))));
        assert_eq!((costs.of(1, &r), costs.of(3, &q)), (None, None));
    }

    #[test]
    fn no_more_costs_than_the_limit_are_kept() {
        let costs = Costs { max: 2, ..Costs::default() };
        let params = Bytes::new();
        for partition in 0..3 {
            costs.keep(partition, &params, Duration::ZERO);
        }
        assert_eq!([0, 1, 2].map(|partition| costs.of(partition, &params).is_some()), [true, true, false]);
    }

    #[test]
    fn long_parameters_are_not_kept() {
        let (costs, long) = (Costs::default(), Bytes::from(vec![7; PARAMS_BYTES_MAX + 1]));
        costs.keep(1, &long, Duration::ZERO);
        costs.keep(1, &long.slice(1..), Duration::ZERO);
        assert_eq!((costs.of(1, &long), costs.of(1, &long.slice(1..))), (None, Some(Duration::ZERO)));
    }
}
