//! Streams over clusters that lose, stop and start nodes. No wave is mixed or has wrong contributors, and no
//! living endpoint is left out for long. `treefold sim explore` searches for failures of streams under random
//! orders of faults.

use crate::clusters::cluster::lone::{news, up};
use crate::clusters::cluster::streams::{missing_of, plan, pushing, tags_of};
use crate::clusters::cluster::{Cluster, Plan, held};
use std::collections::BTreeMap;
use treefold_core::error::{Missing, Reason};
use treefold_core::id::RequestId;
use treefold_core::input::{Command, Input};
use treefold_core::limits::Limits;
use treefold_core::message::Message;
use treefold_core::node::Node;
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::message::{StreamMessage, StreamNews, StreamUp};
use treefold_core::stream::{StreamError, StreamEvent, StreamOptions, StreamWave, Synchronisation};
use treefold_core::time::Duration;
use treefold_core::tree::Tree;
use treefold_core::tree::shape::Shape;
use treefold_sim::world::ink::Ink;

const WAIT_FOR_ALL: Synchronisation = Synchronisation::WaitForAll;
const DO_NOT_WAIT: Synchronisation = Synchronisation::DoNotWait;

/// Eight nodes with two endpoints each, which send by themselves, and a stream over them whose front-end is
/// node 0.
fn pushing_cluster(
    synchronisation: Synchronisation,
    every_us: u64,
    packets_max: u64,
) -> (Cluster, RequestId) {
    let mut cluster = Cluster::new(&Plan::default());
    let stream = pushing(synchronisation, Duration::from_micros(every_us), packets_max);
    let (request, _) = cluster.open_wholly(0, &stream);
    (cluster, request)
}

/// The endpoints of node `i` in such a cluster.
fn endpoints_of(i: u32) -> PartitionSet {
    held(i, 8, 16, 1)
}

/// The tags of each endpoint's packets, with `DoNotWait`.
fn tags_by_endpoint(waves: &[&StreamWave<Ink>]) -> BTreeMap<u32, Vec<u64>> {
    let mut came = BTreeMap::<u32, Vec<u64>>::new();
    for wave in waves {
        came.entry(wave.contributors.least().expect("one endpoint's packet")).or_default().push(wave.tag);
    }
    came
}

#[test]
fn every_endpoint_is_in_every_wave() {
    let (mut cluster, request) = pushing_cluster(WAIT_FOR_ALL, 100, 50);
    cluster.run_for(Duration::from_secs(1));
    cluster.assert_honest_waves(request);
    let waves = cluster.waves(request);
    assert_eq!(tags_of(&waves), (1..=50).collect::<Vec<_>>());
    for wave in waves {
        assert_eq!(wave.contributors, PartitionSet::first(16));
        assert_eq!(wave.packets.len(), 1, "folded into one");
    }
}

#[test]
fn a_packet_down_is_answered_in_the_wave_of_its_tag() {
    let mut cluster = Cluster::new(&Plan::default());
    let (request, _) = cluster.open_wholly(0, &plan(WAIT_FOR_ALL));
    (1..=20).for_each(|tag| cluster.speak(0, request, tag, None));
    cluster.run_for(Duration::from_secs(1));
    cluster.assert_honest_waves(request);
    let waves = cluster.waves(request);
    assert_eq!(waves.len(), 20);
    assert!(waves.iter().all(|wave| wave.contributors == PartitionSet::first(16)));
}

#[test]
fn one_endpoint_can_be_spoken_to_alone() {
    let mut cluster = Cluster::new(&Plan::default());
    let (request, _) = cluster.open_wholly(0, &plan(DO_NOT_WAIT));
    cluster.speak(0, request, 9, Some(PartitionSet::from_range(5..6)));
    cluster.run_for(Duration::from_secs(1));
    let waves = cluster.waves(request);
    assert_eq!(waves.len(), 1);
    assert_eq!((waves[0].tag, waves[0].contributors.clone()), (9, PartitionSet::from_range(5..6)));
}

