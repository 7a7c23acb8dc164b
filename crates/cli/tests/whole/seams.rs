//! Where parts meet: calls, results slice by slice, streams in three modes and a sent operator, over every way
//! in, in a place with every fault, with real processes. `crates/house/seams.txt` has the table.
//!
//! A place has four holders of one partition each and a front that has none. Streams are opened before the first fault and go
//! on until the last; calls are made under each fault. Every answer is held against its account: its value is exactly that of
//! the partitions that it says contributed.

mod bed;
#[path = "../../../gateway/tests/whole/channel.rs"]
mod channel;
mod grpc;
mod http;
mod streams;
mod ways;

use bed::{Bed, HOLDERS, VICTIM};
use std::sync::{Mutex, PoisonError};
use std::thread;
use streams::{Mode, Running};
use treefold::PartitionSet;
use ways::{Use, Way};

/// Which partitions contribute, and what is said of the others.
struct Expected {
    contributors: PartitionSet,
    /// One of them is the reason of each partition that is missing.
    reasons: &'static [&'static str],
}

fn everyone() -> Expected {
    Expected { contributors: PartitionSet::first(HOLDERS), reasons: &[] }
}

fn all_but_the_victim(reasons: &'static [&'static str]) -> Expected {
    Expected { contributors: PartitionSet::first(VICTIM), reasons }
}

fn nobody() -> Expected {
    Expected { contributors: PartitionSet::new(), reasons: &["lost", "no_replica"] }
}

/// Makes every kind of call over every way, and compares the accounts.
fn call(bed: &Bed, under: &str, expected: &Expected) {
    thread::scope(|scope| {
        for way in Way::ALL {
            scope.spawn(move || {
                for asked in Use::ALL {
                    let answer = way.call(bed, asked);
                    let at = format!("{} {under}, {asked:?} over {way:?}: {answer:?}", bed.name);
                    assert_eq!(answer.contributors, expected.contributors, "{at}");
                    let missing: PartitionSet = answer.missing.iter().map(|(id, _)| *id).collect();
                    assert_eq!(answer.contributors.len() + missing.len(), HOLDERS as usize, "{at}");
                    let is_known = |(_, reason): &(u32, String)| expected.reasons.contains(&reason.as_str());
                    assert!(answer.missing.iter().all(is_known), "{at}");
                }
            });
        }
    });
}

/// Reads every stream until its waves have these contributors.
fn read(streams: &mut [Running], bed: &Bed, under: &str, expected: &Expected) {
    let under = format!("{} {under}", bed.name);
    thread::scope(|scope| {
        for stream in streams {
            scope.spawn(|| stream.read_until(&under, expected));
        }
    });
}

/// Plays all faults, one after another. Places take turns: a node of one that hardly runs would not run at all beside the
/// processes of the others.
fn play(bed: impl FnOnce() -> Bed) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let bed = &bed();
    let operator = bed.push_operator();
    let modes = [Mode::All, Mode::Timed, Mode::Single, Mode::Operator(operator)];
    let open = |mode: &Mode| Way::ALL.map(|way| Running::open(way, mode, bed)).into_iter().flatten();
    let mut streams: Vec<Running> = modes.iter().flat_map(open).collect();
    read(&mut streams, bed, "whole", &everyone());
    call(bed, "whole", &everyone());

    bed.while_victims_hardly_run(|bed| {
        call(bed, "with slow processes", &everyone());
        read(&mut streams, bed, "with slow processes", &everyone());
    });

    bed.signal_victims(libc::SIGSTOP);
    let stopped = all_but_the_victim(&["late", "lost", "lagging", "no_replica"]);
    call(bed, "with stopped processes", &stopped);
    read(&mut streams, bed, "with stopped processes", &stopped);
    bed.signal_victims(libc::SIGCONT);
    bed.wait_until_whole();
    call(bed, "with processes that go on", &everyone());
    read(&mut streams, bed, "with processes that go on", &everyone());

    bed.signal_victims(libc::SIGKILL);
    let killed = all_but_the_victim(&["lost", "no_replica"]);
    call(bed, "with killed processes", &killed);
    read(&mut streams, bed, "with killed processes", &killed);
    let mut late: Vec<Running> = modes.iter().flat_map(open).collect();
    read(&mut late, bed, "opened with killed processes", &killed);
    streams.append(&mut late);

    bed.kill_all();
    call(bed, "with everything killed", &nobody());
    thread::scope(|scope| {
        for stream in &mut streams {
            scope.spawn(|| stream.lives_without_endpoints(bed.name));
        }
    });
}

#[test]
fn every_use_over_every_way_in_a_cluster() {
    play(Bed::cluster);
}

#[test]
fn every_use_over_every_way_with_relays() {
    play(Bed::relays);
}

#[test]
fn every_use_over_every_way_with_certificates() {
    play(Bed::certificates);
}

#[test]
fn every_use_over_every_way_in_a_network() {
    play(Bed::network);
}

#[test]
fn every_use_over_every_way_at_an_embedded_node() {
    play(Bed::embedded);
}
