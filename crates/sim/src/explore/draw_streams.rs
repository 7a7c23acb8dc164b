//! Draws the streams of a seed's scenario, and the faults of their nodes.
//!
//! They are drawn last and with their own generator. So the rest of a seed's scenario is the same as without
//! streams, except for the faults. FrontEnd-ends can have faults like all other nodes.

use super::draw::{one_in, pick};
use super::play::LOOK_EVERY;
use super::scenario::{Fault, PlannedFault, Scenario};
use super::streaming::{Mode, PlannedLag, PlannedStream, levels};
use treefold_core::config::Placement;
use treefold_core::random::Random;
use treefold_core::tree::shape::Shape;

const STREAMS: u64 = 0x7374_7265;
/// Distinguishes the generator of lag limits, which were added later, from that of the rest.
const LAGS: u64 = 0x006c_6167;
/// One in this many streams has a lag limit.
const LAGS_SELDOM: usize = 2;
/// One in this many scenarios has streams.
const SELDOM: usize = 2;
/// Most nodes of a cluster with streams. Larger clusters would run too long.
const NODES_MAX: u32 = 40;
/// Most endpoints that may send often. If there are more, they send less often.
const ENDPOINTS_BUSY_MAX: u32 = 16;

/// Inverse of the largest share of time for which filters may be busy.
const FILTER_HEADROOM: u64 = 4;
/// Time of a filter's run that keeps up with every drawn rate.
const FILTER_US_LEAST: u64 = 5;

const SHAPES: [Shape; 8] = [
    Shape::KAry(2),
    Shape::KAry(2),
    Shape::KAry(3),
    Shape::KAry(8),
    Shape::Flat,
    Shape::Chain,
    Shape::Binomial,
    Shape::Auto,
];

/// Draws the streams of `scenario`. Their calls and faults are within `span_us`.
pub(super) fn draw_streams(scenario: &Scenario, span_us: u64) -> Vec<PlannedStream> {
    let random = &mut Random::new(scenario.seed ^ STREAMS);
    if scenario.nodes > NODES_MAX || !one_in(random, SELDOM) {
        return Vec::new();
    }
    let mut streams: Vec<PlannedStream> =
        (0..1 + random.below(3)).map(|_| draw_stream(random, scenario, span_us)).collect();
    let random = &mut Random::new(scenario.seed ^ STREAMS ^ LAGS << 32);
    for stream in &mut streams {
        if one_in(random, LAGS_SELDOM) {
            set_lag(random, scenario, span_us, stream);
        }
    }
    streams
}

/// Gives a stream a lag limit, a slow endpoint, and so many packets down that it lags.
fn set_lag(random: &mut Random, scenario: &Scenario, span_us: u64, stream: &mut PlannedStream) {
    let chosen = stream.endpoints.as_ref().and_then(|chosen| chosen.first().copied());
    let slow = chosen.unwrap_or_else(|| random.below(scenario.partitions as usize) as u32);
    let bytes_max = pick(random, &[1_024, 1_024, 2_000, 4_000]);
    let takes_for_us = pick(random, &[3_000, 30_000, 300_000]);
    stream.lag = Some(PlannedLag { bytes_max, slow, takes_for_us, burst: 1 + random.below(12) as u64 });
    stream.window_bytes = stream.window_bytes.map(|bytes| bytes.max(2 * bytes_max));
    stream.takes_for_us = stream.takes_for_us.min(300);
    let sends = 10 + random.below(30);
    stream.sends_at_us = (0..sends).map(|_| stream.at_us + random.below(span_us as usize) as u64).collect();
}

