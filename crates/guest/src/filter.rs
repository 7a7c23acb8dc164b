//! A filter: processes a stream's packets on their way through a node.
//!
//! A node has one instance of the guest for each stream, with separate memory, for as long as the stream
//! passes through the node. The filter keeps state from wave to wave. A piece from an endpoint is the packet
//! that the endpoint sent. A piece from a child is the output of this same filter at the child.

use crate::error::Result;
use alloc::vec::Vec;

/// The source of a piece, as one node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// An endpoint on this node, by its number.
    Endpoint(u32),
    /// A child of this node in the stream's tree. A number is never used again.
    Child(u32),
}

/// A packet of a wave, with its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The source of the packet.
    pub source: Source,
    /// The packet's bytes.
    pub payload: &'a [u8],
}

/// The pieces that arrived under one tag.
#[derive(Clone, Copy, Debug)]
pub struct Wave<'a> {
    /// The tag. Its meaning belongs to the user of the stream.
    pub tag: u64,
    /// The packets, at least one. Packets of one source are adjacent, in the order they were sent.
    pub pieces: &'a [Piece<'a>],
    /// The node's clock in ns since the Unix epoch. It may differ from other nodes' clocks, and it may jump.
    pub now_ns: u64,
}

/// A packet on its way from the front-end to the endpoints.
#[derive(Clone, Copy, Debug)]
pub struct Descent<'a> {
    /// The tag that the front-end gave it.
    pub tag: u64,
    /// The packet as the front-end sent it, or as this filter changed it at the parent.
    pub payload: &'a [u8],
    /// As [`Wave::now_ns`].
    pub now_ns: u64,
}

/// The packets that a filter sends.
#[derive(Clone, Debug, Default)]
pub struct Packets {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Packets {
    /// Creates an empty list of packets.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), ends: Vec::new() }
    }

    /// Adds a packet, a copy of `payload`.
    pub fn push(&mut self, payload: &[u8]) {
        self.write(|bytes| bytes.extend_from_slice(payload));
    }

    /// Adds a packet with the bytes that `write` appends. `write` must not remove bytes.
    ///
    /// # Panics
    /// If `write` leaves fewer bytes than before.
    pub fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.bytes.len();
        write(&mut self.bytes);
        assert!(self.bytes.len() >= before, "a packet's writer must not remove bytes of earlier packets");
        self.ends.push(self.bytes.len());
    }

    /// Iterates over the packets so far.
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
    /// Opens a filter for one stream at one node.
    ///
    /// # Errors
    /// If the parameters are invalid; the stream is then not opened.
    fn open(params: &[u8]) -> Result<Self>;

    /// Folds a wave's pieces into any number of packets that go up in their place.
    ///
    /// # Errors
    /// All contributors to the wave at this node are missing from it. The filter stays as it is and gets the
    /// next wave. After a panic, the filter also loses its state: it is opened anew.
    fn up(&mut self, wave: Wave<'_>, out: &mut Packets) -> Result;

    /// Transforms a packet on its way down; the default passes it on unchanged.
    ///
    /// # Errors
    /// The packet reaches no node or endpoint below, and the stream's front-end gets the error.
    fn down(&mut self, descent: Descent<'_>, out: &mut Packets) -> Result {
        out.push(descent.payload);
        Ok(())
    }

    /// Returns the oldest tag with data that the filter still holds and that no packet has taken up.
    ///
    /// `None` means that it holds nothing. Children and endpoints keep the packets they sent from this tag
    /// on, in case this node is lost with its state.
    fn holds_from(&self) -> Option<u64> {
        None
    }

    /// Announces that `source` takes part from now on.
    ///
    /// It is called for every source before the first wave, and later for each new one. For an heir, it is
    /// called just before [`replaced`](Self::replaced). After a trap, the filter begins anew, and it is
    /// called again for all sources.
    fn joined(&mut self, source: Source) {
        let _ = source;
    }

    /// Announces that `lost` sends nothing more and that `heirs` take its place.
    ///
    /// The heirs send the undelivered packets again. Without heirs, the source is gone.
    fn replaced(&mut self, lost: Source, heirs: &[Source]) {
        let _ = (lost, heirs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_separate_even_when_empty() {
        let mut packets = Packets::new();
        packets.push(b"one");
        packets.push(b"");
        packets.write(|bytes| bytes.extend([7, 7]));
        assert!(packets.iter().eq([b"one".as_slice(), b"", &[7, 7]]));
    }
}
