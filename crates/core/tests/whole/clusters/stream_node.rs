//! One inner node of a stream, fed by hand. The tests write out the messages of its parent, children and
//! endpoints, and the messages that it must send. They cover rare orders of events in a cluster, and peers
//! that lie.

use crate::clusters::cluster::lone::{Lone, ME, STREAM, inner, leaf, missing, packet, peer, set, up};
use std::sync::Arc;
use treefold_core::config::Tuning;
use treefold_core::error::{JobError, Missing, Reason};
use treefold_core::id::NodeId;
use treefold_core::input::{Command, Input};
use treefold_core::limits::Limits;
use treefold_core::stream::message::{
    StreamDown, StreamMessage, StreamNews, StreamOpen, StreamReport, StreamUp,
};
use treefold_core::stream::spec::EndpointEvent;
use treefold_core::stream::tags::TagRuns;
use treefold_core::stream::{StreamError, StreamSpec, Synchronisation};
use treefold_core::time::Duration;
use treefold_core::tree::{Seat, Tree};
use treefold_sim::world::ink::Ink;

#[test]
fn a_filter_failure_below_is_passed_on_as_missing_and_settled() {
    let mut lone = Lone::open(Synchronisation::DoNotWait, &[], &[leaf(20, &[4])]);
    let failed = missing(&[4], 20, Reason::FilterFailed("a fault".into()));
    let lost = StreamUp { lane: 5, serial: 3, payload: None, missing: vec![failed.clone()], ..up(8, &[]) };
    lone.hear(20, StreamMessage::Up(lost));
    assert_eq!(lone.waves(), [(8, set(&[]), vec![failed])]);
    lone.settle(5, 3, 3);
    assert_eq!(lone.work().unsettled_bytes, 0);
}

#[test]
fn the_beginnings_of_waves_that_have_gone_are_forgotten() {
    let mut lone = Lone::open(Synchronisation::WaitForAll, &[1], &[]);
    for tag in 1..=10_000 {
        lone.send(1, None, 10);
        lone.settle(0, tag, tag);
    }
    assert!(lone.work().waves_begun < 100, "{:?}", lone.work());
}

#[test]
fn an_oversized_packet_is_missing_from_its_wave() {
    let limits = Limits { payload_bytes_max: 1_000, ..Limits::DEFAULT };
    let full = Reason::Full("payload_bytes_max".into());
    let mut lone = Lone::new(Synchronisation::WaitForAll, "sum", limits);
    lone.begin(&[1, 2], &[]);
    // An oversized packet of an endpoint: the others' packets go on without it, and it is settled at once.
    lone.send(1, None, 1_001);
    lone.send(2, None, 1_000);
    let run = lone.runs.pop_front().expect("endpoint 2 is in the wave").run;
    lone.end_run(run, Ok(vec![packet(1_000)]));
    assert_eq!(lone.waves(), [(1, set(&[2]), vec![missing(&[1], ME, full.clone())])]);
    let is_settled =
        |told: &(u32, EndpointEvent<Ink>)| matches!(told, (1, EndpointEvent::Settled { bytes: 1_065 }));
    assert!(lone.told.iter().any(is_settled), "{:?}", lone.told);
    // An oversized result of a filter: none of it is sent, so that its first half is not taken for the next
    // wave's.
    lone.send(1, None, 10);
    lone.send(2, None, 10);
    let run = lone.runs.pop_front().expect("both are in the wave").run;
    lone.end_run(run, Ok(vec![packet(10), packet(1_001)]));
    assert_eq!(lone.waves(), [(2, set(&[]), vec![missing(&[1, 2], ME, full)])]);
}

#[test]
fn reported_losses_stay_within_missing_max() {
    let limits = Limits { missing_max: 2, ..Limits::DEFAULT };
    let children: Vec<Tree> = (20..28).map(|number| leaf(number, &[u32::from(number)])).collect();
    let mut lone = Lone::new(Synchronisation::WaitForAll, "sum", limits);
    lone.begin(&[1], &children);
    for number in 20..27 {
        lone.input(Input::Lost { peer: peer(number) });
    }
    let news = lone.news().expect("its subtree has changed");
    assert_eq!(news.away.len(), 2);
    assert_eq!(news.away.iter().map(|loss| loss.partitions.len()).sum::<usize>(), 7);
    lone.send(1, None, 10);
    lone.hear_up(27, 1, &[27]);
    let run = lone.runs.pop_front().expect("two are in the wave").run;
    lone.end_run(run, Err(JobError::Failed("a fault".into())));
    let waves = lone.waves();
    let [(1, contributors, missing)] = &waves[..] else { panic!("{waves:?}") };
    assert_eq!((contributors.len(), missing.len()), (0, 2));
    assert_eq!(missing.iter().map(|loss| loss.partitions.len()).sum::<usize>(), 9);
}

