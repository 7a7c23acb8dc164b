//! `bench-cluster tool skew`: the error of measured clocks (MRNet §3.1, §4.2.1).
//!
//! The true skews are known, because the benchmark injects them. The clocks of the daemons and of the inner
//! nodes are each off and drift by drawn amounts. Between each daemon and its node a drawn delay is added to
//! every packet, both ways. The delays of inner hops are the machine's own.

use super::backends::Backends;
use super::clocks::{self, Estimate};
use super::print_rows;
use super::scale::Scale;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::time::{Duration, Instant};
use treefold_cli::exit::{Failure, Verdict};
use treefold_cli::output::Format;
use treefold_cli::output::style::Style;
use treefold_cli::output::table::{Align, Table};
use treefold_cli::parse;
use treefold_cli::serve::daemon::now_ns;
use treefold_daemon::{Clock, Injected};

/// Measure the error of measured clocks, with the filter over trees and directly
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct BenchSkew {
    #[command(flatten)]
    scale: Scale,

    /// Largest injected skew of a clock, either way, with its unit
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = parse::duration)]
    skew: Duration,

    /// Largest injected drift of a clock, either way, in µs per second (ppm)
    #[arg(long, value_name = "PPM", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    drift: u32,

    /// Mean injected delay between a daemon and its node, each way, exponentially distributed, with its unit
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = parse::duration)]
    delay: Duration,

    /// Number of rounds of each method
    #[arg(long, value_name = "R", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    rounds: u32,
}

const EXAMPLES: &str = "\
Measures with the filter clock-skew for each shape, hop by hop, all daemons at once; and directly, one daemon after
the other, once with the round of the least delay and once with the round of the least skew, as in the paper. Delays
are sleeps with timers of a millisecond. With -o json, an array with an entry for each:
  {method, backends, processes, rounds, skew_us, drift_ppm, delay_us, elapsed_ms, error_us_mean, error_us_max,
   bound_us_mean, within_bound}
error is the distance from the true skew, bound is the largest error that the method reports, within_bound is the
share of daemons whose error is within the bound.

Examples:
  bench-cluster tool skew --backends 64 --per-process 4 --shape kary:4,kary:8
  bench-cluster tool skew --backends 64 --delay 0ms --rounds 100 -o json";

#[derive(Serialize)]
struct Figures {
    method: String,
    backends: u32,
    processes: u32,
    rounds: u32,
    skew_us: u32,
    drift_ppm: u32,
    delay_us: u32,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    elapsed_ms: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    error_us_mean: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    error_us_max: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    bound_us_mean: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    within_bound: f64,
}

/// Picks one of several estimates of one clock.
type Pick = fn(&[Estimate]) -> Estimate;

impl BenchSkew {
    pub(super) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let injected = Injected {
            seed: self.scale.seed,
            skew_us_max: us("skew", self.skew)?,
            drift_ppm_max: self.drift,
            delay_us_mean: us("delay", self.delay)?,
            since_ns: now_ns(),
        };
        let figures =
            Backends::during(&self.scale, async |backends| self.measure(backends, &injected).await).await?;
        print_rows(format, &figures, render);
        Ok(Verdict::Full)
    }

    async fn measure(&self, backends: &Backends, injected: &Injected) -> Result<Vec<Figures>, Failure> {
        let (count, rounds) = (backends.count(), self.rounds);
        let bar = progress(self.scale.shape.len() as u64 + u64::from(count));
        let mut all = Vec::new();
        for &shape in &self.scale.shape {
            bar.set_message(shape.to_string());
            let began_at = Instant::now();
            let mut stream = clocks::open_filtered(backends, shape, injected).await?;
            let estimates = clocks::by_filter(&mut stream, count, rounds).await?;
            let elapsed = began_at.elapsed();
            all.push(self.figures(backends, injected, format!("filter, {shape}"), elapsed, &estimates));
            bar.inc(1);
        }
        bar.set_message("directly");
        let began_at = Instant::now();
        let mut stream = clocks::open_plain(backends, injected).await?;
        let measured = clocks::directly(&mut stream, count, rounds, || bar.inc(1)).await?;
        let elapsed = began_at.elapsed();
        bar.finish_and_clear();
        let picks: [(&str, Pick); 2] =
            [("direct, least delay", clocks::least_delayed), ("direct, least skew", clocks::nearest_zero)];
        for (name, pick) in picks {
            let estimates: Vec<Estimate> = measured.iter().map(|rounds| pick(rounds)).collect();
            all.push(self.figures(backends, injected, name.to_owned(), elapsed, &estimates));
        }
        Ok(all)
    }

    fn figures(
        &self,
        backends: &Backends,
        injected: &Injected,
        method: String,
        elapsed: Duration,
        estimates: &[Estimate],
    ) -> Figures {
        let error_ns = |(endpoint, estimate): (usize, &Estimate)| {
            let truth_ns = Clock::of_daemon(injected, endpoint as u32).ahead_ns(estimate.at_ns);
            estimate.skew_ns.abs_diff(truth_ns)
        };
        let errors_ns: Vec<u64> = estimates.iter().enumerate().map(error_ns).collect();
        let within = errors_ns.iter().zip(estimates).filter(|&(&error, of)| error <= of.bound_ns).count();
        let mean_us =
            |ns: &mut dyn Iterator<Item = u64>| ns.sum::<u64>() as f64 / estimates.len() as f64 / 1e3;
        Figures {
            method,
            backends: backends.count(),
            processes: backends.processes,
            rounds: self.rounds,
            skew_us: injected.skew_us_max,
            drift_ppm: injected.drift_ppm_max,
            delay_us: injected.delay_us_mean,
            elapsed_ms: elapsed.as_secs_f64() * 1e3,
            error_us_mean: mean_us(&mut errors_ns.iter().copied()),
            error_us_max: errors_ns.iter().copied().max().unwrap_or(0) as f64 / 1e3,
            bound_us_mean: mean_us(&mut estimates.iter().map(|estimate| estimate.bound_ns)),
            within_bound: within as f64 / estimates.len() as f64,
        }
    }
}

/// Converts a duration to whole µs. 32 bits hold more than an hour.
fn us(flag: &str, duration: Duration) -> Result<u32, Failure> {
    let us = u32::try_from(duration.as_micros());
    us.map_err(|_| {
        Failure::usage(format!("--{flag} is too large; allowed: at most {} s", u32::MAX / 1_000_000))
    })
}

fn render(figures: &[Figures]) -> String {
    let right = |heading| (heading, Align::Right);
    let mut table = Table::new(&[
        ("method", Align::Left),
        right("ms"),
        right("mean error µs"),
        right("max µs"),
        right("mean bound µs"),
        right("within bound"),
    ]);
    for figures in figures {
        table.row(vec![
            figures.method.clone(),
            format!("{:.0}", figures.elapsed_ms),
            format!("{:.1}", figures.error_us_mean),
            format!("{:.1}", figures.error_us_max),
            format!("{:.1}", figures.bound_us_mean),
            format!("{:.3}", figures.within_bound),
        ]);
    }
    let Some(first) = figures.first() else { return String::new() };
    let Figures { backends, processes, rounds, skew_us, drift_ppm, delay_us, .. } = first;
    format!(
        "{backends} daemons in {processes} processes, {rounds} rounds; clocks off by ±{skew_us} µs ±{drift_ppm} ppm, \
         delays of {delay_us} µs\n{}",
        table.render(Style::of_stdout())
    )
}

fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar}");
    ProgressBar::new(steps).with_style(style.expect("invariant: the template is well-formed"))
}
