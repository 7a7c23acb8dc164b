//! `treefold bench call`: round trips and pipelined waves over one process per node.
//!
//! The call is `micro/sum`, which adds up one integer per partition. It costs next to nothing, so the figures
//! are the price of the call itself. There are two phases. First, calls are made one after another, to
//! measure the time of one call. Then many calls are in flight, to measure calls per second and the processor
//! time of each call over all processes. Both counters are read at two moments while the pipeline is full, so
//! that filling and draining it do not count. Both phases tell the processor time of the caller's process apart
//! from that of all processes.

use super::moment::{Moment, Span};
use crate::commands::call::missing_line;
use crate::commands::{connect, failure_of};
use crate::exit::{Failure, Verdict};
use crate::fleet::{Fleet, NODES_MAX, Placement};
use crate::output::{Format, print, print_json};
use crate::parse;
use clap::Args;
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;
use treefold::operators::merge::Sum;
use treefold::{Client, Shape, Status};

/// Measure calls over N node processes: round trip, waves per second, processor time per wave
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchCall {
    /// Number of nodes; each is one process and has one partition
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    nodes: u32,

    /// Shape of the tree: adaptive, earliest-ready, binomial, kary:K, chain, flat, base
    #[arg(long, value_name = "SHAPE", default_value = "kary:8", value_parser = parse::shape)]
    shape: Shape,

    /// Number of calls made one after another to measure the round trip
    #[arg(long, value_name = "R", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Number of calls in flight while throughput is measured
    #[arg(long, value_name = "D", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=16384))]
    in_flight: u32,

    /// Duration of the throughput measurement, in seconds
    #[arg(long, value_name = "S", default_value_t = 3.0, value_parser = parse::seconds)]
    seconds: f64,

    /// Call through a front instead of forming the tree at the caller
    #[arg(long)]
    front: bool,
}

const EXAMPLES: &str = "\
Every sum is checked. With -o json, one line:
  {nodes, shape, roundtrip_us_p50, roundtrip_us_p99, roundtrip_cpu_us, client_roundtrip_cpu_us, waves_per_s,
   cpu_us_per_wave, client_cpu_us_per_wave, cpu_us_per_wave_and_node, instantiate_ms}
roundtrip_cpu_us (one call at a time) and cpu_us_per_wave (pipelined) count all processes, the caller's included;
client_roundtrip_cpu_us and client_cpu_us_per_wave are the caller's parts.
instantiate_ms is the time from the first process's start until the first exact answer from all nodes.

Examples:
  treefold bench call --nodes 64 --shape kary:8
  treefold bench call --nodes 256 --shape flat --in-flight 16 -o json";

/// The measured figures.
#[derive(Serialize)]
struct Figures {
    nodes: u32,
    shape: String,
    #[serde(serialize_with = "crate::output::rounded")]
    roundtrip_us_p50: f64,
    #[serde(serialize_with = "crate::output::rounded")]
    roundtrip_us_p99: f64,
    #[serde(serialize_with = "crate::output::rounded")]
    roundtrip_cpu_us: f64,
    #[serde(serialize_with = "crate::output::rounded")]
    client_roundtrip_cpu_us: f64,
    #[serde(serialize_with = "crate::output::rounded")]
    waves_per_s: f64,
    #[serde(serialize_with = "crate::output::rounded")]
    cpu_us_per_wave: f64,
    #[serde(serialize_with = "crate::output::rounded")]
    client_cpu_us_per_wave: f64,
    #[serde(serialize_with = "crate::output::rounded")]
    cpu_us_per_wave_and_node: f64,
    #[serde(serialize_with = "crate::output::rounded")]
    instantiate_ms: f64,
}

/// Deadline of each call.
///
/// The benchmark cuts no call short: a call that takes longer is a failure, not a figure.
const DEADLINE: Duration = Duration::from_secs(30);

/// Limit on the time from when the nodes know each other until all of them together give one exact answer.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Time for which answers must have been exact before the first call is measured.
///
/// Until then connections are made, costs are learned, and some nodes may not have met all others.
const STEADY_FOR: Duration = Duration::from_secs(2);

/// Time that the pipeline runs before it is measured.
const WARM_UP: Duration = Duration::from_millis(500);

