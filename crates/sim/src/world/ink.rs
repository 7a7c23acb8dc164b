//! The payload of the simulated world. It shows which partitions it contains, and how often.
//!
//! Each partition has a mark, a random number of 128 bits. A partial holds the sum and the number of its
//! partitions' marks, so a fold is one addition. With near certainty, the sum differs from every value that
//! does not contain each contributor exactly once. As parameters of a call, an `Ink` holds the call's number
//! and the factor of its work.
//!
//! A worker pushes its result in pieces. The marks of all pieces add up to the worker's mark, which differs
//! for each request. So a piece that is missing, counts twice, or belongs to another request is noticed as
//! well.
//!
//! A packet of a stream has the mark of its stream, its endpoint and its wave's tag. So the sum over a wave
//! shows a packet of another wave, and an endpoint that counts twice. If an endpoint lets its node count its
//! packets, it does not know their tags. Such a packet has a mark without a tag until the filter of its own
//! node [stamps](Ink::stamped) it.

use super::held::Buffer;
use treefold_core::id::PartitionId;
use treefold_core::message::Payload;
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::StreamId;

/// Parameters or a partial.
#[derive(Clone, Debug, PartialEq)]
pub struct Ink {
    /// The sum of the folded marks.
    pub marks: u128,
    /// The number of folded partitions. A partition that was folded twice counts twice.
    pub count: u32,
    /// The size on the network, in bytes.
    pub bytes: u32,
    /// The call's number in its run, on which drawn service times depend. For a single packet of a stream,
    /// its number at its endpoint; 0 for several packets in one.
    pub call: u64,
    /// The factor of the call's service times.
    pub scale: f64,
    /// The number of the content that it stands for, in a world with a [feed](super::feeds); 0 for none.
    pub content: u64,
    /// As parameters: the only partition that gets them; `None` for the common parameters of a call.
    pub own: Option<PartitionId>,
    /// The memory that it takes, if that is [counted](super::World::count_held).
    pub buffer: Buffer,
}

impl Ink {
    /// Creates the parameters of the run's `call`-th call.
    pub fn params(call: u64, scale: f64) -> Self {
        Self { marks: 0, count: 0, bytes: 64, call, scale, content: 0, own: None, buffer: Buffer::default() }
    }

    /// Creates the partial of `partition` alone, with a size of `bytes`.
    pub fn of(partition: PartitionId, params: &Self, bytes: u32) -> Self {
        Self { marks: mark(partition.into()), count: 1, bytes, ..Self::params(params.call, params.scale) }
    }

    /// Creates piece `number`, counted from 0, of the `pieces` that a worker pushes for a request. All pieces
    /// except the first may be empty.
    pub fn piece(worker: PartitionId, request: u64, number: usize, pieces: &[u32]) -> Self {
        let call = pushed(request, 0);
        let of = |number: usize| match pieces[number] {
            0 => 0,
            _ => mark(PUSHED | mixed(request << 32 ^ (number as u64) << 16 ^ u64::from(worker))),
        };
        let marks = match number {
            0 => (1..pieces.len()).fold(mark(marked(call, worker)), |sum, other| sum.wrapping_sub(of(other))),
            number => of(number),
        };
        Self { marks, count: u32::from(number == 0), bytes: pieces[number], ..Self::params(call, 1.0) }
    }

    /// Creates packet `number` of an endpoint for the wave `tag`, if the endpoint knows the tag.
    pub fn packet(stream: StreamId, endpoint: u32, tag: Option<u64>, number: u64, bytes: u32) -> Self {
        Self { marks: mark(streamed(stream, endpoint, tag)), count: 1, bytes, ..Self::params(number, 1.0) }
    }

    /// Adds the tag to an endpoint's packet without a tag. A packet with a tag, or of another endpoint, stays
    /// unchanged.
    #[must_use]
    pub fn stamped(self, stream: StreamId, endpoint: u32, tag: u64) -> Self {
        let is_untagged = self.marks == mark(streamed(stream, endpoint, None));
        let marks = if is_untagged { mark(streamed(stream, endpoint, Some(tag))) } else { self.marks };
        Self { marks, ..self }
    }

    /// Tells whether these packets of the wave `tag` together contain each contributor once, and nothing of
    /// another wave. A packet that no filter has stamped must be of a single contributor.
    pub fn hold_wave(packets: &[Self], stream: StreamId, tag: u64, contributors: &PartitionSet) -> bool {
        let add = |sum: u128, endpoint| sum.wrapping_add(mark(streamed(stream, endpoint, Some(tag))));
        let mut expected = contributors.iter().fold(0_u128, add);
        let (mut found, mut count) = (0_u128, 0_u32);
        for packet in packets {
            count = count.wrapping_add(packet.count);
            found = found.wrapping_add(packet.marks);
        }
        if found != expected {
            // For packets without a tag, expect the mark without a tag.
            for endpoint in contributors.iter() {
                let untagged = mark(streamed(stream, endpoint, None));
                if packets.iter().any(|packet| packet.marks == untagged) {
                    let tagged = mark(streamed(stream, endpoint, Some(tag)));
                    expected = expected.wrapping_sub(tagged).wrapping_add(untagged);
                }
            }
        }
        count as usize == contributors.len() && found == expected
    }

    /// Folds two partials. The result is as large as the larger one.
    #[must_use]
    pub fn folded(self, other: &Self) -> Self {
        Self {
            marks: self.marks.wrapping_add(other.marks),
            count: self.count.wrapping_add(other.count),
            bytes: self.bytes.max(other.bytes),
            ..self
        }
    }