#[test]
fn a_killed_inner_node_costs_its_own_endpoints_and_nothing_else() {
    let (mut cluster, request) = pushing_cluster(WAIT_FOR_ALL, 1_000, 50);
    cluster.run_for(Duration::from_millis(10));
    let killed = cluster.inner_node(request);
    cluster.kill(killed);
    cluster.run_for(Duration::from_secs(5));
    cluster.assert_honest_waves(request);
    let waves = cluster.waves(request);
    assert_eq!(tags_of(&waves), (1..=50).collect::<Vec<_>>());
    let lost = endpoints_of(killed);
    for wave in &waves {
        assert!(missing_of(wave).is_subset(&lost), "{wave:?}");
        assert!(PartitionSet::first(16).difference(&lost).is_subset(&wave.contributors), "{wave:?}");
    }
    assert_eq!(missing_of(waves[49]), lost);
}

#[test]
fn a_failed_endpoint_is_missing_until_it_is_seated_again() {
    let (mut cluster, request) = pushing_cluster(WAIT_FOR_ALL, 10_000, 1_000);
    cluster.run_for(Duration::from_millis(100));
    let stream = cluster.stream(request).expect("it is open");
    let reason = Reason::LocalPanicked("so it was".into());
    let gone = Command::EndpointGone { stream, endpoint: 5, reason: reason.clone() };
    cluster.input(5, Input::Command(gone));
    cluster.run_for(Duration::from_secs(5));
    cluster.assert_honest_stream(request);
    let waves = cluster.waves(request);
    let without: Vec<_> = waves.iter().filter(|wave| !wave.missing.is_empty()).collect();
    assert!(!without.is_empty());
    let partitions = PartitionSet::from_range(5..6);
    assert!(without.iter().all(|wave| missing_of(wave) == partitions), "{without:?}");
    assert_eq!(without[0].missing, [Missing { partitions, node: Some(cluster.id(5)), reason }]);
    let last = cluster.last_wave(request);
    assert_eq!(last.contributors, PartitionSet::first(16), "its node lives, and has opened it again");
}

#[test]
fn endpoints_that_keep_failing_are_opened_more_rarely() {
    let (mut cluster, request) = pushing_cluster(WAIT_FOR_ALL, 10_000, 1_000_000);
    let stream = cluster.stream(request).expect("it is open");
    // One endpoint of the front-end's own node, and one of another node.
    let failing = [0, 5];
    for _ in 0..1_200 {
        cluster.run_for(Duration::from_millis(50));
        for endpoint in failing {
            if !cluster.seat(endpoint, stream, endpoint).is_over {
                let reason = Reason::LocalFailed("again".into());
                let gone = Command::EndpointGone { stream, endpoint, reason };
                cluster.input(endpoint, Input::Command(gone));
            }
        }
    }
    let openings = failing.map(|endpoint| cluster.seat(endpoint, stream, endpoint).life);
    assert!(openings.iter().all(|openings| (10..25).contains(openings)), "in a minute: {openings:?}");
    let told = cluster.heard(request).iter().rev().find_map(|event| match event {
        StreamEvent::Changed { away, .. } => Some(away),
        _ => None,
    });
    let away = failing.map(|at| Missing {
        partitions: PartitionSet::from_range(at..at + 1),
        node: Some(cluster.id(at)),
        reason: Reason::LocalFailed("again".into()),
    });
    assert_eq!(told.expect("endpoints went away"), &away, "and not that they are late with coming back");
}

#[test]
fn a_stopped_node_is_missed_and_comes_back() {
    for stopped in 1..8 {
        let (mut cluster, request) = pushing_cluster(WAIT_FOR_ALL, 10_000, 1_000);
        cluster.run_for(Duration::from_millis(100));
        cluster.stop(stopped);
        cluster.run_for(Duration::from_secs(2));
        let during = cluster.waves(request).len();
        assert!(during > 60, "the others went on: {during}");
        assert_eq!(missing_of(cluster.last_wave(request)), endpoints_of(stopped), "node {stopped}");
        cluster.resume(stopped);
        cluster.run_for(Duration::from_secs(1));
        let last = cluster.last_wave(request);
        assert_eq!(last.contributors, PartitionSet::first(16), "node {stopped} is back");
        cluster.assert_honest_waves(request);
    }
}

