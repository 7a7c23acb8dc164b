//! Folding numbers value by value: the algebra that sum, min, max, average and count share, and how it folds packets.
//!
//! The first packet of a wave is copied, and every further one folded into the copy where it lies: one allocation
//! for each result, however many pieces, and loops over arrays that become vector instructions.
//!
//! Invariant: the total is a well-formed packet of numbers alone. A piece that is as long as the total, and has the
//! same types and counts wherever the total has some, is one too, so it is checked and folded in one walk; what went
//! wrong is only asked when something did.

use super::{FilterError, Fold, MergeError, Piece, Source};
use crate::error::Result;
use crate::packet::value::LENGTH;
use crate::packet::{Number, Packet, Type, Value};
use bytes::Bytes;
use std::marker::PhantomData;

/// Two numbers as one, for each kind of number; associative and commutative (but for rounding).
pub(super) trait Elementwise: 'static {
    /// The figure that leaves its type, in errors.
    const FIGURE: &'static str;

    /// Of signed whole numbers; true when the result doesn't fit.
    fn i64(a: i64, b: i64) -> (i64, bool);
    /// Of whole numbers; true when the result doesn't fit.
    fn u64(a: u64, b: u64) -> (u64, bool);
    /// Of floating-point numbers.
    fn f64(a: f64, b: f64) -> f64;
    /// Of floating-point numbers of 32 bits.
    fn f32(a: f32, b: f32) -> f32;
}

/// What an algebra gives for two whole numbers, as a typed partial wants it.
pub(super) fn checked<N>((number, overflows): (N, bool), figure: &'static str) -> Result<N, MergeError> {
    if overflows { Err(MergeError::Overflow { figure }) } else { Ok(number) }
}

/// Rows of numbers, folded into one.
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

/// Makes sure that a piece is a packet of numbers and arrays of them, with one field at least.
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

/// What has been folded so far.
pub(super) struct Total<E> {
    octets: Vec<u8>,
    fold: PhantomData<E>,
}

/// Why a piece could not be folded in; the rest is found out from the two of them.
enum Unfit {
    /// It is no packet of the same types and lengths.
    Unlike,
    /// A number of this field leaves its type.
    Overflow(usize),
}

impl<E: Elementwise> Total<E> {
    /// Begins with a packet of numbers alone.
    pub(super) fn of(first: &[u8]) -> Self {
        Self { octets: first.to_vec(), fold: PhantomData }
    }

    /// Folds a packet of the same types and lengths in.
    pub(super) fn fold(&mut self, from: Source, piece: &Bytes) -> Result<(), FilterError> {
        self.fold_octets(piece).map_err(|unfit| match unfit {
            Unfit::Unlike => self.difference(from, piece),
            Unfit::Overflow(field) => {
                FilterError::Overflow { figure: format!("{} in field {field}", E::FIGURE) }
            }
        })
    }

    pub(super) fn into_bytes(self) -> Bytes {
        Bytes::from(self.octets) // as long as its room, so nothing more is allocated
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
            let width = kind.width().expect("invariant: the total has numbers alone");
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
                _ => fold_numbers(ours, theirs, |a, b| (E::f32(a, b), false)),
            };
            if overflows {
                return Err(Unfit::Overflow(field));
            }
            at += bytes;
        }
        Ok(())
    }

    /// How a piece that could not be folded differs from the total.
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
        let lengths = packet.values().zip(total.values()).map(|(their, our)| (length(their), length(our)));
        let (field, (given, wanted)) = (0..)
            .zip(lengths)
            .find(|(_, (given, wanted))| given != wanted)
            .expect("invariant: packets of the same types and counts fold");
        FilterError::Length { from, field, given, wanted }
    }
}

/// Folds numbers that lie one behind the other; true when one of them leaves its type.
#[inline(always)]
pub(super) fn fold_numbers<N: Number>(
    ours: &mut [u8],
    theirs: &[u8],
    fold: impl Fn(N, N) -> (N, bool),
) -> bool {
    let mut overflows = false; // gathered and not acted upon, so that the loop has one way through
    for (our, their) in N::rows_mut(ours).iter_mut().zip(N::rows(theirs)) {
        let (number, overflowed) = fold(N::from_octets(*our), N::from_octets(*their));
        *our = number.octets();
        overflows |= overflowed;
    }
    overflows
}

/// How many numbers a value has.
pub(super) fn length(value: Value<'_>) -> usize {
    match value {
        Value::I64s(numbers) => numbers.len(),
        Value::U64s(numbers) => numbers.len(),
        Value::F64s(numbers) => numbers.len(),
        Value::F32s(numbers) => numbers.len(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
