//! The receiving half of a connection.
//!
//! Bytes are read directly into the inbox's buffer, and messages are taken from its front. As long as all
//! payloads are small, the buffer is reused. A frame with a long payload is split off, and the payload is a
//! slice of it. While a chunk is being received, bytes are read directly into its payload, without another
//! copy. Between chunks only little is read at a time, so that most of the next chunk takes this path.

use crate::credentials::Renewal;
use crate::group_keys::GroupKey;
use crate::wire::blocks::Blocks;
use crate::wire::chunks::ChunkStreams;
use crate::wire::decode::{Decoder, decoded};
use crate::wire::error::{WireError, malformed, within};
use crate::wire::frame::{
    FLAG_CHUNKED, FLAG_PAYLOAD, Kind, LENGTH_BYTES, LENGTH_LEAST, PREFIX_BYTES, Prefix,
};
use crate::wire::header::ChunkHeader;
use crate::wire::hello::{Fault, Hello};
use crate::wire::keys;
use crate::wire::launch::Launch;
use crate::wire::renewal;
use crate::wire::{COPIED_BYTES_MAX, HELLO_BYTES_MAX};
use bytes::buf::Limit;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use treefold_core::limits::Limits;
use treefold_core::message::Message;
use treefold_operators::codec::short::copied;

/// Room for a read if the length of the next frame is unknown.
const READ_BYTES: usize = 16 << 10;
/// If less room than this is left, the buffer grows.
const READ_BYTES_LEAST: usize = 4 << 10;
/// The most room made for one read, even if the current frame is longer.
const READ_BYTES_MOST: usize = 256 << 10;
/// The most that is read at a time between two chunks: the next chunk's header, and few bytes that would have
/// to be copied.
const READ_BYTES_BETWEEN: usize = 1 << 10;
/// An empty buffer with more capacity than this is freed.
const IDLE_BYTES_MAX: usize = 64 << 10;

/// An item received from a peer.
#[derive(Clone, Debug)]
pub enum Incoming {
    /// The peer's greeting, always first.
    Hello(Hello),
    /// The peer will close the connection for this reason.
    Fault(Fault),
    /// A message about the start of a network of processes.
    Launch(Box<Launch>),
    /// The keys of datagrams.
    Keys(Vec<GroupKey>),
    /// The proof that the peer has another certificate than when the session began.
    Renewal(Box<Renewal>),
    /// A message.
    Message(Message<Bytes>),
}

/// Decodes bytes from a peer to messages.
///
/// The driver's loop is: read into [`read_buffer`](Self::read_buffer), then call [`next`](Self::next) until
/// it returns `None`. Bytes that have already been read elsewhere are [`put`](Self::put) instead.
#[derive(Debug)]
pub struct Inbox {
    decoder: Decoder,
    buffer: BytesMut,
    streams: ChunkStreams,
    /// True after the peer's greeting has arrived.
    is_greeted: bool,
    /// How many trees the peer keeps, by its greeting.
    peer_trees: u32,
    /// True if the peer knows parameters of the reduce, by its greeting.
    peer_takes_reduce_params: bool,
    /// The fatal error after which nothing more can be read.
    broken: Option<WireError>,
}

/// The result of taking a frame.
enum Taken {
    /// The frame has not arrived completely.
    Incomplete,
    /// The frame began a chunk or a chunked payload, whose bytes follow.
    Begun,
    /// An item for the driver.
    Came(Incoming),
}

impl Inbox {
    /// An empty inbox.
    pub fn new(limits: Limits) -> Self {
        Self::with_blocks(limits, Blocks::default())
    }

    /// An empty inbox whose large payloads take their memory from `blocks`.
    pub(crate) fn with_blocks(limits: Limits, blocks: Blocks) -> Self {
        Self {
            decoder: Decoder::new(limits),
            buffer: BytesMut::new(),
            streams: ChunkStreams::new(blocks),
            is_greeted: false,
            peer_trees: 0,
            peer_takes_reduce_params: false,
            broken: None,
        }
    }

