//! One node's part in a wave: *local running* → *waiting for children* → *ready* (DAC §4.3, figure 11).
//!
//! No thread waits: locals, folds and children's partials arrive as inputs, in any order. The wave is
//! answered when nothing is open, or when its time is over, with the parts that it has. Missing partitions
//! are never counted along the way. They are the asked partitions minus the contributors, explained by the
//! losses noted so far. Contributors and missing partitions therefore always partition the asked set.
//!
//! A `Wave` is open. When it has answered its parent it becomes an
//! [`Answered`](crate::wave::answered::Answered), which keeps only the data that may be asked for again.

use crate::error::{Missing, Reason};
use crate::id::{JobId, NodeId, Tag};
use crate::load::index::Weight;
use crate::load::pauses::LOOK_EVERY;
use crate::message::Payload;
use crate::partitions::PartitionSet;
use crate::push::pushed::Pushed;
use crate::seat::{self, Parent, Seat, Standing};
use crate::time::{Duration, Instant};
use crate::wave::ask::Ask;
use crate::wave::contributors::{Part, Parts, Taken};
use crate::wave::losses::{Losses, Tally};
use crate::wave::tale::Tale;
use crate::wave::wait::stop::{Progress, Stop};
use alloc::boxed::Box;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// The phase of a wave.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Locals, folds or children are open.
    Open,
    /// The wave answers its parent, with these partitions missing. It is kept until the deadline in case the
    /// parent is lost.
    Answered(Vec<Missing>),
    /// The caller's wave has ended, with these partitions missing.
    Ended(Vec<Missing>),
}

/// A wave's data about a child.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) answer_at: Instant,
    /// When patience with the child ends; `None` once it has been repaired, or if no time is left for a
    /// repair.
    pub(crate) repair_at: Option<Instant>,
    /// When its parent looks whether it takes too long, if it is a leaf that may be hedged.
    pub(crate) hedge_at: Option<Instant>,
    /// When it sends its first sign of life, if it is known how long such answers take.
    pub(crate) sign_after: Option<Duration>,
    /// True if the child was asked again before it had answered. Its answer to the first ask may be on its way.
    pub(crate) may_cross: bool,
    /// The time that it took, once it has given all.
    pub(crate) took: Option<Duration>,
}

impl Asked {
    /// The child must answer by then.
    pub(crate) fn until(answer_at: Instant) -> Self {
        Self { answer_at, repair_at: None, hedge_at: None, sign_after: None, may_cross: false, took: None }
    }

    /// When the child must be looked at again.
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
    /// How long the child may take until its next sign of life, after it was heard now.
    pub(crate) fn sign_pause(&self, now: Instant) -> Option<Duration> {
        self.more.sign_after.map(|after| after + self.asked_at.until(now))
    }

    /// The partitions that may still come from the child.
    pub(crate) fn promises(&self) -> PartitionSet {
        if self.standing() == Standing::Hopeless { PartitionSet::new() } else { self.owes() }
    }
}

/// A wave's work on this node, and the resources that it is charged for.
#[derive(Debug, Default)]
pub(crate) struct Locals {
    /// Partitions to run here.
    pub(crate) own: PartitionSet,
    /// The partitions of `own` whose local has neither given a part nor failed.
    pub(crate) open: PartitionSet,
    /// When this node looks whether the partitions of `own` take too long.
    pub(crate) hedge_at: Option<Instant>,
    /// Jobs to end when the wave ends.
    pub(crate) handed_out: SmallVec<[JobId; 2]>,
    /// Increases whenever the wave abandons its jobs, so that their late results are recognised.
    pub(crate) epoch: u64,
    /// Inline jobs that were handed out. They come back before any other input.
    pub(crate) inline: u32,
    /// Turns of folds in the node's queue. Each takes parts at rest when it comes.
    pub(crate) folds_queued: u32,
    /// Predicted work of this wave in the load index.
    pub(crate) weight: Option<Weight>,
    /// Bytes of this wave's parts that are charged to the node's budget.
    pub(crate) charged_bytes: usize,
}

/// A wave's times.
#[derive(Debug)]
pub(crate) struct Clock {
    /// When this node must have answered its parent.
    pub(crate) answer_at: Instant,
    /// When the parent must get a sign of life, if the wave is still open then.
    pub(crate) sign_at: Option<Instant>,
    /// The pause before it; zero if it is not known how long such answers take. It doubles with each sign.
    pub(crate) sign_pause: Duration,
    /// The state of the waiting rule.
    pub(crate) stop: Stop,
    pub(crate) armed: Option<Instant>,
}

impl Clock {
    /// Of a wave that must answer then, and may abandon so many partitions.
    pub(crate) fn until(answer_at: Instant, spare: u32) -> Self {
        Self { answer_at, sign_at: None, sign_pause: Duration::ZERO, stop: Stop::new(spare), armed: None }
    }
}

/// A node's part in a wave.
///
/// Eleven fields, because each is a part with methods of its own: the terms, the participants, the parts that
/// are here, and the losses.
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
    /// Set if workers push the locals' results.
    pub(crate) pushed: Option<Box<Pushed<P>>>,
    pub(crate) clock: Clock,
    pub(crate) tale: Tale,
    pub(crate) phase: Phase,
}

