//! Measures the cost of reduces: `cargo bench -p treefold-operators`.
//!
//! These folds run inline on a node's loop, so each must cost far less than handling a message (some
//! microseconds). Figures are nanoseconds per operation, the least of several rounds.

use bytes::Bytes;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use treefold_operators::filter::top_k::TopRows;
use treefold_operators::merge::{Average, Concatenate, GroupCount, Merge, Sum, TopK, TotalF64, VectorSum};
use treefold_operators::packet::Row;
use treefold_operators::{Body, Operator, OperatorError, Partition, erase, folding, merging, ready};

const ROUNDS: usize = 9;
const PER_ROUND: u32 = 100_000;

fn report(what: &str, operation: impl FnMut()) {
    report_times(what, PER_ROUND, operation);
}

fn report_times(what: &str, times: u32, mut operation: impl FnMut()) {
    let round = |operation: &mut dyn FnMut()| {
        let from = Instant::now();
        (0..times).for_each(|_| operation());
        from.elapsed() / times
    };
    let least = (0..ROUNDS).map(|_| round(&mut operation)).min().unwrap_or_default();
    println!("{what:<36} {:>6} ns", least.as_nanos());
}

fn report_fold<M: Body>(what: &str, operator: &Arc<dyn Operator>, a: &M, b: &M) {
    let (a, b) =
        (a.encode().expect("a partial can be written"), b.encode().expect("a partial can be written"));
    let params = ().encode().expect("nil can be written");
    report(what, || {
        black_box(operator.reduce(a.clone(), b.clone(), &params));
    });
}

/// Reports a reduce of large partials, given as bytes.
fn report_large(what: &str, operator: &Arc<dyn Operator>, a: &Bytes, b: &Bytes, params: &Bytes) {
    const TIMES: u32 = 200;
    report_times(what, TIMES, || {
        let folded = operator.reduce(a.clone(), b.clone(), params).now().expect("these reduces never wait");
        black_box(folded.expect("these partials fold"));
    });
}

/// Reports a reduce of eight partials that are read in place, and of the same partials decoded whole, as pushes do.
fn report_eight<M: Body + Merge>(what: &str, partial: impl Fn(u64) -> M) {
    const TIMES: u32 = 50;
    let encoded = |seed| partial(seed).encode().expect("a partial can be written");
    let parts: Vec<Bytes> = (0..8).map(encoded).collect();
    let none = Bytes::new();
    let no_local = |_: &Partition, (): &()| Err::<M, _>(OperatorError::new("the partials are given"));
    let in_place = erase(merging("in place", no_local));
    let whole: Arc<dyn Operator> = Arc::new(folding::<M>("whole"));
    for (how, operator) in [("in place", &in_place), ("whole", &whole)] {
        report_times(&format!("{what}, {how}"), TIMES, || {
            let folded = operator.reduce_all(parts.clone(), &none).now().expect("these reduces never wait");
            black_box(folded.expect("these partials fold"));
        });
    }
}

fn report_in_place() {
    let scrambled = |at: u64, seed: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40 ^ seed;
    let scores = |seed| (0..10_000).map(move |at| (TotalF64(scrambled(at, seed) as f64), at));
    report_eight("top 10,000 of eight", |seed| TopK::of(10_000, scores(seed)));
    let name = |at: u64| format!("document {at:020}");
    let hits = |seed| (0..1000).map(move |at| (TotalF64(scrambled(at, seed) as f64), name(at)));
    report_eight("top 1000 with names of eight", |seed| TopK::of(1000, hits(seed)));
    report_eight("groups of words, eight of 10,000", |seed| {
        let mut groups = GroupCount::new(1 << 20);
        for at in (0..12_500).filter(|at| at % 5 != seed % 5) {
            groups.add(name(at), at).expect("these are few");
        }
        groups
    });
    report_eight("concatenate eight of 1000", |seed| {
        let entries = (0..1000).map(|at| (8 * at + seed, name(at)));
        Concatenate::of(1 << 20, entries).expect("these are few")
    });
}