#[test]
fn a_child_that_joins_does_not_excuse_present_endpoints() {
    let mut lone = Lone::open(Synchronisation::WaitForAll, &[1, 2], &[leaf(20, &[3])]);
    (0..9).for_each(|_| lone.send(1, None, 10));
    // Nodes 30 and 31 join below. The first says that it begins with tag 10; the second has not answered yet.
    let mut children = vec![leaf(20, &[3])];
    for number in [30, 31] {
        children.push(leaf(number, &[u32::from(number)]));
        let tree = inner(ME, &[1, 2], &children);
        let open = StreamOpen { first_tag: 10, ..lone.asked(tree) };
        lone.hear(1, StreamMessage::Open(open));
        if number == 30 {
            lone.hear_news(&leaf(30, &[30]), &[(&[30], 10)]);
            lone.said.clear();
        }
    }
    let mut joined = lone.news().expect("what it was asked has changed").joined;
    joined.sort();
    assert_eq!(joined, [(set(&[1, 2, 3]), 0), (set(&[30]), 10)]);
}

#[test]
fn a_new_endpoint_is_not_awaited_in_waves_begun_before() {
    let mut lone = Lone::open(Synchronisation::WaitForAll, &[1], &[leaf(20, &[3])]);
    lone.hear_up(20, 7, &[3]);
    (0..7).for_each(|_| lone.send(1, None, 10));
    lone.waves();
    lone.hear_up(20, 8, &[3]);
    let open = StreamOpen { first_tag: 9, ..lone.asked(inner(ME, &[1, 11], &[leaf(20, &[3])])) };
    lone.hear(1, StreamMessage::Open(open));
    lone.send(1, None, 10);
    let waves = lone.waves();
    assert!(
        waves.iter().any(|(tag, contributors, _)| *tag == 8 && *contributors == set(&[1, 3])),
        "{waves:?}"
    );
    lone.hear_up(20, 9, &[3]);
    lone.send(1, None, 10);
    assert!(lone.waves().is_empty(), "from the ninth on it is");
    lone.send(11, None, 10);
    assert_eq!(lone.waves(), [(9, set(&[1, 3, 11]), vec![])]);
}

/// A node that loses a child reports it, and waits for the front-end to decide about the child's children.
#[test]
fn orphans_are_adopted_by_the_layout_and_get_missing_packets() {
    let orphan = leaf(60, &[60]);
    let lost = inner(20, &[20], core::slice::from_ref(&orphan));
    let mut lone = Lone::open(Synchronisation::WaitForAll, &[1], &[lost]);
    let payload = Some(packet(10));
    let down = StreamDown { stream: STREAM, sequence: 1, tag: 5, to: None, payload, more: false };
    lone.hear(1, StreamMessage::Down(down));
    lone.said.clear();
    lone.input(Input::Lost { peer: peer(20) });
    assert_eq!(lone.reports(), [StreamReport { stream: STREAM, node: peer(20), place: 1, at_once: true }]);
    assert_eq!(lone.opens().count(), 0);
    lone.send(1, None, 10);
    assert!(lone.waves().is_empty(), "the orphan is waited for");
    let open = lone.asked_with(inner(ME, &[1], &[leaf(20, &[20]), orphan.clone()]), &[20], &[60]);
    lone.hear(1, StreamMessage::Open(open));
    let asked: Vec<_> = lone.opens().map(|(to, _)| to).collect();
    assert_eq!(asked, [peer(20), peer(60)]);
    lone.hear_news(&orphan, &[]);
    let is_brought =
        lone.said.iter().any(|(to, said)| *to == peer(60) && matches!(said, StreamMessage::Down(_)));
    assert!(is_brought, "it gets what it lacks");
    lone.hear_up(60, 1, &[60]);
    assert_eq!(lone.waves(), [(1, set(&[1, 60]), vec![missing(&[20], 20, Reason::Lost)])]);
}

