//! Sums of vectors, entry by entry.

use super::elementwise::{Elementwise, fold_numbers};
use super::slicing::slice_range;
use super::sum::Adding;
use super::{Merge, MergeError};
use crate::codec::{Body, BodyError, Codec};
use bytes::Bytes;
use treefold_core::wave::slice::Slice;

const WIDTH: usize = size_of::<f32>();

/// A sum of vectors of 32-bit floating-point numbers, all of the same length (gradients, weighted histograms,
/// embeddings).
///
/// It is encoded as its little-endian numbers only, and is summed in place. The vector without entries is the
/// identity; other differences in length are an error. As with [`FloatSum`](super::FloatSum), two trees over
/// n partials may differ by rounding, by at most about `n · 2⁻²⁴ · Σ|x|` in each entry.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct VectorSum(Bytes);

impl VectorSum {
    /// Creates a vector of these entries.
    pub fn new(entries: impl IntoIterator<Item = f32>) -> Self {
        let octets: Vec<u8> = entries.into_iter().flat_map(f32::to_le_bytes).collect();
        Self(octets.into())
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.0.len() / WIDTH
    }

    /// Returns true for the identity.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the entries.
    pub fn entries(&self) -> impl Iterator<Item = f32> {
        let (entries, _) = self.0.as_chunks::<WIDTH>();
        entries.iter().map(|&octets| f32::from_le_bytes(octets))
    }
}

fn sum_of(a: [u8; WIDTH], b: [u8; WIDTH]) -> [u8; WIDTH] {
    Adding::f32(f32::from_le_bytes(a), f32::from_le_bytes(b)).to_le_bytes()
}

fn add(total: &mut [u8], other: &[u8]) {
    fold_numbers(total, other, |a, b| (Adding::f32(a, b), false));
}

impl Merge for VectorSum {
    const IS_SLICEABLE: bool = true;

    fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        if self.is_empty() || other.is_empty() {
            if self.is_empty() {
                *self = other;
            }
            return Ok(());
        }
        if self.0.len() != other.0.len() {
            let (a, b) = (self.len(), other.len());
            return Err(MergeError::Refused(format!(
                "vectors must have the same length, but one has {a} entries and the other {b}"
            )));
        }
        // If one of the two buffers is not shared, the other vector is added to it in place. If both are
        // shared, the sum gets a new buffer.
        let (a, b) = (std::mem::take(&mut self.0), other.0);
        self.0 = match (a.try_into_mut(), b) {
            (Ok(mut total), b) => {
                add(&mut total, &b);
                total.freeze()
            }
            (Err(a), b) => match b.try_into_mut() {
                Ok(mut total) => {
                    add(&mut total, &a);
                    total.freeze()
                }
                Err(b) => {
                    let (a, _) = a.as_chunks::<WIDTH>();
                    let (b, _) = b.as_chunks::<WIDTH>();
                    let entries: Vec<[u8; WIDTH]> = a.iter().zip(b).map(|(&a, &b)| sum_of(a, b)).collect();
                    entries.into_flattened().into()
                }
            },
        };
        Ok(())
    }

    /// Reads every vector once and writes the sum once, a block that stays in the cache at a time.
    fn merge_all(&mut self, others: Vec<Self>) -> Result<(), MergeError> {
        const BLOCK_BYTES: usize = 16 << 10;
        let vectors = std::iter::once(&*self).chain(&others).filter(|vector| !vector.is_empty());
        let vectors: Vec<&Bytes> = vectors.map(|vector| &vector.0).collect();
        let [first, rest @ ..] = &vectors[..] else { return Ok(()) };
        if rest.len() < 2 || rest.iter().any(|vector| vector.len() != first.len()) {
            return others.into_iter().try_for_each(|other| self.merge(other));
        }
        let mut octets = Vec::with_capacity(first.len());
        for begin in (0..first.len()).step_by(BLOCK_BYTES) {
            let block = begin..first.len().min(begin + BLOCK_BYTES);
            octets.extend_from_slice(&first[block.clone()]);
            rest.iter().for_each(|vector| add(&mut octets[begin..], &vector[block.clone()]));
        }
        self.0 = octets.into();
        Ok(())
    }

    /// Splits into runs of neighbouring entries whose lengths differ by at most one.
    fn split(self, slices: u32) -> Result<Vec<Self>, MergeError> {
        let slices = slices.max(1);
        let slices = (0..slices).filter_map(|index| Slice::new(index, slices));
        let entries = slices.map(|slice| slice_range(self.len(), slice));
        Ok(entries.map(|range| Self(self.0.slice(range.start * WIDTH..range.end * WIDTH))).collect())
    }

    fn join(parts: Vec<Self>) -> Result<Self, MergeError> {
        let mut octets = Vec::with_capacity(parts.iter().map(|part| part.0.len()).sum());
        parts.iter().for_each(|part| octets.extend_from_slice(&part.0));
        Ok(Self(octets.into()))
    }
}

