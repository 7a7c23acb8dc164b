//! How a wave spent its time, and the loads that the nodes below have reported.

use crate::id::NodeId;
use crate::load::figure::{LoadFigure, LoadNews, Took};
use crate::message::Report;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use core::num::NonZeroU32;

/// The load of a node below, by this node's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) node: NodeId,
    pub(crate) figure: LoadFigure,
    pub(crate) as_of: Instant,
    /// How fast it was, as [`LoadNews::time`] says it.
    pub(crate) time: Option<Took>,
}

impl Heard {
    pub(crate) fn passed_on(&self, now: Instant) -> LoadNews {
        LoadNews { node: self.node, figure: self.figure, age: now.since(self.as_of), time: self.time }
    }
}

/// How the time was spent, for the report and the load index.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    pub(crate) arrived_at: Instant,
    pub(crate) first_job_at: Option<Instant>,
    pub(crate) own_done_at: Option<Instant>,
    /// The number of waves in flight, with this one, when this wave's first locals were queued; `None` if it had no
    /// locals.
    pub(crate) in_flight: Option<NonZeroU32>,
    pub(crate) local: Duration,
    pub(crate) reduce: Duration,
    /// Locals of whole partials that have ended well.
    pub(crate) done: u32,
    /// Their time, which `local` includes.
    pub(crate) done_time: Duration,
    /// For how long this node had not been served when the wave arrived ([`Pauses`](crate::load::pauses::Pauses)).
    pub(crate) paused_before: Duration,
}

impl Timing {
    pub(crate) const fn starting(now: Instant) -> Self {
        Self {
            arrived_at: now,
            first_job_at: None,
            own_done_at: None,
            in_flight: None,
            local: Duration::ZERO,
            reduce: Duration::ZERO,
            done: 0,
            done_time: Duration::ZERO,
            paused_before: Duration::ZERO,
        }
    }

    /// The time of one local, if the slowest one that was beaten by a replica had run for so long.
    pub(crate) fn own(&self, beaten_after: Duration) -> Option<Took> {
        let mean = self.done_time.div(u64::from(self.done).max(1));
        if beaten_after > mean {
            return Some(Took::at_least(beaten_after));
        }
        (self.done > 0).then(|| Took::all(mean))
    }

    /// The time since the wave arrived, without that in which this node was not served.
    pub(crate) fn served(&self, now: Instant, paused: Duration) -> Duration {
        self.arrived_at.until(now).saturating_sub(paused.saturating_sub(self.paused_before))
    }
}

/// How a wave spent its time, and the loads that the nodes below have reported.
#[derive(Debug)]
pub(crate) struct Tale {
    pub(crate) timing: Timing,
    /// The children's reports, if the call asked for them.
    pub(crate) reports: Vec<Report>,
    /// The loads of the nodes below, if the call wants them.
    pub(crate) heard: Vec<Heard>,
}

impl Tale {
    pub(crate) const fn starting(now: Instant) -> Self {
        Self { timing: Timing::starting(now), reports: Vec::new(), heard: Vec::new() }
    }

    /// Notes the loads of a child and of the nodes below it. Entries beyond twice the number of seats in the child's subtree
    /// are ignored: for each seat, another node may have been asked too.
    pub(crate) fn hear(
        &mut self,
        now: Instant,
        (child, figure, time): (NodeId, LoadFigure, Option<Took>),
        below: &[LoadNews],
        seats: usize,
    ) {
        self.heard.push(Heard { node: child, figure, as_of: now, time });
        let told = below.iter().take(2 * seats);
        self.heard.extend(told.map(|news| Heard {
            node: news.node,
            figure: news.figure,
            as_of: now - news.age,
            time: news.time,
        }));
    }

    /// How this node and its children spent their time on the wave. `own` are this node's partitions.
    pub(crate) fn report<P>(
        &self,
        cx: &Context<P>,
        now: Instant,
        own: &PartitionSet,
        replaced: &[NodeId],
    ) -> Report {
        let arrived_at = self.timing.arrived_at;
        // A node without partitions has no queueing time: its first job is a fold of partials that it has
        // waited for.
        let first_local_at = self.timing.first_job_at.filter(|_| !own.is_empty());
        Report {
            node: cx.me,
            rack: cx.config.card.rack.clone(),
            partitions: own.clone(),
            queue: arrived_at.until(first_local_at.unwrap_or(arrived_at)).into(),
            local: self.timing.local.into(),
            reduce: self.timing.reduce.into(),
            wait: self.timing.own_done_at.unwrap_or(arrived_at).until(now).into(),
            total: arrived_at.until(now).into(),
            replaced: replaced.to_vec(),
            children: self.reports.clone(),
        }
    }
}
