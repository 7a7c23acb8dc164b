//! Plays a scenario: calls and faults happen at their times, then everything is healed, and the world must
//! come to rest.
//!
//! ```text
//!   calls, faults ──▶ heal ──▶ rest (nothing is left anywhere) ──▶ converge ──▶ last calls ──▶ rest
//! ```
//!
//! A stage consists of the world, its watchers, and the play's own records. The parts of a play are in files
//! of their own: `calls` makes calls, `streams` opens streams, `feed` begins
//! a feed of mirrors, `placing` asks for another placement of partitions, `pushes` has the workers' pushes and the
//! announcements for them, `faults` applies faults, and `recovery` heals them. A broken invariant ends the
//! play at once.

mod audience;
mod calls;
mod faults;
mod feed;
mod placing;
mod pushes;
mod recovery;
mod streams;

use super::invariant::{Inspection, Violation};
use super::pushing::Pushing;
use super::scenario::Scenario;
use super::timeline::Timeline;
use crate::world::place::{Life, Spec};
use crate::world::{Sabotage, World};
use audience::Audience;
use calls::Made;
use std::collections::{BTreeMap, BTreeSet};
use streams::Opened;
use treefold_core::partitions::PartitionSet;
use treefold_core::time::{Duration, Instant};

/// Time from the moment when a node has drained until its process ends.
const EXIT_AFTER: Duration = Duration::from_millis(200);
/// Time between two checks whether the world is at rest, or whether all nodes see each other.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Most steps of a play, and how many more it may take for each simulated second. A play with more steps counts as an
/// endless loop.
const STEPS_MAX: u64 = 3_000_000;
const STEPS_PER_S: u64 = 50_000;
/// Number of seeds that a node gets to join.
const SEEDS: usize = 3;

/// The result of a played scenario.
#[derive(Debug)]
pub struct Played {
    /// The first broken invariant, if any.
    pub violation: Option<Violation>,
    /// Calls that were made, including announcements.
    pub calls: u64,
    /// Pushes that reached a node.
    pub pushes: u64,
    /// Streams that were opened.
    pub streams: u64,
    /// Waves of streams that reached their front-ends' users.
    pub stream_waves: u64,
    /// Events that mirrors have applied.
    pub mirrored: u64,
    /// Faults that had an effect, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Duration on the world's clock.
    pub simulated: Duration,
    /// Steps of the world.
    pub steps: u64,
    /// Hash of all events, in their order.
    pub trace_hash: u64,
}

/// Plays a scenario to its end, or to the first broken invariant.
pub fn play(scenario: &Scenario, sabotage: Option<Sabotage>, timeline: Option<&mut Timeline>) -> Played {
    let mut stage = Stage::new(scenario, sabotage, timeline);
    stage.begin();
    // A violation ends the play early.
    let _ = stage.acts();
    let violation = stage.watch.inspection.found().cloned();
    if let Some(timeline) = stage.watch.timeline {
        timeline.name_waves(stage.watch.inspection.waves());
    }
    Played {
        violation,
        calls: stage.watch.inspection.calls(),
        pushes: stage.watch.inspection.pushes(),
        streams: stage.watch.inspection.streams().opened,
        stream_waves: stage.watch.inspection.streams().waves,
        mirrored: stage.watch.inspection.mirrors().applied,
        faults: stage.faults,
        simulated: stage.world.now().since(Instant::START),
        steps: stage.steps,
        trace_hash: stage.world.trace_hash(),
    }
}

fn add_pushes(deeds: &mut Vec<(u64, Deed)>, pushing: &Pushing) {
    for (number, announced) in pushing.announcements.iter().enumerate() {
        deeds.push((announced.at_us, Deed::Announce(number)));
        let cancelled = announced.cancelled_after_us.map(|after| announced.at_us + after);
        deeds.extend(cancelled.map(|at_us| (at_us, Deed::CancelAnnounced(number))));
    }
    for (number, result) in pushing.results.iter().enumerate() {
        let pieces = 0..result.pieces.len();
        deeds.extend(pieces.map(|piece| (result.piece_at_us(piece), Deed::Push(number, piece))));
    }
    for (number, planned) in pushing.mishaps.iter().enumerate() {
        deeds.push((planned.at_us, Deed::Mishap(number)));
    }
}

/// Ends the play, because an invariant was broken.
struct Found;

