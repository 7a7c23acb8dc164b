//! `bench-cluster flood`: one application floods a relay with large partials at many times the rate that the
//! relay can fold, while another application makes few calls.
//!
//! The relay and the nodes below it are processes; the folds really spin and the partials are really sent.
//! There are three phases: the modest application alone; the flooding application alone, with callers that
//! wait for their answers, which gives the rate that the relay can fold; then both, with the flooding
//! application at a multiple of that rate, whether or not its calls are answered. Three conditions must hold:
//! the relay's memory stays within its limits; its senders are held back; and the modest application is
//! answered as before, except that it may wait for one fold that has begun.

use clap::Args;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;
use treefold::{Client, Shape, Status};
use treefold_cli::commands::{connect, failure_of};
use treefold_cli::exit::{Failure, Verdict};
use treefold_cli::fleet::Fleet;
use treefold_cli::output::{Format, print, print_json, rounded, short};
use treefold_cli::parse;
use treefold_figures::quantile;
use treefold_micro::{Folded, Work};

/// Flood a relay with one application's large partials; measure its memory and another application's calls
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchFlood {
    /// Number of nodes below the relay; each is one process with one partition of each application
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=64))]
    providers: u32,

    /// Size of each of the flooding application's partials, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=16384))]
    payload_kib: u64,

    /// Time that each of the flooding application's folds spins, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10.0, value_parser = parse::positive)]
    fold_ms: f64,

    /// Rate of the flood, as a multiple of the rate that the relay folds
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = parse::positive)]
    times: f64,

    /// Rate of the modest application's calls, in calls per second
    #[arg(long, value_name = "N", default_value_t = 20.0, value_parser = parse::positive)]
    modest_per_s: f64,

    /// Duration of each phase, in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = parse::seconds)]
    seconds: f64,

    /// Size of the relay's room for partials that wait to be folded (held_bytes_max), in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=16384))]
    held_mib: u64,
}

const EXAMPLES: &str = "\
With -o json, one line:
  {providers, payload_kib, fold_ms, held_mib, capacity_per_s, flooded_per_s, flood_answered_per_s, flood_failed_by_reason,
   relay_mib: {before, capacity, flooded_first_half, flooded_second_half, after}, relay_held_mib_max,
   provider_mib_max, alone: {asked_per_s, answered_per_s, p50_ms, p99_ms}, flooded: {...}, after: {...},
   throughput_ratio, p50_ratio, p99_ratio}
Resident memory is the maximum of each phase. Ratios are the modest application's, flooded against alone. Exit code
1 if an answer was wrong.

Examples:
  bench-cluster flood
  bench-cluster flood --times 20 --payload-kib 4096 --seconds 20 -o json";

/// Deadline of each call.
///
/// A call of the flood that is not answered by then ends without an answer.
const DEADLINE: Duration = Duration::from_secs(2);
/// Interval between two readings of the relay.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Number of callers that measure how much the relay folds.
const CAPACITY_CALLERS: u32 = 8;
/// Time during which connections are made and costs are learned.
const WARM_UP: Duration = Duration::from_secs(1);
/// The relay's index in the fleet.
const RELAY: usize = 0;

#[derive(Debug, Serialize)]
struct Figures {
    providers: u32,
    payload_kib: u64,
    fold_ms: f64,
    held_mib: u64,
    #[serde(serialize_with = "rounded")]
    capacity_per_s: f64,
    #[serde(serialize_with = "rounded")]
    flooded_per_s: f64,
    #[serde(serialize_with = "rounded")]
    flood_answered_per_s: f64,
    /// Missing partitions of calls that were not answered in full, by reason.
    flood_failed_by_reason: BTreeMap<&'static str, u64>,
    relay_mib: Memory,
    #[serde(serialize_with = "rounded")]
    relay_held_mib_max: f64,
    #[serde(serialize_with = "rounded")]
    provider_mib_max: f64,
    alone: Modest,
    flooded: Modest,
    after: Modest,
    #[serde(serialize_with = "rounded")]
    throughput_ratio: f64,
    #[serde(serialize_with = "rounded")]
    p50_ratio: f64,
    #[serde(serialize_with = "rounded")]
    p99_ratio: f64,
}

