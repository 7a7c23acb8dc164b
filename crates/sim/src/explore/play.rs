//! Plays a scenario: calls and faults at their times, then everything is healed, and all must come to rest.
//!
//! ```text
//!   calls, faults ──▶ heal ──▶ rest (nothing is left anywhere) ──▶ converge ──▶ last calls ──▶ rest
//! ```
//!
//! What is left out of the book is left to the world: a fault that makes no sense where it strikes (a crash of who is
//! gone) does nothing and is not counted.

use super::invariant::{Inspection, Violation, converges, leaves_nothing};
use super::scenario::{Fault, PlannedCall, Scenario, Weather, Wish};
use super::timeline::Timeline;
use crate::world::ink::Ink;
use crate::world::place::{Failing, Life, Spec};
use crate::world::{Sabotage, Watch, World};
use std::collections::{BTreeMap, BTreeSet};
use treefold_core::call::Outcome;
use treefold_core::effect::Effect;
use treefold_core::id::RequestId;
use treefold_core::input::{Command, Input};
use treefold_core::message::{Message, Request};
use treefold_core::partitions::PartitionSet;
use treefold_core::time::{Duration, Instant};

/// From a node's having drained to the end of its process.
const EXIT_AFTER: Duration = Duration::from_millis(200);
/// How often it is looked whether all is at rest, or all see all.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Whatever takes more steps than this without an end is going round in circles.
const STEPS_MAX: u64 = 3_000_000;
/// What follows the last deadline: cancels and last words travel, kept waves expire every 100 ms, stuck jobs are
/// given up after a second.
const REST_AFTER: Duration = Duration::from_secs(3);
/// Work in hand may take so many times its mean.
const TAIL: f64 = 30.0;
/// The last calls have all the time they need.
const LAST_DEADLINE: Duration = Duration::from_secs(60);
/// In a large cluster, that many fronts make a last call.
const LAST_CALLS_MAX: usize = 12;
/// Seeds that a node is given to join by.
const SEEDS: usize = 3;

/// What came of a scenario.
#[derive(Debug)]
pub struct Played {
    /// The first broken invariant, if any.
    pub violation: Option<Violation>,
    /// Calls that were made.
    pub calls: u64,
    /// Faults that struck, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// How long it took, on the world's clock.
    pub simulated: Duration,
    /// Things that happened.
    pub steps: u64,
    /// One number for everything that happened, in its order.
    pub trace_hash: u64,
}

/// Plays a scenario to its end, or to the first broken invariant.
pub fn play(scenario: &Scenario, sabotage: Option<Sabotage>, timeline: Option<&mut Timeline>) -> Played {
    let mut stage = Stage::new(scenario, sabotage, timeline);
    stage.begin();
    // A finding ends the play wherever it is.
    let _ = stage.acts();
    let violation = stage.watch.inspection.found().cloned();
    if let Some(timeline) = stage.watch.timeline {
        timeline.name_waves(stage.watch.inspection.waves());
    }
    Played {
        violation,
        calls: stage.watch.inspection.calls(),
        faults: stage.faults,
        simulated: stage.world.now().since(Instant::START),
        steps: stage.steps,
        trace_hash: stage.world.trace_hash(),
    }
}

/// The play is over: something was found.
struct Found;

/// The inspection, and whoever writes down what is said.
struct Audience<'a> {
    inspection: Inspection,
    timeline: Option<&'a mut Timeline>,
    /// Contributors of the last calls, by request.
    last: BTreeMap<RequestId, PartitionSet>,
}

impl Watch for Audience<'_> {
    fn input(&mut self, now: Instant, at: usize, input: &Input<Ink>) {
        if let Some(timeline) = &mut self.timeline {
            timeline.input(now, at, input);
        }
        self.inspection.input(now, at, input);
    }

    fn effect(&mut self, now: Instant, at: usize, effect: &Effect<Ink>) {
        if let Some(timeline) = &mut self.timeline {
            timeline.effect(now, at, effect);
        }
        self.inspection.effect(now, at, effect);
    }

    fn outcome(&mut self, now: Instant, at: usize, request: RequestId, outcome: &Outcome<Ink>) {
        self.inspection.outcome(now, at, request, outcome);
        if let Some(contributed) = self.last.get_mut(&request) {
            contributed.clone_from(&outcome.contributed);
        }
    }

    fn touched(&mut self, world: &World, at: usize) {
        self.inspection.touched(world, at);
    }
}