/// A planned action. The numbers are indices in the scenario's lists.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Call(usize),
    Cancel(usize),
    Fault(usize),
    Announce(usize),
    CancelAnnounced(usize),
    /// A piece of a result is ready.
    Push(usize, usize),
    Mishap(usize),
    /// The feed begins.
    Feed,
    FeedMishap(usize),
    /// The front-end's user opens a stream.
    Open(usize),
    /// The user of a stream's front-end sends a packet down.
    Send(usize),
    Close(usize),
}

struct Stage<'a> {
    scenario: &'a Scenario,
    world: World,
    watch: Audience<'a>,
    /// Number of faults that had an effect, by kind.
    faults: BTreeMap<&'static str, u64>,
    /// Places told to leave.
    leaving: BTreeSet<usize>,
    /// The times at which the processes of drained nodes end, with their places.
    exits: Vec<(Instant, usize)>,
    /// Places whose node has joined later or was restarted.
    late: BTreeSet<usize>,
    /// The scenario's calls that were made, by index.
    made: BTreeMap<usize, Made>,
    /// The scenario's announcements that were made, by index.
    announced: BTreeMap<usize, Made>,
    /// The scenario's streams that were opened, by index.
    opened: BTreeMap<usize, Opened>,
    steps: u64,
}

impl<'a> Stage<'a> {
    fn new(scenario: &'a Scenario, sabotage: Option<Sabotage>, timeline: Option<&'a mut Timeline>) -> Self {
        let weather = scenario.weather;
        let hop = Duration::from_micros((weather.delay_us + weather.jitter_us) * 2 + 200);
        let mut world = World::new(scenario.setting(sabotage));
        world.network().expect_changes();
        Self {
            scenario,
            world,
            watch: Audience::new(Inspection::new(scenario, hop), timeline),
            faults: BTreeMap::new(),
            leaving: BTreeSet::new(),
            exits: Vec::new(),
            late: BTreeSet::new(),
            made: BTreeMap::new(),
            announced: BTreeMap::new(),
            opened: BTreeMap::new(),
            steps: 0,
        }
    }

    fn spec(&self, partitions: PartitionSet, is_client: bool) -> Spec {
        let (tuning, limits) = self.scenario.habits();
        Spec {
            processors: self.scenario.processors.max(1),
            tuning,
            limits,
            is_client,
            placing: if is_client { None } else { self.placing() },
            ..Spec::holding(partitions)
        }
    }

    /// Starts members, observers, relays and workers, and makes them known to each other.
    fn begin(&mut self) {
        let scenario = self.scenario;
        let members: Vec<usize> = (0..scenario.nodes.max(1))
            .map(|at| self.accepting(at, self.spec(scenario.held_by(at), false)))
            .collect::<Vec<Spec>>()
            .into_iter()
            .map(|spec| self.world.start(spec))
            .collect();
        let observer =
            Spec { lacks_operators: scenario.bare_observers, ..self.spec(PartitionSet::new(), true) };
        let observers: Vec<usize> =
            (0..scenario.observers).map(|_| self.world.start(observer.clone())).collect();
        let relays = self.begin_relays();
        if scenario.is_introduced {
            let all = [&members[..], &relays].concat();
            all.iter().chain(&observers).for_each(|&at| self.world.introduce(at, &all));
        } else {
            for &at in members[1..].iter().chain(&relays) {
                self.world.join(at, &[0], &mut self.watch);
                self.late.insert(at);
            }
        }
        for (number, &at) in observers.iter().enumerate() {
            self.world.join(at, &[number % members.len()], &mut self.watch);
        }
        if scenario.weather.is_trouble() {
            self.watch.inspection.troubled();
        }
        self.begin_workers(&members, &relays);
    }

    fn acts(&mut self) -> Result<(), Found> {
        for (at_us, deed) in self.deeds() {
            self.run_until(Instant::START + Duration::from_micros(at_us))?;
            match deed {
                Deed::Call(number) => self.call(number),
                Deed::Cancel(number) => self.cancel(number),
                Deed::Fault(number) => self.strike(&self.scenario.faults[number].fault),
                Deed::Announce(number) => self.announce(number),
                Deed::CancelAnnounced(number) => self.cancel_announced(number),
                Deed::Push(result, piece) => self.push(result, piece),
                Deed::Mishap(number) => self.befall(number),
                Deed::Feed => self.begin_feed(),
                Deed::FeedMishap(number) => self.befall_feed(number),
                Deed::Open(number) => self.open(number),
                Deed::Send(number) => self.send_down(number),
                Deed::Close(number) => self.close(number),
            }
        }
        self.run_until(Instant::START + Duration::from_micros(self.scenario.healed_at_us()))?;
        self.heal();
        self.recover_streams()?;
        self.rest(Some(self.scenario.deadline_max()))?;
        self.restart_crippled();
        self.converge()?;
        self.placement_settles()?;
        self.last_calls()?;
        self.last_announcements()?;
        self.rest(None)
    }