    /// The buffer for the next read, with limited room. Call this before every read.
    pub fn read_buffer(&mut self) -> Limit<&mut (dyn BufMut + Send)> {
        if self.buffer.is_empty() && self.streams.lacking() > 0 {
            return self.streams.room();
        }
        if self.buffer.is_empty() && self.buffer.capacity() > IDLE_BYTES_MAX {
            self.buffer = BytesMut::new();
        }
        let lacking = self.frame_bytes().map_or(0, |bytes| bytes.saturating_sub(self.buffer.len()));
        let room = self.buffer.capacity() - self.buffer.len();
        if room < lacking.clamp(READ_BYTES_LEAST, READ_BYTES_MOST) {
            self.buffer.reserve(lacking.clamp(READ_BYTES, READ_BYTES_MOST));
        }
        let most = if self.streams.is_empty() { usize::MAX } else { lacking.max(READ_BYTES_BETWEEN) };
        let room = self.buffer.capacity() - self.buffer.len();
        (&mut self.buffer as &mut (dyn BufMut + Send)).limit(room.min(most))
    }

    /// How many trees the peer keeps for this side ([`Outbox::keep_trees`](crate::wire::Outbox::keep_trees)); 0 before
    /// its greeting.
    pub fn peer_trees(&self) -> u32 {
        self.peer_trees
    }

    /// True if the peer knows parameters of the reduce ([`Outbox::heed`](crate::wire::Outbox::heed)); false before its greeting.
    pub(crate) fn peer_takes_reduce_params(&self) -> bool {
        self.peer_takes_reduce_params
    }

    /// Bytes that have arrived of frames and payloads that are still incomplete.
    pub(crate) fn unfinished_bytes(&self) -> usize {
        self.buffer.len() + self.streams.held_bytes()
    }