/// What is to be done at a time.
#[derive(Clone, Debug)]
enum Deed {
    Call(usize),
    Cancel(usize),
    Fault(usize),
}

struct Stage<'a> {
    scenario: &'a Scenario,
    world: World,
    watch: Audience<'a>,
    faults: BTreeMap<&'static str, u64>,
    /// Places told to leave.
    leaving: BTreeSet<usize>,
    exits: Vec<(Instant, usize)>,
    /// Places whose node was not there from the start, or is not the one that was.
    late: BTreeSet<usize>,
    /// Who makes each call, as it was made: the front's place and the request, or the client's place.
    made: BTreeMap<usize, (usize, Option<RequestId>, usize)>,
    steps: u64,
}

impl<'a> Stage<'a> {
    fn new(scenario: &'a Scenario, sabotage: Option<Sabotage>, timeline: Option<&'a mut Timeline>) -> Self {
        let weather = scenario.weather;
        let hop = Duration::from_micros((weather.delay_us + weather.jitter_us) * 2 + 200);
        let inspection = Inspection::new(scenario, hop);
        Self {
            scenario,
            world: World::new(scenario.setting(sabotage)),
            watch: Audience { inspection, timeline, last: BTreeMap::new() },
            faults: BTreeMap::new(),
            leaving: BTreeSet::new(),
            exits: Vec::new(),
            late: BTreeSet::new(),
            made: BTreeMap::new(),
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
            ..Spec::holding(partitions)
        }
    }

    fn begin(&mut self) {
        let scenario = self.scenario;
        let members: Vec<usize> = (0..scenario.nodes.max(1))
            .map(|at| self.world.start(self.spec(scenario.held_by(at), false)))
            .collect();
        let observers: Vec<usize> =
            (0..scenario.observers).map(|_| self.world.start(self.spec(PartitionSet::new(), true))).collect();
        for &at in members.iter().chain(&observers) {
            if scenario.is_introduced {
                self.world.introduce(at, &members);
            }
            if at > 0 && members.contains(&at) && !scenario.is_introduced {
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
    }

    fn acts(&mut self) -> Result<(), Found> {
        for (at_us, deed) in self.deeds() {
            self.run_until(Instant::START + Duration::from_micros(at_us))?;
            match deed {
                Deed::Call(number) => self.call(number),
                Deed::Cancel(number) => self.cancel(number),
                Deed::Fault(number) => self.strike(&self.scenario.faults[number].fault),
            }
        }
        self.run_until(Instant::START + Duration::from_micros(self.scenario.healed_at_us()))?;
        self.heal();
        self.rest(Some(self.scenario.deadline_max()))?;
        self.restart_crippled();
        self.converge()?;
        self.last_calls()?;
        self.rest(None)
    }

    fn deeds(&self) -> Vec<(u64, Deed)> {
        let mut deeds = Vec::new();
        for (number, call) in self.scenario.calls.iter().enumerate() {
            deeds.push((call.at_us, Deed::Call(number)));
            deeds.extend(call.cancelled_after_us.map(|after| (call.at_us + after, Deed::Cancel(number))));
        }
        for (number, planned) in self.scenario.faults.iter().enumerate() {
            deeds.push((planned.at_us, Deed::Fault(number)));
        }
        deeds.sort_by_key(|(at_us, _)| *at_us);
        deeds
    }

    /// Lets everything happen until `horizon`, processes that have drained end.
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
            let (over, later) = self.exits.drain(..).partition(|(at, _)| *at <= next);
            self.exits = later;
            let over: Vec<(Instant, usize)> = over;
            over.into_iter().for_each(|(_, at)| self.end_process(at));
        }
    }

