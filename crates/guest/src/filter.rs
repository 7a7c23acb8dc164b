//! A filter: what happens to a stream's packets on their way through a node.
//!
//! A node has one instance of the guest for each stream, with a memory of its own, for as long as the stream passes
//! through. What a filter remembers from wave to wave is its state. A piece from an endpoint is what the endpoint
//! sent; a piece from a child is what this same filter gave there.

use crate::error::Result;
use alloc::vec::Vec;

/// Where a piece comes from, as one node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// An endpoint that lives on this node, by its number.
    Endpoint(u32),
    /// A child of this node in the stream's tree; a number is never used again.
    Child(u32),
}

/// A packet of a wave, and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Where it comes from.
    pub source: Source,
    /// What was sent.
    pub payload: &'a [u8],
}

/// What came together under one tag.
#[derive(Clone, Copy, Debug)]
pub struct Wave<'a> {
    /// The tag; what it counts is the stream's user's business.
    pub tag: u64,
    /// The packets, those of one source together and in the order they were sent; at least one.
    pub pieces: &'a [Piece<'a>],
    /// The node's clock in ns since the Unix epoch. Nobody promises that it agrees with others', or never jumps.
    pub now_ns: u64,
}

/// A packet on its way from the front-end to the endpoints.
#[derive(Clone, Copy, Debug)]
pub struct Descent<'a> {
    /// The tag the front-end gave it.
    pub tag: u64,
    /// What was sent, or what this filter made of it at the parent.
    pub payload: &'a [u8],
    /// As [`Wave::now_ns`].
    pub now_ns: u64,
}

/// The packets that a filter gives.
#[derive(Clone, Debug, Default)]
pub struct Packets {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Packets {
    /// No packet yet.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), ends: Vec::new() }
    }

    /// One more packet, a copy of `payload`.
    pub fn push(&mut self, payload: &[u8]) {
        self.write(|bytes| bytes.extend_from_slice(payload));
    }

    /// One more packet: what `write` appends. It must take nothing away.
    ///
    /// # Panics
    /// When `write` leaves less than there was.
    pub fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.bytes.len();
        write(&mut self.bytes);
        assert!(self.bytes.len() >= before, "a packet's writer must not touch the packets before");
        self.ends.push(self.bytes.len());
    }

    /// The packets so far.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.ends.iter().enumerate().map(|(index, &end)| {
            let start = if index == 0 { 0 } else { self.ends[index - 1] };
            &self.bytes[start..end]
        })
    }

    #[cfg(target_arch = "wasm32")]
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// One stream's filter at one node.
pub trait Filter: Sized {
    /// A filter for one stream at one node.
    ///
    /// # Errors
    /// When the parameters make no sense; the stream is not opened.
    fn open(params: &[u8]) -> Result<Self>;

    /// Makes a wave's pieces into what goes up in their place: any number of packets.
    ///
    /// # Errors
    /// The wave loses everyone who contributed here; the filter stays as it is and gets the next wave. A panic costs
    /// it its state besides: it is opened anew.
    fn up(&mut self, wave: Wave<'_>, out: &mut Packets) -> Result;

    /// Makes a packet on its way down into what goes on in its place; by default it is passed on as it is.
    ///
    /// # Errors
    /// Nobody below gets the packet; the stream's front-end is told.
    fn down(&mut self, descent: Descent<'_>, out: &mut Packets) -> Result {
        out.push(descent.payload);
        Ok(())
    }

    /// The oldest tag of which something is still in here and in no packet that went up; `None` when there is nothing.
    /// Those below keep what they sent from this tag on, in case this node is lost with its state.
    fn holds_from(&self) -> Option<u64> {
        None
    }

    /// `source` takes part from now on. Said of everyone before the first wave, and later of those who come; of an heir
    /// too, just before [`replaced`](Self::replaced) says whose heir it is. A filter that begins anew after a trap is
    /// told of everyone again.
    fn joined(&mut self, source: Source) {
        let _ = source;
    }

    /// `lost` gives nothing more, and `heirs` come in its place; they send again what had not been delivered. Without
    /// heirs it is simply gone.
    fn replaced(&mut self, lost: Source, heirs: &[Source]) {
        let _ = (lost, heirs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_kept_apart_also_when_they_are_empty() {
        let mut packets = Packets::new();
        packets.push(b"one");
        packets.push(b"");
        packets.write(|bytes| bytes.extend([7, 7]));
        assert!(packets.iter().eq([b"one".as_slice(), b"", &[7, 7]]));
    }
}
