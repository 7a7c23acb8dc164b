//! `bench-cluster stream-stall`: a front-end that stops reading while every back-end sends as fast as it
//! may.
//!
//! Three conditions must hold: the back-ends are held back; the nodes between keep no more than their
//! windows; and when the front-end reads again, every wave comes complete and in order. The benchmark has
//! three phases. First the front-end reads. Then it stops reading while the memory of all nodes is measured
//! repeatedly. Then it reads all waiting waves and continues to read.

use clap::Args;
use serde::Serialize;
use std::time::{Duration, Instant};
use treefold::{PartitionSet, Shape, Stream};
use treefold_cli::commands::bench::network::{FrontEnd, Layout, Started};
use treefold_cli::commands::failure_of;
use treefold_cli::exit::{Failure, Verdict};
use treefold_cli::fleet::NODES_MAX;
use treefold_cli::output::{Format, print, print_json, rounded};
use treefold_cli::parse;
use treefold_cli::serve::pulse::Part;

/// Measure every node's memory while the front-end does not read and all back-ends push
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchStreamStall {
    /// Number of back-ends, one process and one endpoint each; this process is the front-end
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    backends: u32,

    /// Shape of the tree below the front-end
    #[arg(long, value_name = "SHAPE", default_value = "kary:4", value_parser = parse::shape)]
    shape: Shape,

    /// Time that the front-end reads before it stops, and time that it then does not read, in seconds
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = parse::seconds)]
    seconds: f64,

    /// Size of each packet in bytes; packets pass through no filter
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 10, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    packet_bytes: u32,

    /// Size of each node's window in bytes: sent up and not yet taken
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    window_bytes: u64,
}

const EXAMPLES: &str = "\
With -o json, one line:
  {backends, shape, packet_bytes, window_bytes, stalled_s, waves_per_s, waves_waiting,
   node_kib_reading_max, node_kib_stalled_max, node_growth_kib_max, front_growth_kib, waves_per_s_after}
node_kib figures are private memory of the largest node. Growth is that of the node that grew most, from the last
reading while the front-end read to any reading while it did not. waves_waiting came at once when it read again.
Exit code 1 if a wave was lost, came twice, or lacked a back-end.

Examples:
  bench-cluster stream-stall --backends 16 --shape kary:4
  bench-cluster stream-stall --packet-bytes 1000 --window-bytes 65536 -o json";

#[derive(Debug, Serialize)]
struct Figures {
    backends: u32,
    shape: String,
    packet_bytes: u32,
    window_bytes: u64,
    #[serde(serialize_with = "rounded")]
    stalled_s: f64,
    #[serde(serialize_with = "rounded")]
    waves_per_s: f64,
    waves_waiting: u64,
    node_kib_reading_max: u64,
    node_kib_stalled_max: u64,
    node_growth_kib_max: u64,
    front_growth_kib: u64,
    #[serde(serialize_with = "rounded")]
    waves_per_s_after: f64,
}

/// Interval between two readings of the nodes' memory.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Limit on the time of a wave.
///
/// A wave that takes longer counts as lost.
const WAVE_TIMEOUT: Duration = Duration::from_secs(30);
/// Waves within this time after the front-end reads again count as waiting.
const AT_ONCE: Duration = Duration::from_millis(1);

