//! Tests that every tree gives the same estimate, and that its bounds hold as often as documented.

use super::*;
use crate::packet::Row;
use proptest::prelude::*;

fn open(precision: u8) -> Distinct {
    Distinct::open(&Params { precision }.encode().unwrap()).unwrap()
}

fn up(precision: u8, pieces: &[Piece]) -> Result<Bytes> {
    open(precision).fold(pieces)
}

fn counted<T: Body>(precision: u8, sent: &[T]) -> DistinctCount {
    let partials: Vec<Piece> = (0..)
        .zip(sent)
        .map(|(child, values)| {
            let sent = Piece { source: Source::Endpoint(child), payload: values.encode().unwrap() };
            Piece { source: Source::Child(child), payload: up(precision, &[sent]).unwrap() }
        })
        .collect();
    let pairs: Vec<Piece> = (0..)
        .zip(partials.chunks(2))
        .map(|(child, pair)| Piece { source: Source::Child(child), payload: up(precision, pair).unwrap() })
        .collect();
    DistinctCount::decode(&up(precision, &pairs).unwrap()).unwrap()
}

proptest! {
    #[test]
    fn any_tree_gives_the_estimate_of_one_sketch(
        shares in proptest::collection::vec(proptest::collection::vec(0u32..3000, 0..600), 1..8),
        precision in PRECISION_MIN..=12,
    ) {
        let flat = counted(precision, &[shares.concat()]);
        let tree = counted(precision, &shares);
        let figures = |count: &DistinctCount| (count.estimate, count.lower, count.upper);
        // Registers are summed in another order, so the last digits may differ.
        let ((a, b, c), (x, y, z)) = (figures(&flat), figures(&tree));
        for (flat, tree) in [(a, x), (b, y), (c, z)] {
            prop_assert!((flat - tree).abs() <= 1e-9 * flat, "{} {}", flat, tree);
        }
    }

    #[test]
    fn hostile_sketches_are_refused_and_never_a_panic(
        values in proptest::collection::vec(any::<u32>(), 1..400),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
        header in proptest::collection::vec((0usize..40, any::<u8>()), 0..3),
        cut in any::<proptest::sample::Index>(),
    ) {
        let partial = counted(8, &[values]);
        let mut bytes = partial.sketch.to_vec();
        for (at, byte) in changes.into_iter().map(|(at, byte)| (at.index(bytes.len()), byte)).chain(header).collect::<Vec<_>>() {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let payload = DistinctCount { sketch: bytes.into(), ..partial.clone() }.encode().unwrap();
        let fine = Piece { source: Source::Child(1), payload: partial.encode().unwrap() };
        let _ = up(8, &[Piece { source: Source::Child(0), payload }, fine]);
    }
}

/// The hash is fixed, so every run counts the same misses: of 100 sets, about 5 may lie outside.
#[test]
fn the_bound_holds_for_about_95_of_100_sets() {
    for of_each in [50u64, 2_000, 60_000] {
        let within = (0..100u64)
            .filter(|set| {
                let values: Vec<u64> = (0..of_each).map(|value| set << 32 | value).collect();
                let halves: Vec<_> = values.chunks(values.len().div_ceil(3)).map(<[u64]>::to_vec).collect();
                let count = counted(12, &halves);
                count.lower <= of_each as f64 && of_each as f64 <= count.upper
            })
            .count();
        assert!(within >= 90, "{within} of 100 sets of {of_each}");
    }
}

#[test]
fn a_value_counts_once_wherever_it_is_sent() {
    let few = counted(
        12,
        &[vec!["a", "b"], vec!["b", "c"], vec!["c", "a"]]
            .map(|texts| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<String>>()),
    );
    assert!((few.estimate - 3.0).abs() < 0.01, "{}", few.estimate);
    let one = counted(12, &[(Bytes::from_static(b"a"), "a".to_owned())]);
    assert!((one.estimate - 1.0).abs() < 0.01, "a string and its bytes: {}", one.estimate);
    let two = counted(12, &[(1u8, 1.0f64)]);
    assert!((two.estimate - 2.0).abs() < 0.01, "1 and 1.0: {}", two.estimate);
    assert_eq!(counted(12, &[Vec::<u8>::new()]).estimate, 0.0);
}

#[test]
fn minus_one_and_the_greatest_number_are_two() {
    let two = counted(12, &[(-1i64, u64::MAX)]);
    assert!((two.estimate - 2.0).abs() < 0.01, "{}", two.estimate);
}

#[test]
fn typed_packets_count_as_their_values_do() {
    let typed = Row::new().strs(&["a", "b"]).u64(7).i64s(&[7, 8]).packet();
    let values = ("a".to_owned(), "b".to_owned(), 7u64, 7i64, 8i64);
    assert_eq!(counted(12, &[typed]), counted(12, &[values]));
}

/// A change of the hashing would make sketches incompatible with those of nodes of older versions.
#[test]
fn hashes_are_the_same_in_every_process_and_version() {
    let sketch = counted(12, &[("a".to_owned(), 7i64, 0.5f64)]).sketch;
    assert_eq!(sketch[8..], [47, 130, 59, 4, 193, 233, 23, 5, 115, 28, 0, 27], "three coupons of 32 bits");
}

#[test]
fn other_precisions_are_refused() {
    let other = counted(10, &[vec![1, 2, 3]]);
    let piece = Piece { source: Source::Child(0), payload: other.encode().unwrap() };
    assert_eq!(
        up(12, &[piece]).unwrap_err().to_string(),
        "the packet of child 0: the sketch has precision 10, but this stream uses 12"
    );
    let refused = Distinct::open(&Params { precision: 30 }.encode().unwrap()).err().expect("refused");
    assert_eq!(refused.to_string(), "parameter `precision`: 30 is not within 4 to 18");
}
