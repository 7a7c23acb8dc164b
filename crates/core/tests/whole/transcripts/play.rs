//! A transcript's commands, in the simulated world.
//!
//! ```text
//! cluster nodes=6 partitions=6      one front-end `front`, which holds nothing, and nodes n1, n2, …
//!     options: replicas=1 local=5ms reduce=1ms partial=100 eager=65536 window=1048576
//! call shape=kary:2 deadline=200ms  the front-end calls all partitions
//! open mode=wait_for_all shape=kary:2 filter=sum every=20ms reads=yes
//!                                   the front-end opens a stream over them
//!     mode: wait_for_all, time_out, do_not_wait; without `every`, endpoints answer packets down;
//!     packets=N: packets of each endpoint
//! send tag=7                        the front-end sends a packet down
//! read, close                       the front-end's user begins to read; closes the stream
//! kill n1, stop n1, resume n1, restart n1, cut front n1, mend, run 50ms
//! ```

use crate::transcripts::said;
use std::collections::BTreeMap;
use treefold_core::call::CallOptions;
use treefold_core::config::Placement;
use treefold_core::effect::{Effect, Event};
use treefold_core::id::{NodeId, RequestId};
use treefold_core::input::Input;
use treefold_core::limits::Limits;
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::{StreamOptions, Synchronisation};
use treefold_core::time::{Duration, Instant};
use treefold_core::tree::shape::Shape;
use treefold_sim::world::distribution::Distribution;
use treefold_sim::world::ink::Ink;
use treefold_sim::world::place::{Operators, Spec, place_of};
use treefold_sim::world::streams::{Habit, Play as StreamPlay, StreamPlan, Tags};
use treefold_sim::world::{Setting, Watch, World};

/// The front-end's place.
const FRONT: usize = 0;
/// Where an action of a node begins in a line.
const NAME_WIDTH: usize = 5;

/// A short name for a node, by its place.
pub fn name(node: NodeId) -> String {
    let (at, life) = place_of(node);
    let again = "'".repeat(life.saturating_sub(1) as usize);
    if at == FRONT { format!("front{again}") } else { format!("n{at}{again}") }
}

/// Records the actions of nodes.
#[derive(Default)]
struct Log {
    lines: Vec<String>,
    names: BTreeMap<usize, String>,
}

impl Log {
    fn note(&mut self, now: Instant, at: usize, text: &str) {
        let ms = now.since(Instant::START).as_millis_f64();
        let name = self.names.get(&at).cloned().unwrap_or_default();
        self.lines.push(format!("{ms:8.2}  {name:<NAME_WIDTH$}  {text}"));
    }
}

impl Watch for Log {
    fn input(&mut self, now: Instant, at: usize, input: &Input<Ink>) {
        if let Input::Lost { peer } = input {
            self.note(now, at, &format!("loses its connection to {}", name(*peer)));
        }
    }

    fn effect(&mut self, now: Instant, at: usize, effect: &Effect<Ink>) {
        let text = match effect {
            Effect::Send { to, message } => {
                said::message(message).map(|text| format!("→ {}: {text}", name(*to)))
            }
            Effect::Run(job) => Some(said::work(&job.work)),
            Effect::Filter(effect) => said::filter(effect),
            Effect::Deliver(Event::CallDone { outcome, .. }) => Some(said::outcome(outcome)),
            Effect::Deliver(Event::Stream { event, .. }) => Some(said::stream_event(event)),
            Effect::Deliver(Event::Endpoint { endpoint, event, .. }) => {
                Some(said::endpoint_event(*endpoint, event))
            }
            Effect::Trace(point) => said::trace(point),
            _ => None,
        };
        if let Some(text) = text {
            self.note(now, at, &text);
        }
    }
}

/// A script that is played.
#[derive(Default)]
pub struct Play {
    world: Option<World>,
    log: Log,
    request: Option<RequestId>,
}

/// `name=value` pairs and plain words of a command.
struct Words<'a> {
    plain: Vec<&'a str>,
    named: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn of(command: &'a str) -> Self {
        let (mut plain, mut named) = (Vec::new(), BTreeMap::new());
        for word in command.split_whitespace() {
            match word.split_once('=') {
                Some((name, value)) => drop(named.insert(name, value)),
                None => plain.push(word),
            }
        }
        Self { plain, named }
    }

    fn text(&self, name: &str, otherwise: &'a str) -> &'a str {
        self.named.get(name).copied().unwrap_or(otherwise)
    }

    fn number(&self, name: &str, otherwise: u64) -> u64 {
        self.named
            .get(name)
            .map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: no number")))
    }

    fn time(&self, name: &str, otherwise: &'a str) -> Duration {
        time(self.text(name, otherwise))
    }

    fn shape(&self) -> Shape {
        let text = self.text("shape", "kary:2");
        match text.split_once(':') {
            Some(("kary", k)) => Shape::KAry(k.parse().expect("kary:2")),
            _ => match text {
                "flat" => Shape::Flat,
                "chain" => Shape::Chain,
                other => panic!("shape={other}: not one of kary:K, flat, chain"),
            },
        }
    }
}

/// A time such as `50ms`.
fn time(text: &str) -> Duration {
    let number =
        |text: &str| text.parse::<f64>().unwrap_or_else(|_| panic!("{text}: no time such as 50ms or 2s"));
    match text.strip_suffix("ms") {
        Some(ms) => Duration::from_millis_f64(number(ms)),
        None => Duration::from_millis_f64(number(text.trim_end_matches('s')) * 1_000.0),
    }
}

