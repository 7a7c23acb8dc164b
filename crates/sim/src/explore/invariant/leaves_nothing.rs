//! What is over leaves nothing behind.
//!
//! When all calls are over, past every deadline, a node is as new: no call, no wave, no kept wave, no byte held, no
//! job, no request that was pushed for, a load index of exactly zero. And a call that is *cancelled* while messages
//! get through is gone from every node within the time that word takes to reach the foot of the deepest tree; a
//! deadline need not come first. Where messages are lost, as when a parent dies, its children go on until their
//! deadline, by design: somebody else may ask for what they have.

use super::Finding;
use crate::world::World;
use crate::world::place::Life;
use std::collections::BTreeSet;
use treefold_core::id::WaveId;
use treefold_core::time::{Duration, Instant};

/// Word travels down at most so many hops beside one for each node.
const HOPS_MORE: usize = 4;

/// Calls that were cancelled, and when nobody should know them any more.
#[derive(Debug)]
pub struct LeavesNothing {
    hop: Duration,
    is_calm: bool,
    gone_by: BTreeSet<(Instant, u64, WaveId)>,
    last: Vec<(u64, Instant, WaveId)>,
}

impl LeavesNothing {
    pub(super) fn new(hop: Duration) -> Self {
        Self { hop, is_calm: true, gone_by: BTreeSet::new(), last: Vec::new() }
    }

    pub(super) fn troubled(&mut self) {
        self.is_calm = false;
        self.gone_by.clear();
        self.last.clear();
    }

    pub(super) fn cancelled(&mut self, now: Instant, call: u64, wave: WaveId) {
        if self.is_calm {
            self.last.push((call, now, wave));
        }
    }

    /// Looks whether what should be gone is.
    pub(super) fn touched(&mut self, world: &World) -> Result<(), (u64, String)> {
        for (call, since, wave) in self.last.drain(..) {
            let hops = world.places() + HOPS_MORE;
            self.gone_by.insert((since + self.hop.mul_f64(hops as f64), call, wave));
        }
        while let Some(&(by, call, wave)) = self.gone_by.first()
            && world.now() > by
        {
            self.gone_by.pop_first();
            let knows = |&at: &usize| {
                let place = world.place(at);
                place.life() == Life::Running && place.node().open_waves().any(|open| open == wave)
            };
            if let Some(at) = (0..world.places()).find(knows) {
                return Err((call, format!("it was cancelled, and place {at} works on it still")));
            }
        }
        Ok(())
    }
}

/// Every place of `idle` is as new, but for what it keeps until a deadline that `is_over` or not.
pub fn at_rest(world: &World, idle: &BTreeSet<usize>, is_over: bool) -> Finding {
    for &at in idle {
        let node = world.place(at).node();
        let (open, load) = (node.open_work(), node.load_figure());
        let kept = if is_over { [open.waves_kept, open.kept_bytes] } else { [0; 2] };
        let tables = node.table_sizes();
        // What nobody has asked for of what was pushed waits for a while.
        let early = if is_over { [tables.push_requests, tables.early_bytes] } else { [0; 2] };
        let held_bytes = open.held_bytes - tables.early_bytes;
        let left = [open.calls, open.waves, held_bytes, kept[0], kept[1], early[0], early[1]];
        let is_idle = left == [0; 7] && load.queued.is_zero() && load.in_flight == 0;
        // A processor that never comes back keeps its job, and what waits for it.
        let hung = world.place(at).hung() as usize;
        let jobs = open.jobs_running + open.jobs_stuck;
        let has_work = jobs > hung || (open.jobs_queued > 0 && open.jobs_running == 0);
        if !is_idle || has_work {
            return Err(format!(
                "place {at} is not idle, {hung} jobs hang there: {open:?}, {tables:?}, {load:?}"
            ));
        }
    }
    Ok(())
}
