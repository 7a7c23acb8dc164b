//! Draws scenarios from a seed.
//!
//! Most scenarios are small: small clusters break in the same ways as large ones, and a thousand of them play
//! in the time of one large cluster. Rare conditions must occur together: tiny limits and crashes, deadlines
//! shorter than a hop and clocks that jump. So each ingredient is drawn independently, and each is absent
//! from most scenarios, so that ingredients seldom hide each other.

use super::draw_feed::{draw_feed, draw_feed_faults};
use super::draw_placing::{draw_placing, draw_placing_faults};
use super::draw_pushing::{draw_pushing, draw_relay_faults};
use super::draw_streams::{draw_stream_faults, draw_streams};
use super::scenario::{Fault, Knob, PlannedCall, PlannedFault, Scenario, Weather, Wish};
use std::collections::{BTreeMap, BTreeSet};
use treefold_core::config::Placement;
use treefold_core::random::Random;
use treefold_core::replica::ReplicaPolicy;
use treefold_core::tree::shape::Shape;
use treefold_core::wave::wait::Waiting;

/// Each purpose has its own generator, so that a change to one leaves the draws of the others unchanged.
const BARE: u64 = 0x6261_7265;
const CALLS: u64 = 0x6361_6c6c;
const FAULTS: u64 = 0x6661_756c;
const KNOBS: u64 = 0x6b6e_6f62;
const OWN_PARAMS: u64 = 0x6f77_6e70;

pub(super) const SHAPES: [Shape; 9] = [
    Shape::Base,
    Shape::Flat,
    Shape::Chain,
    Shape::KAry(1),
    Shape::KAry(2),
    Shape::KAry(5),
    Shape::Binomial,
    Shape::Adaptive,
    Shape::EarliestReady,
];
pub(super) const WAITING: [Waiting; 6] = [
    Waiting::Staged,
    Waiting::Uniform,
    Waiting::StagedReversed,
    Waiting::SLOPE,
    Waiting::Slope { f_min: 0.0, f_max: 0.0 },
    Waiting::Learned,
];
const POLICIES: [ReplicaPolicy; 10] = [
    ReplicaPolicy::Random,
    ReplicaPolicy::RoundRobin,
    ReplicaPolicy::Polled { polls: 1 },
    ReplicaPolicy::Polled { polls: 2 },
    ReplicaPolicy::Polled { polls: 5 },
    ReplicaPolicy::Announced,
    ReplicaPolicy::AnnouncedRaw,
    ReplicaPolicy::PeakEwma,
    ReplicaPolicy::Prequal,
    ReplicaPolicy::PrequalInline,
];
const PLACEMENTS: [Placement; 6] = [
    Placement::Pool,
    Placement::Pool,
    Placement::Inline,
    Placement::Measured,
    Placement::Async { holds_processor: true },
    Placement::Async { holds_processor: false },
];
const DEADLINES_US: [u64; 10] = [1, 50, 400, 2_000, 8_000, 20_000, 60_000, 200_000, 600_000, 2_500_000];

pub(super) fn pick<T: Clone>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len())].clone()
}

pub(super) fn one_in(random: &mut Random, n: usize) -> bool {
    random.below(n) == 0
}

/// Draws the scenario of a seed.
pub fn draw(seed: u64) -> Scenario {
    let random = &mut Random::new(seed);
    let nodes = match random.below(2_000) {
        0 => 200,
        1..=100 => 13 + random.below(28),
        _ => 2 + random.below(11),
    } as u32;
    let observers = if one_in(random, 3) { 1 + random.below(2) as u32 } else { 0 };
    let span_us = pick(random, &[20_000, 200_000, 1_000_000, 3_000_000]);
    let is_stormy = !one_in(random, 4);
    let weather = if is_stormy { draw_weather(random) } else { Weather::FAIR };
    let mut scenario = Scenario {
        seed,
        nodes,
        observers,
        bare_observers: observers > 0 && one_in(&mut Random::new(seed ^ BARE), 2),
        partitions: pick(random, &[1, nodes, nodes * 2, nodes + 3, 64]),
        replicas: 1 + random.below(4) as u32,
        processors: 1 + random.below(4) as u32,
        placement: pick(random, &PLACEMENTS),
        policy: pick(random, &POLICIES),
        local_us: pick(random, &[0, 20, 1_000, 5_000, 20_000]),
        reduce_us: pick(random, &[0, 10, 200, 2_000, 20_000]),
        is_exponential: one_in(random, 2),
        partial_bytes: pick(random, &[1, 100, 100, 20_000, 1_000_000]),
        weather,
        is_introduced: !one_in(random, 4),
        knobs: draw_knobs(seed),
        calls: Vec::new(),
        faults: Vec::new(),
        pushing: None,
        streams: Vec::new(),
        feed: None,
        placing: None,
    };
    scenario.calls = draw_calls(&scenario, span_us);
    if is_stormy {
        scenario.faults = draw_faults(&scenario, span_us);
    }
    scenario.pushing = draw_pushing(&scenario, span_us, is_stormy);
    // A program that announces what workers push folds it.
    scenario.bare_observers &= scenario.pushing.is_none();
    scenario.streams = draw_streams(&scenario, span_us);
    scenario.feed = draw_feed(&scenario, span_us);
    draw_placing(&mut scenario);
    scenario.faults.extend(draw_placing_faults(&scenario, span_us));
    if scenario.feed.is_some() {
        // Two processes of one mirror are no part of a feed.
        scenario.replicas = 1;
    }
    if is_stormy {
        scenario.faults.extend(draw_relay_faults(&scenario, span_us));
        scenario.faults.extend(draw_stream_faults(&scenario, span_us));
        scenario.faults.extend(draw_feed_faults(&scenario, span_us));
    }
    if seed % EVEN_IN == EVEN_IN - 1 {
        make_even(&mut scenario, span_us);
    }
    scenario.faults.sort_by_key(|planned| planned.at_us);
    scenario
}

