//! Streams over clusters that lose nodes, stop them and start them: no wave is mixed, none is wrong about who is in
//! it, and nobody who lives is left out for long.

use crate::world::lone::news;
use crate::world::{Plan, Sum, World};
use std::collections::{BTreeMap, BTreeSet};
use treefold_core::error::{Missing, Reason};
use treefold_core::id::RequestId;
use treefold_core::input::{Command, Input};
use treefold_core::limits::Limits;
use treefold_core::message::Message;
use treefold_core::node::Node;
use treefold_core::partitions::PartitionSet;
use treefold_core::random::Random;
use treefold_core::stream::message::{StreamMessage, StreamNews, StreamUp};
use treefold_core::stream::{
    StreamError, StreamEvent, StreamOptions, StreamSpec, StreamWave, Synchronisation,
};
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;

pub fn spec(synchronisation: Synchronisation) -> StreamSpec<Sum> {
    StreamSpec {
        service: "s".into(),
        up_filter: if synchronisation == Synchronisation::DoNotWait { "".into() } else { "sum".into() },
        down_filter: "".into(),
        filter_params: Sum::default(),
        synchronisation,
        params: Sum::default(),
    }
}

fn options(fan_out: u32) -> StreamOptions {
    StreamOptions { shape: Shape::KAry(fan_out), ..StreamOptions::default() }
}

/// A cluster whose endpoints send by themselves, and a stream over it whose front-end is node 0.
fn pushing(plan: &Plan, synchronisation: Synchronisation, every_us: u64) -> (World, RequestId) {
    let mut world = World::new(plan);
    world.run_for(Duration::from_millis(10));
    world.push_every = Some(Duration::from_micros(every_us));
    let request = world.open_stream(0, spec(synchronisation), options(2));
    (world, request)
}

pub fn events(world: &World, request: RequestId) -> &[StreamEvent<Sum>] {
    world.stream_events.get(&(world.id(0), request)).map_or(&[], Vec::as_slice)
}

pub fn waves(world: &World, request: RequestId) -> Vec<&StreamWave<Sum>> {
    events(world, request).iter().filter_map(wave_of).collect()
}

pub fn wave_of(event: &StreamEvent<Sum>) -> Option<&StreamWave<Sum>> {
    match event {
        StreamEvent::Wave(wave) => Some(wave),
        _ => None,
    }
}

fn missing_of(wave: &StreamWave<Sum>) -> PartitionSet {
    let mut missing = PartitionSet::new();
    wave.missing.iter().for_each(|loss| {
        assert!(!missing.intersects(&loss.partitions), "missing twice: {wave:?}");
        missing.union_with(&loss.partitions);
    });
    missing
}

/// Who is in the packets is who is said to be, once each; nobody is both in and missing; all belong to one tag.
pub fn assert_honest(wave: &StreamWave<Sum>) {
    let mut counted = BTreeMap::<u32, u32>::new();
    for packet in &wave.packets {
        packet.counts.iter().for_each(|(&endpoint, &count)| *counted.entry(endpoint).or_default() += count);
    }
    assert!(counted.values().all(|&count| count == 1), "twice in a wave: {wave:?}");
    assert_eq!(counted.keys().copied().collect::<PartitionSet>(), wave.contributors, "{wave:?}");
    assert!(!wave.contributors.intersects(&missing_of(wave)), "in and missing: {wave:?}");
    let tags: BTreeSet<u64> = wave.packets.iter().flat_map(|packet| packet.tags.iter().copied()).collect();
    assert!(tags.is_empty() || tags == [wave.tag].into(), "mixed: {wave:?}");
}

pub fn assert_tags_once(waves: &[&StreamWave<Sum>]) {
    let tags: BTreeSet<u64> = waves.iter().map(|wave| wave.tag).collect();
    assert_eq!(tags.len(), waves.len(), "a tag came twice");
}

#[test]
fn everyone_is_in_every_wave() {
    let (mut world, request) = pushing(&Plan::default(), Synchronisation::WaitForAll, 100);
    world.run_for(Duration::from_secs(1));
    let waves = waves(&world, request);
    assert_eq!(waves.iter().map(|wave| wave.tag).collect::<Vec<_>>(), (1..=50).collect::<Vec<_>>());
    for wave in waves {
        assert_honest(wave);
        assert_eq!(wave.contributors, PartitionSet::first(16));
        assert_eq!(wave.packets.len(), 1, "folded into one");
    }
}

