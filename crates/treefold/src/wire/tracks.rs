//! Schedules payloads that are sent in chunks, and the messages that must not overtake them.
//!
//! Each wave, request and stream with a large payload has a *track*, in which its messages keep their order.
//! Up to [`STREAMS_OPEN_MAX`] tracks are *open*; the others wait for a place in the order of their arrival.
//! The sum of the open payloads is limited too, by [`announced_bytes_max`]. The receiver enforces the same
//! two limits.
//!
//! Two open tracks send a chunk in turn: the track that has been open longest, and the track with the fewest
//! bytes left. A payload of 1 MB therefore does not wait for one of 60 MB, and the payload of 60 MB is not
//! delayed without end. Payloads of equal length are sent one after the other, so that the receiver folds the
//! first while the second arrives.
//!
//! Chunks are cut one at a time, when the previous one has been written. A message that belongs to no track
//! therefore waits for one chunk at most.

use crate::wire::encode::Track;
use crate::wire::frame::{Kind, LENGTH_LEAST, NO_TAG, PREFIX_BYTES, Prefix};
use crate::wire::header::ChunkHeader;
use crate::wire::{STREAMS_OPEN_MAX, announced_bytes_max};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message as _;
use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use treefold_core::limits::Limits;

/// If a payload would have more chunks than this, its chunks get longer. Each chunk costs a system call on
/// both sides.
const CHUNKS_FEW: usize = 16;
/// The greatest factor by which a chunk may be longer than usual, because small frames wait for it.
pub(super) const CHUNK_GROWTH_MAX: usize = 4;

/// A message in a track.
#[derive(Debug)]
pub(super) struct Parcel {
    /// The message's frame up to the payload or the announcement; empty after it has been sent.
    pub(super) head: BytesMut,
    /// The part of the payload that has not been sent.
    pub(super) body: Bytes,
    /// The stream of chunks that the head announces; `None` if the payload follows its head directly.
    pub(super) stream: Option<u32>,
}

impl Parcel {
    fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Cuts the next piece to write off the parcel's front.
    fn cut(&mut self, track: Track, chunk_bytes: usize) -> Piece {
        let mut head = std::mem::take(&mut self.head);
        let Some(stream) = self.stream else {
            return Piece { track, head: head.freeze(), body: std::mem::take(&mut self.body), begun: false };
        };
        let body = self.body.split_to(chunk_bytes.min(self.body.len()));
        let header = ChunkHeader { stream };
        let header_length = header.encoded_len();
        let length = LENGTH_LEAST + header_length + body.len();
        let prefix = Prefix {
            length: u32::try_from(length).expect("invariant: the outbox keeps chunks below 1 GiB"),
            kind: Kind::Chunk as u8,
            flags: 0,
            header_length: header_length as u32,
            tag: NO_TAG,
        };
        head.reserve(PREFIX_BYTES + header_length);
        head.put_slice(&prefix.to_bytes());
        header.encode(&mut head).expect("invariant: a BytesMut grows as needed");
        Piece { track, head: head.freeze(), body, begun: false }
    }
}

/// Bytes that are written without any other bytes in between.
#[derive(Debug)]
struct Piece {
    track: Track,
    head: Bytes,
    body: Bytes,
    /// True if the piece has been written partly. The rest must then follow immediately.
    begun: bool,
}

/// All tracks of an outbox.
#[derive(Debug)]
pub(super) struct Tracks {
    parcels: HashMap<Track, VecDeque<Parcel>>,
    /// Tracks whose first parcel may be sent, in the order in which they were opened.
    open: Vec<Track>,
    /// True if the track with the fewest bytes left sends the next chunk; false if the oldest track does.
    is_shortest_next: bool,
    /// Tracks whose first parcel waits for a free place in `open`.
    waiting: VecDeque<Track>,
    /// The piece to write now. It exists whenever there is a parcel.
    piece: Option<Piece>,
    /// Announced payload bytes of each open track.
    announced: HashMap<Track, usize>,
    announced_bytes: usize,
    announced_bytes_max: usize,
    chunk_bytes: usize,
    /// Bytes of all parcels.
    parcel_bytes: usize,
}