fn draw_stream(random: &mut Random, scenario: &Scenario, span_us: u64) -> PlannedStream {
    let span = span_us as usize;
    let relays = scenario.pushing.as_ref().map_or(0, |pushing| pushing.relays);
    let places = scenario.nodes + scenario.observers + relays;
    let shape = pick(random, &SHAPES);
    let pushes = !one_in(random, 3);
    let is_busy = scenario.partitions <= ENDPOINTS_BUSY_MAX;
    let every_us =
        if is_busy { pick(random, &[3_000, 20_000, 100_000]) } else { pick(random, &[30_000, 100_000]) };
    let filter_us = pick(random, &[5, 5, 300, 3_000]);
    let levels = levels(shape, scenario.nodes);
    // At each level, a parent must wait longer than the time between two packets of its endpoints.
    let apart_us = if pushes { every_us } else { 0 } + filter_us + 2_000;
    let wait_us = (levels + 2) * apart_us + 1_000 * random.below(100) as u64;
    let mode = pick(random, &[Mode::WaitForAll, Mode::TimeOut(wait_us), Mode::DoNotWait]);
    // A filter that is always busy would never catch up with the packets that came while its node was
    // stopped.
    let runs = if mode.gathers() { 1 } else { u64::from(scenario.partitions) };
    // Endpoints that answer get a packet at this interval while a play waits for all endpoints to return.
    let sent_every_us = if pushes { every_us } else { LOOK_EVERY.as_micros() };
    let is_overloaded = filter_us * runs * FILTER_HEADROOM > sent_every_us;
    let filter_us = if is_overloaded { FILTER_US_LEAST } else { filter_us };
    let at_us = random.below(span / 2 + 1) as u64;
    let sends = if pushes { random.below(5) } else { 1 + random.below(30) };
    let some = |random: &mut Random| {
        let all = scenario.partitions as usize;
        (0..1 + random.below(all)).map(|_| random.below(all) as u32).collect()
    };
    PlannedStream {
        at_us,
        front: random.below(places as usize) as u32,
        mode,
        shape,
        endpoints: one_in(random, 4).then(|| some(random)),
        folds: if mode.gathers() { !one_in(random, 6) } else { one_in(random, 2) },
        filters_down: one_in(random, 4),
        filter_us,
        placement: pick(random, &[Placement::Pool, Placement::Inline, Placement::Measured]),
        window_bytes: pick(random, &[None, None, Some(2_000), Some(8_000)]),
        packet_bytes: pick(random, &[10, 100, 1_000]),
        every_us: pushes.then_some(every_us),
        // With wait-for-all, a bucket that one endpoint has missed would never be complete.
        has_buckets: pushes && mode != Mode::WaitForAll && one_in(random, 2),
        takes_for_us: pick(random, &[0, 0, 300, 30_000]),
        lag: None,
        reads_for_us: pick(random, &[0, 0, 0, 500, 5_000]),
        sends_at_us: (0..sends).map(|_| at_us + random.below(span) as u64).collect(),
        closed_at_us: one_in(random, 8).then(|| at_us + random.below(span) as u64),
    }
}

/// Draws the faults of stream nodes, in the order of their times.
pub(super) fn draw_stream_faults(scenario: &Scenario, span_us: u64) -> Vec<PlannedFault> {
    let random = &mut Random::new(scenario.seed ^ STREAMS.rotate_left(32));
    let mut faults = Vec::new();
    if scenario.streams.is_empty() || one_in(random, 4) {
        return faults;
    }
    let relays = scenario.pushing.as_ref().map_or(0, |pushing| pushing.relays);
    let places = (scenario.nodes + scenario.observers + relays) as usize;
    let has_lasting_cuts = one_in(random, 3);
    for _ in 0..1 + random.below(8) {
        let is_front = one_in(random, 5);
        let node = if is_front { pick(random, &scenario.streams).front } else { random.below(places) as u32 };
        let other = random.below(places) as u32;
        let wait_us = |random: &mut Random| 100 + random.below(30_000) as u64;
        let one_of = pick(random, &[2, 20, 200]);
        let (fault, undo) = match random.below(9) {
            0 | 1 => (Fault::Crash(node), Some(Fault::Restart(node))),
            2 | 3 => (Fault::Stall(node), Some(Fault::Resume(node))),
            4 if has_lasting_cuts => (Fault::CutForGood(node, other), None),
            4 | 5 => (Fault::Sever(node, other, [wait_us(random), wait_us(random)]), None),
            6 => (Fault::Cut(node, other), Some(Fault::Mend)),
            7 => (Fault::FailFilters(node, one_of, one_in(random, 3)), None),
            _ => (Fault::HangFilters(node, one_of * 10), None),
        };
        let at_us = random.below(span_us as usize) as u64;
        faults.push(PlannedFault { at_us, fault });
        if let Some(fault) = undo.filter(|_| !one_in(random, 3)) {
            let lasts_us = pick(random, &[20_000, 200_000, 900_000, 2_500_000]);
            faults.push(PlannedFault { at_us: at_us + lasts_us, fault });
        }
    }
    faults
}
