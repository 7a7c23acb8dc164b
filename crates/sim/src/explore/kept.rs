//! Reads scenarios from files and checks their bounds.
//!
//! A drawn scenario makes sense, but a file may have been written by hand. Some values would make a play run
//! for ever, or report errors that are no fault of core: for example, a link of one byte per second never
//! becomes idle. Such a scenario is refused before it is played. The error names the field and its bounds.

use super::feeding::PlannedFeed;
use super::pushing::Pushing;
use super::scenario::{Fault, Scenario, Weather};
use super::streaming::{Mode, PlannedStream};
use std::fmt::Display;
use thiserror::Error;
use treefold_mirror::rules::{RuleFile, RuleKind};

/// Most members, and most observers.
const NODES_MAX: u32 = 10_000;
const PARTITIONS_MAX: u32 = 65_536;
const PROCESSORS_MAX: u32 = 1_024;
/// Largest time, in µs: one day.
const TIME_MAX_US: u64 = 86_400_000_000;
/// Largest partial: the default limit of a payload.
const PARTIAL_BYTES_MAX: u32 = 64 << 20;
/// Smallest bandwidth of a link.
const BYTES_PER_S_MIN: u64 = 1_000_000;
/// Shortest time between two packets of an endpoint.
const EVERY_MIN_US: u64 = 100;
/// Most workers of an application, and most pieces of a result.
const WORKERS_MAX: u32 = 1_024;
const PIECES_MAX: usize = 1_024;
/// Largest number of a planned request. The last requests of a play have larger numbers.
const REQUEST_MAX: u64 = 999;
/// Most files of rules, sources, and events of a source of a feed.
const RULE_FILES_MAX: usize = 16;
const SOURCES_MAX: usize = 16;
const EVENTS_MAX: u32 = 100_000;
const PERMILLE_MAX: u32 = 1_000;
/// Largest factor of work times, of a call or of a node.
const TIMES_MAX: u32 = 1_000;

/// The reason why a text is not a scenario that can be played.
#[derive(Debug, Error)]
pub enum UnplayableScenario {
    /// The text is not a JSON object with a scenario's fields.
    #[error("expected a scenario as a JSON object: {0}")]
    Json(#[from] serde_json::Error),
    /// A field is out of bounds.
    #[error("{field} is {given}; allowed: {allowed}")]
    Field {
        /// The name of the field, with its index in a list.
        field: String,
        /// The value that was found.
        given: String,
        /// The values that are allowed.
        allowed: String,
    },
}

impl Scenario {
    /// Reads a scenario from a file's text.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a scenario, or if a field is out of bounds. The error names the
    /// field.
    pub fn from_json(text: &str) -> Result<Self, UnplayableScenario> {
        let scenario: Self = serde_json::from_str(text)?;
        scenario.check()?;
        Ok(scenario)
    }

