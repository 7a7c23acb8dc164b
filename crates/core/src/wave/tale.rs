//! How a wave's time went, and what those below said of themselves.

use crate::id::NodeId;
use crate::load::figure::{LoadFigure, LoadNews};
use crate::message::Report;
use crate::partitions::PartitionSet;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;

/// How busy a node below was, by this node's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) node: NodeId,
    pub(crate) figure: LoadFigure,
    pub(crate) as_of: Instant,
}

impl Heard {
    pub(crate) fn passed_on(&self, now: Instant) -> LoadNews {
        LoadNews { node: self.node, figure: self.figure, age: now.since(self.as_of) }
    }
}

/// How the time went, for the report and the load index.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    pub(crate) arrived_at: Instant,
    pub(crate) first_job_at: Option<Instant>,
    pub(crate) own_done_at: Option<Instant>,
    /// How many others it found in flight when its first locals were queued; `None` when it had none.
    pub(crate) in_flight_found: Option<u32>,
    pub(crate) local: Duration,
    pub(crate) reduce: Duration,
}

impl Timing {
    pub(crate) const fn starting(now: Instant) -> Self {
        Self {
            arrived_at: now,
            first_job_at: None,
            own_done_at: None,
            in_flight_found: None,
            local: Duration::ZERO,
            reduce: Duration::ZERO,
        }
    }
}

/// How a wave's time went, and what those below said of themselves.
#[derive(Debug)]
pub(crate) struct Tale {
    pub(crate) timing: Timing,
    /// Children's reports, when the call asked for them.
    pub(crate) reports: Vec<Report>,
    /// How busy those below were, when that is wanted.
    pub(crate) heard: Vec<Heard>,
}

impl Tale {
    pub(crate) const fn starting(now: Instant) -> Self {
        Self { timing: Timing::starting(now), reports: Vec::new(), heard: Vec::new() }
    }

    /// Notes what a child says of its own load and of those below it; nobody below has more to say than there are
    /// seats.
    pub(crate) fn hear(
        &mut self,
        now: Instant,
        child: NodeId,
        figure: LoadFigure,
        below: &[LoadNews],
        seats: usize,
    ) {
        self.heard.push(Heard { node: child, figure, as_of: now });
        let told = below.iter().take(seats.saturating_sub(1));
        self.heard.extend(told.map(|news| Heard {
            node: news.node,
            figure: news.figure,
            as_of: now - news.age,
        }));
    }

    /// How this node spent its time on the wave, and its children theirs. `own` are its own partitions.
    pub(crate) fn report(&self, now: Instant, me: NodeId, rack: &str, own: &PartitionSet) -> Report {
        let arrived_at = self.timing.arrived_at;
        // A node without a local of its own queues for nothing: its first job is a fold of what it has waited for.
        let first_local_at = self.timing.first_job_at.filter(|_| !own.is_empty());
        Report {
            node: me,
            rack: rack.into(),
            partitions: own.clone(),
            queue: arrived_at.until(first_local_at.unwrap_or(arrived_at)),
            local: self.timing.local,
            reduce: self.timing.reduce,
            wait: self.timing.own_done_at.unwrap_or(arrived_at).until(now),
            total: arrived_at.until(now),
            children: self.reports.clone(),
        }
    }
}
