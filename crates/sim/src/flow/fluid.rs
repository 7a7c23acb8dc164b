//! Simulates flows as fluid, to find the time of each flow if all share the network fairly.
//!
//! # Aggregation on the way
//!
//! An aggregation forwards while it receives, as NetAgg's do (§3.2.1). The size of its output flow is known
//! beforehand. Of that size, it has sent at most the share that it has received of its inputs: after half of
//! the inputs, it can have sent half of the result. It has as much memory as it needs. So a slow output flow
//! does not delay its inputs. In a real system back-pressure would delay them. This changes the place where
//! data waits, but hardly the time at which the last byte arrives, because inputs share links with the same
//! fairness either way. Its effect on the figures is that inputs end a little sooner than in a system with
//! small buffers. The alternative model, which forwards only complete results, would add up the times of all
//! stages. For long trees its times are too long by a factor of the number of levels.
//!
//! # Steps
//!
//! The rates of [`fair`](super::fair) change with every flow that ends. Here they are allocated again when a
//! small share of the live flows has ended ([`STEP_SHARE`]), and with every single flow when few are left.
//! Within a step each flow ends at its own time, but the bandwidth that it frees is idle until the next step.
//! So times are too long by about half that share. The last per cent of the flows ends in few steps, so its
//! times are off by up to 8 % either way. Tests compare them with steps of one flow each. The bytes are
//! exact: no flow sends bytes that it has not received, and all bytes arrive.

use super::fair::{Allocator, Demand, Fed};
use super::route::Path;

/// The share of the live flows that may end between two allocations.
pub const STEP_SHARE: f64 = 0.01;

/// A flow from one place to another. A flow's inputs have higher numbers than the flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The links that it crosses.
    pub path: Path,
    /// Its size in bytes.
    pub bytes: f64,
    /// Its start. Inputs start together with the flow that they feed, unless they are late.
    pub starts_s: f64,
    /// The flow that this flow is an input of.
    pub into: Option<u32>,
}

/// The result of a run of all flows.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The end of each flow, in seconds from zero.
    pub at_s: Vec<f64>,
    /// Number of allocations.
    pub steps: u32,
}

/// Runs all flows until they end, over links of these capacities in bytes per second.
pub fn run(capacity: &[f64], flows: &[Flow], step_share: f64) -> Ended {
    let mut fluid = Fluid::new(capacity, flows);
    while fluid.admit() {
        fluid.step(step_share);
    }
    Ended { at_s: fluid.ended_s, steps: fluid.steps }
}

/// Share of a flow's bytes that may be left when it counts as ended.
const REST: f64 = 1e-9;

/// Largest ratio of a step's length to the last one's, so that a stock is not sent in too short a time.
const LONGER: f64 = 2.0;

/// The progress of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Course {
    sent: f64,
    /// Bytes of its inputs, so far and in all.
    received: f64,
    to_receive: f64,
    /// Number of its inputs that have not ended, and the end of the last one that has.
    waits_for: u32,
    fed_until_s: f64,
}

struct Fluid<'a> {
    flows: &'a [Flow],
    demands: Vec<Demand>,
    courses: Vec<Course>,
    rates: Vec<f64>,
    ended_s: Vec<f64>,
    allocator: Allocator,
    grouped: usize,
    /// Flows that have started and not ended, inputs first.
    live: Vec<u32>,
    /// Flows that have not started; the next to start is last.
    to_start: Vec<u32>,
    now_s: f64,
    last_step_s: f64,
    steps: u32,
    times: Vec<f64>,
}

impl<'a> Fluid<'a> {
    fn new(capacity: &[f64], flows: &'a [Flow]) -> Self {
        let mut courses = vec![Course::default(); flows.len()];
        for (at, flow) in flows.iter().enumerate() {
            if let Some(into) = flow.into {
                assert!((into as usize) < at, "inputs come after what they feed");
                courses[into as usize].to_receive += flow.bytes;
                courses[into as usize].waits_for += 1;
            }
        }
        let demand = |(flow, course): (&Flow, &Course)| {
            let is_fed = course.waits_for > 0;
            let fed = is_fed.then(|| Fed { stock_per_s: 0.0, ratio: flow.bytes / course.to_receive });
            Demand { path: flow.path, into: flow.into, fed }
        };
        let demands: Vec<Demand> = flows.iter().zip(&courses).map(demand).collect();
        let mut to_start: Vec<u32> = (0..flows.len() as u32).collect();
        to_start.sort_by(|&a, &b| flows[b as usize].starts_s.total_cmp(&flows[a as usize].starts_s));
        let allocator = Allocator::new(capacity, &demands, &to_start);
        Self {
            flows,
            courses,
            rates: vec![0.0; flows.len()],
            ended_s: vec![0.0; flows.len()],
            allocator,
            grouped: flows.len(),
            live: Vec::with_capacity(flows.len()),
            to_start,
            now_s: 0.0,
            last_step_s: f64::INFINITY,
            steps: 0,
            times: Vec::with_capacity(flows.len()),
            demands,
        }
    }

