//! Credit: how many bytes of partials may be on their way to this node.
//!
//! A node folds as partials come, so a wave holds about two of them. When partials are large and come faster
//! than they are folded, children must wait, and it is bytes that count, not partials. Small ones are sent
//! unasked; a large one is offered first (a rendezvous, as message-passing libraries have it) and sent when the
//! parent grants it. What is held and what is granted together stay within `Limits::held_bytes_max`, parted among the
//! applications by their shares as the queue is: whoever floods the node fills its own room, and its own children wait.
//!
//! - **What has begun is finished first.** A wave that has been granted something may have all of the room, one that has
//!   not only the first half. A room in which every wave holds one partial and waits for a second would never empty.
//! - **One wave may have more.** Partials grow where folds put them together, and one may be larger than all the room. So
//!   of those that have begun and find none, the first is granted one partial all the same whenever it has nothing to
//!   fold, until it is over; no other is meanwhile. An application has more than its room by what one wave folds at a
//!   time, however many are open and however many children they have. A wave means all of this node's parts in it: a
//!   caller waits for its own node's part as for any other, and that one must be granted what it needs.

use crate::id::{NodeId, Tag, WaveId};
use crate::schedule::lanes::Lane;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

/// This node's part in a wave, the child that offers, and the child's branch.
pub(crate) type OfferKey = (Tag, NodeId, u32);

/// One application's bytes.
#[derive(Debug, Default)]
struct Room {
    bytes_max: usize,
    held_bytes: usize,
    granted_bytes: usize,
    /// Waves that have been granted something.
    begun: BTreeSet<Tag>,
    /// The wave that may have more than there is room for.
    privileged: Option<WaveId>,
    /// Offers to waves that have begun, and to those that have not.
    to_begun: VecDeque<(OfferKey, usize)>,
    to_new: VecDeque<(OfferKey, usize)>,
}

impl Room {
    fn used_bytes(&self) -> usize {
        self.granted_bytes + self.held_bytes
    }

    fn has_room_for(&self, bytes: usize, bytes_max: usize) -> bool {
        self.used_bytes() == 0 || self.used_bytes() + bytes <= bytes_max
    }

    /// The offer that is granted next, if one is.
    fn take_next(
        &mut self,
        has_grant_out: impl Fn(Tag) -> bool,
        has_grant_in: impl Fn(WaveId) -> bool,
        is_starved: impl Fn(Tag) -> bool,
    ) -> Option<(OfferKey, usize)> {
        if let Some(&(_, bytes)) = self.to_begun.front()
            && self.has_room_for(bytes, self.bytes_max)
        {
            return self.to_begun.pop_front();
        }
        if let Some(&(_, bytes)) = self.to_new.front()
            && self.has_room_for(bytes, self.bytes_max / 2)
        {
            return self.to_new.pop_front();
        }
        let offers_to =
            |wave: WaveId| self.to_begun.iter().chain(&self.to_new).any(move |(key, _)| key.0.wave == wave);
        let needs_it = |wave: WaveId| offers_to(wave) || has_grant_in(wave);
        // Who waits for something else keeps it while there is more here than there is room for.
        if self.privileged.is_none_or(|wave| !needs_it(wave) && self.used_bytes() <= self.bytes_max) {
            // Where none has begun, what is here came unasked, and waves may wait for each other with that as well.
            let first =
                self.to_begun.front().or(if self.begun.is_empty() { self.to_new.front() } else { None });
            self.privileged = first.map(|(key, _)| key.0.wave);
        }
        let wave = self.privileged?;
        let may_come =
            |&(key, _): &(OfferKey, usize)| key.0.wave == wave && !has_grant_out(key.0) && is_starved(key.0);
        [&mut self.to_begun, &mut self.to_new].into_iter().find_map(|offers| {
            let at = offers.iter().position(may_come)?;
            offers.remove(at)
        })
    }

    fn has_begun(&self, wave: WaveId) -> bool {
        let first = Tag { wave, branch: 0 };
        self.begun.range(first..).next().is_some_and(|tag| tag.wave == wave)
    }

    fn begin(&mut self, tag: Tag) {
        if !self.begun.insert(tag) {
            return;
        }
        let (now_begun, still_new) =
            core::mem::take(&mut self.to_new).into_iter().partition(|(key, _)| key.0.wave == tag.wave);
        self.to_begun.extend::<VecDeque<_>>(now_begun);
        self.to_new = still_new;
    }
}

/// Offers that wait and grants that are out.
#[derive(Debug)]
pub(crate) struct Credit {
    rooms: Vec<Room>,
    granted: BTreeMap<OfferKey, (Lane, usize)>,
    /// Offers that wait, in all rooms.
    waiting: usize,
}

