//! One run of one system: starts its processes, lets it warm up, and measures it.

use crate::clock::{cpu_time, signal};
use crate::front::Front;
use crate::peer::{Count, Peer};
use crate::redis::Redis;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use treefold::Shape;
use treefold_figures::median;

pub(crate) type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Time before the measurement.
const WARM_UP: Duration = Duration::from_millis(700);

#[derive(Debug, Args)]
pub(crate) struct TrialArgs {
    /// The system to measure
    #[arg(long, value_enum, default_value_t = SystemName::Treefold)]
    system: SystemName,
    /// Number of endpoint processes
    #[arg(long)]
    pub(crate) endpoints: u32,
    /// Size of a packet
    #[arg(long)]
    pub(crate) bytes: u32,
    #[command(flatten)]
    pub(crate) load: Load,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SystemName {
    Treefold,
    Redis,
}

/// The load of a trial, the same for all systems.
#[derive(Debug, Args)]
pub(crate) struct Load {
    /// Packets per second, in an open loop; as fast as possible by default
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Length of the measurement in seconds
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Fault of endpoint 0: it is stopped for --stop-seconds, or takes --slow-us for each packet
    #[arg(long, value_enum, default_value_t = Fault::None)]
    pub(crate) fault: Fault,
    /// Time that a stopped endpoint stays stopped, in seconds
    #[arg(long, default_value_t = 2.0)]
    stop_seconds: f64,
    /// Time that a slow endpoint takes for a packet, in microseconds
    #[arg(long, default_value_t = 1_000)]
    pub(crate) slow_us: u64,
    /// The stream's window
    #[arg(long, default_value_t = 1 << 20)]
    pub(crate) window_bytes: u64,
    /// Bytes by which an endpoint may lag before packets pass over it; without it, the stream waits for the slowest
    #[arg(long)]
    pub(crate) lag_bytes: Option<u64>,
    /// Shape of the tree
    #[arg(long, default_value = "flat", value_parser = crate::front::shape)]
    pub(crate) shape: Shape,
    /// Take packets in a task of its own instead of on the node's loop
    #[arg(long)]
    pub(crate) in_task: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    None,
    Stop,
    Slow,
}

impl Load {
    /// The words of a command line that mean this load.
    pub(crate) fn words(&self) -> Vec<String> {
        let fault = self.fault.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
        let mut words: Vec<String> = [
            ("--seconds", self.seconds.to_string()),
            ("--fault", fault),
            ("--slow-us", self.slow_us.to_string()),
            ("--stop-seconds", self.stop_seconds.to_string()),
            ("--window-bytes", self.window_bytes.to_string()),
            ("--shape", self.shape.to_string()),
        ]
        .into_iter()
        .flat_map(|(flag, value)| [flag.to_owned(), value])
        .collect();
        if let Some(rate) = self.rate {
            words.extend(["--rate".to_owned(), rate.to_string()]);
        }
        if let Some(bytes) = self.lag_bytes {
            words.extend(["--lag-bytes".to_owned(), bytes.to_string()]);
        }
        if self.in_task {
            words.push("--in-task".to_owned());
        }
        words
    }
}

/// The figures of a trial. Without a fault they are those of the worst endpoint; with one, of the worst other endpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    packets_per_s: f64,
    /// Processor time of all processes for each packet and endpoint.
    cpu_us: f64,
    /// The sender's part of it.
    sender_cpu_us: f64,
    delay_p50_us: f64,
    delay_p99_us: f64,
    /// Longest time without a packet; only in an open loop.
    pause_ms_max: f64,
    /// Packets per second at the endpoint with the fault, and how often it was told that it missed packets.
    faulty_packets_per_s: f64,
    faulty_gaps_told: f64,
}

/// A system that sends to counting processes.
enum System {
    Treefold(Box<Front>),
    Redis(Redis),
}

impl System {
    fn peers(&mut self) -> &mut Vec<Peer> {
        match self {
            Self::Treefold(front) => &mut front.peers,
            Self::Redis(redis) => &mut redis.peers,
        }
    }

    fn send(
        &self,
        args: &TrialArgs,
        stop: &Arc<AtomicBool>,
    ) -> Result<JoinHandle<Result<(), String>>, Problem> {
        match self {
            Self::Treefold(front) => Ok(front.send(args, stop)),
            Self::Redis(redis) => redis.send(args, stop),
        }
    }

    /// Processor time of the sender, and of all processes.
    fn cpu_times(&mut self) -> Result<(Duration, Duration), Problem> {
        let mut sender = cpu_time(std::process::id())?;
        if let Self::Redis(redis) = self {
            sender += cpu_time(redis.server_id())?;
        }
        let mut all = sender;
        for peer in self.peers() {
            all += peer.cpu_time()?;
        }
        Ok((sender, all))
    }
}

