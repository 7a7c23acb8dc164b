//! The watchers of a play: the inspection, and the timeline if there is one.

use crate::explore::invariant::Inspection;
use crate::explore::timeline::Timeline;
use crate::world::ink::Ink;
use crate::world::{Watch, World};
use std::collections::BTreeMap;
use treefold_core::call::Outcome;
use treefold_core::effect::Effect;
use treefold_core::id::RequestId;
use treefold_core::input::Input;
use treefold_core::partitions::PartitionSet;
use treefold_core::time::Instant;

pub(super) struct Audience<'a> {
    pub(super) inspection: Inspection,
    pub(super) timeline: Option<&'a mut Timeline>,
    /// Contributors of the last calls, by request.
    pub(super) reached: BTreeMap<RequestId, PartitionSet>,
}

impl<'a> Audience<'a> {
    pub(super) fn new(inspection: Inspection, timeline: Option<&'a mut Timeline>) -> Self {
        Self { inspection, timeline, reached: BTreeMap::new() }
    }
}

impl Watch for Audience<'_> {
    fn input(&mut self, now: Instant, at: usize, input: &Input<Ink>) {
        if let Some(timeline) = &mut self.timeline {
            timeline.input(now, at, input);
        }
        self.inspection.input(now, at, input);
    }

    fn effect(&mut self, now: Instant, at: usize, effect: &Effect<Ink>) {
        if let Some(timeline) = &mut self.timeline {
            timeline.effect(now, at, effect);
        }
        self.inspection.effect(now, at, effect);
    }

    fn outcome(&mut self, now: Instant, at: usize, request: RequestId, outcome: &Outcome<Ink>) {
        self.inspection.outcome(now, at, request, outcome);
        if let Some(reached) = self.reached.get_mut(&request) {
            reached.clone_from(&outcome.contributed);
        }
    }

    fn touched(&mut self, world: &World, at: usize) {
        self.inspection.touched(world, at);
    }
}
