//! `bench-cluster polling`: the random polling paper's measurements (§4, figure 6 and table 2) with real processes.
//!
//! Every server is a node with one emulated processor (`micro/emulated`), and every server holds the same partition. A
//! call asks this partition for work of a drawn duration. Its front, a node without partitions, chooses the server by
//! a policy of production: sockets, polls, queues and load figures are real. The paper's central load index manager is
//! in the caller ([`series`]), which sees all calls: for `ideal` each server holds one more partition, which no other
//! has, and the caller asks that of the server with the fewest open calls.
//!
//! The policies take turns on one cluster, with the same arrivals and the same service times, in rounds of a seed each.
//! The workloads are the simulator's ([`treefold_sim::experiment::polling::workload`]), which can compute each point too
//! ([`simulated`]). Work is emulated, so a poll takes nothing from the emulated processors; the real processor time of
//! servers and fronts is measured beside it ([`point`]).
//!
//! - [`args`]: the parameters.
//! - [`series`]: the compared ways to choose a server.
//! - [`balancer`]: one of them, tower's balancer.
//! - [`caller`]: makes the calls, checks the answers.
//! - [`point`]: from calls to figures, and how these are printed.
//! - [`simulated`]: the same points in the simulator.

mod args;
mod balancer;
mod caller;
mod point;
mod series;
mod simulated;

pub(crate) use args::BenchPolling;

use crate::load::pace::Pacing;
use crate::load::trial::Trial;
use crate::load::{REST, progress};
use crate::micro::caller::{Asks, Caller};
use caller::{PollingCalls, SHARED, own_of, work};
use indicatif::ProgressBar;
use point::{Cell, Measured, Point};
use series::LoadIndex;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tempfile::NamedTempFile;
use tokio::task::LocalSet;
use treefold::{Client, Shape};
use treefold_cli::commands::connect;
use treefold_cli::exit::{Failure, Verdict};
use treefold_cli::fleet::Fleet;
use treefold_cli::output::{Format, print, print_json};
use treefold_sim::experiment::polling::workload::Workload;

/// A call that finds out whether a front knows all servers.
const PROBE_MS: f64 = 0.1;

