//! `bench-cluster polling`: the random polling paper's measurements (§4, figure 6 and table 2) with real processes.
//!
//! Every server is a node with one emulated processor (`micro/emulated`), and every server holds the same partition. A
//! call asks this partition for work of a drawn duration. Its front, a node without partitions, chooses the server by
//! a policy of production: sockets, polls, queues and load figures are real. For `ideal` each server holds one more partition,
//! which no other has, and the caller asks that of the server with the fewest open calls: it sees all calls ([`series`]).
//! `manager` does the same with the paper's load index manager, a process of its own ([`load_index`]).
//!
//! The policies take turns on one cluster, with the same arrivals and the same service times, in rounds of a seed each.
//! The workloads are the simulator's ([`treefold_sim::experiment::polling::workload`]), which can compute each point too
//! ([`simulated`]). If work is emulated, a poll takes nothing from the emulated processors; the real processor time of
//! servers and fronts is measured beside it ([`point`]). With `--spin` servers spin real processors, of which each has a
//! fixed share ([`groups`]), and polls take their part of it.
//!
//! - [`args`]: the parameters.
//! - [`series`]: the compared ways to choose a server.
//! - [`balancer`]: one of them, tower's balancer.
//! - [`load_index`]: the load index manager, and its clients.
//! - [`groups`]: control groups of servers that spin.
//! - [`caller`]: makes the calls, checks the answers.
//! - [`point`]: from calls to figures, and how these are printed.
//! - [`simulated`]: the same points in the simulator.

mod args;
mod balancer;
mod caller;
mod groups;
mod load_index;
mod point;
mod series;
mod simulated;

pub(crate) use args::BenchPolling;
pub(crate) use load_index::process as load_index_process;

use crate::load::pace::{Arrival, Pacing};
use crate::load::trial::{Calls, Trial};
use crate::load::{REST, progress};
use crate::micro::caller::{Asks, Caller};
use caller::{Notes, PollingCalls, SHARED, own_of, work};
use groups::Groups;
use indicatif::ProgressBar;
use load_index::IndexProcess;
use point::{Cell, Measured, Point};
use series::{Chooser, LoadIndex, Series};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;
use tokio::task::LocalSet;
use treefold::{Client, ReplicaPolicy, Shape};
use treefold_cli::commands::connect;
use treefold_cli::exit::{Failure, Verdict};
use treefold_cli::fleet::Fleet;
use treefold_cli::output::{Format, print, print_json};
use treefold_sim::experiment::polling::workload::Workload;
use treefold_sim::world::distribution::Distribution;

/// A call that finds out whether a front knows all servers.
const PROBE_MS: f64 = 0.1;
/// Number of calls of each series on the idle cluster, and the pause between them.
const IDLE_CALLS: u64 = 300;
const IDLE_PAUSE: Duration = Duration::from_millis(5);
/// Load and duration of the calls without work by which the servers' work beside spinning is measured.
const BESIDE_LOAD: f64 = 0.9;
const BESIDE_S: f64 = 4.0;