    /// Starts the flows whose time has come. If no flow is live, time moves to the next start. Returns false
    /// when all flows have ended.
    fn admit(&mut self) -> bool {
        if self.live.is_empty() && self.to_start.is_empty() {
            return false;
        }
        if self.live.is_empty() {
            self.now_s = self.now_s.max(self.next_start_s());
        }
        let before = self.live.len();
        while self.next_start_s() <= self.now_s {
            self.live.extend(self.to_start.pop());
        }
        if self.live.len() > before {
            self.live.sort_unstable_by(|a, b| b.cmp(a));
        }
        true
    }

    fn next_start_s(&self) -> f64 {
        self.to_start.last().map_or(f64::INFINITY, |&flow| self.flows[flow as usize].starts_s)
    }

    fn step(&mut self, step_share: f64) {
        let unfinished = self.live.len() + self.to_start.len();
        if unfinished * 4 < self.grouped * 3 {
            self.grouped = unfinished;
            let all: Vec<u32> = self.live.iter().chain(&self.to_start).copied().collect();
            self.allocator.regroup(&self.demands, &all);
        }
        for &flow in &self.live {
            if let Some(fed) = &mut self.demands[flow as usize].fed {
                fed.stock_per_s =
                    available(&self.flows[flow as usize], &self.courses[flow as usize]) / self.last_step_s;
            }
        }
        self.allocator.allocate(&self.demands, &self.live, &mut self.rates);
        self.steps += 1;
        let step_s = self.step_s(step_share);
        self.advance(step_s);
        self.now_s += step_s;
        self.last_step_s = step_s;
    }

    /// Returns the time until a share of the live flows has ended, at least one of them. Flows that wait for
    /// inputs end with these or later.
    fn step_s(&mut self, step_share: f64) -> f64 {
        let left_s = |&flow: &u32| {
            let course = &self.courses[flow as usize];
            let left = self.flows[flow as usize].bytes - course.sent;
            (course.waits_for == 0).then(|| left / self.rates[flow as usize])
        };
        self.times.clear();
        self.times.extend(self.live.iter().filter_map(left_s).filter(|s| s.is_finite()));
        assert!(!self.times.is_empty(), "no flow moves: all live flows wait for inputs or have no rate");
        // The step also ends only a few times that share of the flows that can end, because in long chains
        // nearly all flows wait.
        let share_of = |flows: usize, share: f64| (flows as f64 * share) as usize;
        let at = share_of(self.live.len(), step_share).min(share_of(self.times.len(), 5.0 * step_share));
        let (_, quantile_s, _) = self.times.select_nth_unstable_by(at, f64::total_cmp);
        let step_s = quantile_s.min(self.last_step_s * LONGER);
        // A flow that starts during a step begins at the next step. If many start late, the step is at least
        // a quarter long.
        let until_start_s = (self.next_start_s() - self.now_s).max(step_s / 4.0);
        step_s.min(until_start_s)
    }

    /// Advances all live flows, inputs first.
    fn advance(&mut self, step_s: f64) {
        for at in 0..self.live.len() {
            let number = self.live[at] as usize;
            let (flow, rate) = (&self.flows[number], self.rates[number]);
            let mut course = self.courses[number];
            let left = flow.bytes - course.sent;
            let mut sent = left.min(rate * step_s);
            if self.demands[number].fed.is_some() {
                sent = sent.min(available(flow, &course));
            }
            let has_ended = left - sent <= flow.bytes * REST && course.waits_for == 0;
            if has_ended {
                let by_rate_s = if rate > 0.0 { (left / rate).min(step_s) } else { step_s };
                self.ended_s[number] = (self.now_s + by_rate_s).max(course.fed_until_s);
                sent = left;
            }
            course.sent += sent;
            self.courses[number] = course;
            if let Some(into) = flow.into {
                let fed = &mut self.courses[into as usize];
                fed.received += sent;
                if has_ended {
                    fed.waits_for -= 1;
                    fed.fed_until_s = fed.fed_until_s.max(self.ended_s[number]);
                }
            }
            if has_ended {
                self.rates[number] = f64::NAN;
            }
        }
        let rates = &self.rates;
        self.live.retain(|&flow| !rates[flow as usize].is_nan());
    }
}

/// Returns the bytes that a fed flow has and has not sent.
fn available(flow: &Flow, course: &Course) -> f64 {
    let share = if course.waits_for == 0 { 1.0 } else { (course.received / course.to_receive).min(1.0) };
    (flow.bytes * share - course.sent).max(0.0)
}

#[cfg(test)]
mod tests;
