//! Joins packets field by field into one packet: MRNet's array concatenation.
//!
//! ```text
//!  endpoint 0:  u64 0   f64 0.5          a node sends up:
//!  endpoint 4:  u64 4   f64 2.5          u64s [0, 4, 9, 9]
//!  child 1:     u64s [9, 9]   f64s [1.5, 1.0]   f64s [0.5, 2.5, 1.5, 1.0]
//! ```
//!
//! The same field of all packets must hold one type and its array type, in any mixture. It becomes the array,
//! even if there is only one piece, so that the front-end gets the same format from every tree. The endpoints
//! of a node come first, by number, then its children. The values of one packet stay at the same positions in
//! all fields, so a field with the endpoint's number identifies the source of the others. The overall order
//! depends on the tree.
//!
//! The result grows with the number of endpoints, so it has a limit: more than `bytes_max` bytes is an error
//! at the node where it happens, before the memory is allocated.

use super::CONCATENATE_BYTES_MAX;
use crate::builtin::{Builtin, Made, Param, stateless};
use crate::error::Result;
use crate::fold::{FilterError, Fold, Piece, Source, params};
use crate::packet::value::{LENGTH, Span};
use crate::packet::{Packet, Row, Type};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub(crate) const ENTRY: Builtin = Builtin {
    name: "concatenate",
    summary: "joins scalars and arrays field by field into arrays",
    params: &[Param {
        name: "bytes_max",
        meaning: "most bytes of a joined packet, else the wave fails: 1 to 67108864; 16777216 by default",
    }],
    made: Made::Fold(|name| stateless(name, Joined::open)),
};

/// Default of `bytes_max`.
pub const BYTES_MAX_DEFAULT: u64 = 16 << 20;

/// The parameters of `concatenate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Concatenate {
    /// Most bytes of a joined packet; beyond it, the wave fails.
    #[serde(default = "bytes_max_default")]
    pub bytes_max: u64,
}

fn bytes_max_default() -> u64 {
    BYTES_MAX_DEFAULT
}

impl Default for Concatenate {
    fn default() -> Self {
        Self { bytes_max: BYTES_MAX_DEFAULT }
    }
}

struct Joined {
    bytes_max: u64,
}

impl Joined {
    fn open(params: &Bytes) -> Result<Self> {
        let Concatenate { bytes_max } = params::read(params)?;
        Ok(Self { bytes_max: params::within("bytes_max", bytes_max, 1..=CONCATENATE_BYTES_MAX)? })
    }
}

impl Fold for Joined {
    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        let mut packets = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let packet = Packet::read(&piece.payload).map_err(FilterError::packet(piece.source))?;
            packets.push((piece.source, packet));
        }
        packets.sort_by_key(|&(source, _)| source); // stable: packets of one source keep their order
        let ((_, first), others) = packets.split_first().expect("invariant: there is at least one piece");
        for (from, packet) in others {
            same_elements(*from, packet, first)?;
        }
        let mut spans: Vec<_> = packets.iter().map(|(_, packet)| packet.values().spans()).collect();
        let fields: Vec<Field<'_>> = first
            .types()
            .map(|kind| Field::of(kind.element(), spans.iter_mut().filter_map(Iterator::next)))
            .collect();
        let (bytes, bytes_max) = (1 + fields.iter().map(Field::joined_bytes).sum::<u64>(), self.bytes_max);
        if bytes > bytes_max {
            return Err(FilterError::TooManyBytes { limit: "bytes_max", bytes, bytes_max }.into());
        }
        let mut row = Row::new();
        row.reserve(bytes as usize);
        fields.iter().for_each(|field| field.join(&mut row));
        Ok(row.packet().into_bytes())
    }
}

/// Checks that a packet has the types of another, or their array types.
fn same_elements(from: Source, packet: &Packet, first: &Packet) -> Result<(), FilterError> {
    if packet.types().map(Type::element).eq(first.types().map(Type::element)) {
        return Ok(());
    }
    let wanted = format!("`{}`, as others send, or arrays of these", first.format());
    Err(FilterError::Format { from, given: packet.format(), wanted })
}

/// The values of all pieces in one field.
struct Field<'a> {
    element: Type,
    /// The elements of each value, as they lie in its packet.
    octets: Vec<&'a [u8]>,
    /// Number of elements in total.
    count: usize,
    /// Bytes of the elements in total.
    bytes: usize,
}

impl<'a> Field<'a> {
    fn of(element: Type, values: impl Iterator<Item = Span<'a>>) -> Self {
        let mut field = Self { element, octets: Vec::new(), count: 0, bytes: 0 };
        for (count, octets) in values.map(Span::elements) {
            field.count += count;
            field.bytes += octets.len();
            field.octets.push(octets);
        }
        field
    }