#[test]
fn with_a_time_out_waves_do_not_wait_for_a_silent_node() {
    let wait = Duration::from_millis(50);
    let (mut cluster, request) = pushing_cluster(Synchronisation::TimeOut(wait.into()), 10_000, 1_000);
    cluster.run_for(Duration::from_millis(100));
    let before = cluster.waves(request).len();
    cluster.stop(7);
    cluster.run_for(Duration::from_millis(400));
    let after = cluster.waves(request).len();
    assert!(after > before + 25, "{before} and then {after}");
    cluster.assert_honest_waves(request);
    assert_eq!(missing_of(cluster.last_wave(request)), endpoints_of(7));
}

#[test]
fn with_do_not_wait_every_packet_comes_once() {
    let (mut cluster, request) = pushing_cluster(DO_NOT_WAIT, 1_000, 50);
    cluster.run_for(Duration::from_millis(20));
    let killed = cluster.inner_node(request);
    cluster.kill(killed);
    cluster.run_for(Duration::from_secs(5));
    let waves = cluster.waves(request);
    let came = tags_by_endpoint(&waves);
    for endpoint in PartitionSet::first(16).difference(&endpoints_of(killed)).iter() {
        assert_eq!(came[&endpoint], (1..=50).collect::<Vec<_>>(), "endpoint {endpoint}");
    }
    for endpoint in endpoints_of(killed).iter() {
        let came = &came[&endpoint];
        assert!(came.is_sorted_by(|earlier, later| earlier < later), "endpoint {endpoint}: {came:?}");
    }
}

#[test]
fn a_user_that_does_not_read_stops_the_senders() {
    const PACKET_BYTES: u32 = 10_000;
    let mut cluster = Cluster::new(&Plan::default());
    let mut stream = pushing(WAIT_FOR_ALL, Duration::from_micros(100), 10_000);
    (stream.play.packet_bytes, stream.play.reads_for) = (PACKET_BYTES, None);
    let request = cluster.open(0, &stream);
    cluster.run_for(Duration::from_secs(1));
    let sent = |cluster: &Cluster| -> Vec<u64> {
        cluster.world.seats().map(|(_, seat)| seat.sent_count()).collect()
    };
    let is_held = |seat: &treefold_sim::world::streams::Seat| {
        seat.in_flight_bytes <= Limits::DEFAULT.stream_window_bytes as u64 + u64::from(PACKET_BYTES) + 64
    };
    assert!(cluster.world.seats().all(|(_, seat)| is_held(seat)));
    let before = sent(&cluster);
    cluster.run_for(Duration::from_secs(1));
    assert_eq!(sent(&cluster), before, "no endpoint sends any more");
    let unread = cluster.waves(request).len();
    cluster.read_on(0, request);
    cluster.run_for(Duration::from_secs(2));
    let waves = cluster.waves(request);
    assert!(waves.len() > unread, "it goes on");
    assert_eq!(tags_of(&waves), (1..=waves.len() as u64).collect::<Vec<_>>(), "and nothing was dropped");
}

#[test]
fn an_unknown_filter_is_reported_at_once() {
    let mut cluster = Cluster::new(&Plan::default());
    let mut unknown = plan(WAIT_FOR_ALL);
    unknown.up_filter = "unknown".into();
    let request = cluster.open(0, &unknown);
    cluster.run_for(Duration::from_millis(100));
    let said = cluster.heard(request);
    assert!(matches!(said, [StreamEvent::Closed(StreamError::Filter { .. })]), "{said:?}");
}

