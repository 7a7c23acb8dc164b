//! A reduce: the k best rows of two partials.
//!
//! A partial is a run of rows, best first: a score (f64) and a document's number (u64), both little-endian.
//! The parameter is k, a little-endian u32. Of equal scores, the lesser document number is better, so every
//! tree picks the same rows.

use std::cmp::Ordering;
use treefold_guest::{Error, Reduce, Result, export_reduce};

/// Bytes of one row.
const ROW: usize = 16;

/// The k best of two runs of rows.
pub struct TopK;

impl Reduce for TopK {
    fn reduce(a: &[u8], b: &[u8], params: &[u8], out: &mut Vec<u8>) -> Result {
        let k =
            params.try_into().map(u32::from_le_bytes).map_err(|_| Error::new("the parameter is k, a u32"))?;
        let ((mut a, []), (mut b, [])) = (a.as_chunks::<ROW>(), b.as_chunks::<ROW>()) else {
            return Err(Error::new("a partial is whole rows of 16 bytes"));
        };
        let rows = (a.len() + b.len()).min(k as usize);
        out.reserve_exact(rows * ROW);
        for _ in 0..rows {
            let from = match (a.first(), b.first()) {
                (Some(left), Some(right)) if order(left, right).is_gt() => &mut b,
                (Some(_), _) => &mut a,
                _ => &mut b,
            };
            let (best, rest) = from.split_first().expect("invariant: there are `rows` rows in both");
            out.extend_from_slice(best);
            *from = rest;
        }
        Ok(())
    }
}

/// Orders rows, best first.
fn order(a: &[u8; ROW], b: &[u8; ROW]) -> Ordering {
    let row = |row: &[u8; ROW]| {
        let (score, document) = row.split_at(8);
        let word = |half: &[u8]| half.try_into().expect("invariant: half a row is 8 bytes");
        (f64::from_le_bytes(word(score)), u64::from_le_bytes(word(document)))
    };
    let ((a_score, a_document), (b_score, b_document)) = (row(a), row(b));
    b_score.total_cmp(&a_score).then(a_document.cmp(&b_document))
}

export_reduce!(TopK);
