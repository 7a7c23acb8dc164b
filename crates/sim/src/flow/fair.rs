//! Computes max–min fair rates by progressive filling. Some flows can send no more than they receive.
//!
//! All rates rise together from zero. When a link is full, the flows across it keep their rate, and the
//! others rise further. The result is max–min fairness, which long TCP flows approach (Bertsekas and
//! Gallager, *Data Networks*, §6.5).
//!
//! A flow out of an aggregation is *fed*: it has a stock of bytes, and more bytes come at a fixed ratio to
//! the bytes that its inputs receive. So its rate is the smaller of the common level and the rate that it is
//! fed, which rises with its inputs' rates. Every rate is thus a piecewise linear function of the level. Two
//! kinds of events begin a new piece: a link becomes full, or a fed flow reaches the rate that it is fed. The
//! events are handled in the order of their level.
//!
//! If a link becomes full while a fed flow across it is still limited by its inputs, the flow keeps its rate
//! like all others, though its inputs may rise further. The bytes that it could not send are in stock in the
//! next step, and then it rises like any other flow.
//!
//! One allocation visits each flow's links twice and each link's flows once.

use super::route::Path;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The demand of a flow. A flow's inputs have higher numbers than the flow.
#[derive(Clone, Debug)]
pub struct Demand {
    /// The links that it crosses; at least one.
    pub path: Path,
    /// The fed flow that this flow is an input of.
    pub into: Option<u32>,
    /// Its limit besides links, if it is fed.
    pub fed: Option<Fed>,
}

/// The bytes that feed a flow out of an aggregation.
#[derive(Clone, Copy, Debug)]
pub struct Fed {
    /// Bytes per second that it can send from its stock.
    pub stock_per_s: f64,
    /// Bytes that it can send for each byte that its inputs receive.
    pub ratio: f64,
}

/// A rate as a function of the level: `base + slope · level`.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    base: f64,
    slope: f64,
    /// The sum of its inputs' lines.
    in_base: f64,
    in_slope: f64,
    /// Whether the flow is limited by the rate that it is fed.
    is_capped: bool,
    /// Whether its rate is final, or the flow takes no part.
    is_fixed: bool,
}

impl Line {
    /// Returns the rate at which a flow is fed, as a line.
    fn own(&self, fed: Fed) -> (f64, f64) {
        (fed.stock_per_s + fed.ratio * self.in_base, fed.ratio * self.in_slope)
    }
}

/// A link's load as a function of the level.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    capacity: f64,
    base: f64,
    slope: f64,
}

impl Load {
    /// Returns the level at which the link is full.
    fn full_at(&self, level: f64) -> Option<f64> {
        (self.slope > STILL).then(|| ((self.capacity - self.base) / self.slope).max(level))
    }
}

/// Smaller slopes count as zero, because they are rounding errors.
const STILL: f64 = 1e-9;

/// Levels whose relative difference is smaller than this are equal.
const SAME_LEVEL: f64 = 1e-12;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A link becomes full.
    Full(u32),
    /// A fed flow reaches the rate that it is fed.
    CaughtUp(u32),
}

/// Allocates rates repeatedly to a shrinking number of flows.
pub struct Allocator {
    loads: Vec<Load>,
    lines: Vec<Line>,
    /// The flows across each link, sorted by link. `starts` has the index of each link's first flow.
    across: Vec<u32>,
    starts: Vec<u32>,
    /// Events with the bits of their level. The bits of positive numbers have the same order as the numbers.
    events: BinaryHeap<Reverse<(u64, Event)>>,
    level: f64,
}

impl Allocator {
    /// Creates an allocator for links of these capacities, in bytes per second, and the flows of
    /// `unfinished`.
    pub fn new(capacity: &[f64], demands: &[Demand], unfinished: &[u32]) -> Self {
        let loads = capacity.iter().map(|&capacity| Load { capacity, ..Load::default() }).collect();
        let fixed = Line { is_fixed: true, ..Line::default() };
        let mut allocator = Self {
            loads,
            lines: vec![fixed; demands.len()],
            across: Vec::new(),
            starts: Vec::new(),
            events: BinaryHeap::new(),
            level: 0.0,
        };
        allocator.regroup(demands, unfinished);
        allocator
    }

    /// Forgets all flows except `unfinished`, so that later allocations visit fewer flows.
    pub fn regroup(&mut self, demands: &[Demand], unfinished: &[u32]) {
        let mut starts = vec![0_u32; self.loads.len() + 1];
        let links = |flow: u32| demands[flow as usize].path.links();
        unfinished.iter().for_each(|&flow| links(flow).for_each(|link| starts[link + 1] += 1));
        (1..starts.len()).for_each(|at| starts[at] += starts[at - 1]);
        let mut next = starts.clone();
        self.across = vec![0; starts[self.loads.len()] as usize];
        for &flow in unfinished {
            for link in links(flow) {
                self.across[next[link] as usize] = flow;
                next[link] += 1;
            }
        }
        self.starts = starts;
    }

