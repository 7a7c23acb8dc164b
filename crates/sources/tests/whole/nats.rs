//! Events from a NATS subject.

use crate::broker::Broker;
use crate::recorder::{feeder, line, until};
use std::sync::Arc;
use treefold_mirror::Name;
use treefold_sources::nats::{NatsOptions, NatsSource, Server};
use treefold_sources::{Key, SourceLimits};

#[tokio::test]
async fn payloads_are_events_or_opaque_bodies_with_the_subject_as_key() {
    let Some(broker) = Broker::start().await else { return };
    let client = Server { url: broker.url(), credentials: None }.connect().await.unwrap();

    let (feeder_of_events, stopper) = feeder(SourceLimits::DEFAULT);
    let intake = Arc::clone(&feeder_of_events.intake);
    let tally = Arc::clone(&feeder_of_events.tally);
    let source = NatsSource::subscribe(&client, "flights.>", NatsOptions::default()).await.unwrap();
    let running = tokio::spawn(source.run(feeder_of_events));
    for payload in [line("faa", 1), "garbage".to_owned(), line("faa", 2), line("faa", 4)] {
        client.publish("flights.faa", payload.into()).await.unwrap();
    }
    until("all messages are read", || tally.counts().offered == 4).await;
    assert_eq!((intake.numbers("faa"), tally.counts().refused), (vec![1, 2], 2), "a gap is not taken");
    stopper.stop();
    running.await.unwrap().unwrap();

    let (mut opaque, _stopper) = feeder(SourceLimits::DEFAULT);
    opaque.stream = Some(Name::new("raw").unwrap());
    let intake = Arc::clone(&opaque.intake);
    let options = NatsOptions { key: Key::Subject, number_received: true };
    let source = NatsSource::subscribe(&client, "raw.*", options).await.unwrap();
    tokio::spawn(source.run(opaque));
    for subject in ["raw.a", "raw.b"] {
        client.publish(subject, vec![0xff, 0].into()).await.unwrap();
    }
    until("both are taken", || intake.events().len() == 2).await;
    let event = intake.events().pop().unwrap();
    assert_eq!((event.key.as_ref() as &str, event.number, &event.body[..]), ("raw.b", 2, &[0xff, 0][..]));
}

#[tokio::test]
async fn subscription_goes_on_when_the_server_was_killed() {
    let Some(mut broker) = Broker::start().await else { return };
    let client = Server { url: broker.url(), credentials: None }.connect().await.unwrap();
    let (feeder, _stopper) = feeder(SourceLimits::DEFAULT);
    let intake = Arc::clone(&feeder.intake);
    let source = NatsSource::subscribe(&client, "flights", NatsOptions::default()).await.unwrap();
    tokio::spawn(source.run(feeder));
    client.publish("flights", line("faa", 1).into()).await.unwrap();
    until("the event is taken", || intake.numbers("faa") == [1]).await;
    broker.restart().await;
    // NATS loses messages meanwhile, so the publisher repeats its event.
    let mut looks = 0;
    while intake.numbers("faa") != [1, 2] {
        looks += 1;
        assert!(looks < 500, "the source does not return");
        let publisher = async_nats::connect(broker.url()).await.unwrap();
        publisher.publish("flights", line("faa", 2).into()).await.unwrap();
        publisher.flush().await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