#[test]
fn a_late_endpoint_takes_part_from_then_on() {
    // Of 17 partitions, one belongs to no node yet.
    let plan = Plan { partitions: 17, nodes: 0, ..Plan::default() };
    let mut cluster = Cluster::empty(&plan);
    for i in 0..8 {
        cluster.join(&plan, i, endpoints_of(i));
    }
    let (request, _) = cluster.open_wholly(0, &pushing(WAIT_FOR_ALL, Duration::from_millis(1), 2_000));
    cluster.run_for(Duration::from_millis(50));
    assert_eq!(cluster.last_wave(request).contributors, PartitionSet::first(16));
    cluster.join(&plan, 8, PartitionSet::from_range(16..17));
    cluster.run_for(Duration::from_secs(1));
    cluster.assert_honest_waves(request);
    assert_eq!(cluster.last_wave(request).contributors, PartitionSet::first(17));
}

#[test]
fn when_the_front_end_is_gone_nothing_is_left() {
    let (mut cluster, _) = pushing_cluster(WAIT_FOR_ALL, 1_000, 50);
    cluster.run_for(Duration::from_millis(50));
    let front = cluster.id(0);
    cluster.kill(0);
    cluster.run_for(Duration::from_secs(20));
    let mut others = cluster.world.seats().filter(|((node, ..), _)| *node != front);
    assert!(others.all(|(_, seat)| seat.is_over));
}

#[test]
fn a_delayed_node_continues_with_the_newest_wave() {
    for held_up in 1..8 {
        let wait = Duration::from_millis(60);
        let (mut cluster, request) = pushing_cluster(Synchronisation::TimeOut(wait.into()), 5_000, 10_000);
        cluster.run_for(Duration::from_millis(100));
        cluster.stop(held_up);
        cluster.run_for(Duration::from_millis(400));
        cluster.resume(held_up);
        cluster.run_for(Duration::from_secs(1));
        let last = cluster.last_wave(request);
        assert_eq!(last.contributors, PartitionSet::first(16), "node {held_up}");
    }
}

#[test]
fn a_connection_that_breaks_loses_no_packet() {
    let (mut cluster, request) = pushing_cluster(DO_NOT_WAIT, 1_000, 300);
    cluster.run_for(Duration::from_millis(50));
    let inner = cluster.inner_node(request);
    let notice = [Duration::from_millis(3), Duration::from_millis(20)];
    cluster.world.sever(0, inner as usize, notice);
    cluster.run_for(Duration::from_secs(5));
    let came = tags_by_endpoint(&cluster.waves(request));
    for endpoint in 0..16 {
        assert_eq!(came[&endpoint], (1..=300).collect::<Vec<_>>(), "endpoint {endpoint}");
    }
}

#[test]
fn a_restarted_node_takes_part_again() {
    let (mut cluster, request) = pushing_cluster(WAIT_FOR_ALL, 5_000, 10_000);
    cluster.run_for(Duration::from_millis(50));
    cluster.kill(3);
    cluster.run_for(Duration::from_millis(500));
    cluster.restart(3);
    cluster.run_for(Duration::from_secs(1));
    assert_eq!(cluster.last_wave(request).contributors, PartitionSet::first(16));
    cluster.assert_honest_waves(request);
}

/// Its former life may have answered them. With `DoNotWait`, such an answer would come twice.
#[test]
fn a_restarted_node_gets_no_earlier_packets() {
    let mut cluster = Cluster::new(&Plan::default());
    let mut stream = plan(DO_NOT_WAIT);
    // The other endpoints have not taken their packets, so nodes keep them.
    stream.play.takes_for = Duration::from_secs(2);
    let (request, _) = cluster.open_wholly(0, &stream);
    let ask = |cluster: &mut Cluster, tags: core::ops::RangeInclusive<u64>| {
        for tag in tags {
            cluster.speak(0, request, tag, None);
            cluster.run_for(Duration::from_millis(5));
        }
    };
    ask(&mut cluster, 1..=5);
    cluster.kill(3);
    cluster.run_for(Duration::from_millis(10));
    cluster.restart(3);
    ask(&mut cluster, 6..=100);
    cluster.run_for(Duration::from_secs(1));
    let answered = tags_by_endpoint(&cluster.waves(request));
    for endpoint in endpoints_of(3).iter() {
        let tags = &answered[&endpoint];
        assert!(tags.is_sorted_by(|earlier, later| earlier < later), "{endpoint}: {tags:?}");
        assert!(tags.contains(&100), "{endpoint}: {tags:?}");
    }
    assert_eq!(answered[&4], (1..=100).collect::<Vec<_>>(), "no other endpoint is affected");
}

