//! The encoding of segments and records.
//!
//! Checksums begin with the *salt* of the segment, a random number. Without it, the payload of a torn record could
//! contain bytes that look like an intact record behind it: payloads come from strangers.

use std::hash::{BuildHasher, Hasher};

/// First bytes of a segment, before its salt.
const MAGIC: &[u8; 4] = b"TFJ2";
/// Bytes of a segment before its first record.
pub(crate) const SEGMENT_HEAD_BYTES: usize = 8;
/// Bytes of a record before its payload.
pub(crate) const HEAD_BYTES: usize = 36;

/// The number with which the checksums of a segment begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Salt(u32);

impl Salt {
    /// A salt that nobody can predict.
    pub(crate) fn random() -> Self {
        // Each hasher of the standard library has random keys.
        Self(std::hash::RandomState::new().build_hasher().finish() as u32)
    }

    /// Reads the first bytes of a segment.
    pub(crate) fn read(segment: &[u8]) -> Option<Self> {
        let salt = segment.strip_prefix(MAGIC)?.first_chunk()?;
        Some(Self(u32::from_le_bytes(*salt)))
    }

    /// The first bytes of a segment.
    pub(crate) fn segment_head(self) -> [u8; SEGMENT_HEAD_BYTES] {
        let mut head = [0; SEGMENT_HEAD_BYTES];
        head[..4].copy_from_slice(MAGIC);
        head[4..].copy_from_slice(&self.0.to_le_bytes());
        head
    }

    fn sum(self, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0, bytes)
    }
}

/// A record in a segment's bytes, with an intact head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) payload_bytes: usize,
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The last position that had been forced to the disk when this record was appended.
    pub(crate) synced: u64,
    payload_sum: u32,
}

/// Appends a record to `out`.
pub(crate) fn write(out: &mut Vec<u8>, salt: Salt, first: u64, last: u64, synced: u64, payload: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&salt.sum(payload).to_le_bytes());
    for position in [first, last, synced] {
        out.extend_from_slice(&position.to_le_bytes());
    }
    let sum = salt.sum(&out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(payload);
}

impl Head {
    /// Reads the head at the front of `bytes`. `None` if it is not whole.
    pub(crate) fn read(bytes: &[u8], salt: Salt) -> Option<Self> {
        let head: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let sum_at = HEAD_BYTES - 4;
        (salt.sum(&head[..sum_at]) == word(sum_at)).then(|| Self {
            payload_bytes: word(0) as usize,
            payload_sum: word(4),
            first: long(8),
            last: long(16),
            synced: long(24),
        })
    }

    /// The payload at the front of the bytes behind the head, if it is as it was written.
    pub(crate) fn payload<'a>(&self, behind: &'a [u8], salt: Salt) -> Option<&'a [u8]> {
        behind.get(..self.payload_bytes).filter(|payload| salt.sum(payload) == self.payload_sum)
    }
}
