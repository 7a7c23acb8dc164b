//! Every local gets the parameters of its partition: its own if the call has some for it, else the common ones.

use super::Finding;
use crate::world::ink::Ink;
use std::collections::BTreeMap;
use treefold_core::effect::Work;
use treefold_core::params::Params;
use treefold_core::partitions::PartitionSet;

/// The partitions with parameters of their own, by call.
#[derive(Debug, Default)]
pub struct OwnParams(BTreeMap<u64, PartitionSet>);

impl OwnParams {
    /// Records the parameters of a call.
    pub fn began(&mut self, params: &Params<Ink>) {
        let own: PartitionSet = params.own().iter().map(|&(partition, _)| partition).collect();
        if !own.is_empty() {
            self.0.insert(params.common.call, own);
        }
    }

    /// Checks the parameters that a job of this call gets.
    pub fn ran(&self, work: &Work<Ink>) -> Finding {
        let (expected, params) = match work {
            Work::Local { partition, params, .. }
            | Work::Slices { partition, params, .. }
            | Work::Slice { partition, params, .. } => {
                let has_own = self.0.get(&params.call).is_some_and(|own| own.contains(*partition));
                (has_own.then_some(*partition), params)
            }
            Work::Reduce { params, .. } | Work::Join { params, .. } => (None, params),
        };
        if params.own == expected {
            return Ok(());
        }
        Err(format!("a job got the parameters of {:?} instead of {expected:?}: {work:?}", params.own))
    }
}
