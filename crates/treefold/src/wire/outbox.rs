//! The sending half of a connection.

use crate::wire::COPIED_BYTES_MAX;
use crate::wire::encode::{Encoder, Shell, append};
use crate::wire::error::{WireError, within};
use crate::wire::frame::{FLAG_CHUNKED, FLAG_PAYLOAD, Kind, LENGTH_BYTES, PREFIX_BYTES, Prefix};
use crate::wire::header::Announcement;
use crate::wire::hello::{Fault, Hello};
use crate::wire::lanes::{CHUNK_GROWTH_MAX, Lanes, Parcel};
use crate::wire::launch::Launch;
use crate::wire::line::Line;
use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;
use std::io::IoSlice;
use treefold_core::limits::Limits;
use treefold_core::message::Message;

/// The usual chunk is no longer than this, whatever the limits say: the length of the longest one's frame must be a u32.
const CHUNK_BYTES_CEILING: usize = (1 << 30) / CHUNK_GROWTH_MAX;

/// Messages on their way to a peer, as bytes.
///
/// The driver's loop is: [`fill_slices`](Self::fill_slices), one vectored write,
/// [`advance`](Self::advance) by what was written, nothing pushed in between.
#[derive(Debug)]
pub struct Outbox {
    limits: Limits,
    encoder: Encoder,
    /// Whole frames in order.
    control: Line,
    /// Messages with large payloads, and those that must stay behind them.
    lanes: Lanes,
    /// The number of the next stream of chunks.
    stream_next: u32,
}

impl Outbox {
    /// An empty outbox.
    pub fn new(mut limits: Limits) -> Self {
        limits.chunk_bytes = limits.chunk_bytes.clamp(1, CHUNK_BYTES_CEILING);
        let lanes = Lanes::new(&limits);
        Self { limits, encoder: Encoder::default(), control: Line::default(), lanes, stream_next: 0 }
    }

    /// Queues a message.
    ///
    /// # Errors
    /// When a part of it is beyond its limit, or cannot be expressed. Then nothing of it is queued.
    pub fn push(&mut self, message: &Message<Bytes>) -> Result<(), WireError> {
        let from = self.begin_frame();
        let shell = self.encoder.put_header(message, &self.limits, self.control.buffer_mut());
        self.finish_frame(from, shell)
    }

    /// Queues a greeting. It must be the first thing queued.
    ///
    /// # Errors
    /// When its cluster's name is too long. Then nothing of it is queued.
    pub fn push_hello(&mut self, hello: &Hello) -> Result<(), WireError> {
        let header = hello.header()?;
        let from = self.begin_frame();
        append(&header, self.control.buffer_mut());
        self.finish_frame(from, Ok(Shell::bare(Kind::Hello)))
    }

    /// Queues a fault, after which the connection should be closed.
    ///
    /// # Errors
    /// When its field's name is too long. Then nothing of it is queued.
    pub fn push_fault(&mut self, fault: &Fault) -> Result<(), WireError> {
        let header = fault.header()?;
        let from = self.begin_frame();
        append(&header, self.control.buffer_mut());
        self.finish_frame(from, Ok(Shell::bare(Kind::Fault)))
    }

    /// Queues a word about how a network comes up.
    ///
    /// # Errors
    /// When a part of it is beyond its limit. Then nothing of it is queued.
    pub fn push_launch(&mut self, launch: &Launch) -> Result<(), WireError> {
        let header = launch.header(&self.limits)?;
        within("header", self.limits.header_bytes_max, header.encoded_len())?;
        let from = self.begin_frame();
        append(&header, self.control.buffer_mut());
        self.finish_frame(from, Ok(Shell::bare(Kind::Launch)))
    }