#[test]
fn a_client_can_be_the_front_end() {
    let plan = Plan::default();
    let mut cluster = Cluster::new(&plan);
    let client = cluster.start_client(&plan);
    let stream = pushing(WAIT_FOR_ALL, Duration::from_millis(5), 10_000);
    let (request, _) = cluster.open_wholly(client, &stream);
    cluster.run_for(Duration::from_millis(100));
    cluster.kill(1);
    cluster.run_for(Duration::from_secs(1));
    let others = PartitionSet::first(16).difference(&endpoints_of(1));
    assert_eq!(cluster.last_wave(request).contributors, others);
    cluster.kill(client);
    let before = cluster.heard(request).len();
    cluster.run_for(Duration::from_secs(2));
    assert_eq!(cluster.heard(request).len(), before);
    assert_eq!(cluster.nodes().flat_map(Node::stream_work).count(), 0, "nothing is left of it");
}

#[test]
fn incomplete_waves_are_bounded() {
    let limits = Limits { stream_waves_open_max: 8, ..Limits::DEFAULT };
    let mut cluster = Cluster::new(&Plan { limits, ..Plan::default() });
    let (request, stream) = cluster.open_wholly(0, &plan(WAIT_FOR_ALL));
    // One endpoint invents tags, up to the largest possible one.
    let endpoint = (cluster.id(5), stream, 5);
    for tag in (0..50).map(|n| n * 1_000_003).chain([u64::MAX - 1, u64::MAX]) {
        cluster.send_from(endpoint, tag);
        cluster.run_for(Duration::from_millis(1));
    }
    assert!(cluster.nodes().flat_map(Node::stream_work).all(|work| work.waves_open <= 8));
    let waves = cluster.waves(request);
    // Each of the three nodes on the way waits for eight waves; the oldest have gone as they were.
    assert_eq!(waves.len(), 52 - 3 * 8);
    assert!(waves.iter().all(|wave| wave.contributors == PartitionSet::from_range(5..6)));
}

#[test]
fn a_child_speaks_for_its_own_endpoints_only() {
    let (mut cluster, request) = pushing_cluster(WAIT_FOR_ALL, 5_000, 400);
    let stream = cluster.stream(request).expect("it is open");
    let liar = cluster.id(2);
    for round in 0..20 {
        cluster.run_for(Duration::from_millis(20));
        // Node 1 and its endpoints do not belong to node 2.
        let joined = vec![(PartitionSet::first(16), u64::MAX)];
        let news = StreamNews { stream, joined, ..news(1, u64::MAX) };
        let endpoints: Vec<u32> = endpoints_of(1).iter().collect();
        let up = StreamUp { stream, ..up(10 * round, &endpoints) };
        for lie in [StreamMessage::News(news), StreamMessage::Up(up)] {
            cluster.hear(0, liar, Message::Stream(Box::new(lie)));
        }
    }
    cluster.run_for(Duration::from_secs(2));
    cluster.assert_honest_stream(request);
    let waves = cluster.waves(request);
    assert!(waves.len() > 300, "it goes on: {}", waves.len());
    let others: PartitionSet = [0, 1, 3, 4, 7, 8, 9, 11, 12, 15].into_iter().collect();
    assert!(waves.iter().all(|wave| others.is_subset(&wave.contributors)), "no other endpoint is affected");
}

