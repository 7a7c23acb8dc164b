//! The sending half of a connection.

use crate::credentials::Renewal;
use crate::group_keys::GroupKey;
use crate::wire::COPIED_BYTES_MAX;
use crate::wire::encode::{Encoder, Shell, Track, append};
use crate::wire::error::{WireError, within};
use crate::wire::frame::{FLAG_CHUNKED, FLAG_PAYLOAD, Kind, LENGTH_BYTES, PREFIX_BYTES, Prefix};
use crate::wire::header::Announcement;
use crate::wire::hello::{Fault, Hello};
use crate::wire::inbox::Inbox;
use crate::wire::keys;
use crate::wire::launch::Launch;
use crate::wire::line::Line;
use crate::wire::renewal;
use crate::wire::stream::run::frame_of;
use crate::wire::tracks::{CHUNK_GROWTH_MAX, Parcel, Tracks};
use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;
use std::io::IoSlice;
use std::sync::Arc;
use treefold_core::limits::Limits;
use treefold_core::message::Message;
use treefold_core::params::Params;
use treefold_core::stream::StreamId;
use treefold_core::stream::message::{StreamMessage, StreamRun};

/// Upper bound on the usual chunk, regardless of the limits: the length of the longest chunk's frame must fit
/// a u32.
const CHUNK_BYTES_CEILING: usize = (1 << 30) / CHUNK_GROWTH_MAX;

/// Encodes each run once, for all peers that it is sent to.
///
/// Core sends a run to one child after the other, so it suffices to remember the last one.
#[derive(Debug, Default)]
pub(crate) struct RunFrames {
    last: Option<(Arc<StreamRun<Bytes>>, Bytes)>,
}

impl RunFrames {
    /// The frame of a run.
    ///
    /// # Errors
    /// If a part of the run is above its limit or cannot be expressed.
    pub(crate) fn frame(&mut self, run: &Arc<StreamRun<Bytes>>, limits: &Limits) -> Result<Bytes, WireError> {
        if let Some((last, frame)) = &self.last
            && Arc::ptr_eq(last, run)
        {
            return Ok(frame.clone());
        }
        let frame = frame_of(run, limits)?;
        self.last = Some((Arc::clone(run), frame.clone()));
        Ok(frame)
    }

    /// Frees the memory of the last run.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }
}

/// Encodes messages to a peer as bytes.
///
/// The driver's loop is: call [`fill_slices`](Self::fill_slices), do one vectored write, and call
/// [`advance`](Self::advance) with the number of bytes written. Nothing may be pushed in between.
#[derive(Debug)]
pub struct Outbox {
    limits: Limits,
    encoder: Encoder,
    /// Complete frames, in order.
    control: Line,
    /// Messages with large payloads, and the messages that must not overtake them.
    tracks: Tracks,
    /// Number of the next stream of chunks.
    stream_next: u32,
}

impl Outbox {
    /// An empty outbox.
    pub fn new(mut limits: Limits) -> Self {
        limits.chunk_bytes = limits.chunk_bytes.clamp(1, CHUNK_BYTES_CEILING);
        let tracks = Tracks::new(&limits);
        Self { limits, encoder: Encoder::default(), control: Line::default(), tracks, stream_next: 0 }
    }

    /// Queues a message.
    ///
    /// # Errors
    /// If a part of the message is above its limit or cannot be expressed. Then none of it is queued.
    pub fn push(&mut self, message: &Message<Bytes>) -> Result<(), WireError> {
        if let Message::Stream(message) = message
            && let StreamMessage::Run(run) = &**message
        {
            self.push_run(run.stream, &frame_of(run, &self.limits)?);
            return Ok(());
        }
        let may_name = self.is_sent_next(message);
        let from = self.begin_frame();
        let shell = self.encoder.put_header(message, may_name, &self.limits, self.control.buffer_mut());
        let queued = self.finish_frame(from, shell);
        self.encoder.trees.settle(queued.is_ok());
        queued
    }

    /// From now on, the peer keeps this many trees, by its greeting ([`Inbox::peer_trees`](crate::wire::Inbox::peer_trees)).
    /// Before, calls name no trees.
    pub fn keep_trees(&mut self, most: u32) {
        self.encoder.trees.keep(most);
    }

    /// From now on, messages are written as the peer reads them, by its greeting. Before, as all builds do, as far as possible.
    ///
    /// # Errors
    /// If the peer would misread a message that was queued before.
    pub fn heed(&mut self, greeted: &Inbox) -> Result<(), WireError> {
        self.keep_trees(greeted.peer_trees());
        self.encoder.reduce_params.heed(greeted.peer_takes_reduce_params())
    }

    /// True for a call whose frame follows the frames that were queued before. The frame of a call with a long payload, or
    /// behind one of its wave, is overtaken by later ones.
    fn is_sent_next(&self, message: &Message<Bytes>) -> bool {
        let Message::Call(call) = message else { return false };
        // One of the two is the payload.
        let longer = |params: &Params<Bytes>| params.common.len().max(params.of_reduce().len());
        let payload_bytes = call.params.as_ref().map_or(0, longer);
        payload_bytes <= self.limits.chunk_bytes && !self.tracks.holds(Track::Wave(call.tag.wave))
    }

