//! Contributed and missing partitions together are the asked ones. Each missing partition has a reason.

use super::Finding;
use crate::world::ink::Ink;
use treefold_core::call::{CallOptions, Outcome, Status};

/// Checks that every asked partition is either contributed or missing, and not both.
pub fn of_outcome(options: &CallOptions, outcome: &Outcome<Ink>) -> Finding {
    if matches!(outcome.status, Status::Rejected(_)) {
        return Ok(());
    }
    if let Some(wanted) = &options.partitions
        && *wanted != outcome.asked
    {
        return Err(format!("expected {wanted} to be asked, found {}", outcome.asked));
    }
    let mut seen = outcome.contributed.clone();
    for loss in &outcome.missing {
        if loss.partitions.is_empty() {
            return Err(format!("a loss for the reason {} lists no partitions", loss.reason));
        }
        if seen.intersects(&loss.partitions) {
            let twice = loss.partitions.intersection(&seen);
            return Err(format!(
                "{twice} is missing, and also contributed or missing for another reason: {outcome:?}"
            ));
        }
        seen.union_with(&loss.partitions);
    }
    if seen == outcome.asked { Ok(()) } else { Err(format!("{} asked, {seen} accounted for", outcome.asked)) }
}
