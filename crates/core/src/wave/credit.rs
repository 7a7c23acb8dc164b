//! Credit: bounds the bytes of partials in flight to this node.
//!
//! A node folds partials as they arrive, so a wave holds about two of them. If partials are large and arrive
//! faster than they are folded, children must wait. The bound counts bytes, not partials. Small partials are
//! sent without asking. A large one is offered first (a rendezvous, as in message-passing libraries) and sent
//! when the parent grants it. Held and granted bytes together stay within `Limits::held_bytes_max`. This
//! limit is divided among the applications by their shares, like the queue: an application that floods the
//! node fills only its room, and only its children wait.
//!
//! - **Waves that have begun are finished first.** A wave that has been granted something may use all of the
//!   room, a new wave only the first half. If every wave in a room held one partial and waited for a second,
//!   the room would never empty.
//! - **One wave may exceed the room.** Folded partials grow, and one may be larger than the whole room. So
//!   among the waves that have begun and find no room, the first one is still granted one partial whenever it
//!   has nothing to fold, until it ends. No other wave gets this in the meantime. An application therefore
//!   exceeds its room by the bytes that one wave folds at a time, for any number of open waves and children.
//!   Here a wave means all parts of this node in it: a caller waits for the part of the same node like for
//!   any other child, and that part must be granted what it needs.

use crate::id::{NodeId, Tag, WaveId};
use crate::schedule::accounts::AccountId;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

/// This node's part in a wave, the child that offers, and the child's branch.
pub(crate) type OfferKey = (Tag, NodeId, u32);

/// One application's room.
#[derive(Debug, Default)]
struct Room {
    bytes_max: usize,
    held_bytes: usize,
    granted_bytes: usize,
    /// Waves that have been granted something.
    begun: BTreeSet<Tag>,
    /// The wave that may exceed the room.
    privileged: Option<WaveId>,
    /// Offers to waves that have begun; `to_new` has the offers to waves that have not.
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

    /// Removes and returns the offer that is granted next, if any.
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
        // A wave that waits for other input keeps the privilege while the room is exceeded.
        if self.privileged.is_none_or(|wave| !needs_it(wave) && self.used_bytes() <= self.bytes_max) {
            // If no wave has begun, the bytes here came without an offer, and waves may wait for each other
            // because of these too.
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

/// Waiting offers and open grants.
#[derive(Debug)]
pub(crate) struct Credit {
    rooms: Vec<Room>,
    granted: BTreeMap<OfferKey, (AccountId, usize)>,
    /// The number of waiting offers in all rooms.
    waiting: usize,
}

impl Credit {
    /// One empty room for each account.
    pub(crate) fn new(accounts: usize) -> Self {
        let rooms = core::iter::repeat_with(Room::default).take(accounts).collect();
        Self { rooms, granted: BTreeMap::new(), waiting: 0 }
    }

    /// Adds an empty room, for one more account.
    pub(crate) fn add_room(&mut self) {
        self.rooms.push(Room::default());
    }

    /// Sets the size of an account's room.
    pub(crate) fn set_room(&mut self, account_id: AccountId, bytes_max: usize) {
        self.rooms[account_id].bytes_max = bytes_max;
    }

    /// The size of an account's room.
    pub(crate) fn room_of(&self, account_id: AccountId) -> usize {
        self.rooms[account_id].bytes_max
    }

    /// The bytes held by an account's waves change by `bytes` − `before`.
    pub(crate) fn hold(&mut self, account_id: AccountId, before: usize, bytes: usize) {
        let held = &mut self.rooms[account_id].held_bytes;
        *held = *held + bytes - before;
    }

    /// The bytes held by an account's waves.
    pub(crate) fn held_of(&self, account_id: AccountId) -> usize {
        self.rooms[account_id].held_bytes
    }

    /// The bytes held by all waves.
    pub(crate) fn held_bytes(&self) -> usize {
        self.rooms.iter().map(|room| room.held_bytes).sum()
    }

    /// A child offers `bytes` to a wave of this account. [`Credit::grant_next`] tells when to grant it.
    pub(crate) fn offered(&mut self, account_id: AccountId, key: OfferKey, bytes: usize) {
        self.forget(key);
        let room = &mut self.rooms[account_id];
        let has_begun = room.has_begun(key.0.wave);
        let offers = if has_begun { &mut room.to_begun } else { &mut room.to_new };
        offers.push_back((key, bytes));
        self.waiting += 1;
    }

    /// True if the offer waits for room or was granted.
    pub(crate) fn knows(&self, key: OfferKey) -> bool {
        let waits =
            |room: &Room| room.to_begun.iter().chain(&room.to_new).any(|&(waiting, _)| waiting == key);
        self.granted.contains_key(&key) || self.rooms.iter().any(waits)
    }

    /// An offer to grant now; call it until it returns `None`. A wave is starved if it has nothing to fold.
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
        let next = |(account_id, room): (AccountId, &mut Room)| {
            Some((account_id, room.take_next(has_grant_out, has_grant_in, &is_starved)?))
        };
        let (account_id, (key, bytes)) = rooms.iter_mut().enumerate().find_map(next)?;
        *waiting -= 1;
        rooms[account_id].granted_bytes += bytes;
        rooms[account_id].begin(key.0);
        granted.insert(key, (account_id, bytes));
        Some(key)
    }

    /// Some of the granted bytes have arrived.
    pub(crate) fn arrived(&mut self, key: OfferKey, bytes: usize) {
        if self.granted.is_empty() {
            return;
        }
        if let Some((account_id, left)) = self.granted.get_mut(&key) {
            let arrived = bytes.min(*left);
            *left -= arrived;
            self.rooms[*account_id].granted_bytes -= arrived;
        }
    }

    /// Nothing more will come of this offer.
    pub(crate) fn forget(&mut self, key: OfferKey) {
        if self.granted.is_empty() && self.waiting == 0 {
            return;
        }
        if let Some((account_id, bytes)) = self.granted.remove(&key) {
            self.rooms[account_id].granted_bytes -= bytes;
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

    /// A wave of this account has ended.
    pub(crate) fn forget_wave(&mut self, account_id: AccountId, tag: Tag) {
        let room = &mut self.rooms[account_id];
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
