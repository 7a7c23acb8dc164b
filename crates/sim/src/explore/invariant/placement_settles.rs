//! When there are no more faults, each partition soon has its replicas and no more, and no node has anything left to do.

use super::Finding;
use crate::world::World;
use std::collections::BTreeSet;
use treefold_core::time::Duration;

/// Longest time until placement settles, besides the time for which a lost node keeps its share: failed loads are tried again
/// after up to a minute, and each node loads two partitions at a time.
pub const WITHIN: Duration = Duration::from_secs(120);

/// Checks the placement at every place of `members`.
pub fn settled(world: &World, members: &BTreeSet<usize>, partitions: u32, replicas: u32) -> Finding {
    let wanted = (replicas as usize).min(members.len());
    for &at in members {
        let place = world.place(at);
        let report = place.node().placement_report();
        if !report.is_calm {
            return Err(format!("place {at} still moves partitions: {report:?}"));
        }
        for partition in 0..partitions {
            let holders = place.node().view().providers("s", partition).len();
            if holders != wanted {
                return Err(format!(
                    "place {at} sees {holders} holders of partition {partition}, not {wanted}"
                ));
            }
        }
    }
    Ok(())
}
