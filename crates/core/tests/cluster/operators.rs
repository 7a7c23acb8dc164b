//! Operators that come while the cluster runs: whoever lacks one gets it along the stream's tree, wherever in the tree
//! it is; and when nobody has it, or what comes is something else, the stream says so.

use crate::world::{Plan, Sum, World};
use treefold_core::id::RequestId;
use treefold_core::input::Input;
use treefold_core::message::Message;
use treefold_core::stream::message::StreamMessage;
use treefold_core::stream::operator::{OperatorId, OperatorNews};
use treefold_core::stream::{StreamError, StreamEvent, StreamOptions, StreamSpec, Synchronisation};
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;

const ID: OperatorId = OperatorId([7; 32]);
const NODES: u32 = 16;

fn world() -> World {
    let mut world = World::new(&Plan { nodes: NODES, partitions: NODES, ..Plan::default() });
    world.run_for(Duration::from_millis(10));
    world.push_every = Some(Duration::from_millis(1));
    world
}

/// Opens a stream whose filter is the operator, with node `front` as its front-end.
fn open(world: &mut World, front: u32, fan_out: u32) -> RequestId {
    let spec = StreamSpec {
        service: "s".into(),
        up_filter: format!("op:{ID}").into(),
        down_filter: "".into(),
        filter_params: Sum::default(),
        synchronisation: Synchronisation::WaitForAll,
        params: Sum::default(),
    };
    world.open_stream(front, spec, StreamOptions { shape: Shape::KAry(fan_out), ..StreamOptions::default() })
}

fn full_waves(world: &World, front: u32, request: RequestId) -> usize {
    let events = world.stream_events.get(&(world.id(front), request)).map_or(&[][..], Vec::as_slice);
    let is_full = |event: &&StreamEvent<Sum>| matches!(event, StreamEvent::Wave(wave) if wave.contributors.len() == NODES as usize);
    events.iter().filter(is_full).count()
}

fn end(world: &World, front: u32, request: RequestId) -> Option<&StreamError> {
    world.stream_events.get(&(world.id(front), request))?.iter().find_map(|event| match event {
        StreamEvent::Closed(reason) => Some(reason),
        _ => None,
    })
}

#[test]
fn what_the_front_end_has_goes_down_the_tree_once_to_everyone() {
    for fan_out in [1, 2, 4, 16] {
        let mut world = world();
        world.operators.insert((world.id(0), ID));
        let request = open(&mut world, 0, fan_out);
        world.run_for(Duration::from_millis(500));
        assert!(full_waves(&world, 0, request) > 10, "kary:{fan_out}");
        assert_eq!(world.operators.len(), NODES as usize);
        assert_eq!(
            world.operators_kept.len(),
            NODES as usize - 1,
            "kary:{fan_out}: each was brought it once"
        );
    }
}

#[test]
fn it_goes_on_to_those_below_before_a_node_has_made_something_of_it() {
    let mut world = world();
    world.operators.insert((world.id(0), ID));
    let request = open(&mut world, 0, 1);
    // 16 levels, each of which takes 30 ms over it.
    world.run_for(Duration::from_millis(80));
    assert!(full_waves(&world, 0, request) > 0, "they do so at the same time");
}

#[test]
fn what_any_node_of_the_stream_has_is_found() {
    for holder in 1..NODES {
        let mut world = world();
        world.operators.insert((world.id(holder), ID));
        let request = open(&mut world, 0, 2);
        world.run_for(Duration::from_secs(1));
        assert!(full_waves(&world, 0, request) > 10, "node {holder} has it: {:?}", end(&world, 0, request));
        assert_eq!(world.operators_kept.len(), NODES as usize - 1);
    }
}

#[test]
fn what_nobody_has_is_said_by_name() {
    let mut world = world();
    let request = open(&mut world, 0, 2);
    world.run_for(Duration::from_millis(300));
    let reason = end(&world, 0, request).expect("it ends soon").to_string();
    assert!(reason.contains("nobody has the operator 0707"), "{reason}");
    assert!(world.endpoints.values().all(|endpoint| endpoint.is_over), "and everyone hears of it");
}

