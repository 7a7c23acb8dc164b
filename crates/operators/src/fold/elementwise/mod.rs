//! Folds numbers value by value: the algebra that sum, min, max, average and count share, and its use on
//! packets.
//!
//! The first packet of a wave is copied, and every further packet is folded into the copy in place. Each
//! result therefore takes one allocation for any number of pieces, and loops over arrays become vector
//! instructions.
//!
//! Invariant: the total is a well-formed packet that contains only numbers. If a piece has the same length as
//! the total, and the same types and counts in the same places, it is well-formed too. So it is checked and
//! folded in one walk; the cause of an error is determined only when one occurs.

use super::{FilterError, Fold, MergeError, Piece, Source};
use crate::error::Result;
use crate::packet::value::LENGTH;
use crate::packet::{Number, Packet, Type};
use bytes::Bytes;
use std::marker::PhantomData;

/// Combines two numbers, for each type of number; associative and commutative (except for rounding).
pub(super) trait Elementwise: 'static {
    /// Name of the figure that overflows, for error messages.
    const FIGURE: &'static str;

    /// Combines signed whole numbers; the flag is true if the result doesn't fit.
    fn i64(a: i64, b: i64) -> (i64, bool);
    /// Combines unsigned whole numbers; the flag is true if the result doesn't fit.
    fn u64(a: u64, b: u64) -> (u64, bool);
    /// Combines floating-point numbers.
    fn f64(a: f64, b: f64) -> f64;
    /// Combines floating-point numbers of 32 bits.
    fn f32(a: f32, b: f32) -> f32;
}

/// Converts the result for two whole numbers to the error type of typed partials.
pub(super) fn checked<N>((number, overflows): (N, bool), figure: &'static str) -> Result<N, MergeError> {
    if overflows { Err(MergeError::Overflow { figure }) } else { Ok(number) }
}

/// The fold of rows of numbers into one row.
pub(super) struct Rows<E>(PhantomData<fn() -> E>);

impl<E> Default for Rows<E> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E: Elementwise> Fold for Rows<E> {
    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        let (first, others) = pieces.split_first().expect("invariant: there is at least one piece");
        numbers_alone(first)?;
        if others.is_empty() {
            return Ok(first.payload.clone());
        }
        let mut total = Total::<E>::of(&first.payload);
        for piece in others {
            total.fold(piece.source, &piece.payload)?;
        }
        Ok(total.into_bytes())
    }
}

/// Checks that a piece is a packet that contains only numbers and arrays of numbers, with at least one field.
pub(super) fn numbers_alone(piece: &Piece) -> Result<Packet, FilterError> {
    let packet = Packet::read(&piece.payload).map_err(FilterError::packet(piece.source))?;
    if packet.is_empty() || !packet.types().all(Type::is_number) {
        return Err(FilterError::Format {
            from: piece.source,
            given: packet.format(),
            wanted: "a row of numbers and arrays of numbers".into(),
        });
    }
    Ok(packet)
}

/// The total of the packets folded so far.
pub(super) struct Total<E> {
    octets: Vec<u8>,
    fold: PhantomData<E>,
}

/// The reason why a piece could not be folded in. The details are derived from the piece and the total.
enum Unfit {
    /// It is not a packet of the same types and lengths.
    Unlike,
    /// A number in this field, whose type has so many bits, overflows.
    Overflow { field: usize, bits: usize },
}

impl<E: Elementwise> Total<E> {
    /// Starts with a packet that contains only numbers.
    pub(super) fn of(first: &[u8]) -> Self {
        Self { octets: first.to_vec(), fold: PhantomData }
    }

    /// Folds in a packet of the same types and lengths.
    pub(super) fn fold(&mut self, from: Source, piece: &Bytes) -> Result<(), FilterError> {
        self.fold_octets(piece).map_err(|unfit| match unfit {
            Unfit::Unlike => self.difference(from, piece),
            Unfit::Overflow { field, bits } => {
                FilterError::Overflow { figure: format!("{} in field {field}", E::FIGURE), bits }
            }
        })
    }

    pub(super) fn into_bytes(self) -> Bytes {
        Bytes::from(self.octets) // length equals capacity, so this allocates nothing
    }