/// The relay's resident memory in MiB, the maximum of each phase.
#[derive(Debug, Serialize)]
struct Memory {
    #[serde(serialize_with = "rounded")]
    before: f64,
    #[serde(serialize_with = "rounded")]
    capacity: f64,
    #[serde(serialize_with = "rounded")]
    flooded_first_half: f64,
    #[serde(serialize_with = "rounded")]
    flooded_second_half: f64,
    #[serde(serialize_with = "rounded")]
    after: f64,
}

/// The modest application's rates and response times.
#[derive(Debug, Serialize)]
struct Modest {
    #[serde(serialize_with = "rounded")]
    asked_per_s: f64,
    #[serde(serialize_with = "rounded")]
    answered_per_s: f64,
    #[serde(serialize_with = "rounded")]
    p50_ms: f64,
    #[serde(serialize_with = "rounded")]
    p99_ms: f64,
}

/// Results of one application's calls so far.
#[derive(Debug, Default)]
struct Tally {
    asked: u64,
    answered_ms: Vec<f64>,
    failed: BTreeMap<&'static str, u64>,
    wrong: Option<String>,
}

/// One application's caller.
#[derive(Clone)]
struct Caller {
    client: Client,
    name: &'static str,
    work: Work,
    providers: u32,
}

impl Caller {
    /// Makes one call and records its result.
    async fn call(self, tally: Rc<RefCell<Tally>>) {
        tally.borrow_mut().asked += 1;
        let began_at = Instant::now();
        let kind = format!("{}/spin", self.name);
        let call = self.client.call::<Folded>(&kind, &self.work).shape(Shape::Auto).deadline(DEADLINE);
        let answer = call.await;
        let mut tally = tally.borrow_mut();
        match answer {
            Ok(reply) if reply.status == Status::Full => {
                tally.answered_ms.push(began_at.elapsed().as_secs_f64() * 1e3);
                let expected = i64::from(self.providers * (self.providers - 1) / 2);
                if reply.value.is_none_or(|it| (it.sum, it.partitions) != (expected, self.providers)) {
                    tally.wrong = Some(format!("an answer of {} is not {expected}", self.name));
                }
            }
            Ok(reply) => {
                for missing in &reply.missing {
                    *tally.failed.entry(missing.reason.name()).or_default() +=
                        missing.partitions.len() as u64;
                }
            }
            Err(treefold::Error::Rejected(_)) => *tally.failed.entry("rejected").or_default() += 1,
            Err(error) => tally.wrong = Some(format!("a call of {} failed: {error}", self.name)),
        }
    }

    /// Calls at a fixed rate for `seconds`, whether or not calls are answered.
    ///
    /// Returns when the last call has ended.
    async fn at_rate(self, per_s: f64, seconds: f64, tally: Rc<RefCell<Tally>>) {
        let (began_at, mut open) = (Instant::now(), tokio::task::JoinSet::new());
        for number in 0_u32.. {
            let due = f64::from(number) / per_s;
            if due >= seconds {
                break;
            }
            let wait = Duration::from_secs_f64(due).saturating_sub(began_at.elapsed());
            // A sleep takes at least a millisecond, so a call that is late is sent at once.
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            open.spawn_local(self.clone().call(Rc::clone(&tally)));
        }
        while open.join_next().await.is_some() {}
    }

    /// Runs `callers` callers for `seconds`; each calls again as soon as it has its answer.
    async fn without_pause(self, callers: u32, seconds: f64, tally: Rc<RefCell<Tally>>) {
        let (began_at, mut open) = (Instant::now(), tokio::task::JoinSet::new());
        for _ in 0..callers {
            let (caller, tally) = (self.clone(), Rc::clone(&tally));
            open.spawn_local(async move {
                while began_at.elapsed().as_secs_f64() < seconds {
                    caller.clone().call(Rc::clone(&tally)).await;
                }
            });
        }
        while open.join_next().await.is_some() {}
    }
}

/// Memory readings of the relay and of the providers.
#[derive(Debug, Default)]
struct Seen {
    /// Pairs of seconds since the beginning and the relay's resident memory.
    relay_kib: Vec<(f64, u64)>,
    provider_kib_max: u64,
    held_bytes_max: usize,
}

impl Seen {
    fn relay_mib_max(&self, from_s: f64, until_s: f64) -> f64 {
        let within = self.relay_kib.iter().filter(|(at_s, _)| (from_s..until_s).contains(at_s));
        within.map(|&(_, kib)| kib as f64 / 1024.0).fold(0.0, f64::max)
    }
}

