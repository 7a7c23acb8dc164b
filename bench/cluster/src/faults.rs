//! `bench-cluster faults`: checks that answers are right and in time while nodes are killed and stopped.
//!
//! Several callers call `micro/sum` over and over, in turn through a front and directly, with every shape of
//! tree and without a minimum coverage. At the same time nodes are killed, started again, stopped and resumed
//! at random. Each answer must account for every partition exactly once ([`tally`]) and must arrive by the
//! deadline plus a fixed bound. When all nodes are mended, the cluster must give full answers again for every
//! combination of caller and shape.
//!
//! A seed determines the faults ([`super::breaker`]) and the pauses between calls. It does not determine how
//! the kernel schedules them, so two runs with one seed have the same faults but not the same interleaving.

mod tally;
mod times;

use super::breaker::{Breaker, Plan};
use super::judged;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tally::{Asked, Case, OVERRUN_MAX, Tally};
use times::{Took, Weather};
use tokio::task::LocalSet;
use treefold::operators::merge::Sum;
use treefold::{Client, PartitionSet, Reply, Shape, Status};
use treefold_cli::commands::connect;
use treefold_cli::exit::{Failure, Verdict};
use treefold_cli::fleet::{Fleet, NODES_MAX, Placement};
use treefold_cli::output::{Format, print, print_json};
use treefold_cli::parse;
use treefold_core::random::Random;

/// Check calls over N node processes while nodes are killed, stopped and restarted
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchFaults {
    /// Number of nodes, one process each. The first node is the front and is never broken
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=NODES_MAX))]
    nodes: u32,

    /// Number of partitions, dealt out over the nodes
    #[arg(long, value_name = "P", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=PARTITIONS_MAX))]
    partitions: u32,

    /// Number of nodes that host each partition
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    replicas: u32,

    /// Number of relays beside the nodes. Nodes and relays are dealt out over two racks. With relays, only
    /// relays are killed and stopped, and calls use the tree shape auto, which uses relays
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=NODES_MAX))]
    relays: u32,

    /// Number of calls
    #[arg(long, value_name = "C", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    calls: u32,

    /// Deadline of each call, with its unit
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = parse::deadline)]
    deadline: Duration,

    /// Seed of the faults. If it is left out, a seed is drawn and printed
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

const EXAMPLES: &str = "\
With -o json, one line:
  {nodes, partitions, replicas, relays, seed, calls, full, partial, empty, wrong, late, worst_overrun_ms, kills, stops,
   coverage_mean, coverage_at_rest_after, healed_ms, missing_by_reason: {REASON: PARTITIONS},
   took: {calm, killed, stopped: {calls, p50_ms, p99_ms, max_ms}}, cases: [...]}
wrong counts answers that don't account for every partition exactly once, answers whose value is not the sum over
their own contributors, and calls without any answer; late counts answers more than 100 ms after the deadline; cases
describes both, and answers without any contributor. coverage_at_rest_after is the least coverage over all ways to
call once all nodes are mended; it must be 1 within 5 s. took gives the times of full answers while no node was
broken, while a node was killed, or while a node was stopped; the difference is the cost of a takeover. Exit code 1
if any answer was wrong or the cluster did not heal.

Examples:
  bench-cluster faults
  bench-cluster faults --replicas 2 --calls 10000 --seed 7 -o json
  bench-cluster faults --relays 4 --calls 10000";

/// Largest number of partitions.
const PARTITIONS_MAX: i64 = 10_000;

/// Calls in flight at a time: enough that a fault nearly always meets some of them half-way.
const CALLERS: u32 = 4;

/// The longest pause between two calls of a caller, in ms.
const PAUSE_MS_MAX: f64 = 30.0;

/// Shapes that each caller uses in turn.
const SHAPES: [Shape; 5] = [Shape::Adaptive, Shape::Binomial, Shape::KAry(2), Shape::Chain, Shape::Flat];

/// With relays, all calls have the shape that uses them.
const SHAPES_OF_RELAYS: [Shape; 1] = [Shape::Auto];

/// With relays, number of racks over which nodes and relays are dealt out.
const RACKS: u32 = 2;

/// The front is spared, because a call through a dead front has no answer to check.
const PLAN: Plan = Plan { spared: 1, gap_ms: (50.0, 400.0), away_ms: (0.0, 400.0), still_ms: (100.0, 800.0) };

/// Limit on the time until all answers of a mended cluster are full.
const HEAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause between two rounds of calls of a cluster that is healing.
const HEAL_INTERVAL: Duration = Duration::from_millis(20);

