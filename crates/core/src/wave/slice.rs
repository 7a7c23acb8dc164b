//! Slices: a wave that carries one part of every partial.
//!
//! If partials are large and can be cut by key (the words of a count, the entries of a vector), a call may
//! use one wave for each slice. Each wave folds the same slice of every partial, over a separate tree. One
//! call therefore uses several relays of a place at once (NetAgg §3.1, multiple aggregation trees), and a
//! node folds several slices at a time. A node also folds one slice while the next is in flight. The credit
//! of each wave limits this pipeline if necessary.
//!
//! The waves of a call have consecutive numbers. The number of the first slice's wave is the call's number.
//!
//! A call may also ask for one slice *alone*. It has one wave, with the number that the slice would have among the waves of
//! all. Each local then makes this slice only, so no node holds more of a partial than the slices that it is asked for, and a
//! caller that asks for one slice after another reads a result of any size. Such calls know nothing of each other.

use crate::id::WaveId;

/// The part of the partials that a wave carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Slice {
    index: u32,
    of: u32,
    #[cfg_attr(feature = "serde", serde(default))]
    is_alone: bool,
}

impl Slice {
    /// The only slice of a call that is not sliced.
    pub const WHOLE: Self = Self { index: 0, of: 1, is_alone: false };

    /// Slice `index` of `of` slices; `None` if there is no such slice.
    pub fn new(index: u32, of: u32) -> Option<Self> {
        (index < of).then_some(Self { index, of, is_alone: false })
    }

    /// Slice `index` of `of` slices, of a call that asks for no other; `None` if there is no such slice.
    pub fn alone(index: u32, of: u32) -> Option<Self> {
        Self::new(index, of).map(|slice| Self { is_alone: !slice.is_whole(), ..slice })
    }

    /// The slice's number, from 0.
    pub fn index(self) -> u32 {
        self.index
    }

    /// The number of slices of the call.
    pub fn of(self) -> u32 {
        self.of
    }

    /// True if the call asks for this slice only.
    pub fn is_alone(self) -> bool {
        self.is_alone
    }

    /// True when the wave carries whole partials.
    pub fn is_whole(self) -> bool {
        self.of == 1
    }

    /// True if the numbers of the call's waves are in range: none is below zero or above the greatest number.
    pub(crate) fn is_of(self, wave: WaveId) -> bool {
        let first = wave.sequence.checked_sub(self.index.into());
        first.is_some_and(|first| first.checked_add(self.of.into()).is_some())
    }

    /// The wave of the call's first slice, which names the call, if `wave` carries this slice.
    pub(crate) fn first(self, wave: WaveId) -> WaveId {
        WaveId { sequence: wave.sequence.wrapping_sub(self.index.into()), ..wave }
    }

    /// The wave that carries this slice in the call that `first` names.
    pub(crate) fn wave(self, first: WaveId) -> WaveId {
        WaveId { sequence: first.sequence.wrapping_add(self.index.into()), ..first }
    }
}

impl Default for Slice {
    fn default() -> Self {
        Self::WHOLE
    }
}
