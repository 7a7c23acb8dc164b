//! Tests that every named operator without state obeys the laws in each of its uses.

use super::{average, classes, distinct, histogram, laws, top_k};
use crate::builtin::{Builtin, builtins};
use crate::codec::Body;
use crate::packet::{Packet, Row};
use crate::ready;
use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeSet;

/// Most samples of one trial.
const SAMPLES_MAX: usize = 16;
/// Trials of each operator.
const TRIALS: u32 = 128;

struct Member {
    name: &'static str,
    params: Bytes,
    samples: BoxedStrategy<Vec<Bytes>>,
    /// Extracts the part of the result that must be the same in every tree.
    seen: fn(&Bytes) -> Bytes,
}

fn member(name: &'static str, sample: impl Strategy<Value = Bytes> + 'static) -> Member {
    let samples = proptest::collection::vec(sample, 1..SAMPLES_MAX).boxed();
    Member { name, params: Bytes::new(), samples, seen: Bytes::clone }
}

impl Member {
    fn with(self, params: &impl Body) -> Self {
        Self { params: params.encode().unwrap(), ..self }
    }

    fn seen(self, seen: fn(&Bytes) -> Bytes) -> Self {
        Self { seen, ..self }
    }
}

fn packet(row: Row) -> Bytes {
    row.packet().into_bytes()
}

/// Whole numbers, so that floating-point sums are exact.
fn whole() -> impl Strategy<Value = f64> {
    (-1000i16..1000).prop_map(f64::from)
}

/// Floating-point numbers of every kind.
fn any_float() -> impl Strategy<Value = f64> {
    let special = prop_oneof![
        Just(f64::NAN),
        Just(-f64::NAN),
        Just(0.0),
        Just(-0.0),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY)
    ];
    prop_oneof![3 => any::<f64>(), 2 => special]
}

/// Packets of one shape, with arrays of any length.
fn sums() -> impl Strategy<Value = Vec<Bytes>> {
    (0usize..5, 0usize..5).prop_flat_map(|(wholes, floats)| {
        let wholes = proptest::collection::vec(any::<i32>().prop_map(i64::from), wholes);
        let floats = proptest::collection::vec((-1000i16..1000).prop_map(f32::from), floats);
        let row =
            (any::<i32>(), any::<u32>(), whole(), wholes, floats).prop_map(|(i, u, f, wholes, floats)| {
                packet(Row::new().i64(i.into()).u64(u.into()).f64(f).i64s(&wholes).f32s(&floats))
            });
        proptest::collection::vec(row, 1..SAMPLES_MAX)
    })
}

fn extremes() -> impl Strategy<Value = Bytes> {
    (any::<i64>(), any::<u64>(), any_float(), any::<[f32; 2]>())
        .prop_map(|(i, u, f, more)| packet(Row::new().i64(i).u64(u).f64(f).f32s(&more)))
}

fn words() -> impl Strategy<Value = BTreeSet<String>> {
    proptest::collection::btree_set("[ -c]{1,3}", 0..6)
}

/// Sorts the rows of `u64s strs`.
fn rows_sorted(joined: &Bytes) -> Bytes {
    let joined = Packet::read(joined).unwrap();
    let mut rows: Vec<(u64, &str)> = joined.u64s(0).unwrap().iter().zip(joined.strs(1).unwrap()).collect();
    rows.sort_unstable();
    let (numbers, texts): (Vec<u64>, Vec<&str>) = rows.into_iter().unzip();
    packet(Row::new().u64s(&numbers).strs(&texts))
}

/// Extracts the figures of `distinct`. A sketch of few values lists them in order of arrival.
fn figures(count: &Bytes) -> Bytes {
    let count = distinct::DistinctCount::decode(count).unwrap();
    (count.estimate, count.lower, count.upper).encode().unwrap()
}

fn octets_sorted(octets: &Bytes) -> Bytes {
    let mut octets = octets.to_vec();
    octets.sort_unstable();
    octets.into()
}

