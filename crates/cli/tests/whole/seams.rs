//! Where parts meet: calls whole, in slices and slice by slice, streams in three modes, a sent operator, push waves and a feed,
//! over every way in, in a place with every fault, with real processes. `crates/house/seams.txt` has the table.
//!
//! A place has four holders of one partition each and a front that has none. Streams and the feed's readers are opened before the
//! first fault and go on until the last; calls and pushes are made under each fault. Every answer is held against its account: its value is exactly that of
//! the partitions that it says contributed.

mod bed;
mod c;
#[path = "../../../gateway/tests/whole/channel.rs"]
mod channel;
mod feeds;
mod grpc;
mod http;
mod pushes;
mod streams;
mod ways;

use bed::{Bed, HOLDERS, VICTIM};
use feeds::Feed;
use pushes::Attached;
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
        for way in Way::CALLS {
            scope.spawn(move || {
                for asked in Use::ALL {
                    let answer = way.call(bed, asked, under);
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

/// Begun before the first fault; they go on until the last.
struct Open {
    streams: Vec<Running>,
    feed: Feed,
    workers: Attached,
}

/// Makes calls and pushes, and reads streams and the feed.
fn hold(bed: &Bed, open: &mut Open, under: &str, expected: &Expected) {
    call(bed, under, expected);
    open.workers.push(bed, under);
    read(&mut open.streams, bed, under, expected);
    open.feed.go_on(bed, under, expected);
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
    let streams = modes.iter().flat_map(open).collect();
    let mut all = Open { streams, feed: Feed::start(bed), workers: Attached::attach(bed) };
    hold(bed, &mut all, "whole", &everyone());

    bed.while_victims_hardly_run(|bed| {
        hold(bed, &mut all, "with slow processes", &everyone());
    });

    bed.signal_victims(libc::SIGSTOP);
    let stopped = all_but_the_victim(&["late", "lost", "lagging", "no_replica"]);
    hold(bed, &mut all, "with stopped processes", &stopped);
    bed.signal_victims(libc::SIGCONT);
    bed.wait_until_whole();
    hold(bed, &mut all, "with processes that go on", &everyone());

    bed.signal_victims(libc::SIGKILL);
    let killed = all_but_the_victim(&["lost", "no_replica"]);
    hold(bed, &mut all, "with killed processes", &killed);
    let mut late: Vec<Running> = modes.iter().flat_map(open).collect();
    read(&mut late, bed, "opened with killed processes", &killed);
    all.streams.append(&mut late);

    bed.kill_all();
    call(bed, "with everything killed", &nobody());
    all.workers.push_without_nodes(bed, "with everything killed");
    thread::scope(|scope| {
        for stream in &mut all.streams {
            scope.spawn(|| stream.lives_without_endpoints(bed.name));
        }
    });
    all.feed.lives_without_mirrors(bed);
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
