//! Only a node that was slowed down is slow in the eyes of others; if none was, none is.
//!
//! Checked in even scenarios ([`Scenario::is_even`]), in which all calls cost the same. Elsewhere a node may well have
//! been given the costly ones.

use super::Finding;
use crate::explore::scenario::{Fault, Scenario};
use crate::world::World;
use crate::world::place::place_of;
use std::collections::BTreeSet;

/// The places that were slowed down; `None` if the scenario is not even.
#[derive(Debug)]
pub struct BlameLands(Option<BTreeSet<usize>>);

impl BlameLands {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let slowed = |fault: &Fault| match *fault {
            Fault::Slow(node, _) | Fault::Stall(node) => Some((node % scenario.nodes) as usize),
            _ => None,
        };
        let slowed = scenario.faults.iter().filter_map(|planned| slowed(&planned.fault)).collect();
        Self(scenario.is_even().then_some(slowed))
    }

    pub(super) fn touched(&self, world: &World, at: usize) -> Finding {
        let Some(slowed) = &self.0 else { return Ok(()) };
        let is_blamed_wrongly = |(place, _): &(usize, u32)| !slowed.contains(place);
        let blamed = world.place(at).node().slow(world.now()).into_iter();
        match blamed.map(|slow| (place_of(slow.node), slow)).find(|(place, _)| is_blamed_wrongly(place)) {
            Some(((place, _), slow)) => {
                Err(format!("it holds {place} for slow, which was not slowed down: {slow:?}"))
            }
            None => Ok(()),
        }
    }
}