#[test]
fn a_packet_down_is_answered_in_the_wave_of_its_tag() {
    let mut world = World::new(&Plan::default());
    world.run_for(Duration::from_millis(10));
    let request = world.open_stream(0, spec(Synchronisation::WaitForAll), options(3));
    world.run_for(Duration::from_millis(10));
    for tag in 1..=20 {
        let send = Command::StreamSend { request, tag, to: None, payload: Sum::default() };
        world.input(world.id(0), Input::Command(send));
    }
    world.run_for(Duration::from_secs(1));
    let waves = waves(&world, request);
    assert_eq!(waves.len(), 20);
    assert_tags_once(&waves);
    waves.iter().for_each(|wave| assert_honest(wave));
    assert!(waves.iter().all(|wave| wave.contributors == PartitionSet::first(16)));
}

#[test]
fn one_endpoint_can_be_spoken_to_alone() {
    let mut world = World::new(&Plan::default());
    world.run_for(Duration::from_millis(10));
    let request = world.open_stream(0, spec(Synchronisation::DoNotWait), options(3));
    world.run_for(Duration::from_millis(10));
    let to = Some(PartitionSet::from_range(5..6));
    let send = Command::StreamSend { request, tag: 9, to, payload: Sum::default() };
    world.input(world.id(0), Input::Command(send));
    world.run_for(Duration::from_secs(1));
    let waves = waves(&world, request);
    assert_eq!(waves.len(), 1);
    assert_eq!((waves[0].tag, waves[0].contributors.clone()), (9, PartitionSet::from_range(5..6)));
}

#[test]
fn a_killed_inner_node_costs_its_own_endpoints_and_nothing_else() {
    let (mut world, request) = pushing(&Plan::default(), Synchronisation::WaitForAll, 1_000);
    world.run_for(Duration::from_millis(20));
    let killed = inner_node(&world, request);
    world.kill(killed);
    world.run_for(Duration::from_secs(5));
    let waves = waves(&world, request);
    assert_eq!(waves.iter().map(|wave| wave.tag).collect::<Vec<_>>(), (1..=50).collect::<Vec<_>>());
    let lost: PartitionSet = [killed, killed + 8].into_iter().collect();
    for wave in &waves {
        assert_honest(wave);
        assert!(missing_of(wave).is_subset(&lost), "{wave:?}");
        assert!(PartitionSet::first(16).difference(&lost).is_subset(&wave.contributors), "{wave:?}");
    }
    assert_eq!(missing_of(waves[49]), lost);
}

#[test]
fn an_endpoint_that_fails_is_missing_with_its_reason_until_it_is_given_its_place_again() {
    let (mut world, request) = pushing(&Plan::default(), Synchronisation::WaitForAll, 10_000);
    world.pushes_max = 1_000;
    world.run_for(Duration::from_millis(100));
    let reason = Reason::LocalPanicked("so it was".into());
    let stream = world.run_until_open(0, request);
    let gone = Command::EndpointGone { stream, endpoint: 5, reason: reason.clone() };
    world.input(world.id(5), Input::Command(gone));
    world.run_for(Duration::from_secs(5));
    let waves = waves(&world, request);
    waves.iter().for_each(|wave| assert_honest(wave));
    let without: Vec<_> = waves.iter().filter(|wave| !wave.missing.is_empty()).collect();
    assert!(!without.is_empty());
    let partitions = PartitionSet::from_range(5..6);
    assert!(without.iter().all(|wave| missing_of(wave) == partitions), "{without:?}");
    assert_eq!(without[0].missing, [Missing { partitions, node: Some(world.id(5)), reason }]);
    let last = waves[waves.len() - 1];
    assert_eq!(last.contributors, PartitionSet::first(16), "its node lives, and has opened it again");
}

#[test]
fn endpoints_that_fail_again_and_again_are_opened_ever_more_rarely() {
    let (mut world, request) = pushing(&Plan::default(), Synchronisation::WaitForAll, 10_000);
    world.pushes_max = 1_000_000;
    let stream = world.run_until_open(0, request);
    // One of the front-end's own node, and one of another's.
    let failing = [0, 5].map(|number| (world.id(number), stream, number));
    for _ in 0..1_200 {
        world.run_for(Duration::from_millis(50));
        for (node, stream, endpoint) in failing {
            if !world.endpoints[&(node, stream, endpoint)].is_over {
                let reason = Reason::LocalFailed("again".into());
                world.input(node, Input::Command(Command::EndpointGone { stream, endpoint, reason }));
            }
        }
    }
    let openings = failing.map(|key| world.endpoints[&key].life);
    assert!(openings.iter().all(|openings| (10..25).contains(openings)), "in a minute: {openings:?}");
}