impl BenchCall {
    pub async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let fleet = Fleet::start(Placement::one_each(self.nodes)).await?;
        let figures = LocalSet::new().run_until(self.measure(&fleet)).await;
        fleet.end().await;
        let figures = figures?;
        match format {
            Format::Json => print_json(&figures),
            Format::Text => print(render(&figures)),
        }
        Ok(Verdict::Full)
    }

    async fn measure(&self, fleet: &Fleet) -> Result<Figures, Failure> {
        fleet.meet().await?;
        let client = connect(&[fleet.first_addr().to_owned()], !self.front, fleet.cluster()).await?;
        let caller = Rc::new(Caller { client, shape: self.shape, nodes: self.nodes });
        caller.await_first_answer().await?;
        let instantiate = fleet.started_at().elapsed();
        caller.await_steadiness().await?;
        let processes = fleet.processes();
        let before = Moment::of(&processes, 0)?;
        let mut roundtrips = caller.round_trips(self.rounds).await?;
        let single = before.until(&Moment::of(&processes, u64::from(self.rounds))?)?;
        roundtrips.sort_unstable();
        let pipelined = self.pipeline(fleet, &caller).await?;
        Ok(Figures {
            nodes: self.nodes,
            shape: self.shape.to_string(),
            roundtrip_us_p50: quantile_us(&roundtrips, 0.50),
            roundtrip_us_p99: quantile_us(&roundtrips, 0.99),
            roundtrip_cpu_us: single.cpu_us_per_wave(),
            client_roundtrip_cpu_us: single.own_cpu_us_per_wave(),
            waves_per_s: pipelined.waves_per_s(),
            cpu_us_per_wave: pipelined.cpu_us_per_wave(),
            client_cpu_us_per_wave: pipelined.own_cpu_us_per_wave(),
            cpu_us_per_wave_and_node: pipelined.cpu_us_per_wave() / f64::from(self.nodes),
            instantiate_ms: instantiate.as_secs_f64() * 1e3,
        })
    }

    /// Keeps `in_flight` calls in flight and measures in the middle.
    async fn pipeline(&self, fleet: &Fleet, caller: &Rc<Caller>) -> Result<Span, Failure> {
        let done = Rc::new(Done::default());
        let tasks: Vec<_> = (0..self.in_flight)
            .map(|_| tokio::task::spawn_local(call_on(Rc::clone(caller), Rc::clone(&done))))
            .collect();
        tokio::time::sleep(WARM_UP).await;
        let processes = fleet.processes();
        let before = Moment::of(&processes, done.waves.get())?;
        tokio::time::sleep(Duration::from_secs_f64(self.seconds)).await;
        let after = Moment::of(&processes, done.waves.get())?;
        done.stop.set(true);
        for task in tasks {
            task.await.map_err(|error| Failure::failed(format!("a caller died: {error}")))?;
        }
        if let Some(failure) = done.failure.borrow_mut().take() {
            return Err(failure);
        }
        before.until(&after)
    }
}

/// State that the tasks of the pipeline share.
#[derive(Default)]
struct Done {
    waves: Cell<u64>,
    stop: Cell<bool>,
    failure: RefCell<Option<Failure>>,
}

/// Makes one call after another until `stop` is set or a call fails.
async fn call_on(caller: Rc<Caller>, done: Rc<Done>) {
    while !done.stop.get() {
        match caller.exact_sum().await {
            Ok(()) => done.waves.set(done.waves.get() + 1),
            Err(failure) => {
                done.stop.set(true);
                done.failure.borrow_mut().get_or_insert(failure);
            }
        }
    }
}

/// Makes the calls and checks the answers.
struct Caller {
    client: Client,
    shape: Shape,
    nodes: u32,
}

impl Caller {
    async fn exact_sum(&self) -> Result<(), Failure> {
        let call = self.client.call::<Sum>("micro/sum", &()).shape(self.shape).deadline(DEADLINE);
        let reply = call.await.map_err(failure_of)?;
        let nodes = i64::from(self.nodes);
        let expected = Sum(nodes * (nodes - 1) / 2);
        match (&reply.status, &reply.value) {
            (Status::Full, Some(sum)) if *sum == expected => Ok(()),
            (status, value) => {
                let (status, contributed) = (status.name(), reply.contributed.len());
                let missing: Vec<String> = reply.missing.iter().map(missing_line).collect();
                Err(Failure::failed(format!(
                    "an answer was {status} with {value:?} from {contributed} of {nodes} nodes, not {expected:?} from \
                     all: {}",
                    missing.join("; ")
                )))
            }
        }
    }

    /// Retries until the first exact answer, because the caller's own view may lag behind the first node's
    /// for a moment.
    async fn await_first_answer(&self) -> Result<(), Failure> {
        let give_up_at = Instant::now() + FIRST_ANSWER_TIMEOUT;
        loop {
            match self.exact_sum().await {
                Err(_) if Instant::now() < give_up_at => tokio::time::sleep(Duration::from_millis(2)).await,
                ended => return ended,
            }
        }
    }

    async fn await_steadiness(&self) -> Result<(), Failure> {
        let give_up_at = Instant::now() + FIRST_ANSWER_TIMEOUT;
        let mut steady_since = Instant::now();
        while steady_since.elapsed() < STEADY_FOR {
            match self.exact_sum().await {
                Ok(()) => {}
                Err(_) if Instant::now() < give_up_at => steady_since = Instant::now(),
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    async fn round_trips(&self, rounds: u32) -> Result<Vec<Duration>, Failure> {
        let mut all = Vec::with_capacity(rounds as usize);
        for _ in 0..rounds {
            let started_at = Instant::now();
            self.exact_sum().await?;
            all.push(started_at.elapsed());
        }
        Ok(all)
    }
}

/// Returns the nearest-rank quantile of ascending durations in microseconds, or 0 if there are none.
pub fn quantile_us(ascending: &[Duration], share: f64) -> f64 {
    treefold_figures::quantile(ascending, share).map_or(0.0, |took| took.as_secs_f64() * 1e6)
}

fn render(figures: &Figures) -> String {
    format!(
        "{} nodes, {}\n  round trip   {:.0} µs median, {:.0} µs at the 99th percentile\n  \
         processor    {:.1} µs a round trip over all processes ({:.1} of it the caller's)\n  \
         throughput   {:.0} waves/s\n  processor    {:.1} µs a wave over all processes ({:.1} of it the caller's), \
         {:.2} µs a wave and node\n  ready after  {:.0} ms",
        figures.nodes,
        figures.shape,
        figures.roundtrip_us_p50,
        figures.roundtrip_us_p99,
        figures.roundtrip_cpu_us,
        figures.client_roundtrip_cpu_us,
        figures.waves_per_s,
        figures.cpu_us_per_wave,
        figures.client_cpu_us_per_wave,
        figures.cpu_us_per_wave_and_node,
        figures.instantiate_ms
    )
}
