//! Tests that sum, min and max fold field by field and report packets that don't fit. (`family` tests their
//! laws.)

use super::*;
use crate::fold::laws;
use crate::packet::Row;
use proptest::prelude::*;

type Figures = (i32, u32, Vec<i32>, Vec<f32>);

fn packet((whole, natural, wholes, floats): &Figures) -> Bytes {
    let wholes: Vec<i64> = wholes.iter().copied().map(i64::from).collect();
    Row::new()
        .i64(i64::from(*whole))
        .u64(u64::from(*natural))
        .i64s(&wholes)
        .f32s(floats)
        .packet()
        .into_bytes()
}

proptest! {
    #[test]
    fn float_sums_of_two_trees_agree_but_for_rounding(
        terms in proptest::collection::vec(-1.0f64..1.0, 2..40),
        tree in laws::tree(),
    ) {
        let samples: Vec<Bytes> = terms.iter().map(|&term| Row::new().f64(term).packet().into_bytes()).collect();
        let sum = Packet::read(&laws::climbed("sum", &(), &samples, &tree)[0]).unwrap().f64(0).unwrap();
        let bound = terms.len() as f64 * f64::EPSILON * terms.iter().map(|term| term.abs()).sum::<f64>();
        prop_assert!((sum - terms.iter().sum::<f64>()).abs() <= bound);
    }

    #[test]
    fn any_bytes_are_refused_or_folded(
        noise in proptest::collection::vec(any::<u8>(), 0..30),
        flip in any::<proptest::sample::Index>(),
        bit in 0u8..8,
    ) {
        let good = packet(&(1, 2, vec![3, 4], vec![5.0]));
        let mut flipped = good.to_vec();
        flipped[flip.index(good.len())] ^= 1 << bit;
        for other in [Bytes::from(noise), Bytes::from(flipped)] {
            let folded = laws::up("sum", &(), &[(Source::Endpoint(0), good.clone()), (Source::Child(1), other.clone())]);
            if let Ok(folded) = folded {
                prop_assert!(Packet::read(&other).is_ok());
                prop_assert!(Packet::read(&folded[0]).is_ok());
            }
        }
    }
}

fn folded(name: &str, rows: Vec<Row>) -> Result<Packet> {
    let pieces: Vec<_> =
        (0..).map(Source::Endpoint).zip(rows.into_iter().map(|row| row.packet().into_bytes())).collect();
    laws::up(name, &(), &pieces).map(|out| Packet::read(&out[0]).unwrap())
}

fn refused(rows: Vec<Row>) -> String {
    folded("sum", rows).unwrap_err().to_string()
}

#[test]
fn figures_are_folded_field_by_field_and_element_by_element() {
    let rows = || vec![Row::new().i64(3).f64s(&[1.0, 8.0]), Row::new().i64(-5).f64s(&[2.0, 4.0])];
    assert_eq!(folded("sum", rows()).unwrap(), Row::new().i64(-2).f64s(&[3.0, 12.0]).packet());
    assert_eq!(folded("min", rows()).unwrap(), Row::new().i64(-5).f64s(&[1.0, 4.0]).packet());
    assert_eq!(folded("max", rows()).unwrap(), Row::new().i64(3).f64s(&[2.0, 8.0]).packet());
}

#[test]
fn one_nan_shows_in_every_result() {
    for name in ["sum", "min", "max"] {
        let nan = folded(name, vec![Row::new().f64(f64::NAN), Row::new().f64(1.0)]).unwrap();
        assert!(nan.f64(0).unwrap().is_nan(), "{name}");
    }
}

#[test]
fn overflow_is_an_error() {
    let overflow = "sum: overflow: the sum in field 1 does not fit into 64 bits";
    let wholes = |last| Row::new().f64(0.0).i64s(&[1, last]);
    assert_eq!(refused(vec![wholes(i64::MAX), wholes(1)]), overflow);
    assert_eq!(refused(vec![wholes(i64::MIN), wholes(-1)]), overflow);
    let naturals = |natural| Row::new().f64(0.0).u64(natural);
    assert_eq!(refused(vec![naturals(u64::MAX), naturals(1)]), overflow);
}