fn family() -> Vec<Member> {
    let mean = (whole(), any::<[i16; 2]>(), any::<bool>()).prop_map(|(x, more, as_floats)| match as_floats {
        true => packet(Row::new().f64(x).f64s(&more.map(f64::from))),
        false => packet(Row::new().i64(x as i64).i64s(&more.map(i64::from))),
    });
    let scored = proptest::collection::vec((prop_oneof![Just(1.0), any_float()], "[ab]{0,2}"), 0..6);
    let scored = scored.prop_map(|rows| {
        let (scores, texts): (Vec<f64>, Vec<String>) = rows.into_iter().unzip();
        packet(Row::new().f64s(&scores).strs(&texts))
    });
    let row = (any::<u64>(), ".{0,4}").prop_map(|(number, text)| packet(Row::new().u64(number).str(&text)));
    let values =
        proptest::collection::vec(any_float(), 0..9).prop_map(|values| packet(Row::new().f64s(&values)));
    let measured =
        proptest::collection::vec(whole(), 0..9).prop_map(|values| packet(Row::new().f64s(&values)));
    let named = words().prop_map(|words| packet(Row::new().strs(&words.into_iter().collect::<Vec<_>>())));
    let lines =
        words().prop_map(|words| words.iter().map(|word| format!("{word}\n")).collect::<String>().into());
    let counts = proptest::collection::btree_map("[ -c]{1,3}", -9i64..9, 0..8);
    let counts =
        counts.prop_map(|counts| counts.iter().map(|(key, n)| format!("{key}\t{n}\n")).collect::<String>());
    let runs = proptest::collection::btree_map("[ab]{0,2}", -9i64..9, 0..5).prop_map(|run| {
        let (keys, numbers): (Vec<String>, Vec<i64>) = run.into_iter().unzip();
        packet(Row::new().strs(&keys).i64s(&numbers))
    });
    let octets = || proptest::collection::vec(any::<u8>(), 0..6).prop_map(Bytes::from);
    let bins = histogram::Histogram::between([-1.0, 0.0, 0.5, 100.0]);
    let listed = classes::Classify { classes_max: 4, ..Default::default() };
    let mut family = vec![
        Member { name: "sum", params: Bytes::new(), samples: sums().boxed(), seen: Bytes::clone },
        member("min", extremes()),
        member("max", extremes()),
        member("average", mean),
        member("count", octets()),
        member("concatenate", row).seen(rows_sorted),
        member("top-k", scored).with(&top_k::rows::TopRows { k: 5 }),
        member("histogram", values).with(&bins),
        member("classes", "[ab]{0,2}".prop_map(Bytes::from)).with(&listed),
        member("merge-lines", lines),
        member("sum-lines", counts.prop_map(Bytes::from)),
        member("merge-sorted", runs),
        member("append", octets()).seen(octets_sorted),
        member("quantiles", measured),
        member("distinct", named).seen(figures),
    ];
    family.extend(of_batches());
    family
}

#[cfg(not(feature = "arrow"))]
fn of_batches() -> Vec<Member> {
    Vec::new()
}

#[cfg(feature = "arrow")]
fn of_batches() -> Vec<Member> {
    use super::group::{Aggregate, Function, GroupParams};
    use crate::codec::{Batch, concatenated};
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int64Type};
    use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
    use std::sync::Arc;

    fn batch(rows: &[(i64, f64)]) -> Bytes {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)));
        let values: ArrayRef = Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.1)));
        Batch(RecordBatch::try_from_iter([("key", keys), ("value", values)]).unwrap()).encode().unwrap()
    }

    fn sorted(bytes: &Bytes) -> Bytes {
        let all = concatenated(&[Batch::decode(bytes).unwrap()]).unwrap();
        let keys = all.0.column(0).as_primitive::<Int64Type>().values().iter().copied();
        let values = all.0.column(1).as_primitive::<Float64Type>().values().iter().copied();
        let mut rows: Vec<(i64, f64)> = keys.zip(values).collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        batch(&rows)
    }

    let rows = |value: BoxedStrategy<f64>| {
        proptest::collection::vec((0i64..4, value), 1..6).prop_map(|rows| batch(&rows))
    };
    let of = |function| Aggregate { column: "value".into(), function };
    let grouped = |functions: &[Function]| GroupParams {
        keys: vec!["key".into()],
        aggregates: functions.iter().map(|&function| of(function)).collect(),
        ..Default::default()
    };
    vec![
        member("group", rows(any_float().boxed())).with(&grouped(&[Function::Min, Function::Max])),
        member("group", rows(whole().boxed())).with(&grouped(&[
            Function::Sum,
            Function::Average,
            Function::Count,
        ])),
        member("concat-batches", rows(whole().boxed())).seen(sorted),
    ]
}

