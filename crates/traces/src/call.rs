//! A call that has ended, as its front saw it.

use crate::context::Context;
use std::time::{Duration, SystemTime};
use treefold::{Missing, PartitionSet, Reply, Report, Status};

/// A call that has ended.
#[derive(Debug)]
pub struct EndedCall {
    /// Its place in its trace.
    pub context: Context,
    /// The service.
    pub service: String,
    /// The aggregation.
    pub aggregation: String,
    /// The front's clock when it began.
    pub started: SystemTime,
    /// Time that it took.
    pub took: Duration,
    /// Time that it had.
    pub deadline: Duration,
    /// How it ended.
    pub ending: Ending,
}

/// How a call ended.
#[derive(Debug)]
pub enum Ending {
    /// It was answered.
    Answered(Box<Answered>),
    /// It ended without an answer, for a reason of this name.
    Failed(&'static str),
}

/// The accounts of an answered call. Values and parameters are not among them.
#[derive(Debug)]
pub struct Answered {
    /// The verdict.
    pub status: Status,
    /// The partitions that were asked.
    pub asked: PartitionSet,
    /// The partitions whose data is in the answer.
    pub contributed: PartitionSet,
    /// The other partitions, with reasons.
    pub missing: Vec<Missing>,
    /// True if no node declares the number of partitions.
    pub total_is_guess: bool,
    /// The times of the nodes.
    pub report: Option<Report>,
}

/// The side on which the front of a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It serves callers, as a gateway does.
    Server,
    /// It is the caller.
    Client,
}

impl Answered {
    /// The accounts of a reply, with a report that may have been taken out of it.
    pub fn of<T>(reply: &Reply<T>, report: Option<Report>) -> Self {
        Self {
            status: reply.status.clone(),
            asked: reply.asked.clone(),
            contributed: reply.contributed.clone(),
            missing: reply.missing.clone(),
            total_is_guess: reply.total_is_guess,
            report,
        }
    }
}

impl EndedCall {
    /// The number of its spans: its own, and one for each node of its tree.
    pub fn spans(&self) -> usize {
        let report = match &self.ending {
            Ending::Answered(answered) => answered.report.as_ref(),
            Ending::Failed(_) => None,
        };
        let (mut count, mut open) = (1, Vec::from_iter(report));
        while let Some(report) = open.pop() {
            count += 1;
            open.extend(&report.children);
        }
        count
    }
}
