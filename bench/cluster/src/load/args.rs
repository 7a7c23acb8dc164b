//! Parameters of a load.

use clap::Args;
use std::time::Duration;
use treefold::CallError;
use treefold_cli::parse;

/// Largest number of rounds.
const ROUNDS_MAX: i64 = 1000;

/// Largest rate, in calls per second, that one caller can pace.
const RATE_PER_S_MAX: f64 = 10_000.0;

/// Largest load; higher overload shows nothing new.
const LOAD_MAX: f64 = 10.0;

/// Number of larger nodes in a heterogeneous cluster, and number of their processors (DAC §5.3).
pub(crate) const LARGE_NODES: u32 = 4;
const LARGE_PROCESSORS: u32 = 4;

/// The calls of each shape.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Rates, in calls per second, separated by commas
    #[arg(long, value_name = "R", value_delimiter = ',', value_parser = rate)]
    rate: Vec<f64>,

    /// Loads instead of rates: shares of the largest rate that the processors could serve, n·k/(n·s+(n−1)·r)
    #[arg(long, value_name = "SHARE", value_delimiter = ',', conflicts_with = "rate", value_parser = load)]
    load: Vec<f64>,

    /// Duration of the measurement of each point, per round, in seconds
    #[arg(long, value_name = "S", default_value_t = 30.0, value_parser = parse::seconds)]
    pub(crate) seconds: f64,

    /// Time that calls are made before they are measured, in seconds
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = parse::warm_up)]
    pub(crate) warm_up: f64,

    /// Number of rounds in which each point is measured; shapes take turns
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=ROUNDS_MAX))]
    pub(crate) rounds: u32,

    /// Deadline of each call, with its unit
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse::deadline)]
    pub(crate) deadline: Duration,

    /// Seed of everything that is drawn
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Print comma-separated values instead of a table
    #[arg(long)]
    pub(crate) csv: bool,
}

impl LoadArgs {
    /// Returns the duration of one trial in seconds.
    pub(crate) fn trial_s(&self) -> f64 {
        self.warm_up + self.seconds
    }

    /// Returns the rates, of which `ideal_per_s` is the load 1; `None` if neither rates nor loads were given.
    pub(crate) fn rates_per_s(&self, ideal_per_s: f64) -> Option<Vec<f64>> {
        match (&self.rate[..], &self.load[..]) {
            ([], []) => None,
            ([], loads) => Some(loads.iter().map(|load| load * ideal_per_s).collect()),
            (rates, _) => Some(rates.to_vec()),
        }
    }
}

/// Returns the number of processors of each of `nodes` nodes: the last ones of a heterogeneous cluster have more.
pub(crate) fn processors_of(nodes: u32, usual: u32, is_heterogeneous: bool) -> Vec<u32> {
    let is_large = |node: u32| is_heterogeneous && node + LARGE_NODES >= nodes;
    (0..nodes).map(|node| if is_large(node) { LARGE_PROCESSORS } else { usual }).collect()
}

/// Returns the calls per second at which all `processors` would always be busy.
///
/// A call is n locals and n−1 reductions (DAC §5.6, footnote 5).
pub(crate) fn ideal_per_s(processors: &[u32], local_ms: f64, reduce_ms: f64) -> f64 {
    let n = processors.len() as f64;
    f64::from(processors.iter().sum::<u32>()) * 1e3 / (n * local_ms + (n - 1.0) * reduce_ms)
}

fn rate(text: &str) -> Result<f64, CallError> {
    let rate = text.parse::<f64>().ok().filter(|rate| *rate > 0.0 && *rate <= RATE_PER_S_MAX);
    rate.ok_or_else(|| {
        CallError::bad_field("rate", text, format_args!("above 0, at most {RATE_PER_S_MAX} calls/s"))
    })
}

fn load(text: &str) -> Result<f64, CallError> {
    let load = text.parse::<f64>().ok().filter(|load| *load > 0.0 && *load <= LOAD_MAX);
    load.ok_or_else(|| {
        CallError::bad_field("load", text, format_args!("above 0, at most {LOAD_MAX}; 1 is the ideal"))
    })
}