#[test]
fn numbers_of_fewer_bits_fold_in_their_own_type() {
    let rows = || {
        vec![
            Row::new().i32(-3).u32(7).i16s(&[300, -1]).u16(9).i8(-100).u8s(&[200, 1]),
            Row::new().i32(5).u32(9).i16s(&[20, -2]).u16(8).i8(-28).u8s(&[55, 2]),
        ]
    };
    let sum = Row::new().i32(2).u32(16).i16s(&[320, -3]).u16(17).i8(-128).u8s(&[255, 3]);
    assert_eq!(folded("sum", rows()).unwrap(), sum.packet());
    let least = Row::new().i32(-3).u32(7).i16s(&[20, -2]).u16(8).i8(-100).u8s(&[55, 1]);
    assert_eq!(folded("min", rows()).unwrap(), least.packet());
    let greatest = Row::new().i32(5).u32(9).i16s(&[300, -1]).u16(9).i8(-28).u8s(&[200, 2]);
    assert_eq!(folded("max", rows()).unwrap(), greatest.packet());
}

#[test]
fn a_sum_beyond_its_type_names_the_bits() {
    let overflow = |bits| format!("sum: overflow: the sum in field 0 does not fit into {bits} bits");
    assert_eq!(refused(vec![Row::new().i32s(&[0, i32::MIN]), Row::new().i32s(&[0, -1])]), overflow(32));
    assert_eq!(refused(vec![Row::new().u32(u32::MAX), Row::new().u32(1)]), overflow(32));
    assert_eq!(refused(vec![Row::new().i16(i16::MAX), Row::new().i16(1)]), overflow(16));
    assert_eq!(refused(vec![Row::new().u16(u16::MAX), Row::new().u16(1)]), overflow(16));
    assert_eq!(refused(vec![Row::new().i8(i8::MIN), Row::new().i8(-1)]), overflow(8));
    assert_eq!(refused(vec![Row::new().u8s(&[255]), Row::new().u8s(&[1])]), overflow(8));
}

#[test]
fn packets_of_unlike_types_are_refused_with_both_formats() {
    assert_eq!(
        refused(vec![Row::new().i64(1).f64s(&[]), Row::new().i64(1).f64(2.0)]),
        "sum: endpoint 1 sends `i64 f64`, but `i64 f64s`, as others send, is expected"
    );
    assert_eq!(
        refused(vec![Row::new().i64(1), Row::new().u64(1)]),
        "sum: endpoint 1 sends `u64`, but `i64`, as others send, is expected"
    );
    let wanted = "but a row of numbers and arrays of numbers is expected";
    assert_eq!(refused(vec![Row::new().str("x")]), format!("sum: endpoint 0 sends `str`, {wanted}"));
    assert_eq!(refused(vec![Row::new()]), format!("sum: endpoint 0 sends ``, {wanted}"));
}

#[test]
fn arrays_of_unlike_lengths_are_refused_with_both_lengths() {
    assert_eq!(
        refused(vec![Row::new().i64(1).f64s(&[1.0, 2.0]), Row::new().i64(1).f64s(&[1.0])]),
        "sum: field 1 of endpoint 1 has 1 elements, where the others have 2"
    );
    // The same number of bytes as the total, but another shape.
    assert_eq!(
        refused(vec![Row::new().f64s(&[1.0, 2.0]).f64s(&[]), Row::new().f64s(&[1.0]).f64s(&[2.0])]),
        "sum: field 0 of endpoint 1 has 1 elements, where the others have 2"
    );
}

#[test]
fn invalid_packets_are_refused_with_their_source() {
    let pieces = [(Source::Child(7), Bytes::from_static(b"\x01\x01"))];
    let refused = laws::up("sum", &(), &pieces).unwrap_err().to_string();
    assert_eq!(refused, "sum: the packet of child 7: field 0, a i64, takes 8 bytes, but only 0 are left");
}
