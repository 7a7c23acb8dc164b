//! Tests that alignment loses no amount, over trees and when a node dies with its state.

mod lost;

use super::*;
use crate::filter::Piece;
use crate::packet::Row;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Short intervals keep the examples readable; the unit does not matter.
pub(super) const INTERVAL_NS: u64 = 10;

/// The time that the nodes' clocks show.
pub(super) const NOW_NS: u64 = 1_000;

pub(super) fn params(reduce: Reduction) -> Params {
    Params { interval_ns: INTERVAL_NS, reduce, ..Params::default() }
}

pub(super) fn open(params: Params) -> Box<dyn Filter> {
    TimeAligned.open(&params.encode().unwrap()).unwrap()
}

fn endpoint(number: u32, start_ns: u64, end_ns: u64, value: f64) -> Piece {
    let sample = Sample { start_ns, end_ns, values: vec![value].into() };
    Piece { source: Source::Endpoint(number), payload: sample.encode().unwrap() }
}

fn up(filter: &mut dyn Filter, tag: u64, pieces: &[Piece]) -> Vec<Aligned> {
    let mut out = Vec::new();
    filter.up(Wave { tag, pieces, now_ns: NOW_NS }, &mut out).unwrap();
    out.iter().map(|packet| Aligned::decode(packet).unwrap()).collect()
}

fn aligned(number: u64, endpoints: u32, value: f64) -> Aligned {
    let (start_ns, end_ns) = (number * INTERVAL_NS, (number + 1) * INTERVAL_NS);
    Aligned { start_ns, end_ns, endpoints, values: vec![value].into() }
}

#[test]
fn samples_are_split_over_the_intervals_they_overlap() {
    let mut filter = open(params(Reduction::Sum));
    // Endpoint 0 fills 0..10 with its first sample and a quarter of its second; endpoint 1 has not filled
    // 5..10.
    let first = up(&mut *filter, 1, &[endpoint(0, 0, 8, 4.0), endpoint(1, 0, 5, 6.0)]);
    assert_eq!((first, filter.holds_from()), (vec![], Some(1)));
    assert_eq!(up(&mut *filter, 2, &[endpoint(0, 8, 16, 8.0)]), []);
    let second = up(&mut *filter, 2, &[endpoint(1, 5, 15, 10.0)]);
    assert_eq!(second, [aligned(0, 2, 4.0 + 8.0 * 0.25 + 6.0 + 10.0 * 0.5)]);
    // The remaining amounts all have tag 2 and go up with the next interval.
    assert_eq!(filter.holds_from(), Some(2));
    let third = up(&mut *filter, 3, &[endpoint(0, 16, 20, 1.0), endpoint(1, 15, 20, 2.0)]);
    assert_eq!(third, [aligned(1, 2, 8.0 * 0.75 + 10.0 * 0.5 + 1.0 + 2.0)]);
    assert_eq!(filter.holds_from(), None);
}

#[test]
fn parts_of_samples_already_counted_are_cut_off() {
    let mut filter = open(params(Reduction::Sum));
    assert_eq!(up(&mut *filter, 1, &[endpoint(0, 0, 6, 6.0)]), []);
    assert_eq!(up(&mut *filter, 1, &[endpoint(0, 0, 6, 6.0)]), [], "sent twice");
    assert_eq!(
        up(&mut *filter, 2, &[endpoint(0, 2, 12, 10.0)]),
        [aligned(0, 1, 6.0 + 4.0)],
        "4 of its 10 ns were counted"
    );
}

#[test]
fn a_gap_counts_as_zero_and_an_empty_interval_is_left_out() {
    let mut filter = open(params(Reduction::Average));
    let out = up(&mut *filter, 1, &[endpoint(0, 2, 4, 3.0), endpoint(0, 51, 60, 9.0)]);
    assert_eq!(out, [aligned(0, 1, 3.0), aligned(5, 1, 9.0)]);
}

#[test]
fn joined_sources_are_waited_for() {
    let mut filter = open(params(Reduction::Sum));
    filter.joined(Source::Endpoint(0));
    filter.joined(Source::Endpoint(1));
    assert_eq!(up(&mut *filter, 1, &[endpoint(0, 0, 30, 30.0)]), []);
    assert_eq!(up(&mut *filter, 1, &[endpoint(1, 0, 10, 1.0)]), [aligned(0, 2, 11.0)]);
    filter.replaced(Source::Endpoint(1), &[]);
    assert_eq!(up(&mut *filter, 2, &[endpoint(0, 30, 31, 1.0)]), [aligned(1, 1, 10.0), aligned(2, 1, 10.0)]);
}

