//! `treefold bench stream`: measures the cost of a stream over one process per back-end.
//!
//! The method is MRNet's: one number from each back-end, added up on the way, waiting for all. Either all back-ends are
//! children of the front-end and a shape makes some of them fold for others (`--shape`), or the network has inner processes
//! of its own, as MRNet's networks do (`--topology`). There are three phases, each on a separate stream ([`front`]):
//!
//! 1. A broadcast of 32 bytes and the sum that answers it, one at a time. This gives the round-trip time.
//! 2. The same with several in flight. This gives round trips per second.
//! 3. Packets up only: the back-ends push as fast as their window allows. This gives waves per second and the
//!    processor time of each wave over all processes.
//!
//! Every sum is checked against the wave's contributors. A wave fails the benchmark if its sum is wrong or if
//! it omits a back-end without reporting it missing. A wave that reports missing back-ends is only counted.

mod measured;

use super::call::quantile_us;
use super::network::{FrontEnd, Started};
use crate::exit::{Failure, Verdict};
use crate::fleet::NODES_MAX;
use crate::output::{Format, print, print_json, rounded};
use crate::parse;
use crate::serve::pulse::Part;
use clap::Args;
use measured::MeasuredStream;
use serde::Serialize;
use std::time::{Duration, Instant};
use treefold::{CallError, Shape, StreamBuilder};
use treefold_network::topology::generate::{LAYOUT_NAMES, Layout};

/// Measure streams over N back-end processes: instantiation, round trips, waves per second, processor time per wave
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchStream {
    /// Number of back-ends, one process and one endpoint each; this process is the front-end
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    backends: u32,

    /// Shape of the tree below the front-end: kary:K, flat, or any other shape that calls have
    #[arg(long, value_name = "SHAPE", default_value = "kary:8", value_parser = parse::shape)]
    shape: Shape,

    /// Layout of a network with inner processes, started level by level, and streams over exactly this tree: flat, kary:K, binomial,
    /// binomial:N, balanced:SHAPE [default: all back-ends are children of the front-end, and streams have --shape]
    #[arg(long, value_name = "LAYOUT", conflicts_with = "shape", value_parser = layout)]
    topology: Option<Layout>,

    /// Number of round trips made one after another
    #[arg(long, value_name = "R", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Number of broadcasts in flight in the second phase
    #[arg(long, value_name = "D", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    in_flight: u32,

    /// Duration of the measurement in the second and in the third phase, in seconds
    #[arg(long, value_name = "S", default_value_t = 3.0, value_parser = parse::seconds)]
    seconds: f64,

    /// Size of each node's window in bytes: sent up and not yet taken
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 10, value_parser = clap::value_parser!(u64).range(1..))]
    window_bytes: u64,

    /// Give the network no token: its connections are not encrypted
    #[arg(long)]
    plain: bool,
}

const EXAMPLES: &str = "\
Every sum is checked against its wave's contributors, and waves with missing back-ends are counted
(incomplete_waves): there are none, unless there are far more processes than processors. With -o json, one line:
  {backends, inner_processes, topology, shape, front_children, instantiate_ms, up_ms, roundtrip_us_p50,
   roundtrip_us_p99, in_flight, roundtrips_per_s, cpu_us_per_roundtrip, front_cpu_us_per_roundtrip, window_bytes, waves_per_s, cpu_us_per_wave,
   front_cpu_us_per_wave, cpu_us_per_wave_and_backend, incomplete_waves}
inner_processes counts the stream's nodes without endpoints, front_children the nodes that send to the front-end.
Times count from the first process's start: until all have attached (up_ms), and until a stream over all of
them has given an exact sum (instantiate_ms). A round trip is a broadcast of 32 bytes and a sum;
waves are up only. cpu_us figures count all processes, the front-end's included; front_cpu_us figures are its part.

Examples:
  treefold bench stream --backends 64 --shape kary:8
  treefold bench stream --backends 64 --topology kary:8
  treefold bench stream --backends 256 --shape flat -o json";

/// The measured figures.
#[derive(Serialize)]
struct Figures {
    backends: u32,
    inner_processes: usize,
    topology: String,
    shape: String,
    front_children: usize,
    #[serde(serialize_with = "rounded")]
    instantiate_ms: f64,
    #[serde(serialize_with = "rounded")]
    up_ms: f64,
    #[serde(serialize_with = "rounded")]
    roundtrip_us_p50: f64,
    #[serde(serialize_with = "rounded")]
    roundtrip_us_p99: f64,
    in_flight: u32,
    #[serde(serialize_with = "rounded")]
    roundtrips_per_s: f64,
    #[serde(serialize_with = "rounded")]
    cpu_us_per_roundtrip: f64,
    #[serde(serialize_with = "rounded")]
    front_cpu_us_per_roundtrip: f64,
    window_bytes: u64,
    #[serde(serialize_with = "rounded")]
    waves_per_s: f64,
    #[serde(serialize_with = "rounded")]
    cpu_us_per_wave: f64,
    #[serde(serialize_with = "rounded")]
    front_cpu_us_per_wave: f64,
    #[serde(serialize_with = "rounded")]
    cpu_us_per_wave_and_backend: f64,
    incomplete_waves: u64,
}