    fn check(&self) -> Result<(), UnplayableScenario> {
        within("nodes", self.nodes, 1, NODES_MAX)?;
        within("observers", self.observers, 0, NODES_MAX)?;
        within("partitions", self.partitions, 1, PARTITIONS_MAX)?;
        within("processors", self.processors, 1, PROCESSORS_MAX)?;
        within("partial_bytes", self.partial_bytes, 0, PARTIAL_BYTES_MAX)?;
        within("local_us", self.local_us, 0, TIME_MAX_US)?;
        within("reduce_us", self.reduce_us, 0, TIME_MAX_US)?;
        check_weather("weather", &self.weather)?;
        for (at, call) in self.calls.iter().enumerate() {
            let field = |name: &str| format!("calls[{at}].{name}");
            within(field("at_us"), call.at_us, 0, TIME_MAX_US)?;
            within(field("cancelled_after_us"), call.cancelled_after_us.unwrap_or(0), 0, TIME_MAX_US)?;
            within(field("wish.deadline_us"), call.wish.deadline_us, 0, TIME_MAX_US)?;
            within(field("scale"), call.scale, 0.0, f64::from(TIMES_MAX))?;
        }
        for (at, planned) in self.faults.iter().enumerate() {
            within(format!("faults[{at}].at_us"), planned.at_us, 0, TIME_MAX_US)?;
            let field = format!("faults[{at}].fault");
            match &planned.fault {
                Fault::Slow(_, times) => within(field, *times, 1, TIMES_MAX)?,
                Fault::Sever(_, _, notice) => within(field, notice[0].max(notice[1]), 0, TIME_MAX_US)?,
                Fault::ClockJump(_, by_ms) => within(field, *by_ms, 0, TIME_MAX_US / 1_000)?,
                Fault::Weather(weather) => check_weather(&field, weather)?,
                _ => {}
            }
        }
        for (at, stream) in self.streams.iter().enumerate() {
            check_stream(at, stream)?;
        }
        self.feed.as_ref().map_or(Ok(()), check_feed)?;
        self.pushing.as_ref().map_or(Ok(()), check_pushing)
    }
}

fn check_stream(at: usize, stream: &PlannedStream) -> Result<(), UnplayableScenario> {
    let field = |name: &str| format!("streams[{at}].{name}");
    within(field("at_us"), stream.at_us, 0, TIME_MAX_US)?;
    within(field("filter_us"), stream.filter_us, 0, TIME_MAX_US)?;
    within(field("takes_for_us"), stream.takes_for_us, 0, TIME_MAX_US)?;
    within(field("reads_for_us"), stream.reads_for_us, 0, TIME_MAX_US)?;
    within(field("packet_bytes"), stream.packet_bytes, 0, PARTIAL_BYTES_MAX)?;
    within(field("every_us"), stream.every_us.unwrap_or(EVERY_MIN_US), EVERY_MIN_US, TIME_MAX_US)?;
    within(field("closed_at_us"), stream.closed_at_us.unwrap_or(0), 0, TIME_MAX_US)?;
    let last = stream.sends_at_us.iter().copied().max().unwrap_or(0);
    within(field("sends_at_us.largest"), last, 0, TIME_MAX_US)?;
    match stream.mode {
        Mode::TimeOut(us) => within(field("mode.time_out"), us, 1, TIME_MAX_US),
        Mode::WaitForAll | Mode::DoNotWait => Ok(()),
    }
}

fn check_feed(feed: &PlannedFeed) -> Result<(), UnplayableScenario> {
    within("feed.at_us", feed.at_us, 0, TIME_MAX_US)?;
    within("feed.copies", feed.copies, 0, NODES_MAX)?;
    within("feed.flush_us", feed.flush_us, 0, TIME_MAX_US)?;
    within("feed.snapshot_within_us", feed.snapshot_within_us, 1, TIME_MAX_US)?;
    within("feed.rules.number", feed.rules.len(), 1, RULE_FILES_MAX)?;
    within("feed.sources.number", feed.sources.len(), 1, SOURCES_MAX)?;
    for (at, text) in feed.rules.iter().enumerate() {
        let wrong = |given: String| UnplayableScenario::Field {
            field: format!("feed.rules[{at}]"),
            given,
            allowed: "a file of rules without functions".into(),
        };
        let file = RuleFile::read(text).map_err(|problems| wrong(format!("{problems:?}")))?;
        if file.rules.iter().any(|rule| matches!(rule.kind, RuleKind::Function(_))) {
            return Err(wrong("one with a function".into()));
        }
    }
    for (at, source) in feed.sources.iter().enumerate() {
        within(format!("feed.sources[{at}].events"), source.events, 1, EVENTS_MAX)?;
        within(format!("feed.sources[{at}].every_us"), source.every_us, 0, TIME_MAX_US)?;
    }
    let last = feed.mishaps.iter().map(|planned| planned.at_us).max().unwrap_or(0);
    within("feed.mishaps.at_us.largest", last, 0, TIME_MAX_US)
}

fn check_pushing(pushing: &Pushing) -> Result<(), UnplayableScenario> {
    within("pushing.workers", pushing.workers, 1, WORKERS_MAX)?;
    within("pushing.homes", pushing.homes, 1, NODES_MAX)?;
    within("pushing.relays", pushing.relays, 0, NODES_MAX)?;
    for (at, announced) in pushing.announcements.iter().enumerate() {
        let field = |name: &str| format!("pushing.announcements[{at}].{name}");
        within(field("request"), announced.request, 1, REQUEST_MAX)?;
        within(field("at_us"), announced.at_us, 0, TIME_MAX_US)?;
        within(field("patience_us"), announced.patience_us, 0, TIME_MAX_US)?;
        within(field("cancelled_after_us"), announced.cancelled_after_us.unwrap_or(0), 0, TIME_MAX_US)?;
        within(field("wish.deadline_us"), announced.wish.deadline_us, 0, TIME_MAX_US)?;
    }
    for (at, result) in pushing.results.iter().enumerate() {
        let field = |name: &str| format!("pushing.results[{at}].{name}");
        within(field("request"), result.request, 1, REQUEST_MAX)?;
        within(field("at_us"), result.at_us, 0, TIME_MAX_US)?;
        within(field("every_us"), result.every_us, 0, TIME_MAX_US)?;
        within(field("pieces.length"), result.pieces.len(), 1, PIECES_MAX)?;
        within(field("pieces[0]"), result.pieces[0], 1, PARTIAL_BYTES_MAX)?;
        let largest = result.pieces.iter().copied().max().unwrap_or(0);
        within(field("pieces.largest"), largest, 1, PARTIAL_BYTES_MAX)?;
    }
    for (at, planned) in pushing.mishaps.iter().enumerate() {
        within(format!("pushing.mishaps[{at}].at_us"), planned.at_us, 0, TIME_MAX_US)?;
    }
    Ok(())
}

fn check_weather(at: &str, weather: &Weather) -> Result<(), UnplayableScenario> {
    let field = |name: &str| format!("{at}.{name}");
    within(field("delay_us"), weather.delay_us, 0, TIME_MAX_US)?;
    within(field("jitter_us"), weather.jitter_us, 0, TIME_MAX_US)?;
    within(field("loss_permille"), weather.loss_permille, 0, PERMILLE_MAX)?;
    within(field("duplication_permille"), weather.duplication_permille, 0, PERMILLE_MAX)?;
    let bytes_per_s = weather.bytes_per_s.unwrap_or(BYTES_PER_S_MIN);
    within(field("bytes_per_s"), bytes_per_s, BYTES_PER_S_MIN, u64::MAX)
}

fn within<T: Copy + PartialOrd + Display>(
    field: impl Into<String>,
    given: T,
    least: T,
    most: T,
) -> Result<(), UnplayableScenario> {
    if (least..=most).contains(&given) {
        return Ok(());
    }
    let allowed = format!("{least} to {most}");
    Err(UnplayableScenario::Field { field: field.into(), given: given.to_string(), allowed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::draw::draw;
    use serde_json::{Value, json};

    #[test]
    fn every_drawn_scenario_can_be_written_and_read_again() {
        for seed in 0..500 {
            let scenario = draw(seed);
            let text = serde_json::to_string(&scenario).expect("plain values");
            assert_eq!(Scenario::from_json(&text).expect("as written"), scenario);
        }
    }

    /// Returns the error message for a scenario with one changed field.
    fn refusal(pointer: &str, value: Value) -> String {
        let mut scenario = serde_json::to_value(draw(4)).expect("plain values");
        match scenario.pointer_mut(pointer) {
            Some(field) => *field = value,
            None => scenario[&pointer[1..]] = value,
        }
        Scenario::from_json(&scenario.to_string()).expect_err("it makes no sense").to_string()
    }

    #[test]
    fn scenario_out_of_bounds_is_refused_with_field_and_bounds() {
        assert_eq!(refusal("/nodes", json!(u32::MAX)), "nodes is 4294967295; allowed: 1 to 10000");
        assert_eq!(refusal("/partitions", json!(0)), "partitions is 0; allowed: 1 to 65536");
        assert_eq!(refusal("/calls/1/scale", json!(-1.0)), "calls[1].scale is -1; allowed: 0 to 1000");
        let jump = json!([{"at_us": 5, "fault": {"clock_jump": [0, u64::MAX]}}]);
        assert!(
            refusal("/faults", jump).starts_with("faults[0].fault is 18446744073709551615; allowed: 0 to ")
        );
        let narrow = json!([{"at_us": 5, "fault": {"weather": {
            "delay_us": 1, "jitter_us": 0, "loss_permille": 0, "duplication_permille": 0, "bytes_per_s": 0,
        }}}]);
        assert!(
            refusal("/faults", narrow).starts_with("faults[0].fault.bytes_per_s is 0; allowed: 1000000 to ")
        );
        let pushes = serde_json::to_value((0..).find_map(|seed| draw(seed).pushing)).expect("plain values");
        let mut nobody = pushes;
        nobody["workers"] = json!(0);
        assert_eq!(refusal("/pushing", nobody), "pushing.workers is 0; allowed: 1 to 1024");
        assert!(refusal("/seed", json!("four")).starts_with("expected a scenario as a JSON object: "));
    }
}
