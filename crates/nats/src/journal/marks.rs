//! The places at which a journal can be trimmed.

use std::collections::VecDeque;

/// Bytes of records after which the next place follows at which the journal can be trimmed.
const MARK_BYTES: usize = 1 << 20;
/// Records after which such a place follows.
const MARK_RECORDS: u64 = 4_096;
/// Most such places. Above it, every second one is forgotten.
const MARKS_MAX: usize = 4_096;

/// Places at which the journal can be trimmed: the last position of a record, and its sequence.
#[derive(Debug, Default)]
pub(super) struct Marks {
    pub(super) places: VecDeque<(u64, u64)>,
    bytes: usize,
    records: u64,
}

impl Marks {
    pub(super) fn push(&mut self, last: u64, sequence: u64, bytes: usize) {
        self.bytes += bytes;
        self.records += 1;
        if self.bytes < MARK_BYTES && self.records < MARK_RECORDS {
            return;
        }
        (self.bytes, self.records) = (0, 0);
        if self.places.len() >= MARKS_MAX {
            let mut index = 0;
            self.places.retain(|_| {
                index += 1;
                index % 2 == 0
            });
        }
        self.places.push_back((last, sequence));
    }
}
