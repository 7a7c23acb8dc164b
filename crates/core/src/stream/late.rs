//! Pieces that arrive after their wave has gone, and how their senders learn where to continue.
//!
//! With `WaitForAll`, only an endpoint that has just come back can be late. With time-outs, an endpoint that
//! was held up once would stay late for ever, so it is told to continue with the newest wave. Pieces that a
//! lost node's filter may have kept also come late, and are wanted.

use super::error::StreamError;
use super::gather::{Address, make_ready};
use super::lane::{GATHERED, Lane, Piece};
use super::message::{StreamMessage, StreamSettled, StreamUp};
use super::settle::settle_again;
use super::spec::{Source, Synchronisation};
use super::state::StreamState;
use super::tags::TagRuns;
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::{Parent, Standing};
use crate::wave::contributors::Part;
use alloc::vec::Vec;

/// The state of a piece's wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Past {
    /// It has not gone yet.
    New,
    /// The wave has gone without this piece.
    Lacking,
    /// It has gone, with some of this or all.
    Had,
    /// The front-end's user has it.
    Settled,
}

/// Whether a wave has been sent already, and whether this piece was in it.
pub(crate) fn past_of<P: Payload>(
    state: &StreamState<P>,
    address: Address,
    contributors: Option<&PartitionSet>,
) -> Past {
    let Some(lane) = state.row.lanes.get(&address.lane) else { return Past::New };
    if lane.settled.contains(address.key) {
        return Past::Settled;
    }
    let at_work = state.filtering.state.wave_at_work(address.lane, address.key).into_iter();
    let mut past = Past::New;
    for gone in lane.sent.under(address.key).map(|sent| &sent.contributors).chain(at_work) {
        past = Past::Lacking;
        if contributors.is_none_or(|contributors| contributors.intersects(gone)) {
            return Past::Had;
        }
    }
    past
}

impl<P: Payload> StreamState<P> {
    /// The index of the child with this source. Sources ascend until their count wraps around.
    fn child_of(&self, source: u32) -> Option<usize> {
        let row = self.seat.children.iter().as_slice();
        let found = row.binary_search_by_key(&source, |child| child.more.source).ok();
        found.or_else(|| row.iter().position(|child| child.more.source == source))
    }

    /// Drops a piece of a wave that has gone and needs none, or that is settled.
    ///
    /// Pieces that a lost node's filter may have kept still go to the filter here, with the next wave. If the
    /// wave is settled, an endpoint need not wait for its packet.
    pub(crate) fn drop_piece(
        &mut self,
        cx: &mut Context<P>,
        address: Address,
        part: Option<Part<Piece<P>>>,
        past: Past,
    ) {
        let Some(Part { payload: piece, .. }) = part else { return };
        if past == Past::Settled {
            settle_again(self, address.lane, address.key);
            self.settle_again_for(cx, piece.source, address);
        }
        match piece.source {
            Source::Endpoint(_) if past == Past::Settled => {
                let mut runs = TagRuns::new();
                runs.insert(address.key);
                self.settle_own(cx, address.lane, &runs);
                if self.gathers() {
                    self.ask_where(cx, address.key);
                }
            }
            Source::Endpoint(_) => {}
            Source::Child(number) => {
                let child = self.child_of(number).map(|at| &self.seat.children[at]);
                let carries = child.and_then(|child| child.more.carries);
                if carries.is_some_and(|(from, to)| (from..=to).contains(&address.key)) {
                    self.hold(piece.source, piece.len());
                    self.row.carried.push(piece);
                }
            }
        }
    }

    /// Settles a packet once more for the child that sent it.
    ///
    /// If the packet's endpoint has moved below the child, the child was not told, and would keep the packet in its window
    /// for ever. All nodes are told of the waves of all endpoints.
    fn settle_again_for(&self, cx: &mut Context<P>, source: Source, address: Address) {
        let Source::Child(number) = source else { return };
        if address.lane == GATHERED || self.front.is_some() {
            return;
        }
        if let Some(at) = self.child_of(number) {
            let mut runs = TagRuns::new();
            runs.insert(address.key);
            let settled = StreamSettled { stream: self.terms.id, lanes: alloc::vec![(address.lane, runs)] };
            cx.send_stream(self.seat.children[at].node, StreamMessage::Settled(settled));
        }
    }