#[test]
fn a_stopped_node_is_missed_and_comes_back() {
    for stopped in 1..8 {
        let (mut world, request) = pushing(&Plan::default(), Synchronisation::WaitForAll, 10_000);
        world.pushes_max = 1_000;
        world.run_for(Duration::from_millis(100));
        world.stop(stopped);
        world.run_for(Duration::from_secs(2));
        let lost: PartitionSet = [stopped, stopped + 8].into_iter().collect();
        let during = waves(&world, request);
        assert!(during.len() > 60, "the others went on: {}", during.len());
        assert_eq!(missing_of(during[during.len() - 1]), lost, "node {stopped}");
        world.resume(stopped);
        world.run_for(Duration::from_secs(1));
        let waves = waves(&world, request);
        assert_eq!(waves[waves.len() - 1].contributors, PartitionSet::first(16), "node {stopped} is back");
        assert_tags_once(&waves);
        waves.iter().for_each(|wave| assert_honest(wave));
    }
}

#[test]
fn with_a_time_out_nobody_waits_for_who_is_silent() {
    let wait = Duration::from_millis(50);
    let (mut world, request) = pushing(&Plan::default(), Synchronisation::TimeOut(wait), 10_000);
    world.run_for(Duration::from_millis(100));
    let before = waves(&world, request).len();
    world.stop(7);
    world.run_for(Duration::from_millis(400));
    let waves = waves(&world, request);
    assert!(waves.len() > before + 25, "{before} and then {}", waves.len());
    assert_tags_once(&waves);
    waves.iter().for_each(|wave| assert_honest(wave));
    let lost: PartitionSet = [7, 15].into_iter().collect();
    assert_eq!(missing_of(waves[waves.len() - 1]), lost);
}

#[test]
fn where_nobody_is_waited_for_every_packet_comes_once() {
    let (mut world, request) = pushing(&Plan::default(), Synchronisation::DoNotWait, 1_000);
    world.run_for(Duration::from_millis(20));
    let killed = inner_node(&world, request);
    world.kill(killed);
    world.run_for(Duration::from_secs(5));
    let mut came = BTreeMap::<u32, BTreeSet<u64>>::new();
    for wave in waves(&world, request) {
        let endpoint = wave.contributors.least().expect("one endpoint's packet");
        assert!(came.entry(endpoint).or_default().insert(wave.tag), "twice: {wave:?}");
    }
    for endpoint in (0..16).filter(|endpoint| endpoint % 8 != killed) {
        assert_eq!(came[&endpoint], (1..=50).collect(), "endpoint {endpoint}");
    }
}

#[test]
fn a_user_who_does_not_read_stops_those_who_send() {
    let (mut world, request) = pushing(&Plan::default(), Synchronisation::WaitForAll, 100);
    world.behaviour.partial_bytes = 10_000;
    world.pushes_max = 10_000;
    world.reads = false;
    world.run_for(Duration::from_secs(1));
    let window = 1 << 20;
    let sent: Vec<u64> = world.endpoints.values().map(|pushing| pushing.sent).collect();
    assert!(world.endpoints.values().all(|pushing| pushing.in_flight_bytes <= window + 11_000));
    world.run_for(Duration::from_secs(1));
    assert!(world.endpoints.values().map(|pushing| pushing.sent).eq(sent), "nobody sends any more");
    let unread = waves(&world, request).len() as u32;
    world.reads = true;
    world.input(world.id(0), Input::Command(Command::StreamTook { request, waves: unread }));
    world.run_for(Duration::from_secs(2));
    let waves = waves(&world, request);
    assert!(waves.len() as u32 > unread, "it goes on");
    assert!(waves.iter().enumerate().all(|(at, wave)| wave.tag == at as u64 + 1), "and nothing was dropped");
}

#[test]
fn a_filter_that_nobody_knows_is_said_at_once() {
    let mut world = World::new(&Plan::default());
    world.run_for(Duration::from_millis(10));
    let unknown = StreamSpec { up_filter: "unknown".into(), ..spec(Synchronisation::WaitForAll) };
    let request = world.open_stream(0, unknown, options(2));
    world.run_for(Duration::from_millis(100));
    let said = events(&world, request);
    assert!(matches!(said, [StreamEvent::Closed(StreamError::Filter { .. })]), "{said:?}");
}

