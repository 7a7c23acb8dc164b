//! The recovery of a play: everything is healed and comes to rest, and all nodes see each other.

use super::{Found, LOOK_EVERY, Stage};
use crate::explore::invariant::{converges, leaves_nothing, workers_heard};
use crate::explore::pushing::Pushing;
use crate::explore::scenario::Weather;
use crate::world::place::{Failing, Life};
use std::collections::BTreeSet;
use treefold_core::partitions::PartitionSet;
use treefold_core::push::EARLY_FOR;
use treefold_core::time::Duration;

/// Time after the last deadline until the world is at rest. Cancellations and last messages must arrive, kept
/// waves expire every 100 ms, and nodes give up on stuck jobs after a second.
const REST_AFTER: Duration = Duration::from_secs(3);
/// Most requests for which a worker's pushes may wait one after the other.
const EARLY_ROUNDS_MAX: usize = 8;
/// Longest time of current work, as a multiple of its mean.
const TAIL: f64 = 30.0;

impl Stage<'_> {
    /// Ends all faults, except for the links that are cut for good. Nodes that left the cluster stay away.
    pub(super) fn heal(&mut self) {
        self.world.mend();
        self.world.network().change(Weather::FAIR.links());
        for at in 0..self.world.places() {
            self.resume(at);
            self.world.slow_down(at, 1.0);
            self.world.hang(at, PartitionSet::new());
            self.world.fail(at, Failing::default());
        }
        self.world.let_filters_go();
        for at in 0..self.world.places() {
            if self.life(at) == Life::Gone && !self.leaving.contains(&at) {
                self.restart(at);
            }
        }
        self.release_all();
        self.reconnect_observers();
        // Nodes that joined while no seed could answer get other seeds, as their operators would give them.
        let late = std::mem::take(&mut self.late);
        for &at in self.running(false).intersection(&late) {
            self.join(at);
        }
    }

    /// Waits until all calls have ended and have left nothing anywhere. If `deadline`, the longest deadline,
    /// is given, it is waited for, and data that is kept until then must be gone too.
    pub(super) fn rest(&mut self, deadline: Option<Duration>) -> Result<(), Found> {
        let by = self.world.now()
            + deadline.unwrap_or(Duration::ZERO)
            + REST_AFTER
            + if deadline.is_some() { self.pushes_rest_after() } else { Duration::ZERO }
            + self.work_in_hand();
        loop {
            self.run_until(self.world.now() + LOOK_EVERY)?;
            let idle: BTreeSet<usize> = &self.running(false) | &self.running(true);
            let is_over = self.world.now() >= by;
            let have_left = self.leaving.iter().all(|&at| self.life(at) == Life::Gone);
            if is_over && !have_left {
                let says =
                    Err(format!("places {:?} were told to leave, but some have not drained", self.leaving));
                self.watch.inspection.hold("leaves_nothing", self.world.now(), None, None, says);
            }
            if is_over {
                self.watch.inspection.hold_all_ended(&self.world);
                self.watch.inspection.hold_at_rest(&self.world, &idle, deadline.is_some());
            }
            self.look()?;
            let rests = leaves_nothing::at_rest(&self.world, &idle, deadline.is_some()).is_ok()
                && (deadline.is_none() || workers_heard::at_rest(&self.world).is_ok());
            if is_over || (rests && have_left && self.watch.inspection.has_none_open()) {
                return Ok(());
            }
        }
    }

    /// Returns the longest time until the current work is done.
    pub(super) fn work_in_hand(&self) -> Duration {
        let work_us = (self.scenario.local_us + self.scenario.reduce_us) as f64;
        let scale = self.scenario.calls.iter().map(|call| call.scale).fold(1.0, f64::max);
        let tail_ms = work_us / 1_000.0 * TAIL * scale * f64::from(self.scenario.slowness_max());
        Duration::from_millis_f64(tail_ms)
    }

    /// Returns the longest time that pushes may wait: pushes for requests that are never announced, and
    /// pushes to nodes that are gone. They wait one after the other if the window lets no more pass.
    pub(super) fn pushes_rest_after(&self) -> Duration {
        let results = |pushing: &Pushing| pushing.results.len().min(EARLY_ROUNDS_MAX) as f64 + 2.0;
        self.scenario.pushing.as_ref().map_or(Duration::ZERO, |pushing| EARLY_FOR.mul_f64(results(pushing)))
    }

    /// Restarts nodes whose processors have not returned, as their operators would. The processors hang, or
    /// still work on jobs that were abandoned when the node was slow.
    pub(super) fn restart_crippled(&mut self) {
        for at in self.running(false) {
            let place = self.world.place(at);
            if place.node().open_work().jobs_running > 0 || place.is_at_work() {
                self.end_process(at);
                self.restart(at);
            }
        }
        self.reconnect_observers();
    }

    /// Lets observers close their connections and join again through running members, as a client's library
    /// does.
    fn reconnect_observers(&mut self) {
        for at in self.running(true) {
            for member in self.running(false) {
                self.world.break_link(at, member);
            }
            self.join(at);
        }
    }

    /// Lets observers that know no member any more join again. A client contacts its seeds for as long as it knows none
    /// (`driver/joining.rs` in `crates/treefold`), so it finds the members again when its links are mended. Its tries to
    /// connect over the cut links may end only then, so this is repeated.
    pub(super) fn rejoin_lonely_observers(&mut self) {
        for at in self.running(true) {
            if self.world.place(at).node().view().alive().all(treefold_core::id::NodeId::is_client) {
                self.join(at);
            }
        }
    }

    /// Waits until all nodes see each other.
    pub(super) fn converge(&mut self) -> Result<(), Found> {
        // Connection attempts from before the healing fail only now, and the nodes that made them learn it
        // now.
        let known_at = self.world.now() + self.scenario.weather.links().connect_timeout + LOOK_EVERY;
        self.run_until(known_at)?;
        self.reconnect_observers();
        self.run_until(known_at + LOOK_EVERY)?;
        let by = self.world.now() + converges::WITHIN;
        loop {
            let says = converges::sees_all(&self.world, &self.running(false), &self.running(true));
            if says.is_ok() {
                return Ok(());
            }
            if self.world.now() >= by {
                self.watch.inspection.hold("converges", self.world.now(), None, None, says);
            }
            self.look()?;
            self.run_until(self.world.now() + LOOK_EVERY)?;
        }
    }
}