impl BenchPolling {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        self.check()?;
        let points = LocalSet::new().run_until(self.measure()).await?;
        match format {
            Format::Json => print_json(&points),
            Format::Text => print(point::table(&points)),
        }
        Ok(Verdict::Full)
    }

    /// Measures one workload after the other, each on a cluster of its own.
    async fn measure(&self) -> Result<Vec<Point>, Failure> {
        let mut points = Vec::new();
        for workload in &self.workload {
            let configs = self.configs()?;
            let fleet = Fleet::start_told(self.told(&configs)).await?;
            let measured = self.measure_fleet(&fleet, workload).await;
            fleet.end().await;
            let mut cells = measured?;
            if self.simulate {
                cells.iter_mut().for_each(|cell| self.simulate(cell, workload));
            }
            points.extend(point::points(workload.name, &self.poll_timeout, &cells));
        }
        Ok(points)
    }

    /// Simulates as many seeds as a cell has rounds.
    fn simulate(&self, cell: &mut Cell, workload: &Workload) {
        if !cell.series.chooser.is_simulated() {
            return;
        }
        let timeout = self.poll_timeout[cell.series.crew];
        let seeds = (0..self.rounds).map(|round| self.seed.wrapping_add(round.into()));
        let mean_ms = seeds.map(|seed| simulated::mean_ms(cell.series, timeout, workload, cell.busy, seed));
        cell.simulated_ms = mean_ms.collect();
    }

    /// Writes the configuration of the fronts of each poll timeout.
    fn configs(&self) -> Result<Vec<NamedTempFile>, Failure> {
        let config = |timeout: &Duration| {
            let file = NamedTempFile::new()?;
            let text = format!("[tuning]\npoll_timeout = \"{}ns\"\n", timeout.as_nanos());
            std::fs::write(file.path(), text).map(|()| file)
        };
        let configs = self.poll_timeout.iter().map(config).collect::<std::io::Result<_>>();
        configs.map_err(|error| Failure::failed(format!("can't write the fronts' configuration: {error}")))
    }

    /// Returns the arguments of each process: the servers, then the fronts of each poll timeout.
    fn told(&self, configs: &[NamedTempFile]) -> Vec<Vec<String>> {
        let place = ["--workers", "1", "--processors", "1"].map(str::to_owned);
        let with = |words: [String; 2]| [place.to_vec(), words.to_vec()].concat();
        let servers = (0..self.servers).map(|server| {
            let serve = format!("micro:partitions={SHARED},{}/{}", own_of(server), self.partitions());
            with(["--serve".to_owned(), serve])
        });
        let fronts = configs.iter().flat_map(|config| {
            let front = with(["--config".to_owned(), config.path().display().to_string()]);
            (0..self.fronts).map(move |_| front.clone())
        });
        servers.chain(fronts).collect()
    }

    /// The shared partition, and one of each server.
    fn partitions(&self) -> u32 {
        self.servers + 1
    }

    /// Measures all series at all loads on one cluster, in rounds.
    async fn measure_fleet(&self, fleet: &Fleet, workload: &Workload) -> Result<Vec<Cell>, Failure> {
        fleet.meet().await?;
        let crews = self.connect_crews(fleet).await?;
        let series = self.series();
        let mut cells: Vec<Cell> = Vec::new();
        for &load in &self.load {
            let rate = self.rate_per_s(workload, load);
            cells.extend(series.iter().map(|&series| Cell::new(series, load, rate)));
        }
        let bar = progress(fleet.size(), (cells.len() as u32 * self.rounds) as f64 * self.trial_s());
        for round in 0..self.rounds {
            for at_load in cells.chunks_mut(series.len()) {
                // Each round begins with another series, so that none is always measured behind the same one.
                at_load.rotate_left(1);
                for cell in at_load {
                    bar.set_message(format!(
                        "{}, {} at load {}",
                        workload.name, cell.series.chooser, cell.load
                    ));
                    let fronts = &crews[cell.series.crew];
                    let measured = self.trial(fleet, fronts, cell, round, workload, &bar).await?;
                    cell.add(measured);
                    tokio::time::sleep(REST).await;
                }
            }
        }
        bar.finish_and_clear();
        let turns = self.rounds as usize % series.len();
        cells.chunks_mut(series.len()).for_each(|at_load| at_load.rotate_right(turns));
        Ok(cells)
    }

    /// Measures one series at one load in one round.
    async fn trial(
        &self,
        fleet: &Fleet,
        fronts: &[Client],
        cell: &Cell,
        round: u32,
        workload: &Workload,
        bar: &ProgressBar,
    ) -> Result<Measured, Failure> {
        let choosing = Rc::new(RefCell::new(Vec::new()));
        let calls = PollingCalls {
            fronts,
            chooser: cell.series.chooser,
            workload,
            deadline: self.deadline,
            index: LoadIndex::new(self.servers),
            balancers: cell.series.balancers(self.servers, fronts.len()),
            until_s: self.seconds,
            choosing: Rc::clone(&choosing),
        };
        let deviation = workload.gap_variation;
        let trial = Trial {
            calls: &calls,
            shape: Shape::Auto,
            pacing: deviation.map_or(Pacing::Poisson, |deviation| Pacing::LogNormal { deviation }),
            rate_per_s: cell.rate_per_s,
            // The same for each series and load: the same arrivals, scaled, and the same service times.
            seed: self.seed.wrapping_add(u64::from(round) << 32),
            warm_up: Duration::from_secs_f64(self.warm_up),
            measured: Duration::from_secs_f64(self.seconds),
        };
        let before = fleet.processes().cpu_times()?;
        let record = trial.run(fleet, bar).await?;
        let after = fleet.processes().cpu_times()?;
        let used: Vec<Duration> = after.iter().zip(&before).map(|(after, before)| *after - *before).collect();
        let (servers, fronts) = used.split_at(self.servers as usize);
        let (servers, fronts) = (servers.iter().sum(), fronts.iter().sum());
        let choosing = choosing.take();
        Ok(Measured { record, seconds: self.seconds, choosing, servers, fronts })
    }

    /// Connects one client to each front, and waits until each front knows all servers.
    async fn connect_crews(&self, fleet: &Fleet) -> Result<Vec<Vec<Client>>, Failure> {
        let asks = Asks { deadline: self.deadline, min_coverage: 1.0, waiting: None, policy: None };
        let mut crews = Vec::new();
        for crew in 0..self.poll_timeout.len() {
            let mut clients = Vec::new();
            for front in 0..self.fronts as usize {
                let at = self.servers as usize + crew * self.fronts as usize + front;
                let client = connect(&[fleet.addr(at).to_owned()], false, fleet.cluster()).await?;
                let caller = Caller::new(client.clone(), self.partitions(), asks);
                caller.await_exactness(work(PROBE_MS)).await?;
                clients.push(client);
            }
            crews.push(clients);
        }
        Ok(crews)
    }
}
