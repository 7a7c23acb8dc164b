//! Compares the cost of guests with that of the same native functions: `cargo bench -p treefold-wasm`.
//!
//! There are three reduces. With eight bytes, nearly all time is spent on passing data in and out. The second
//! passes 1 KiB in and out. The third, top-k of 100 and 100 rows, has real work to do. Each is measured
//! natively, in a new guest for each invocation (the default), and in a guest that is kept. Figures are
//! nanoseconds per operation, the least of several rounds, and their ratio to the native figure of the same
//! run.

use std::hint::black_box;
use std::time::Instant;
use treefold_guest::Reduce;
use treefold_operators::filter::{Piece, Source, Wave};
use treefold_wasm::{Engine, Limits};

/// The example guest, compiled natively.
#[path = "../../guest/examples/top_k.rs"]
#[allow(unreachable_pub, reason = "elsewhere it is a separate crate")]
mod top_k;

const ROUNDS: usize = 9;
const PER_ROUND: u32 = 20_000;

fn nanoseconds(mut operation: impl FnMut()) -> f64 {
    let round = |operation: &mut dyn FnMut()| {
        let from = Instant::now();
        (0..PER_ROUND).for_each(|_| operation());
        from.elapsed().as_nanos() as f64 / f64::from(PER_ROUND)
    };
    (0..ROUNDS).map(|_| round(&mut operation)).fold(f64::INFINITY, f64::min)
}

fn report(what: &str, native: f64, figure: f64) {
    println!("{what:<36} {figure:>8.0} ns {:>8.1} x native", figure / native);
}

/// The C example's sum, in Rust.
fn sum(a: &[u8], b: &[u8]) -> Vec<u8> {
    let (a, b) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    let mut out = vec![0; a.len() * 8];
    for ((a, b), sum) in a.iter().zip(b).zip(out.as_chunks_mut::<8>().0) {
        let both = i64::from_le_bytes(*a).checked_add(i64::from_le_bytes(*b));
        *sum = both.expect("no overflow").to_le_bytes();
    }
    out
}

/// Rows in descending order, all different.
fn rows(from: f64) -> Vec<u8> {
    (0..100u64).flat_map(|row| [(from - row as f64).to_le_bytes(), row.to_le_bytes()]).flatten().collect()
}

fn main() {
    let engine = |reduces_per_instance_max| {
        Engine::new(Limits { reduces_per_instance_max, ..Limits::DEFAULT }).expect("the limits are valid")
    };
    let (fresh, kept) = (engine(1), engine(u32::MAX));
    let sums: &[u8] = include_bytes!("../fixtures/sum.wasm");
    let tops: &[u8] = include_bytes!("../fixtures/top_k.wasm");

    let compare =
        |what: &str, wasm: &[u8], a: &[u8], b: &[u8], params: &[u8], native: &dyn Fn() -> Vec<u8>| {
            let expected = native();
            let base = nanoseconds(|| drop(black_box(native())));
            report(&format!("{what}, native"), base, base);
            for (how, engine) in [("new guest", &fresh), ("kept guest", &kept)] {
                let module = engine.compile(wasm.to_vec()).expect("an example guest");
                let reduce = module.reduce().expect("a reduce");
                assert_eq!(reduce.reduced(a, b, params).expect("a partial"), expected);
                let figure =
                    nanoseconds(|| drop(black_box(reduce.reduced(black_box(a), black_box(b), params))));
                report(&format!("{what}, {how}"), base, figure);
            }
        };
    let (a, b) = (vec![1u8; 8], vec![2u8; 8]);
    compare("sum of 8 bytes", sums, &a, &b, b"", &|| sum(black_box(&a), black_box(&b)));
    let (a, b) = (vec![1u8; 1024], vec![2u8; 1024]);
    compare("sum of 1 KiB", sums, &a, &b, b"", &|| sum(black_box(&a), black_box(&b)));
    let (a, b, k) = (rows(1000.0), rows(1000.5), 100u32.to_le_bytes());
    compare("top 100 of 100 + 100 rows", tops, &a, &b, &k, &|| {
        let mut out = Vec::new();
        top_k::TopK::reduce(black_box(&a), black_box(&b), &k, &mut out).expect("rows");
        out
    });

    let changes: &[u8] = include_bytes!("../fixtures/changes.wasm");
    let mut filter =
        fresh.compile(changes).expect("an example guest").filter().open(&"".into()).expect("a filter");
    let pieces: Vec<Piece> =
        (0..8).map(|child| Piece { source: Source::Child(child), payload: vec![7; 64].into() }).collect();
    let mut out = Vec::new();
    let figure = nanoseconds(|| {
        out.clear();
        filter.up(Wave { tag: 1, pieces: &pieces, now_ns: 0 }, &mut out).expect("packets");
    });
    println!("{:<36} {figure:>8.0} ns", "a wave of 8 packets of 64 bytes");
    for (name, wasm) in [("sum", sums), ("top_k", tops)] {
        let from = Instant::now();
        fresh.compile(wasm.to_vec()).expect("an example guest");
        println!(
            "{:<36} {:>8.0} µs",
            format!("compile {name}.wasm, {} bytes", wasm.len()),
            from.elapsed().as_micros()
        );
    }
}
