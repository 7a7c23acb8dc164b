//! `treefold mirror feed --report`: the state of an origin while it runs.

use super::sources::Counted;
use crate::output::{Format, print, print_json};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};
use treefold_feed::{Acknowledged, OriginStatus};
use treefold_mirror::rules::Mode;

/// Shortest time between two reports, so that they cost the origin little.
const INTERVAL_MIN: Duration = Duration::from_millis(20);

/// The state of an origin, as a line of JSON has it below `state`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OriginReport {
    pub(crate) epoch: u32,
    pub(crate) position: u64,
    pub(crate) committed: u64,
    pub(crate) mode: Mode,
    pub(crate) rules_version: u32,
    /// Number of mirrors that take part.
    pub(crate) mirrors: usize,
    /// Events that the sources offered, including repeated and refused ones.
    pub(crate) offered: u64,
    pub(crate) repeated: u64,
    pub(crate) refused: u64,
    /// The acknowledged number of each stream.
    pub(crate) acknowledged: BTreeMap<String, u64>,
    /// The problem that stops the journal.
    pub(crate) journal_problem: Option<String>,
}

/// A line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StateLine {
    pub(crate) state: OriginReport,
}

impl OriginReport {
    fn of(status: &OriginStatus, acknowledged: &Acknowledged, sources: &[Counted]) -> Self {
        let sum = |count: fn(&Counted) -> u64| sources.iter().map(count).sum();
        Self {
            epoch: status.cut.epoch,
            position: status.cut.position,
            committed: status.committed,
            mode: status.mode,
            rules_version: status.rules_version,
            mirrors: status.mirrors.len(),
            offered: sum(|one| one.counts.offered),
            repeated: sum(|one| one.counts.repeated),
            refused: sum(|one| one.counts.refused),
            acknowledged: acknowledged.iter().map(|(name, number)| (name.to_string(), number)).collect(),
            journal_problem: status.journal_problem.as_deref().map(str::to_owned),
        }
    }

    fn line(&self) -> String {
        let Self { epoch, position, committed, mode, mirrors, offered, repeated, refused, .. } = self;
        let acknowledged: Vec<_> =
            self.acknowledged.iter().map(|(stream, number)| format!("{stream}={number}")).collect();
        let mode = word(*mode);
        let plural = if *mirrors == 1 { "" } else { "s" };
        let problem = self.journal_problem.as_ref().map(|problem| format!("; the journal: {problem}"));
        format!(
            "at {epoch}.{position}, committed {committed}, {mirrors} mirror{plural}, {mode}; {offered} events offered, \
             {repeated} repeated, {refused} refused; acknowledged {}{}",
            if acknowledged.is_empty() { "none".to_owned() } else { acknowledged.join(",") },
            problem.unwrap_or_default()
        )
    }
}

/// A mode as people and rules name it.
pub(crate) fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Normal => "normal",
        Mode::Loaded => "loaded",
    }
}

/// Prints the state at an interval.
pub(super) struct Reports {
    interval: Option<Interval>,
    format: Format,
}

impl Reports {
    /// Without a time, nothing is printed.
    pub(super) fn every(time: Option<Duration>, format: Format) -> Self {
        let ticking = |time: Duration| {
            let mut ticking = interval(time.max(INTERVAL_MIN));
            ticking.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticking
        };
        Self { interval: time.map(ticking), format }
    }

    /// Waits for the time of the next report.
    pub(super) async fn due(&mut self) {
        match &mut self.interval {
            Some(interval) => _ = interval.tick().await,
            None => std::future::pending().await,
        }
    }

    pub(super) fn print(&self, status: &OriginStatus, acknowledged: &Acknowledged, sources: &[Counted]) {
        let state = OriginReport::of(status, acknowledged, sources);
        match self.format {
            Format::Text => print(state.line()),
            Format::Json => print_json(&StateLine { state }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_one_line_for_people() {
        let mut report = OriginReport {
            epoch: 2,
            position: 1517,
            committed: 1201,
            mirrors: 1,
            offered: 20,
            ..OriginReport::default()
        };
        assert_eq!(
            report.line(),
            "at 2.1517, committed 1201, 1 mirror, normal; 20 events offered, 0 repeated, 0 refused; acknowledged none"
        );
        report.acknowledged = [("faa".to_owned(), 7), ("airline".to_owned(), 3)].into();
        report.journal_problem = Some("no space".to_owned());
        assert!(
            report.line().ends_with("acknowledged airline=3,faa=7; the journal: no space"),
            "{}",
            report.line()
        );
    }
}
