//! `bench-mirrors overhead` and `bench-mirrors requests`: the experiments of the mirroring paper, as real processes.
//!
//! The source has business logic, as the paper's central site: it applies each event to a state of its own, and works for a given
//! time. Then it gives the event to the origin. The overhead of mirroring is that of the source's processor time, because on one
//! machine mirrors also take processors from the source, and of the total time.

use crate::Problem;
use crate::joins::{Rounds, rounds};
use crate::report::Row;
use crate::system::{Base, System};
use crate::trial::{Load, Plan, Stage};
use crate::work::Work;
use clap::Args;
use serde::Deserialize;

/// Measure what mirroring adds to a source with business logic, by mirrors and size of events
#[derive(Debug, Args)]
pub(crate) struct OverheadArgs {
    /// Numbers of mirrors; 0 is the source alone
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 2, 4, 8])]
    mirrors: Vec<u32>,
    /// Bytes of an event's body
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 8_000])]
    bytes: Vec<usize>,
    /// Number of keys; the paper has 50 flights
    #[arg(long, default_value_t = 50)]
    keys: u32,
    #[command(flatten)]
    load: Business,
    #[command(flatten)]
    rounds: Rounds,
}

/// Events and business logic.
#[derive(Clone, Copy, Debug, Args)]
struct Business {
    /// Events of one measurement
    #[arg(long, default_value_t = 100_000)]
    events: u64,
    /// Time of business logic for an event, in microseconds
    #[arg(long, default_value_t = 10.0)]
    work_us: f64,
}

/// Measure total time and update delay under requests: simple, selective, and selective with half the checkpoints
#[derive(Debug, Args)]
pub(crate) struct RequestsArgs {
    /// Requests (joins) per second
    #[arg(long, value_delimiter = ',', default_value = "0,40,100")]
    requests: Vec<f64>,
    #[arg(long, default_value_t = 2)]
    mirrors: u32,
    #[arg(long, default_value_t = 50)]
    keys: u32,
    #[arg(long, default_value_t = 1_000)]
    bytes: usize,
    /// Events per second, for the update delay
    #[arg(long, default_value_t = 5_000.0)]
    rate: f64,
    #[command(flatten)]
    load: Business,
    #[command(flatten)]
    rounds: Rounds,
}

#[derive(Deserialize)]
struct Counted {
    seconds: f64,
    cpu_seconds: f64,
}

fn system(has_rules: bool) -> System {
    System { base: Base::TreefoldHttp, has_rules }
}

fn function(has_rules: bool) -> String {
    if has_rules { "selective" } else { "simple" }.to_owned()
}

impl Business {
    fn words(self) -> Vec<String> {
        vec!["--work-us".to_owned(), self.work_us.to_string()]
    }

    /// Runs the events through a stage. Returns seconds, and the source's processor time of an event in microseconds.
    fn run(self, stage: &mut Stage) -> Result<(f64, f64), Problem> {
        let counted: Counted = stage.source.ask(&format!("count {}", self.events))?;
        Ok((counted.seconds, counted.cpu_seconds * 1e6 / self.events as f64))
    }
}

pub(crate) fn run_overhead(args: &OverheadArgs) -> Result<(), Problem> {
    let mut cases = Vec::new();
    for &bytes in &args.bytes {
        for &mirrors in &args.mirrors {
            cases.push((bytes, mirrors, false));
            if mirrors > 0 {
                cases.push((bytes, mirrors, true));
            }
        }
    }
    rounds(&cases, &args.rounds, |&(bytes, mirrors, has_rules)| {
        let plan = Plan {
            mirrors,
            source_words: args.load.words(),
            ..Plan::new(system(has_rules), Work { keys: args.keys, bytes })
        };
        let (seconds, cpu_us) = args.load.run(&mut Stage::start(&plan)?)?;
        Ok(vec![Row {
            case: vec![
                ("bytes", bytes.to_string()),
                ("mirrors", mirrors.to_string()),
                ("function", function(has_rules)),
            ],
            figures: vec![("seconds", seconds), ("source_cpu_us", cpu_us)],
        }])
    })
}

pub(crate) fn run_requests(args: &RequestsArgs) -> Result<(), Problem> {
    // The default is a checkpoint after 50 events.
    let modes = [("simple", false, None), ("selective", true, None), ("selective, half", true, Some(100))];
    let cases: Vec<_> = args.requests.iter().flat_map(|&requests| modes.map(|mode| (requests, mode))).collect();
    rounds(&cases, &args.rounds, |&(requests, (name, has_rules, every_events))| {
        let plan = Plan {
            mirrors: args.mirrors,
            readers: 1,
            has_joiner: true,
            every_events,
            source_words: args.load.words(),
            ..Plan::new(system(has_rules), Work { keys: args.keys, bytes: args.bytes })
        };
        let mut stage = Stage::start(&plan)?;
        stage.join(Some(requests))?;
        let (seconds, cpu_us) = args.load.run(&mut stage)?;
        stage.end()?;
        let point = stage.measure(Load { rate: Some(args.rate), joins: Some(requests) }, args.rounds.seconds)?;
        Ok(vec![Row {
            case: vec![("requests", requests.to_string()), ("function", name.to_owned())],
            figures: vec![
                ("seconds", seconds),
                ("source_cpu_us", cpu_us),
                ("delay_p50_us", point.delay_p50_us),
                ("delay_p99_us", point.delay_p99_us),
                ("delay_mean_us", point.delay_mean_us),
                ("request_ms_p50", point.join_ms_p50),
                ("requests_per_s", point.joins_per_s),
            ],
        }])
    })
}
