//! Endpoints and children that lag, at one node that is fed by hand.

use crate::clusters::cluster::lone::{Lone, ME, STREAM, inner, leaf, packet, peer, set};
use std::sync::Arc;
use treefold_core::error::Reason;
use treefold_core::input::{Command, Input};
use treefold_core::limits::Limits;
use treefold_core::message::Message;
use treefold_core::stream::message::{StreamDown, StreamMessage, StreamNews, StreamRun};
use treefold_core::stream::spec::EndpointEvent;
use treefold_core::stream::{PACKET_BYTES, StreamSpec, Synchronisation};
use treefold_core::time::Duration;
use treefold_core::tree::Tree;

/// The limit. The stream has three levels, so an endpoint lags behind the others here at a quarter of it, and a leaf
/// below at half of it.
const LAG_BYTES: u64 = 64 << 10;
/// Weight of each packet.
const WEIGHT: u64 = 1 << 10;

fn lagging(own: &[u32], children: &[Tree]) -> Lone {
    let mut lone = Lone::new(Synchronisation::WaitForAll, "", Limits::DEFAULT);
    lone.spec = Arc::new(StreamSpec { lag_bytes_max: Some(LAG_BYTES), ..(*lone.spec).clone() });
    let open = lone.asked(inner(ME, own, children));
    lone.hear(1, StreamMessage::Open(open));
    children.iter().for_each(|tree| say_there(&mut lone, tree, 0));
    lone.said.clear();
    lone
}

/// A child says that it takes part, with all its endpoints, and has received packets up to this one.
fn say_there(lone: &mut Lone, tree: &Tree, received: u64) {
    let from = tree.root().node;
    let joined = vec![(tree.partitions(), 0)];
    let news = StreamNews { joined, received, hears_missed: true, ..lone.answer(from) };
    let message = Message::Stream(Box::new(StreamMessage::News(news)));
    lone.input(Input::Message { from, message });
}

fn send_down(lone: &mut Lone, sequences: std::ops::RangeInclusive<u64>) {
    for sequence in sequences {
        let payload = Some(packet(WEIGHT as u32 - PACKET_BYTES as u32));
        let down = StreamDown { stream: STREAM, sequence, tag: sequence, to: None, payload, more: false };
        lone.hear(1, StreamMessage::Down(down));
    }
}

fn take(lone: &mut Lone, endpoint: u32, sequence: u64) {
    lone.input(Input::Command(Command::EndpointTook { stream: STREAM, endpoint, sequence }));
}

fn taken(lone: &mut Lone, child: u16, upto: u64) {
    lone.hear(child, StreamMessage::Taken { stream: STREAM, upto });
}

/// Time passes, in which the children send signs of life.
fn pass(lone: &mut Lone, children: &[u16], ms: u64) {
    for _ in 0..ms / 50 {
        children.iter().for_each(|&child| lone.hear(child, StreamMessage::Beat { stream: STREAM }));
        lone.pass(Duration::from_millis(50));
    }
}

fn missed_by(lone: &Lone, child: u16) -> Vec<(u64, u64)> {
    let to_child = lone.said.iter().filter(|(to, _)| *to == peer(child));
    let missed = |(_, message): &(_, StreamMessage<_>)| match message {
        StreamMessage::Missed { first, last, .. } => Some((*first, *last)),
        _ => None,
    };
    to_child.filter_map(missed).collect()
}

fn downs_to(lone: &Lone, child: u16) -> Vec<u64> {
    let to_child = lone.said.iter().filter(|(to, _)| *to == peer(child));
    let down = |(_, message): &(_, StreamMessage<_>)| match message {
        StreamMessage::Down(down) => vec![down.sequence],
        StreamMessage::Run(run) => (run.first..=run.last()).collect(),
        _ => Vec::new(),
    };
    to_child.flat_map(down).collect()
}

