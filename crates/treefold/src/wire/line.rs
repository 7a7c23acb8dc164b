//! A queue of bytes for one vectored write after another.
//!
//! Frames are written one behind the other into one buffer, whose memory is used again as it drains; a
//! payload too long to be copied stands between two stretches of that buffer as a segment of its own.

use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::io::IoSlice;

/// An idle line keeps this much memory at most.
const IDLE_BYTES_MAX: usize = 256 << 10;

#[derive(Debug)]
enum Segment {
    /// So many bytes of the buffer, behind those of the segments before.
    Copied(usize),
    /// Bytes that stay where they are.
    Shared(Bytes),
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Line {
    buffer: BytesMut,
    segments: VecDeque<Segment>,
    /// Bytes of all segments. The buffer's are in there, but for a frame that is being written.
    len: usize,
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The buffer, to append a frame to. The frame is not part of the line before [`Line::commit`].
    pub(super) fn buffer_mut(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Takes what the buffer has from `from` on into the line.
    pub(super) fn commit(&mut self, from: usize) {
        let bytes = self.buffer.len() - from;
        self.len += bytes;
        match self.segments.back_mut() {
            Some(Segment::Copied(before)) => *before += bytes,
            _ => self.segments.push_back(Segment::Copied(bytes)),
        }
    }

    /// Appends bytes without copying them.
    pub(super) fn push_shared(&mut self, bytes: Bytes) {
        self.len += bytes.len();
        self.segments.push_back(Segment::Shared(bytes));
    }

    /// Points `slices` at what is next to be written, and returns how many it needed.
    pub(super) fn fill_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut buffer = &self.buffer[..];
        let mut filled = 0;
        for (slice, segment) in slices.iter_mut().zip(&self.segments) {
            *slice = IoSlice::new(match segment {
                Segment::Copied(bytes) => {
                    let (now, after) = buffer.split_at(*bytes);
                    buffer = after;
                    now
                }
                Segment::Shared(bytes) => bytes,
            });
            filled += 1;
        }
        filled
    }

    /// Drops the first `written` bytes, or all there are, and returns how many of `written` are left over.
    pub(super) fn advance(&mut self, mut written: usize) -> usize {
        while written > 0
            && let Some(segment) = self.segments.front_mut()
        {
            let bytes = match segment {
                Segment::Copied(left) => {
                    let bytes = written.min(*left);
                    self.buffer.advance(bytes);
                    *left -= bytes;
                    if *left == 0 {
                        self.segments.pop_front();
                    }
                    bytes
                }
                Segment::Shared(left) => {
                    let bytes = written.min(left.len());
                    left.advance(bytes);
                    if left.is_empty() {
                        self.segments.pop_front();
                    }
                    bytes
                }
            };
            self.len -= bytes;
            written -= bytes;
        }
        if self.len == 0 && self.buffer.capacity() > IDLE_BYTES_MAX {
            self.buffer = BytesMut::new();
        }
        written
    }
}
