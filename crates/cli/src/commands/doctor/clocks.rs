//! The clocks of the nodes against this machine's.

use super::certificate::date;
use super::finding::{Finding, capped};
use super::nodes::{Seen, count};
use crate::output::short;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const CHECK: &str = "clocks";

/// Differences that are no problem: nothing in a cluster compares wall clocks more finely than certificates and journals do.
const DIFFERENCE_MAX: Duration = Duration::from_secs(1);
/// Difference from which on certificates may be refused: they are issued some minutes back.
const DIFFERENCE_FATAL: Duration = Duration::from_secs(60);

/// A node's clock against this machine's, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offset {
    /// Positive if the node's clock is ahead.
    pub(super) ms: i64,
    /// The true value differs by no more than this.
    doubt_ms: i64,
}

impl Offset {
    /// Computes the offset from the node's clock in its answer to a question that was sent at `sent` and answered after `took`.
    /// The answer was written at some moment between.
    pub(super) fn of(unix_ms: u64, sent: SystemTime, took: Duration) -> Option<Self> {
        if unix_ms == 0 {
            return None;
        }
        let here = sent.duration_since(UNIX_EPOCH).ok()? + took / 2;
        let ms = i64::try_from(unix_ms).ok()?.checked_sub(i64::try_from(here.as_millis()).ok()?)?;
        Some(Self { ms, doubt_ms: i64::try_from(took.as_millis() / 2).ok()? + 1 })
    }

    /// The least difference that is certain.
    fn certain(self) -> Duration {
        Duration::from_millis(self.ms.unsigned_abs().saturating_sub(self.doubt_ms.unsigned_abs()))
    }
}

pub(super) fn check(seen: &[Seen]) -> Vec<Finding> {
    let offsets: Vec<(&str, Offset)> =
        seen.iter().filter_map(|node| Some((node.name.as_str(), node.facts()?.offset?))).collect();
    let silent = seen.iter().filter_map(Seen::facts).filter(|facts| facts.offset.is_none()).count();
    let mut findings = judged(&offsets);
    if silent > 0 {
        let found = format!("no clock is reported by {} of an older build", count(silent));
        findings.push(Finding::ok(CHECK, found));
    }
    findings
}

fn judged(offsets: &[(&str, Offset)]) -> Vec<Finding> {
    if offsets.is_empty() {
        return Vec::new();
    }
    let mut sorted: Vec<i64> = offsets.iter().map(|(_, offset)| offset.ms).collect();
    sorted.sort_unstable();
    let median = sorted[sorted.len() / 2];
    let is_wrong = |offset: Offset| offset.certain() > DIFFERENCE_MAX;
    // If most nodes agree on another time, this machine is the one that is wrong.
    let here =
        Offset { ms: median, doubt_ms: offsets.iter().map(|(_, offset)| offset.doubt_ms).max().unwrap_or(0) };
    if offsets.len() > 1 && is_wrong(here) {
        let agree = offsets
            .iter()
            .filter(|(_, offset)| !is_wrong(Offset { ms: offset.ms - median, ..*offset }))
            .count();
        if 2 * agree > offsets.len() {
            let found = format!(
                "{agree} of {} nodes agree, and this machine is {} them",
                offsets.len(),
                way(-median)
            );
            return vec![wrong(&found, "this machine", here)];
        }
    }
    let problems: Vec<Finding> = offsets
        .iter()
        .filter(|(_, offset)| is_wrong(*offset))
        .map(|(name, offset)| wrong(&format!("{name} is {} this machine", way(offset.ms)), name, *offset))
        .collect();
    if problems.is_empty() {
        let most = offsets.iter().map(|(_, offset)| offset.certain()).max().unwrap_or_default();
        return vec![Finding::ok(
            CHECK,
            format!(
                "the clocks of {} and of this machine differ by no more than {}",
                count(offsets.len()),
                short(most.max(Duration::from_millis(1)))
            ),
        )];
    }
    capped(problems)
}

fn wrong(found: &str, machine: &str, offset: Offset) -> Finding {
    let now = date(SystemTime::now());
    let found = format!("{found} (this machine's clock shows {now})");
    let advice = format!(
        "set the clock of {machine} (`timedatectl set-ntp true`, `chronyc makestep`): certificates and journals are judged by it"
    );
    if offset.certain() > DIFFERENCE_FATAL {
        Finding::fail(CHECK, found, advice)
    } else {
        Finding::warn(CHECK, found, advice)
    }
}

fn way(ms: i64) -> String {
    let amount = short(Duration::from_millis(ms.unsigned_abs()));
    if ms < 0 { format!("{amount} behind") } else { format!("{amount} ahead of") }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn offset(ms: i64) -> Offset {
        Offset { ms, doubt_ms: 1 }
    }

    #[test]
    fn an_offset_is_measured_from_the_middle_of_the_question() {
        let sent = UNIX_EPOCH + Duration::from_secs(1_000);
        let asked = Offset::of(1_005_100, sent, Duration::from_millis(200)).unwrap();
        assert_eq!(asked, Offset { ms: 5_000, doubt_ms: 101 });
        assert_eq!(asked.certain(), Duration::from_millis(4_899));
        assert_eq!(Offset::of(0, sent, Duration::ZERO), None, "older builds report no clock");
    }

    #[test]
    fn the_machine_that_differs_from_most_is_named() {
        let one = judged(&[("a", offset(3)), ("b", offset(-7_200_000)), ("c", offset(-2))]);
        assert_eq!((one.len(), one[0].level), (1, Level::Fail));
        assert!(one[0].found.starts_with("b is 2.00 h behind this machine"), "{one:?}");
        assert!(one[0].advice.as_ref().unwrap().contains("set the clock of b"));
        let own = judged(&[("a", offset(90_000)), ("b", offset(90_010)), ("c", offset(0))]);
        assert!(
            own[0].found.starts_with("2 of 3 nodes agree, and this machine is 90.0 s behind them"),
            "{own:?}"
        );
        assert!(own[0].advice.as_ref().unwrap().contains("set the clock of this machine"));
    }

    #[test]
    fn small_differences_are_no_problem() {
        assert_eq!(judged(&[("a", offset(3)), ("b", offset(-900))])[0].level, Level::Ok);
        assert_eq!(judged(&[("a", offset(5_000))])[0].level, Level::Warn);
    }
}