// Each call creates one at each node. Allocators take longer for objects above one kilobyte.
const _: () = assert!(size_of::<Wave<bytes::Bytes>>() <= 1024);

/// The start of a wave: its parent, its partitions, and how many of them this node may abandon.
pub(crate) struct Opening {
    pub(crate) tag: Tag,
    pub(crate) parent: Parent,
    pub(crate) asked: PartitionSet,
    pub(crate) answer_at: Instant,
    /// How many of its partitions its waiting rule may abandon.
    pub(crate) spare: u32,
    pub(crate) jobs_epoch: u64,
}

/// If no workers push, no worker is absent.
static NOBODY: PartitionSet = PartitionSet::new();

impl<P: Payload> Wave<P> {
    /// A wave on which no work has been done yet.
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
            clock: Clock::until(answer_at, spare),
            tale: Tale::starting(now),
            phase: Phase::Open,
            ask,
        }
    }

    /// True until the wave has its answer.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Partitions whose worker is attached nowhere and is waited for.
    pub(crate) fn absent(&self) -> &PartitionSet {
        self.pushed.as_ref().map_or(&NOBODY, |pushed| &pushed.absent)
    }

    /// True if parts are being folded, or will be without further input.
    pub(crate) fn has_folds(&self) -> bool {
        self.parts.open_folds() > 0 || self.locals.folds_queued > 0 && self.parts.resting().len() >= 2
    }

    /// True if the wave can be answered before its time is over.
    pub(crate) fn is_ready(&self) -> bool {
        let is_folded = self.parts.is_folded() || self.ask.kind.is_none() && self.ask.push.is_none();
        self.is_own_over() && is_folded && self.seat.children.open() == 0
    }

    /// True if the wave waits only for children from which nothing more is expected.
    pub(crate) fn waits_in_vain(&self) -> bool {
        self.is_own_over() && self.parts.is_folded() && self.seat.children.are_hopeless()
    }

    /// The part of `partitions` that no child is working on.
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

    /// True if the wave waits for nothing but children.
    pub(crate) fn is_own_over(&self) -> bool {
        self.locals.open.is_empty() && self.absent().is_empty()
    }

    /// Remembers the children that have answered, which must be notified of the end of an announced call.
    pub(crate) fn remember_done(&mut self) {
        if self.ask.push.is_none() {
            return;
        }
        let done = self.seat.children.iter().filter(|child| child.standing() == Standing::Done);
        let done: Vec<(NodeId, u32)> = done.map(Child::name).collect();
        self.seat.deposed.extend(done);
    }

    /// When the wave must be woken next.
    pub(crate) fn wake_at(&mut self, now: Instant) -> Instant {
        // If the rule's stop time has passed, the wave waits for folds, whose end is an input.
        let stop_at = self.clock.stop.at().filter(|&at| at > now);
        let absent_until = self.pushed.as_ref().and_then(|pushed| pushed.absent_until);
        // If this node is not served meanwhile, its children are not to blame.
        let is_watched = self.ask.loads_wanted && self.seat.children.open() > 0;
        let watched_at = is_watched.then(|| now + LOOK_EVERY);
        let others = [self.clock.sign_at, self.locals.hedge_at, absent_until, stop_at, watched_at];
        let children = self.seat.children.next_due();
        others.into_iter().chain([children]).flatten().fold(self.clock.answer_at, Instant::min)
    }

    /// The wave's progress, for its waiting rule. If a wave's parent was lost and the new parent asked for
    /// less, the wave may hold partitions that are no longer wanted. These do not count as arrived.
    pub(crate) fn progress(&mut self) -> Progress {
        Progress {
            asked: self.asked.len(),
            came: self.asked.common_len(self.parts.claimed()),
            lost: if self.losses.noted.is_empty() { 0 } else { self.lost_for_good().len() },
            spare: self.clock.stop.spare as usize,
        }
    }

    /// The asked partitions that have not contributed and that no child, local or worker still owes. Only
    /// partitions that have changed since the last check are looked at, because a root over ten thousand
    /// children checks after each loss.
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

    /// The same, by a scan of everything.
    pub(crate) fn not_in_hand(&self) -> PartitionSet {
        let owed: Vec<PartitionSet> = self.seat.children.iter_open().map(Child::owes).collect();
        let here = [self.parts.claimed(), &self.locals.open, self.absent()];
        self.asked.difference(&PartitionSet::union_of(here.into_iter().chain(&owed)))
    }

    /// Adds a part.
    pub(crate) fn claim(&mut self, part: Part<P>) -> Taken {
        self.losses.look_again(&part.contributors);
        self.losses.note_changed(&part.contributors);
        self.parts.take_in(part)
    }

    /// Local work on these partitions begins.
    pub(crate) fn open_locals(&mut self, partitions: &PartitionSet) {
        self.losses.look_again(partitions);
        self.locals.open.union_with(partitions);
    }

    /// Local work on these partitions has ended.
    pub(crate) fn close_locals(&mut self, partitions: &PartitionSet) {
        self.losses.look_again(partitions);
        self.locals.open.subtract(partitions);
    }

    /// The partitions missing from an answer given now, each with the last reason noted for it. Partitions
    /// that are still open get the reason `otherwise`. At most `missing_max` losses are listed.
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
