//! The work, which is the same for every peer in every language: server `i` returns the integer `i`, or ten scored texts of
//! 100 bytes, and the caller has the sum, or the ten best texts of all servers.
//!
//! gRPC peers send raw bytes and no protobuf, which is the cheapest form that gRPC has. An integer is 8 bytes. A row is its score
//! as `f64`, the length of its text as `u32`, and the text. All numbers are little-endian.

use crate::Problem;
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Rows that each server returns, and that the caller keeps.
pub(crate) const K: usize = 10;
/// Bytes of a row's text.
const TEXT_BYTES: usize = 100;
/// Bytes of a row before its text.
const HEAD_BYTES: usize = 12;
/// A prime above the number of all rows, so that no two scores are equal.
const SCORES: u32 = 10_007;
/// Spreads the best rows over the servers.
const STEP: u32 = 7_919;
/// Most servers. Their rows must be fewer than `SCORES`.
pub(crate) const NODES_MAX: i64 = 1_000;

/// The kind of partial that servers return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// An integer of 8 bytes
    Int,
    /// Ten scored texts of 100 bytes
    Topk,
}

/// A score and a text.
pub(crate) type Row = (f64, String);

/// Returns the rows of a server, highest score first.
pub(crate) fn rows(partition: u32) -> Vec<Row> {
    let row = |row: u32| {
        let score = f64::from((partition * K as u32 + row) * STEP % SCORES) / f64::from(SCORES);
        (score, format!("{:x<TEXT_BYTES$}", format!("partition {partition} row {row} ")))
    };
    let mut rows: Vec<Row> = (0..K as u32).map(row).collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    rows
}

/// The answer that a call must have.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) sum: i64,
    pub(crate) best: Vec<Row>,
}

impl Expected {
    /// Computes the answer of `nodes` servers.
    pub(crate) fn of(nodes: u32) -> Self {
        let mut best: Vec<Row> = (0..nodes).flat_map(rows).collect();
        best.sort_by(|a, b| b.0.total_cmp(&a.0));
        best.truncate(K);
        Self { sum: i64::from(nodes) * (i64::from(nodes) - 1) / 2, best }
    }

    /// Compares a sum.
    pub(crate) fn check_sum(&self, sum: i64) -> Result<(), Problem> {
        if sum == self.sum { Ok(()) } else { Err(format!("the sum is {sum}, expected {}", self.sum).into()) }
    }

    /// Compares rows.
    pub(crate) fn check_rows<'a>(
        &'a self,
        rows: impl Iterator<Item = (f64, &'a [u8])>,
    ) -> Result<(), Problem> {
        let expected = self.best.iter().map(|(score, text)| (*score, text.as_bytes()));
        if rows.eq(expected) { Ok(()) } else { Err("the best rows are not the expected ones".into()) }
    }

    /// Folds the answers of all servers, and compares the result.
    pub(crate) fn check_partials(&self, kind: Kind, partials: &[Bytes]) -> Result<(), Problem> {
        match kind {
            Kind::Int => {
                let numbers = partials.iter().map(|partial| partial.as_ref().try_get_i64_le());
                self.check_sum(numbers.sum::<Result<i64, _>>()?)
            }
            Kind::Topk => self.check_rows(best_of(partials)?.into_iter()),
        }
    }
}

/// Encodes rows.
pub(crate) fn encode(rows: &[Row]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(rows.len() * (HEAD_BYTES + TEXT_BYTES));
    for (score, text) in rows {
        bytes.put_f64_le(*score);
        bytes.put_u32_le(text.len() as u32);
        bytes.put_slice(text.as_bytes());
    }
    bytes.freeze()
}

/// Returns the best rows of all partials, highest score first.
fn best_of(partials: &[Bytes]) -> Result<Vec<(f64, &[u8])>, Problem> {
    let mut all = Vec::with_capacity(partials.len() * K);
    for partial in partials {
        let mut rest = partial.as_ref();
        while !rest.is_empty() {
            let (score, bytes) = (rest.try_get_f64_le()?, rest.try_get_u32_le()? as usize);
            let (text, after) = rest.split_at_checked(bytes).ok_or("a row ends early")?;
            all.push((score, text));
            rest = after;
        }
    }
    if all.len() > K {
        all.select_nth_unstable_by(K, |a, b| b.0.total_cmp(&a.0));
        all.truncate(K);
    }
    all.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partials_of_all_servers_fold_to_the_expected_answer() {
        let expected = Expected::of(64);
        let numbers: Vec<Bytes> =
            (0..64i64).map(|number| Bytes::copy_from_slice(&number.to_le_bytes())).collect();
        expected.check_partials(Kind::Int, &numbers).unwrap();
        let partials: Vec<Bytes> = (0..64).map(|partition| encode(&rows(partition))).collect();
        expected.check_partials(Kind::Topk, &partials).unwrap();
    }

    #[test]
    fn missing_or_cut_partials_are_found() {
        let expected = Expected::of(16);
        let partials: Vec<Bytes> = (0..16).map(|partition| encode(&rows(partition))).collect();
        let best_at = |partials: &[Bytes]| {
            partials.iter().position(|partial| {
                partial.windows(TEXT_BYTES).any(|text| text == expected.best[0].1.as_bytes())
            })
        };
        let mut fewer = partials.clone();
        fewer.remove(best_at(&partials).unwrap());
        assert!(expected.check_partials(Kind::Topk, &fewer).is_err());
        let mut cut = partials;
        cut[3].truncate(50);
        assert!(expected.check_partials(Kind::Topk, &cut).is_err());
        assert!(expected.check_partials(Kind::Int, &[Bytes::from_static(b"1234567")]).is_err());
    }

    #[test]
    fn scores_differ_and_texts_have_their_length() {
        let mut all: Vec<Row> = (0..NODES_MAX as u32).flat_map(rows).collect();
        assert!(all.iter().all(|(_, text)| text.len() == TEXT_BYTES));
        let count = all.len();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.dedup_by(|a, b| a.0 == b.0);
        assert_eq!(all.len(), count);
    }
}
