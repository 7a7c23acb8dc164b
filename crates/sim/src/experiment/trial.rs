//! One run of a workload on a cluster, and its results.
//!
//! Requests arrive at one front after the other, whether or not earlier requests have been answered. Requests
//! that arrive during the warm-up are served and not counted, because nodes must first learn the cost of
//! their work.

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

/// Time until queues have their usual length and nodes know the cost of their work.
pub const WARM_UP: Duration = Duration::from_secs(10);

/// Returns a tuning without gossip, for clusters in which all nodes know each other and no node comes or
/// goes.
pub fn still() -> Tuning {
    Tuning { membership: MembershipConfig::still(), ..Tuning::LAN }
}

/// A started cluster and a workload for it.
pub struct Trial {
    /// The cluster.
    pub world: World,
    /// The fronts at which calls are made, in turn.
    pub fronts: Vec<usize>,
    /// The times of the calls.
    pub arrivals: Arrivals,
    /// The options of the calls.
    pub options: CallOptions,
    /// Factor of a call's work; drawn for each call.
    pub scale: Distribution,
    /// Time for which calls are served before counting begins.
    pub warm_up: Duration,
    /// Time for which calls are counted, after the warm-up.
    pub measured: Duration,
    /// Actions on the world, each with its time since the start, in order.
    pub script: Vec<(Duration, Deed)>,
    /// An action right before each call. Its second argument is the call's front.
    pub before_call: Option<fn(&mut World, usize)>,
    /// The seed for draws of `scale`.
    pub seed: u64,
}

/// Time after the last call's deadline by which its outcome must be in.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// An action on a world.
pub type Deed = Box<dyn Fn(&mut World)>;

impl Trial {
    /// Creates a trial: calls at `fronts`, `per_s` times a second, for [`WARM_UP`] and then for `seconds`
    /// seconds.
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

    /// Runs the trial until the last call has ended.
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
    /// The time at which the call was made.
    pub began: Instant,
    /// The time at which the call ended.
    pub ended: Instant,
    /// Whether the coverage sufficed for an answer.
    pub answered: bool,
    /// The coverage of the outcome.
    pub coverage: f64,
}

impl Ended {
    /// Returns the time between beginning and end, in ms.
    pub fn response_ms(&self) -> f64 {
        self.began.until(self.ended).as_millis_f64()
    }
}

/// The results of a trial's calls.
#[derive(Debug)]
pub struct Ledger {
    from: Instant,
    measured: Duration,
    open: BTreeMap<RequestId, Instant>,
    /// Calls whose front has not yet chosen the nodes to ask, by their number in the run.
    choosing: BTreeMap<u64, Instant>,
    /// For each counted call, the time in which the front chose the nodes to ask, polls included, in ms.
    pub choosing_ms: Vec<f64>,
    /// The counted calls, in the order in which they ended.
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

    /// Returns the response times of the answered calls, in ms.
    pub fn response_ms(&self) -> Vec<f64> {
        let answered = self.ended.iter().filter(|call| call.answered);
        answered.map(Ended::response_ms).collect()
    }

    /// Returns the calls that ended between two times, counted from the end of the warm-up.
    pub fn ended_between(&self, from: Duration, until: Duration) -> impl Iterator<Item = &Ended> {
        let (from, until) = (self.from + from, self.from + until);
        self.ended.iter().filter(move |call| (from..until).contains(&call.ended))
    }

    /// Returns the trial as a point of `series` at `x`.
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
        // The first message of a call leaves its front when the front has chosen the nodes to ask.
        if let Effect::Send { message: Message::Call(call), .. } = effect
            && let Some(params) = &call.params
            && let Some(began) = self.choosing.remove(&params.common.call)
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
