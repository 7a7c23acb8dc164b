//! Endpoints that lag, in a stream with a lag limit: packets pass over them, so that they hold up nobody.
//!
//! Every node looks after its own endpoints and children. It compares how far each has taken the packets that it was
//! given. One that is further behind the foremost than it may be is *passed over*: it is given no more packets, no
//! acknowledgement waits for it, and its endpoints are away with the reason [`Reason::Lagging`], so no wave waits for
//! them. It still has all packets that it was given before, and takes them in its own time. When little of them is
//! left, the node tells it which packets it missed, and gives it those that follow. It then takes part again as a
//! beginner, from a tag on that no node has seen.
//!
//! ```text
//!   furthest ahead ────────────────────────────▶│ taken
//!   another        ──────────────────────▶│
//!   a laggard      ─────▶│◀── lag limit ──▶│      passed over: no acknowledgement waits for it
//! ```
//!
//! - **The node next to the laggard acts.** A node may be behind by a share of the limit that grows with the levels
//!   below it. So an endpoint is passed over by its own node, or by its parent if it is the node's only one, before a
//!   node further up would pass over the whole subtree. A subtree is passed over only if all of it is slow.
//! - **Nobody is behind without others.** One endpoint alone, or endpoints that are all slow alike, stop the front-end
//!   as in a stream without a limit.
//! - **Nothing is missed silently.** Packets pass over a child only if it has said that it knows
//!   [`StreamMessage::Missed`]. A child that gets a new parent, or comes back after it was given up, is told of the
//!   packets that the parent no longer has.
//! - **Memory is bounded.** A laggard has at most the packets that it was given: about its share of the limit, and what
//!   was on its way when it was passed over, which the stream's window bounds.
//!
//! The node examines laggards whenever so many bytes have moved that one may have crossed its limit. It calls them back
//! only with its beat, so that one that hovers at the limit causes little traffic.

use super::StreamError;
use super::descent::{Content, Descending, Descent, Due, Passed, Reach, ToTake};
use super::message::StreamMessage;
use super::spec::EndpointEvent;
use super::state::StreamState;
use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::Standing;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use smallvec::SmallVec;

/// The smallest lag limit of a stream.
pub(crate) const LAG_BYTES_LEAST: u64 = 1 << 10;
/// Taken bytes are acknowledged after the window over this, at the latest. So an endpoint may withhold the acknowledgement
/// of fewer bytes for as long as it gets no more.
pub const ACKNOWLEDGE_SHARE: u64 = 16;
/// A share of the limit, over this, is what a node or an endpoint may have taken without an acknowledgement, and what
/// moves before a node looks for laggards.
const STEP_SHARE: u64 = 8;
/// The least such part in a deep tree, where shares are small: so many bytes, or a sixteenth of a small limit.
const STEP_BYTES_LEAST: u64 = 4 << 10;
/// A laggard is called back when it has taken all but its share of the limit, over this.
const RETURN_SHARE: u64 = 4;
/// It may always leave so many times what may be taken without an acknowledgement.
const RETURN_STEPS: u64 = 4;
/// An endpoint or node lags if it is behind for this long without a break. A healthy one may be that far behind for
/// some milliseconds: when its process waits for a processor, or while its acknowledgements are on their way.
const GRACE: Duration = Duration::from_millis(50);

/// A child or an endpoint of this node, by its index.
#[derive(Clone, Copy, Debug)]
enum Laggard {
    Child(usize),
    Own(usize),
}

impl<P: Payload> StreamState<P> {
    /// The bytes by which an endpoint may be behind the others of its node. A node may be behind by as much more for
    /// each level.
    fn lag_share(&self) -> Option<u64> {
        let levels = u64::from(self.terms.levels) + 1;
        self.terms.spec.lag_bytes_max.map(|bytes| (bytes / levels).max(1))
    }

    /// The bytes by which a child may be behind.
    fn lag_of_child(&self, share: u64, height: usize) -> u64 {
        let levels = (height as u64 + 2).min(u64::from(self.terms.levels) + 1);
        share.saturating_mul(levels)
    }

