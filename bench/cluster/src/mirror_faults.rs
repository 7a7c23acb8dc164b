//! `bench-cluster mirror-faults`: a feed whose origin, mirrors and readers are killed at random (`kill -9`).
//!
//! ```text
//!   sources (this process) ── TCP ──▶ origin ═▶ mirrors, a process each ═▶ displays (`mirror watch`)
//!        ◀── acknowledged ─────────── journal
//! ```
//!
//! Each round kills one or two processes while events flow, starts them again, and lets the feed come to rest. Then
//! these must hold:
//!
//! - Every event is acknowledged, and each mirror has the last value of every key. The sources repeat only events that
//!   were never acknowledged, so a lost acknowledged event leaves a stale value for good.
//! - Every display has seen the last value of every key, each mirrored event once and in its place, and each key's
//!   events in their order, also those displays that moved to another mirror or were started again.
//!
//! With `--nats`, the sources publish to a JetStream stream instead, an event is acknowledged when JetStream has stored it,
//! and the server is killed too. All else must hold as before: the origin takes each stored event once and in order.
//!
//! [`source`] writes events, [`display`] reads them, [`parts`] starts and kills the processes, and [`nats`]
//! the server.

mod display;
mod nats;
mod parts;
mod source;

use super::faults::drawn_seed;
use super::judged;
use clap::Args;
use display::Seen;
use nats::Nats;
use parts::{Feed, Part, Succession};
use serde::{Deserialize, Serialize};
use source::Sources;
use std::time::{Duration, Instant};
use treefold::{Client, PartitionSet};
use treefold_cli::commands::bench::call::quantile_us;
use treefold_cli::exit::{Failure, Verdict};
use treefold_cli::output::{Format, print, print_json, rounded};
use treefold_core::random::Random;

/// Check that a feed loses no acknowledged event while its origin, mirrors and readers are killed
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchMirrorFaults {
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Number of mirrors
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=16))]
    mirrors: u32,

    /// Number of displays that follow the feed
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    displays: u32,

    /// When the origin's journal is forced to the disk, as for `treefold mirror feed`; none for no journal, with which
    /// this experiment must fail
    #[arg(long, value_name = "POLICY", default_value = "always")]
    sync: String,

    /// Take the events from a JetStream stream, and kill its server too. The program is nats-server, or the one that
    /// TREEFOLD_NATS_SERVER names
    #[arg(long)]
    nats: bool,

    /// The origin has no journal. When it dies, another one takes over from the mirrors, of which it needs two copies
    #[arg(long, conflicts_with_all = ["sync", "nats"])]
    standby: bool,

    /// Seed of the faults. If it is left out, a seed is drawn and printed
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

const EXAMPLES: &str = "\
With -o json, one line:
  {rounds, seed, kills: {origin, mirror, display, nats}, acknowledged, mirrored, seen, moved, snapshots,
   resumed_ms_p50, resumed_ms_p99, resumed_ms_max, seconds, problems: [...]}
acknowledged counts events, mirrored those that the rules chose, seen those that displays got, snapshots those that
displays got after their start. resumed_ms is the time from a fault until an event sent after it was acknowledged.
Exit code 1 if an acknowledged event was lost, or a display missed, repeated or reordered an event.

Examples:
  bench-cluster mirror-faults --rounds 1000 --seed 7
  bench-cluster mirror-faults --rounds 200 --nats
  bench-cluster mirror-faults --rounds 200 --standby --seed 7
  bench-cluster mirror-faults --rounds 20 --sync none";

/// Rules that keep last values, so that all states can be compared at rest.
const RULES: &str = "\
[checkpoint]
every_events = 50

[[rule]]
name = 'positions'
overwrite = { type = 'position', run = 4, max_age_ms = 20 }
";
/// Longest time from the beginning of a round to its first kill, in ms.
const KILL_WITHIN_MS: usize = 300;
/// Longest time that a killed process stays away, in ms.
const AWAY_MS: usize = 200;
/// Time that the feed has to come to rest. It is far above what it needs on a busy machine.
const REST_WITHIN: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug, Default, Serialize)]
struct Kills {
    origin: u32,
    mirror: u32,
    display: u32,
    nats: u32,
}