/// Seven nodes: 0 (the front-end), 1 and 2 hold nothing, 3 to 6 hold an endpoint each and may lack all filters; and the
/// trees of a stream in which 1 and 2 have two of these below them each.
fn laid_out_by_hand(leaves_lack_filters: bool) -> (Cluster, Vec<Tree>) {
    let plan = Plan { nodes: 0, partitions: 4, ..Plan::default() };
    let mut cluster = Cluster::empty(&plan);
    for i in 0..7_u32 {
        let endpoint = i.checked_sub(3).map(|endpoint| PartitionSet::from_range(endpoint..endpoint + 1));
        let lacks_filters = leaves_lack_filters && endpoint.is_some();
        let plan = Plan { nodes: 7, lacks_filters, ..Plan::default() };
        cluster.join(&plan, i, endpoint.unwrap_or_default());
    }
    let leaf = |endpoint: u32| {
        Tree::leaf(cluster.id(3 + endpoint), PartitionSet::from_range(endpoint..endpoint + 1))
    };
    let inner = |i: u32, below: [u32; 2]| Tree::join(cluster.id(i), PartitionSet::new(), &below.map(leaf));
    let trees = vec![inner(1, [0, 1]), inner(2, [2, 3])];
    (cluster, trees)
}

/// A filter that holds each wave back until the next dies with what it holds.
///
/// Its children have kept the packets. They send them again to the filter that takes its place, although the
/// waves have gone there.
#[test]
fn packets_held_by_a_lost_filter_come_with_a_later_wave() {
    play_a_lost_filter(false);
}

#[test]
fn packets_of_nodes_without_filters_that_a_lost_filter_held_come_too() {
    play_a_lost_filter(true);
}

fn play_a_lost_filter(leaves_lack_filters: bool) {
    const PACKETS: u64 = 200;
    let (mut cluster, trees) = laid_out_by_hand(leaves_lack_filters);
    let mut stream = pushing(WAIT_FOR_ALL, Duration::from_millis(1), PACKETS);
    (stream.up_filter, stream.options.trees) = ("lag".into(), Some(trees));
    let (request, id) = cluster.open_wholly(0, &stream);
    cluster.run_for(Duration::from_millis(60));
    cluster.kill(1);
    cluster.run_for(Duration::from_secs(5));
    // Each filter on the way holds one wave back at the end, and no endpoint loses more than that. Endpoints
    // 0 and 1 are now below the front-end.
    let packets = |endpoint: u32, filters: u64| {
        (1..=PACKETS - filters).map(move |tag| Ink::packet(id, endpoint, Some(tag), tag, 100))
    };
    let leaves = u64::from(!leaves_lack_filters);
    let expected = [(0, 1), (1, 1), (2, 2), (3, 2)]
        .into_iter()
        .flat_map(|(endpoint, above)| packets(endpoint, above + leaves));
    let sum_of = |packets: &mut dyn Iterator<Item = Ink>| {
        packets
            .map(|packet| (packet.marks, packet.count))
            .fold((0_u128, 0), |(marks, count), (more, by)| (marks.wrapping_add(more), count + by))
    };
    let waves = cluster.waves(request);
    let mut came = waves.iter().flat_map(|wave| wave.packets.iter().cloned());
    let (came, expected) = (sum_of(&mut came), sum_of(&mut expected.into_iter()));
    // The world's filters add the tag to an endpoint's packet, and here that of the later wave.
    let compared = |(marks, count)| if leaves_lack_filters { (0, count) } else { (marks, count) };
    assert_eq!(compared(came), compared(expected));
}

/// A tree laid out by hand has inner nodes without endpoints. If one dies, no wave misses it, its children
/// are adopted, and every later wave is whole. An invalid layout is refused before any node is asked.
#[test]
fn a_stream_uses_a_tree_given_by_hand_and_survives_losses() {
    play_losses_by_hand(false);
}