/// The measured figures.
#[derive(Serialize)]
struct Figures {
    nodes: u32,
    partitions: u32,
    replicas: u32,
    relays: u32,
    seed: u64,
    calls: u32,
    full: u32,
    partial: u32,
    empty: u32,
    wrong: u32,
    late: u32,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    worst_overrun_ms: f64,
    kills: u64,
    stops: u64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    coverage_mean: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    coverage_at_rest_after: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    healed_ms: f64,
    missing_by_reason: BTreeMap<&'static str, u64>,
    took: Took,
    cases: Vec<Case>,
}

impl BenchFaults {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        if self.replicas > self.nodes || self.partitions < self.nodes {
            return Err(Failure::usage(format!(
                "{} partitions with {} replicas don't fit {} nodes: give at least one partition per \
                 node, and at most as many replicas as nodes",
                self.partitions, self.replicas, self.nodes
            )));
        }
        let seed = self.seed.unwrap_or_else(drawn_seed);
        let placement = Placement { nodes: self.nodes, partitions: self.partitions, replicas: self.replicas };
        let fleet = match self.relays {
            0 => Fleet::start(placement).await?,
            relays => Fleet::start_told(with_relays(placement, relays)).await?,
        };
        let figures = LocalSet::new().run_until(self.measure(fleet, seed)).await?;
        match format {
            Format::Json => print_json(&figures),
            Format::Text => print(render(&figures)),
        }
        let problem = match (figures.wrong, figures.coverage_at_rest_after < 1.0) {
            (0, false) => None,
            (0, true) => Some(format!(
                "coverage is {:.3} {HEAL_TIMEOUT:?} after all nodes were mended; it must be 1",
                figures.coverage_at_rest_after
            )),
            (wrong, _) => Some(format!("{wrong} answers were wrong")),
        };
        judged(problem, seed)
    }

    async fn measure(&self, fleet: Fleet, seed: u64) -> Result<Figures, Failure> {
        fleet.meet().await?;
        let at = [fleet.first_addr().to_owned()];
        let storm = Rc::new(Storm {
            front: connect(&at, false, fleet.cluster()).await?,
            direct: connect(&at, true, fleet.cluster()).await?,
            partitions: PartitionSet::first(self.partitions),
            deadline: self.deadline,
            calls_left: Cell::new(self.calls),
            calls: self.calls,
            began_at: Instant::now(),
            shapes: if self.relays > 0 { &SHAPES_OF_RELAYS } else { &SHAPES },
            tally: RefCell::default(),
            weather: RefCell::default(),
            bar: progress(self.calls),
        });
        // Nodes that the caller has not met yet would count as lost, although none was broken.
        if storm.heal().await.0 < 1.0 {
            return Err(Failure::failed(format!("the nodes did not get ready within {HEAL_TIMEOUT:?}")));
        }
        let spared = if self.relays > 0 { self.nodes as usize } else { PLAN.spared };
        let seen = Rc::clone(&storm);
        let tell = move |happening| seen.weather.borrow_mut().note(happening);
        let mut breaker = Breaker::new(fleet, Plan { spared, ..PLAN }, seed, tell);
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let random = Random::new(seed.wrapping_add(1 + u64::from(caller)));
                tokio::task::spawn_local(Rc::clone(&storm).call_on(random))
            })
            .collect();
        let all_called = async {
            for caller in callers {
                caller.await.map_err(|error| Failure::failed(format!("a caller died: {error}")))?;
            }
            Ok(())
        };
        tokio::select! {
            ended = all_called => ended?,
            failure = breaker.run() => return Err(failure),
        }
        storm.bar.finish_and_clear();
        breaker.mend_all().await?;
        let (coverage_at_rest_after, healed) = storm.heal().await;
        let (kills, stops) = (breaker.kills, breaker.stops);
        breaker.end().await;
        let tally = storm.tally.take();
        Ok(Figures {
            nodes: self.nodes,
            partitions: self.partitions,
            replicas: self.replicas,
            relays: self.relays,
            seed,
            calls: tally.calls,
            full: tally.full,
            partial: tally.partial,
            empty: tally.empty,
            wrong: tally.wrong,
            late: tally.late,
            worst_overrun_ms: tally.worst_overrun.as_secs_f64() * 1e3,
            kills,
            stops,
            coverage_mean: tally.coverage_mean(),
            coverage_at_rest_after,
            healed_ms: healed.as_secs_f64() * 1e3,
            missing_by_reason: tally.missing_by_reason,
            took: tally.times.took(),
            cases: tally.cases,
        })
    }
}

/// The callers' shared state: clients, parameters and results.
struct Storm {
    front: Client,
    direct: Client,
    partitions: PartitionSet,
    deadline: Duration,
    calls_left: Cell<u32>,
    calls: u32,
    began_at: Instant,
    shapes: &'static [Shape],
    tally: RefCell<Tally>,
    weather: RefCell<Weather>,
    bar: ProgressBar,
}

