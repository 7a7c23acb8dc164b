//! Draws whether a scenario's members place the partitions among themselves, and the events of that.

use super::draw::{one_in, pick};
use super::placing::PlannedPlacing;
use super::scenario::{Fault, PlannedFault, Scenario};
use treefold_core::random::Random;

/// The generator's own purpose.
const PLACING: u64 = 0x706c_6163;

/// Draws the placement of one scenario in eight. Streams, pushes and feeds need partitions that stay, so it has none of them.
pub(super) fn draw_placing(scenario: &mut Scenario) {
    let random = &mut Random::new(scenario.seed ^ PLACING);
    if !one_in(random, 8) {
        return;
    }
    (scenario.streams, scenario.feed, scenario.pushing) = (Vec::new(), None, None);
    scenario.placing = Some(PlannedPlacing {
        load_us: pick(random, &[0, 1_000, 30_000, 500_000]),
        settle_us: pick(random, &[10_000, 200_000, 1_000_000]),
        replace_after_us: pick(random, &[100_000, 2_000_000, 30_000_000]),
        leave_after_us: pick(random, &[0, 500_000, 5_000_000]),
    });
}

/// Draws drained nodes, partitions moved by hand and loads that fail.
pub(super) fn draw_placing_faults(scenario: &Scenario, span_us: u64) -> Vec<PlannedFault> {
    let random = &mut Random::new(scenario.seed ^ PLACING ^ 1);
    if scenario.placing.is_none() {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for _ in 0..random.below(5) {
        let node = random.below(scenario.nodes as usize) as u32;
        let all = scenario.partitions as usize;
        let some: Vec<u32> = (0..1 + random.below(4)).map(|_| random.below(all) as u32).collect();
        let (fault, undo) = match random.below(5) {
            0 => (Fault::Drain(node), Fault::Undrain(node)),
            1 => (Fault::Pin(node, some.clone()), Fault::Release(node, some)),
            2 => (Fault::Refuse(node, some.clone()), Fault::Release(node, some)),
            3 => (
                Fault::FailLoads(node, (0..scenario.partitions).collect()),
                Fault::FailLoads(node, Vec::new()),
            ),
            _ => (Fault::Join(Vec::new()), Fault::Mend),
        };
        let at_us = random.below(span_us as usize) as u64;
        faults.push(PlannedFault { at_us, fault });
        if !one_in(random, 2) && undo != Fault::Mend {
            let lasts_us = pick(random, &[20_000, 500_000, 3_000_000]);
            faults.push(PlannedFault { at_us: at_us + lasts_us, fault: undo });
        }
    }
    faults
}
