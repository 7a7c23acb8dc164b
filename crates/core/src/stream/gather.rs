//! The way up, first half: pieces come together in slots.
//!
//! A piece from a child or an endpoint goes into the slot of its tag. The slot is ready when every expected
//! endpoint is in it or excused. With time-outs it is also ready when its time is up; with `DoNotWait` it is
//! ready at once. If a piece arrives after its wave was sent, it is dropped if the wave already had it, and
//! sent as a late part if not.

use super::error::StreamError;
use super::lane::{GATHERED, Lane, PACKET_BYTES, Piece, Slot, piece_bytes_max};
use super::late::{Past, past_of};
use super::message::StreamUp;
use super::spec::{Source, Synchronisation};
use super::state::StreamState;
use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::Standing;
use crate::time::{Duration, Instant};
use crate::wave::contributors::{Part, Taken};
use alloc::vec::Vec;
use smallvec::SmallVec;

/// Waves that have gone are kept in `opened` until they exceed twice the open waves by this number.
const OPENED_SLACK: usize = 64;

/// The lane and key that identify a wave at this node, and the tag that its users see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) lane: u32,
    pub(crate) key: u64,
    pub(crate) tag: u64,
}

impl<P: Payload> StreamState<P> {
    /// Takes a packet, or the end of a part, from a child.
    pub(crate) fn take_up(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        from: NodeId,
        mut up: StreamUp<P>,
    ) -> Result<(), StreamError> {
        let Some(at) = self.child_at(from) else {
            cx.counters.stream_pieces_late += 1;
            self.turn_away(cx, from);
            return Ok(());
        };
        let child = &mut self.seat.children[at];
        child.heard_at = now;
        if !child.is_open() {
            self.hear_again(cx, now, at);
            return Ok(());
        }
        if child.standing() == Standing::Asked {
            cx.counters.stream_pieces_late += 1;
            return Ok(());
        }
        if let Some(packets) = self.take_frame(cx, now, at, &mut up) {
            self.take_whole(cx, now, at, up, packets);
        }
        Ok(())
    }

    /// Takes one frame of a part. Returns all packets of the part with its last frame.
    fn take_frame(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        at: usize,
        up: &mut StreamUp<P>,
    ) -> Option<SmallVec<[P; 1]>> {
        let flood_bytes = self.flood_bytes(cx);
        let child = &mut self.seat.children[at];
        child.more.half.bytes += PACKET_BYTES + up.payload.as_ref().map_or(0, Payload::len);
        let held_bytes = self.window.held_of.get(&child.more.source).copied().unwrap_or(0);
        if child.more.half.bytes.saturating_add(held_bytes) > flood_bytes {
            let from = child.node;
            cx.note_bad_message(from, "up: more bytes than its window (stream_window_bytes)");
            self.give_up(cx, now, at, &Reason::Full("stream_window_bytes".into()), false);
            return None;
        }
        child.more.half.packets.extend(up.payload.take());
        if up.more {
            return None;
        }
        child.more.half.bytes = 0;
        child.more.holds_from = up.holds_from;
        Some(child.more.half.packets.drain(..).collect())
    }

