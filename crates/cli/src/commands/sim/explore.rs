//! `treefold sim explore`: searches for broken invariants in simulated clusters, and replays failures.

use crate::exit::{Failure as Refused, Verdict};
use crate::output::style::Style;
use crate::output::{Format, print, print_json};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Write;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;
use treefold_sim::explore::draw::draw;
use treefold_sim::explore::runner::{Failure, LINES, Report, replay};
use treefold_sim::explore::{Hunt, Scenario, Tally};
use treefold_sim::world;

/// Longest search, in seconds: a week.
const SECONDS_MAX: i64 = 604_800;
/// Largest number of trace lines of the nodes that are kept.
const LINES_MAX: i64 = 100_000;
/// Largest number of threads.
const THREADS_MAX: i64 = 1_024;

/// Break simulated clusters at random, and check the invariants
///
/// Each seed gives a scenario: a cluster, calls, often streams, an application whose workers push, and a feed
/// with mirrors, and faults (crashes, stalls, network cuts that heal or stay, losses, tiny limits, clocks that
/// jump, workers that die or attach twice, origins that are replaced, sources that repeat events, …). The scenario runs on modelled time with the same core as real nodes. The
/// invariants are checked after every step: a call ends once and in time, nothing counts twice, the reported
/// coverage is right, a stream's wave holds packets of its own tag, windows hold, every mirror and reader has
/// the state that its events make, no acknowledged event is lost, tables are bounded, all nodes are back after
/// healing, nothing is left behind. A scenario that breaks an invariant is made smaller
/// and printed with its seed, as JSON, after the last trace lines of the nodes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Explore {
    /// Duration of the search, in seconds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=SECONDS_MAX))]
    seconds: u32,

    /// First seed; the others follow it
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// Number of threads to search on [default: the machine's processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=THREADS_MAX))]
    threads: Option<u32>,

    /// Number of different failures after which to stop
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    failures: u32,

    /// Seed of the only scenario to play
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seed", "seconds", "threads", "failures", "from"])]
    scenario: Option<u64>,

    /// File with the only scenario to play
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "seconds", "threads", "failures"])]
    from: Option<PathBuf>,

    /// Number of trace lines of the nodes to print before the failure of the one scenario
    #[arg(long, value_name = "N", default_value_t = LINES as u32, value_parser = clap::value_parser!(u32).range(1..=LINES_MAX))]
    lines: u32,

    /// Wrong behaviour to build in, to check that the search finds it
    #[arg(long, value_name = "WHAT")]
    sabotage: Option<Sabotage>,
}

/// Wrong behaviour to build in.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sabotage {
    /// Every hundredth fold counts one of its partials twice
    CountTwice,
    /// Every tenth cancel message is not sent
    DropCancel,
    /// Every hundredth run of a stream's filter counts one of its packets twice
    StreamCountTwice,
    /// Every hundredth run of a stream's filter puts one of its packets into the next wave
    StreamMixWaves,
    /// Every hundredth packet up a stream's tree is not sent
    StreamDropPacket,
    /// A mirror that waits for a snapshot votes as if it had all events
    MirrorCountJoining,
    /// An origin sends events, and counts them as durable, before its journal has them
    MirrorSendEarly,
    /// A new origin does not know which events the last one has mirrored
    MirrorRecoverAnew,
    /// A mirror's snapshot claims to have one event more than it has
    MirrorSnapshotAhead,
    /// A reader resumes one event too far
    MirrorResumeSkips,
    /// Drop a third of the news that packets passed over a node
    StreamDropMissed,
    /// A node announces partitions that it has not loaded
    PlacementLoadNothing,
}

impl Sabotage {
    fn of_world(self) -> world::Sabotage {
        match self {
            Self::CountTwice => world::Sabotage::CountTwice,
            Self::DropCancel => world::Sabotage::DropCancel,
            Self::StreamCountTwice => world::Sabotage::StreamCountTwice,
            Self::StreamMixWaves => world::Sabotage::StreamMixWaves,
            Self::StreamDropPacket => world::Sabotage::StreamDropPacket,
            Self::MirrorCountJoining => world::Sabotage::MirrorCountJoining,
            Self::MirrorSendEarly => world::Sabotage::MirrorSendEarly,
            Self::MirrorRecoverAnew => world::Sabotage::MirrorRecoverAnew,
            Self::MirrorSnapshotAhead => world::Sabotage::MirrorSnapshotAhead,
            Self::MirrorResumeSkips => world::Sabotage::MirrorResumeSkips,
            Self::StreamDropMissed => world::Sabotage::StreamDropMissed,
            Self::PlacementLoadNothing => world::Sabotage::PlacementLoadNothing,
        }
    }
}

const EXAMPLES: &str = "\
Exit codes: 0 if no invariant broke; 1 if one broke, or a file can't be read.

Save the JSON of a failing scenario and play it with --from; a later version may draw another scenario for its seed.

Examples:
  treefold sim explore
  treefold sim explore --seconds 600 --seed 1000000 -o json
  treefold sim explore --scenario 4711
  treefold sim explore --from failed.json
  treefold sim explore --sabotage count-twice
  treefold sim explore --sabotage stream-count-twice
  treefold sim explore --sabotage mirror-send-early";

