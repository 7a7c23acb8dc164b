//! Answered waves, kept until their deadline, within bounds.
//!
//! If a parent dies after its child has answered, the grandparent asks the child again, and the child must
//! still have its partial (DESIGN 4.6). Kept waves are bounded in number and bytes. The oldest are dropped
//! first, because they are the least likely to be asked for. They are taken from the application that uses
//! most of its part of the room, so that an application that floods the node makes room only from its kept
//! waves. If a dropped wave is asked for, it runs again.
//!
//! A wave in which nothing unusual happened is kept in a fraction of the memory ([`Plain`]), because a node keeps thousands.
//!
//! Kept waves are stored apart from open ones: there are a hundred times as many, and every message looks up
//! open ones. Each application's waves are stored in the order of their answers and are searched for expired
//! ones from the front. A wave with a late deadline therefore keeps the waves behind it a little longer, at
//! most until the bounds apply.
//!
//! Most waves go earlier: each call says which earlier calls of its origin have ended. The memory of a busy node is then that of the
//! calls in flight, and not that of all calls since the deadline before.

use crate::id::{NodeId, Tag, WaveId};
use crate::message::{Partial, Payload};
use crate::schedule::accounts::AccountId;
use crate::time::Instant;
use crate::wave::answered::{Answered, Plain, Recent};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use places::{At, Places};

mod places;

/// The least number of places by which a row grows.
const PLACES_MIN: usize = 16;

/// The place of an answered wave.
#[derive(Debug)]
enum Place<P> {
    Plain(Plain<P>),
    /// `None` if the wave was removed.
    Whole(Option<Box<Answered<P>>>),
}

// A node keeps thousands.
const _: () = assert!(size_of::<Place<bytes::Bytes>>() <= 112);

impl<P: Payload> Place<P> {
    fn of(wave: Answered<P>, recent: &mut Recent) -> Self {
        Plain::of(wave, recent).map_or_else(|wave| Self::Whole(Some(wave)), Self::Plain)
    }

    fn tag(&self) -> Option<Tag> {
        match self {
            Self::Plain(wave) => Some(wave.tag()),
            Self::Whole(wave) => wave.as_ref().map(|wave| wave.tag),
        }
    }

    fn deadline_at(&self) -> Option<Instant> {
        match self {
            Self::Plain(wave) => Some(wave.deadline_at()),
            Self::Whole(wave) => wave.as_ref().map(|wave| wave.ask.deadline_at),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Plain(wave) => wave.bytes(),
            Self::Whole(wave) => wave.as_ref().map_or(0, |wave| wave.bytes()),
        }
    }

    fn whole(self) -> Option<Box<Answered<P>>> {
        match self {
            Self::Plain(wave) => Some(wave.whole()),
            Self::Whole(wave) => wave,
        }
    }
}

/// One application's answered waves, oldest first.
#[derive(Debug)]
struct Row<P> {
    waves: VecDeque<Place<P>>,
    recent: Recent,
    /// The number of the row's first wave, counted since the start; it wraps around.
    first: u32,
    bytes: usize,
}

/// The answered waves.
#[derive(Debug)]
pub(crate) struct Kept<P> {
    /// By account, up to the last account that has kept a wave.
    rows: Vec<Row<P>>,
    places: Places,
    bytes: usize,
    /// The number of places in all rows, including empty ones.
    stands: usize,
    waves_max: usize,
    bytes_max: usize,
}

impl<P: Payload> Kept<P> {
    /// An empty store. The hashes of tags are keyed with `seed`.
    pub(crate) fn new(waves_max: usize, bytes_max: usize, seed: u64) -> Self {
        Self { rows: Vec::new(), places: Places::new(seed), bytes: 0, stands: 0, waves_max, bytes_max }
    }

    /// The number of kept waves.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Bytes of the waves' partials and parameters.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a wave and drops the oldest waves to make room, by each account's part of the room (`part_of`, from
    /// 0 to 1). Returns the dropped waves whose answer was offered to the parent but not fetched yet.
    pub(crate) fn push(
        &mut self,
        wave: Answered<P>,
        part_of: impl Fn(AccountId) -> f64,
    ) -> Vec<Box<Answered<P>>> {
        let mut unfetched = Vec::new();
        let (account_id, bytes) = (wave.ask.account_id, wave.bytes());
        let waves_max = self.waves_max;
        if account_id >= self.rows.len() {
            self.rows.resize_with(account_id + 1, Row::new);
        }
        let row = &mut self.rows[account_id];
        row.bytes += bytes;
        self.bytes += bytes;
        self.places.insert(&wave.tag, At::new(account_id, row.first.wrapping_add(row.waves.len() as u32)));
        row.make_room(waves_max);
        row.waves.push_back(Place::of(wave, &mut row.recent));
        self.stands += 1;
        while self.stands > self.waves_max || self.bytes > self.bytes_max {
            let by_count = self.stands > self.waves_max;
            let account_id =
                self.largest_holder(&part_of, |row| if by_count { row.waves.len() } else { row.bytes });
            if let Some(Place::Whole(Some(wave))) = self.pop_front(account_id)
                && !wave.offered.is_empty()
            {
                unfetched.push(wave);
            }
        }
        unfetched
    }

