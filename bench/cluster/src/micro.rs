//! `bench-cluster micro`: the DAC paper's experiments (§5.3 to §5.6) with real nodes on emulated processors.
//!
//! Every node is a process; sockets, trees, queues, load figures and deadlines are real. Only the work is
//! emulated: a job takes one of its node's k emulated processors for a drawn time (`micro/emulated`), so that
//! a machine of two processors can run twenty-four nodes of two processors each. Calls arrive as a Poisson
//! process whether or not earlier calls have been answered. Response time counts from the *planned* instant
//! of a call ([`pace`]), so that a stall of the system cannot slow down the measurement itself.
//!
//! Shapes are compared on the same arrivals with the same costs, one right after the other, in a given number
//! of rounds, so that other load of the machine affects all of them alike. Every answer is checked. The error
//! of the emulation is measured as well: how late jobs ended, how late calls were sent, and how busy the
//! machine was ([`point`]).
//!
//! - [`args`]: the parameters, and which combinations are valid.
//! - [`pace`]: when calls are made.
//! - [`slowing`]: nodes that are slow for a while.
//! - [`trial`]: one cluster under one load: makes the calls, checks the answers.
//! - [`point`]: from calls to figures, and how these are printed.

mod args;
mod pace;
mod point;
mod slowing;
mod trial;

pub(crate) use args::BenchMicro;

use indicatif::{ProgressBar, ProgressStyle};
use point::{Cell, Point};
use std::time::Duration;
use tokio::task::LocalSet;
use treefold::Client;
use treefold_cli::commands::bench::fleet::{Fleet, Placement};
use treefold_cli::commands::connect;
use treefold_cli::exit::{Failure, Verdict};
use treefold_cli::output::{Format, print, print_json};
use trial::{Caller, Trial};

/// Pause between two trials, so that remains of one trial are not load of the next.
const REST: Duration = Duration::from_millis(500);

impl BenchMicro {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        self.check()?;
        let points = LocalSet::new().run_until(self.measure()).await?;
        match format {
            Format::Json => print_json(&points),
            Format::Text if self.csv => print(point::csv(&points)),
            Format::Text => print(point::table(&points)),
        }
        Ok(Verdict::Full)
    }

    /// Measures one cluster after the other, by size.
    async fn measure(&self) -> Result<Vec<Point>, Failure> {
        let mut points = Vec::new();
        for &nodes in &self.nodes {
            let processors = self.processors_of(nodes);
            let fleet = Fleet::start_with(Placement::one_each(nodes), processors).await?;
            let measured = self.measure_fleet(&fleet, nodes).await;
            fleet.end().await;
            points.extend(measured?);
        }
        Ok(points)
    }

    /// Measures all loads and shapes on one cluster, in rounds.
    async fn measure_fleet(&self, fleet: &Fleet, nodes: u32) -> Result<Vec<Point>, Failure> {
        fleet.meet().await?;
        let mut callers = Vec::new();
        for client in self.connect_fronts(fleet).await? {
            let caller = Caller::new(client, nodes, self.asks());
            caller.await_exactness(self.emulation(nodes)).await?;
            callers.push(caller);
        }
        let mut cells: Vec<Cell> = Vec::new();
        for rate_per_s in self.rates_per_s(nodes) {
            cells.extend(self.shape.iter().map(|&shape| Cell::new(shape, rate_per_s)));
        }
        let bar = progress(nodes, (cells.len() as u32 * self.rounds) as f64 * self.trial_s());
        for round in 0..self.rounds {
            for cell in &mut cells {
                bar.set_message(format!("{} at {:.1} calls/s", cell.shape, cell.rate_per_s));
                let trial = Trial {
                    callers: &callers,
                    shape: cell.shape,
                    emulation: self.emulation(nodes),
                    slow: &self.slow,
                    rate_per_s: cell.rate_per_s,
                    // The same for each shape: the same arrivals and the same costs.
                    seed: self.seed.wrapping_add(u64::from(round) << 32),
                    warm_up: Duration::from_secs_f64(self.warm_up),
                    measured: Duration::from_secs_f64(self.seconds),
                };
                cell.add(trial.run(fleet, &bar).await?);
                tokio::time::sleep(REST).await;
            }
        }
        bar.finish_and_clear();
        Ok(cells.iter().flat_map(|cell| self.points_of(cell, nodes)).collect())
    }

    /// Connects one client to each front.
    async fn connect_fronts(&self, fleet: &Fleet) -> Result<Vec<Client>, Failure> {
        let mut clients = Vec::new();
        for front in 0..self.fronts {
            let at = [fleet.addr(front as usize).to_owned()];
            clients.push(connect(&at, false, fleet.cluster()).await?);
        }
        Ok(clients)
    }
}

/// Makes a bar that counts the remaining milliseconds of measuring.
fn progress(nodes: u32, seconds: f64) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix}, {msg} {wide_bar} {eta}");
    let bar = ProgressBar::new((seconds * 1e3) as u64);
    bar.set_prefix(format!("{nodes} nodes"));
    bar.with_style(style.expect("invariant: the template is well-formed"))
}