    /// Returns the planned actions of the scenario, in the order of their times.
    fn deeds(&self) -> Vec<(u64, Deed)> {
        let mut deeds = Vec::new();
        for (number, call) in self.scenario.calls.iter().enumerate() {
            deeds.push((call.at_us, Deed::Call(number)));
            deeds.extend(call.cancelled_after_us.map(|after| (call.at_us + after, Deed::Cancel(number))));
        }
        for (number, planned) in self.scenario.faults.iter().enumerate() {
            deeds.push((planned.at_us, Deed::Fault(number)));
        }
        if let Some(pushing) = &self.scenario.pushing {
            add_pushes(&mut deeds, pushing);
        }
        if let Some(feed) = &self.scenario.feed {
            deeds.push((feed.at_us, Deed::Feed));
            let mishaps = feed.mishaps.iter().enumerate();
            deeds.extend(mishaps.map(|(number, planned)| (planned.at_us, Deed::FeedMishap(number))));
        }
        for (number, stream) in self.scenario.streams.iter().enumerate() {
            deeds.push((stream.at_us, Deed::Open(number)));
            deeds.extend(stream.sends_at_us.iter().map(|&at_us| (at_us, Deed::Send(number))));
            deeds.extend(stream.closed_at_us.map(|at_us| (at_us, Deed::Close(number))));
        }
        deeds.sort_by_key(|(at_us, _)| *at_us);
        deeds
    }

    /// Runs the world until `horizon`, and ends processes whose node has drained.
    fn run_until(&mut self, horizon: Instant) -> Result<(), Found> {
        loop {
            let exit_at = self.exits.iter().map(|(at, _)| *at).min();
            let next = exit_at.map_or(horizon, |at| at.min(horizon));
            while self.world.step(next, &mut self.watch) {
                self.steps += 1;
                self.look()?;
            }
            if next == horizon {
                return self.look();
            }
            let (over, later) = std::mem::take(&mut self.exits).into_iter().partition(|(at, _)| *at <= next);
            self.exits = later;
            let over: Vec<(Instant, usize)> = over;
            over.into_iter().for_each(|(_, at)| self.end_process(at));
        }
    }

    /// Handles the nodes that have drained, and returns an error if there is a violation or an endless loop.
    fn look(&mut self) -> Result<(), Found> {
        for at in self.watch.inspection.take_drained() {
            self.exits.push((self.world.now() + EXIT_AFTER, at));
        }
        let steps_max =
            STEPS_MAX + STEPS_PER_S * (Instant::START.until(self.world.now()).as_micros() / 1_000_000);
        if self.steps > steps_max {
            let says = Err(format!("the scenario did not end within {steps_max} steps"));
            self.watch.inspection.hold("comes_to_an_end", self.world.now(), None, None, says);
        }
        if self.watch.inspection.found().is_some() { Err(Found) } else { Ok(()) }
    }

    /// Kills a process. The messages that it has just sent are lost, also if it is killed to heal it.
    fn end_process(&mut self, at: usize) {
        if self.life(at) != Life::Gone {
            self.watch.inspection.troubled();
            self.watch.inspection.killed(at);
            self.world.kill(at);
        }
    }

    /// Lets the node at `at` join through up to [`SEEDS`] running members.
    fn join(&mut self, at: usize) {
        self.late.insert(at);
        let others = self.running(false).into_iter().filter(|&other| other != at);
        let seeds: Vec<usize> = others.take(SEEDS).collect();
        self.world.join(at, &seeds, &mut self.watch);
    }

    /// Returns the place of a scenario's node.
    fn place(&self, number: u32) -> usize {
        number as usize % self.world.places()
    }

    /// Returns the place of a scenario's node among the members that were there from the start.
    fn member(&self, number: u32) -> usize {
        number as usize % self.scenario.nodes.max(1) as usize
    }

    fn life(&self, at: usize) -> Life {
        self.world.place(at).life()
    }

    fn is_client(&self, at: usize) -> bool {
        self.world.place(at).id().is_client()
    }

    /// Returns the members or observers that run and have not been told to leave.
    fn running(&self, clients: bool) -> BTreeSet<usize> {
        let runs = |&at: &usize| {
            self.life(at) == Life::Running && self.is_client(at) == clients && !self.leaving.contains(&at)
        };
        (0..self.world.places()).filter(runs).collect()
    }
}