#[test]
fn reports_repeat_while_orphans_wait_and_to_new_parents() {
    let lost = inner(20, &[20], &[leaf(60, &[60])]);
    let mut lone = Lone::open(Synchronisation::WaitForAll, &[1], core::slice::from_ref(&lost));
    lone.input(Input::Lost { peer: peer(20) });
    lone.said.clear();
    lone.pass(Tuning::LAN.stream_patience.mul_f64(0.5).into());
    assert_eq!(lone.reports(), []);
    lone.pass(Tuning::LAN.stream_patience.into());
    assert_eq!(lone.reports().len(), 1, "the node that carried the first may be lost");
    lone.said.clear();
    let open = lone.asked_with(inner(ME, &[1], &[lost]), &[], &[ME]);
    lone.hear(2, StreamMessage::Open(open));
    let is_report =
        |said: &(_, StreamMessage<Ink>)| said.0 == peer(2) && matches!(said.1, StreamMessage::Report(_));
    assert!(lone.said.iter().any(is_report), "{:?}", lone.said);
}

#[test]
fn reports_from_below_are_forwarded_unchanged() {
    let mut lone = Lone::open(Synchronisation::WaitForAll, &[1], &[leaf(20, &[3])]);
    let report = StreamReport { stream: STREAM, node: peer(99), place: 7, at_once: false };
    lone.hear(20, StreamMessage::Report(report));
    assert_eq!(lone.reports(), [report]);
    lone.said.clear();
    lone.hear(33, StreamMessage::Report(report));
    assert_eq!(lone.reports(), [], "a stranger is turned away");
}

#[test]
fn a_piece_with_a_foreign_endpoint_excuses_its_own_endpoints() {
    let mut lone = Lone::open(Synchronisation::WaitForAll, &[1], &[leaf(20, &[3]), leaf(21, &[4])]);
    lone.send(1, None, 10);
    lone.hear_up(21, 1, &[4]);
    lone.hear_up(20, 1, &[3, 9]);
    assert_eq!(lone.waves(), [(1, set(&[1, 4]), vec![missing(&[3], 20, Reason::Overlap)])]);
    // A part without any of its own endpoints excuses no endpoint.
    lone.hear_up(20, 2, &[4]);
    assert!(lone.waves().is_empty());
    assert_eq!(lone.complaints.len(), 2);
}

#[test]
fn packets_of_a_moved_endpoint_use_no_window() {
    let mut lone = Lone::open(Synchronisation::DoNotWait, &[], &[leaf(20, &[3, 4])]);
    lone.hear_alone(20, 4, 1);
    let open = lone.asked(inner(ME, &[], &[leaf(20, &[3])]));
    lone.hear(1, StreamMessage::Open(open));
    // The packet was in flight when the child learnt of the move.
    lone.hear_alone(20, 4, 2);
    lone.hear_alone(20, 3, 1);
    lone.settle(4, 1, 1);
    assert_eq!(lone.work().unsettled_bytes, 0);
}

#[test]
fn hanging_filters_cost_threads_only_up_to_the_limit() {
    let limits = Limits { stuck_jobs_max: 3, ..Limits::DEFAULT };
    let mut lone = Lone::new(Synchronisation::WaitForAll, "sum", limits);
    lone.begin(&[1], &[]);
    (0..10).for_each(|_| lone.send(1, None, 10));
    lone.pass(Duration::from_secs(60));
    let replaced = lone.abandoned.iter().filter(|(_, is_replaced)| *is_replaced).count();
    assert_eq!((lone.abandoned.len(), replaced), (4, 3));
    assert_eq!(lone.node.stream_work().count(), 0, "it can't take part any more");
    let ends = lone.said.iter().any(|(to, message)| {
        *to == peer(1) && matches!(message, StreamMessage::Close { reason: StreamError::Filter { .. }, .. })
    });
    assert!(ends, "its parent hears why");
    // When the filters return, their threads are free again, and their results are ignored.
    let runs: Vec<u64> = lone.runs.drain(..).map(|run| run.run).collect();
    lone.begin(&[1], &[]);
    runs.into_iter().for_each(|run| lone.end_run(run, Ok(vec![packet(10)])));
    assert_eq!(lone.node.open_work().jobs_stuck, 0);
    lone.send(1, None, 10);
    let run = lone.runs.pop_front().expect("the filter has work").run;
    lone.end_run(run, Ok(vec![packet(10)]));
    assert_eq!(lone.waves().len(), 1);
}

#[test]
fn a_late_result_of_a_former_filter_is_ignored() {
    let mut lone = Lone::new(Synchronisation::WaitForAll, "sum", Limits::DEFAULT);
    lone.begin(&[1], &[]);
    lone.send(1, None, 10);
    let former = lone.runs.pop_front().expect("the filter has work").run;
    lone.hear(1, StreamMessage::Close { stream: STREAM, reason: StreamError::Closed });
    lone.begin(&[1], &[]);
    lone.send(1, None, 10);
    lone.end_run(former, Ok(vec![packet(99)]));
    assert!(lone.waves().is_empty());
}

