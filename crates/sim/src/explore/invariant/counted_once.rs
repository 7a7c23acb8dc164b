//! No contribution is counted twice, and no contributor is listed without its contribution.
//!
//! A payload shows the marks that it contains and their number ([`Ink::holds_exactly`]). So this is checked
//! for every answer, and for every partial that a node sends, against the contributors that it lists.

use super::Finding;
use crate::world::ink::Ink;
use treefold_core::call::Outcome;
use treefold_core::message::Partial;
use treefold_core::partitions::PartitionSet;

/// Checks that a call's answer contains each contributor once.
pub fn of_outcome(outcome: &Outcome<Ink>) -> Finding {
    outcome.value.as_ref().map_or(Ok(()), |value| holds_exactly(value, &outcome.contributed))
}

/// Checks that a partial contains each contributor once.
pub fn of_partial(partial: &Partial<Ink>) -> Finding {
    match &partial.payload {
        Some(payload) => holds_exactly(payload, &partial.contributors),
        None if partial.contributors.is_empty() => Ok(()),
        None => {
            Err(format!("the partial lists the contributors {} but has no payload", partial.contributors))
        }
    }
}

fn holds_exactly(ink: &Ink, contributors: &PartitionSet) -> Finding {
    if ink.holds_exactly(contributors) {
        return Ok(());
    }
    let said = contributors.len();
    Err(format!(
        "{said} contributors are listed, {contributors}; the payload has {} contributions",
        ink.count
    ))
}