/// One scenario in this many is even. Not drawn, so that all other draws of a seed stay the same.
const EVEN_IN: u64 = 16;

/// A node that hardly runs does so for the second of these times in each of the first.
const DUTY_US: [u64; 2] = [200_000, 20_000];

/// Makes a scenario even ([`Scenario::is_even`]), with at most one node that is slow or hardly runs.
fn make_even(scenario: &mut Scenario, span_us: u64) {
    let kind = scenario.seed / EVEN_IN;
    let node = (kind / 3 % u64::from(scenario.nodes)) as u32;
    (scenario.is_exponential, scenario.placement) = (false, Placement::Pool);
    (scenario.local_us, scenario.reduce_us, scenario.partial_bytes) = (20_000, 200, 100);
    (scenario.weather, scenario.is_introduced) = (Weather::FAIR, true);
    (scenario.pushing, scenario.feed, scenario.placing) = (None, None, None);
    scenario.knobs.clear();
    scenario.streams.clear();
    for call in &mut scenario.calls {
        (call.scale, call.wish.deadline_us) = (1.0, 2_500_000);
    }
    let planned = |at_us, fault| PlannedFault { at_us, fault };
    let [period_us, runs_us] = DUTY_US;
    scenario.faults = match kind % 3 {
        0 => Vec::new(),
        1 => vec![planned(span_us / 4, Fault::Slow(node, 10))],
        _ => (0..=span_us / period_us)
            .flat_map(|turn| {
                let from_us = turn * period_us;
                let resumes_us = from_us + period_us - runs_us;
                [planned(from_us, Fault::Stall(node)), planned(resumes_us, Fault::Resume(node))]
            })
            .collect(),
    };
}

fn draw_weather(random: &mut Random) -> Weather {
    Weather {
        delay_us: pick(random, &[20, 170, 170, 1_000, 5_000]),
        jitter_us: pick(random, &[0, 0, 100, 2_000, 30_000]),
        loss_permille: pick(random, &[0, 0, 0, 10, 100, 300]),
        duplication_permille: pick(random, &[0, 0, 20, 300]),
        bytes_per_s: one_in(random, 8).then_some(10_000_000),
    }
}

fn draw_knobs(seed: u64) -> BTreeMap<Knob, u64> {
    let random = &mut Random::new(seed ^ KNOBS);
    let table: [(Knob, &[u64]); 21] = [
        (Knob::CallsOpenMax, &[1, 3]),
        (Knob::WavesOpenMax, &[0, 1, 2, 5]),
        (Knob::WavesKeptMax, &[0, 1, 3]),
        (Knob::KeptBytesMax, &[0, 150, 1_000]),
        (Knob::HeldBytesMax, &[0, 150, 30_000]),
        (Knob::EagerBytesMax, &[0, 99, 10_000]),
        (Knob::JobsQueuedMax, &[0, 1, 4]),
        (Knob::StuckJobsMax, &[0, 1]),
        (Knob::MissingMax, &[0, 1, 2]),
        (Knob::PeersMax, &[1, 4]),
        (Knob::HopMarginUs, &[0, 100, 30_000]),
        (Knob::ReplyMarginUs, &[0, 500, 50_000]),
        (Knob::SignOfLifePermille, &[50, 200]),
        (Knob::PatiencePermille, &[350, 900, 1_000]),
        (Knob::InlineCostMaxUs, &[0, 1_000_000]),
        (Knob::CostWeightPermille, &[10, 1_000]),
        (Knob::StuckAfterMs, &[0, 20]),
        (Knob::TriesMax, &[1, 10]),
        (Knob::PollTimeoutUs, &[0, 300, 1_000_000]),
        (Knob::AnnounceEveryMs, &[10]),
        (Knob::HedgeSharePermille, &[0, 1_000]),
    ];
    let turned = if one_in(random, 3) { 0 } else { 1 + random.below(4) };
    (0..turned)
        .map(|_| {
            let (knob, values) = table[random.below(table.len())];
            (knob, pick(random, values))
        })
        .collect()
}