#[test]
fn part_of_an_interval_counts_in_a_sum_and_not_in_a_minimum() {
    for (reduce, expected) in [(Reduction::Sum, aligned(0, 2, 14.0)), (Reduction::Min, aligned(0, 1, 10.0))] {
        let mut filter = open(params(reduce));
        assert_eq!(up(&mut *filter, 1, &[endpoint(0, 0, 10, 10.0), endpoint(1, 0, 4, 4.0)]), []);
        filter.replaced(Source::Endpoint(1), &[]);
        assert_eq!(up(&mut *filter, 2, &[endpoint(0, 10, 11, 0.0)]), [expected]);
    }
}

#[test]
fn the_oldest_interval_is_closed_when_too_many_wait() {
    let mut filter = open(Params { intervals_max: 3, ..params(Reduction::Sum) });
    assert_eq!(up(&mut *filter, 1, &[endpoint(0, 0, 30, 30.0), endpoint(1, 0, 5, 5.0)]), []);
    let out = up(&mut *filter, 2, &[endpoint(0, 30, 40, 10.0)]);
    assert_eq!(out, [aligned(0, 2, 15.0)], "with the part of the late endpoint");
    // The late endpoint continues from there: its rest of the closed interval is lost, and later amounts
    // count.
    let out = up(&mut *filter, 3, &[endpoint(1, 5, 25, 20.0)]);
    assert_eq!(out, [aligned(1, 2, 20.0)]);
}

#[test]
fn thirty_two_metrics_travel_as_256_bytes() {
    let values: Vec<f64> = (0..32).map(f64::from).collect();
    let sample = Sample { start_ns: 0, end_ns: INTERVAL_NS, values: values.clone().into() };
    let payload = sample.encode().unwrap();
    assert!(payload.len() < 256 + 40, "{}", payload.len());
    let mut filter = open(Params { metrics: 32, ..params(Reduction::Max) });
    let pieces = [0, 1].map(|number| Piece { source: Source::Endpoint(number), payload: payload.clone() });
    assert_eq!(up(&mut *filter, 0, &pieces)[0].values.0, values);
}

#[test]
fn metrics_may_be_written_by_hand() {
    #[derive(Serialize, Deserialize)]
    struct ByHand<T> {
        start_ns: u64,
        end_ns: u64,
        values: T,
    }
    let read = |payload: Bytes| Sample::decode(&payload).unwrap().values.0;
    assert_eq!(read(ByHand { start_ns: 0, end_ns: 1, values: (1u8, 2.5f64) }.encode().unwrap()), [1.0, 2.5]);
    assert_eq!(read(ByHand { start_ns: 0, end_ns: 1, values: 7i8 }.encode().unwrap()), [7.0]);
    assert!(
        Sample::decode(
            &ByHand { start_ns: 0, end_ns: 1, values: Bytes::from_static(b"7") }.encode().unwrap()
        )
        .is_err()
    );
}

#[test]
fn a_bad_piece_leaves_the_filter_as_it_was() {
    let mut filter = open(params(Reduction::Sum));
    let child = |start_ns, end_ns, endpoints| Piece {
        source: Source::Child(0),
        payload: Aligned { start_ns, end_ns, endpoints, values: vec![1.0].into() }.encode().unwrap(),
    };
    for (bad, why) in [
        (endpoint(1, 5, 5, 1.0), "endpoint 1: a sample's `end_ns` 5 is not after its `start_ns` 5"),
        (
            endpoint(1, 0, 641, 1.0),
            "endpoint 1: a sample overlaps 65 intervals, above the limit `intervals_max` of 64",
        ),
        (endpoint(1, 0, 5, f64::NAN), "endpoint 1: metric 0 of a sample is NaN"),
        (child(5, 15, 1), "child 0: 5..15 of 1 endpoints is not an interval of this stream"),
        (child(0, 10, 0), "child 0: 0..10 of 0 endpoints is not an interval of this stream"),
    ] {
        let mut out = Vec::new();
        let wave = [endpoint(0, 0, 5, 5.0), bad];
        let refused = filter.up(Wave { tag: 1, pieces: &wave, now_ns: NOW_NS }, &mut out).unwrap_err();
        assert_eq!((refused.to_string(), out.len()), (format!("the packet of {why}"), 0));
        assert_eq!(filter.holds_from(), None, "the good piece was not taken either");
    }
    let mut two = open(Params { metrics: 2, ..params(Reduction::Sum) });
    let refused =
        two.up(Wave { tag: 1, pieces: &[endpoint(0, 0, 5, 5.0)], now_ns: NOW_NS }, &mut vec![]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the packet of endpoint 0: `values` has 1 metrics, but this stream's parameter `metrics` is 2"
    );
}

