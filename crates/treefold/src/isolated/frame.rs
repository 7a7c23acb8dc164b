//! The two messages between a node and a process that runs its locals: a length (u64, little-endian), and postcard.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read};
use std::time::Duration;
use treefold_core::id::PartitionId;
use treefold_core::wave::slice::Slice;

/// Room in an answer beside its partial.
pub(super) const ANSWER_HEAD_BYTES: usize = 64 << 10;
/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 8;

/// A local to run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ask {
    pub(super) aggregation: String,
    pub(super) partition: PartitionId,
    pub(super) wanted: Wanted,
    pub(super) params: Bytes,
    /// The reduce's parameters, if it has any of its own.
    pub(super) reduce: Option<Bytes>,
}

/// The parts of a partial that are asked for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Wanted {
    /// One slice alone; the whole is slice 0 of 1.
    Slice(Slice),
    /// The partial, cut into so many slices.
    All(u32),
}

/// The news of a process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// First: it has loaded its data.
    Ready,
    /// The partial or its slices, and the processor time that they took.
    Done { parts: Vec<Bytes>, cost: Duration },
    /// The local has failed.
    Failed { text: String, is_of_params: bool },
    /// The local has panicked.
    Panicked { text: String },
}

/// Encodes a message with its length.
pub(super) fn encoded(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let body = postcard::to_allocvec(message).map_err(io::Error::other)?;
    Ok([&(body.len() as u64).to_le_bytes()[..], &body].concat())
}

/// Reads a message of up to `bytes_max` bytes. Memory grows with the bytes that have come.
///
/// # Errors
/// If the other side has closed the socket, or sends something else.
pub(super) fn read<M: DeserializeOwned>(from: &mut impl Read, bytes_max: usize) -> io::Result<M> {
    let mut length = [0; LENGTH_BYTES];
    from.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > bytes_max as u64 {
        return Err(io::Error::other(format!("a message of {length} bytes; allowed: {bytes_max}")));
    }
    let mut body = Vec::new();
    if from.take(length).read_to_end(&mut body)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&body).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_or_not_at_all() {
        let done = Answer::Done {
            parts: vec![Bytes::from_static(b"a"), Bytes::new()],
            cost: Duration::from_nanos(7),
        };
        let bytes = encoded(&done).unwrap();
        let read = |bytes: &[u8], max| super::read::<Answer>(&mut &bytes[..], max);
        assert_eq!(format!("{:?}", read(&bytes, 100).unwrap()), format!("{done:?}"));
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut], 100).unwrap_err().kind(), io::ErrorKind::UnexpectedEof, "{cut}");
        }
        let long = read(&bytes, bytes.len() - LENGTH_BYTES - 1).unwrap_err().to_string();
        assert!(long.contains("allowed"), "{long}");
        assert!(read(&[1, 0, 0, 0, 0, 0, 0, 0, 9], 100).is_err(), "no such answer");
    }
}