fn draw_calls(scenario: &Scenario, span_us: u64) -> Vec<PlannedCall> {
    let random = &mut Random::new(scenario.seed ^ CALLS);
    let of_params = &mut Random::new(scenario.seed ^ OWN_PARAMS);
    let most = if scenario.nodes > 40 { 6 } else { 40 };
    let count = 1 + random.below(most);
    let usual_deadline_us = pick(random, &DEADLINES_US);
    let usual_shape = pick(random, &SHAPES);
    (0..count)
        .map(|_| {
            let is_client = scenario.observers > 0 && one_in(random, 2);
            let front = if is_client {
                scenario.nodes + random.below(scenario.observers as usize) as u32
            } else {
                random.below(scenario.nodes as usize) as u32
            };
            let through =
                (is_client && one_in(random, 2)).then(|| random.below(scenario.nodes as usize) as u32);
            let deadline_us = if one_in(random, 3) { pick(random, &DEADLINES_US) } else { usual_deadline_us };
            let at_us = random.below(span_us as usize) as u64;
            let mut wish = draw_wish(random, scenario, deadline_us, usual_shape);
            if is_client && through.is_none() && scenario.bare_observers {
                wish = wish.without_folding();
            }
            PlannedCall {
                own_params: draw_own_params(of_params, scenario, &wish),
                at_us,
                front,
                through,
                wish,
                cancelled_after_us: one_in(random, 4)
                    .then(|| random.below(deadline_us as usize + 1_000) as u64),
                scale: pick(random, &[1.0, 1.0, 1.0, 0.0, 10.0]),
            }
        })
        .collect()
}

/// Draws the partitions with parameters of their own: none for most calls, else about half of the call's.
fn draw_own_params(random: &mut Random, scenario: &Scenario, wish: &Wish) -> Vec<u32> {
    if !one_in(random, 4) {
        return Vec::new();
    }
    let asked: BTreeSet<u32> = match &wish.partitions {
        Some(chosen) => chosen.iter().copied().collect(),
        None => (0..scenario.partitions).collect(),
    };
    asked.into_iter().filter(|_| one_in(random, 2)).collect()
}

fn draw_wish(random: &mut Random, scenario: &Scenario, deadline_us: u64, usual_shape: Shape) -> Wish {
    let chosen = |random: &mut Random| {
        let all = scenario.partitions as usize;
        (0..random.below(all + 1)).map(|_| random.below(all) as u32).collect()
    };
    let mut wish = Wish {
        deadline_us,
        min_coverage: pick(random, &[0.0, 0.0, 0.5, 0.9, 1.0]),
        shape: if one_in(random, 3) { pick(random, &SHAPES) } else { usual_shape },
        policy: one_in(random, 4).then(|| pick(random, &POLICIES)),
        waiting: pick(random, &WAITING),
        hedge: one_in(random, 3),
        partitions: one_in(random, 6).then(|| chosen(random)),
        explain: one_in(random, 4),
        slices: 1,
        only_slice: None,
    };
    if one_in(random, 6) {
        wish.slices = pick(random, &[2, 3, 7]);
        // The slices of a partial answer may hold different partitions, and their marks cannot show this.
        wish.min_coverage = 1.0;
        // Not drawn, so that all other draws of a seed stay the same.
        wish.only_slice = deadline_us.is_multiple_of(3).then_some(wish.slices - 1);
    }
    wish
}

fn draw_faults(scenario: &Scenario, span_us: u64) -> Vec<PlannedFault> {
    let random = &mut Random::new(scenario.seed ^ FAULTS);
    let mut faults = Vec::new();
    // Most scenarios have one or two kinds of faults, so that each kind occurs alone as well as with others.
    let kinds: Vec<usize> = (0..1 + random.below(3)).map(|_| random.below(FAULT_KINDS)).collect();
    for _ in 0..1 + random.below(8) {
        let at_us = random.below(span_us as usize) as u64;
        let lasts_us = pick(random, &[500, 20_000, 200_000, 1_500_000]);
        let kind = pick(random, &kinds);
        let (fault, undone) = draw_fault(random, scenario, kind);
        faults.push(PlannedFault { at_us, fault });
        if let Some(undo) = undone.filter(|_| !one_in(random, 3)) {
            faults.push(PlannedFault { at_us: at_us + lasts_us, fault: undo });
        }
    }
    faults.sort_by_key(|planned| planned.at_us);
    faults
}