#[test]
fn nodes_without_filters_are_folded_by_their_parents_in_turn() {
    play_losses_by_hand(true);
}

fn play_losses_by_hand(leaves_lack_filters: bool) {
    let (mut cluster, trees) = laid_out_by_hand(leaves_lack_filters);
    let given = |trees: Vec<Tree>| {
        let mut stream = pushing(WAIT_FOR_ALL, Duration::from_millis(5), 1_000);
        stream.options.trees = Some(trees);
        stream
    };
    let leaf = trees[0].children().next().expect("it has two").clone();
    let twice = cluster.open(0, &given(vec![leaf; 2]));
    let request = cluster.open(0, &given(trees));
    cluster.run_for(Duration::from_secs(1));
    assert!(matches!(cluster.heard(twice), [StreamEvent::Closed(StreamError::BadField { .. })]));
    let before = cluster.waves(request).len();
    assert!(before > 100, "{before}");
    cluster.kill(1);
    cluster.run_for(Duration::from_secs(3));
    cluster.assert_honest_waves(request);
    let waves = cluster.waves(request);
    assert!(waves.len() > before + 300, "{before}, then {}", waves.len());
    assert_eq!(waves[0].contributors, PartitionSet::first(4));
    assert_eq!(waves[waves.len() - 1].contributors, PartitionSet::first(4), "all are adopted");
    for (i, silence) in [(2, 400), (4, 2_500)] {
        cluster.stop(i);
        cluster.run_for(Duration::from_millis(silence));
        cluster.resume(i);
        cluster.run_for(Duration::from_secs(3));
        cluster.assert_honest_waves(request);
        assert_eq!(cluster.last_wave(request).contributors, PartitionSet::first(4), "{i} is back");
    }
}

/// A filter has the endpoints of a node without filters as its sources. Elsewhere than in a leaf the stream needs its filter.
#[test]
fn a_node_without_filters_is_seen_as_its_endpoints() {
    for synchronisation in
        [WAIT_FOR_ALL, Synchronisation::TimeOut(core::time::Duration::from_millis(50)), DO_NOT_WAIT]
    {
        let plan = Plan { nodes: 4, partitions: 8, ..Plan::default() };
        let mut cluster = Cluster::empty(&plan);
        for i in 0..4 {
            cluster.join(&Plan { lacks_filters: i > 0, ..plan.clone() }, i, held(i, 4, 8, 1));
        }
        let mut stream = pushing(synchronisation, Duration::from_millis(5), 100);
        stream.up_filter = "sum".into();
        stream.options.shape = Shape::KAry(1);
        let refused = cluster.open(0, &stream);
        stream.options.shape = Shape::Flat;
        let request = cluster.open(0, &stream);
        cluster.write_effects();
        cluster.run_for(Duration::from_secs(2));
        cluster.assert_honest_stream(request);
        let (last, runs) =
            (cluster.heard(refused).last(), cluster.effects().iter().filter(|it| it.contains("work: Up")));
        assert!(matches!(last, Some(StreamEvent::Closed(StreamError::Filter { .. }))), "{last:?}");
        let sources: Vec<&String> = runs.collect();
        assert!(!sources.is_empty() && sources.iter().all(|run| !run.contains("Child(")), "{}", sources[0]);
        let waves = cluster.waves(request);
        let count = waves
            .iter()
            .filter(|wave| synchronisation == DO_NOT_WAIT || wave.contributors.len() == 8)
            .count();
        assert_eq!(count, if synchronisation == DO_NOT_WAIT { 800 } else { 100 });
    }
}

