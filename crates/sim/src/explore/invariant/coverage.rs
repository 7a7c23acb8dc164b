//! The reported coverage equals the share of the merged partitions, and the verdict follows from it.

use super::Finding;
use crate::world::ink::Ink;
use treefold_core::call::{CallOptions, Outcome, Status};

/// Checks that a call's report agrees with its value.
pub fn of_outcome(options: &CallOptions, outcome: &Outcome<Ink>) -> Finding {
    let (asked, contributed) = (outcome.asked.len(), outcome.contributed.len());
    let coverage = if asked == 0 { 1.0 } else { contributed as f64 / asked as f64 };
    let is_enough = coverage >= options.min_coverage - 1e-9;
    let status = match &outcome.status {
        Status::Rejected(_) => {
            let is_empty = outcome.value.is_none() && asked == 0 && contributed == 0;
            return if is_empty { Ok(()) } else { Err(format!("rejected, but not empty: {outcome:?}")) };
        }
        status => status,
    };
    let expected = match is_enough {
        _ if contributed == asked => Status::Full,
        true => Status::Partial,
        false => Status::Insufficient,
    };
    if *status != expected {
        let least = options.min_coverage;
        return Err(format!("{} with {contributed} of {asked}, minimum coverage {least}", status.name()));
    }
    let merged = outcome.value.as_ref().map_or(0, |value| value.count as usize);
    let is_value_due = expected != Status::Insufficient && contributed > 0;
    if outcome.value.is_some() != is_value_due || (is_value_due && merged != contributed) {
        return Err(format!("{} with {contributed} of {asked}, but {merged} in the value", status.name()));
    }
    Ok(())
}