/// Time for which a new network is left alone before it is measured, because processes that have just started
/// still have other work.
const REST: Duration = Duration::from_secs(2);

/// Round trips made before the first one that counts.
const WARM_UP_ROUNDS: u32 = 100;

impl BenchStream {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let measure = async |front_end: &FrontEnd, started: &Started| self.measure(front_end, started).await;
        let figures = FrontEnd::during(self.backends, &self.layout(), !self.plain, measure).await?;
        match format {
            Format::Json => print_json(&figures),
            Format::Text => print(render(&figures)),
        }
        Ok(Verdict::Full)
    }

    fn layout(&self) -> Layout {
        self.topology.clone().unwrap_or(Layout::Flat)
    }

    fn shape(&self) -> Shape {
        if self.topology.is_some() { Shape::Topology } else { self.shape }
    }

    async fn measure(&self, network: &FrontEnd, started: &Started) -> Result<Figures, Failure> {
        self.open(network, Part::Echo).await?.round_trip().await?;
        let instantiate = started.started_at.elapsed();
        tokio::time::sleep(REST).await;
        let mut front = self.open(network, Part::Echo).await?;
        let mut roundtrips = self.round_trips(&mut front).await?;
        roundtrips.sort_unstable();
        let seconds = Duration::from_secs_f64(self.seconds);
        let pipelined = front.pipeline(&started.nodes, self.in_flight, seconds).await?;
        let mut incomplete_waves = front.incomplete();
        drop(front);
        let mut front = self.open(network, Part::Tick).await?;
        let pushed = front.watch(&started.nodes, seconds).await?;
        incomplete_waves += front.incomplete();
        let (inner_processes, front_children) = front.tree();
        let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
        Ok(Figures {
            backends: self.backends,
            inner_processes,
            topology: self.layout().to_string(),
            shape: self.shape().to_string(),
            front_children,
            instantiate_ms: millis(instantiate),
            up_ms: millis(started.up),
            roundtrip_us_p50: quantile_us(&roundtrips, 0.50),
            roundtrip_us_p99: quantile_us(&roundtrips, 0.99),
            in_flight: self.in_flight,
            roundtrips_per_s: pipelined.waves_per_s(),
            cpu_us_per_roundtrip: pipelined.cpu_us_per_wave(),
            front_cpu_us_per_roundtrip: pipelined.own_cpu_us_per_wave(),
            window_bytes: self.window_bytes,
            waves_per_s: pushed.waves_per_s(),
            cpu_us_per_wave: pushed.cpu_us_per_wave(),
            front_cpu_us_per_wave: pushed.own_cpu_us_per_wave(),
            cpu_us_per_wave_and_backend: pushed.cpu_us_per_wave() / f64::from(self.backends),
            incomplete_waves,
        })
    }

    async fn open(&self, network: &FrontEnd, part: Part) -> Result<MeasuredStream, Failure> {
        let lay_out = |builder: StreamBuilder| {
            builder.up_filter("sum").shape(self.shape()).window_bytes(self.window_bytes)
        };
        Ok(MeasuredStream::of(network.open(part, lay_out).await?, self.backends))
    }

    async fn round_trips(&self, front: &mut MeasuredStream) -> Result<Vec<Duration>, Failure> {
        for _ in 0..WARM_UP_ROUNDS {
            front.round_trip().await?;
        }
        let mut all = Vec::with_capacity(self.rounds as usize);
        for _ in 0..self.rounds {
            let started_at = Instant::now();
            front.round_trip().await?;
            all.push(started_at.elapsed());
        }
        Ok(all)
    }
}

fn layout(text: &str) -> Result<Layout, CallError> {
    text.parse().map_err(|_| CallError::bad_field("topology", text, LAYOUT_NAMES))
}

fn render(figures: &Figures) -> String {
    let incomplete = match figures.incomplete_waves {
        0 => String::new(),
        waves => format!("\n  incomplete   {waves} waves reported missing back-ends"),
    };
    let tree = match &figures.shape {
        shape if *shape == Shape::Topology.to_string() => {
            format!("topology {}, {} inner processes", figures.topology, figures.inner_processes)
        }
        shape => shape.clone(),
    };
    format!(
        "{} back-ends, {tree}\n  ready after  {:.0} ms: all have attached after {:.0} ms\n  \
         round trip   {:.0} µs median, {:.0} µs at the 99th percentile\n  {} in flight {:.0} round trips/s, {:.1} µs of \
         processor each ({:.1} of it the front-end's)\n  up only      {:.0} waves/s\n  processor    {:.1} µs a wave over \
         all processes ({:.1} of it the front-end's), {:.2} µs a wave and back-end{incomplete}",
        figures.backends,
        figures.instantiate_ms,
        figures.up_ms,
        figures.roundtrip_us_p50,
        figures.roundtrip_us_p99,
        figures.in_flight,
        figures.roundtrips_per_s,
        figures.cpu_us_per_roundtrip,
        figures.front_cpu_us_per_roundtrip,
        figures.waves_per_s,
        figures.cpu_us_per_wave,
        figures.front_cpu_us_per_wave,
        figures.cpu_us_per_wave_and_backend
    )
}
