//! `bench-cluster stream-faults`: checks that waves are right, and measures how soon all endpoints are in
//! them again, while inner nodes and back-ends are killed and stopped.
//!
//! The front-end broadcasts numbered rounds at a steady pace. Every back-end answers with its number, the
//! round it is in, and a mark of both ([`Part::Witness`]); the sums of these come up. At the same time nodes
//! are killed, started again, stopped and resumed at random ([`super::breaker`]). [`judge`] compares every
//! wave with the sums that its own contributors must have sent. This detects a wave that is mixed with
//! another, that answers one round too late, or that counts an endpoint twice. [`watch`] measures the time
//! from each fault until all unbroken back-ends are in a wave again.
//!
//! This process is the front-end and knows as much of its tree as a user's front-end would. A seed determines
//! the faults, but not how the kernel schedules them.

mod judge;
mod report;
mod watch;

use super::breaker::{Breaker, Happening, Plan};
use super::faults::drawn_seed;
use super::judged;
use clap::Args;
use judge::Judge;
use report::{Faults, Report};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::str::FromStr;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;
use tokio::time::MissedTickBehavior;
use treefold::operators::packet::Row;
use treefold::{CallError, Shape, Stream, StreamEvent, StreamSender, Synchronisation};
use treefold_cli::commands::bench::network::FrontEnd;
use treefold_cli::commands::failure_of;
use treefold_cli::exit::{Failure, Verdict};
use treefold_cli::output::{Format, print, print_json};
use treefold_cli::parse;
use treefold_cli::serve::pulse::Part;
use watch::Watch;

/// Check waves over N back-end processes while inner nodes and back-ends are killed, stopped and restarted
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchStreamFaults {
    /// Number of back-ends, one process and one endpoint each; this process is the front-end
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=256))]
    backends: u32,

    /// Shape of the tree below the front-end
    #[arg(long, value_name = "SHAPE", default_value = "kary:4", value_parser = parse::shape)]
    shape: Shape,

    /// Number of waves to ask for
    #[arg(long, value_name = "W", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    waves: u64,

    /// Rate of waves per second; lower while more than 64 are unanswered
    #[arg(long, value_name = "R", default_value_t = 250, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,

    /// Rule that completes a wave: wait-for-all, time-out:MS or do-not-wait
    #[arg(long, value_name = "MODE", default_value = "wait-for-all", value_parser = str::parse::<Mode>)]
    mode: Mode,

    /// Seed of the faults. If it is left out, a seed is drawn and printed
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

const EXAMPLES: &str = "\
With -o json, one line:
  {backends, shape, mode, seed, waves, full, partial, wrong, unanswered, survivors_missed, kills, stops, inner_broken,
   recovered: {count, ms_p50, ms_p99, ms_max}, recovered_from_several: {...}, returned: {...}, answered: {...},
   seconds, cases: [...],
   faults: [{at_ms, backend, fault, inner, recovered_ms, one_of_several, returned_ms}]}
wrong counts waves whose figures are not the sum over their own contributors for their own round, tags that came
twice or were never asked for, and waves that report a contributor as missing; unanswered counts rounds without any
answer. survivors_missed counts absences from waves of back-ends that were not broken then. recovered is the time
from a fault until one wave held all unbroken back-ends; recovered_from_several is the same for faults that another
fault followed before that; returned is the time from a node's mending until it was in a wave; answered is the time
from a broadcast to its wave. Exit code 1 if any wave was wrong or unanswered.

Examples:
  bench-cluster stream-faults --seed 7
  bench-cluster stream-faults --mode time-out:50 --waves 2000 -o json";

/// The front-end is this process, so no node is spared.
///
/// The gaps between faults are long enough that most faults are over, and the nodes back, before the next
/// fault; some are not.
const PLAN: Plan =
    Plan { spared: 0, gap_ms: (200.0, 2_500.0), away_ms: (0.0, 1_000.0), still_ms: (100.0, 2_000.0) };

/// Largest number of rounds in flight: enough that a fault always meets some of them half-way.
const UNANSWERED_MAX: usize = 64;

/// Time after which a round is given up if nothing more of it comes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Interval between two checks for rounds without an answer.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The synchronisation of a wave, as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    WaitForAll,
    TimeOut { ms: u32 },
    DoNotWait,
}

impl Mode {
    fn synchronisation(self) -> Synchronisation {
        match self {
            Self::WaitForAll => Synchronisation::WaitForAll,
            Self::TimeOut { ms } => Synchronisation::TimeOut(Duration::from_millis(ms.into())),
            Self::DoNotWait => Synchronisation::DoNotWait,
        }
    }
}

impl FromStr for Mode {
    type Err = CallError;

    fn from_str(text: &str) -> Result<Self, CallError> {
        let ms = || text.strip_prefix("time-out:")?.parse().ok().filter(|&ms| ms > 0);
        match text {
            "wait-for-all" => Ok(Self::WaitForAll),
            "do-not-wait" => Ok(Self::DoNotWait),
            _ => ms().map(|ms| Self::TimeOut { ms }).ok_or_else(|| {
                CallError::bad_field("mode", text, "wait-for-all, time-out:MS (MS from 1), do-not-wait")
            }),
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::WaitForAll => f.write_str("wait-for-all"),
            Self::TimeOut { ms } => write!(f, "time-out:{ms}"),
            Self::DoNotWait => f.write_str("do-not-wait"),
        }
    }
}

