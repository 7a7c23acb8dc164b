//! What an erased operator costs: `cargo bench -p treefold-operators`.
//!
//! These are the costs of a fold that runs inline on a node's loop, so each must stay far below a message's own
//! (some microseconds). Figures are nanoseconds per operation, the least of several rounds.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use treefold_operators::merge::{Average, Sum, TopK};
use treefold_operators::{Body, Operator, Partition, erase, merging};

const ROUNDS: usize = 9;
const PER_ROUND: u32 = 100_000;

fn report(what: &str, mut operation: impl FnMut()) {
    let round = |operation: &mut dyn FnMut()| {
        let from = Instant::now();
        (0..PER_ROUND).for_each(|_| operation());
        from.elapsed() / PER_ROUND
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
}
