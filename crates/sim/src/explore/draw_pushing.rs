//! Draws the push waves of a seed's scenario.
//!
//! They are drawn last and with their own generator. So the rest of a seed's scenario is the same as without
//! push waves, except for the faults of their relays.

use super::draw::{SHAPES, WAITING, one_in, pick};
use super::pushing::{Announcement, Mishap, PlannedMishap, PlannedResult, Pushing};
use super::scenario::{Fault, PlannedFault, Scenario, Wish};
use treefold_core::random::Random;

const PUSHES: u64 = 0x7075_7368;
/// One in this many scenarios has push waves.
const SELDOM: usize = 3;

/// Draws the push waves of `scenario`, or none. Their calls and faults are within `span_us`.
pub(super) fn draw_pushing(scenario: &Scenario, span_us: u64, is_stormy: bool) -> Option<Pushing> {
    let random = &mut Random::new(scenario.seed ^ PUSHES);
    if scenario.nodes > 40 || !one_in(random, SELDOM) {
        return None;
    }
    let has_relays = !one_in(random, 3);
    let mut pushing = Pushing {
        workers: 1 + random.below(10) as u32,
        homes: 1 + random.below(3) as u32,
        relays: if has_relays { 1 + random.below(4) as u32 } else { 0 },
        racks: if has_relays { random.below(4) as u32 } else { 0 },
        window_bytes: pick(random, &[300, 1_000, 10_000, 1 << 20, 1 << 20]),
        early_bytes_max: pick(random, &[0, 1_000, 64 << 20, 64 << 20]),
        kept_bytes_max: pick(random, &[500, 5_000, 64 << 20, 64 << 20]),
        announcements: Vec::new(),
        results: Vec::new(),
        mishaps: Vec::new(),
    };
    for request in 1..=1 + random.below(6) as u64 {
        draw_request(random, scenario, &mut pushing, request, span_us);
    }
    if is_stormy || one_in(random, 2) {
        for _ in 0..random.below(6) {
            let mishap = pick(random, &[Mishap::Cut, Mishap::Cut, Mishap::Restart, Mishap::Twin]);
            let (at_us, worker) = (random.below(span_us as usize) as u64, random.below(16) as u32);
            pushing.mishaps.push(PlannedMishap { at_us, worker, mishap });
        }
    }
    Some(pushing)
}

/// Draws the faults of the relays, in the order of their times.
pub(super) fn draw_relay_faults(scenario: &Scenario, span_us: u64) -> Vec<PlannedFault> {
    let random = &mut Random::new(scenario.seed ^ PUSHES.rotate_left(32));
    let relays = scenario.pushing.as_ref().map_or(0, |pushing| pushing.relays);
    let mut faults = Vec::new();
    if relays == 0 || one_in(random, 3) {
        return faults;
    }
    for _ in 0..1 + random.below(4) {
        let relay = scenario.nodes + scenario.observers + random.below(relays as usize) as u32;
        let (fault, undo) = match random.below(4) {
            0 | 1 => (Fault::Crash(relay), Fault::Restart(relay)),
            2 => (Fault::Stall(relay), Fault::Resume(relay)),
            _ => (Fault::Leave(relay), Fault::Restart(relay)),
        };
        let at_us = random.below(span_us as usize) as u64;
        faults.push(PlannedFault { at_us, fault });
        if one_in(random, 2) {
            let at_us = at_us + pick(random, &[500, 20_000, 200_000, 1_500_000]);
            faults.push(PlannedFault { at_us, fault: undo });
        }
    }
    faults
}

/// Draws a request: its expected workers, their pushes with times, and its announcements, if any.
fn draw_request(random: &mut Random, scenario: &Scenario, pushing: &mut Pushing, request: u64, span_us: u64) {
    let at_us = random.below(span_us as usize) as u64;
    let expected: Vec<u32> = (0..pushing.workers).filter(|_| !one_in(random, 8)).collect();
    let spread_us = pick(random, &[1, 2_000, 100_000, 1_000_000]);
    let sizes = pick(random, &[&[1][..], &[100, 100, 0], &[100, 3_000], &[20_000, 100]]);
    let pieces_max = pick(random, &[1, 1, 4, 12]);
    for worker in 0..pushing.workers {
        // Some workers never push, and some push without being expected.
        if one_in(random, 10) {
            continue;
        }
        let mut pieces: Vec<u32> = (0..1 + random.below(pieces_max)).map(|_| pick(random, sizes)).collect();
        pieces[0] = pieces[0].max(1);
        pushing.results.push(PlannedResult {
            at_us: (at_us + random.below(spread_us) as u64).saturating_sub(spread_us as u64 / 2),
            every_us: pick(random, &[0, 300, 10_000]),
            worker,
            request,
            pieces,
            fails: one_in(random, 20),
        });
    }
    let times = if one_in(random, 12) { 0 } else { 1 + usize::from(one_in(random, 8)) };
    for again in 0..times {
        let deadline_us = pick(random, &[400, 20_000, 200_000, 600_000, 2_500_000]);
        let front = random.below((scenario.nodes + scenario.observers + pushing.relays) as usize) as u32;
        pushing.announcements.push(Announcement {
            at_us: at_us + again as u64 * random.below(span_us as usize) as u64,
            front,
            through: random.below(scenario.nodes as usize) as u32,
            request,
            wish: Wish {
                deadline_us,
                min_coverage: pick(random, &[0.0, 0.0, 0.5, 0.9, 1.0]),
                shape: pick(random, &SHAPES),
                waiting: pick(random, &WAITING),
                partitions: Some(expected.clone()),
                explain: one_in(random, 4),
                ..Wish::default()
            },
            patience_us: pick(random, &[0, 5_000, 300_000, 2_000_000]),
            cancelled_after_us: one_in(random, 6).then(|| random.below(deadline_us as usize + 1_000) as u64),
        });
    }
}