impl BenchStreamStall {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let measure = async |front_end: &FrontEnd, started: &Started| self.measure(front_end, started).await;
        let figures = FrontEnd::during(self.backends, &Layout::Flat, true, measure).await?;
        match format {
            Format::Json => print_json(&figures),
            Format::Text => print(render(&figures)),
        }
        Ok(Verdict::Full)
    }

    async fn measure(&self, front_end: &FrontEnd, started: &Started) -> Result<Figures, Failure> {
        let lay_out =
            |builder: treefold::StreamBuilder| builder.shape(self.shape).window_bytes(self.window_bytes);
        let stream = front_end.open(Part::Flood { bytes: self.packet_bytes }, lay_out).await?;
        let mut reader = Reader { stream, backends: PartitionSet::first(self.backends), next: 1 };
        let waves_per_s = reader.read_for(self.seconds).await?;
        let reading = private_kib(started)?;
        let (stalled_at, mut stalled) = (Instant::now(), reading.clone());
        while stalled_at.elapsed().as_secs_f64() < self.seconds {
            tokio::time::sleep(LOOK_INTERVAL).await;
            for (most, now) in stalled.iter_mut().zip(private_kib(started)?) {
                *most = now.max(*most);
            }
        }
        let stalled_s = stalled_at.elapsed().as_secs_f64();
        let waves_waiting = reader.read_waiting().await?;
        let waves_per_s_after = reader.read_for(self.seconds).await?;
        let growth: Vec<u64> =
            stalled.iter().zip(&reading).map(|(most, before)| most.saturating_sub(*before)).collect();
        let (front_growth_kib, nodes) = growth.split_last().expect("invariant: the front-end is the last");
        let largest = |kib: &[u64]| kib[..nodes.len()].iter().copied().max().unwrap_or(0);
        Ok(Figures {
            backends: self.backends,
            shape: self.shape.to_string(),
            packet_bytes: self.packet_bytes,
            window_bytes: self.window_bytes,
            stalled_s,
            waves_per_s,
            waves_waiting,
            node_kib_reading_max: largest(&reading),
            node_kib_stalled_max: largest(&stalled),
            node_growth_kib_max: largest(&growth),
            front_growth_kib: *front_growth_kib,
            waves_per_s_after,
        })
    }
}

/// Reads the private memory of every node and, last, of this process.
fn private_kib(started: &Started) -> Result<Vec<u64>, Failure> {
    let own = treefold_cli::fleet::cost::footprint(std::process::id())
        .map_err(|error| Failure::failed(format!("can't read this process's memory: {error}")))?;
    let nodes = started.nodes.footprints()?;
    Ok(nodes.iter().chain([&own]).map(|footprint| footprint.private_kib).collect())
}

/// Receives waves; each must be the next one and contain all back-ends.
struct Reader {
    stream: Stream,
    backends: PartitionSet,
    next: u64,
}

impl Reader {
    /// Reads for `seconds` and returns waves per second.
    async fn read_for(&mut self, seconds: f64) -> Result<f64, Failure> {
        let (began_at, from) = (Instant::now(), self.next);
        while began_at.elapsed().as_secs_f64() < seconds {
            if !self.read_within(WAVE_TIMEOUT).await? {
                return Err(Failure::failed(format!("no wave came within {WAVE_TIMEOUT:?}")));
            }
        }
        Ok((self.next - from) as f64 / began_at.elapsed().as_secs_f64())
    }

    /// Reads the waves that are waiting and returns their number.
    async fn read_waiting(&mut self) -> Result<u64, Failure> {
        let (began_at, from) = (Instant::now(), self.next);
        while began_at.elapsed() < AT_ONCE && self.read_within(AT_ONCE).await? {}
        Ok(self.next - from)
    }

    async fn read_within(&mut self, patience: Duration) -> Result<bool, Failure> {
        let Ok(wave) = tokio::time::timeout(patience, self.stream.wave()).await else { return Ok(false) };
        let wave = wave.map_err(failure_of)?;
        if wave.tag != self.next || wave.contributors != self.backends || !wave.missing.is_empty() {
            return Err(Failure::failed(format!(
                "wave {} from {} of {} back-ends came, expected wave {} from all; missing {:?}",
                wave.tag,
                wave.contributors.len(),
                self.backends.len(),
                self.next,
                wave.missing
            )));
        }
        self.next += 1;
        Ok(true)
    }
}

fn render(figures: &Figures) -> String {
    format!(
        "{} back-ends, {}, packets of {} bytes, windows of {} bytes\n  while it reads     {:.0} waves/s; the largest \
         node has {} KiB of its own\n  while it does not  {} waves wait for it after {:.1} s; the largest node has {} \
         KiB, and none grew by more than {} KiB; the front-end grew by {} KiB\n  afterwards         {:.0} waves/s; \
         no wave was lost, came twice or lacked a back-end",
        figures.backends,
        figures.shape,
        figures.packet_bytes,
        figures.window_bytes,
        figures.waves_per_s,
        figures.node_kib_reading_max,
        figures.waves_waiting,
        figures.stalled_s,
        figures.node_kib_stalled_max,
        figures.node_growth_kib_max,
        figures.front_growth_kib,
        figures.waves_per_s_after,
    )
}