#[test]
fn a_clock_far_ahead_is_refused_and_closes_no_intervals() {
    let mut filter = open(Params { intervals_max: 3, ..params(Reduction::Sum) });
    (0..2).for_each(|number| filter.joined(Source::Endpoint(number)));
    let ahead_ns = NOW_NS + 3 * INTERVAL_NS;
    let child = |start_ns| {
        let aligned =
            Aligned { start_ns, end_ns: start_ns + INTERVAL_NS, endpoints: 1, values: vec![1.0].into() };
        Piece { source: Source::Child(4), payload: aligned.encode().unwrap() }
    };
    let far = 1_000 * NOW_NS;
    for (piece, from, start_ns) in [
        (endpoint(9, ahead_ns + 1, ahead_ns + 2, 1.0), "endpoint 9", ahead_ns + 1),
        (child(far), "child 4", far),
    ] {
        let refused = filter.up(Wave { tag: 1, pieces: &[piece], now_ns: NOW_NS }, &mut vec![]).unwrap_err();
        let said = format!(
            "{from} sends an interval that begins at {start_ns} ns, more than `intervals_max` intervals (30 ns) after this \
             node's clock, 1000 ns"
        );
        assert_eq!(refused.to_string(), said);
    }
    let start_ns = NOW_NS - INTERVAL_NS;
    assert_eq!(up(&mut *filter, 2, &[endpoint(0, start_ns, NOW_NS, 1.0)]), []);
    let both = up(&mut *filter, 2, &[endpoint(1, start_ns, NOW_NS, 2.0)]);
    assert_eq!(both, [aligned(start_ns / INTERVAL_NS, 2, 3.0)]);
    assert_eq!(up(&mut *filter, 3, &[endpoint(0, ahead_ns, ahead_ns + 1, 1.0)]), [], "just within");
}

#[test]
fn a_sample_may_be_a_typed_packet() {
    let typed = |row: Row| Piece { source: Source::Endpoint(0), payload: row.packet().into_bytes() };
    let row = |end_ns| Row::new().u64(0).u64(end_ns).f64s(&[4.0]);
    let mut filter = open(params(Reduction::Sum));
    assert_eq!(up(&mut *filter, 1, &[typed(row(10))]), [aligned(0, 1, 4.0)]);
    let bad = [typed(row(20).i64(1))];
    let refused = filter.up(Wave { tag: 1, pieces: &bad, now_ns: NOW_NS }, &mut vec![]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "endpoint 0 sends `u64 u64 f64s i64`, but `u64 u64 f64s` (start, end, amounts) is expected"
    );
}

#[test]
fn parameters_are_refused_by_name() {
    let refused =
        |params: Params| TimeAligned.open(&params.encode().unwrap()).err().expect("refused").to_string();
    assert_eq!(
        refused(Params::default()),
        "parameter `interval_ns`: an output interval must have at least 1 ns"
    );
    let sum = params(Reduction::Sum);
    assert_eq!(refused(Params { metrics: 0, ..sum }), "parameter `metrics`: 0 is not within 1 to 4096");
    assert_eq!(
        refused(Params { intervals_max: 0, ..sum }),
        "parameter `intervals_max`: 0 is not within 1 to 4096"
    );
}

/// Generates an endpoint's samples from a random start up to `until_ns`, adjacent or with gaps.
pub(super) fn series(until_ns: u64) -> impl Strategy<Value = Vec<(u64, u64, f64)>> {
    let step = (0u64..3, 1u64..35, 0.0f64..100.0);
    proptest::collection::vec(step, 1..30).prop_map(move |steps| {
        let (mut samples, mut at) = (Vec::new(), 0);
        for (gap, length, value) in steps {
            let start = at + gap;
            let end = (start + length).min(until_ns);
            if start < end {
                samples.push((start, end, value));
                at = end;
            }
        }
        if at < until_ns {
            // A sample may not overlap too many intervals, so the remaining time is split into short samples.
            for start in (at..until_ns).step_by(50) {
                samples.push((start, until_ns.min(start + 50), 1.0));
            }
        }
        samples
    })
}

