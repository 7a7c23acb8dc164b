//! Snapshots for mirrors that join, in portions: a state may be larger than the largest message.
//!
//! ```text
//!  joining mirror                                        another mirror of the feed
//!    Ask::Begin(epoch, position or later)  ───────────▶  encodes its state, or has a snapshot there
//!    Arriving   ◀───────────  a portion: the place, and items 0..n
//!    Ask::Next(cut, n)         ───────────▶
//!               ◀───────────  the place, and the items from n on
//! ```
//!
//! - **The asked mirror keeps nothing for the asking one.** The snapshots are those of its readers
//!   ([`Snapshots`](crate::reader::Snapshots)), and an ask names the snapshot by its cut. If it is no longer there, the
//!   asking mirror begins again.
//! - **Items** are the recent packets that a new origin would need, and then the pieces of the state. Their number is
//!   in each portion, so both sides know the end.
//! - **A portion** has a batch without events, which says the place, the version of the rules and the streams; the epochs
//!   that the feed continues, in the first portion; the numbers of its first item, of all recent packets and of all items;
//!   and the items. Each of these, except numbers, has its length before it.

use crate::batch::{Batch, BatchError, BatchHead, BatchWriter, number, part};
use crate::keyed::{KeyedState, RestoreError};
use crate::limits::MirrorLimits;
use crate::packet::Down;
use crate::reader::Encoded;
use crate::recovery::Needed;
use crate::snapshot::Snapshot;
use crate::vector::{Cut, EPOCHS_MAX, Lineage};
use bytes::Bytes;
use treefold_core::encoding::numbers::put_number;

/// Bytes of a portion above which no further item is added to it. An item is a packet, or a piece of at most one row more
/// than `piece_bytes`.
pub const PORTION_BYTES: usize = 4 << 20;

const BEGIN: u64 = 0;
const NEXT: u64 = 1;

/// The portion of a snapshot that a joining mirror asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The first portion of a snapshot of this epoch, at this position or after it.
    Begin(Cut),
    /// The items from a number on, of the snapshot at this cut.
    Next(Cut, u64),
}

/// The reason why a mirror has no portion for a joining one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The asked mirror is of another epoch, or has not come that far.
    #[error("this mirror is at {known}; asked for epoch {epoch}, position {position} or later", epoch = needed.epoch, position = needed.position)]
    Behind {
        /// The place of the asked mirror.
        known: Cut,
        /// The place that the joining mirror needs.
        needed: Cut,
    },
    /// The snapshot is no longer there.
    #[error("the snapshot at {0} is no longer there; begin again")]
    Gone(Cut),
    /// The snapshot has no such item.
    #[error("item {item} of a snapshot with {items}")]
    Beyond {
        /// The number of the item.
        item: u64,
        /// The number of items.
        items: u64,
    },
}