#[test]
fn streams_that_want_the_same_in_opposite_directions_all_get_it() {
    let mut world = world();
    world.operators.insert((world.id(5), ID));
    let requests: Vec<(u32, RequestId)> = (0..4).map(|front| (front, open(&mut world, front, 2))).collect();
    world.run_for(Duration::from_secs(1));
    for (front, request) in requests {
        assert!(full_waves(&world, front, request) > 10, "{front}: {:?}", end(&world, front, request));
    }
}

#[test]
fn a_parent_that_dies_while_it_is_asked_costs_its_own_endpoints_only() {
    for victim in 1..NODES {
        for after_us in [600, 1_100, 1_600, 2_300, 20_000] {
            let mut world = world();
            world.operators.insert((world.id(0), ID));
            let request = open(&mut world, 0, 2);
            world.run_for(Duration::from_micros(after_us));
            world.kill(victim);
            world.run_for(Duration::from_secs(3));
            let events = &world.stream_events[&(world.id(0), request)];
            let last = events.iter().rev().find_map(|event| match event {
                StreamEvent::Wave(wave) => Some(wave),
                _ => None,
            });
            let last = last.unwrap_or_else(|| panic!("{victim} after {after_us} µs: {:?}", events.last()));
            assert!(
                last.contributors.len() >= NODES as usize - 1,
                "{victim} after {after_us} µs: {:?}",
                last.missing
            );
        }
    }
}

#[test]
fn what_is_not_what_its_name_says_ends_the_stream_that_brought_it() {
    let mut world = world();
    world.operators.insert((world.id(0), ID));
    // The front-end's driver gives out something else.
    let request = open(&mut world, 0, 2);
    world.operators.remove(&(world.id(0), ID));
    let mut is_forged = false;
    for _ in 0..2_000 {
        world.run_for(Duration::from_micros(10));
        let stream = world.endpoints.keys().next().map(|key| key.1);
        if let Some(stream) = stream.filter(|_| !is_forged) {
            let forged = Sum { number: 8, bytes: 50_000, ..Sum::default() };
            let lent = OperatorNews::Lent { stream, id: ID, payload: Some(forged) };
            world.input(world.id(0), Input::Operator(lent));
            is_forged = !world.operators_kept.is_empty();
        }
    }
    world.run_for(Duration::from_millis(200));
    let reason = end(&world, 0, request).expect("it ends").to_string();
    assert!(reason.contains("not what its name says"), "{reason}");
}

#[test]
fn what_was_not_asked_for_is_dropped() {
    let mut world = world();
    world.operators.insert((world.id(0), ID));
    open(&mut world, 0, 2);
    world.run_for(Duration::from_millis(200));
    let kept = world.operators_kept.len();
    let stream = world.endpoints.keys().next().expect("it is open").1;
    let message = StreamMessage::Operator { stream, id: OperatorId([9; 32]), payload: Some(Sum::default()) };
    let message = Message::Stream(Box::new(message));
    world.input(world.id(3), Input::Message { from: world.id(0), message });
    world.run_for(Duration::from_millis(200));
    assert_eq!(world.operators_kept.len(), kept);
}

#[test]
fn a_stream_wants_no_more_operators_than_it_has_filters() {
    let mut world = world();
    world.operators.insert((world.id(0), ID));
    open(&mut world, 0, 2);
    world.run_for(Duration::from_millis(200));
    let stream = world.endpoints.keys().next().expect("it is open").1;
    world.log_effects = true;
    for from in (0..NODES).filter(|&from| from != 3) {
        for number in 100..200 {
            let message = StreamMessage::WantOperator { stream, id: OperatorId([number; 32]) };
            let message = Message::Stream(Box::new(message));
            world.input(world.id(3), Input::Message { from: world.id(from), message });
        }
    }
    let count = |what: &str| world.log.iter().filter(|line| line.contains(what)).count();
    let (looked_for, refused) = (count("Lend {"), count("two filters at most"));
    assert!(looked_for > 0, "its parent and children may ask it");
    assert_eq!(refused, 49 * looked_for, "for two each, and strangers for none");
}
