//! Payloads that come in chunks, put together again. What the protocol calls a *stream of chunks* lasts as long as one
//! payload does, and has nothing to do with core's streams.
//!
//! A chunk is taken in as it comes, not when it is whole: what of it is in the inbox's buffer already is moved to its
//! payload, and the rest is read from the socket straight into it.
//!
//! An announcement reserves nothing: a payload gets memory that is free already, if some [`blocks`](crate::wire::blocks)
//! fits; else its memory grows with what has arrived, up to what was announced. When the announcing
//! message is refused, its stream is *drained*: its chunks are counted and dropped, and the connection goes on.

use crate::wire::blocks::Blocks;
use crate::wire::decode::put_payload;
use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::Announcement;
use crate::wire::{STREAMS_OPEN_MAX, announced_bytes_max};
use bytes::buf::Limit;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use treefold_core::limits::Limits;
use treefold_core::message::Message;

/// What a stream's memory starts with, unless less was announced.
const FIRST_BYTES: usize = 128 << 10;
/// How many times larger it gets when it is full. Of what is reserved the system gives pages as they are written to.
const GROWTH: usize = 8;

#[derive(Debug)]
struct ChunkStream {
    number: u32,
    announced: u64,
    content: Content,
}

/// What becomes of a stream's chunks.
#[derive(Debug)]
enum Content {
    /// They are the message's payload, of which so much is here.
    Kept(Message<Bytes>, Vec<u8>),
    /// They are dropped; so many bytes have been.
    Drained(u64),
}

impl ChunkStream {
    fn arrived(&self) -> u64 {
        match &self.content {
            Content::Kept(_, payload) => payload.len() as u64,
            Content::Drained(bytes) => *bytes,
        }
    }
}

/// The chunk that is being taken in.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    /// Its stream's place among the open.
    at: usize,
    /// What will have arrived of its stream with it.
    ends_at: u64,
}

/// The streams of one direction of one connection.
#[derive(Debug, Default)]
pub(super) struct ChunkStreams {
    open: Vec<ChunkStream>,
    chunk: Option<Chunk>,
    blocks: Blocks,
}

impl ChunkStreams {
    /// None yet; payloads have their memory from there.
    pub(super) fn new(blocks: Blocks) -> Self {
        Self { blocks, ..Self::default() }
    }

    /// True while nothing of any payload is to come.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

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
        let kept = self.open.iter().filter(|stream| matches!(stream.content, Content::Kept(..)));
        let sum = kept.map(|stream| stream.announced).sum::<u64>().saturating_add(bytes);
        self.open.push(ChunkStream { number, announced: bytes, content: Content::Drained(0) });
        let whole = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        within("payload", limits.payload_bytes_max, whole(bytes))?;
        within("announced payloads", announced_bytes_max(limits), whole(sum))
    }

    /// The message that the payload of the stream opened last belongs to.
    pub(super) fn keep(&mut self, message: Message<Bytes>) {
        let stream = self.open.last_mut().expect("invariant: a stream was opened just before");
        let block = usize::try_from(stream.announced).ok().and_then(|bytes| self.blocks.take(bytes));
        stream.content = Content::Kept(message, block.unwrap_or_default());
    }

    /// Begins to take in a chunk of so many bytes, none of which has been taken yet.
    ///
    /// # Errors
    /// Fatal when the stream is not open or has no room for it.
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

    /// Bytes that are still to come of the chunk under way; none when it is dropped.
    pub(super) fn lacking(&self) -> usize {
        let Some(Chunk { at, ends_at }) = self.chunk else { return 0 };
        match &self.open[at].content {
            Content::Kept(_, payload) => ends_at as usize - payload.len(),
            Content::Drained(_) => 0,
        }
    }

    /// Where what is [lacking](Self::lacking) is to be read to, and no more than that.
    ///
    /// # Panics
    /// When nothing is.
    pub(super) fn room(&mut self) -> Limit<&mut (dyn BufMut + Send)> {
        let lacking = self.lacking();
        let stream = self.chunk.map(|chunk| &mut self.open[chunk.at]);
        let Some(ChunkStream { announced, content: Content::Kept(_, payload), .. }) = stream else {
            panic!("no chunk is under way");
        };
        make_room(payload, *announced as usize);
        let room = lacking.min(payload.capacity() - payload.len());
        (payload as &mut (dyn BufMut + Send)).limit(room)
    }

    /// Takes from the buffer's front what belongs to the chunk under way. True when that chunk is still not whole.
    pub(super) fn take_chunk(&mut self, buffer: &mut BytesMut) -> bool {
        let Some(Chunk { at, ends_at }) = self.chunk else { return false };
        let stream = &mut self.open[at];
        let bytes = (ends_at - stream.arrived()).min(buffer.len() as u64) as usize;
        match &mut stream.content {
            Content::Kept(_, payload) => {
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

    /// Ends the chunk under way, which is whole; gives the message when it was the payload's last.
    pub(super) fn end_chunk(&mut self) -> Option<Message<Bytes>> {
        let Chunk { at, ends_at } = self.chunk.take()?;
        if ends_at < self.open[at].announced {
            return None;
        }
        match self.open.swap_remove(at).content {
            Content::Kept(mut message, payload) => {
                put_payload(&mut message, self.blocks.lend(payload));
                Some(message)
            }
            Content::Drained(_) => None,
        }
    }
}

/// Makes a payload's memory larger when it is full, up to what was announced.
fn make_room(payload: &mut Vec<u8>, announced: usize) {
    if payload.len() == payload.capacity() {
        let wanted = payload.capacity().saturating_mul(GROWTH).max(FIRST_BYTES).min(announced);
        payload.reserve_exact(wanted - payload.len());
    }
}