    fn look(&mut self) -> Result<(), Found> {
        for at in self.watch.inspection.take_drained() {
            self.exits.push((self.world.now() + EXIT_AFTER, at));
        }
        if self.steps > STEPS_MAX {
            let says = Err(format!("{STEPS_MAX} steps and no end"));
            self.watch.inspection.hold("comes_to_an_end", self.world.now(), None, None, says);
        }
        if self.watch.inspection.found().is_some() { Err(Found) } else { Ok(()) }
    }

    fn end_process(&mut self, at: usize) {
        if self.world.place(at).life() != Life::Gone {
            self.watch.inspection.killed(at);
            self.world.kill(at);
        }
    }

    fn place(&self, number: u32) -> usize {
        number as usize % self.world.places()
    }

    fn member(&self, number: u32) -> usize {
        number as usize % self.scenario.nodes.max(1) as usize
    }

    fn is_client(&self, at: usize) -> bool {
        self.world.place(at).id().is_client()
    }

    fn call(&mut self, number: usize) {
        let PlannedCall { front, through, wish, scale, .. } = &self.scenario.calls[number];
        let (front, options) = (self.place(*front), wish.options(self.scenario.partitions));
        let params = Ink::params(number as u64 + 1, *scale);
        match through.map(|member| self.member(member)) {
            Some(member) if self.is_client(front) => {
                let request = Request { id: number as u64 + 1, name: "s/fold".into(), params, options };
                self.world.say(front, member, Message::Request(Box::new(request)));
                self.made.insert(number, (member, None, front));
            }
            _ => {
                let request = self.world.call(front, params, options, &mut self.watch);
                self.made.insert(number, (front, Some(request), front));
            }
        }
    }

    fn cancel(&mut self, number: usize) {
        match self.made.get(&number) {
            Some(&(front, Some(request), _)) => {
                self.world.feed(front, Input::Command(Command::Cancel { request }), &mut self.watch);
            }
            Some(&(member, None, client)) => {
                self.world.say(client, member, Message::CancelRequest { id: number as u64 + 1 });
            }
            None => {}
        }
    }

    fn strike(&mut self, fault: &Fault) {
        if self.strikes(fault) {
            *self.faults.entry(fault.kind()).or_default() += 1;
            if fault.is_trouble() {
                self.watch.inspection.troubled();
            }
        }
    }

    /// Does what a fault does; false when there is nothing that it could do.
    fn strikes(&mut self, fault: &Fault) -> bool {
        let life = |stage: &Self, at: usize| stage.world.place(at).life();
        let set = |partitions: &[u32]| partitions.iter().copied().collect::<PartitionSet>();
        match fault {
            Fault::Crash(node) => {
                let at = self.place(*node);
                let strikes = life(self, at) != Life::Gone;
                self.end_process(at);
                strikes
            }
            Fault::Restart(node) => self.restart(self.place(*node)),
            Fault::Stall(node) => {
                let at = self.place(*node);
                let strikes = life(self, at) == Life::Running;
                self.world.stop(at);
                strikes
            }
            Fault::Resume(node) => self.resume(self.place(*node)),
            Fault::Slow(node, times) => self.alive(*node, |world, at| world.slow_down(at, f64::from(*times))),
            Fault::Weather(weather) => {
                self.world.network().change_links(weather.links());
                true
            }
            Fault::Split(group) => self.split(group),
            Fault::CutOneWay(from, to) => {
                let (from, to) = (self.place(*from), self.place(*to));
                self.world.cut(from, to);
                from != to
            }
            Fault::Mend => {
                self.world.mend();
                true
            }
            Fault::BreakConnection(a, b) => {
                let (a, b) = (self.place(*a), self.place(*b));
                self.world.break_link(a, b);
                a != b
            }
            Fault::Hang(node, partitions) => self.alive(*node, |world, at| world.hang(at, set(partitions))),
            Fault::FailLocals(node, partitions, panics) => {
                let failing = Failing { locals: set(partitions), panics: *panics, ..Failing::default() };
                self.alive(*node, |world, at| world.fail(at, failing))
            }
            Fault::FailReduces(node, one_reduce_in, panics) => {
                let failing =
                    Failing { one_reduce_in: *one_reduce_in, panics: *panics, ..Failing::default() };
                self.alive(*node, |world, at| world.fail(at, failing))
            }
            Fault::ClockJump(node, by_ms) => {
                let (at, by) = (self.place(*node), Duration::from_millis(*by_ms));
                self.watch.inspection.jumped(self.world.now(), at, by);
                self.alive(*node, |world, at| world.jump_clock(at, by))
            }
            Fault::Leave(node) => {
                let at = self.place(*node);
                let strikes = life(self, at) != Life::Gone && !self.is_client(at) && self.leaving.insert(at);
                if strikes {
                    self.world.leave(at, &mut self.watch);
                }
                strikes
            }
            Fault::Join(partitions) => self.arrive(&set(partitions)),
        }
    }