    #[inline]
    fn fold_octets(&mut self, piece: &[u8]) -> Result<(), Unfit> {
        let total = &mut self.octets[..];
        if total.len() != piece.len() || total[0] != piece[0] {
            return Err(Unfit::Unlike);
        }
        let mut at = 1;
        for field in 0..usize::from(total[0]) {
            let kind = Type::of_number(total[at]).expect("invariant: the total is a packet");
            if piece[at] != total[at] {
                return Err(Unfit::Unlike);
            }
            at += 1;
            let width = kind.width().expect("invariant: the total contains only numbers");
            let mut bytes = width;
            if kind.is_array() {
                let counted = at..at + LENGTH;
                if total[counted.clone()] != piece[counted.clone()] {
                    return Err(Unfit::Unlike);
                }
                let count = u32::from_le_bytes(*total[counted].first_chunk().expect("invariant: four bytes"));
                at += LENGTH;
                bytes = count as usize * width;
            }
            let (ours, theirs) = (&mut total[at..at + bytes], &piece[at..at + bytes]);
            let overflows = match kind.element() {
                Type::I64 => fold_numbers(ours, theirs, E::i64),
                Type::U64 => fold_numbers(ours, theirs, E::u64),
                Type::F64 => fold_numbers(ours, theirs, |a, b| (E::f64(a, b), false)),
                Type::F32 => fold_numbers(ours, theirs, |a, b| (E::f32(a, b), false)),
                Type::I32 => fold_narrow::<i32, _>(ours, theirs, E::i64),
                Type::U32 => fold_narrow::<u32, _>(ours, theirs, E::u64),
                Type::I16 => fold_narrow::<i16, _>(ours, theirs, E::i64),
                Type::U16 => fold_narrow::<u16, _>(ours, theirs, E::u64),
                Type::I8 => fold_narrow::<i8, _>(ours, theirs, E::i64),
                Type::U8 => fold_narrow::<u8, _>(ours, theirs, E::u64),
                _ => unreachable!("invariant: the total contains only numbers"),
            };
            if overflows {
                return Err(Unfit::Overflow { field, bits: 8 * width });
            }
            at += bytes;
        }
        Ok(())
    }

    /// Finds the difference between the total and a piece that could not be folded.
    #[cold]
    fn difference(&self, from: Source, piece: &Bytes) -> FilterError {
        let total =
            Packet::read(&Bytes::copy_from_slice(&self.octets)).expect("invariant: the total is a packet");
        let packet = match Packet::read(piece) {
            Ok(packet) => packet,
            Err(cause) => return FilterError::Packet { from, cause },
        };
        if !packet.types().eq(total.types()) {
            let wanted = format!("`{}`, as others send,", total.format());
            return FilterError::Format { from, given: packet.format(), wanted };
        }
        let lengths =
            packet.values().zip(total.values()).map(|(their, our)| (their.elements(), our.elements()));
        let (field, (given, wanted)) = (0..)
            .zip(lengths)
            .find(|(_, (given, wanted))| given != wanted)
            .expect("invariant: packets of the same types and counts fold");
        FilterError::Length { from, field, given, wanted }
    }
}

/// Folds adjacent numbers; returns true if one of them overflows.
#[inline(always)]
pub(super) fn fold_numbers<N: Number>(
    ours: &mut [u8],
    theirs: &[u8],
    fold: impl Fn(N, N) -> (N, bool),
) -> bool {
    let mut overflows = false; // accumulated, not tested, so that the loop has no branch
    for (our, their) in N::rows_mut(ours).iter_mut().zip(N::rows(theirs)) {
        let (number, overflowed) = fold(N::from_octets(*our), N::from_octets(*their));
        *our = number.octets();
        overflows |= overflowed;
    }
    overflows
}

/// Folds adjacent numbers of fewer than 64 bits; returns true if one of them overflows.
#[inline(always)]
fn fold_narrow<N: Number + Into<W> + TryFrom<W>, W>(
    ours: &mut [u8],
    theirs: &[u8],
    fold: impl Fn(W, W) -> (W, bool),
) -> bool {
    fold_numbers(ours, theirs, |our: N, their: N| {
        let (wide, overflows) = fold(our.into(), their.into());
        N::try_from(wide).map_or((our, true), |number| (number, overflows))
    })
}

#[cfg(test)]
mod tests;
