//! No contribution is counted twice, and none is claimed that is not there.
//!
//! A payload shows whose marks are in it and how often ([`Ink::holds_exactly`]), so this is held for every answer and
//! for every partial that any node sends, with what it says about itself.

use super::Finding;
use crate::world::ink::Ink;
use treefold_core::call::Outcome;
use treefold_core::message::Partial;
use treefold_core::partitions::PartitionSet;

/// A call's answer holds each contributor once.
pub fn of_outcome(outcome: &Outcome<Ink>) -> Finding {
    outcome.value.as_ref().map_or(Ok(()), |value| holds_exactly(value, &outcome.contributed))
}

/// So does a partial.
pub fn of_partial(partial: &Partial<Ink>) -> Finding {
    match &partial.payload {
        Some(payload) => holds_exactly(payload, &partial.contributors),
        None if partial.contributors.is_empty() => Ok(()),
        None => Err(format!("{} have contributed to a partial without a payload", partial.contributors)),
    }
}

fn holds_exactly(ink: &Ink, contributors: &PartitionSet) -> Finding {
    if ink.holds_exactly(contributors) {
        return Ok(());
    }
    let said = contributors.len();
    Err(format!("{said} contributors are said, {contributors}; {} contributions are in it", ink.count))
}
