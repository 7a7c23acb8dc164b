//! `bench-cluster micro`: the DAC paper's experiments (§5.3 to §5.6) with real nodes on emulated processors.
//!
//! Every node is a process; sockets, trees, queues, load figures and deadlines are real. Only the work is
//! emulated: a job takes one of its node's k emulated processors for a drawn time (`micro/emulated`), so that
//! a machine of two processors can run twenty-four nodes of two processors each. Calls arrive as a Poisson
//! process. [`load`](crate::load) measures them.
//!
//! - [`args`]: the parameters, and which combinations are valid.
//! - [`slowing`]: nodes that are slow for a while.
//! - [`stopping`]: nodes whose processes are stopped for a while.
//! - [`blocking`]: nodes whose workers wait for their children, to compare with.
//! - [`caller`]: makes the calls, checks the answers.

mod args;
pub(crate) mod blocking;
pub(crate) mod caller;
mod slowing;
mod stopping;

pub(crate) use args::BenchMicro;

use crate::load::Sweep;
use crate::load::pace::Pacing;
use crate::load::point::{self, Point};
use blocking::BlockingCalls;
use caller::{Caller, MicroCalls};
use stopping::Stops;
use tempfile::NamedTempFile;
use tokio::task::LocalSet;
use treefold::{Client, Shape};
use treefold_cli::commands::connect;
use treefold_cli::exit::{Failure, Verdict};
use treefold_cli::fleet::{Fleet, Placement};
use treefold_cli::output::{Format, print, print_json};

/// Configuration of nodes that repair nothing: shares of a wave's time above 1 never pass.
const WITHOUT_REPAIR: &str = "[tuning]\nsign_of_life = 2.0\npatience = 2.0\ntries_max = 1\n";

impl BenchMicro {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        self.check()?;
        let points = LocalSet::new().run_until(self.measure()).await?;
        match format {
            Format::Json => print_json(&points),
            Format::Text if self.load.csv => print(point::csv(&points)),
            Format::Text => print(point::table(&points)),
        }
        Ok(Verdict::Full)
    }

    /// Measures one cluster after the other, by size.
    async fn measure(&self) -> Result<Vec<Point>, Failure> {
        let mut points = Vec::new();
        for &nodes in &self.nodes {
            let config = self.no_repair.then(without_repair).transpose()?;
            let fleet = Fleet::start_told(self.told(nodes, config.as_ref())).await?;
            let measured = self.measure_fleet(&fleet, nodes).await;
            fleet.end().await;
            points.extend(measured?);
            for &workers in &self.blocking {
                let fleet = Fleet::start_told(blocking::told(nodes, workers)).await?;
                let measured = self.measure_blocking(&fleet, nodes, workers).await;
                fleet.end().await;
                points.extend(measured?);
            }
        }
        Ok(points)
    }

    /// Measures all loads on one cluster of blocking nodes.
    async fn measure_blocking(&self, fleet: &Fleet, nodes: u32, workers: u32) -> Result<Vec<Point>, Failure> {
        fleet.meet().await?;
        let clients = self.connect_fronts(fleet).await?;
        let mut points = Vec::new();
        for &trees in &self.blocking_trees {
            let calls = BlockingCalls {
                clients: &clients,
                partitions: nodes,
                emulation: self.emulation(nodes),
                slow: &self.slow,
                trees,
                deadline: self.load.deadline,
                min_coverage: self.asks().min_coverage,
            };
            calls.await_exactness().await?;
            let cells = self.sweep(&[Shape::Binomial], nodes).run(&calls, fleet).await?;
            let of_trees = cells.iter().flat_map(|cell| self.points_of(cell, nodes));
            points.extend(of_trees.map(|point| point.of_series(trees.series(workers))));
        }
        Ok(points)
    }

    /// Returns the loads for some shapes.
    fn sweep<'a>(&'a self, shapes: &'a [Shape], nodes: u32) -> Sweep<'a> {
        Sweep { load: &self.load, pacing: Pacing::Poisson, shapes, rates_per_s: self.rates_per_s(nodes) }
    }

    /// Returns the arguments of each node.
    fn told(&self, nodes: u32, config: Option<&NamedTempFile>) -> Vec<Vec<String>> {
        let config = config.map(|file| ["--config".to_owned(), file.path().display().to_string()]);
        let placement = Placement::one_each(nodes);
        let words = |(node, processors): (u32, u32)| {
            let (serve, processors) = (placement.micro_of(node), processors.to_string());
            let own = ["--workers", "1", "--processors", &processors, "--serve", &serve];
            own.map(str::to_owned).into_iter().chain(config.iter().flatten().cloned()).collect()
        };
        (0..nodes).zip(self.processors_of(nodes)).map(words).collect()
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
        let stops = Stops::new(&self.stop, fleet);
        let calls =
            MicroCalls { callers: &callers, emulation: self.emulation(nodes), slow: &self.slow, stops };
        let cells = self.sweep(&self.shape, nodes).run(&calls, fleet).await?;
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

/// Writes the configuration of nodes that repair nothing.
fn without_repair() -> Result<NamedTempFile, Failure> {
    let file =
        NamedTempFile::new().and_then(|file| std::fs::write(file.path(), WITHOUT_REPAIR).map(|()| file));
    file.map_err(|error| Failure::failed(format!("can't write the nodes' configuration: {error}")))
}