    /// Takes a complete part.
    fn take_whole(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        at: usize,
        up: StreamUp<P>,
        packets: SmallVec<[P; 1]>,
    ) {
        let (from, source) = (self.seat.children[at].node, Source::Child(self.seat.children[at].more.source));
        // One loss is always accepted, also if `missing_max` is 0.
        if !is_lane_of(self, &up) || up.missing.len() > cx.config.limits.missing_max.max(1) {
            let problem = "up.lane, up.missing: not of this stream, or beyond missing_max";
            return cx.note_bad_message(from, problem);
        }
        let address = Address { lane: up.lane, key: up.key(), tag: up.tag };
        let StreamUp { mut contributors, mut missing, urgent, .. } = up;
        if contributors.is_empty() && missing.is_empty() {
            self.tell_ahead(cx, Some(source), address.key);
            return self.take_piece(cx, now, address, None, missing, urgent);
        }
        if self.has_moved(address.lane) {
            // The settlement would not pass through this node.
            cx.counters.stream_pieces_late += 1;
            return;
        }
        let child = &self.seat.children[at];
        let is_its = child.accounted_for(&contributors);
        if !is_its {
            // The part can't be taken apart. The child's own endpoints in it are marked as missing, so no
            // wave waits for them.
            let partitions = contributors.clone();
            missing.push(Missing { partitions, node: Some(from), reason: Reason::Overlap });
        }
        clip(&mut missing, &child.answers_for);
        if !is_its {
            cx.note_bad_message(from, "up.contributors: endpoints that are not below");
        }
        if is_its && !contributors.is_empty() && child.more.unfiltered.is_some() {
            if contributors.len() != packets.len() {
                cx.note_bad_message(from, "up.payload: not one for each endpoint of a node without a filter");
                let problem = "not one packet for each endpoint".into();
                missing.push(Missing {
                    partitions: core::mem::take(&mut contributors),
                    node: Some(from),
                    reason: Reason::FilterFailed(problem),
                });
            }
            for (endpoint, packet) in contributors.iter().zip(packets) {
                let piece =
                    Piece { source, endpoint: Some(endpoint), packets: SmallVec::from_iter([packet]) };
                let part = Part { payload: piece, contributors: PartitionSet::alone(endpoint) };
                self.take_piece(cx, now, address, Some(part), core::mem::take(&mut missing), urgent);
            }
            if !missing.is_empty() {
                self.take_piece(cx, now, address, None, missing, urgent);
            }
            return;
        }
        let part = (is_its && !contributors.is_empty())
            .then(|| Part { payload: Piece { source, endpoint: None, packets }, contributors });
        if part.is_some() || !missing.is_empty() {
            self.take_piece(cx, now, address, part, missing, urgent);
        }
    }

    /// Bytes that one child can have pending here at most while it respects its window.
    ///
    /// These are its window, the bytes that it may have sent just before the window was changed, and one
    /// packet of any size.
    fn flood_bytes(&self, cx: &Context<P>) -> usize {
        self.terms.window_bytes.saturating_mul(2).saturating_add(piece_bytes_max(&cx.config.limits))
    }

    /// Puts a piece into the slot of its wave.
    pub(crate) fn take_piece(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        address: Address,
        part: Option<Part<Piece<P>>>,
        missing: Vec<Missing>,
        urgent: bool,
    ) {
        self.row.tag_max = self.row.tag_max.max(address.tag);
        let (gathers, is_front) = (self.gathers(), self.front.is_some());
        let source = part.as_ref().map(|part| part.payload.source);
        let past = past_of(self, address, part.as_ref().map(|part| &part.contributors));
        if part.is_none() && missing.is_empty() {
            // An endpoint below is late with this wave, and asks for the tag with which to continue.
            self.ask_where(cx, address.key);
            return;
        }
        if past != Past::New && gathers {
            self.tell_ahead(cx, source, address.key);
        }
        if matches!(past, Past::Had | Past::Settled) || (past == Past::Lacking && is_front) {
            cx.counters.stream_pieces_late += 1;
            self.drop_piece(cx, address, part, past);
            return;
        }
        let is_late = past == Past::Lacking;
        let lane = self.row.lanes.entry(address.lane).or_default();
        let at = match lane.find(address.key) {
            Ok(at) => at,
            Err(at) => {
                lane.slots.insert(at, Slot::new(now, (address.key, address.tag), is_late));
                if gathers {
                    self.row.opened.push_back((now, address.key));
                }
                at
            }
        };
        lane.slots[at].urgent |= urgent;
        if let Some(part) = part {
            self.put_in_slot(cx, address.lane, at, part);
        }
        let slot = &mut self.row.lanes.get_mut(&address.lane).expect("invariant: it was looked up").slots[at];
        missing.into_iter().for_each(|loss| excuse(slot, loss));
        if !slot.is_ready && (!gathers || self.is_slot_complete(address.lane, at)) {
            make_ready(self, address.lane, at);
        }
        if gathers {
            trim_opened(self);
            self.bound_slots(cx);
        }
    }

