//! The strategies *binary* and *chain*: trees of servers, within each rack first and then across racks
//! (§2.2).
//!
//! Each server has up to `children` children in its rack, filled level by level. Racks are joined in the same
//! way: the first server of a rack is a child of the first server of another rack, which can have as many
//! children of this kind. In a chain each server has at most one child, so the first server of a rack is the
//! child of the last server of the rack before it.

use super::{Plan, by_rack};
use crate::flow::topology::Fabric;
use crate::flow::workload::Worker;

/// Plans a job with up to `children` children per server and per rack.
pub fn plan(fabric: &Fabric, workers: &[Worker], children: u32) -> Plan {
    let children = children as usize;
    let (mut plan, mut heads, mut last) = (Plan::default(), Vec::new(), None);
    for (nth_rack, workers) in by_rack(fabric, workers).into_values().enumerate() {
        let above = match nth_rack {
            0 => None,
            _ if children == 1 => last,
            nth => Some(heads[(nth - 1) / children]),
        };
        let mut members: Vec<u32> = Vec::with_capacity(workers.len());
        for (nth, worker) in workers.into_iter().enumerate() {
            let to = if nth == 0 { above } else { Some(members[(nth - 1) / children]) };
            members.push(plan.add_worker(worker, to));
        }
        heads.push(members[0]);
        last = members.last().copied();
    }
    plan
}