/// The reason why a joining mirror cannot use a portion. It begins again, with another mirror.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The snapshot is too old, or of another epoch.
    #[error("the snapshot is at {given}; needed: epoch {epoch}, position {position} or later", epoch = needed.epoch, position = needed.position)]
    Old {
        /// The place of the snapshot.
        given: Cut,
        /// The place that this mirror needs.
        needed: Cut,
    },
    /// The portion does not follow the one before.
    #[error("the portion does not follow the one before: {0}")]
    Order(&'static str),
    /// The recent packets are more than a mirror keeps.
    #[error("the snapshot has more than {limit} bytes of recent packets")]
    Recent {
        /// The limit.
        limit: usize,
    },
    /// The bytes are not a portion, or there are too many keys.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

impl From<BatchError> for JoinError {
    fn from(error: BatchError) -> Self {
        RestoreError::Rows(error).into()
    }
}

impl Ask {
    /// Encodes the ask.
    pub fn write(self) -> Bytes {
        let mut out = Vec::new();
        let (kind, Cut { epoch, position }, item) = match self {
            Self::Begin(needed) => (BEGIN, needed, None),
            Self::Next(cut, item) => (NEXT, cut, Some(item)),
        };
        for number in [kind, epoch.into(), position].into_iter().chain(item) {
            put_number(&mut out, number);
        }
        out.into()
    }

    /// Reads an ask.
    ///
    /// # Errors
    /// If the bytes are not one.
    pub fn read(mut bytes: &[u8]) -> Result<Self, BatchError> {
        const ASK: &str = "the ask for a portion of a snapshot";
        let kind = number(&mut bytes, ASK)?;
        let epoch = u32::try_from(number(&mut bytes, ASK)?).map_err(|_| BatchError::Cut(ASK))?;
        let cut = Cut { epoch, position: number(&mut bytes, ASK)? };
        let ask = match kind {
            BEGIN => Self::Begin(cut),
            NEXT => Self::Next(cut, number(&mut bytes, ASK)?),
            _ => return Err(BatchError::Cut(ASK)),
        };
        if bytes.is_empty() { Ok(ask) } else { Err(BatchError::Trailing(bytes.len())) }
    }

    /// The number of the first item.
    pub fn item(self) -> u64 {
        match self {
            Self::Begin(_) => 0,
            Self::Next(_, item) => item,
        }
    }
}

impl Encoded {
    /// Encodes the portion that begins with an item. It has at least one item, if there is one, and no more than up to the
    /// first beyond `bytes_max`.
    ///
    /// # Errors
    /// [`AskError::Beyond`].
    pub fn portion(&self, from: u64, bytes_max: usize) -> Result<Bytes, AskError> {
        let (recents, items) = (self.recent.len() as u64, (self.recent.len() + self.state.len()) as u64);
        if from > 0 && from >= items {
            return Err(AskError::Beyond { item: from, items });
        }
        let mut place = Vec::new();
        let head = BatchHead {
            first: self.cut,
            rules_version: self.rules_version,
            sent_ms: 0,
            streams: self.streams.clone(),
        };
        BatchWriter::default().finish(&head, &mut place);
        let past = if from == 0 { write_lineage(&self.past) } else { Vec::new() };
        let mut out = Vec::with_capacity(place.len() + past.len() + bytes_max.min(PORTION_BYTES) + 64);
        put_part(&mut out, &place);
        put_part(&mut out, &past);
        [from, recents, items].into_iter().for_each(|number| put_number(&mut out, number));
        // The number is below that of all items, which are in memory.
        for item in self.recent.iter().chain(self.state.iter()).skip(from as usize) {
            put_part(&mut out, item);
            if out.len() >= bytes_max {
                break;
            }
        }
        Ok(out.into())
    }
}

/// A snapshot of which portions have come.
///
/// It has eight fields: the head of the snapshot, what has come of its items, and the bounds.
#[derive(Debug)]
pub struct Arriving {
    needed: Cut,
    recent_bytes_max: usize,
    /// The place, with an empty state, and the numbers of recent packets and of all items. `None` before the first portion.
    head: Option<(Snapshot<()>, u64, u64)>,
    state: KeyedState,
    /// The recent packets, their bytes, and the position of the last event.
    recent: Vec<Bytes>,
    recent_bytes: usize,
    last: Option<u64>,
    /// The next item.
    next: u64,
}

/// The effect of a portion.
#[derive(Debug)]
pub enum Arrived {
    /// Further portions are needed.
    More(Box<Arriving>),
    /// The snapshot is whole.
    Whole(Box<Snapshot<KeyedState>>),
}

impl Arriving {
    /// Nothing has come yet of a snapshot at `needed` or after it. `state` is empty.
    pub fn new(needed: Cut, state: KeyedState, limits: &MirrorLimits) -> Self {
        let (recent, recent_bytes_max) = (Vec::new(), Needed::log_bytes_max(limits));
        Self { needed, recent_bytes_max, head: None, state, recent, recent_bytes: 0, last: None, next: 0 }
    }

    /// The portion to ask for.
    pub fn ask(&self) -> Ask {
        match &self.head {
            None => Ask::Begin(self.needed),
            Some((head, ..)) => Ask::Next(head.cut, self.next),
        }
    }

    /// The number of items that have come, and that of all; 0 before the first portion.
    pub fn progress(&self) -> (u64, u64) {
        (self.next, self.head.as_ref().map_or(0, |&(_, _, items)| items))
    }

    /// Takes the portion that was asked for.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn take(mut self, bytes: &Bytes) -> Result<Arrived, JoinError> {
        const ITEM: &str = "an item of a snapshot";
        let mut rest = &bytes[..];
        let place = bytes.slice_ref(part(&mut rest, "the place of a snapshot")?);
        let past = part(&mut rest, "the epochs of a snapshot")?;
        let [first, recents, items] =
            [number(&mut rest, ITEM)?, number(&mut rest, ITEM)?, number(&mut rest, ITEM)?];
        let (recents, items) = self.take_head(&place, past, recents, items)?;
        if first != self.next {
            return Err(JoinError::Order("it begins with another item"));
        }
        if rest.is_empty() && self.next < items {
            return Err(JoinError::Order("it has no items"));
        }
        while !rest.is_empty() {
            let item = bytes.slice_ref(part(&mut rest, ITEM)?);
            if self.next >= items {
                return Err(JoinError::Order("it has more items than the snapshot"));
            }
            if self.next < recents {
                self.take_recent(&item)?;
            } else {
                self.state.restore(&item)?;
            }
            self.next += 1;
        }
        if self.next < items {
            return Ok(Arrived::More(Box::new(self)));
        }
        match self.head {
            Some((head, ..)) if self.last.is_none_or(|last| last == head.cut.position) => {
                let snapshot = Snapshot { recent: self.recent, ..head.with_state(self.state) };
                Ok(Arrived::Whole(Box::new(snapshot)))
            }
            _ => Err(JoinError::Order("the recent packets end elsewhere")),
        }
    }

    /// Takes the head of a portion. That of a later portion must be the same.
    fn take_head(
        &mut self,
        place: &Bytes,
        past: &[u8],
        recents: u64,
        items: u64,
    ) -> Result<(u64, u64), JoinError> {
        let place = Batch::read(place)?;
        if place.count() != 0 {
            return Err(BatchError::Trailing(place.count() as usize).into());
        }
        let BatchHead { first: cut, rules_version, streams, .. } = place.head;
        match &self.head {
            Some((head, recents_known, items_known)) => {
                if (head.cut, *recents_known, *items_known) != (cut, recents, items) {
                    return Err(JoinError::Order("it is of another snapshot"));
                }
            }
            None => {
                let needed = self.needed;
                if cut.epoch != needed.epoch || cut.position < needed.position {
                    return Err(JoinError::Old { given: cut, needed });
                }
                if recents > items {
                    return Err(JoinError::Order("it has more recent packets than items"));
                }
                let (past, recent) = (read_lineage(past)?, Vec::new());
                let head = Snapshot { cut, past, rules_version, streams, recent, state: () };
                self.head = Some((head, recents, items));
            }
        }
        Ok((recents, items))
    }

    /// Takes a recent packet. Its events follow those of the one before.
    fn take_recent(&mut self, item: &Bytes) -> Result<(), JoinError> {
        const RECENT: BatchError = BatchError::Cut("the recent packets of a snapshot");
        // A copy, because a portion is large, and a packet is kept for as long as the log has it.
        let packet = Bytes::copy_from_slice(item);
        self.recent_bytes += packet.len();
        if self.recent_bytes > self.recent_bytes_max {
            return Err(JoinError::Recent { limit: self.recent_bytes_max });
        }
        let Ok(Down::Batch(batch)) = Down::read(&packet) else { return Err(RECENT.into()) };
        for event in batch.events() {
            event?;
        }
        if self.last.is_some_and(|last| batch.head.first.position != last + 1) {
            return Err(RECENT.into());
        }
        self.last = Some(batch.last());
        self.recent.push(packet);
        Ok(())
    }
}

fn put_part(out: &mut Vec<u8>, part: &[u8]) {
    put_number(out, part.len() as u64);
    out.extend_from_slice(part);
}

fn write_lineage(past: &Lineage) -> Vec<u8> {
    let mut out = Vec::new();
    for end in past.ends() {
        put_number(&mut out, end.epoch.into());
        put_number(&mut out, end.position);
    }
    out
}

fn read_lineage(mut bytes: &[u8]) -> Result<Lineage, BatchError> {
    const EPOCHS: BatchError = BatchError::Cut("its epochs");
    let mut ends = Vec::new();
    while !bytes.is_empty() && ends.len() <= EPOCHS_MAX {
        let epoch = u32::try_from(number(&mut bytes, "its epochs")?).map_err(|_| EPOCHS)?;
        ends.push(Cut { epoch, position: number(&mut bytes, "its epochs")? });
    }
    Lineage::new(ends).ok_or(EPOCHS)
}

#[cfg(test)]
pub(crate) mod tests;
