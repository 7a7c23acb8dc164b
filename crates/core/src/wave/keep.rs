//! What was answered is kept until its deadline, within bounds.
//!
//! Should a parent die after its child has answered, the grandparent asks the child again, and the child must
//! still have its partial (DESIGN 4.6). Kept waves are bounded in number and bytes; the oldest go first, since
//! they are the least likely to be asked for. A wave that is gone is simply run again when asked.
//!
//! They lie apart from the open ones: there are a hundred times as many, and the open ones are looked up with
//! every message. They stand in the order of their answers and are looked through for expired ones from the
//! front, so one with a late deadline keeps those behind it a little longer, at most until the bounds bite.

use crate::id::Tag;
use crate::message::Payload;
use crate::time::Instant;
use crate::wave::state::Wave;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// The answered waves, oldest first.
#[derive(Debug)]
pub(crate) struct Kept<P> {
    /// `None` where a wave was taken out again.
    row: VecDeque<Option<Box<Wave<P>>>>,
    /// The number of the row's first wave, counted since the start.
    first: u64,
    places: BTreeMap<Tag, u64>,
    bytes: usize,
    waves_max: usize,
    bytes_max: usize,
}

impl<P: Payload> Kept<P> {
    pub(crate) const fn new(waves_max: usize, bytes_max: usize) -> Self {
        Self { row: VecDeque::new(), first: 0, places: BTreeMap::new(), bytes: 0, waves_max, bytes_max }
    }

    /// How many waves are kept.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Bytes of their partials.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a wave; the oldest ones make room. Gives back those that made room while their answer was offered to
    /// the parent and not fetched yet.
    pub(crate) fn push(&mut self, wave: Box<Wave<P>>) -> Vec<Box<Wave<P>>> {
        let mut unfetched = Vec::new();
        self.bytes += wave.parts.bytes();
        self.places.insert(wave.tag, self.first + self.row.len() as u64);
        self.row.push_back(Some(wave));
        while self.row.len() > self.waves_max || self.bytes > self.bytes_max {
            unfetched.extend(self.pop_front().filter(|wave| !wave.offered.is_empty()));
        }
        unfetched
    }

    /// Takes a wave out again.
    pub(crate) fn take(&mut self, tag: &Tag) -> Option<Box<Wave<P>>> {
        let place = self.places.remove(tag)?;
        let wave = self.row.get_mut((place - self.first) as usize)?.take()?;
        self.bytes -= wave.parts.bytes();
        Some(wave)
    }

    /// A kept wave, to be changed in everything but its parts.
    pub(crate) fn find_mut(&mut self, tag: &Tag) -> Option<&mut Wave<P>> {
        let place = self.places.get(tag)?;
        self.row.get_mut((place - self.first) as usize)?.as_deref_mut()
    }

    /// Drops what has expired; tells when to look again.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Instant> {
        while let Some(front) = self.row.front() {
            match front {
                Some(wave) if wave.deadline_at > now => return Some(wave.deadline_at),
                _ => drop(self.pop_front()),
            }
        }
        None
    }

    fn pop_front(&mut self) -> Option<Box<Wave<P>>> {
        let wave = self.row.pop_front()?;
        self.first += 1;
        if let Some(wave) = &wave {
            self.bytes -= wave.parts.bytes();
            self.places.remove(&wave.tag);
        }
        wave
    }
}
