//! Payloads that come in chunks, put together again. What the protocol calls a *stream of chunks* lasts as long as one
//! payload does, and has nothing to do with core's streams.
//!
//! An announcement reserves nothing: memory grows with what has arrived, doubling, up to what was announced.
//! When the announcing message is refused, its stream is *drained*: its chunks are counted and dropped, and
//! the connection goes on.

use crate::wire::decode::put_payload;
use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::Announcement;
use crate::wire::{STREAMS_OPEN_MAX, announced_bytes_max};
use bytes::Bytes;
use treefold_core::limits::Limits;
use treefold_core::message::Message;

/// What a stream's memory starts with, unless less was announced.
const FIRST_BYTES: usize = 128 << 10;

#[derive(Debug)]
struct ChunkStream {
    number: u32,
    announced: u64,
    arrived: u64,
    /// The message, and its payload so far; `None` for a stream that is drained.
    message: Option<(Message<Bytes>, Vec<u8>)>,
}

/// The streams of one direction of one connection.
#[derive(Debug, Default)]
pub(super) struct ChunkStreams {
    open: Vec<ChunkStream>,
}

impl ChunkStreams {
    /// Opens a stream to be drained, unless [`Self::keep`] follows.
    ///
    /// # Errors
    /// When the payload is too large, alone or with the others: it will be drained. Fatal when there are too
    /// many streams, or this one is open already.
    pub(super) fn open(&mut self, announcement: Announcement, limits: &Limits) -> Result<(), WireError> {
        let Announcement { stream: number, bytes } = announcement;
        if bytes == 0 {
            return Err(malformed("announcement"));
        }
        if self.open.iter().any(|stream| stream.number == number) {
            return Err(WireError::BadStream { stream: number });
        }
        if self.open.len() == STREAMS_OPEN_MAX {
            let limit = STREAMS_OPEN_MAX as u64;
            return Err(WireError::TooManyStreams { limit, got: limit + 1 });
        }
        let kept = self.open.iter().filter(|stream| stream.message.is_some());
        let sum = kept.map(|stream| stream.announced).sum::<u64>().saturating_add(bytes);
        self.open.push(ChunkStream { number, announced: bytes, arrived: 0, message: None });
        let whole = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        within("payload", limits.payload_bytes_max, whole(bytes))?;
        within("announced payloads", announced_bytes_max(limits), whole(sum))
    }

    /// The message that the payload of the stream opened last belongs to.
    pub(super) fn keep(&mut self, message: Message<Bytes>) {
        let stream = self.open.last_mut().expect("invariant: a stream was opened just before");
        stream.message = Some((message, Vec::new()));
    }

    /// Takes in a chunk, and returns the message when it was the last.
    ///
    /// # Errors
    /// Fatal when the stream is not open or has no room for it.
    pub(super) fn take_chunk(
        &mut self,
        number: u32,
        chunk: &[u8],
    ) -> Result<Option<Message<Bytes>>, WireError> {
        let refused = WireError::BadStream { stream: number };
        let Some(at) = self.open.iter().position(|stream| stream.number == number) else {
            return Err(refused);
        };
        let stream = &mut self.open[at];
        stream.arrived += chunk.len() as u64;
        if chunk.is_empty() || stream.arrived > stream.announced {
            return Err(refused);
        }
        if let Some((_, payload)) = &mut stream.message {
            make_room(payload, chunk.len(), stream.announced as usize);
            payload.extend_from_slice(chunk);
        }
        if stream.arrived < stream.announced {
            return Ok(None);
        }
        Ok(self.open.swap_remove(at).message.map(|(mut message, payload)| {
            put_payload(&mut message, payload.into());
            message
        }))
    }
}

/// Makes room for so many bytes more, of `announced` in all.
fn make_room(payload: &mut Vec<u8>, bytes: usize, announced: usize) {
    let needed = payload.len() + bytes;
    if needed > payload.capacity() {
        let wanted = payload.capacity().saturating_mul(2).max(FIRST_BYTES).min(announced).max(needed);
        payload.reserve_exact(wanted - payload.len());
    }
}
