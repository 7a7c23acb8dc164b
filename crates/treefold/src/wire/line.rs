//! A queue of bytes that is drained by vectored writes.
//!
//! Frames are appended to one buffer, whose memory is reused as it drains. A payload that is too long to copy
//! is a segment of its own between two stretches of that buffer.

use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::io::IoSlice;

/// The most memory that an empty line keeps.
const IDLE_BYTES_MAX: usize = 256 << 10;

#[derive(Debug)]
enum Segment {
    /// A number of bytes of the buffer, after those of the earlier segments.
    Copied(usize),
    /// Bytes that are not copied.
    Shared(Bytes),
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Line {
    buffer: BytesMut,
    segments: VecDeque<Segment>,
    /// Bytes of all segments. A frame that is still being written to the buffer is not included.
    len: usize,
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The buffer, to append a frame to. The frame joins the line with [`Line::commit`].
    pub(super) fn buffer_mut(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Adds the buffer's bytes from `from` on to the line.
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

    /// Points `slices` at the next bytes to write and returns the number of slices used.
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

    /// Drops the first `written` bytes, or all there are, and returns how many of `written` remain.
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