#[test]
fn who_comes_later_takes_part_from_then_on() {
    let plan = Plan { partitions: 17, ..Plan::default() };
    let (mut world, request) = pushing(&plan, Synchronisation::WaitForAll, 1_000);
    world.pushes_max = 2_000;
    world.run_for(Duration::from_millis(50));
    let late = world.start(&plan, 9, 1, PartitionSet::from_range(16..17));
    world.introduce();
    world.run_for(Duration::from_secs(1));
    let waves = waves(&world, request);
    assert!(world.ids().contains(&late));
    assert_tags_once(&waves);
    waves.iter().for_each(|wave| assert_honest(wave));
    assert_eq!(waves[waves.len() - 1].contributors, PartitionSet::first(17));
}

#[test]
fn when_the_front_end_is_gone_nothing_is_left() {
    let (mut world, _) = pushing(&Plan::default(), Synchronisation::WaitForAll, 1_000);
    world.run_for(Duration::from_millis(50));
    world.kill(0);
    world.run_for(Duration::from_secs(20));
    let front = world.id(0);
    let others = world.endpoints.iter().filter(|((node, _, _), _)| *node != front);
    assert!(others.into_iter().all(|(_, pushing)| pushing.is_over));
}

/// A node below the front-end that has children.
fn inner_node(world: &World, request: RequestId) -> u32 {
    let trees = events(world, request).iter().find_map(|event| match event {
        StreamEvent::Changed { trees, .. } => Some(trees.clone()),
        _ => None,
    });
    let inner =
        trees.and_then(|trees| trees.iter().find(|tree| tree.root().size > 1).map(|tree| tree.root().node));
    // In a tree of two by two, the first by name is the first below the front-end.
    inner.map_or(1, |node| (1..8).find(|&i| world.id(i) == node).expect("a node of this world"))
}

#[test]
fn who_was_held_up_for_a_moment_goes_on_with_the_foremost_wave() {
    for held_up in 1..8 {
        let wait = Duration::from_millis(60);
        let (mut world, request) = pushing(&Plan::default(), Synchronisation::TimeOut(wait), 5_000);
        world.pushes_max = 10_000;
        world.run_for(Duration::from_millis(100));
        world.stop(held_up);
        world.run_for(Duration::from_millis(400));
        world.resume(held_up);
        world.run_for(Duration::from_secs(1));
        let waves = waves(&world, request);
        assert_eq!(waves[waves.len() - 1].contributors, PartitionSet::first(16), "node {held_up}");
    }
}

#[test]
fn a_connection_that_breaks_loses_no_packet() {
    let (mut world, request) = pushing(&Plan::default(), Synchronisation::DoNotWait, 1_000);
    world.pushes_max = 300;
    world.run_for(Duration::from_millis(50));
    let inner = inner_node(&world, request);
    world.sever(0, inner, [Duration::from_millis(3), Duration::from_millis(20)]);
    world.run_for(Duration::from_secs(5));
    let mut came = BTreeMap::<u32, Vec<u64>>::new();
    for wave in waves(&world, request) {
        came.entry(wave.contributors.least().expect("one endpoint's packet")).or_default().push(wave.tag);
    }
    for endpoint in 0..16 {
        assert_eq!(came[&endpoint], (1..=300).collect::<Vec<_>>(), "endpoint {endpoint}");
    }
}

#[test]
fn who_starts_again_takes_part_again() {
    let plan = Plan::default();
    let (mut world, request) = pushing(&plan, Synchronisation::WaitForAll, 5_000);
    world.pushes_max = 10_000;
    world.run_for(Duration::from_millis(50));
    world.kill(3);
    world.run_for(Duration::from_millis(500));
    world.start(&plan, 3, 2, [3, 11].into_iter().collect());
    world.introduce();
    world.run_for(Duration::from_secs(1));
    let waves = waves(&world, request);
    assert_eq!(waves[waves.len() - 1].contributors, PartitionSet::first(16));
    assert_tags_once(&waves);
    waves.iter().for_each(|wave| assert_honest(wave));
}