#[test]
fn stateless_operators_obey_the_laws_in_all_uses() {
    let meetings = proptest::collection::vec((any::<usize>(), any::<usize>()), SAMPLES_MAX);
    for Member { name, params, samples, seen } in family() {
        let mut runner =
            TestRunner::new(Config { cases: TRIALS, failure_persistence: None, ..Config::default() });
        let trial = runner.run(&(samples, laws::tree(), &meetings), |(samples, tree, meetings)| {
            laws::holds_in_all_uses(name, &params, &samples, (&tree, &meetings), seen)
        });
        trial.unwrap_or_else(|failure| panic!("{name}: {failure}"));
    }
}

#[test]
fn the_family_is_complete() {
    let members: BTreeSet<&str> = family().iter().map(|member| member.name).collect();
    assert_eq!(members, ready::reduces().map(|(name, _)| name).collect());
}

/// The guide's table lists each operator, with `yes` for each use that it supports. (The crate `wasm` tests
/// the last column.)
#[test]
fn operators_table_in_the_guide_is_correct() {
    let guide = include_str!("../../../../docs/guide.md");
    let (_, table) = guide.split_once("\n| operator | call |").expect("the table of operators");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells =
        |row: &'static str| -> Vec<&str> { row.trim_matches('|').split('|').map(str::trim).collect() };
    let rows: Vec<Vec<&str>> = rows.map(cells).filter(|row| row[0].starts_with('`')).collect();
    let of_arrow = |name: &str| ["group", "concat-batches"].contains(&name);
    let said: Vec<(&str, bool, bool, bool)> = rows
        .iter()
        .map(|row| (row[0].trim_matches('`'), row[1] == "yes", row[2] == "yes", row[3] == "yes"))
        .filter(|(name, ..)| cfg!(feature = "arrow") || !of_arrow(name))
        .collect();
    let is = |entry: &Builtin| (entry.name, entry.reduce().is_some(), true, entry.reduce().is_some());
    assert_eq!(said, builtins().iter().map(is).collect::<Vec<_>>());
}

/// Tests that typed operators and operators on packets agree: the same figures give the same result.
mod agreement {
    use super::*;
    use crate::fold::laws::merged;
    use crate::fold::{Average, Count, FloatSum, Max, Min, Source, Sum};

    /// Folds one row of each endpoint with the operator `name`.
    fn of_packets(name: &str, rows: Vec<Row>) -> Packet {
        let pieces: Vec<_> = (0..).map(Source::Endpoint).zip(rows.into_iter().map(packet)).collect();
        Packet::read(&laws::up(name, &(), &pieces).unwrap()[0]).unwrap()
    }

    proptest! {
        #[test]
        fn of_whole_numbers(numbers in proptest::collection::vec(any::<i32>().prop_map(i64::from), 1..20)) {
            let rows = || numbers.iter().map(|&number| Row::new().i64(number)).collect();
            let sum = numbers.iter().copied().map(Sum).reduce(merged).unwrap();
            prop_assert_eq!(of_packets("sum", rows()).i64(0), Ok(sum.0));
            let count = numbers.iter().map(|_| Count(1)).reduce(merged).unwrap();
            prop_assert_eq!(of_packets("count", rows()).u64(0), Ok(count.0));
            let mean: Average = numbers.iter().map(|&number| number as f64).collect();
            let means = average::means(&of_packets("average", rows())).unwrap();
            prop_assert_eq!(means.f64(0).ok(), mean.mean());
        }

        #[test]
        fn of_floats(numbers in proptest::collection::vec(any_float(), 1..20)) {
            let rows = || numbers.iter().map(|&number| Row::new().f64(number)).collect();
            let bits = |packet: Packet| packet.f64(0).unwrap().to_bits();
            let sum = numbers.iter().copied().map(FloatSum).reduce(merged).unwrap().0;
            let folded = of_packets("sum", rows()).f64(0).unwrap();
            prop_assert!(folded.to_bits() == sum.to_bits() || folded.is_nan() && sum.is_nan());
            let least = numbers.iter().copied().map(Min::of).reduce(merged).unwrap();
            prop_assert_eq!(Some(bits(of_packets("min", rows()))), least.0.map(f64::to_bits));
            let greatest = numbers.iter().copied().map(Max::of).reduce(merged).unwrap();
            prop_assert_eq!(Some(bits(of_packets("max", rows()))), greatest.0.map(f64::to_bits));
        }
    }
}
