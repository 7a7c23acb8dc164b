//! The feed of a play: begins it, lets mishaps befall it, and ends it. After healing, it must recover.

use super::{Found, LOOK_EVERY, Stage};
use crate::explore::feeding::FeedMishap;
use crate::explore::invariant::{mirror_current, mirror_last_values};
use crate::world::place::Life;

impl Stage<'_> {
    pub(super) fn begin_feed(&mut self) {
        let Some(planned) = &self.scenario.feed else { return };
        let plan = planned.plan(self.scenario, |number| self.place(number));
        if !plan.mirrors.is_empty() && !plan.origins.is_empty() {
            self.world.begin_feed(plan);
        }
    }

    pub(super) fn befall_feed(&mut self, number: usize) {
        let Some(planned) = &self.scenario.feed else { return };
        let mishap = planned.mishaps[number].mishap;
        match mishap {
            FeedMishap::ReplaceOrigin => self.world.replace_origin(),
            FeedMishap::ChangeRules(rules) => self.world.change_rules(rules as usize, &mut self.watch),
            FeedMishap::RepeatSource(source) => self.world.repeat_source(source as usize),
            FeedMishap::MoveReader(reader) => self.world.move_reader(reader as usize, &mut self.watch),
        }
        *self.faults.entry(mishap.kind()).or_default() += 1;
    }

    /// Checks that the feed recovers, and ends it.
    pub(super) fn recover_feed(&mut self) -> Result<(), Found> {
        if self.world.mirrored().is_none() {
            return Ok(());
        }
        let mut by = self.world.now() + mirror_current::WITHIN + self.work_in_hand();
        let mut furthest = 0;
        while self.must_recover() {
            self.run_until(self.world.now() + LOOK_EVERY)?;
            self.rejoin_lonely_observers();
            let living = self.living_endpoints();
            let Some(feed) = self.world.mirrored() else { break };
            let says = mirror_current::all_current(&self.world, feed, &living);
            if says.is_ok() {
                let says = mirror_last_values::at_rest(feed);
                self.watch.inspection.hold("mirror_last_values", self.world.now(), None, None, says);
                break;
            }
            let progress = mirror_current::progress(feed);
            if progress > furthest {
                furthest = progress;
                by = by.max(self.world.now() + mirror_current::GOES_ON_WITHIN);
            }
            if self.world.now() >= by {
                let says = says.map_err(|what| format!("{what}: {}", feed.described()));
                self.watch.inspection.hold("mirror_current", self.world.now(), None, None, says);
            }
            self.look()?;
        }
        self.look()?;
        self.world.end_feed(&mut self.watch);
        self.run_until(self.world.now() + LOOK_EVERY)
    }

    /// Tells whether the feed can recover: nodes refuse no work, an origin has a place, and no two processes have one
    /// mirror, because an origin would feed one of them only.
    fn must_recover(&mut self) -> bool {
        let living = self.living_endpoints();
        let Some(feed) = self.world.mirrored() else { return false };
        // An origin has no stream while no node is there that could be a mirror, and begins no epoch.
        if feed.plan().mirrors.intersection(&living).is_empty() {
            return false;
        }
        let holders = |mirror: u32| {
            let holds = |at: &usize| self.world.place(*at).spec().partitions.contains(mirror);
            (0..self.world.places()).filter(holds).count()
        };
        if feed.plan().mirrors.iter().any(|mirror| holders(mirror) > 1) {
            return false;
        }
        let can_start = |&at: &usize| self.life(at) == Life::Running && !self.leaving.contains(&at);
        let present = feed.present().is_none_or(|(at, ..)| can_start(&at));
        let is_refused = self.scenario.refuses_work() || self.scenario.refuses_streams();
        !is_refused && present && feed.plan().origins.iter().all(can_start) && !feed.is_lost()
    }
}