    /// Points `slices` at what is next to be written, and returns how many of them it filled: at least one,
    /// unless the outbox is empty or there are no slices.
    pub fn fill_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        if self.lanes.is_mid_piece() {
            let filled = self.lanes.fill_slices(slices);
            filled + self.control.fill_slices(&mut slices[filled..])
        } else {
            let filled = self.control.fill_slices(slices);
            filled + self.lanes.fill_slices(&mut slices[filled..])
        }
    }

    /// Takes note that the first `written` bytes of the slices last filled have been written.
    ///
    /// # Panics
    /// When that is more than there were.
    pub fn advance(&mut self, written: usize) {
        let left = if self.lanes.is_mid_piece() {
            let left = self.lanes.advance(written);
            self.control.advance(left)
        } else {
            let left = self.control.advance(written);
            self.lanes.advance(left)
        };
        assert_eq!(left, 0, "more bytes written than were to be written");
    }

    /// True when there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.control.is_empty() && self.lanes.is_empty()
    }

    /// Bytes that wait to be written, but for the prefixes of chunks not yet cut.
    pub fn len_bytes(&self) -> usize {
        self.control.len() + self.lanes.len()
    }

    /// Appends a frame to the control line's buffer, to be queued by [`Self::finish_frame`]: room for the
    /// prefix, then the header. Returns where it begins.
    fn begin_frame(&mut self) -> usize {
        let buffer = self.control.buffer_mut();
        let from = buffer.len();
        buffer.put_bytes(0, PREFIX_BYTES);
        from
    }

    /// Queues the frame that begins at `from`, or takes it off the buffer when something is wrong with it.
    fn finish_frame(&mut self, from: usize, shell: Result<Shell<'_>, WireError>) -> Result<(), WireError> {
        let queued = shell.and_then(|shell| {
            let stream = self.complete_frame(from, &shell)?;
            self.queue_frame(from, &shell, stream);
            Ok(())
        });
        if queued.is_err() {
            self.control.buffer_mut().truncate(from);
        }
        queued
    }

    /// Puts the prefix before the frame's header, and behind it what of the payload is copied, or the
    /// payload's announcement. Returns the stream that was announced.
    fn complete_frame(&mut self, from: usize, shell: &Shell<'_>) -> Result<Option<u32>, WireError> {
        let buffer = self.control.buffer_mut();
        let payload = shell.payload.map_or(&[][..], |payload| payload);
        let header_length = buffer.len() - from - PREFIX_BYTES;
        within("header", self.limits.header_bytes_max, header_length)?;
        within("payload", self.limits.payload_bytes_max, payload.len())?;
        let mut flags = if shell.payload.is_some() { FLAG_PAYLOAD } else { 0 };
        let mut stream = None;
        let mut shared = 0;
        if payload.len() > self.limits.chunk_bytes {
            flags |= FLAG_CHUNKED;
            stream = Some(self.stream_next);
            append(&Announcement { stream: self.stream_next, bytes: payload.len() as u64 }, buffer);
            self.stream_next = self.stream_next.wrapping_add(1);
        } else if payload.len() > COPIED_BYTES_MAX {
            shared = payload.len();
        } else {
            buffer.put_slice(payload);
        }
        let length = buffer.len() - from - LENGTH_BYTES + shared;
        within("frame", u32::MAX as usize, length)?;
        let (kind, tag) = (shell.kind as u8, shell.tag);
        let (length, header_length) = (length as u32, header_length as u32);
        let prefix = Prefix { length, kind, flags, header_length, tag };
        buffer[from..from + PREFIX_BYTES].copy_from_slice(&prefix.to_bytes());
        Ok(stream)
    }

    /// Commits a complete frame to the control line, or moves it to its lane.
    fn queue_frame(&mut self, from: usize, shell: &Shell<'_>, stream: Option<u32>) {
        let body = shell.payload.filter(|payload| payload.len() > COPIED_BYTES_MAX || stream.is_some());
        match shell.lane {
            Some(lane) if stream.is_some() || self.lanes.holds(lane) => {
                let buffer = self.control.buffer_mut();
                let head = BytesMut::from(&buffer[from..]);
                buffer.truncate(from);
                let body = body.cloned().unwrap_or_default();
                self.lanes.push(lane, Parcel { head, body, stream });
            }
            _ => {
                self.control.commit(from);
                if let Some(body) = body {
                    self.control.push_shared(body.clone());
                }
            }
        }
    }
}
