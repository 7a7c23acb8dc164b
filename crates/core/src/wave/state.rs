//! One node's part in a wave: *local running* → *waiting for children* → *ready* (DAC §4.3, figure 11).
//!
//! No thread waits: locals, folds and children's partials come in as inputs, in any order. The wave is answered
//! when nothing is open any more, or when its time is up, with what there is. What is missing is never counted
//! along the way: it is what was asked less the contributors, explained by the losses noted meanwhile, so that
//! contributors and missing partition the asked set whatever happened.
//!
//! A `Wave` is open. When it has answered its parent it becomes an [`Answered`](crate::wave::answered::Answered), which
//! holds what may be asked for again and nothing else.

use crate::error::{Missing, Reason};
use crate::id::{JobId, NodeId, Tag};
use crate::load::index::Weight;
use crate::message::Payload;
use crate::partitions::PartitionSet;
use crate::push::pushed::Pushed;
use crate::seat::{self, Parent, Seat, Standing};
use crate::time::Instant;
use crate::wave::ask::Ask;
use crate::wave::contributors::{Part, Parts, Taken};
use crate::wave::losses::{Losses, Tally};
use crate::wave::tale::Tale;
use crate::wave::wait::stop::{Progress, Stop};
use alloc::boxed::Box;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// Where a wave stands.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Locals, folds or children are open.
    Open,
    /// It answers its parent, with these missing; it is kept until the deadline in case the parent is lost.
    Answered(Vec<Missing>),
    /// The caller's wave is over, with these missing.
    Ended(Vec<Missing>),
}

/// What a wave keeps of a child.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) answer_at: Instant,
    /// When patience with it ends; `None` once it has been repaired, or when no time is left to mend anything.
    pub(crate) repair_at: Option<Instant>,
    /// When a replica is asked as well, if the call is hedged and the child a leaf.
    pub(crate) hedge_at: Option<Instant>,
}

impl Asked {
    /// When the child is to be looked at again.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        match (self.repair_at, self.hedge_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// A child in a wave.
pub(crate) type Child = seat::Child<Asked>;

impl Child {
    /// The partitions that may still come of it.
    pub(crate) fn promises(&self) -> PartitionSet {
        if self.standing() == Standing::Hopeless { PartitionSet::new() } else { self.owes() }
    }
}

/// A wave's own work, and what the node's books are charged for it.
#[derive(Debug, Default)]
pub(crate) struct Locals {
    /// Partitions to run here.
    pub(crate) own: PartitionSet,
    /// Those of them whose local has neither given a part nor failed.
    pub(crate) open: PartitionSet,
    /// When replicas are asked for the own partitions that are still open then.
    pub(crate) hedge_at: Option<Instant>,
    /// Futures that are to be dropped when the wave is over.
    pub(crate) futures: SmallVec<[JobId; 2]>,
    /// Rises whenever the wave gives up its jobs, so that what comes of them later is told from what is awaited.
    pub(crate) epoch: u64,
    /// Inline jobs that are out, and so back before anything else happens.
    pub(crate) inline: u32,
    /// Predicted work charged to the load index for this wave.
    pub(crate) weight: Option<Weight>,
    /// Bytes of this wave's parts that are charged to the node's budget.
    pub(crate) charged_bytes: usize,
}

/// A wave's times.
#[derive(Debug)]
pub(crate) struct Clock {
    /// By when this node must have answered its parent.
    pub(crate) answer_at: Instant,
    /// When the parent is to get a sign of life, if the wave is still open by then.
    pub(crate) sign_at: Option<Instant>,
    /// The waiting rule at work.
    pub(crate) stop: Stop,
    pub(crate) armed: Option<Instant>,
}

/// A node's part in a wave.
///
/// Eleven fields, because each is a part with methods of its own, and a wave is all of them: what was asked, who takes
/// part, what is here, and what has become of it.
#[derive(Debug)]
pub(crate) struct Wave<P> {
    pub(crate) tag: Tag,
    /// Every partition of the subtree.
    pub(crate) asked: PartitionSet,
    pub(crate) ask: Ask<P>,
    pub(crate) seat: Seat<Asked>,
    pub(crate) locals: Locals,
    pub(crate) parts: Parts<P>,
    pub(crate) losses: Losses,
    /// Where locals are pushed.
    pub(crate) pushed: Option<Box<Pushed<P>>>,
    pub(crate) clock: Clock,
    pub(crate) tale: Tale,
    pub(crate) phase: Phase,
}

// Each call makes one at each node. Allocators take longer over what is larger than a kilobyte.
const _: () = assert!(size_of::<Wave<bytes::Bytes>>() <= 1024);

/// Who asks a wave, and how much of it this node may give up.
pub(crate) struct Opening {
    pub(crate) tag: Tag,
    pub(crate) parent: Parent,
    pub(crate) asked: PartitionSet,
    pub(crate) answer_at: Instant,
    /// How many of its partitions its waiting rule may give up.
    pub(crate) spare: u32,
    pub(crate) jobs_epoch: u64,
}

/// No worker is absent where none pushes.
static NOBODY: PartitionSet = PartitionSet::new();

impl<P: Payload> Wave<P> {
    /// A wave of which nothing has been done yet.
    pub(crate) fn open(now: Instant, from: Opening, ask: Ask<P>) -> Self {
        let Opening { tag, parent, asked, answer_at, spare, jobs_epoch } = from;
        Self {
            tag,
            losses: Losses::default(),
            asked,
            seat: Seat::under(parent),
            locals: Locals { epoch: jobs_epoch, ..Locals::default() },
            parts: Parts::new(),
            pushed: ask.push.map(|_| Box::default()),
            clock: Clock { answer_at, sign_at: None, stop: Stop::new(spare), armed: None },
            tale: Tale::starting(now),
            phase: Phase::Open,
            ask,
        }
    }