/// Its former life may have answered them: where nobody is waited for, such an answer would come twice.
#[test]
fn who_starts_again_is_not_given_packets_that_were_sent_before() {
    let plan = Plan::default();
    let mut world = World::new(&plan);
    world.run_for(Duration::from_millis(10));
    // The others are not through with what they were given, so nodes keep it.
    world.take_after = Duration::from_secs(2);
    let request = world.open_stream(0, spec(Synchronisation::DoNotWait), options(2));
    world.run_until_open(0, request);
    let ask = |world: &mut World, tags: core::ops::RangeInclusive<u64>| {
        for tag in tags {
            let send = Command::StreamSend { request, tag, to: None, payload: Sum::default() };
            world.input(world.id(0), Input::Command(send));
            world.run_for(Duration::from_millis(5));
        }
    };
    ask(&mut world, 1..=5);
    world.kill(3);
    world.run_for(Duration::from_millis(10));
    world.start(&plan, 3, 2, [3, 11].into_iter().collect());
    world.introduce();
    ask(&mut world, 6..=100);
    world.run_for(Duration::from_secs(1));
    let mut answered = BTreeMap::<u32, Vec<u64>>::new();
    for wave in waves(&world, request) {
        answered.entry(wave.contributors.least().expect("one endpoint's")).or_default().push(wave.tag);
    }
    for endpoint in [3, 11] {
        let tags = &answered[&endpoint];
        assert!(tags.is_sorted_by(|earlier, later| earlier < later), "{endpoint}: {tags:?}");
        assert!(tags.contains(&100), "{endpoint}: {tags:?}");
    }
    assert_eq!(answered[&4], (1..=100).collect::<Vec<_>>(), "nobody else is concerned");
}

#[test]
fn a_client_can_be_the_front_end() {
    let plan = Plan::default();
    let mut world = World::new(&plan);
    let client = world.start_client(&plan, 100);
    world.push_every = Some(Duration::from_millis(5));
    world.pushes_max = 10_000;
    let request = world.open_stream(100, spec(Synchronisation::WaitForAll), options(2));
    world.run_for(Duration::from_millis(100));
    world.kill(1);
    world.run_for(Duration::from_secs(1));
    let count = |world: &World| world.stream_events[&(client, request)].len();
    let last = world.stream_events[&(client, request)].iter().rev().find_map(|event| match event {
        StreamEvent::Wave(wave) => Some(wave.contributors.clone()),
        _ => None,
    });
    assert_eq!(last, Some(PartitionSet::first(16).difference(&[1, 9].into_iter().collect())));
    world.kill(100);
    let before = count(&world);
    world.run_for(Duration::from_secs(2));
    assert_eq!(count(&world), before);
    assert_eq!(world.nodes().flat_map(Node::stream_work).count(), 0, "nothing is left of it");
}

#[test]
fn waves_that_nobody_completes_are_bounded() {
    let limits = Limits { stream_waves_open_max: 8, ..Limits::DEFAULT };
    let mut world = World::new(&Plan { limits, ..Plan::default() });
    world.run_for(Duration::from_millis(10));
    let request = world.open_stream(0, spec(Synchronisation::WaitForAll), options(2));
    let stream = world.run_until_open(0, request);
    // One endpoint makes up tags of its own, up to the largest that there is.
    let (node, endpoint) = (world.id(5), 5);
    for tag in (0..50).map(|n| n * 1_000_003).chain([u64::MAX - 1, u64::MAX]) {
        let payload = Sum::default();
        let send = Command::EndpointSend { stream, endpoint, tag: Some(tag), payload };
        world.input(node, Input::Command(send));
        world.run_for(Duration::from_millis(1));
    }
    assert!(world.nodes().flat_map(Node::stream_work).all(|work| work.waves_open <= 8));
    let waves = waves(&world, request);
    // Each of the three nodes on the way waits for eight; the oldest went as they were.
    assert_eq!(waves.len(), 52 - 3 * 8);
    assert!(waves.iter().all(|wave| wave.contributors == PartitionSet::from_range(5..6)));
}