    /// Adds bytes from the peer that were read elsewhere.
    pub fn put(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next item; `None` if more bytes are needed.
    ///
    /// # Errors
    /// If a frame is malformed. After a [fatal](WireError::is_fatal) error, every further call returns the
    /// same error. After any other error, that frame has been dropped and the next call continues with the
    /// next frame.
    #[expect(clippy::should_implement_trait, reason = "an iterator would end at the first error")]
    pub fn next(&mut self) -> Result<Option<Incoming>, WireError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        loop {
            if self.streams.take_chunk(&mut self.buffer) {
                return Ok(None);
            }
            if let Some(message) = self.streams.end_chunk() {
                return Ok(Some(Incoming::Message(message)));
            }
            match self.take_frame() {
                Ok(Taken::Begun) => {}
                Ok(Taken::Incomplete) => return Ok(None),
                Ok(Taken::Came(incoming)) => return Ok(Some(incoming)),
                Err(error) => {
                    if error.is_fatal() {
                        self.broken = Some(error.clone());
                        (self.buffer, self.streams) = Default::default();
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Takes the answer to the message that [`next`](Self::next) has just refused, if its sender waits for
    /// one.
    pub fn take_answer(&mut self) -> Option<Message<Bytes>> {
        self.decoder.take_answer()
    }

    /// Bytes of the frame at the buffer's front, according to its length field.
    fn frame_bytes(&self) -> Option<usize> {
        let length = u32::from_le_bytes(*self.buffer.first_chunk::<LENGTH_BYTES>()?);
        Some((length as usize).saturating_add(LENGTH_BYTES))
    }

    /// The longest frame accepted now.
    fn length_limit(&self) -> usize {
        let limits = &self.decoder.limits;
        let longest =
            LENGTH_LEAST.saturating_add(limits.header_bytes_max).saturating_add(limits.payload_bytes_max);
        if self.is_greeted { longest } else { HELLO_BYTES_MAX }
    }

    fn take_frame(&mut self) -> Result<Taken, WireError> {
        let Some(total) = self.frame_bytes() else { return Ok(Taken::Incomplete) };
        let (least, limit, got) = (LENGTH_LEAST, self.length_limit(), total - LENGTH_BYTES);
        if got < least || got > limit {
            let [least, limit, got] = [least, limit, got].map(|bytes| bytes as u64);
            return Err(WireError::FrameLength { least, limit, got });
        }
        let Some(prefix) = Prefix::read(&self.buffer) else { return Ok(Taken::Incomplete) };
        let payload_at = PREFIX_BYTES.saturating_add(prefix.header_length as usize);
        if self.begin_chunk(&prefix, payload_at, total)? {
            return Ok(Taken::Begun);
        }
        if self.buffer.len() < total {
            return Ok(Taken::Incomplete);
        }
        let payload_bytes = total.saturating_sub(payload_at);
        if payload_bytes > COPIED_BYTES_MAX {
            let frame = self.buffer.split_to(total).freeze();
            return self.read_frame(prefix, &frame, |at| frame.slice(at..));
        }
        // The buffer is moved out of `self` and back, so that the frame can be read in place.
        let mut buffer = std::mem::take(&mut self.buffer);
        let frame = &buffer[..total];
        let taken = self.read_frame(prefix, frame, |at| copied(&frame[at..]));
        buffer.advance(total);
        self.buffer = buffer;
        taken
    }

    /// Takes the head of a chunk off the buffer once it has arrived. Returns false if the frame is no chunk
    /// or its head is malformed. Such a frame is read when it is complete, like any other.
    ///
    /// # Errors
    /// Fatal if the chunk's stream is not open or has no room for it.
    fn begin_chunk(&mut self, prefix: &Prefix, payload_at: usize, total: usize) -> Result<bool, WireError> {
        let is_chunk =
            prefix.kind == Kind::Chunk as u8 && prefix.flags & FLAG_CHUNKED == 0 && self.is_greeted;
        if !is_chunk || payload_at > total || self.buffer.len() < payload_at {
            return Ok(false);
        }
        let Ok(ChunkHeader { stream }) = decoded(&self.buffer[PREFIX_BYTES..payload_at]) else {
            return Ok(false);
        };
        self.streams.begin_chunk(stream, total - payload_at)?;
        self.buffer.advance(payload_at);
        Ok(true)
    }

    /// Reads a complete frame. `payload_from` returns the frame's bytes from an offset on as a payload.
    fn read_frame(
        &mut self,
        prefix: Prefix,
        frame: &[u8],
        payload_from: impl FnOnce(usize) -> Bytes,
    ) -> Result<Taken, WireError> {
        let kind = Kind::from_number(prefix.kind);
        let is_opening = matches!(kind, Ok(Kind::Hello));
        if is_opening == self.is_greeted && kind != Ok(Kind::Fault) {
            return Err(WireError::OutOfTurn { kind: prefix.kind });
        }
        let rest = &frame[PREFIX_BYTES..];
        let Some((header, payload)) = rest.split_at_checked(prefix.header_length as usize) else {
            return Err(malformed("header_length"));
        };
        let is_chunked = prefix.flags & FLAG_CHUNKED != 0;
        if is_chunked {
            self.streams.open(decoded(payload)?, &self.decoder.limits)?;
        }
        Ok(match kind? {
            Kind::Hello => {
                let hello = decoded(header).and_then(Hello::of).map_err(as_bad_hello)?;
                self.is_greeted = true;
                self.peer_trees = hello.trees;
                self.peer_takes_reduce_params = hello.reduce_params;
                Taken::Came(Incoming::Hello(hello))
            }
            Kind::Fault => Taken::Came(Incoming::Fault(Fault::of(decoded(header)?)?)),
            Kind::Launch if !is_chunked => {
                let launch = Launch::read(header, &self.decoder.limits)?;
                Taken::Came(Incoming::Launch(Box::new(launch)))
            }
            Kind::Renewal if !is_chunked => Taken::Came(Incoming::Renewal(Box::new(renewal::read(header)?))),
            Kind::Keys if !is_chunked => Taken::Came(Incoming::Keys(keys::read(header)?)),
            // A well-formed chunk was begun as soon as its header had arrived.
            Kind::Chunk => return Err(decoded::<ChunkHeader>(header).err().unwrap_or(malformed("flags"))),
            // A run is no longer than a chunk.
            Kind::StreamRun if is_chunked => return Err(malformed("flags")),
            kind if is_chunked => {
                let message = self.decoder.message(kind, prefix.tag, header, Some(Bytes::new()))?;
                self.streams.keep(message, header.len());
                Taken::Begun
            }
            kind => {
                let has_payload = prefix.flags & FLAG_PAYLOAD != 0;
                if !has_payload && !payload.is_empty() {
                    return Err(malformed("payload"));
                }
                let is_short = within("payload", self.decoder.limits.payload_bytes_max, payload.len());
                let payload = has_payload.then(|| payload_from(frame.len() - payload.len()));
                // The header is read even if the payload is too long: its sender counts on it that a tree is kept.
                let message = self.decoder.message(kind, prefix.tag, header, payload);
                is_short?;
                Taken::Came(Incoming::Message(message?))
            }
        })
    }
}

/// Turns an error in the greeting into a fatal one: without a greeting the connection cannot go on.
fn as_bad_hello(error: WireError) -> WireError {
    match error {
        WireError::TooLarge { field, .. } | WireError::Malformed { field } => WireError::BadHello { field },
        other => other,
    }
}
