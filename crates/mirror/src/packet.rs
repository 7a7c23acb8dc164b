//! Packets between an origin and its mirrors: down a stream, and up as votes.
//!
//! The stream keeps packets in order and loses none, so a packet says nothing about its place among others.

use crate::batch::{Batch, BatchError, number, position};
use crate::follow::MIRRORS_MAX;
use bytes::Bytes;
use treefold_core::encoding::numbers::put_number;

/// First byte of a packet that is a batch.
pub(crate) const BATCH: u8 = 1;
const CHECKPOINT: u8 = 2;
const COMMIT: u8 = 3;

/// A packet from the origin.
#[derive(Clone, Debug)]
pub enum Down {
    /// Events to apply.
    Batch(Batch),
    /// A request for votes (mirroring §3.2.1, `CHKPT`).
    Checkpoint(Checkpoint),
    /// All mirrors have applied the events up to this position (`COMMIT`).
    Commit {
        /// The position.
        position: u64,
    },
}

/// A request for votes on how far all mirrors have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Counts the checkpoints of this origin, from 1.
    pub number: u64,
    /// The last position that the origin has sent.
    pub position: u64,
}

/// The answer of one mirror, or of several folded into one: the position of each mirror that has answered, and
/// the maximum of the monitored values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The checkpoint that it answers.
    pub number: u64,
    /// The monitored values.
    pub monitored: Monitored,
    /// By the number of a mirror: its position, [`JOINING`] or [`SILENT`].
    held: Vec<i64>,
}

/// A mirror that has not answered, in a vote. It is greater than any position, so that a minimum keeps the
/// answers.
const SILENT: i64 = i64::MAX;
/// A mirror that waits for a snapshot, in a vote.
const JOINING: i64 = -1;

/// The answer of one mirror to a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// It waits for a snapshot, which has all events up to the checkpoint. It needs none of them again.
    Joins,
    /// It has applied the events up to this position.
    Has(u64),
}

/// The values by which an origin adapts (mirroring §3.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Monitored {
    /// Events that wait to be sent or applied.
    pub ready_queue: u64,
    /// Mirrored events that are not committed.
    pub backup_queue: u64,
    /// Requests of readers that wait.
    pub pending_requests: u64,
}

/// The reason why bytes are not a packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The first byte is not that of a known packet.
    #[error("a packet of unknown kind {0}")]
    Kind(u8),
    /// The packet is empty.
    #[error("an empty packet")]
    Empty,
    /// The content is invalid.
    #[error(transparent)]
    Content(#[from] BatchError),
}

impl Down {
    /// Reads a packet. A batch shares its bytes.
    ///
    /// # Errors
    /// If the bytes are not a packet.
    pub fn read(bytes: &Bytes) -> Result<Self, PacketError> {
        let (&kind, mut rest) = bytes.split_first().ok_or(PacketError::Empty)?;
        let packet = match kind {
            BATCH => return Ok(Self::Batch(Batch::read(&bytes.slice(1..))?)),
            CHECKPOINT => {
                let (number, position) =
                    (number(&mut rest, "a checkpoint")?, position(&mut rest, "a checkpoint")?);
                Self::Checkpoint(Checkpoint { number, position })
            }
            COMMIT => Self::Commit { position: position(&mut rest, "a commit")? },
            kind => return Err(PacketError::Kind(kind)),
        };
        if rest.is_empty() { Ok(packet) } else { Err(BatchError::Trailing(rest.len()).into()) }
    }

    pub(crate) fn write_checkpoint(checkpoint: Checkpoint) -> Bytes {
        let mut out = vec![CHECKPOINT];
        put_number(&mut out, checkpoint.number);
        put_number(&mut out, checkpoint.position);
        out.into()
    }

    pub(crate) fn is_checkpoint(packet: &[u8]) -> bool {
        packet.first() == Some(&CHECKPOINT)
    }

    pub(crate) fn write_commit(position: u64) -> Bytes {
        let mut out = vec![COMMIT];
        put_number(&mut out, position);
        out.into()
    }
}

impl Vote {
    /// The vote of mirror `mirror` of a feed of at most `total` mirrors.
    ///
    /// # Panics
    /// If `mirror` is not below `total`.
    pub fn of(mirror: u32, total: u32, number: u64, holding: Holding, monitored: Monitored) -> Self {
        let mut held = vec![SILENT; total as usize];
        held[mirror as usize] = match holding {
            Holding::Joins => JOINING,
            Holding::Has(position) => limited(position),
        };
        Self { number, monitored, held }
    }

