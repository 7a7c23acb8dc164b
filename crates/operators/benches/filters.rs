//! Measures the cost of the built-in filters: `cargo bench -p treefold-operators --bench filters`.
//!
//! A stream of a thousand waves per second consists of sums of one number. They run inline on a node's loop,
//! so a piece should cost far less than the message that carries it. A sum of long arrays should cost about
//! as much as adding two slices: the last column is the ratio to that, measured in the same run. Figures are
//! the least of several rounds.

use bytes::Bytes;
use std::hint::black_box;
use std::time::{Duration, Instant};
use treefold_operators::filter::merge_sorted::chunk;
use treefold_operators::filter::{Filter, Piece, Source, Wave, builtin};
use treefold_operators::packet::Row;
use treefold_operators::{Body, Packet};

const ROUNDS: usize = 9;
/// Approximate length of one round.
const ROUND: Duration = Duration::from_millis(20);

/// Measures the least time that `operation` takes, in nanoseconds.
fn least_ns(mut operation: impl FnMut()) -> f64 {
    let timed = |times: u32, operation: &mut dyn FnMut()| {
        let from = Instant::now();
        (0..times).for_each(|_| operation());
        from.elapsed()
    };
    let warm = timed(100, &mut operation).max(Duration::from_nanos(100)) / 100;
    let times = (ROUND.as_nanos() / warm.as_nanos().max(1)).clamp(10, 1_000_000) as u32;
    let rounds = (0..ROUNDS).map(|_| timed(times, &mut operation));
    rounds.min().unwrap_or_default().as_nanos() as f64 / f64::from(times)
}

fn opened(name: &str, params: &Bytes) -> Box<dyn Filter> {
    let kind = builtin(name).expect("a built-in filter");
    kind.open(params).expect("the parameters must be valid")
}

fn pieces(packets: impl IntoIterator<Item = Packet>) -> Vec<Piece> {
    let piece =
        |(id, packet): (u32, Packet)| Piece { source: Source::Endpoint(id), payload: packet.into_bytes() };
    (0..).zip(packets).map(piece).collect()
}

/// Measures one wave through a filter, in nanoseconds.
fn wave_ns(filter: &mut dyn Filter, pieces: &[Piece]) -> f64 {
    let mut out = Vec::with_capacity(8);
    least_ns(|| {
        out.clear();
        filter
            .up(Wave { tag: 0, pieces: black_box(pieces), now_ns: 0 }, &mut out)
            .expect("these pieces fold");
        black_box(&out);
    })
}

fn report_wave(name: &str, params: &Bytes, what: &str, pieces: &[Piece]) {
    let ns = wave_ns(&mut *opened(name, params), pieces);
    println!("{name:<13} {what:<34} {ns:>10.0} ns {:>8.1} ns a piece", ns / pieces.len() as f64);
}

fn report_scalars() {
    let none = Bytes::new();
    for count in [2u8, 8, 64] {
        let wholes = pieces((0..count).map(|id| Row::new().i64(i64::from(id)).packet()));
        let floats = pieces((0..count).map(|id| Row::new().f64(f64::from(id)).packet()));
        report_wave("sum", &none, &format!("{count} packets i64"), &wholes);
        report_wave("sum", &none, &format!("{count} packets f64"), &floats);
        report_wave("average", &none, &format!("{count} packets f64"), &floats);
        report_wave("count", &none, &format!("{count} packets"), &wholes);
    }
}

/// Reports sums of arrays, beside the same sums over slices of numbers into a new vector.
fn report_vectors() {
    const PACKETS: usize = 8;
    for length in [16usize, 1_000, 100_000] {
        let array = |id: usize| (0..length).map(|at| (at * (id + 1)) as f64).collect::<Vec<f64>>();
        let arrays: Vec<Vec<f64>> = (0..PACKETS).map(array).collect();
        let sent = pieces(arrays.iter().map(|array| Row::new().f64s(array).packet()));
        let plain = least_ns(|| {
            let (first, others) = black_box(&arrays).split_first().expect("there are several");
            let mut total = first.clone();
            for other in others {
                total.iter_mut().zip(other).for_each(|(our, their)| *our += their);
            }
            black_box(total);
        });
        let ours = wave_ns(&mut *opened("sum", &Bytes::new()), &sent);
        println!(
            "sum           {PACKETS} packets f64s of {length:<14} {ours:>10.0} ns {plain:>8.0} ns over slices, ratio {:.2}",
            ours / plain
        );
    }
}

fn report_others() {
    let texts = |count: u64| {
        (0..count).map(|id| Row::new().str(if id % 3 == 0 { "linux 6.1" } else { "linux 6.12" }))
    };
    report_wave("classes", &Bytes::new(), "64 packets of two kinds", &pieces(texts(64).map(Row::packet)));
    report_wave("concatenate", &Bytes::new(), "64 packets str", &pieces(texts(64).map(Row::packet)));

    let k = treefold_operators::filter::top_k::TopRows { k: 10 }.encode().expect("parameters can be written");
    let rows = |id: u64| {
        let scores: Vec<f64> = (0..10).map(|at| ((id * 7 + at * 13) % 101) as f64).collect();
        let names: Vec<String> = (0..10).map(|at| format!("host {id} process {at}")).collect();
        Row::new().f64s(&scores).strs(&names).packet()
    };
    report_wave("top-k", &k, "8 packets of ten rows", &pieces((0..8).map(rows)));

    let bins = treefold_operators::filter::histogram::Histogram::even(0.0, 1000.0, 64);
    let bins = bins.encode().expect("parameters can be written");
    let values: Vec<f64> = (0..1000).map(|at| f64::from(at * 7 % 1100)).collect();
    report_wave(
        "histogram",
        &bins,
        "1 packet f64s of 1000, 64 bins",
        &pieces([Row::new().f64s(&values).packet()]),
    );
}

/// Reports the merge of eight runs whose entries all go up in one wave, per entry.
fn report_merge() {
    const RUNS: u32 = 8;
    const ENTRIES: u32 = 1_000;
    let run = |id: u32| {
        let entry = |at: u32| ((at * RUNS + id).to_be_bytes(), [0; 4]);
        chunk(&(0..ENTRIES).map(entry).collect::<Vec<_>>(), true)
    };
    let sent = pieces((0..RUNS).map(run));
    let mut out = Vec::new();
    let ns = least_ns(|| {
        out.clear();
        let mut filter = opened("merge-sorted", &Bytes::new());
        filter.up(Wave { tag: 0, pieces: black_box(&sent), now_ns: 0 }, &mut out).expect("these runs merge");
        black_box(&out);
    });
    let each = ns / f64::from(RUNS * ENTRIES);
    println!(
        "merge-sorted  {RUNS} runs of {ENTRIES} entries              {ns:>10.0} ns {each:>8.1} ns an entry"
    );
}

fn main() {
    report_scalars();
    report_vectors();
    report_others();
    report_merge();
}