impl Explore {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Refused> {
        let report = match self.chosen()? {
            Some(scenario) => {
                let sabotage = self.sabotage.map(Sabotage::of_world);
                replay(&scenario, sabotage, self.shrink_for(), self.lines as usize)
            }
            None => self.hunt(),
        };
        match format {
            Format::Json => print_json(&report),
            Format::Text => self.show(&report, Style::of_stdout()),
        }
        match report.failures.len() {
            0 => Ok(Verdict::Full),
            1 => Err(Refused::failed("an invariant broke")),
            many => Err(Refused::failed(format!("{many} invariants broke"))),
        }
    }

    /// Returns the one scenario to play, if one was given.
    fn chosen(&self) -> Result<Option<Scenario>, Refused> {
        if let Some(seed) = self.scenario {
            return Ok(Some(draw(seed)));
        }
        let Some(path) = &self.from else { return Ok(None) };
        let refused = |error: &dyn std::fmt::Display| Refused::failed(format!("{}: {error}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| refused(&error))?;
        Scenario::from_json(&text).map(Some).map_err(|error| refused(&error))
    }

    /// Time to shrink a failing scenario.
    ///
    /// A scenario from a file is played as it is.
    fn shrink_for(&self) -> Duration {
        if self.from.is_some() { Duration::ZERO } else { Duration::from_secs(20) }
    }

    fn hunt(&self) -> Report {
        let available = || std::thread::available_parallelism().map_or(1, NonZero::get);
        let hunt = Hunt {
            seed: self.seed,
            time: Duration::from_secs(u64::from(self.seconds)),
            threads: self.threads.map_or_else(available, |threads| threads as usize),
            sabotage: self.sabotage.map(Sabotage::of_world),
            failures_max: self.failures as usize,
        };
        let style = ProgressStyle::with_template("{elapsed_precise} {msg}");
        let bar = ProgressBar::new_spinner();
        bar.set_style(style.expect("invariant: the template is well-formed"));
        let report = hunt.run(|tally, failures| bar.set_message(progress(tally, failures)));
        bar.finish_and_clear();
        report
    }

    fn show(&self, report: &Report, style: Style) {
        for failure in &report.failures {
            print(described(failure, &self.again(failure), style));
        }
        let commit = report.commit.map_or_else(String::new, |commit| format!(" ({commit})"));
        let of = format!("treefold {}{commit}, seeds from {}", report.version, report.seed);
        print(format_args!(
            "{}, in {:.1} s; {of}",
            progress(&report.tally, report.failures.len()),
            report.seconds
        ));
        let faults = report.tally.faults.iter().map(|(kind, count)| format!("{kind} {count}"));
        print(format_args!("faults: {}", faults.collect::<Vec<_>>().join(", ")));
    }

    /// Returns the command that reproduces the failure.
    fn again(&self, failure: &Failure) -> String {
        let mut again = match &self.from {
            Some(path) => format!("treefold sim explore --from {}", path.display()),
            None => format!("treefold sim explore --scenario {}", failure.seed),
        };
        if let Some(sabotage) = self.sabotage.and_then(|sabotage| sabotage.to_possible_value()) {
            again = format!("{again} --sabotage {}", sabotage.get_name());
        }
        again
    }
}

fn progress(tally: &Tally, failures: usize) -> String {
    let faults: u64 = tally.faults.values().sum();
    let Tally { scenarios, calls, pushes, stream_waves, mirrored, simulated_s, .. } = tally;
    format!(
        "{scenarios} scenarios, {calls} calls, {pushes} pushes, {stream_waves} waves of streams, \
         {mirrored} mirrored events, {faults} faults, {simulated_s:.0} s simulated, {failures} failures"
    )
}

fn described(failure: &Failure, again: &str, style: Style) -> String {
    let violation = &failure.violation;
    let place = violation.place.map_or_else(String::new, |place| format!(" at place {place}"));
    let call = violation.call.map_or_else(String::new, |call| format!(", call {call}"));
    let stream = violation.stream.map_or_else(String::new, |stream| format!(", stream {stream}"));
    let mut text = String::new();
    let written = "invariant: writing to a String can't fail";
    failure.timeline.iter().for_each(|line| writeln!(text, "{line}").expect(written));
    let name = style.bad(&violation.invariant);
    writeln!(text, "{name} after {} µs{place}{call}{stream}: {}", violation.at_us, violation.what)
        .expect(written);
    let scenario = serde_json::to_string(&failure.scenario).expect("invariant: a scenario is plain values");
    writeln!(text, "{scenario}").expect(written);
    writeln!(text, "again: {again}").expect(written);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_prints_the_command_that_reproduces_it() {
        let report = replay(&draw(2), Some(world::Sabotage::CountTwice), Duration::ZERO, LINES);
        let failure = report.failures.first().expect("the hundredth fold is wrong");
        let again = |line: &[&str]| {
            let explore = Explore::augment_args(clap::Command::new("explore")).get_matches_from(line);
            let explore = <Explore as clap::FromArgMatches>::from_arg_matches(&explore).expect("as declared");
            let text = described(failure, &explore.again(failure), Style::PLAIN);
            assert!(text.contains("counted_once after "), "{text}");
            text.lines().last().unwrap_or_default().to_owned()
        };
        assert_eq!(again(&["explore"]), "again: treefold sim explore --scenario 2");
        assert_eq!(
            again(&["explore", "--from", "failed.json", "--sabotage", "count-twice"]),
            "again: treefold sim explore --from failed.json --sabotage count-twice"
        );
    }
}