fn told_taken(lone: &Lone) -> u64 {
    let to_parent = lone.said.iter().filter(|(to, _)| *to == peer(1)).rev();
    let upto = |(_, message): &(_, StreamMessage<_>)| match message {
        StreamMessage::Taken { upto, .. } => Some(*upto),
        _ => None,
    };
    to_parent.filter_map(upto).next().unwrap_or(0)
}

fn told_missed(lone: &Lone, endpoint: u32) -> Vec<(u64, u64)> {
    let told = lone.told.iter().filter(|(to, _)| *to == endpoint);
    let missed = |(_, event): &(u32, EndpointEvent<_>)| match event {
        EndpointEvent::Missed { first, last } => Some((*first, *last)),
        _ => None,
    };
    told.filter_map(missed).collect()
}

#[test]
fn child_that_lags_holds_up_nobody_and_is_told_what_it_missed() {
    let mut lone = lagging(&[], &[leaf(20, &[3]), leaf(21, &[4])]);
    send_down(&mut lone, 1..=60);
    taken(&mut lone, 21, 60);
    pass(&mut lone, &[20, 21], 200);
    assert_eq!(told_taken(&lone), 60, "nobody waits for 20 any longer");
    assert_eq!(lone.work().packets_kept, 0, "and nothing is kept for it");
    let lags = |news: StreamNews| news.away.iter().any(|loss| loss.reason == Reason::Lagging);
    assert!(lone.news().is_some_and(lags));

    send_down(&mut lone, 61..=70);
    taken(&mut lone, 21, 70);
    assert!(downs_to(&lone, 20).iter().all(|&sequence| sequence <= 60), "packets pass over it");
    taken(&mut lone, 20, 60);
    pass(&mut lone, &[20, 21], 300);
    assert_eq!(missed_by(&lone, 20), [(61, 70)]);
    say_there(&mut lone, &leaf(20, &[3]), 70);
    assert!(lone.news().expect("it is back").away.is_empty());
    send_down(&mut lone, 71..=71);
    assert_eq!(downs_to(&lone, 20), [71]);
    taken(&mut lone, 21, 71);
    pass(&mut lone, &[20, 21], 300);
    assert!(told_taken(&lone) < 71, "it counts again");
}

#[test]
fn packets_that_a_laggard_has_taken_and_not_acknowledged_hold_up_nobody_when_it_is_back() {
    for own in [true, false] {
        let children = [leaf(20, &[3]), leaf(21, &[4])];
        let mut lone = if own { lagging(&[1], &children[1..]) } else { lagging(&[], &children) };
        let laggard_takes = |lone: &mut Lone, upto| {
            if own { take(lone, 1, upto) } else { taken(lone, 20, upto) }
        };
        send_down(&mut lone, 1..=60);
        taken(&mut lone, 21, 60);
        pass(&mut lone, &[20, 21], 200);
        send_down(&mut lone, 61..=70);
        assert_eq!(told_taken(&lone), 60, "packets pass over it");
        // It may have taken the last packets, too: it says so only now and then.
        laggard_takes(&mut lone, 58);
        pass(&mut lone, &[20, 21], 300);
        let missed = if own { told_missed(&lone, 1) } else { missed_by(&lone, 20) };
        assert_eq!(missed, [(61, 70)]);
        say_there(&mut lone, &children[1], 60);
        if !own {
            say_there(&mut lone, &children[0], 70);
        }
        taken(&mut lone, 21, 70);
        pass(&mut lone, &[20, 21], 300);
        assert_eq!(told_taken(&lone), 70, "it was never given what came after its packets");
        send_down(&mut lone, 71..=71);
        taken(&mut lone, 21, 71);
        pass(&mut lone, &[20, 21], 300);
        assert_eq!(told_taken(&lone), 70, "it counts again");
        laggard_takes(&mut lone, 71);
        pass(&mut lone, &[20, 21], 300);
        assert_eq!(told_taken(&lone), 71);
    }
}