    /// Adds a part to its wave.
    ///
    /// If the part overlaps others and can't be taken apart, it is dropped. Endpoints that were only in this
    /// part are excused.
    fn put_in_slot(&mut self, cx: &mut Context<P>, lane: u32, at: usize, part: Part<Piece<P>>) {
        let slot = &mut self.row.lanes.get_mut(&lane).expect("invariant: it was looked up").slots[at];
        let (bytes, source) = (part.payload.len(), part.payload.source);
        self.traffic.take_in(&part.payload.packets);
        let mut covered: SmallVec<[(Source, usize); 2]> = SmallVec::new();
        let taken = slot.parts.take_in_for(part, |old| covered.push((old.payload.source, old.payload.len())));
        if !matches!(taken, Ok(Taken::Added)) {
            cx.counters.stream_pieces_late += 1;
        }
        if let Err(part) = taken {
            let partitions = part.contributors.difference(slot.parts.claimed());
            excuse(slot, Missing { partitions, node: None, reason: Reason::Overlap });
            return;
        }
        if !slot.excused.is_empty() {
            slot.excused.subtract(slot.parts.claimed());
        }
        self.hold(source, bytes);
        covered.iter().for_each(|&(source, bytes)| self.release(source, bytes));
    }

    /// Sends the oldest wave as it is if more waves come together than the limit allows.
    fn bound_slots(&mut self, cx: &mut Context<P>) {
        let waves_max = cx.config.limits.stream_waves_open_max;
        let open = self.row.lanes.get(&GATHERED).map_or(0, |lane| lane.slots.len());
        if open <= waves_max {
            return;
        }
        if let Some((_, at)) = first_opened(self) {
            make_ready(self, GATHERED, at);
        }
    }

    /// Checks all slots after an endpoint has left or come back: some may be complete now.
    pub(crate) fn look_at_slots(&mut self) {
        if !self.gathers() {
            return;
        }
        let slots = self.row.lanes.get(&GATHERED).map_or(0, |lane| lane.slots.len());
        for at in 0..slots {
            if !self.row.lanes[&GATHERED].slots[at].is_ready && self.is_slot_complete(GATHERED, at) {
                make_ready(self, GATHERED, at);
            }
        }
    }

    /// True if no more pieces will come to this wave.
    ///
    /// The search stops at the first endpoint that is still waited for, because a wave of n endpoints is
    /// checked after each of n packets.
    fn is_slot_complete(&mut self, lane: u32, at: usize) -> bool {
        let slot = &self.row.lanes[&lane].slots[at];
        if self.roll.lacks_somebody(slot) {
            return false;
        }
        let awaited = self.awaited_upto(slot, slot.searched_from);
        let is_complete = awaited.is_none() && self.is_complete(slot);
        let slot = &mut self.row.lanes.get_mut(&lane).expect("invariant: it was looked up").slots[at];
        slot.searched_from = awaited.unwrap_or(u32::MAX);
        is_complete
    }

    /// Makes the slots ready whose time is up.
    pub(crate) fn time_out_slots(&mut self, now: Instant) {
        let Some(wait) = slot_patience(self) else { return };
        while let Some((opened_at, at)) = first_opened(self)
            && opened_at + wait <= now
        {
            make_ready(self, GATHERED, at);
        }
    }
}

/// Restricts losses to these endpoints.
fn clip(missing: &mut Vec<Missing>, endpoints: &PartitionSet) {
    for loss in missing.iter_mut().filter(|loss| !loss.partitions.is_subset(endpoints)) {
        loss.partitions = loss.partitions.intersection(endpoints);
    }
    missing.retain(|loss| !loss.partitions.is_empty());
}

/// Marks endpoints as absent from a wave.
fn excuse<P: Payload>(slot: &mut Slot<P>, loss: Missing) {
    let partitions = loss.partitions.difference(slot.parts.claimed()).difference(&slot.excused);
    if !partitions.is_empty() {
        slot.excused.union_with(&partitions);
        slot.missing.push(Missing { partitions, ..loss });
    }
}