    /// Asks the nodes above where an endpoint here is to continue, with a part without contributors.
    ///
    /// With time-outs, the settled waves may be far behind the waves that others send by now.
    pub(crate) fn ask_where(&mut self, cx: &mut Context<P>, key: u64) {
        if !matches!(self.terms.spec.synchronisation, Synchronisation::TimeOut(_)) {
            return;
        }
        if let Parent::Node(parent) = self.seat.parent
            && self.order.orphan_since.is_none()
        {
            let up = StreamUp {
                stream: self.terms.id,
                lane: GATHERED,
                tag: key,
                serial: 0,
                payload: None,
                more: false,
                urgent: false,
                contributors: PartitionSet::new(),
                missing: Vec::new(),
                holds_from: self.row.holds_from,
            };
            cx.send_stream(parent, StreamMessage::Up(up));
        }
    }

    /// Tells a late sender with which wave to continue; otherwise it would be behind for ever.
    ///
    /// With time-outs it continues after the newest wave, because earlier ones will have gone by the time its
    /// pieces arrive. With `WaitForAll` it continues with the first wave that has not gone, so that it skips
    /// no wave that waits for it.
    pub(crate) fn tell_ahead(&mut self, cx: &mut Context<P>, source: Option<Source>, key: u64) {
        let gone_upto = match self.terms.spec.synchronisation {
            Synchronisation::TimeOut(_) => Some(self.row.tag_max),
            Synchronisation::WaitForAll | Synchronisation::DoNotWait => {
                self.row.lanes.get(&GATHERED).and_then(Lane::gone_upto)
            }
        };
        let Some(last) = gone_upto.filter(|&last| last > key) else { return };
        match source {
            Some(Source::Child(number)) => {
                let child = self.child_of(number).map(|at| &mut self.seat.children[at]);
                let Some(child) = child.filter(|child| child.more.told_ahead < last) else { return };
                child.more.told_ahead = last;
                let node = child.node;
                cx.send_stream(node, StreamMessage::Ahead { stream: self.terms.id, tag: last });
            }
            Some(Source::Endpoint(_)) => skip_to(self, last),
            None => {}
        }
    }

    /// Takes the parent's word that waves have gone without this subtree, or a part of it.
    pub(crate) fn take_ahead(
        &mut self,
        cx: &mut Context<P>,
        from: NodeId,
        tag: u64,
    ) -> Result<(), StreamError> {
        if self.seat.parent != Parent::Node(from) {
            return Ok(());
        }
        skip_to(self, tag);
        // Nodes below may skip waves that slots here wait for, so these slots go as they are. With time-outs
        // they go by themselves, and slots that are in time must not be sent without endpoints that are in
        // time.
        let slots = match (self.terms.spec.synchronisation, self.row.lanes.get(&GATHERED)) {
            (Synchronisation::WaitForAll, Some(lane)) => lane.slots.partition_point(|slot| slot.key <= tag),
            _ => 0,
        };
        for at in 0..slots {
            if !self.row.lanes[&GATHERED].slots[at].is_ready {
                make_ready(self, GATHERED, at);
            }
        }
        for at in 0..self.seat.children.len() {
            let child = &mut self.seat.children[at];
            if child.standing() == Standing::There && child.more.told_ahead < tag {
                child.more.told_ahead = tag;
                let node = child.node;
                cx.send_stream(node, StreamMessage::Ahead { stream: self.terms.id, tag });
            }
        }
        Ok(())
    }
}

/// Lets endpoints here that count their packets continue after this wave.
fn skip_to<P>(state: &mut StreamState<P>, tag: u64) {
    state.own.iter_mut().for_each(|own| own.next_tag = own.next_tag.max(tag.saturating_add(1)));
}