impl Storm {
    /// Makes one call after another until all calls are made.
    async fn call_on(self: Rc<Self>, mut random: Random) {
        while let Some(left) = self.calls_left.get().checked_sub(1) {
            self.calls_left.set(left);
            let number = self.calls - left - 1;
            // Over ten calls, each shape is called once directly and once through the front.
            let direct = number % 2 == 1;
            let shape = self.shapes[(number / 2) as usize % self.shapes.len()];
            let asked = Asked { number, direct, shape, deadline: self.deadline };
            let called_at = Instant::now();
            let before = *self.weather.borrow();
            let ended = self.call(direct, shape).await;
            let (at, elapsed) = (called_at - self.began_at, called_at.elapsed());
            let met = self.weather.borrow().met_since(before);
            self.tally.borrow_mut().take(asked, at, elapsed, &ended, &self.partitions);
            if ended.is_ok_and(|reply| reply.status == Status::Full) {
                self.tally.borrow_mut().times.note(met, elapsed);
            }
            self.bar.inc(1);
            let pause = Duration::from_secs_f64(random.between(0.0, PAUSE_MS_MAX) / 1e3);
            tokio::time::sleep(pause).await;
        }
    }

    async fn call(&self, direct: bool, shape: Shape) -> Result<Reply<Sum>, String> {
        let client = if direct { &self.direct } else { &self.front };
        let call =
            client.call::<Sum>("micro/sum", &()).deadline(self.deadline).min_coverage(0.0).shape(shape);
        call.await.map_err(|error| error.to_string())
    }

    /// Calls in every way until all answers of a round are right and full, or until the time limit.
    ///
    /// Returns the least coverage of the last round, and the time it took.
    async fn heal(&self) -> (f64, Duration) {
        let began_at = Instant::now();
        loop {
            let mut least = 1.0f64;
            for direct in [false, true] {
                for &shape in self.shapes {
                    least = least.min(match self.call(direct, shape).await {
                        Ok(reply) if tally::fault_of(&reply, &self.partitions).is_none() => reply.coverage(),
                        _ => 0.0,
                    });
                }
            }
            let elapsed = began_at.elapsed();
            if least >= 1.0 || elapsed >= HEAL_TIMEOUT {
                return (least, elapsed);
            }
            tokio::time::sleep(HEAL_INTERVAL).await;
        }
    }
}

/// Returns the arguments of the placement's nodes followed by the arguments of the relays, all dealt out over
/// the racks.
fn with_relays(placement: Placement, relays: u32) -> Vec<Vec<String>> {
    let told = |at: u32, words: &[&str]| {
        let rack = format!("r{}", at % RACKS);
        let words = [&["--workers", "1", "--processors", "1", "--rack", &rack], words].concat();
        words.into_iter().map(str::to_owned).collect()
    };
    let members = (0..placement.nodes).map(|at| told(at, &["--serve", &placement.micro_of(at)]));
    members.chain((0..relays).map(|at| told(at, &["--relay"]))).collect()
}

/// Draws a seed of 32 bits, short enough to be typed again.
pub(super) fn drawn_seed() -> u64 {
    RandomState::new().hash_one(0) >> 32
}

fn progress(calls: u32) -> ProgressBar {
    let style = ProgressStyle::with_template("{pos}/{len} calls {wide_bar}");
    ProgressBar::new(u64::from(calls)).with_style(style.expect("invariant: the template is well-formed"))
}

fn render(figures: &Figures) -> String {
    let reasons = figures.missing_by_reason.iter().map(|(reason, count)| format!("{count} {reason}"));
    let reasons: Vec<String> = reasons.collect();
    let cases = figures.cases.iter().map(|case| format!("\n  {}", case.line()));
    format!(
        "{} nodes, {} partitions, {} replicas, {} relays, seed {}\n  faults    {} kills, {} stops\n  calls     {}: {} full, {} \
         partial, {} empty\n  wrong     {}\n  late      {} by more than {} ms ({:.1} ms at worst)\n  coverage  {:.3} on \
         average, {:.3} at rest, {:.0} ms after all nodes were mended\n  missing   {}\n{}{}",
        figures.nodes,
        figures.partitions,
        figures.replicas,
        figures.relays,
        figures.seed,
        figures.kills,
        figures.stops,
        figures.calls,
        figures.full,
        figures.partial,
        figures.empty,
        figures.wrong,
        figures.late,
        OVERRUN_MAX.as_millis(),
        figures.worst_overrun_ms,
        figures.coverage_mean,
        figures.coverage_at_rest_after,
        figures.healed_ms,
        if reasons.is_empty() { "nothing".to_owned() } else { reasons.join(", ") },
        figures.took.lines(),
        cases.collect::<String>()
    )
}
