//! The mean, as what it is made of: means of means would weigh subtrees by nothing.
//!
//! ```text
//!  an endpoint sends                   what goes up
//!  i64 f64s                            f64 f64s u64
//!  its figures, of any numbers         their sums, and how many endpoints' packets they are of
//! ```
//!
//! Everything becomes `f64`, so endpoints may send whole numbers where others send fractions, and times in
//! nanoseconds don't overflow; whole numbers above 2⁵³ are rounded. Sums round as those of
//! [`FloatSum`](crate::merge::FloatSum), and one NaN makes its field's mean NaN.

use super::builtin::{Builtin, opens};
use super::elementwise::{Total, numbers_alone};
use super::error::FilterError;
use super::sum::Sum;
use super::{Filter, Piece, Source, Wave, params};
use crate::error::Result;
use crate::packet::{FIELDS_MAX, Number, Numbers, Packet, PacketError, Row, Type, Value};
use bytes::Bytes;

pub(super) const ENTRY: Builtin = Builtin {
    name: "average",
    summary: "packets of numbers and arrays, the sum of each value and how many there were",
    params: &[],
    kind: |name| opens(name, Average::open),
};

/// The means that a packet of this filter stands for: each sum divided by how many it is of.
///
/// ```
/// use treefold_operators::filter::average::means;
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

pub(super) struct Average;

impl Average {
    fn open(params: &Bytes) -> Result<Self> {
        params::none(params)?;
        Ok(Self)
    }
}

impl Filter for Average {
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        let Some((first, others)) = wave.pieces.split_first() else { return Ok(()) };
        let first = sums_of(first)?;
        if others.is_empty() {
            out.push(first);
            return Ok(());
        }
        let mut total = Total::<Sum>::of(&first);
        for piece in others {
            total.fold(piece.source, &sums_of(piece)?)?;
        }
        out.push(total.into_bytes());
        Ok(())
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
    let widen = |row: Row, value: Value<'_>| match value {
        Value::I64(number) => row.f64(number as f64),
        Value::U64(number) => row.f64(number as f64),
        Value::F64(number) => row.f64(number),
        Value::F32(number) => row.f64(f64::from(number)),
        Value::I64s(numbers) => widen_array(row, numbers, |number| number as f64),
        Value::U64s(numbers) => widen_array(row, numbers, |number| number as f64),
        Value::F32s(numbers) => widen_array(row, numbers, f64::from),
        numbers => row.value(numbers),
    };
    packet.values().fold(Row::new(), widen).u64(1).packet()
}

fn widen_array<N: Number>(row: Row, numbers: Numbers<'_, N>, widen: impl Fn(N) -> f64) -> Row {
    row.f64s(&numbers.iter().map(widen).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::laws;
    use proptest::prelude::*;

    // Whole numbers, on which floating-point sums are exact.
    fn samples() -> impl Strategy<Value = Vec<Bytes>> {
        proptest::collection::vec((any::<i32>(), any::<[i16; 3]>(), any::<bool>()), 1..16).prop_map(|rows| {
            let packet = |(whole, array, as_floats): (i32, [i16; 3], bool)| match as_floats {
                true => Row::new().f64(f64::from(whole)).f64s(&array.map(f64::from)),
                false => Row::new().i64(i64::from(whole)).i64s(&array.map(i64::from)),
            };
            rows.into_iter().map(|row| packet(row).packet().into_bytes()).collect()
        })
    }

    proptest! {
        #[test]
        fn any_tree_gives_the_same_bytes(samples in samples(), tree in laws::tree()) {
            laws::any_tree_gives_the_same_bytes("average", &(), &samples, &tree)?;
        }
    }

    #[test]
    fn weighs_endpoints_and_not_subtrees() {
        let sample = |figure: i64| Row::new().i64(figure).packet().into_bytes();
        let below =
            laws::up("average", &(), &[(Source::Endpoint(1), sample(1)), (Source::Endpoint(2), sample(2))]);
        let below = below.unwrap().remove(0);
        let all =
            laws::up("average", &(), &[(Source::Child(0), below), (Source::Endpoint(0), sample(6))]).unwrap();
        let received = Packet::read(&all[0]).unwrap();
        assert_eq!(received, Row::new().f64(9.0).u64(3).packet());
        assert_eq!(means(&received), Ok(Row::new().f64(3.0).packet()));
    }

    #[test]
    fn what_is_no_number_or_no_sum_is_refused_with_both_formats() {
        let text = Row::new().f64(1.0).str("x").packet().into_bytes();
        let refused = laws::up("average", &(), &[(Source::Endpoint(3), text)]).unwrap_err().to_string();
        let wanted =
            "average: endpoint 3 sends `f64 str`, where a row of numbers and arrays of numbers is wanted";
        assert_eq!(refused, wanted);
        let sample = Row::new().i64(1).packet().into_bytes();
        let refused = laws::up("average", &(), &[(Source::Child(1), sample)]).unwrap_err().to_string();
        assert!(refused.starts_with("average: child 1 sends `i64`, where sums"), "{refused}");
    }
}
