//! The mean, as what it is made of: means of means would weigh partitions, or subtrees, by nothing.
//!
//! ```text
//!  an endpoint sends                   what goes up
//!  i64 f64s                            f64 f64s u64
//!  its figures, of any numbers         their sums, and how many packets they are of
//! ```
//!
//! In packets everything becomes `f64`, so endpoints may send whole numbers where others send fractions, and times in
//! nanoseconds don't overflow; whole numbers above 2⁵³ are rounded. Sums round as those of
//! [`FloatSum`], and one NaN makes its field's mean NaN. Partials of calls and pushes are sums and a count.

use super::elementwise::{Elementwise, Total, checked, length, numbers_alone};
use super::sum::Adding;
use super::{FilterError, FloatSum, Fold, Merge, MergeError, Piece, Source};
use crate::builtin::{Builtin, Made, plain};
use crate::error::Result;
use crate::packet::{FIELDS_MAX, Packet, PacketError, Row, Type, Value};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub(crate) const ENTRY: Builtin = Builtin {
    name: "average",
    summary: "packets of numbers and arrays, the sum of each value and how many there were",
    params: &[],
    made: Made::Fold(plain::<Sums>),
};

/// A sum and how many it is of. The sum rounds as [`FloatSum`] does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Average {
    /// The sum of the values.
    pub sum: f64,
    /// How many values.
    pub count: u64,
}

impl Average {
    /// The mean; `None` of no values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

impl Default for Average {
    fn default() -> Self {
        Self { sum: FloatSum::default().0, count: 0 }
    }
}

impl Merge for Average {
    fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        self.sum = Adding::f64(self.sum, other.sum);
        self.count = checked(Adding::u64(self.count, other.count), "count")?;
        Ok(())
    }
}

impl FromIterator<f64> for Average {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        values
            .into_iter()
            .fold(Self::default(), |so_far, value| Self { sum: so_far.sum + value, count: so_far.count + 1 })
    }
}

/// The means that a packet of this operator stands for: each sum divided by how many it is of, NaN of none.
///
/// ```
/// use treefold_operators::fold::average::means;
/// use treefold_operators::packet::Row;
///
/// let received = Row::new().f64(10.0).f64s(&[2.0, 6.0]).u64(4).packet();
/// assert_eq!(means(&received).unwrap(), Row::new().f64(2.5).f64s(&[0.5, 1.5]).packet());
/// ```
///
/// # Errors
/// When the packet doesn't end with how many there were, or has a sum that is no `f64`.
pub fn means(received: &Packet) -> Result<Packet, PacketError> {
    let fields = received.len().saturating_sub(1);
    let count = received.u64(fields)? as f64;
    let mut row = Row::new();
    for field in 0..fields {
        row = match received.values().nth(field) {
            Some(Value::F64s(sums)) => row.f64s(&sums.iter().map(|sum| sum / count).collect::<Vec<_>>()),
            _ => row.f64(received.f64(field)? / count),
        };
    }
    Ok(row.packet())
}

#[derive(Default)]
struct Sums;

impl Fold for Sums {
    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        let (first, others) = pieces.split_first().expect("invariant: there is at least one piece");
        let first = sums_of(first)?;
        if others.is_empty() {
            return Ok(first);
        }
        let mut total = Total::<Adding>::of(&first);
        for piece in others {
            total.fold(piece.source, &sums_of(piece)?)?;
        }
        Ok(total.into_bytes())
    }
}

/// A piece as sums and a count: a child's is that already, an endpoint's figures are the sums of one.
fn sums_of(piece: &Piece) -> Result<Bytes, FilterError> {
    let packet = numbers_alone(piece)?;
    let sums = packet.len() - 1;
    let wanted = match piece.source {
        Source::Child(_) => {
            let are_sums = packet.types().take(sums).all(|kind| kind.element() == Type::F64);
            if are_sums && packet.types().last() == Some(Type::U64) {
                return Ok(packet.into_bytes());
            }
            "sums (f64, f64s) and how many they are of (u64)".into()
        }
        Source::Endpoint(_) if packet.len() < FIELDS_MAX => return Ok(widened(&packet).into_bytes()),
        Source::Endpoint(_) => format!("a row of less than {FIELDS_MAX} numbers and arrays of numbers"),
    };
    Err(FilterError::Format { from: piece.source, given: packet.format(), wanted })
}

/// An endpoint's figures as the sums of one.
fn widened(packet: &Packet) -> Packet {
    let mut row = Row::new();
    for value in packet.values() {
        row = if value.kind().is_array() {
            let mut numbers = Vec::with_capacity(length(value));
            value.each_f64(|number| numbers.push(number));
            row.f64s(&numbers)
        } else {
            let mut only = 0.0;
            value.each_f64(|number| only = number);
            row.f64(only)
        };
    }
    row.u64(1).packet()
}

#[cfg(test)]
mod tests;
