//! Streams that make no sense are refused with the field and the limit.

use crate::world::{Plan, World};
use treefold_core::input::{Command, Input};
use treefold_core::stream::{StreamError, StreamEvent, StreamOptions, Synchronisation};
use treefold_core::time::Duration;

#[test]
fn second_stream_under_an_open_number_is_refused_and_the_first_stays_open() {
    let mut world = World::new(&Plan::default());
    let spec = crate::streams::spec(Synchronisation::DoNotWait);
    let request = world.open_stream(0, spec.clone(), StreamOptions::default());
    world.run_for(Duration::from_millis(10));
    let options = StreamOptions::default();
    let again = Command::StreamOpen { request, spec: Box::new(spec), options };
    world.input(world.id(0), Input::Command(again));
    let last = world.stream_events[&(world.id(0), request)].last();
    let Some(StreamEvent::Closed(StreamError::BadField { field, given, .. })) = last else {
        panic!("{last:?}");
    };
    assert_eq!((field.as_str(), given), ("request", &request.0.to_string()));
    assert_eq!(world.node(0).open_work().streams, 1);
    world.input(world.id(0), Input::Command(Command::StreamClose { request }));
    world.run_for(Duration::from_millis(100));
    assert!(world.nodes().all(|node| node.open_work().streams == 0), "it is closed by its number");
}