#[test]
fn a_child_speaks_for_its_own_endpoints_only() {
    let (mut world, request) = pushing(&Plan::default(), Synchronisation::WaitForAll, 5_000);
    world.pushes_max = 400;
    let stream = world.run_until_open(0, request);
    let (front, liar) = (world.id(0), world.id(2));
    let say = |world: &mut World, message: StreamMessage<Sum>| {
        let message = Message::Stream(Box::new(message));
        world.input(front, Input::Message { from: liar, message });
    };
    for round in 0..20 {
        world.run_for(Duration::from_millis(20));
        // Node 1 and its endpoints are none of node 2's.
        let stolen: PartitionSet = [1, 9].into_iter().collect();
        let joined = vec![(PartitionSet::first(16), u64::MAX)];
        let news = StreamNews { stream, joined, ..news(1, u64::MAX) };
        say(&mut world, StreamMessage::News(news));
        let up = StreamUp {
            stream,
            lane: 0,
            tag: 10 * round,
            serial: 0,
            payload: Some(Sum::default()),
            more: false,
            urgent: false,
            contributors: stolen,
            missing: Vec::new(),
            holds_from: None,
        };
        say(&mut world, StreamMessage::Up(up));
    }
    world.run_for(Duration::from_secs(2));
    let waves = waves(&world, request);
    assert!(waves.len() > 300, "it goes on: {}", waves.len());
    waves.iter().for_each(|wave| assert_honest(wave));
    let others: PartitionSet = [0, 1, 3, 4, 7, 8, 9, 11, 12, 15].into_iter().collect();
    assert!(waves.iter().all(|wave| others.is_subset(&wave.contributors)), "nobody else is harmed");
}

/// Seeds that have found something once; [`crate::stream_faults`] tries many more.
#[test]
fn no_order_of_faults_mixes_or_loses_waves() {
    for seed in [9, 41, 142, 237] {
        let mut dice = Random::new(seed);
        let plan = Plan { seed, ..Plan::default() };
        let modes = [
            Synchronisation::WaitForAll,
            Synchronisation::TimeOut(Duration::from_millis(100)),
            Synchronisation::DoNotWait,
        ];
        let mode = modes[dice.below(3)];
        let (mut world, request) = pushing(&plan, mode, 5_000);
        world.pushes_max = 100_000;
        world.run_for(Duration::from_millis(50));
        let (mut killed, mut stopped) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..1 + dice.below(4) {
            let node = 1 + dice.below(7) as u32;
            if killed.contains(&node) {
                continue;
            }
            if stopped.remove(&node) {
                world.resume(node);
            } else if dice.below(2) == 0 {
                world.kill(node);
                killed.insert(node);
            } else {
                world.stop(node);
                stopped.insert(node);
            }
            world.run_for(Duration::from_millis(dice.below(900) as u64));
        }
        stopped.iter().for_each(|&node| world.resume(node));
        world.run_for(Duration::from_secs(4));
        let waves = waves(&world, request);
        waves.iter().for_each(|wave| assert_honest(wave));
        let alive: PartitionSet = (0..16).filter(|endpoint| !killed.contains(&(endpoint % 8))).collect();
        if mode == Synchronisation::DoNotWait {
            let mut came = BTreeSet::new();
            for wave in &waves {
                let number = wave.packets[0].number;
                assert!(came.insert((wave.contributors.clone(), number)), "seed {seed}: twice {wave:?}");
            }
            let last: BTreeSet<u32> =
                waves[waves.len() - 200..].iter().filter_map(|wave| wave.contributors.least()).collect();
            assert_eq!(
                last.into_iter().collect::<PartitionSet>(),
                alive,
                "seed {seed}, {killed:?}, {stopped:?}"
            );
        } else {
            assert_tags_once(&waves);
            let last = waves[waves.len() - 1];
            assert!(last.tag > 500, "seed {seed}: it went on to {}", last.tag);
            assert_eq!(
                last.contributors,
                alive,
                "seed {seed}: {killed:?}, {stopped:?}, {mode:?} {:#?}",
                &waves[waves.len() - 6..]
            );
        }
    }
}

/// A filter that gives each wave with the next dies with what it holds. Its children have kept that, and what they send
/// again reaches the filter that takes its place, although the waves are gone there.
#[test]
fn what_a_lost_filter_held_comes_with_a_later_wave() {
    let (mut world, request) = pushing(&Plan::default(), Synchronisation::WaitForAll, 1_000);
    world.pushes_max = 200;
    let stream = world.run_until_open(0, request);
    world.lags.insert(stream);
    world.run_for(Duration::from_millis(60));
    let killed = inner_node(&world, request);
    world.kill(killed);
    world.run_for(Duration::from_secs(5));
    let mut counted = BTreeMap::<u32, u32>::new();
    for packet in waves(&world, request).iter().flat_map(|wave| &wave.packets) {
        for (&endpoint, &count) in &packet.counts {
            *counted.entry(endpoint).or_default() += count;
        }
    }
    // Each filter on the way holds one wave back at the end; who lives loses no more than that. Node 7 sits below 3, 5 and
    // 6 below 2, all others below the front-end by now.
    assert_eq!(killed, 1);
    let filters = BTreeMap::from([(0, 1), (2, 2), (3, 2), (4, 2), (5, 3), (6, 3), (7, 3)]);
    for endpoint in (0..16).filter(|endpoint| endpoint % 8 != killed) {
        assert_eq!(counted[&endpoint], 200 - filters[&(endpoint % 8)], "endpoint {endpoint}");
    }
}