/// A cluster under measurement.
struct Ground<'a> {
    fleet: &'a Fleet,
    /// The fronts of each poll timeout.
    crews: Vec<Vec<Client>>,
    /// The load index manager, if a series needs it.
    manager: Option<IndexProcess>,
    workload: &'a Workload,
    bar: ProgressBar,
}

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
            let mut groups = Groups::default();
            let measured = self.measure_fleet(&fleet, workload, &mut groups).await;
            fleet.end().await;
            // Groups can be removed when their processes have ended.
            drop(groups);
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

    /// Measures all series at all loads on one cluster. Servers that spin are put into `groups`.
    async fn measure_fleet(
        &self,
        fleet: &Fleet,
        workload: &Workload,
        groups: &mut Groups,
    ) -> Result<Vec<Cell>, Failure> {
        fleet.meet().await?;
        let crews = self.connect_crews(fleet).await?;
        let series = self.series();
        let asks_manager = series.iter().any(|series| series.chooser == Chooser::Manager);
        let manager = if asks_manager { Some(IndexProcess::start(self.servers).await?) } else { None };
        if let Some(share) = self.spin {
            let ids: Vec<u32> = fleet.processes().ids().collect();
            let (servers, fronts) = ids.split_at(self.servers as usize);
            let callers = [std::process::id()].into_iter().chain(manager.as_ref().and_then(IndexProcess::id));
            let others: Vec<u32> = fronts.iter().copied().chain(callers).collect();
            groups.slow_down(servers, &others, share)?;
        }
        let points = series.len() * self.load.len() * self.rounds as usize;
        let bar = progress(fleet.size(), points as f64 * self.trial_s());
        let ground = Ground { fleet, crews, manager, workload, bar };
        let cells = self.measure_series(&ground, &series).await;
        ground.bar.finish_and_clear();
        cells
    }

    /// Measures each series at each load, in rounds.
    async fn measure_series(&self, ground: &Ground<'_>, series: &[Series]) -> Result<Vec<Cell>, Failure> {
        let beside_ms = self.beside_ms(ground).await?;
        let mut idle = Vec::new();
        for &series in series {
            idle.push(self.idle(ground, series).await?);
        }
        let mut cells: Vec<Cell> = Vec::new();
        for &load in &self.load {
            let rate = self.rate_per_s(ground.workload, beside_ms, load);
            cells.extend(series.iter().zip(&idle).map(|(&series, idle)| {
                let mut cell = Cell::new(series, load, rate);
                cell.idle = idle.clone();
                cell
            }));
        }
        for round in 0..self.rounds {
            for at_load in cells.chunks_mut(series.len()) {
                // Each round begins with another series, so that none is always measured behind the same one.
                at_load.rotate_left(1);
                for cell in at_load {
                    let (name, chooser) = (ground.workload.name, cell.series.chooser);
                    ground.bar.set_message(format!("{name}, {chooser} at load {}", cell.load));
                    let calls = self.calls(ground, cell.series, ground.workload.service.clone()).await?;
                    let measured = self.trial(ground, calls, cell.rate_per_s, round).await?;
                    cell.add(measured);
                    tokio::time::sleep(REST).await;
                }
            }
        }
        let turns = self.rounds as usize % series.len();
        cells.chunks_mut(series.len()).for_each(|at_load| at_load.rotate_right(turns));
        Ok(cells)
    }

    /// Measures the time that each call takes a spinning server beside its service time; zero if servers are emulated.
    async fn beside_ms(&self, ground: &Ground<'_>) -> Result<f64, Failure> {
        let Some(share) = self.spin else { return Ok(0.0) };
        let series = Series { chooser: Chooser::Policy(ReplicaPolicy::Random), crew: 0 };
        let (rate_per_s, busy) = self.rate_per_s(ground.workload, 0.0, BESIDE_LOAD);
        let mut cell = Cell::new(series, BESIDE_LOAD, (rate_per_s, busy));
        let mut calls = self.calls(ground, series, Distribution::Fixed(0.0)).await?;
        calls.until_s = BESIDE_S;
        cell.add(self.trial(ground, calls, rate_per_s, 0).await?);
        Ok(cell.servers_ms() / share)
    }

    /// Makes calls without work, one after another.
    async fn idle(&self, ground: &Ground<'_>, series: Series) -> Result<Notes, Failure> {
        let calls = self.calls(ground, series, Distribution::Fixed(0.0)).await?;
        for number in 0..IDLE_CALLS {
            let arrival = Arrival { number, planned: Duration::ZERO, seed: number };
            calls.call(arrival, Shape::Auto, 0.0).await?;
            tokio::time::sleep(IDLE_PAUSE).await;
        }
        Ok(calls.notes.take())
    }

    /// Returns the calls of a series, with these service times.
    async fn calls<'a>(
        &self,
        ground: &'a Ground<'_>,
        series: Series,
        service: Distribution,
    ) -> Result<PollingCalls<'a>, Failure> {
        let fronts = &ground.crews[series.crew];
        let manager = match &ground.manager {
            Some(manager) if series.chooser == Chooser::Manager => Some(manager.connect(fronts.len()).await?),
            _ => None,
        };
        Ok(PollingCalls {
            fronts,
            chooser: series.chooser,
            service,
            spin: self.spin,
            deadline: self.deadline,
            index: LoadIndex::new(self.servers),
            manager,
            balancers: series.balancers(self.servers, fronts.len()),
            until_s: self.seconds,
            notes: Rc::default(),
        })
    }

    /// Measures one series at one load in one round.
    async fn trial(
        &self,
        ground: &Ground<'_>,
        calls: PollingCalls<'_>,
        rate_per_s: f64,
        round: u32,
    ) -> Result<Measured, Failure> {
        let deviation = ground.workload.gap_variation;
        let seconds = calls.until_s;
        let trial = Trial {
            calls: &calls,
            shape: Shape::Auto,
            pacing: deviation.map_or(Pacing::Poisson, |deviation| Pacing::LogNormal { deviation }),
            rate_per_s,
            // The same for each series and load: the same arrivals, scaled, and the same service times.
            seed: self.seed.wrapping_add(u64::from(round) << 32),
            warm_up: Duration::from_secs_f64(self.warm_up),
            measured: Duration::from_secs_f64(seconds),
        };
        let (began_at, before) = (Instant::now(), ground.fleet.processes().cpu_times()?);
        let record = trial.run(ground.fleet, &ground.bar).await?;
        let after = ground.fleet.processes().cpu_times()?;
        let quota = self.spin.map(|share| began_at.elapsed().mul_f64(share * f64::from(self.servers)));
        let used: Vec<Duration> = after.iter().zip(&before).map(|(after, before)| *after - *before).collect();
        let (servers, fronts) = used.split_at(self.servers as usize);
        let (servers, fronts) = (servers.iter().sum(), fronts.iter().sum());
        Ok(Measured { record, seconds, notes: calls.notes.take(), servers, fronts, quota })
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
