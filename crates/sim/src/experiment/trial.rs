//! One run of a workload on a cluster, and what came of it.
//!
//! Requests arrive by themselves, whether or not earlier ones have been answered, at one front after the other. What
//! arrives before the warm-up is over is served and not counted: a node must have learned what its work costs.

use super::point::Point;
use crate::world::distribution::{Arrivals, Distribution};
use crate::world::ink::{Ink, mixed};
use crate::world::{Setting, Watch, World};
use std::collections::BTreeMap;
use treefold_core::call::{CallOptions, Outcome, Status};
use treefold_core::config::Tuning;
use treefold_core::effect::Effect;
use treefold_core::id::RequestId;
use treefold_core::membership::MembershipConfig;
use treefold_core::message::Message;
use treefold_core::time::{Duration, Instant};

/// Until queues have their usual length and nodes know what their work costs.
pub const WARM_UP: Duration = Duration::from_secs(10);

/// How nodes behave where all know all and nobody comes or goes: nothing is gossiped.
pub fn still() -> Tuning {
    Tuning { membership: MembershipConfig::still(), ..Tuning::LAN }
}

/// A cluster that stands and a workload for it.
pub struct Trial {
    /// The cluster.
    pub world: World,
    /// Where calls are made, in turn.
    pub fronts: Vec<usize>,
    /// When they are made.
    pub arrivals: Arrivals,
    /// What they ask for.
    pub options: CallOptions,
    /// By how much a call's work differs from the usual; drawn per call.
    pub scale: Distribution,
    /// Served before counting begins.
    pub warm_up: Duration,
    /// Counted from there.
    pub measured: Duration,
    /// What is done to the world, by the time since its start, in order.
    pub script: Vec<(Duration, Deed)>,
    /// Done right before each call, at its front.
    pub before_call: Option<fn(&mut World, usize)>,
    /// Seeds the draws of `scale`.
    pub seed: u64,
}

/// From the last call's deadline until its outcome must be in.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Something done to a world.
pub type Deed = Box<dyn Fn(&mut World)>;

impl Trial {
    /// Nodes of `world` called at `fronts`, `per_s` times a second, for [`WARM_UP`] and then `seconds` seconds.
    pub fn poisson(world: World, setting: &Setting, fronts: Vec<usize>, per_s: f64, seconds: f64) -> Self {
        let from = world.now();
        Self {
            world,
            fronts,
            arrivals: Arrivals::poisson(setting.workload_seed, per_s, from),
            options: CallOptions::default(),
            scale: Distribution::Fixed(1.0),
            warm_up: WARM_UP,
            measured: Duration::from_millis_f64(seconds * 1_000.0),
            script: Vec::new(),
            before_call: None,
            seed: setting.workload_seed,
        }
    }

    /// Runs it, until the last call has ended.
    pub fn run(mut self) -> Ledger {
        let start = self.world.now();
        let from = start + self.warm_up;
        let mut ledger = Ledger::new(from, self.measured);
        let end = from + self.measured;
        let mut script = std::mem::take(&mut self.script).into_iter().peekable();
        for (number, at) in self.arrivals.clone().take_while(|&at| at < end).enumerate() {
            while let Some((when, deed)) = script.next_if(|(when, _)| start + *when <= at) {
                self.world.run_until(start + when, &mut ledger);
                deed(&mut self.world);
            }
            self.world.run_until(at, &mut ledger);
            let front = self.fronts[number % self.fronts.len()];
            if let Some(before_call) = self.before_call {
                before_call(&mut self.world, front);
            }
            let scale = self.scale.draw_for_ms(mixed(self.seed ^ 0x7363_616c), number as u64);
            let params = Ink::params(number as u64, scale);
            let request = RequestId(self.world.next_request_number());
            ledger.begun(request, number as u64, at);
            self.world.call(front, params, self.options.clone(), &mut ledger);
        }
        let last = end + self.options.deadline + LAST_WORDS;
        while !ledger.open.is_empty() && self.world.step(last, &mut ledger) {}
        ledger
    }
}

/// One call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// When it was made.
    pub began: Instant,
    /// When it ended.
    pub ended: Instant,
    /// True when there was enough of an answer.
    pub answered: bool,
    /// The coverage of what there was.
    pub coverage: f64,
}

impl Ended {
    /// From the one to the other, in ms.
    pub fn response_ms(&self) -> f64 {
        self.began.until(self.ended).as_millis_f64()
    }
}

/// What came of a trial's calls.
#[derive(Debug)]
pub struct Ledger {
    from: Instant,
    measured: Duration,
    open: BTreeMap<RequestId, Instant>,
    /// Calls by their number in the run whose front has not yet chosen whom to ask.
    choosing: BTreeMap<u64, Instant>,
    /// How long the front took to choose whom to ask, polls included, of each call that counts, in ms.
    pub choosing_ms: Vec<f64>,
    /// The calls that were made while it counted, as they ended.
    pub ended: Vec<Ended>,
}

impl Ledger {
    fn new(from: Instant, measured: Duration) -> Self {
        Self {
            from,
            measured,
            open: BTreeMap::new(),
            choosing: BTreeMap::new(),
            choosing_ms: Vec::new(),
            ended: Vec::new(),
        }
    }

    fn begun(&mut self, request: RequestId, number: u64, at: Instant) {
        self.open.insert(request, at);
        self.choosing.insert(number, at);
    }

    fn counts(&self, began: Instant) -> bool {
        began >= self.from && began < self.from + self.measured
    }

    /// The response times of those that were answered, in ms.
    pub fn response_ms(&self) -> Vec<f64> {
        let answered = self.ended.iter().filter(|call| call.answered);
        answered.map(Ended::response_ms).collect()
    }

    /// The calls that ended between two times, counted from the end of the warm-up.
    pub fn ended_between(&self, from: Duration, until: Duration) -> impl Iterator<Item = &Ended> {
        let (from, until) = (self.from + from, self.from + until);
        self.ended.iter().filter(move |call| (from..until).contains(&call.ended))
    }

    /// The trial as a point of `series` at `x`.
    pub fn point(&self, series: impl Into<String>, x: f64) -> Point {
        let response_ms = self.response_ms();
        let throughput_per_s = response_ms.len() as f64 / (self.measured.as_millis_f64() / 1_000.0);
        let calls = self.ended.len();
        let coverage = self.ended.iter().map(|call| call.coverage).sum::<f64>() / calls.max(1) as f64;
        Point::of_calls(series, x, response_ms, throughput_per_s, coverage).with("calls", calls as f64)
    }
}

impl Watch for Ledger {
    fn effect(&mut self, now: Instant, _at: usize, effect: &Effect<Ink>) {
        // The first to be sent of a call leaves its front: whom to ask has been chosen.
        if let Effect::Send { message: Message::Call(call), .. } = effect
            && let Some(params) = &call.params
            && let Some(began) = self.choosing.remove(&params.call)
            && self.counts(began)
        {
            self.choosing_ms.push(began.until(now).as_millis_f64());
        }
    }

    fn outcome(&mut self, now: Instant, _at: usize, request: RequestId, outcome: &Outcome<Ink>) {
        let Some(began) = self.open.remove(&request) else { return };
        if self.counts(began) && !matches!(outcome.status, Status::Rejected(_)) {
            let answered = matches!(outcome.status, Status::Full | Status::Partial);
            self.ended.push(Ended { began, ended: now, answered, coverage: outcome.coverage() });
        }
    }
}