const FAULT_KINDS: usize = 13;

/// Draws a fault of a kind, and the fault that undoes it.
fn draw_fault(random: &mut Random, scenario: &Scenario, kind: usize) -> (Fault, Option<Fault>) {
    let node = random.below((scenario.nodes + scenario.observers) as usize) as u32;
    let other = random.below(scenario.nodes as usize) as u32;
    let all = scenario.partitions as usize;
    let some = |random: &mut Random| {
        (0..1 + random.below(4)).map(|_| random.below(all) as u32).collect::<Vec<u32>>()
    };
    let panics = one_in(random, 2);
    match kind {
        0 => (Fault::Crash(node), Some(Fault::Restart(node))),
        1 => (Fault::Stall(node), Some(Fault::Resume(node))),
        2 => (Fault::Slow(other, pick(random, &[2, 10, 50])), Some(Fault::Slow(other, 1))),
        3 => (Fault::Weather(draw_weather(random)), Some(Fault::Weather(scenario.weather))),
        4 => {
            let half = 1 + random.below(scenario.nodes as usize);
            let group = (0..half).map(|_| random.below(scenario.nodes as usize) as u32).collect();
            (Fault::Split(group), Some(Fault::Mend))
        }
        5 => (Fault::CutOneWay(node, other), Some(Fault::Mend)),
        6 => (Fault::BreakConnection(node, other), None),
        7 => (Fault::Hang(other, some(random)), Some(Fault::Hang(other, Vec::new()))),
        8 => (
            Fault::FailLocals(other, some(random), panics),
            Some(Fault::FailLocals(other, Vec::new(), panics)),
        ),
        9 => (
            Fault::FailReduces(other, pick(random, &[1, 2, 5]), panics),
            Some(Fault::FailReduces(other, 0, panics)),
        ),
        10 => (Fault::ClockJump(node, pick(random, &[1, 50, 1_000, 60_000])), None),
        11 => (Fault::Leave(other), Some(Fault::Restart(other))),
        _ => (Fault::Join(if panics { some(random) } else { Vec::new() }), None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::streaming::PlannedStream;
    use super::*;

    #[test]
    fn a_seed_always_draws_the_same_scenario() {
        assert!((0..200).all(|seed| draw(seed) == draw(seed)));
    }

    #[test]
    fn even_scenarios_are_drawn_with_no_slow_node_and_with_one_of_each_kind() {
        let even: Vec<Scenario> = (0..500).map(draw).filter(Scenario::is_even).collect();
        assert!((31..50).contains(&even.len()), "{}", even.len());
        let kinds: BTreeSet<Option<&str>> =
            even.iter().map(|scenario| scenario.faults.first().map(|planned| planned.fault.kind())).collect();
        assert_eq!(kinds, [None, Some("slow"), Some("stall")].into());
    }

    #[test]
    fn push_waves_of_all_kinds_are_drawn() {
        let pushings: Vec<_> = (0..500).filter_map(|seed| draw(seed).pushing).collect();
        assert!((100..250).contains(&pushings.len()), "{}", pushings.len());
        let mishaps = pushings.iter().flat_map(|pushing| &pushing.mishaps);
        let kinds: std::collections::BTreeSet<&str> = mishaps.map(|planned| planned.mishap.kind()).collect();
        assert_eq!(kinds.len(), 3, "{kinds:?}");
        assert!(pushings.iter().any(|pushing| pushing.relays > 0) && pushings.iter().any(|p| p.relays == 0));
        assert!(pushings.iter().all(super::super::pushing::Pushing::is_sound));
    }

    #[test]
    fn streams_of_all_kinds_are_drawn() {
        let streams: Vec<_> = (0..500).flat_map(|seed| draw(seed).streams).collect();
        assert!((300..700).contains(&streams.len()), "{}", streams.len());
        for gathers in [false, true] {
            let some = |is: fn(&PlannedStream) -> bool| {
                streams.iter().any(|stream| stream.mode.gathers() == gathers && is(stream))
            };
            assert!(some(|stream| stream.folds) && some(|stream| !stream.folds));
            assert!(some(|stream| stream.every_us.is_none()) && some(|stream| stream.has_buckets));
        }
    }

    #[test]
    fn every_kind_of_fault_is_drawn() {
        let kinds: std::collections::BTreeSet<&str> =
            (0..500).flat_map(|seed| draw(seed).faults).map(|planned| planned.fault.kind()).collect();
        assert_eq!(kinds.len(), 27, "{kinds:?}");
    }
}