/// A tree laid out by hand, whose inner nodes bear no endpoint: nobody misses one that dies, its children are adopted,
/// and every later wave is whole. A layout that makes no sense is refused before anybody is told.
#[test]
fn a_tree_given_by_hand_is_the_streams_tree_and_inner_nodes_without_endpoints_are_not_missed() {
    use treefold_core::tree::Tree;
    // Nodes 0 (the front-end), 1 and 2 hold nothing; 3 to 6 hold an endpoint each.
    let plan = Plan { nodes: 0, partitions: 4, ..Plan::default() };
    let mut world = World::new(&plan);
    for i in 0..3 {
        world.start(&plan, i, 1, PartitionSet::new());
    }
    let mut leaf = |endpoint| {
        let own = PartitionSet::from_range(endpoint..endpoint + 1);
        Tree::leaf(world.start(&plan, 3 + endpoint, 1, own.clone()), own)
    };
    let leaves: Vec<Tree> = (0..4).map(&mut leaf).collect();
    world.introduce();
    world.run_for(Duration::from_millis(10));
    world.push_every = Some(Duration::from_millis(5));
    world.pushes_max = 1_000;
    let inner = |at: u32, below: &[Tree]| Tree::join(world.id(at), PartitionSet::new(), below);
    let trees = vec![inner(1, &leaves[..2]), inner(2, &leaves[2..])];
    let given = |trees| StreamOptions { trees: Some(trees), ..StreamOptions::default() };
    let twice = world.open_stream(0, spec(Synchronisation::WaitForAll), given(vec![leaves[0].clone(); 2]));
    let request = world.open_stream(0, spec(Synchronisation::WaitForAll), given(trees.clone()));
    world.run_for(Duration::from_secs(1));
    assert!(matches!(events(&world, twice), [StreamEvent::Closed(StreamError::BadField { .. })]));
    let before = waves(&world, request).len();
    assert!(before > 100, "{before}");
    world.kill(1);
    world.run_for(Duration::from_secs(3));
    let waves = waves(&world, request);
    assert_tags_once(&waves);
    waves.iter().for_each(|wave| assert_honest(wave));
    assert!(waves.len() > before + 300, "{before}, then {}", waves.len());
    assert_eq!(waves[0].contributors, PartitionSet::first(4));
    assert_eq!(waves[waves.len() - 1].contributors, PartitionSet::first(4), "all are adopted");
}

#[test]
fn what_is_too_large_for_a_message_is_refused_or_given_back() {
    let limits = Limits { payload_bytes_max: 1_000, header_bytes_max: 1_000, ..Limits::DEFAULT };
    let mut world = World::new(&Plan { limits, ..Plan::default() });
    world.run_for(Duration::from_millis(10));
    let of = |bytes: usize| Sum { bytes, ..Sum::default() };
    for (field, filter_params, params) in [("filter_params", 501, 0), ("params", 500, 1_001)] {
        let (filter_params, params) = (of(filter_params), of(params));
        let spec = StreamSpec { filter_params, params, ..spec(Synchronisation::WaitForAll) };
        let request = world.open_stream(0, spec, options(2));
        let [StreamEvent::Closed(StreamError::BadField { field: named, .. })] = events(&world, request)
        else {
            panic!("{:?}", events(&world, request))
        };
        assert_eq!(named, field);
    }
    let request = world.open_stream(0, spec(Synchronisation::WaitForAll), options(2));
    world.run_until_open(0, request);
    let send = Command::StreamSend { request, tag: 1, to: None, payload: of(1_001) };
    world.input(world.id(0), Input::Command(send));
    assert!(matches!(events(&world, request).last(), Some(StreamEvent::Taken { bytes: 1_065 })));
    assert!(world.endpoints.values().all(|endpoint| endpoint.taken.is_empty()));
}
