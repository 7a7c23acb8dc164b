//! `bench-cluster tool metrics`: streams of metric samples at increasing rates (MRNet §3.2, §4.2.2, figure
//! 9).
//!
//! Every daemon sends a number of samples per second with a number of metrics each, over intervals of its own
//! clock. The samples are aligned to common intervals and summed. The figure is the paper's: the share of the
//! offered samples that the front-end processed.

use super::backends::{Backends, Cost};
use super::scale::Scale;
use super::trial::{Outcome, Trial};
use super::{median, print_rows};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use treefold::Shape;
use treefold::operators::filter::time_aligned::METRICS_MAX;
use treefold_cli::exit::{Failure, Verdict};
use treefold_cli::output::Format;
use treefold_cli::output::style::Style;
use treefold_cli::output::table::{Align, Table};
use treefold_cli::parse;

/// Largest rate in samples per second.
///
/// Timers of a millisecond cannot measure more.
const RATE_PER_S_MAX: f64 = 1_000.0;

/// Duration of the measurement of the network without samples.
const IDLE: Duration = Duration::from_secs(2);

/// Pause between two trials, so that remains of one trial are not load of the next.
const REST: Duration = Duration::from_millis(500);

/// Measure the share of the daemons' metric samples that a front-end can process
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct BenchMetrics {
    #[command(flatten)]
    scale: Scale,

    /// Number of metrics in a sample
    #[arg(long, value_name = "M", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=i64::from(METRICS_MAX)))]
    metrics: u32,

    /// Rate of each daemon in samples per second; several, separated by commas, are measured in turn
    #[arg(long, value_name = "R", default_value = "5", value_parser = parse::figures)]
    rate: Arc<[f64]>,

    /// Duration of the measurement of each rate, in seconds
    #[arg(long, value_name = "S", default_value_t = 20.0, value_parser = parse::seconds)]
    seconds: f64,

    /// Time that samples flow before the measurement, in seconds
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = parse::warm_up)]
    warm_up: f64,

    /// Time after the measurement for which the last intervals are awaited, with its unit
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse::duration)]
    patience: Duration,

    /// Number of repetitions of each trial, shapes in turn; medians are shown
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
}

const EXAMPLES: &str = "\
Every interval's sums are checked against the values that the daemons sent. A sample counts as processed if its
interval has reached the front-end, summed over all daemons, no later than --patience after the measured time. A
daemon whose samples are not taken waits and sends them late; it leaves out none. flat has no filters: the front-end
gets every sample of every daemon and aligns them itself. With -o json, an array with an entry for each rate and
shape:
  {backends, processes, shape, metrics, rate_per_s, seconds, runs, offered_per_s, processed_share, lag_ms_p50,
   lag_ms_p99, front_cpu_percent, cpu_percent, idle_cpu_percent, machine_busy}
offered_per_s counts samples of one metric. The lag is from an interval's end to its arrival. Processor time is in
percent of one processor; cpu_percent is that of all processes, emulation included; idle_cpu_percent is the same
while nothing is sent. machine_busy is the busy share of this machine's processors, with any load.

Examples:
  bench-cluster tool metrics --backends 256 --shape flat,kary:4,kary:8,kary:16
  bench-cluster tool metrics --backends 64 --rate 5,50,200,500 --seconds 5 -o json";

/// Figures of one rate and one shape.
#[derive(Serialize)]
struct Figures {
    backends: u32,
    processes: u32,
    shape: String,
    metrics: u32,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    rate_per_s: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    seconds: f64,
    runs: u32,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    offered_per_s: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    processed_share: f64,
    /// `None` if no interval came.
    lag_ms_p50: Option<f64>,
    lag_ms_p99: Option<f64>,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    front_cpu_percent: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    cpu_percent: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    idle_cpu_percent: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    machine_busy: f64,
}