    fn arrive(&mut self, holding: &PartitionSet) -> bool {
        let all = PartitionSet::first(self.scenario.partitions);
        let held = holding.difference(&holding.difference(&all));
        let at = self.world.start(self.spec(held, false));
        self.join(at);
        true
    }

    fn alive(&mut self, node: u32, strike: impl FnOnce(&mut World, usize)) -> bool {
        let at = self.place(node);
        let strikes = self.world.place(at).life() != Life::Gone;
        if strikes {
            strike(&mut self.world, at);
        }
        strikes
    }

    fn split(&mut self, group: &[u32]) -> bool {
        let inside: BTreeSet<usize> = group.iter().map(|&node| self.place(node)).collect();
        let outside: Vec<usize> = (0..self.world.places()).filter(|at| !inside.contains(at)).collect();
        for (&a, &b) in inside.iter().flat_map(|a| outside.iter().map(move |b| (a, b))) {
            self.world.cut(a, b);
            self.world.cut(b, a);
        }
        !inside.is_empty() && !outside.is_empty()
    }

    fn restart(&mut self, at: usize) -> bool {
        if self.world.place(at).life() != Life::Gone {
            return false;
        }
        self.leaving.remove(&at);
        self.world.restart(at);
        self.join(at);
        true
    }

    fn resume(&mut self, at: usize) -> bool {
        let strikes = self.world.place(at).life() == Life::Stopped;
        self.watch.inspection.resumed(self.world.now(), at);
        self.world.resume(at, &mut self.watch);
        strikes
    }

    /// Joins by up to three members that are there.
    fn join(&mut self, at: usize) {
        self.late.insert(at);
        let others = self.running(false).into_iter().filter(|&other| other != at);
        let seeds: Vec<usize> = others.take(SEEDS).collect();
        self.world.join(at, &seeds, &mut self.watch);
    }

    /// Members or observers that run and have not been told to leave.
    fn running(&self, clients: bool) -> BTreeSet<usize> {
        let runs = |&at: &usize| {
            self.world.place(at).life() == Life::Running
                && self.is_client(at) == clients
                && !self.leaving.contains(&at)
        };
        (0..self.world.places()).filter(runs).collect()
    }

    /// Everything that can be put right is put right. Who left in good order stays away.
    fn heal(&mut self) {
        self.world.mend();
        self.world.network().change_links(Weather::FAIR.links());
        for at in 0..self.world.places() {
            self.resume(at);
            self.world.slow_down(at, 1.0);
            self.world.hang(at, PartitionSet::new());
            self.world.fail(at, Failing::default());
        }
        for at in 0..self.world.places() {
            if self.world.place(at).life() == Life::Gone && !self.leaving.contains(&at) {
                self.restart(at);
            }
        }
        self.reconnect_observers();
        // Those who joined while nobody was there to answer are given other seeds, as whoever runs them would.
        let late = std::mem::take(&mut self.late);
        for &at in self.running(false).intersection(&late) {
            self.join(at);
        }
    }

