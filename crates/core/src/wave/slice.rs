//! Slices: a wave that carries one part of every partial.
//!
//! Where partials are bulky and can be cut by key (the words of a count, the entries of a vector), a call may be as many
//! waves as it has slices: each folds the same slice of everybody's partial, over a tree of its own. So one call uses
//! several relays of a place at once (NetAgg §3.1, multiple aggregation trees), a node folds several slices at a time, and
//! folds one while the next is still on its way: a pipeline, which the credit of each wave holds back where it must.
//!
//! The waves of a call have consecutive numbers, and its first slice's is the call's own.

use crate::id::WaveId;

/// Which part of the partials a wave carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Slice {
    index: u32,
    of: u32,
}

impl Slice {
    /// The only slice of a call that is not sliced.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Slice `index` of so many; `None` when there is none of that number.
    pub fn new(index: u32, of: u32) -> Option<Self> {
        (index < of).then_some(Self { index, of })
    }

    /// Its number, from 0.
    pub fn index(self) -> u32 {
        self.index
    }

    /// How many the call has.
    pub fn of(self) -> u32 {
        self.of
    }

    /// True when the wave carries whole partials.
    pub fn is_whole(self) -> bool {
        self.of == 1
    }

    /// True when a call may have waves of such numbers: none of them is below zero, or beyond what there is.
    pub(crate) fn is_of(self, wave: WaveId) -> bool {
        let first = wave.sequence.checked_sub(self.index.into());
        first.is_some_and(|first| first.checked_add(self.of.into()).is_some())
    }

    /// The wave of the call's first slice, which names the call, if `wave` carries this one.
    pub(crate) fn first(self, wave: WaveId) -> WaveId {
        WaveId { sequence: wave.sequence.wrapping_sub(self.index.into()), ..wave }
    }
}

impl Default for Slice {
    fn default() -> Self {
        Self::WHOLE
    }
}

/// The waves of the call that `first` names, in the order of their slices.
pub(crate) fn waves(first: WaveId, of: u32) -> impl Iterator<Item = (Slice, WaveId)> {
    (0..of).map(move |index| {
        let wave = WaveId { sequence: first.sequence.wrapping_add(index.into()), ..first };
        (Slice { index, of }, wave)
    })
}