    /// True until the wave has its answer.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Partitions whose worker is nowhere to be found, and is waited for.
    pub(crate) fn absent(&self) -> &PartitionSet {
        self.pushed.as_ref().map_or(&NOBODY, |pushed| &pushed.absent)
    }

    /// True when the answer can be given before its time is up.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_own_over() && self.parts.is_settled() && self.seat.children.open() == 0
    }

    /// True when all that is open is open with children of which nothing is to be hoped for.
    pub(crate) fn waits_in_vain(&self) -> bool {
        self.is_own_over() && self.parts.is_settled() && self.seat.children.are_hopeless()
    }

    /// Of `partitions`, those that no child is at work on.
    pub(crate) fn without_promised(&self, partitions: PartitionSet) -> PartitionSet {
        let mut rest = partitions;
        let mut children = self.seat.children.iter_open();
        while !rest.is_empty()
            && let Some(child) = children.find(|child| child.answers_for.intersects(&rest))
        {
            rest = rest.difference(&child.promises());
        }
        rest
    }

    /// True when nothing is awaited but children.
    pub(crate) fn is_own_over(&self) -> bool {
        self.locals.open.is_empty() && self.absent().is_empty()
    }

    /// Notes who is to hear of the end of an announced call though nothing more is expected of them.
    pub(crate) fn remember_done(&mut self) {
        if self.ask.push.is_none() {
            return;
        }
        let done = self.seat.children.iter().filter(|child| child.standing() == Standing::Done);
        let done: Vec<(NodeId, u32)> = done.map(Child::name).collect();
        self.seat.deposed.extend(done);
    }

    /// When the wave next wants to be woken.
    pub(crate) fn wake_at(&mut self, now: Instant) -> Instant {
        // A stop that has passed waits for folds, and their end is an input.
        let stop_at = self.clock.stop.at().filter(|&at| at > now);
        let absent_until = self.pushed.as_ref().and_then(|pushed| pushed.absent_until);
        let others = [self.clock.sign_at, self.locals.hedge_at, absent_until, stop_at];
        let children = self.seat.children.next_due();
        others.into_iter().chain([children]).flatten().fold(self.clock.answer_at, Instant::min)
    }

    /// How far the wave has come, for its waiting rule. A wave that was asked for less after its parent was lost may
    /// hold what nobody wants of it any more: that has not come.
    pub(crate) fn progress(&mut self) -> Progress {
        Progress {
            asked: self.asked.len(),
            came: self.asked.common_len(self.parts.claimed()),
            lost: if self.losses.noted.is_empty() { 0 } else { self.lost_for_good().len() },
            spare: self.clock.stop.spare as usize,
        }
    }

    /// What has been asked, has not contributed, and is not open with anyone any more. Only what something has happened to
    /// since the last look is looked at: a root over ten thousand children looks after each loss.
    pub(crate) fn lost_for_good(&mut self) -> &PartitionSet {
        let owed = self.seat.children.owed();
        let trouble = self.losses.trouble();
        let unsure = trouble.unsure.replace(PartitionSet::new());
        let mut changed = unsure.unwrap_or_else(|| self.asked.clone());
        changed.union_with(&owed.take_changed());
        if !changed.is_empty() {
            let absent = self.pushed.as_ref().map_or(&NOBODY, |pushed| &pushed.absent);
            let mut lost = self.asked.intersection(&changed);
            for here in [self.parts.claimed(), &self.locals.open, absent, owed.by_any()] {
                lost.subtract(here);
            }
            trouble.for_good.subtract(&changed);
            trouble.for_good.union_with(&lost);
        }
        debug_assert_eq!(
            self.losses.for_good,
            self.not_in_hand(),
            "of {:?} {changed} were looked at",
            self.tag
        );
        &self.losses.for_good
    }

    /// The same, by a look at everything.
    pub(crate) fn not_in_hand(&self) -> PartitionSet {
        let owed: Vec<PartitionSet> = self.seat.children.iter_open().map(Child::owes).collect();
        let here = [self.parts.claimed(), &self.locals.open, self.absent()];
        self.asked.difference(&PartitionSet::union_of(here.into_iter().chain(&owed)))
    }

    /// Takes a part in.
    pub(crate) fn claim(&mut self, part: Part<P>) -> Taken {
        self.losses.look_again(&part.contributors);
        self.losses.note_settled(&part.contributors);
        self.parts.take_in(part)
    }

    /// Own work begins on these.
    pub(crate) fn open_locals(&mut self, partitions: &PartitionSet) {
        self.losses.look_again(partitions);
        self.locals.open.union_with(partitions);
    }

    /// Own work on these is over.
    pub(crate) fn close_locals(&mut self, partitions: &PartitionSet) {
        self.losses.look_again(partitions);
        self.locals.open.subtract(partitions);
    }

    /// What is missing from an answer given now, each partition with the last reason noted for it; `otherwise`
    /// is the reason of those still open. At most `missing_max` losses are listed.
    pub(crate) fn missing(&self, me: NodeId, otherwise: &Reason, missing_max: usize) -> Vec<Missing> {
        let mut tally = Tally::of(self.asked.difference(self.parts.claimed()), missing_max);
        for loss in self.losses.noted.iter().rev() {
            tally.take(&loss.partitions, loss.node, &loss.reason);
        }
        tally.take(&self.locals.own, Some(me), otherwise);
        for seat in self.seat.children.iter().flat_map(|child| child.tree().seats()) {
            if tally.rest.is_empty() {
                return tally.missing;
            }
            tally.take(&seat.partitions, Some(seat.node), otherwise);
        }
        tally.take(&self.asked, None, otherwise);
        tally.missing
    }
}