fn report_bodies() {
    let none = ().encode().expect("nil can be written");
    let vectors = erase(merging("vectors", |_: &Partition, (): &()| Ok(VectorSum::default())));
    let entries = || (0..100_000u32).map(|at| (at % 1000) as f32);
    let vector = || VectorSum::new(entries()).encode().expect("a vector can be written");
    let (a, b) = (vector(), vector());
    // Octets that are not shared are summed in place.
    let mut alone = Bytes::from(a.to_vec());
    report_times("vector sum, 100,000 entries, alone", 200, || {
        let sum = vectors.reduce(std::mem::take(&mut alone), b.clone(), &none).now();
        alone = sum.expect("these reduces never wait").expect("these partials fold");
    });
    report_large("vector sum, 100,000 entries, shared", &vectors, &a, &b, &none);

    let top = erase(merging("top", |_: &Partition, (): &()| Ok(TopK::<(TotalF64, u64)>::new(1000))));
    let best = |seed: u64| {
        let score = |at: u64| TotalF64((at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40 ^ seed) as f64);
        TopK::of(1000, (0..1000).map(|at| (score(at), at))).encode().expect("a partial can be written")
    };
    report_large("top 1000 of two", &top, &best(1), &best(2), &none);

    let concatenate = erase(merging("all", |_: &Partition, (): &()| Ok(Concatenate::<u64, u64>::default())));
    let entries = |from: u64| {
        let entries = (0..1000).map(|at| (from + 2 * at, at));
        Concatenate::of(1 << 20, entries).and_then(|all| Ok(all.encode()?)).expect("these are few")
    };
    report_large("concatenate 1000 and 1000, mixed", &concatenate, &entries(0), &entries(1), &none);
}

/// Reports the named reduces of typed packets and of lines.
fn report_ready() {
    let none = Bytes::new();
    let named = |name: &str| {
        ready::reduces()
            .find(|(known, _)| *known == name)
            .map(|(_, reduce)| reduce)
            .expect("a reduce of that name")
    };
    let row = |n: i64| Row::new().i64(n).f64(0.5).packet().into_bytes();
    let sum = named("sum");
    let (a, b) = (row(1), row(2));
    report("ready sum, i64 f64", || {
        black_box(sum.reduce(a.clone(), b.clone(), &none));
    });
    let array = |n: i64| Row::new().i64s(&vec![n; 100_000]).packet().into_bytes();
    report_large("ready sum, i64s of 100,000", &sum, &array(1), &array(2), &none);

    let k = TopRows { k: 1000 }.encode().expect("parameters can be written");
    let rows = |seed: u64| {
        let scores: Vec<f64> = (0..1000u64).map(|at| ((at * 7919 + seed) % 10_007) as f64).collect();
        let names: Vec<String> = (0..1000).map(|at| format!("document {seed} {at}")).collect();
        Row::new().f64s(&scores).strs(&names).packet().into_bytes()
    };
    report_large("ready top-k, 1000 of two", &named("top-k"), &rows(1), &rows(2), &k);
    report_large("ready concatenate, 1000 rows each", &named("concatenate"), &rows(1), &rows(2), &none);

    let keys = |odd: u32| (0..10_000u32).map(move |at| format!("key {:08}", 2 * at + odd));
    let lines = |odd: u32| keys(odd).map(|key| key + "\n").collect::<String>().into();
    report_large("ready merge-lines, 10,000 each", &named("merge-lines"), &lines(0), &lines(1), &none);
    let counts = |odd: u32| keys(odd / 2).map(|key| key + "\t17\n").collect::<String>().into();
    report_large("ready sum-lines, 10,000 the same", &named("sum-lines"), &counts(0), &counts(1), &none);
    let run = |odd: u32| {
        let keys: Vec<String> = keys(odd).collect();
        Row::new().strs(&keys).i64s(&vec![1; keys.len()]).packet().into_bytes()
    };
    report_large("ready merge-sorted, 10,000 each", &named("merge-sorted"), &run(0), &run(1), &none);
}

fn main() {
    let partition = Partition::new("bench".into(), 3, 8, Arc::new(()));
    let sum = erase(merging("sum", |partition: &Partition, (): &()| Ok(Sum(i64::from(partition.id)))));
    let average = erase(merging("average", |_: &Partition, (): &()| Ok(Average::default())));
    let top = erase(merging("top", |_: &Partition, (): &()| Ok(TopK::<(u64, u32)>::new(10))));
    let params = ().encode().expect("nil can be written");

    report("encode an i64", || {
        black_box(black_box(123_456i64).encode().expect("a number can be written"));
    });
    report("local of a sum", || {
        black_box(sum.local(&partition, &params));
    });
    report_fold("fold of two sums", &sum, &Sum(1 << 40), &Sum(77));
    report_fold(
        "fold of two averages",
        &average,
        &Average { sum: 1.5, count: 3 },
        &Average { sum: 2.5, count: 9 },
    );
    let ten = |from: u64| TopK::of(10, (0u32..10).map(|doc| (from + u64::from(doc) * 7, doc)));
    report_fold("fold of two top tens", &top, &ten(100), &ten(120));
    report_bodies();
    report_in_place();
    report_ready();
}