impl BenchFlood {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let limits = tempfile::NamedTempFile::new().and_then(|file| {
            let text = format!("[limits]\nheld_bytes_max = {}\n", self.held_mib << 20);
            std::fs::write(file.path(), text).map(|()| file)
        });
        let limits =
            limits.map_err(|error| Failure::failed(format!("can't write the relay's limits: {error}")))?;
        let config = limits.path().display().to_string();
        let fleet = Fleet::start_told(self.told(&config)).await?;
        let figures = LocalSet::new().run_until(self.measure(&fleet)).await;
        fleet.end().await;
        let (figures, wrong) = figures?;
        match format {
            Format::Json => print_json(&figures),
            Format::Text => print(render(&figures)),
        }
        wrong.map_or(Ok(Verdict::Full), |wrong| Err(Failure::Told(wrong)))
    }

    /// Returns the arguments of each process.
    fn told(&self, config: &str) -> Vec<Vec<String>> {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<String>>();
        let place = ["--rack", "r1", "--workers", "1", "--processors", "1"];
        let relay = words(&["--relay", "--config", config]);
        let mut told = vec![[words(&place), relay].concat()];
        for partition in 0..self.providers {
            let serve = |name| format!("micro:partitions={partition}/{}:name={name}", self.providers);
            told.push(
                [words(&place), words(&["--serve", &serve("flood"), "--serve", &serve("modest")])].concat(),
            );
        }
        told
    }

    async fn measure(&self, fleet: &Fleet) -> Result<(Figures, Option<String>), Failure> {
        fleet.meet().await?;
        let client = async |at: usize| connect(&[fleet.addr(at).to_owned()], false, fleet.cluster()).await;
        let work = Work {
            local_ms: 0.0,
            reduce_ms: self.fold_ms,
            payload_bytes: self.payload_kib << 10,
            ..Work::default()
        };
        // Each application has a front of its own, so that they share only the relay.
        let flood = Caller { client: client(1).await?, name: "flood", work, providers: self.providers };
        let work = Work { local_ms: 0.1, reduce_ms: 0.5, ..Work::default() };
        let modest = Caller { client: client(2).await?, name: "modest", work, providers: self.providers };
        let relay = client(RELAY).await?;

        let tally = || Rc::new(RefCell::new(Tally::default()));
        flood.clone().without_pause(1, WARM_UP.as_secs_f64(), tally()).await;
        modest.clone().without_pause(1, WARM_UP.as_secs_f64(), tally()).await;

        let (alone, capacity, flooded, of_flood, after) = (tally(), tally(), tally(), tally(), tally());
        let calls = modest.clone().at_rate(self.modest_per_s, self.seconds, Rc::clone(&alone));
        let seen_alone = watch(fleet, &relay, calls).await?;
        let began_at = Instant::now();
        let calls = flood.clone().without_pause(CAPACITY_CALLERS, self.seconds, Rc::clone(&capacity));
        let seen_capacity = watch(fleet, &relay, calls).await?;
        let capacity_per_s = capacity.borrow().answered_ms.len() as f64 / began_at.elapsed().as_secs_f64();
        let flooded_per_s = capacity_per_s * self.times;
        let calls = async {
            tokio::join!(
                flood.at_rate(flooded_per_s, self.seconds, Rc::clone(&of_flood)),
                modest.clone().at_rate(self.modest_per_s, self.seconds, Rc::clone(&flooded)),
            );
        };
        let seen_flooded = watch(fleet, &relay, calls).await?;
        let calls = modest.at_rate(self.modest_per_s, self.seconds, Rc::clone(&after));
        let seen_after = watch(fleet, &relay, calls).await?;

        let fared = |tally: &Rc<RefCell<Tally>>| self.fared(&tally.borrow());
        let (alone_fared, flooded_fared) = (fared(&alone), fared(&flooded));
        let half = self.seconds / 2.0;
        let figures = Figures {
            providers: self.providers,
            payload_kib: self.payload_kib,
            fold_ms: self.fold_ms,
            held_mib: self.held_mib,
            capacity_per_s,
            flooded_per_s,
            flood_answered_per_s: of_flood.borrow().answered_ms.len() as f64 / self.seconds,
            flood_failed_by_reason: of_flood.borrow().failed.clone(),
            relay_mib: Memory {
                before: seen_alone.relay_mib_max(0.0, f64::MAX),
                capacity: seen_capacity.relay_mib_max(0.0, f64::MAX),
                flooded_first_half: seen_flooded.relay_mib_max(0.0, half),
                flooded_second_half: seen_flooded.relay_mib_max(half, f64::MAX),
                after: seen_after.relay_mib_max(half, f64::MAX),
            },
            relay_held_mib_max: seen_flooded.held_bytes_max as f64 / f64::from(1 << 20),
            provider_mib_max: seen_flooded.provider_kib_max as f64 / 1024.0,
            throughput_ratio: flooded_fared.answered_per_s / alone_fared.answered_per_s,
            p50_ratio: flooded_fared.p50_ms / alone_fared.p50_ms,
            p99_ratio: flooded_fared.p99_ms / alone_fared.p99_ms,
            after: fared(&after),
            alone: alone_fared,
            flooded: flooded_fared,
        };
        let tallies = [alone, capacity, flooded, of_flood, after];
        let wrong = tallies.iter().find_map(|tally| tally.borrow_mut().wrong.take());
        Ok((figures, wrong))
    }

    fn fared(&self, tally: &Tally) -> Modest {
        let mut sorted = tally.answered_ms.clone();
        sorted.sort_by(f64::total_cmp);
        Modest {
            asked_per_s: tally.asked as f64 / self.seconds,
            answered_per_s: sorted.len() as f64 / self.seconds,
            p50_ms: quantile(&sorted, 0.5).unwrap_or(f64::NAN),
            p99_ms: quantile(&sorted, 0.99).unwrap_or(f64::NAN),
        }
    }
}