#[test]
fn wave_does_not_wait_for_a_laggard_which_begins_again_with_a_new_tag() {
    let mut lone = lagging(&[], &[leaf(20, &[3]), leaf(21, &[4])]);
    send_down(&mut lone, 1..=60);
    taken(&mut lone, 21, 60);
    lone.hear_up(21, 50, &[4]);
    pass(&mut lone, &[20, 21], 200);
    let waves = lone.waves();
    let reasons = |(_, _, missing): &(_, _, Vec<treefold_core::error::Missing>)| {
        missing.iter().map(|loss| loss.reason.clone()).collect::<Vec<_>>()
    };
    assert_eq!(waves.iter().map(reasons).collect::<Vec<_>>(), [[Reason::Lagging]]);
    taken(&mut lone, 20, 60);
    pass(&mut lone, &[20, 21], 300);
    say_there(&mut lone, &leaf(20, &[3]), 60);
    lone.said.clear();
    lone.hear_up(21, 61, &[4]);
    assert!(lone.waves().is_empty(), "the next wave waits for it again");
    lone.hear_up(20, 61, &[3]);
    assert_eq!(lone.waves(), [(61, set(&[3, 4]), vec![])]);
}

#[test]
fn own_endpoint_lags_before_its_node_does() {
    let mut lone = lagging(&[1, 2], &[]);
    send_down(&mut lone, 1..=30);
    take(&mut lone, 2, 30);
    pass(&mut lone, &[], 200);
    assert_eq!(told_taken(&lone), 30);
    send_down(&mut lone, 31..=40);
    take(&mut lone, 1, 30);
    pass(&mut lone, &[], 300);
    assert_eq!(told_missed(&lone, 1), [(31, 40)]);
    assert!(told_missed(&lone, 2).is_empty());
}

#[test]
fn endpoints_that_are_all_slow_miss_nothing() {
    let mut lone = lagging(&[1, 2], &[leaf(20, &[3])]);
    send_down(&mut lone, 1..=200);
    pass(&mut lone, &[20], 400);
    take(&mut lone, 1, 10);
    take(&mut lone, 2, 8);
    taken(&mut lone, 20, 5);
    pass(&mut lone, &[20], 600);
    assert!(told_taken(&lone) <= 5);
    assert!(told_missed(&lone, 1).is_empty() && missed_by(&lone, 20).is_empty());
}

#[test]
fn child_that_is_behind_for_a_moment_misses_nothing() {
    let mut lone = lagging(&[], &[leaf(20, &[3]), leaf(21, &[4])]);
    for round in 0..10 {
        send_down(&mut lone, 60 * round + 1..=60 * round + 60);
        taken(&mut lone, 21, 60 * round + 60);
        taken(&mut lone, 20, 60 * round + 60);
        pass(&mut lone, &[20, 21], 50);
    }
    assert!(missed_by(&lone, 20).is_empty());
    assert_eq!(downs_to(&lone, 20).len(), 600);
}

#[test]
fn no_packet_passes_over_a_child_that_could_not_be_told() {
    let mut lone = lagging(&[], &[leaf(21, &[4])]);
    let tree = inner(ME, &[], &[leaf(20, &[3]), leaf(21, &[4])]);
    let open = lone.asked(tree);
    lone.hear(1, StreamMessage::Open(open));
    lone.hear_news(&leaf(20, &[3]), &[(&[3], 0)]);
    send_down(&mut lone, 1..=60);
    taken(&mut lone, 21, 60);
    pass(&mut lone, &[20, 21], 400);
    assert_eq!(told_taken(&lone), 0);
    assert!(missed_by(&lone, 20).is_empty());
}

