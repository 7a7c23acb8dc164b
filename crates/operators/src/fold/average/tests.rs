//! Tests that means weigh values and endpoints equally, wherever they are in the tree.

use super::*;
use crate::fold::laws::{self, hold_to_the_laws};
use proptest::prelude::*;

// Whole numbers, so that floating-point sums are exact.
fn average() -> impl Strategy<Value = Average> {
    (-1_000_000i32..1_000_000, 0u64..1 << 50).prop_map(|(sum, count)| Average { sum: f64::from(sum), count })
}

hold_to_the_laws!(laws_of_average, average());

#[test]
fn weighs_values_and_not_partitions() {
    let (many, one): (Average, Average) =
        ([1.0, 1.0, 1.0].into_iter().collect(), [5.0].into_iter().collect());
    assert_eq!(laws::merged(many, one).mean(), Some(2.0));
    assert_eq!(Average::default().mean(), None);
}

#[test]
fn overflow_is_an_error() {
    let mut most = Average { sum: 0.0, count: u64::MAX };
    let refused = most.merge(Average { sum: 0.0, count: 1 });
    assert_eq!(refused, Err(MergeError::Overflow { figure: "count" }));
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
fn non_numbers_and_non_sums_are_refused_with_both_formats() {
    let text = Row::new().f64(1.0).str("x").packet().into_bytes();
    let refused = laws::up("average", &(), &[(Source::Endpoint(3), text)]).unwrap_err().to_string();
    let wanted =
        "average: endpoint 3 sends `f64 str`, but a row of numbers and arrays of numbers is expected";
    assert_eq!(refused, wanted);
    let sample = Row::new().i64(1).packet().into_bytes();
    let refused = laws::up("average", &(), &[(Source::Child(1), sample)]).unwrap_err().to_string();
    assert!(refused.starts_with("average: child 1 sends `i64`, but sums"), "{refused}");
}
