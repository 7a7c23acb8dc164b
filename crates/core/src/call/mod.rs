//! Calls: their options and outcomes.

mod books;
pub(crate) mod caller;
mod children;
pub(crate) mod choosing;
mod detour;
mod folds;
mod gather;
mod hedge;
pub(crate) mod jobs;
mod plan;
mod provider;
pub(crate) mod quota;
pub(crate) mod repair;
pub(crate) mod slices;
pub(crate) mod table;
mod trees;
mod waiting;

pub use children::UNASKED_PARTITIONS;
pub use plan::losses_max;
pub use trees::Reforming;

use crate::error::{CallError, Missing};
use crate::message::Report;
use crate::partitions::PartitionSet;
use crate::push::PushRequest;
use crate::replica::ReplicaPolicy;
use crate::time::Duration;
use crate::tree::shape::Shape;
use crate::wave::slice::Slice;
use crate::wave::wait::Waiting;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The options of a call, besides the aggregation and its parameters.
///
/// Eleven fields, because each is an option that a caller sets by itself.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CallOptions {
    /// The answer must come within this time; above zero.
    pub deadline: Duration,
    /// The least coverage that makes an answer, from 0 to 1.
    pub min_coverage: f64,
    /// The tree's shape.
    pub shape: Shape,
    /// The policy for picking replicas; `None` for the front's policy.
    pub policy: Option<ReplicaPolicy>,
    /// How nodes wait for their children.
    pub waiting: Waiting,
    /// True if replicas must be asked too as soon as a leaf takes longer than the 95th percentile, and not only if it takes twice
    /// as long.
    pub hedge: bool,
    /// The partitions to ask; `None` for all of the service.
    pub partitions: Option<PartitionSet>,
    /// True if the outcome must report how the time was spent at each node.
    pub explain: bool,
    /// The number of [slices](crate::wave::slice) that the partials are cut into, each with a separate tree.
    /// With 1, the partials are left whole.
    pub slices: u32,
    /// The index of the one slice that the call asks for [alone](crate::wave::slice); `None` for all, which the front joins.
    #[cfg_attr(feature = "serde", serde(default))]
    pub only_slice: Option<u32>,
    /// Set if workers push the locals' results; the `partitions` are the workers.
    #[cfg_attr(feature = "serde", serde(default))]
    pub push: Option<PushRequest>,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(2),
            min_coverage: 1.0,
            shape: Shape::Auto,
            policy: None,
            waiting: Waiting::Staged,
            hedge: false,
            partitions: None,
            explain: false,
            slices: 1,
            only_slice: None,
            push: None,
        }
    }
}

impl CallOptions {
    /// The number of waves that the call has.
    pub(crate) fn waves(&self) -> u32 {
        if self.only_slice.is_some() { 1 } else { self.slices }
    }

    /// The slices that the call has a wave for.
    pub(crate) fn asked_slices(&self) -> impl Iterator<Item = Slice> + use<> {
        let (of, only) = (self.slices, self.only_slice);
        let first = only.unwrap_or(0);
        (first..first.saturating_add(self.waves())).filter_map(move |index| match only {
            Some(_) => Slice::alone(index, of),
            None => Slice::new(index, of),
        })
    }
}

/// The outcome of a call. `asked` is the disjoint union of `contributed` and the partitions of `missing`.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Outcome<P> {
    /// The verdict.
    pub status: Status,
    /// The folded partial. Present only for [`Status::Full`] and [`Status::Partial`], and absent if no
    /// partition was asked.
    pub value: Option<P>,
    /// The partitions asked.
    pub asked: PartitionSet,
    /// The partitions folded into the value.
    pub contributed: PartitionSet,
    /// The missing partitions, with reasons.
    pub missing: Vec<Missing>,
    /// True if all partitions of the service were asked and no member declares their number. The front then
    /// asked as many as it has ever seen.
    #[cfg_attr(feature = "serde", serde(default))]
    pub total_is_guess: bool,
    /// From the call's arrival at the front to its end.
    pub elapsed: Duration,
    /// How the time was spent, if the call asked for it.
    pub report: Option<Box<Report>>,
}

/// The verdict over a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Status {
    /// Every partition asked has contributed.
    Full,
    /// Not every partition has contributed, but at least the minimum coverage.
    Partial,
    /// Less than the minimum coverage has contributed; there is no value.
    Insufficient,
    /// The call was rejected, and no partition was asked.
    Rejected(CallError),
}

impl Status {
    /// The status's name, as command lines and JSON show it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial => "partial",
            Self::Insufficient => "insufficient",
            Self::Rejected(_) => "rejected",
        }
    }
}

impl<P> Outcome<P> {
    /// Contributed ÷ asked partitions; 1 if no partition was asked.
    pub fn coverage(&self) -> f64 {
        coverage(self.contributed.len(), self.asked.len())
    }

    /// The outcome of a rejected call.
    pub fn rejected(error: CallError) -> Self {
        Self {
            status: Status::Rejected(error),
            value: None,
            asked: PartitionSet::new(),
            contributed: PartitionSet::new(),
            missing: Vec::new(),
            total_is_guess: false,
            elapsed: Duration::ZERO,
            report: None,
        }
    }
}

/// Contributed ÷ asked; 1 if `asked` is 0.
pub fn coverage(contributed: usize, asked: usize) -> f64 {
    if asked == 0 { 1.0 } else { contributed as f64 / asked as f64 }
}
