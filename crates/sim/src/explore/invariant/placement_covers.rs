//! A node drops a partition only if another running process has it.
//!
//! Placement moves partitions, and must not lose one by that. While nothing is troubled, a dropped partition is loaded at
//! another running place. (If that place crashes, the partition is lost by the crash and not by placement.)

use super::Finding;
use crate::world::World;
use crate::world::ink::Ink;
use crate::world::place::Life;
use treefold_core::effect::Effect;
use treefold_core::id::PartitionId;

/// The partitions that were dropped since the last look.
#[derive(Debug, Default)]
pub(super) struct PlacementCovers {
    dropped: Vec<PartitionId>,
    troubled: bool,
}

impl PlacementCovers {
    pub(super) fn troubled(&mut self) {
        self.troubled = true;
    }

    pub(super) fn effect(&mut self, effect: &Effect<Ink>) {
        if let (Effect::Unload { partition, .. }, false) = (effect, self.troubled) {
            self.dropped.push(*partition);
        }
    }

    pub(super) fn touched(&mut self, world: &World) -> Finding {
        let has = |partition: PartitionId| {
            let places = (0..world.places()).map(|at| world.place(at));
            places.into_iter().any(|place| place.life() != Life::Gone && place.loaded().contains(partition))
        };
        match self.dropped.drain(..).find(|&partition| !has(partition)) {
            Some(partition) => Err(format!("partition {partition} was dropped, and no other process has it")),
            None => Ok(()),
        }
    }
}
