//! Reassembles payloads that arrive in chunks.
//!
//! A *stream of chunks* in the protocol lasts as long as one payload. It is unrelated to core's streams.
//!
//! A chunk is consumed as it arrives. The part that is already in the inbox's buffer is copied to its
//! payload; the rest is read from the socket directly into the payload.
//!
//! An announcement reserves no memory. If a free block of [`blocks`](crate::wire::blocks) fits, the payload
//! uses it. Otherwise its memory grows with the bytes that have arrived, up to the announced size. If the
//! announcing message is refused, its stream is *drained*: its chunks are counted and dropped, and the
//! connection goes on.

use crate::wire::blocks::Blocks;
use crate::wire::decode::put_payload;
use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::Announcement;
use crate::wire::{STREAMS_OPEN_MAX, announced_bytes_max};
use bytes::buf::Limit;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use treefold_core::limits::Limits;
use treefold_core::message::Message;

/// The first allocation for a stream, unless it announced less.
const FIRST_BYTES: usize = 128 << 10;
/// Growth factor of a full payload. The system maps pages of the reserved memory only when they are written.
const GROWTH: usize = 8;

#[derive(Debug)]
struct ChunkStream {
    number: u32,
    announced: u64,
    content: Content,
}

/// How a stream's chunks are handled.
#[derive(Debug)]
enum Content {
    /// The chunks are the message's payload. The vector holds the bytes that have arrived. The number is the length
    /// of the message's header.
    Kept(Message<Bytes>, Vec<u8>, usize),
    /// The chunks are dropped. Counts the dropped bytes.
    Drained(u64),
}

impl ChunkStream {
    fn arrived(&self) -> u64 {
        match &self.content {
            Content::Kept(_, payload, _) => payload.len() as u64,
            Content::Drained(bytes) => *bytes,
        }
    }
}

/// The chunk that is being received.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    /// Index of its stream in `open`.
    at: usize,
    /// Bytes of its stream that will have arrived when the chunk is complete.
    ends_at: u64,
}

/// The streams of chunks in one direction of one connection.
#[derive(Debug, Default)]
pub(super) struct ChunkStreams {
    open: Vec<ChunkStream>,
    chunk: Option<Chunk>,
    blocks: Blocks,
}

impl ChunkStreams {
    /// No open streams. Payloads take their memory from `blocks`.
    pub(super) fn new(blocks: Blocks) -> Self {
        Self { blocks, ..Self::default() }
    }

    /// True if no payload is incomplete.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Bytes of messages and payloads that wait for the rest of their chunks.
    pub(super) fn held_bytes(&self) -> usize {
        let held = |stream: &ChunkStream| match &stream.content {
            Content::Kept(_, payload, header_bytes) => payload.len() + header_bytes,
            Content::Drained(_) => 0,
        };
        self.open.iter().map(held).sum()
    }

    /// Opens a stream. Its chunks are drained unless [`Self::keep`] follows.
    ///
    /// # Errors
    /// If the payload is too large, alone or together with the other open payloads, the stream is drained.
    /// The error is fatal if there are too many streams or this one is already open.
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
        let kept = self.open.iter().filter(|stream| matches!(stream.content, Content::Kept(..)));
        let sum = kept.map(|stream| stream.announced).sum::<u64>().saturating_add(bytes);
        self.open.push(ChunkStream { number, announced: bytes, content: Content::Drained(0) });
        let whole = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        within("payload", limits.payload_bytes_max, whole(bytes))?;
        within("announced payloads", announced_bytes_max(limits), whole(sum))
    }

    /// Sets the message that owns the payload of the stream opened last.
    pub(super) fn keep(&mut self, message: Message<Bytes>, header_bytes: usize) {
        let stream = self.open.last_mut().expect("invariant: a stream was opened just before");
        let block = usize::try_from(stream.announced).ok().and_then(|bytes| self.blocks.take(bytes));
        stream.content = Content::Kept(message, block.unwrap_or_default(), header_bytes);
    }

    /// Begins to receive a chunk of `bytes` bytes, of which none has been taken yet.
    ///
    /// # Errors
    /// Fatal if the stream is not open or has no room for the chunk.
    pub(super) fn begin_chunk(&mut self, number: u32, bytes: usize) -> Result<(), WireError> {
        let refused = WireError::BadStream { stream: number };
        let at = self.open.iter().position(|stream| stream.number == number).ok_or(refused.clone())?;
        let ends_at = self.open[at].arrived() + bytes as u64;
        if bytes == 0 || ends_at > self.open[at].announced {
            return Err(refused);
        }
        self.chunk = Some(Chunk { at, ends_at });
        Ok(())
    }

    /// Bytes of the current chunk that have not arrived; 0 if the chunk is drained.
    pub(super) fn lacking(&self) -> usize {
        let Some(Chunk { at, ends_at }) = self.chunk else { return 0 };
        match &self.open[at].content {
            Content::Kept(_, payload, _) => ends_at as usize - payload.len(),
            Content::Drained(_) => 0,
        }
    }

    /// The buffer for the [lacking](Self::lacking) bytes, limited to that many.
    ///
    /// # Panics
    /// If no chunk is being received into a payload.
    pub(super) fn room(&mut self) -> Limit<&mut (dyn BufMut + Send)> {
        let lacking = self.lacking();
        let stream = self.chunk.map(|chunk| &mut self.open[chunk.at]);
        let Some(ChunkStream { announced, content: Content::Kept(_, payload, _), .. }) = stream else {
            panic!("no chunk is under way");
        };
        make_room(payload, *announced as usize);
        let room = lacking.min(payload.capacity() - payload.len());
        (payload as &mut (dyn BufMut + Send)).limit(room)
    }

    /// Takes the current chunk's bytes from the front of the buffer. Returns true if the chunk is still
    /// incomplete.
    pub(super) fn take_chunk(&mut self, buffer: &mut BytesMut) -> bool {
        let Some(Chunk { at, ends_at }) = self.chunk else { return false };
        let stream = &mut self.open[at];
        let bytes = (ends_at - stream.arrived()).min(buffer.len() as u64) as usize;
        match &mut stream.content {
            Content::Kept(_, payload, _) => {
                let mut rest = &buffer[..bytes];
                while !rest.is_empty() {
                    make_room(payload, stream.announced as usize);
                    let fits = rest.len().min(payload.capacity() - payload.len());
                    payload.extend_from_slice(&rest[..fits]);
                    rest = &rest[fits..];
                }
            }
            Content::Drained(dropped) => *dropped += bytes as u64,
        }
        buffer.advance(bytes);
        stream.arrived() < ends_at
    }

    /// Ends the current chunk, which is complete. Returns the message if it was the payload's last chunk.
    pub(super) fn end_chunk(&mut self) -> Option<Message<Bytes>> {
        let Chunk { at, ends_at } = self.chunk.take()?;
        if ends_at < self.open[at].announced {
            return None;
        }
        match self.open.swap_remove(at).content {
            Content::Kept(mut message, payload, _) => {
                put_payload(&mut message, self.blocks.lend(payload));
                Some(message)
            }
            Content::Drained(_) => None,
        }
    }
}

/// Grows a full payload's memory, up to the announced size.
fn make_room(payload: &mut Vec<u8>, announced: usize) {
    if payload.len() == payload.capacity() {
        let wanted = payload.capacity().saturating_mul(GROWTH).max(FIRST_BYTES).min(announced);
        payload.reserve_exact(wanted - payload.len());
    }
}