impl Body for VectorSum {
    const CODEC: Codec = Codec::Raw;

    fn encode(&self) -> Result<Bytes, BodyError> {
        Ok(self.0.clone())
    }

    fn decode(bytes: &Bytes) -> Result<Self, BodyError> {
        if bytes.len().is_multiple_of(WIDTH) {
            return Ok(Self(bytes.clone()));
        }
        Err(BodyError::decode::<Self>(
            Codec::Raw,
            bytes.len(),
            &"the length must be a multiple of four bytes",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::laws::{hold_to_the_laws, slices_fold_like_the_whole};
    use proptest::prelude::*;

    /// Generates whole numbers, whose sums are exact.
    fn vector() -> impl Strategy<Value = VectorSum> {
        proptest::collection::vec(-1_000_i16..1_000, 5)
            .prop_map(|entries| VectorSum::new(entries.into_iter().map(f32::from)))
    }

    hold_to_the_laws!(laws_of_vector_sum, vector());

    proptest! {
        #[test]
        fn slices_of_vectors_fold_like_vectors(a in vector(), b in vector(), slices in 1_u32..9) {
            slices_fold_like_the_whole(&a, &b, slices);
        }
    }

    #[test]
    fn summing_in_place_and_into_a_new_buffer_agree() {
        let whole = VectorSum::new([1.5, -2.0, 3.25]);
        let sum = |mut a: VectorSum, b: VectorSum| {
            a.merge(b).unwrap();
            a.entries().collect::<Vec<f32>>()
        };
        let fresh = || VectorSum::new(whole.entries());
        let wanted = [3.0, -4.0, 6.5];
        assert_eq!(sum(fresh(), whole.clone()), wanted);
        assert_eq!(sum(whole.clone(), fresh()), wanted);
        assert_eq!(sum(whole.clone(), whole.clone()), wanted);
        assert_eq!(
            whole.entries().collect::<Vec<f32>>(),
            [1.5, -2.0, 3.25],
            "a shared vector must stay unchanged"
        );
    }

    proptest! {
        /// Bit by bit, also where sums are rounded, for identities, and for lengths that differ.
        #[test]
        fn vectors_are_summed_at_once_as_one_by_one(
            vectors in proptest::collection::vec(prop_oneof![1 => rounded(0), 9 => rounded(3), 1 => rounded(4)], 1..9),
        ) {
            let vectors: Vec<VectorSum> = vectors.into_iter().map(VectorSum::new).collect();
            let (mut one_by_one, mut at_once) = (vectors[0].clone(), vectors[0].clone());
            let result = vectors[1..].iter().try_for_each(|vector| one_by_one.merge(vector.clone()));
            prop_assert_eq!(at_once.merge_all(vectors[1..].to_vec()), result.clone());
            prop_assert!(result.is_err() || at_once == one_by_one);
        }
    }

    fn rounded(entries: usize) -> impl Strategy<Value = Vec<f32>> {
        proptest::collection::vec(-1e9_f32..1e9, entries)
    }

    #[test]
    fn sums_of_many_blocks_are_whole() {
        let vector = |factor: u32| VectorSum::new((0..10_001_u32).map(|at| (at * factor) as f32));
        let mut sum = vector(1);
        sum.merge_all(vec![vector(2), vector(3), vector(4)]).unwrap();
        assert_eq!(sum, vector(10));
    }

    #[test]
    fn lengths_that_differ_and_broken_numbers_are_refused() {
        let refused = VectorSum::new([1.0]).merge(VectorSum::new([1.0, 2.0])).unwrap_err().to_string();
        assert_eq!(refused, "vectors must have the same length, but one has 1 entries and the other 2");
        assert!(
            VectorSum::decode(&Bytes::from_static(b"12345"))
                .unwrap_err()
                .to_string()
                .contains("from 5 bytes")
        );
    }
}
