//! The encoding of records.

/// Bytes of a record before its payload.
pub(crate) const HEAD_BYTES: usize = 24;
/// First bytes of a segment.
pub(crate) const MAGIC: &[u8; 4] = b"TFJ1";

/// A record in a segment's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) payload_bytes: usize,
    pub(crate) first: u64,
    pub(crate) last: u64,
    checksum: u32,
}

/// Appends a record to `out`.
pub(crate) fn write(out: &mut Vec<u8>, first: u64, last: u64, payload: &[u8]) {
    let head = Head { payload_bytes: payload.len(), first, last, checksum: 0 };
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&head.sum(payload).to_le_bytes());
    out.extend_from_slice(&first.to_le_bytes());
    out.extend_from_slice(&last.to_le_bytes());
    out.extend_from_slice(payload);
}

impl Head {
    /// Reads the head at the front of `bytes`. `None` if they are too short.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Self { payload_bytes: word(0)? as usize, checksum: word(4)?, first: long(8)?, last: long(16)? })
    }

    /// True if head and payload are as they were written.
    pub(crate) fn is_intact(&self, payload: &[u8]) -> bool {
        self.sum(payload) == self.checksum
    }

    fn sum(&self, payload: &[u8]) -> u32 {
        let mut sum = crc32c::crc32c(&(self.payload_bytes as u32).to_le_bytes());
        sum = crc32c::crc32c_append(sum, &self.first.to_le_bytes());
        sum = crc32c::crc32c_append(sum, &self.last.to_le_bytes());
        crc32c::crc32c_append(sum, payload)
    }
}