#[derive(Debug, Serialize)]
struct Figures {
    rounds: u32,
    seed: u64,
    kills: Kills,
    acknowledged: u64,
    mirrored: u64,
    seen: u64,
    moved: u64,
    snapshots: u64,
    #[serde(serialize_with = "rounded")]
    resumed_ms_p50: f64,
    #[serde(serialize_with = "rounded")]
    resumed_ms_p99: f64,
    #[serde(serialize_with = "rounded")]
    resumed_ms_max: f64,
    #[serde(serialize_with = "rounded")]
    seconds: f64,
    problems: Vec<String>,
}

/// Parameters and answer of a mirror's aggregation `get`.
#[derive(Debug, Serialize, Deserialize)]
struct Wanted {
    keys: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Found {
    epoch: u32,
    position: u64,
    rows: Vec<serde_json::Value>,
}

impl BenchMirrorFaults {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let seed = self.seed.unwrap_or_else(drawn_seed);
        let mut trial = Trial::start(&self).await?;
        let played = trial.play(self.rounds, Random::new(seed)).await;
        let figures = trial.figures(seed).await;
        played?;
        match format {
            Format::Json => print_json(&figures),
            Format::Text => print(render(&figures)),
        }
        let count = figures.problems.len();
        judged((count > 0).then(|| format!("{count} problems; the first: {}", figures.problems[0])), seed)
    }
}

/// The feed, and all that is known of it.
struct Trial {
    feed: Feed,
    sources: Sources,
    client: Client,
    mirrors: u32,
    rounds: u32,
    kills: Kills,
    resumed: Vec<Duration>,
    position: u64,
    began: Instant,
    problems: Vec<String>,
}

impl Trial {
    async fn start(args: &BenchMirrorFaults) -> Result<Self, Failure> {
        let succession = match args.sync.as_str() {
            _ if args.standby => Succession::Standby,
            "none" => Succession::Nothing,
            sync => Succession::Journal(sync.to_owned()),
        };
        let nats = if args.nats { Some(Nats::start().await?) } else { None };
        let feed = Feed::start(args.mirrors, args.displays, succession, RULES, nats).await?;
        let client = feed.connect().await?;
        let sources = Sources::start(feed.source_addr(), feed.nats_addr().as_deref());
        Ok(Self {
            feed,
            sources,
            client,
            mirrors: args.mirrors,
            rounds: 0,
            kills: Kills::default(),
            resumed: Vec::new(),
            position: 0,
            began: Instant::now(),
            problems: Vec::new(),
        })
    }

    /// Plays rounds until the first problem.
    async fn play(&mut self, rounds: u32, mut random: Random) -> Result<(), Failure> {
        self.rest().await;
        while self.rounds < rounds && self.problems.is_empty() {
            self.rounds += 1;
            self.round(&mut random).await?;
        }
        Ok(())
    }

    async fn round(&mut self, random: &mut Random) -> Result<(), Failure> {
        self.sources.go();
        pause(random, KILL_WITHIN_MS).await;
        let mut broken = Vec::new();
        // Two of the same kind would leave a pair of mirrors without a state between them.
        for _ in 0..1 + random.below(2) {
            let kinds = if self.feed.nats_addr().is_some() { 4 } else { 3 };
            let part = match random.below(kinds) {
                3 => Part::Nats,
                0 => Part::Origin,
                1 => Part::Mirror(random.below(self.mirrors as usize)),
                _ => Part::Display(random.below(self.feed.displays().len())),
            };
            if broken.iter().all(|known: &Part| !known.is_like(part)) {
                self.feed.kill(part).await?;
                match part {
                    Part::Origin => self.kills.origin += 1,
                    Part::Mirror(_) => self.kills.mirror += 1,
                    Part::Display(_) => self.kills.display += 1,
                    Part::Nats => self.kills.nats += 1,
                }
                broken.push(part);
                pause(random, AWAY_MS / 4).await;
            }
        }
        let (sent, broke_at) = (self.sources.sent(), Instant::now());
        pause(random, AWAY_MS).await;
        // An origin needs its source at its start.
        broken.sort_by_key(|part| *part != Part::Nats);
        for part in broken {
            self.feed.restart(part).await?;
        }
        let give_up_at = Instant::now() + REST_WITHIN;
        while !self.sources.has_acknowledged(&sent, 1) {
            if Instant::now() > give_up_at {
                self.problems.push(format!("round {}: no event is acknowledged any more", self.rounds));
                return Ok(());
            }
            tokio::time::sleep(LOOK_INTERVAL / 10).await;
        }
        self.resumed.push(broke_at.elapsed());
        self.rest().await;
        Ok(())
    }