impl BenchStreamFaults {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let seed = self.seed.unwrap_or_else(drawn_seed);
        let report = LocalSet::new().run_until(self.measure(seed)).await?;
        match format {
            Format::Json => print_json(&report),
            Format::Text => print(report.render()),
        }
        judged(report.verdict(), seed)
    }

    async fn measure(&self, seed: u64) -> Result<Report, Failure> {
        let (front_end, fleet) = FrontEnd::of_cluster(self.backends).await?;
        let lay_out = |builder: treefold::StreamBuilder| {
            builder.up_filter("sum").shape(self.shape).synchronisation(self.mode.synchronisation())
        };
        let stream = front_end.open(Part::Witness, lay_out).await?;
        let gathers = self.mode != Mode::DoNotWait;
        let scene = Rc::new(Scene {
            judge: RefCell::new(Judge::of(self.backends, gathers)),
            watch: RefCell::new(Watch::of(self.backends)),
            all_asked: Cell::new(false),
        });
        let told = Rc::clone(&scene);
        let mut breaker = Breaker::new(fleet, PLAN, seed, move |happening| told.note(happening));
        let began_at = Instant::now();
        let asking = tokio::task::spawn_local(ask(stream.sender(), Rc::clone(&scene), self.rate, self.waves));
        let ended = tokio::select! {
            ended = scene.attend(stream) => ended,
            failure = breaker.run() => Err(failure),
        };
        asking.abort();
        breaker.mend_all().await?;
        let (kills, stops, seconds) = (breaker.kills, breaker.stops, began_at.elapsed().as_secs_f64());
        breaker.end().await;
        ended?;
        let (shape, mode) = (self.shape.to_string(), self.mode.to_string());
        let report = Report {
            backends: self.backends,
            shape,
            mode,
            seed,
            kills,
            stops,
            seconds,
            findings: scene.judge.borrow().findings(),
            faults: Faults { began_at, records: scene.watch.borrow().records().to_vec() },
        };
        Ok(report)
    }
}

/// State that the asking task, the breaker and the receiver share.
struct Scene {
    judge: RefCell<Judge>,
    watch: RefCell<Watch>,
    all_asked: Cell<bool>,
}

impl Scene {
    fn note(&self, happening: Happening) {
        let (now, asked) = (Instant::now(), self.judge.borrow().asked());
        if let Happening::Broke(node, _) = happening {
            self.judge.borrow_mut().broke(endpoint_of(node));
        }
        self.watch.borrow_mut().note(now, asked, happening);
    }

    /// Receives until every round is answered or given up.
    async fn attend(&self, mut stream: Stream) -> Result<(), Failure> {
        loop {
            let event = tokio::time::timeout(LOOK_INTERVAL, stream.next()).await;
            let now = Instant::now();
            match event {
                Ok(Ok(StreamEvent::Wave(wave))) => {
                    let seen = self.judge.borrow_mut().take(now, &wave);
                    self.watch.borrow_mut().saw(now, wave.tag, &wave.contributors, &seen);
                }
                Ok(Ok(StreamEvent::Changed { trees, .. })) => self.watch.borrow_mut().trees_are(&trees),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(failure_of(error)),
                // No event, but rounds may have become too old.
                Err(_) => {}
            }
            self.judge.borrow_mut().give_up(now, PATIENCE);
            if self.all_asked.get() && self.judge.borrow().unanswered() == 0 {
                return Ok(());
            }
        }
    }
}

/// The endpoint of a node has the node's number.
fn endpoint_of(node: usize) -> u32 {
    u32::try_from(node).expect("invariant: a fleet has at most NODES_MAX nodes")
}

/// Broadcasts rounds at a steady pace; slower while many rounds are unanswered.
async fn ask(sender: StreamSender, scene: Rc<Scene>, rate_per_s: u32, rounds: u64) {
    let mut pace = tokio::time::interval(Duration::from_secs(1) / rate_per_s);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for round in 1..=rounds {
        pace.tick().await;
        while scene.judge.borrow().unanswered() >= UNANSWERED_MAX {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        let expected = scene.watch.borrow().present().clone();
        scene.judge.borrow_mut().ask(Instant::now(), round, expected);
        let number = i64::try_from(round).expect("invariant: no run has 2^63 waves");
        // If the stream is over, the receiver reports it.
        if sender.send_tagged(round, Row::new().i64(number).packet().into_bytes()).await.is_err() {
            return;
        }
    }
    scene.all_asked.set(true);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_parse_from_their_printed_names() {
        for text in ["wait-for-all", "time-out:50", "do-not-wait"] {
            assert_eq!(text.parse::<Mode>().unwrap().to_string(), text);
        }
        for senseless in ["", "time-out", "time-out:", "time-out:0", "wait"] {
            assert!(senseless.parse::<Mode>().unwrap_err().to_string().contains("do-not-wait"));
        }
    }
}