#[test]
fn what_a_node_missed_its_endpoints_and_children_miss() {
    let mut lone = lagging(&[1], &[leaf(20, &[3])]);
    send_down(&mut lone, 1..=2);
    lone.hear(1, StreamMessage::Missed { stream: STREAM, first: 3, last: 9 });
    lone.hear(1, StreamMessage::Missed { stream: STREAM, first: 3, last: 9 });
    lone.hear(21, StreamMessage::Missed { stream: STREAM, first: 10, last: 900 });
    lone.hear(1, StreamMessage::Missed { stream: STREAM, first: 10, last: u64::MAX });
    send_down(&mut lone, 10..=10);
    assert_eq!(told_missed(&lone, 1), [(3, 9)]);
    assert_eq!(missed_by(&lone, 20), [(3, 9)]);
    assert_eq!(downs_to(&lone, 20), [1, 2, 10]);
    assert_eq!(lone.complaints.len(), 1, "{:?}", lone.complaints);
}

#[test]
fn child_with_a_new_parent_is_told_of_packets_that_the_parent_no_longer_has() {
    let mut lone = lagging(&[1], &[leaf(20, &[3])]);
    send_down(&mut lone, 1..=40);
    take(&mut lone, 1, 40);
    taken(&mut lone, 20, 40);
    // A node that was given up comes back, and has the packets up to 10.
    lone.input(Input::Lost { peer: peer(20) });
    let open = lone.asked_anew(inner(ME, &[1], &[leaf(20, &[3])]), &[20]);
    lone.hear(1, StreamMessage::Open(open));
    say_there(&mut lone, &leaf(20, &[3]), 10);
    assert_eq!(missed_by(&lone, 20), [(11, 40)]);
}

#[test]
fn laggard_that_is_lost_is_reported_as_lost() {
    let mut lone = lagging(&[], &[leaf(20, &[3]), leaf(21, &[4])]);
    send_down(&mut lone, 1..=60);
    taken(&mut lone, 21, 60);
    pass(&mut lone, &[20, 21], 200);
    lone.input(Input::Lost { peer: peer(20) });
    let away = lone.news().expect("it is away").away;
    assert_eq!(away.iter().map(|loss| loss.reason.clone()).collect::<Vec<_>>(), [Reason::Lost]);
}

/// A run from which a node knows some packets, because its former parent sent them.
#[test]
fn rest_of_a_run_that_was_received_in_part_is_passed_on_after_a_change_of_parent() {
    let mut lone = Lone::open(Synchronisation::WaitForAll, &[1], &[leaf(20, &[3])]);
    let run = |first: u64, count: u64| {
        let packets = (first..first + count).map(|number| (number, packet(10))).collect();
        StreamMessage::Run(Arc::new(StreamRun { stream: STREAM, first, packets }))
    };
    lone.hear(1, run(1, 3));
    let moved = lone.asked_with(inner(ME, &[1], &[leaf(20, &[3])]), &[], &[ME]);
    lone.hear(2, StreamMessage::Open(moved));
    lone.hear(1, run(4, 5));
    lone.hear(2, run(1, 6));
    lone.hear(2, run(2, 4));
    let told = lone.told.iter().filter(|(to, _)| *to == 1);
    let packets = told.flat_map(|(_, event)| match event {
        EndpointEvent::Packets(run) => run.iter().map(|(number, tag, _)| (number, tag)).collect(),
        _ => Vec::new(),
    });
    let each_once: Vec<(u64, u64)> = (1..=6).map(|number| (number, number)).collect();
    assert_eq!(packets.collect::<Vec<_>>(), each_once);
    assert_eq!(downs_to(&lone, 20), [1, 2, 3, 4, 5, 6]);
    // A child that took a part of a run acknowledges that part, and the node waits for the rest.
    taken(&mut lone, 20, 5);
    take(&mut lone, 1, 6);
    pass(&mut lone, &[20], 300);
    assert!(
        lone.said
            .iter()
            .any(|(to, said)| { *to == peer(2) && matches!(said, StreamMessage::Taken { upto: 3, .. }) }),
        "the second run is not taken as a whole: {:?}",
        lone.said
    );
}