/// Computes the expected value of each interval, sample by sample from all endpoints' samples.
pub(super) fn expected(reduce: Reduction, all: &[Vec<(u64, u64, f64)>]) -> BTreeMap<u64, (u32, f64)> {
    let mut intervals: BTreeMap<u64, (u32, f64)> = BTreeMap::new();
    for samples in all {
        let mut amounts: BTreeMap<u64, f64> = BTreeMap::new();
        for &(start, end, value) in samples {
            for ns in start..end {
                *amounts.entry(ns / INTERVAL_NS).or_default() += value / (end - start) as f64;
            }
        }
        for (interval, amount) in amounts {
            let (endpoints, reduced) = intervals.entry(interval).or_insert((0, amount));
            *reduced = match reduce {
                _ if *endpoints == 0 => amount,
                Reduction::Sum | Reduction::Average => *reduced + amount,
                Reduction::Min => reduced.min(amount),
                Reduction::Max => reduced.max(amount),
            };
            *endpoints += 1;
        }
    }
    if reduce == Reduction::Average {
        intervals.values_mut().for_each(|(endpoints, reduced)| *reduced /= f64::from(*endpoints));
    }
    intervals
}

pub(super) fn assert_same(given: &[Aligned], expected: &BTreeMap<u64, (u32, f64)>) {
    assert!(given.is_sorted_by_key(|aligned| aligned.start_ns), "in ascending order");
    let given: BTreeMap<u64, (u32, f64)> =
        given.iter().map(|a| (a.start_ns / INTERVAL_NS, (a.endpoints, a.values.0[0]))).collect();
    assert_eq!(given.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (interval, (endpoints, value)) in expected {
        assert_eq!(given[interval].0, *endpoints, "endpoints of interval {interval}");
        let off = (given[interval].1 - value).abs();
        assert!(off <= 1e-9 * value.abs().max(1.0), "interval {interval}: {} for {value}", given[interval].1);
    }
}

proptest! {
    #[test]
    fn every_tree_gives_the_expected_intervals(
        all in proptest::collection::vec(series(200), 1..7),
        reduce in prop_oneof![Just(Reduction::Sum), Just(Reduction::Average), Just(Reduction::Min), Just(Reduction::Max)],
        below in 1usize..4,
        order in any::<u64>(),
    ) {
        // One node with all endpoints, and a tree of nodes with `below` endpoints each.
        let (mut flat, mut root) = (open(params(reduce)), open(params(reduce)));
        let mut nodes: Vec<_> = all.chunks(below).map(|_| open(params(reduce))).collect();
        for number in 0..all.len() as u32 {
            flat.joined(Source::Endpoint(number));
            nodes[number as usize / below].joined(Source::Endpoint(number));
            root.joined(Source::Child(number / below as u32));
        }
        let (mut at_flat, mut at_root) = (Vec::new(), Vec::new());
        for (number, tag, &(start, end, value)) in shuffled(&all, order) {
            let piece = endpoint(number, start, end, value);
            at_flat.extend(up(&mut *flat, tag, std::slice::from_ref(&piece)));
            let node = number / below as u32;
            for packet in up(&mut *nodes[node as usize], tag, &[piece]) {
                let piece = Piece { source: Source::Child(node), payload: packet.encode().unwrap() };
                at_root.extend(up(&mut *root, tag, &[piece]));
            }
        }
        let expected = expected(reduce, &all);
        assert_same(&at_flat, &expected);
        assert_same(&at_root, &expected);
        if reduce == Reduction::Sum {
            let sent: f64 = all.iter().flatten().map(|(_, _, value)| value).sum();
            let came: f64 = at_root.iter().map(|aligned| aligned.values.0[0]).sum();
            prop_assert!((sent - came).abs() <= 1e-9 * sent.max(1.0), "nothing is lost by rounding: {} of {}", came, sent);
        }
        prop_assert_eq!((flat.holds_from(), root.holds_from()), (None, None));
    }
}

/// Yields all endpoints' samples, each endpoint's in order, randomly interleaved.
fn shuffled(
    all: &[Vec<(u64, u64, f64)>],
    mut chance: u64,
) -> impl Iterator<Item = (u32, u64, &(u64, u64, f64))> {
    let mut next = vec![0; all.len()];
    std::iter::from_fn(move || {
        let open: Vec<usize> = (0..all.len()).filter(|&number| next[number] < all[number].len()).collect();
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = *open.get((chance >> 33) as usize % open.len().max(1))?;
        next[number] += 1;
        Some((number as u32, next[number] as u64, &all[number][next[number] - 1]))
    })
}