    /// Returns the field's size in the packet, in bytes.
    fn joined_bytes(&self) -> u64 {
        let (kind, count, list_bytes) = (1, LENGTH, if self.element.is_number() { 0 } else { LENGTH });
        (kind + count + list_bytes + self.bytes) as u64
    }

    /// Appends the array of all elements.
    fn join(&self, row: &mut Row) {
        match self.element.is_number() {
            true => row.begin_array(self.element, self.count),
            false => row.begin_list(self.element, self.count, self.bytes),
        }
        self.octets.iter().for_each(|octets| row.octets(octets));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_tree_joins_the_same_rows(
            rows in proptest::collection::vec((any::<u64>(), ".{0,6}", any::<f32>()), 1..16),
            tree in laws::tree(),
        ) {
            let sample = |(id, text, float): &(u64, String, f32)| {
                Row::new().u64(*id).str(text).f32s(&[*float]).blob(text.as_bytes()).packet().into_bytes()
            };
            let samples: Vec<Bytes> = rows.iter().map(sample).collect();
            let joined = laws::climbed("concatenate", &Concatenate::default(), &samples, &tree);
            let joined = Packet::read(&joined[0]).unwrap();
            prop_assert_eq!(joined.format(), "u64s strs f32s blobs");
            // The order depends on the tree, but the values of one row stay side by side.
            let (ids, texts) = (joined.u64s(0).unwrap().iter(), joined.strs(1).unwrap());
            let floats = joined.f32s(2).unwrap().iter().map(f32::to_bits);
            let mut came: Vec<_> = ids.zip(texts.map(String::from)).zip(floats).collect();
            let mut sent: Vec<_> =
                rows.iter().map(|(id, text, float)| ((*id, text.clone()), float.to_bits())).collect();
            came.sort();
            sent.sort();
            prop_assert_eq!(came, sent);
            prop_assert!(joined.strs(1).unwrap().as_blobs().eq(joined.blobs(3).unwrap()));
        }
    }

    fn joined(bytes_max: u64, pieces: &[(Source, Row)]) -> Result<Packet> {
        let pieces: Vec<_> =
            pieces.iter().map(|(source, row)| (*source, row.clone().packet().into_bytes())).collect();
        laws::up("concatenate", &Concatenate { bytes_max }, &pieces).map(|out| Packet::read(&out[0]).unwrap())
    }

    #[test]
    fn endpoints_come_first_then_children_each_by_number() {
        let pieces = [
            (Source::Child(2), Row::new().i64s(&[5, 6])),
            (Source::Endpoint(9), Row::new().i64(2)),
            (Source::Child(1), Row::new().i64s(&[3])),
            (Source::Child(1), Row::new().i64s(&[4])),
            (Source::Endpoint(3), Row::new().i64(1)),
        ];
        assert_eq!(joined(1000, &pieces).unwrap(), Row::new().i64s(&[1, 2, 3, 4, 5, 6]).packet());
    }

    #[test]
    fn a_scalar_alone_becomes_an_array_too() {
        let one = joined(1000, &[(Source::Endpoint(0), Row::new().str("x").f64(0.5))]);
        assert_eq!(one.unwrap(), Row::new().strs(&["x"]).f64s(&[0.5]).packet());
    }

    #[test]
    fn the_limit_counts_the_bytes_of_the_joined_packet() {
        let pieces = [
            (Source::Endpoint(0), Row::new().str("four").i64(1)),
            (Source::Endpoint(1), Row::new().str("x").i64(2)),
        ];
        let bytes = joined(1000, &pieces).unwrap().bytes().len() as u64;
        assert!(joined(bytes, &pieces).is_ok());
        assert_eq!(
            joined(bytes - 1, &pieces).unwrap_err().to_string(),
            format!("concatenate: {bytes} bytes are above the limit `bytes_max` of {}", bytes - 1)
        );
    }

    #[test]
    fn other_types_are_refused_with_both_formats() {
        let pieces = [(Source::Endpoint(0), Row::new().i64(1)), (Source::Child(1), Row::new().f64s(&[1.0]))];
        assert_eq!(
            joined(1000, &pieces).unwrap_err().to_string(),
            "concatenate: child 1 sends `f64s`, but `i64`, as others send, or arrays of these is expected"
        );
    }

    #[test]
    fn a_limit_outside_its_range_is_refused() {
        let kind = crate::filter::builtin("concatenate").unwrap();
        let params = crate::Body::encode(&Concatenate { bytes_max: 0 }).unwrap();
        let refused = kind.open(&params).err().unwrap().to_string();
        assert_eq!(refused, "concatenate: parameter `bytes_max`: 0 is not within 1 to 67108864");
    }
}