#[test]
fn oversized_packets_are_refused_or_given_back() {
    let limits = Limits { payload_bytes_max: 1_000, header_bytes_max: 1_000, ..Limits::DEFAULT };
    let mut cluster = Cluster::new(&Plan { limits, ..Plan::default() });
    for (field, filter_params, params) in [("filter_params", 501, 0), ("params", 500, 1_001)] {
        let mut spec = cluster.world.stream_spec(&plan(WAIT_FOR_ALL));
        (spec.filter_params.bytes, spec.params.bytes) = (filter_params, params);
        let request = cluster.open_as(0, spec, StreamOptions::default());
        let [StreamEvent::Closed(StreamError::BadField { field: named, .. })] = cluster.heard(request) else {
            panic!("{:?}", cluster.heard(request))
        };
        assert_eq!(named, field);
    }
    let (request, _) = cluster.open_wholly(0, &plan(WAIT_FOR_ALL));
    let payload = Ink { bytes: 1_001, ..Ink::params(1, 1.0) };
    let send = Command::StreamSend { request, tag: 1, to: None, payload };
    cluster.input(0, Input::Command(send));
    assert!(matches!(cluster.heard(request).last(), Some(StreamEvent::Taken { bytes: 1_065 })));
    assert!(cluster.world.seats().all(|(_, seat)| seat.taken.is_empty()));
}

#[test]
fn status_has_the_streams_of_a_node() {
    let mut cluster = Cluster::new(&Plan::default());
    let (request, _) = cluster.open_wholly(0, &plan(WAIT_FOR_ALL));
    let now = cluster.now();
    let shown: Vec<_> = cluster.nodes().map(|node| node.status(now).streams).collect();
    assert!(shown.iter().all(|streams| streams.len() == 1), "{shown:?}");
    let fronts: Vec<_> = shown.iter().flatten().filter(|stream| stream.is_front).collect();
    let [front] = fronts[..] else { panic!("{shown:?}") };
    assert_eq!((front.endpoints, front.away), (16, 0));
    assert!(front.children > 0 && shown.iter().flatten().any(|stream| stream.children == 0), "{shown:?}");
    cluster.close(0, request);
    cluster.run_for(Duration::from_millis(100));
    let now = cluster.now();
    assert!(cluster.nodes().all(|node| node.status(now).streams.is_empty()));
}

#[test]
fn a_second_stream_under_an_open_number_is_refused() {
    let mut cluster = Cluster::new(&Plan::default());
    let opening = plan(DO_NOT_WAIT);
    let (request, _) = cluster.open_wholly(0, &opening);
    let spec = Box::new(cluster.world.stream_spec(&opening));
    let again = Command::StreamOpen { request, spec, options: StreamOptions::default() };
    cluster.input(0, Input::Command(again));
    let last = cluster.heard(request).last();
    let Some(StreamEvent::Closed(StreamError::BadField { field, given, .. })) = last else {
        panic!("{last:?}");
    };
    assert_eq!((field.as_str(), given), ("request", &request.0.to_string()));
    assert_eq!(cluster.node(0).open_work().streams, 1);
    cluster.close(0, request);
    cluster.run_for(Duration::from_millis(100));
    assert!(cluster.nodes().all(|node| node.open_work().streams == 0), "it is closed by its number");
}

/// If nodes served first who comes first, 36 packets of the last endpoint and 8,334 of the first would get through.
#[test]
fn endpoints_at_the_end_of_a_chain_are_heard_although_all_send_too_much() {
    let mut stream = pushing(DO_NOT_WAIT, Duration::from_micros(200), u64::MAX);
    stream.options.shape = Shape::Chain;
    stream.options.window_bytes = Some(32 * 1024);
    stream.play.reads_for = Some(Duration::from_micros(200));
    let mut cluster = Cluster::new(&Plan::default());
    let (request, _) = cluster.open_wholly(0, &stream);
    cluster.run_for(Duration::from_secs(5));
    cluster.assert_honest_stream(request);
    let came = tags_by_endpoint(&cluster.waves(request));
    let counts: Vec<usize> = (0..16).map(|endpoint| came.get(&endpoint).map_or(0, Vec::len)).collect();
    let mean = counts.iter().sum::<usize>() / counts.len();
    assert!(counts.iter().all(|&count| 2 * count >= mean), "{counts:?}");
}