impl Tracks {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            parcels: HashMap::new(),
            open: Vec::new(),
            is_shortest_next: false,
            waiting: VecDeque::new(),
            piece: None,
            announced: HashMap::new(),
            announced_bytes: 0,
            announced_bytes_max: announced_bytes_max(limits),
            chunk_bytes: limits.chunk_bytes,
            parcel_bytes: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.piece.is_none()
    }

    /// Bytes that wait, without the prefixes of chunks that have not been cut.
    pub(super) fn len(&self) -> usize {
        self.parcel_bytes + self.piece.as_ref().map_or(0, |piece| piece.head.len() + piece.body.len())
    }

    /// True if a message of `track` waits here, so that the next message of the track must wait too.
    pub(super) fn holds(&self, track: Track) -> bool {
        // Without a piece there is no parcel either.
        self.piece.as_ref().is_some_and(|piece| piece.track == track || self.parcels.contains_key(&track))
    }

    pub(super) fn push(&mut self, track: Track, parcel: Parcel) {
        self.parcel_bytes += parcel.len();
        let parcels = self.parcels.entry(track).or_default();
        if parcels.is_empty() {
            self.waiting.push_back(track);
        }
        parcels.push_back(parcel);
        self.cut_next();
    }

    /// True if a piece has been written partly, so that no other bytes may precede its rest.
    pub(super) fn is_mid_piece(&self) -> bool {
        self.piece.as_ref().is_some_and(|piece| piece.begun)
    }

    /// Points `slices` at the piece and returns the number of slices used.
    pub(super) fn fill_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let Some(piece) = &self.piece else { return 0 };
        let parts = [&piece.head, &piece.body].into_iter().filter(|part| !part.is_empty());
        let mut filled = 0;
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
            filled += 1;
        }
        filled
    }

    /// Drops the first `written` bytes of the piece, or all of it, and returns how many of `written` remain.
    /// After the end of a piece, cuts the next one.
    pub(super) fn advance(&mut self, written: usize) -> usize {
        let Some(piece) = &mut self.piece else { return written };
        if written == 0 {
            return 0;
        }
        piece.begun = true;
        let of_head = written.min(piece.head.len());
        piece.head.advance(of_head);
        let of_body = (written - of_head).min(piece.body.len());
        piece.body.advance(of_body);
        if piece.head.is_empty() && piece.body.is_empty() {
            self.piece = None;
            self.cut_next();
        }
        written - of_head - of_body
    }

    /// Cuts the next piece, unless one exists.
    fn cut_next(&mut self) {
        if self.piece.is_some() {
            return;
        }
        self.open_waiting();
        let Some(at) = self.next_open() else { return };
        let track = self.open[at];
        let parcels = self.parcels.get_mut(&track).expect("invariant: an open track has a parcel");
        let parcel = parcels.front_mut().expect("invariant: a track without parcels is removed");
        let before = parcel.len();
        let announced = self.announced.get(&track).copied().unwrap_or(0);
        let chunk_bytes =
            (announced / CHUNKS_FEW).clamp(self.chunk_bytes, self.chunk_bytes * CHUNK_GROWTH_MAX);
        let piece = parcel.cut(track, chunk_bytes);
        let after = parcel.len();
        self.parcel_bytes -= before - after;
        self.piece = Some(piece);
        if after > 0 {
            return;
        }
        self.open.remove(at);
        parcels.pop_front();
        self.announced_bytes -= self.announced.remove(&track).unwrap_or(0);
        if parcels.is_empty() {
            self.parcels.remove(&track);
        } else {
            self.waiting.push_back(track);
        }
    }

    /// Moves waiting tracks to free places in `open`.
    fn open_waiting(&mut self) {
        while self.open.len() < STREAMS_OPEN_MAX
            && let Some(&track) = self.waiting.front()
        {
            let parcel = self.parcels.get(&track).and_then(|parcels| parcels.front());
            let parcel = parcel.expect("invariant: a waiting track has a parcel");
            let bytes = if parcel.stream.is_some() { parcel.body.len() } else { 0 };
            if self.announced_bytes + bytes > self.announced_bytes_max {
                return;
            }
            self.waiting.pop_front();
            self.announced_bytes += bytes;
            self.announced.insert(track, bytes);
            self.open.push(track);
        }
    }

    /// Index of the open track that sends the next chunk.
    fn next_open(&mut self) -> Option<usize> {
        let left = |&at: &usize| {
            let parcel = self.parcels.get(&self.open[at]).and_then(|parcels| parcels.front());
            parcel.map(Parcel::len)
        };
        let shortest = (0..self.open.len()).min_by_key(left)?;
        self.is_shortest_next = !self.is_shortest_next;
        Some(if self.is_shortest_next { 0 } else { shortest })
    }
}