    /// Bytes of taken packets after which an endpoint acknowledges them, and a node of a stream with a lag limit.
    pub(crate) fn acknowledge_bytes(&self) -> u64 {
        let by_window = self.terms.window_bytes as u64 / ACKNOWLEDGE_SHARE;
        self.terms.spec.lag_bytes_max.map_or(by_window, |bytes| by_window.min(self.lag_step(bytes)))
    }

    fn lag_step(&self, lag_bytes_max: u64) -> u64 {
        let share = lag_bytes_max / (u64::from(self.terms.levels) + 1);
        (share / STEP_SHARE).max(STEP_BYTES_LEAST.min(lag_bytes_max / ACKNOWLEDGE_SHARE))
    }

    /// True if packets are so far behind the foremost child or endpoint that none is waited for that was not given
    /// them.
    pub(crate) fn is_beyond_lag(&self, due: Due) -> bool {
        let behind = self.down.reach.ahead.saturating_sub(due.ends_at);
        self.terms.spec.lag_bytes_max.is_some_and(|bytes| behind > bytes)
    }

    /// Looks for laggards if so much has moved that there may be one, or if one has been behind for long.
    pub(crate) fn look_whether_some_lag(&mut self, cx: &mut Context<P>, now: Instant) {
        let Some(bytes) = self.terms.spec.lag_bytes_max else { return };
        let is_due = self.down.reach.look_at.is_some_and(|at| at <= now);
        if is_due || self.down.reach.unseen_bytes > self.lag_step(bytes) {
            self.look_for_laggards(cx, now);
        }
    }

    /// Passes over laggards.
    fn look_for_laggards(&mut self, cx: &mut Context<P>, now: Instant) {
        let Some(share) = self.lag_share() else { return };
        self.down.reach.look_at = None;
        let sent_bytes = self.down.reach.sent_bytes;
        let children = self.seat.children.iter().filter(|child| child.standing() == Standing::There);
        let places = children.map(|child| &child.more.to_take).chain(self.own.iter().map(|own| &own.to_take));
        let places = places.filter(|to_take| !to_take.is_passed()).map(|to_take| to_take.place(sent_bytes));
        let ahead = places.max();
        self.down.reach.unseen_bytes = 0;
        let Some(ahead) = ahead else { return };
        self.down.reach.ahead = ahead;
        let mut laggards: SmallVec<[Laggard; 2]> = SmallVec::new();
        for at in 0..self.seat.children.len() {
            let child = &self.seat.children[at];
            if child.standing() != Standing::There || !child.more.hears_missed {
                continue;
            }
            let most = self.lag_of_child(share, child.height());
            if lags(&mut self.seat.children[at].more.to_take, &mut self.down.reach, now, most) {
                laggards.push(Laggard::Child(at));
            }
        }
        for (at, own) in self.own.iter_mut().enumerate() {
            if lags(&mut own.to_take, &mut self.down.reach, now, share) {
                laggards.push(Laggard::Own(at));
            }
        }
        laggards.iter().for_each(|&laggard| self.pass_over(cx, laggard));
        // Packets that only a child kept back that has not said yet that it takes part are free, too.
        self.forget_taken(cx);
        if !laggards.is_empty() {
            self.look_at_slots();
        }
    }

    /// Gives a laggard no more packets, and waits for it no longer.
    fn pass_over(&mut self, cx: &mut Context<P>, laggard: Laggard) {
        let (partitions, node) = match laggard {
            Laggard::Child(at) => {
                let child = &mut self.seat.children[at];
                child.more.to_take.pass_over();
                (child.answers_for.clone(), child.node)
            }
            Laggard::Own(at) => {
                self.own[at].to_take.pass_over();
                (PartitionSet::alone(self.own[at].endpoint), cx.me)
            }
        };
        self.put_away(Missing { partitions, node: Some(node), reason: Reason::Lagging });
    }