impl Credit {
    /// As many rooms as there are lanes, with nothing in them.
    pub(crate) fn new(lanes: usize) -> Self {
        let rooms = core::iter::repeat_with(Room::default).take(lanes).collect();
        Self { rooms, granted: BTreeMap::new(), waiting: 0 }
    }

    /// What a lane may hold from now on.
    pub(crate) fn set_room(&mut self, lane: Lane, bytes_max: usize) {
        self.rooms[lane].bytes_max = bytes_max;
    }

    /// What a lane may hold.
    pub(crate) fn room_of(&self, lane: Lane) -> usize {
        self.rooms[lane].bytes_max
    }

    /// A lane's waves hold so many bytes where they held so many before.
    pub(crate) fn hold(&mut self, lane: Lane, before: usize, bytes: usize) {
        let held = &mut self.rooms[lane].held_bytes;
        *held = *held + bytes - before;
    }

    /// What a lane's waves hold.
    pub(crate) fn held_of(&self, lane: Lane) -> usize {
        self.rooms[lane].held_bytes
    }

    /// What all waves hold.
    pub(crate) fn held_bytes(&self) -> usize {
        self.rooms.iter().map(|room| room.held_bytes).sum()
    }

    /// A child offers `bytes` to a wave of this lane; [`Credit::grant_next`] says when they may come.
    pub(crate) fn offered(&mut self, lane: Lane, key: OfferKey, bytes: usize) {
        self.forget(key);
        let room = &mut self.rooms[lane];
        let has_begun = room.has_begun(key.0.wave);
        let offers = if has_begun { &mut room.to_begun } else { &mut room.to_new };
        offers.push_back((key, bytes));
        self.waiting += 1;
    }

    /// True when an offer waits for room or is on its way.
    pub(crate) fn knows(&self, key: OfferKey) -> bool {
        let waits =
            |room: &Room| room.to_begun.iter().chain(&room.to_new).any(|&(waiting, _)| waiting == key);
        self.granted.contains_key(&key) || self.rooms.iter().any(waits)
    }

    /// An offer that may come now; to be asked until there is none. A wave is starved that has nothing to fold.
    pub(crate) fn grant_next(&mut self, is_starved: impl Fn(Tag) -> bool) -> Option<OfferKey> {
        if self.waiting == 0 {
            return None;
        }
        let Self { rooms, granted, waiting } = self;
        let has_grant_out =
            |tag: Tag| granted.range((tag, NodeId::LEAST, 0)..).next().is_some_and(|(key, _)| key.0 == tag);
        let has_grant_in = |wave: WaveId| {
            let first = (Tag { wave, branch: 0 }, NodeId::LEAST, 0);
            granted.range(first..).next().is_some_and(|(key, _)| key.0.wave == wave)
        };
        let next = |(lane, room): (Lane, &mut Room)| {
            Some((lane, room.take_next(has_grant_out, has_grant_in, &is_starved)?))
        };
        let (lane, (key, bytes)) = rooms.iter_mut().enumerate().find_map(next)?;
        *waiting -= 1;
        rooms[lane].granted_bytes += bytes;
        rooms[lane].begin(key.0);
        granted.insert(key, (lane, bytes));
        Some(key)
    }

    /// Some of what was granted is here.
    pub(crate) fn arrived(&mut self, key: OfferKey, bytes: usize) {
        if let Some((lane, left)) = self.granted.get_mut(&key) {
            let arrived = bytes.min(*left);
            *left -= arrived;
            self.rooms[*lane].granted_bytes -= arrived;
        }
    }

    /// Nothing more will come of an offer.
    pub(crate) fn forget(&mut self, key: OfferKey) {
        if let Some((lane, bytes)) = self.granted.remove(&key) {
            self.rooms[lane].granted_bytes -= bytes;
        } else {
            self.forget_waiting(|waiting| waiting == key);
        }
    }

    fn forget_waiting(&mut self, is_over: impl Fn(OfferKey) -> bool) {
        if self.waiting == 0 {
            return;
        }
        for room in &mut self.rooms {
            for offers in [&mut room.to_begun, &mut room.to_new] {
                let before = offers.len();
                offers.retain(|(key, _)| !is_over(*key));
                self.waiting -= before - offers.len();
            }
        }
    }

    /// A wave of this lane is over.
    pub(crate) fn forget_wave(&mut self, lane: Lane, tag: Tag) {
        let room = &mut self.rooms[lane];
        room.begun.remove(&tag);
        if !room.has_begun(tag.wave) {
            room.privileged = room.privileged.filter(|&privileged| privileged != tag.wave);
        }
        self.forget_waiting(|key| key.0 == tag);
        if self.granted.is_empty() {
            return;
        }
        let of_wave = self.granted.range((tag, NodeId::LEAST, 0)..).take_while(|(key, _)| key.0 == tag);
        for key in of_wave.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.forget(key);
        }
    }
}

#[cfg(test)]
mod tests;
