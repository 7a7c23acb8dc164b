//! The mean, kept as a sum and a count. A mean of means would weigh partitions or subtrees, not values.
//!
//! ```text
//!  an endpoint sends                   a node sends up
//!  i64 f64s                            f64 f64s u64
//!  its figures, of any numbers         their sums, and the number of packets
//! ```
//!
//! In packets, all figures become `f64`. So endpoints may mix whole numbers and fractions, and times in
//! nanoseconds don't overflow; whole numbers above 2⁵³ are rounded. Sums round as those of [`FloatSum`] do,
//! and one NaN makes its field's mean NaN. Partials of calls and pushes are sums and a count.

use super::elementwise::{Elementwise, Total, checked, numbers_alone};
use super::sum::Adding;
use super::{FilterError, FloatSum, Fold, Merge, MergeError, Piece, Source};
use crate::builtin::{Builtin, Made, plain};
use crate::error::Result;
use crate::packet::{FIELDS_MAX, Packet, PacketError, Row, Type, Value};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub(crate) const ENTRY: Builtin = Builtin {
    name: "average",
    summary: "averages packets of numbers and arrays: the sum of each value, and the number of packets",
    params: &[],
    made: Made::Fold(plain::<Sums>),
};

/// A sum and the number of its values. The sum rounds as [`FloatSum`] does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Average {
    /// The sum of the values.
    pub sum: f64,
    /// Number of values.
    pub count: u64,
}

impl Average {
    /// Returns the mean, or `None` if there are no values.
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

/// Computes the means from a packet of this operator: each sum divided by the count; NaN if the count is 0.
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
/// If the packet doesn't end with the count, or a sum is not an `f64`.
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

/// Returns a piece as sums and a count. A child's piece is that already; an endpoint's figures are sums with
/// count 1.
fn sums_of(piece: &Piece) -> Result<Bytes, FilterError> {
    let packet = numbers_alone(piece)?;
    let sums = packet.len() - 1;
    let wanted = match piece.source {
        Source::Child(_) => {
            let are_sums = packet.types().take(sums).all(|kind| kind.element() == Type::F64);
            if are_sums && packet.types().last() == Some(Type::U64) {
                return Ok(packet.into_bytes());
            }
            "sums (f64, f64s) and their count (u64)".into()
        }
        Source::Endpoint(_) if packet.len() < FIELDS_MAX => return Ok(widened(&packet).into_bytes()),
        Source::Endpoint(_) => format!("a row of fewer than {FIELDS_MAX} numbers and arrays of numbers"),
    };
    Err(FilterError::Format { from: piece.source, given: packet.format(), wanted })
}

/// Converts an endpoint's figures to sums with count 1.
fn widened(packet: &Packet) -> Packet {
    let mut row = Row::new();
    for value in packet.values() {
        row = if value.kind().is_array() {
            let mut numbers = Vec::with_capacity(value.elements());
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
