//! Packets between an origin and its mirrors: down a stream, and up as votes.
//!
//! The stream keeps packets in order and loses none, so a packet says nothing about its place among others.

use crate::batch::{Batch, BatchError, number};
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

/// The answer of one mirror, or of several folded into one: the minimum of positions, the maximum of the
/// monitored values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The checkpoint that it answers.
    pub number: u64,
    /// The last position that is applied, at most that of the checkpoint.
    pub position: u64,
    /// The monitored values.
    pub monitored: Monitored,
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
                    (number(&mut rest, "a checkpoint")?, number(&mut rest, "a checkpoint")?);
                Self::Checkpoint(Checkpoint { number, position })
            }
            COMMIT => Self::Commit { position: number(&mut rest, "a commit")? },
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

    pub(crate) fn write_commit(position: u64) -> Bytes {
        let mut out = vec![COMMIT];
        put_number(&mut out, position);
        out.into()
    }
}

impl Vote {
    /// The vote as numbers: the minimum of two votes, number by number, is [`folded`](Self::folded). So a
    /// stream's filter `min` folds votes.
    pub fn to_numbers(self) -> [i64; 5] {
        let number = |value| i64::try_from(value).unwrap_or(i64::MAX);
        let Monitored { ready_queue, backup_queue, pending_requests } = self.monitored;
        let greatest = [ready_queue, backup_queue, pending_requests].map(|value| -number(value));
        [number(self.number), number(self.position), greatest[0], greatest[1], greatest[2]]
    }

    /// Reads [`to_numbers`](Self::to_numbers). `None` if a number has the wrong sign.
    pub fn from_numbers([number, position, ready, backup, pending]: [i64; 5]) -> Option<Self> {
        let least = |value: i64| u64::try_from(value).ok();
        let greatest = |value: i64| least(value.checked_neg()?);
        let monitored = Monitored {
            ready_queue: greatest(ready)?,
            backup_queue: greatest(backup)?,
            pending_requests: greatest(pending)?,
        };
        Some(Self { number: least(number)?, position: least(position)?, monitored })
    }

    /// Folds two votes on one checkpoint. The fold is associative and commutative.
    pub fn folded(self, other: Self) -> Self {
        let (a, b) = (self.monitored, other.monitored);
        Self {
            // Votes on different checkpoints are never folded; the lesser number promises less.
            number: self.number.min(other.number),
            position: self.position.min(other.position),
            monitored: Monitored {
                ready_queue: a.ready_queue.max(b.ready_queue),
                backup_queue: a.backup_queue.max(b.backup_queue),
                pending_requests: a.pending_requests.max(b.pending_requests),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn votes() -> impl Strategy<Value = Vote> {
        (0u64..9, 0u64..9, 0u64..9, 0u64..9, 0u64..9).prop_map(
            |(number, position, ready_queue, backup_queue, pending_requests)| Vote {
                number,
                position,
                monitored: Monitored { ready_queue, backup_queue, pending_requests },
            },
        )
    }

    proptest! {
        #[test]
        fn minimum_of_numbers_is_the_folded_vote(a in votes(), b in votes()) {
            let (x, y) = (a.to_numbers(), b.to_numbers());
            let least = std::array::from_fn(|at| x[at].min(y[at]));
            prop_assert_eq!(Vote::from_numbers(least), Some(a.folded(b)));
        }
    }

    #[test]
    fn numbers_of_the_wrong_sign_are_no_vote() {
        for wrong in [[-1, 0, 0, 0, 0], [0, -1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, i64::MIN]] {
            assert_eq!(Vote::from_numbers(wrong), None);
        }
    }
}