#[test]
fn a_panicked_filter_is_created_again() {
    let mut lone = Lone::new(Synchronisation::WaitForAll, "sum", Limits::DEFAULT);
    lone.begin(&[1], &[]);
    for (result, opened) in [
        (Err(JobError::Failed("a fault".into())), 1),
        (Err(JobError::Panicked("a fault".into())), 2),
        (Ok(vec![packet(10)]), 2),
    ] {
        lone.send(1, None, 10);
        let run = lone.runs.pop_front().expect("the filter has work").run;
        lone.end_run(run, result);
        assert_eq!(lone.filters_opened, opened);
    }
    assert_eq!(lone.waves().len(), 3);
}

#[test]
fn epochs_that_leave_no_room_for_later_ones_are_refused() {
    let mut lone = Lone::new(Synchronisation::WaitForAll, "", Limits::DEFAULT);
    let open = StreamOpen { epoch: u64::MAX, ..lone.asked(inner(ME, &[1], &[])) };
    lone.hear(1, StreamMessage::Open(open));
    assert_eq!(lone.node.stream_work().count(), 0);
    lone.begin(&[1], &[leaf(20, &[3])]);
    for epoch in [u64::MAX, 1 << 40, 0] {
        let open = StreamOpen { epoch, ..lone.asked_anew(inner(ME, &[1], &[]), &[ME]) };
        lone.hear(5, StreamMessage::Open(open));
    }
    assert_eq!(lone.complaints.len(), 4, "{:?}", lone.complaints);
    lone.send(1, None, 10);
    lone.hear_up(20, 1, &[3]);
    assert_eq!(lone.waves(), [(1, set(&[1, 3]), vec![])]);
}

#[test]
fn frames_without_a_byte_are_bounded_too() {
    let limits = Limits { stream_window_bytes: 1_000, payload_bytes_max: 1_000, ..Limits::DEFAULT };
    let mut lone = Lone::new(Synchronisation::WaitForAll, "", limits);
    lone.begin(&[1], &[leaf(20, &[3])]);
    for _ in 0..100 {
        let frame = StreamUp { more: true, payload: Some(packet(0)), ..up(1, &[]) };
        lone.hear(20, StreamMessage::Up(frame));
    }
    assert!(lone.complaints[0].contains("stream_window_bytes"), "{:?}", lone.complaints);
}

#[test]
fn held_packets_down_are_bounded() {
    let limits = Limits { held_bytes_max: 10_000, ..Limits::DEFAULT };
    for more in [true, false] {
        let mut lone = Lone::new(Synchronisation::WaitForAll, "", limits.clone());
        lone.begin(&[], &[leaf(20, &[3])]);
        for sequence in 1..=10_000 / 64 + 1 {
            let payload = Some(packet(0));
            let down = StreamDown { stream: STREAM, sequence, tag: 1, to: None, payload, more };
            lone.hear(1, StreamMessage::Down(down));
        }
        assert_eq!(lone.node.stream_work().count(), 0);
        let full = StreamError::Full { limit: "held_bytes_max".into() };
        assert!(lone.said.iter().any(|(to, message)| *to == peer(1)
            && matches!(message, StreamMessage::Close { reason, .. } if *reason == full)));
    }
}

#[test]
fn no_chain_is_too_deep_for_a_stack() {
    const DEPTH: u16 = 3_000;
    let seat = |at: u16| Seat {
        node: peer(100 + at),
        partitions: set(&[100 + u32::from(at)]),
        size: u32::from(DEPTH - at),
    };
    let chain = Tree::from_preorder((0..DEPTH).map(seat).collect()).expect("each seat holds all that follow");
    let mut lone = Lone::open(Synchronisation::WaitForAll, &[1], &[leaf(20, &[2])]);
    let open = lone.asked(inner(ME, &[1], &[leaf(20, &[2]), chain]));
    lone.hear(1, StreamMessage::Open(open));
    assert_eq!(lone.work().children, 2);
}

/// Why a node that does not know the stream refuses it.
fn refusals(lone: &mut Lone, open: StreamOpen<Ink>) -> Vec<String> {
    lone.hear(1, StreamMessage::Open(open));
    let reason_of = |(_, message): &(_, StreamMessage<Ink>)| match message {
        StreamMessage::Close { reason, .. } => Some(reason.to_string()),
        _ => None,
    };
    lone.said.iter().filter_map(reason_of).collect()
}

