//! The receiving half of a connection.
//!
//! Bytes are read straight into the inbox's buffer and messages taken from its front. While all payloads are
//! small the buffer is used over and over; a frame with a long one is split off, and the payload is a slice
//! of it. While a chunk is under way, what is read goes to its payload instead, without another copy; so that this is
//! most of it, little is read beyond a chunk's end.

use crate::wire::blocks::Blocks;
use crate::wire::chunks::ChunkStreams;
use crate::wire::decode::{Decoder, decoded};
use crate::wire::error::{WireError, malformed, within};
use crate::wire::frame::{
    FLAG_CHUNKED, FLAG_PAYLOAD, Kind, LENGTH_BYTES, LENGTH_LEAST, PREFIX_BYTES, Prefix,
};
use crate::wire::header::ChunkHeader;
use crate::wire::hello::{Fault, Hello};
use crate::wire::launch::Launch;
use crate::wire::{COPIED_BYTES_MAX, HELLO_BYTES_MAX};
use bytes::buf::Limit;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use treefold_core::limits::Limits;
use treefold_core::message::Message;

/// Room for a read when nothing is known of what comes.
const READ_BYTES: usize = 16 << 10;
/// With less room than this, more is made.
const READ_BYTES_LEAST: usize = 4 << 10;
/// The most room made for one read, however long the frame under way.
const READ_BYTES_MOST: usize = 256 << 10;
/// What is read at a time while payloads come in chunks and no chunk is under way: the next one's header, and not much
/// that would have to be copied.
const READ_BYTES_BETWEEN: usize = 1 << 10;
/// An empty buffer above this is given back.
const IDLE_BYTES_MAX: usize = 64 << 10;

/// What came from a peer.
#[derive(Clone, Debug)]
pub enum Incoming {
    /// Its greeting, always first.
    Hello(Hello),
    /// It will close the connection, and why.
    Fault(Fault),
    /// Something about how a network of processes comes up.
    Launch(Box<Launch>),
    /// A message.
    Message(Message<Bytes>),
}

/// Bytes from a peer on their way to become messages.
///
/// The driver's loop is: read into [`read_buffer`](Self::read_buffer), then [`next`](Self::next) until it has
/// nothing more. Bytes that are at hand already are [`put`](Self::put) instead.
#[derive(Debug)]
pub struct Inbox {
    decoder: Decoder,
    buffer: BytesMut,
    streams: ChunkStreams,
    /// True once the peer's greeting has come.
    is_greeted: bool,
    /// Why nothing more can be read, once that is so.
    broken: Option<WireError>,
}

/// What became of a frame.
enum Taken {
    /// It is not all here.
    Incomplete,
    /// What it is for comes later, in chunks.
    Begun,
    /// Something for the driver.
    Came(Incoming),
}

impl Inbox {
    /// An empty inbox.
    pub fn new(limits: Limits) -> Self {
        Self::with_blocks(limits, Blocks::default())
    }

    /// An empty inbox whose large payloads have their memory from there.
    pub(crate) fn with_blocks(limits: Limits, blocks: Blocks) -> Self {
        Self {
            decoder: Decoder::new(limits),
            buffer: BytesMut::new(),
            streams: ChunkStreams::new(blocks),
            is_greeted: false,
            broken: None,
        }
    }

    /// Where what the peer sends next is to be read to, as far as there is room; ask again for every read.
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

    /// Takes in bytes that the peer sent and that have been read elsewhere.
    pub fn put(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next thing that came; `None` when more bytes are needed.
    ///
    /// # Errors
    /// When a frame makes no sense. After an error that [is fatal](WireError::is_fatal) the inbox is done,
    /// and says so again whenever it is asked; after any other, that frame is dropped and the next call goes
    /// on behind it.
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

    /// What is to be answered to the message that [`next`](Self::next) has just refused, if its sender waits for an
    /// answer.
    pub fn take_answer(&mut self) -> Option<Message<Bytes>> {
        self.decoder.take_answer()
    }

    /// Bytes of the frame at the buffer's front, as far as it says.
    fn frame_bytes(&self) -> Option<usize> {
        let length = u32::from_le_bytes(*self.buffer.first_chunk::<LENGTH_BYTES>()?);
        Some((length as usize).saturating_add(LENGTH_BYTES))
    }

    /// The longest frame taken now.
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
        // Out of `self` and back, so that the frame can be read where it lies.
        let mut buffer = std::mem::take(&mut self.buffer);
        let frame = &buffer[..total];
        let taken = self.read_frame(prefix, frame, |at| Bytes::copy_from_slice(&frame[at..]));
        buffer.advance(total);
        self.buffer = buffer;
        taken
    }

    /// Takes a chunk's head off the buffer, once it is there. False for what is no chunk, or none that makes sense: as
    /// any other frame, that is looked at when it is whole.
    ///
    /// # Errors
    /// Fatal when there is no room for it in its stream.
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

    /// Reads a whole frame; `payload_from` makes a payload of what it has from a place on.
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
                Taken::Came(Incoming::Hello(hello))
            }
            Kind::Fault => Taken::Came(Incoming::Fault(Fault::of(decoded(header)?)?)),
            Kind::Launch if !is_chunked => {
                let launch = Launch::read(header, &self.decoder.limits)?;
                Taken::Came(Incoming::Launch(Box::new(launch)))
            }
            // Any other was begun as soon as its header was there.
            Kind::Chunk => return Err(decoded::<ChunkHeader>(header).err().unwrap_or(malformed("flags"))),
            kind if is_chunked => {
                let message = self.decoder.message(kind, prefix.tag, header, Some(Bytes::new()))?;
                self.streams.keep(message);
                Taken::Begun
            }
            kind => {
                let has_payload = prefix.flags & FLAG_PAYLOAD != 0;
                if !has_payload && !payload.is_empty() {
                    return Err(malformed("payload"));
                }
                within("payload", self.decoder.limits.payload_bytes_max, payload.len())?;
                let payload = has_payload.then(|| payload_from(frame.len() - payload.len()));
                Taken::Came(Incoming::Message(self.decoder.message(kind, prefix.tag, header, payload)?))
            }
        })
    }
}

/// A greeting that cannot be read leaves nothing to go on with.
fn as_bad_hello(error: WireError) -> WireError {
    match error {
        WireError::TooLarge { field, .. } | WireError::Malformed { field } => WireError::BadHello { field },
        other => other,
    }
}