    /// All calls end, and leave nothing anywhere; but what is kept until their deadlines, unless the longest is given.
    fn rest(&mut self, deadline: Option<Duration>) -> Result<(), Found> {
        let work_us = (self.scenario.local_us + self.scenario.reduce_us) as f64;
        let scale = self.scenario.calls.iter().map(|call| call.scale).fold(1.0, f64::max);
        let tail_ms = work_us / 1_000.0 * TAIL * scale * f64::from(self.scenario.slowness_max());
        let by = self.world.now()
            + deadline.unwrap_or(Duration::ZERO)
            + REST_AFTER
            + Duration::from_millis_f64(tail_ms);
        loop {
            self.run_until(self.world.now() + LOOK_EVERY)?;
            let idle: BTreeSet<usize> = &self.running(false) | &self.running(true);
            let is_over = self.world.now() >= by;
            let have_left = self.leaving.iter().all(|&at| self.world.place(at).life() == Life::Gone);
            if is_over && !have_left {
                let says =
                    Err(format!("of {:?}, who were told to leave, some have not drained", self.leaving));
                self.watch.inspection.hold("leaves_nothing", self.world.now(), None, None, says);
            }
            if is_over {
                self.watch.inspection.hold_all_ended(&self.world);
                self.watch.inspection.hold_at_rest(&self.world, &idle, deadline.is_some());
            }
            self.look()?;
            let rests = leaves_nothing::at_rest(&self.world, &idle, deadline.is_some()).is_ok();
            if is_over || (rests && have_left && self.watch.inspection.has_none_open()) {
                return Ok(());
            }
        }
    }

    /// A node whose processors never came back is started anew, as its owner would.
    fn restart_crippled(&mut self) {
        for at in self.running(false) {
            if self.world.place(at).node().open_work().jobs_running > 0 {
                self.end_process(at);
                self.restart(at);
            }
        }
        self.reconnect_observers();
    }

    /// As a client's library does: it lets go of its connections and calls on somebody who is there.
    fn reconnect_observers(&mut self) {
        for at in self.running(true) {
            for member in self.running(false) {
                self.world.break_link(at, member);
            }
            self.join(at);
        }
    }

    fn converge(&mut self) -> Result<(), Found> {
        // Connections that were attempted before all was healed fail only now, and whoever attempted them learns it.
        let settled_at = self.world.now() + self.scenario.weather.links().connect_timeout + LOOK_EVERY;
        self.run_until(settled_at)?;
        self.reconnect_observers();
        self.run_until(settled_at + LOOK_EVERY)?;
        let by = self.world.now() + converges::WITHIN;
        loop {
            let says = converges::sees_all(&self.world, &self.running(false), &self.running(true));
            if says.is_ok() {
                return Ok(());
            }
            if self.world.now() >= by {
                self.watch.inspection.hold("converges", self.world.now(), None, None, says);
            }
            self.look()?;
            self.run_until(self.world.now() + LOOK_EVERY)?;
        }
    }

    /// A call from everyone reaches everything that is held anywhere.
    fn last_calls(&mut self) -> Result<(), Found> {
        let members = self.running(false);
        let mut held = PartitionSet::new();
        members.iter().for_each(|&at| held.union_with(&self.world.place(at).spec().partitions));
        let fronts: Vec<usize> = members.into_iter().chain(self.running(true)).collect();
        let every = fronts.len().div_ceil(LAST_CALLS_MAX).max(1);
        for (number, &front) in fronts.iter().enumerate().step_by(every) {
            let number = (self.scenario.calls.len() + number) as u64 + 1;
            let request = RequestId(self.world.next_request_number());
            self.watch.last.insert(request, PartitionSet::new());
            let deadline_us = LAST_DEADLINE.as_micros();
            let options = Wish { deadline_us, ..Wish::default() }.options(self.scenario.partitions);
            self.world.call(front, Ink::params(number, 1.0), options, &mut self.watch);
            let by = self.world.now() + LAST_DEADLINE.div(2);
            while self.watch.inspection.has_open(front) && self.world.now() < by {
                self.run_until(self.world.now() + LOOK_EVERY)?;
            }
            if self.watch.inspection.has_open(front) {
                let says = Err(format!("all are well, and a call at place {front} waits for somebody"));
                self.watch.inspection.hold("converges", self.world.now(), Some(front), Some(number), says);
            }
            let reached = self.watch.last.remove(&request).unwrap_or_default();
            if reached != held && !self.scenario.refuses_work() {
                let says = Err(format!("{held} is held, and a call at place {front} reached {reached}"));
                self.watch.inspection.hold("converges", self.world.now(), Some(front), Some(number), says);
            }
            self.look()?;
        }
        Ok(())
    }
}
