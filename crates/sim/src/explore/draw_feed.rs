//! Draws the feed of a seed's scenario, and the faults of its nodes.
//!
//! They are drawn last and with their own generator. So the rest of a seed's scenario is the same as without a feed,
//! except for the faults.

use super::draw::{one_in, pick};
use super::feeding::{FeedLimits, FeedMishap, PlannedFeed, PlannedFeedMishap, PlannedReader, PlannedSource};
use super::scenario::{Fault, Knob, PlannedFault, Scenario};
use treefold_core::random::Random;
use treefold_core::tree::shape::Shape;

const FEEDS: u64 = 0x6665_6564;
/// One in this many scenarios has a feed.
const SELDOM: usize = 2;
/// Most nodes of a cluster with a feed. Larger clusters would run too long.
const NODES_MAX: u32 = 16;
/// Most mirrors of a feed.
const MIRRORS_MAX: usize = 6;

const SHAPES: [Shape; 6] =
    [Shape::KAry(2), Shape::KAry(3), Shape::Flat, Shape::Chain, Shape::Binomial, Shape::Auto];

/// Draws the feed of `scenario`. Its mishaps are within `span_us`.
pub(super) fn draw_feed(scenario: &Scenario, span_us: u64) -> Option<PlannedFeed> {
    let random = &mut Random::new(scenario.seed ^ FEEDS);
    let is_tight = scenario.knobs.contains_key(&Knob::HeldBytesMax);
    if scenario.nodes > NODES_MAX || is_tight || !one_in(random, SELDOM) {
        return None;
    }
    let relays = scenario.pushing.as_ref().map_or(0, |pushing| pushing.relays);
    let places = (scenario.nodes + scenario.observers + relays) as usize;
    let most = (scenario.partitions as usize).min(MIRRORS_MAX);
    let first = random.below(scenario.partitions as usize);
    let count = 1 + random.below(most);
    let mirrors = (0..count).map(|at| ((first + at) % scenario.partitions as usize) as u32).collect();
    let sources: Vec<PlannedSource> =
        (0..1 + random.below(3)).map(|_| draw_source(random, span_us)).collect();
    let readers = (0..random.below(5)).map(|_| draw_reader(random, places, sources.len())).collect();
    let mishaps = (0..random.below(6)).map(|_| draw_mishap(random, span_us)).collect();
    let has_deletes = one_in(random, 2);
    Some(PlannedFeed {
        at_us: random.below(span_us as usize / 2 + 1) as u64,
        mirrors,
        origins: (0..1 + random.below(3)).map(|_| random.below(places) as u32).collect(),
        copies: pick(random, &[0, 1, 1, 1, 2]).min(count as u32),
        has_journal: !one_in(random, 5),
        segment: pick(random, &[1, 4, 16]),
        flush_us: pick(random, &[10, 200, 3_000, 40_000]),
        votes_within_us: pick(random, &[20_000, 100_000]),
        snapshot_within_us: pick(random, &[20_000, 500_000, 2_000_000]),
        encode_us: pick(random, &[50, 5_000, 100_000]),
        restart_after_us: pick(random, &[5_000, 100_000, 1_000_000]),
        takes_for_us: pick(random, &[0, 0, 100, 2_000]),
        shape: pick(random, &SHAPES),
        window_bytes: pick(random, &[1_000, 8_000, 1 << 20]),
        rules: (0..1 + random.below(2)).map(|_| draw_rules(random)).collect(),
        has_deletes,
        limits: draw_limits(random),
        sources,
        readers,
        mishaps,
    })
}

fn draw_limits(random: &mut Random) -> FeedLimits {
    FeedLimits {
        batch_bytes_max: pick(random, &[1, 1_000, 60 << 10]),
        ready_bytes_max: pick(random, &[1_000, 100_000]),
        backup_bytes_max: pick(random, &[2_000, 1 << 20]),
        resume_bytes_max: pick(random, &[1_000, 10_000, 1 << 20]),
        lag_bytes_max: pick(random, &[500, 5_000, 1 << 20]),
        piece_bytes: pick(random, &[50, 500, 60 << 10]),
    }
}

