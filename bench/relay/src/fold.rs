//! Folding in memory: workers fold any two available partials until one is left.

use crate::partials::Kind;
use crate::{gb_per_s, median};
use bytes::Bytes;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Barrier, Mutex};
use std::time::Instant;

const INPUTS: [u32; 6] = [2, 4, 8, 16, 32, 64];
const WORKERS: [usize; 2] = [1, 2];
/// Bytes that each thread copies in one round.
const COPIED_BYTES: usize = 128 << 20;
/// Least bytes that are folded in one round.
const FOLDED_BYTES: usize = 256 << 20;

/// The rate of one kind for a number of inputs and workers.
#[derive(Serialize)]
pub(crate) struct Figure {
    kind: Kind,
    inputs: u32,
    workers: usize,
    gb_per_s: f64,
    /// Copy rate of the same number of threads, in the same rounds.
    copy_gb_per_s: f64,
    of_copy: f64,
}

/// Measures every kind, number of inputs and number of workers.
pub(crate) fn measure(kinds: &[Kind], partial_bytes: usize, rounds: u32) -> Vec<Figure> {
    let mut rates: BTreeMap<(Kind, u32, usize), Vec<f64>> = BTreeMap::new();
    let mut copies: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    // A kind that folds nothing would take no time.
    let kinds = kinds.iter().copied().filter(|&kind| kind != Kind::Nothing);
    let inputs_max = INPUTS.into_iter().max().unwrap_or(0);
    let templates = |kind: Kind| (0..inputs_max).map(|seed| kind.partial(partial_bytes, seed)).collect();
    let templates: BTreeMap<Kind, Vec<Bytes>> = kinds.map(|kind| (kind, templates(kind))).collect();
    for _ in 0..rounds {
        for workers in WORKERS {
            copies.entry(workers).or_default().push(copy(workers));
            for (&kind, templates) in &templates {
                for inputs in INPUTS {
                    let rate = fold(kind, templates, inputs, workers);
                    rates.entry((kind, inputs, workers)).or_default().push(rate);
                }
            }
        }
    }
    let copies: BTreeMap<usize, f64> =
        copies.into_iter().map(|(workers, rates)| (workers, median(rates))).collect();
    let figure = |((kind, inputs, workers), rates)| {
        let (gb_per_s, copy_gb_per_s) = (median(rates), copies[&workers]);
        Figure { kind, inputs, workers, gb_per_s, copy_gb_per_s, of_copy: gb_per_s / copy_gb_per_s }
    };
    rates.into_iter().map(figure).collect()
}

/// Folds fresh partials, wave by wave. Returns the rate of bytes folded.
fn fold(kind: Kind, templates: &[Bytes], inputs: u32, workers: usize) -> f64 {
    let operator = kind.operator();
    let templates = &templates[..inputs as usize];
    let bytes_of_wave: usize = templates.iter().map(Bytes::len).sum();
    let waves = FOLDED_BYTES.div_ceil(bytes_of_wave);
    // Each partial must be unshared, as in a node.
    let fresh = || templates.iter().map(|partial| Bytes::copy_from_slice(partial)).collect();
    let state = Mutex::new((0..waves).map(|_| Wave::of(fresh())).collect::<Vec<_>>());
    let params = Bytes::from_static(&[0]);
    let work = || {
        loop {
            let next = next_pair(&mut state.lock().expect("invariant: no fold panics"));
            match next {
                Next::Over => return,
                Next::Wait => std::thread::yield_now(),
                Next::Fold(wave, a, b) => {
                    // A node keeps both partials until they are folded, so that it can send them unfolded at
                    // the deadline.
                    let _kept = (a.clone(), b.clone());
                    let folded =
                        operator.reduce(a, b, &params).now().expect("invariant: these folds do not wait");
                    let folded = folded.expect("invariant: these partials can be folded");
                    state.lock().expect("invariant: no fold panics")[wave].take(folded);
                }
            }
        }
    };
    gb_per_s(bytes_of_wave * waves, timed(workers, &work))
}

/// Partials to be folded into one.
struct Wave {
    at_hand: VecDeque<Bytes>,
    /// Folds that have not begun.
    folds: u32,
    /// Folds that have not ended.
    open: u32,
}

impl Wave {
    fn of(partials: VecDeque<Bytes>) -> Self {
        let folds = partials.len() as u32 - 1;
        Self { at_hand: partials, folds, open: folds }
    }

    /// Takes the result of a fold. The last result is sent up, so it is not kept.
    fn take(&mut self, folded: Bytes) {
        self.open -= 1;
        if self.open > 0 {
            self.at_hand.push_back(folded);
        }
    }
}

/// A worker's next step.
enum Next {
    Fold(usize, Bytes, Bytes),
    /// All remaining partials are being folded by other workers.
    Wait,
    Over,
}

fn next_pair(waves: &mut [Wave]) -> Next {
    let Some(at) = waves.iter().position(|wave| wave.folds > 0 && wave.at_hand.len() >= 2) else {
        return if waves.iter().all(|wave| wave.folds == 0) { Next::Over } else { Next::Wait };
    };
    let wave = &mut waves[at];
    wave.folds -= 1;
    // Oldest first, as a node does.
    match wave.at_hand.pop_front().zip(wave.at_hand.pop_front()) {
        Some((a, b)) => Next::Fold(at, a, b),
        None => Next::Wait,
    }
}

/// Copies memory with `workers` threads. Returns the rate of bytes copied by all threads together.
fn copy(workers: usize) -> f64 {
    let work = || {
        let from = vec![1_u8; COPIED_BYTES];
        let mut to = vec![0_u8; COPIED_BYTES];
        // The first copy makes the kernel allocate the pages.
        to.copy_from_slice(&from);
        let began_at = Instant::now();
        std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
        let seconds = began_at.elapsed().as_secs_f64();
        std::hint::black_box(&to);
        gb_per_s(COPIED_BYTES, seconds)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("copying does not panic")).sum()
    })
}

/// Measures the time of `work` on `workers` threads that start together.
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
