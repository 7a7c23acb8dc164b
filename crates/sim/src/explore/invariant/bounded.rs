//! Every table of every node stays within its limit.
//!
//! Where a limit is not a plain maximum the rule is this:
//! - `waves_open_max` bounds the waves that a node takes part in for others; its own calls' waves come on top, and
//!   are bounded by `calls_open_max`.
//! - `jobs_queued_max` refuses locals. Folds are never refused: an open wave has less than one for each partition, and
//!   of those that have ended there are no more than of those that are open, or [`STALE_FOLDS_MAX`].
//! - `peers_max` bounds what is remembered of nodes, with room for one at least. Who has one connection more is the
//!   driver's to refuse, and this world has none to refuse.
//! - `missing_max` bounds the losses listed in each answer, be it a call's or a node's; one is listed in any case.
//! - `held_bytes_max` stops what is offered. What a node's own locals give is not asked for, and each wave with
//!   nothing to fold is granted one answer whatever is held, so that waves don't wait for each other's room; a child
//!   that ran out of time has not folded all that its answer consists of. Partials
//!   of no more than `eager_bytes_max` come unasked, and are not what the limit is for.

use super::Finding;
use crate::world::World;
use treefold_core::error::Missing;
use treefold_core::limits::STALE_FOLDS_MAX;
use treefold_core::push::PUSH_BYTES;

/// What is needed to judge a node.
#[derive(Debug)]
pub struct Bounded {
    /// The size of every partial.
    pub partial_bytes: usize,
    /// How many partitions there are.
    pub partitions: usize,
    /// How many workers an application has; none where there is none.
    pub workers: usize,
    /// The size of the largest piece that they push.
    pub piece_bytes: usize,
    /// What each may have at a node that is not folded.
    pub window_bytes: usize,
    /// How many losses an answer may list.
    pub missing_max: usize,
}

impl Bounded {
    /// Holds one node to its limits.
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
        // An announced wave has a fold for each worker's pieces, and those of their results; a stream's filter is at one piece
        // of work at a time.
        let folds = self.partitions.max(2 * self.workers);
        within("folds that wait", tables.folds_queued, open.waves * folds + open.streams + STALE_FOLDS_MAX)?;
        within("peers_max", tables.peers_remembered, limits.peers_max.max(1))?;
        within("waves in the load index", place.node().load_figure().in_flight as usize, open.waves)?;
        if self.workers > 0 {
            return self.pushed(world, at);
        }
        if self.partial_bytes > limits.eager_bytes_max {
            let most = place.spec().partitions.len() + self.partitions;
            let uninvited = open.waves * most * self.partial_bytes;
            within("held_bytes_max", open.held_bytes, limits.held_bytes_max.saturating_add(uninvited))?;
        }
        Ok(())
    }

    /// Holds a node to its limits for what is pushed. A worker's first piece is always taken, so that each gets on.
    fn pushed(&self, world: &World, at: usize) -> Finding {
        let place = world.place(at);
        let (tables, limits) = (place.node().table_sizes(), &place.spec().limits);
        let within = |name: &str, value: usize, most: usize| {
            if value <= most { Ok(()) } else { Err(format!("{name}: {value}, at most {most}: {tables:?}")) }
        };
        within("early_bytes_max", tables.early_bytes, limits.early_bytes_max)?;
        let open = place.node().open_work();
        let of_one = self.window_bytes + 2 * (self.piece_bytes + PUSH_BYTES);
        let folded = open.waves * (place.spec().partitions.len() + self.partitions) * self.partial_bytes;
        let most = open.waves * self.workers * of_one + tables.early_bytes + folded;
        within("held_bytes_max", open.held_bytes, limits.held_bytes_max.saturating_add(most))
    }

    /// Holds one answer to its limit.
    pub fn of_answer(&self, missing: &[Missing]) -> Finding {
        let most = self.missing_max.max(1);
        if missing.len() <= most {
            return Ok(());
        }
        Err(format!("missing_max: {} losses are listed, at most {most}: {missing:?}", missing.len()))
    }
}
