//! Every table of every node stays within its limit.
//!
//! Some limits are not plain maxima:
//! - `waves_open_max` limits the waves in which a node takes part for others. The waves of its own calls are
//!   added to these, and `calls_open_max` limits them.
//! - `jobs_queued_max` refuses locals. Folds are never refused. An open wave has fewer folds than partitions,
//!   and folds of ended waves are not more than folds of open waves, or than [`STALE_FOLDS_MAX`].
//! - `peers_max` limits the nodes that are remembered; there is always room for one. The driver would have to
//!   refuse further connections, and this world refuses none.
//! - `missing_max` limits the losses listed in each answer of a call or a node. One loss is always listed.
//! - `held_bytes_max` limits offers. It does not limit the results of a node's own locals, which are not
//!   offered. Each wave with nothing to fold gets one grant regardless of the limit, so that waves do not
//!   wait for each other's room. A child that has run out of time sends parts that it has not folded.
//!   Partials of at most `eager_bytes_max` are sent without an offer, so this limit does not apply to them.

use super::Finding;
use crate::world::World;
use crate::world::place::Spec;
use treefold_core::error::Missing;
use treefold_core::limits::STALE_FOLDS_MAX;
use treefold_core::push::PUSH_BYTES;

/// The figures that are needed to check a node.
#[derive(Debug)]
pub struct Bounded {
    /// The size of every partial.
    pub partial_bytes: usize,
    /// Number of partitions.
    pub partitions: usize,
    /// Number of the application's workers; 0 if there is no application.
    pub workers: usize,
    /// The size of the workers' largest piece.
    pub piece_bytes: usize,
    /// Most bytes that a worker may have unfolded at its node.
    pub window_bytes: usize,
    /// Most losses that an answer may list.
    pub missing_max: usize,
}

impl Bounded {
    /// Checks the limits of one node.
    pub fn touched(&self, world: &World, at: usize) -> Finding {
        let place = world.place(at);
        let (open, limits) = (place.node().open_work(), &place.spec().limits);
        let within = |name: &str, value: usize, most: usize| {
            if value <= most { Ok(()) } else { Err(format!("{name}: {value}, at most {most}: {open:?}")) }
        };
        let tables = place.node().table_sizes();
        within("calls_open_max", tables.call_waves, limits.calls_open_max)?;
        within("waves_open_max", open.waves, limits.waves_open_max.saturating_add(tables.call_waves))?;
        within("waves_kept_max", open.waves_kept, limits.waves_kept_max)?;
        within("kept_bytes_max", open.kept_bytes, limits.kept_bytes_max)?;
        within("stuck_jobs_max", open.jobs_stuck, limits.stuck_jobs_max)?;
        let at_work = tables.locals_queued + open.jobs_running + open.jobs_stuck;
        within("sliced locals", tables.sliced_locals, limits.waves_open_max.saturating_add(at_work))?;
        within("jobs_queued_max", tables.locals_queued, limits.jobs_queued_max)?;
        // An announced wave has folds for the pieces of each worker, and for the workers' results. The filter
        // of a stream has one run at a time.
        let folds = self.partitions.max(2 * self.workers);
        within("folds that wait", tables.folds_queued, open.waves * folds + open.streams + STALE_FOLDS_MAX)?;
        within("peers_max", tables.peers_remembered, limits.peers_max.max(1))?;
        within("waves in the load index", place.node().load_figure().in_flight as usize, open.waves)?;
        if self.workers > 0 {
            return self.pushed(world, at);
        }
        if self.partial_bytes > limits.eager_bytes_max {
            let most = self.held_most(place.spec()) + self.partitions;
            let uninvited = open.waves * most * self.partial_bytes;
            within("held_bytes_max", open.held_bytes, limits.held_bytes_max.saturating_add(uninvited))?;
        }
        Ok(())
    }

    /// The most partitions that the node can hold.
    fn held_most(&self, spec: &Spec) -> usize {
        if spec.placing.is_some() { self.partitions } else { spec.partitions.len() }
    }

    /// Checks a node's limits for pushes. A worker's first piece is always accepted, so that each worker
    /// makes progress.
    fn pushed(&self, world: &World, at: usize) -> Finding {
        let place = world.place(at);
        let (tables, limits) = (place.node().table_sizes(), &place.spec().limits);
        let within = |name: &str, value: usize, most: usize| {
            if value <= most { Ok(()) } else { Err(format!("{name}: {value}, at most {most}: {tables:?}")) }
        };
        within("early_bytes_max", tables.early_bytes, limits.early_bytes_max)?;
        let open = place.node().open_work();
        let of_one = self.window_bytes + 2 * (self.piece_bytes + PUSH_BYTES);
        let folded = open.waves * (self.held_most(place.spec()) + self.partitions) * self.partial_bytes;
        let most = open.waves * self.workers * of_one + tables.early_bytes + folded;
        within("held_bytes_max", open.held_bytes, limits.held_bytes_max.saturating_add(most))
    }

    /// Checks the limit of one answer.
    pub fn of_answer(&self, missing: &[Missing]) -> Finding {
        let most = self.missing_max.max(1);
        if missing.len() <= most {
            return Ok(());
        }
        Err(format!("missing_max: an answer lists {} losses, at most {most}: {missing:?}", missing.len()))
    }
}
