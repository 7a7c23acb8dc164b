//! Contributed and missing partition what was asked: every partition is in one of them, with a reason if missing.

use super::Finding;
use crate::world::ink::Ink;
use treefold_core::call::{CallOptions, Outcome, Status};

/// What was asked is contributed or missing, never both, and never neither.
pub fn of_outcome(options: &CallOptions, outcome: &Outcome<Ink>) -> Finding {
    if matches!(outcome.status, Status::Rejected(_)) {
        return Ok(());
    }
    if let Some(wanted) = &options.partitions
        && *wanted != outcome.asked
    {
        return Err(format!("{wanted} were to be asked, {} were", outcome.asked));
    }
    let mut seen = outcome.contributed.clone();
    for loss in &outcome.missing {
        if loss.partitions.is_empty() {
            return Err(format!("nothing is missing for the reason {}", loss.reason));
        }
        if seen.intersects(&loss.partitions) {
            let twice = loss.partitions.intersection(&seen);
            return Err(format!(
                "{twice} is missing, and also contributed or missing otherwise: {outcome:?}"
            ));
        }
        seen.union_with(&loss.partitions);
    }
    if seen == outcome.asked { Ok(()) } else { Err(format!("{} asked, {seen} accounted for", outcome.asked)) }
}