/// Reads the processes' memory while calls are made.
async fn watch(fleet: &Fleet, relay: &Client, calls: impl Future<Output = ()>) -> Result<Seen, Failure> {
    let (mut seen, began_at, processes) = (Seen::default(), Instant::now(), fleet.processes());
    let mut calls = std::pin::pin!(calls);
    loop {
        tokio::select! {
            () = &mut calls => return Ok(seen),
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
        let footprints = processes.footprints()?;
        seen.relay_kib.push((began_at.elapsed().as_secs_f64(), footprints[RELAY].resident_kib));
        let providers = footprints[RELAY + 1..].iter().map(|footprint| footprint.resident_kib);
        seen.provider_kib_max = providers.fold(seen.provider_kib_max, u64::max);
        tokio::select! {
            () = &mut calls => return Ok(seen),
            report = relay.shares() => {
                let held = report.map_err(failure_of)?.services.iter().map(|account| account.held_bytes).sum();
                seen.held_bytes_max = seen.held_bytes_max.max(held);
            }
        }
    }
}

fn render(figures: &Figures) -> String {
    let Figures { relay_mib, alone, flooded, after, .. } = figures;
    let modest = |fared: &Modest| {
        let ms = |ms: f64| short(Duration::from_secs_f64(ms.max(0.0) / 1e3));
        format!(
            "{:.1} of {:.1} calls/s answered, median {}, p99 {}",
            fared.answered_per_s,
            fared.asked_per_s,
            ms(fared.p50_ms),
            ms(fared.p99_ms)
        )
    };
    let failed: Vec<String> =
        figures.flood_failed_by_reason.iter().map(|(why, n)| format!("{why} {n}")).collect();
    format!(
        "a relay over {} nodes; the flood's partials have {} KiB, its folds spin for {} ms; the relay holds up to {} \
         MiB\n  the relay folds     {:.1} calls/s of it\n  flooded with      {:.1} calls/s, it answers {:.1}; missing \
         partitions: {}\n  its memory        {:.0} MiB before, {:.0} at its capacity, {:.0} and {:.0} in the flood's halves, {:.0} \
         after; held: {:.1} at most; a sender: {:.0} at most\n  the other, alone  {}\n  in the flood      {}\n  after it          \
         {}\n  ratios            throughput {:.3}, median {:.2}, p99 {:.2}",
        figures.providers,
        figures.payload_kib,
        figures.fold_ms,
        figures.held_mib,
        figures.capacity_per_s,
        figures.flooded_per_s,
        figures.flood_answered_per_s,
        if failed.is_empty() { "none".to_owned() } else { failed.join(", ") },
        relay_mib.before,
        relay_mib.capacity,
        relay_mib.flooded_first_half,
        relay_mib.flooded_second_half,
        relay_mib.after,
        figures.relay_held_mib_max,
        figures.provider_mib_max,
        modest(alone),
        modest(flooded),
        modest(after),
        figures.throughput_ratio,
        figures.p50_ratio,
        figures.p99_ratio,
    )
}
