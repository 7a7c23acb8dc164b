//! Tests that every tree gives the answer of one sketch over all samples, and that the error bound holds.

use super::*;
use crate::packet::Row;
use proptest::prelude::*;

fn open(params: &Params) -> Quantiles {
    Quantiles::open(&params.encode().unwrap()).unwrap()
}

fn up(quantiles: &Quantiles, pieces: &[Piece]) -> Result<Bytes> {
    quantiles.fold(pieces)
}

/// Folds `shares` over a tree with one leaf node per share.
fn over_a_tree(params: &Params, shares: &[Vec<f64>]) -> QuantilesSoFar {
    let partials: Vec<Piece> = (0..)
        .zip(shares)
        .map(|(child, samples)| {
            let sent = Piece { source: Source::Endpoint(child), payload: samples.encode().unwrap() };
            Piece { source: Source::Child(child), payload: up(&open(params), &[sent]).unwrap() }
        })
        .collect();
    // Above the leaves, one level merges pairs, and the root merges the rest.
    let halves: Vec<Piece> = (0..)
        .zip(partials.chunks(2))
        .map(|(child, pair)| Piece {
            source: Source::Child(child),
            payload: up(&open(params), pair).unwrap(),
        })
        .collect();
    QuantilesSoFar::decode(&up(&open(params), &halves).unwrap()).unwrap()
}

/// Generates numbers of every size and sign, mostly like latencies.
fn samples() -> impl Strategy<Value = Vec<f64>> {
    let number = prop_oneof![
        4 => 0.001f64..10_000.0,
        1 => -1000.0f64..1000.0,
        1 => proptest::num::f64::NORMAL,
        1 => Just(0.0),
    ];
    proptest::collection::vec(number, 1..40)
}

proptest! {
    #[test]
    fn any_tree_gives_the_answer_of_one_sketch(shares in proptest::collection::vec(samples(), 1..9)) {
        let params = Params::default();
        let flat = over_a_tree(&params, &[shares.concat()]);
        let tree = over_a_tree(&params, &shares);
        prop_assert_eq!(QuantilesSoFar { sketch: Bytes::new(), ..tree }, QuantilesSoFar { sketch: Bytes::new(), ..flat });
    }

    #[test]
    fn the_bound_holds(
        shares in proptest::collection::vec(samples(), 1..6),
        relative_error in RELATIVE_ERROR_MIN..0.1,
        fraction in 0.0f64..=1.0,
    ) {
        let params = Params { relative_error, quantiles: vec![fraction] };
        let given = over_a_tree(&params, &shares);
        let mut all = shares.concat();
        all.sort_by(f64::total_cmp);
        let exact = all[(fraction * (all.len() - 1) as f64) as usize];
        let greatest = all.iter().map(|x| x.abs()).fold(0.0, f64::max);
        let bound = (relative_error * exact.abs()).max(ZERO_MAX).max(1.3e-9 * greatest);
        let value = given.quantiles[0].1;
        // A bucket's edges are computed by logarithm and exponential, so the last digits may be rounded.
        prop_assert!((value - exact).abs() <= bound * (1.0 + 1e-9), "{} for {}, within {}", value, exact, bound);
        prop_assert_eq!(given.at(fraction).unwrap(), Some(value));
        prop_assert_eq!((given.min, given.max), (all.first().copied(), all.last().copied()));
    }

    #[test]
    fn hostile_sketches_are_refused_and_never_a_panic(
        shares in proptest::collection::vec(samples(), 1..3),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<proptest::sample::Index>(),
    ) {
        let params = Params::default();
        let partial = over_a_tree(&params, &shares);
        let mut bytes = partial.sketch.to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let partial = QuantilesSoFar { sketch: bytes.into(), ..partial };
        let pieces = [0, 1].map(|child| Piece { source: Source::Child(child), payload: partial.encode().unwrap() });
        let _ = up(&open(&params), &pieces);
    }
}

#[test]
fn no_samples_have_no_quantiles() {
    let params = Params::default();
    let none = over_a_tree(&params, &[vec![], vec![]]);
    assert_eq!((none.count, none.min, none.quantiles.len()), (0, None, 0));
    assert_eq!(none.at(0.5).unwrap(), None);
    let some = over_a_tree(&params, &[vec![], vec![3.0]]);
    assert_eq!((some.count, some.at(0.5).unwrap()), (1, Some(3.0)));
}

#[test]
fn numbers_above_i64_max_stay_positive() {
    let most = u64::MAX as f64;
    for payload in
        [vec![1, u64::MAX].encode().unwrap(), Row::new().u64s(&[1, u64::MAX]).packet().into_bytes()]
    {
        let pieces = [Piece { source: Source::Endpoint(0), payload }];
        let given = QuantilesSoFar::decode(&up(&open(&Params::default()), &pieces).unwrap()).unwrap();
        assert_eq!((given.min, given.max), (Some(1.0), Some(most)));
        assert!((given.at(1.0).unwrap().unwrap() - most).abs() <= 0.01 * most);
    }
}

#[test]
fn typed_packets_are_samples_too() {
    let up =
        |payload| up(&open(&Params::default()), &[Piece { source: Source::Endpoint(0), payload }]).unwrap();
    let packet = Row::new().f64(3.0).f64s(&[1.0, 2.0]).packet();
    assert_eq!(up(packet.into_bytes()), up(vec![3.0, 1.0, 2.0].encode().unwrap()));
}

#[test]
fn samples_that_are_no_finite_numbers_are_refused() {
    let filter = open(&Params::default());
    for (payload, why) in [
        (
            f64::NAN.encode().unwrap(),
            "the packet of endpoint 0: quantiles need finite numbers, but a sample is NaN",
        ),
        (
            vec![1.0, f64::INFINITY].encode().unwrap(),
            "the packet of endpoint 0: quantiles need finite numbers, but a sample is inf",
        ),
        (
            "seven".to_owned().encode().unwrap(),
            "the packet of endpoint 0: quantiles need numbers, but a sample is a string",
        ),
    ] {
        let refused = up(&filter, &[Piece { source: Source::Endpoint(0), payload }]).unwrap_err();
        assert_eq!(refused.to_string(), why);
    }
}

#[test]
fn sketches_of_another_error_are_refused() {
    let other = over_a_tree(&Params { relative_error: 0.02, ..Params::default() }, &[vec![1.0]]);
    let piece = Piece { source: Source::Child(0), payload: other.encode().unwrap() };
    let refused = up(&open(&Params::default()), &[piece]).unwrap_err();
    assert!(
        refused.to_string().starts_with("the packet of child 0: the sketch has buckets of γ = 1.04"),
        "{refused}"
    );
}

#[test]
fn parameters_are_refused_by_name() {
    let refused =
        |params: Params| Quantiles::open(&params.encode().unwrap()).err().expect("refused").to_string();
    assert_eq!(
        refused(Params { relative_error: 0.001, ..Params::default() }),
        "parameter `relative_error`: 0.001 is not within 0.005 to 0.5"
    );
    assert_eq!(
        refused(Params { quantiles: vec![50.0], ..Params::default() }),
        "parameter `quantiles`: 50 is not within 0 to 1"
    );
    assert_eq!(
        refused(Params { quantiles: vec![0.5; 65], ..Params::default() }),
        "parameter `quantiles`: 65 quantiles are above the limit of 64"
    );
}
