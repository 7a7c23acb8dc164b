//! The k rows with the highest scores.
//!
//! ```text
//!  endpoints send    f64 str, f64 blob        one row: score and payload
//!                    f64s strs, f64s blobs    rows by column, in any order
//!  nodes send up     f64s strs, f64s blobs    at most k rows, highest score first
//! ```
//!
//! Of equal scores, the lesser payload comes first, so every tree picks the same rows. A score of NaN is
//! below every other score. A row without a score must not displace a row with one, and one endpoint's
//! mistake must not cost the others the wave.

use super::TopK;
use crate::builtin::{Builtin, Made, Param, stateless};
use crate::error::Result;
use crate::fold::{FilterError, Fold, Piece, TotalF64, params};
use crate::packet::value::LENGTH;
use crate::packet::{Blobs, Numbers, Packet, Row, Type, Value};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

pub(crate) const ENTRY: Builtin = Builtin {
    name: "top-k",
    summary: "keeps the k rows with the highest scores, of rows of a score and a payload",
    params: &[Param { name: "k", meaning: "number of rows: 1 to 65536; required" }],
    made: Made::Fold(|name| stateless(name, Best::open)),
};

/// Largest allowed `k`.
pub const K_MAX: u32 = 1 << 16;

/// The parameters of `top-k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopRows {
    /// Number of rows.
    pub k: u32,
}

struct Best {
    k: u32,
}

impl Best {
    fn open(params: &Bytes) -> Result<Self> {
        let TopRows { k } = params::read(params)?;
        Ok(Self { k: params::within("k", k, 1..=K_MAX)? })
    }
}

/// A row, ordered so that the greater is better: of equal scores, the row with the lesser payload is greater.
type Scored<'a> = (TotalF64, Reverse<&'a [u8]>);

/// The rows of one packet, by column.
struct Columns<'a> {
    scores: Numbers<'a, f64>,
    payloads: Blobs<'a>,
}

impl Fold for Best {
    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        let mut packets = Vec::with_capacity(pieces.len());
        for piece in pieces {
            packets.push(rows_of(piece, packets.first())?);
        }
        let element =
            packets.first().and_then(|first| first.types().nth(1)).map_or(Type::Blob, Type::element);
        let rows = packets.iter().flat_map(|packet| {
            let Columns { scores, payloads } = columns(packet);
            scores.iter().zip(payloads).map(|(score, payload)| (TotalF64(score), Reverse(payload)))
        });
        Ok(packet(element, TopK::of(self.k, rows).items()).into_bytes())
    }
}

/// Reads a piece as columns. The payloads must have the same type as those of the first piece.
fn rows_of(piece: &Piece, first: Option<&Packet>) -> Result<Packet, FilterError> {
    let from = piece.source;
    let packet = Packet::read(&piece.payload).map_err(FilterError::packet(from))?;
    let columns = match (packet.len(), packet.values().next(), packet.values().nth(1)) {
        (2, Some(Value::F64(score)), Some(Value::Str(text))) => {
            Row::new().f64s(&[score]).strs(&[text]).packet()
        }
        (2, Some(Value::F64(score)), Some(Value::Blob(blob))) => {
            Row::new().f64s(&[score]).blobs(&[blob]).packet()
        }
        (2, Some(Value::F64s(_)), Some(Value::Strs(_) | Value::Blobs(_))) => packet.clone(),
        _ => {
            let wanted = "`f64 str`, `f64 blob`, `f64s strs` or `f64s blobs`".into();
            return Err(FilterError::Format { from, given: packet.format(), wanted });
        }
    };
    if let Some(first) = first.filter(|first| !first.types().eq(columns.types())) {
        let wanted = format!("`{}`, as others send,", first.format());
        return Err(FilterError::Format { from, given: packet.format(), wanted });
    }
    let Columns { scores, payloads } = self::columns(&columns);
    let (given, wanted) = (payloads.len(), scores.len());
    if given != wanted {
        return Err(FilterError::Length { from, field: 1, given, wanted });
    }
    Ok(columns)
}