    /// Calls back laggards that have taken what they were given.
    pub(crate) fn call_back_laggards(&mut self, cx: &mut Context<P>) {
        let Some(share) = self.lag_share() else { return };
        let least = RETURN_STEPS * self.acknowledge_bytes();
        let sent_bytes = self.down.reach.sent_bytes;
        for at in 0..self.own.len() {
            let own = &mut self.own[at];
            if let Some(passed) = own.to_take.call_back((share / RETURN_SHARE).max(least), sent_bytes) {
                self.call_own_back(cx, at, passed);
            }
        }
        let mut called: Vec<(usize, Passed)> = Vec::new();
        for at in 0..self.seat.children.len() {
            let most = self.lag_of_child(share, self.seat.children[at].height()) / RETURN_SHARE;
            let to_take = &mut self.seat.children[at].more.to_take;
            called.extend(to_take.call_back(most.max(least), sent_bytes).map(|passed| (at, passed)));
        }
        for (at, passed) in called {
            if passed.has_missed {
                self.tell_missed(cx, at, passed.after.saturating_add(1), self.down.reach.sent_upto);
            }
            self.seat.children[at].more.place.first_tag = self.next_tag();
            // The child answers with news of all endpoints below it, and they take part again.
            self.send_open(cx, at);
        }
    }

    fn call_own_back(&mut self, cx: &mut Context<P>, at: usize, passed: Passed) {
        let first_tag = self.next_tag();
        let own = &mut self.own[at];
        let (first, last) =
            (passed.after.saturating_add(1), self.down.reach.sent_upto.max(own.to_take.gone_upto()));
        own.next_tag = own.next_tag.max(first_tag);
        let endpoint = own.endpoint;
        if passed.has_missed {
            own.to_take.miss(last);
            cx.tell_endpoint(self.terms.id, endpoint, EndpointEvent::Missed { first, last });
        }
        self.begin_with(&PartitionSet::alone(endpoint), first_tag);
        self.look_at_slots();
    }

    /// Tells a child which packets it will not get.
    pub(crate) fn tell_missed(&mut self, cx: &mut Context<P>, at: usize, first: u64, last: u64) {
        let child = &mut self.seat.children[at];
        if child.more.hears_missed && first <= last {
            child.more.to_take.miss(last);
            let stream = self.terms.id;
            cx.send_stream(child.node, StreamMessage::Missed { stream, first, last });
        }
    }

    /// Takes the parent's word that packets passed over this node.
    pub(crate) fn take_missed(
        &mut self,
        cx: &mut Context<P>,
        from: NodeId,
        first: u64,
        last: u64,
    ) -> Result<(), StreamError> {
        if !self.takes_from(from) || last <= self.down.received {
            return Ok(());
        }
        if first > last || last == u64::MAX {
            cx.note_bad_message(from, "missed.last: before the first, or above the largest sequence number");
            return Ok(());
        }
        let first = first.max(self.down.received + 1);
        self.down.has_missed = true;
        self.down.half.clear();
        self.down.half_bytes = 0;
        self.down.received = last;
        if self.terms.spec.down_filter.is_empty() {
            self.pass_missed(cx, first, last);
        } else {
            // Packets before it may be in the filter.
            let (left, made) = (SmallVec::new(), SmallVec::new());
            let descent =
                Descent { sequence: last, tag: 0, to: None, bytes: 0, left, made, missed_from: Some(first) };
            self.down.waiting.push_back(descent);
        }
        Ok(())
    }

    /// Lets the endpoints here and below begin with this tag if packets passed over this node: they never answer the
    /// waves before it. The parent knows that, and so must each later parent.
    pub(crate) fn begin_after_missed(&mut self, cx: &mut Context<P>, first_tag: u64) {
        if !core::mem::take(&mut self.down.has_missed) {
            return;
        }
        let present = self.present();
        self.begin_with(&present, first_tag);
        for at in 0..self.seat.children.len() {
            if self.seat.children[at].is_open() {
                self.seat.children[at].more.place.first_tag = first_tag;
                self.send_open(cx, at);
            }
        }
    }

    /// Passes on that packets passed over this node.
    pub(crate) fn pass_missed(&mut self, cx: &mut Context<P>, first: u64, last: u64) {
        let due = self.due(first, last, 0);
        self.pass_on(cx, Descending { due, content: Content::Missed, bytes: 0 });
    }
}

/// True if it has been too far behind for long. Otherwise notes when to look again.
fn lags(to_take: &mut ToTake, reach: &mut Reach, now: Instant, most: u64) -> bool {
    let Some(since) = to_take.behind_since(now, reach.ahead, most) else { return false };
    let lags_at = since + GRACE;
    if lags_at > now {
        reach.look_at = Some(reach.look_at.map_or(lags_at, |at| at.min(lags_at)));
    }
    lags_at <= now
}