fn draw_source(random: &mut Random, span_us: u64) -> PlannedSource {
    let events = pick(random, &[10, 60, 200]);
    PlannedSource {
        events,
        keys: pick(random, &[1, 3, 8]),
        every_us: (span_us / u64::from(events)).min(20_000),
        burst: pick(random, &[1, 2, 8]),
    }
}

fn draw_reader(random: &mut Random, places: usize, sources: usize) -> PlannedReader {
    let keys = if one_in(random, 3) { 1 + random.below(4) } else { 0 };
    PlannedReader {
        at: random.below(places) as u32,
        keys: (0..keys).map(|_| (random.below(sources) as u32, random.below(4) as u32)).collect(),
        of_source: one_in(random, 4).then(|| random.below(sources) as u32),
        has_types: one_in(random, 6),
        keeps_state: one_in(random, 2),
        reads_for_us: pick(random, &[0, 0, 200, 10_000]),
        window_bytes: pick(random, &[500, 4_000, 256 << 10]),
    }
}

fn draw_mishap(random: &mut Random, span_us: u64) -> PlannedFeedMishap {
    let mishap = match random.below(4) {
        0 => FeedMishap::ReplaceOrigin,
        1 => FeedMishap::ChangeRules(random.below(2) as u32),
        2 => FeedMishap::RepeatSource(random.below(3) as u32),
        _ => FeedMishap::MoveReader(random.below(4) as u32),
    };
    PlannedFeedMishap { at_us: random.below(span_us as usize) as u64, mishap }
}

/// Draws a file of rules.
fn draw_rules(random: &mut Random) -> String {
    let (run, age) = (pick(random, &[2, 5, 20]), pick(random, &[20, 200, 1_000]));
    let every = pick(random, &[1, 5, 50]);
    let overwrite = |name: &str, kind: &str, active: &str| {
        format!("[[rule]]\nname='{name}'\n{active}overwrite={{type='{kind}',run={run},max_age_ms={age}}}\n")
    };
    let is = |status: &str| format!("{{type='status',field='status',equals='{status}'}}");
    let mut text = match random.below(6) {
        0 => String::new(),
        1 => overwrite("a", "t0", ""),
        2 => {
            let coalesced = pick(random, &[3, 10]);
            let coalesce = format!("[[rule]]\nname='c'\ncoalesce={{events={coalesced},max_age_ms={age}}}\n");
            overwrite("a", "t0", "") + &overwrite("b", "t1", "") + &coalesce
        }
        3 => {
            let (landed, departed) = (is("landed"), is("departed"));
            let sequence = format!("sequence={{after={landed},discard='t0',until={departed}}}\n");
            let discard = "[[rule]]\nname='d'\ndiscard={type='t1',field='x',equals=1}\n";
            format!("[[rule]]\nname='s'\n{sequence}{discard}")
        }
        4 => {
            let (landed, gate) = (is("landed"), is("at gate"));
            let tuple = format!("tuple={{of=[{landed},{gate}],within_ms={age},becomes='arrived'}}\n");
            format!("[[rule]]\nname='t'\n{tuple}") + &overwrite("a", "t0", "")
        }
        _ => overwrite("a", "t0", "active='loaded'\n") + "[adapt]\nbackup_queue={primary=20,secondary=10}\n",
    };
    text += &format!("[checkpoint]\nevery_events={every}\nevery_events_loaded={}\n", every * 2);
    text
}

/// Draws the faults of a feed's nodes, in the order of their times.
pub(super) fn draw_feed_faults(scenario: &Scenario, span_us: u64) -> Vec<PlannedFault> {
    let random = &mut Random::new(scenario.seed ^ FEEDS.rotate_left(32));
    let mut faults = Vec::new();
    let Some(feed) = scenario.feed.as_ref().filter(|_| !one_in(random, 4)) else { return faults };
    let nodes = scenario.nodes as usize;
    for _ in 0..1 + random.below(6) {
        let is_origin = one_in(random, 3);
        let node = if is_origin { pick(random, &feed.origins) } else { random.below(nodes) as u32 };
        let other = random.below(nodes) as u32;
        let (fault, undo) = match random.below(6) {
            0..3 => (Fault::Crash(node), Some(Fault::Restart(node))),
            3 | 4 => (Fault::Stall(node), Some(Fault::Resume(node))),
            _ => (Fault::Cut(node, other), Some(Fault::Mend)),
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
