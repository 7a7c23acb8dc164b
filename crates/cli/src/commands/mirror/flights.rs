//! `treefold mirror flights`: writes a trace of an airline's event streams.

use crate::exit::{Failure, Verdict};
use clap::Args;
use std::io::{BufWriter, ErrorKind, Write};
use treefold_flights::{Flights, Options};
use treefold_mirror::event::write_json;

/// Write a trace of an airline's event streams: positions of flights, and their status
///
/// Equal flags give equal traces. Positions are stream faa, events of the airline stream airline.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FlightsArgs {
    /// Number of events
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    events: u64,

    /// Number of flights
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    flights: u32,

    /// Positions of a flight between departure and landing
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    positions: u32,

    /// Bytes of opaque body of each position
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_048_576))]
    body: u32,

    /// Events per second
    #[arg(long, value_name = "RATE", default_value = "1000", value_parser = crate::parse::positive)]
    per_second: f64,

    /// Seed of everything random
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

const EXAMPLES: &str = "\
Examples:
  treefold mirror flights --events 100000 > flights.jsonl
  treefold mirror flights --events 1000 --flights 6000 --body 1024 | head -2";

impl FlightsArgs {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        let options = Options {
            flights: self.flights,
            positions: self.positions,
            body_bytes: self.body as usize,
            per_second: self.per_second,
            seed: self.seed,
        };
        let mut out = BufWriter::new(std::io::stdout().lock());
        let events = usize::try_from(self.events).unwrap_or(usize::MAX);
        let mut line = Vec::new();
        let written = Flights::new(options).take(events).try_for_each(|timed| {
            line.clear();
            write!(line, "{{\"at_ms\":{},", timed.at_ms)?;
            let members = line.len();
            write_json(&timed.event, &mut line);
            // The event's own brace gives way to the time's.
            line.remove(members);
            line.push(b'\n');
            out.write_all(&line)
        });
        match written.and_then(|()| out.flush()) {
            // A reader that has enough, as `head`, ends the trace without an error.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::failed(format!("can't write to standard output: {error}")))
            }
            _ => Ok(Verdict::Full),
        }
    }
}