/// Returns the columns of a packet from [`rows_of`].
fn columns(packet: &Packet) -> Columns<'_> {
    let mut values = packet.values();
    match (values.next(), values.next()) {
        (Some(Value::F64s(scores)), Some(Value::Strs(texts))) => {
            Columns { scores, payloads: texts.as_blobs() }
        }
        (Some(Value::F64s(scores)), Some(Value::Blobs(payloads))) => Columns { scores, payloads },
        _ => unreachable!("invariant: rows_of gives only scores and payloads"),
    }
}

fn packet(element: Type, rows: &[Scored<'_>]) -> Packet {
    let bytes = rows.iter().map(|(_, payload)| LENGTH + payload.0.len()).sum();
    let mut packet = Row::new();
    packet.reserve(rows.len() * size_of::<f64>() + bytes);
    packet.begin_array(Type::F64, rows.len());
    rows.iter().for_each(|(score, _)| packet.octets(&score.canonical().to_le_bytes()));
    packet.begin_list(element, rows.len(), bytes);
    rows.iter().for_each(|(_, payload)| packet.blob_octets(payload.0));
    packet.packet()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::{Source, laws};
    use proptest::prelude::*;

    /// Generates scores with many ties and some NaNs.
    fn samples() -> impl Strategy<Value = Vec<(Vec<f64>, Vec<String>)>> {
        let score = prop_oneof![5 => (0i8..4).prop_map(f64::from), 1 => Just(f64::NAN), 1 => Just(-f64::NAN)];
        let rows = proptest::collection::vec((score, "[ab]{0,2}"), 0..8);
        proptest::collection::vec(rows.prop_map(|rows| rows.into_iter().unzip()), 1..12)
    }

    proptest! {
        #[test]
        fn the_best_are_the_head_of_all_sorted(samples in samples(), k in 1u32..12, tree in laws::tree()) {
            let packets: Vec<Bytes> = samples
                .iter()
                .map(|(scores, texts)| Row::new().f64s(scores).strs(texts).packet().into_bytes())
                .collect();
            let mut all: Vec<(f64, String)> =
                samples.into_iter().flat_map(|(scores, texts)| scores.into_iter().zip(texts)).collect();
            let known = |score: f64| if score.is_nan() { f64::NEG_INFINITY } else { score };
            all.sort_by(|(a, x), (b, y)| known(*b).total_cmp(&known(*a)).then_with(|| x.cmp(y)));
            let best = Packet::read(&laws::climbed("top-k", &TopRows { k }, &packets, &tree)[0]).unwrap();
            prop_assert!(best.strs(1).unwrap().eq(all.iter().take(k as usize).map(|(_, text)| text.as_str())));
        }
    }

    fn best(pieces: Vec<Row>) -> Result<Packet> {
        let packets = pieces.into_iter().map(|row| row.packet().into_bytes());
        let pieces: Vec<_> = (0..).map(Source::Endpoint).zip(packets).collect();
        laws::up("top-k", &TopRows { k: 2 }, &pieces).map(|out| Packet::read(&out[0]).unwrap())
    }

    #[test]
    fn rows_come_one_by_one_or_by_column() {
        let pieces =
            vec![Row::new().f64(2.0).str("one"), Row::new().f64s(&[1.0, 3.0]).strs(&["least", "most"])];
        assert_eq!(best(pieces).unwrap(), Row::new().f64s(&[3.0, 2.0]).strs(&["most", "one"]).packet());
        let blobs = best(vec![Row::new().f64(2.0).blob(b"\xff")]).unwrap();
        assert_eq!(blobs, Row::new().f64s(&[2.0]).blobs(&[b"\xff"]).packet());
    }

    #[test]
    fn packets_that_are_no_rows_are_refused() {
        let refused = |pieces| best(pieces).unwrap_err().to_string();
        let wanted = "`f64 str`, `f64 blob`, `f64s strs` or `f64s blobs`";
        assert_eq!(
            refused(vec![Row::new().i64(1).str("x")]),
            format!("top-k: endpoint 0 sends `i64 str`, but {wanted} is expected")
        );
        assert_eq!(
            refused(vec![Row::new().f64(1.0).str("x"), Row::new().f64(1.0).blob(b"x")]),
            "top-k: endpoint 1 sends `f64 blob`, but `f64s strs`, as others send, is expected"
        );
        assert_eq!(
            refused(vec![Row::new().f64s(&[1.0, 2.0]).strs(&["x"])]),
            "top-k: field 1 of endpoint 0 has 1 elements, where the others have 2"
        );
    }
}
