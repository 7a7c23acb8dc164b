//! Ended calls leave nothing behind.
//!
//! When all calls are over, after every deadline, a node is like a new one: it has no call, no wave, no kept
//! wave, no held byte, no job, no request that was pushed for, and a load index of exactly zero. A
//! *cancelled* call is gone from every node within the time in which its cancellation reaches the lowest
//! level of the deepest tree, if no messages are lost. This does not wait for a deadline. If messages are
//! lost, for example because a parent dies, its children go on until their deadline by design, because
//! another node may ask for their results.

use super::Finding;
use crate::world::World;
use crate::world::place::Life;
use std::collections::BTreeSet;
use treefold_core::id::WaveId;
use treefold_core::time::{Duration, Instant};

/// Hops of a cancellation in addition to one for each node.
const HOPS_MORE: usize = 4;

/// The cancelled calls, each with the time by which no node may know it any more.
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

    /// Returns an error if a place still works on a call that should be gone.
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
                return Err((call, format!("it was cancelled, but place {at} still works on it")));
            }
        }
        Ok(())
    }
}

/// Checks that every place of `idle` is like new. If `is_over` is false, it may still keep data until a
/// deadline.
pub fn at_rest(world: &World, idle: &BTreeSet<usize>, is_over: bool) -> Finding {
    for &at in idle {
        let node = world.place(at).node();
        let (open, load) = (node.open_work(), node.load_figure());
        let kept = if is_over { [open.waves_kept, open.kept_bytes] } else { [0; 2] };
        let tables = node.table_sizes();
        // Pushes for requests that were never announced are kept for some time.
        let early = if is_over { [tables.push_requests, tables.early_bytes] } else { [0; 2] };
        let held_bytes = open.held_bytes - tables.early_bytes;
        let left = [open.calls, open.waves, held_bytes, kept[0], kept[1], early[0], early[1]];
        let is_idle = left == [0; 7] && load.queued.is_zero() && load.in_flight == 0;
        // A processor that never returns keeps its job and the jobs that wait for it.
        let hung = world.place(at).hung() as usize;
        let jobs = open.jobs_running + open.jobs_stuck;
        let has_work = jobs > hung || (open.jobs_queued > 0 && open.jobs_running == 0);
        if !is_idle || has_work {
            return Err(format!(
                "place {at} is not idle, with {hung} hanging jobs: {open:?}, {tables:?}, {load:?}"
            ));
        }
    }
    Ok(())
}
