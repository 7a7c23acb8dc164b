//! Answered waves, kept until their deadline, within bounds.
//!
//! If a parent dies after its child has answered, the grandparent asks the child again, and the child must
//! still have its partial (DESIGN 4.6). Kept waves are bounded in number and bytes. The oldest are dropped
//! first, because they are the least likely to be asked for. They are taken from the application that uses
//! most of its part of the room, so that an application that floods the node makes room only from its kept
//! waves. If a dropped wave is asked for, it runs again.
//!
//! Kept waves are stored apart from open ones: there are a hundred times as many, and every message looks up
//! open ones. Each application's waves are stored in the order of their answers and are searched for expired
//! ones from the front. A wave with a late deadline therefore keeps the waves behind it a little longer, at
//! most until the bounds apply.

use crate::id::Tag;
use crate::message::Payload;
use crate::schedule::accounts::AccountId;
use crate::time::Instant;
use crate::wave::answered::Answered;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// One application's answered waves, oldest first.
#[derive(Debug)]
struct Row<P> {
    /// `None` if the wave was removed.
    waves: VecDeque<Option<Box<Answered<P>>>>,
    /// The number of the row's first wave, counted since the start.
    first: u64,
    bytes: usize,
}

/// The answered waves.
#[derive(Debug)]
pub(crate) struct Kept<P> {
    rows: Vec<Row<P>>,
    places: BTreeMap<Tag, (AccountId, u64)>,
    bytes: usize,
    /// The number of places in all rows, including empty ones.
    stands: usize,
    waves_max: usize,
    bytes_max: usize,
}

impl<P: Payload> Kept<P> {
    pub(crate) fn new(waves_max: usize, bytes_max: usize, accounts: usize) -> Self {
        let row = || Row { waves: VecDeque::new(), first: 0, bytes: 0 };
        let rows = core::iter::repeat_with(row).take(accounts).collect();
        Self { rows, places: BTreeMap::new(), bytes: 0, stands: 0, waves_max, bytes_max }
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
        wave: Box<Answered<P>>,
        part_of: impl Fn(AccountId) -> f64,
    ) -> Vec<Box<Answered<P>>> {
        let mut unfetched = Vec::new();
        let (account_id, bytes) = (wave.ask.account_id, wave.bytes());
        let row = &mut self.rows[account_id];
        row.bytes += bytes;
        self.bytes += bytes;
        self.places.insert(wave.tag, (account_id, row.first + row.waves.len() as u64));
        row.waves.push_back(Some(wave));
        self.stands += 1;
        while self.stands > self.waves_max || self.bytes > self.bytes_max {
            let by_count = self.stands > self.waves_max;
            let account_id =
                self.largest_holder(&part_of, |row| if by_count { row.waves.len() } else { row.bytes });
            unfetched.extend(self.pop_front(account_id).filter(|wave| !wave.offered.is_empty()));
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
        let (account_id, place) = self.places.remove(tag)?;
        let row = &mut self.rows[account_id];
        let wave = row.waves.get_mut((place - row.first) as usize)?.take()?;
        row.bytes -= wave.bytes();
        self.bytes -= wave.bytes();
        Some(wave)
    }

    /// A kept wave, for changes. Its parts and its parameters must not be changed.
    pub(crate) fn find_mut(&mut self, tag: &Tag) -> Option<&mut Answered<P>> {
        let &(account_id, place) = self.places.get(tag)?;
        let row = &mut self.rows[account_id];
        row.waves.get_mut((place - row.first) as usize)?.as_deref_mut()
    }

    /// Drops expired waves. Returns when to look again.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Instant> {
        let mut next_at: Option<Instant> = None;
        for account_id in 0..self.rows.len() {
            while let Some(front) = self.rows[account_id].waves.front() {
                match front {
                    Some(wave) if wave.ask.deadline_at > now => {
                        next_at =
                            Some(next_at.map_or(wave.ask.deadline_at, |at| at.min(wave.ask.deadline_at)));
                        break;
                    }
                    _ => drop(self.pop_front(account_id)),
                }
            }
        }
        next_at
    }

    fn pop_front(&mut self, account_id: AccountId) -> Option<Box<Answered<P>>> {
        let row = &mut self.rows[account_id];
        let wave = row.waves.pop_front()?;
        row.first += 1;
        self.stands -= 1;
        if let Some(wave) = &wave {
            row.bytes -= wave.bytes();
            self.bytes -= wave.bytes();
            self.places.remove(&wave.tag);
        }
        wave
    }
}
