//! The way up, first half: pieces come together in slots.
//!
//! A piece from a child or an endpoint goes into the slot of its tag. The slot is ready when everyone expected is in
//! it or excused; with time-outs, when its time is up; where nobody is waited for, at once. Whatever comes for a tag
//! that was sent already is dropped if it was in it, and sent after it if it was not.

use super::error::StreamError;
use super::message::StreamUp;
use super::share::{GATHERED, Piece, Share, Slot, Standing};
use super::spec::{Source, Synchronisation};
use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::Node;
use crate::partitions::PartitionSet;
use crate::time::{Duration, Instant};
use crate::wave::contributors::{Part, Parts, Taken};
use smallvec::SmallVec;

/// What names a wave within a share, and what its users call it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) lane: u32,
    pub(crate) key: u64,
    pub(crate) tag: u64,
}

impl<P: Payload> Node<P> {
    /// A child gives a packet, or the end of a part.
    pub(crate) fn take_up(
        &mut self,
        now: Instant,
        share: &mut Share<P>,
        from: NodeId,
        up: StreamUp<P>,
    ) -> Result<(), StreamError> {
        let Some(at) = share.branch_at(from) else {
            self.counters.stream_pieces_late += 1;
            self.turn_away(share, from);
            return Ok(());
        };
        let flood_bytes = self.flood_bytes(share);
        let branch = &mut share.branches[at];
        branch.heard_at = now;
        if branch.standing == Standing::Away {
            self.call_back(share, at);
            return Ok(());
        }
        let bytes = up.payload.as_ref().map_or(0, Payload::len);
        branch.held_bytes += bytes;
        if branch.held_bytes > flood_bytes {
            self.note_bad_message(from, "up: more bytes than its window (stream_window_bytes)");
            self.lose_branch(now, share, at, &Reason::Full("stream_window_bytes".into()));
            return Ok(());
        }
        branch.half.extend(up.payload.clone());
        if up.more {
            return Ok(());
        }
        let packets: SmallVec<[P; 1]> = branch.half.drain(..).collect();
        let bytes: usize = packets.iter().map(Payload::len).sum();
        branch.held_bytes -= bytes;
        branch.holds_from = up.holds_from;
        let source = Source::Child(branch.source);
        let claims = up.missing.iter().map(|loss| &loss.partitions).chain([&up.contributors]);
        if !claims.into_iter().all(|set| set.is_subset(&share.group)) || !is_lane_of(share, &up) {
            self.note_bad_message(from, "up.contributors, up.missing, up.lane: endpoints that are not there");
            return Ok(());
        }
        let address = Address { lane: up.lane, key: up.key(), tag: up.tag };
        let part = (!up.contributors.is_empty())
            .then(|| Part { payload: Piece { source, packets }, contributors: up.contributors });
        self.take_piece(now, share, address, part, up.missing, up.urgent);
        Ok(())
    }

    /// More than this from one child can't be within its window: what it may send, what it may have sent just before
    /// it was told otherwise, and one packet of any size.
    fn flood_bytes(&self, share: &Share<P>) -> usize {
        share.window_bytes.saturating_mul(2).saturating_add(self.config.limits.payload_bytes_max)
    }

    /// Puts a piece where it belongs.
    pub(crate) fn take_piece(
        &mut self,
        now: Instant,
        share: &mut Share<P>,
        address: Address,
        part: Option<Part<Piece<P>>>,
        missing: alloc::vec::Vec<Missing>,
        urgent: bool,
    ) {
        if address.lane == GATHERED {
            share.tag_max = share.tag_max.max(address.tag);
        }
        let (gathers, is_front) = (share.gathers(), share.front.is_some());
        let lane = share.lanes.entry(address.lane).or_default();
        let mut is_late = false;
        if lane.settled.contains(address.key) {
            self.counters.stream_pieces_late += 1;
            return;
        }
        for sent in lane.sent_under(address.key) {
            let is_in = part.as_ref().is_none_or(|part| part.contributors.intersects(&sent.contributors));
            if is_in || is_front {
                self.counters.stream_pieces_late += 1;
                return;
            }
            is_late = true;
        }
        let at = match lane.find(address.key) {
            Ok(at) => at,
            Err(at) => {
                lane.slots.insert(at, new_slot(now, address, is_late));
                at
            }
        };
        let slot = &mut lane.slots[at];
        slot.urgent |= urgent;
        if let Some(part) = part {
            let (bytes, contributors, source) =
                (part.payload.len(), part.contributors.clone(), part.payload.source);
            let covered = resting_within(slot, &contributors);
            match slot.parts.take_in(part) {
                taken @ (Taken::Added | Taken::Replaced) => {
                    share.held_bytes += bytes;
                    hold(&mut share.branches, source, bytes);
                    slot.excused = slot.excused.difference(&contributors);
                    if taken == Taken::Replaced {
                        self.counters.stream_pieces_late += 1;
                        covered.iter().for_each(|&(source, bytes)| {
                            share.held_bytes -= bytes;
                            release(&mut share.branches, source, bytes);
                        });
                    }
                }
                Taken::Overlaps => {
                    self.counters.stream_pieces_late += 1;
                    return;
                }
            }
        }
        for loss in missing {
            let partitions = loss.partitions.difference(slot.parts.claimed()).difference(&slot.excused);
            if !partitions.is_empty() {
                slot.excused.union_with(&partitions);
                slot.missing.push(Missing { partitions, ..loss });
            }
        }
        let (is_ready, is_late) = (slot.is_ready, slot.is_late);
        let has_parts = !slot.parts.claimed().is_empty();
        if !is_ready && (is_late || !gathers || share.is_complete(&share.lanes[&address.lane].slots[at])) {
            if is_late && !has_parts {
                // An excuse for a wave that went on without it is no news.
                share.lanes.get_mut(&address.lane).expect("invariant: it was looked up").slots.remove(at);
                return;
            }
            make_ready(share, address.lane, at);
        }
    }