    /// The number of mirrors that the feed may have.
    pub fn total(&self) -> u32 {
        self.held.len() as u32
    }

    /// The answers of the mirrors that have answered, by their numbers.
    pub fn holdings(&self) -> impl Iterator<Item = (u32, Holding)> + '_ {
        let answered = (0..).zip(&self.held).filter(|&(_, &held)| held != SILENT);
        answered.map(|(mirror, &held)| (mirror, u64::try_from(held).map_or(Holding::Joins, Holding::Has)))
    }

    /// The vote as numbers: the minimum of two votes, number by number, is [`folded`](Self::folded). So a
    /// stream's filter `min` folds votes.
    pub fn to_numbers(&self) -> ([i64; 4], &[i64]) {
        let Monitored { ready_queue, backup_queue, pending_requests } = self.monitored;
        let greatest = [ready_queue, backup_queue, pending_requests].map(|value| -limited(value));
        ([limited(self.number), greatest[0], greatest[1], greatest[2]], &self.held)
    }

    /// Reads [`to_numbers`](Self::to_numbers). `None` if a number has the wrong sign, or there are too many mirrors.
    pub fn from_numbers([number, ready, backup, pending]: [i64; 4], held: Vec<i64>) -> Option<Self> {
        let greatest = |value: i64| u64::try_from(value.checked_neg()?).ok();
        let monitored = Monitored {
            ready_queue: greatest(ready)?,
            backup_queue: greatest(backup)?,
            pending_requests: greatest(pending)?,
        };
        let is_valid = held.len() <= MIRRORS_MAX as usize && held.iter().all(|&held| held >= JOINING);
        is_valid.then_some(Self { number: u64::try_from(number).ok()?, monitored, held })
    }

    /// Folds two votes of mirrors of one feed. The fold is associative and commutative.
    ///
    /// # Panics
    /// If the votes are of feeds with another number of mirrors.
    pub fn folded(self, other: Self) -> Self {
        assert_eq!(self.held.len(), other.held.len(), "votes of one feed");
        let (a, b) = (self.monitored, other.monitored);
        Self {
            // Votes on different checkpoints are never folded; the lesser number promises less.
            number: self.number.min(other.number),
            held: self.held.into_iter().zip(other.held).map(|(a, b)| a.min(b)).collect(),
            monitored: Monitored {
                ready_queue: a.ready_queue.max(b.ready_queue),
                backup_queue: a.backup_queue.max(b.backup_queue),
                pending_requests: a.pending_requests.max(b.pending_requests),
            },
        }
    }
}

/// A number of a vote. A position never reaches the number of a silent mirror.
fn limited(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(SILENT - 1).min(SILENT - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn votes() -> impl Strategy<Value = Vote> {
        let held = prop::collection::vec(prop_oneof![Just(SILENT), JOINING..9], 3);
        (0u64..9, 0u64..9, 0u64..9, 0u64..9, held).prop_map(
            |(number, ready_queue, backup_queue, pending_requests, held)| Vote {
                number,
                monitored: Monitored { ready_queue, backup_queue, pending_requests },
                held,
            },
        )
    }

    proptest! {
        #[test]
        fn minimum_of_numbers_is_the_folded_vote(a in votes(), b in votes()) {
            let ((x, held_x), (y, held_y)) = (a.to_numbers(), b.to_numbers());
            let least = std::array::from_fn(|at| x[at].min(y[at]));
            let held = held_x.iter().zip(held_y).map(|(x, y)| *x.min(y)).collect();
            prop_assert_eq!(Vote::from_numbers(least, held), Some(a.folded(b)));
        }
    }

    #[test]
    fn folded_vote_has_the_answer_of_each_mirror() {
        let of = |mirror, holding| Vote::of(mirror, 4, 1, holding, Monitored::default());
        let folded =
            of(0, Holding::Has(7)).folded(of(2, Holding::Joins)).folded(of(3, Holding::Has(u64::MAX)));
        let greatest = Holding::Has(i64::MAX as u64 - 1);
        let answers: Vec<_> = folded.holdings().collect();
        assert_eq!(answers, [(0, Holding::Has(7)), (2, Holding::Joins), (3, greatest)], "mirror 1 is silent");
    }

    #[test]
    fn numbers_of_the_wrong_sign_are_no_vote() {
        for wrong in [[-1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, i64::MIN]] {
            assert_eq!(Vote::from_numbers(wrong, vec![0]), None);
        }
        assert_eq!(Vote::from_numbers([0; 4], vec![-2]), None);
    }
}
