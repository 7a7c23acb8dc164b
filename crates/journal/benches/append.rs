//! Records a second by policy and by records a flush: `cargo bench -p treefold-journal --bench append [DIRECTORY]`.
//!
//! The directory decides the disk; by default a temporary one. Each figure is the median of five rounds.

use std::time::{Duration, Instant};
use treefold_journal::{Journal, Options, Segments, Sync};

const ROUND: Duration = Duration::from_millis(400);

fn main() {
    let on = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    println!(
        "{:<10}  {:>6}  {:>14}  {:>12}  {:>12}",
        "fsync", "bytes", "records/flush", "records/s", "flush (µs)"
    );
    let policies = [
        ("always", Sync::Always),
        ("interval", Sync::Interval(Duration::from_millis(100))),
        ("never", Sync::Never),
    ];
    for (name, sync) in policies {
        for (bytes, at_once) in [(100, 1), (100, 64), (6_400, 1), (6_400, 16)] {
            let mut rates: Vec<(f64, f64)> =
                (0..5).map(|_| round(sync, bytes, at_once, on.as_deref())).collect();
            rates.sort_by(|one, other| one.0.total_cmp(&other.0));
            let (records, flush_us) = rates[2];
            println!("{name:<10}  {bytes:>6}  {at_once:>14}  {records:>12.0}  {flush_us:>12.1}");
        }
    }
}

fn round(sync: Sync, bytes: usize, at_once: u64, on: Option<&str>) -> (f64, f64) {
    let directory = match on {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    };
    let directory = directory.expect("a directory");
    let options = Options { sync, ..Options::default() };
    let mut journal = Segments::open(directory.path(), 0, options).expect("an empty journal").journal;
    let (payload, begun, mut flushes) = (vec![1; bytes], Instant::now(), 0_u32);
    let mut synced_at = begun;
    while begun.elapsed() < ROUND {
        for _ in 0..at_once {
            let position = journal.last() + 1;
            journal.append(position, position, &payload).expect("in order");
        }
        journal.flush().expect("room");
        if let Sync::Interval(interval) = sync
            && synced_at.elapsed() >= interval
        {
            journal.sync().expect("a disk");
            synced_at = Instant::now();
        }
        journal.trim(journal.last()).expect("a disk");
        flushes += 1;
    }
    let took = begun.elapsed().as_secs_f64();
    (journal.last() as f64 / took, took * 1e6 / f64::from(flushes))
}
