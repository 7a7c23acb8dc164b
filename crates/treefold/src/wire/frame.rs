//! The fixed prefix of every frame.
//!
//! ```text
//!  0        4      5      6               10        18         26       30            30+h        4+length
//!  ┌────────┬──────┬──────┬───────────────┬─────────┬──────────┬────────┬─────────────┬───────────┐
//!  │ length │ kind │flags │ header_length │ origin  │ sequence │ branch │ header      │ payload   │
//!  │ u32    │ u8   │ u8   │ u32  = h      │ u64     │ u64      │ u32    │ protobuf    │ raw bytes │
//!  └────────┴──────┴──────┴───────────────┴─────────┴──────────┴────────┴─────────────┴───────────┘
//! ```
//!
//! All numbers are little-endian; `length` counts the bytes after itself. The prefix always has thirty bytes,
//! so a reader finds every field at a fixed offset. A `Grant` or `Cancel` contains only its tag and is the
//! prefix alone. The form of this prefix, and of `Hello` and `Fault`, never changes between versions, because
//! two versions use them to find out about each other.

use crate::wire::error::WireError;
use treefold_core::id::{Tag, WaveId};

/// Bytes of the prefix.
pub(super) const PREFIX_BYTES: usize = 30;
/// Bytes of the length field at the front, which `length` does not count.
pub(super) const LENGTH_BYTES: usize = 4;
/// The least valid length: the rest of the prefix.
pub(super) const LENGTH_LEAST: usize = PREFIX_BYTES - LENGTH_BYTES;

/// The frame has a payload, which may be empty.
pub(super) const FLAG_PAYLOAD: u8 = 1;
/// The payload follows in chunks; the payload field announces the stream. Set only together with
/// [`FLAG_PAYLOAD`].
pub(super) const FLAG_CHUNKED: u8 = 2;

/// The tag of kinds that are about no wave.
pub(super) const NO_TAG: Tag = Tag { wave: WaveId { origin: 0, sequence: 0 }, branch: 0 };

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// The kind of a frame.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum Kind { $($(#[$doc])* $name = $number,)* }

        impl Kind {
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$name,)*];

            pub(super) fn from_number(number: u8) -> Result<Self, WireError> {
                match number {
                    $($number => Ok(Self::$name),)*
                    kind => Err(WireError::UnknownKind { kind }),
                }
            }
        }
    };
}

kinds! {
    /// The sender's name and protocol versions; the first frame of each side.
    Hello = 1,
    /// Why the sender is about to close this connection.
    Fault = 2,
    /// A piece of a payload that an earlier frame announced.
    Chunk = 3,
    /// [`super::Launch`]: the start of a network of processes.
    Launch = 4,
    /// [`super::GroupKey`]: the keys of datagrams.
    Keys = 5,
    /// [`super::Renewal`]: the sender has another certificate than when the session began.
    Renewal = 6,
    /// `Message::Call`.
    Call = 16,
    /// `Message::Partial`.
    Partial = 17,
    /// `Message::Offer`.
    Offer = 18,
    /// `Message::Grant`.
    Grant = 19,
    /// `Message::Cancel`.
    Cancel = 20,
    /// `Message::Request`.
    Request = 32,
    /// `Message::Reply`.
    Reply = 33,
    /// `Message::CancelRequest`.
    CancelRequest = 34,
    /// `Message::Cards`.
    Cards = 48,
    /// `Message::WantCards`.
    WantCards = 49,
    /// `Message::StatusRequest`.
    StatusRequest = 50,
    /// `Message::Status`.
    Status = 51,
    /// `Message::OperatorRequest`.
    OperatorRequest = 52,
    /// `Message::OperatorReply`.
    OperatorReply = 53,
    /// `Message::SharesRequest`.
    SharesRequest = 54,
    /// `Message::SharesReply`.
    SharesReply = 55,
    /// `Message::Gossip`.
    Gossip = 56,
    /// `Message::OperatorWant`.
    OperatorWant = 57,
    /// `Message::OperatorLent`.
    OperatorLent = 58,
    /// `Message::PlacementRequest`.
    PlacementRequest = 59,
    /// `Message::PlacementReply`.
    PlacementReply = 60,
    /// `Message::ReducesWant`.
    ReducesWant = 61,
    /// `Message::Reduces`.
    Reduces = 62,
    /// `StreamMessage::Open`.
    StreamOpen = 64,
    /// `StreamMessage::Up`.
    StreamUp = 65,
    /// `StreamMessage::Down`.
    StreamDown = 66,
    /// `StreamMessage::Settled`.
    StreamSettled = 67,
    /// `StreamMessage::Taken`.
    StreamTaken = 68,
    /// `StreamMessage::News`.
    StreamNews = 69,
    /// `StreamMessage::Beat`.
    StreamBeat = 70,
    /// `StreamMessage::Close`.
    StreamClose = 71,
    /// `StreamMessage::Ahead`.
    StreamAhead = 72,
    /// `StreamMessage::WantOperator`.
    StreamWantOperator = 73,
    /// `StreamMessage::Operator`.
    StreamOperator = 74,
    /// `StreamMessage::Report`.
    StreamReport = 75,
    /// `StreamMessage::Run`.
    StreamRun = 76,
    /// `StreamMessage::Missed`.
    StreamMissed = 77,
    /// `PushMessage::Attach`.
    PushAttach = 80,
    /// `PushMessage::Attached`.
    PushAttached = 81,
    /// `PushMessage::Push`.
    Push = 82,
    /// `PushMessage::Failed`.
    PushFailed = 83,
    /// `PushMessage::Wanted`.
    PushWanted = 84,
    /// `PushMessage::Taken`.
    PushTaken = 85,
    /// `PushMessage::Ended`.
    PushEnded = 86,
}