    /// Sets the rate of each flow of `live`, in bytes per second.
    ///
    /// Each of them was in `unfinished` at the last grouping. In `live`, inputs come before the flows that
    /// they feed.
    pub fn allocate(&mut self, demands: &[Demand], live: &[u32], rates: &mut [f64]) {
        self.start(demands, live);
        while let Some(Reverse((level, event))) = self.events.pop() {
            self.level = self.level.max(f64::from_bits(level));
            match event {
                Event::Full(link) => self.link_event(demands, link),
                Event::CaughtUp(flow) => self.flow_event(demands, flow),
            }
        }
        for &flow in live {
            let line = &mut self.lines[flow as usize];
            rates[flow as usize] = (line.base + line.slope * self.level).max(0.0);
            *line = Line { is_fixed: true, ..Line::default() };
        }
    }

    fn start(&mut self, demands: &[Demand], live: &[u32]) {
        self.level = 0.0;
        self.events.clear();
        self.loads.iter_mut().for_each(|load| (load.base, load.slope) = (0.0, 0.0));
        live.iter().for_each(|&flow| self.lines[flow as usize] = Line::default());
        for &flow in live {
            let (at, demand) = (flow as usize, &demands[flow as usize]);
            let mut line = Line { slope: 1.0, ..self.lines[at] };
            if let Some(fed) = demand.fed {
                let (base, slope) = line.own(fed);
                if slope < 1.0 {
                    line.is_capped = base <= 0.0;
                    if line.is_capped {
                        (line.base, line.slope) = (base.max(0.0), slope);
                    } else {
                        self.events.push(Reverse(((base / (1.0 - slope)).to_bits(), Event::CaughtUp(flow))));
                    }
                }
            }
            self.lines[at] = line;
            for link in demand.path.links() {
                self.loads[link].base += line.base;
                self.loads[link].slope += line.slope;
            }
            if let Some(into) = demand.into {
                let fed = &mut self.lines[into as usize];
                fed.in_base += line.base;
                fed.in_slope += line.slope;
            }
        }
        for (link, load) in self.loads.iter().enumerate() {
            let full_at = load.full_at(0.0);
            self.events.extend(full_at.map(|level| Reverse((level.to_bits(), Event::Full(link as u32)))));
        }
    }

    fn link_event(&mut self, demands: &[Demand], link: u32) {
        let Some(full_at) = self.loads[link as usize].full_at(self.level) else { return };
        if full_at > self.level * (1.0 + SAME_LEVEL) {
            // Since the event was planned, flows across the link have become limited by their feed.
            self.events.push(Reverse((full_at.to_bits(), Event::Full(link))));
            return;
        }
        for at in self.starts[link as usize]..self.starts[link as usize + 1] {
            let flow = self.across[at as usize];
            let line = &mut self.lines[flow as usize];
            if !line.is_fixed {
                line.is_fixed = true;
                let rate = line.base + line.slope * self.level;
                self.bend(demands, flow, rate, 0.0);
            }
        }
    }

    fn flow_event(&mut self, demands: &[Demand], flow: u32) {
        let (line, fed) = (&mut self.lines[flow as usize], demands[flow as usize].fed);
        let Some(fed) = fed.filter(|_| !line.is_fixed && !line.is_capped) else { return };
        let (base, slope) = line.own(fed);
        if base + slope * self.level > self.level * (1.0 + SAME_LEVEL) {
            return self.expect(flow, base, slope);
        }
        line.is_capped = true;
        self.bend(demands, flow, base, slope);
    }

    /// Plans an event for the level at which a flow reaches the rate that it is fed.
    fn expect(&mut self, flow: u32, base: f64, slope: f64) {
        if slope < 1.0 - SAME_LEVEL {
            let level = (base / (1.0 - slope)).max(self.level);
            self.events.push(Reverse((level.to_bits(), Event::CaughtUp(flow))));
        }
    }

    /// Sets the line of a flow, and adjusts the lines of all capped flows that it feeds.
    fn bend(&mut self, demands: &[Demand], mut flow: u32, mut base: f64, mut slope: f64) {
        loop {
            let (demand, line) = (&demands[flow as usize], &mut self.lines[flow as usize]);
            let (more, steeper) = (base - line.base, slope - line.slope);
            (line.base, line.slope) = (base, slope);
            for link in demand.path.links() {
                self.loads[link].base += more;
                self.loads[link].slope += steeper;
            }
            let Some(into) = demand.into else { return };
            let fed = &mut self.lines[into as usize];
            fed.in_base += more;
            fed.in_slope += steeper;
            if fed.is_fixed {
                return;
            }
            let how = demands[into as usize].fed.expect("invariant: a flow with inputs is fed");
            (base, slope) = fed.own(how);
            if !fed.is_capped {
                return self.expect(into, base, slope);
            }
            flow = into;
        }
    }
}

#[cfg(test)]
mod tests;
