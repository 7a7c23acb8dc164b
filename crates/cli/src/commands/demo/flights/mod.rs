//! `treefold demo --flights`: a feed of flights over real processes, and a board that reads it while they die.
//!
//! ```text
//!                    ┌── News ── stage ── kill, stop, start ──▶ mirrors 0 to 2, origin   (a process each)
//!  keys ─▶ Board ◀───┼── News ── source ── events, acknowledgements ──▶ origin, over TCP
//!            │       ├── News ── reader ◀── snapshot, events ── one of the mirrors       (a thread)
//!            ▼       └── News ── storm ◀── snapshots ── all mirrors                      (a thread)
//!          view
//! ```
//!
//! - [`stage`]: owns the processes; [`origin`]: that of the origin. They end no later than this process.
//! - [`source`]: generates flights, sends them, and repeats those that are not acknowledged. [`values`]: the last values
//!   that it expects of each flight.
//! - [`reader`]: the board's reader; [`storm`]: many readers at once.
//! - [`board`]: the state, which takes news and actions; it has no clock and no terminal. [`mod@tally`]: the figures of
//!   its reader. [`view`] draws it, [`keys`] are its keys.
//! - [`live`]: the loop on a terminal; [`script`]: the same scenario without one.

mod board;
mod keys;
mod live;
mod news;
mod origin;
mod reader;
mod script;
mod source;
mod stage;
mod storm;
mod tally;
mod values;
mod view;

use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::Args;
use std::io::IsTerminal;
use std::time::Duration;

/// The feed.
const FEED: &str = "flights";
/// Number of mirrors.
const MIRRORS: usize = 3;
/// Time that a killed origin stays away, as if a supervisor started it again.
const ORIGIN_RETURNS_AFTER: Duration = Duration::from_secs(2);
/// Positions of a flight between departure and landing, so that phases change while one looks.
const POSITIONS: u32 = 60;
/// Shortest and longest scripted run.
const SECONDS: std::ops::RangeInclusive<u64> = 5..=3_600;
/// Length of the scripted run, if none is given.
const SECONDS_DEFAULT: u64 = 10;

/// The rules of the mirroring paper: overwrite, sequence and tuple.
const RULES: &str = r#"
[[rule]]
name = "positions"
active = "normal"
overwrite = { type = "position", run = 10, max_age_ms = 1000 }

[[rule]]
name = "fewer-positions"
active = "loaded"
overwrite = { type = "position", run = 40, max_age_ms = 4000 }

[[rule]]
name = "landed"
[rule.sequence]
after = { type = "status", field = "status", equals = "landed" }
discard = "position"
until = { type = "status", field = "status", equals = "departed" }

[[rule]]
name = "arrived"
[rule.tuple]
of = [
    { type = "status", field = "status", equals = "landed" },
    { type = "status", field = "status", equals = "at runway" },
    { type = "status", field = "status", equals = "at gate" },
]
within_ms = 600000
becomes = "arrived"
fields = { status = "arrived" }

[adapt]
ready_queue = { primary = 5000, secondary = 4000 }

[checkpoint]
every_events = 25
"#;

/// The flags of the demo of mirrors.
#[derive(Clone, Debug, Args)]
pub(super) struct FlightsDemo {
    /// Show a board of flights over three mirrors and an origin that you can kill, instead of searching files
    #[arg(long, conflicts_with_all = ["path", "query", "gateway", "data_dir", "limit_files"])]
    flights: bool,

    /// With --flights: run a scripted scenario for N seconds instead of the board
    #[arg(long, value_name = "N", requires = "flights", value_parser = clap::value_parser!(u64).range(*SECONDS.start()..=*SECONDS.end()))]
    seconds: Option<u64>,

    /// With --flights: events per second
    #[arg(long, value_name = "N", requires = "flights", default_value_t = 400, value_parser = clap::value_parser!(u32).range(10..=20_000))]
    rate: u32,

    /// With --flights: number of flights
    #[arg(long, value_name = "N", requires = "flights", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    aircraft: u32,
}

impl FlightsDemo {
    pub(super) fn is_wanted(&self) -> bool {
        self.flights
    }

    pub(super) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let is_scripted =
            self.seconds.is_some() || format == Format::Json || !std::io::stdout().is_terminal();
        let flights = treefold_flights::Options {
            flights: self.aircraft,
            positions: POSITIONS,
            per_second: f64::from(self.rate),
            ..treefold_flights::Options::default()
        };
        if is_scripted {
            let seconds = Duration::from_secs(self.seconds.unwrap_or(SECONDS_DEFAULT));
            script::run(flights, seconds, format).await
        } else {
            live::run(flights).await
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn rules_are_valid() {
        treefold_mirror::rules::RuleFile::read(super::RULES).unwrap();
    }
}