    /// Someone is gone or back: some slots may be complete now.
    pub(crate) fn look_at_slots(&mut self, share: &mut Share<P>) {
        if !share.gathers() {
            return;
        }
        let Some(lane) = share.lanes.get(&GATHERED) else { return };
        let complete: SmallVec<[usize; 8]> = (0..lane.slots.len())
            .filter(|&at| !lane.slots[at].is_ready && share.is_complete(&lane.slots[at]))
            .collect();
        complete.into_iter().for_each(|at| make_ready(share, GATHERED, at));
    }

    /// Slots whose time is up are sent as they are.
    pub(crate) fn time_out_slots(&mut self, now: Instant, share: &mut Share<P>) {
        let Some(wait) = slot_patience(share) else { return };
        let Some(lane) = share.lanes.get(&GATHERED) else { return };
        let due: SmallVec<[usize; 8]> = (0..lane.slots.len())
            .filter(|&at| !lane.slots[at].is_ready && lane.slots[at].opened_at + wait <= now)
            .collect();
        due.into_iter().for_each(|at| make_ready(share, GATHERED, at));
    }
}

fn new_slot<P: Payload>(now: Instant, address: Address, is_late: bool) -> Slot<P> {
    Slot {
        key: address.key,
        tag: address.tag,
        opened_at: now,
        parts: Parts::new(),
        missing: SmallVec::new(),
        excused: PartitionSet::new(),
        urgent: false,
        is_ready: false,
        is_late,
    }
}

/// How long this node waits for the rest of a wave; `None` for ever.
pub(crate) fn slot_patience<P: Payload>(share: &Share<P>) -> Option<Duration> {
    match share.spec.synchronisation {
        Synchronisation::TimeOut(wait) => {
            let (levels, height) = (f64::from(share.levels), f64::from(share.height.min(share.levels)));
            Some(wait.mul_f64((height + 1.0) / (levels + 1.0)))
        }
        Synchronisation::WaitForAll | Synchronisation::DoNotWait => None,
    }
}

/// When the next slot's time is up.
pub(crate) fn next_slot_due<P: Payload>(share: &Share<P>) -> Option<Instant> {
    let wait = slot_patience(share)?;
    let waiting = share.lanes.get(&GATHERED)?.slots.iter().filter(|slot| !slot.is_ready);
    waiting.map(|slot| slot.opened_at + wait).min()
}

fn make_ready<P: Payload>(share: &mut Share<P>, lane: u32, at: usize) {
    let slot = &mut share.lanes.get_mut(&lane).expect("invariant: the lane of a slot").slots[at];
    slot.is_ready = true;
    share.ready.push_back((lane, slot.key));
}

/// Parts at rest that one of these contributors would take the place of.
fn resting_within<P: Payload>(slot: &Slot<P>, contributors: &PartitionSet) -> SmallVec<[(Source, usize); 2]> {
    if !slot.parts.claimed().intersects(contributors) {
        return SmallVec::new();
    }
    let overlapping = slot.parts.resting().iter().filter(|part| part.contributors.intersects(contributors));
    overlapping.map(|part| (part.payload.source, part.payload.len())).collect()
}

/// Takes a slot out of its lane; what it holds is no longer waiting.
pub(crate) fn take_slot<P: Payload>(share: &mut Share<P>, lane: u32, key: u64) -> Option<Slot<P>> {
    let waves = share.lanes.get_mut(&lane)?;
    let at = waves.find(key).ok()?;
    let slot = waves.slots.remove(at)?;
    for part in slot.parts.resting() {
        let bytes = part.payload.len();
        share.held_bytes -= bytes;
        release(&mut share.branches, part.payload.source, bytes);
    }
    Some(slot)
}

/// Bytes of a child's no longer wait here.
fn release<P>(branches: &mut [super::share::Branch<P>], source: Source, bytes: usize) {
    if let Source::Child(number) = source
        && let Some(branch) = branches.iter_mut().find(|branch| branch.source == number)
    {
        branch.held_bytes = branch.held_bytes.saturating_sub(bytes);
    }
}

/// Notes that bytes of a child's wait here.
fn hold<P>(branches: &mut [super::share::Branch<P>], source: Source, bytes: usize) {
    if let Source::Child(number) = source
        && let Some(branch) = branches.iter_mut().find(|branch| branch.source == number)
    {
        branch.held_bytes += bytes;
    }
}

/// The lane fits the contributors: lane 0 is everyone's, another its endpoint's alone.
fn is_lane_of<P: Payload>(share: &Share<P>, up: &StreamUp<P>) -> bool {
    if share.gathers() {
        return up.lane == GATHERED;
    }
    up.lane != GATHERED && up.contributors.runs() == [(up.lane - 1, up.lane)]
}
