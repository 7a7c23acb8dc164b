//! Folding in memory: partials at hand, and workers that fold any two of them until one is left.

use crate::partials::Kind;
use crate::{gb_per_s, median};
use bytes::Bytes;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Barrier, Mutex};
use std::time::Instant;

const INPUTS: [u32; 6] = [2, 4, 8, 16, 32, 64];
const WORKERS: [usize; 2] = [1, 2];
/// What each thread copies in one round.
const COPIED_BYTES: usize = 128 << 20;

/// What one kind does with so many inputs and workers.
#[derive(Serialize)]
pub(crate) struct Figure {
    kind: Kind,
    inputs: u32,
    workers: usize,
    gb_per_s: f64,
    /// What as many threads copied, in the same rounds.
    copy_gb_per_s: f64,
    of_copy: f64,
}

/// Measures every kind, number of inputs and number of workers.
pub(crate) fn measure(partial_bytes: usize, rounds: u32) -> Vec<Figure> {
    let mut rates: BTreeMap<(usize, u32, usize), Vec<f64>> = BTreeMap::new();
    let mut copies: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let kinds = [Kind::Vectors, Kind::TopK];
    for _ in 0..rounds {
        for workers in WORKERS {
            copies.entry(workers).or_default().push(copy(workers));
            for kind in kinds {
                for inputs in INPUTS {
                    let rate = fold(kind, partial_bytes, inputs, workers);
                    rates.entry((kind as usize, inputs, workers)).or_default().push(rate);
                }
            }
        }
    }
    let copies: BTreeMap<usize, f64> =
        copies.into_iter().map(|(workers, rates)| (workers, median(rates))).collect();
    let figure = |((kind, inputs, workers), rates)| {
        let (gb_per_s, copy_gb_per_s) = (median(rates), copies[&workers]);
        Figure {
            kind: Kind::ALL[kind],
            inputs,
            workers,
            gb_per_s,
            copy_gb_per_s,
            of_copy: gb_per_s / copy_gb_per_s,
        }
    };
    rates.into_iter().map(figure).collect()
}

/// Folds fresh partials once; gives the rate at which they were taken in.
fn fold(kind: Kind, partial_bytes: usize, inputs: u32, workers: usize) -> f64 {
    let operator = kind.operator();
    let partials: Vec<Bytes> = (0..inputs).map(|seed| kind.partial(partial_bytes, seed)).collect();
    let bytes = partials.iter().map(Bytes::len).sum();
    let params = Bytes::from_static(&[0]);
    // The partials at hand, and how many folds are still to begin.
    let state = Mutex::new((partials, inputs - 1));
    let take = || -> Option<Option<(Bytes, Bytes)>> {
        let (at_hand, folds) = &mut *state.lock().expect("invariant: no fold panics");
        if *folds == 0 {
            return None;
        }
        if at_hand.len() < 2 {
            return Some(None);
        }
        *folds -= 1;
        at_hand.pop().zip(at_hand.pop()).map(Some)
    };
    let work = || {
        while let Some(pair) = take() {
            let Some((a, b)) = pair else {
                std::thread::yield_now();
                continue;
            };
            let folded = operator.reduce(a, b, &params).now().expect("invariant: these folds do not wait");
            state.lock().expect("invariant: no fold panics").0.push(folded.expect("these can be folded"));
        }
    };
    let seconds = timed(workers, &work);
    gb_per_s(bytes, seconds)
}

/// Copies memory on so many threads; gives the rate of bytes copied, all threads together.
fn copy(workers: usize) -> f64 {
    let work = || {
        let from = vec![1_u8; COPIED_BYTES];
        let mut to = vec![0_u8; COPIED_BYTES];
        let began_at = Instant::now();
        to.copy_from_slice(&from);
        let seconds = began_at.elapsed().as_secs_f64();
        std::hint::black_box(&to);
        gb_per_s(COPIED_BYTES, seconds)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("copying does not panic")).sum()
    })
}

/// How long `work` takes on so many threads that begin together.
fn timed(workers: usize, work: &(impl Fn() + Sync)) -> f64 {
    let line = Barrier::new(workers + 1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|_| {
                scope.spawn(|| {
                    line.wait();
                    work();
                })
            })
            .collect();
        line.wait();
        let began_at = Instant::now();
        threads.into_iter().for_each(|thread| thread.join().expect("no fold panics"));
        began_at.elapsed().as_secs_f64()
    })
}