/// A frame's prefix. The kind is a number, because a later version may send a kind that is unknown here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    /// Bytes of the frame after the length itself.
    pub(super) length: u32,
    /// The kind's number.
    pub(super) kind: u8,
    /// [`FLAG_PAYLOAD`] and [`FLAG_CHUNKED`]; the other bits are sent as zero and ignored.
    pub(super) flags: u8,
    /// Bytes of the header.
    pub(super) header_length: u32,
    /// The part of a wave that the frame is about, or [`NO_TAG`]. For a stream: its id in the wave's place,
    /// and branch 0.
    pub(super) tag: Tag,
}

impl Prefix {
    /// Encodes the prefix.
    pub(super) fn to_bytes(self) -> [u8; PREFIX_BYTES] {
        let mut bytes = [0; PREFIX_BYTES];
        bytes[0..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4] = self.kind;
        bytes[5] = self.flags;
        bytes[6..10].copy_from_slice(&self.header_length.to_le_bytes());
        bytes[10..18].copy_from_slice(&self.tag.wave.origin.to_le_bytes());
        bytes[18..26].copy_from_slice(&self.tag.wave.sequence.to_le_bytes());
        bytes[26..30].copy_from_slice(&self.tag.branch.to_le_bytes());
        bytes
    }

    /// Decodes the prefix at the front of `bytes`; `None` if there are too few bytes.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; PREFIX_BYTES] = bytes.first_chunk()?;
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        Some(Self {
            length: u32_at(0),
            kind: bytes[4],
            flags: bytes[5],
            header_length: u32_at(6),
            tag: Tag { wave: WaveId { origin: u64_at(10), sequence: u64_at(18) }, branch: u32_at(26) },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_reads_as_it_was_written() {
        let prefix = Prefix {
            length: 0x0102_0304,
            kind: Kind::Partial as u8,
            flags: FLAG_PAYLOAD,
            header_length: 0x0506_0708,
            tag: Tag { wave: WaveId { origin: 0x1122_3344_5566_7788, sequence: 9 }, branch: 0xaabb_ccdd },
        };
        let bytes = prefix.to_bytes();
        assert_eq!(bytes[..6], [4, 3, 2, 1, 17, 1]);
        assert_eq!(Prefix::read(&bytes), Some(prefix));
        assert_eq!(Prefix::read(&bytes[..29]), None);
    }

    #[test]
    fn kinds_are_numbered_both_ways() {
        for &kind in Kind::ALL {
            assert_eq!(Kind::from_number(kind as u8), Ok(kind));
        }
        assert_eq!(Kind::from_number(99), Err(WireError::UnknownKind { kind: 99 }));
    }
}