    /// Stops the sources, and waits until everyone has everything.
    async fn rest(&mut self) {
        self.sources.pause();
        let give_up_at = Instant::now() + REST_WITHIN;
        loop {
            let lack = self.lack().await;
            let seen = self.feed.displays().iter().flat_map(Seen::problems);
            self.problems.extend(seen.chain(self.sources.problems()));
            if !self.problems.is_empty() {
                return;
            }
            match lack {
                None => return,
                Some(lack) if Instant::now() > give_up_at => {
                    self.problems.push(format!("round {}: {lack}", self.rounds));
                    return;
                }
                Some(_) => tokio::time::sleep(LOOK_INTERVAL).await,
            }
        }
    }

    /// The first thing that anyone lacks.
    async fn lack(&mut self) -> Option<String> {
        let sent = self.sources.sent();
        if !self.sources.has_acknowledged(&sent, 0) {
            return Some("events are not acknowledged".to_owned());
        }
        let last = self.sources.last_values();
        for mirror in 0..self.mirrors {
            let params = Wanted { keys: last.keys().cloned().collect() };
            let called = self
                .client
                .call::<Found>("flights/get", &params)
                .partitions(PartitionSet::from_iter([mirror]))
                .deadline(Duration::from_secs(1));
            let found = match called.await.map(|reply| reply.value) {
                Ok(Some(found)) => found,
                Ok(None) => return Some(format!("mirror {mirror} is not current")),
                Err(error) => return Some(format!("mirror {mirror}: {error}")),
            };
            self.position = self.position.max(found.position);
            if found.rows.len() != last.len() {
                return Some(format!("mirror {mirror} has {} of {} keys", found.rows.len(), last.len()));
            }
            for row in &found.rows {
                let (key, number) = (row["key"].as_str().unwrap_or_default(), row["fields"]["n"].as_u64());
                if number != last.get(key).copied() {
                    return Some(format!("mirror {mirror} has {number:?} of {key}, not {:?}", last.get(key)));
                }
            }
        }
        let displays = self.feed.displays().iter().enumerate();
        displays.filter_map(|(at, seen)| seen.lacks(&last).map(|lack| format!("display {at}: {lack}"))).next()
    }

    async fn figures(self, seed: u64) -> Figures {
        let mut resumed = self.resumed;
        resumed.sort_unstable();
        let ms = |share| if resumed.is_empty() { 0.0 } else { quantile_us(&resumed, share) / 1e3 };
        let sum = |count: fn(&Seen) -> u64| self.feed.displays().iter().map(count).sum();
        let figures = Figures {
            rounds: self.rounds,
            seed,
            kills: self.kills,
            acknowledged: self.sources.sent().iter().sum(),
            mirrored: self.position,
            seen: sum(Seen::events),
            moved: sum(Seen::moved),
            snapshots: sum(Seen::snapshots),
            resumed_ms_p50: ms(0.5),
            resumed_ms_p99: ms(0.99),
            resumed_ms_max: ms(1.0),
            seconds: self.began.elapsed().as_secs_f64(),
            problems: self.problems,
        };
        self.feed.end().await;
        figures
    }
}

async fn pause(random: &mut Random, ms_max: usize) {
    tokio::time::sleep(Duration::from_millis(random.below(ms_max + 1) as u64)).await;
}

fn render(figures: &Figures) -> String {
    let Kills { origin, mirror, display, nats } = &figures.kills;
    format!(
        "{} rounds in {:.0} s: {origin} origins, {mirror} mirrors, {display} displays and {nats} brokers were killed (seed {})\n\
         {} events acknowledged, {} mirrored, {} seen by displays, which moved {} times and took {} further snapshots\n\
         events were acknowledged again {:.0} ms after a fault (median; p99 {:.0} ms, at most {:.0} ms)\n\
         {} problems",
        figures.rounds,
        figures.seconds,
        figures.seed,
        figures.acknowledged,
        figures.mirrored,
        figures.seen,
        figures.moved,
        figures.snapshots,
        figures.resumed_ms_p50,
        figures.resumed_ms_p99,
        figures.resumed_ms_max,
        figures.problems.len(),
    )
}