    /// The account that has the most of a resource in relation to its part.
    fn largest_holder(&self, part_of: impl Fn(AccountId) -> f64, of: impl Fn(&Row<P>) -> usize) -> AccountId {
        let relative =
            |account_id: AccountId, row: &Row<P>| of(row) as f64 / part_of(account_id).max(f64::MIN_POSITIVE);
        let candidates = self.rows.iter().enumerate().filter(|(_, row)| of(row) > 0);
        let most =
            candidates.max_by(|(a, row_a), (b, row_b)| relative(*a, row_a).total_cmp(&relative(*b, row_b)));
        most.map(|(account_id, _)| account_id)
            .expect("invariant: if a bound is exceeded, some row has a wave")
    }

    /// Removes and returns a wave.
    pub(crate) fn take(&mut self, tag: &Tag) -> Option<Box<Answered<P>>> {
        let rows = &self.rows;
        let at = self.places.remove(tag, |at| has_tag(rows, at, tag))?;
        let row = &mut self.rows[at.account_id()];
        let place = row.at_mut(at.number)?;
        let bytes = place.bytes();
        let wave = core::mem::replace(place, Place::Whole(None)).whole()?;
        row.bytes -= bytes;
        self.bytes -= bytes;
        Some(wave)
    }

    /// Takes the partials that wait for the parent's grant from a kept wave, if this is its parent.
    pub(crate) fn take_offered(&mut self, tag: &Tag, parent: NodeId) -> Vec<Box<Partial<P>>> {
        let Some(at) = self.places.find(tag, |at| has_tag(&self.rows, at, tag)) else { return Vec::new() };
        match self.rows[at.account_id()].at_mut(at.number) {
            Some(Place::Whole(Some(wave))) if wave.parent.is(parent) => core::mem::take(&mut wave.offered),
            // A plain wave has offered nothing.
            _ => Vec::new(),
        }
    }

    /// Drops an application's oldest waves as far as they are of calls that have ended: nobody asks for these any more. A call
    /// says of its `in_flight` latest waves that they may be open, and of earlier ones that they have ended.
    pub(crate) fn drop_ended(&mut self, account_id: AccountId, latest: WaveId, in_flight: u32) {
        let Some(ended) = latest.sequence.checked_sub(in_flight.into()).filter(|_| in_flight > 0) else {
            return;
        };
        let has_ended = |place: &Place<P>| {
            place.tag().is_none_or(|tag| tag.wave.origin == latest.origin && tag.wave.sequence <= ended)
        };
        while self.rows.get(account_id).and_then(|row| row.waves.front()).is_some_and(has_ended) {
            self.pop_front(account_id);
        }
    }

    /// Drops expired waves. Returns when to look again.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Instant> {
        let mut next_at: Option<Instant> = None;
        for account_id in 0..self.rows.len() {
            while let Some(front) = self.rows[account_id].waves.front() {
                match front.deadline_at() {
                    Some(deadline_at) if deadline_at > now => {
                        next_at = Some(next_at.map_or(deadline_at, |at| at.min(deadline_at)));
                        break;
                    }
                    _ => drop(self.pop_front(account_id)),
                }
            }
            let row = &mut self.rows[account_id];
            if row.waves.is_empty() {
                row.waves = VecDeque::new();
            }
        }
        self.places.rest();
        next_at
    }

    fn pop_front(&mut self, account_id: AccountId) -> Option<Place<P>> {
        let row = &mut self.rows[account_id];
        let place = row.waves.pop_front()?;
        let at = At::new(account_id, row.first);
        row.first = row.first.wrapping_add(1);
        self.stands -= 1;
        row.bytes -= place.bytes();
        self.bytes -= place.bytes();
        if let Some(tag) = place.tag() {
            self.places.remove(&tag, |other| other == at);
        }
        Some(place)
    }
}

/// True if the wave of this tag has this place.
fn has_tag<P: Payload>(rows: &[Row<P>], at: At, tag: &Tag) -> bool {
    let row = &rows[at.account_id()];
    row.waves.get(at.number.wrapping_sub(row.first) as usize).and_then(Place::tag) == Some(*tag)
}

impl<P> Row<P> {
    fn new() -> Self {
        Self { waves: VecDeque::new(), recent: Recent::default(), first: 0, bytes: 0 }
    }

    fn at_mut(&mut self, number: u32) -> Option<&mut Place<P>> {
        self.waves.get_mut(number.wrapping_sub(self.first) as usize)
    }

    /// Makes room for another wave. The row doubles like a vector, but never beyond the bound, which is
    /// exceeded by one wave at most.
    fn make_room(&mut self, waves_max: usize) {
        let (length, capacity) = (self.waves.len(), self.waves.capacity());
        if length == capacity {
            let most = waves_max.saturating_add(1).saturating_sub(length).max(1);
            self.waves.reserve_exact(length.max(PLACES_MIN).min(most));
        }
    }
}

#[cfg(test)]
mod tests;