impl Play {
    /// The actions of nodes since the last call.
    pub fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log.lines)
    }

    fn world(&mut self) -> (&mut World, &mut Log) {
        (self.world.as_mut().expect("a transcript begins with a cluster"), &mut self.log)
    }

    fn place(&self, word: &str) -> usize {
        let number = word.strip_prefix('n').and_then(|number| number.parse().ok());
        if word == "front" {
            FRONT
        } else {
            number.unwrap_or_else(|| panic!("{word}: no node; nodes are front, n1, n2, …"))
        }
    }

    /// Executes a line of the script.
    pub fn obey(&mut self, command: &str) {
        let words = Words::of(command);
        let at = |place: usize| {
            let word = words.plain.get(place).unwrap_or_else(|| panic!("{command}: which node?"));
            self.place(word)
        };
        match words.plain[0] {
            "cluster" => return self.begin(&words),
            "call" => return self.call(&words),
            "open" => return self.open(&words),
            _ => {}
        }
        let (first, second) = match words.plain[0] {
            "kill" | "stop" | "resume" | "restart" => (at(1), 0),
            "cut" => (at(1), at(2)),
            _ => (0, 0),
        };
        let request = self.request;
        let asked = || request.unwrap_or_else(|| panic!("{command}: no stream has been opened"));
        let (world, log) = self.world();
        match words.plain[0] {
            "kill" => world.kill(first),
            "stop" => world.stop(first),
            "resume" => world.resume(first, log),
            "restart" => {
                world.restart(first);
                log.names.insert(first, name(world.place(first).id()));
                let all: Vec<usize> = (0..world.places()).collect();
                all.iter().for_each(|&at| world.introduce(at, &all));
            }
            "cut" => {
                world.cut(first, second);
                world.cut(second, first);
            }
            "mend" => world.mend(),
            "send" => {
                world.send_down(FRONT, asked(), words.number("tag", 1), None, log);
            }
            "read" => world.pace_reader(FRONT, asked(), Some(Duration::ZERO), log),
            "close" => world.close_stream(FRONT, asked(), log),
            "run" => {
                let until = world.now() + time(words.plain.get(1).expect("run 50ms"));
                world.run_until(until, log);
            }
            other => panic!("{other}: no command of a transcript"),
        }
    }

    fn begin(&mut self, words: &Words<'_>) {
        let (nodes, partitions) = (words.number("nodes", 6) as u32, words.number("partitions", 6) as u32);
        let replicas = words.number("replicas", 1) as u32;
        let operators = Operators {
            name: "s/sum".into(),
            local: Distribution::Fixed(words.time("local", "5ms").as_millis_f64()),
            reduce: Distribution::Fixed(words.time("reduce", "1ms").as_millis_f64()),
            join: Distribution::Fixed(0.0),
            partial_bytes: words.number("partial", 100) as u32,
            placement: Placement::Pool,
            folds_in_pairs: false,
        };
        let mut world = World::new(Setting { operators: vec![operators], ..Setting::micro(1, partitions) });
        let mut limits = Limits::DEFAULT;
        limits.eager_bytes_max = words.number("eager", limits.eager_bytes_max as u64) as usize;
        limits.stream_window_bytes = words.number("window", limits.stream_window_bytes as u64) as usize;
        let start = |world: &mut World, holding: PartitionSet| {
            world.start(Spec { limits: limits.clone(), ..Spec::holding(holding) })
        };
        start(&mut world, PartitionSet::new());
        for at in 0..nodes {
            let is_held = |p: &u32| (0..replicas).any(|replica| (p + replica) % nodes == at);
            start(&mut world, (0..partitions).filter(is_held).collect());
        }
        world.introduce_all();
        self.log.names = (0..world.places()).map(|at| (at, name(world.place(at).id()))).collect();
        // Wait until the nodes know each other and are connected.
        world.run_until(world.now() + Duration::from_millis(1), &mut ());
        self.world = Some(world);
    }

    fn call(&mut self, words: &Words<'_>) {
        let options = CallOptions {
            deadline: words.time("deadline", "200ms"),
            shape: words.shape(),
            min_coverage: words.text("min_coverage", "0").parse().expect("a share"),
            ..CallOptions::default()
        };
        let (world, log) = self.world();
        world.call(FRONT, Ink::params(1, 1.0), options, log);
    }

    fn open(&mut self, words: &Words<'_>) {
        let synchronisation = match words.text("mode", "wait_for_all") {
            "wait_for_all" => Synchronisation::WaitForAll,
            "time_out" => Synchronisation::TimeOut(words.time("wait", "50ms").into()),
            "do_not_wait" => Synchronisation::DoNotWait,
            other => panic!("mode={other}: not one of wait_for_all, time_out, do_not_wait"),
        };
        let every = words.named.contains_key("every").then(|| words.time("every", "20ms"));
        let plan = StreamPlan {
            synchronisation,
            up_filter: words.text("filter", "sum").into(),
            down_filter: "".into(),
            options: StreamOptions { shape: words.shape(), ..StreamOptions::default() },
            lag_bytes_max: None,
            play: StreamPlay {
                habit: Habit {
                    answers: every.is_none(),
                    every,
                    tags: Tags::Counted,
                    packets_max: words.number("packets", u64::MAX),
                },
                packet_bytes: words.number("packet", 100) as u32,
                takes_for: Duration::ZERO,
                slow: None,
                reads_for: (words.text("reads", "yes") == "yes").then_some(Duration::ZERO),
                filter_work: Duration::from_micros(5),
                filter_placement: Placement::Inline,
            },
        };
        let (world, log) = self.world();
        self.request = Some(world.open_stream(FRONT, &plan, log));
    }
}