    /// Queues the frame of a run, which [`RunFrames`] has encoded for all peers.
    pub(crate) fn push_run(&mut self, stream: StreamId, frame: &Bytes) {
        if self.tracks.holds(Track::Stream(stream)) {
            let parcel = Parcel { head: BytesMut::new(), body: frame.clone(), stream: None };
            self.tracks.push(Track::Stream(stream), parcel);
        } else if frame.len() > COPIED_BYTES_MAX {
            self.control.push_shared(frame.clone());
        } else {
            let buffer = self.control.buffer_mut();
            let from = buffer.len();
            buffer.put_slice(frame);
            self.control.commit(from);
        }
    }

    /// Queues a greeting. It must be the first item queued.
    ///
    /// # Errors
    /// If the cluster's name is too long. Then none of it is queued.
    pub fn push_hello(&mut self, hello: &Hello) -> Result<(), WireError> {
        let header = hello.header()?;
        let from = self.begin_frame();
        append(&header, self.control.buffer_mut());
        self.finish_frame(from, Ok(Shell::bare(Kind::Hello)))
    }

    /// Queues a fault. Close the connection after it has been written.
    ///
    /// # Errors
    /// If the name of its field is too long. Then none of it is queued.
    pub fn push_fault(&mut self, fault: &Fault) -> Result<(), WireError> {
        let header = fault.header()?;
        let from = self.begin_frame();
        append(&header, self.control.buffer_mut());
        self.finish_frame(from, Ok(Shell::bare(Kind::Fault)))
    }

    /// Queues keys of datagrams.
    ///
    /// # Errors
    /// Never with as many keys as a process keeps.
    pub(crate) fn push_keys(&mut self, keys: &[GroupKey]) -> Result<(), WireError> {
        let header = keys::header(keys);
        let from = self.begin_frame();
        append(&header, self.control.buffer_mut());
        self.finish_frame(from, Ok(Shell::bare(Kind::Keys)))
    }

    /// Queues the proof of a new certificate.
    ///
    /// # Errors
    /// If a part of it is above its limit. Then none of it is queued.
    pub(crate) fn push_renewal(&mut self, proof: &Renewal) -> Result<(), WireError> {
        let header = renewal::header(proof)?;
        within("header", self.limits.header_bytes_max, header.encoded_len())?;
        let from = self.begin_frame();
        append(&header, self.control.buffer_mut());
        self.finish_frame(from, Ok(Shell::bare(Kind::Renewal)))
    }

    /// Queues a message about the start of a network of processes.
    ///
    /// # Errors
    /// If a part of it is above its limit. Then none of it is queued.
    pub fn push_launch(&mut self, launch: &Launch) -> Result<(), WireError> {
        let header = launch.header(&self.limits)?;
        within("header", self.limits.header_bytes_max, header.encoded_len())?;
        let from = self.begin_frame();
        append(&header, self.control.buffer_mut());
        self.finish_frame(from, Ok(Shell::bare(Kind::Launch)))
    }

    /// Points `slices` at the next bytes to write and returns the number of slices filled. It is at least
    /// one, unless the outbox is empty or `slices` is.
    pub fn fill_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        if self.tracks.is_mid_piece() {
            let filled = self.tracks.fill_slices(slices);
            filled + self.control.fill_slices(&mut slices[filled..])
        } else {
            let filled = self.control.fill_slices(slices);
            filled + self.tracks.fill_slices(&mut slices[filled..])
        }
    }

    /// Removes the first `written` bytes of the slices that were filled last.
    ///
    /// # Panics
    /// If `written` exceeds the bytes in the outbox.
    pub fn advance(&mut self, written: usize) {
        let left = if self.tracks.is_mid_piece() {
            let left = self.tracks.advance(written);
            self.control.advance(left)
        } else {
            let left = self.control.advance(written);
            self.tracks.advance(left)
        };
        assert_eq!(left, 0, "advanced by more bytes than the outbox holds");
    }

    /// True if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.control.is_empty() && self.tracks.is_empty()
    }

    /// Bytes that wait to be written, except the prefixes of chunks that have not been cut.
    pub fn len_bytes(&self) -> usize {
        self.control.len() + self.tracks.len()
    }

    /// Appends room for a prefix to the control line's buffer. The caller appends the header and queues the
    /// frame with [`Self::finish_frame`]. Returns the frame's offset.
    fn begin_frame(&mut self) -> usize {
        let buffer = self.control.buffer_mut();
        let from = buffer.len();
        buffer.put_bytes(0, PREFIX_BYTES);
        from
    }

    /// Queues the frame that begins at `from`, or removes it from the buffer after an error.
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

    /// Writes the prefix before the frame's header. After the header, appends the copied payload or the
    /// announcement of a chunked one. Returns the announced stream.
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

    /// Commits a complete frame to the control line or moves it to its track.
    fn queue_frame(&mut self, from: usize, shell: &Shell<'_>, stream: Option<u32>) {
        let body = shell.payload.filter(|payload| payload.len() > COPIED_BYTES_MAX || stream.is_some());
        match shell.track {
            Some(track) if stream.is_some() || self.tracks.holds(track) => {
                let buffer = self.control.buffer_mut();
                let head = BytesMut::from(&buffer[from..]);
                buffer.truncate(from);
                let body = body.cloned().unwrap_or_default();
                self.tracks.push(track, Parcel { head, body, stream });
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