/// How long this node waits for the rest of a wave; `None` for ever.
pub(crate) fn slot_patience<P: Payload>(state: &StreamState<P>) -> Option<Duration> {
    match state.terms.spec.synchronisation {
        Synchronisation::TimeOut(wait) => {
            let (levels, height) =
                (f64::from(state.terms.levels), f64::from(state.row.height.min(state.terms.levels)));
            Some(Duration::from(wait).mul_f64((height + 1.0) / (levels + 1.0)))
        }
        Synchronisation::WaitForAll | Synchronisation::DoNotWait => None,
    }
}

/// When the next slot times out.
pub(crate) fn next_slot_due<P: Payload>(state: &mut StreamState<P>) -> Option<Instant> {
    let wait = slot_patience(state)?;
    first_opened(state).map(|(opened_at, _)| opened_at + wait)
}

/// The oldest wave that is still coming together: when it began, and its index. Removes older waves that have
/// gone.
fn first_opened<P: Payload>(state: &mut StreamState<P>) -> Option<(Instant, usize)> {
    let lane = state.row.lanes.get(&GATHERED)?;
    loop {
        let &first = state.row.opened.front()?;
        if let Some(at) = place_of_open(lane, first) {
            return Some((first.0, at));
        }
        state.row.opened.pop_front();
    }
}

/// The index of a wave that began then, if it is still coming together.
fn place_of_open<P: Payload>(lane: &Lane<P>, (opened_at, key): (Instant, u64)) -> Option<usize> {
    let at = lane.find(key).ok()?;
    let slot = &lane.slots[at];
    (!slot.is_ready && slot.opened_at == opened_at).then_some(at)
}

/// Forgets the beginnings of waves that have gone, once they are the majority.
///
/// They pile up if the oldest wave waits for long, or if no time-out asks for the oldest.
fn trim_opened<P: Payload>(state: &mut StreamState<P>) {
    let Some(lane) = state.row.lanes.get(&GATHERED) else { return };
    if state.row.opened.len() > 2 * lane.slots.len() + OPENED_SLACK {
        state.row.opened.retain(|&opened| place_of_open(lane, opened).is_some());
    }
}

/// Marks a slot as ready: it is not waited for any more.
pub(crate) fn make_ready<P: Payload>(state: &mut StreamState<P>, lane: u32, at: usize) {
    let waves = state.row.lanes.get_mut(&lane).expect("invariant: the lane of a slot");
    let slot = &mut waves.slots[at];
    slot.is_ready = true;
    let bytes: usize = slot.parts.resting().iter().map(|part| part.payload.len()).sum();
    let (bytes, credit_bytes) = (bytes.max(PACKET_BYTES), state.terms.window_bytes);
    state.row.ready.push((lane, slot.key), bytes, credit_bytes, &mut waves.ready_upto);
}

/// Takes a slot out of its lane. Its bytes no longer count as waiting.
pub(crate) fn take_slot<P: Payload>(state: &mut StreamState<P>, lane: u32, key: u64) -> Option<Slot<P>> {
    let waves = state.row.lanes.get_mut(&lane)?;
    let at = waves.find(key).ok()?;
    let slot = waves.slots.remove(at)?;
    for part in slot.parts.resting() {
        let bytes = part.payload.len();
        state.release(part.payload.source, bytes);
    }
    Some(slot)
}

/// True if the lane fits the contributors.
///
/// Lane 0 belongs to all endpoints. Every other lane belongs to one endpoint, which has given a packet or is
/// missing because a filter failed.
fn is_lane_of<P: Payload>(state: &StreamState<P>, up: &StreamUp<P>) -> bool {
    if state.gathers() {
        return up.lane == GATHERED;
    }
    let mut whose = up.contributors.clone();
    up.missing.iter().for_each(|loss| whose.union_with(&loss.partitions));
    up.lane != GATHERED && whose == PartitionSet::from_range(up.lane - 1..up.lane)
}