pub(crate) fn run(args: &TrialArgs) -> Result<Figures, Problem> {
    let mut system = match args.system {
        SystemName::Treefold => System::Treefold(Box::new(Front::start(args)?)),
        SystemName::Redis => System::Redis(Redis::start(args)?),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let sending = system.send(args, &stop)?;
    std::thread::sleep(WARM_UP);
    for peer in system.peers() {
        peer.mark()?;
    }
    let (began, before) = (Instant::now(), system.cpu_times()?);
    if args.load.fault == Fault::Stop {
        let stopped = system.peers()[0].id();
        signal(stopped, libc::SIGSTOP)?;
        std::thread::sleep(Duration::from_secs_f64(args.load.stop_seconds));
        signal(stopped, libc::SIGCONT)?;
    }
    std::thread::sleep(Duration::from_secs_f64(args.load.seconds));
    let (elapsed, after) = (began.elapsed().as_secs_f64(), system.cpu_times()?);
    let counts = system.peers().iter_mut().map(Peer::report).collect::<Result<Vec<Count>, Problem>>()?;
    stop.store(true, Ordering::Relaxed);
    // A sender without room would wait for the packets that an endpoint does not take.
    if args.load.fault == Fault::None {
        sending.join().map_err(|_| "the sender panicked")??;
    }
    let faulty = usize::from(args.load.fault != Fault::None);
    let worst = |figure: fn(&Count) -> f64| counts[faulty..].iter().map(figure).fold(0.0, f64::max);
    let fewest = counts[faulty..].iter().map(|count| count.packets).min().unwrap_or(0) as f64;
    let all_packets: u64 = counts.iter().map(|count| count.packets).sum();
    let each_us = |time: Duration| time.as_secs_f64() * 1e6 / (all_packets as f64).max(1.0);
    let faulty = counts.first().filter(|_| faulty == 1).cloned().unwrap_or_default();
    Ok(Figures {
        packets_per_s: fewest / elapsed,
        cpu_us: each_us(after.1 - before.1),
        sender_cpu_us: each_us(after.0 - before.0),
        delay_p50_us: worst(|count| count.delay_p50_us),
        delay_p99_us: worst(|count| count.delay_p99_us),
        pause_ms_max: worst(|count| count.pause_ms_max),
        faulty_packets_per_s: faulty.packets as f64 / elapsed,
        faulty_gaps_told: faulty.gaps_told as f64,
    })
}

/// The median of each figure.
pub(crate) fn medians(runs: &[Figures]) -> Figures {
    let of = |figure: fn(&Figures) -> f64| median(runs.iter().map(figure).collect()).unwrap_or(0.0);
    Figures {
        packets_per_s: of(|run| run.packets_per_s),
        cpu_us: of(|run| run.cpu_us),
        sender_cpu_us: of(|run| run.sender_cpu_us),
        delay_p50_us: of(|run| run.delay_p50_us),
        delay_p99_us: of(|run| run.delay_p99_us),
        pause_ms_max: of(|run| run.pause_ms_max),
        faulty_packets_per_s: of(|run| run.faulty_packets_per_s),
        faulty_gaps_told: of(|run| run.faulty_gaps_told),
    }
}

pub(crate) fn line(figures: &Figures) -> String {
    serde_json::to_string(figures).expect("invariant: numbers can be written as JSON")
}

/// The figures of one case as a line of JSON.
pub(crate) fn row(system: &str, bytes: u32, endpoints: u32, figures: &Figures) -> String {
    serde_json::json!({ "system": system, "bytes": bytes, "endpoints": endpoints, "figures": figures })
        .to_string()
}

/// The figures of one case for people.
pub(crate) fn text(system: &str, bytes: u32, endpoints: u32, figures: &Figures) -> String {
    let Figures { packets_per_s, cpu_us, sender_cpu_us, delay_p50_us, delay_p99_us, pause_ms_max, .. } =
        figures;
    let mut text = format!(
        "{bytes:>6} B to {endpoints}  {packets_per_s:>9.0} packets/s  {cpu_us:.2} µs each ({sender_cpu_us:.2} the sender's)"
    );
    if *delay_p99_us > 0.0 {
        text += &format!("  delay {delay_p50_us:.0} / {delay_p99_us:.0} µs  pause {pause_ms_max:.0} ms");
    }
    if figures.faulty_packets_per_s > 0.0 {
        let Figures { faulty_packets_per_s, faulty_gaps_told, .. } = figures;
        text += &format!("  faulty: {faulty_packets_per_s:.0} packets/s, {faulty_gaps_told:.0} gaps told");
    }
    format!("{text}  {system}")
}