#[test]
fn a_window_of_nothing_is_refused_by_name() {
    let mut lone = Lone::new(Synchronisation::WaitForAll, "", Limits::DEFAULT);
    let open = StreamOpen { window_bytes: 0, ..lone.asked(inner(ME, &[1], &[])) };
    assert_eq!(refusals(&mut lone, open), ["window_bytes is 0; allowed: at least 1"]);
}

#[test]
fn a_stream_tree_with_a_node_seated_twice_is_refused_by_name() {
    let me_below_me = inner(ME, &[1], &[leaf(ME, &[2])]);
    let child_twice = inner(ME, &[1], &[leaf(20, &[3]), leaf(21, &[4]), leaf(20, &[5])]);
    for (tree, who) in [(me_below_me, ME), (child_twice, 20)] {
        let mut lone = Lone::new(Synchronisation::WaitForAll, "", Limits::DEFAULT);
        let open = lone.asked(tree);
        let reason = format!("open.tree.node is {}; allowed: each node once", peer(who));
        assert_eq!(refusals(&mut lone, open), [reason]);
        assert_eq!(lone.node.stream_work().count(), 0);
        assert!(lone.complaints[0].starts_with("open.tree: the node"), "{:?}", lone.complaints);
    }
}

#[test]
fn a_packet_in_the_filter_survives_a_new_beginning() {
    let mut lone = Lone::new(Synchronisation::WaitForAll, "sum", Limits::DEFAULT);
    lone.spec = Arc::new(StreamSpec { down_filter: "sum".into(), ..(*lone.spec).clone() });
    lone.begin(&[1], &[]);
    let payload = Some(packet(10));
    let down = StreamDown { stream: STREAM, sequence: 1, tag: 5, to: None, payload, more: false };
    lone.hear(1, StreamMessage::Down(down));
    assert_eq!(lone.runs.drain(..).count(), 1);
    let open = lone.asked_anew(inner(ME, &[1], &[]), &[ME]);
    lone.hear(1, StreamMessage::Open(open));
    let run = lone.runs.pop_front().expect("the new filter is given it").run;
    lone.end_run(run, Ok(vec![packet(10)]));
    let is_packet =
        |told: &(u32, EndpointEvent<Ink>)| matches!(told, (1, EndpointEvent::Packet { sequence: 1, .. }));
    assert!(lone.told.iter().any(is_packet), "{:?}", lone.told);
}

/// Its former life, at another node, may have answered them.
#[test]
fn a_new_endpoint_gets_no_packets_that_waited_in_the_filter() {
    let mut lone = Lone::new(Synchronisation::DoNotWait, "", Limits::DEFAULT);
    lone.spec = Arc::new(StreamSpec { down_filter: "sum".into(), ..(*lone.spec).clone() });
    lone.begin(&[1], &[]);
    let down = |sequence| {
        let payload = Some(packet(10));
        StreamMessage::Down(StreamDown { stream: STREAM, sequence, tag: 5, to: None, payload, more: false })
    };
    let pass = |lone: &mut Lone| {
        let run = lone.runs.pop_front().expect("the filter is given a packet").run;
        lone.end_run(run, Ok(vec![packet(10)]));
    };
    lone.hear(1, down(1));
    let open = lone.asked(inner(ME, &[1, 2], &[]));
    lone.hear(1, StreamMessage::Open(open));
    pass(&mut lone);
    lone.hear(1, down(2));
    pass(&mut lone);
    let given = lone.told.iter().filter_map(|(endpoint, event)| match event {
        EndpointEvent::Packet { sequence, .. } => Some((*endpoint, *sequence)),
        _ => None,
    });
    assert_eq!(given.collect::<Vec<_>>(), [(1, 1), (1, 2), (2, 2)]);
}