impl BenchMetrics {
    pub(super) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        if let Some(rate) = self.rate.iter().find(|&&rate| rate <= 0.0 || rate > RATE_PER_S_MAX) {
            let said = format!("--rate is {rate}; allowed: above 0, at most {RATE_PER_S_MAX}");
            return Err(Failure::usage(said));
        }
        let figures = Backends::during(&self.scale, async |backends| self.measure(backends).await).await?;
        print_rows(format, &figures, render);
        Ok(Verdict::Full)
    }

    async fn measure(&self, backends: &Backends) -> Result<Vec<Figures>, Failure> {
        let idle_percent = idle_cpu_percent(backends).await?;
        let shapes = self.scale.shape.iter();
        let mut cells: Vec<(f64, Shape, Vec<Outcome>)> =
            shapes.flat_map(|&shape| self.rate.iter().map(move |&rate| (rate, shape, Vec::new()))).collect();
        cells.sort_by(|a, b| a.0.total_cmp(&b.0)); // stable: shapes stay in their order
        let bar = progress(cells.len() as f64 * f64::from(self.runs) * (self.warm_up + self.seconds));
        for _ in 0..self.runs {
            for (rate_per_s, shape, outcomes) in &mut cells {
                bar.set_message(format!("{shape} at {rate_per_s} samples/s"));
                let trial = Trial {
                    shape: *shape,
                    seed: self.scale.seed,
                    metrics: self.metrics,
                    period_ns: (1e9 / *rate_per_s).round() as u64,
                    warm_up_s: self.warm_up,
                    measured_s: self.seconds,
                    patience: self.patience,
                };
                outcomes.push(trial.run(backends).await?);
                bar.inc(((self.warm_up + self.seconds) * 1e3) as u64);
                tokio::time::sleep(REST).await;
            }
        }
        bar.finish_and_clear();
        let figures = |(rate, shape, outcomes): &(f64, Shape, Vec<Outcome>)| {
            self.figures(backends, idle_percent, *rate, *shape, outcomes)
        };
        Ok(cells.iter().map(figures).collect())
    }

    fn figures(
        &self,
        backends: &Backends,
        idle_cpu_percent: f64,
        rate_per_s: f64,
        shape: Shape,
        outcomes: &[Outcome],
    ) -> Figures {
        let of_all = |figure: &dyn Fn(&Outcome) -> f64| median(outcomes.iter().map(figure).collect());
        let lag = |share: f64| {
            let lags: Vec<f64> = outcomes.iter().filter_map(|outcome| outcome.lag_ms(share)).collect();
            (lags.len() == outcomes.len()).then(|| (median(lags) * 1e3).round() / 1e3)
        };
        Figures {
            backends: backends.count(),
            processes: backends.processes,
            shape: shape.to_string(),
            metrics: self.metrics,
            rate_per_s,
            seconds: self.seconds,
            runs: self.runs,
            offered_per_s: rate_per_s * f64::from(backends.count()) * f64::from(self.metrics),
            processed_share: of_all(&|outcome| outcome.processed_share),
            lag_ms_p50: lag(0.50),
            lag_ms_p99: lag(0.99),
            front_cpu_percent: of_all(&|outcome| percent(outcome.cost.front, outcome.elapsed)),
            cpu_percent: of_all(&|outcome| percent(outcome.cost.all, outcome.elapsed)),
            idle_cpu_percent,
            machine_busy: of_all(&|outcome| outcome.machine_busy),
        }
    }
}

async fn idle_cpu_percent(backends: &Backends) -> Result<f64, Failure> {
    tokio::time::sleep(REST).await;
    let before: Cost = backends.cost()?;
    tokio::time::sleep(IDLE).await;
    Ok(percent(backends.cost()?.since(before).all, IDLE))
}

fn percent(cpu: Duration, elapsed: Duration) -> f64 {
    100.0 * cpu.as_secs_f64() / elapsed.as_secs_f64()
}

fn render(figures: &[Figures]) -> String {
    let right = |heading| (heading, Align::Right);
    let mut table = Table::new(&[
        ("shape", Align::Left),
        right("samples/s"),
        right("offered/s"),
        right("processed"),
        right("lag p50 ms"),
        right("p99 ms"),
        right("front-end CPU %"),
        right("all CPU %"),
        right("machine busy %"),
    ]);
    for figures in figures {
        let lag = |lag: Option<f64>| lag.map_or_else(|| "–".to_owned(), |lag| format!("{lag:.1}"));
        table.row(vec![
            figures.shape.clone(),
            figures.rate_per_s.to_string(),
            format!("{:.0}", figures.offered_per_s),
            format!("{:.3}", figures.processed_share),
            lag(figures.lag_ms_p50),
            lag(figures.lag_ms_p99),
            format!("{:.1}", figures.front_cpu_percent),
            format!("{:.1}", figures.cpu_percent),
            format!("{:.0}", 100.0 * figures.machine_busy),
        ]);
    }
    let Some(first) = figures.first() else { return String::new() };
    let Figures { backends, processes, metrics, idle_cpu_percent, .. } = first;
    let head = format!("{backends} daemons in {processes} processes, {metrics} metrics a sample");
    format!("{head}; idle: {idle_cpu_percent:.1} % CPU\n{}", table.render(Style::of_stdout()))
}

/// Makes a bar that counts the remaining milliseconds of measuring.
fn progress(seconds: f64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {eta}");
    let bar = ProgressBar::new((seconds * 1e3) as u64);
    bar.with_style(style.expect("invariant: the template is well-formed"))
}
