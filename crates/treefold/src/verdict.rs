//! Checks that a reply is consistent with itself and with the call.
//!
//! A reply contains a status and the sets from which the status follows. A faulty front, or another
//! implementation, may send `full` and list half of the partitions. A client that trusted the status would
//! return half of an answer as a complete one. Every reply is therefore checked before the user gets it.

use bytes::Bytes;
use treefold_core::call::{CallOptions, Outcome, Status, losses_max};
use treefold_core::partitions::PartitionSet;

/// Checks a reply for contradictions.
///
/// # Errors
/// A description of the contradiction.
pub(crate) fn judge(outcome: &Outcome<Bytes>, options: &CallOptions) -> Result<(), String> {
    let Outcome { status, value, asked, contributed, missing, .. } = outcome;
    if matches!(status, Status::Rejected(_)) {
        return Ok(());
    }
    if let Some(chosen) = options.partitions.as_ref().filter(|chosen| *chosen != asked) {
        return Err(format!(
            "the call chose partitions {chosen}, but the reply says that {asked} were asked"
        ));
    }
    if !contributed.is_subset(asked) {
        let more = contributed.difference(asked);
        return Err(format!("partitions {more} contributed, but were not asked"));
    }
    let mut explained = PartitionSet::new();
    for loss in missing {
        let twice = loss.partitions.intersection(contributed);
        if !twice.is_empty() {
            return Err(format!("partitions {twice} are listed as missing, but contributed"));
        }
        let twice = loss.partitions.intersection(&explained);
        if !twice.is_empty() {
            return Err(format!("partitions {twice} are listed as missing twice"));
        }
        explained.union_with(&loss.partitions);
    }
    let lost = asked.difference(contributed);
    if explained != lost {
        return Err(format!(
            "partitions {lost} did not contribute, but the reply lists {explained} as missing"
        ));
    }
    let counts = format!("{} of {} partitions contributed", contributed.len(), asked.len());
    let losses_max = losses_max(asked.len(), options.min_coverage) as usize;
    let expected = match lost.len() {
        0 => Status::Full,
        lost if lost <= losses_max => Status::Partial,
        _ => Status::Insufficient,
    };
    if *status != expected {
        let (said, least) = (status.name(), options.min_coverage);
        return Err(format!(
            "the status is {said}, but {counts}, which is {} with a minimum coverage of {least}",
            expected.name()
        ));
    }
    let has_value = *status != Status::Insufficient && !contributed.is_empty();
    match (has_value, value) {
        (true, None) => {
            Err(format!("the status is {} and {counts}, but the reply has no value", status.name()))
        }
        (false, Some(_)) => {
            Err(format!("the status is {} and {counts}, but the reply has a value", status.name()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold_core::error::{Missing, Reason};
    use treefold_core::time::Duration;

    fn outcome(status: Status, value: bool, contributed: &[u32], missing: &[&[u32]]) -> Outcome<Bytes> {
        let loss = |ids: &&[u32]| Missing {
            partitions: ids.iter().copied().collect(),
            node: None,
            reason: Reason::Late,
        };
        Outcome {
            status,
            value: value.then(Bytes::new),
            asked: PartitionSet::first(4),
            contributed: contributed.iter().copied().collect(),
            missing: missing.iter().map(loss).collect(),
            total_is_guess: false,
            elapsed: Duration::ZERO,
            report: None,
        }
    }

    #[test]
    fn consistent_replies_are_accepted() {
        let half = CallOptions { min_coverage: 0.5, ..CallOptions::default() };
        let nothing = CallOptions { min_coverage: 0.0, ..CallOptions::default() };
        let sound = [
            (outcome(Status::Full, true, &[0, 1, 2, 3], &[]), &half),
            (outcome(Status::Partial, true, &[0, 1], &[&[2], &[3]]), &half),
            (outcome(Status::Insufficient, false, &[0], &[&[1, 2, 3]]), &half),
            (outcome(Status::Partial, false, &[], &[&[0, 1, 2, 3]]), &nothing),
        ];
        for (outcome, options) in sound {
            assert_eq!(judge(&outcome, options), Ok(()), "{outcome:?}");
        }
    }

    #[test]
    fn every_contradiction_is_named() {
        let options = CallOptions { min_coverage: 0.5, ..CallOptions::default() };
        let cases = [
            (outcome(Status::Full, true, &[0, 1], &[&[2, 3]]), "2 of 4 partitions contributed, which"),
            (outcome(Status::Full, true, &[0, 1], &[]), "partitions 2-3 did not contribute"),
            (outcome(Status::Partial, true, &[0], &[&[1, 2, 3]]), "is insufficient"),
            (outcome(Status::Insufficient, false, &[0, 1, 2], &[&[3]]), "is partial"),
            (outcome(Status::Partial, true, &[0, 1, 2, 3], &[]), "is full"),
            (
                outcome(Status::Full, true, &[0, 1, 2, 3, 4], &[]),
                "partitions 4 contributed, but were not asked",
            ),
            (
                outcome(Status::Partial, true, &[0, 1, 2], &[&[2, 3]]),
                "partitions 2 are listed as missing, but contributed",
            ),
            (
                outcome(Status::Partial, true, &[0, 1], &[&[2, 3], &[3]]),
                "partitions 3 are listed as missing twice",
            ),
            (outcome(Status::Full, false, &[0, 1, 2, 3], &[]), "has no value"),
            (outcome(Status::Insufficient, true, &[0], &[&[1, 2, 3]]), "has a value"),
        ];
        for (outcome, words) in cases {
            let said = judge(&outcome, &options).unwrap_err();
            assert!(said.contains(words), "{said}");
        }
        let chosen = CallOptions { partitions: Some(PartitionSet::first(3)), ..options };
        let said = judge(&outcome(Status::Full, true, &[0, 1, 2, 3], &[]), &chosen).unwrap_err();
        assert!(said.contains("the call chose partitions 0-2"), "{said}");
    }
}