    /// Joins the slices of one value, which must contain the same partitions. If they do not, the count of
    /// the result is invalid.
    pub fn joined(slices: &[Self]) -> Self {
        let first = slices.first().cloned().unwrap_or_else(|| Self::params(0, 1.0));
        let is_same = |slice: &Self| slice.marks == first.marks && slice.count == first.count;
        let bytes = slices.iter().map(|slice| slice.bytes).sum();
        let count = if slices.iter().all(is_same) { first.count } else { u32::MAX };
        Self { bytes, count, ..first }
    }

    /// Tells whether it contains each of `partitions` once, and nothing else.
    pub fn holds_exactly(&self, partitions: &PartitionSet) -> bool {
        let marks = partitions
            .iter()
            .fold(0_u128, |sum, partition| sum.wrapping_add(mark(marked(self.call, partition))));
        self.count as usize == partitions.len() && self.marks == marks
    }
}

impl Payload for Ink {
    fn len(&self) -> usize {
        self.bytes as usize
    }
}

/// The bit that marks the numbers of calls that announce a request.
const PUSHED: u64 = 1 << 63;
/// Distinguishes the marks of streams from other marks.
const STREAMED: u64 = 0x7374_7265_616d;
/// Position of the request in such a number.
const REQUEST_AT: u32 = 20;

/// Returns the number of the `nth` call, counted from 1, that announces a request. If `nth` is 0, the number
/// is of none of these calls.
pub fn pushed(request: u64, nth: u64) -> u64 {
    PUSHED | request << REQUEST_AT | nth
}

/// Returns the value that is marked for a partition in a call: the partition, or a worker with its request.
fn marked(call: u64, partition: PartitionId) -> u64 {
    let partition = u64::from(partition);
    if call & PUSHED == 0 { partition } else { PUSHED | mixed(call >> REQUEST_AT << REQUEST_AT ^ partition) }
}

/// Returns the value that is marked for a packet: its stream, its endpoint, and its wave's tag if known.
fn streamed(stream: StreamId, endpoint: u32, tag: Option<u64>) -> u64 {
    let of_stream = mixed(mixed(stream.origin ^ STREAMED).wrapping_add(stream.sequence));
    let of_endpoint = mixed(of_stream.wrapping_add(endpoint.into()));
    tag.map_or(of_endpoint, |tag| mixed(of_endpoint.rotate_left(17).wrapping_add(tag)))
}

fn mark(what: u64) -> u128 {
    let half = |purpose: u64| u128::from(mixed(what ^ purpose));
    half(0x6d61_726b) << 64 | half(0x696e_6b00_0000_0000)
}

/// `SplitMix64`'s step and finaliser (Steele, Lea and Flood, OOPSLA'14): a bijection without visible pattern.
pub(crate) const fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_doubled_and_foreign_pieces_are_noticed() {
        let pieces = [100, 0, 30];
        let piece = |number| Ink::piece(4, 7, number, &pieces);
        let worker: PartitionSet = [4].into_iter().collect();
        let all = piece(0).folded(&piece(1)).folded(&piece(2));
        assert!(all.holds_exactly(&worker));
        assert!(!piece(0).folded(&piece(1)).holds_exactly(&worker));
        assert!(!all.folded(&piece(2)).holds_exactly(&worker));
        let other = piece(0).folded(&Ink::piece(4, 8, 2, &pieces));
        assert!(!other.holds_exactly(&worker));
    }

    #[test]
    fn missing_doubled_and_foreign_packets_are_noticed() {
        let stream = StreamId { origin: 7, sequence: 1 };
        let of = |endpoint, tag, number| Ink::packet(stream, endpoint, tag, number, 10);
        let stamped = |endpoint, number| of(endpoint, None, number).stamped(stream, endpoint, 5);
        let wave: PartitionSet = [1, 2].into_iter().collect();
        let holds = |packets: &[Ink]| Ink::hold_wave(packets, stream, 5, &wave);
        assert!(holds(&[stamped(1, 8).folded(&of(2, Some(5), 3))]));
        assert!(holds(&[of(1, None, 8), of(2, Some(5), 3)]), "no filter has stamped it");
        assert!(!holds(&[stamped(1, 8)]));
        assert!(!holds(&[stamped(1, 8).folded(&stamped(1, 9))]));
        assert!(!holds(&[stamped(1, 8).folded(&of(2, Some(4), 3))]), "of another wave");
        assert_eq!(of(1, Some(4), 8).stamped(stream, 1, 5).marks, of(1, Some(4), 8).marks);
    }

    #[test]
    fn missing_and_doubled_partitions_are_noticed() {
        let params = Ink::params(1, 1.0);
        let of = |partition| Ink::of(partition, &params, 100);
        let three = of(1).folded(&of(2)).folded(&of(5));
        let set = |partitions: &[u32]| partitions.iter().copied().collect::<PartitionSet>();
        assert!(three.holds_exactly(&set(&[1, 2, 5])));
        assert!(!three.holds_exactly(&set(&[1, 2])));
        assert!(!three.holds_exactly(&set(&[1, 2, 4])));
        assert!(!of(1).folded(&of(1)).holds_exactly(&set(&[1])));
        assert!(!of(1).folded(&of(1)).holds_exactly(&set(&[0, 2])), "two partitions with the same sum");
    }
}