/// While the node was away, its endpoint may have been at another node and have answered them there.
#[test]
fn endpoint_that_begins_anew_gets_no_packets_from_before_its_place() {
    for lag_bytes_max in [None, Some(64 << 10)] {
        let mut lone = Lone::new(Synchronisation::DoNotWait, "", Limits::DEFAULT);
        lone.spec = Arc::new(StreamSpec { lag_bytes_max, ..(*lone.spec).clone() });
        lone.begin(&[1], &[]);
        let down = |sequence| {
            let payload = Some(packet(10));
            StreamMessage::Down(StreamDown {
                stream: STREAM,
                sequence,
                tag: 5,
                to: None,
                payload,
                more: false,
            })
        };
        lone.hear(1, down(1));
        let open = StreamOpen { packets_before: 3, ..lone.asked_anew(inner(ME, &[1], &[]), &[ME]) };
        lone.hear(1, StreamMessage::Open(open));
        // The parent has kept packets 2 and 3, and the node says that it has received packet 1 only.
        (2..=4).for_each(|sequence| lone.hear(1, down(sequence)));
        let given = lone.told.iter().filter_map(|(_, event)| match event {
            EndpointEvent::Packet { sequence, .. } => Some((*sequence, *sequence)),
            EndpointEvent::Missed { first, last } => Some((*first, *last)),
            _ => None,
        });
        let told = lag_bytes_max.map(|_| (2, 3));
        let expected: Vec<(u64, u64)> = [Some((1, 1)), told, Some((4, 4))].into_iter().flatten().collect();
        assert_eq!(given.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn news_from_before_a_new_beginning_is_no_answer() {
    let mut lone = Lone::open(Synchronisation::WaitForAll, &[1], &[leaf(20, &[3])]);
    let former = lone.answer(peer(20));
    lone.input(Input::Lost { peer: peer(20) });
    let open = lone.asked_anew(inner(ME, &[1], &[leaf(20, &[3])]), &[20]);
    lone.hear(1, StreamMessage::Open(open));
    lone.hear(20, StreamMessage::News(StreamNews { joined: vec![(set(&[3]), 0)], ..former }));
    lone.send(1, None, 10);
    let away = || vec![missing(&[3], 20, Reason::Lost)];
    assert_eq!(lone.waves(), [(1, set(&[1]), away())], "it is still away");
    lone.hear_news(&leaf(20, &[3]), &[(&[3], 7)]);
    lone.send(1, Some(6), 10);
    assert_eq!(lone.waves(), [(6, set(&[1]), away())], "and begins with the seventh");
    lone.send(1, Some(7), 10);
    lone.hear_up(20, 7, &[3]);
    assert_eq!(lone.waves(), [(7, set(&[1, 3]), vec![])]);
}

/// With its first answer it sends all that is not settled, and not again later.
#[test]
fn an_orphans_packets_count_despite_a_later_open() {
    let mut lone = Lone::open(Synchronisation::DoNotWait, &[1], &[inner(20, &[3], &[leaf(21, &[4])])]);
    lone.input(Input::Lost { peer: peer(20) });
    let open = lone.asked_with(inner(ME, &[1], &[leaf(21, &[4])]), &[], &[21]);
    lone.hear(1, StreamMessage::Open(open));
    let adopted = lone.answer(peer(21));
    let below = inner(21, &[4], &[leaf(22, &[5])]);
    let open = lone.asked(inner(ME, &[1], std::slice::from_ref(&below)));
    lone.hear(1, StreamMessage::Open(open));
    lone.hear(21, StreamMessage::News(adopted));
    lone.hear_alone(21, 4, 1);
    assert_eq!(lone.waves(), [(1, set(&[4]), vec![])]);
    assert!(lone.news().is_none_or(|news| news.away.iter().any(|loss| loss.partitions.contains(5))));
    lone.hear_news(&below, &[(&[5], 1)]);
    assert_eq!(lone.news().expect("the newcomer is there").away, []);
}

/// The settlement went to the child below which the endpoint was then, and was lost with its connection.
#[test]
fn settled_packet_is_settled_again_below_another_child() {
    let mut lone = Lone::open(Synchronisation::DoNotWait, &[1], &[leaf(20, &[3]), leaf(21, &[4])]);
    lone.hear_alone(20, 3, 1);
    lone.settle(4, 1, 1);
    lone.input(Input::Lost { peer: peer(20) });
    let below = inner(21, &[4], &[leaf(20, &[3])]);
    let open = lone.asked_anew(inner(ME, &[1], std::slice::from_ref(&below)), &[20]);
    lone.hear(1, StreamMessage::Open(open));
    lone.hear_news(&below, &[(&[3, 4], 1)]);
    lone.said.clear();
    lone.hear_alone(21, 3, 1);
    let settled = |(to, message): &(NodeId, StreamMessage<Ink>)| match message {
        StreamMessage::Settled(settled) if *to == peer(21) => Some(settled.lanes.clone()),
        _ => None,
    };
    let mut expected = TagRuns::new();
    expected.insert(1);
    assert_eq!(lone.said.iter().filter_map(settled).collect::<Vec<_>>(), [[(4, expected)]]);
    assert_eq!(lone.waves(), [], "the front-end's user has it");
}

#[test]
fn of_two_parents_the_one_with_the_later_place_counts() {
    let mut lone = Lone::open(Synchronisation::WaitForAll, &[1], &[]);
    let stale = lone.asked(inner(ME, &[1], &[]));
    let moved = lone.asked_with(inner(ME, &[1], &[]), &[], &[ME]);
    let parent_of = |lone: &mut Lone| {
        lone.send(1, None, 10);
        lone.said.last().expect("its wave").0
    };
    lone.hear(5, StreamMessage::Open(stale.clone()));
    assert_eq!(parent_of(&mut lone), peer(1), "a node that is not its parent can't change its place");
    lone.hear(5, StreamMessage::Open(moved));
    assert_eq!(parent_of(&mut lone), peer(5));
    lone.hear(1, StreamMessage::Open(stale));
    assert_eq!(parent_of(&mut lone), peer(5), "a former parent that wakes is not heard");
}

/// The front-end seats an endpoint again below a child that still accounts for its former place.
#[test]
fn a_new_place_of_an_absent_endpoint_is_passed_on() {
    let mut lone = Lone::open(Synchronisation::WaitForAll, &[1], &[leaf(20, &[3, 4])]);
    let away = vec![missing(&[4], 21, Reason::Lost)];
    let lost = StreamNews { away, ..lone.answer(peer(20)) };
    lone.hear(20, StreamMessage::News(lost));
    lone.said.clear();
    let below = inner(20, &[3], &[leaf(22, &[4])]);
    let open = lone.asked(inner(ME, &[1], &[below]));
    lone.hear(1, StreamMessage::Open(open));
    let sits = |open: &StreamOpen<_>| open.places.tree().seats().iter().any(|seat| seat.node == peer(22));
    let is_passed_on = lone.opens().any(|(to, open)| to == peer(20) && sits(open));
    assert!(is_passed_on, "{:?}", lone.said);
}

#[test]
fn an_endpoint_that_skips_waves_is_missing_from_them() {
    let mut lone = Lone::open(Synchronisation::WaitForAll, &[1], &[leaf(20, &[3])]);
    // It was released by mistake, and begins anew: no node here has missed it.
    lone.hear_news(&leaf(20, &[3]), &[(&[3], 5)]);
    lone.send(1, Some(4), 10);
    assert_eq!(
        lone.waves(),
        [(4, set(&[1]), vec![Missing { node: None, ..missing(&[3], 20, Reason::Late) }])]
    );
}

#[test]
fn a_node_that_sends_packets_still_sends_beats() {
    let mut lone = Lone::open(Synchronisation::DoNotWait, &[1], &[]);
    for serial in 1..=10 {
        lone.send(1, Some(serial), 10);
        lone.pass(Tuning::LAN.stream_beat.into());
    }
    let is_up = |message: &StreamMessage<Ink>| matches!(message, StreamMessage::Up(_));
    let is_beat = |message: &StreamMessage<Ink>| matches!(message, StreamMessage::Beat { .. });
    let to_parent = || lone.said.iter().filter(|(to, _)| *to == peer(1)).map(|(_, message)| message);
    assert_eq!(to_parent().filter(|message| is_up(message)).count(), 10);
    // Its packets may wait behind a long payload, and then only the beats arrive in time.
    assert!(to_parent().filter(|message| is_beat(message)).count() >= 9, "{:?}", lone.said);
}

/// A child may have been sent a later `Open` by the time that its first report of absent endpoints arrives.
#[test]
fn absences_in_first_news_count_despite_a_later_open() {
    let mut lone = Lone::new(Synchronisation::WaitForAll, "", Limits::DEFAULT);
    let below = inner(20, &[3], &[leaf(21, &[4])]);
    let open = lone.asked(inner(ME, &[1], std::slice::from_ref(&below)));
    lone.hear(1, StreamMessage::Open(open));
    let first = StreamNews { away: vec![missing(&[4], 21, Reason::Lost)], ..lone.answer(peer(20)) };
    let below = inner(20, &[3], &[leaf(21, &[4]), leaf(22, &[5])]);
    let open = lone.asked(inner(ME, &[1], &[below]));
    lone.hear(1, StreamMessage::Open(open));
    lone.hear(20, StreamMessage::News(first));
    let away = lone.news().expect("everyone below has answered").away;
    assert!(away.iter().any(|loss| loss.partitions.contains(4)), "{away:?}");
}

/// An endpoint moves while its packet is in flight in a wave with others.
#[test]
fn a_wave_with_a_moved_endpoint_is_complete() {
    let mut lone = Lone::open(Synchronisation::WaitForAll, &[1], &[inner(20, &[3], &[leaf(21, &[4])])]);
    lone.send(1, None, 10);
    let open = lone.asked(inner(ME, &[1], &[leaf(20, &[3])]));
    lone.hear(1, StreamMessage::Open(open));
    assert_eq!(lone.waves(), []);
    lone.hear_up(20, 1, &[3, 4]);
    assert_eq!(lone.waves(), [(1, set(&[1, 3, 4]), vec![])]);
}

/// A packet that was sent down before the front-end gave a new process its place may reach its parent only
/// afterwards.
#[test]
fn a_new_process_gets_no_packets_from_before_its_place() {
    let mut lone = Lone::open(Synchronisation::DoNotWait, &[1], &[]);
    let newcomer = leaf(20, &[3]);
    let open =
        StreamOpen { packets_before: 2, ..lone.asked(inner(ME, &[1], std::slice::from_ref(&newcomer))) };
    lone.hear(1, StreamMessage::Open(open));
    let asked: Vec<u64> = lone.opens().map(|(_, open)| open.packets_before).collect();
    assert_eq!(asked, [2]);
    // The new process acknowledges these packets as taken.
    lone.hear(20, StreamMessage::News(StreamNews { received: 2, ..lone.answer(peer(20)) }));
    lone.hear(20, StreamMessage::Taken { stream: STREAM, upto: 2 });
    lone.said.clear();
    for sequence in 1..=3 {
        let payload = Some(packet(10));
        let down = StreamDown { stream: STREAM, sequence, tag: sequence, to: None, payload, more: false };
        lone.hear(1, StreamMessage::Down(down));
    }
    let given = |(to, message): &(NodeId, StreamMessage<Ink>)| match message {
        StreamMessage::Down(down) if *to == peer(20) => Some(down.sequence),
        _ => None,
    };
    assert_eq!(lone.said.iter().filter_map(given).collect::<Vec<_>>(), [3]);
}

/// A parent keeps a packet until everyone below has taken it, and can't know that a new process does not need
/// it.
#[test]
fn a_new_process_acknowledges_packets_it_does_not_get() {
    let mut lone = Lone::new(Synchronisation::DoNotWait, "", Limits::DEFAULT);
    let open = StreamOpen { packets_before: 2, ..lone.asked(inner(ME, &[1], &[])) };
    lone.hear(1, StreamMessage::Open(open));
    let is_taken =
        |(_, message): &(_, StreamMessage<Ink>)| matches!(message, StreamMessage::Taken { upto: 2, .. });
    assert_eq!(lone.said.iter().filter(|said| is_taken(said)).count(), 1, "{:?}", lone.said);
}

/// The packet would reach the front-end before earlier packets, which the endpoint sends again from its new
/// place.
#[test]
fn a_filtered_packet_is_dropped_when_its_endpoint_has_moved() {
    let mut lone = Lone::new(Synchronisation::DoNotWait, "sum", Limits::DEFAULT);
    lone.begin(&[1], &[leaf(20, &[3])]);
    lone.hear_alone(20, 3, 1);
    let run = lone.runs.pop_front().expect("the filter is given it").run;
    let open = lone.asked(inner(ME, &[1], &[]));
    lone.hear(1, StreamMessage::Open(open));
    lone.end_run(run, Ok(vec![packet(10)]));
    assert_eq!(lone.waves(), []);
}

/// Its endpoints can't answer packets that they never receive.
#[test]
fn a_wave_does_not_wait_for_a_child_that_joined_later() {
    let mut lone = Lone::open(Synchronisation::WaitForAll, &[1], &[]);
    let newcomer = leaf(20, &[3]);
    let open = lone.asked(inner(ME, &[1], std::slice::from_ref(&newcomer)));
    lone.hear(1, StreamMessage::Open(open));
    let payload = Some(packet(10));
    let down = StreamDown { stream: STREAM, sequence: 1, tag: 7, to: None, payload, more: false };
    lone.hear(1, StreamMessage::Down(down));
    lone.input(Input::Command(Command::EndpointTook { stream: STREAM, endpoint: 1, sequence: 1 }));
    lone.said.clear();
    lone.hear_news(&newcomer, &[(&[3], 1)]);
    lone.send(1, Some(7), 10);
    let joined = lone.said.iter().find_map(|(_, message)| match message {
        StreamMessage::News(news) => Some(news.joined.clone()),
        _ => None,
    });
    assert_eq!(joined, Some(vec![(set(&[3]), 8)]), "the parent is told the same");
    assert_eq!(lone.waves().len(), 1);
    lone.send(1, Some(8), 10);
    assert_eq!(lone.waves(), [], "the next wave waits for it");
}
